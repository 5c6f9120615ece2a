# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab host with the stand-in engine and the gateway before it, deployed once for all tests."""

from __future__ import annotations

import subprocess
import sys

import pytest
from ansible_collections.llmfleet.sglang.tests.gateway.host import ADDRESS, NAME, ROOT, Gateway
from ansible_collections.llmfleet.sglang.tests.lab.controller import until
from ansible_collections.llmfleet.sglang.tests.lab.standin import build_wheel, harness


@pytest.fixture(scope="session")
def gateway(tmp_path_factory):
    """The host after check mode on it while it was blank, and after one deployment."""
    folder = tmp_path_factory.mktemp("gateway")
    hosts = [sys.executable, str(ROOT / "tests/lab/hosts.py")]
    subprocess.run([*hosts, "down", NAME], check=True, capture_output=True)
    subprocess.run([*hosts, "up", NAME, "--suite=bookworm", f"--address={ADDRESS}"], check=True, capture_output=True)
    made = Gateway(folder)
    made.checked = made.play("--check")
    made.deployed = made.play()
    assert made.deployed[0] == 0, made.deployed[1][-4000:]
    status, told = made.play(
        playbook="tests/gateway/engine.yml",
        engine_wheel=str(build_wheel.build("0.5.23+standin", folder)),
        engine_model=harness.KIMI,
    )
    assert status == 0, told[-4000:]
    until(lambda: made.ask("/health")[0] == 200)
    yield made
    subprocess.run([*hosts, "down", NAME], check=True, capture_output=True)
