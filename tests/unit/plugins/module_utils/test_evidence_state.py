# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of a start, record by record: whose words count, which start they belong to, and how much is kept."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_evidence, journal
from ansible_collections.llmfleet.sglang.plugins.module_utils.hicache_evidence import Death, Evidence, Start

T = "2026-03-01 23:45:06"
ALLOC = "Allocating 44.77 GB host memory for hierarchical KV cache."
READY = "The server is fired up and ready to roll!"
A, B, C = "a" * 32, "b" * 32, "c" * 32
UNIT = "sglang-kimi.service"


def rec(text, **fields):
    """A record of the server's own in a journal without invocations."""
    return journal._EMPTY._replace(text=text, **{"writer": "app", "form": "json", **fields})


def own(text, **fields):
    """A record of start ``A`` of the unit."""
    return rec(text, **{"invocation": A, "unit": UNIT, "pid": 42, **fields})


def line(text, tags=" TP0"):
    return f"[{T}{tags}] {text}"


def fed(*records, unit=None, invocation=None):
    return Evidence(unit, invocation).feed_all(records)


def tags(evidence):
    return [item.tags for item in evidence.start.allocations]


def death(code="died", effect="death", number=1):
    return Death(code, effect, "advice", "text", number, (), None, {})


# -- one start, by origin -------------------------------------------------------------------------------------------


def start_of(origins, allocated=()):
    """A start of origins ``{name: settings}``, some of which allocated."""
    start = Start()
    for name, settings in origins.items():
        start.of(name).settings = settings
        start.of(name).marks = {f"mark-{name}"}
    start.allocations = [hicache_evidence.Allocation((), name, *(None,) * 10) for name in allocated]
    return start


ON = {"enable_hierarchical_cache": True}


@pytest.mark.parametrize(
    ("origins", "allocated", "relevant"),
    [
        ({}, "", []),
        ({"a": {}}, "", ["a"]),
        ({"a": {}, "b": {}}, "", ["a", "b"]),
        ({"a": {}, "b": {}}, "b", ["b"]),
        ({"a": ON, "b": {}}, "b", ["a", "b"]),
        ({"a": ON, "b": {}}, "", ["a"]),
        ({"a": {"enable_hierarchical_cache": False}, "b": {}}, "b", ["b"]),
        # What names no origin may be of any of them.
        ({None: {}, "b": {}, "c": {}}, "b", [None, "b"]),
        # An origin that allocated and has said nothing else is none of them.
        ({"a": {}, "b": {}}, "c", ["a", "b"]),
    ],
)
def test_whose_words_count(origins, allocated, relevant):
    start = start_of(origins, allocated)
    assert start.marks == {f"mark-{name}" for name in relevant}


def test_the_figures_of_servers_that_do_not_count_are_left_out():
    start = start_of({"a": {}, "b": {}})
    for origin in ("a", "b"):
        start.figure("device_tokens", origin, (), 1000)
        start.figure("device_pool", origin, (), 2000)
        start.describe(origin, (), {"tokens": "2000"})
    assert [len(each) for each in (start.device, start.pools, start.device_lines)] == [2, 2, 2]
    start.allocations = start_of({}, "b").allocations
    for each in (start.device, start.pools, start.device_lines):
        assert list(each) == [("b", ())]
    start.forget("b")
    assert [list(each) for each in (start.device, start.pools, start.device_lines)] == [[("a", ())]] * 3
    assert start.allocations == [] and list(start.origins) == ["a"]


def test_the_first_figure_of_a_rank_counts():
    start = Start()
    for tokens in (1000, 2000):
        start.figure("device_tokens", None, (("TP", 0),), tokens)
        start.figure("device_pool", None, (("TP", 0),), tokens + 1)
    assert start.device == {(None, (("TP", 0),)): 1000}
    assert start.pools == {(None, (("TP", 0),)): 1001}


def test_figures_are_bounded():
    start = Start()
    for number in range(1030):
        start.figure("device_tokens", None, (("TP", number),), 1)
        start.describe(None, (("TP", number),), {"tokens": "1"})
    assert len(start.device) == len(start.device_lines) == 1024
    for _turn in range(10):
        start.describe(None, (("TP", 0),), {"tokens": "1"})
        start.describe(None, (("TP", 2000),), {"tokens": "1"})
    assert len(start.device_lines[None, (("TP", 0),)]) == 8
    assert (None, (("TP", 2000),)) not in start.device_lines


