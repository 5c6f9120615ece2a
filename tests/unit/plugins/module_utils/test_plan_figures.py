# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of a plan one by one: what is refused, what a machine gives, and what the tokens of the device depend on."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_plan

GB, GIB, MIB = 10**9, 2**30, 2**20


@pytest.mark.parametrize(
    ("name", "most", "unit"),
    [
        ("page_size", 1_000_000, "tokens"),
        ("ratio", 1000, "times the device pool"),
        ("size_gb", 1_000_000, "GB (10**9 bytes)"),
        ("host_memory_fraction", 1, "as a share"),
        ("device_tokens", 10**12, "tokens"),
        ("max_total_tokens", 10**12, "tokens"),
        ("mem_fraction_static", 1, "as a share"),
        ("weight_bytes", 10**18, "bytes"),
        ("draft_weight_bytes", 10**18, "bytes"),
        ("rank_memory_gb", 1_000_000, "GB (10**9 bytes)"),
    ],
)
def test_figures_have_a_range(name, most, unit):
    least, option = 0, {"size_gb": "hicache_size"}.get(name, name)
    for value in (None, least, most):
        hicache_plan.check_figures({name: value})
    for value in (least - 1, most + 1, True, "5", float("nan"), float("inf")):
        with pytest.raises(hicache_plan.PlanError) as refused:
            hicache_plan.check_figures({name: value})
        assert str(refused.value).startswith(f"{option} is ")
        assert str(refused.value).endswith(f"give {least} to {most:,} {unit}")


@pytest.mark.parametrize(
    ("ask", "name", "most"),
    [
        ({"memory": {"total": None}}, "memory.total", 10**18),
        ({"memory": {"available": None}}, "memory.available", 10**18),
        ({"memory": {"cgroup_limit": None}}, "memory.cgroup_limit", 10**18),
        ({"memory": {"held": None}}, "memory.held", 10**18),
        ({"gpus": [{}, {"memory_total_mib": None}]}, "gpus.memory_total_mib", 10**12),
        ({"numa": [{}, {"total": None}]}, "numa.total", 10**18),
        ({"remembered": {"device_tokens": None}}, "remembered.device_tokens", 10**12),
    ],
)
def test_figures_of_a_host_have_a_range(ask, name, most):
    def with_value(value):
        (key, inner), last = next(iter(ask.items())), name.split(".")[-1]
        return {key: [*inner[:-1], {last: value}] if isinstance(inner, list) else {last: value}}

    for value in (None, 0, most):
        hicache_plan.check_figures(with_value(value))
    for value in (-1, most + 1):
        with pytest.raises(hicache_plan.PlanError, match=f"{name} is {value}: that is no such amount; give 0 to "):
            hicache_plan.check_figures(with_value(value))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "'x'"),
        (5, "5"),
        ("x" * 38, repr("x" * 38)),
        ("x" * 39, repr("x" * 39)[:20] + "... (41 characters)"),
        (10**400, "10000000000000000000... (401 characters)"),
    ],
)
def test_a_value_in_a_message_is_cut(value, text):
    assert hicache_plan.shown(value) == text
    assert hicache_plan.shown(10**5000) in (
        "beyond what can be printed",
        "10000000000000000000... (5001 characters)",
    )


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (None, None),
        ("", None),
        (True, "true"),
        (False, "false"),
        (8, "8"),
        ("8", "8"),
        (8.0, "8"),
        ("0.880", "0.88"),
        (0, "0"),
        ("auto", "auto"),
        ([1], "[1]"),
        (10**400, "10000000000000000000... (401 characters)"),
    ],
)
def test_values_that_mean_the_same_have_one_form(value, form):
    assert hicache_plan._canonical(value) == form


def test_settings_that_can_be_kept():
    found = hicache_plan.device_settings(
        {
            "release": "0.5.23",
            "nothing": None,
            "empty": "",
            "engine_options": {
                "--context_length": 5,
                "tp-size": "8",
                "disable-x": True,
                "chat-template": "words",
                "api-key": 5,
                "hf-token": True,
                "none": None,
            },
        }
    )
    assert found == {
        "engine_options.context-length": "5",
        "engine_options.disable-x": "true",
        "engine_options.tp-size": "8",
        "release": "0.5.23",
    }
    assert list(found) == sorted(found)
    assert hicache_plan.device_settings(None) == hicache_plan.device_settings({"engine_options": None}) == {}


