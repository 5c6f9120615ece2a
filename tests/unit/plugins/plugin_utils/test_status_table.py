# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One table and one answer of a fleet, from what its hosts and routers said."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import status_table

ROLE = Path(__file__).resolve().parents[4] / "roles" / "status"
PASSED = {
    "verdict": "pass", "source": "kept", "age_seconds": 7300, "current": True, "ranks_seen": 8, "total_gb": 364.0,
    "summary": "pass: 8 of 8 ranks",
}  # fmt: skip
WELL = {
    "name": "kimi", "unit": "sglang-kimi.service", "condition": "running", "result": "success", "restarts": 0,
    "invocation_id": "a" * 32, "uptime_seconds": 90000, "release": "0.5.23", "id": "0.5.23-ab-1f2e3d4c",
    "model_revision": "c91c2a040e2f", "ranks_expected": 8, "node_rank": 0, "health": "ok", "pending": None,
    "rollout": None, "verdict": PASSED,
}  # fmt: skip
SERVING = {"host": "ash", "service": "kimi", "state": "serving", "healthy": True, "in_router": True}


def look(**changes):
    return {"services": [{**WELL, **changes}]}


def asked(*workers, **more):
    return {"item": "rowan", "router_running": True, "workers": list(workers), **more}


def report(looks, routers=(), judged=None, counted=tuple(status_table.PROBLEMS)):
    return status_table.fleet_report(looks, routers, counted, "2026-01-31T12:00:00Z", judged)


def test_a_fleet_that_is_well():
    found = report({"ash": look()}, [asked(SERVING)])
    assert found["well"] is True
    assert found["against"] == []
    assert found["lines"] == [
        "host  service  state  release  config    model     verdict        ranks  GB      uptime  restarts  traffic",
        "ash   kimi     ok     0.5.23   1f2e3d4c  c91c2a04  pass, 2 h ago  8/8    364.00  1 d     0         serving",
        "",
        "1 rows: 1 ok",
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"condition": "missing"}, ["missing"]),
        ({"condition": "failed", "result": "exit-code"}, ["failed"]),
        ({"condition": "stopped"}, ["stopped"]),
        ({"condition": "loading"}, ["loading"]),
        ({"health": "/health gives 503"}, ["unhealthy"]),
        ({"verdict": None}, ["unproved"]),
        ({"verdict": {**PASSED, "current": False}}, ["unproved"]),
        ({"verdict": {**PASSED, "verdict": "inconclusive"}}, ["unproved"]),
        ({"verdict": {**PASSED, "verdict": "fail"}, "health": "/health gives 503"}, ["rejected", "unhealthy"]),
        ({"pending": ["The port changes."]}, ["pending"]),
        ({"rollout": {"phase": "soak", "holder": "anna"}}, ["unfinished"]),
        ({"health": None}, []),
    ],
)
def test_what_is_wrong_with_a_service_the_worst_first(changes, expected):
    found = report({"ash": look(**changes)})
    assert [one["code"] for one in found["rows"][0]["problems"]] == expected
    assert found["rows"][0]["state"] == (expected or ["ok"])[0]
    assert found["well"] is (not expected)


@pytest.mark.parametrize(
    ("workers", "state", "cell"),
    [
        ([], "left_out", "left out"),
        ([SERVING], "ok", "serving"),
        ([{**SERVING, "healthy": False}], "left_out", "left out"),
        ([{**SERVING, "state": "unknown"}], "left_out", "left out"),
        ([{**SERVING, "state": "drained", "by": "anna", "healthy": None}], "drained", "drained by anna"),
        ([{**SERVING, "host": "beech"}], "left_out", "left out"),
        ([{**SERVING, "service": "qwen"}], "left_out", "left out"),
    ],
)  # fmt: skip
def test_what_the_router_does_with_a_service(workers, state, cell):
    found = report({"ash": look()}, [asked(*workers)])
    assert found["rows"][0]["state"] == state
    assert found["lines"][1].endswith(f"  {cell}")


def test_one_of_two_routers_that_leaves_a_service_out_is_told():
    found = report({"ash": look()}, [asked(SERVING), {**asked({**SERVING, "healthy": False}), "item": "alder"}])
    assert found["rows"][0]["state"] == "left_out"


def test_a_router_that_does_not_know_a_service_is_named():
    found = report({"ash": look()}, [asked(SERVING), {**asked(), "item": "alder"}])
    assert found["against"] == [
        "ash kimi: the router ought to use it and does not (router alder does not know it)."
    ]  # fmt: skip
    silent = report({"ash": look()}, [asked(), {**asked(), "item": "alder"}])
    assert silent["rows"][0]["traffic_reason"] == "routers rowan, alder do not know it"
    assert found["well"] is False


