# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments that a start prints against those that it should have: which difference counts, and in what words."""

from __future__ import annotations

from collections import OrderedDict
from types import SimpleNamespace

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_judge
from ansible_collections.llmfleet.sglang.plugins.module_utils._hicache import started

Ask = hicache_judge.Ask
OLD, NEW = (0, 5, 13, 0), (0, 5, 14, 0)
#: Every argument of the layout, as a start prints it.
ONE_RANK = {"tp_size": 1, "dp_size": 1, "pp_size": 1, "nnodes": 1, "node_rank": 0}


def names(settings, ask, release=None):
    """Return (names that differ, names whose difference the engine may have made)."""
    found, unsure = started.differences(settings, ask, release)
    return [one.name for one in found], unsure


def log(*origins, allocated=()):
    """A start whose origins, ``(name, arguments)``, have printed those, the first ones as the start's own."""
    return SimpleNamespace(
        settings=origins[0][1] if origins else {},
        settings_by=OrderedDict(origins),
        allocations=[SimpleNamespace(origin=name) for name in allocated],
    )


# -- whose arguments count ------------------------------------------------------------------------------------------

A, B = {"tp_size": 1}, {"tp_size": 2}


@pytest.mark.parametrize(
    ("start", "found"),
    [
        (log(), []),
        (log(("a", {})), []),
        (log(("a", A)), [A]),
        (log(("a", A), ("b", {}), allocated="b"), [A]),
        (log(("a", A), ("b", B), allocated="b"), [B]),
        (log(("a", A), ("b", B), allocated="ba"), [A, B]),
        # None of them allocated: the start's own.
        (log(("a", A), ("b", B)), [A]),
        (log(("a", A), ("b", B), allocated="c"), [A]),
    ],
)
def test_of_several_servers_in_a_log_those_count_that_allocated(start, found):
    assert started.settings_of(start) == found


@pytest.mark.parametrize(
    ("settings", "asked", "ranks"),
    [
        ({"tp_size": 4}, {"tensor_parallel_size": 8}, 4),
        ({"dp_size": 2}, {"tensor_parallel_size": 8}, 8),
        ({}, None, None),
        ({"tp_size": 0}, {"tensor_parallel_size": 8}, None),
        ({}, {"tensor_parallel_size": 0}, None),
    ],
)
def test_a_layout_is_that_of_the_arguments_before_that_of_the_ask(settings, asked, ranks):
    found = started.layout_of(settings, asked)
    assert (found.ranks if found else None) == ranks


@pytest.mark.parametrize(("value", "on"), [(True, True), (False, False), (None, None), ("True", None), (1, None)])
def test_hicache_is_on_or_off_by_a_truth_alone(value, on):
    assert started.enabled({"enable_hierarchical_cache": value}) is on
    assert started.enabled({}) is None


DECODE = {"enable_hierarchical_cache": False, "disaggregation_mode": "decode"}


@pytest.mark.parametrize(
    ("settings", "release", "pools"),
    [
        (DECODE, None, True),
        (DECODE, (0, 5, 18, 0), True),
        (DECODE, (0, 5, 17, 9), False),
        ({**DECODE, "enable_hierarchical_cache": True}, None, False),
        ({"disaggregation_mode": "decode"}, None, False),
        ({**DECODE, "disaggregation_mode": "prefill"}, None, False),
        ({**DECODE, "disaggregation_decode_retraction_backup": "cpu_tensor"}, None, False),
        ({**DECODE, "disaggregation_decode_retraction_backup": "host_pool"}, None, True),
    ],
)
def test_which_servers_have_pools_for_retraction(settings, release, pools):
    assert started.makes_retraction_pool(settings, release) is pools


# -- one argument ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "wanted", "got"),
    [
        # Numbers and truth are the same in any spelling.
        ("hicache_ratio", 4, "4.0"),
        ("hicache_ratio", " 4.0 ", 4),
        ("hicache_ratio", 1e9, 1e9 + 0.5),
        ("mem_fraction_static", 0.5, 0.5 + 8e-10),
        ("trust_remote_code", "TRUE", True),
        ("trust_remote_code", False, "false"),
        # Nothing asked for leaves the choice.
        ("dtype", "auto", "bfloat16"),
        ("dtype", None, "bfloat16"),
        ("dtype", "", "bfloat16"),
        ("revision", "None", "main"),
        # Nothing printed is the default, or off.
        ("hicache_ratio", 2, None),
        ("hicache_size", 0, None),
        ("nnodes", 1, None),
        ("node_rank", 0, "none"),
        ("tp_size", 1, None),
        ("pp_size", 1, None),
        ("dp_size", 1, None),
        ("dcp_size", 1, None),
        ("enable_dp_attention", False, None),
        ("disaggregation_mode", None, "null"),
        ("disaggregation_mode", "null", None),
        # Words with two names.
        ("kv_cache_dtype", "float16", "fp16"),
        ("speculative_draft_kv_cache_dtype", "bf16", "bfloat16"),
        ("speculative_algorithm", "nextn", "eagle"),
        ("model_path", "/models/a/", "/models/a"),
        ("model_path", "org/name", "/cache/models--org--name/snapshots/1"),
        ("model_path", "org/name", "/models/org/name"),
    ],
)
def test_the_same_value_in_other_words(name, wanted, got):
    assert started.same(name, wanted, got)


