# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role plan: the example's table without a host, what stops a play and what does not, defaults of other roles."""

from __future__ import annotations

import json
import re

import pytest
import yaml

EXAMPLE = "inventories/facts/example.json"


@pytest.fixture(scope="module")
def make_plans(run, tmp_path_factory):
    """A function that runs plan.yml on the example's facts; returns status, output, and the plans by host."""

    def call(*arguments, **variables):
        folder = tmp_path_factory.mktemp("plan")
        given = {
            "plan_facts_file": EXAMPLE,
            "plan_json_file": f"{folder}/plans.json",
            "plan_report_file": f"{folder}/report.txt",
            **variables,
        }
        status, output, errors = run(
            "ansible-playbook",
            "--inventory",
            "inventories/example",
            *arguments,
            "playbooks/plan.yml",
            "--extra-vars",
            json.dumps(given),
        )
        plans = folder / "plans.json"
        made = json.loads(plans.read_text())["hosts"] if plans.is_file() else {}
        report = (folder / "report.txt").read_text() if (folder / "report.txt").is_file() else ""
        return status, output + errors, made, report

    return call


# What each host of one play sets, and what it is told where its play ends there; None where it goes on.
HOSTS = {
    "large": ({"serve_hicache_ratio": 9}, "take 819.09 GB"),
    "waived": ({"serve_hicache_ratio": 9, "plan_fit_required": False}, None),
    "headless": ({"serve_draft_model_path": None}, None),
    "new": ({"plan_model_config": {"architectures": ["NewForCausalLM"]}}, None),
    "heavy": ({"plan_weight_gb": 2000}, "are missing"),
    "unsaved": ({}, "has no facts of unsaved"),
    "release": ({"plan_release": "main"}, "plan_release is main"),
    "ranks": ({"plan_tensor_parallel_size": 0}, "plan_tensor_parallel_size is 0"),
    "memory": ({"plan_host_memory_gb": -1}, "plan_host_memory_gb is -1"),
    "tokens": ({"plan_device_tokens": -5}, "plan_device_tokens is -5"),
    "endless": ({"plan_tensor_parallel_size": 10**9}, "plan_tensor_parallel_size is 1000000000"),
    "infinite": ({"plan_host_memory_gb": "inf"}, "plan_host_memory_gb is inf"),
    "stages": ({"serve_engine_options": {"pp-size": 10**9}}, "pipeline_parallel_size is 1000000000"),
    "decode": (
        {"serve_hicache_enabled": False, "serve_engine_options": {"disaggregation_mode": "decode"}},
        None,
    ),
}


@pytest.fixture(scope="module")
def stopped(run, root, tmp_path_factory):
    """{host: what it was told} of one play with role plan, as site.yml has it, and all that was shown."""
    folder = tmp_path_factory.mktemp("stop")
    facts = json.loads((root / EXAMPLE).read_text())["hosts"]["ash"]
    (folder / "facts.json").write_text(json.dumps({"hosts": dict.fromkeys(set(HOSTS) - {"unsaved"}, facts)}))
    hosts = {host: settings for host, (settings, _told) in HOSTS.items()}
    (folder / "hosts.yml").write_text(json.dumps({"sglang_servers": {"hosts": hosts}}))
    role = {"ansible.builtin.import_role": {"name": "llmfleet.sglang.plan"}, "name": "Plan"}
    play = {"hosts": ",".join(HOSTS), "gather_facts": False, "become": True, "tasks": [role]}
    (folder / "stop.yml").write_text(yaml.safe_dump([play]))
    arguments = ["--inventory", "inventories/example", "--inventory", f"{folder}/hosts.yml", f"{folder}/stop.yml"]
    _status, output, errors = run(
        "ansible-playbook", *arguments, "--extra-vars", json.dumps({"plan_facts_file": f"{folder}/facts.json"})
    )
    shown = output + errors
    told = re.findall(r"(?m)^(?:fatal|failed): \[(\w+)(?: -> \w+)?\]((?:.*\n)+?)(?=^\w|\Z)", shown)
    return {host: " ".join(text.split()) for host, text in told}, " ".join(shown.split())


def test_the_example_shows_kimis_table_without_a_host(make_plans):
    status, output, plans, report = make_plans("--check")
    assert status == 0, output
    assert "unreachable=0" in output and "changed=0" in output and not re.search(r"changed=[1-9]", output)
    assert sorted(plans) == ["ash", "beech", "cedar", "elm"]
    # Where this fails because a setting of the example changed: save its facts with the new settings.
    assert [plans[host]["device_tokens_source"] for host in sorted(plans)] == ["remembered"] * 3 + ["estimated"], report
    kimi = plans["ash"]
    assert [(pool["pool"], pool["gb"], pool["total_gb"]) for pool in kimi["pools"]] == [
        ("kv", 44.77, 358.17),
        ("draft", 0.73, 5.87),
    ]
    assert kimi["fits"] is True
    assert "10.42 GiB on the device x 4 = 41.70 GiB = 44.77 GB" in report
    assert re.search(r"(?m)^ash +yes +8 +159,277 +x 4 +45\.50 +364\.04 ", report)
    assert max(map(len, report.splitlines())) <= 100
    # The same text is on the screen.
    assert re.search(r"(?m)^ *ash +yes +8 +159,277 ", output)


