# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_plan
from ansible_collections.llmfleet.sglang.plugins.module_utils.service_verdict import (
    accept_length,
    chat_reasons,
    no_verdict,
    service_verdict,
)

JOURNAL = {
    "verdict": "pass",
    "allocation_verdict": "pass",
    "reasons": [],
    "ranks_seen": 8,
    "ranks_expected": 8,
    "per_rank_gb": [44.77, 0.73],
    "ranks": [
        {"rank": f"TP{number}", "pool": pool, "gb": gb, "tokens": 637109}
        for number in range(8)
        for pool, gb in (("kv", 44.77), ("draft", 0.73))
    ],
    "total_gb": 364.0,
    "expected_gb": 44.77,
    "device_tokens": 159277,
    "invocation_id": "0123",
    "started_at": "2026-03-01T23:40:00+00:00",
    "ready_at": "2026-03-01T23:45:12.4+00:00",
    "seconds_to_ready": 312.4,
}
SETTINGS = {
    "host": "gpu1",
    "unit": "sglang-kimi.service",
    "release": "0.5.23",
    "hicache_enabled": True,
    "speculative_enabled": True,
    "accept_length_above": 1.0,
}
CHAT = {"status": 200, "json": {"choices": [{}], "usage": {"completion_tokens": 7}}}


def _prefix(**meta):
    first = {
        "status": 200,
        "json": {"meta_info": {"prompt_tokens": 900, "cached_tokens": 0, "spec_accept_length": 2.5}},
    }
    repeat = copy.deepcopy(first)
    repeat["json"]["meta_info"].update({"cached_tokens": 896}, **meta)
    return [first, repeat]


def _judge(journal=None, chat=None, prefix=None, **settings):
    answers = {"chat": chat or CHAT, "prefix": prefix or _prefix()}
    return service_verdict({**JOURNAL, **(journal or {})}, {**SETTINGS, **settings}, answers)


def test_a_proved_start_passes_with_one_line():
    result = _judge()
    assert result["verdict"] == "pass"
    assert result["reasons"] == []
    assert result["summary"] == (
        "gpu1 sglang-kimi.service: PASS - 8 of 8 ranks, 44.77 GB each (predicted 44.77), "
        "0.73 GB each for the draft, 364.00 GB in all, ready after 312 s"
    )


def test_the_same_start_gives_the_same_record():
    # A record that changed from run to run would make every run report a change.
    assert _judge() == _judge(prefix=_prefix(spec_accept_length=3.1, cached_tokens=128))


@pytest.mark.parametrize(
    ("kwargs", "code", "words"),
    [
        pytest.param({"chat": {"status": 500, "msg": "boom"}}, "chat_failed", "500", id="chat-refused"),
        pytest.param({"chat": {"status": -1, "msg": "timed out"}}, "chat_failed", "timed out", id="chat-hangs"),
        pytest.param({"chat": {"status": 200, "content": "<html>"}}, "chat_failed", "<html>", id="chat-is-not-json"),
        pytest.param(
            {"chat": {"status": 200, "json": {"choices": [{}], "usage": {"completion_tokens": 0}}}},
            "chat_empty",
            "0 tokens",
            id="chat-without-a-token",
        ),
        pytest.param({"prefix": [_prefix()[0], {"status": 503}]}, "prefix_failed", "503", id="prompt-refused"),
        pytest.param({"prefix": _prefix(cached_tokens=0)}, "prefix_not_cached", "900 tokens", id="nothing-cached"),
        pytest.param({"prefix": _prefix(spec_accept_length=1.0)}, "accept_length", "1.00", id="draft-never-accepted"),
        pytest.param(
            {"prefix": _prefix(spec_accept_length=None)}, "accept_length_unknown", "without a draft", id="no-draft"
        ),
    ],
)
def test_what_the_server_answers_can_fail_a_start(kwargs, code, words):
    result = _judge(**kwargs)
    assert result["verdict"] == "fail"
    assert [reason["code"] for reason in result["reasons"]] == [code]
    assert words in result["reasons"][0]["message"]


def test_switches_are_followed():
    plain = _prefix(cached_tokens=0, spec_accept_length=None)
    assert _judge(prefix=plain, hicache_enabled=False, speculative_enabled=False)["verdict"] == "pass"
    assert "hierarchical cache off" in _judge(hicache_enabled=False)["summary"]


def test_accept_length_is_derived_where_only_steps_are_told():
    meta = {"spec_accept_length": None, "spec_verify_ct": 10, "completion_tokens": 32}
    assert _judge(prefix=_prefix(**meta))["verdict"] == "pass"
    assert _judge(prefix=_prefix(**{**meta, "completion_tokens": 10}))["verdict"] == "fail"


