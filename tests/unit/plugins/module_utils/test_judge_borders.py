# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each step of the judgement at its borders: ranks, sizes, the unit's state, readiness, witnesses, and the result."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_evidence, hicache_judge
from ansible_collections.llmfleet.sglang.plugins.module_utils.hicache_judge import Around, Ask, Rank, Reasons

A, B = "a" * 32, "b" * 32


def alloc(tags=(), gb=44.77, tokens=None, role="by_order", pool="kv", **fields):
    known = {"origin": None, "pid": None, "packed": None, "labelled": False, "item": None, "number": 1, "time": None}
    return hicache_evidence.Allocation(tags=tags, gb=gb, tokens=tokens, role=role, pool=pool, **{**known, **fields})


def tp(number):
    return (("TP", number),)


def rank(tags=(), gb=44.77, draft=None, **fields):
    one = Rank(" ".join(f"{word}{number}" for word, number in tags) or "#1", tags)
    one.main = alloc(tags, gb, **fields)
    one.draft = alloc(tags, draft) if draft else None
    return one


def start_of(*, settings=None, ready=None, begun=True, device=None, pools=None, **fields):
    start = hicache_evidence.Start()
    start.begun = begun
    if settings is not None:
        start.of(None).settings = settings
    if ready is not None:
        start.become_ready(None, ready, None)
    for (origin, tags), tokens in (device or {}).items():
        start.figure("device_tokens", origin, tags, tokens)
    for (origin, tags), tokens in (pools or {}).items():
        start.figure("device_pool", origin, tags, tokens)
    for name, value in fields.items():
        setattr(start, name, value)
    return start


def codes(reasons):
    return [(item["verdict"], item["code"]) for item in reasons.items]


# -- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("ranks", 4096),
        ("expected_gb", 1_000_000),
        ("ratio", 10_000),
        ("hicache_size", 1_000_000),
        ("bytes_per_token", 1_000_000_000),
        ("draft_bytes_per_token", 1_000_000_000),
        ("page_size", 1_000_000),
        ("tolerance_gb", 1000),
    ],
)
def test_numbers_of_an_ask_have_limits(name, most):
    least = 0
    for value in (least, most):
        hicache_judge.check_ask(Ask(**{name: value}))
    for value in (least - 1, most + 1, float("nan"), float("inf"), -float("inf"), True, 10**400, -(10**400)):
        with pytest.raises(ValueError, match=f"{name} is "):
            hicache_judge.check_ask(Ask(**{name: value}))


@pytest.mark.parametrize(
    ("value", "shown"),
    [(10**20 - 1, "99999999999999999999"), (10**20, "a number of more than 20 digits"), (-5, "-5"), (1e300, "1e+300")],
)
def test_a_number_out_of_limits_is_shown(value, shown):
    assert hicache_judge.check_number("x", value, 0, 10).startswith(f"x is {shown}: it has to be a number from 0 to 10")


# -- ranks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (["8"], [tp(8)]),
        ([8, 0], [tp(8), tp(0)]),
        (["8-10"], [tp(8), tp(9), tp(10)]),
        (["8 - 8"], [tp(8)]),
        (["tp8"], [tp(8)]),
        (["PP0 TP3", "PP0,TP4"], [(("PP", 0), ("TP", 3)), (("PP", 0), ("TP", 4))]),
        (["999999"], [tp(999999)]),
        (["0-4095"], [tp(number) for number in range(4096)]),
    ],
)
def test_ranks_that_are_named(values, found):
    assert hicache_judge.parse_rank_set(values) == found


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], "is empty"),
        ([""], "names no rank"),
        (["9-8"], "names no rank"),
        (["0-4096"], "names no rank"),
        (["1000000"], "names no rank"),
        (["XX3"], "names no rank"),
        (["TP"], "names no rank"),
        (["PP0 3"], "names no rank"),
        (["0-4095", "5000-5000"], "more than 4096"),
        (["8", "TP8"], "a rank twice"),
    ],
)
def test_ranks_that_are_not_named(values, words):
    with pytest.raises(ValueError, match=words):
        hicache_judge.parse_rank_set(values)


def dp(number):
    return (("DP", number),)


def pair(stage, number):
    return (("PP", stage), ("TP", number))


