# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan: pools to the byte, the rule of each release, what is refused, and what cannot be told."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_plan, hicache_size, plan_text
from hypothesis import given, settings
from hypothesis import strategies as st

DATA = Path(__file__).resolve().parents[2] / "data"
PUBLISHED = yaml.safe_load((DATA / "plan_cases.yml").read_text())
GB, GIB = 10**9, 2**30

KIMI = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "text_config": {"num_hidden_layers": 61, "kv_lora_rank": 512, "qk_rope_head_dim": 64},
}
MLA_DRAFT = {
    "architectures": ["Eagle3DeepseekV2ForCausalLM"],
    "num_hidden_layers": 1,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
}
MHA_DRAFT = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "num_hidden_layers": 1,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "head_dim": 128,
}
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
}
CARD = 97887
SETTINGS = {"release": "0.5.23", "mem_fraction_static": 0.88, "engine_options": {"context-length": 131072}}
FACT = {
    "device_tokens": 159277,
    "verdict": "pass",
    "started_at": "2026-11-28T10:00:00+00:00",
    "device_settings": hicache_plan.device_settings(SETTINGS),
}


def ask(**changes):
    """Kimi-K2.5 on 8 ranks of a host with 768 GB, and what a case changes."""
    asked = {
        "release": "0.5.23",
        "model_config": KIMI,
        "tensor_parallel_size": 8,
        "ratio": 4.0,
        "device_tokens": 159277,
        "memory": {"total": 768 * GB, "available": 750 * GB},
    }
    asked.update(changes)
    return asked


def plan(**changes):
    return hicache_plan.make_plan(ask(**changes))


def of_layer(token_bytes):
    """A config of one MLA layer with so many bytes a token."""
    return {
        "architectures": ["DeepseekV3ForCausalLM"],
        "num_hidden_layers": 1,
        "kv_lora_rank": token_bytes // 2 - 64,
        "qk_rope_head_dim": 64,
    }


