# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of the repository itself share: the clone's files, its roles and its programs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir() if path.is_dir())


def pytest_generate_tests(metafunc):
    """Run a test that takes `role` once for each role."""
    if "role" in metafunc.fixturenames:
        metafunc.parametrize("role", ROLES)


@pytest.fixture(scope="session")
def root():
    """The top of the clone."""
    return ROOT


@pytest.fixture(scope="session")
def files():
    """Paths of all files that git carries or would carry, below the top of the clone."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    paths = [Path(name) for name in listed.split("\0") if name]
    return [path for path in paths if (ROOT / path).is_file()]


@pytest.fixture(scope="session")
def load():
    """A function that reads a YAML file below the top of the clone; an empty or missing one gives {}."""

    def read(path):
        path = ROOT / path
        return (yaml.safe_load(path.read_text()) or {}) if path.is_file() else {}

    return read


@pytest.fixture(scope="session")
def run():
    """A function that runs one of Ansible's programs at the top of the clone and returns (status, output, errors)."""
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }

    def call(*command):
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    return call
