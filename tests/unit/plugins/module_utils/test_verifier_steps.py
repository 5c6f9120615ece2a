# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps of a verification: values that are refused, whose answers count, and what is asked when."""

from __future__ import annotations

import bz2
import gzip
import lzma
import socket
from types import SimpleNamespace

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_evidence
from ansible_collections.llmfleet.sglang.plugins.module_utils._hicache import verifier
from ansible_collections.llmfleet.sglang.plugins.module_utils.hicache_judge import Around

DEFAULTS = {name: spec.get("default") for name, spec in verifier.ARGUMENT_SPEC.items()}


def params(**given):
    return {**DEFAULTS, "unit": "sglang-kimi", **given}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"unit": None, "log_file": "/x"},
        {"ranks": 0},
        {"ranks": 4096},
        {"tolerance_gb": 0},
        {"timeout": 7 * 86400},
        {"poll_interval": 0.1},
        {"poll_interval": 3600},
        {"nodes": 1, "node_rank": 0},
        {"nodes": 2, "node_rank": 1, "tensor_parallel_size": 16},
        {"rank_set": ["0-7"], "ranks": 8},
        {"invocation_id": "a" * 32},
        {"readiness": "health", "health_url": "http://x"},
        {"readiness": "health", "log_file": "/x"},
        {"release": "0.5.23"},
        {"expected_settings": {"tp_size": 8, "dtype": "auto", "x": None, "y": 1.5, "z": True}},
        {"expected_settings": {"x": "y" * 2000}},
        {"expected_settings": {f"x{number}": 1 for number in range(500)}},
    ],
)
def test_values_that_a_server_may_have(given):
    assert verifier.check_parameters(params(**given)) is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        *(({name: value}, f"{name} is {value}") for name in verifier._ABOVE_ZERO for value in (0, -1)),
        ({"tolerance_gb": -0.1}, "tolerance_gb is -0.1: it has to be 0 or more"),
        ({"timeout": -1}, "timeout is -1"),
        ({"ranks": -1}, "ranks is -1"),
        ({"ranks": 4097}, "ranks is 4097"),
        ({"timeout": 7 * 86400 + 1}, "timeout is 604801"),
        ({"poll_interval": 0.09}, "poll_interval is 0.09: it has to be 0.1 seconds or more"),
        ({"poll_interval": 3601}, "poll_interval is 3601"),
        ({"nodes": 0}, "nodes is 0: it has to be a number from 1 to 4096"),
        ({"nodes": 4097}, "nodes is 4097: it has to be a number from 1 to 4096"),
        ({"node_rank": -1}, "node_rank is -1: it has to be a number from 0 to 4095"),
        ({"node_rank": 4096}, "node_rank is 4096: it has to be a number from 0 to 4095"),
        ({"nodes": 2, "node_rank": 2, "tensor_parallel_size": 16}, "node_rank is 2"),
        ({"rank_set": ["0-7"], "ranks": 7}, "ranks is 7, but rank_set names 8 ranks"),
        ({"rank_set": ["x"]}, "names no rank"),
        ({"release": "new"}, "new"),
        ({"invocation_id": "x"}, "invocation_id is 'x'"),
        ({"unit": None}, "unit is missing"),
        ({"unit": "-x"}, "unit is '-x'"),
        ({"readiness": "health"}, "readiness is health and health_url is missing"),
        ({"expected_settings": {f"x{number}": 1 for number in range(501)}}, "has 501 entries"),
        ({"expected_settings": {"a-b": 1}}, "expected_settings names 'a-b'"),
        ({"expected_settings": {5: 1}}, "expected_settings names 5"),
        ({"expected_settings": {"x": float("inf")}}, "expected_settings.x is inf"),
        ({"expected_settings": {"x": [1]}}, "expected_settings.x is no text"),
        ({"expected_settings": {"x": "y" * 2001}}, "expected_settings.x is no text"),
    ],
)
def test_values_that_no_server_has_are_refused_by_name(given, words):
    assert words in verifier.check_parameters(params(**given))


