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


FAILURES = {"ansible.builtin.debug": {"msg": "FAILED {{ inventory_hostname }} {{ rollout_failure | to_json }}"}}


@pytest.mark.parametrize("file", ["take_out.yml", "put_back.yml"])
def test_a_router_that_is_gone_is_named_and_not_the_host_of_the_engine(fleet, nobody, file):
    fleet.routers["lb2"] = nobody
    fleet.answer({"workers": []}, module="router_worker")
    attempt = {
        "block": [tasks_of("router", file)],
        "rescue": [{"ansible.builtin.debug": {"msg": "{{ inventory_hostname }}: {{ ansible_failed_result.msg }}"}}],
    }
    status, output = fleet.play([attempt])
    assert status == 0, output
    for host in ("ash", "beech"):
        assert f"{host}: Router lb2 cannot be reached" in output, output
        # The other one is told all the same.
        assert fleet.asked(module="router_worker", on=host), output


def test_another_router_that_is_gone_does_not_keep_one_from_its_workers(fleet, nobody):
    fleet.routers.update(lb1={"router_port": 1111}, lb2=nobody)
    engines = {"router_own_workers": [{"url": "http://ash:1", "host": "ash", "service": "kimi"}]}
    fleet.hosts.update(ash=engines, beech={"router_own_workers": []})
    fleet.answer({"workers": [], "router_running": True, "state": "serving"}, module="router_worker")
    status, output = fleet.play([tasks_of("router", "reconcile.yml")], hosts="lb1")
    assert status == 0, output
    assert [asked["url"] for asked in fleet.asked(module="router_worker", state="serving")] == ["http://ash:1"]
