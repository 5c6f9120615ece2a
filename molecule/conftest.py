# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of all scenarios share."""

from __future__ import annotations

import json

import pytest

UNIT = "sglang-kimi.service"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test shows why: the unit's state and the end of its journal stand below it."""
    report = yield
    host = item.funcargs.get("host") if hasattr(item, "funcargs") else None
    if report.when == "call" and report.failed and host is not None:
        for title, command in (
            ("unit", f"systemctl status --no-pager --lines=0 {UNIT}"),
            ("journal", f"journalctl --no-pager --lines=60 --output=short-iso --unit={UNIT}"),
        ):
            with host.sudo():
                report.sections.append((f"{title} on {host.backend.hostname}", host.run(command).stdout))
    return report


@pytest.fixture
def properties(host):
    """Properties of the unit as systemd tells them."""

    def show(unit=UNIT):
        lines = host.check_output(f"systemctl show {unit}").splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    return show


@pytest.fixture
def records(host):
    """Journal records of the unit, of its current invocation or of all."""

    def read(invocation=None, unit=UNIT):
        match = f"_SYSTEMD_INVOCATION_ID={invocation}" if invocation else f"--unit={unit}"
        with host.sudo():
            text = host.check_output(f"journalctl --all --no-pager --output=json {match}")
        return [json.loads(line) for line in text.splitlines()]

    return read


@pytest.fixture
def fact(host):
    """The verdict that was kept on the host."""
    return json.loads(host.file("/etc/ansible/facts.d/sglang_kimi.fact").content_string)


@pytest.fixture
def http(host):
    """Ask the server from the host itself; returns (status, body)."""

    def ask(path, port=30000):
        done = host.run(f"curl --silent --max-time 60 --write-out '\\n%{{http_code}}' http://127.0.0.1:{port}{path}")
        body, _, status = done.stdout.rpartition("\n")
        return int(status), body

    return ask