def test_the_layout_is_what_was_asked_for_of_it():
    assert verifier.asked_layout(params()) == {}
    assert verifier.asked_layout(params(nodes=2, tensor_parallel_size=8)) == {"nodes": 2, "tensor_parallel_size": 8}


def test_an_ask_has_the_models_that_are_named(tmp_path):
    (tmp_path / "config.json").write_text('{"x": 1}')
    ask = verifier.build_ask(params(ranks=8, model_path=str(tmp_path), draft_kv_cache_dtype="bf16", nodes=2))
    assert (ask.ranks, ask.model, ask.draft_model, ask.model_expected) == (8, {"x": 1}, None, True)
    assert (ask.draft_dtype, ask.layout, ask.tolerance_gb, ask.readiness) == ("bf16", {"nodes": 2}, 0.01, "auto")
    ask = verifier.build_ask(params(model_path=str(tmp_path / "none")))
    assert (ask.model, ask.model_expected) == (None, True)
    assert verifier.build_ask(params()).model_expected is False


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://h:30000/x", ("h", 30000)),
        ("http://h/x", ("h", 80)),
        ("https://h/x", ("h", 443)),
        ("https://[::1]:5/x", ("::1", 5)),
        ("/x", None),
        ("http://h:99999999/x", None),
        ("http://[::1/x", None),
    ],
)
def test_the_place_that_an_address_names(url, place):
    assert verifier.port_of(url) == place


def test_the_addresses_of_a_host(monkeypatch):
    def found(*names):
        return lambda *_args, **_more: [(0, 0, 0, "", (name, 0)) for name in names]

    monkeypatch.setattr(socket, "getaddrinfo", found("fe80::1%eth0", "10.0.0.1", "10.0.0.1"))
    assert verifier.addresses("h") == ["10.0.0.1", "fe80::1"]
    monkeypatch.setattr(socket, "getaddrinfo", found(*(f"10.0.0.{number:03}" for number in range(20))))
    assert verifier.addresses("h") == [f"10.0.0.{number:03}" for number in range(16)]
    for error in (OSError, UnicodeError):

        def refuse(*_args, error=error, **_more):
            raise error

        monkeypatch.setattr(socket, "getaddrinfo", refuse)
        assert verifier.addresses("h") == ["h"]


def made(**given):
    one = verifier.Verifier(SimpleNamespace(params=params(**given)))
    one.evidence = hicache_evidence.Evidence(one.unit)
    return one


@pytest.mark.parametrize(("ending", "opener"), [("", open), (".gz", gzip.open), (".bz2", bz2.open), (".xz", lzma.open)])
def test_a_saved_log_may_be_packed(tmp_path, ending, opener):
    with opener(str(tmp_path / f"x{ending}"), "wb") as target:
        target.write(b"words")
    with verifier.Verifier.open_log(str(tmp_path / f"x{ending}")) as source:
        assert source.read() == b"words"


@pytest.mark.parametrize(
    ("named", "seen", "number"), [("3", 0, 3), ("3", 5, 5), ("", 2, 2), (None, 0, 0), ("x", 1, 1), ("-1", 0, 0)]
)
def test_the_number_of_restarts_is_the_highest_that_is_told(named, seen, number):
    one = made()
    one.evidence.restarts = seen
    assert one.restarts({"NRestarts": named}) == number


LOOKS = {"10.0.0.1": True, "10.0.0.2": False, "10.0.0.3": None}


