# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a record has of a line of each form: writer, process, origin, time and text; and lines that come in pieces."""

from __future__ import annotations

import json

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import journal

Z = "2026-03-01T23:45:06Z"
TIME = 1772408706.0
ALLOC = "Allocating 44.77 GB host memory for hierarchical KV cache."


def read(*lines, terminated=True, close=True):
    """Return the reader and the records of the lines."""
    reader = journal.TextReader()
    records = [record for raw in lines for record in reader.feed(raw.encode(), terminated)]
    return reader, records + (list(reader.close()) if close else [])


def told(record):
    """What a record has, without what is None."""
    return {name: value for name, value in record._asdict().items() if value is not None}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Mar 01 23:45:06 h sglang[42]: x", {"form": "short", "writer": "app", "pid": 42, "stamp": "Mar 01 23:45:06"}),
        ("<30>Mar  1 23:45:06 h sshd[42]: x", {"form": "short", "writer": "other", "pid": 42}),
        ("Mar 01 23:45:06 h python3: x", {"form": "short", "writer": "app"}),
        (f"{Z} h sglang[42]: x", {"form": "short-iso", "writer": "app", "pid": 42, "time": TIME}),
        (f"{Z} h kernel: x", {"form": "short-iso", "writer": "kernel", "time": TIME}),
        ("Mar 01 23:45:06 systemd[1]: x", {"form": "short-no-host", "writer": "systemd", "pid": 1}),
        (f"{Z} systemd[1]: x", {"form": "short-iso-no-host", "writer": "systemd", "pid": 1, "time": TIME}),
        (
            "Sun 2026-03-01 23:45:06 UTC h x.service[42]: x",
            {"form": "short-full", "writer": "app", "pid": 42, "unit": "x.service"},
        ),
        (
            "1772408706.500000 h sglang[42]: x",
            {"form": "short-unix", "writer": "app", "pid": 42, "time": TIME + 0.5, "stamp": "1772408706.500000"},
        ),
        ("[ 12.345678] h sglang[42]: x", {"form": "short-monotonic", "writer": "app", "pid": 42}),
        (f"<30>1 {Z} h sglang 42 - - x", {"form": "rfc5424", "writer": "app", "pid": 42, "time": TIME}),
        (f"<30>1 {Z} h sglang - - [a b] x", {"form": "rfc5424", "writer": "app", "time": TIME}),
        ("[Sun Mar  1 23:45:06 2026] x", {"form": "dmesg", "writer": "kernel", "stamp": "[Sun Mar  1 23:45:06 2026]"}),
        ("kern  :err   : [   12.345678] x", {"form": "dmesg", "writer": "kernel", "stamp": "[   12.345678]"}),
        ("pod/a/b x", {"form": "kubectl", "origin": "pod/a/b"}),
        ("[pod/a/b] x", {"form": "kubectl", "origin": "pod/a/b"}),
        ("srv-1  | x", {"form": "compose", "origin": "srv-1"}),
        (f"srv-1  | {Z} x", {"form": "compose", "origin": "srv-1", "time": TIME, "stamp": Z}),
        (f"{Z} x", {"form": "stamped", "time": TIME, "stamp": Z}),
        (f"{Z} stderr F x", {"form": "cri", "time": TIME, "stamp": Z}),
        (f"pod/a/b {Z} stderr F x", {"form": "cri", "time": TIME, "origin": "pod/a/b"}),
        ("x", {"form": "plain", "cont": "bare"}),
        (f'{{"log":"x\\n","stream":"stderr","time":"{Z}"}}', {"form": "docker-json", "time": TIME, "stamp": Z}),
        ('{"log":"x\\n","stream":"stderr"}', {"form": "docker-json"}),
        (f'{{"log":"{Z} x\\n","stream":"stderr"}}', {"form": "docker-json", "stamp": Z}),
        ('data: {"MESSAGE":"x","_TRANSPORT":"stdout"}', {"form": "json", "writer": "app"}),
        ('\x1e{"MESSAGE":"x","_BOOT_ID":"b"}', {"form": "json", "writer": "app"}),
        ("\x1b[1mMar 01 23:45:06 h sglang[42]: x\x1b[0m", {"form": "short", "pid": 42}),
        ("Mar 01 23:45:06 h sglang[42]: #011x", {"form": "short", "pid": 42, "text": "\tx"}),
        ("Mar 01 23:45:06 h sglang[42]: #177x", {"form": "short", "pid": 42, "text": "\x7fx"}),
        ("Mar 01 23:45:06 h sglang[42]: #33 x", {"form": "short", "pid": 42, "text": "#33 x"}),
    ],
)
def test_what_a_line_of_each_form_tells(text, found):
    reader, (record,) = read(text)
    assert told(record) == {**told(record), "text": "x", **found}
    assert record.form in reader.forms
    if found["form"] not in ("json", "docker-json"):
        assert record.line_break is None
    for name in ("pid", "origin", "unit", "time"):
        assert getattr(record, name) == found.get(name)