@pytest.mark.parametrize(
    ("changes", "routers", "traffic"),
    [
        # Nodes of a service other than its first answer no requests.
        ({"node_rank": 1}, [asked()], None),
        ({"condition": "missing"}, [asked()], None),
        # A router that does not run is a row of its own.
        ({}, [asked(SERVING), {**asked(), "item": "alder", "router_running": False}], "serving"),
        ({}, [asked(SERVING), {"item": "alder", "unreachable": True, "msg": "gone"}], "serving"),
        ({}, [], None),
        ({}, [asked({**SERVING, "state": "drained", "by": "anna"}), {**asked(), "item": "alder"}], "drained"),
    ],
)
def test_a_service_that_no_router_need_know(changes, routers, traffic):
    assert report({"ash": look(**changes)}, routers)["rows"][0]["traffic"] == traffic


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ({"item": "rowan", "unreachable": True, "msg": "No route to host"}, "unreachable"),
        ({"item": "rowan", "msg": "permission denied"}, "error"),
        ({"item": "rowan", "workers": [SERVING], "router_running": False}, "stopped"),
    ],
)
def test_a_router_that_does_not_answer_is_a_row(answer, state):
    found = report({"ash": look()}, [answer])
    assert [(row["host"], row["service"], row["state"]) for row in found["rows"]][-1] == ("rowan", "router", state)
    assert found["well"] is False


def test_hosts_that_do_not_answer_are_rows():
    looks = {"oak": {"unreachable": True, "msg": "Task failed: No route to host"}, "elm": {"msg": "no sudo"}, "ash": {}}
    found = report({**looks, "yew": {"services": []}})
    assert [(row["host"], row["state"]) for row in found["rows"]] == [
        ("ash", "error"), ("elm", "error"), ("oak", "unreachable"), ("yew", "missing"),
    ]  # fmt: skip
    assert "oak: the host does not answer (No route to host)." in found["against"]
    assert found["counts"] == {"error": 2, "unreachable": 1, "missing": 1}


def test_only_what_counts_is_against_the_fleet():
    found = report({"ash": look(condition="loading")}, counted=["failed"])
    assert found["well"] is True
    assert found["rows"][0]["state"] == "loading"


def test_every_problem_that_counts_is_against_it_not_the_first_alone():
    drained = {**SERVING, "state": "drained", "by": "anna", "reason": "a fan", "since": "2026-01-31T11:00:00Z"}
    found = report({"ash": look(condition="failed", result="exit-code")}, [asked(drained)], counted=["drained"])
    assert found["against"] == [
        "ash kimi: it is taken out of the router (by anna since 2026-01-31T11:00:00Z: a fan)."
    ]  # fmt: skip


def test_several_services_of_a_host_are_several_rows():
    looks = {"ash": {"services": [WELL, {**WELL, "name": "qwen", "condition": "stopped"}]}}
    assert [(row["service"], row["state"]) for row in report(looks)["rows"]] == [("kimi", "ok"), ("qwen", "stopped")]


def test_a_fresh_judgement_goes_before_a_kept_one():
    judged = {"ash": {"results": [{"item": {"name": "kimi"}, "verdict": "fail", "ranks_seen": 7, "total_gb": 313.0}]}}
    found = report({"ash": look()}, judged=judged)
    row = found["rows"][0]
    assert (row["verdict"], row["verdict_source"], row["ranks_seen"]) == ("fail", "fresh", 7)
    assert row["state"] == "rejected"
    assert "fail, fresh" in found["lines"][1]


@pytest.mark.parametrize(
    ("seconds", "expected"), [(None, "-"), (0, "0 s"), (59, "59 s"), (61, "1 min"), (7199, "1 h"), (200000, "2 d")]
)
def test_times_are_told_in_one_unit(seconds, expected):
    assert status_table.age(seconds) == expected


def test_the_role_knows_the_same_codes():
    assert yaml.safe_load((ROLE / "vars/main.yml").read_text())["__status_codes"] == list(status_table.PROBLEMS)
    assert yaml.safe_load((ROLE / "defaults/main.yml").read_text())["status_counted"] == list(status_table.PROBLEMS)


def test_the_time_grows_with_the_hosts_and_not_with_their_square():
    def seconds(count):
        looks = {f"host{number}": look() for number in range(count)}
        routers = [asked(*({**SERVING, "host": host} for host in looks))]
        return min(_timed(looks, routers) for _try in range(3))

    def _timed(looks, routers):
        began = time.process_time()
        report(looks, routers)
        return time.process_time() - began

    # Sixteen times as many hosts: 16 if it grows as it should, 256 if every host looks at every other.
    assert seconds(3200) < 80 * max(seconds(200), 1e-4)


def test_a_service_that_is_not_as_recorded_is_told_with_what_differs():
    sentence = "--hicache-ratio in the unit file is 2.0, and the record of the deployment has 4.0. Run site.yml."
    service = {
        "name": "kimi", "condition": "running", "health": "ok", "node_rank": 0, "differences": [sentence],
        "verdict": {"verdict": "pass", "source": "kept", "age_seconds": 1, "current": True, "ranks_seen": 8,
                    "total_gb": 1.0},
    }  # fmt: skip
    row = status_table.fleet_rows({"ash": {"services": [service]}})[0]
    assert (row["state"], row["problems"][0]["detail"]) == ("differs", sentence.rstrip("."))
    whole = status_table.fleet_rows({"ash": {"services": [{**service, "differences": []}]}})[0]
    assert whole["state"] == "ok"