@pytest.mark.parametrize(
    ("data", "gib", "parts"),
    [
        ({"tokens": "5"}, None, 0),
        ({"tokens": "5", "kv_gib": "1.50"}, 1.5, 1),
        ({"tokens": "5", "k_gib": "1.50", "v_gib": "1.25"}, 2.75, 2),
    ],
)
def test_sizes_of_a_device_line_are_added(data, gib, parts):
    start = Start()
    start.describe(None, (), {**data, "kind": "Full", "dtype": "bf16"})
    (told,) = start.device_lines[None, ()]
    assert told == {"kind": "Full", "dtype": "bf16", "tokens": 5, "gib": gib, "parts": parts}


@pytest.mark.parametrize(
    ("origins", "allocated", "ready", "found"),
    [
        # Nothing allocated: any readiness, the latest of them.
        ({"a": {}, "b": {}}, "", {"a": 5}, 5),
        ({"a": {}, "b": {}}, "", {"a": 5, "b": 7}, 7),
        ({"a": {}, "b": {}}, "", {}, None),
        # All that allocated.
        ({"a": {}, "b": {}}, "ab", {"a": 5}, None),
        ({"a": {}, "b": {}}, "ab", {"a": 7, "b": 5}, 7),
        ({"a": {}, "b": {}}, "a", {"a": 5}, 5),
        # Of the nodes of one server the first alone says it.
        ({"a": {"node_rank": 0}, "b": {"node_rank": 1}}, "ab", {"a": 5}, 5),
        ({"a": {"node_rank": 0}, "b": {"node_rank": 1}}, "ab", {"b": 5}, None),
        ({"b": {"node_rank": 1}}, "b", {"b": 5}, 5),
        ({"b": {"node_rank": 2}, "c": {"node_rank": 1}}, "bc", {"b": 5}, None),
    ],
)
def test_when_a_start_is_ready(origins, allocated, ready, found):
    start = start_of(origins, allocated)
    for name, number in ready.items():
        start.become_ready(name, number, f"time-{number}")
    assert (start.ready, start.ready_number) == (found is not None, found)
    assert start.ready_at == (f"time-{found}" if found else None)


def test_the_first_readiness_counts_and_forgives_what_was_cut_before():
    start = Start()
    start.of("a").cuts = [((), "x", 1), ((), "y", 2)]
    assert start.cuts == [((), "x"), ((), "y")]
    start.become_ready("a", 5, 50)
    start.become_ready("a", 7, 70)
    assert (start.ready_number, start.ready_at, start.cuts) == (5, 50, [])
    assert start.losses["cut_lines"]["count"] == 2
    start.become_ready("b", 8, 80)
    assert start.losses["cut_lines"]["count"] == 2
    assert start.ready_of("a") and start.ready_of("b") and not start.ready_of("c")


@pytest.mark.parametrize(
    ("origin", "ready", "number", "effect"),
    [
        ("a", 5, 6, "death"),
        ("a", 5, 5, "trouble"),
        ("a", 5, 4, "trouble"),
        ("a", None, 6, "trouble"),
        (None, 5, 6, "death"),
        (None, 5, 5, "trouble"),
    ],
)
def test_trouble_after_readiness_is_a_death(origin, ready, number, effect):
    start = Start()
    start.die(origin, death(effect="trouble", number=number))
    start.die(origin, death(effect="death", number=9))
    if ready:
        start.become_ready("a", ready, None)
    assert [one.effect for one in start.deaths] == [effect, "death"]


def test_deaths_are_told_in_the_order_of_the_log():
    start = Start()
    start.die("a", death("late", number=3))
    start.die("b", death("early", number=2))
    assert [one.code for one in start.deaths] == ["early", "late"]


def test_of_too_many_deaths_the_mild_ones_give_way():
    start = Start()
    for number in range(63):
        start.die("a", death(number=number))
    start.die("a", death("mild", "trouble", 63))
    assert len(start.deaths) == 64
    start.die("a", death("last", number=64))
    assert len(start.deaths) == 64 and "mild" not in [one.code for one in start.deaths]
    start.die("a", death("none", number=65))
    assert len(start.deaths) == 64 and start.deaths[-1].code == "last"


