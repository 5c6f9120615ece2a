# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import kv_geometry
from ansible_collections.llmfleet.sglang.plugins.module_utils.kv_geometry import (
    GeometryError,
    bytes_per_token,
    folder_bytes_per_token,
)
from hypothesis import given
from hypothesis import strategies as st

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
        (KIMI, "torch.float4_e2m1fn_x2", "torch.float4_e2m1fn_x2"),
        ({**LLAMA8B, "num_hidden_layers": 10**400}, None, "num_hidden_layers"),
        ({**LLAMA8B, "num_key_value_heads": [8, 4]}, None, "num_key_value_heads"),
        ({**LLAMA8B, "num_key_value_heads": -8}, None, "num_key_value_heads"),
        ({**LLAMA8B, "head_dim": float("inf")}, None, "head_dim"),
        ({**LLAMA8B, "head_dim": 128, "v_head_dim": 64}, None, "v_head_dim"),
        ({"architectures": "LlamaForCausalLM"}, None, "architecture None"),
        ({"architectures": [["LlamaForCausalLM"]]}, None, "architecture None"),
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


GLM47 = {
    "architectures": ["Glm4MoeForCausalLM"],
    "hidden_size": 5120,
    "num_hidden_layers": 92,
    "num_nextn_predict_layers": 1,
    "num_attention_heads": 96,
    "num_key_value_heads": 8,
    "head_dim": 128,
}
MINIMAX = {
    "architectures": ["MiniMaxM2ForCausalLM"],
    "hidden_size": 3072,
    "num_hidden_layers": 62,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "attn_type_list": [1] * 62,
    "num_mtp_modules": 3,
}
QWEN235B = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 94,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 128,
}
FLASH = {
    "architectures": ["Glm4MoeLiteForCausalLM"],
    "num_hidden_layers": 47,
    "num_nextn_predict_layers": 1,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "num_attention_heads": 20,
}
QWEN_VL = {
    "architectures": ["Qwen3VLForConditionalGeneration"],
    "text_config": {"num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128},
    "vision_config": {"depth": 27, "num_heads": 16},
}


@pytest.mark.parametrize(
    ("config", "ranks", "expected"),
    [
        pytest.param(MINIMAX, 1, 253952, id="minimax-m2-is-plain-gqa"),
        pytest.param(MINIMAX, 8, 31744, id="minimax-m2-tp8"),
        pytest.param(QWEN235B, 1, 192512, id="qwen3-235b-of-dp-attention"),
        pytest.param(QWEN235B, 8, 48128, id="qwen3-235b-one-head-a-rank"),
        pytest.param(GLM47, 8, 47104, id="glm-4.7"),
        pytest.param(FLASH, 4, 54144, id="glm-4.7-flash-is-mla"),
        pytest.param(QWEN_VL, 2, 73728, id="qwen3-vl-text-part"),
    ],
)
def test_bytes_per_token_of_more_models(config, ranks, expected):
    assert bytes_per_token(config, ranks) == expected


@pytest.mark.parametrize(
    ("config", "layers", "draft_bytes"),
    [
        pytest.param(GLM47, 1, 512, id="glm"),
        pytest.param({**FLASH, "num_nextn_predict_layers": 2}, 2, 2304, id="two-mla-layers"),
        pytest.param(MINIMAX, 3, 1536, id="minimax-names-modules"),
        pytest.param(
            {**QWEN_VL, "text_config": {**QWEN_VL["text_config"], "mtp_num_hidden_layers": 1}}, 1, 512, id="text"
        ),
        pytest.param(DRAFT, 1, 4096, id="a-draft-model-counts-all"),
        pytest.param({**DRAFT, "num_hidden_layers": 4}, 4, 16384, id="a-draft-model-of-four-layers"),
        # Drafts made from DeepSeek's config keep the key, with 0 in it.
        pytest.param({**TINY, "num_nextn_predict_layers": 0}, 3, 3456, id="none-of-its-own"),
        pytest.param({**TINY, "num_nextn_predict_layers": True}, 3, 3456, id="no-number"),
    ],
)
def test_a_draft_has_the_layers_of_the_draft_alone(config, layers, draft_bytes):
    found = kv_geometry.geometry(config, 8, draft=True)
    assert (found.layers, found.layers * found.layer_bytes) == (layers, draft_bytes)
    whole = kv_geometry.text_config(config)["num_hidden_layers"]
    assert kv_geometry.geometry(config, 8).layers == whole


FLOAT8 = {"dynamic": False, "num_bits": 8, "type": "float"}


@pytest.mark.parametrize(
    ("extra", "dtype", "expected"),
    [
        pytest.param({"quantization_config": {"quant_algo": "NVFP4", "kv_cache_scheme": FLOAT8}}, None, 1, id="scheme"),
        pytest.param({"quantization_config": {"kv_cache_scheme": FLOAT8}}, "auto", 1, id="auto"),
        pytest.param({"quantization_config": {"kv_cache_quant_algo": "FP8"}}, None, 1, id="algorithm"),
        pytest.param({"quantization_config": {"kv_cache_quant_algo": "fp8"}}, None, 1, id="algorithm-in-small-letters"),
        pytest.param({"quantization_config": {"quantization": {"kv_cache_quant_algo": "FP8"}}}, None, 1, id="wrapped"),
        pytest.param({"hf_quant_config": {"quantization": {"kv_cache_quant_algo": "FP8"}}}, None, 1, id="file-beside"),
        pytest.param(
            {
                "quantization_config": {"quant_algo": "NVFP4"},
                "hf_quant_config": {"quantization": {"kv_cache_quant_algo": "FP8"}},
            },
            None,
            1,
            id="file-beside-says-more",
        ),
        pytest.param(
            {"text_config": {"quantization_config": {"kv_cache_scheme": FLOAT8}}}, None, 1, id="in-text-config"
        ),
        pytest.param({"quantization_config": {"kv_cache_scheme": FLOAT8}}, "bfloat16", 2, id="the-flag-wins"),
        pytest.param({"quantization_config": {"kv_cache_scheme": FLOAT8}}, "torch.bfloat16", 2, id="the-line-wins"),
        pytest.param({}, "torch.float8_e4m3fn", 1, id="as-the-device-line-prints-it"),
        pytest.param({}, "torch.float16", 2, id="float16"),
        pytest.param({}, "torch.float32", 4, id="float32-on-a-cpu"),
        pytest.param({"quantization_config": {"quant_method": "fp8"}}, None, 2, id="fp8-weights-alone"),
        pytest.param({"quantization_config": {"quant_algo": "NVFP4", "kv_cache_scheme": None}}, None, 2, id="null"),
        pytest.param({"quantization_config": {"kv_cache_quant_algo": "auto"}}, None, 2, id="algorithm-auto"),
        pytest.param({"quantization_config": "fp8", "hf_quant_config": []}, None, 2, id="other-kinds-of-values"),
        pytest.param(
            {"quantization_config": {"quant_method": "compressed-tensors", "kv_cache_scheme": FLOAT8}},
            None,
            2,
            id="compressed-tensors-gives-scales-only",
        ),
    ],
)
def test_the_type_is_the_lines_the_flags_or_the_checkpoints(extra, dtype, expected):
    config = {**LLAMA8B, **extra}
    if "text_config" in extra:
        config["text_config"] = {**LLAMA8B, **extra["text_config"]}
    assert bytes_per_token(config, 1, dtype) == 65536 * expected


@pytest.mark.parametrize(
    "place",
    [
        {"quantization_config": {"kv_cache_scheme": {"num_bits": 4, "type": "float"}}},
        {"quantization_config": {"kv_cache_scheme": {"num_bits": 8, "type": "int"}}},
        {"quantization_config": {"kv_cache_scheme": {}}},
        {"quantization_config": {"kv_cache_quant_algo": "NVFP4"}},
        {"hf_quant_config": {"quantization": {"kv_cache_quant_algo": "INT8"}}},
    ],
)
def test_another_scheme_of_a_checkpoint_is_no_guess(place):
    with pytest.raises(GeometryError, match="KV cache scheme of the checkpoint"):
        bytes_per_token({**LLAMA8B, **place})
    assert bytes_per_token({**LLAMA8B, **place}, 1, "bfloat16") == 131072


@pytest.mark.parametrize(
    ("extra", "word"),
    [
        ({"attn_type_list": [0, 1] * 31}, "attn_type_list"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "layer_types"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
        ({"layer_types": ["sliding_attention"], "use_sliding_window": True}, "layer_types"),
        ({"linear_attn_config": {"kda_layers": [1]}}, "linear_attn_config"),
        ({"mamba_d_state": 128}, "mamba_d_state"),
        ({"index_topk": 2048}, "index_topk"),
        ({"hybrid_layer_pattern": [0, 1]}, "hybrid_layer_pattern"),
        ({"is_hybrid_swa": True}, "is_hybrid_swa"),
        ({"text_config": {"full_attention_interval": 4}}, "full_attention_interval"),
    ],
)
@pytest.mark.parametrize("config", [QWEN235B, MINIMAX, TINY], ids=["qwen", "minimax", "mla"])
def test_other_caches_of_a_known_architecture_are_not_misjudged(config, extra, word):
    with pytest.raises(GeometryError, match=word):
        bytes_per_token({**config, **extra}, 1)


@pytest.mark.parametrize(
    "extra",
    [
        {"sliding_window": None, "use_sliding_window": False},
        {"sliding_window": 32768, "use_sliding_window": False, "max_window_layers": 94},
        {"layer_types": ["full_attention"] * 94},
        {"layer_types": ["full_attention", "sliding_attention"], "use_sliding_window": False},
        {"sliding_window": 4096},
        {"index_topk": None, "is_hybrid_swa": False, "layer_types": None},
    ],
)
def test_a_window_that_is_off_changes_nothing(extra):
    assert bytes_per_token({**QWEN235B, **extra}, 1) == 192512


@pytest.mark.parametrize(
    ("config", "kinds"),
    [
        (None, None),
        ({}, None),
        (KIMI, ("full",)),
        (QWEN235B, ("full",)),
        ({"architectures": ["NewForCausalLM"]}, None),
        ({"architectures": ["GptOssForCausalLM"]}, ("full", "swa")),
        ({"architectures": ["X"], "layer_types": ["full_attention", "sliding_attention"]}, ("full", "swa")),
        ({"architectures": ["X"], "layer_types": ["full_attention", "linear_attention"]}, ("full", "mamba")),
        ({"architectures": ["X"], "text_config": {"full_attention_interval": 4}}, ("full", "mamba")),
        ({"architectures": ["X"], "layer_types": ["sliding_attention", "mamba"]}, ("full", "swa", "mamba")),
        ({"architectures": ["DeepseekV32ForCausalLM"], "index_topk": 2048}, None),
    ],
)
def test_kinds_of_pools(config, kinds):
    assert kv_geometry.pool_kinds(config) == kinds


def test_a_folder_has_its_quantization_with_it(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA8B))
    assert kv_geometry.load_folder(tmp_path) == LLAMA8B
    beside = {"quantization": {"kv_cache_quant_algo": "FP8"}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside))
    assert kv_geometry.load_folder(tmp_path) == {**LLAMA8B, "hf_quant_config": beside}
    assert folder_bytes_per_token(tmp_path) == 65536
    assert folder_bytes_per_token(tmp_path, kv_cache_dtype="bf16") == 131072
    for content in ("{", "[]", "[" * 10**5):
        (tmp_path / "hf_quant_config.json").write_text(content)
        assert kv_geometry.load_folder(tmp_path) == LLAMA8B
        (tmp_path / "config.json").write_text(content)
        assert kv_geometry.load_folder(tmp_path) is None
        (tmp_path / "config.json").write_text(json.dumps(LLAMA8B))


