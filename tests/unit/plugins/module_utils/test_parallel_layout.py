# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parallel layout: ranks, their names, and who shares the KV heads; what makes no layout is refused by name."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils._model import parallel_layout
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import settings, settings_problems
from hypothesis import given
from hypothesis import strategies as st

NAMES = {
    "tp": "tensor_parallel_size",
    "dp": "data_parallel_size",
    "attention": "dp_attention_enabled",
    "pp": "pipeline_parallel_size",
    "dcp": "decode_context_parallel_size",
    "cp": "attention_context_parallel_size",
    "nodes": "nodes",
    "node": "node_rank",
}


def asked(**short):
    return {NAMES[name]: value for name, value in short.items()}


# ranks on this host, their names, stages of the service, ranks that share the heads, engines on this host
@pytest.mark.parametrize(
    ("settings", "ranks", "names", "stages", "heads", "engines"),
    [
        pytest.param(asked(), 1, [], 1, 1, 1, id="nothing"),
        pytest.param(asked(tp=8), 8, [], 1, 8, 1, id="tp8"),
        pytest.param(asked(dp=2), 2, [], 1, 1, 2, id="plain-dp2"),
        pytest.param(asked(tp=4, dp=2), 8, [], 1, 4, 2, id="plain-dp2-tp4"),
        pytest.param(asked(tp=2, dp=2, pp=2), 8, [], 2, 2, 2, id="plain-dp2-tp2-pp2"),
        pytest.param(asked(tp=8, dp=8, attention=True), 8, [], 1, 1, 1, id="dp-attention-8-of-8"),
        pytest.param(asked(tp=8, dp=2, attention=True), 8, [], 1, 4, 1, id="dp-attention-2-of-8"),
        pytest.param(asked(tp=8, dp=4, attention=True, pp=2), 16, [], 2, 2, 1, id="dp-attention-4-pp2"),
        pytest.param(asked(tp=8, attention=True), 8, [], 1, 8, 1, id="dp-attention-of-one"),
        pytest.param(asked(tp=8, cp=2), 8, [], 1, 4, 1, id="attention-cp2"),
        pytest.param(asked(tp=8, dcp=4), 8, [], 1, 2, 1, id="dcp4"),
        pytest.param(asked(tp=8, dp=2, attention=True, dcp=2), 8, [], 1, 2, 1, id="dcp2-under-dp-attention"),
        pytest.param(asked(tp=16, nodes=2), 8, ["0-7"], 1, 16, 1, id="first-of-two-nodes"),
        pytest.param(asked(tp=16, nodes=2, node=1), 8, ["8-15"], 1, 16, 1, id="second-of-two-nodes"),
        pytest.param(asked(tp=16, dp=16, attention=True, nodes=2, node=1), 8, ["8-15"], 1, 1, 1, id="dpa-two-nodes"),
        pytest.param(asked(tp=2, nodes=2, node=1), 1, ["1"], 1, 2, 1, id="one-rank-a-node"),
        pytest.param(asked(tp=4, pp=2, nodes=4, node=3), 2, ["PP1 TP2", "PP1 TP3"], 2, 4, 1, id="two-nodes-a-stage"),
        pytest.param(asked(tp=2, pp=2, nodes=2, node=1), 2, ["PP1 TP0", "PP1 TP1"], 2, 2, 1, id="a-node-a-stage"),
        pytest.param(asked(tp=1, pp=4, nodes=2, node=1), 2, ["PP2", "PP3"], 4, 1, 1, id="no-tag-for-one-tp-rank"),
    ],
)
def test_layouts(settings, ranks, names, stages, heads, engines):
    found = parallel_layout.layout(settings)
    shown = (found.ranks, found.rank_set, found.stages, found.attention_ranks, found.engines)
    assert shown == (ranks, names, stages, heads, engines)
    assert found.engine_ranks * engines == ranks
    assert sum(stage.ranks for stage in found.host_stages) == found.engine_ranks


def test_the_draft_takes_no_part_in_decode_context_parallelism():
    found = parallel_layout.layout(asked(tp=8, dcp=4))
    assert (found.attention_ranks, found.draft_attention_ranks, found.context_ranks) == (2, 8, 4)


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        (asked(tp=2, pp=4), [(0, 2), (1, 2), (2, 2), (3, 2)]),
        (asked(tp=4, pp=4, nodes=2, node=1), [(2, 4), (3, 4)]),
        (asked(tp=4, pp=2, nodes=4, node=2), [(1, 2)]),
    ],
)
def test_stages_of_a_host(stages, expected):
    assert [tuple(stage) for stage in parallel_layout.layout(stages).host_stages] == expected


SIZES = ("tp", "dp", "pp", "dcp", "cp", "nodes")
ABSURD = [0, -1, 10**9, 10**400, float("inf"), float("nan"), 1e308, 2.0, True, "8 ", "many", "", [8]]