def test_the_arguments_are_those_of_the_one_that_allocated():
    assert start_of({"a": {"tp_size": 1}, "b": {"tp_size": 2}}).settings == {"tp_size": 1}
    assert start_of({"a": {"tp_size": 1}, "b": {"tp_size": 2}}, "ba").settings == {"tp_size": 2}
    assert start_of({"a": {"tp_size": 1}, "b": {}}, "b").settings == {}
    assert start_of({"a": {}, "b": {"tp_size": 2}}).settings == {"tp_size": 2}
    assert start_of({}).settings == {}
    assert dict(start_of({"a": {"tp_size": 1}, "b": {}}, "b").settings_by) == {"a": {"tp_size": 1}}


def test_the_last_error_is_the_latest_of_all():
    start = start_of({"a": {}, "b": {}})
    assert start.last_error is None
    start.of("a").last_error = (5, "later")
    start.of("b").last_error = (4, "earlier")
    assert start.last_error == "later"


def test_origins_are_bounded_and_the_rest_is_that_of_no_name():
    start = Start()
    made = [start.of(number) for number in range(256)]
    assert len(set(map(id, made))) == 256
    assert start.of(1) is made[1]
    assert start.of(256) is start.of(257) is start.of(None)
    assert start.alone(1) is False and Start().alone("a") is True
    assert start_of({"a": {}}).alone("a") is True and start_of({"a": {}}).alone("b") is False


def test_losses_are_counted_by_code_and_bounded():
    start = Start()
    start.lose("x", "first", 2)
    start.lose("x", "second")
    assert start.losses["x"] == {"code": "x", "message": "first", "count": 3}
    for number in range(20):
        start.lose(f"code-{number}", "more")
    assert len(start.losses) == 16
    start.lose("x", "again")
    assert start.losses["x"]["count"] == 4


@pytest.mark.parametrize(
    ("name", "value", "empty"),
    [
        ("marks", {"server_args"}, True),
        ("marks", {"server_args", "weights"}, False),
        ("deaths", [death()], False),
        ("cuts", [((), "x", 1)], False),
        ("ready_number", 0, False),
        ("settings", {"tp_size": 1}, True),
    ],
)
def test_a_start_that_has_said_something(name, value, empty):
    start = Start()
    assert start.empty() is True
    setattr(start.of(None), name, value)
    assert start.empty() is empty
    assert start_of({}, "a").empty() is False


# -- which start ----------------------------------------------------------------------------------------------------


def test_another_invocation_of_the_unit_is_another_start():
    alloc = line(ALLOC)
    evidence = fed(own(alloc), own(alloc, invocation=B), own(line(ALLOC, " TP1"), invocation=B))
    assert (evidence.start.invocation, evidence.starts, tags(evidence)) == (B, 2, [(("TP", 0),), (("TP", 1),)])
    # A late record of the start before it is not its own.
    evidence.feed(own(line(ALLOC, " TP2")))
    assert len(tags(evidence)) == 2 and evidence.starts == 2
    # Nor is a record of nobody known.
    evidence.feed(own(line(ALLOC, " TP2"), invocation=None, unit=None))
    assert len(tags(evidence)) == 2
    evidence.feed(own(line(ALLOC, " TP2"), invocation=None))
    assert len(tags(evidence)) == 3


def test_a_start_that_was_asked_for_is_the_only_one():
    evidence = fed(own(line(ALLOC)), own(line(ALLOC), invocation=B), unit=UNIT, invocation=B)
    assert (evidence.start.invocation, len(tags(evidence)), evidence.starts) == (B, 1, 0)
    evidence.feed(own(line(ALLOC, " TP1"), invocation=None))
    assert len(tags(evidence)) == 1


@pytest.mark.parametrize(
    ("fields", "ours"),
    [
        ({"unit": UNIT}, True),
        ({"unit": None}, True),
        ({"unit": "other.service"}, False),
        ({"unit": "other.service", "writer": "kernel"}, False),
        ({"unit": "other.service", "invocation": B}, False),
        ({"unit": UNIT, "invocation": B}, True),
        ({"writer": "other", "unit": UNIT}, False),
    ],
)
def test_whose_records_count(fields, ours):
    evidence = fed(rec(line(ALLOC), **fields), unit="sglang-kimi")
    assert evidence.start.messages == ours


