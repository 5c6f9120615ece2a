# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventories of docs/fleet.md are read by Ansible, and say what the document says about them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.llmfleet.sglang.plugins.plugin_utils.settings import node_ranks

TOOL = Path(sys.executable).with_name("ansible-inventory")


@pytest.fixture(scope="module")
def fences(root):
    """{first words of the comment on top: text} of the document's fences."""
    text = (root / "docs/fleet.md").read_text()
    found = re.findall(r"^```(?:yaml|json)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return {fence.split("\n")[0].removeprefix("# "): fence for fence in found}


def read(*sources):
    """What ansible-inventory makes of files: (groups, variables of hosts)."""
    words = [word for source in sources for word in ("--inventory", str(source))]
    done = subprocess.run([str(TOOL), *words, "--list"], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    return found, found["_meta"]["hostvars"]


def members(groups, name):
    """All hosts of a group, also of those in it."""
    group = groups.get(name, {})
    below = [host for child in group.get("children", []) for host in members(groups, child)]
    return sorted({*group.get("hosts", []), *below})


def test_the_static_fleet(fences, tmp_path):
    (tmp_path / "hosts.yml").write_text(fences["inventory: a static fleet"])
    groups, variables = read(tmp_path / "hosts.yml")
    assert len(members(groups, "sglang_servers")) == 25
    assert members(groups, "sglang_canary") == ["ash"]
    assert members(groups, "sglang_routers") == ["rowan"]
    assert variables["rack1-07"]["ansible_user"] == "deploy"


def test_groups_are_made_of_what_a_source_tells(fences, tmp_path):
    (answer,) = (text for text in fences.values() if text.startswith("{"))
    script = tmp_path / "10-source.sh"
    script.write_text(f"#!/bin/sh\ncat <<'TEXT'\n{answer}TEXT\n")
    script.chmod(0o755)
    (constructed,) = (text for name, text in fences.items() if name.startswith("constructed: "))
    (tmp_path / "20-groups.constructed.yml").write_text(constructed)
    groups, variables = read(tmp_path)
    assert variables["ash"]["ansible_host"] == "192.0.2.11"
    assert members(groups, "sglang_servers") == members(groups, "sglang_canary") == ["ash"]
    assert members(groups, "sglang_routers") == ["rowan"]


def test_two_hosts_that_share_a_model(fences, tmp_path):
    (tmp_path / "hosts.yml").write_text(fences["inventory: two hosts share a model"])
    groups, variables = read(tmp_path / "hosts.yml")
    ranks = {}
    for host in members(groups, "sglang_servers"):
        settings = {name.removeprefix("serve_"): value for name, value in variables[host].items()}
        ranks[host] = node_ranks(settings)["rank_set"]
    assert ranks == {"ash": ["0-7"], "beech": ["8-15"]}
    assert {variables[host]["rollout_unit"] for host in ranks} == {"pair-1"}
    assert {variables[host]["serve_dist_init_address"] for host in ranks} == {
        f"{variables['ash']['ansible_host']}:5000"
    }


def test_the_settings_for_many_hosts_are_those_of_the_clone(root):
    # ssh has no other way to notice a host that lost its power: a module that waits for hours would hang the run.
    settings = (root / "ansible.cfg").read_text()
    table = (root / "docs/fleet.md").read_text().split("## Settings for many hosts")[1].split("\n\n")[2]
    named = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    assert "ServerAliveInterval=15 -o ServerAliveCountMax=4" in " ".join(named)
    assert [setting for setting in named if setting not in settings] == []
