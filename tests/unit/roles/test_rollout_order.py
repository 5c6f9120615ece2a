# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of a rollout's tasks, and what becomes of it when hosts and routers do not answer."""

from __future__ import annotations

import re

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


FAILURES = {
    "ansible.builtin.debug": {
        "msg": "FAILED {{ inventory_hostname }} {{ rollout_failure.phase }}: {{ rollout_failure.message }}"
    },
    "when": "rollout_failure is defined",
}


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


def worker(port, host="ash", state="serving", by=""):
    """What a router has of a host."""
    return {"url": f"http://{host}:{port}", "host": host, "service": "kimi", "state": state, "by": by}


def known(fleet, *workers):
    """Let the router have these workers."""
    told = {"router_running": True, "workers": list(workers)}
    fleet.answers.insert(0, ({"module": "router_worker", "state": "info"}, told))
    for host in ("ash", "beech"):
        url = f"http://{host}:30000"
        fleet.answers.insert(0, ({"module": "router_worker", "url": url}, {"url": url, "workers": []}))


def test_an_engine_that_gets_another_port_is_taken_out_under_the_port_that_it_has(fleet):
    known(fleet, worker(30000), worker(29000), worker(29000, "beech"))
    status, output = fleet.play([tasks_of("router", "take_out.yml", router_by="rollout")])
    assert status == 0, output
    for host in ("ash", "beech"):
        told = fleet.asked(module="router_worker", state="drained", url=f"http://{host}:29000")
        # Out first, and its requests are waited for as the others' are.
        assert [one.get("wait") for one in told] == [False, None], told
    assert len(fleet.asked(module="router_worker", state="drained", url="http://ash:30000")) == 2


@pytest.mark.parametrize(
    ("state", "by", "forgotten"), [("drained", "rollout", True), ("drained", "jo", False), ("serving", "", False)]
)
def test_the_address_that_an_engine_had_is_forgotten_when_it_is_back(fleet, state, by, forgotten):
    known(fleet, worker(30000), worker(29000, state=state, by=by))
    settings = {"router_by": "rollout", "router_own_only": True}
    status, output = fleet.play([tasks_of("router", "put_back.yml", **settings)])
    assert status == 0, output
    gone = fleet.asked(module="router_worker", state="absent")
    assert [one["url"] for one in gone] == (["http://ash:29000"] if forgotten else [])


def test_a_node_that_is_no_engine_any_more_is_taken_out_and_forgotten(fleet):
    fleet.hosts["ash"] = {"serve_node_rank": 1}
    known(fleet, worker(30000, state="drained", by="rollout"))
    settings = {"router_by": "rollout", "router_own_only": True}
    status, output = fleet.play(
        [tasks_of("router", "take_out.yml", **settings), tasks_of("router", "put_back.yml", **settings)]
    )
    assert status == 0, output
    asked = fleet.asked(module="router_worker", url="http://ash:30000")
    assert [one["state"] for one in asked] == ["drained", "drained", "absent"], asked


def test_another_router_that_is_gone_does_not_keep_one_from_its_workers(fleet, nobody):
    fleet.routers.update(lb1={"router_port": 1111}, lb2=nobody)
    engines = {"router_own_workers": [{"url": "http://ash:1", "host": "ash", "service": "kimi"}]}
    fleet.hosts.update(ash=engines, beech={"router_own_workers": []})
    fleet.answer({"workers": [], "router_running": True, "state": "serving"}, module="router_worker")
    status, output = fleet.play([tasks_of("router", "reconcile.yml")], hosts="lb1")
    assert status == 0, output
    assert [asked["url"] for asked in fleet.asked(module="router_worker", state="serving")] == ["http://ash:1"]


@pytest.fixture
def changing(fleet):
    """The same, with modules that say what one wants to hear; role verify tells whether its verdict is kept."""
    fleet.role(
        "verify", [{"ansible.builtin.debug": {"msg": "verdict kept {{ verify_record_enabled | default(true) }}"}}]
    )
    url = "http://127.0.0.1:30000"
    record = {"url": url, "verify": {"name": "kimi", "url": url, "node_rank": 0}}
    fleet.answer({"record": record, "invocation_id": "1" * 32}, module="service_config")
    fleet.answer({"workers": []}, module="router_worker")
    fleet.variables.update(rollout_change="configuration", rollout_soak_poll_seconds=1)
    return fleet


