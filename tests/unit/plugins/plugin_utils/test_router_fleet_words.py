# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole lines about workers, and which of several is meant."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import router_fleet as fleet

A, B = "http://a:1", "http://b:1"


def worker(url=A, **more):
    known = {"url": url, "host": "a", "service": "kimi", "state": "serving", "reason": "", "by": "me", "since": "then"}
    return {**known, "in_router": True, "healthy": True, "requests": 0, **more}


@pytest.mark.parametrize(
    ("more", "condition"),
    [
        ({}, ("serving", "0 requests")),
        ({"requests": 1}, ("serving", "1 request")),
        ({"state": "drained", "in_router": False}, ("drained", "since then by me")),
        ({"state": "drained", "in_router": False, "reason": "fan"}, ("drained", "since then by me: fan")),
        (
            {"state": "drained", "requests": 2, "healthy": False},
            ("drained", "STILL IN THE ROUTER with 2 requests; since then by me"),
        ),
        (
            {"state": "unknown", "requests": 1},
            ("unknown", "in the router with 1 request, and not written down; nobody takes care of it"),
        ),
        (
            {"in_router": False, "healthy": False},
            ("LEFT OUT", "it is to serve, and the router does not have it: its engine does not answer"),
        ),
        ({"healthy": False}, ("LEFT OUT", "it is to serve, and the router calls it unhealthy")),
    ],
)
def test_the_condition_of_a_worker(more, condition):
    assert fleet.condition(worker(**more)) == condition


def test_the_table_is_sorted_and_aligned():
    lines = fleet.table([worker(B, host="bb", service=""), worker()], gone=[], new=[])
    assert lines == ["a   kimi  http://a:1  serving  0 requests", "bb  -     http://b:1  serving  0 requests"]
    (line,) = fleet.table([], new=[{"host": "a", "service": "kimi", "url": A}])
    assert line.startswith("a  kimi  http://a:1  LEFT OUT  new, and its engine does not answer its health check")
    (line,) = fleet.table([worker(host="")], new=[{"host": "a", "service": "kimi", "url": A}])
    assert line.startswith("-  kimi") and "LEFT OUT" not in line


def test_a_new_worker_keeps_its_own_words_and_takes_those_of_a_drain():
    seen = [
        {"item": "r1", "workers": []},
        {"item": "r2", "workers": [worker(A, state="drained", reason="fan", by="ann"), worker(B)]},
        {"item": "r0", "workers": [worker(A, state="drained", reason="first", by="bob")]},
    ]
    wanted = {"a": [{"url": A, "host": "a"}], "b": [{"url": B + "/", "host": "b", "reason": "own"}], "c": None}
    # Of several drains that of the router that is last by its name counts.
    assert fleet.reconciliation(seen, "r1", wanted) == {
        "new": [
            {"url": A, "host": "a", "state": "drained", "reason": "fan", "by": "ann"},
            {"url": B, "host": "b", "state": "serving", "reason": "own", "by": ""},
        ],
        "gone": [],
    }
    # A router without an answer has nothing that is written down.
    assert fleet.reconciliation([{"item": "r1", "workers": None}], "r1", {}) == {"new": [], "gone": []}
    assert fleet.reconciliation([], "r1", {}) == {"new": [], "gone": []}


@pytest.mark.parametrize(
    ("wanted", "gone"),
    [
        ({}, True),
        ({"b": []}, True),
        ({"a": []}, True),
        ({"a": False}, False),
        ({"a": None}, False),
        ({"a": [{"url": A + "/"}]}, False),
        ({"a": [{"url": B}]}, True),
    ],
)
def test_who_is_gone_from_the_inventory(wanted, gone):
    found = fleet.reconciliation([{"item": "r1", "workers": [worker()]}], "r1", wanted)
    assert [one["url"] for one in found["gone"]] == ([A] if gone else [])


@pytest.mark.parametrize(
    ("left", "minimum", "told"),
    [
        (0, 1, "Router r1 would have 0 serving workers of service kimi, and drain_serving_minimum is 1."),
        (1, 2, "Router r1 would have 1 serving worker of service kimi, and drain_serving_minimum is 2."),
        (2, 3, "Router r1 would have 2 serving workers of service kimi, and drain_serving_minimum is 3."),
        (1, 1, None),
        (2, 1, None),
    ],
)
def test_the_border_of_a_drain(left, minimum, told):
    workers = [worker(), *(worker(f"http://h{number}:1") for number in range(left))]
    found = fleet.drain_problems([{"item": "r1", "workers": workers}], [A + "/"], minimum)
    assert len(found) == (told is not None) and (not told or found[0].startswith(told))


def test_each_service_of_each_router_is_told():
    workers = [worker(A), worker(B, service="embed")]
    found = fleet.drain_problems([{"item": one, "workers": workers} for one in ("r1", "r2")], [A, B], 1)
    assert [(sentence.split()[1], "service embed" in sentence) for sentence in found] == [
        ("r1", True), ("r1", False), ("r2", True), ("r2", False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"state": "serving", "seconds": 2.5}, "serving on r1  in 2.5 s"),
        ({"state": "serving", "changed": True, "seconds": 0.0}, "would change on r1  in 0.0 s"),
        ({"state": "serving", "changed": False, "seconds": 0.0}, "serving on r1  in 0.0 s"),
        ({"state": "serving", "changed": True, "seconds": 1.0}, "serving on r1  in 1.0 s"),
        ({}, "? on r1  in 0 s"),
        ({"state": "drained", "workers": [worker(reason="")]}, "drained on r1  in 0 s"),
        ({"state": "serving", "workers": [worker(reason="fan")]}, "serving on r1  in 0 s"),
        ({"state": "drained", "workers": None}, "drained on r1  in 0 s"),
        (
            {"state": "drained", "workers": [worker(reason="fan"), worker(reason="other")]},
            "drained on r1  in 0 s, since then by me: fan",
        ),
    ],
)
def test_the_outcome_of_one_engine(more, told):
    result = {"item": ["r1", {"host": "a", "service": "kimi", "url": A}], **more}
    assert fleet.outcomes([result]) == [f"a  kimi  {A}  {told}"]
