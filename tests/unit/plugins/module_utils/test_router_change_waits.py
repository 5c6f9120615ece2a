# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a router and an engine are waited for, what ends the wait, and what is told at its end."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import router_api, router_store
from ansible_collections.llmfleet.sglang.plugins.module_utils import router_change as change

URL = "http://a:1"
HEALTHY = {"id": "1", "healthy": True, "requests": 2}
UNHEALTHY = {**HEALTHY, "healthy": False}
DOWN = router_api.NotRunning("nothing answers")


class Clock:
    """A clock that moves by sleeping only."""

    def __init__(self):
        self.now, self.slept = 1000.0, []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture(name="clock")
def fixture_clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(change, "time", clock)
    return clock


class Router:
    """A router that says one thing after the other; the last one for ever."""

    url = "http://router:1"

    def __init__(self, *answers, problems=()):
        self.answers, self.problems, self.asked = list(answers), list(problems), []

    def workers(self):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return {"http://other:1": [HEALTHY], **({URL: answer} if answer else {})}

    def add(self, url):
        self.asked.append(("add", url))
        return f"job {len(self.asked)}"

    def remove(self, identity):
        self.asked.append(("remove", identity))

    def problem_of(self, identity):
        self.asked.append(("problem", identity))
        return self.problems.pop(0) if self.problems else ""


def entry(state="serving", by="me"):
    return router_store.entry_of(state, "h", "s", "why", by, "2026-01-01T00:00:00Z")


# -- removal ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "was_there", "removed"),
    [
        ([[]], False, []),
        ([DOWN], False, []),
        ([[HEALTHY], []], True, ["1"]),
        ([[HEALTHY, {**HEALTHY, "id": "2"}], [{**HEALTHY, "id": "2"}], []], True, ["1", "2", "2"]),
        # It went down while the worker was being removed: it has none now.
        ([[HEALTHY], DOWN], True, ["1"]),
    ],
)
def test_a_removal_ends_when_the_router_has_the_worker_no_more(clock, answers, was_there, removed):
    router = Router(*answers)
    assert change.remove_from_router(router, URL) is was_there
    assert router.asked == [("remove", identity) for identity in removed]
    assert clock.slept == [change.LOOK] * (len(answers) - 1)


def test_a_removal_that_does_not_end_is_refused(clock):
    router = Router([HEALTHY])
    with pytest.raises(change.Refused, match=r"http://router:1 still has http://a:1 60 s after .*journalctl"):
        change.remove_from_router(router, URL)
    assert clock.now == 1000 + change.REMOVAL_SECONDS
    assert len(router.asked) == change.REMOVAL_SECONDS / change.LOOK + 1


# -- requests -----------------------------------------------------------------------------------------------------


def waited(monkeypatch, connections, requests, seconds=10, quiet=2):
    looks = []

    def engine_requests(url):
        looks.append(url)
        return requests(len(looks))

    monkeypatch.setattr(router_api, "connections_to", lambda url: connections())
    monkeypatch.setattr(router_api, "engine_requests", engine_requests)
    return change.wait_quiet(URL, seconds, quiet), looks


def test_a_worker_without_connections_is_not_asked_and_is_looked_at_three_times(clock, monkeypatch):
    assert waited(monkeypatch, lambda: 0, lambda _look: 5) == (0, [])
    assert clock.slept == [change.LOOK] * 2


def test_an_idle_engine_is_looked_at_as_long_as_was_said(clock, monkeypatch):
    left, looks = waited(monkeypatch, lambda: 3, lambda _look: 0)
    assert left == 0 and sum(clock.slept) == 2 and set(looks) == {URL}


@pytest.mark.parametrize(("requests", "left"), [(4, 4), (None, 3), (1, 1)])
def test_a_busy_worker_is_told_at_the_end_of_the_time(clock, monkeypatch, requests, left):
    assert waited(monkeypatch, lambda: 3, lambda _look: requests)[0] == left
    assert sum(clock.slept) == 10