def test_differences_are_told_by_name():
    assert hicache_plan.setting_differences({"a": "1", "b": "2", "d": "4"}, {"a": "1", "b": "3", "c": "5"}) == [
        "b was 2 then and is 3 now",
        "c was not set then and is 5 now",
        "d was 4 then and is not set now",
    ]


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("400G", 400 * GIB),
        ("1.5g", GIB + GIB // 2),
        ("5", 5),
        ("5B", 5),
        ("5K", 5 * 1024),
        ("5MB", 5 * MIB),
        ("1T", 1024 * GIB),
        ("1P", 2**50),
        ("1E", 2**60),
        ("50%", GB // 2),
        ("infinity", None),
        ("none", None),
        ("max", None),
        (" ", None),
    ],
)
def test_limits_of_memory_as_systemd_writes_them(text, limit):
    assert hicache_plan.limit_bytes(text, GB) == limit
    if text == "50%":
        assert hicache_plan.limit_bytes(text) is hicache_plan.limit_bytes(text, 0) is None


@pytest.mark.parametrize("text", ["much", "5X", "-5G", "5 G B", "1" * 25, "1.G"])
def test_what_is_no_limit_is_refused(text):
    with pytest.raises(hicache_plan.PlanError, match="is no limit of memory"):
        hicache_plan.limit_bytes(text)
    assert hicache_plan.limit_bytes("1" * 24) == int(float("1" * 24))


@pytest.mark.parametrize(
    ("gpus", "found"),
    [
        (None, None),
        ([], None),
        ([{}], None),
        ([{"memory_total_mib": 0}], None),
        ([{"memory_total_mib": 3}, {"memory_total_mib": 2}, {}], 2 * MIB),
    ],
)
def test_the_smallest_gpu_counts(gpus, found):
    assert hicache_plan.gpu_bytes({"gpus": gpus}) == found


@pytest.mark.parametrize(
    ("ask", "share"),
    [
        ({}, None),
        ({"weight_bytes": 800}, 800),
        ({"weight_bytes": 800, "tensor_parallel_size": 8}, 100),
        ({"weight_bytes": 800, "tensor_parallel_size": 4, "pipeline_parallel_size": 2}, 100),
        ({"weight_bytes": 800, "engine_options": {"pp-size": 2}}, 400),
    ],
)
def test_weights_are_shared_by_the_ranks_of_an_engine(ask, share):
    assert hicache_plan.weight_share(ask) == share


ESTIMATE = {
    "gpus": [{"memory_total_mib": 100 * 1024}],
    "weight_bytes": 400 * GIB,
    "tensor_parallel_size": 8,
    "mem_fraction_static": 0.9,
}


