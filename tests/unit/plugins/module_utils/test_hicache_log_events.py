# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events of one line: several messages on it, lines that are cut, records of requests, and bounds of what is read."""

from __future__ import annotations

import json

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_log

T = "2026-03-01 23:45:06"
ALLOC = "Allocating 44.77 GB host memory for hierarchical KV cache."
LABELLED = "Allocating kv hierarchical KV host pool: 5 tokens, 44.77 GB host memory."
BAR = "Loading: 50%|#####     | 5/10 [00:01<00:01, 5.00it/s]"
ACCESS = 'INFO:     127.0.0.1:1 - "GET /x HTTP/1.1" 200 OK'


def line(text, tags=" TP0"):
    return f"[{T}{tags}] {text}"


def kinds(text, writer="app"):
    return [(event.kind, event.code, event.tags) for event in hicache_log.parse_segment(text, writer)]


TP0, TP1 = (("TP", 0),), (("TP", 1),)
KV0, KV1 = ("alloc", "kv", TP0), ("alloc", "kv", TP1)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        (line(ALLOC), [KV0]),
        # Two processes on one stream may lose the line break between their lines.
        (line(ALLOC) + line(ALLOC, " TP1"), [KV0, KV1]),
        (line(ALLOC) + " " + line(ALLOC, " TP1"), [KV0, KV1]),
        (line(ALLOC) + line("words", " TP1"), [KV0]),
        ("".join(line(ALLOC, f" TP{n}") for n in range(10)), [("alloc", "kv", (("TP", n),)) for n in range(8)]),
        # What follows is no line of the engine's own: it is no line that the engine printed.
        (line(ALLOC) + " and more", [("cut", "cut", TP0)]),
        (line(f"Load weight begin. {line(ALLOC, ' TP1')}"), [("mark", "weights", TP0), ("unclear", "glued", TP1)]),
        (line(f"words {line(ALLOC, ' TP1')}"), [("unclear", "glued", TP1)]),
        (line(f"words {line(LABELLED, ' TP1')}"), [("unclear", "glued", TP1)]),
        (line(f"text='x' {line(ALLOC, ' TP1')}"), [("text", None, TP0)]),
        (line(f"Load weight begin. prompt='x' {line(ALLOC, ' TP1')}"), [("mark", "weights", TP0)]),
        (f"{BAR} {line(ALLOC)}", [KV0]),
        (f"{BAR}{BAR}{line(ALLOC)}", [KV0]),
        (f"{BAR} words {line(ALLOC)}", [("text", None, ())]),
        (BAR, [("text", None, ())]),
        (line("words"), [("text", None, TP0)]),
        (ACCESS, []),
    ],
)
def test_the_events_of_a_line(text, found):
    assert kinds(text) == found


@pytest.mark.parametrize(("text", "had_app"), [(line("words"), True), ("words", False), (f"{BAR} words", False)])
def test_a_text_tells_whether_the_engine_wrote_it(text, had_app):
    (event,) = hicache_log.parse_segment(text)
    assert (event.kind, event.text, event.data) == ("text", "words", {"had_app": had_app})
    assert event.time == (T if had_app else None)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Allocating 4", "cut"),
        ("Allocating 44.77 GB host mem", "cut"),
        ("Allocating 44.77 GB\u2026", "ellipsis"),
        ("Allocating 44.77 GB...", "ellipsis"),
        ("Allocating kv hierarchical", "cut"),
        ("Allocating kv hier", "cut"),
        ("Allocating kv", "cut"),
        ("Allocating k", "cut"),
        ("Allocating kv other", None),
        ("Allocating something", None),
        ("Allocating something else", None),
        ("Alloc", "cut"),
        ("A", "cut"),
        ("Allocator", None),
        ("B", None),
        ("max_total_num_tokens=159277", "figure"),
        ("max_total_num_tokens=159277, x", "device_tokens"),
    ],
)
def test_a_line_that_lacks_its_end(text, found):
    ((_kind, code, tags),) = kinds(line(text))
    assert (code, tags) == (found, TP0)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # Without the engine's prefix a beginning says nothing, and one that is not whole is a piece of a line.
        ("Alloc", ("text", None, ())),
        ("Allocating 44.77 GB host mem", ("cut", "cut", ())),
        (f"[{T} TP", ("cut", "cut", ())),
        (f"[{T}", ("cut", "cut", ())),
        ("[2026-03-01 23:45", ("text", None, ())),
        (f"[{T}]", ("text", None, ())),
    ],
)
def test_a_piece_without_a_prefix(text, found):
    assert kinds(text) == [found]


