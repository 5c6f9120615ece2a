# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import importlib.util
import json
import time
from pathlib import Path

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_log, journal
from hypothesis import given
from hypothesis import strategies as st

A = "a" * 32


def line(**fields):
    return (
        json.dumps(
            {"__CURSOR": "s=1;i=1", "_PID": "42", "_TRANSPORT": "stdout", **fields}, separators=(",", ":")
        ).encode()
        + b"\n"
    )


def test_the_command_lines_are_exact():
    fields = (
        "MESSAGE,MESSAGE_ID,N_DROPPED,_PID,_UID,_TRANSPORT,_LINE_BREAK,_SYSTEMD_UNIT,_SYSTEMD_INVOCATION_ID,UNIT,"
        "INVOCATION_ID,OBJECT_SYSTEMD_UNIT,OBJECT_SYSTEMD_INVOCATION_ID"
    )
    assert journal.journal_argv(A, "/bin/journalctl", ["/x.journal"], "s=1;i=2") == [
        "/bin/journalctl",
        "--no-pager",
        "--output=json",
        "--all",
        f"--output-fields={fields}",
        "--file=/x.journal",
        "--after-cursor=s=1;i=2",
        f"_SYSTEMD_INVOCATION_ID={A}",
        "+",
        "_PID=1",
        f"INVOCATION_ID={A}",
        "+",
        "_UID=0",
        f"OBJECT_SYSTEMD_INVOCATION_ID={A}",
    ]
    assert journal.newest_invocation_argv("x.service")[-4:] == [
        "_SYSTEMD_UNIT=x.service",
        "+",
        "_PID=1",
        "UNIT=x.service",
    ]
    assert journal.kernel_argv(1772408706.7)[-2:] == ["--since=@1772408706", "_TRANSPORT=kernel"]
    assert journal.show_argv("x.service")[-2:] == ["--", "x.service"]


def test_nothing_in_a_command_line_can_change_the_journal():
    for argv in (
        journal.journal_argv(A),
        journal.newest_invocation_argv("x"),
        journal.kernel_argv(1),
        journal.show_argv("x"),
    ):
        assert not any(word in part for part in argv for word in ("vacuum", "rotate", "flush", "sync", "follow"))


def test_a_unit_name_is_completed():
    assert journal.full_unit_name("sglang-kimi") == "sglang-kimi.service"
    assert journal.full_unit_name("sglang@1.service") == "sglang@1.service"
    assert journal.full_unit_name("sglang-0.5") == "sglang-0.5.service"


def test_the_state_of_a_unit_is_read():
    state = journal.parse_show(
        "Id=x.service\nActiveState=active\nInvocationID=\nExecStart={ path=/x ; argv[]=/x a=b }\nX=1\n"
    )
    assert state == {
        "Id": "x.service",
        "ActiveState": "active",
        "InvocationID": "",
        "ExecStart": "{ path=/x ; argv[]=/x a=b }",
    }


@pytest.mark.parametrize(
    ("message", "text", "hidden"),
    [
        ("plain", "plain", None),
        ([72, 105, 13], "Hi\r", None),
        ([195, 40], "\ufffd(", None),
        (None, None, "null"),
        (["one", "two"], "one\ntwo", None),
        (["one", [72, 105]], "one\nHi", None),
        ("", "", None),
    ],
)
def test_a_message_is_decoded_for_what_it_is(message, text, hidden):
    record = journal.parse_json_line(line(MESSAGE=message))
    assert (record.text, record.hidden) == (text, hidden)


def test_fields_of_systemd_and_journald_are_believed_from_them_alone():
    own = journal.parse_json_line(line(MESSAGE="x", INVOCATION_ID=A, UNIT="x.service", _SYSTEMD_UNIT="y.service"))
    assert (own.writer, own.unit, own.invocation) == ("app", "y.service", None)
    systemd = journal.parse_json_line(line(MESSAGE="x", INVOCATION_ID=A, UNIT="x.service", _PID="1"))
    assert (systemd.writer, systemd.unit, systemd.invocation) == ("systemd", "x.service", A)
    notice = journal.parse_json_line(
        line(
            MESSAGE="x",
            _SYSTEMD_UNIT="systemd-journald.service",
            OBJECT_SYSTEMD_INVOCATION_ID=A,
            OBJECT_SYSTEMD_UNIT="x.service",
            N_DROPPED="20",
        )
    )
    assert (notice.writer, notice.unit, notice.invocation, notice.count) == ("journald", "x.service", A, 20)
    assert journal.parse_json_line(line(MESSAGE="x", N_DROPPED="20")).count is None
    assert journal.parse_json_line(line(MESSAGE="x", _TRANSPORT="kernel")).writer == "kernel"


