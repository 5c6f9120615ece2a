# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments that an engine prints in other words than it was given them: no difference of a deployment."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_judge
from ansible_collections.llmfleet.sglang.plugins.module_utils._hicache import started


def differing(wanted, printed):
    settings = {"tp_size": 8, "dp_size": 1, **printed}
    found, _unsure = started.differences(settings, hicache_judge.Ask(settings=wanted))
    return [one.name for one in found]


@pytest.mark.parametrize(
    ("wanted", "printed"),
    [
        pytest.param({"tool_call_parser": "glm45"}, {"tool_call_parser": "glm"}, id="alias-of-a-parser"),
        pytest.param({"quantization": "modelopt"}, {"quantization": "modelopt_fp4"}, id="quantization-detected"),
        pytest.param({"kv_cache_dtype": "bf16"}, {"kv_cache_dtype": "bfloat16"}, id="type-in-full"),
        pytest.param({"speculative_algorithm": "NEXTN"}, {"speculative_algorithm": "FROZEN_KV_MTP"}, id="frozen-draft"),
        pytest.param({"speculative_eagle_topk": 1}, {"speculative_eagle_topk": 10}, id="numbers-of-an-algorithm"),
        pytest.param(
            {"hicache_host_memory_fraction": 0.5}, {"hicache_host_memory_fraction": None}, id="fraction-beside-a-ratio"
        ),
        pytest.param(
            {"hicache_mem_layout": "page_first_direct", "hicache_io_backend": "direct"},
            {"hicache_mem_layout": "page_first", "hicache_io_backend": "kernel", "enable_unified_memory": True},
            id="unified-memory",
        ),
        pytest.param({"enable_dp_attention": False}, {"enable_dp_attention": True}, id="attention-of-one-copy"),
    ],
)
def test_what_an_engine_says_in_other_words(wanted, printed):
    assert differing(wanted, printed) == []


@pytest.mark.parametrize(
    ("wanted", "printed", "name"),
    [
        ({"kv_cache_dtype": "bf16"}, {"kv_cache_dtype": "fp8_e4m3"}, "kv_cache_dtype"),
        ({"speculative_algorithm": "EAGLE3"}, {"speculative_algorithm": "EAGLE"}, "speculative_algorithm"),
        ({"hicache_mem_layout": "page_first_direct"}, {"hicache_mem_layout": "layer_first"}, "hicache_mem_layout"),
        ({"enable_dp_attention": False}, {"enable_dp_attention": True, "dp_size": 8}, "enable_dp_attention"),
    ],
)
def test_what_is_another_deployment(wanted, printed, name):
    assert differing(wanted, printed) == [name]