@pytest.mark.parametrize(
    ("name", "wanted", "got"),
    [
        ("hicache_ratio", 4, 2.0),
        ("hicache_ratio", 4.0, 4.0001),
        ("mem_fraction_static", 0.5, 0.5 + 1.2e-9),
        ("hicache_ratio", 3, None),
        ("hicache_size", 1, None),
        ("nnodes", 2, None),
        ("node_rank", 1, None),
        ("tp_size", 2, None),
        ("pp_size", 2, None),
        ("dp_size", 2, None),
        ("dcp_size", 2, None),
        ("page_size", 64, None),
        ("enable_dp_attention", True, None),
        ("enable_dp_attention", True, False),
        # A truth is no number, and a number no word.
        ("trust_remote_code", True, 1),
        ("context_length", 1, True),
        ("context_length", "nan", 4096),
        ("max_total_tokens", "inf", 4096),
        # The largest numbers are compared digit by digit.
        ("max_total_tokens", 2**53 + 1, 2**53),
        ("disaggregation_mode", "decode", "null"),
        ("disaggregation_mode", None, "prefill"),
        ("kv_cache_dtype", "fp16", "bf16"),
        ("speculative_algorithm", "EAGLE", "EAGLE3"),
        ("model_path", "/models/a", "/models/b"),
        ("model_path", "org/name", "/models/org/other"),
        # A folder is no name of a hub, and a hub's name does not become another one.
        ("model_path", "/org/name", "/cache/models---org--name/x"),
        ("model_path", "org/name", "other/org/name"),
        ("served_model_name", "a/", "a"),
    ],
)
def test_another_value(name, wanted, got):
    assert not started.same(name, wanted, got)


FA3 = {"attention_backend": "fa3"}


