# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one token takes in the KV cache of one rank, read from a model's ``config.json``.

Two kinds of cache are known. MLA keeps one latent vector a layer, which every tensor-parallel rank holds whole.
MHA and GQA keep keys and values a head, and the ranks share the heads among them.

Models that keep anything else beside them (sliding windows with a pool of their own, recurrent states, indexers of
sparse attention) are not known, and a model of a known architecture whose config shows such a thing is refused too: a
wrong number is worse than none.

Source: ``srt/configs/model_config.py``, ``srt/mem_cache/kv_cache_dtype.py``, ``srt/mem_cache/memory_pool.py``,
``srt/layers/quantization/modelopt_quant.py`` and ``srt/model_executor/model_runner_components/layer_setup.py`` of the
SGLang wheels 0.5.9 to 0.5.23.

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
        "Glm4MoeLiteForCausalLM",
        "KimiK25ForConditionalGeneration",
        "KimiVLForConditionalGeneration",
        "MistralLarge3ForCausalLM",
    }
)
MHA_ARCHITECTURES = frozenset(
    {
        "Ernie4_5_ForCausalLM",
        "Ernie4_5_MoeForCausalLM",
        "GPT2LMHeadModel",
        "Glm4ForCausalLM",
        "Glm4MoeForCausalLM",
        "LlamaForCausalLM",
        "LlamaForCausalLMEagle",
        "LlamaForCausalLMEagle3",
        "MiMoForCausalLM",
        "MiniMaxM2ForCausalLM",
        "MistralForCausalLM",
        "MixtralForCausalLM",
        "OPTForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen2MoeForCausalLM",
        "Qwen2_5_VLForConditionalGeneration",
        "Qwen3ForCausalLM",
        "Qwen3MoeForCausalLM",
        "Qwen3VLForConditionalGeneration",
        "Qwen3VLMoeForConditionalGeneration",
    }
)
# Bytes of one stored element, by what --kv-cache-dtype takes and what the device line prints (without "torch.").
ITEM_SIZES = {
    "bfloat16": 2,
    "bf16": 2,
    "float16": 2,
    "float32": 4,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
}
# Every type in which SGLang runs a model is 16 bits wide: it takes float16 where a checkpoint has 32.
MODEL_ITEM_SIZE = 2
# Where a model says how many draft layers it carries.
DRAFT_LAYERS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "num_mtp_modules")
# Keys of a config that stand for caches of another kind, whatever their value, as long as there is one.
_OTHER_CACHES = (
    "compress_ratios",
    "full_attention_interval",
    "hybrid_layer_pattern",
    "hybrid_override_pattern",
    "index_topk",
    "is_hybrid_swa",
    "layers_block_type",
    "linear_attn_config",
    "mamba_d_state",
    "num_kv_shared_layers",
    "ssm_cfg",
    "ssm_state_size",
)
# Above this no figure of a config is meant.
_MOST = 10**7


#: architecture: as config.json names it; kind: ``mla`` or ``mha``; layers: of the whole model, or of its draft part;
#: layer_bytes: bytes that one token takes in one layer of one rank.
Geometry = namedtuple("Geometry", "architecture kind layers layer_bytes")


class GeometryError(ValueError):
    """The KV geometry cannot be told from this config; the message names what is missing."""


def load_folder(folder):
    """The ``config.json`` of a model's folder as a mapping; None where it cannot be read or holds no mapping.

    Where the folder has a ``hf_quant_config.json``, its content is under the key ``hf_quant_config``.
    """
    found = {}
    for name in ("config.json", "hf_quant_config.json"):
        try:
            with open(os.path.join(folder, name), encoding="utf-8") as stream:
                found[name] = json.load(stream)
        except (OSError, ValueError, RecursionError):
            found[name] = None
    config, quantization = found["config.json"], found["hf_quant_config.json"]
    if not isinstance(config, dict):
        return None
    return dict(config, hf_quant_config=quantization) if isinstance(quantization, dict) else config


def architecture_of(config):
    """The architecture that a config names first, or None."""
    names = config.get("architectures") if isinstance(config, dict) else None
    return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None


def text_config(config):
    """The part of a multimodal config that describes the language model."""
    nested = config.get("text_config")
    return nested if isinstance(nested, dict) else config


def _number(config, names, architecture):
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST:
            return value
        if value is not None:
            raise GeometryError(f"config.json of {architecture} has a {name} that is no positive number")
    raise GeometryError(f"config.json of {architecture} has no positive {' or '.join(names)}")