@pytest.mark.parametrize(
    ("writer", "fields"),
    [
        ("systemd", {"_PID": "1", "_UID": "0"}),
        ("systemd", {"_PID": "1"}),
        ("app", {"_PID": "1", "_UID": "1000"}),
        ("app", {"_PID": "1", "_UID": "none"}),
        ("app", {"_PID": "4242", "_UID": "1000", "_COMM": "systemd"}),
        ("app", {"_PID": "4242", "_UID": "0", "_COMM": "systemd", "_SYSTEMD_UNIT": "x.service"}),
        ("app", {"_PID": "900", "_UID": "1000", "_SYSTEMD_UNIT": "user@1000.service", "_COMM": "systemd"}),
        ("app", {"_PID": None, "SYSLOG_IDENTIFIER": "systemd"}),
        ("journald", {"_TRANSPORT": "driver"}),
        ("journald", {"_UID": "0", "_SYSTEMD_UNIT": "systemd-journald.service"}),
        ("journald", {"_UID": "0", "_SYSTEMD_UNIT": "systemd-journald@x.service"}),
        ("journald", {"_SYSTEMD_UNIT": "systemd-journald.service"}),
        ("app", {"_UID": "990", "_SYSTEMD_UNIT": "systemd-journald.service"}),
        ("app", {"_UID": "0", "_COMM": "systemd-journal", "_SYSTEMD_UNIT": "x.service"}),
        ("app", {"_UID": "0", "_SYSTEMD_UNIT": "systemd-journald.service.evil.service"}),
        ("kernel", {"_TRANSPORT": "kernel", "_PID": None}),
        ("app", {"SYSLOG_IDENTIFIER": "kernel"}),
        ("other", {"_TRANSPORT": "audit", "_PID": "1", "_UID": "0"}),
        # systemd-oomd and systemd-coredump do not run as root.
        ("systemd", {"_UID": "980", "_SYSTEMD_UNIT": "systemd-oomd.service"}),
        ("app", {"_UID": "1000", "_SYSTEMD_UNIT": "user@1000.service", "_SYSTEMD_USER_UNIT": "systemd-oomd.service"}),
        ("kernel", {"_UID": "1000", "_SYSTEMD_UNIT": "systemd-coredump@0-77-0.service"}),
        ("app", {"_UID": "1000", "_SYSTEMD_UNIT": "session-1.scope", "COREDUMP_UNIT": "x.service"}),
    ],
)
def test_only_trusted_fields_say_who_wrote(writer, fields):
    """Made fields name the start and the unit of somebody else: they count from systemd and journald alone."""
    made = {
        "INVOCATION_ID": A,
        "USER_INVOCATION_ID": A,
        "OBJECT_SYSTEMD_INVOCATION_ID": A,
        "UNIT": "x.service",
        "USER_UNIT": "x.service",
        "OBJECT_SYSTEMD_UNIT": "x.service",
        "MESSAGE_ID": journal.MESSAGE_ID_STARTING,
        "N_DROPPED": "20",
    }
    record = journal.parse_json_line(line(MESSAGE="x", **{**made, **fields}))
    assert record.writer == writer
    believed = writer == "journald" or (fields.get("_PID") == "1" and writer == "systemd")
    assert (record.invocation == A) is believed
    assert (record.count == 20) is (writer == "journald")
    assert (record.message_id is not None) is (writer in ("systemd", "journald"))


@pytest.mark.parametrize(
    ("text", "writer"),
    [
        ("Mar 01 23:45:06 h systemd[1]: x", "systemd"),
        ("Mar 01 23:45:06 h systemd: x", "systemd"),
        ("Mar 01 23:45:06 h systemd[4242]: x", "other"),
        ("Sun 2026-03-01 23:45:06 UTC h init.scope[1]: x", "systemd"),
        ("Sun 2026-03-01 23:45:06 UTC h init.scope[77]: x", "other"),
        ("Mar 01 23:45:06 h kernel: x", "kernel"),
        ("Mar 01 23:45:06 h kernel[77]: x", "other"),
        ("<30>1 2026-03-01T23:45:06Z h systemd 4242 - - x", "other"),
    ],
)
def test_the_name_in_a_saved_log_needs_its_process_id(text, writer):
    assert [record.writer for record in journal.TextReader().feed(text.encode())] == [writer]


