# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several services of one host, several hosts of one service, and where a service runs on its host."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import settings, settings_instances, settings_problems

DEFAULTS = Path(__file__).resolve().parents[4] / "roles" / "serve" / "defaults" / "main.yml"
COMMON = {
    **{name[len("serve_") :]: value for name, value in yaml.safe_load(DEFAULTS.read_text()).items()},
    "release": "0.5.23",
    "model_path": "/srv/models/a",
    "draft_model_path": "/srv/models/a-draft",
    "tensor_parallel_size": 4,
}
del COMMON["instances"]
A = {"name": "a", "port": 30000, "gpus": [0, 1, 2, 3]}
B = {"name": "b", "port": 30001, "gpus": [4, 5, 6, 7]}


def errors(*instances):
    found = settings_instances.instances_problems(list(instances), COMMON)
    return [problem["message"] for problem in found if problem["level"] == "error"]


def test_services_that_share_nothing_are_fine():
    assert errors() == errors(A) == errors(A, B) == []
    # One service may leave all GPUs to itself, and two may leave that to somebody else.
    assert errors({"name": "a"}) == []
    assert errors({"name": "a"}, {"name": "b", "port": 30001}) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": "a"}, ["name a of 0 and 1"]),
        ({"port": 30000}, ["port 30000 of serve_instances['a'] and serve_instances['b']"]),
        ({"port": "30000"}, ["port 30000 of"]),
        ({"gpus": "3,4,5,6"}, ["GPU 3 of"]),
        ({"port": 30000, "gpus": [3, 4, 5, 6]}, ["port 30000 of", "GPU 3 of"]),
        ({"gpus": []}, ["every GPU of serve_instances['b'], which names none"]),
    ],
)
def test_what_two_services_claim_is_one_error(change, told):
    found = [message for message in errors(A, {**B, **change}) if "two services claim the same" in message]
    assert len(found) == 1
    assert all(part in found[0] for part in told)
    assert found[0].endswith("give each service a name, a port and GPUs of its own.")


def test_a_problem_is_told_where_it_was_written():
    found = errors(A, {**B, "mem_fraction_static": 2, "prot": 1})
    assert any(message.startswith("serve_instances['b'].mem_fraction_static is 2.0") for message in found)
    assert any(
        message.startswith("serve_instances['b'].prot is (hidden): there is no variable serve_prot")
        for message in found
    )
    assert len(found) == 2
    common = {**COMMON, "mem_fraction_static": 2}
    found = settings_instances.instances_problems([A, B], common)
    # What both have from the same variable is told once.
    assert [problem["variable"] for problem in found if problem["level"] == "error"] == ["serve_mem_fraction_static"]


@pytest.mark.parametrize("instances", ["a", [1], {"name": "a"}])
def test_another_kind_of_value_is_refused(instances):
    (problem,) = settings_instances.instances_problems(instances, COMMON)
    assert problem["variable"] == "serve_instances"


@pytest.mark.parametrize(
    ("given", "ranks", "names"),
    [
        ({"tensor_parallel_size": 8}, 8, []),
        ({"tensor_parallel_size": 4, "engine_options": {"pp-size": 2}}, 8, []),
        ({"tensor_parallel_size": 16, "nodes": 2, "node_rank": 0}, 8, ["0-7"]),
        ({"tensor_parallel_size": 16, "nodes": 2, "node_rank": 1}, 8, ["8-15"]),
        ({"tensor_parallel_size": 2, "nodes": 2, "node_rank": 1}, 1, ["1"]),
        (
            {"tensor_parallel_size": 2, "nodes": 2, "node_rank": 1, "engine_options": {"pipeline-parallel-size": 2}},
            2,
            ["PP1 TP0", "PP1 TP1"],
        ),
        (
            {"tensor_parallel_size": 4, "nodes": 4, "node_rank": 3, "engine_options": {"pp-size": 2}},
            2,
            ["PP1 TP2", "PP1 TP3"],
        ),
        (
            {"tensor_parallel_size": 1, "nodes": 2, "node_rank": 1, "engine_options": {"pp-size": 4}},
            2,
            ["PP2", "PP3"],  # the log has no tag TP0 where there is one only
        ),
    ],
)
def test_ranks_of_a_node(given, ranks, names):
    found = settings.node_ranks(given)
    assert (found["ranks"], found["rank_set"]) == (ranks, names)


