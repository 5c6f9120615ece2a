# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of a rollout's tasks, and what becomes of it when hosts and routers do not answer."""

from __future__ import annotations

import pytest

WENT_ON = {"ansible.builtin.debug": {"msg": "{{ inventory_hostname }} went on"}}


def tasks_of(role, file, **variables):
    """A task that runs one file of a role."""
    return {
        "ansible.builtin.include_role": {"name": f"llmfleet.sglang.{role}", "tasks_from": file},
        "vars": variables,
    }


@pytest.fixture
def fleet(stage):
    """Two hosts and a router, in the middle of a rollout."""
    stage.real("rollout", "router")
    stage.role("verify", [])
    stage.hosts.update(ash={}, beech={})
    stage.routers.update(lb1={})
    move = {"from": "A", "to": "B", "back": "A"}
    plan = {
        "batches": [{"number": 1, "hosts": ["ash", "beech"]}],
        "moves": {name: {"kimi": move} for name in ("ash", "beech")},
        "units": {"ash": "ash", "beech": "beech"},
        "unfinished": [],
        "minimum": 0,
    }
    stage.variables.update(
        rollout_plan=plan, rollout_stopped="", rollout_failed_batch=0, rollout_soak_seconds=0,
        rollout_capacity_timeout_seconds=5, __rollout_batch=plan["batches"][0],
    )  # fmt: skip
    stage.answer({"router_running": True, "workers": []}, module="router_worker", state="info")
    stage.answer({"holder": {}}, module="fleet_lock")
    return stage


@pytest.mark.parametrize("file", ["routers.yml", "begin.yml", "unlock.yml"])
def test_a_router_that_is_gone_does_not_end_the_run(fleet, nobody, file):
    fleet.routers["lb1"] = nobody
    _status, output = fleet.play([tasks_of("rollout", file), WENT_ON])
    assert "beech went on" in output, output
    assert "ash went on" in output, output
