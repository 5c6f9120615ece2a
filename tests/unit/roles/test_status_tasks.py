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


@pytest.mark.parametrize("role", ["status", "rollout"])
def test_routers_are_asked_where_they_listen(fleet, role):
    if role == "rollout":
        fleet.real(role)
    addresses = {"lb1": "192.0.2.21", "lb2": "0.0.0.0", "lb3": "::", "lb4": "2001:db8::21", "lb5": None}
    for name, address in addresses.items():
        fleet.routers[name] = {"router_address": address} if address else {"router_port": 30200}
    fleet.answer({"router_running": True, "workers": []}, module="router_worker")
    task = {"ansible.builtin.include_role": {"name": "llmfleet.sglang.rollout", "tasks_from": "routers.yml"}}
    _status, output = fleet.play([LOOK if role == "status" else task])
    assert [asked["router_url"] for asked in fleet.asked(module="router_worker")] == [
        "http://192.0.2.21:30100",
        "http://127.0.0.1:30100",
        "http://[::1]:30100",
        "http://[2001:db8::21]:30100",
        "http://127.0.0.1:30200",
    ], output