@pytest.mark.parametrize(
    ("tags", "ask", "found"),
    [
        ([tp(0), tp(1)], Ask(ranks=2), (2, [], [])),
        ([tp(0)], Ask(), (1, [], [])),
        ([], Ask(), (1, ["1 more"], [])),
        ([], Ask(ranks=8), (8, ["8 more"], [])),
        ([tp(0), tp(2)], Ask(ranks=4), (4, ["TP1", "TP3"], [])),
        ([tp(0), tp(2)], Ask(ranks=2), (2, ["TP1"], ["TP2"])),
        ([tp(1)], Ask(ranks=1), (1, [], [])),
        # The ranks of a second node begin with a multiple of their number.
        ([tp(8), tp(9), tp(11)], Ask(ranks=4), (4, ["TP10"], [])),
        ([tp(0), tp(1), tp(2)], Ask(ranks=2), (2, [], ["TP2"])),
        ([tp(0)], Ask(ranks=0), (0, [], ["TP0"])),
        # Without numbers of TP ranks are counted.
        ([(), ()], Ask(ranks=4), (4, ["2 more"], [])),
        ([(), ()], Ask(ranks=2), (2, [], [])),
        ([dp(0), dp(1), dp(3)], Ask(ranks=4), (4, ["1 more"], [])),
        # Of stages and ranks the missing one is the hole in their product.
        ([pair(0, 0), pair(0, 1), pair(1, 1)], Ask(ranks=4), (4, ["PP1 TP0"], [])),
        ([pair(0, 0), pair(1, 1)], Ask(ranks=4), (4, ["PP0 TP1", "PP1 TP0"], [])),
        ([pair(0, 0), pair(0, 1)], Ask(ranks=4), (4, ["TP2", "TP3"], [])),
        # Named ranks.
        ([tp(8), tp(9)], Ask(rank_set=["8-9"]), (2, [], [])),
        ([tp(8)], Ask(rank_set=["8-9"]), (2, ["TP9"], [])),
        ([tp(8), tp(10)], Ask(rank_set=["8-9"]), (2, ["TP9"], ["TP10"])),
        ([pair(1, 0)], Ask(rank_set=["PP1 TP0", "PP1 TP1"]), (2, ["PP1 TP1"], [])),
        ([dp(0)], Ask(rank_set=["0-1"]), (2, ["DP1"], [])),
        ([pair(0, 8)], Ask(rank_set=["8"]), (1, [], [])),
        ([(), ()], Ask(rank_set=["0-3"]), (4, ["2 more"], [])),
        ([], Ask(rank_set=["0-3"]), (4, ["4 more"], [])),
        ([(), (), ()], Ask(rank_set=["0-1"]), (2, [], ["#1"])),
        ([pair(0, 1)], Ask(rank_set=["TP1", "PP0"]), (2, ["1 more"], [])),
    ],
)
def test_which_ranks_are_missing_and_which_are_odd(tags, ask, found):
    assert hicache_judge.compare_ranks([rank(one) for one in tags], ask) == found


def test_a_rank_without_a_main_pool_is_not_seen():
    half = rank(tp(1))
    half.main = None
    assert hicache_judge.compare_ranks([rank(tp(0)), half], Ask(ranks=2)) == (2, ["TP1"], [])


# -- figures of the start -------------------------------------------------------------------------------------------

G0, G1 = (None, (("DP", 0), ("TP", 0))), (None, (("DP", 1), ("TP", 4)))


@pytest.mark.parametrize(
    ("device", "pools", "tags", "tokens"),
    [
        ({}, {}, tp(0), None),
        ({(None, tp(0)): 100}, {}, tp(3), 100),
        ({(None, tp(0)): 100}, {(None, tp(0)): 200}, tp(0), 100),
        # Of several groups each has its leader's.
        ({G0: 100, G1: 200}, {}, (("DP", 1), ("TP", 5)), 200),
        ({G0: 100, G1: 200}, {}, (("DP", 0), ("TP", 1)), 100),
        ({G0: 100, G1: 200}, {}, (("DP", 2), ("TP", 1)), None),
        ({G0: 100, G1: 200}, {}, None, 100),
        ({}, {(None, tp(0)): 100, (None, tp(1)): 100}, tp(7), 100),
        ({}, {(None, tp(0)): 100, (None, tp(1)): 200}, tp(1), 200),
        ({}, {(None, tp(0)): 100, (None, tp(1)): 200}, tp(2), None),
        ({}, {(None, tp(0)): 100, (None, tp(1)): 200}, None, 100),
    ],
)
def test_tokens_of_the_device(device, pools, tags, tokens):
    assert hicache_judge.device_tokens_of(start_of(device=device, pools=pools), tags) == tokens


@pytest.mark.parametrize(
    ("settings", "asked", "found"),
    [
        ({}, None, (1, False)),
        ({}, 64, (64, True)),
        ({"page_size": 1}, 64, (1, True)),
        ({"page_size": 0}, 64, (64, True)),
        ({"page_size": True}, 64, (64, True)),
        ({"page_size": 10**6}, None, (10**6, True)),
        ({"page_size": 10**6 + 1}, None, (1, False)),
    ],
)
def test_the_page_size_is_the_starts_own_before_the_asks(settings, asked, found):
    assert hicache_judge._page_size(start_of(settings=settings), Ask(page_size=asked)) == found


def test_a_labelled_line_proves_a_release():
    start = start_of(allocations=[alloc(labelled=True)])
    assert hicache_judge.release_of(start, Ask()) == hicache_judge.hicache_size.FIRST_LABELLED
    assert hicache_judge.release_of(start, Ask(release="0.5.23")) == (0, 5, 23, 0)
    assert hicache_judge.release_of(start_of(allocations=[alloc()]), Ask()) is None


@pytest.mark.parametrize(
    ("tolerance", "expected", "tight"),
    [(0.05, 0.1, True), (0.06, 0.1, False), (0.06, 0.6, True), (1, 10, True), (1.1, 10, False)],
)
def test_a_tolerance_that_tells_sizes_apart(tolerance, expected, tight):
    assert hicache_judge._tight(Ask(tolerance_gb=tolerance), expected) is tight


@pytest.mark.parametrize(
    ("sizes", "tags", "odd"),
    [
        ([44.77, 44.78], [tp(0), tp(1)], ""),
        ([44.77, 44.79], [tp(0), tp(1)], "TP1 44.79 GB"),
        ([44.77, 44.77, 50.0], [tp(0), tp(1), tp(2)], "TP2 50.00 GB"),
        # Pipeline stages have sizes of their own.
        ([10.0, 20.0], [pair(0, 0), pair(1, 0)], ""),
        ([10.0, 20.0], [pair(0, 0), pair(0, 1)], "PP0 TP1 20.00 GB"),
    ],
)
def test_ranks_of_one_stage_agree(sizes, tags, odd):
    reasons = Reasons()
    right = hicache_judge._check_equal([rank(one, gb) for one, gb in zip(tags, sizes)], reasons)
    assert right is not bool(odd)
    assert codes(reasons) == ([("fail", "sizes_differ")] if odd else [])
    assert odd in (reasons.items[0]["message"] if odd else "")


