# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller makes of the workers of all routers."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import router_fleet as fleet

A, B, C = "http://a:1", "http://b:1", "http://c:1"


def worker(url, state="serving", host="a", there=True, healthy=True, requests=0, service="kimi", reason="", by="me"):
    return {
        "url": url, "host": host, "service": service, "state": state, "reason": reason, "by": by,
        "since": "2026-01-01T00:00:00Z", "in_router": there, "healthy": healthy, "requests": requests,
    }  # fmt: skip


def engine(url, host="a"):
    return {"url": url, "host": host, "service": "kimi"}


def compared(mine, wanted, others=()):
    seen = [{"item": "r1", "workers": mine}, {"item": "r2", "workers": list(others)}, {"item": "r3", "failed": True}]
    found = fleet.reconciliation(seen, "r1", wanted)
    return [(one["url"], one["state"]) for one in found["new"]], [one["url"] for one in found["gone"]]


@pytest.mark.parametrize(
    ("mine", "wanted", "others", "new", "gone"),
    [
        ([], {"a": [engine(A)]}, [], [(A, "serving")], []),
        ([worker(A)], {"a": [engine(A + "/")]}, [], [], []),
        ([worker(A, "drained")], {"a": [engine(A)]}, [], [], []),
        # Another router has it drained: it is new here, and not to serve.
        ([], {"a": [engine(A)]}, [worker(A, "drained")], [(A, "drained")], []),
        ([], {"a": [engine(A)]}, [worker(A)], [(A, "serving")], []),
        # In the router and not written down: it is written down.
        ([worker(A, "unknown", host="")], {"a": [engine(A)]}, [], [(A, "serving")], []),
        ([worker(A), worker(B, host="b")], {"a": [engine(A)]}, [], [], [B]),
        ([worker(A), worker(C)], {"a": [engine(A)]}, [], [], [C]),
        # The run is limited to other hosts: nothing is known about this one.
        ([worker(B, host="b")], {"a": [engine(A)], "b": False}, [], [(A, "serving")], []),
        ([worker(B, "unknown", host="")], {"a": [engine(A)]}, [], [(A, "serving")], []),
        ([], {"a": [engine("nonsense")]}, [], [("nonsense", "serving")], []),
    ],
)
def test_a_router_against_the_inventory(mine, wanted, others, new, gone):
    assert compared(mine, wanted, others) == (new, gone)


def test_the_reason_of_a_drain_is_the_same_on_all_routers():
    seen = [{"item": "r1"}, {"item": "r2", "workers": [worker(A, "drained", reason="fan", by="ann")]}]
    new = fleet.reconciliation(seen, "r1", {"a": [engine(A)]})["new"]
    assert new == [{**engine(A), "state": "drained", "reason": "fan", "by": "ann"}]


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (worker(A, requests=1), ["serving", "1 request"]),
        (worker(A, requests=2), ["serving", "2 requests"]),
        (worker(A, "drained", there=False, reason="fan"), ["drained", "since 2026-01-01T00:00:00Z by me: fan"]),
        (worker(A, "drained", requests=1), ["drained", "STILL IN THE ROUTER with 1 request"]),
        (worker(A, there=False), ["LEFT OUT", "does not have it"]),
        (worker(A, healthy=False), ["LEFT OUT", "calls it unhealthy"]),
        (worker(A, "unknown", host="", service=""), ["-  -", "unknown", "not written down"]),
    ],
)
def test_the_line_of_a_worker(one, words):
    (line,) = fleet.table([one])
    assert all(word in line for word in words), line


def test_nobody_is_left_out_of_the_table():
    lines = fleet.table([worker(A), worker(B, "drained", host="b")], gone=[worker(B)], new=[engine(C, "c"), engine(A)])
    assert [line.split()[0] for line in lines] == ["a", "b", "c"]
    assert "no longer in the inventory" in lines[1] and "LEFT OUT" in lines[2]
    assert fleet.table([]) == []


@pytest.mark.parametrize(
    ("workers", "urls", "minimum", "problems"),
    [
        ([worker(A), worker(B)], [A], 1, 0),
        ([worker(A), worker(B)], [A, B], 1, 1),
        ([worker(A), worker(B)], [A, B], 0, 0),
        ([worker(A), worker(B)], [A + "/"], 2, 1),
        ([worker(A), worker(B, healthy=False)], [A], 1, 1),
        ([worker(A), worker(B, there=False)], [A], 1, 1),
        ([worker(A), worker(B, "drained")], [A], 1, 1),
        # One that does not serve may always be taken out.
        ([worker(A, healthy=False), worker(B)], [A], 2, 0),
        # Another service does not stand in for it.
        ([worker(A), worker(B, service="other")], [A], 1, 1),
        ([], [A], 1, 0),
    ],
)
def test_what_a_drain_would_leave(workers, urls, minimum, problems):
    found = fleet.drain_problems([{"item": "r1", "workers": workers}, {"item": "r2", "failed": True}], urls, minimum)
    assert len(found) == problems
    assert all("drain_serving_minimum" in problem for problem in found)


def test_the_line_of_an_outcome():
    result = {
        "item": ["r1", engine(A)],
        "state": "drained",
        "seconds": 2.5,
        "workers": [worker(A, "drained", reason="fan")],
    }
    assert fleet.outcomes([result]) == [f"a  kimi  {A}  drained on r1  in 2.5 s, since 2026-01-01T00:00:00Z by me: fan"]
    assert "nothing to do" in fleet.outcomes([])[0]