def test_nodes_are_told_to_the_engine_only_where_there_are_several():
    shared = {**COMMON, "tensor_parallel_size": 16, "nodes": 2, "node_rank": 1, "dist_init_address": "192.0.2.1:20000"}
    argv = " ".join(settings.engine_argv(shared, "0.5.23"))
    assert "--tp-size 16 --nnodes 2 --node-rank 1 --dist-init-addr 192.0.2.1:20000 " in argv
    assert settings_problems.settings_problems(shared, "0.5.23") == []
    assert "--n" not in " ".join(settings.engine_argv(COMMON, "0.5.23")).replace("--num", "")


@pytest.mark.parametrize(
    ("change", "variable"),
    [
        ({"nodes": 0}, "serve_nodes"),
        ({"node_rank": 1}, "serve_node_rank"),
        ({"nodes": 2}, "serve_dist_init_address"),
        ({"nodes": 2, "dist_init_address": "192.0.2.1"}, "serve_dist_init_address"),
        ({"nodes": 3, "dist_init_address": "192.0.2.1:20000"}, "serve_nodes"),
        ({"gpus": [0, 1]}, "serve_gpus"),
        ({"gpus": [0, 1, 2, 2]}, "serve_gpus"),
        ({"gpus": [0, 1, 2, "x y"]}, "serve_gpus"),
        (
            {"gpus": [0, 1, 2, 3], "environment": {"CUDA_VISIBLE_DEVICES": "0"}},
            "serve_environment['CUDA_VISIBLE_DEVICES']",
        ),
        ({"cpus": "0-31;true"}, "serve_cpus"),
        ({"numa_policy": "everywhere"}, "serve_numa_policy"),
        ({"numa_policy": "interleave"}, "serve_numa_policy"),
        ({"numa_nodes": "0-1"}, "serve_numa_nodes"),
        ({"oom_score_adjust": -1001}, "serve_oom_score_adjust"),
        ({"memory_available_gb": 0}, "serve_memory_available_gb"),
        ({"memory_max": "much"}, "serve_memory_max"),
        ({"start_timeout_seconds": 0}, "serve_start_timeout_seconds"),
        ({"leftover_timeout_seconds": -1}, "serve_leftover_timeout_seconds"),
        ({"name": "a.env"}, "serve_name"),
    ],
)
def test_what_cannot_be_is_named(change, variable):
    found = settings_problems.settings_problems({**COMMON, **change}, "0.5.23")
    assert [problem["variable"] for problem in found if problem["level"] == "error"] == [variable]


@pytest.mark.parametrize(
    "change",
    [
        {"gpus": ["GPU-0a1b-2c", "1", 2, "MIG-0a/1/0"]},
        {"cpus": "0-31,64-95", "numa_policy": "interleave", "numa_nodes": "0-1"},
        {"numa_policy": "local"},
        {"memory_max": "700G"},
        {"memory_max": "80%"},
        {"oom_score_adjust": -500},
        {"memory_available_gb": 400},
    ],
)
def test_what_can_be_is_taken(change):
    assert settings_problems.settings_problems({**COMMON, **change}, "0.5.23") == []


def test_gpus_of_a_service_are_told_to_cuda():
    assert settings.engine_environment({**COMMON, "gpus": [4, "GPU-5"]}, "0.5.23") == {
        "CUDA_VISIBLE_DEVICES": "4,GPU-5"
    }
    assert settings.engine_environment(COMMON, "0.5.23") == {}


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:30000"),
        ("0.0.0.0", "http://127.0.0.1:30000"),
        ("::", "http://[::1]:30000"),
        ("2001:db8::1", "http://[2001:db8::1]:30000"),
        ("gpu1", "http://gpu1:30000"),
    ],
)
def test_how_a_host_reaches_its_own_server(host, url):
    assert settings.service_url(host, 30000) == url
