# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the documents say is what the repository has."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def documents(root, files):
    """{path: text} of all Markdown files."""
    return {path: (root / path).read_text() for path in files if path.suffix == ".md"}


@pytest.fixture(scope="session")
def targets(root):
    """{target: whether `make help` shows it} of the Makefile."""
    text = (root / "Makefile").read_text()
    found = re.findall(r"^([a-z][\w-]*):(?!=)(.*)$", text, re.MULTILINE)
    return {name: "##" in rest for name, rest in found}


def code_of(text):
    """Return what a Markdown text has in fences and in backticks."""
    fences = re.findall(r"^ *```.*?^ *```", text, re.MULTILINE | re.DOTALL)
    return "\n".join(fences + re.findall(r"`[^`\n]+`", text))


def test_role_pages_are_fresh(root):
    done = subprocess.run(
        [sys.executable, "tests/tools/make_role_docs.py", "--check"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_every_make_command_exists(documents, targets):
    named = {
        (str(path), target)
        for path, text in documents.items()
        for target in re.findall(r"(?:^|[`\s;&])make ([a-z][\w-]*)", code_of(text))
    }
    assert {target for _, target in named} >= {"demo", "test", "setup", "lint", "clean"}
    assert {pair for pair in named if pair[1] not in targets} == set()


def test_the_first_screen_has_the_two_commands(root):
    first_screen = "\n".join((root / "README.md").read_text().splitlines()[:40])
    assert "make demo" in first_screen
    assert "make test" in first_screen


def test_shown_targets_are_phony(root, targets):
    phony = set(re.findall(r"^\.PHONY: (.*)$", (root / "Makefile").read_text(), re.MULTILINE))
    assert {name for name, shown in targets.items() if shown} <= phony


def test_every_link_within_the_repository_leads_somewhere(root, documents):
    broken = []
    for path, text in documents.items():
        for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
            target, _, anchor = link.partition("#")
            if "://" in link or link.startswith("mailto:"):
                continue
            place = (root / path).parent / target if target else root / path
            if not place.exists():
                broken.append(f"{path}: {link}")
            elif anchor and place.suffix == ".md":
                titles = re.findall(r"^#+ (.*)$", place.read_text(), re.MULTILINE)
                anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
                if anchor not in anchors:
                    broken.append(f"{path}: {link}")
    assert broken == []


def test_every_path_in_backticks_exists(root, documents):
    parts = r"(?:roles|plugins|playbooks|inventories|molecule|tests|docs|changelogs|requirements)"
    broken = []
    for path, text in documents.items():
        if path.parts[0] not in ("README.md", "CONTRIBUTING.md", "docs"):
            continue
        for name in re.findall(rf"`({parts}/[\w./-]*)`", text):
            if not (root / name).exists():
                broken.append(f"{path}: {name}")
    assert broken == []


def test_every_role_variable_in_the_documents_exists(load, root, documents):
    roles = sorted(path.name for path in (root / "roles").iterdir())
    known = {name for role in roles for name in load(f"roles/{role}/defaults/main.yml")}
    # Facts that tasks set, and variables of loops.
    for path in root.glob("roles/*/tasks/**/*.yml"):
        for block in re.findall(r"ansible\.builtin\.set_fact:\n((?: {4,}.*\n)+)", path.read_text()):
            known |= set(re.findall(r"(?m)^ +(\w+):", block))
        known |= set(re.findall(r"(?m)^ +loop_var: (\w+)$", path.read_text()))
    # Modules, and groups of the inventory, are named like them.
    known |= {path.stem for path in root.glob("plugins/modules/*.py")} | set(load("inventories/example/hosts.yml"))
    known |= {load("roles/rollout/defaults/main.yml")["rollout_canary_group"]}
    named = re.compile(rf"(?m)(?:^\s*|`|-e )((?:{'|'.join(roles)})_[a-z_]+)(?=[:=`])")
    unknown = [
        f"{path}: {name}"
        for path, text in documents.items()
        if path.parts[0] in ("README.md", "CONTRIBUTING.md", "docs")
        for name in named.findall(code_of(text))
        if name not in known
    ]
    assert unknown == []


def test_supported_ansible_versions_agree(root, load, documents):
    lowest, highest = re.fullmatch(
        r">=(\d+\.\d+)\.0,<(\d+\.\d+)\.0", load("meta/runtime.yml")["requires_ansible"]
    ).groups()
    major, minor = highest.split(".")
    span = f"{lowest} to {major}.{int(minor) - 1}"
    for name in ("README.md", "docs/support.md"):
        assert f"ansible-core {span}" in (root / name).read_text(), f"{name} does not say ansible-core {span}"
    for path in root.glob("roles/*/meta/main.yml"):
        assert load(path)["galaxy_info"]["min_ansible_version"] == lowest, path


def test_all_roles_support_the_documented_platforms(root, load):
    platforms = {
        path.parts[-3]: {
            f"{platform['name']} {version}"
            for platform in load(path)["galaxy_info"]["platforms"]
            for version in platform["versions"]
        }
        for path in root.glob("roles/*/meta/main.yml")
    }
    first = platforms["cuda"]
    assert {role: names for role, names in platforms.items() if names != first} == {}
    text = (root / "docs" / "support.md").read_text()
    told = {
        "Debian bookworm": "Debian 12",
        "Debian trixie": "Debian 13",
        "Ubuntu jammy": "Ubuntu 22.04",
        "Ubuntu noble": "Ubuntu 24.04",
        "EL 9": "RHEL 9",
        "EL 10": "RHEL 10",
    }
    assert first == set(told)
    assert [name for name in told.values() if f"| {name}" not in text] == []


def test_galaxy_metadata_is_whole(root, load):
    metadata = load("galaxy.yml")
    assert (metadata["namespace"], metadata["name"]) == ("llmfleet", "sglang")
    assert re.fullmatch(r"\d+\.\d+\.\d+", metadata["version"])
    assert (root / metadata["readme"]).is_file()
    assert (root / metadata["license_file"]).is_file()
    assert metadata["dependencies"] == {}


@pytest.mark.parametrize("kind, folder", [("module", "modules"), ("filter", "filter"), ("lookup", "lookup")])
def test_every_plugin_has_documentation_that_renders(root, run, kind, folder):
    names = sorted(
        f"llmfleet.sglang.{path.stem}" for path in (root / "plugins" / folder).glob("*.py") if path.stem != "__init__"
    )
    assert names
    status, output, errors = run("ansible-doc", "--type", kind, "--json", *names)
    assert status == 0, errors
    documented = json.loads(output)
    assert sorted(documented) == names, errors
    for name, parts in documented.items():
        assert "error" not in parts, parts
        assert parts["doc"]["short_description"] and parts["doc"]["description"] and parts["doc"]["author"], name
        assert parts["doc"]["version_added"] == "0.1.0", name
        assert parts["examples"] and parts["return"], name
    status, output, errors = run("ansible-doc", "--type", kind, *names)
    assert status == 0, errors
    assert [name for name in names if name not in output] == []
