# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout may do that a rollback may not."""

from __future__ import annotations

from ansible_collections.llmfleet.sglang.plugins.plugin_utils import fleet_plan

OLD, MID, NEW = "0.5.16-aaaaaaaaaaaa-11111111", "0.5.22-bbbbbbbbbbbb-22222222", "0.5.23-cccccccccccc-33333333"


def look(host, active, staged, verified):
    state = {
        "active": active, "verified": [{"id": one, "invocation_id": "i"} for one in verified], "pending": None,
        "rollout": None,
    }  # fmt: skip
    service = {
        "item": "kimi", "state": state, "active_state": "active", "invocation_id": "i",
        "configurations": [OLD, MID, NEW],
    }  # fmt: skip
    return {"host": host, "unit": host, "services": [service], "staged": {"kimi": staged}}


def planned(wanted, **more):
    looks = [look("a", OLD, NEW, [MID, OLD]), look("b", MID, OLD, [OLD, MID])]
    given = {"looks": looks, "asked": [], "routers": [], "sizes": [1], "minimum": 0, "wanted": wanted}
    return fleet_plan.plan({**given, **more})


def test_a_rollout_may_bring_a_host_to_what_another_one_leaves():
    plan = planned("")
    assert plan["refused"] == []
    assert {host: moves["kimi"]["to"] for host, moves in plan["moves"].items()} == {"a": NEW, "b": OLD}


def test_a_rollback_to_the_one_before_may_not():
    refused = planned("verified")["refused"]
    assert refused and all("would leave" in sentence and "-e rollback_to=" in sentence for sentence in refused)


def test_a_change_of_the_driver_leads_nobody_anywhere():
    plan = planned("verified", change=True)
    assert plan["refused"] == []
    assert {host: moves["kimi"]["to"] for host, moves in plan["moves"].items()} == {"a": OLD, "b": MID}
