# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for source files that no linter of the project has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
import yaml
from ansible.playbook.block import Block
from ansible.playbook.handler import Handler
from ansible.playbook.play import Play
from ansible.playbook.task import Task

MOST_LINES = 80
# Names with this prefix that Ansible itself defines and that are no facts.
MAGIC = {
    "ansible_become",
    "ansible_become_method",
    "ansible_become_user",
    "ansible_check_mode",
    "ansible_collections",
    "ansible_connection",
    "ansible_diff_mode",
    "ansible_facts",
    "ansible_failed_result",
    "ansible_failed_task",
    "ansible_host",
    "ansible_index_var",
    "ansible_limit",
    "ansible_loop",
    "ansible_loop_var",
    "ansible_managed",
    "ansible_parent_role_names",
    "ansible_play_batch",
    "ansible_play_hosts",
    "ansible_play_hosts_all",
    "ansible_playbook_python",
    "ansible_port",
    "ansible_python_interpreter",
    "ansible_role_name",
    "ansible_run_tags",
    "ansible_skip_tags",
    "ansible_ssh_common_args",
    "ansible_ssh_private_key_file",
    "ansible_user",
    "ansible_version",
}
KEYWORDS = set(Task.fattributes) | set(Block.fattributes) | set(Handler.fattributes) | {"local_action"}


def texts(root, paths):
    """Yield (path, text) for those of `paths` that hold text."""
    for path in paths:
        content = (root / path).read_bytes()
        if b"\0" not in content:
            yield path, content.decode(errors="replace")


@pytest.fixture(scope="session")
def yaml_of_plays(root, files):
    """{path: content} of all YAML files that hold tasks or plays."""
    wanted = [
        path
        for path in files
        if path.suffix == ".yml"
        and (
            path.parts[0] == "playbooks" or {"tasks", "handlers"} & set(path.parts[:-1]) or path.parts[0] == "molecule"
        )
    ]
    return {path: yaml.safe_load((root / path).read_text()) for path in wanted}


def tasks_in(content):
    """Yield each task of a file's content: a list of tasks, blocks or plays; anything else holds none."""
    waiting = list(content) if isinstance(content, list) else []
    while waiting:
        item = waiting.pop(0)
        if not isinstance(item, dict):
            continue
        parts = ("block", "rescue", "always", "tasks", "pre_tasks", "post_tasks", "handlers")
        children = [child for part in parts for child in item.get(part) or []]
        waiting += children
        if "hosts" not in item and not children:
            yield item


def test_code_and_scripts_name_their_licence(root, files):
    code = [
        (path, text)
        for path, text in texts(root, files)
        if text.strip()
        and (path.suffix in (".py", ".sh") or path.name == "Makefile" or text.startswith("#!"))
        and "data" not in path.parts
    ]
    assert len(code) > 20
    wanted = "SPDX-License-Identifier: GPL-3.0-or-later"
    assert [str(path) for path, text in code if wanted not in text[:600]] == []


def test_task_files_are_short(root, files):
    lengths = {
        str(path): len((root / path).read_text().splitlines())
        for path in files
        if path.parts[0] == "roles" and path.suffix == ".yml" and {"tasks", "handlers"} & set(path.parts)
    }
    assert {path: length for path, length in lengths.items() if length > MOST_LINES} == {}


def test_facts_are_read_from_ansible_facts_only(root, files):
    wrong = []
    for path, text in texts(root, files):
        if path.parts[0] not in ("roles", "playbooks", "molecule", "site.yml") or path.suffix not in (".yml", ".j2"):
            continue
        if path.name == "argument_specs.yml":
            continue
        code = re.sub(r"(?m)^\s*#.*$", "", text)
        found = set(re.findall(r"(?<![\w.'\"])ansible_[a-z_]+", code))
        wrong += [f"{path}: {name}" for name in sorted(found - MAGIC)]
    assert wrong == []


def test_modules_are_named_in_full(yaml_of_plays):
    wrong = []
    play_keywords = set(Play.fattributes) | {"import_playbook", "ansible.builtin.import_playbook"}
    seen = 0
    for path, content in yaml_of_plays.items():
        for task in tasks_in(content):
            seen += 1
            actions = [key for key in task if key not in KEYWORDS | play_keywords and not key.startswith("with_")]
            wrong += [f"{path}: {key}" for key in actions if key.count(".") < 2]
    assert seen > 50
    assert wrong == []