@pytest.mark.parametrize("ranks", [0, -1, True, 2.0, "8", None])
def test_heads_are_shared_by_a_number_of_ranks(ranks):
    with pytest.raises(GeometryError, match="tensor_parallel_size is"):
        bytes_per_token(LLAMA8B, ranks)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(
    name=st.sampled_from(
        [
            *QWEN235B,
            "text_config",
            "quantization_config",
            "hf_quant_config",
            "layer_types",
            "attn_type_list",
            "num_nextn_predict_layers",
            "kv_lora_rank",
        ]
    ),
    value=JSON,
    base=st.sampled_from([QWEN235B, KIMI, GLM47]),
    draft=st.booleans(),
)
def test_any_value_gives_a_figure_or_a_reason(name, value, base, draft):
    try:
        found = kv_geometry.geometry({**base, name: value}, 8, draft=draft)
    except GeometryError:
        return
    assert 0 < found.layers * found.layer_bytes < 10**18
    assert kv_geometry.pool_kinds({**base, name: value}) == ("full",)


@pytest.mark.parametrize(
    ("layers", "stages", "each"),
    [
        (5, 2, [2, 3]),
        (4, 2, [2, 2]),
        (61, 4, [15, 15, 15, 16]),
        (62, 4, [15, 15, 16, 16]),
        (3, 3, [1, 1, 1]),
        (7, 1, [7]),
    ],
)
def test_layers_of_pipeline_stages(layers, stages, each):
    assert [kv_geometry.stage_layers(layers, stages, number) for number in range(stages)] == each
    assert kv_geometry.stage_layers(layers) == layers
    with pytest.raises(GeometryError, match=f"{layers} layers"):
        kv_geometry.stage_layers(layers, layers + 1)