def test_lists_in_lists_are_no_text():
    assert journal.parse_json_line(line(MESSAGE=[["a", [72]]])).hidden == "damaged"
    assert journal.parse_json_line(line(MESSAGE=["a", ["b"], {}, [72]])).text == "a\nH"
    for depth in (10, 500, 100000):
        nested = b'{"_TRANSPORT":"stdout","MESSAGE":' + b"[" * depth + b"1" + b"]" * depth + b"}"
        assert journal.parse_json_line(nested).hidden == "damaged"
        docker = '{"log":"x\\n","stream":' + "[" * depth + "]" * depth + ',"time":"x"}'
        assert len(list(journal.TextReader().feed(docker.encode()))) == 1


def test_an_entry_of_many_fields_keeps_those_that_are_read():
    reader = journal.TextReader()
    for raw in [b"__CURSOR=c", *(b"FIELD_%d=x" % number for number in range(5000)), b"MESSAGE=x", b"_PID=42"]:
        assert list(reader.feed(raw)) == []
    assert set(reader._export) == {"__CURSOR", "MESSAGE", "_PID"}
    assert [(record.text, record.pid) for record in reader.close()] == [("x", 42)]


@pytest.mark.parametrize(
    ("lines", "texts"),
    [
        (["{", "a", "b"], ["{", "a", "b"]),
        (["{", "a", "}"], ["{", "a", "}"]),
        (["{", '  "MESSAGE" : "x",', '  "_PID" : "1'], [None]),
    ],
)
def test_lines_after_a_lone_brace_are_not_lost(lines, texts):
    reader = journal.TextReader()
    records = [record for raw in lines for record in reader.feed(raw.encode())] + list(reader.close())
    assert [record.text for record in records] == texts


def test_what_is_no_record_is_told_apart():
    assert journal.parse_json_line(b"-- No entries --\n") is None
    assert journal.parse_json_line(b"\n") is None
    assert journal.parse_json_line(b"[1, 2]\n") is None
    assert journal.parse_json_line(b'{"MESS').hidden == "damaged"
    assert journal.parse_json_line(b'"' + b"x" * (journal.LINE_LIMIT + 1)).hidden == "oversize"
    assert journal.parse_json_line(b"[" * 100000).hidden == "damaged"


def blocks(content, size):
    for position in range(0, len(content), size):
        yield content[position : position + size]


@pytest.mark.parametrize("size", [1, 7, 100, 4096, 1 << 20])
def test_the_stream_gives_the_same_records_whatever_the_size_of_the_blocks(size):
    content = b"".join(
        [
            line(MESSAGE="[x TP0] Decode batch, cuda graph: True", __CURSOR="c1"),
            line(MESSAGE="Allocating 44.77 GB host memory for hierarchical KV cache.", __CURSOR="c2"),
            line(MESSAGE=list(b"\x1b[1mAllocating 44.77 GB"), __CURSOR="c3"),
            line(MESSAGE=None, __CURSOR="c4"),
            line(MESSAGE="Started x.service", UNIT="x.service", INVOCATION_ID=A, _PID="1", __CURSOR="c5"),
            line(MESSAGE="GET /health", __CURSOR="c6"),
        ]
    )
    stream = journal.JsonStream()
    records = [record for block in blocks(content, size) for record in stream.feed(block)] + list(stream.close())
    assert [record.text for record in records] == [
        "Allocating 44.77 GB host memory for hierarchical KV cache.",
        "\x1b[1mAllocating 44.77 GB",
        None,
        "Started x.service",
    ]
    assert stream.lines == 6
    assert stream.cursor == "c6"
    assert stream.last.text == "GET /health"


def test_the_stream_gives_every_record_while_it_is_asked_to():
    content = (
        line(MESSAGE="one", _LINE_BREAK="pid-change")
        + line(MESSAGE="two")
        + line(MESSAGE="three")
        + line(MESSAGE="four")
    )
    seen = []
    stream = journal.JsonStream(lambda: seen[-1:] == ["one"] or seen[-1:] == ["two"])
    for record in stream.feed(content):
        seen.append(record.text)
    assert seen == ["one", "two", "three"]


