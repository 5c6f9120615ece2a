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


def test_the_span_is_that_of_two_decimals_and_a_page():
    # 10.42 GiB lie between 10.415 and 10.425, and the pool has a page of at most 256 more than its tokens.
    assert token_bytes.measured(start(LINE)) == pytest.approx(
        (10.415 * 2**30 / (159277 + 256), 10.425 * 2**30 / 159277), rel=1e-12
    )
    # K and V are printed apart, and each of them is rounded.
    assert token_bytes.measured(start({**LINE, "parts": 2})) == pytest.approx(
        (10.41 * 2**30 / (159277 + 256), 10.43 * 2**30 / 159277), rel=1e-12
    )


def lines(*named):
    """Device lines of ``(kind, dtype)``."""
    return [{**LINE, "kind": kind, "dtype": dtype} for kind, dtype in named]


@pytest.mark.parametrize(
    ("printed", "types"),
    [
        ({}, (None, None)),
        ({("a", ()): lines((None, "bf16"))}, ("bf16", None)),
        ({("a", ()): lines((None, "bf16"), (None, "fp8"))}, ("bf16", "fp8")),
        # Full and SWA are the target's, the second one of a kind is the draft's.
        ({("a", ()): lines(("Full", "bf16"), ("SWA", "fp8"))}, ("bf16", None)),
        ({("a", ()): lines(("Full", "bf16"), ("SWA", "bf16"), ("Full", "fp8"))}, ("bf16", "fp8")),
        ({("a", ()): lines(("Full", "bf16"), (None, "fp8"))}, ("bf16", "fp8")),
        # The first one that names a type counts.
        ({("a", ()): lines((None, None)), ("b", ()): lines((None, "fp8"))}, ("fp8", None)),
        ({("a", ()): lines((None, "bf16")), ("b", ()): lines((None, "fp8"))}, ("bf16", None)),
        (
            {
                ("a", ()): lines((None, "bf16"), (None, None), (None, "half")),
                ("b", ()): lines((None, "bf16"), (None, "fp8")),
            },
            ("bf16", "half"),
        ),
    ],
)
def test_types_of_the_device_lines(printed, types):
    assert token_bytes.device_types(SimpleNamespace(device_lines=printed)) == types


def test_types_of_one_container():
    printed = {("a", ()): lines((None, "bf16")), ("b", ()): lines((None, "fp8"), (None, "half"))}
    known = SimpleNamespace(device_lines=printed)
    assert token_bytes.device_types(known, "a") == ("bf16", None)
    assert token_bytes.device_types(known, "b") == ("fp8", "half")
    assert token_bytes.device_types(known, "c") == (None, None)


LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "hidden_size": 512,
}
DRAFT = {**LLAMA, "num_hidden_layers": 1}
OWN = {**LLAMA, "num_nextn_predict_layers": 1}
#: Bytes of one layer: K and V, 4 heads of 128, 2 bytes.
LAYER = 2 * 4 * 128 * 2
TP2 = {"tp_size": 2, "dp_size": 1}