@pytest.mark.parametrize("case", PUBLISHED, ids=[case["name"] for case in PUBLISHED])
def test_published_figures_in_both_directions(case):
    release, token_bytes = case["release"], case["bytes_per_token"]
    if "device_tokens" in case or "size_gb" in case:
        draft = of_layer(case["draft_bytes_per_token"]) if "draft_bytes_per_token" in case else None
        found = plan(
            release=release,
            model_config=of_layer(token_bytes),
            draft_config=draft,
            ratio=case.get("ratio"),
            size_gb=case.get("size_gb"),
            device_tokens=case.get("device_tokens"),
            page_size=case["page_size"],
        )
        assert found["pools"][0]["gb"] == case["gb"]
        assert found["pools"][0]["tokens"] == case.get("host_tokens", found["pools"][0]["tokens"])
        assert [pool["gb"] for pool in found["pools"][1:]] == ([case["draft_gb"]] if draft else [])
    else:
        assert hicache_size.printed_gb(hicache_size.tokens_to_gb(case["host_tokens"], token_bytes)) == case["gb"]
    # Back from the printed figure: the tokens of the log are among those that print it.
    ratio, page = case.get("ratio", 1.0), case.get("page_size", 1)
    device = case.get("device_tokens") or case.get("host_tokens") or int(case["gb"] * GB // token_bytes)
    fewest, most = hicache_size.device_tokens_of(case["gb"], ratio, token_bytes, page, release)
    assert fewest <= device <= most
    for tokens, same in ((fewest - 1, False), (fewest, True), (most, True), (most + 1, False)):
        size = hicache_size.tokens_to_gb(hicache_size.host_tokens(tokens, ratio, page, release), token_bytes)
        assert (hicache_size.printed_gb(size) == case["gb"]) is same


def test_which_device_pools_of_kimi_print_44_77():
    assert hicache_size.device_tokens_of(44.77, 4.0, 70272, 1, "0.5.23") == (159256, 159291)
    assert hicache_size.device_tokens_of(44.775, 4.0, 70272 * 10**6, 1, "0.5.23") is None


def test_kimi_takes_44_77_gb_a_rank_and_358_17_gb_on_8():
    found = plan()
    (pool,) = found["pools"]
    assert (pool["tokens"], pool["bytes"]) == (637109, 44770923648)
    assert (pool["gb"], pool["gib"], pool["total_gb"]) == (44.77, 41.7, 358.17)
    assert (found["per_rank_gb"], found["total_gb"], found["total_gib"]) == (44.77, 358.17, 333.57)
    assert found["fits"] is True
    told = " ".join(found["explanation"])
    assert "1,152 bytes x 61 layers = 70,272 bytes" in told
    assert "159,277 tokens x 4 and one page more (page size 1) = 637,109 tokens" in told
    assert "10.42 GiB on the device x 4 = 41.70 GiB = 44.77 GB" in told


@pytest.mark.parametrize(
    ("release", "line", "draft_line"),
    [
        ("0.5.5", "Allocating 44.77 GB host memory for hierarchical KV cache.", None),
        ("0.5.10.post1", "Allocating 44.77 GB host memory for hierarchical KV cache.", None),
        (
            "0.5.16",
            "Allocating 44.77 GB host memory for hierarchical KV cache.",
            "Allocating 0.73 GB host memory for hierarchical KV cache.",
        ),
        (
            "0.5.17",
            "Allocating kv hierarchical KV host pool: 637109 tokens, 44.77 GB host memory.",
            "Allocating draft hierarchical KV host pool: 637110 tokens, 0.73 GB host memory.",
        ),
        (
            "0.5.23",
            "Allocating kv hierarchical KV host pool: 637109 tokens, 44.77 GB host memory.",
            "Allocating draft hierarchical KV host pool: 637109 tokens, 0.73 GB host memory.",
        ),
    ],
)
def test_the_line_is_that_of_the_release(release, line, draft_line):
    found = plan(release=release, draft_config=MLA_DRAFT)
    assert [pool["line"] for pool in found["pools"]] == [line] + ([draft_line] if draft_line else [])


# Kimi at ratio 4 takes 44.77 GB a rank; the reserve is 10.74 GB. `granted` is what a rank may ask for.
@pytest.mark.parametrize(
    ("release", "available", "limit", "granted", "fits"),
    [
        # Each rank alone: SGLang would let all of them through, and the host would run out of memory.
        pytest.param("0.5.9", 300, None, 289.26, False, id="0.5.9-alone-but-the-sum-is-too-much"),
        pytest.param("0.5.18", 300, None, 289.26, False, id="0.5.18-alone-but-the-sum-is-too-much"),
        pytest.param("0.5.18", 369, None, 358.26, True, id="0.5.18-the-sum-fits"),
        pytest.param("0.5.19", 369, None, 44.78, True, id="0.5.19-divided-fits"),
        pytest.param("0.5.19", 368, None, 44.66, False, id="0.5.19-divided-does-not"),
        pytest.param("0.5.20", 750, 300, 92.41, False, id="0.5.20-does-not-see-limits-but-the-kernel-does"),
        pytest.param("0.5.21", 750, 300, 36.16, False, id="0.5.21-sees-limits"),
        pytest.param("0.5.21", 750, 400, 48.66, True, id="0.5.21-a-limit-that-is-enough"),
        pytest.param("0.5.23", 369, 10**6, 44.78, True, id="0.5.23-a-limit-above-the-host"),
    ],
)
def test_every_release_has_its_rule(release, available, limit, granted, fits):
    memory = {"available": available * GB, "cgroup_limit": limit and limit * GB}
    found = plan(release=release, memory=memory)
    assert found["memory"]["usable_per_rank_gb"] == granted
    assert found["fits"] is fits
    assert bool(found["objections"]) is not fits


def test_what_the_running_service_holds_is_given_back():
    stat = f"anon {360 * GB}\nfile 999999999999\nkernel 5\nshmem {GB}\nfile_mapped 7\n"
    assert hicache_plan.held_bytes(stat) == 361 * GB
    assert hicache_plan.held_bytes(f"cache 1\nrss 5\ntotal_rss {GB}\ntotal_shmem 2\n") == GB + 2
    assert hicache_plan.held_bytes(stat * 2) == 722 * GB
    assert hicache_plan.held_bytes(None) == hicache_plan.held_bytes("") == 0
    memory = {"available": 300 * GB}
    assert plan(memory=memory)["fits"] is False
    found = plan(memory=dict(memory, held=361 * GB))
    assert found["fits"] is True
    assert "361.00 GB that the running service gives back" in " ".join(found["explanation"])


@pytest.mark.parametrize(
    ("text", "limit"),
    [("400G", 400 * GIB), ("512M", 2**29), ("1.5T", 1536 * GIB), (str(GB), GB), ("50%", 384 * GB), ("infinity", None)],
)
def test_limits_are_read_as_systemd_reads_them(text, limit):
    assert hicache_plan.limit_bytes(text, 768 * GB) == limit
    assert hicache_plan.limit_bytes("80%") is None
    with pytest.raises(hicache_plan.PlanError, match="'much' is no limit"):
        hicache_plan.limit_bytes("much")


def test_without_the_cache_only_the_weights_are_judged():
    found = plan(hicache_enabled=False, model_config=None)
    assert (found["fits"], found["pools"], found["unknown"]) == (True, [], [])


def test_processes_of_the_ranks_take_memory_too():
    memory = {"available": 390 * GB}
    assert plan(memory=memory)["fits"] is True
    found = plan(memory=memory, rank_memory_gb=4)
    assert found["memory"]["processes_gb"] == 32.0
    # They are assumed: alone they refuse nothing.
    assert (found["fits"], found["objections"]) == (None, [])
    assert "assumed 32.00 GB in all" in found["unknown"][0] and "Without them it fits" in found["unknown"][0]
    assert plan(memory={"available": 350 * GB}, rank_memory_gb=4)["fits"] is False


@pytest.mark.parametrize("release", ["0.5.10.post1", "0.5.16", "0.5.23"])
def test_four_hundred_gigabytes_are_not_refused_for_a_start_that_ran_with_them(release):
    found = plan(memory={"available": 400 * GB}, rank_memory_gb=4, release=release, draft_config=MLA_DRAFT)
    assert (found["fits"], found["objections"]) == (None, [])
    assert 3.8 < found["largest_ratio"] < 4


def test_a_rank_that_comes_late_is_warned_about_from_0_5_19():
    memory = {"available": 400 * GB}
    late = [found["cautions"] for found in (plan(memory=memory), plan(memory=memory, release="0.5.18"))]
    assert "allocates after its siblings" in late[0][0] and late[1] == []
    assert plan(memory={"available": 690 * GB})["cautions"] == []


@pytest.mark.parametrize("release", ["0.5.9", "0.5.18", "0.5.19", "0.5.23"])
@settings(max_examples=25, deadline=None)
@given(tokens=st.integers(10_000, 400_000), page=st.sampled_from([1, 64]), available=st.integers(50, 2000))
def test_the_largest_ratio_fits_and_a_hundredth_more_does_not(release, tokens, page, available):
    memory = {"available": available * GB, "cgroup_limit": None}
    largest = plan(release=release, device_tokens=tokens, page_size=page, memory=memory)["largest_ratio"]
    again = {
        "release": release,
        "device_tokens": tokens,
        "page_size": page,
        "memory": memory,
        "draft_config": MLA_DRAFT,
    }
    with_draft = plan(**again)["largest_ratio"]
    assert with_draft <= largest
    for ratio, fits in ((largest, True), (round(largest + 0.01, 2), False)):
        found = plan(release=release, device_tokens=tokens, page_size=page, memory=memory, ratio=ratio or 0.001)
        # A pool that is not larger than the device's is another objection, of older releases only.
        against = [text for text in found["objections"] if "assertion" not in text]
        assert (against == []) is fits or ratio == 0


def test_the_largest_size_fits_and_one_more_does_not():
    largest = plan()["largest_size_gb"]
    assert plan(ratio=None, size_gb=largest)["fits"] is True
    assert plan(ratio=None, size_gb=largest + 1)["fits"] is False


def test_no_ratio_fits_a_host_that_is_full():
    found = plan(memory={"available": 5 * GB})
    assert (found["largest_ratio"], found["fits"]) == (0, False)
    assert "no ratio at all" in " ".join(found["explanation"])


@pytest.mark.parametrize(
    ("changes", "pools", "ranks"),
    [
        pytest.param({}, [(0, 8, 61, 70272)], 8, id="mla-whole-on-every-rank"),
        pytest.param({"kv_cache_dtype": "fp8_e4m3"}, [(0, 8, 61, 35136)], 8, id="fp8"),
        # 61 layers over 4 stages: the last one holds one more.
        pytest.param(
            {"tensor_parallel_size": 2, "pipeline_parallel_size": 4},
            [(0, 2, 15, 17280), (1, 2, 15, 17280), (2, 2, 15, 17280), (3, 2, 16, 18432)],
            8,
            id="pp-layers-per-stage",
        ),
        pytest.param(
            {"tensor_parallel_size": 4, "pipeline_parallel_size": 4, "nodes": 2, "node_rank": 1},
            [(2, 4, 15, 17280), (3, 4, 16, 18432)],
            8,
            id="pp-second-host",
        ),
        pytest.param(
            {"tensor_parallel_size": 16, "nodes": 2, "node_rank": 1}, [(0, 8, 61, 70272)], 8, id="tp-over-two-hosts"
        ),
        pytest.param({"model_config": LLAMA}, [(0, 8, 32, 16384)], 8, id="gqa-heads-split"),
        pytest.param(
            {"model_config": LLAMA, "data_parallel_size": 4, "dp_attention_enabled": True},
            [(0, 8, 32, 65536)],
            8,
            id="dp-attention-splits-heads-by-2",
        ),
        pytest.param(
            {"model_config": LLAMA, "tensor_parallel_size": 4, "data_parallel_size": 2},
            [(0, 8, 32, 32768)],
            8,
            id="plain-dp-two-engines",
        ),
    ],
)
def test_ranks_stages_and_heads(changes, pools, ranks):
    found = plan(**changes)
    shown = [(pool["stage"], pool["ranks"], pool["layers"], pool["bytes_per_token"]) for pool in found["pools"]]
    assert (shown, found["ranks"]) == (pools, ranks)


def test_stages_agree_on_the_tokens_of_a_size_from_0_5_15():
    changes = {"tensor_parallel_size": 4, "pipeline_parallel_size": 4, "ratio": None, "size_gb": 100}
    assert len({pool["tokens"] for pool in plan(**changes)["pools"]}) == 1
    before = plan(release="0.5.14", **changes)["pools"]
    assert len({pool["tokens"] for pool in before}) == 2
    assert {pool["gb"] for pool in before} == {100.0}


def test_two_engines_on_a_host_each_divide_by_their_own_ranks_only():
    changes = {"tensor_parallel_size": 4, "data_parallel_size": 2, "memory": {"available": 350 * GB}}
    found = plan(**changes)
    assert found["memory"]["usable_per_rank_gb"] == 84.82
    assert found["fits"] is False
    assert "8 ranks take 358.17 GB" in found["objections"][0]


def test_a_draft_with_heads_is_split_and_one_before_0_5_11_has_no_pool():
    found = plan(draft_config=MHA_DRAFT)
    assert (found["pools"][1]["bytes_per_token"], found["pools"][1]["gb"]) == (4096, 2.61)
    assert (found["per_rank_gb"], found["total_gb"]) == (47.38, 379.04)
    before = plan(draft_config=MHA_DRAFT, release="0.5.10.post1")
    assert len(before["pools"]) == 1
    assert "gives the draft no host pool" in " ".join(before["explanation"])


@pytest.mark.parametrize(
    ("asked", "backends", "page"),
    [
        (None, [], 1),
        (64, [], 64),
        (None, ["flashmla"], 64),
        (32, ["trtllm_mla"], 32),
        (16, ["trtllm_mla"], 64),
        (None, ["cutlass_mla"], 128),
        (None, ["flashinfer", "trtllm_mha"], 64),
        (16, ["trtllm_mha"], 16),
    ],
)
def test_backends_force_pages(asked, backends, page):
    found = plan(page_size=asked, attention_backends=backends)
    assert found["page_size"] == page
    assert found["pools"][0]["tokens"] % page == 0


def test_device_tokens_are_whole_pages():
    found = plan(page_size=64)
    assert found["device_tokens"] == 159232
    # 159,232 x 4 is whole pages already, and one more is taken all the same.
    assert (found["pools"][0]["tokens"], found["pools"][0]["gb"]) == (636992, 44.76)
    assert plan(page_size=64, release="0.5.5")["pools"][0]["tokens"] == 636928


def test_old_releases_pin_powers_of_two():
    found = plan(release="0.5.3.post3", memory={"available": 500 * GB})
    (pool,) = found["pools"]
    assert (pool["gb"], pool["pinned_bytes"]) == (44.77, 64 * GIB)
    assert found["total_gb"] == 549.76
    assert found["fits"] is False
    assert plan(release="0.5.4", memory={"available": 500 * GB})["fits"] is True


def test_a_pool_no_larger_than_the_device_stops_old_releases_only():
    assert "assertion" in plan(release="0.5.14", ratio=0.5)["objections"][0]
    found = plan(release="0.5.15", ratio=0.5)
    assert found["fits"] is True
    assert "brings little" in found["cautions"][0]


@pytest.mark.parametrize(
    ("release", "available", "ratio"),
    [
        ("0.5.20", 750, 2.0),
        ("0.5.23", 750, 2.0),
        # (200 GB - 10 GiB) / 8 x 0.8 x 0.95 / (159,278 tokens x 70,272 bytes)
        ("0.5.23", 200, 1.606),
        ("0.5.23", 10, 0.0),
    ],
)
def test_without_ratio_and_size_the_release_chooses(release, available, ratio):
    found = plan(release=release, ratio=None, memory={"available": available * GB})
    assert round(found["ratio"], 3) == ratio


def test_remembered_tokens_are_used_while_the_settings_are_the_same():
    found = plan(device_tokens=None, remembered=FACT, settings=SETTINGS)
    assert (found["device_tokens"], found["device_tokens_source"]) == (159277, "remembered")
    assert "2026-11-28T10:00:00" in found["explanation"][0]


@pytest.mark.parametrize(
    ("fact", "now", "words"),
    [
        ({"verdict": "fail"}, {}, "verdict was fail"),
        ({"device_settings": None}, {}, "did not record"),
        ({}, {"mem_fraction_static": 0.9}, "mem_fraction_static was 0.88 then and is 0.9 now"),
        ({}, {"engine_options": {}}, "engine_options.context-length was 131072 then and is not set now"),
    ],
)
def test_remembered_tokens_of_another_start_are_not_used(fact, now, words):
    found = plan(device_tokens=None, remembered={**FACT, **fact}, settings={**SETTINGS, **now})
    assert found["device_tokens_source"] == "unknown"
    assert words in " ".join(found["explanation"])


def test_settings_are_compared_by_what_they_mean_and_secrets_are_not_kept():
    then = hicache_plan.device_settings({"a": 8, "b": 0.9, "c": True, "d": None, "engine_options": {"page-size": 64}})
    now = hicache_plan.device_settings(
        {"a": "8", "b": "0.90", "c": "true", "d": "", "engine_options": {"--page_size": "64"}}
    )
    assert hicache_plan.setting_differences(then, now) == []
    kept = hicache_plan.device_settings(
        {
            "engine_options": {
                "api-key": 12345,
                "admin-api-key": "s3cret",
                "hf-token": 7,
                "hicache-storage-backend-extra-config": '{"password": "s3cret"}',
                "max-total-tokens": 5,
                "quantization": "fp8",
            }
        }
    )
    assert kept == {"engine_options.max-total-tokens": "5", "engine_options.quantization": "fp8"}


def test_an_estimate_has_a_range_that_holds_what_was_measured():
    found = plan(
        device_tokens=None,
        draft_config=MLA_DRAFT,
        mem_fraction_static=0.88,
        weight_bytes=595 * GB,
        draft_weight_bytes=6 * GB,
        gpus=[{"memory_total_mib": CARD}] * 8,
    )
    assert found["device_tokens_source"] == "estimated"
    assert found["device_tokens_low"] < 159277 < found["device_tokens_high"]
    assert found["device_tokens_low"] < found["device_tokens"] < found["device_tokens_high"]
    assert "An estimate" in found["explanation"][0]
    assert found["fits"] is True


@pytest.mark.parametrize(("ratio", "fits"), [(4.0, True), (6.0, None), (20.0, False)])
def test_an_estimate_that_fits_at_one_end_only_cannot_be_told(ratio, fits):
    estimate = {
        "device_tokens": None,
        "mem_fraction_static": 0.88,
        "weight_bytes": 595 * GB,
        "gpus": [{"memory_total_mib": CARD}] * 8,
    }
    found = plan(ratio=ratio, **estimate)
    assert found["fits"] is fits
    if fits is None:
        assert "At the low end of the estimate it fits" in found["unknown"][0]
        assert plan(ratio=found["largest_ratio"], **estimate)["fits"] is True


@pytest.mark.parametrize(
    ("gpus", "limit", "tokens", "source"),
    [
        ([], 40000, 40000, "limit"),
        ([{"memory_total_mib": CARD}] * 8, 40000, 40000, "limit"),
        ([{"memory_total_mib": CARD}] * 8, 200000, None, "estimated"),
    ],
)
def test_a_limit_of_tokens_counts_as_far_as_it_surely_fits(gpus, limit, tokens, source):
    found = plan(device_tokens=None, max_total_tokens=limit, gpus=gpus, mem_fraction_static=0.88, weight_bytes=595 * GB)
    assert found["device_tokens_source"] == source
    assert found["device_tokens_high"] <= limit
    assert tokens is None or found["device_tokens"] == tokens


@pytest.mark.parametrize(
    ("tensor", "fits", "each"),
    [(8, True, 69.27), (4, False, 138.53)],
)
def test_weights_against_the_memory_of_a_gpu(tensor, fits, each):
    found = plan(
        tensor_parallel_size=tensor,
        weight_bytes=595 * GB,
        mem_fraction_static=0.88,
        gpus=[{"memory_total_mib": CARD}] * 8,
    )
    assert (found["weights"]["fits"], found["weights"]["per_rank_gib"]) == (fits, each)
    assert found["fits"] is fits


def test_weights_are_judged_without_a_config_too():
    found = plan(
        model_config=None,
        tensor_parallel_size=4,
        weight_bytes=595 * GB,
        mem_fraction_static=0.88,
        gpus=[{"memory_total_mib": CARD}] * 4,
    )
    assert found["fits"] is False
    assert "are missing" in found["objections"][0]


def numa(per_node, homes):
    return {
        "numa": [{"id": number, "total": size * GB} for number, size in enumerate(per_node)],
        "gpus": [{"memory_total_mib": CARD, "numa_node": home} for home in homes],
        "memory": {"total": sum(per_node) * GB, "available": sum(per_node) * GB},
    }


def test_each_numa_node_gets_the_ranks_of_its_gpus():
    found = plan(**numa([384, 384], [0] * 4 + [1] * 4))
    assert [(node["ranks"], node["need_gb"], node["fits"]) for node in found["numa"]] == [(4, 179.08, True)] * 2
    crowded = plan(**numa([384, 384], [0] * 8))
    assert [node["ranks"] for node in crowded["numa"]] == [8, 0]
    assert crowded["fits"] is True
    lopsided = plan(**numa([300, 468], [0] * 8))
    assert lopsided["numa"][0]["fits"] is False
    assert any("NUMA node 0" in text for text in lopsided["cautions"])


@pytest.mark.parametrize("homes", [[None] * 8, [0] * 7, [0] * 7 + [5], []])
def test_numa_is_left_out_where_it_is_not_known(homes):
    assert plan(**numa([384, 384], homes))["numa"] == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_config": None}, "config.json is not known"),
        ({"model_config": {"architectures": ["MambaForCausalLM"]}}, "MambaForCausalLM"),
        ({"model_config": {"architectures": ["DeepseekV3ForCausalLM"]}}, "num_hidden_layers"),
        ({"draft_config": {"architectures": ["NewDraft"]}}, "NewDraft"),
        ({"draft_expected": True}, "The draft's config.json is not known"),
        ({"kv_cache_dtype": "fp4_e2m1"}, "fp4_e2m1"),
        ({"device_tokens": None}, "How many tokens fit on the device is not known"),
        ({"memory": None}, "memory that the host has available is not known"),
    ],
)
def test_what_cannot_be_told_says_why(changes, words):
    found = plan(**changes)
    assert found["fits"] is None
    assert words in " ".join(found["unknown"])
    assert found["objections"] == []


