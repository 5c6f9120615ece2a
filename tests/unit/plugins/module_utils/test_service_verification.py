# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a record becomes what its journal is judged by, what the server is asked, and which kept verdict counts."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils._service import verification

A = "a" * 32


@pytest.mark.parametrize("value", [True, "true", " Yes ", "ON", "1", 1])
def test_a_switch_that_is_on(value):
    assert verification.is_true(value) is True


@pytest.mark.parametrize("value", [False, "false", "no", "", None, 0, 2, "10"])
def test_a_switch_that_is_off(value):
    assert verification.is_true(value) is False


@pytest.mark.parametrize(("value", "number"), [(5, 5), ("5", 5), (0, 0), (None, 0), ("", 0), ("x", 0), ([], 0)])
def test_a_whole_number_of_a_record(value, number):
    assert verification.whole(value) == number


def options(settings=None, expected=None):
    return verification.journal_options({"unit": "x.service", **(settings or {})}, expected or {}, 60, 5)


@pytest.mark.parametrize(
    ("settings", "expected", "found"),
    [
        ({}, {}, {"ranks": 0, "rank_set": None, "readiness": "auto", "timeout": 60, "poll_interval": 5}),
        ({"ranks": "8", "ratio": "4.0"}, {}, {"ranks": 8, "ratio": 4.0, "hicache_size": None}),
        ({"ranks": 8, "ratio": 4.0, "hicache_size": "30"}, {}, {"ratio": None, "hicache_size": 30.0}),
        ({"ratio": 4.0, "hicache_size": 0}, {}, {"ratio": 4.0, "hicache_size": 0.0}),
        ({"ranks": 8, "rank_set": [8, 9]}, {}, {"ranks": None, "rank_set": ["8", "9"]}),
        (
            {"ranks": 8, "ratio": 4.0, "expected_gb": 5, "hicache_enabled": "no", "rank_set": [8]},
            {},
            {"ranks": 0, "rank_set": None, "ratio": None, "hicache_size": None, "expected_gb": None},
        ),
        (
            {"bytes_per_token": "70272", "page_size": "64", "tolerance_gb": "0.1", "expected_gb": "5"},
            {},
            {"bytes_per_token": 70272, "page_size": 64, "tolerance_gb": 0.1, "expected_gb": 5.0},
        ),
        ({"page_size": "", "tolerance_gb": None, "release": "0.5.23"}, {}, {"page_size": None, "release": "0.5.23"}),
        ({}, {}, {"tolerance_gb": 0.01, "model_path": None, "draft_model_path": None}),
        ({"model_path": "/m"}, {}, {"model_path": "/m"}),
        # A draft counts where speculation is on; of a pipeline the last stage alone has it.
        (
            {"draft_model_path": "/d", "draft_bytes_per_token": "5", "speculative_enabled": True},
            {},
            {"draft_model_path": "/d", "draft_bytes_per_token": 5},
        ),
        (
            {"draft_model_path": "/d", "draft_bytes_per_token": 5, "speculative_enabled": True, "stages": 1},
            {},
            {"draft_model_path": "/d", "draft_bytes_per_token": 5},
        ),
        ({"draft_model_path": "/d", "speculative_enabled": True, "stages": "2"}, {}, {"draft_model_path": None}),
        (
            {"draft_model_path": "/d", "draft_bytes_per_token": 5},
            {},
            {"draft_model_path": None, "draft_bytes_per_token": None},
        ),
        # The layout is that of the arguments, else what the record keeps.
        ({}, {"tp_size": 8, "nnodes": 2}, {"tensor_parallel_size": 8, "nodes": 2, "node_rank": None}),
        ({"device_settings": {"tensor_parallel_size": "8"}}, {}, {"tensor_parallel_size": 8}),
        ({"device_settings": {"tensor_parallel_size": "x"}}, {}, {"tensor_parallel_size": None}),
        ({"device_settings": {"tensor_parallel_size": 8}}, {"dtype": "x"}, {"tensor_parallel_size": None}),
        ({}, {"speculative_draft_kv_cache_dtype": "bf16"}, {"draft_kv_cache_dtype": "bf16"}),
        # Only the first node is asked.
        (
            {"url": "http://h", "metrics_enabled": True},
            {},
            {"health_url": "http://h/health_generate", "metrics_url": "http://h/metrics", "readiness": "auto"},
        ),
        ({"url": "http://h", "metrics_enabled": "no"}, {}, {"metrics_url": None}),
        ({"url": "http://h"}, {}, {"metrics_url": None}),
        ({"metrics_enabled": True}, {}, {"metrics_url": None, "health_url": None}),
        (
            {"url": "http://h", "metrics_enabled": True, "node_rank": "1"},
            {},
            {"health_url": "http://h/health_generate", "metrics_url": None, "readiness": "none"},
        ),
    ],
)
def test_what_the_journal_of_a_record_is_judged_by(settings, expected, found):
    told = options(settings, expected)
    assert {name: told[name] for name in found} == found
    assert (told["unit"], told["expected_settings"]) == ("x.service", expected)


