#!/usr/bin/env python3
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a host does not serve while a rollout changes it, against the start of its engine alone.

One lab host behind a router, with the stand-in engine. It is rolled from one release to the other; meanwhile its engine
and the router are asked every 50 ms. The engine's own start is what systemd measured, from the process to readiness.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

# The tests' own fleet, from the clone that holds this file.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".venv" / "collections"))
from ansible_collections.llmfleet.sglang.tests.fleet.fleet import BASE, ROUTER, UNIT, A, B, Fleet
from ansible_collections.llmfleet.sglang.tests.lab import controller

HOST = "fl-1"
MOST_OVERHEAD_SECONDS = 5.0


def answers(url):
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
        return answer.status == 200
    return False


class Gaps(threading.Thread):
    """Asks questions all the time, and knows how long each was answered with no."""

    def __init__(self, questions):
        super().__init__()
        self.questions, self.ended = questions, threading.Event()
        self.seconds = dict.fromkeys(questions, 0.0)

    def run(self):
        since = {}
        while not self.ended.is_set():
            for name, question in self.questions.items():
                good, now = question(), time.monotonic()
                if not good:
                    since.setdefault(name, now)
                elif name in since:
                    self.seconds[name] += now - since.pop(name)
            self.ended.wait(0.05)


def started(fleet):
    """Seconds that systemd counted from the engine's process to its readiness."""
    names = "ActiveEnterTimestampMonotonic,ExecMainStartTimestampMonotonic"
    told = fleet.on(HOST, f"systemctl show --property {names} {UNIT}")
    shown = dict(line.split("=") for line in told.splitlines())
    ready, began = (int(shown[name]) for name in names.split(","))
    return (ready - began) / 1e6


def prepare(fleet):
    controller.offer()
    fleet.lab("up", BASE, "--suite=bookworm", f"--address={fleet.address[BASE]}")
    assert (played := fleet.play("prepare.yml")).code == 0, played
    fleet.lab("stop", BASE)
    for host in (HOST, ROUTER):
        fleet.lab("up", host, "--like", BASE, f"--address={fleet.address[host]}")
    assert (played := fleet.play("router.yml", site_hosts=HOST)).code == 0, played


def main():
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder))
        settings = {"site_hosts": HOST, "rollout_serving_minimum": 0}
        try:
            prepare(fleet)
            assert (played := fleet.play("rollout.yml", lab_release=A, **settings)).code == 0, played
            gaps = Gaps(
                {
                    "engine": lambda: answers(f"http://{fleet.address[HOST]}:30000/health"),
                    "router": lambda: fleet.listed().get(HOST, False),
                }
            )
            gaps.start()
            try:
                played = fleet.play("rollout.yml", lab_release=B, **settings)
            finally:
                gaps.ended.set()
                gaps.join()
            assert played.code == 0, played
            start = started(fleet)
        finally:
            fleet.lab("down", HOST, ROUTER, BASE)
    overhead = gaps.seconds["engine"] - start
    print(f"rollout: the engine's own start took {start:.1f} s")
    print(f"rollout: the engine did not answer for {gaps.seconds['engine']:.1f} s, {overhead:.1f} s more")
    print(f"rollout: the host was out of the router for {gaps.seconds['router']:.1f} s: drain, switch, gate")
    if overhead > MOST_OVERHEAD_SECONDS:
        print(f"bench: more than {MOST_OVERHEAD_SECONDS:.0f} s are lost beside the engine's start", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