def test_a_json_line_of_a_logger_stays_whole():
    text = json.dumps({"ts": Z, "pid": 42, "message": "x"})
    _reader, (record,) = read(text)
    assert told(record) == {
        "text": text,
        "form": "json-lines",
        "writer": "app",
        "stamp": Z,
        "time": TIME,
        "pid": 42,
    }


@pytest.mark.parametrize("name", ["timestamp", "time", "ts", "@timestamp", "asctime"])
def test_a_loggers_time_has_several_names(name):
    assert read(json.dumps({name: Z, "message": "x"}))[1][0].time == TIME
    assert read(json.dumps({name: 5, "message": "x"}))[1][0].time is None


@pytest.mark.parametrize("name", ["pid", "process", "process_id"])
def test_a_loggers_process_has_several_names(name):
    assert read(json.dumps({name: 42, "message": "x"}))[1][0].pid == 42
    assert read(json.dumps({name: "42", "message": "x"}))[1][0].pid is None


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("-- Boot 0123456789abcdef --", "reboot"),
        ("-- Reboot --", "reboot"),
        ("-- Journal begins at Sun. --", None),
        ("-- No entries --", None),
    ],
)
def test_journalctls_own_lines(text, hidden):
    _reader, (record,) = read(text)
    assert (record.writer, record.form, record.text, record.hidden) == ("journalctl", "header", text, hidden)


@pytest.mark.parametrize(
    "text",
    [
        "Mar 01 23:45:06 h sglang[42]: x",
        "[   12.345678] x",
        "srv-1  | x",
        "x",
        f"{Z} stderr F x",
    ],
)
def test_only_the_last_line_of_a_cut_file_is_cut(text):
    assert [record.line_break for record in read(text)[1]] == [None]
    assert [record.line_break for record in read(text, terminated=False)[1]] == ["input-end"]


def test_a_line_of_a_terminal_is_indented_under_a_syslog_line_alone():
    syslog, wrapped = "Mar 01 23:45:06 h sglang[42]: x", " " * 8 + "y"
    assert [record.cont for record in read(wrapped)[1]] == ["bare"]
    assert [record.cont for record in read(syslog, wrapped)[1]] == [None, "indented"]
    assert [record.cont for record in read(syslog, " " * 7 + "y")[1]] == [None, "bare"]
    assert [record.cont for record in read(syslog, "srv-1  | x", wrapped)[1]] == [None, None, "bare"]


# -- lines in pieces ------------------------------------------------------------------------------------------------


def cri(text, part="P", stream="stderr", origin=""):
    return f"{origin}{Z} {stream} {part} {text}"


def docker(text, stream="stderr"):
    return json.dumps({"log": text, "stream": stream, "time": Z})


@pytest.mark.parametrize(
    ("lines", "texts"),
    [
        ([cri("a"), cri("b"), cri("c", "F")], [("abc", None)]),
        ([cri("a"), cri("b")], [("ab", "eof")]),
        # Streams and pods have pieces of their own.
        ([cri("a"), cri("x", "F", "stdout"), cri("b", "F")], [("x", None), ("ab", None)]),
        (
            [cri("a", origin="pod/p "), cri("x", "F", origin="pod/q "), cri("b", "F", origin="pod/p ")],
            [("x", None), ("ab", None)],
        ),
        ([cri("a", "F"), cri("b", "F")], [("a", None), ("b", None)]),
        ([docker("a"), docker("b\n")], [("", None), ("ab", None)]),
        ([docker("a"), docker("b")], [("", None), ("", None), ("ab", "eof")]),
        ([docker("a"), docker("x\n", "stdout"), docker("b\n")], [("", None), ("x", None), ("ab", None)]),
    ],
)
def test_a_line_in_pieces_is_put_together(lines, texts):
    _reader, records = read(*lines)
    assert [(record.text, record.line_break) for record in records] == texts


