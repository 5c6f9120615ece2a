# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one token takes in the KV cache of one rank, read from a model's ``config.json``.

Two kinds of cache are known. MLA keeps one latent vector a layer, which every tensor-parallel rank holds whole.
MHA and GQA keep keys and values a head, and the ranks share the heads among them.

Source: ``srt/configs/model_config.py`` and ``srt/mem_cache/memory_pool.py`` of the SGLang wheels 0.5.9 to 0.5.23.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

import json
import os
from collections import namedtuple

from .hicache_size import mha_bytes_per_token, mla_bytes_per_token

MLA_ARCHITECTURES = frozenset(
    {
        "DeepseekV2ForCausalLM",
        "DeepseekV3ForCausalLM",
        "Eagle3DeepseekV2ForCausalLM",
        "KimiK25ForConditionalGeneration",
        "KimiVLForConditionalGeneration",
    }
)
MHA_ARCHITECTURES = frozenset(
    {
        "Glm4MoeForCausalLM",
        "GPT2LMHeadModel",
        "LlamaForCausalLM",
        "LlamaForCausalLMEagle",
        "LlamaForCausalLMEagle3",
        "MistralForCausalLM",
        "MixtralForCausalLM",
        "OPTForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen2MoeForCausalLM",
        "Qwen3ForCausalLM",
        "Qwen3MoeForCausalLM",
    }
)
# Bytes of one stored element. `auto` takes the model's own type, which is 16 bits wide in every model here.
ITEM_SIZES = {
    "auto": 2,
    "bfloat16": 2,
    "bf16": 2,
    "float16": 2,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
}


#: architecture: as config.json names it; kind: ``mla`` or ``mha``; layers: of the whole model; layer_bytes: bytes that
#: one token takes in one layer of one rank.
Geometry = namedtuple("Geometry", "architecture kind layers layer_bytes")


class GeometryError(ValueError):
    """The KV geometry cannot be told from this config; the message names what is missing."""


def _text_config(config):
    """The part of a multimodal config that describes the language model."""
    nested = config.get("text_config")
    return nested if isinstance(nested, dict) else config


def _number(config, names, architecture):
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    raise GeometryError(f"config.json of {architecture} has no positive {' or '.join(names)}")


def geometry(config, tensor_parallel_size=1, kv_cache_dtype=None):
    """The :class:`Geometry` of one rank's KV cache.

    ``config`` is the parsed ``config.json``; nested ``text_config`` as in Kimi-K2.5 is followed.
    ``tensor_parallel_size`` is the number of ranks that share the heads: under DP attention it is SGLang's
    ``--tp-size`` divided by ``--dp-size``. ``kv_cache_dtype`` is SGLang's ``--kv-cache-dtype``; None is ``auto``.

    :raises GeometryError: when the architecture is not known, or a figure is missing from the config.
    """
    if not isinstance(config, dict):
        raise GeometryError("config.json does not hold a JSON object")
    names = config.get("architectures") or []
    architecture = names[0] if isinstance(names, list) and names else None
    if architecture not in MLA_ARCHITECTURES | MHA_ARCHITECTURES:
        raise GeometryError(
            f"the KV geometry of architecture {architecture} is not known; known are "
            + ", ".join(sorted(MLA_ARCHITECTURES | MHA_ARCHITECTURES))
        )
    dtype = kv_cache_dtype or "auto"
    if dtype not in ITEM_SIZES:
        known = ", ".join(sorted(ITEM_SIZES))
        raise GeometryError(f"the size of kv_cache_dtype {dtype} is not known; known are {known}")
    item_size = ITEM_SIZES[dtype]
    text = _text_config(config)
    layers = _number(text, ("num_hidden_layers", "n_layer"), architecture)
    if architecture in MLA_ARCHITECTURES:
        rank = _number(text, ("kv_lora_rank",), architecture)
        rope = _number(text, ("qk_rope_head_dim",), architecture)
        return Geometry(architecture, "mla", layers, mla_bytes_per_token(rank, rope, 1, item_size))
    heads = _number(text, ("num_attention_heads", "n_head"), architecture)
    kv_heads = text.get("num_key_value_heads") or heads
    head_dim = text.get("head_dim") or _number(text, ("hidden_size", "n_embd"), architecture) // heads
    layer_bytes = mha_bytes_per_token(kv_heads, head_dim, 1, tensor_parallel_size, item_size)
    return Geometry(architecture, "mha", layers, layer_bytes)


def stage_layers(layers, pipeline_parallel_size=1, stage=0):
    """Layers of one pipeline stage: even, and the last stages hold one more each where there is a rest.

    That is the rule of ``get_pp_indices`` in ``srt/distributed/utils.py`` from 0.5.9 to 0.5.23, as long as
    ``SGLANG_PP_LAYER_PARTITION`` is not set.

    :raises GeometryError: when there are more stages than layers.
    """
    if pipeline_parallel_size > layers:
        raise GeometryError(f"{layers} layers cannot be spread over {pipeline_parallel_size} pipeline stages")
    share, rest = divmod(layers, pipeline_parallel_size)
    return share + (1 if stage >= pipeline_parallel_size - rest else 0)


def bytes_per_token(config, tensor_parallel_size=1, kv_cache_dtype=None):
    """Bytes that one token takes in the KV cache of one rank, over all layers; see :func:`geometry`.

    >>> kimi = {"architectures": ["KimiK25ForConditionalGeneration"],
    ...         "text_config": {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "num_hidden_layers": 61}}
    >>> bytes_per_token(kimi, tensor_parallel_size=8)
    70272

    :raises GeometryError: when the architecture is not known, or a figure is missing from the config.
    """
    found = geometry(config, tensor_parallel_size, kv_cache_dtype)
    return found.layers * found.layer_bytes


def folder_bytes_per_token(folder, tensor_parallel_size=1, kv_cache_dtype=None):
    """The same for the model in a folder, or None where its ``config.json`` cannot be read or is of no known kind."""
    try:
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as stream:
            return bytes_per_token(json.load(stream), tensor_parallel_size, kv_cache_dtype)
    except (OSError, ValueError):
        return None
