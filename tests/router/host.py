# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The router and the engines of its tests: how they are deployed, asked and looked into."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from ansible_collections.llmfleet.sglang.tests.lab import controller
from ansible_collections.llmfleet.sglang.tests.lab.controller import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
STATE = Path("/var/lib/llmfleet-lab")
HOSTS = {"router-1": "10.213.77.180", "engine-1": "10.213.77.181", "engine-2": "10.213.77.182"}
URLS = {f"http://{HOSTS[name]}:30000": name for name in ("engine-1", "engine-2")}
ROUTER = f"http://{HOSTS['router-1']}:30100"


def ask(url):
    """Text of an address."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=30) as answer:
        return answer.read().decode()


class Load:
    """The load generator, in the background."""

    def __init__(self, folder, *words):
        self.output = folder / "load.json"
        self.output.unlink(missing_ok=True)
        command = [sys.executable, str(ROOT / "tests/lab/load.py"), "--url", ROUTER, "--output", str(self.output)]
        self.process = subprocess.Popen([*command, *words])

    def summary(self):
        """What became of the requests so far."""
        return json.loads(self.output.read_text()) if self.output.exists() else {"open": 0, "whole": 0}

    def end(self):
        """Let the streams end; returns the summary."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)
        return self.summary()


class Lab:
    """The deployed hosts."""

    def __init__(self, folder):
        self.folder = folder

    def program(self, *words):
        """Run one of Ansible's programs; returns (status, what it said)."""
        environment = controller.ansible_environment(COLUMNS="250")
        done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def play(self, playbook, *words, **variables):
        """Run a playbook; returns (status, what it said)."""
        extra = ["--extra-vars", json.dumps(variables)] if variables else []
        return self.program("ansible-playbook", "--inventory", "tests/router/inventory", *extra, *words, playbook)

    def worker(self, url, state, **options):
        """Run module router_worker on the router; returns its result."""
        arguments = json.dumps({"url": url, "state": state, **options})
        words = [
            "--become",
            "-m",
            "llmfleet.sglang.router_worker",
            "-a",
            arguments,
            "-e",
            "ansible_python_interpreter=/usr/bin/python3",
        ]
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1"}
        environment["ANSIBLE_STDOUT_CALLBACK"] = "ansible.builtin.oneline"
        program = Path(sys.executable).parent / "ansible"
        done = subprocess.run(
            [program, "--inventory", "tests/router/inventory", "router-1", *words],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        said = re.search(r"(?m)^router-1 \| (\S+) *=> (\{.*\})$", done.stdout)
        assert said, done.stdout + done.stderr
        return {**json.loads(said[2]), "failed": said[1].startswith("FAILED")}

    def on_host(self, name, command):
        """Run a command as root on a host; returns what it wrote."""
        keys = ["-i", str(STATE / "ssh/id_ed25519"), "-o", f"UserKnownHostsFile={STATE}/ssh/known_hosts"]
        keys += ["-o", "StrictHostKeyChecking=yes"]
        quoted = "sudo sh -c '" + command.replace("'", "'\\''") + "'"
        done = subprocess.run(
            ["ssh", "-q", *keys, "-o", "ConnectTimeout=20", f"deploy@{HOSTS[name]}", quoted],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.returncode} {done.stdout} {done.stderr}"
        return done.stdout.strip()

    def workers(self):
        """{engine: record} of the running router."""
        found = json.loads(ask(f"{ROUTER}/workers"))["workers"]
        return {URLS[worker["url"]]: worker for worker in found}

    def served(self):
        """Names of the engines that the router has and calls healthy."""
        return sorted(name for name, worker in self.workers().items() if worker["is_healthy"])

    def answers(self, name):
        """Generations that an engine has taken so far, as its journal has them."""
        return int(self.on_host(name, "journalctl -u sglang-lab -o cat | grep -c 'POST /v1/chat/completions' || true"))

    def running(self, name):
        """Generations that an engine runs."""
        text = ask(f"http://{HOSTS[name]}:30000/metrics")
        return float(re.search(r"(?m)^sglang:num_running_reqs\{[^}]*\} (\S+)", text)[1])
