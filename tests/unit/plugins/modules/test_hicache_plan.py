# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module hicache_plan and the filter plan_text: arguments in, results out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible.module_utils import basic
from ansible.module_utils.testing import patch_module_args
from ansible_collections.llmfleet.sglang.plugins.filter.plan_text import plan_text
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_plan as planning
from ansible_collections.llmfleet.sglang.plugins.modules import hicache_plan

KIMI = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "text_config": {"num_hidden_layers": 61, "kv_lora_rank": 512, "qk_rope_head_dim": 64},
}
GIVEN = {
    "release": "0.5.23",
    "model_config": KIMI,
    "tensor_parallel_size": 8,
    "ratio": 4.0,
    "device_tokens": 159277,
    "memory": {"total": 768 * 10**9, "available": 300 * 10**9},
    "memory_stat": f"anon {450 * 10**9}\nshmem 0\n",
}


@pytest.fixture
def call(capsys):
    """A function that runs the module and returns what it prints."""

    def run(**changes):
        with patch_module_args({**GIVEN, **changes}), pytest.raises(SystemExit):
            hicache_plan.main()
        return json.loads(capsys.readouterr().out)

    return run


def test_the_plan_comes_back_whole_and_documented(call):
    result = call()
    documented = yaml.safe_load(hicache_plan.RETURN)
    given = set(result) - {"invocation", "changed"}
    assert given == set(documented)
    assert set(result["pools"][0]) == set(documented["pools"]["contains"])
    assert set(result["memory"]) == set(documented["memory"]["contains"])
    assert set(result["weights"]) == set(documented["weights"]["contains"])
    assert (result["fits"], result["total_gb"], result["changed"]) == (True, 358.17, False)
    assert result["memory"]["held_gb"] == 450.0
    assert result["text"][0] == "fits - SGLang 0.5.23, 8 ranks, x 4, page size 1"


def test_the_smallest_limit_counts(call):
    memory = {"total": 768 * 10**9, "available": 700 * 10**9, "cgroup_limit": 600 * 10**9}
    assert call(memory=memory)["memory"]["cgroup_limit_gb"] == 600.0
    assert call(memory=memory, memory_limits=["infinity", "400G"])["memory"]["cgroup_limit_gb"] == 429.5
    assert call(memory_limits=["infinity"])["memory"]["cgroup_limit_gb"] is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"release": "main"}, "is not an SGLang release"),
        ({"nodes": 3}, "nodes is 3"),
        ({"memory_limits": ["x"]}, "'x'"),
        ({"memory_limits": ["9" * 400 + "G"]}, "is no limit of memory"),
        ({"engine_options": {"pp_size": 10**9}}, "pipeline_parallel_size is 1000000000"),
        ({"memory": {"available": float("inf")}}, "memory.available is inf"),
    ],
)
def test_what_cannot_be_is_refused(call, changes, words):
    result = call(**changes)
    assert result["failed"] is True
    assert words in result["msg"]


def test_the_filter_makes_blocks_and_a_table(call):
    plan = call()
    assert basic  # the module's own base is the real one
    plans = {"beech": plan, "ash": plan}
    blocks = plan_text(plans, "hosts")
    assert blocks[0].startswith("ash: fits") and any(line.startswith("beech: fits") for line in blocks)
    table = plan_text(plans)
    assert table[0].startswith("host") and table[-1].startswith("2 hosts: 2 fit; 716.34 GB")
    with pytest.raises(AnsibleFilterError, match="form is 'wide'"):
        plan_text(plans, "wide")
    with pytest.raises(AnsibleFilterError, match="mapping"):
        plan_text([plan])


NUMBERS = [name for name, argument in hicache_plan.ARGUMENTS.items() if argument["type"] in ("int", "float")]


@pytest.mark.parametrize(
    "value", [float("inf"), float("nan"), 1e308, 10**400, -1, "many"], ids=lambda one: str(one)[:9]
)
@pytest.mark.parametrize("name", NUMBERS)
def test_a_figure_that_cannot_be_is_named_without_a_traceback(call, name, value):
    result = call(**{name: value})
    assert result["failed"] is True
    assert re.search(rf"\b{name}\b", result["msg"])
    assert "exception" not in result


def test_engine_options_of_a_decode_server_are_read(call):
    qwen = {
        "architectures": ["Qwen3ForCausalLM"],
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
    }
    found = call(
        model_config=qwen,
        hicache_enabled=False,
        ratio=None,
        engine_options={"disaggregation-mode": "decode", "dp_size": "2", "tp-size": 4},
    )
    assert [(pool["tokens"], pool["ranks"]) for pool in found["pools"]] == [(31856, 8)]


def test_role_plan_passes_the_options_that_are_read_and_no_others():
    role = Path(__file__).resolve().parents[4] / "roles/plan/vars/main.yml"
    assert set(yaml.safe_load(role.read_text())["__plan_option_names"]) == planning.READ_OPTIONS