@pytest.mark.parametrize(
    ("units", "learned"),
    [
        (["web.service", "sglang-a.service"], "sglang-a.service"),
        (["sglang-a.service", "sglang-b.service"], "sglang-a.service"),
        (["kimi-export.service", "kimi.service"], "kimi.service"),
        (["kimi.service", "sglang-a.service"], "sglang-a.service"),
        (["sglang-a.service", "kimi.service"], "sglang-a.service"),
        (["kimi.slice", "kimi.service"], "kimi.service"),
        (["sglang.scope", "sglang.service"], "sglang.scope"),
        (["web.service"], None),
    ],
)
def test_the_unit_of_a_log_of_several_is_the_likeliest(units, learned):
    evidence = fed(*(rec("x", unit=name) for name in units))
    assert evidence._learned == learned
    assert evidence._our_unit(learned) is True
    if learned:
        assert evidence._our_unit("web.service") is False


def test_the_unit_that_allocates_is_the_one_that_is_meant():
    evidence = fed(rec(line(ALLOC), unit="web.service"), rec("x", unit="other.service"))
    assert evidence._learned == "web.service"
    assert evidence.start.messages == 1
    # A session of a user is no service beside one that is known.
    evidence = fed(own(line(ALLOC)), rec(line(ALLOC, " TP1"), unit="session-1.scope"))
    assert len(tags(evidence)) == 1


@pytest.mark.parametrize(
    ("what", "strict", "unit", "ours"),
    [
        ("sglang-kimi.service", True, UNIT, True),
        ("sglang-other.service", False, UNIT, False),
        ("/system.slice/sglang-kimi.service", True, UNIT, True),
        ("/sglang-kimi.service/x.slice", True, UNIT, True),
        ("SGLang server", True, UNIT, True),
        ("the web server", True, "web.service", True),
        ("Some Other", True, UNIT, False),
        ("Some Other", False, UNIT, False),
        ("Some Other", False, None, True),
        ("Some Other", True, None, False),
    ],
)
def test_the_words_of_systemd_are_about_our_unit(what, strict, unit, ours):
    assert Evidence(unit)._our_text(what, strict) is ours


def started(verb, **fields):
    return rec(f"{verb} {UNIT} - x.", writer="systemd", **{"form": "short", "time": 5.0, **fields})


def test_started_closes_the_start_that_starting_opened():
    evidence = fed(started("Starting", time=4.0), rec(line(ALLOC)), started("Started"))
    assert (evidence.starts, len(tags(evidence)), evidence.start.started_at) == (1, 1, 4.0)
    evidence.feed(started("Started", time=6.0))
    assert (evidence.starts, tags(evidence), evidence.start.started_at) == (2, [], 6.0)
    evidence.feed(rec(line(ALLOC)))
    evidence.feed(started("Starting", time=7.0))
    assert (evidence.starts, tags(evidence), evidence.start.begun) == (3, [], True)


def test_in_a_journal_systemds_words_begin_no_start_and_give_its_time():
    evidence = fed(own(line(ALLOC)), started("Starting", invocation=A, unit=UNIT, form="json"))
    assert (evidence.starts, len(tags(evidence)), evidence.start.begun) == (1, 1, True)
    assert evidence.start.started_at == 5.0
    evidence.feed(started("Started", invocation=A, unit=UNIT, form="json", time=9.0))
    assert evidence.start.started_at == 5.0


@pytest.mark.parametrize(
    ("message_id", "starts"),
    [(journal.MESSAGE_ID_STARTING, 1), (journal.MESSAGE_ID_STARTED, 1), ("other", 0)],
)
def test_the_kind_of_a_message_says_more_than_its_words(message_id, starts):
    evidence = fed(rec("In other words", writer="systemd", unit=UNIT, message_id=message_id, form="short"))
    assert evidence.starts == starts
    again = rec("In other words", writer="systemd", unit=UNIT, message_id=journal.MESSAGE_ID_STARTED, form="short")
    assert evidence.feed(again) is None
    assert evidence.starts == {journal.MESSAGE_ID_STARTING: 1, journal.MESSAGE_ID_STARTED: 2}.get(message_id, 1)


