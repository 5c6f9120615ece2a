# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet of stage "fleet": how it is played on, watched, loaded and broken."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import yaml
from ansible_collections.llmfleet.sglang.tests.lab import controller

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
STATE = Path("/var/lib/llmfleet-lab")
HOSTS = ("fl-1", "fl-2", "fl-3", "fl-4")
ROUTER, BASE = "fl-lb", "fl-base"
A, B = "0.5.16", "0.5.23"
UNIT = "sglang-kimi.service"
# Waits are for loaded machines; nothing here is a measure of speed.
PATIENCE = 600


def addresses(inventory):
    """{host: address} of an inventory."""
    groups = yaml.safe_load((inventory / "hosts.yml").read_text())["lab"]["children"].values()
    return {name: facts["ansible_host"] for group in groups for name, facts in group["hosts"].items()}


def until(question, what, seconds=PATIENCE):
    """Ask until the answer is true, and return it."""
    return controller.until(question, seconds, 0.3, what)


def is_back(fleet, hosts):
    """Tell whether all of the hosts are on A, verified, and served."""
    written = fleet.written()
    return all(
        fleet.stands(host) == (A, True, False) and written.get(host, {}).get("state") == "serving" for host in hosts
    )


class Played:
    """What a playbook said."""

    def __init__(self, code, text):
        self.code, self.text = code, text
        # Messages are broken into lines, quoted and indented; words are looked for in one line.
        self.words = " ".join(text.split())

    def table(self):
        """{host: [batch, outcome, routers]} of the table at the end."""
        told = self.text.rpartition("TASK [llmfleet.sglang.rollout : Show what became of each host]")[2]
        rows = re.findall(r"^ *- '?(\w+-\d) +(\S+) +(.+?)  +(\S.*?)'?$", told, re.MULTILINE)
        return {host: [batch, outcome, routers] for host, batch, outcome, routers in rows}

    def __str__(self):
        return self.text[-7000:]