@pytest.mark.parametrize(
    ("name", "wanted", "settings", "release", "by_engine"),
    [
        # Pages: what a backend takes, or what a model imposes on a backend that takes only some.
        ("page_size", 1, {"page_size": 64, "attention_backend": "flashmla"}, None, True),
        ("page_size", "1", {"page_size": 128, "decode_attention_backend": "cutlass_mla"}, None, True),
        ("page_size", 1, {"page_size": 16}, None, True),
        ("page_size", 1, {"page_size": 32}, None, True),
        ("page_size", 1, {"page_size": 64}, None, True),
        ("page_size", 1, {"page_size": 128}, None, True),
        ("page_size", 1, {"page_size": 256}, None, True),
        ("page_size", 1, {"page_size": 48}, None, False),
        ("page_size", 1, {"page_size": 15}, None, False),
        ("page_size", 1, {"page_size": 64, "attention_backend": "fa3"}, None, False),
        ("page_size", 1, {"page_size": 64, **FA3, "decode_attention_backend": "new"}, None, True),
        ("page_size", "many", {"page_size": 64}, None, False),
        ("page_size", None, {"page_size": 64}, None, False),
        ("page_size", float("inf"), {"page_size": 64}, None, False),
        # Layout and backend of the transfers.
        ("hicache_mem_layout", "layer_first", {"hicache_mem_layout": "page_first"}, None, False),
        (
            "hicache_mem_layout",
            "layer_first",
            {"hicache_mem_layout": "page_first", "enable_unified_memory": True},
            None,
            True,
        ),
        ("hicache_io_backend", "direct", {"hicache_io_backend": "kernel", "enable_unified_memory": True}, None, True),
        ("hicache_io_backend", "direct", {"hicache_io_backend": "other", "enable_unified_memory": True}, None, False),
        (
            "hicache_mem_layout",
            "layer_first",
            {"hicache_mem_layout": "page_first_direct", "hicache_storage_backend": "file"},
            None,
            True,
        ),
        (
            "hicache_mem_layout",
            "page_first",
            {"hicache_mem_layout": "layer_first", "hicache_storage_backend": "file"},
            None,
            False,
        ),
        ("hicache_mem_layout", "page_first", {"hicache_mem_layout": "page_first_direct"}, None, True),
        ("hicache_mem_layout", "layer_first", {"hicache_mem_layout": "page_first_direct"}, None, False),
        ("hicache_mem_layout", "page_first", {"hicache_mem_layout": "layer_first"}, None, False),
        (
            "hicache_io_backend",
            "kernel",
            {"hicache_io_backend": "direct", "hicache_mem_layout": "page_first_direct"},
            NEW,
            True,
        ),
        ("hicache_io_backend", "kernel", {"hicache_io_backend": "direct"}, OLD, False),
        ("hicache_io_backend", "kernel", {"hicache_io_backend": "direct", **FA3}, OLD, True),
        ("hicache_io_backend", "kernel", {"hicache_io_backend": "direct", **FA3}, NEW, False),
        # Without a release the engine may be an old one; its arguments may name it.
        ("hicache_io_backend", "kernel", {"hicache_io_backend": "direct", **FA3}, None, True),
        ("hicache_io_backend", "kernel", {"hicache_io_backend": "direct", "version": "0.5.14", **FA3}, None, False),
        ("hicache_io_backend", "kernel", {"hicache_io_backend": "direct", "version": "0.5.13", **FA3}, None, True),
        ("hicache_io_backend", "direct", {"hicache_io_backend": "kernel", **FA3}, OLD, False),
        # Draft tokens follow the steps where the draft is a chain.
        (
            "speculative_num_draft_tokens",
            8,
            {"speculative_num_draft_tokens": 4, "speculative_num_steps": 3, "speculative_eagle_topk": 1},
            None,
            True,
        ),
        (
            "speculative_num_draft_tokens",
            8,
            {"speculative_num_draft_tokens": 3, "speculative_num_steps": 3, "speculative_eagle_topk": 1},
            None,
            False,
        ),
        (
            "speculative_num_draft_tokens",
            8,
            {"speculative_num_draft_tokens": 4, "speculative_num_steps": 3, "speculative_eagle_topk": 2},
            None,
            False,
        ),
        (
            "speculative_num_draft_tokens",
            8,
            {"speculative_num_draft_tokens": 4, "speculative_num_steps": None, "speculative_eagle_topk": 1},
            None,
            False,
        ),
        # Newer engines move DP attention to an argument of its own.
        ("dp_size", 4, {"dp_size": 1, "attn_dp_size": 4}, None, True),
        ("dp_size", 4, {"dp_size": 1}, None, False),
        ("dp_size", 1, {}, None, True),
        ("enable_dp_attention", True, {"enable_dp_attention": False, "attn_dp_size": 4}, None, True),
        ("enable_dp_attention", True, {"enable_dp_attention": False, "dp_size": 4}, None, False),
        ("enable_dp_attention", True, {"enable_dp_attention": False}, None, True),
        ("model_path", "/a", {"model_path": "/b"}, None, False),
    ],
)
def test_values_that_the_engine_puts_in_place_of_the_wanted(name, wanted, settings, release, by_engine):
    assert bool(started.resolved(name, wanted, settings, release)) is by_engine


# -- all of them ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "ask", "found"),
    [
        ({"hicache_ratio": 2.0}, Ask(ratio=4.0), [("hicache_ratio", 4.0, 2.0, "")]),
        ({"hicache_ratio": 4.0}, Ask(ratio=4.0), []),
        ({"hicache_ratio": 2.0}, Ask(settings={"hicache_ratio": "4.0"}), [("hicache_ratio", 4.0, 2.0, "")]),
        ({"hicache_ratio": 4.0}, Ask(settings={"hicache_ratio": "4.0"}), []),
        ({}, Ask(ratio=4.0), []),
        (
            {"hicache_ratio": 4.0, "hicache_size": 30},
            Ask(ratio=4.0),
            [("hicache_ratio", 4.0, "hicache_size 30", ", and a size wins")],
        ),
        # A size that was asked for wins over a ratio as well.
        ({"hicache_size": 30, "hicache_ratio": 2.0}, Ask(ratio=4.0, hicache_size=30), []),
        ({"hicache_size": 0}, Ask(hicache_size=30), [("hicache_size", 30, 0, "")]),
        ({"hicache_size": 20}, Ask(settings={"hicache_size": "30"}), [("hicache_size", 30.0, 20, "")]),
        ({}, Ask(hicache_size=30), []),
        ({"hicache_size": 30}, Ask(settings={"hicache_size": 0}), [("hicache_size", 0, 30, "")]),
        ({"hicache_size": 30}, Ask(settings={"hicache_size": "0"}), [("hicache_size", 0, 30, "")]),
        ({"hicache_size": 30}, Ask(), []),
        ({"hicache_size": 0}, Ask(settings={"hicache_size": 0}), []),
    ],
)
def test_sizes_and_ratios(settings, ask, found):
    assert [tuple(one) for one in started.differences(settings, ask)[0]] == found