def test_the_end_is_told_once():
    reader, records = read(cri("a"), "__CURSOR=c", "MESSAGE=x")
    assert [record.text for record in records] == ["x", "a"]
    assert list(reader.close()) == []


@pytest.mark.parametrize(
    ("pieces", "kept"),
    [
        (["x" * 65535], True),
        (["x" * 65536], False),
        (["x" * 32768] * 2, False),
        (["x" * 32767] * 2, True),
        # The first of the parts counts their length.
        (["x"] * 4095, True),
        (["x"] * 4096, False),
    ],
)
def test_pieces_are_kept_up_to_a_bound(pieces, kept):
    for make in (cri, docker):
        _reader, records = read(*map(make, pieces), close=False)
        found = [record.text for record in records if record.text]
        assert found == ([] if kept else ["".join(pieces)])


def test_the_lines_that_wait_for_their_rest_are_bounded():
    origins = [f"pod/p{number} " for number in range(257)]
    _reader, records = read(*(cri("a", origin=origin) for origin in origins))
    # The first one is left out for the last one.
    assert [record.origin for record in records] == [origin.strip() for origin in origins[1:]]
    _reader, records = read(*(cri("a", origin=origin) for origin in origins[:256]))
    assert len(records) == 256


@pytest.mark.parametrize("form", ["json", "docker-json", "json-lines"])
def test_a_piece_of_a_record_is_known_by_the_form_of_those_before(form):
    first = {
        "json": '{"MESSAGE":"x","_TRANSPORT":"stdout"}',
        "docker-json": '{"log":"x\\n","stream":"stderr"}',
        "json-lines": '{"a":"x"}',
    }[form]
    assert [record.hidden for record in read(first, '{"b":"cut')[1]] == [None, "damaged"]
    assert [record.hidden for record in read(first, "{b: cut")[1]] == [None, None]


def test_a_pretty_record_ends_with_its_brace():
    lines = ["{", '  "MESSAGE" : "x",', '  "_TRANSPORT" : "stdout"', "},", "y"]
    assert [(record.text, record.form) for record in read(*lines)[1]] == [("x", "json"), ("y", "plain")]
    assert [record.text for record in read(*lines[:3], "}", close=False)[1]] == ["x"]


def test_lines_after_a_lone_brace_are_given_after_a_while():
    _reader, records = read("{", *["x"] * 1999, close=False)
    assert records == []
    _reader, records = read("{", *["x"] * 2000, "y", close=False)
    assert [record.text for record in records] == ["{", *["x"] * 2000, "y"]


def test_a_pretty_record_is_bounded_by_its_size(monkeypatch):
    monkeypatch.setattr(journal, "LINE_LIMIT", 100)
    assert read("{", "x" * 99, close=False)[1] == []
    assert [record.text for record in read("{", "x" * 100, close=False)[1]] == ["{", "x" * 100]
    # Of one record nothing counts for the next one.
    assert read("{", "}", "{", "x" * 98, close=False)[1][2:] == []


def test_binary_fields_of_an_export_have_the_length_that_they_name(monkeypatch):
    def export(size, value, after=b"_PID=42"):
        raw = b"__CURSOR=c\nMESSAGE\n" + size.to_bytes(8, "little") + value + b"\n" + after
        reader = journal.TextReader()
        return [record for one in raw.split(b"\n") for record in reader.feed(one)] + list(reader.close())

    assert [(record.text, record.pid) for record in export(1, b"a")] == [("a", 42)]
    assert [(record.text, record.pid) for record in export(3, b"a\nb")] == [("a\nb", 42)]
    assert [(record.text, record.pid) for record in export(0, b"")] == [("", 42)]
    assert [record.text for record in export(100, b"a\nb")] == [None]
    # A field beyond the limit is left out, and what follows is read.
    monkeypatch.setattr(journal, "LINE_LIMIT", 50)
    assert [(record.text, record.pid) for record in export(10**6, b"x" * 51)] == [(None, 42)]
    assert [(record.text, record.pid) for record in export(48, b"x" * 48)] == [("x" * 48, 42)]