class Fleet:
    """The hosts of an inventory and the router in front of them."""

    def __init__(self, folder, inventory=HERE / "inventory", router=ROUTER):
        self.folder, self.inventory, self.router = folder, inventory, router
        self.address = addresses(inventory)
        self.environment = controller.ansible_environment()

    # -- hosts -----------------------------------------------------------------------------------------------------

    def lab(self, *words):
        """Run the lab's tool for hosts and return its answer."""
        words = [sys.executable, ROOT / "tests/lab/hosts.py", *words]
        return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout or "{}")

    def running(self):
        """Names of the lab's hosts that run."""
        return [host["name"] for host in self.lab("list")["hosts"] if host["running"]]

    def on(self, host, command, check=True, given=None):
        """Run a command line as root and return what it wrote."""
        keys = ["-i", str(STATE / "ssh/id_ed25519"), "-o", f"UserKnownHostsFile={STATE}/ssh/known_hosts"]
        keys += ["-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=20"]
        # One connection serves all looks: a new one takes half a second of a core.
        keys += ["-o", "ControlMaster=auto", "-o", "ControlPersist=60", "-o", f"ControlPath={self.folder}/%h"]
        words = ["ssh", "-q", *keys, f"deploy@{self.address[host]}", f"sudo sh -c {shlex.quote(command)}"]
        done = subprocess.run(words, capture_output=True, text=True, input=given, check=False)
        assert done.returncode == 0 or not check, f"{host}: {command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def state(self, host):
        """What the host keeps of its service."""
        return json.loads(self.on(host, "cat /etc/sglang/kimi/state.json"))

    def release(self, host):
        """Release of the active configuration."""
        return self.state(host)["active"].split("+")[0]

    def stands(self, host):
        """(release, whether this very start was verified, whether a rollout is under way) of a host."""
        state = self.state(host)
        invocation = self.on(host, f"systemctl show --property InvocationID --value {UNIT}")
        newest = (state["verified"] or [{}])[-1]
        proved = newest.get("id") == state["active"] and newest.get("invocation_id") == invocation
        return state["active"].split("+")[0], proved, state["rollout"] is not None

    def fault(self, host, text):
        """Faults of release B on one host."""
        self.on(host, f"cat > /etc/llmfleet-faults-{B}", given=text + "\n")

    def workers(self):
        """The router's own list."""
        with urllib.request.urlopen(f"http://{self.address[self.router]}:30100/workers", timeout=20) as answer:
            return json.load(answer)["workers"]

    def entries(self):
        """{url: entry} of what is written down at the router."""
        return json.loads(self.on(self.router, "cat /etc/sglang-router/workers.json"))["workers"]

    def listed(self):
        """{host: state} as the router's own list has it: serving where it is there and healthy."""
        names = {address: name for name, address in self.address.items()}
        return {
            names[re.search(r"[\d.]+(?=:\d+/?$)", worker["url"]).group(0)]: worker.get("is_healthy", True)
            for worker in self.workers()
        }

    def written(self):
        """{host: entry} of what is written down at the router."""
        return {entry["host"]: entry for entry in self.entries().values()}

    # -- playbooks -------------------------------------------------------------------------------------------------

    def command(self, playbook, *words, **variables):
        """Command line of a playbook."""
        path = str(HERE / playbook) if playbook == "prepare.yml" else str(ROOT / "playbooks" / playbook)
        # Staged once, by the preparation.
        variables = {"rollout_stage_enabled": False, **variables}
        return ["ansible-playbook", "-i", str(self.inventory), path, *words, "-e", json.dumps(variables)]

    def play(self, playbook, *words, **variables):
        """Run a playbook to its end."""
        done = subprocess.run(
            self.command(playbook, *words, **variables),
            cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        return Played(done.returncode, done.stdout)

    @contextlib.contextmanager
    def playing(self, playbook, *words, **variables):
        """Run a playbook beside the block; what it said is there when the block has ended."""
        path = self.folder / f"play-{time.monotonic_ns()}.log"
        with path.open("w") as stream:
            running = subprocess.Popen(
                self.command(playbook, *words, **variables),
                cwd=ROOT, env=self.environment, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        running.told = lambda: Played(running.poll(), path.read_text())
        try:
            yield running
            running.wait(PATIENCE * 2)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()

    def wait_phase(self, host, *phases, running=None, stale=None):
        """Wait until a rollout has reached one of these phases with a host; returns the phase.

        stale: what an earlier rollout, which was killed, had left written down.
        """

        def reached():
            entry = self.state(host)["rollout"] or {}
            found = None if entry == stale else entry.get("phase")
            assert found in phases or running is None or running.poll() is None, running.told()
            return found if found in phases else None

        return until(reached, f"phase {phases} of {host}")

    # -- load and capacity -----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def load(self, streams=8, *words):
        """Keep streams open; the summary is there when the block has ended."""
        path = self.folder / "load.json"
        path.unlink(missing_ok=True)
        words = [*words, "--url", f"http://{self.address[self.router]}:30100", f"--streams={streams}", "--output", path]
        running = subprocess.Popen([sys.executable, ROOT / "tests/lab/load.py", "--model=kimi-k2.5", *words])
        summary = {}
        try:
            until(path.exists, "the first summary of the load")
            yield summary
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(PATIENCE)
            summary.update(json.loads(path.read_text()))

    @contextlib.contextmanager
    def watched(self):
        """Look all the time how many hosts the router serves; [(hosts that serve)] is there afterwards."""
        ended, seen = threading.Event(), []

        def look():
            while not ended.is_set():
                with contextlib.suppress(OSError, ValueError):
                    seen.append(sorted(host for host, healthy in self.listed().items() if healthy))
                ended.wait(0.3)

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield seen
        finally:
            ended.set()
            thread.join()

    @contextlib.contextmanager
    def cut_off(self, host):
        """Nobody on this machine reaches SSH of the host meanwhile; connections that are open break."""
        rule = ["OUTPUT", "-d", self.address[host], "-p", "tcp", "--dport", "22", "-m", "comment", "--comment"]
        rule += ["llmfleet-fleet", "-j", "REJECT", "--reject-with", "tcp-reset"]
        subprocess.run(["iptables", "-I", *rule], check=True)
        try:
            yield
        finally:
            subprocess.run(["iptables", "-D", *rule], check=True)