class Failed(Exception):
    """The module ended with a message."""


def fail(msg):
    raise Failed(msg)


def made(tmp_path, **given):
    module = SimpleNamespace(check_mode=given.pop("check_mode", False), fail_json=fail)
    known = {
        "name": "kimi",
        "config_dir": str(tmp_path / "config"),
        "facts_dir": str(tmp_path / "facts"),
        "host": "h",
        "request_timeout": 7,
        "prefix_words": 3,
        "poll_interval": 5,
        "settings": None,
    }
    return verification.Verification(module, {**known, **given})


@pytest.mark.parametrize(("value", "bound"), [(None, 1.0), (1, 1.0), ("2.5", 2.5), (999, 999.0)])
def test_the_bound_of_the_accept_length(tmp_path, value, bound):
    assert made(tmp_path).accept_length_above({"accept_length_above": value}) == bound
    assert made(tmp_path).accept_length_above({}) == 1.0


@pytest.mark.parametrize("value", [0.99, 0, 1000, "x", [], float("nan"), float("inf"), -1, 10**400])
def test_a_bound_that_is_none_is_refused(tmp_path, value):
    with pytest.raises(Failed, match=r"accept_length_above is .*: the accept length"):
        made(tmp_path).accept_length_above({"accept_length_above": value})


FACT = {"invocation_id": A, "configuration": "one", "requests_sent": True, "reasons": []}


@pytest.mark.parametrize(
    ("change", "invocation", "counts"),
    [
        ({}, A, True),
        ({"invocation_id": "b" * 32}, A, False),
        ({"configuration": "two"}, A, False),
        ({"requests_sent": False}, A, False),
        ({"invocation_id": None}, None, False),
        ({"invocation_id": ""}, "", False),
    ],
)
def test_a_kept_verdict_counts_for_its_start_and_configuration(tmp_path, change, invocation, counts):
    one = made(tmp_path)
    assert one.kept(invocation, "one") is None
    (tmp_path / "facts").mkdir()
    with open(one.fact_path, "w", encoding="utf-8") as target:
        json.dump({**FACT, **change}, target)
    assert (one.kept(invocation, "one") is not None) is counts


@pytest.mark.parametrize("content", ["", "[]", "{", "null", "[" * 10**5])
def test_a_kept_verdict_that_cannot_be_read_is_none(tmp_path, content):
    one = made(tmp_path)
    (tmp_path / "facts").mkdir()
    with open(one.fact_path, "w", encoding="utf-8") as target:
        target.write(content)
    assert one.kept(A, "one") is None


