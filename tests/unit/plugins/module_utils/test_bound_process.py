# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program that never outlives the one that started it."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import bound_process

ENVIRONMENT = {"PATH": os.environ["PATH"]}


def running(pid):
    """Whether a process is there and no zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stream:
            return stream.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_status_and_both_outputs_come_back(tmp_path):
    said = bound_process.run(["sh", "-c", "pwd; echo bad >&2; exit 3"], ENVIRONMENT, tmp_path, 60)
    assert said == (3, f"{tmp_path}\n", "bad\n")


def test_a_program_that_is_not_there_is_an_oserror(tmp_path):
    with pytest.raises(FileNotFoundError):
        bound_process.run(["no-such-program"], ENVIRONMENT, tmp_path, 60)


def test_a_program_that_takes_too_long_is_ended(tmp_path):
    with pytest.raises(subprocess.TimeoutExpired):
        bound_process.run(["sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 600"], ENVIRONMENT, tmp_path, 2)
    assert not running((tmp_path / "pid").read_text().strip())


def test_a_program_dies_with_a_parent_that_is_killed(tmp_path):
    code = (
        "import sys; from ansible_collections.llmfleet.sglang.plugins.module_utils import bound_process;"
        f"bound_process.run(['sh', '-c', 'echo $$ > {tmp_path}/part; mv {tmp_path}/part {tmp_path}/pid;"
        f" exec sleep 600'], {ENVIRONMENT}, '/', 600)"
    )
    path = os.pathsep.join(entry for entry in sys.path if entry)
    parent = subprocess.Popen([sys.executable, "-c", code], env={**ENVIRONMENT, "PYTHONPATH": path})
    deadline = time.monotonic() + 60
    while not (tmp_path / "pid").exists():
        assert time.monotonic() < deadline and parent.poll() is None
        time.sleep(0.05)
    pid = (tmp_path / "pid").read_text().strip()
    assert running(pid)
    parent.kill()
    parent.wait()
    while running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)
