# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the program beside the router does in its loops: what it waits for, how long, and what it says once only."""

from __future__ import annotations

import os
import threading

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import router_api, router_store
from ansible_collections.llmfleet.sglang.plugins.module_utils import router_sync as sync
from ansible_collections.llmfleet.sglang.tests.unit.plugins import disk_trace

A, B, C = "http://a:1", "http://b:1", "http://c:1"
DOWN = router_api.NotRunning("nothing answers")


class Ended(Exception):
    """The loop was left by the test."""


class Clock:
    """A clock that moves by sleeping only, and ends a loop after some sleeps."""

    def __init__(self):
        self.now, self.slept, self.most = 1000.0, [], 1000

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds
        if len(self.slept) >= self.most:
            raise Ended


class Router:
    """A router that has some workers, says one thing after the other if it is told so, and notes what it is asked."""

    def __init__(self, *answers):
        self.answers, self.asked, self.has = list(answers), [], {}

    def workers(self):
        answer = self.answers.pop(0) if self.answers else self.has
        if isinstance(answer, Exception):
            raise answer
        return {url: [{"id": url, "healthy": healthy}] for url, healthy in answer.items()}

    def add(self, url):
        self.asked.append(("add", url))

    def remove(self, identity):
        self.asked.append(("remove", identity))
        self.has = {url: healthy for url, healthy in self.has.items() if url != identity}


@pytest.fixture(name="clock")
def fixture_clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(sync, "time", clock)
    return clock


@pytest.fixture(name="path")
def fixture_path(tmp_path):
    return str(tmp_path / "workers.json")


def written(path, **states):
    hosts = {"a": A, "b": B, "c": C}
    router_store.write(path, {hosts[name]: router_store.entry_of(state, name, "s", "", "me", "") for name, state in
                              states.items()})  # fmt: skip


@pytest.fixture(name="healthy")
def fixture_healthy(monkeypatch):
    """Urls of the engines that answer."""
    found = {A, B, C}
    monkeypatch.setattr(router_api, "engine_healthy", lambda url, timeout: (url in found and timeout == 5.0, ""))
    return found


def test_no_engine_is_asked_where_there_is_none(healthy):
    assert sync.healthy_of([]) == set()
    healthy.discard(B)
    assert sync.healthy_of([A, B, C]) == {A, C}


def test_engines_are_asked_at_the_same_time(monkeypatch):
    together = threading.Barrier(32, timeout=20)
    monkeypatch.setattr(router_api, "engine_healthy", lambda url, timeout: (together.wait() >= 0, ""))
    assert len(sync.healthy_of([f"http://h{number}:1" for number in range(32)])) == 32


def test_an_added_worker_is_waited_for_under_the_lock(clock, path, healthy):
    written(path, a="serving")
    router, seen = Router({}, {}, {}, {}, {A: False}), []
    clock_sleep = clock.sleep
    clock.sleep = lambda seconds: (seen.append(disk_trace.is_locked(os.path.dirname(path) + "/.workers.lock")),
                                   clock_sleep(seconds))  # fmt: skip
    assert sync.once(router, path) == ([f"{A} is put in"], [])
    assert router.asked == [("add", A)] and clock.slept == [sync.LOOK] * 2 and seen == [True, True]


def test_of_two_added_workers_both_are_waited_for(clock, path, healthy):
    written(path, a="serving", b="serving")
    router = Router({}, {}, {A: False}, {A: False, B: False, C: True})
    sync.once(router, path)
    assert router.asked == [("add", A), ("add", B)] and clock.slept == [sync.LOOK]


def test_a_router_that_does_not_take_a_worker_is_not_waited_for_without_end(clock, path, healthy):
    written(path, a="serving")
    assert sync.once(Router(), path)[0] == [f"{A} is put in"]
    assert sum(clock.slept) == sync.ADDITION_SECONDS


def test_what_there_is_nothing_to_do_for_is_not_waited_for(clock, path, healthy):
    written(path, a="serving", b="drained")
    router = Router()
    router.has = {A: False, B: True}
    assert sync.once(router, path) == ([f"{B} is drained and was taken out"], [])
    assert router.asked == [("remove", B)] and clock.slept == []


def test_what_is_open_is_told_of_engines_first(clock, path, healthy):
    written(path, a="serving", b="serving")
    healthy.difference_update({A, B})
    router = Router()
    router.has = {C: True, "http://aa:1": True}
    assert sync.once(router, path) == (
        [],
        [
            f"{A} is to serve and does not answer",
            f"{B} is to serve and does not answer",
            "http://aa:1 is in the router and not written down",
            f"{C} is in the router and not written down",
        ],
    )
    assert router.asked == []


@pytest.mark.parametrize("error", [DOWN, router_api.Unexpected("status 503")])
def test_a_router_that_comes_late_is_waited_for(clock, error):
    assert sync.wait_answer(Router(error, error, {A: True}), 10) == {A: [{"id": A, "healthy": True}]}
    assert clock.slept == [sync.LOOK] * 2
    with pytest.raises(type(error)):
        sync.wait_answer(Router(*[error] * 99), 1)
    assert len(clock.slept) == 2 + 1 / sync.LOOK