def test_a_size_needs_no_device_tokens():
    found = plan(device_tokens=None, ratio=4.0, size_gb=40)
    assert found["pools"][0]["gb"] == 40.0
    assert found["fits"] is True
    assert (found["ratio"], found["largest_ratio"]) == (None, None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tensor_parallel_size": -1}, "tensor_parallel_size is -1"),
        ({"data_parallel_size": 3, "dp_attention_enabled": True}, "data_parallel_size is 3"),
        ({"nodes": 3}, "nodes is 3"),
        ({"nodes": 2, "node_rank": 2}, "node_rank is 2"),
        ({"release": "main"}, "is not an SGLang release"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        plan(**changes)


def test_the_text_is_aligned_and_narrow():
    plans = {
        "ash": plan(draft_config=MLA_DRAFT, weight_bytes=595 * GB, mem_fraction_static=0.88),
        "beech": plan(ratio=9.0, memory={"available": 400 * GB, "cgroup_limit": 380 * GB, "held": GB}),
        "cedar": plan(model_config=None),
        "elm": plan(device_tokens=None, ratio=None, tensor_parallel_size=2, pipeline_parallel_size=4, size_gb=30),
        "fir": plan(
            device_tokens=None,
            ratio=7.0,
            mem_fraction_static=0.88,
            weight_bytes=595 * GB,
            **numa([384, 384], [0, 0, 0, 0, 1, 1, 1, 1]),
        ),
    }
    for host, found in plans.items():
        lines = plan_text.host_lines(host, found)
        assert max(map(len, lines)) <= plan_text.WIDTH
        assert lines[0].startswith(f"{host}: ")
    fleet = plan_text.fleet_lines(plans)
    assert max(map(len, fleet)) <= plan_text.WIDTH
    assert [line.split()[:2] for line in fleet[1:-1]] == [
        ["ash", "yes"],
        ["beech", "NO"],
        ["cedar", "?"],
        ["elm", "yes"],
        ["fir", "?"],
    ]
    assert fleet[-1].startswith("5 hosts: 2 fit, 1 do not fit, 2 cannot be told;")
    told = "\n".join(plan_text.host_lines("ash", plans["ash"]))
    assert "44.77     41.70     358.17" in told
    assert "10.42 GiB on the device x 4 = 41.70 GiB = 44.77 GB" in told
    assert "Allocating draft hierarchical KV host pool: 637109 tokens, 0.73 GB host memory." in told


NVFP4 = {
    **KIMI,
    "quantization_config": {"quant_algo": "NVFP4", "kv_cache_scheme": {"num_bits": 8, "type": "float"}},
}
GLM47 = {
    "architectures": ["Glm4MoeForCausalLM"],
    "hidden_size": 5120,
    "num_hidden_layers": 92,
    "num_nextn_predict_layers": 1,
    "num_attention_heads": 96,
    "num_key_value_heads": 8,
    "head_dim": 128,
}
QWEN235B = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "num_hidden_layers": 94,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 128,
}
QWEN8B = {
    "architectures": ["Qwen3ForCausalLM"],
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40960,
}
MINIMAX = {
    "architectures": ["MiniMaxM2ForCausalLM"],
    "num_hidden_layers": 62,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "attn_type_list": [1] * 62,
}
NEW = {"architectures": ["NewForCausalLM"]}
LARGE = {"available": 1389 * GB}


# Figures of public starts: GB of a rank's main pool, of its draft's, and of the host.
@pytest.mark.parametrize(
    ("changes", "main", "draft", "total"),
    [
        pytest.param(
            {"model_config": NVFP4, "device_tokens": 300032, "page_size": 64, "ratio": 2.0},
            21.09,
            None,
            168.69,
            id="kimi-nvfp4-auto-is-fp8",
        ),
        pytest.param(
            {"model_config": NVFP4, "device_tokens": 300032, "page_size": 64, "ratio": 2.0, "kv_cache_dtype": "bf16"},
            42.17,
            None,
            337.38,
            id="kimi-nvfp4-with-a-flag",
        ),
        pytest.param(
            {
                "model_config": {**KIMI, "hf_quant_config": {"quantization": {"kv_cache_quant_algo": "FP8"}}},
                "device_tokens": 300032,
                "page_size": 64,
                "ratio": 2.0,
                "kv_cache_dtype": "auto",
            },
            21.09,
            None,
            168.69,
            id="kimi-file-beside",
        ),
        pytest.param(
            {
                "model_config": GLM47,
                "draft_config": GLM47,
                "release": "0.5.11",
                "device_tokens": 400000,
                "page_size": 64,
                "ratio": 2.0,
            },
            37.69,
            0.41,
            304.77,
            id="glm-4.7-its-own-mtp",
        ),
        pytest.param(
            {
                "model_config": GLM47,
                "draft_expected": True,
                "speculative_algorithm": "NEXTN",
                "release": "0.5.17",
                "device_tokens": 400000,
                "page_size": 64,
                "ratio": 2.0,
            },
            37.69,
            0.41,
            304.77,
            id="glm-4.7-without-a-draft-folder",
        ),
        pytest.param(
            {
                "model_config": QWEN235B,
                "release": "0.5.16",
                "device_tokens": 200000,
                "ratio": 2.0,
                "engine_options": {"data_parallel_size": "8", "enable-dp-attention": True},
            },
            77.0,
            None,
            616.04,
            id="qwen3-235b-dp-attention",
        ),
        pytest.param(
            {"model_config": MINIMAX, "device_tokens": 100000, "ratio": 2.0}, 6.35, None, 50.79, id="minimax-m2"
        ),
        pytest.param(
            {
                "model_config": LLAMA,
                "tensor_parallel_size": 1,
                "device_tokens": 100000,
                "ratio": 2.0,
                "engine_options": {"dp-size": 2},
            },
            26.21,
            None,
            52.43,
            id="plain-dp2",
        ),
    ],
)
def test_figures_of_public_starts(changes, main, draft, total):
    found = plan(memory=LARGE, **changes)
    assert found["pools"][0]["gb"] == main
    assert [pool["gb"] for pool in found["pools"][1:]] == ([] if draft is None else [draft])
    assert found["total_gb"] == total
    assert found["fits"] is True


@pytest.mark.parametrize(
    ("release", "algorithm", "draft", "pools"),
    [
        ("0.5.10.post1", "EAGLE", None, [("kv", 0, 47104)]),
        ("0.5.17", "EAGLE", None, [("kv", 0, 47104), ("draft", 0, 512)]),
        ("0.5.18", "EAGLE", None, [("kv", 1, 47616)]),
        ("0.5.23", "NEXTN", None, [("kv", 1, 47616)]),
        ("0.5.23", None, GLM47, [("kv", 1, 47616)]),
        # EAGLE3 is never packed, and a draft model of its own neither.
        ("0.5.23", "EAGLE3", MHA_DRAFT, [("kv", 0, 47104), ("draft", 0, 4096)]),
        ("0.5.23", "EAGLE3", GLM47, [("kv", 0, 47104), ("draft", 0, 512)]),
        ("0.5.23", "EAGLE", MHA_DRAFT, [("kv", 0, 47104), ("draft", 0, 4096)]),
    ],
)
def test_where_a_draft_lives(release, algorithm, draft, pools):
    found = plan(
        model_config=GLM47,
        draft_config=draft,
        draft_expected=True,
        speculative_algorithm=algorithm,
        release=release,
        memory=LARGE,
    )
    shown = [(pool["pool"], pool["packed_layers"], pool["bytes_per_token"]) for pool in found["pools"]]
    assert shown == pools
    assert found["unknown"] == []


def test_a_packed_draft_is_in_the_line_and_within_the_size():
    packed = {"model_config": GLM47, "draft_expected": True, "memory": LARGE}
    (pool,) = plan(device_tokens=400000, page_size=64, ratio=2.0, **packed)["pools"]
    assert pool["line"] == (
        "Allocating kv hierarchical KV host pool: 800064 tokens, 38.10 GB host memory, packed MTP KV layers: "
        "target_layers=92, draft_layers=1, total_layers=93."
    )
    # 40 GB / 47,616 bytes; without the draft it were 849,185 tokens.
    (pool,) = plan(ratio=None, size_gb=40, **packed)["pools"]
    assert (pool["tokens"], pool["gb"]) == (840054, 40.0)


def test_the_draft_may_have_a_type_of_its_own():
    draft = {"draft_config": MHA_DRAFT, "kv_cache_dtype": "fp8_e4m3"}
    assert plan(**draft)["draft_bytes_per_token"] == 2048
    options = {"speculative-draft-kv-cache-dtype": "bf16"}
    found = plan(engine_options=options, **draft)
    assert (found["bytes_per_token"], found["draft_bytes_per_token"]) == (35136, 4096)


def test_a_draft_that_is_expected_and_not_there_is_unknown():
    for algorithm in ("EAGLE3", "STANDALONE"):
        found = plan(model_config=GLM47, draft_expected=True, speculative_algorithm=algorithm, memory=LARGE)
        assert (found["fits"], len(found["pools"])) == (None, 1)


DECODE = {"disaggregation-mode": "decode"}


# A decode server of Qwen3-8B on 4 ranks, HiCache off: tokens of a retraction pool for 400,000 on the device.
@pytest.mark.parametrize(
    ("release", "options", "config", "tokens", "gb"),
    [
        pytest.param("0.5.17", DECODE, QWEN8B, None, None, id="0.5.17-has-none"),
        pytest.param("0.5.18", DECODE, QWEN8B, 400001, 14.75, id="0.5.18-as-large-as-the-device"),
        pytest.param("0.5.19", DECODE, QWEN8B, 80001, 2.95, id="0.5.19-a-fifth"),
        pytest.param("0.5.20", {"disaggregation_mode": "decode"}, QWEN8B, 80001, 2.95, id="0.5.20-a-fifth"),
        pytest.param("0.5.23", DECODE, QWEN8B, 80001, 2.95, id="0.5.23-a-fifth"),
        pytest.param(
            "0.5.20", DECODE, QWEN8B | {"max_position_embeddings": 262144}, 80001, 2.95, id="0.5.20-whatever-the-length"
        ),
        pytest.param(
            "0.5.21", DECODE, QWEN8B | {"max_position_embeddings": 262144}, 262145, 9.66, id="0.5.21-holds-a-request"
        ),
        pytest.param("0.5.23", DECODE | {"context-length": 131072}, QWEN8B, 131073, 4.83, id="the-given-length"),
        pytest.param("0.5.23", {"disaggregation-mode": "prefill"}, QWEN8B, None, None, id="prefill"),
        pytest.param("0.5.23", {}, QWEN8B, None, None, id="neither"),
        pytest.param("0.5.23", DECODE, KIMI, None, None, id="mla"),
        pytest.param(
            "0.5.23", DECODE | {"disaggregation-decode-retraction-backup": "cpu_tensor"}, QWEN8B, None, None, id="cpu"
        ),
        pytest.param(
            "0.5.23", DECODE | {"disaggregation-decode-enable-radix-cache": True}, QWEN8B, None, None, id="radix"
        ),
        pytest.param(
            "0.5.23", DECODE | {"disaggregation-decode-enable-offload-kvcache": True}, QWEN8B, None, None, id="offload"
        ),
        pytest.param("0.5.23", DECODE | {"enable-priority-scheduling": True}, QWEN8B, None, None, id="priorities"),
        pytest.param(
            "0.5.23",
            DECODE | {"enable-priority-scheduling": True, "disable-priority-preemption": True},
            QWEN8B,
            80001,
            2.95,
            id="priorities-that-wait",
        ),
    ],
)
def test_a_decode_server_makes_a_retraction_pool(release, options, config, tokens, gb):
    found = plan(
        release=release,
        hicache_enabled=False,
        model_config=config,
        engine_options=options,
        tensor_parallel_size=4,
        device_tokens=400000,
        ratio=None,
    )
    assert [(pool["tokens"], pool["gb"], pool["ranks"]) for pool in found["pools"]] == (
        [(tokens, gb, 4)] if tokens else []
    )
    told = [one for one in found["explanation"] if "makes a retraction pool of" in one]
    assert len(told) == bool(tokens)
    assert found["fits"] is True
    assert found["cautions"] == []
    told = [sentence for sentence in found["explanation"] if "makes a retraction pool of" in sentence]
    assert len(told) == bool(tokens)


@pytest.mark.parametrize(
    ("release", "available", "fits"),
    [("0.5.18", 60, False), ("0.5.18", 75, True), ("0.5.20", 15, False), ("0.5.20", 24, True), ("0.5.23", 9, False)],
)
def test_a_retraction_pool_has_to_fit(release, available, fits):
    found = plan(
        release=release,
        hicache_enabled=False,
        model_config=QWEN8B,
        engine_options=DECODE,
        tensor_parallel_size=4,
        device_tokens=400000,
        ratio=None,
        memory={"available": available * GB},
    )
    assert (found["fits"], bool(found["objections"])) == (fits, not fits)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_config": NEW}, "makes a host pool for retracted requests by itself"),
        ({"model_config": None}, "makes a host pool for retracted requests by itself"),
        ({"model_config": QWEN8B, "device_tokens": None}, "How many tokens fit on the device is not known"),
        ({"model_config": QWEN8B, "memory": None}, "memory that the host has available is not known"),
    ],
)
def test_a_retraction_pool_of_unknown_size_is_not_0_gb(changes, words):
    found = plan(hicache_enabled=False, engine_options=DECODE, ratio=None, **changes)
    assert found["fits"] is None
    assert words in " ".join(found["unknown"])


