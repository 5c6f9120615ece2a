#!/usr/bin/env python3
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes a tiny, randomly initialised DeepSeek-V3 style model that the real SGLang loads.

Attention is MLA with the KV geometry of Kimi-K2 (kv_lora_rank 512, qk_rope_head_dim 64): one cached token costs
(512 + 64) x 2 bytes = 1152 bytes in each layer, as in the large model. Everything else is as small as it can be.
The tokenizer knows the 256 bytes and the tokens that SGLang's kimi_k2 parsers look for.

Standard library only; the same arguments give the same bytes on every machine and Python.
"""

from __future__ import annotations

import argparse
import json
import random
import struct
import sys
from pathlib import Path
from statistics import NormalDist

HIDDEN = 256
HEADS = 4
Q_LORA_RANK = 128
KV_LORA_RANK = 512
QK_NOPE_HEAD_DIM = 128
QK_ROPE_HEAD_DIM = 64
V_HEAD_DIM = 128
DENSE_INTERMEDIATE = 512
MOE_INTERMEDIATE = 128
EXPERTS = 8
VOCAB = 320
CONTEXT = 8192
WEIGHT_SPREAD = 0.02

SPECIAL_TOKENS = (
    "<s>",
    "</s>",
    "<pad>",
    "<think>",
    "</think>",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|tool_call_begin|>",
    "<|tool_call_end|>",
    "<|tool_call_argument_begin|>",
)
BOS, EOS, PAD = 256, 257, 258

CHAT_TEMPLATE = (
    "{% if tools %}tools: {{ tools | tojson }}\n{% endif %}"
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def byte_alphabet() -> list[str]:
    """The 256 characters that stand for the bytes in a byte-level BPE vocabulary, in byte order.

    Printable latin-1 bytes stand for themselves, the others for U+0100 and up: the mapping that GPT-2's tokenizer
    introduced and that the ``ByteLevel`` pre-tokenizer applies.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    alphabet = []
    substitutes = 0
    for byte in range(256):
        if byte in printable:
            alphabet.append(chr(byte))
        else:
            alphabet.append(chr(0x100 + substitutes))
            substitutes += 1
    return alphabet