@pytest.mark.parametrize(
    ("gb", "tokens", "tolerance", "right"),
    [
        (1.0, 10**5, 0.01, True),
        (1.01, 10**5, 0.01, True),
        (1.02, 10**5, 0.01, False),
        # A small pool is told apart by its own size, whatever tolerance was asked for.
        (1.1, 10**5, 5, True),
        (1.11, 10**5, 5, False),
        (1.02, None, 0.01, True),
    ],
)
def test_tokens_and_size_of_a_line_give_the_bytes_of_a_token(gb, tokens, tolerance, right):
    reasons = Reasons()
    ask = Ask(bytes_per_token=10**4, tolerance_gb=tolerance)
    assert hicache_judge._check_tokens([rank(tp(0), gb, tokens=tokens)], ask, reasons) is right
    assert codes(reasons) == ([] if right else [("fail", "bytes_per_token_wrong")])


def test_packed_layers_count_with_the_bytes_of_a_token():
    assert hicache_judge._packed(alloc(packed=(61, 62)), 6100) == [6100.0, 6200.0]
    assert hicache_judge._packed(alloc(packed=(0, 62)), 6100) == [6100.0]
    assert hicache_judge._packed(alloc(), 6100) == [6100.0]


@pytest.mark.parametrize(
    ("mains", "ask", "release", "found"),
    [
        ([rank(tp(0), 10.0, 1.0, tokens=10**6)], {}, None, (True, [])),
        ([rank(tp(0), 10.0, 1.01, tokens=10**6)], {}, None, (True, [])),
        ([rank(tp(0), 10.0, 1.05, tokens=10**6)], {}, None, (False, ["draft_size_wrong"])),
        # Without tokens the bytes of the main pool give them.
        ([rank(tp(0), 10.0, 1.0)], {"bytes_per_token": 10**4}, None, (True, [])),
        ([rank(tp(0), 10.0, 1.1)], {"bytes_per_token": 10**4}, None, (False, ["draft_size_wrong"])),
        ([rank(tp(0), 10.0, 1.0)], {}, None, (None, ["draft_not_compared"])),
        # One rank without, or a release that makes them.
        ([rank(tp(0), 10.0, 1.0, tokens=10**6), rank(tp(1), 10.0)], {}, None, (False, ["draft_missing"])),
        ([rank(tp(0), 10.0, tokens=10**6)], {}, None, (True, [])),
        ([rank(tp(0), 10.0, tokens=10**6)], {}, "0.5.10", (True, [])),
        ([rank(tp(0), 10.0, tokens=10**6)], {}, "0.5.11", (False, ["draft_missing"])),
        ([rank(tp(0), 10.0, tokens=10**6, packed=(61, 62))], {}, "0.5.17", (True, [])),
    ],
)
def test_the_pool_of_a_draft(mains, ask, release, found):
    reasons = Reasons()
    asked = Ask(draft_bytes_per_token=1000, release=release, page_size=1, **ask)
    right = hicache_judge._check_draft(start_of(), mains, asked, reasons)
    assert (right, [item["code"] for item in reasons.items]) == found
    assert hicache_judge._check_draft(start_of(), mains, asked._replace(draft_bytes_per_token=None), Reasons()) is True


# -- reasons and the unit -------------------------------------------------------------------------------------------


def test_the_first_reason_of_a_code_counts_and_their_number_is_bounded():
    reasons = Reasons()
    reasons.fail("x", "first")
    reasons.note("x", "second")
    assert reasons.items == [{"code": "x", "message": "first", "verdict": "fail"}]
    for number in range(50):
        reasons.note(f"code-{number}", "more")
    assert len(reasons.items) == 40
    reasons = Reasons()
    for add in (reasons.fail, reasons.unknown, reasons.good, reasons.note):
        add(add.__name__, "words")
    assert codes(reasons) == [("fail", "fail"), ("inconclusive", "unknown"), ("pass", "good"), ("note", "note")]


@pytest.mark.parametrize(
    ("count", "found"),
    [(0, "none"), (1, "0"), (2, "0 and 1"), (3, "0, 1 and 2"), (9, "0, 1, 2, 3, 4, 5, 6, 7 and 1 more")],
)
def test_names_in_a_row(count, found):
    assert hicache_judge._join(str(number) for number in range(count)) == found
    assert hicache_judge._join(map(str, range(8))) == "0, 1, 2, 3, 4, 5, 6 and 7"


@pytest.mark.parametrize(
    ("unit", "code"),
    [
        (None, None),
        ({}, None),
        ({"ActiveState": "active"}, None),
        ({"ActiveState": "activating"}, None),
        ({"LoadState": "not-found", "ActiveState": "inactive"}, "unit_not_found"),
        ({"InvocationID": A}, None),
        ({"InvocationID": B}, "restarted"),
        ({"InvocationID": ""}, None),
        ({"ActiveState": "failed"}, "unit_failed"),
        ({"ActiveState": "inactive"}, "unit_inactive"),
        ({"ActiveState": "deactivating"}, "unit_inactive"),
        ({"ActiveState": "activating", "SubState": "auto-restart"}, "restart_scheduled"),
        ({"ActiveState": "activating", "SubState": "auto-restart-queued"}, "restart_scheduled"),
    ],
)
def test_the_state_of_the_unit(unit, code):
    reasons = Reasons()
    assert hicache_judge._unit_dead(Around(unit=unit, invocation=A), reasons) is bool(code)
    assert codes(reasons) == ([("fail", code)] if code else [])
    if code == "restarted":
        assert not hicache_judge._unit_dead(Around(unit=unit), Reasons())