ON, OFF = {"enable_hierarchical_cache": True}, {"enable_hierarchical_cache": False}
NO_RANK = ", and no rank was expected to have a host pool"


@pytest.mark.parametrize(
    ("settings", "ask", "found"),
    [
        (OFF, Ask(ranks=1), [(True, False, "")]),
        (OFF, Ask(rank_set=["0"]), [(True, False, "")]),
        (OFF, Ask(ranks=0), []),
        (ON, Ask(ranks=0), [(False, True, NO_RANK)]),
        (ON, Ask(ranks=1), []),
        (ON, Ask(), []),
        (OFF, Ask(), []),
        ({}, Ask(ranks=1), []),
    ],
)
def test_hicache_itself(settings, ask, found):
    assert [tuple(one) for one in started.differences(settings, ask)[0]] == [
        ("enable_hierarchical_cache", *one) for one in found
    ]


@pytest.mark.parametrize(
    ("settings", "ask", "found"),
    [
        ({"tp_size": 4}, Ask(layout={"tensor_parallel_size": 8}), [("tp_size", 8, 4, "")]),
        ({"tp_size": 8}, Ask(layout={"tensor_parallel_size": 8}), []),
        ({"tp_size": 4}, Ask(layout={"tensor_parallel_size": None}), []),
        ({"dp_size": 4}, Ask(layout={"tensor_parallel_size": 8}), []),
        ({"pp_size": 1}, Ask(layout={"pipeline_parallel_size": 2}), [("pp_size", 2, 1, "")]),
        ({"dcp_size": 1}, Ask(layout={"decode_context_parallel_size": 2}), [("dcp_size", 2, 1, "")]),
        ({"nnodes": 1}, Ask(layout={"nodes": 2}), [("nnodes", 2, 1, "")]),
        ({"node_rank": 0}, Ask(layout={"node_rank": 1}), [("node_rank", 1, 0, "")]),
        ({"dp_size": 1, "attn_dp_size": 8}, Ask(layout={"data_parallel_size": 8}), []),
        # A whole layout that the arguments name proves the number of ranks; a shortened one does not.
        (ONE_RANK, Ask(ranks=8), [("ranks", 8, 1, " by its parallel sizes")]),
        (ONE_RANK, Ask(ranks=1), []),
        (ONE_RANK, Ask(ranks=8, rank_set=["0-7"]), []),
        (ONE_RANK, Ask(ranks=0), []),
        *(
            ({name: value for name, value in ONE_RANK.items() if name != missing}, Ask(ranks=8), [])
            for missing in ONE_RANK
        ),
        ({**ONE_RANK, "tp_size": 0}, Ask(ranks=8), []),
    ],
)
def test_the_parallel_layout(settings, ask, found):
    assert [tuple(one) for one in started.differences(settings, ask)[0]] == found


@pytest.mark.parametrize(
    ("settings", "ask", "found"),
    [
        ({"page_size": 48}, Ask(page_size=1), (["page_size"], [])),
        ({"page_size": 64}, Ask(page_size=1), ([], ["page_size"])),
        ({"page_size": 1}, Ask(page_size=1), ([], [])),
        # The settings' own value goes before the option's.
        ({"page_size": 48}, Ask(page_size=1, settings={"page_size": 48}), ([], [])),
        ({"kv_cache_dtype": "auto"}, Ask(kv_cache_dtype="fp8_e4m3"), (["kv_cache_dtype"], [])),
        ({"kv_cache_dtype": "fp8_e4m3"}, Ask(kv_cache_dtype="fp8_e4m3"), ([], [])),
        (
            {"speculative_draft_kv_cache_dtype": "bf16"},
            Ask(draft_dtype="fp8_e4m3"),
            (["speculative_draft_kv_cache_dtype"], []),
        ),
        ({}, Ask(kv_cache_dtype="fp8_e4m3", page_size=64, draft_dtype="bf16"), ([], [])),
        ({"stream_interval": 2}, Ask(settings={"stream_interval": 1}), ([], ["stream_interval"])),
        # One name is told once.
        ({"tp_size": 4}, Ask(settings={"tp_size": 8}, layout={"tensor_parallel_size": 8}), (["tp_size"], [])),
        ({"hicache_size": 20}, Ask(settings={"hicache_size": 30}), (["hicache_size"], [])),
        (
            {"page_size": 48, "stream_interval": 2, "dtype": "half", "host": "::"},
            Ask(page_size=1, settings={"stream_interval": 1, "dtype": "bfloat16", "host": "::"}),
            (["dtype", "page_size"], ["stream_interval"]),
        ),
    ],
)
def test_options_and_settings_together(settings, ask, found):
    assert names(settings, ask) == found


