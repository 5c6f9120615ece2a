# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on saved logs: the 27 public ones, and one case for every kind of input."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import yaml
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_evidence, hicache_judge

DATA = Path(__file__).resolve().parents[2] / "data"
SAVED = json.loads((DATA / "journals" / "expected.json").read_text())
CASES = yaml.safe_load((DATA / "hicache_cases.yml").read_text())


def verdict(content, ask, unit=None):
    evidence = hicache_evidence.read_log(io.BytesIO(content), unit)
    result, phase = hicache_judge.judge(evidence.start, hicache_judge.Ask(**ask), None, evidence.restarts)
    return result, phase


def numbers(text):
    for part in str(text).split(","):
        first, _dash, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def content_of(case):
    if "records" in case:
        return "".join(json.dumps(record(fields)) + "\n" for fields in case["records"]).encode()
    lines = []
    for item in case["log"]:
        if isinstance(item, str):
            lines.append(item)
        else:
            lines += [item["line"].replace("{r}", str(number)) for number in numbers(item["each"])]
    text = "\n".join(lines)
    return (text if case.get("cut") or not text else text + "\n").encode()


def record(fields):
    fields = {"_TRANSPORT": "stdout", **fields}
    if fields.pop("as_bytes", False):
        fields["MESSAGE"] = list(fields["MESSAGE"].encode())
    return fields


@pytest.mark.parametrize("case", SAVED, ids=[case["file"] for case in SAVED])
def test_a_saved_log_gets_the_right_verdict(case):
    asked = case["ask"]
    ask = {
        "ranks": asked.get("ranks"),
        "rank_set": asked.get("rank_set"),
        "expected_gb": asked.get("gb"),
        "ratio": asked.get("ratio"),
    }
    result, _phase = verdict((DATA / "journals" / case["file"]).read_bytes(), ask)
    assert result["ranks_seen"] == case["ranks_seen"], result["reasons"]
    assert result["per_rank_gb"] == case["gb_each"]
    for key, expected in (("allocation_verdict", case["alloc_verdict"]), ("verdict", case["overall_verdict"])):
        if expected == "not-pass":
            assert result[key] in ("fail", "inconclusive")
        else:
            assert result[key] == expected, result["reasons"]
    assert result["reasons"]


def test_all_saved_logs_are_there():
    assert len(SAVED) == 27
    assert {case["file"] for case in SAVED} == {path.name for path in (DATA / "journals").glob("*.log")}


def recomputed():
    for case in SAVED:
        numbers_of = case.get("recompute", {})
        if numbers_of.get("bytes_per_token") and numbers_of.get("expected_gb") and case["alloc_verdict"] == "pass":
            yield case


@pytest.mark.parametrize("case", list(recomputed()), ids=lambda case: case["file"])
def test_a_saved_log_passes_with_its_own_geometry(case):
    found = case["recompute"]
    ask = {
        "ranks": case["ask"]["ranks"],
        "ratio": found.get("ratio"),
        "bytes_per_token": found["bytes_per_token"],
        "page_size": found.get("page_size"),
        "draft_bytes_per_token": found.get("draft_bytes_per_token"),
    }
    content = (DATA / "journals" / case["file"]).read_bytes()
    result, _phase = verdict(content, ask)
    # A ratio is only proved where the log names what it is multiplied with, bytes where it names tokens at all.
    compared = result["expected_gb"] is not None or (not ask["ratio"] and b" tokens, " in content)
    assert result["allocation_verdict"] == ("pass" if compared else "inconclusive"), result["reasons"]
    assert compared is not any(reason["code"] == "size_not_compared" for reason in result["reasons"])
    # Twice the bytes per token have to be noticed wherever the log allows a prediction.
    ask.update(bytes_per_token=2 * found["bytes_per_token"], draft_bytes_per_token=None)
    result, _phase = verdict(content, ask)
    predictable = result["expected_gb"] is not None or b" tokens, " in content
    assert (result["allocation_verdict"] == "fail") is predictable, result["reasons"]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_case(case):
    result, _phase = verdict(content_of(case), case["ask"], case.get("unit"))
    want = dict(case["want"])
    codes = [reason["code"] for reason in result["reasons"]]
    for code in want.pop("codes", []):
        assert code in codes, result["reasons"]
    for code in want.pop("not_codes", []):
        assert code not in codes
    names = {"allocation": "allocation_verdict", "gb_each": "per_rank_gb", "missing": "ranks_missing"}
    got = {key: result[names.get(key, key)] for key in want}
    assert got == want, result["reasons"]


def test_case_names_are_unique_and_many():
    names = [case["name"] for case in CASES]
    assert len(set(names)) == len(names) >= 40


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_every_verdict_but_pass_says_why(case):
    result, _phase = verdict(content_of(case), case["ask"], case.get("unit"))
    assert all(reason["code"] and reason["message"].strip() for reason in result["reasons"])
    against = [reason for reason in result["reasons"] if reason["verdict"] == result["verdict"]]
    assert against, "no reason speaks for the verdict"