OWNER = {"ours": False, "port": 30000, "pid": 7, "comm": "nc", "unit": None}


@pytest.mark.parametrize(("ours", "taken"), [(False, True), (True, False), (None, False)])
def test_a_port_that_somebody_else_holds(ours, taken):
    reasons = Reasons()
    assert hicache_judge._port_taken(Around(owner={**OWNER, "ours": ours}), reasons) is taken
    assert codes(reasons) == ([("fail", "port_taken")] if taken else [])
    assert not hicache_judge._port_taken(Around(), reasons)


@pytest.mark.parametrize(
    ("unit", "health", "owner", "serves"),
    [
        ("active", True, True, True),
        ("activating", True, True, True),
        ("reloading", True, True, True),
        ("failed", True, True, False),
        (None, True, True, False),
        ("active", False, True, False),
        ("active", None, True, False),
        ("active", True, False, False),
        ("active", True, None, True),
    ],
)
def test_a_unit_that_serves(unit, health, owner, serves):
    around = Around(
        unit={"ActiveState": unit} if unit else None,
        health={"ok": health, "message": "x"},
        owner={**OWNER, "ours": owner},
    )
    assert hicache_judge._serves(around) is serves
    assert not hicache_judge._serves(around._replace(health=None))


@pytest.mark.parametrize(
    ("verdict", "allocation", "dead", "sizes", "missing", "odd", "ready", "phase"),
    [
        ("pass", "pass", False, True, [], [], True, "done"),
        ("fail", "fail", True, True, ["TP1"], [], False, "done"),
        ("fail", "fail", False, False, ["TP1"], [], False, "done"),
        ("fail", "fail", False, True, ["TP1"], ["TP9"], False, "done"),
        ("fail", "fail", False, True, [], [], False, "done"),
        # Ranks may still come.
        ("fail", "fail", False, True, ["TP1"], [], False, "wait"),
        ("fail", "fail", False, True, ["TP1"], [], True, "settle"),
        ("inconclusive", "inconclusive", False, None, [], [], True, "settle"),
        ("inconclusive", "pass", False, True, [], [], True, "wait"),
        ("inconclusive", "pass", False, True, [], [], False, "wait"),
    ],
)
def test_what_a_caller_that_waits_does(verdict, allocation, dead, sizes, missing, odd, ready, phase):
    start = SimpleNamespace(ready=ready)
    assert hicache_judge._phase(start, verdict, allocation, dead, sizes, missing, odd) == phase


@pytest.mark.parametrize(
    ("effect", "number", "writer", "claim"),
    [("death", 6, "app", True), ("death", 5, "app", False), ("death", 4, "app", False), ("death", 6, "systemd", False)],
)
def test_a_death_that_a_client_may_have_written(effect, number, writer, claim):
    start = start_of(ready=5)
    start.die(None, hicache_evidence.Death("x", effect, "a", "t", number, (), None, {"writer": writer}))
    assert bool(hicache_judge.is_claim(start, start.deaths[0])) is claim
    assert bool(hicache_judge.only_claims(start)) is claim
    start.die(None, hicache_evidence.Death("y", effect, "a", "t", 7, (), None, {"writer": "systemd"}))
    assert hicache_judge.only_claims(start) is False
    assert hicache_judge.only_claims(start_of(ready=5)) is False
    assert not hicache_judge.is_claim(start_of(), start.deaths[0])


@pytest.mark.parametrize(
    ("release", "labelled", "words", "others"),
    [
        (None, False, "from 0.5.19 divides", "."),
        ("0.5.18", False, "alone; a rank", "divides"),
        ("0.5.19", False, "alone, and divides the rest", "from 0.5.19"),
        (None, True, "from 0.5.19 divides", "nothing"),
    ],
)
def test_how_memory_is_refused(release, labelled, words, others):
    start = start_of(allocations=[alloc(labelled=True)] if labelled else [])
    told = hicache_judge._memory_rule(start, Ask(release=release))
    assert words in told and (others == "." or others not in told)


# -- readiness ------------------------------------------------------------------------------------------------------

FINE, ILL, UNSURE = ({"ok": ok, "message": f"health {ok}"} for ok in (True, False, None))


@pytest.mark.parametrize(
    ("readiness", "ready", "begun", "health", "owner", "found", "told"),
    [
        ("none", None, True, ILL, None, True, ["readiness_not_asked"]),
        ("auto", 5, True, None, None, True, ["ready"]),
        ("auto", 5, True, FINE, None, True, ["ready", "healthy"]),
        ("auto", 5, True, ILL, None, "fail", ["ready", "unhealthy"]),
        ("auto", 5, True, UNSURE, None, None, ["ready", "health_unknown"]),
        ("auto", None, True, None, None, None, ["not_ready"]),
        ("auto", None, True, FINE, None, None, ["not_ready", "healthy"]),
        ("auto", None, False, FINE, None, True, ["healthy"]),
        ("auto", None, True, ILL, None, None, ["not_ready", "unhealthy"]),
        ("line", 5, True, ILL, None, True, ["ready"]),
        ("line", None, False, FINE, None, None, ["not_ready"]),
        ("health", None, True, FINE, None, True, ["healthy"]),
        ("health", None, True, ILL, None, "fail", ["unhealthy"]),
        ("health", None, True, None, None, None, []),
        ("health", 5, True, UNSURE, None, None, ["ready", "health_unknown"]),
        # Who listens is not known: only the start's own line counts.
        ("auto", 5, True, FINE, None, True, ["ready", "healthy"]),
        ("auto", 5, True, FINE, {"ours": None}, True, ["ready", "healthy", "port_owner_unknown"]),
        ("auto", None, False, FINE, {"ours": None}, None, ["healthy", "port_owner_unknown"]),
        ("auto", None, False, FINE, {"ours": True}, True, ["healthy"]),
    ],
)
def test_when_a_start_is_ready(readiness, ready, begun, health, owner, found, told):
    reasons = Reasons()
    around = Around(health=health, owner={**OWNER, **owner} if owner else None)
    start = start_of(ready=ready, begun=begun)
    assert hicache_judge._readiness(start, Ask(readiness=readiness), around, reasons, "pass", False) == found
    assert [item["code"] for item in reasons.items] == told
    assert hicache_judge._readiness(start, Ask(readiness=readiness), around, Reasons(), "pass", True) is None


