#!/usr/bin/env python3
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""LAB. Writes a folder with the config.json of Kimi-K2.5's shape, or of an EAGLE-3 draft, and no real weights.

The stand-in engine reads nothing but config.json, so two shards of a few bytes do: they make the folder complete
for the check of the weights, and let Kimi's own figures be predicted and logged without 595 GB.

Standard library only; the same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
from pathlib import Path

KINDS = {
    "kimi-k2.5": {
        "architectures": ["KimiK25ForConditionalGeneration"],
        "model_type": "kimi_k25",
        "text_config": {
            "architectures": ["DeepseekV3ForCausalLM"],
            "model_type": "kimi_k2",
            "num_hidden_layers": 61,
            "hidden_size": 7168,
            "num_attention_heads": 64,
            "num_key_value_heads": 64,
            "kv_lora_rank": 512,
            "q_lora_rank": 1536,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "v_head_dim": 128,
            "max_position_embeddings": 262144,
        },
    },
    # One layer with Kimi's latent cache: 576 x 2 bytes a token.
    "kimi-k2.5-eagle3-mla": {
        "architectures": ["Eagle3DeepseekV2ForCausalLM"],
        "model_type": "kimi_k2",
        "num_hidden_layers": 1,
        "hidden_size": 7168,
        "num_attention_heads": 64,
        "num_key_value_heads": 64,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "max_position_embeddings": 262144,
    },
}
SHARDS = 2


def shard(name):
    """Bytes of a safetensors file with one bf16 tensor of two elements."""
    header = json.dumps({name: {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    return struct.pack("<Q", len(header)) + header + b"\0\0\x80\x3f"


def write(out, kind):
    """Write the folder."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps(KINDS[kind], indent=2, sort_keys=True) + "\n")
    weight_map = {}
    for number in range(1, SHARDS + 1):
        name, tensor = f"model-{number:05d}-of-{SHARDS:05d}.safetensors", f"model.layers.{number}.weight"
        (out / name).write_bytes(shard(tensor))
        weight_map[tensor] = name
    index = {"metadata": {"total_size": 4 * SHARDS}, "weight_map": weight_map}
    (out / "model.safetensors.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")


def main(argv=None):
    parser = argparse.ArgumentParser(description="Write a folder of a large model's shape, without its weights.")
    parser.add_argument("out", type=Path, help="folder of the model")
    parser.add_argument("--kind", choices=sorted(KINDS), required=True)
    args = parser.parse_args(argv)
    write(args.out, args.kind)
    return 0


if __name__ == "__main__":
    sys.exit(main())