def test_a_line_without_a_break_is_read_at_the_end():
    stream = journal.JsonStream()
    assert list(stream.feed(line(MESSAGE="Allocating")[:-1])) == []
    assert [record.text for record in stream.close()] == ["Allocating"]


def test_the_prefilter_lets_every_known_text_pass():
    spec = importlib.util.spec_from_file_location("texts", Path(__file__).with_name("test_hicache_log.py"))
    texts = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(texts)
    wanted = [row[0] for row in texts.ALLOCATIONS] + [text for _code, text in texts.FATALS]
    wanted += [
        "MLATokenToKVPoolHost dummy mode: allocator-only, size=1 tokens, saving 1.00 GB host memory",
        "[2026-03-01 23:45:06 TP0] max_total_num_tokens=1",
        "[2026-03-01 23:45:06] The server is fired up and ready to roll!",
        "KV Cache is allocated. #tokens: 5, KV size: 10.42 GB",
        "Load weight begin.",
        "Load weight end.",
        "Init torch distributed begin.",
        "Tree cache initialized: hicache_attached=True",
        "server_args=ServerArgs()",
    ]
    unit = "sglang.service: "
    for text in wanted:
        if text.startswith((unit, "oom-kill", "Out of memory", "Memory cgroup")):
            continue  # systemd's and the kernel's records pass by their fields, or are read whole
        for message in (text, list(text.encode())):
            stream = journal.JsonStream()
            assert list(stream.feed(line(MESSAGE=message))), text


def test_what_a_busy_server_writes_is_not_decoded():
    stream = journal.JsonStream()
    content = line(
        MESSAGE="[2026-03-01 23:45:06 TP0] Decode batch, #running-req: 3, #token: 20480, token usage: 0.13, "
        "accept len: 3.02, cuda graph: True, gen throughput (token/s): 81.40, #queue-req: 0"
    ) + line(MESSAGE='[2026-03-01 23:45:06] INFO:     10.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 200 OK')
    assert list(stream.feed(content)) == []
    assert stream.lines == 2


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-03-01T23:45:06Z", 1772408706.0),
        ("2026-03-01T23:45:06+0000", 1772408706.0),
        ("2026-03-01T23:45:06.5+01:00", 1772405106.5),
        ("2026-03-01T23:45:06.123456789Z", 1772408706.123456789),
        ("2026-03-01 23:45:06", None),
        ("2026-13-01T23:45:06Z", None),
        ("Mar 01 23:45:06", None),
        (None, None),
    ],
)
def test_only_a_time_with_its_zone_is_a_time(text, seconds):
    assert journal.parse_time(text) == (pytest.approx(seconds) if seconds else None)


def test_a_time_is_written_in_utc():
    assert journal.iso_utc(1772408706.745533) == "2026-03-01T23:45:06.745533Z"
    assert journal.iso_utc(1e300) is None


def test_unreadable_journals_are_noticed(tmp_path, monkeypatch):
    folder = tmp_path / "log" / "0123"
    folder.mkdir(parents=True)
    roots = (str(tmp_path / "log"), str(tmp_path / "none"))
    assert journal.unreadable(roots) is False
    target = folder / "system.journal"
    target.write_bytes(b"")
    assert journal.unreadable(roots) is False
    monkeypatch.setattr(journal.os, "access", lambda path, mode: not str(path).endswith("system.journal"))
    assert journal.unreadable(roots) is True


@given(st.binary(max_size=400))
def test_no_bytes_stop_the_text_reader(content):
    reader = journal.TextReader()
    for raw in content.split(b"\n"):
        list(reader.feed(raw, False))
    list(reader.close())


@given(st.lists(st.binary(max_size=80), max_size=8), st.integers(1, 50))
def test_no_bytes_stop_the_json_stream(lines, size):
    stream = journal.JsonStream(lambda: True)
    for block in blocks(b"\n".join(lines), size):
        list(stream.feed(block))
    list(stream.close())


def test_the_export_form_is_read():
    content = (
        b"__CURSOR=c\n__REALTIME_TIMESTAMP=1772408706745533\n_PID=42\n_TRANSPORT=stdout\nMESSAGE\n"
        + (8).to_bytes(8, "little")
        + b"\x1b[1mA\nB\x1b\n_LINE_BREAK=eof\n\n__CURSOR=d\nMESSAGE=two\n"
    )
    reader = journal.TextReader()
    records = [record for raw in content.split(b"\n") for record in reader.feed(raw)] + list(reader.close())
    assert [(record.text, record.line_break) for record in records] == [("\x1b[1mA\nB\x1b", "eof"), ("two", None)]
    assert hicache_log.strip_ansi(records[0].text) == "A\nB"