@pytest.mark.parametrize(
    ("settings", "begun", "lost", "absent"),
    [
        ({}, True, False, False),
        ({}, False, False, True),
        ({}, True, True, True),
        ({"node_rank": 1}, True, False, True),
        ({"node_rank": 0}, True, False, False),
        ({"node_rank": None}, True, False, False),
        ({"log_level": "warning"}, True, False, True),
        ({"log_level": "ERROR"}, True, False, True),
        ({"log_level": "info"}, True, False, False),
        ({"log_level": 5}, True, False, False),
    ],
)
def test_where_a_ready_line_may_be_absent(settings, begun, lost, absent):
    start = start_of(settings=settings, begun=begun)
    if lost:
        start.lose("x", "words")
    assert bool(hicache_judge.line_may_be_absent(start)) is absent


@pytest.mark.parametrize(
    ("marks", "level", "speaks"),
    [
        (set(), None, False),
        ({"startup_complete", "request", "serving"}, None, False),
        ({"request", "weights"}, None, True),
        ({"weights"}, "error", False),
    ],
)
def test_where_messages_of_level_info_are_seen(marks, level, speaks):
    start = start_of(settings={"log_level": level} if level else {})
    start.of(None).marks = marks
    assert hicache_judge._speaks(start) is speaks


# -- witnesses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("info", "ask", "found"),
    [
        ({"enable_hierarchical_cache": True}, {}, True),
        ({"enable_hierarchical_cache": False}, {}, False),
        ({"hicache_ratio": 4.0}, {"ratio": 4.0}, True),
        ({"hicache_ratio": 2.0}, {"ratio": 4.0}, False),
        ({"hicache_ratio": 4.0 + 1e-6}, {"ratio": 4.0}, False),
        ({"hicache_ratio": float("nan")}, {"ratio": 4.0}, False),
        ({"hicache_ratio": "4"}, {"ratio": 4.0}, True),
        ({"hicache_ratio": 2.0}, {}, True),
        ({"hicache_ratio": 4.0, "hicache_size": 30}, {"ratio": 4.0}, False),
        ({"hicache_ratio": 2.0, "hicache_size": 30}, {"hicache_size": 30}, True),
        ({"hicache_ratio": 2.0, "hicache_size": 30}, {"ratio": 4.0, "hicache_size": 30}, True),
        ({"hicache_size": 20}, {"hicache_size": 30}, False),
        ({"hicache_size": None}, {"hicache_size": 30}, True),
        ({"max_total_num_tokens": 100}, {}, True),
        ({"max_total_num_tokens": 101}, {}, False),
        ({"max_total_num_tokens": "101"}, {}, True),
    ],
)
def test_what_the_running_server_reports(info, ask, found):
    reasons = Reasons()
    start = start_of(device={(None, tp(0)): 100})
    agrees = hicache_judge._witnesses(start, Ask(**ask), Around(server_info={"x": 1, **info}), [], 1, reasons)
    assert agrees is found
    assert codes(reasons) == [("pass", "server_info_agrees") if found else ("inconclusive", "server_info_differs")]
    # Groups with tokens of their own have no single number.
    several = start_of(device={(None, tp(0)): 100, (None, tp(1)): 200})
    if "max_total_num_tokens" in info:
        assert hicache_judge._witnesses(several, Ask(), Around(server_info=info), [], 1, Reasons()) is True


@pytest.mark.parametrize(
    ("tokens", "mains", "ask", "found"),
    [
        ([], [rank(tp(0), 1.0)], {}, (True, "metrics_absent")),
        ([0], [rank(tp(0), 1.0)], {}, (True, "metrics_absent")),
        ([100], [], {}, (True, "metrics_show")),
        ([100], [rank(tp(0), 1.0, tokens=100)], {}, (True, "metrics_agree")),
        ([101], [rank(tp(0), 1.0, tokens=100)], {}, (False, "metrics_differ")),
        ([100, 101], [rank(tp(0), 1.0, tokens=100)], {}, (False, "metrics_differ")),
        ([10**5], [rank(tp(0), 1.0)], {"bytes_per_token": 10**4}, (True, "metrics_agree")),
        ([101500], [rank(tp(0), 1.0)], {"bytes_per_token": 10**4}, (True, "metrics_agree")),
        ([101600], [rank(tp(0), 1.0)], {"bytes_per_token": 10**4}, (False, "metrics_differ")),
        ([100], [rank(tp(0), 1.0)], {}, (True, None)),
    ],
)
def test_what_the_metrics_show(tokens, mains, ask, found):
    reasons = Reasons()
    around = Around(metrics=[{"labels": {}, "tokens": one} for one in tokens])
    agrees = hicache_judge._witnesses(start_of(), Ask(**ask), around, mains, 1, reasons)
    assert (agrees, next((item["code"] for item in reasons.items), None)) == found
    shared = rank(tp(0), 0.0, role="shared")
    assert hicache_judge._witnesses(start_of(), Ask(), around, [shared], 1, Reasons()) is True


