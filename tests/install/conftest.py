# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts of the lab for the stage "install", and playbooks that run on them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from ansible_collections.llmfleet.sglang.tests.lab import controller

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOOL = ROOT / "tests" / "lab" / "hosts.py"
STATE = Path("/var/lib/llmfleet-lab")
PATIENCE = 300


def inventory_hosts(name):
    """{host: variables} of one of the two inventories."""
    return yaml.safe_load((HERE / name / "hosts.yml").read_text())["sglang_servers"]["children"]["lab"]["hosts"]


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.3)


class Host:
    """One host, by SSH."""

    def __init__(self, name, facts):
        self.name, self.address, self.suite = name, facts["ansible_host"], facts["lab_suite"]

    def up(self):
        self.down()
        words = ["up", self.name, "--suite", self.suite, "--address", self.address]
        subprocess.run([sys.executable, TOOL, *words], check=True, stdout=subprocess.DEVNULL)

    def down(self):
        subprocess.run([sys.executable, TOOL, "down", self.name], check=True, stdout=subprocess.DEVNULL)

    def run(self, command, check=True, given=None):
        """Run a command line as root and return what it wrote."""
        keys = ["-i", str(STATE / "ssh/id_ed25519"), "-o", f"UserKnownHostsFile={STATE}/ssh/known_hosts"]
        words = ["ssh", "-q", *keys, "-o", "StrictHostKeyChecking=yes", f"deploy@{self.address}"]
        done = subprocess.run(
            [*words, f"sudo sh -c {shlex.quote(command)}"], capture_output=True, text=True, input=given, check=False
        )
        assert done.returncode == 0 or not check, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def releases(self):
        """Names of the releases, complete or not."""
        return self.run("ls /opt/sglang/releases 2>/dev/null || true").split()

    def files(self, release):
        """Every file of a release with inode, size, mode and the time of its content."""
        return self.run(f"find {release} -printf '%p %i %s %m %T@\\n' | sort")


class Played:
    """What a playbook said."""

    def __init__(self, code, text):
        self.code, self.text = code, text
        recap = re.findall(r"^(\S+) +: ok=\d+ +changed=(\d+)", text, re.MULTILINE)
        self.changed = {name: int(changed) for name, changed in recap}

    def __str__(self):
        return self.text[-6000:]


def command(playbook, inventory, *words, **variables):
    path = str(HERE / playbook) if "/" not in playbook else str(ROOT / playbook)
    return ["ansible-playbook", "-i", str(HERE / inventory), path, *words, "--extra-vars", json.dumps(variables)]


@pytest.fixture(scope="session")
def environment():
    return {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}


@pytest.fixture(scope="session")
def play(environment):
    """play("sglang.yml", "inventory", ...): run a playbook to its end."""

    def run(*arguments, **variables):
        done = subprocess.run(
            command(*arguments, **variables),
            cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        return Played(done.returncode, done.stdout)

    return run


@pytest.fixture(scope="session")
def start(environment):
    """The same without waiting, in a session of its own."""

    def run(*arguments, **variables):
        return subprocess.Popen(
            command(*arguments, **variables),
            cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    return run


@pytest.fixture(scope="session")
def until():
    """until(condition, what): wait for it."""
    return wait_for


def boot(name):
    found = {host: Host(host, facts) for host, facts in inventory_hosts(name).items()}
    with ThreadPoolExecutor() as pool:
        list(pool.map(Host.up, found.values()))
    return found


@pytest.fixture(scope="session", autouse=True)
def offered():
    """What hosts install from. The suite has made it already when it runs several stages."""
    controller.offer()


@pytest.fixture(scope="module")
def hosts():
    """{name: host} of the inventory, blank."""
    found = boot("inventory")
    yield found
    for host in found.values():
        host.down()


@pytest.fixture(scope="module")
def offline():
    """A blank host that can be cut off."""
    (host,) = boot("offline").values()
    rules = [
        [chain, "-s", host.address, "-m", "conntrack", "--ctstate", "NEW", "-m", "comment", "--comment",
         "llmfleet-offline", "-j", "DROP"]
        for chain in ("INPUT", "FORWARD")
    ]  # fmt: skip

    def cut_off():
        for rule in rules:
            subprocess.run(["iptables", "-I", *rule], check=True)
        host.run("ip route del default")

    host.cut_off = cut_off
    yield host
    for rule in rules:
        while not subprocess.run(["iptables", "-D", *rule], capture_output=True, check=False).returncode:
            pass
    host.down()