@pytest.mark.parametrize(
    ("hosts", "before", "ours"),
    [
        (["10.0.0.1"], None, True),
        (["10.0.0.2"], None, False),
        (["10.0.0.3"], None, None),
        # One foreign listener that could answer is enough.
        (["10.0.0.1", "10.0.0.2", "10.0.0.3"], None, False),
        (["10.0.0.1", "10.0.0.3"], None, None),
        # The worst finding stays.
        (["10.0.0.1"], False, False),
        (["10.0.0.1"], None, True),
        (["10.0.0.2"], True, False),
        (["10.0.0.1"], "unknown", None),
        (["10.0.0.2"], "unknown", False),
    ],
)
def test_who_listens_at_an_address(monkeypatch, hosts, before, ours):
    asked = []

    def look(port, address, group):
        asked.append((port, address, group))
        return {"ours": LOOKS[address], "pid": 7, "comm": "x", "unit": None}

    monkeypatch.setattr(verifier, "socket_owner", look)
    monkeypatch.setattr(verifier, "addresses", lambda host: hosts)
    owner = None
    if before is not None:
        owner = {"ours": None if before == "unknown" else before, "place": ("other", 1), "port": 1}
    around = made().with_owner(Around(unit={"ControlGroup": "/g"}, owner=owner), "http://h:30000/x")
    assert around.owner["ours"] is ours
    assert asked == ([] if before is False else [(30000, host, "/g") for host in hosts])
    if before is None:
        # The same place is looked at once.
        assert around.owner["place"] == ("h", 30000) and around.owner["port"] == 30000
        assert made().with_owner(around, "http://h:30000/y") is around
        assert len(asked) == len(hosts)


def test_an_address_without_a_host_is_nobodys():
    owner = made().with_owner(Around(), "/x").owner
    assert (owner["ours"], owner["port"], owner["place"], owner["pid"]) == (None, None, None, None)


@pytest.mark.parametrize(
    ("given", "allocation", "ready", "begun", "last", "wants"),
    [
        ({}, "pass", True, True, True, True),
        ({}, "pass", True, True, False, True),
        ({}, "pass", False, True, False, False),
        ({}, "pass", False, True, True, True),
        ({}, "pass", False, False, False, True),
        ({"readiness": "health"}, "pass", False, True, False, True),
        ({"readiness": "line"}, "pass", True, True, True, False),
        ({"readiness": "none"}, "pass", True, True, True, False),
        ({}, "fail", True, True, True, False),
        ({}, "inconclusive", True, True, True, False),
        ({"health_url": None}, "pass", True, True, True, False),
    ],
)
def test_health_is_asked_for_where_the_answer_matters(given, allocation, ready, begun, last, wants):
    one = made(**{"health_url": "http://h/x", **given})
    one.evidence.start.begun = begun
    if ready:
        one.evidence.start.become_ready(None, 5, None)
    assert one.wants_health({"allocation_verdict": allocation}, last) is wants


@pytest.mark.parametrize(
    ("timeout", "spent", "limit"),
    [(0, 0, verifier.PROBE_TIMEOUT), (1000, 0, verifier.PROBE_TIMEOUT), (10, 8, 5), (20, 12, 8)],
)
def test_a_question_takes_no_longer_than_is_left(monkeypatch, timeout, spent, limit):
    one = made(health_url="http://h/x", timeout=timeout)
    one.began = 0.0
    monkeypatch.setattr(verifier.time, "monotonic", lambda: float(spent))
    asked = []
    one.fetch = lambda url, seconds: asked.append((url, seconds)) or (200, b"", None)
    assert one.health()["ok"] is True
    assert asked == [("http://h/x", limit)]


@pytest.mark.parametrize(("status", "tokens"), [(200, [5]), (404, []), (None, [])])
def test_only_a_good_answer_has_metrics(status, tokens):
    one = made(metrics_url="http://h/m", server_info_url="http://h/s", api_key="k")
    asked = []

    def fetch(url, key=None):
        asked.append((url, key))
        body = b"sglang:hicache_host_total_tokens 5" if url.endswith("m") else b'{"tp_size": 8}'
        return status, body, None

    one.fetch = fetch
    assert [found["tokens"] for found in one.metrics()] == tokens
    assert one.server_info() == ({"tp_size": 8} if status == 200 else None)
    assert asked == [("http://h/m", None), ("http://h/s", "k")]