@pytest.mark.parametrize(
    ("tokens", "each", "sizes", "measured"),
    [
        ([10**5], 10**4, [1.0, 1.015], True),
        ([10**5], 10**4, [1.0, 1.016], False),
        ([10**5, 2 * 10**5], 10**4, [1.0, 2.0], True),
        ([0], 10**4, [1.0], False),
        ([], 10**4, [1.0], False),
        ([10**5], None, [1.0], False),
    ],
)
def test_sizes_that_the_metrics_measure(tokens, each, sizes, measured):
    metrics = [{"labels": {}, "tokens": one} for one in tokens]
    ranks = [rank(tp(number), gb) for number, gb in enumerate(sizes)]
    assert hicache_judge._measured(metrics, ranks, Ask(bytes_per_token=each)) is measured
    assert hicache_judge._measured(None, ranks, Ask(bytes_per_token=each)) is False


# -- the result -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begin", "end", "seconds"),
    [(10.0, 12.3456, 2.346), (10.0, 10.0, 0.0), (10.0, 9.0, None), ("x", 12.0, None), (10.0, "x", None)],
)
def test_the_seconds_of_a_start(begin, end, seconds):
    start = start_of(started_at=begin)
    start.become_ready(None, 5, end)
    result, _phase = hicache_judge.judge(start, Ask(ranks=0))
    assert result["seconds_to_ready"] == seconds
    assert result["started_at"] == ("1970-01-01T00:00:10.000000Z" if begin == 10.0 else begin)


RESULT = {
    "verdict": "pass", "ranks_seen": 8, "ranks_expected": 8, "per_rank_gb": [44.77, 0.73], "expected_gb": 44.77,
    "total_gb": 364.0, "seconds_to_ready": 312.4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({}, "pass: 8 of 8 ranks, 44.77 + 0.73 GB each (expected 44.77 GB), 364.00 GB in total, ready after 312 s"),
        ({"per_rank_gb": []}, "pass: 8 of 8 ranks (expected 44.77 GB), 364.00 GB in total, ready after 312 s"),
        (
            {"per_rank_gb": [5, 4, 3, 2, 1], "expected_gb": None, "seconds_to_ready": None},
            "pass: 8 of 8 ranks, 5.00 + 4.00 + 3.00 + 2.00 GB each, 364.00 GB in total",
        ),
        (
            {"expected_gb": 0.0, "seconds_to_ready": 0.0},
            "pass: 8 of 8 ranks, 44.77 + 0.73 GB each (expected 0.00 GB), 364.00 GB in total, ready after 0 s",
        ),
    ],
)
def test_the_verdict_in_one_line(changed, line):
    assert hicache_judge.summary({**RESULT, **changed}) == line


def test_the_reasons_of_the_verdict_explain_it():
    reasons = [{"verdict": "fail", "message": f"{number}."} for number in range(8)]
    reasons.insert(0, {"verdict": "note", "message": "note."})
    told = hicache_judge.explain({**RESULT, "verdict": "fail", "reasons": reasons}, "x.service")
    assert told.startswith("x.service: fail: 8 of 8 ranks") and told.endswith(". 0. 1. 2. 3. 4. 5.")


@pytest.mark.parametrize(
    ("readiness", "ready", "shown"),
    [("none", None, False), ("none", 5, True), ("auto", 5, True), ("auto", None, False), ("line", 5, True)],
)
def test_a_result_is_ready_where_something_says_so(readiness, ready, shown):
    result, _phase = hicache_judge.judge(start_of(ready=ready), Ask(ranks=0, readiness=readiness))
    assert result["ready"] is shown


@pytest.mark.parametrize(
    ("settings", "health", "words"),
    [
        ({"node_rank": 1}, None, "; only node 0 prints it, so set readiness to none on the other nodes."),
        ({"node_rank": 1}, FINE, None),
        ({"node_rank": 0}, FINE, ", although the health address answers: another server may hold the port."),
        ({}, ILL, "says that the server is ready."),
    ],
)
def test_why_a_start_is_not_ready(settings, health, words):
    reasons = Reasons()
    around = Around(health=health)
    hicache_judge._readiness(start_of(settings=settings), Ask(readiness="auto"), around, reasons, "pass", False)
    told = [item["message"] for item in reasons.items if item["code"] == "not_ready"]
    assert [message.endswith(words) for message in told] == ([True] if words else [])


@pytest.mark.parametrize(
    ("progress", "shown"),
    [("x" * 199, "x" * 199), ("x" * 200, "x" * 200), (None, "nothing"), ("x" * 201, "x" * 197 + "...")],
)
def test_a_deadline_tells_the_last_progress(progress, shown):
    start = start_of(progress=progress, allocations=[alloc(tp(0))])
    result, _phase = hicache_judge.judge(start, Ask(ranks=2), Around(deadline=12.5))
    (told,) = [item for item in result["reasons"] if item["code"] == "deadline"]
    assert told["verdict"] == result["verdict"] != "pass"
    assert f"not complete after 12.5 s; last progress seen: {shown}. Raise" in told["message"]
    assert result["progress"] == (shown if progress else None)
    result, _phase = hicache_judge.judge(start, Ask(ranks=2), Around())
    assert "deadline" not in [item["code"] for item in result["reasons"]]