class Answer(io.BytesIO):
    """What the HTTP client returns."""

    def getcode(self):
        return 200

    def read(self, limit):
        assert limit == 4 * 1024 * 1024
        return super().read(limit)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'{"x": 1}', {"status": 200, "json": {"x": 1}, "msg": ""}),
        (b"", {"status": 200, "json": None, "msg": ""}),
        (b"<html>" + b"x" * 300, {"status": 200, "json": None, "msg": "<html>" + "x" * 194}),
        (b"[" * 10**5, {"status": 200, "json": None, "msg": "[" * 200}),
    ],
)
@pytest.mark.parametrize("body", [None, {"model": "m"}])
def test_the_answer_of_the_server(tmp_path, monkeypatch, content, found, body):
    asked = []

    def open_url(url, **more):
        asked.append((url, more))
        return Answer(content)

    monkeypatch.setattr(verification, "open_url", open_url)
    assert made(tmp_path).answer("http://h/x", body) == found
    ((url, more),) = asked
    assert (url, more["timeout"], more["use_proxy"]) == ("http://h/x", 7, False)
    assert more["method"] == ("POST" if body else "GET")
    assert more["data"] == ('{"model": "m"}' if body else None)
    assert more["headers"] == ({"Content-Type": "application/json"} if body else {})


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (OSError("refused"), {"status": -1, "json": None, "msg": "refused"}),
        (
            type("Http", (Exception,), {"code": 503, "reason": "Busy"})(),
            {"status": 503, "json": None, "msg": "Busy"},
        ),
    ],
)
def test_a_server_that_does_not_answer(tmp_path, monkeypatch, error, found):
    def open_url(url, **more):
        raise error

    monkeypatch.setattr(verification, "open_url", open_url)
    assert made(tmp_path).answer("http://h/x") == found


@pytest.mark.parametrize(
    ("served", "models", "model", "count"),
    [
        ("kimi", None, "kimi", 3),
        (None, {"data": [{"id": "first"}, {"id": "second"}]}, "first", 4),
        (None, {"data": []}, "", 4),
        (None, {"data": ["x"]}, "", 4),
        (None, {"data": [{}]}, "", 4),
        (None, [], "", 4),
        (None, None, "", 4),
    ],
)
def test_the_requests_of_a_verification(tmp_path, served, models, model, count):
    one, asked = made(tmp_path), []

    def answer(url, body=None):
        asked.append((url, body))
        return {"status": 200, "json": models if url.endswith("/models") else url, "msg": ""}

    one.answer = answer
    found = one.requests({"url": "http://h", "served_model_name": served}, A)
    assert len(asked) == count and len(found["prefix"]) == 2
    assert found["chat"]["json"] == "http://h/v1/chat/completions"
    assert [one["json"] for one in found["prefix"]] == ["http://h/generate"] * 2
    chat, first, second = (body for _url, body in asked[-3:])
    assert (chat["model"], chat["max_tokens"], chat["temperature"]) == (model, 16, 0)
    assert first == second == {
        "text": f"Start {A}. 0 1 2",
        "sampling_params": {"max_new_tokens": 32, "temperature": 0},
    }  # fmt: skip


def test_a_verdict_of_nothing(tmp_path):
    one = made(tmp_path)
    result = one.nothing("no_record", "The host keeps none.", without_record=True)
    assert (result["verdict"], result["without_record"]) == ("inconclusive", True)
    assert one.nothing("x", "y")["without_record"] is False


@pytest.mark.parametrize(
    ("differs", "check_mode", "seconds"), [([], False, 60), (["x"], False, 0), ([], True, 0), (["x"], True, 0)]
)
def test_only_the_recorded_service_is_waited_for(tmp_path, differs, check_mode, seconds):
    one, asked = made(tmp_path, check_mode=check_mode, timeout=60), []
    one.show = lambda: {"LoadState": "loaded"}
    one.record_of = lambda shown: ("one", {"verify": {"ranks": 8}})
    one.store = SimpleNamespace(texts=lambda _one: ("", ""))
    one.differences = lambda shown, _one: differs
    one.journal = lambda settings, expected, timeout: asked.append(timeout) or {"verdict": "pass"}
    one.conclude = lambda settings, journal, differences, _one, recorded: (differences, recorded)
    assert one.run() == (differs, True)
    assert asked == [seconds]
