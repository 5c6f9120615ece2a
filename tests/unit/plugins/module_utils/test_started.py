# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments that an engine prints in other words than it was given them: no difference of a deployment."""

from __future__ import annotations

from types import SimpleNamespace

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


@pytest.mark.parametrize("name", sorted(started.DEFAULTS))
def test_a_default_that_is_asked_for_and_not_printed_is_none(name):
    known = {"hicache_ratio": 2.0, "hicache_size": 0, "disaggregation_mode": "null", "node_rank": 0}
    assert started.same(name, known.get(name, 1), None)
    assert not started.same(name, 7 if name != "disaggregation_mode" else "decode", None)


@pytest.mark.parametrize(
    ("settings", "release", "own"),
    [
        ({"attention_backend": "fa3"}, (0, 5, 13, 0), True),
        ({"attention_backend": "fa3"}, (0, 5, 14, 0), False),
        ({"attention_backend": "fa3", "version": "0.5.13"}, None, True),
        ({"attention_backend": "fa3", "version": "0.5.16"}, None, False),
        ({"attention_backend": "fa3"}, None, True),
        ({"attention_backend": "triton"}, (0, 5, 13, 0), False),
        ({"hicache_mem_layout": "page_first_direct"}, (0, 5, 23, 0), True),
    ],
)
def test_when_the_engine_takes_direct_for_another_io_backend(settings, release, own):
    printed = {**settings, "hicache_io_backend": "direct"}
    assert started.resolved("hicache_io_backend", "kernel", printed, release) is own


@pytest.mark.parametrize("page", [16, 32, 64, 128, 256])
def test_pages_that_a_backend_or_a_model_imposes(page):
    assert started.resolved("page_size", 1, {"page_size": page})
    assert not started.resolved("page_size", 1, {"page_size": page, "attention_backend": "triton"})
    assert not started.resolved("page_size", 1, {"page_size": page - 1})


def test_a_layout_that_is_not_asked_for_or_not_printed_differs_in_nothing():
    asked = hicache_judge.Ask(layout={"tensor_parallel_size": None, "pipeline_parallel_size": 4, "nodes": 2})
    found, _unsure = started.differences({"tp_size": 8, "nnodes": 1}, asked)
    assert [(one.name, one.wanted, one.got) for one in found] == [("nnodes", 2, 1)]


def test_up_to_six_choices_of_the_engine_are_told():
    printed = {f"cuda_graph_{number}": 2 for number in range(8)}
    start = SimpleNamespace(allocations=(), settings=printed, settings_by={None: printed})
    reasons = hicache_judge.Reasons()
    ask = hicache_judge.Ask(settings=dict.fromkeys(printed, 1))
    assert started.check(start, ask, None, reasons)
    told = next(item["message"] for item in reasons.items if item["code"] == "settings_resolved")
    assert [f"cuda_graph_{number} 2 for 1" in told for number in range(8)] == [True] * 6 + [False] * 2


def test_where_nobody_allocated_all_servers_of_a_log_are_answered_for_by_the_start():
    both = {"a-1": {"tp_size": 1}, "b-1": {"tp_size": 2}}
    start = SimpleNamespace(allocations=(), settings={"tp_size": 1}, settings_by=both)
    assert started.settings_of(start) == [{"tp_size": 1}]