@pytest.mark.parametrize(
    ("state", "last", "allocation", "asked"),
    [
        ("active", True, "pass", ["h", "m", "s"]),
        ("active", False, "pass", ["h"]),
        ("inactive", True, "pass", ["h"]),
        ("failed", True, "pass", ["h"]),
        ("active", True, "inconclusive", ["m", "s"]),
        ("active", True, "fail", []),
    ],
)
@pytest.mark.parametrize("ours", [True, None, False])
def test_what_a_look_asks_the_server(monkeypatch, state, last, allocation, asked, ours):
    one = made(health_url="http://h/h", metrics_url="http://h/m", server_info_url="http://h/s", readiness="health")
    judged, questions = [], []

    def judge(_start, _ask, around, _restarts):
        judged.append(around)
        return {"verdict": "pass", "allocation_verdict": allocation}, "done"

    monkeypatch.setattr(verifier.hicache_judge, "judge", judge)
    monkeypatch.setattr(verifier, "addresses", lambda host: [host])
    monkeypatch.setattr(verifier, "socket_owner", lambda *_args: {"ours": ours, "pid": 7, "comm": "x", "unit": None})
    for name in ("health", "metrics", "server_info"):
        setattr(one, name, lambda name=name: questions.append(name[:1]) or name)
    _result, phase, around = one.judge_live({"ActiveState": state}, "a" * 32, 5 if last else None, last=last)
    assert questions == ([] if ours is False else asked)
    assert (phase, around.deadline, around.bound, around.invocation) == ("done", 5 if last else None, True, "a" * 32)
    assert judged[-1] is around and judged[0].health is None
    assert (around.metrics, around.server_info) == (("metrics", "server_info") if "m" in questions else (None, None))


def test_what_is_left_of_the_time(monkeypatch):
    one = made(timeout=10)
    one.began = 100.0
    monkeypatch.setattr(verifier.time, "monotonic", lambda: 104.0)
    assert one.remaining() == 6.0
    assert one.unit == "sglang-kimi.service" and made(unit=None, log_file="/x").unit is None
    assert one.environment["LC_ALL"] == "C" and one.environment["SYSTEMD_COLORS"] == "0"


@pytest.mark.parametrize(("since", "asked"), [(5.0, True), (None, False), ("Mar 01", False)])
def test_the_kernel_is_asked_from_the_time_of_the_start_on(since, asked):
    one = made()
    one.module.get_bin_path = lambda name, required: f"/bin/{name}"
    one.evidence.start.started_at = since
    lines = [
        b'{"MESSAGE":"Out of memory: Killed process 7 (sglang::schedul) total-vm:1kB","_TRANSPORT":"kernel"}',
        b'{"MESSAGE":"something else","_TRANSPORT":"kernel"}',
        b"-- out of memory",
    ]
    argvs = []
    one.lines = lambda argv: argvs.append(argv) or (lines, "")
    one.read_kernel({})
    assert [("--since=@5" in argv) for argv in argvs] == ([True] if asked else [])
    assert [death.code for death in one.evidence.start.deaths] == (["killed_by_oom"] if asked else [])


def test_few_lines_of_a_journal_are_bounded():
    one, block = made(), b"x" * (8 * 1024 * 1024)

    def journalctl(argv, take):
        for _turn in range(4):
            take(block)
        return 0, "words"

    one.journalctl = journalctl
    lines, said = one.lines(["journalctl"])
    assert (sum(map(len, lines)), said) == (16 * 1024 * 1024, "words")


@pytest.mark.parametrize(
    ("code", "said", "message"),
    [(1, "first\nsecond\n", "journalctl failed: first"), (7, "", "journalctl failed: 7"), (0, "first\n", None)],
)
def test_a_journal_that_cannot_be_read(code, said, message):
    one = made()
    one.total = 0
    one.module.get_bin_path = lambda name, required: f"/bin/{name}"
    one.journalctl = lambda argv, take: (code, said)
    one.read_on("a" * 32, ("/x.journal",))
    assert [loss["message"] for loss in one.evidence.start.losses.values()] == ([message] if message else [])
