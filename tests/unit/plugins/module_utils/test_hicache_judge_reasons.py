# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reasons that stand beside the deciding one: words that are not known, and a stop that follows from a death."""

from __future__ import annotations

import io

from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_evidence, hicache_judge

T = "2026-03-01 23:45:06"
ARGS = (
    f"[{T}] server_args=ServerArgs(model_path='/m', tp_size=2, page_size=1, enable_hierarchical_cache=True, "
    "hicache_ratio=4.0, hicache_size=0)"
)
ALLOC = "Allocating 44.77 GB host memory for hierarchical KV cache."
UNKNOWN = f"[{T} TP0] Reserved 44.77 GB host memory by a new release"
READY = f"[{T}] The server is fired up and ready to roll!"
POOLS = [f"[{T} TP0] {ALLOC}", f"[{T} TP1] {ALLOC}"]
DIED, STOPPED = f"[{T}] Rank 1 scheduler died", "INFO:     Application shutdown complete."


def judged(*lines):
    """Return (verdict, {code: verdict of the reason})."""
    text = "".join(f"{line}\n" for line in (ARGS, *lines))
    evidence = hicache_evidence.read_log(io.BytesIO(text.encode()), None, None)
    ask = hicache_judge.Ask(ranks=2, ratio=4.0, release="0.5.16")
    result, _phase = hicache_judge.judge(evidence.start, ask, None, 0)
    return result["verdict"], {reason["code"]: reason["verdict"] for reason in result["reasons"]}


def test_words_that_are_not_known_are_told_and_do_not_decide_where_ranks_were_seen():
    known, reasons = judged(POOLS[0], READY)
    assert "unknown_wording" not in reasons
    verdict, more = judged(UNKNOWN, POOLS[0], READY)
    assert verdict == known and set(more) - set(reasons) == {"unknown_wording"}
    assert more["unknown_wording"] not in ("fail", "inconclusive")


def test_words_that_are_not_known_may_be_all_that_there_is():
    verdict, reasons = judged(UNKNOWN, READY)
    assert verdict == "inconclusive" and reasons["unknown_wording"] == "inconclusive"


def test_a_stop_is_the_reason_where_there_is_no_other():
    verdict, reasons = judged(*POOLS, READY, STOPPED)
    assert verdict == "fail" and reasons["unit_stopped"] == "fail"


def test_a_stop_after_a_death_is_not_told_as_a_second_reason():
    verdict, reasons = judged(*POOLS, READY, DIED, STOPPED)
    assert verdict == "fail" and "unit_stopped" not in reasons
    assert [code for code, told in reasons.items() if told == "fail"] == [
        code for code, told in judged(*POOLS, READY, DIED)[1].items() if told == "fail"
    ]