def test_the_release_decides_what_the_engine_may_have_changed():
    settings, ask = {"hicache_io_backend": "direct", **FA3}, Ask(settings={"hicache_io_backend": "kernel"})
    assert names(settings, ask, OLD) == ([], ["hicache_io_backend"])
    assert names(settings, ask, NEW) == (["hicache_io_backend"], [])


# -- what is told ---------------------------------------------------------------------------------------------------


def told(start, ask, release=None):
    """Return (whether all is right, reasons as (verdict, code, message))."""
    reasons = hicache_judge.Reasons()
    right = started.check(start, ask, release, reasons)
    return right, [(item["verdict"], item["code"], item["message"]) for item in reasons.items]


def test_nothing_is_told_where_nothing_differs():
    assert told(log(("a", {"tp_size": 8})), Ask(settings={"tp_size": 8})) == (True, [])
    assert told(log(), Ask(settings={"tp_size": 8})) == (True, [])


def test_a_difference_is_a_fail_with_both_values():
    right, ((verdict, code, message),) = told(
        log(("a", {"hicache_ratio": 2.5, "dtype": None})), Ask(ratio=4.0, settings={"dtype": "half"})
    )
    assert (right, verdict, code) == (False, "fail", "settings_differ")
    assert "hicache_ratio is 2.5, where 4 was asked for; dtype is not set, where half was asked for." in message
    assert "site.yml" in message


def test_a_server_that_is_not_asked_for_hicache_and_has_it():
    right, ((_verdict, _code, message),) = told(log(("a", ON)), Ask(ranks=0))
    assert right is False
    assert f"enable_hierarchical_cache is True{NO_RANK}, where False was asked for." in message


def test_the_second_server_counts_as_well():
    start = log(("a", {"dtype": "half"}), ("b", {"dtype": "float"}), allocated="ab")
    right, reasons = told(start, Ask(settings={"dtype": "half"}))
    assert right is False and [code for _verdict, code, _message in reasons] == ["settings_differ"]
    start = log(("a", {"dtype": "float"}), ("b", {"dtype": "half"}), allocated="ab")
    assert told(start, Ask(settings={"dtype": "half"}))[0] is False


@pytest.mark.parametrize(("count", "more"), [(6, ""), (7, " (1 more)."), (8, " (2 more).")])
def test_six_differences_are_told_and_the_others_counted(count, more):
    chosen = sorted(started.CERTAIN - {"page_size", "hicache_io_backend", "hicache_mem_layout"})
    chosen = [name for name in chosen if name.endswith(("_length", "_path", "dtype", "revision", "host", "port"))]
    chosen = chosen[:count]
    assert len(chosen) == count
    start = log(("a", dict.fromkeys(chosen, "/b")))
    _right, ((_verdict, _code, message),) = told(start, Ask(settings=dict.fromkeys(chosen, "/a")))
    assert message.count("was asked for") == 6
    assert more in message and ("more)" in message) == bool(more)


def test_a_difference_that_the_engine_may_have_made_is_told_and_decides_nothing():
    settings = {"page_size": 64, "stream_interval": 2, **{f"other_{number}": 1 for number in range(6)}}
    ask = Ask(page_size=1, settings={"stream_interval": 1, **{f"other_{number}": 2.5 for number in range(6)}})
    right, ((verdict, code, message),) = told(log(("a", settings)), ask)
    assert (right, verdict, code) == (True, "note", "settings_resolved")
    assert message.endswith(": " + ", ".join(f"other_{number} 1 for 2.5" for number in range(6)) + ".")
    _right, ((_verdict, _code, message),) = told(
        log(("a", {"page_size": 64, "stream_interval": 2})), Ask(page_size=1, settings={"stream_interval": 1})
    )
    assert message.endswith(": page_size 64 for 1, stream_interval 2 for 1.")
