# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What only the installed release refuses stops the deployment while the old service runs, and goes on running."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

SCENARIO = Path(__file__).resolve().parents[1]
UNIT = "sglang-kimi.service"
FILES = ("/etc/systemd/system/sglang-kimi.service", "/etc/sglang/kimi.env", "/etc/sglang/kimi.arguments.json")


@pytest.fixture
def deploy(host):
    """Run role serve with what the host has, and with variables; returns (exit status, output)."""
    unit = host.file(FILES[0]).content_string
    patterns = {
        "serve_release_dir": r"^ExecStart=(\S+)/venv/bin/python",
        "serve_model_path": r"^ *--model-path (\S+)",
        "serve_draft_model_path": r"^ *--speculative-draft-model-path (\S+)",
    }
    installed = {name: re.search(pattern, unit, re.MULTILINE).group(1) for name, pattern in patterns.items()}

    def run(*arguments, **variables):
        done = subprocess.run(
            [
                *["ansible-playbook", "--inventory", str(SCENARIO / "inventory"), "--limit", host.backend.host],
                *["--extra-vars", json.dumps({**installed, **variables}), *arguments],
                str(SCENARIO / "serve_again.yml"),
            ],
            cwd=SCENARIO.parents[1],
            capture_output=True,
            text=True,
            env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.fixture
def untouched(host):
    """Has the service running before the test, and fails it when the service or its files are others afterwards."""

    def state():
        properties = "InvocationID,ActiveState,NRestarts,MainPID,NeedDaemonReload"
        return [
            host.check_output(f"systemctl show --property={properties} {UNIT}"),
            host.check_output(f"sha256sum {' '.join(FILES)}"),
            host.check_output(f"stat --format=%y {' '.join(FILES)}"),
        ]

    with host.sudo():
        host.check_output(f"systemctl reset-failed {UNIT}; timeout 120 systemctl start {UNIT}")
        before = state()
        yield
        assert state() == before
    assert "ActiveState=active" in before[0]


def test_what_the_table_takes_and_the_release_refuses_changes_nothing(deploy, untouched):
    options = {"cuda-graph-config": {"decoed": {"secret_access_key": "planted-4711"}}}
    for arguments in ([], ["--check", "-vvv"]):
        status, output = deploy(*arguments, serve_engine_options=options)
        assert status != 0
        assert "unknown phase 'decoed'" in output, output[-4000:]
        assert "has not been changed" in output
        assert "planted-4711" not in output


def test_a_release_that_the_settings_are_not_for_changes_nothing(deploy, untouched):
    status, output = deploy(serve_release="0.5.22")
    assert status != 0
    assert 'serve_release is "0.5.22"' in output
    assert "holds SGLang 0.5.23+standin" in output


def test_the_same_arguments_are_not_read_again(deploy, untouched):
    status, output = deploy()
    assert status == 0, output[-4000:]
    assert "changed=0" in output
