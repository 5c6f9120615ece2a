# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytes of a token as the device lines of a start show them, and from a model without a layout."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_judge
from ansible_collections.llmfleet.sglang.plugins.module_utils._hicache import token_bytes

LINE = {"gib": 10.42, "tokens": 159277, "kind": None, "parts": 1, "dtype": None}


def start(*lines):
    """A start of which only the device lines are known, one of each rank."""
    found = {(None, (("TP", number),)): [line] for number, line in enumerate(lines)}
    return SimpleNamespace(allocations=(), settings={}, settings_by={}, device_lines=found)


@pytest.mark.parametrize(
    ("lines", "known"),
    [
        ([LINE], True),
        ([LINE, dict(LINE)], True),
        ([LINE, {**LINE, "tokens": 100000}], False),
        ([{**LINE, "kind": "Full"}], False),
        ([{**LINE, "gib": None}], False),
        ([{**LINE, "tokens": None}], False),
        ([], False),
    ],
)
def test_bytes_that_the_device_lines_show(lines, known):
    span = token_bytes.measured(start(*lines))
    assert (span is not None) is known
    assert span is None or span[0] < 70272 < span[1]


def test_without_a_layout_a_rank_holds_all_heads():
    config = {
        "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 4, "hidden_size": 512,
    }  # fmt: skip
    found = token_bytes.of_start(start(), hicache_judge.Ask(model=config))
    assert (found.main, found.problem) == (2 * 4 * 128 * 2 * 2, None)