def test_an_estimate_lies_between_what_is_split_and_what_is_not():
    low, high = hicache_plan.estimate_tokens(ESTIMATE, 70000)
    assert high == int((100 * GIB * 0.9 - 50 * GIB) // 70000)
    unsplit, buffers = hicache_plan.ESTIMATE_UNSPLIT_WEIGHTS, hicache_plan.ESTIMATE_BUFFERS
    left = (100 * GIB - hicache_plan.ESTIMATE_CONTEXT) * 0.9
    assert low == int((left - 50 * GIB * (1 + unsplit) - buffers) // 70000)
    # A draft takes its weights and a part of the cache.
    with_draft = {**ESTIMATE, "draft_weight_bytes": 8 * GIB}
    assert hicache_plan.estimate_tokens(with_draft, 70000) == (low, high)
    assert hicache_plan.estimate_tokens(with_draft, 70000, 4096) == (
        int((left - 51 * GIB * (1 + unsplit) - buffers) // 74096),
        high,
    )
    for name in ("gpus", "weight_bytes", "mem_fraction_static"):
        assert hicache_plan.estimate_tokens({**ESTIMATE, name: None}, 70000) is None
    assert hicache_plan.estimate_tokens(ESTIMATE, 0) is None
    assert hicache_plan.estimate_tokens({**ESTIMATE, "weight_bytes": 4000 * GIB}, 70000) == (0, 0)


@pytest.mark.parametrize(
    ("changes", "page", "found"),
    [
        ({"device_tokens": 159277}, 1, (159277, 159277, 159277, "given")),
        ({"device_tokens": 159277}, 64, (159232, 159232, 159232, "given")),
        ({"max_total_tokens": 1000}, 64, (960, 960, 960, "limit")),
        ({"max_total_tokens": 1000, "device_tokens": 5000}, 1, (5000, 5000, 5000, "given")),
        ({}, 1, (None, None, None, "unknown")),
        ({**ESTIMATE, "max_total_tokens": 1000}, 1, (1000, 1000, 1000, "limit")),
    ],
)
def test_where_the_tokens_of_the_device_come_from(changes, page, found):
    assert hicache_plan.find_device_tokens(changes, 70000, 0, page, [])[:4] == found


def test_an_estimate_is_cut_by_a_limit():
    low, high = hicache_plan.estimate_tokens(ESTIMATE, 70000)
    found = hicache_plan.find_device_tokens(ESTIMATE, 70000, 0, 1, [])
    assert found[:4] == ((low + high) // 2, low, high, "estimated")
    limit = (low + high) // 2
    found = hicache_plan.find_device_tokens({**ESTIMATE, "max_total_tokens": limit}, 70000, 0, 1, [])
    assert found[:4] == ((low + limit) // 2, low, limit, "estimated")
    at_low = hicache_plan.find_device_tokens({**ESTIMATE, "max_total_tokens": low}, 70000, 0, 1, [])
    assert at_low[:4] == (low, low, low, "limit")
    paged = hicache_plan.find_device_tokens(ESTIMATE, 70000, 0, 64, [])
    assert (paged.low, paged.high) == (low // 64 * 64, high // 64 * 64) and paged.tokens % 64 == 0


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({}, None),
        ({"verdict": "fail"}, "its verdict was fail"),
        ({"device_settings": {}}, "did not record the settings"),
        ({"device_settings": {"x": "1"}}, "x was 1 then and is not set now"),
        ({"device_tokens": 0}, None),
        ({"started_at": None, "verdict": None}, "an unknown time are not used: its verdict was None"),
    ],
)
def test_tokens_of_a_start_before_are_used_with_the_same_settings(change, note):
    fact = {"device_tokens": 159277, "verdict": "pass", "started_at": "t", "device_settings": {"release": "1"}}
    notes = []
    ask = {"remembered": {**fact, **change}, "settings": {"release": "1"}}
    found = hicache_plan.find_device_tokens(ask, 70000, 0, 64, notes)
    assert found.source == ("unknown" if change else "remembered")
    assert found.tokens == (None if change else 159277)
    assert len(notes) == bool(note) and all(note in one and "159,277 tokens" in one for one in notes)


@pytest.mark.parametrize(("count", "text"), [(1, "1 rank"), (0, "0 ranks"), (2, "2 ranks")])
def test_words_in_the_plural(count, text):
    assert hicache_plan._plural(count, "rank") == text
    assert hicache_plan._gb(1234567890) == "1.23 GB" and hicache_plan._gb(1234 * GB, 0) == "1,234 GB"
    assert hicache_plan._gib(1536 * MIB) == "1.50 GiB" and hicache_plan._gib(2**40, 1) == "1,024.0 GiB"


def test_memory_of_a_control_group_without_shared_memory():
    assert hicache_plan.held_bytes("anon 5\n") == 5
    assert hicache_plan.held_bytes("anon 5\nshmem 2\n") == 7
    assert hicache_plan.held_bytes("total_rss 5\n") == 5
    assert hicache_plan.held_bytes("total_shmem 2\n") == 2


def test_figures_of_the_memory_have_two_decimals():
    shape = SimpleNamespace(release="0.5.23", ranks=2, ranks_of_engine=2)
    facts = {"total": 123456789012, "available": 98765432109, "held": 1234567890, "cgroup_limit": 87654321098}
    ask = {"memory": facts, "release": "0.5.23", "rank_memory_gb": 1.23456, "ratio": 4.0}
    found = hicache_plan.Memory(ask, shape).result([{"total_bytes": 1234567890}, {"total_bytes": 1}])
    assert found == {
        "total_gb": 123.46,
        "available_gb": 100.0,
        "held_gb": 1.23,
        "cgroup_limit_gb": 87.65,
        "processes_gb": 2.47,
        "reserve_gb": 10.74,
        "usable_gb": 74.45,
        "usable_per_rank_gb": 37.22,
        "left_gb": 73.21,
    }
    assert hicache_plan.Memory(ask, shape).result([])["left_gb"] is None