@pytest.mark.parametrize(("soak", "kept"), [(0, ["True"]), (1, ["False", "True"])])
def test_a_start_counts_as_verified_only_after_the_soak(changing, soak, kept):
    changing.variables["rollout_soak_seconds"] = soak
    changing.hosts.pop("beech")
    status, output = changing.play([tasks_of("rollout", "host.yml"), FAILURES])
    assert status == 0 and "FAILED" not in output, output
    assert re.findall(r"verdict kept (\w+)", output) == kept


def test_the_way_back_keeps_its_verdict(changing):
    changing.variables["rollout_soak_seconds"] = 60
    changing.hosts.pop("beech")
    status, output = changing.play([tasks_of("rollout", "return.yml")])
    assert status == 0, output
    assert re.findall(r"verdict kept (\w+)", output) == ["True"]


@pytest.mark.parametrize("settings", [{"serve_port": 30010}, {"serve_port": 30010, "serve_node_rank": 1}])
def test_a_host_returns_at_the_port_of_the_configuration_that_runs(changing, settings):
    changing.hosts.pop("beech")
    changing.hosts["ash"] = settings
    known(changing, *(worker(port, state="drained", by="rollout") for port in (30000, 30010)))
    status, output = changing.play([tasks_of("rollout", "return.yml")])
    assert status == 0, output
    told = {state: changing.asked(module="router_worker", state=state) for state in ("serving", "absent")}
    assert [one["url"] for one in told["serving"]] == ["http://ash:30000"], output
    assert [one["url"] for one in told["absent"]] == ["http://ash:30010"], output


# A run that was killed at the gate leaves the new configuration active and its record; the next run then fails early.
@pytest.mark.parametrize(("unfinished", "started"), [([], []), (["ash"], ["A"])])
def test_only_a_host_that_nobody_changed_goes_back_as_it_is(changing, unfinished, started):
    changing.hosts.pop("beech")
    changing.variables["rollout_plan"]["unfinished"] = unfinished
    failure = {"ansible.builtin.set_fact": {"rollout_failure": {"phase": "out", "message": "still has requests"}}}
    status, output = changing.play([failure, tasks_of("rollout", "back.yml")])
    assert status == 0, output
    assert [asked["id"] for asked in changing.asked(module="service_config", state="active")] == started
    told = [asked["state"] for asked in changing.asked(module="router_worker") if asked["state"] != "info"]
    assert told[-1] == "serving"


def test_no_node_of_a_service_stops_while_another_one_has_requests(changing):
    changing.variables["rollout_plan"]["units"] = {"ash": "pair", "beech": "pair"}
    changing.hosts["ash"] = {"serve_node_rank": 0}
    changing.hosts["beech"] = {"serve_node_rank": 1}
    told = {"failed": True, "msg": "http://ash:30000 still has 2 requests"}
    changing.answers.insert(0, ({"module": "router_worker", "state": "drained", "drain_timeout": 1800}, told))
    status, output = changing.play([tasks_of("rollout", "host.yml"), FAILURES])
    assert status == 0, output
    assert changing.asked(module="service_config", state="active") == []
    assert "FAILED ash out: http://ash:30000 still has 2 requests" in output, output
    assert "FAILED beech out: ash is not out of the routers" in output, output


def test_services_of_a_host_are_watched_at_the_same_time(changing):
    changing.hosts.pop("beech")
    changing.hosts["ash"] = {"serve_instances": [{"name": "kimi"}, {"name": "qwen", "port": 30001}]}
    move = changing.variables["rollout_plan"]["moves"]["ash"]
    move["qwen"] = move["kimi"]
    changing.variables["rollout_soak_seconds"] = 1
    changing.answer({"sleeps": 4}, module="service_watch", unit="sglang-kimi.service")
    changing.answer({"failed": True, "msg": "qwen is not well"}, module="service_watch", unit="sglang-qwen.service")
    status, output = changing.play([tasks_of("rollout", "host.yml"), FAILURES])
    assert status == 0, output
    # Each line is written at the end.
    assert [asked["unit"] for asked in changing.asked(module="service_watch")] == [
        "sglang-qwen.service",
        "sglang-kimi.service",
    ]
    assert "FAILED ash soak: qwen is not well" in output, output