def test_the_journal_is_never_overruled():
    reason = {"code": "rank_missing", "message": "TP3 is missing"}
    for verdict in ("fail", "inconclusive"):
        assert _judge(journal={"verdict": verdict, "reasons": [reason]})["verdict"] == verdict
    unasked = service_verdict({**JOURNAL, "verdict": "fail", "reasons": [reason], "seconds_to_ready": None}, SETTINGS)
    assert unasked["verdict"] == "fail"
    assert unasked["reasons"] == [reason]
    assert unasked["summary"].endswith("not seen ready")


def test_ranks_that_differ_are_shown_as_a_span():
    pools = [{"rank": "TP0", "pool": "kv", "gb": 0.55}, {"rank": "TP1", "pool": "kv", "gb": 0.5}]
    summary = _judge(journal={"ranks": pools, "expected_gb": None})["summary"]
    assert "0.50 to 0.55 GB each (no prediction)" in summary
    assert "draft" not in summary


def test_the_record_is_what_a_plan_can_use_again():
    kept = {"release": "0.5.23", "mem_fraction_static": 0.88, "engine_options": {"api-key": "s3cret", "dp-size": 2}}
    record = _judge(device_settings=kept)
    assert record["device_settings"] == {
        "engine_options.dp-size": "2",
        "mem_fraction_static": "0.88",
        "release": "0.5.23",
    }
    notes = []
    ask = {"remembered": record, "settings": {**kept, "mem_fraction_static": "0.88"}}
    found = hicache_plan.find_device_tokens(ask, 70272, 0, 1, notes)
    assert (found.tokens, found.source, notes) == (159277, "remembered", [])
    assert _judge()["device_settings"] == {}


@pytest.mark.parametrize("document", ["README.md", "docs/deploy-kimi.md"])
def test_the_line_of_the_documents_is_one_that_is_printed(document):
    ash = {"host": "ash", "hicache_enabled": True}
    line = _judge({"seconds_to_ready": 611.0}, **ash)["summary"]
    text = (Path(__file__).resolve().parents[4] / document).read_text()
    assert [shown for shown in text.splitlines() if ": PASS - " in shown] == [line]


@pytest.mark.parametrize(
    ("kwargs", "code"),
    [
        ({"chat": {"status": 200, "json": {"choices": [{}], "usage": [1]}}}, "chat_empty"),
        ({"chat": {"status": 200, "json": {"choices": "x", "usage": {"completion_tokens": 3}}}}, "chat_empty"),
        ({"chat": {"status": 200, "json": {"choices": [{}], "usage": {"completion_tokens": "3"}}}}, "chat_empty"),
        ({"prefix": [{"status": 200, "json": {"meta_info": "x"}}] * 2}, "prefix_not_cached"),
        ({"prefix": _prefix(spec_accept_length="fast")}, "accept_length_unknown"),
        ({"prefix": _prefix(spec_accept_length=float("nan"))}, "accept_length"),
    ],
)
def test_an_answer_of_another_shape_is_no_good_answer(kwargs, code):
    result = _judge(**kwargs)
    assert result["verdict"] == "fail" and code in [reason["code"] for reason in result["reasons"]]


def told(*codes):
    return {"verdict": "fail", "reasons": [{"code": code, "message": f"of {code}"} for code in codes]}


@pytest.mark.parametrize(
    ("kwargs", "verdict", "codes"),
    [
        ({}, "pass", []),
        ({"differences": ["one"]}, "fail", ["settings_differ"]),
        ({"differences": ["one", "two"]}, "fail", ["settings_differ", "settings_differ"]),
        ({"requests_missing": True}, "inconclusive", ["requests_not_sent"]),
        ({"asked_before": told()}, "pass", []),
        ({"asked_before": told("accept_length", "rank_missing")}, "fail", ["accept_length"]),
        *(
            ({"asked_before": told(code)}, "fail", [code])
            for code in ("chat_failed", "chat_empty", "prefix_failed", "prefix_not_cached", "accept_length_unknown")
        ),
        ({"asked_before": told("rank_missing")}, "pass", []),
        ({"asked_before": {}}, "pass", []),
        # What was answered now goes before what is kept.
        ({"asked_before": told("chat_failed"), "answers": {"chat": CHAT, "prefix": _prefix()}}, "pass", []),
        ({"asked_before": told(), "requests_missing": True}, "pass", []),
        ({"answers": {}}, "fail", ["chat_failed", "prefix_failed"]),
    ],
)
def test_what_is_known_beside_the_journal(kwargs, verdict, codes):
    result = service_verdict(JOURNAL, SETTINGS, **kwargs)
    assert result["verdict"] == verdict
    assert [reason["code"] for reason in result["reasons"]] == codes
    assert result["requests_sent"] is ("answers" in kwargs)
    count = len(kwargs.get("differences", ()))
    words = {1: "differs from its record in 1 setting", 2: "differs from its record in 2 settings"}.get(count)
    assert result["summary"].endswith(f", {words}") if words else "differs" not in result["summary"]