# -- JSON -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dropped", "count"),
    [
        ("20", 20),
        (1, 1),
        ("0", None),
        ("-1", None),
        ("x", None),
        (None, None),
        (str(10**12), 10**12),
        (str(10**12 + 1), 10**12),
        (str(2**63), None),
        (str(2**63 - 1), 10**12),
    ],
)
def test_a_notice_is_believed_a_number_of_messages(dropped, count):
    fields = {"MESSAGE": "x", "_TRANSPORT": "driver", "N_DROPPED": dropped}
    assert journal.journal_record(fields).count == count


@pytest.mark.parametrize(
    ("value", "hidden"), [([0, 255], None), ([256], "damaged"), ([-1], "damaged"), ([True], "damaged"), (5, "damaged")]
)
def test_a_message_of_bytes_has_bytes(value, hidden):
    assert journal.journal_record({"MESSAGE": value}).hidden == hidden


def test_a_record_has_its_time_in_seconds():
    fields = {"MESSAGE": "x", "__REALTIME_TIMESTAMP": "1772408706500000"}
    assert journal.journal_record(fields).time == TIME + 0.5
    assert journal.journal_record({"MESSAGE": "x", "__REALTIME_TIMESTAMP": "0"}).time is None


def test_systemds_word_about_a_unit_is_no_message_of_its_own_start():
    own = {"MESSAGE": "x", "_PID": "1", "_SYSTEMD_INVOCATION_ID": "a" * 32, "_SYSTEMD_UNIT": "init.scope"}
    assert (journal.journal_record(own).unit, journal.journal_record(own).invocation) == ("init.scope", "a" * 32)
    assert journal.journal_record({**own, "UNIT": "x.service"}).invocation is None
    named = journal.journal_record({**own, "UNIT": "x.service", "INVOCATION_ID": "b" * 32})
    assert (named.unit, named.invocation) == ("x.service", "b" * 32)


@pytest.mark.parametrize(
    ("data", "is_one"),
    [
        ({"MESSAGE": "x"}, False),
        ({"MESSAGE": "x", "_TRANSPORT": "stdout"}, True),
        ({"MESSAGE": "x", "_BOOT_ID": "b"}, True),
        ({"MESSAGE": "x", "__REALTIME_TIMESTAMP": "1"}, True),
        ({"_TRANSPORT": "stdout"}, False),
        ({"_BOOT_ID": "b"}, False),
        ({"__REALTIME_TIMESTAMP": "1"}, False),
    ],
)
def test_a_journal_record_has_a_message_and_a_field_of_the_journal(data, is_one):
    assert journal.is_journal_object(data) is is_one


def test_a_line_at_the_limit_is_read(monkeypatch):
    text = '{"MESSAGE":"x"}'
    monkeypatch.setattr(journal, "LINE_LIMIT", len(text))
    assert journal.parse_json_line(text).text == "x"
    assert told(journal.parse_json_line(text + " ")) == {"hidden": "oversize", "form": "json", "writer": "app"}
    assert told(journal.parse_json_line("{")) == {"hidden": "damaged", "form": "json", "writer": "app"}
    assert journal.parse_json_line('-- {"MESSAGE":"x"}') is None
    assert journal.parse_json_line('{"MSG":"x"}') is None


@pytest.mark.parametrize(
    ("raw", "cursor"),
    [
        (b'{"__CURSOR":"c"}', "c"),
        (b'{"__CURSOR":5}', None),
        (b"{}", None),
        (b"[]", None),
        (b"{", None),
        (b"[" * 10**5, None),
    ],
)
def test_a_cursor_is_text(raw, cursor):
    assert journal.cursor_of(raw) == cursor
    assert journal.cursor_of(b"[" * 10**5) is None


