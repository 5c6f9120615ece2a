# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of lab stages share on this machine: the environment of Ansible's programs, and patience."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Waits are for loaded machines; nothing here is a measure of speed.
PATIENCE = 120


def ansible_environment(**more):
    """Environment in which Ansible's programs of this interpreter find each other and the clone's settings."""
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
        **more,
    }


def offer():
    """Have what the lab's hosts install from, and its server; the runner of the tests did it before its stages."""
    if "LLMFLEET_LAB_OFFERED" not in os.environ:
        create = ["ansible-playbook", "-i", "inventories/lab", "molecule/shared/create.yml", "--skip-tags", "hosts"]
        done = subprocess.run(create, cwd=ROOT, env=ansible_environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def until(question, seconds=PATIENCE, every=0.2, what=None):
    """Ask until the answer is true, and return it; ``what`` names in the failure what was waited for."""
    deadline = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        assert time.monotonic() < deadline, (
            f"{what or question} was not true within {seconds} s; the last answer was {answer!r}"
        )
        time.sleep(every)