# The host has 1,389 GB: 1,378.26 for pools, 172.28 for one of 8 ranks.
@pytest.mark.parametrize(
    ("config", "release", "size", "times", "fits"),
    [
        pytest.param(NEW, "0.5.23", 200, 1, False, id="8-x-200"),
        pytest.param(NEW, "0.5.23", 172, 1, True, id="8-x-172"),
        pytest.param(NEW, "0.5.23", 173, 1, False, id="8-x-173"),
        pytest.param(NEW, "0.5.18", 172, 1, True, id="each-alone-and-the-sum-fits"),
        pytest.param(NEW, "0.5.18", 173, 1, False, id="each-alone-and-the-sum-does-not"),
        pytest.param(None, "0.5.23", 200, 1, False, id="no-config-at-all"),
        pytest.param(None, "0.5.23", 100, 1, None, id="no-config-below"),
        pytest.param(NEW, "0.5.16", 100, 1, None, id="each-pool-has-it-and-how-many-there-are"),
        pytest.param(NEW | {"full_attention_interval": 4}, "0.5.17", 100, 1, True, id="mamba-one-budget"),
        pytest.param(NEW | {"full_attention_interval": 4}, "0.5.16", 100, 2, False, id="mamba-each-has-it"),
        pytest.param(NEW | {"full_attention_interval": 4}, "0.5.16", 80, 2, True, id="mamba-each-has-it-and-fits"),
        pytest.param({"architectures": ["GptOssForCausalLM"]}, "0.5.16", 100, 2, False, id="swa-each-has-it"),
        pytest.param({"architectures": ["GptOssForCausalLM"]}, "0.5.20", 100, 1, True, id="swa-one-budget"),
        pytest.param(QWEN235B | {"attn_type_list": [0, 1]}, "0.5.17", 100, 1, True, id="linear-of-a-known-one"),
        pytest.param(NEW | {"index_topk": 2048}, "0.5.23", 100, 1, None, id="an-indexer-comes-on-top"),
        pytest.param(NEW | {"index_topk": 2048}, "0.5.23", 200, 1, False, id="an-indexer-saves-nothing"),
    ],
)
def test_a_size_needs_no_geometry(config, release, size, times, fits):
    found = plan(model_config=config, release=release, size_gb=size, ratio=None, device_tokens=None, memory=LARGE)
    assert [(pool["pool"], pool["gb"], pool["tokens"]) for pool in found["pools"]] == [("budget", size * times, None)]
    assert found["total_gb"] == size * times * 8
    assert found["fits"] is fits
    assert bool(found["objections"]) is (fits is False)
    if fits:
        assert "How many tokens that holds is not known" in " ".join(found["cautions"])
        assert (
            plan(model_config=config, release=release, size_gb=found["largest_size_gb"], memory=LARGE)["fits"] is True
        )
    assert max(map(len, plan_text.host_lines("ash", found))) <= plan_text.WIDTH