def tokenizer_files() -> dict[str, dict]:
    """File name -> content of the tokenizer's JSON files."""
    vocabulary = {character: number for number, character in enumerate(byte_alphabet())}
    added = []
    for number, token in enumerate(SPECIAL_TOKENS, start=len(vocabulary)):
        added.append(
            {
                "id": number,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
        )
    vocabulary.update({entry["content"]: entry["id"] for entry in added})
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    named = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    return {
        "tokenizer.json": {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added,
            "normalizer": None,
            "pre_tokenizer": byte_level,
            "post_processor": None,
            "decoder": byte_level,
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": False,
                "vocab": vocabulary,
                "merges": [],
            },
        },
        "tokenizer_config.json": {
            **named,
            "additional_special_tokens": [token for token in SPECIAL_TOKENS if token not in named.values()],
            "chat_template": CHAT_TEMPLATE,
            "clean_up_tokenization_spaces": False,
            "model_max_length": CONTEXT,
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
        "special_tokens_map.json": {
            **named,
            "additional_special_tokens": [token for token in SPECIAL_TOKENS if token not in named.values()],
        },
    }


def model_config(layers: int) -> dict:
    """config.json for a number of layers; the first is dense, the others have experts."""
    return {
        "architectures": ["DeepseekV3ForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
        "first_k_dense_replace": 1,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "initializer_range": WEIGHT_SPREAD,
        "intermediate_size": DENSE_INTERMEDIATE,
        "kv_lora_rank": KV_LORA_RANK,
        "max_position_embeddings": CONTEXT,
        "model_type": "deepseek_v3",
        "moe_intermediate_size": MOE_INTERMEDIATE,
        "moe_layer_freq": 1,
        "n_group": 1,
        "n_routed_experts": EXPERTS,
        "n_shared_experts": 1,
        "norm_topk_prob": True,
        "num_attention_heads": HEADS,
        "num_experts_per_tok": 2,
        "num_hidden_layers": layers,
        "num_key_value_heads": HEADS,
        "num_nextn_predict_layers": 0,
        "q_lora_rank": Q_LORA_RANK,
        "qk_nope_head_dim": QK_NOPE_HEAD_DIM,
        "qk_rope_head_dim": QK_ROPE_HEAD_DIM,
        "rms_norm_eps": 1e-05,
        "rope_scaling": {
            "beta_fast": 1.0,
            "beta_slow": 1.0,
            "factor": CONTEXT / 1024,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 1024,
            "type": "yarn",
        },
        "rope_theta": 50000.0,
        "routed_scaling_factor": 2.5,
        "scoring_func": "sigmoid",
        "tie_word_embeddings": False,
        "topk_group": 1,
        "topk_method": "noaux_tc",
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "v_head_dim": V_HEAD_DIM,
        "vocab_size": VOCAB,
    }


def _ffn(prefix: str, width: int) -> dict[str, tuple[int, ...]]:
    return {
        f"{prefix}.gate_proj.weight": (width, HIDDEN),
        f"{prefix}.up_proj.weight": (width, HIDDEN),
        f"{prefix}.down_proj.weight": (HIDDEN, width),
    }


def _layer(number: int) -> dict[str, tuple[int, ...]]:
    prefix = f"model.layers.{number}"
    attention = f"{prefix}.self_attn"
    shapes: dict[str, tuple[int, ...]] = {
        f"{prefix}.input_layernorm.weight": (HIDDEN,),
        f"{attention}.q_a_proj.weight": (Q_LORA_RANK, HIDDEN),
        f"{attention}.q_a_layernorm.weight": (Q_LORA_RANK,),
        f"{attention}.q_b_proj.weight": (HEADS * (QK_NOPE_HEAD_DIM + QK_ROPE_HEAD_DIM), Q_LORA_RANK),
        f"{attention}.kv_a_proj_with_mqa.weight": (KV_LORA_RANK + QK_ROPE_HEAD_DIM, HIDDEN),
        f"{attention}.kv_a_layernorm.weight": (KV_LORA_RANK,),
        f"{attention}.kv_b_proj.weight": (HEADS * (QK_NOPE_HEAD_DIM + V_HEAD_DIM), KV_LORA_RANK),
        f"{attention}.o_proj.weight": (HIDDEN, HEADS * V_HEAD_DIM),
        f"{prefix}.post_attention_layernorm.weight": (HIDDEN,),
    }
    if number == 0:
        shapes.update(_ffn(f"{prefix}.mlp", DENSE_INTERMEDIATE))
        return shapes
    shapes[f"{prefix}.mlp.gate.weight"] = (EXPERTS, HIDDEN)
    shapes[f"{prefix}.mlp.gate.e_score_correction_bias"] = (EXPERTS,)
    shapes.update(_ffn(f"{prefix}.mlp.shared_experts", MOE_INTERMEDIATE))
    for expert in range(EXPERTS):
        shapes.update(_ffn(f"{prefix}.mlp.experts.{expert}", MOE_INTERMEDIATE))
    return shapes


def tensor_groups(layers: int) -> list[dict[str, tuple[int, ...]]]:
    """Tensors (name -> shape) in the groups that are never split over two shards."""
    return [
        {"model.embed_tokens.weight": (VOCAB, HIDDEN)},
        *(_layer(number) for number in range(layers)),
        {"model.norm.weight": (HIDDEN,), "lm_head.weight": (VOCAB, HIDDEN)},
    ]


def _bfloat16_tables() -> tuple[bytes, bytes]:
    """Translation tables from a uniform byte to the low and high byte of a normally distributed bfloat16."""
    normal = NormalDist(0.0, WEIGHT_SPREAD)
    halves = [struct.pack("<f", normal.inv_cdf((step + 0.5) / 256))[2:] for step in range(256)]
    return bytes(half[0] for half in halves), bytes(half[1] for half in halves)


LOW, HIGH = _bfloat16_tables()
ONE = struct.pack("<f", 1.0)[2:]


def tensor_bytes(name: str, shape: tuple[int, ...], source: random.Random) -> bytes:
    """bfloat16 values of a tensor: ones for norms, zeros for the router's bias, else N(0, 0.02)."""
    count = 1
    for extent in shape:
        count *= extent
    if name.endswith("norm.weight"):
        return ONE * count
    if name.endswith("bias"):
        return bytes(2 * count)
    uniform = source.randbytes(count)
    values = bytearray(2 * count)
    values[0::2] = uniform.translate(LOW)
    values[1::2] = uniform.translate(HIGH)
    return bytes(values)


def safetensors_file(tensors: dict[str, tuple[tuple[int, ...], bytes]]) -> bytes:
    """A safetensors file: 8 bytes header length, JSON header padded to 8 bytes, then the data in header order."""
    header: dict[str, dict] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for _shape, data in tensors.values())


def weight_files(layers: int, shards: int, seed: int) -> dict[str, bytes]:
    """File name -> bytes of the shards and of their index."""
    source = random.Random(seed)
    parts: list[dict[str, tuple[tuple[int, ...], bytes]]] = [{} for _ in range(shards)]
    groups = tensor_groups(layers)
    for number, group in enumerate(groups):
        part = parts[number * shards // len(groups)]
        for name, shape in group.items():
            part[name] = (shape, tensor_bytes(name, shape, source))
    files = {}
    weight_map = {}
    for number, part in enumerate(parts, start=1):
        name = f"model-{number:05d}-of-{shards:06d}.safetensors"
        files[name] = safetensors_file(part)
        weight_map.update(dict.fromkeys(part, name))
    total = sum(len(data) for part in parts for _shape, data in part.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    files["model.safetensors.index.json"] = _json_bytes(index)
    return files


def _json_bytes(content: dict) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=True) + "\n").encode()


def model_files(layers: int = 3, shards: int = 2, seed: int = 20260129) -> dict[str, bytes]:
    """File name -> bytes of the complete model folder."""
    if layers < 1:
        raise ValueError(f"layers must be at least 1, got {layers}")
    if not 1 <= shards <= layers + 2:
        raise ValueError(f"shards must be between 1 and layers + 2 = {layers + 2}, got {shards}")
    files = weight_files(layers, shards, seed)
    files["config.json"] = _json_bytes(model_config(layers))
    files["generation_config.json"] = _json_bytes({"bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD})
    files["chat_template.jinja"] = CHAT_TEMPLATE.encode()
    for name, content in tokenizer_files().items():
        files[name] = _json_bytes(content)
    return files


def write(out: Path, files: dict[str, bytes]) -> bool:
    """Writes what differs; a file of another run that does not belong here is removed. True when anything changed."""
    out.mkdir(parents=True, exist_ok=True)
    changed = False
    for path in out.iterdir():
        if path.is_file() and path.name not in files:
            path.unlink()
            changed = True
    for name, content in files.items():
        target = out / name
        if target.exists() and target.read_bytes() == content:
            continue
        partial = out / f".{name}.partial"
        partial.write_bytes(content)
        partial.replace(target)
        changed = True
    return changed


def main(argv: list[str] | None = None) -> int:
    """Command line; prints ``changed OUT`` or ``unchanged OUT``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder of the model")
    parser.add_argument("--layers", type=int, default=3, help="number of layers (default: %(default)s)")
    parser.add_argument("--shards", type=int, default=2, help="number of safetensors files (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=20260129, help="seed of the weights (default: %(default)s)")
    arguments = parser.parse_args(argv)
    try:
        files = model_files(arguments.layers, arguments.shards, arguments.seed)
    except ValueError as error:
        parser.error(str(error))
    print("changed" if write(arguments.out, files) else "unchanged", arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
