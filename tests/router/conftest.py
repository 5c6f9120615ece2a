# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A router and two engines, deployed once for all tests."""

from __future__ import annotations

import subprocess
import sys

import pytest
from ansible_collections.llmfleet.sglang.tests.lab.controller import until
from ansible_collections.llmfleet.sglang.tests.lab.standin import build_wheel, harness
from ansible_collections.llmfleet.sglang.tests.router.host import HOSTS, ROOT, Lab, Load, ask


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """The hosts after check mode on the blank router, and after one deployment."""
    folder = tmp_path_factory.mktemp("router")
    hosts = [sys.executable, str(ROOT / "tests/lab/hosts.py")]
    subprocess.run([*hosts, "down", *HOSTS], check=True, capture_output=True)
    for name, address in HOSTS.items():
        subprocess.run(
            [*hosts, "up", name, "--suite=bookworm", f"--address={address}"], check=True, capture_output=True
        )
    made = Lab(folder)
    made.checked = made.play("playbooks/router.yml", "--check", "--diff")
    wheel = build_wheel.build("0.5.23+standin", folder)
    status, told = made.play("tests/router/engine.yml", engine_wheel=str(wheel), engine_model=harness.KIMI)
    assert status == 0, told[-4000:]
    for name in ("engine-1", "engine-2"):
        until(lambda name=name: answers_health(HOSTS[name]))
    made.deployed = made.play("playbooks/router.yml")
    assert made.deployed[0] == 0, made.deployed[1][-4000:]
    yield made
    subprocess.run([*hosts, "down", *HOSTS], check=True, capture_output=True)


def answers_health(address):
    """Whether an engine is up."""
    try:
        ask(f"http://{address}:30000/health")
    except OSError:
        return False
    return True


@pytest.fixture
def load(lab):
    """Starts the load generator; it is ended whatever happens."""
    made = []

    def begin(*words):
        made.append(Load(lab.folder, *words))
        return made[-1]

    yield begin
    for one in made:
        one.end()


@pytest.fixture
def restored(lab):
    """Both engines run and serve again after the test."""
    yield
    for name in ("engine-1", "engine-2"):
        lab.on_host(name, "systemctl start sglang-lab")
        until(lambda name=name: answers_health(HOSTS[name]))
        assert not lab.worker(f"http://{HOSTS[name]}:30000", "serving", host=name, service="lab").get("failed")