@pytest.mark.parametrize(
    ("settings", "printed", "ask", "found"),
    [
        ({}, [], {}, (None, None, ())),
        ({}, [], {"model": LLAMA}, (5 * LAYER, None, ())),
        (TP2, [], {"model": LLAMA, "draft_model": DRAFT}, (5 * LAYER // 2, LAYER // 2, ())),
        # The arguments go before what was asked for.
        (TP2, [], {"model": LLAMA, "layout": {"tensor_parallel_size": 4}}, (5 * LAYER // 2, None, ())),
        ({}, [], {"model": LLAMA, "layout": {"tensor_parallel_size": 4}}, (5 * LAYER // 4, None, ())),
        # What was given is not computed.
        ({}, [], {"model": LLAMA, "bytes_per_token": 7, "draft_bytes_per_token": 3}, (7, 3, ())),
        ({}, [], {"draft_model": DRAFT, "draft_bytes_per_token": 3}, (None, 3, ())),
        # Pipeline stages: the last ones have one layer more.
        ({**TP2, "pp_size": 2}, [], {"model": LLAMA}, (None, None, (LAYER, 3 * LAYER // 2))),
        (
            {**TP2, "pp_size": 2},
            [],
            {"model": {**LLAMA, "num_hidden_layers": 4}},
            (LAYER, None, (LAYER, LAYER)),
        ),
        # Types: the line, then the flag, then the checkpoint.
        ({"kv_cache_dtype": "fp8_e4m3"}, [], {"model": LLAMA, "draft_model": DRAFT}, (5 * LAYER // 2, LAYER // 2, ())),
        ({"kv_cache_dtype": "auto"}, [], {"model": LLAMA, "kv_cache_dtype": "fp8_e4m3"}, (5 * LAYER // 2, None, ())),
        ({"kv_cache_dtype": "bf16"}, [], {"model": LLAMA, "kv_cache_dtype": "fp8_e4m3"}, (5 * LAYER, None, ())),
        ({"kv_cache_dtype": "bf16"}, [(None, "torch.float8_e4m3fn")], {"model": LLAMA}, (5 * LAYER // 2, None, ())),
        (
            {"speculative_draft_kv_cache_dtype": "fp8_e4m3", "kv_cache_dtype": "bf16"},
            [],
            {"model": LLAMA, "draft_model": DRAFT},
            (5 * LAYER, LAYER // 2, ()),
        ),
        ({}, [], {"draft_model": DRAFT, "draft_dtype": "fp8_e4m3"}, (None, LAYER // 2, ())),
        (
            {"speculative_draft_kv_cache_dtype": "auto"},
            [],
            {"draft_model": DRAFT, "draft_dtype": "fp8_e4m3"},
            (None, LAYER // 2, ()),
        ),
        (
            {"speculative_draft_kv_cache_dtype": "fp8_e4m3"},
            [(None, "torch.bfloat16"), (None, "torch.bfloat16")],
            {"draft_model": DRAFT},
            (None, LAYER, ()),
        ),
        ({}, [(None, "torch.float8_e4m3fn")], {"draft_model": DRAFT}, (None, LAYER // 2, ())),
        # A model with draft layers of its own is all of a draft that stands alone.
        ({}, [], {"draft_model": OWN}, (None, LAYER, ())),
        ({"speculative_algorithm": "STANDALONE"}, [], {"draft_model": OWN}, (None, 5 * LAYER, ())),
        ({"speculative_algorithm": "EAGLE"}, [], {"draft_model": OWN}, (None, LAYER, ())),
    ],
)
def test_bytes_of_a_start(settings, printed, ask, found):
    known = SimpleNamespace(
        allocations=(),
        settings=settings,
        settings_by={None: settings} if settings else {},
        device_lines={(None, ()): lines(*printed)} if printed else {},
    )
    told = token_bytes.of_start(known, hicache_judge.Ask(**ask))
    assert (told.main, told.draft, told.stages) == found and told.problem is None


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        ({"model": {"architectures": ["New"]}}, "New"),
        ({"draft_model": {"architectures": ["NewDraft"]}}, "NewDraft"),
        # The target's comes first.
        ({"model": {"architectures": ["New"]}, "draft_model": {"architectures": ["NewDraft"]}}, "architecture New is"),
    ],
)
def test_what_cannot_be_told_of_a_model_is_told_in_words(ask, words):
    told = token_bytes.of_start(start(), hicache_judge.Ask(**ask))
    assert (told.main, told.draft, told.stages) == (None, None, ()) and words in told.problem


@pytest.mark.parametrize(
    ("stages", "tags", "found"),
    [
        ((), (("PP", 1),), 7),
        ((10, 20), (("PP", 0), ("TP", 1)), 10),
        ((10, 20), (("PP", 1),), 20),
        ((10, 20), (("PP", 2),), 7),
        ((10, 20), (("TP", 1),), 7),
    ],
)
def test_bytes_of_a_rank_are_those_of_its_stage(stages, tags, found):
    assert token_bytes.of_rank(stages, tags, 7) == found


@pytest.mark.parametrize("error", [ValueError, RecursionError])
@pytest.mark.parametrize(("name", "function"), [("model", "geometry"), ("draft_model", "bytes_per_token")])
def test_a_config_that_cannot_be_read_to_its_end_is_told(monkeypatch, name, function, error):
    def refuse(*_args, **_more):
        raise error("too deep")

    monkeypatch.setattr(token_bytes.kv_geometry, function, refuse)
    told = token_bytes.of_start(start(), hicache_judge.Ask(**{name: LLAMA}))
    assert (told.main, told.draft, told.problem) == (None, None, "too deep")