def _scheme_item_size(scheme):
    """Bytes of an element by what a checkpoint says of its KV cache: a scheme or the name of an algorithm."""
    if isinstance(scheme, dict):
        if scheme.get("type") == "float" and scheme.get("num_bits") == 8:
            return 1
        shown = f"{scheme.get('num_bits')} bits, {scheme.get('type')}"
    else:
        name = str(scheme).strip().upper()
        if name in ("FP8", "FLOAT8"):
            return 1
        if name in ("", "AUTO", "NONE"):
            return MODEL_ITEM_SIZE
        shown = str(scheme)
    raise GeometryError(
        f"the KV cache scheme of the checkpoint ({shown[:60]}) is not known; known is 8-bit float. "
        "Set kv_cache_dtype to name the type"
    )


def checkpoint_item_size(config):
    """Bytes of an element in the KV cache of a start with ``auto``: what the checkpoint says, else 2.

    The description in ``config.json`` comes first, then ``hf_quant_config.json``, as in SGLang. What compressed-tensors
    says of a KV cache changes no type there: SGLang only takes scales from it.

    :raises GeometryError: when the checkpoint asks for a KV cache of another kind.
    """
    nested = config.get("hf_quant_config")
    places = [text_config(config).get("quantization_config"), config.get("quantization_config")]
    places.append(nested.get("quantization", nested) if isinstance(nested, dict) else None)
    for place in places:
        if not isinstance(place, dict):
            continue
        if isinstance(place.get("quantization"), dict):
            place = place["quantization"]
        if place.get("quant_method") == "compressed-tensors":
            return MODEL_ITEM_SIZE
        for name in ("kv_cache_scheme", "kv_cache_quant_algo"):
            if place.get(name) is not None:
                return _scheme_item_size(place[name])
    return MODEL_ITEM_SIZE


def item_size(config, kv_cache_dtype=None):
    """Bytes of one stored element; see :func:`geometry`.

    :raises GeometryError: when the type is not known.
    """
    name = str(kv_cache_dtype or "auto").strip()
    if name == "auto":
        return checkpoint_item_size(config)
    plain = name[len("torch.") :] if name.startswith("torch.") else name
    if plain not in ITEM_SIZES:
        known = ", ".join(["auto", *sorted(ITEM_SIZES)])
        raise GeometryError(f"the size of kv_cache_dtype {name[:60]} is not known; known are {known}")
    return ITEM_SIZES[plain]


def other_caches(config):
    """Names of the entries by which a config shows caches beside plain attention; empty where it shows none."""
    found = []
    for part in (config, text_config(config)):
        found += [name for name in _OTHER_CACHES if part.get(name) not in (None, False, [], {}, 0, "")]
        kinds = part.get("layer_types")
        if isinstance(kinds, list) and any(kind != "full_attention" for kind in kinds):
            sliding = all(kind in ("full_attention", "sliding_attention") for kind in kinds)
            # Qwen and others list windows that a switch turns off.
            found += [] if sliding and part.get("use_sliding_window") is False else ["layer_types"]
        kinds = part.get("attn_type_list")
        # 1 is full attention, 0 a linear one.
        found += ["attn_type_list"] if isinstance(kinds, list) and any(kind != 1 for kind in kinds) else []
    return sorted(set(found))


#: Architectures whose sliding windows have a pool of their own: ``is_hybrid_swa_model`` of 0.5.23.
SWA_ARCHITECTURES = frozenset(
    {
        "Gemma4ForCausalLM",
        "Gemma4ForConditionalGeneration",
        "GptOssForCausalLM",
        "Llama4ForConditionalGeneration",
        "MiMoV2FlashForCausalLM",
        "MiMoV2ForCausalLM",
        "Step3p5ForCausalLM",
    }
)
_STATES = (
    "full_attention_interval",
    "hybrid_override_pattern",
    "layers_block_type",
    "linear_attn_config",
    "mamba_d_state",
    "ssm_cfg",
    "ssm_state_size",
)


def pool_kinds(config):
    """The kinds of pools that a model has in the order ``full``, ``swa``, ``mamba``; None where they cannot be told."""
    if not isinstance(config, dict):
        return None
    architecture, other = architecture_of(config), set(other_caches(config))
    listed = [part.get("layer_types") for part in (config, text_config(config))]
    kinds = [kind for kinds in listed if isinstance(kinds, list) for kind in kinds]
    swa = (
        architecture in SWA_ARCHITECTURES
        or bool(other & {"hybrid_layer_pattern", "is_hybrid_swa"})
        or ("layer_types" in other and "sliding_attention" in kinds)
    )
    plain = ("full_attention", "sliding_attention")
    mamba = bool(other & {"attn_type_list", *_STATES}) or any(kind not in plain for kind in kinds)
    if not (swa or mamba) and (other or architecture not in MLA_ARCHITECTURES | MHA_ARCHITECTURES):
        return None
    return ("full", *(["swa"] if swa else []), *(["mamba"] if mamba else []))


