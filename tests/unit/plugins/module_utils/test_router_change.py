# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Putting workers in and out, in the order that a router's restart in between cannot break."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import router_api, router_store
from ansible_collections.llmfleet.sglang.plugins.module_utils import router_change as change
from ansible_collections.llmfleet.sglang.tests.unit.plugins import fake_router


@pytest.fixture(name="place")
def fixture_place(tmp_path):
    """(handler, state, url of engine and router, router, path of the file)."""
    with fake_router.running() as (kind, state, url):
        yield kind, state, url, router_api.Router(url), str(tmp_path / "workers.json")


def entry(state="serving", by="me"):
    return router_store.entry_of(state, "h", "s", "why", by, "2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("looks", "ends_at"),
    [
        # (connections, requests, moment)
        ([(0, None, 0), (0, None, 1), (0, None, 2)], 3),
        ([(0, None, 0), (1, None, 1), (0, None, 2), (0, None, 3), (0, None, 4)], 5),
        ([(2, 0, 0.0), (2, 0, 1.0), (2, 0, 2.0)], 3),
        # A zero that was not true: the engine's figures are late.
        ([(2, 0, 0.0), (2, 1, 1.0), (2, 0, 2.0), (2, 0, 3.0), (2, 0, 4.0)], 5),
        ([(2, 3, 0), (2, 1, 9), (2, 1, 99)], None),
        ([(2, None, 0), (2, None, 50), (2, None, 99)], None),
    ],
    ids=["no-connection", "a-new-connection", "idle-engine", "late-figure", "busy", "silent-engine"],
)
def test_the_end_of_the_requests(looks, ends_at):
    quiet = change.Quiet(2.0)
    seen = [quiet.look(*look) for look in looks]
    assert seen == [number + 1 == ends_at for number in range(len(looks))]


def test_drained_is_written_before_the_router_is_asked(place, monkeypatch):
    _kind, state, url, router, path = place
    change.serve(router, path, url, entry(), 10)
    written = []
    monkeypatch.setattr(router, "remove", lambda identity: written.append(router_store.read(path)[url]["state"]))
    monkeypatch.setattr(change, "REMOVAL_SECONDS", 0)
    with pytest.raises(change.Refused, match="still has"):
        change.take_out(router, path, url, "drained", entry("drained"))
    assert written == ["drained"] and url in state.workers.values()


def test_a_worker_is_served_once_its_engine_is_healthy(place):
    kind, state, url, router, path = place
    kind.health = 503
    with pytest.raises(change.Refused, match="did not answer 200 within 0 s"):
        change.serve(router, path, url, entry(), 0)
    assert (state.asked, router_store.read(path)) == ([], {})
    kind.health = 200
    assert change.serve(router, path, url, entry(), 10) == (True, None, entry())
    assert list(router.workers()) == [url]
    assert change.serve(router, path, url, entry(), 10)[0] is False
    assert state.asked == [("add", url)]


def test_a_worker_that_the_router_does_not_take_stays_as_it_was(place):
    _kind, state, url, router, path = place
    change.take_out(router, path, url, "drained", entry("drained"))
    state.unreachable.add(url)
    with pytest.raises(change.Refused, match="Both HTTP and gRPC"):
        change.serve(router, path, url, entry(), 1)
    assert router_store.read(path) == {url: entry("drained")}


def test_a_worker_that_is_unhealthy_in_the_router_is_not_served(place):
    _kind, state, url, router, path = place
    state.unhealthy.add(url)
    with pytest.raises(change.Refused, match="calls it unhealthy"):
        change.serve(router, path, url, entry(), 1)
    # What was added for nothing is gone again.
    assert (state.workers, router_store.read(path)) == ({}, {})


def test_what_somebody_else_drained_stays_drained(place):
    _kind, state, url, router, path = place
    change.take_out(router, path, url, "drained", entry("drained", by="operator"))
    assert change.serve(router, path, url, entry(by="rollout"), 10, only_by="rollout")[0] is False
    assert state.asked == []
    assert change.serve(router, path, url, entry(by="rollout"), 10, only_by="operator")[0] is True


def test_a_worker_is_taken_out_under_both_of_its_addresses(place):
    _kind, state, url, router, path = place
    router.add(url)
    router.add(url + "/")
    assert change.take_out(router, path, url, "drained", entry("drained"))[0] is True
    assert state.workers == {}
    assert change.take_out(router, path, url, "drained", entry("drained"))[0] is False
    assert change.take_out(router, path, url, "absent") == (True, entry("drained"), None)


def test_a_router_that_is_down_has_nobody_to_take_out(tmp_path):
    router, path = router_api.Router("http://127.0.0.1:9"), str(tmp_path / "workers.json")
    assert change.take_out(router, path, "http://127.0.0.1:9", "drained", entry("drained"))[0] is True
    assert router_store.urls_in(router_store.read(path), "drained") == ["http://127.0.0.1:9"]
    assert change.wait_quiet("http://127.0.0.1:9", 10, 2) == 0


def test_the_overview_has_what_is_written_and_what_the_router_has():
    record = {"id": "1", "healthy": True, "requests": 2, "model": "m"}
    found = change.overview({"http://a:1": entry("drained")}, {"http://b:1": [record]})
    assert [(one["url"], one["state"], one["in_router"], one["requests"]) for one in found] == [
        ("http://a:1", "drained", False, 0),
        ("http://b:1", "unknown", True, 2),
    ]
