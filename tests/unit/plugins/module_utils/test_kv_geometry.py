# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils.kv_geometry import (
    GeometryError,
    bytes_per_token,
    folder_bytes_per_token,
)

KIMI = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    # A multimodal config carries figures of its vision part beside the text part: they must not be taken.
    "num_hidden_layers": 27,
    "text_config": {"num_hidden_layers": 61, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "num_attention_heads": 64},
}
TINY = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "num_hidden_layers": 3,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
}
LLAMA8B = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
}
DRAFT = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "num_hidden_layers": 1,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "head_dim": 128,
    "hidden_size": 7168,
}


@pytest.mark.parametrize(
    ("config", "ranks", "dtype", "expected"),
    [
        pytest.param(KIMI, 8, None, 70272, id="kimi-k2.5"),
        pytest.param(KIMI, 1, None, 70272, id="mla-is-not-divided-by-tp"),
        pytest.param(KIMI, 8, "fp8_e4m3", 35136, id="kimi-k2.5-fp8"),
        pytest.param(TINY, 2, "auto", 3456, id="tiny-mla"),
        # 131072 is the published figure of a Llama-3.1-8B start: 147,648 tokens x 131,072 B = 18.02 GiB.
        pytest.param(LLAMA8B, 1, None, 131072, id="llama-3.1-8b"),
        pytest.param(LLAMA8B, 4, None, 32768, id="gqa-is-divided-by-tp"),
        pytest.param(LLAMA8B, 16, None, 16384, id="a-rank-holds-at-least-one-kv-head"),
        pytest.param(DRAFT, 8, None, 4096, id="mha-draft-of-one-layer"),
    ],
)
def test_bytes_per_token(config, ranks, dtype, expected, tmp_path):
    assert bytes_per_token(config, ranks, dtype) == expected
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert folder_bytes_per_token(tmp_path, ranks, dtype) == expected


@pytest.mark.parametrize(
    ("config", "dtype", "words"),
    [
        ({"architectures": ["MambaForCausalLM"]}, None, "MambaForCausalLM"),
        ({}, None, "None"),
        ([], None, "JSON object"),
        ({"architectures": ["DeepseekV3ForCausalLM"], "num_hidden_layers": 3}, None, "kv_lora_rank"),
        (KIMI, "fp4_e2m1", "fp4_e2m1"),
    ],
)
def test_what_is_not_known_is_refused_by_name(config, dtype, words, tmp_path):
    with pytest.raises(GeometryError, match=words):
        bytes_per_token(config, 8, dtype)
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert folder_bytes_per_token(tmp_path, 8, dtype) is None


@pytest.mark.parametrize("content", [None, b"{", b"\xff"])
def test_a_folder_without_a_readable_config_gives_nothing(content, tmp_path):
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    assert folder_bytes_per_token(tmp_path) is None
