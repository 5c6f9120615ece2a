# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet of lab hosts: one is deployed, the others are booted from its disk. For the tests and for the bench."""

from __future__ import annotations

import datetime
import json
import re
import resource
import subprocess
import sys
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ansible_collections.llmfleet.sglang.tests.lab import controller

ROOT = Path(__file__).resolve().parents[2]
INVENTORY = "tests/scale/inventory"
HOSTS = [sys.executable, str(ROOT / "tests/lab/hosts.py")]
BASE = "sc-00"
# Booting is work for the whole machine: more at a time would be slower.
BOOTED_AT_ONCE = 4

#: What a program did: exit status, output, seconds that passed, and seconds of processor time on the controller.
Done = namedtuple("Done", "code output seconds processor")


def name_of(number):
    """Name of a host; number 0 is the one that is deployed."""
    return f"sc-{number:02d}"


def address_of(name):
    """Address of a host, as the inventory has it."""
    return f"10.213.77.{200 + int(name.rsplit('-', 1)[1])}"


def hosts(*words):
    """Run the lab's tool; returns what it said."""
    done = subprocess.run([*HOSTS, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"hosts.py {' '.join(words)}: {done.stderr}")
    return json.loads(done.stdout)


def recap(output):
    """Counts of each host at the end of a playbook's output, as ``{host: {"ok": 5, ...}}``."""
    found = {}
    for line in output.partition("PLAY RECAP")[2].splitlines():
        match = re.match(r"^(\S+)\s+: (ok=.*)$", line)
        if match:
            found[match[1]] = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", match[2])}
    return found


def role_seconds(log):
    """Seconds of each role in a log of Ansible (``log_path``), the longest first, as ``{role: (tasks, seconds)}``.

    A task lasts until the next one begins, so that the controller's part of it counts.
    """
    found, role, began = {}, None, None
    for line in log.splitlines():
        match = re.match(r"^(\S+ \S+?),(\d{3}) .*?\| (PLAY RECAP|PLAY|TASK|RUNNING HANDLER)(?: \[(.*?)\])? \*", line)
        if not match:
            continue
        now = datetime.datetime.fromisoformat(match[1]).timestamp() + int(match[2]) / 1000
        if role:
            tasks, seconds = found.get(role, (0, 0.0))
            found[role] = tasks + 1, seconds + now - began
        named = re.match(r"^llmfleet\.sglang\.(\w+) : ", match[4] or "")
        role, began = (named[1] if named else None), now
    return dict(sorted(found.items(), key=lambda entry: -entry[1][1]))


class Fleet:
    """The hosts sc-01 to sc-NN, alike, with the stand-in engine of 8 ranks each."""

    def __init__(self):
        self.up = []

    def names(self, count):
        """The first so many hosts."""
        return [name_of(number) for number in range(1, count + 1)]

    def program(self, *words, **environment):
        """Run one of Ansible's programs on the fleet's inventory."""
        settings = controller.ansible_environment(**environment)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.monotonic()
        done = subprocess.run(
            [words[0], "--inventory", INVENTORY, *words[1:]],
            cwd=ROOT, env=settings, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        seconds = time.monotonic() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Done(done.returncode, done.stdout + done.stderr, seconds, processor)

    def play(self, playbook, count, *words, **environment):
        """Run a playbook on the first so many hosts."""
        limit = ",".join(self.names(count))
        return self.program("ansible-playbook", "--limit", limit, *words, playbook, **environment)

    def ping(self, count):
        """Run ``ansible all -m ping`` on the first so many hosts."""
        return self.program("ansible", "all", "-m", "ping", "--limit", ",".join(self.names(count)))

    def prepare(self):
        """Deploy one host, and stop it."""
        controller.offer()
        self.down()
        hosts("up", BASE, f"--address={address_of(BASE)}")
        self.up.append(BASE)
        done = self.program("ansible-playbook", "--limit", BASE, "site.yml")
        if done.code:
            raise RuntimeError(done.output[-6000:])
        hosts("stop", BASE)

    def boot(self, count):
        """Have the first so many hosts, a few at a time."""

        def one(name):
            hosts("up", name, "--like", BASE, f"--address={address_of(name)}")

        missing = [name for name in self.names(count) if name not in self.up]
        self.up += missing
        with ThreadPoolExecutor(BOOTED_AT_ONCE) as pool:
            list(pool.map(one, missing))

    def down(self):
        """Remove all hosts that the inventory has."""
        there = {host["name"] for host in hosts("list")["hosts"]}
        names = [name for name in map(name_of, range(33)) if name in there]
        if names:
            hosts("down", *names)
        self.up = []