def test_the_draft_comes_on_top_of_a_size_that_needs_no_geometry():
    found = plan(model_config=NEW, draft_expected=True, size_gb=100, ratio=None, memory=LARGE)
    assert (found["fits"], found["total_gb"]) == (None, 800.0)
    assert "The pool of the draft comes on top" in found["unknown"][1]


@pytest.mark.parametrize(
    ("release", "ratio", "size", "late"),
    [
        ("0.5.18", 2.0, None, False),
        ("0.5.19", 2.0, None, True),
        ("0.5.20", None, None, True),
        ("0.5.20", None, 21, True),
        ("0.5.21", 2.0, None, True),
        ("0.5.23", None, 21, True),
        # Ratio chosen by the release: all ranks look before any allocates.
        ("0.5.21", None, None, False),
        ("0.5.23", None, None, False),
    ],
)
def test_late_ranks_are_only_where_each_looks_at_its_own_time(release, ratio, size, late):
    found = plan(
        release=release,
        model_config=NVFP4,
        ratio=ratio,
        size_gb=size,
        device_tokens=300032,
        memory={"available": 230 * GB},
    )
    assert found["fits"] is True
    assert any("allocates after its siblings" in text for text in found["cautions"]) is late


def test_a_release_that_finds_no_room_for_its_own_ratio_does_not_fit():
    found = plan(ratio=None, memory={"available": 10 * GB})
    assert found["fits"] is False
    assert "No host memory is left" in found["objections"][0]


