# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks parse with both inventories, and the example inventory is one that the roles accept."""

from __future__ import annotations

import ipaddress
import json
import re

import pytest
import yaml

INVENTORIES = ("inventories/lab", "inventories/example")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="session")
def example(run):
    """{host: variables} of the example inventory, as ansible-inventory reads it."""
    status, output, errors = run("ansible-inventory", "--inventory", "inventories/example", "--list")
    assert status == 0, errors
    inventory = json.loads(output)
    members = inventory["sglang_servers"]["hosts"]
    return {host: inventory["_meta"]["hostvars"][host] for host in members}


@pytest.fixture(scope="session")
def refuse(run, root, tmp_path_factory):
    """A function that runs the first play of all, which reaches no host, on one host of the example inventory."""
    first = yaml.safe_load((root / "playbooks" / "stage.yml").read_text())[0]
    assert first["gather_facts"] is False
    playbook = tmp_path_factory.mktemp("playbook") / "refuse.yml"
    playbook.write_text(yaml.safe_dump([first]))

    def call(*arguments, hosts="ash", **variables):
        return run(
            "ansible-playbook",
            "--inventory",
            "inventories/example",
            *arguments,
            "--limit",
            hosts,
            str(playbook),
            "--extra-vars",
            json.dumps(variables),
        )

    return call


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_playbooks_parse(root, run, inventory):
    playbooks = ["site.yml", *(str(path.relative_to(root)) for path in sorted((root / "playbooks").glob("*.yml")))]
    status, output, errors = run("ansible-playbook", "--syntax-check", "--inventory", inventory, *playbooks)
    assert status == 0, errors
    assert [name for name in playbooks if f"playbook: {name}" not in output] == []
    # Names of hosts or groups that do not match are warnings only.
    assert "Could not match" not in errors


def test_example_hosts_have_documentation_addresses(example):
    documentation = ipaddress.ip_network("192.0.2.0/24")
    addresses = [ipaddress.ip_address(variables["ansible_host"]) for variables in example.values()]
    assert len(set(addresses)) == len(example) >= 4
    assert [address for address in addresses if address not in documentation] == []


def test_example_sets_only_variables_that_exist(root, load, example):
    known = {name for path in (root / "roles").iterdir() for name in load(f"roles/{path.name}/defaults/main.yml")}
    playbook = "".join(path.read_text() for path in sorted((root / "playbooks").glob("*.yml")))
    named = {name for variables in example.values() for name in variables if not name.startswith("ansible_")}
    assert any(name.startswith("serve_") for name in named)
    unknown = {name for name in named - known if not (name.startswith("site_") and re.search(rf"\b{name}\b", playbook))}
    assert unknown == set()


def test_example_variables_stand_in_the_file_of_their_role(root, load):
    folder = root / "inventories" / "example" / "group_vars" / "sglang_servers"
    wrong = [
        f"{path.name}: {name}"
        for path in sorted(folder.glob("*.yml"))
        for name in load(path)
        if not name.startswith(f"{path.stem}_")
    ]
    assert {path.stem for path in folder.glob("*.yml")} >= {path.name for path in (root / "roles").iterdir()}
    assert wrong == []


def test_every_example_setting_has_its_reason(root):
    bare = []
    for path in sorted((root / "inventories" / "example").rglob("*.yml")):
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            # A setting without a comment belongs to the one before it when no empty line parts them.
            first_of_block = number == 0 or not lines[number - 1].strip() or lines[number - 1] == "---"
            if first_of_block and re.match(r"[a-z_]+:", line):
                bare.append(f"{path.name}: {line}")
    assert bare == []


def test_the_placeholder_of_a_revision_is_refused(refuse):
    status, output, errors = refuse()
    told = output + errors
    assert status != 0
    assert "model_revision" in told and "model_draft_revision" in told
    assert "40" in told, "the message says what a revision looks like"


def test_the_example_is_accepted_once_its_revisions_are_filled_in(refuse):
    status, output, errors = refuse(model_revision=COMMIT, model_draft_revision=COMMIT[::-1])
    assert status == 0, output + errors
    assert re.search(r"ash +: ok=[1-9]\d* +changed=0 ", output), output


def test_bad_settings_of_the_example_are_refused_by_name(refuse, tmp_path):
    bad = {
        "tp": {"serve_tensor_parallel_size": 0},
        "ratio": {"serve_hicache_ratio": -1},
        "both": {"serve_hicache_size": 40},
        "name": {"serve_name": "a/b"},
        "option": {"serve_engine_options": {"no-such-option": True}},
    }
    more = tmp_path / "hosts.yml"
    more.write_text(yaml.safe_dump({"sglang_servers": {"hosts": bad}}))
    status, output, errors = refuse(
        "--inventory",
        str(more),
        hosts=",".join(bad),
        model_revision=COMMIT,
        model_draft_revision=COMMIT[::-1],
    )
    assert status != 0
    for host, setting in bad.items():
        told = re.search(rf"(?m)^(?:fatal|failed): \[{host}\](?:.*\n)+?(?=^\w|\Z)", output + errors)
        assert told, output + errors
        assert next(iter(setting)) in told.group(0)