@pytest.mark.parametrize(
    ("fields", "allocation", "code"),
    [
        # One rank of two.
        ({}, "fail", "rank_missing"),
        ({"losses": True}, "inconclusive", "evidence_lost"),
        ({"unclear": [tp(1)]}, "inconclusive", "unclear_line"),
        ({"begun": False, "ready": 5}, "inconclusive", "start_rotated_away"),
        ({"begun": False}, "fail", "rank_missing"),
        ({"settings": {"log_level": "error"}}, "inconclusive", "log_level"),
        ({"cuts": [tp(1)]}, "fail", "line_cut"),
    ],
)
def test_a_rank_that_is_missing(fields, allocation, code):
    start = start_of(
        allocations=[alloc(tp(0))],
        settings=fields.get("settings"),
        begun=fields.get("begun", True),
        ready=fields.get("ready"),
        unclear=fields.get("unclear", []),
    )
    if "losses" in fields:
        start.lose("blob", "messages are shown as blob data")
    for tags in fields.get("cuts", ()):
        start.of(None).cuts.append((tags, "x", 1))
    result, _phase = hicache_judge.judge(start, Ask(ranks=2))
    found = {item["code"]: item["verdict"] for item in result["reasons"]}
    assert result["allocation_verdict"] == result["verdict"] == allocation
    assert found[code] == allocation
    assert result["ranks_missing"] == ["TP1"]


@pytest.mark.parametrize(
    ("settings", "ready", "marks", "code", "verdict"),
    [
        ({"enable_hierarchical_cache": True}, 5, {"weights"}, "rank_missing", "fail"),
        ({}, 5, {"weights"}, "hicache_off", "fail"),
        ({}, None, {"weights", "serving"}, "hicache_off", "fail"),
        ({}, None, {"weights"}, "no_allocation_line", "inconclusive"),
        ({}, 5, {"request"}, "no_allocation_line", "inconclusive"),
    ],
)
def test_a_start_without_any_rank(settings, ready, marks, code, verdict):
    start = start_of(settings=settings, ready=ready)
    start.of(None).marks = marks
    result, _phase = hicache_judge.judge(start, Ask(ranks=2))
    assert result["verdict"] == verdict
    assert code in [item["code"] for item in result["reasons"] if item["verdict"] == verdict]


def test_other_pools_alone_are_no_rank():
    start = start_of(allocations=[alloc(tp(0), role="side", pool="indexer")])
    result, _phase = hicache_judge.judge(start, Ask(ranks=1))
    assert result["verdict"] == "inconclusive"
    assert "1 other pools" in next(item["message"] for item in result["reasons"] if item["code"] == "main_pool_missing")


@pytest.mark.parametrize(
    ("around", "code"),
    [
        (Around(bound=True), "journal_empty"),
        (Around(bound=False), None),
    ],
)
def test_a_journal_without_a_message(around, code):
    result, _phase = hicache_judge.judge(start_of(), Ask(ranks=1), around)
    found = [item["code"] for item in result["reasons"]]
    assert result["verdict"] == "inconclusive" and ("journal_empty" in found) is bool(code)


def test_kills_for_memory_end_a_start():
    start = start_of(allocations=[alloc(tp(0))])
    result, phase = hicache_judge.judge(start, Ask(ranks=1), Around(oom_kills=2))
    assert (result["verdict"], phase) == ("fail", "done")
    assert "killed 2 process(es)" in result["reasons"][0]["message"]
    result, _phase = hicache_judge.judge(start, Ask(ranks=2), Around(oom_kills=1))
    assert "allocation_failed" in [item["code"] for item in result["reasons"]]
    assert hicache_judge.judge(start, Ask(ranks=1, readiness="none"), Around(oom_kills=0))[0]["verdict"] == "pass"


def test_restarts_are_told():
    start = start_of(allocations=[alloc(tp(0))], ready=5)
    for count in (0, 1, 3):
        result, _phase = hicache_judge.judge(start, Ask(ranks=1), None, count)
        told = [item["message"] for item in result["reasons"] if item["code"] == "restarts"]
        assert result["verdict"] == "pass"
        assert [f"the unit {count} times" in message for message in told] == ([True] if count else [])


def test_the_result_lists_pools_by_size():
    allocations = [
        alloc(tp(0), 44.77, 10, "main", "kv"),
        alloc(tp(0), 0.73, 10, "draft", "draft"),
        alloc(tp(0), 2.0, 10, "side", "swa"),
        alloc(tp(0), 1.5, 10, "side", "draft_swa"),
        alloc(tp(1), 44.78, 10, "main", "kv"),
    ]
    result, _phase = hicache_judge.judge(start_of(allocations=allocations), Ask(ranks=2))
    assert result["per_rank_gb"] == [44.78, 44.77, 2.0, 0.73, 1.5]
    assert result["total_gb"] == 93.78
    assert [(one["rank"], one["pool"], one["gb"]) for one in result["ranks"]] == [
        ("TP0", "kv", 44.77),
        ("TP0", "draft", 0.73),
        ("TP0", "swa", 2.0),
        ("TP0", "draft_swa", 1.5),
        ("TP1", "kv", 44.78),
    ]
    assert (result["ranks_seen"], result["ranks_expected"], result["ranks_missing"]) == (2, 2, [])


# -- whose lines are of one rank ------------------------------------------------------------------------------------


def grouped(*allocations, ask=None):
    """Return (name, GB of the main pool, GB of the draft, pools beside them, repeats, from others) of each rank."""
    return [
        (
            one.name,
            one.main.gb if one.main else None,
            one.draft.gb if one.draft else None,
            [item.pool for item in one.side],
            one.repeats,
            one.others,
        )
        for one in hicache_judge.group_ranks(list(allocations), ask or Ask())
    ]