def test_a_buffer_has_a_ratio_of_its_own():
    found = plan(release="0.5.20", ratio=None, engine_options={"hicache-host-memory-mode": "buffer_only"})
    assert found["ratio"] == 1.2


FIGURES = [
    "page_size",
    "ratio",
    "size_gb",
    "host_memory_fraction",
    "device_tokens",
    "max_total_tokens",
    "mem_fraction_static",
    "weight_bytes",
    "draft_weight_bytes",
    "rank_memory_gb",
]
ABSURD = [float("inf"), float("nan"), 1e308, 10**400, -1, True, "8", 10**30]


@pytest.mark.parametrize("value", ABSURD, ids=lambda value: str(value)[:9])
@pytest.mark.parametrize("name", FIGURES)
def test_absurd_figures_are_refused_by_name(name, value):
    shown = {"size_gb": "hicache_size"}.get(name, name)
    with pytest.raises(hicache_plan.PlanError, match=rf"^{shown} is .+: that is no such amount; give ") as refused:
        plan(**{name: value})
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("value", ABSURD, ids=lambda value: str(value)[:9])
@pytest.mark.parametrize(
    "make",
    [
        lambda value: {"memory": {"total": value, "available": GB}},
        lambda value: {"memory": {"available": value}},
        lambda value: {"memory": {"available": GB, "held": value}},
        lambda value: {"memory": {"available": GB, "cgroup_limit": value}},
        lambda value: {"gpus": [{"memory_total_mib": value}]},
        lambda value: {"numa": [{"id": 0, "total": value}]},
        lambda value: {"remembered": {"device_tokens": value, "verdict": "pass"}},
    ],
)
def test_absurd_facts_are_refused_by_name(make, value):
    facts = make(value)
    with pytest.raises(hicache_plan.PlanError, match=rf"^{next(iter(facts))}\..+ is .+: that is no such amount"):
        plan(**facts)