@pytest.mark.parametrize("name", kv_geometry.DRAFT_LAYERS)
def test_draft_layers_that_a_model_carries(name):
    assert kv_geometry.draft_layers({name: 2}) == 2
    assert kv_geometry.draft_layers({name: 1}) == 1
    assert kv_geometry.draft_layers({"text_config": {name: 3}, name: 2}) == 3
    assert kv_geometry.draft_layers({name: 10**7}) == 10**7
    for value in (0, -1, True, 1.0, "1", None, 10**7 + 1):
        assert kv_geometry.draft_layers({name: value}) is None


@pytest.mark.parametrize(
    ("config", "has"),
    [
        (None, False),
        ({}, False),
        ({"index_topk": 2048}, True),
        ({"index_head_dim": 128}, True),
        ({"index_topk": 0}, False),
        ({"text_config": {"index_topk": 2048}}, True),
    ],
)
def test_which_models_have_an_indexer(config, has):
    assert kv_geometry.has_indexer(config) is has


@pytest.mark.parametrize("name", sorted(kv_geometry.ITEM_SIZES))
def test_bytes_of_each_type(name):
    bits = 32 if "32" in name else 8 if "8" in name else 16
    assert kv_geometry.item_size({}, name) == kv_geometry.item_size({}, f"torch.{name}") == bits // 8
    assert kv_geometry.item_size({}, f" {name} ") == bits // 8