@pytest.mark.parametrize(
    ("before", "hidden", "left"),
    [([line(ALLOC)], "reboot", 0), ([line(ALLOC)], None, 1), ([], "reboot", 0), ([line("x")], "reboot", 0)],
)
def test_a_reboot_ends_a_start(before, hidden, left):
    header = journal._EMPTY._replace(text="-- Reboot --", form="header", writer="journalctl", hidden=hidden)
    evidence = fed(*map(rec, before), header)
    assert len(tags(evidence)) == left
    assert evidence.starts == (1 if hidden and before == [line(ALLOC)] else 0)


def test_a_new_start_takes_nothing_of_the_one_before_with_it():
    evidence = fed(own("[2026-03-01 23:45:06 TP0] Alloc", line_break="pid-change"))
    assert evidence.wants_everything is True
    evidence.feed(own(line(ALLOC), invocation=B))
    assert evidence.wants_everything is False and len(tags(evidence)) == 1


@pytest.mark.parametrize("rest", ["", f" [{T} TP1] Load weight begin.", f" [{T} TP1] words"])
def test_a_wrapped_line_is_put_together_whatever_is_glued_to_it(rest):
    lines = [f"[{T} TP0] Allocating 44.77 GB host", f"memory for hierarchical KV cache.{rest}"]
    evidence = fed(*(rec(text, form="plain", cont="bare") for text in lines))
    assert (tags(evidence), evidence.start.rejoined, evidence.start.cuts) == ([(("TP", 0),)], 1, [])


# -- what is hidden, and by whom ------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", ["null", "oversize", "damaged", "other"])
def test_hidden_messages_are_counted(hidden):
    evidence = fed(rec(None, hidden=hidden), rec(None, hidden=hidden))
    loss = evidence.start.losses[f"{hidden}_message"]
    assert loss["count"] == 2
    assert {"null": "4 KB", "oversize": "8 MB", "damaged": "a line", "other": "a message"}[hidden] in loss["message"]
    assert evidence.start.allocations == []


NOTICE = "Suppressed 20 messages from {}"


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({"count": 7, "invocation": A, "unit": UNIT}, 7),
        ({"count": 7, "unit": UNIT}, 7),
        ({"count": 7, "unit": "other.service"}, None),
        ({"count": None, "unit": UNIT}, 20),
        ({"count": 7, "text": NOTICE.format("other.service")}, None),
        ({"count": None, "text": NOTICE.format("other.service")}, None),
    ],
)
def test_a_notice_of_journald_counts_for_its_unit(fields, count):
    notice = journal._EMPTY._replace(**{"text": NOTICE.format(UNIT), "writer": "journald", "form": "json", **fields})
    losses = fed(own("x"), notice, unit=UNIT).start.losses
    assert (losses["rate_limited"]["count"] if losses else None) == count


def test_what_journalctl_tells_beside_the_log():
    evidence = Evidence(UNIT)
    evidence.note_text("Journal file /x is truncated, ignoring file.\nnothing\n")
    evidence.lose("own", "words")
    assert "own" in evidence.start.losses and evidence.start.losses["own"]["message"] == "words"


# -- records that were cut ------------------------------------------------------------------------------------------


def test_pieces_of_a_process_are_joined_and_those_of_another_are_not():
    half = line(ALLOC)
    first, rest = half[:40], half[40:]
    evidence = fed(own(first, line_break="pid-change"), own("x", pid=43), own(rest))
    assert tags(evidence) == [(("TP", 0),)]
    evidence = fed(own(first, line_break="pid-change"), own(rest, pid=43))
    assert tags(evidence) == []
    # A process begins a new message with its own prefix.
    evidence = fed(own(line("Load wei"), line_break="pid-change"), own(half))
    assert tags(evidence) == [(("TP", 0),)]


def test_the_rest_of_a_long_message_begins_none():
    evidence = fed(own("x" * 3000, line_break="line-max"), own(line(ALLOC)))
    assert tags(evidence) == [] and evidence.wants_everything is False
    evidence = fed(own("x", line_break="line-max"), own("y", line_break="line-max"), own(line(ALLOC)))
    assert tags(evidence) == []
    evidence.feed(own(line(ALLOC)))
    assert len(tags(evidence)) == 1