def test_text_from_the_command_line_counts_like_numbers(make_plans):
    status, output, plans, _report = make_plans(
        "--limit=ash", serve_hicache_ratio="12", plan_rank_memory_gb="0", serve_page_size="64"
    )
    assert status == 0, output
    assert plans["ash"]["fits"] is False and plans["ash"]["ratio"] == 12.0 and plans["ash"]["page_size"] == 64
    # A page size is one of the settings that decide the tokens.
    assert plans["ash"]["device_tokens_source"] == "estimated"
    assert "page_size was not set then and is 64 now" in " ".join(plans["ash"]["explanation"])


def test_options_limits_and_memory_reach_the_plan(make_plans):
    status, output, plans, _report = make_plans(
        "--limit=ash",
        serve_engine_options={"pp_size": 2, "decode-attention-backend": "flashmla"},
        serve_tensor_parallel_size=4,
        serve_unit_directives={"Service": {"MemoryMax": "300G"}},
        plan_device_tokens=159277,
        plan_host_memory_gb=1000,
    )
    assert status == 0, output
    plan = plans["ash"]
    assert [(pool["stage"], pool["layers"]) for pool in plan["pools"] if pool["pool"] == "kv"] == [(0, 30), (1, 31)]
    assert plan["page_size"] == 64
    assert plan["memory"]["available_gb"] == 1000
    assert plan["memory"]["cgroup_limit_gb"] == 322.12


@pytest.mark.parametrize("host", HOSTS)
def test_only_what_cannot_work_stops_a_play(stopped, host):
    told, shown = stopped
    wanted = HOSTS[host][1]
    assert (host in told) is (wanted is not None), told.get(host, shown)
    assert wanted is None or wanted in told[host]


def test_who_is_stopped_hears_what_would_fit_and_who_goes_on_what_is_not_known(stopped):
    told, shown = stopped
    assert "largest serve_hicache_ratio that fits is 7.68" in told["large"]
    assert "plan_fit_required" in told["large"]
    assert "NewForCausalLM is not known" in shown
    assert "The draft's config.json is not known" in shown


def test_the_fallbacks_are_the_defaults_of_the_roles_that_own_them(root, load):
    owned = {
        name: value
        for role in ("serve", "model", "sglang", "verify")
        for name, value in load(f"roles/{role}/defaults/main.yml").items()
    }
    text = (root / "roles" / "plan" / "defaults" / "main.yml").read_text()
    pairs = re.findall(r"\b((?:serve|model|sglang|verify)_\w+) \| default\(([^()]*?)(?:, true)?\)", text)
    assert len(pairs) > 15
    wrong = []
    for name, fallback in pairs:
        value = yaml.safe_load("null" if fallback == "none" else fallback)
        own = owned[name]
        # An empty text and null mean the same here, and a template is another role's matter.
        if (own or None) != (value or None) and not (isinstance(own, str) and "{{" in own) and own is not value:
            wrong.append(f"{name}: plan falls back to {value!r}, its role to {own!r}")
    assert wrong == []


def test_the_plan_and_the_record_hold_the_same_settings(load):
    planned = load("roles/plan/vars/main.yml")["__plan_settings"]
    kept = load("roles/serve/vars/main/record.yml")["__serve_verify"]["device_settings"]
    assert list(planned) == list(kept)


def test_several_services_of_a_host_share_its_memory(make_plans, root, tmp_path):
    """Each of the two fits alone; the second does not in what the first leaves."""
    ash = json.loads((root / EXAMPLE).read_text())["hosts"]["ash"]
    facts = tmp_path / "facts.json"
    facts.write_text(json.dumps({"hosts": {f"ash/{name}": ash for name in ("first", "second", "third")}}))
    services = [
        {"name": "first", "port": 30000, "gpus": [0, 1, 2, 3]},
        {"name": "second", "port": 30001, "gpus": [4, 5, 6, 7], "hicache_ratio": 8},
        {"name": "third", "port": 30002, "gpus": [0, 1, 2, 3], "hicache_enabled": False},
    ]
    status, output, plans, report = make_plans(
        "--limit=ash",
        plan_facts_file=str(facts),
        plan_device_tokens=159277,
        plan_weight_gb=250,
        serve_tensor_parallel_size=4,
        serve_instances=services,
    )
    assert status == 0, output
    assert sorted(plans) == ["ash/first", "ash/second", "ash/third"]
    first, second = plans["ash/first"], plans["ash/second"]
    assert (first["ranks"], first["ratio"], second["ratio"]) == (4, 4.0, 8.0)
    assert first["fits"] is True and first["total_gb"] == 182.02
    taken = first["total_gb"] + first["memory"]["processes_gb"]
    assert second["memory"]["available_gb"] == pytest.approx(first["memory"]["available_gb"] - taken, abs=0.02)
    assert [pool["total_gb"] for pool in plans["ash/third"]["pools"]] == []
    assert re.search(r"(?m)^ash/second +yes +4 +159,277 +x 8 ", report)
    assert re.search(r"(?m)^3 services: 3 fit; ", report)