def test_an_ignored_silence_does_not_end_a_run(yaml_of_plays):
    # At a task with run_once Ansible ends the run for all hosts, unless it has ignore_errors.
    found = [
        (path, task)
        for path, content in yaml_of_plays.items()
        if path.parts[0] != "molecule"
        for task in tasks_in(content)
        if task.get("run_once") and task.get("ignore_unreachable")
    ]
    assert len(found) > 3
    assert [f"{path}: {task.get('name')}" for path, task in found if task.get("ignore_errors") is not True] == []


def test_ansible_lint_skips_nothing(root, load):
    settings = load(".ansible-lint")
    assert settings["profile"] == "production"
    assert not {"skip_list", "warn_list", "enable_list"} & set(settings)
    assert not (root / ".ansible-lint-ignore").exists()


def pattern_of(name, choices):
    """Return a pattern for the file that an include names; a template is a choice of its variable, or any word."""

    def words(found):
        return f"(?:{'|'.join(choices.get(found.group(1), [r'[a-z_]+']))})"

    parts = re.split(r"(\{\{.*?\}\})", str(name).split("/")[-1])
    pattern = "".join(
        re.sub(r"\{\{ *(\w*).*\}\}", words, part) if part.startswith("{{") else re.escape(part) for part in parts
    )
    return pattern if pattern.endswith(r"\.yml") else rf"{pattern}\.yml"


def includes_in(content):
    """Yield (role or None for the file's own, name of the task file) for each include in a file's content."""
    for task in tasks_in(content):
        for key, value in task.items():
            if key.endswith((".include_tasks", ".import_tasks")):
                yield None, value["file"] if isinstance(value, dict) else value
            elif key.endswith((".include_role", ".import_role")):
                yield value["name"].split(".")[-1], value.get("tasks_from", "main.yml")
    for play in content if isinstance(content, list) else []:
        for role in (play.get("roles") or []) if isinstance(play, dict) else []:
            yield role["role"].split(".")[-1], role.get("tasks_from", "main.yml")


def test_every_task_file_is_included(files, load, yaml_of_plays):
    task_files = [path for path in files if "tasks" in path.parts[:-1] and path.suffix == ".yml"]
    owners = {str(path.parent).removesuffix("/tasks") for path in task_files}
    choices = {
        name: option["choices"]
        for owner in owners
        for spec in load(f"{owner}/meta/argument_specs.yml").get("argument_specs", {}).values()
        for name, option in (spec.get("options") or {}).items()
        if "choices" in option
    }
    used = set()
    for path, content in yaml_of_plays.items():
        for role, name in includes_in(content):
            own = str(path.parent).removesuffix("/tasks")
            # The name of a role may be a template too; it stands for every role.
            named = [own] if role is None else sorted(owners) if "{{" in role or "}}" in role else [f"roles/{role}"]
            used |= {(owner, pattern_of(name, choices)) for owner in named}
    assert len(task_files) > 20
    left = [
        str(path)
        for path in task_files
        if not any(
            owner == str(path.parent).removesuffix("/tasks") and re.fullmatch(pattern, path.name)
            for owner, pattern in used
        )
    ]
    assert left == []


def settings_of_this_machine():
    """Return the hosts and folders that pip and proxies use on this machine, public ones left out."""
    told = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    values = [value for line in told.splitlines() for value in line.partition("=")[2].strip("'\"").split()]
    values += [value for name, value in os.environ.items() if re.search(r"(?i)proxy|index_url|find_links", name)]
    found = set()
    for value in values:
        address = urlsplit(value)
        if address.hostname and address.hostname not in ("localhost", "127.0.0.1", "::1", "pypi.org"):
            found.add(address.hostname)
        path = address.path if address.scheme == "file" or not address.scheme else ""
        # Folders that every Debian has say nothing about the machine.
        if path.startswith("/") and not path.startswith(("/etc/", "/usr/", "/var/", "/tmp/")) and len(path) > 4:
            found.add(path.rstrip("/"))
    return found


def test_nothing_of_the_developers_machine_is_written_down(root, files):
    homes = re.compile(r"(?<![\w./}-])/(?:root/(?!\.ansible\b)\.?|work/|Users/)\w+")
    own = {str(root), *settings_of_this_machine()}
    wrong = []
    for path, text in texts(root, files):
        wrong += [f"{path}: {found.group(0)}" for found in homes.finditer(text)]
        wrong += [f"{path}: {value}" for value in own if value in text]
    assert wrong == []