def bare(gb, **fields):
    return alloc((), gb, **fields)


@pytest.mark.parametrize(
    ("allocations", "ask", "found"),
    [
        # Tags name a rank; of two lines in order the larger one is the main pool.
        ([alloc(tp(1), 4.0), alloc(tp(0), 4.0)], None, [("TP0", 4.0, None), ("TP1", 4.0, None)]),
        ([alloc(tp(0), 1.0), alloc(tp(0), 4.0)], None, [("TP0", 4.0, 1.0)]),
        ([alloc(tp(0), 4.0, role="main"), alloc(tp(0), 1.0, role="draft")], None, [("TP0", 4.0, 1.0)]),
        # Of several containers each has ranks of its own.
        (
            [alloc(tp(0), 4.0, origin="a"), alloc(tp(0), 5.0, origin="b")],
            None,
            [("a TP0", 4.0, None), ("b TP0", 5.0, None)],
        ),
        (
            [alloc(tp(0), 4.0, origin="a"), alloc(tp(1), 5.0, origin="a")],
            None,
            [("TP0", 4.0, None), ("TP1", 5.0, None)],
        ),
        # Without tags a process is a rank, else each line of the largest pool is.
        ([bare(4.0, pid=7), bare(1.0, pid=7), bare(4.0, pid=8)], None, [("pid 7", 4.0, 1.0), ("pid 8", 4.0, None)]),
        ([bare(4.0, pid=7), bare(4.0)], None, [("#1", 4.0, None), ("#2", 4.0, None)]),
        ([bare(4.0), bare(4.0), bare(1.0)], None, [("#1", 4.0, 1.0), ("#2", 4.0, None)]),
        ([bare(4.0), bare(2.0)], None, [("#1", 4.0, None), ("#2", 2.0, None)]),
        ([bare(4.0), bare(1.99)], None, [("#1", 4.0, 1.99)]),
        # Every expected process wrote two lines of two sizes.
        ([bare(4.0), bare(3.0), bare(4.0), bare(3.0)], Ask(ranks=2), [("#1", 4.0, 3.0), ("#2", 4.0, 3.0)]),
        ([bare(4.0), bare(3.0)], Ask(rank_set=["8"]), [("#1", 4.0, 3.0)]),
        ([bare(4.0), bare(3.0)], Ask(ranks=2), [("#1", 4.0, None), ("#2", 3.0, None)]),
        (
            [bare(4.0, origin="a"), bare(4.0, origin="b"), bare(4.0, origin="b")],
            None,
            [("a #1", 4.0, None), ("b #1", 4.0, None), ("b #2", 4.0, None)],
        ),
        ([bare(4.0, origin="a"), bare(4.0, origin="a")], None, [("#1", 4.0, None), ("#2", 4.0, None)]),
        # A lone line of the size of the others' drafts is a draft.
        (
            [alloc(tp(0), 4.0), alloc(tp(0), 1.0), alloc(tp(1), 4.0), alloc(tp(1), 1.0), alloc(tp(2), 1.01)],
            None,
            [("TP0", 4.0, 1.0), ("TP1", 4.0, 1.0), ("TP2", None, 1.01)],
        ),
        (
            [alloc(tp(0), 4.0), alloc(tp(0), 1.0), alloc(tp(1), 1.02)],
            None,
            [("TP0", 4.0, 1.0), ("TP1", 1.02, None)],
        ),
        # A model whose every layer slides.
        ([alloc(tp(0), 4.0, role="side", pool="swa")], None, [("TP0", 4.0, None)]),
        # Ranks that share the pool of another one have no memory of their own.
        (
            [alloc(tp(0), 4.0), alloc(tp(1), 4.0, role="shared", pool="shared")],
            None,
            [("TP0", 4.0, None), ("TP1", 0.0, None)],
        ),
        ([alloc(tp(1), 4.0, role="shared", pool="shared")], None, [("TP1", None, None)]),
    ],
)
def test_whose_lines_are_of_one_rank(allocations, ask, found):
    assert [one[:3] for one in grouped(*allocations, ask=ask)] == found


def test_lines_that_stand_twice_are_counted_once():
    twice = [alloc(tp(0), 4.0, pid=7), alloc(tp(0), 4.0, pid=7)]
    assert grouped(*twice) == [("TP0", 4.0, None, [], 1, False)]
    assert grouped(alloc(tp(0), 4.0, pid=7), alloc(tp(0), 4.0, pid=8)) == [("TP0", 4.0, None, [], 1, True)]
    assert grouped(alloc(tp(0), 4.0, pid=7), alloc(tp(0), 4.0)) == [("TP0", 4.0, None, [], 1, False)]
    side = alloc(tp(0), 1.0, role="side", pool="indexer")
    assert grouped(*twice, side, side)[0][3] == ["indexer"]
    assert grouped(*twice, side, side._replace(item="b"))[0][3] == ["indexer", "indexer"]
    drafts = [alloc(tp(0), 1.0, role="draft", pool="draft"), alloc(tp(0), 1.0, role="draft", pool="draft")]
    assert grouped(*twice, *drafts)[0][2:4] == (1.0, [])
    assert grouped(*twice, drafts[0], drafts[1]._replace(gb=2.0))[0][2:4] == (1.0, ["draft"])


def test_the_pools_of_a_rank_have_names():
    one = rank(tp(0), 4.0, 1.0)
    one.side = [alloc(pool="indexer"), alloc(pool="state", item="conv")]
    assert [name for name, _item in one.pools()] == ["kv", "draft", "indexer", "state:conv"]
    assert list(Rank("x", ()).pools()) == []