@pytest.mark.parametrize(
    ("answers", "lacking", "looks"),
    [
        ([{A: True, B: True}], [], 0),
        ([{A: False, B: True}, {A: True, B: True}], [], 1),
        # What was not added is not waited for, and is told.
        ([{A: True}], [B], 0),
        ([{A: False}, {A: True}], [B], 1),
        ([{A: False, B: False}] * 99, [A, B], 4),
        # The drained one and the unknown one do not matter.
        ([{A: True, B: True, C: False, "http://d:1": False}], [], 0),
    ],
)
def test_every_worker_that_was_added_is_waited_for(clock, path, answers, lacking, looks):
    written(path, a="serving", b="serving", c="drained")
    assert sync.wait_all(Router(*answers), path, 1) == lacking
    assert clock.slept == [sync.LOOK] * looks


def test_a_start_tells_what_it_did_and_what_is_open(clock, path, healthy, capsys):
    written(path, a="serving", b="serving")
    healthy.discard(B)
    router = Router(DOWN, {}, {}, {}, {A: True})
    router.has = {A: True}
    sync.start(router, path, 5)
    assert capsys.readouterr().out.splitlines() == [
        f"{A} is put in", f"{B} is to serve and does not answer",
        "ready; 1 of the workers that are to serve are missing",
    ]  # fmt: skip


def test_a_watch_says_what_is_open_once_and_again_when_it_comes_again(clock, path, healthy, capsys):
    written(path, a="serving")
    healthy.discard(A)
    clock.most = 6
    # Not there twice, there, and not there again, with a router that is down in between twice.
    open_, there = [{}] * 2, [{A: True}] * 2
    with pytest.raises(Ended):
        sync.watch(Router(*open_, *open_, *there, DOWN, DOWN, *open_), path, 7.0)
    told = f"{A} is to serve and does not answer"
    assert capsys.readouterr().out.splitlines() == [told, "nothing answers", told]
    assert clock.slept == [7.0] * 6


def test_a_watch_tells_each_thing_that_it_does(clock, path, healthy, capsys):
    written(path, a="drained")
    clock.most = 2
    with pytest.raises(Ended):
        sync.watch(Router(*[{A: True}] * 4), path, 1)
    assert capsys.readouterr().out.splitlines() == [f"{A} is drained and was taken out"] * 2


@pytest.mark.parametrize("error", [DOWN, router_api.Unexpected("status 503"), router_store.Unreadable("no JSON")])
def test_a_watch_goes_on_whatever_it_finds(clock, path, monkeypatch, capsys, error):
    def once(*_arguments):
        raise error

    monkeypatch.setattr(sync, "once", once)
    clock.most = 3
    with pytest.raises(Ended):
        sync.watch(Router(), path, 1)
    assert capsys.readouterr().out == f"{error}\n"


def test_a_line_is_there_at_once(monkeypatch):
    written_so_far = []

    class Stream:
        def write(self, text):
            written_so_far.append(text)

        def flush(self):
            written_so_far.append("flushed")

    monkeypatch.setattr(sync.sys, "stdout", Stream())
    sync.say("ready")
    assert written_so_far == ["ready\n", "flushed"]


@pytest.mark.parametrize(
    ("words", "called"),
    [
        (["start"], ("start", 60)),
        (["start", "--seconds", "2.5"], ("start", 2.5)),
        (["watch"], ("watch", 10)),
        (["watch", "--interval", "0.5"], ("watch", 0.5)),
    ],
)
def test_the_words_of_the_command_line(monkeypatch, words, called):
    calls = []

    def noted(name):
        def call(router, path, seconds):
            assert (router.url, path) == (A, "/w")
            calls.append((name, seconds))
            if name == "watch":
                raise Ended

        return call

    monkeypatch.setattr(sync, "start", noted("start"))
    monkeypatch.setattr(sync, "watch", noted("watch"))
    argv = [*words, "--router", A, "--workers", "/w"]
    if called[0] == "watch":
        with pytest.raises(Ended):
            sync.main(argv)
    else:
        assert sync.main(argv) == 0
    assert calls == [called]


@pytest.mark.parametrize("argv", [[], ["stop", "--router", A, "--workers", "/w"], ["start", "--router", A],
                                  ["start", "--workers", "/w"]])  # fmt: skip
def test_other_words_are_refused(argv, capsys):
    with pytest.raises(SystemExit) as ended:
        sync.main(argv)
    assert ended.value.code == 2 and "usage" in capsys.readouterr().err


@pytest.mark.parametrize("error", [DOWN, router_api.Unexpected("status 503"), router_store.Unreadable("no JSON")])
def test_a_start_that_cannot_is_an_exit_status(monkeypatch, capsys, error):
    def start(*_arguments):
        raise error

    monkeypatch.setattr(sync, "start", start)
    assert sync.main(["start", "--router", A, "--workers", "/w"]) == 1
    assert capsys.readouterr().err == f"{error}\n"
