# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Words, lines and sentences of a rollout's report, and what routers say of their workers."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import fleet_report, fleet_workers

GATE = {"phase": "gate", "message": "rank 1 is missing"}


# -- workers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Task failed: Action failed: a\n  b", "a b"),
        ("Task failed: a", "a"),
        ("Module failed: a", "a"),
        ("Action failed: Task failed: a", "Task failed: a"),
        ("It said Task failed: a", "It said Task failed: a"),
        (7, "7"),
    ],
)
def test_a_message_is_one_line(text, line):
    assert fleet_workers.one_line(text) == line


def test_workers_of_the_routers_that_answered():
    asked = [
        {"item": "r1", "router_running": False, "workers": [{"url": "a"}]},
        {"item": "r2", "failed": True, "msg": "Task failed: boom", "workers": [{"url": "b"}]},
        {"item": "r3", "unreachable": True, "workers": [{"url": "b"}]},
        {"item": "r4", "skipped": True},
        {"item": "r5", "workers": [{"url": "c"}, {"url": "d"}]},
    ]
    workers, silent = fleet_workers.workers_of(asked)
    assert workers == [
        {"url": "a", "router": "r1", "reached": False},
        {"url": "c", "router": "r5", "reached": True},
        {"url": "d", "router": "r5", "reached": True},
    ]
    assert silent == [
        "router r2 did not answer: boom",
        "router r3 did not answer: no message",
        "router r4 did not answer: no message",
    ]


@pytest.mark.parametrize(
    ("worker", "rollout", "person"),
    [
        ({"state": "drained", "by": "rollout"}, True, False),
        ({"state": "drained", "by": "jo"}, False, True),
        ({"state": "drained"}, False, True),
        ({"state": "serving", "by": "rollout"}, False, False),
        ({"state": "serving", "by": "jo"}, False, False),
        ({}, False, False),
    ],
)
def test_who_took_a_worker_out(worker, rollout, person):
    assert (fleet_workers.by_rollout(worker), fleet_workers.by_person(worker)) == (rollout, person)


# -- words --------------------------------------------------------------------------------------------------------


def test_columns_are_as_wide_as_their_widest_cell():
    assert fleet_report.table([["a", "long", "c"], ["wide", "b", ""]]) == ["a     long  c", "wide  b"]


@pytest.mark.parametrize(
    ("message", "end"),
    [
        ("a", "a."),
        ("a.", "a."),
        ("a!", "a!"),
        ("a?", "a?"),
        ("a:\n b", "a: b."),
        ("", "no message."),
        (None, "no message."),
    ],
)
def test_a_message_ends_a_sentence(message, end):
    assert fleet_report.ended(message) == end


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (GATE, "a failed at the gate: rank 1 is missing."),
        ({"phase": "new phase", "message": "x"}, "a failed new phase: x."),
        ({"phase": "out"}, "a failed while it was taken out of the routers: no message."),
    ],
)
def test_a_failure_is_a_sentence(failure, sentence):
    assert fleet_report.failure_sentence("a", failure) == sentence


def test_hosts_that_a_rollout_left_beyond_this_run():
    out = {"state": "drained", "by": "rollout", "host": "z"}
    workers = [
        {**out, "router": "r1", "reason": "half"}, {**out, "router": "r2"}, {**out, "router": "r1"},
        {**out, "host": "y", "router": "r1", "reason": ""}, {**out, "host": "a", "router": "r1"},
        {**out, "host": "x", "by": "jo", "router": "r1"},
    ]  # fmt: skip
    found = fleet_report.left_beyond(workers, ["a"])
    assert list(found) == ["z", "y"]
    assert found["z"].startswith("z is out of router r1, r2 since a rollout that did not end there (half),")
    assert "(no reason given)" in found["y"]


# -- outcomes -----------------------------------------------------------------------------------------------------

FAILED = "a failed at the gate: rank 1 is missing."