def test_no_time_is_one_look(clock, monkeypatch):
    assert waited(monkeypatch, lambda: 3, lambda _look: 2, seconds=0)[0] == 2
    assert clock.slept == []


@pytest.mark.parametrize(("seconds", "ends_at"), [(0.0, 1), (1.0, 2), (1.5, 3)])
def test_the_engine_is_idle_from_its_first_zero_on(seconds, ends_at):
    quiet = change.Quiet(seconds)
    seen = [quiet.look(1, 0, float(moment)) for moment in range(4)]
    assert seen.index(True) + 1 == ends_at


# -- engine -------------------------------------------------------------------------------------------------------


def test_an_engine_that_becomes_healthy_ends_the_wait(clock, monkeypatch):
    answers = [(False, "status 503"), (False, "status 503"), (True, "status 200")]
    monkeypatch.setattr(router_api, "engine_healthy", lambda url: answers.pop(0))
    assert change.wait_engine(URL, 10) is None
    assert clock.slept == [change.LOOK] * 2


def test_an_engine_that_does_not_is_refused_with_its_last_word(clock, monkeypatch):
    monkeypatch.setattr(router_api, "engine_healthy", lambda url: (False, f"status 503 at {clock.now:g}"))
    with pytest.raises(change.Refused, match=r"http://a:1/health did not answer 200 within 2 s .* status 503 at 1002"):
        change.wait_engine(URL, 2)
    assert sum(clock.slept) == 2


# -- serving ------------------------------------------------------------------------------------------------------


def test_a_worker_is_added_once_and_waited_for(clock):
    router = Router([], [], [], [HEALTHY])
    assert change.wait_served(router, URL, 10) == ""
    assert router.asked == [("add", URL), ("problem", "job 1"), ("problem", "job 1")]
    assert clock.slept == [change.LOOK] * 3


def test_one_healthy_record_is_enough_and_no_other_worker_counts(clock):
    assert change.wait_served(Router([UNHEALTHY, HEALTHY]), URL, 0) == ""
    assert change.wait_served(Router([]), URL, 0) == "it has not answered"
    assert clock.slept == []


@pytest.mark.parametrize(
    ("answers", "problems", "told"),
    [
        ([[UNHEALTHY]], [], "it has the worker, and calls it unhealthy"),
        ([[]], [], "the addition is still under way"),
        ([[]], ["no such host"] * 9, "the addition failed: no such host"),
        ([DOWN], [], "nothing answers"),
    ],
)
def test_what_is_told_of_a_worker_that_is_not_served(clock, answers, problems, told):
    assert change.wait_served(Router(*answers, problems=problems), URL, 0.5) == told
    assert clock.slept == [change.LOOK] * 2


def test_an_addition_that_failed_is_asked_for_again(clock):
    router = Router([], [], [], [HEALTHY], problems=["no such host"])
    assert change.wait_served(router, URL, 10) == ""
    assert router.asked == [("add", URL), ("problem", "job 1"), ("add", URL)]


def test_a_router_that_was_restarted_meanwhile_is_asked_again(clock):
    router = Router([], DOWN, [], [HEALTHY])
    assert change.wait_served(router, URL, 10) == ""
    assert router.asked == [("add", URL), ("add", URL)]


@pytest.mark.parametrize(
    ("answer", "served"),
    [([HEALTHY], True), ([UNHEALTHY], False), ([UNHEALTHY, HEALTHY], True), ([], False), (DOWN, False)],
)
def test_whether_a_worker_is_served(answer, served):
    assert change.is_served(Router(answer), URL) is served


@pytest.fixture(name="path")
def fixture_path(tmp_path, monkeypatch):
    monkeypatch.setattr(router_api, "engine_healthy", lambda url: (True, "status 200"))
    return str(tmp_path / "workers.json")


def test_a_worker_that_serves_is_not_touched(clock, path, monkeypatch):
    router_store.put(path, URL, entry())
    monkeypatch.setattr(router_api, "engine_healthy", lambda url: pytest.fail("the engine was asked"))
    router = Router([HEALTHY])
    assert change.serve(router, path, URL, entry(by="other"), 10) == (False, entry(), entry())
    assert router.asked == [] and router_store.read(path) == {URL: entry()}


