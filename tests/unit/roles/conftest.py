# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stage for the tasks of roles: real tasks, filters and lookups, and modules that answer what a test wants."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
MODULES = sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("*.py") if path.stem != "site_state")
PROGRAM = """#!{python}
# WANT_JSON
import json, os, sys, time
with open(sys.argv[1]) as stream:
    given = {{name: value for name, value in json.load(stream).items() if not name.startswith("_ansible")}}
asked = {{"module": "{name}", "on": os.environ["STAGE_HOST"], **given}}
with open("{folder}/answers.json") as stream:
    rules = json.load(stream)
answer = next((told for wanted, told in rules if all(asked.get(key) == wanted[key] for key in wanted)), {{}})
time.sleep(answer.pop("sleeps", 0))
with open("{folder}/asked.jsonl", "a") as stream:
    stream.write(json.dumps(asked) + "\\n")
print(json.dumps({{"changed": False, **answer}}))
"""
# Nothing listens on this port.
NOBODY = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}


class Stage:
    """A collection in a folder, with hosts that are all this machine."""

    def __init__(self, folder):
        self.folder = folder
        self.collection = folder / "collections" / "ansible_collections" / "llmfleet" / "sglang"
        (self.collection / "plugins" / "modules").mkdir(parents=True)
        (self.collection / "roles").mkdir()
        for name in ("filter", "lookup", "module_utils", "plugin_utils"):
            (self.collection / "plugins" / name).symlink_to(ROOT / "plugins" / name)
        for name in MODULES:
            program = self.collection / "plugins" / "modules" / f"{name}.py"
            program.write_text(PROGRAM.format(python=sys.executable, name=name, folder=folder))
        self.answers, self.hosts, self.routers = [], {}, {}
        self.variables = {"ansible_become": False, "ansible_python_interpreter": sys.executable}

    def real(self, *roles):
        """Take roles of the clone."""
        for role in roles:
            (self.collection / "roles" / role).symlink_to(ROOT / "roles" / role)

    def role(self, name, tasks, file="main.yml"):
        """Write a role of this test's own."""
        path = self.collection / "roles" / name / "tasks" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(tasks))

    def answer(self, told, **wanted):
        """Have a module answer in some way when it is asked for what is named; the first that fits counts."""
        self.answers.append((wanted, told))

    def asked(self, **wanted):
        """What modules were asked for, in order, as far as it fits."""
        path = self.folder / "asked.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in lines if all(line.get(name) == value for name, value in wanted.items())]

    def play(self, tasks, **more):
        """Run tasks on all hosts that are no routers; returns (status, output)."""
        local = {"ansible_connection": "local"}
        groups = {
            "sglang_servers": {"hosts": {name: {**local, **own} for name, own in self.hosts.items()}},
            "sglang_routers": {"hosts": {name: {**local, **own} for name, own in self.routers.items()}},
        }
        (self.folder / "hosts.yml").write_text(
            yaml.safe_dump({"all": {"children": groups, "vars": self.variables}}, sort_keys=False)
        )
        play = {
            "hosts": "sglang_servers",
            "gather_facts": False,
            "environment": {"STAGE_HOST": "{{ inventory_hostname }}"},
            "tasks": tasks,
            **more,
        }
        (self.folder / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False))
        (self.folder / "answers.json").write_text(json.dumps(self.answers))
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(self.folder / "collections"),
            "ANSIBLE_LOCALHOST_WARNING": "0",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
        }
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        done = subprocess.run(
            [program, "--inventory", "hosts.yml", "play.yml"],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def stage(tmp_path):
    """A stage without roles, hosts and answers."""
    return Stage(tmp_path)


@pytest.fixture
def nobody():
    """Variables of a host that cannot be reached."""
    return dict(NOBODY)
