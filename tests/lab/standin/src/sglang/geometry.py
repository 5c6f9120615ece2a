# SPDX-License-Identifier: GPL-3.0-or-later
"""KV cache sizes from a model's config.json, by the rules of the imitated release.

GB is 1e9 bytes, GiB is 2**30 bytes. Rules as in SGLang's mem_cache/pool_host/base.py and memory_pool.py.
"""

from __future__ import annotations

import json
import os
from collections import namedtuple

from .release import RELEASE

GIB = 2**30
DEFAULT_TOKENS = 159277  # what 8 cards of 96 GB leave for Kimi-K2.5 at mem-fraction 0.88
ITEM_SIZES = {"float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2}
FORCED_PAGES = {"flashmla": 64, "trtllm_mla": 64, "cutlass_mla": 128}

# kind: "mla" or "mha"; bytes_per_token: of one rank, all of its layers; dtype: as the engine prints it
Geometry = namedtuple("Geometry", "kind layers bytes_per_token dtype architecture context_length")


class ConfigError(Exception):
    """The model directory has no readable config.json."""


def read_config(path):
    """The model's config.json as a dict."""
    try:
        with open(os.path.join(path, "config.json"), encoding="utf-8") as stream:
            return json.load(stream)
    except (OSError, ValueError) as problem:
        raise ConfigError(
            f"Can't load the configuration of '{path}'. If you were trying to load it from "
            f"'https://huggingface.co/models', make sure you don't have a local directory with the same name. "
            f"Otherwise, make sure '{path}' is the correct path to a directory containing a config.json file "
            f"({type(problem).__name__})"
        ) from problem


def stage_layers(layers, pp_size, pp_rank):
    """Layers of one pipeline stage: even, the remainder goes to the last stages but one first."""
    share, rest = divmod(layers, pp_size)
    extra = {pp_size - 2 - index if index < pp_size - 1 else pp_size - 1 for index in range(rest)}
    return share + (1 if pp_rank in extra else 0)


def geometry(config, attention_tp=1, pp_size=1, pp_rank=0, kv_cache_dtype=None):
    """KV geometry of one rank."""
    text = config.get("text_config") or config
    dtype = str(text.get("dtype") or text.get("torch_dtype") or config.get("torch_dtype") or "bfloat16")
    itemsize = ITEM_SIZES.get(dtype, 2)
    if kv_cache_dtype and kv_cache_dtype.startswith("fp8"):
        dtype = {"fp8_e5m2": "float8_e5m2"}.get(kv_cache_dtype, "float8_e4m3fn")
        itemsize = 1
    layers = stage_layers(int(text["num_hidden_layers"]), pp_size, pp_rank)
    if text.get("kv_lora_rank"):
        kind = "mla"  # one latent vector for all heads: every rank holds the whole of it
        width = int(text["kv_lora_rank"]) + int(text["qk_rope_head_dim"])
    else:
        kind = "mha"
        heads = int(text.get("num_key_value_heads") or text["num_attention_heads"])
        size = int(text.get("head_dim") or int(text["hidden_size"]) // int(text["num_attention_heads"]))
        width = 2 * size * max(1, heads // attention_tp)
    return Geometry(
        kind,
        layers,
        width * itemsize * layers,
        f"torch.{dtype}",
        (config.get("architectures") or ["UnknownForCausalLM"])[0],
        int(text.get("max_position_embeddings") or 4096),
    )


def page_size(args):
    """The page size that the start ends up with: asked for, or what the attention backend needs, else 1."""
    return args.page_size or FORCED_PAGES.get(args.attention_backend or "", 1)


def device_tokens(args, page):
    """Tokens of the device pool, a multiple of the page."""
    tokens = args.max_total_tokens or int(os.environ.get("SGLANG_STANDIN_MAX_TOTAL_TOKENS", DEFAULT_TOKENS))
    return tokens // page * page


def host_tokens(tokens, bytes_per_token, ratio, size_gb, page, release=RELEASE):
    """Tokens of a host pool for `tokens` on the device. `size_gb` (GB of one rank) wins over `ratio`."""
    wanted = int(size_gb * 1e9 // bytes_per_token) if size_gb else int(tokens * ratio)
    if release.at_least("0.5.5.post3"):
        return (wanted // page + 1) * page  # one page more, even where it fits exactly
    return wanted // page * page


def draft_host_tokens(host, device, page, release=RELEASE):
    """Tokens of the draft's host pool: sized by the ratio of the target's pools, exact since 0.5.23."""
    if release.at_least("0.5.23"):
        return host
    return host_tokens(device, 1, host / device, 0, page, release)