def test_a_worker_that_ought_to_serve_and_does_not_is_brought_there(clock, path):
    router_store.put(path, URL, entry())
    router = Router([], [], [HEALTHY])
    assert change.serve(router, path, URL, entry(by="other"), 10) == (True, entry(), entry())
    assert router.asked == [("add", URL)]


def test_a_worker_that_cannot_serve_stays_in_a_router_that_ought_to_have_it(clock, path):
    router_store.put(path, URL, entry())
    router = Router([UNHEALTHY])
    with pytest.raises(change.Refused, match=r"does not serve http://a:1 after 1 s .* was left as it was"):
        change.serve(router, path, URL, entry(), 1)
    assert router.asked == [] and router_store.read(path) == {URL: entry()}


@pytest.mark.parametrize("before", [None, entry("drained")])
def test_a_worker_that_cannot_serve_leaves_a_router_that_ought_not_to_have_it(clock, path, before):
    router_store.put(path, URL, before)
    router = Router(*[[UNHEALTHY]] * 6, [])
    with pytest.raises(change.Refused, match="calls it unhealthy"):
        change.serve(router, path, URL, entry(), 1)
    assert ("remove", "1") in router.asked
    assert router_store.read(path) == ({URL: before} if before else {})


@pytest.mark.parametrize(
    ("before", "only_by", "served"),
    [
        (entry("drained", "ann"), "rollout", False),
        (entry("drained", "rollout"), "rollout", True),
        (entry("drained", "ann"), "", True),
        # Who put it in does not matter, and neither does a worker that nobody wrote down.
        (entry("serving", "ann"), "rollout", True),
        (None, "rollout", True),
    ],
)
def test_a_rollout_puts_back_what_it_took_out(clock, path, before, only_by, served):
    router_store.put(path, URL, before)
    changed, was, now = change.serve(Router([], [HEALTHY]), path, URL, entry(by="new"), 10, only_by=only_by)
    assert (changed, was) == (served, before)
    assert now == (router_store.read(path)[URL] if served else before)
    assert router_store.read(path)[URL]["state"] == ("serving" if served else "drained")


# -- taking out ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "answers", "wanted", "changed"),
    [
        (entry(), [[HEALTHY], []], "drained", True),
        (entry(), [[]], "drained", True),
        (entry("drained"), [[HEALTHY], []], "drained", True),
        (entry("drained"), [[]], "drained", False),
        (None, [[]], "absent", False),
        (None, [[HEALTHY], []], "absent", True),
    ],
)
def test_whether_taking_out_changed_anything(clock, path, before, answers, wanted, changed):
    router_store.put(path, URL, before)
    found, was, now = change.take_out(Router(*answers), path, URL, wanted, entry("drained"))
    assert (found, was, now) == (changed, before, None if wanted == "absent" else entry("drained"))


def test_a_refusal_keeps_what_comes_with_it():
    refused = change.Refused("no", requests=3)
    assert (str(refused), refused.more) == ("no", {"requests": 3})


# -- overview -----------------------------------------------------------------------------------------------------


def test_a_worker_under_two_addresses_is_healthy_once_and_has_all_requests():
    (one,) = change.overview({URL: entry()}, {URL: [UNHEALTHY, HEALTHY]})
    assert one == {"url": URL, **entry(), "in_router": True, "healthy": True, "requests": 4}
    (other,) = change.overview({}, {URL: [UNHEALTHY]})
    nobody = dict.fromkeys(router_store.FIELDS, "")
    assert other == {"url": URL, **nobody, "state": "unknown", "in_router": True, "healthy": False, "requests": 2}


def test_the_overview_is_sorted_and_has_everybody_once():
    found = change.overview({"http://c:1": entry(), "http://a:1": entry()}, {"http://b:1": [], "http://c:1": []})
    assert [(one["url"], one["in_router"], one["healthy"]) for one in found] == [
        ("http://a:1", False, False), ("http://b:1", False, False), ("http://c:1", False, False),
    ]  # fmt: skip