def test_other_names_of_the_figures():
    gpt = {"architectures": ["LlamaForCausalLM"], "n_layer": 2, "n_head": 4, "n_embd": 512}
    assert bytes_per_token(gpt) == 2 * 2 * 4 * 128 * 2
    assert bytes_per_token({**gpt, "head_dim": 64}) == 2 * 2 * 4 * 64 * 2
    assert bytes_per_token({**gpt, "v_head_dim": 128}) == bytes_per_token(gpt)
    assert bytes_per_token({**gpt, "n_layer": 10**7}) == 10**7 * 2 * 4 * 128 * 2
    for name in ("n_layer", "n_head", "n_embd"):
        with pytest.raises(GeometryError, match=f"LlamaForCausalLM has no positive .* or {name}"):
            bytes_per_token({key: value for key, value in gpt.items() if key != name})
        for value in (0, True, 10**7 + 1, "4"):
            with pytest.raises(GeometryError, match=f"has a {name} that is no positive number"):
                bytes_per_token({**gpt, name: value})


@pytest.mark.parametrize("kinds", [[1, 1], [0, 1], [2]])
def test_a_list_of_attention_types_has_1_for_full_attention(kinds):
    assert kv_geometry.other_caches({"attn_type_list": kinds}) == ([] if kinds == [1, 1] else ["attn_type_list"])
    assert kv_geometry.pool_kinds({"architectures": ["MiniMaxM2ForCausalLM"], "attn_type_list": kinds}) == (
        ("full",) if kinds == [1, 1] else ("full", "mamba")
    )


@pytest.mark.parametrize(
    ("config", "kinds"),
    [
        ({"architectures": ["X"], "hybrid_layer_pattern": [0, 1]}, ("full", "swa")),
        ({"architectures": ["X"], "is_hybrid_swa": True}, ("full", "swa")),
        ({"architectures": ["X"], "text_config": {"layer_types": ["sliding_attention"]}}, ("full", "swa")),
        (
            {
                "architectures": ["LlamaForCausalLM"],
                "layer_types": ["full_attention", "sliding_attention"],
                "use_sliding_window": False,
            },
            ("full",),
        ),
        ({"architectures": ["X"], "num_kv_shared_layers": 4}, None),
        *(({"architectures": ["X"], name: 4}, ("full", "mamba")) for name in kv_geometry._STATES),
    ],
)
def test_more_kinds_of_pools(config, kinds):
    assert kv_geometry.pool_kinds(config) == kinds


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}])
def test_a_cache_of_another_kind_that_is_turned_off_is_none(value):
    config = {
        "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 4, "hidden_size": 512, "index_topk": value,
    }  # fmt: skip
    assert kv_geometry.bytes_per_token(config) == 2 * 4 * 128 * 2 * 2
