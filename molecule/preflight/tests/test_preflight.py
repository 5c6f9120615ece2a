# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each round of faults is found by the role as it runs on booted hosts: these codes at these levels, and no other."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
SCENARIO = ROOT / "molecule" / "preflight"
ROUNDS = yaml.safe_load((SCENARIO / "vars" / "rounds.yml").read_text())["rounds"]
HOSTS = ["pre-12", "pre-13"]


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """(what was found on each host, what the play printed)."""
    folder = tmp_path_factory.mktemp("results")
    done = subprocess.run(
        [
            "ansible-playbook",
            "-i",
            str(SCENARIO / "inventory"),
            str(SCENARIO / "look.yml"),
            "-e",
            f"look_results={folder}",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORCE_COLOR": "0"},  # Molecule forces colours
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in HOSTS}, done.stdout


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("faults", ROUNDS, ids=lambda faults: faults["name"])
def test_exactly_the_faults_are_found(run, name, faults):
    found = [f"{row['level']} {row['code']}" for row in run[0][name][faults["name"]]]
    assert found == faults["found"]


@pytest.mark.parametrize("name", HOSTS)
def test_everything_wrong_stands_in_one_report(run, name):
    (faults,) = [faults for faults in ROUNDS if faults["name"] == "all at once"]
    wanted = [text.upper().split() for text in faults["found"]]
    errors = len([level for level, _code in wanted if level == "ERROR"])
    head = f"{name}: {errors} errors, {len(wanted) - errors} warnings"
    report = run[1][run[1].rindex(head) :].splitlines()
    report = report[: 3 * len(wanted) + 1]
    print("\n".join(line.strip() if "needed:" not in line and "mend:" not in line else line for line in report))
    assert [re.match(r" *(ERROR|WARNING) (\w+): .+\.$", line).groups() for line in report[1::3]] == [
        (level, code.lower()) for level, code in wanted
    ]
    assert all(line.strip().startswith("needed: ") for line in report[2::3])
    assert all(line.strip().startswith("mend: ") for line in report[3::3])


def test_every_code_of_the_role_was_found_once(run):
    sys.path.insert(0, str(ROOT / ".venv" / "collections"))
    from ansible_collections.llmfleet.sglang.plugins.plugin_utils import preflight_rules

    told = {f"{row['level']} {row['code']}" for found in run[0].values() for rows in found.values() for row in rows}
    rules = preflight_rules.ORDERED
    assert {known.code for known in rules} == {text.split()[1] for text in told}
    # Errors that take a driver which role cuda is not to install, or a journal that nobody reads, are unit tests'.
    every = {f"{level} {known.code}" for known in rules for level in known.levels}
    assert every - told == {"warning journal_level", "warning gpu_driver"}