def test_records_that_are_cut_do_not_search_a_block_twice():
    class Counting(journal.Prefilter):
        calls = 0

        def candidates(self, block):
            Counting.calls += 1
            return super().candidates(block)

    wanted = []
    cut = line(MESSAGE="begin", _LINE_BREAK="pid-change")
    block = (cut + line(MESSAGE="end") + line(MESSAGE="Decode batch")) * 50
    stream = journal.JsonStream(lambda: bool(wanted), Counting())
    texts = []
    for record in stream.feed(block):
        texts.append(record.text)
        # The rest of a record that was cut is wanted, and nothing after it.
        wanted[:] = [True] if record.line_break else []
    assert texts == ["begin", "end"] * 50
    assert Counting.calls == 1


def test_a_line_of_very_many_pieces_is_read_in_short_time():
    for piece in (b"2026-03-01T23:45:06Z stderr P x", b'{"log":"x","stream":"stderr"}'):
        reader = journal.TextReader()
        began = time.process_time()
        for _turn in range(20000):
            list(reader.feed(piece))
        assert time.process_time() - began < 3


@pytest.mark.parametrize(
    "text",
    [
        '{"log":"x","stream":["a"],"time":5}',
        '{"log":"x","stream":{},"time":5}',
        f'{{"_TRANSPORT":"stdout","MESSAGE":"x","_PID":"{"9" * 5000}","__REALTIME_TIMESTAMP":"{"9" * 400}"}}',
        f'{{"_TRANSPORT":"stdout","MESSAGE":"x","_PID":{"9" * 400},"__REALTIME_TIMESTAMP":{"9" * 400}}}',
        f"Mar 01 23:45:06 h sglang[{'9' * 5000}]: x",
        f"<30>1 2026-03-01T23:45:06Z h sglang {'9' * 5000} - - x",
        "__CURSOR=x",
    ],
)
def test_no_odd_value_stops_the_text_reader(text):
    reader = journal.TextReader()
    list(reader.feed(text.encode()))
    list(reader.close())


def test_a_piece_of_a_json_record_is_a_hidden_message():
    for text in ('{"__CURSOR":"s=1","MESSAGE":"[2026-0', '{"MESSAGE" : "x', '{"log":"[2026-03-01'):
        assert [record.hidden for record in journal.TextReader().feed(text.encode())] == ["damaged"]
    assert [record.hidden for record in journal.TextReader().feed(b'{"a": 1, this is text')] == [None]


def test_what_the_collectors_say_belongs_to_no_start_of_their_own():
    for fields in (
        {"_COMM": "systemd-journal", "_TRANSPORT": "driver", "OBJECT_SYSTEMD_UNIT": "x.service"},
        {"_SYSTEMD_UNIT": "systemd-oomd.service"},
        {"_SYSTEMD_UNIT": "systemd-coredump@0-1-0.service", "COREDUMP_UNIT": "x.service"},
        {"_PID": "1", "_COMM": "systemd", "UNIT": "x.service"},
    ):
        record = journal.journal_record({"MESSAGE": "x", "_SYSTEMD_INVOCATION_ID": A, **fields})
        assert record.invocation is None
        assert record.unit in ("x.service", None)


@pytest.mark.parametrize(("dropped", "count"), [("0", None), ("-1", None), ("1", 1), ("7", 7)])
def test_how_many_messages_journald_dropped(dropped, count):
    data = {
        "MESSAGE": "x", "N_DROPPED": dropped, "_TRANSPORT": "driver", "_SYSTEMD_UNIT": "systemd-journald.service",
        "_UID": "0", "_PID": "5",
    }  # fmt: skip
    assert journal.journal_record(data).count == count


def test_a_line_that_a_container_engine_never_ended_is_read_whole():
    reader = journal.TextReader()
    lines = [b"2026-03-01T23:45:06.1Z stderr P one ", b"2026-03-01T23:45:06.2Z stderr P two "]
    records = [record for line in lines for record in reader.feed(line)] + list(reader.close())
    assert [record.text for record in records if record.text] == ["one two "]