def test_a_piece_waits_a_bounded_time_and_in_bounded_number():
    evidence = fed(own("x", line_break="pid-change"))
    evidence.messages += 20000
    assert evidence.wants_everything is True
    evidence.messages += 1
    assert evidence.wants_everything is False
    evidence = fed(*(own("x", pid=number, line_break="pid-change") for number in range(300)))
    assert len(evidence._open) == 256 and 0 not in evidence._open and 299 in evidence._open


@pytest.mark.parametrize(("length", "kind"), [(2048, "text"), (2049, "other")])
def test_a_piece_is_kept_up_to_a_length(length, kind):
    evidence = fed(own("x" * length, line_break="pid-change"))
    assert evidence._open[42][0] == kind


def test_equal_lines_that_rsyslog_counts_are_of_processes_without_a_rank():
    evidence = fed(rec(f"message repeated 3 times: [ [{T}] {ALLOC}]", form="short"))
    assert tags(evidence) == [()] * 3
    evidence = fed(rec(f"message repeated 3 times: [ {line(ALLOC)}]", form="short"))
    assert tags(evidence) == [(("TP", 0),)]


BAR = "Loading: 50%|#####     | 5/10 [00:01<00:01, 5.00it/s]"


# -- progress -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "progress"),
    [
        (line("Capture cuda graph"), "Capture cuda graph"),
        (line("x" * 300), "x" * 200),
        ("first\n" + line("last"), "last"),
        (BAR, BAR),
        ("words without a prefix", None),
        ("", None),
        ('INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK', None),
    ],
)
def test_a_glance_shows_progress_and_nothing_else(text, progress):
    evidence = Evidence()
    evidence.glance(rec(text))
    assert evidence.start.progress == progress
    assert evidence.start.messages == evidence.messages == 0
    evidence.glance(None)
    evidence.glance(rec(line("of systemd"), writer="systemd"))
    assert evidence.start.progress == progress


def test_a_bar_and_a_message_show_progress():
    assert fed(rec(BAR)).start.progress == BAR
    assert fed(rec(line("x" * 300))).start.progress == "x" * 200
    assert fed(rec(line("Load weight begin."))).start.progress == "Load weight begin."


# -- the kernel's victims -------------------------------------------------------------------------------------------

OOM = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg={0},task_memcg={0},"
KILLED = "Out of memory: Killed process {pid} ({comm}) total-vm:1kB, anon-rss:1kB"


def kernel(text):
    return rec(text, writer="kernel", form="short")


def codes(evidence):
    return [one.code for one in evidence.start.deaths]


@pytest.mark.parametrize(
    ("unit", "group", "pid", "ours"),
    [
        (UNIT, f"/system.slice/{UNIT}", 7, True),
        (UNIT, f"/system.slice/{UNIT}/app", 7, True),
        (UNIT, f"/system.slice/x-{UNIT}", 7, False),
        (UNIT, "/system.slice/other.service", 7, False),
        (UNIT, "/system.slice/other.service", 42, True),
        (None, "/system.slice/sglang.service", 7, True),
        (None, "/system.slice/web.service", 7, False),
    ],
)
def test_an_oom_kill_is_ours_by_cgroup_or_process(unit, group, pid, ours):
    words = OOM.format(group) + f"task=python3,pid={pid},uid=0"
    evidence = fed(rec(line("x"), pid=42, form="short"), kernel(words), unit=unit)
    assert bool(codes(evidence)) is ours
    # The next words of the kernel are about the same process.
    evidence.feed(kernel(KILLED.format(pid=pid, comm="python3")))
    assert (len(codes(evidence)) == 2) is ours


@pytest.mark.parametrize(
    ("unit", "comm", "ours"),
    [(UNIT, "sglang::schedul", True), (UNIT, "python3", False), (None, "python3", True), (None, "mysqld", False)],
)
def test_a_kill_without_a_cgroup_is_ours_by_name(unit, comm, ours):
    assert bool(codes(fed(kernel(KILLED.format(pid=7, comm=comm)), unit=unit))) is ours


# -- arguments and beginnings ---------------------------------------------------------------------------------------

ARGS = f"[{T}] server_args=ServerArgs(model_path='/m', tp_size={{}})"