def test_a_text_of_the_longest_length_is_read_and_no_longer_one():
    known = "Load weight begin."
    assert kinds(line(known + "x" * (32768 - len(known)))) == [("mark", "weights", TP0)]
    assert kinds(line(known + "x" * (32769 - len(known)))) == [("text", None, TP0)]
    arguments = f"[{T}] server_args=ServerArgs(tp_size=2, x='{'y' * 40000}')"
    (event,) = hicache_log.parse_segment(arguments)
    assert (event.code, event.data) == ("server_args", {"tp_size": 2})


@pytest.mark.parametrize(
    ("label", "role"), [*hicache_log.LABEL_ROLES.items(), ("new", "side")]
)  # fmt: skip
def test_the_label_of_a_pool_tells_its_role(label, role):
    text = LABELLED.replace("kv", label, 1).replace("memory.", "memory, more words.")
    (event,) = hicache_log.parse_segment(line(text))
    assert event.data == {
        "role": role, "pool": label, "gb": 44.77, "tokens": 5, "labelled": True, "item": None, "packed": None,
    }  # fmt: skip
    assert event.text == text


def test_packed_layers_are_those_of_the_target_and_of_all():
    more = ", packed MTP KV layers: target_layers=61, draft_layers=1, total_layers=62."
    (event,) = hicache_log.parse_segment(line(LABELLED[:-1] + more))
    assert event.data["packed"] == (61, 62)


@pytest.mark.parametrize(
    ("writer", "found"),
    [("app", "alloc"), (None, "alloc"), ("systemd", None), ("kernel", None), ("journald", None), ("rsyslog", None)],
)
def test_an_allocation_is_the_applications(writer, found):
    assert [kind for kind, _code, _tags in kinds(line(ALLOC), writer)] == ([found] if found else [])


# -- records of requests --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "access", "head"),
    [
        (ACCESS, True, True),
        (ACCESS.replace("INFO", "DEBUG"), True, True),
        (f"[x] {ACCESS}", True, True),
        (f"{BAR} {ACCESS}", True, True),
        ('INFO:     127.0.0.1:1 - "GET /x', True, True),
        ('127.0.0.1 - - [x] "GET /x HTTP/1.1" 200 5', True, False),
        ('"WebSocket /x" [accepted]', True, False),
        ('"WebSocket /x" 403', True, False),
        ('"WebSocket /x" closed', False, False),
        ("HTTP/1.1 is spoken", False, False),
        ("x http_request{method=GET}", True, False),
        ("finished processing request x", True, False),
        ("started processing request x", True, False),
        ("processing", False, False),
        ("INFO:     Application startup complete.", False, False),
        ("INFO:     Uvicorn running on http://127.0.0.1:1", False, False),
        ("INFO:     Started server process [5]", False, False),
        ("INFO: words", False, False),
        ("words", False, False),
    ],
)
def test_records_of_requests(text, access, head):
    assert hicache_log.is_access(text) is access
    assert hicache_log.is_access_head(text) is head


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (ACCESS, 'HTTP/1.1" 200'),
        (ACCESS[:-3], 'HTTP/1.1" 200'),
        (ACCESS + " 5 x", ""),
        ('1.2.3.4 - - [x] "GET /x HTTP/1.1" 500 5 "x"', 'HTTP/1.1" 500'),
        ('1.2.3.4 - - [x] "GET /x HTTP/1.1" 500 - "x"', 'HTTP/1.1" 500'),
        ("words", ""),
    ],
)
def test_the_status_of_a_record(text, status):
    assert hicache_log.access_status(text) == status


@pytest.mark.parametrize(
    ("text", "bar"),
    [
        (BAR, True),
        (BAR + BAR, True),
        (f"{BAR} Loading: 60%|######", True),
        ("Loading: 60%|######", True),
        ("Loading: 60%", True),
        ("", True),
        (f"{BAR} words", False),
        ("words", False),
    ],
)
def test_what_is_nothing_but_bars(text, bar):
    assert hicache_log.is_bar(text) is bar


def test_the_lines_that_rsyslog_counts():
    assert hicache_log.repeated("message repeated 3 times: [ x]") == (3, "x")
    assert hicache_log.repeated("message repeated 3 times: [x] ") == (3, "x")
    assert hicache_log.repeated("message repeated x times: [ x]") == (1, "message repeated x times: [ x]")


