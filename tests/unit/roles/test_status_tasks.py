# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of the fleet where routers do not answer, or listen elsewhere."""

from __future__ import annotations

import json

import pytest

LOOK = {"ansible.builtin.import_role": {"name": "llmfleet.sglang.status"}}


@pytest.fixture
def fleet(stage):
    """A host with a service, and two routers."""
    stage.real("status")
    stage.hosts.update(ash={})
    stage.routers.update(lb1={}, lb2={})
    service = {
        "name": "kimi", "unit": "sglang-kimi.service", "condition": "running", "node_rank": 0, "health": "ok",
        "verdict": {"verdict": "pass", "source": "kept", "age_seconds": 1, "current": True, "ranks_seen": 8,
                    "total_gb": 1.0},
    }  # fmt: skip
    stage.answer({"services": [service]}, module="service_status")
    stage.variables.update(status_format="json", status_file=str(stage.folder / "report.json"))
    return stage


def report(stage):
    return json.loads((stage.folder / "report.json").read_text())


def test_a_router_that_is_gone_is_a_row_of_the_table(fleet, nobody):
    fleet.routers["lb2"] = nobody
    worker = {"host": "ash", "service": "kimi", "state": "serving", "healthy": True}
    fleet.answer({"router_running": True, "workers": [worker]}, module="router_worker")
    status, output = fleet.play([LOOK], ignore_unreachable=True)
    assert status != 0, output
    rows = {(row["host"], row["service"]): row["state"] for row in report(fleet)["rows"]}
    assert rows == {("ash", "kimi"): "ok", ("lb2", "router"): "unreachable"}
