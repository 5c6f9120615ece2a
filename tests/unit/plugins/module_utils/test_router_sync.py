# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program beside the router: after a start and from time to time, the router has what is written down."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import router_api, router_store
from ansible_collections.llmfleet.sglang.plugins.module_utils import router_sync as sync
from ansible_collections.llmfleet.sglang.tests.unit.plugins import fake_router

A, B = "http://a:1", "http://b:1"


def entry(state):
    return router_store.entry_of(state, "h", "s", "", "me", "2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("workers", "listed", "healthy", "planned"),
    [
        ({A: "serving"}, {}, {A}, ([A], [], [])),
        ({A: "serving"}, {}, set(), ([], [], [])),
        ({A: "serving"}, {A: ["1"]}, {A}, ([], [], [])),
        ({A: "drained"}, {}, {A}, ([], [], [])),
        ({A: "drained"}, {A: ["1", "2"]}, {A}, ([], [(A, "1"), (A, "2")], [])),
        ({A: "serving"}, {B: ["1"]}, {A}, ([A], [], [B])),
        ({}, {}, set(), ([], [], [])),
    ],
    ids=["missing", "engine-down", "there", "drained", "drained-and-there", "unknown", "nothing"],
)
def test_what_the_router_lacks_and_has_too_many(workers, listed, healthy, planned):
    workers = {url: entry(state) for url, state in workers.items()}
    listed = {url: [{"id": identity} for identity in identities] for url, identities in listed.items()}
    assert sync.plan(workers, listed, healthy) == planned


@pytest.fixture(name="place")
def fixture_place(tmp_path):
    with fake_router.running() as (_kind, state, url):
        yield state, url, router_api.Router(url), str(tmp_path / "workers.json")


def test_a_started_router_gets_the_serving_ones_only(place, capsys):
    state, url, _router, path = place
    router_store.write(path, {url: entry("serving"), "http://127.0.0.1:9": entry("serving"), B: entry("drained")})
    assert sync.main(["start", "--router", url, "--workers", path, "--seconds", "20"]) == 0
    assert list(state.workers.values()) == [url]
    told = capsys.readouterr().out
    assert f"{url} is put in" in told and "http://127.0.0.1:9 is to serve and does not answer" in told
    assert "ready; 1 of the workers that are to serve are missing" in told


def test_a_drained_one_that_is_there_is_taken_out(place):
    state, url, router, path = place
    router.add(url)
    router.add(B)
    router_store.write(path, {url: entry("drained")})
    told, open_matters = sync.once(router, path)
    assert told == [f"{url} is drained and was taken out"]
    assert open_matters == [f"{B} is in the router and not written down"]
    assert list(state.workers.values()) == [B]


def test_whoever_drains_while_it_looks_wins(place, monkeypatch):
    state, url, router, path = place
    router_store.write(path, {url: entry("serving")})

    def drained_meanwhile(urls):
        router_store.change(path, url, "drained", entry("drained"))
        return set(urls)

    monkeypatch.setattr(sync, "healthy_of", drained_meanwhile)
    sync.once(router, path)
    assert state.asked == []


@pytest.mark.parametrize("content", ["{", '{"workers": {}}'], ids=["unreadable", "no-router"])
def test_what_it_cannot_do_it_says(tmp_path, capsys, content):
    path = tmp_path / "workers.json"
    path.write_text(content)
    with fake_router.running() as (_kind, _state, url):
        router = url if content == "{" else "http://127.0.0.1:9"
        assert sync.main(["start", "--router", router, "--workers", str(path), "--seconds", "0"]) == 1
    assert ("is no JSON" if content == "{" else "nothing answers") in capsys.readouterr().err