def test_reasons_of_the_journal_stand_between_differences_and_answers():
    reason = {"code": "note", "message": "x"}
    result = service_verdict({**JOURNAL, "reasons": [reason]}, SETTINGS, {}, ["differs"])
    assert [one["code"] for one in result["reasons"]] == ["settings_differ", "note", "chat_failed", "prefix_failed"]
    assert result["reasons"][0]["message"] == "differs" and result["reasons"][1] == reason
    assert result["reasons"][1] is not reason


@pytest.mark.parametrize(("recorded", "configuration"), [(True, "id"), (False, None)])
def test_a_verdict_tells_what_it_rests_on(recorded, configuration):
    result = _judge(recorded=recorded, configuration=configuration)
    assert (result["recorded"], result["configuration"]) == (recorded, configuration)
    assert result["summary"].endswith(", judged by variables: the host keeps no record") is not recorded
    assert (result["unit"], result["release"]) == ("sglang-kimi.service", "0.5.23")
    assert _judge()["recorded"] is True and _judge()["configuration"] is None
    for name in ("allocation_verdict", "device_tokens", "expected_gb", "invocation_id", "per_rank_gb", "ranks"):
        assert result[name] == JOURNAL[name]
    for name in ("ranks_seen", "ready_at", "started_at", "total_gb"):
        assert result[name] == JOURNAL[name]
    assert result["seconds_to_ready"] == 312


@pytest.mark.parametrize(
    ("journal", "words"),
    [
        ({"ranks": None}, "8 of 8 ranks, ready"),
        ({"ranks": [{"pool": "full", "gb": 1.0}], "total_gb": None}, "1.00 GB each (predicted 44.77), 0.00 GB in all"),
        ({"ranks": [{"pool": "swa", "gb": 1.0}]}, "8 of 8 ranks, ready"),
        ({"ranks_seen": 7}, "7 of 8 ranks"),
        ({"seconds_to_ready": 0.4}, "ready after 0 s"),
        ({"seconds_to_ready": None}, "not seen ready"),
        ({"expected_gb": 0.0}, "(predicted 0.00)"),
    ],
)
def test_the_figures_of_the_line(journal, words):
    assert words in _judge(journal)["summary"]


@pytest.mark.parametrize(
    ("meta", "length"),
    [
        ({}, None),
        ({"spec_accept_length": "2.5"}, 2.5),
        ({"spec_accept_length": 0}, 0.0),
        ({"spec_verify_ct": 0, "completion_tokens": 5}, None),
        ({"spec_verify_ct": 2, "completion_tokens": 5}, 2.5),
        ({"spec_verify_ct": 2}, 0.0),
        ({"spec_verify_ct": "x"}, None),
        ({"spec_accept_length": 10**400}, None),
        ({"spec_accept_length": "x"}, None),
    ],
)
def test_the_accept_length_of_an_answer(meta, length):
    assert accept_length(meta) == length


@pytest.mark.parametrize(
    ("length", "above", "fails"), [(1.0, 1.0, True), (1.01, 1.0, False), (2.0, 2.5, True), (2.6, 2.5, False)]
)
def test_the_accept_length_has_to_lie_above_its_bound(length, above, fails):
    result = _judge(prefix=_prefix(spec_accept_length=length), accept_length_above=above)
    assert (result["verdict"] == "fail") is fails
    if fails:
        assert f"is {length:.2f}; above {above:.2f} was expected" in result["reasons"][0]["message"]


@pytest.mark.parametrize(
    ("chat", "words"),
    [
        ({"status": 500, "msg": "x" * 300}, "HTTP status 500: " + "x" * 200 + "."),
        ({"status": 500, "content": "words"}, "HTTP status 500: words."),
        ({}, "HTTP status -1: ."),
        ({"status": 200, "json": {}}, "0 choices and 0 tokens"),
        ({"status": 200, "json": {"choices": [1, 2], "usage": {"completion_tokens": 0}}}, "2 choices and 0 tokens"),
        ({"status": 200, "json": {"choices": [], "usage": {"completion_tokens": 1}}}, "0 choices and 1 tokens"),
        ({"status": 200, "json": {"choices": [1], "usage": {"completion_tokens": 1}}}, None),
    ],
)
def test_the_answer_to_a_chat(chat, words):
    found = chat_reasons(chat)
    assert len(found) == bool(words) and all(words in reason["message"] for reason in found)


def test_where_there_is_nothing_to_judge():
    result = no_verdict("h", "x.service", "no_record", "The host keeps no record.")
    assert result["summary"] == "h x.service: INCONCLUSIVE - the host keeps no record"
    assert result["reasons"] == [{"code": "no_record", "message": "The host keeps no record."}]
    assert set(_judge()) == set(result) - {"changed", "journal_tail"}
    assert (result["verdict"], result["changed"], result["recorded"]) == ("inconclusive", False, False)
    assert (result["requests_sent"], result["journal_tail"], result["device_settings"]) == (False, [], {})
    assert result["release"] == "" and result["configuration"] is result["seconds_to_ready"] is None
    assert no_verdict("h", "x", "c", "m", recorded=True)["recorded"] is True