# -- arguments ------------------------------------------------------------------------------------------------------


def arguments(body):
    return hicache_log.parse_server_args(f"server_args={body}")


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("ServerArgs(tp_size=8)", {"tp_size": 8}),
        ("{'tp_size': 8, 'dtype': 'auto'}", {"tp_size": 8, "dtype": "auto"}),
        (" ServerArgs (tp_size=8)", {"tp_size": 8}),
        # What stands inside of lists, dicts and texts is no argument.
        ("ServerArgs(a=[1, tp_size=2], b={'tp_size': 3}, tp_size=8)", {"tp_size": 8}),
        ("ServerArgs(c='tp_size=4, x', tp_size=8)", {"c": "tp_size=4, x", "tp_size": 8}),
        ("ServerArgs(a=f(1, tp_size=2), tp_size=8)", {"tp_size": 8}),
        # The first one of a name counts, and nothing behind the end.
        ("ServerArgs(tp_size=8, tp_size=9)", {"tp_size": 8}),
        ("ServerArgs(tp_size=8), dp_size=9", {"tp_size": 8}),
        ("ServerArgs(tp_size=8, dp_size=2", {"tp_size": 8}),
        ("ServerArgs(tp_size=8, a='never closed, dp_size=2)", {"tp_size": 8}),
        # Keys are never kept; numbers of tokens are.
        ("ServerArgs(api_key='x', admin_token='x', hf_config='x', max_total_tokens=5)", {"max_total_tokens": 5}),
        # Settings that are numbers are nothing else.
        ("ServerArgs(tp_size='8', port=True, hicache_ratio=1e400, page_size=None)", {"page_size": None}),
        ("ServerArgs(mem_fraction_static=1e-1, a=-5, b=2.0)", {"mem_fraction_static": 0.1, "a": -5, "b": 2.0}),
        ("ServerArgs(a=true, b=false, c=null, d=x)", {"a": True, "b": False, "c": None, "d": "x"}),
        (f"ServerArgs(a='{'x' * 998}', b='{'x' * 999}')", {"a": "x" * 998}),
        (f"ServerArgs({', '.join(f'a{n}={n}' for n in range(900))})", {f"a{n}": n for n in range(800)}),
        (f"ServerArgs(a={'(' * 31}1{')' * 31}, b=[{'1,' * 90}], c=5)", {"c": 5}),
    ],
)
def test_arguments_of_every_shape(body, found):
    assert arguments(body) == found


@pytest.mark.parametrize("name", sorted(hicache_log._NUMBERS))
def test_settings_that_are_numbers(name):
    assert arguments(f"ServerArgs({name}=5)") == {name: 5}
    assert arguments(f"ServerArgs({name}='5')") == {}
    assert arguments(f"ServerArgs({name}=five)") == {}


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("server_args=ServerArgs(a=1, b=2)", "server_args=ServerArgs(a=1, b=2)"),
        ("server_args={'a': 1} ", "server_args={'a': 1} "),
        ("server_args=ServerArgs(a=1, b=2", "server_args=ServerArgs(a=1"),
        ("server_args=ServerArgs(a=1", ""),
    ],
)
def test_of_a_line_of_arguments_the_whole_ones_count(text, whole):
    assert hicache_log.whole_settings(text) == whole


@pytest.mark.parametrize(
    ("command", "level"),
    [
        ("x --log-level warning", "warning"),
        ("x --log-level=error y", "error"),
        ("x --log-level warn", "warn"),
        ("x --log-level critical", "critical"),
        ("x --log-level info", None),
        (None, None),
    ],
)
def test_a_level_above_info_hides_the_lines(command, level):
    assert hicache_log.quiet_level(command) == level


@pytest.mark.parametrize("key", hicache_log._MESSAGE_KEYS)
def test_the_key_of_a_structured_message(key):
    plain = json.dumps({key: "x"})
    assert hicache_log.json_message(plain)[0] == "x"
    assert hicache_log.json_message(json.dumps({"fields": {key: "x"}}))[0] == "x"
    assert hicache_log.json_message(json.dumps({key: 5, "fields": {key: "x"}}))[0] == "x"
    for text in (f"[{plain}]", f"{plain} y", f"y {plain}"):
        assert hicache_log.json_message(text) is None
