# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab host with the stand-in engine behind the gateway, deployed once by site.yml for all tests."""

from __future__ import annotations

import subprocess
import sys

import pytest
from ansible_collections.llmfleet.sglang.tests.lab.controller import offer
from ansible_collections.llmfleet.sglang.tests.service.host import ADDRESS, NAME, ROOT, SUITE, UNIT, Server, until
from ansible_collections.llmfleet.sglang.tests.service.scan import Sampler

# The files in this order: what is deployed, what changes, what breaks, and last where the secrets have got to.
ORDER = [
    "test_deployment",
    "test_changes",
    "test_faults",
    "test_edited_hosts",
    "test_instances",
    "test_reboot",
    "test_secrets",
]


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: ORDER.index(item.path.stem) if item.path.stem in ORDER else len(ORDER))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test shows why: the unit's state, what the host keeps, and the end of the journal stand below it."""
    report = yield
    server = item.funcargs.get("server") if hasattr(item, "funcargs") else None
    if report.when == "call" and report.failed and server is not None:
        for title, command in (
            ("units", "systemctl status --no-pager --lines=0 'sglang-*'"),
            ("state", "cat /etc/sglang/*/state.json"),
            ("journal", "journalctl --no-pager --all --lines=80 --output=short-precise --unit='sglang-*'"),
        ):
            report.sections.append((f"{title} on {NAME}", server.on_host(command, check=False).stdout))
    return report


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The host after check mode on it while it was blank, after one deployment, and after the same once more."""
    offer()
    hosts = [sys.executable, str(ROOT / "tests/lab/hosts.py")]
    subprocess.run([*hosts, "down", NAME], check=True, capture_output=True)
    subprocess.run([*hosts, "up", NAME, f"--suite={SUITE}", f"--address={ADDRESS}"], check=True, capture_output=True)
    made = Server(tmp_path_factory.mktemp("service"))
    made.fault("")
    with Sampler(made) as made.sampler:
        made.checked = made.site("--check")
        made.left_by_check = made.on_host("ls -d /etc/sglang /opt/sglang /etc/nginx 2>&1; true")
        made.deployed = made.site()
        assert made.deployed[0] == 0, made.deployed[1][-6000:]
        made.repeated = made.site()
    made.first = made.state()["active"]
    yield made
    subprocess.run([*hosts, "down", NAME], check=True, capture_output=True)


@pytest.fixture
def healthy(server):
    """The host with the configuration of the first deployment, ready and without a fault."""
    server.fault("")
    server.on_host(f"systemctl reset-failed {UNIT}; true")
    if server.state()["active"] != server.first:
        told = server.module("service_config", name="kimi", state="active", id=server.first)
        assert "failed" not in told, told
    if server.show()["ActiveState"] not in ("active", "activating"):
        server.restart()
    until(lambda: server.show()["ActiveState"] == "active")
    return server