@pytest.mark.parametrize("value", ABSURD, ids=lambda value: str(value)[:12])
@pytest.mark.parametrize("name", SIZES)
def test_absurd_sizes_are_refused_by_name(name, value):
    with pytest.raises(parallel_layout.LayoutError, match=rf"^{NAMES[name]} is .+: .+; .+") as refused:
        parallel_layout.layout(asked(**{name: value}))
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (asked(node=-1), "node_rank is -1"),
        (asked(node=1), "node_rank is 1: nodes is 1"),
        (asked(tp=4, nodes=2, node=2), "node_rank is 2: nodes is 2; give 0 to 1"),
        (asked(node=True), "node_rank is True"),
        (asked(attention="yes"), "dp_attention_enabled is 'yes'"),
        (asked(tp=8, nodes=3), "nodes is 3: it does not divide"),
        (asked(tp=6, pp=2, nodes=3), "nodes is 3: it does not divide"),
        (asked(tp=8, dp=3, attention=True), "data_parallel_size is 3: it does not divide"),
        (asked(tp=16, dp=2, nodes=2), "data_parallel_size is 2: SGLang runs several engines"),
        (asked(tp=8, cp=3), "attention_context_parallel_size is 3"),
        (asked(tp=8, dcp=3), "decode_context_parallel_size is 3"),
        (asked(tp=4096, pp=4096), "more than 4096 ranks"),
        (asked(tp=4096, dp=2), "more than 4096 ranks"),
    ],
)
def test_what_makes_no_layout_is_refused(settings, words):
    with pytest.raises(parallel_layout.LayoutError, match=words):
        parallel_layout.layout(settings)


@pytest.mark.parametrize(
    ("args", "ranks", "heads", "engines"),
    [
        ({"tp_size": 1, "dp_size": 2}, 2, 1, 2),
        ({"tp_size": 8, "dp_size": 8, "enable_dp_attention": True, "ep_size": 8}, 8, 1, 1),
        ({"tp_size": 8, "dp_size": 8, "enable_dp_attention": False}, 64, 8, 8),
        # 0.5.23 counts the groups of DP attention apart, and reports the old switch beside it.
        ({"tp_size": 8, "dp_size": 1, "attn_dp_size": 4, "enable_dp_attention": False}, 8, 2, 1),
        ({"tp_size": 8, "dp_size": 1, "attn_dp_size": 4, "enable_dp_attention": True}, 8, 2, 1),
        ({"tp_size": 8, "dp_size": 1, "attn_dp_size": 1}, 8, 8, 1),
        ({"tp_size": 4, "pp_size": 2, "nnodes": 1, "node_rank": 0}, 8, 4, 1),
        ({"tp_size": 8, "dcp_size": 8, "attn_cp_size": 1}, 8, 1, 1),
        ({}, 1, 1, 1),
    ],
)
def test_from_the_engines_own_arguments(args, ranks, heads, engines):
    found = parallel_layout.layout(parallel_layout.from_server_args(args))
    assert (found.ranks, found.attention_ranks, found.engines) == (ranks, heads, engines)


@pytest.mark.parametrize("spelling", ["dp-size", "data-parallel-size", "dp_size", "--data-parallel-size"])
@pytest.mark.parametrize("value", [2, "2"])
def test_every_spelling_of_an_option_counts(spelling, value):
    given = {"tensor_parallel_size": 4, "engine_options": {spelling: value}}
    assert parallel_layout.layout(parallel_layout.from_service(given)).ranks == 8
    given["engine_options"]["enable-dp-attention"] = True
    found = parallel_layout.layout(parallel_layout.from_service(given))
    assert (found.ranks, found.attention_ranks) == (4, 2)


@pytest.mark.parametrize(
    ("options", "ranks", "heads"),
    [
        ({"pp-size": 2}, 8, 4),
        ({"pipeline_parallel_size": "2"}, 8, 4),
        ({"tp-size": 2}, 2, 2),
        ({"attn-dp-size": 4}, 4, 1),
        ({"attention-data-parallel-size": "2"}, 4, 2),
        ({"dcp-size": 2}, 4, 2),
        ({"attention_context_parallel_size": 4}, 4, 1),
        ({"enable-dp-attention": "false", "dp-size": 2}, 8, 4),
        ({"max-running-requests": 7, "dp-size": None}, 4, 4),
    ],
)
def test_from_the_variables_of_a_service(options, ranks, heads):
    found = parallel_layout.layout(
        parallel_layout.from_service({"tensor_parallel_size": 4, "nodes": None, "engine_options": options})
    )
    assert (found.ranks, found.attention_ranks) == (ranks, heads)


@pytest.mark.parametrize("nodes", ["", "two", 0, 10**9])
def test_the_filter_refuses_what_makes_no_layout(nodes):
    with pytest.raises(ValueError, match=r"^nodes is "):
        settings.node_ranks({"tensor_parallel_size": 8, "nodes": nodes})


@pytest.mark.parametrize(
    ("options", "variable"),
    [
        ({"pp-size": 10**9}, "serve_engine_options['pp-size']"),
        ({"data-parallel-size": 0}, "serve_engine_options['data-parallel-size']"),
        ({"dp-size": 3, "enable-dp-attention": True}, "serve_engine_options['dp-size']"),
    ],
)
def test_the_rules_of_a_service_name_the_option(options, variable):
    given = {"model_path": "/m", "tensor_parallel_size": 8, "port": 30000, "engine_options": options}
    found = settings_problems.settings_problems(given, "0.5.16")
    assert [one["level"] for one in found if one["variable"] == variable] == ["error"]


@given(
    tp=st.integers(1, 16),
    pp=st.integers(1, 4),
    dp=st.integers(1, 8),
    nodes=st.integers(1, 4),
    attention=st.booleans(),
)
def test_the_hosts_of_a_service_have_all_its_ranks_once(tp, pp, dp, nodes, attention):
    given = asked(tp=tp, pp=pp, dp=dp, nodes=nodes, attention=attention)
    try:
        hosts = [parallel_layout.layout({**given, "node_rank": node}) for node in range(nodes)]
    except parallel_layout.LayoutError:
        return
    assert sum(host.ranks for host in hosts) == tp * pp * (1 if attention else dp)
    seen = [(stage.number, host) for host in range(nodes) for stage in hosts[host].host_stages]
    assert {number for number, _host in seen} == set(range(pp))
    names = [name for host in hosts for name in host.rank_set]
    assert len(names) == len(set(names))
