# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = """
name: kv_bytes_per_token
short_description: Bytes that one token takes in the KV cache of one rank
version_added: 0.1.0
author: llmfleet contributors (@llmfleet)
description:
  - Reads the KV geometry from the parsed C(config.json) of a model, and gives the bytes that one token takes in the
    KV cache of one rank, over all layers.
  - An MLA cache is not divided by the tensor-parallel size, as every rank holds it whole.
  - An architecture that is not known gives C(0), so that a caller can leave out what it cannot know.
options:
  _input:
    description: The parsed C(config.json) of the model or of the draft model.
    type: dict
    required: true
  tensor_parallel_size:
    description: Number of tensor-parallel ranks.
    type: int
    default: 1
  kv_cache_dtype:
    description: SGLang's C(--kv-cache-dtype); empty or V(auto) is the model's own type.
    type: str
"""

EXAMPLES = """
- name: Show what a token takes on each of 8 ranks
  ansible.builtin.debug:
    msg: "{{ model_config | llmfleet.sglang.kv_bytes_per_token(tensor_parallel_size=8) }} bytes"
"""

RETURN = """
_value:
  description: Bytes a token and rank, or V(0) where the architecture is not known.
  type: int
"""

from ansible_collections.llmfleet.sglang.plugins.module_utils.kv_geometry import GeometryError, bytes_per_token


def kv_bytes_per_token(config, tensor_parallel_size=1, kv_cache_dtype=None):
    """Bytes a token and rank, or 0 where the geometry is not known."""
    try:
        return bytes_per_token(config, int(tensor_parallel_size), kv_cache_dtype or None)
    except GeometryError:
        return 0


class FilterModule:
    """The filter of this file."""

    def filters(self):
        return {"kv_bytes_per_token": kv_bytes_per_token}