@pytest.mark.parametrize(
    ("facts", "outcome", "sentence"),
    [
        ({"back": "done"}, "went back", ""),
        ({"back": "done", "failure": GATE}, "went back", FAILED),
        (
            {"back": "failed", "failure": GATE, "back_message": "no"},
            "out",
            f"{FAILED} And a could not go back and is left out of the routers: no.",
        ),
        ({"back": "failed"}, "out", "a could not go back and is left out of the routers: no message."),
        (
            {"back": "none", "failure": GATE},
            "out",
            f"{FAILED} There is nothing to go back to: it is left out of the routers.",
        ),
        (
            {"back": "none"},
            "out",
            "a was given up with its batch. There is nothing to go back to: it is left out of the",
        ),
        ({"failure": GATE, "done": True}, "failed", FAILED),
        ({"done": True}, "done", ""),
        ({"phase": "soak"}, "untouched", ""),
    ],
)
def test_the_outcome_and_its_sentence(facts, outcome, sentence):
    run = {"hosts": {"a": {f"rollout_{name}": value for name, value in facts.items()}}, "lost": []}
    found = fleet_report.outcome_of("a", run, {"skipped": [], "left_out": []})
    assert found[0] == outcome and (found[1].startswith(sentence) if sentence else found[1] == "")


@pytest.mark.parametrize(
    ("phase", "told"),
    [("soak", "any more (in the soak). Nothing"), (None, "any more. Nothing"), ("odd", "any more. Nothing")],
)
def test_who_was_lost_is_unreachable_whatever_it_had_done(phase, told):
    run = {"hosts": {"a": {"rollout_phase": phase, "rollout_done": True}}, "lost": ["a"]}
    outcome, sentence = fleet_report.outcome_of("a", run, {"skipped": ["a"], "left_out": []})
    assert outcome == "unreachable" and told in sentence


def test_who_was_not_touched_and_why():
    run, planned = {"hosts": {"a": {}, "b": {}, "c": {}}, "lost": []}, {"skipped": ["a"], "left_out": ["b"]}
    found = [fleet_report.outcome_of(host, run, planned) for host in "abc"]
    assert found == [("there already", ""), ("left alone", ""), ("untouched", "")]


def reported(**more):
    planned = {"batches": [{"number": 3, "hosts": ["a"]}], "skipped": [], "left_out": [], "drained": {}}
    run = {"order": ["a", "b"], "hosts": {"a": {"rollout_done": True}, "b": {}}, "plan": planned, "lost": []}
    return fleet_report.report({**run, **more})


def worker(host, state="serving", by=""):
    return {"host": host, "state": state, "by": by}


def test_a_report_without_routers():
    assert reported() == {
        "lines": [
            "host  batch  outcome    routers",
            "a     3      done       no router",
            "b     none   untouched  no router",
        ],
        "problems": [],
        "out": [],
    }


def test_a_report_with_routers():
    first = {"item": "r1", "workers": [worker("a"), worker("b", "drained", "jo")]}
    second = {"item": "r2", "workers": [worker("a", "unknown"), worker("a")]}
    silent = {"item": "r3", "failed": True, "msg": "boom"}
    found = reported(asked=[first, second, silent], stopped="Batch 3 failed.")
    assert found["lines"][1:] == [
        "a     3      done       serving, unknown",
        "b     none   untouched  drained",
        "b is out of the routers: no reason given",
    ]
    assert found["problems"] == [
        "Batch 3 failed.",
        "router r3 did not answer: boom; which hosts it serves is not known.",
    ]
    assert found["out"] == ["b"]


def test_a_host_that_no_router_names_is_not_known_to_be_served():
    found = reported(asked=[{"item": "r1", "workers": [worker("a")]}])
    assert [line.split()[-1] for line in found["lines"][1:]] == ["serving", "unknown"]


def test_the_reason_of_the_first_router_is_told():
    asked = [
        {"item": name, "workers": [{**worker("b", "drained", "jo"), "reason": reason}]}
        for name, reason in (("r1", "fan"), ("r2", "memory"))
    ]
    assert reported(asked=asked)["lines"][-1] == "b is out of the routers: fan"