@pytest.mark.parametrize(
    ("between", "starts", "size"),
    [([], 0, 1), ([line(ALLOC)], 1, 2), ([f"[{T}] {READY}"], 1, 2), ([f"[{T}] Rank 1 scheduler died"], 1, 2)],
)
def test_arguments_after_allocations_readiness_or_a_death_are_another_start(between, starts, size):
    lines = [ARGS.format(1), *between, ARGS.format(2)]
    evidence = fed(*(rec(text, form="plain") for text in lines))
    assert (evidence.starts, evidence.start.settings["tp_size"]) == (starts, size)
    assert evidence.start.begun is True


def test_a_container_that_begins_again_leaves_the_others_alone():
    def of(origin, text):
        return rec(text, form="compose", origin=origin)

    evidence = fed(of("a", line(ALLOC)), of("b", line(ALLOC)), of("a", ARGS.format(2)))
    assert (evidence.starts, [item.origin for item in evidence.start.allocations]) == (1, ["b"])
    evidence = fed(of("a", line(ALLOC)), of("a", ARGS.format(2)))
    assert (evidence.starts, evidence.start.allocations) == (1, [])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (line(ALLOC), (2, 1)),
        (line("Load weight begin."), (0, 2)),
        (f"[{T}] server_args=ServerArgs(model_path='/m', tp_size=2)", (0, 2)),
    ],
)
def test_a_process_that_served_begins_no_start(text, found):
    """From then on its lines may hold what a client sent; those of a process that was not there may not."""
    evidence = fed(own(line(ALLOC)), own(f"[{T}] {READY}"), own(text))
    assert (len(tags(evidence)), evidence.starts, evidence.start.ready) == (1, 1, True)
    evidence = fed(own(line(ALLOC)), own(f"[{T}] {READY}"), own(text, pid=43))
    assert (len(tags(evidence)), evidence.starts) == found


def test_a_counter_of_restarts_is_the_highest_that_systemd_named():
    words = "sglang-kimi.service: Scheduled restart job, restart counter is at {}."
    evidence = fed(*(rec(words.format(count), writer="systemd", form="short") for count in (3, 2)))
    assert evidence.restarts == 3
    assert fed(rec(words.format(3), writer="systemd", form="short"), unit="other.service").restarts == 0


def test_lines_that_break_off_are_kept_in_part_and_in_bounded_number():
    piece = "Allocating kv hierarchical " + "x" * 200
    evidence = fed(*(rec(line(piece, f" TP{number}")) for number in range(70)))
    assert len(evidence.start.cuts) == 64
    assert evidence.start.cuts[0] == ((("TP", 0),), piece[:120])
    # What joins it takes it back.
    halves = [f"[{T} TP0] Allocating 44.77 GB host", "memory for hierarchical KV cache."]
    evidence = fed(*(rec(text, form="plain", cont="bare") for text in halves))
    assert evidence.start.cuts == []


def test_what_is_unclear_is_kept_in_bounded_number():
    evidence = fed(*(rec(line(f"words {line(ALLOC, f' TP{number}')}")) for number in range(70)))
    assert evidence.start.unclear == [(("TP", number),) for number in range(64)]
    evidence = fed(*(rec(line(f"Reserved host memory {number}")) for number in range(10)))
    assert len(evidence.start.unknown_lines) <= 8


@pytest.mark.parametrize(
    ("event", "fields", "code"),
    [
        ("Allocating 44.77 GB host\u2026", {}, "cut_lines"),
        ("Allocating 44.77 GB host", {"line_break": "input-end", "form": "plain"}, "input_cut"),
    ],
)
def test_a_line_that_somebody_shortened_is_a_loss(event, fields, code):
    evidence = fed(rec(line(event), **fields))
    assert list(evidence.start.losses) == [code] and evidence.start.cuts == []
    assert evidence.start.losses[code]["count"] == 1


def test_the_last_exception_is_kept_in_part():
    evidence = fed(rec("ValueError: " + "x" * 500))
    assert evidence.start.last_error == ("ValueError: " + "x" * 500)[:400]
    evidence = fed(rec(f"[{T}] Rank 1 scheduler died " + "x" * 700))
    assert [len(one.text) for one in evidence.start.deaths] == [600]