def record(**fields):
    return json.dumps({"__CURSOR": "c", "_TRANSPORT": "stdout", **fields}, separators=(",", ":")).encode()


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_the_prefilter_gives_the_lines_that_matter_in_order(end):
    lines = [record(MESSAGE="x"), record(MESSAGE=f"{ALLOC} KV Cache "), record(MESSAGE="y"), record(MESSAGE="fired up")]
    block = b"\n".join(lines) + end
    picked = [block[start:stop] for start, stop in journal.Prefilter().candidates(block)]
    assert picked == [lines[1], lines[3]]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_json_that_is_laid_out_otherwise_is_decoded_line_by_line(end):
    lines = [b'{"MESSAGE" : "x"}', b'{"MESSAGE" : "y"}', b'{"MESSAGE" : "z"}']
    block = b"\n".join(lines) + end
    assert [block[start:stop] for start, stop in journal.Prefilter().candidates(block)] == lines


@pytest.mark.parametrize(
    "fields",
    [
        {"MESSAGE": "x", "UNIT": "x.service"},
        {"MESSAGE": "x", "OBJECT_SYSTEMD_UNIT": "x.service"},
        {"MESSAGE": "x", "_LINE_BREAK": "eof"},
        {"MESSAGE": None},
        {"MESSAGE": list(b"KV Cache ")},
    ],
)
def test_fields_that_matter_pass_with_any_message(fields):
    block = record(**fields) + b"\n"
    assert list(journal.Prefilter().candidates(block)) == [(0, len(block) - 1)]


def test_a_stream_counts_its_lines_and_knows_its_last_one():
    stream = journal.JsonStream()
    assert (stream.lines, stream.last, stream.cursor) == (0, None, None)
    content = record(MESSAGE="x") + b"\n" + record(MESSAGE="fired up", __CURSOR="d") + b"\n" + record(MESSAGE="died")
    assert [one.text for one in stream.feed(content)] == ["fired up"]
    assert (stream.lines, stream.last.text, stream.cursor) == (2, "fired up", "d")
    assert [one.text for one in stream.close()] == ["died"]
    assert (stream.lines, stream.last.text, stream.cursor) == (3, "died", "c")
    assert list(stream.close()) == [] and stream.lines == 3
    blank = journal.JsonStream()
    assert list(blank.feed(b" ")) == [] and list(blank.close()) == [] and blank.lines == 0


def test_a_line_without_an_end_is_kept_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(journal, "LINE_LIMIT", 30)
    stream = journal.JsonStream()
    for _turn in range(5):
        assert list(stream.feed(b"x" * 30)) == []
    # What is beyond the bound is left out, and the lines after it are read.
    assert [one.text for one in stream.feed(b'x\n{"MESSAGE":"died"}\n')][-1] == "died"
    assert stream.lines == 2
    stream = journal.JsonStream()
    assert list(stream.feed(b'{"MESSAGE":"died"' + b" " * 40)) == [] and list(stream.feed(b"}\n")) != []


# -- names and command lines ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("a" * 32, True), ("a" * 31, False), ("a" * 33, False), ("A" * 32, False), ("", False), (None, False)],
)
def test_an_invocation_has_32_digits(text, is_one):
    assert journal.is_invocation_id(text) is is_one


def test_a_position_is_asked_for_where_there_is_one():
    assert "--after-cursor=c" in journal.journal_argv("a" * 32, after_cursor="c")
    assert not [word for word in journal.journal_argv("a" * 32) if word.startswith("--after-cursor")]
    assert "--since=@5" in journal.kernel_argv(5.9)


def test_a_folder_that_nobody_may_enter_hides_its_journal(tmp_path, monkeypatch):
    monkeypatch.setattr(journal.os, "access", lambda path, mode: False)
    assert journal.unreadable((str(tmp_path),)) is True
    assert journal.unreadable((str(tmp_path / "none"),)) is False
    monkeypatch.setattr(journal.os, "access", lambda path, mode: mode == journal.os.R_OK)
    assert journal.unreadable((str(tmp_path),)) is True


def test_of_a_property_the_first_line_counts():
    text = "ActiveState=active\nActiveState=failed\nOther=1\nMainPID\nExecStart={ a=b }\n"
    assert journal.parse_show(text) == {"ActiveState": "active", "ExecStart": "{ a=b }"}