@pytest.mark.parametrize("value", [0, 10**9, 10**400, float("inf"), True, "many"], ids=lambda value: str(value)[:9])
@pytest.mark.parametrize(
    "name", ["tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "nodes", "engine_options"]
)
def test_absurd_layouts_are_refused_by_name(name, value):
    words = name if name != "engine_options" else "pipeline_parallel_size"
    with pytest.raises(ValueError, match=f"{words} is "):
        plan(**{name: {"pp-size": value} if name == "engine_options" else value})


def test_texts_with_endless_numbers_end():
    assert hicache_plan.held_bytes(f"anon {10**400}\nshmem 5\n") == 0
    for text in ("9" * 400, "9" * 400 + "G", "1e308", "-5G", "nan"):
        with pytest.raises(hicache_plan.PlanError, match="is no limit of memory"):
            hicache_plan.limit_bytes(text, GB)
    kept = hicache_plan.device_settings({"a": 10**400, "b": float("inf"), "engine_options": {"c": 10**400, "d": 1e308}})
    assert set(kept) == {"a", "b", "engine_options.d"}


@settings(max_examples=60, deadline=None)
@given(
    release=st.sampled_from(["0.5.9", "0.5.11", "0.5.16", "0.5.18", "0.5.20", "0.5.23"]),
    config=st.sampled_from([KIMI, NVFP4, GLM47, QWEN235B, MINIMAX, LLAMA]),
    tokens=st.integers(1000, 10**6),
    ratio=st.sampled_from([1.5, 2.0, 4.0]),
    size=st.sampled_from([None, 1, 40]),
    page=st.sampled_from([1, 64]),
    tensor=st.sampled_from([1, 4, 8]),
)
def test_the_plan_has_the_figures_by_which_the_verdict_judges(release, config, tokens, ratio, size, page, tensor):
    found = plan(
        release=release,
        model_config=config,
        device_tokens=tokens * page,
        ratio=ratio,
        size_gb=size,
        page_size=page,
        tensor_parallel_size=tensor,
    )
    judged = hicache_size.predict(tokens * page, ratio, size, found["bytes_per_token"], page, release)
    assert found["pools"][0]["tokens"] == judged["tokens"]
    assert found["pools"][0]["bytes"] == judged["tokens"] * found["bytes_per_token"]
