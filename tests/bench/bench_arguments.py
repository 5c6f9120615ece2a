#!/usr/bin/env python3
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the check of a service's arguments on the controller, for the unit of inventories/example.

Three times, each the best of the rounds: the check alone, with the argument table read already; a process of its own,
with the start of Python and the table read from disk; and Ansible's own play of roles/serve/tasks/validate.yml, less an
empty play, which is what an operator waits for. Ends with status 1 when a limit is not kept.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / ".venv" / "collections")]

from ansible_collections.llmfleet.sglang.tests.unit.plugins.plugin_utils.test_example_unit import (  # noqa: E402
    example,
)

LIMITS = {"check": 0.1, "process": 1.0, "play": 1.0}
CHECK = """
import json, sys, time
sys.path[:0] = {paths!r}
settings = json.loads(sys.argv[1])
from ansible_collections.llmfleet.sglang.plugins.plugin_utils.settings import engine_argv
from ansible_collections.llmfleet.sglang.plugins.plugin_utils.settings_problems import settings_problems
for _round in range(2):
    began = time.perf_counter()
    found = settings_problems(settings, "0.5.23")
    words = engine_argv(settings, "0.5.23")
    spent = time.perf_counter() - began
assert found == [] and len(words) > 30, found
print(spent)
"""
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: llmfleet.sglang.serve, tasks_from: %s}
      vars: {serve_draft_model_path: /srv/models/draft}
"""


def run(command):
    """Seconds that a command takes, and what it prints."""
    began = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    spent = time.perf_counter() - began
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with status {done.returncode}:\n{done.stdout}")
    return spent, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = range(parser.parse_args().rounds)
    program = CHECK.format(paths=sys.path[:1])
    answers = [run([sys.executable, "-c", program, json.dumps(example())]) for _round in rounds]
    with tempfile.TemporaryDirectory() as folder:
        plays = {}
        for name, tasks in (("validate", "validate.yml"), ("empty", "empty.yml")):
            plays[name] = Path(folder) / f"{name}.yml"
            text = PLAY % tasks if name == "validate" else "- {hosts: all, gather_facts: false, tasks: []}\n"
            plays[name].write_text(text)
        playbook = [Path(sys.executable).with_name("ansible-playbook"), "-i", "localhost,", "-c", "local"]
        spent = {name: min(run([*playbook, path])[0] for _round in rounds) for name, path in plays.items()}
    times = {
        "check": min(float(text.splitlines()[-1]) for _spent, text in answers),
        "process": min(spent for spent, _text in answers),
        "play": max(spent["validate"] - spent["empty"], 0.0),
    }
    for name, seconds in times.items():
        print(f"arguments {name:8} {seconds * 1000:7.1f} ms   limit {LIMITS[name] * 1000:.0f} ms")
    return 1 if any(seconds > LIMITS[name] for name, seconds in times.items()) else 0


if __name__ == "__main__":
    sys.exit(main())