def has_indexer(config):
    """Whether a model picks its tokens by an indexer (sparse attention), which has a pool beside the main one."""
    if not isinstance(config, dict):
        return False
    return any(part.get(name) for part in (config, text_config(config)) for name in ("index_topk", "index_head_dim"))


def draft_layers(config):
    """How many draft layers a model carries itself, None where its config names none."""
    for part in (text_config(config), config):
        for name in DRAFT_LAYERS:
            value = part.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST:
                return value
    return None


def geometry(config, tensor_parallel_size=1, kv_cache_dtype=None, draft=False):
    """The :class:`Geometry` of one rank's KV cache.

    ``config`` is the parsed ``config.json``, as :func:`load_folder` gives it; nested ``text_config`` as in Kimi-K2.5 is
    followed. ``tensor_parallel_size`` is the number of ranks that share the heads (``attention_ranks`` of a layout).
    ``kv_cache_dtype`` is SGLang's ``--kv-cache-dtype``, or the type that the device line prints
    (``torch.float8_e4m3fn``); None and ``auto`` are what the checkpoint says, else 16 bits. With ``draft`` a model that
    carries its own draft layers (GLM, DeepSeek, MiMo) counts those alone; a draft model of its own counts all it has.

    :raises GeometryError: when the architecture is not known, or a figure is missing from the config.
    """
    if not isinstance(config, dict):
        raise GeometryError("config.json does not hold a JSON object")
    architecture = architecture_of(config)
    if architecture not in MLA_ARCHITECTURES | MHA_ARCHITECTURES:
        raise GeometryError(f"the KV geometry of architecture {architecture} is not known")
    other = other_caches(config)
    if other:
        raise GeometryError(
            f"the KV geometry of this {architecture} is not known: its config.json has {', '.join(other)}, which "
            "stands for caches beside plain attention"
        )
    if isinstance(tensor_parallel_size, bool) or not isinstance(tensor_parallel_size, int) or tensor_parallel_size < 1:
        raise GeometryError(f"tensor_parallel_size is {tensor_parallel_size!r}: heads are shared by 1 rank or more")
    size = item_size(config, kv_cache_dtype)
    text = text_config(config)
    layers = _number(text, ("num_hidden_layers", "n_layer"), architecture)
    if draft:
        layers = draft_layers(config) or layers
    if architecture in MLA_ARCHITECTURES:
        rank = _number(text, ("kv_lora_rank",), architecture)
        rope = _number(text, ("qk_rope_head_dim",), architecture)
        return Geometry(architecture, "mla", layers, mla_bytes_per_token(rank, rope, 1, size))
    heads = _number(text, ("num_attention_heads", "n_head"), architecture)
    kv_heads = (
        heads if text.get("num_key_value_heads") is None else _number(text, ("num_key_value_heads",), architecture)
    )
    if text.get("head_dim") is not None:
        head_dim = _number(text, ("head_dim",), architecture)
    else:
        head_dim = _number(text, ("hidden_size", "n_embd"), architecture) // heads
    if text.get("v_head_dim") not in (None, head_dim):
        raise GeometryError(f"config.json of {architecture} has a v_head_dim that is not its head_dim {head_dim}")
    layer_bytes = mha_bytes_per_token(kv_heads, head_dim, 1, tensor_parallel_size, size)
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


def bytes_per_token(config, tensor_parallel_size=1, kv_cache_dtype=None, draft=False):
    """Bytes that one token takes in the KV cache of one rank, over all layers; see :func:`geometry`.

    >>> kimi = {"architectures": ["KimiK25ForConditionalGeneration"],
    ...         "text_config": {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "num_hidden_layers": 61}}
    >>> bytes_per_token(kimi, tensor_parallel_size=8)
    70272

    :raises GeometryError: when the architecture is not known, or a figure is missing from the config.
    """
    found = geometry(config, tensor_parallel_size, kv_cache_dtype, draft)
    return found.layers * found.layer_bytes


def folder_bytes_per_token(folder, tensor_parallel_size=1, kv_cache_dtype=None, draft=False):
    """The same for the model in a folder, or None where its ``config.json`` cannot be read or is of no known kind."""
    try:
        return bytes_per_token(load_folder(folder), tensor_parallel_size, kv_cache_dtype, draft)
    except GeometryError:
        return None
