# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts of six platforms, the repositories that they install from, and the role run on them."""

from __future__ import annotations

import http.server
import json
import os
import platform
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LAB = ROOT / "tests" / "lab"
STATE = Path("/var/lib/llmfleet-lab")
GATEWAY = "10.213.77.1"
PLATFORMS = yaml.safe_load((HERE / "hosts.yml").read_text())["all"]["children"]
HOSTS = {name: facts for group in PLATFORMS.values() for name, facts in group["hosts"].items()}


class Offer:
    """The repositories, served over HTTP; `broken` makes every answer for that path an error."""

    def __init__(self, folder):
        self.folder, self.broken = folder, ""
        offer = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def do_GET(self):
                if offer.broken and re.search(offer.broken, self.path):
                    self.send_error(503, "the mirror is broken")
                else:
                    super().do_GET()

            def log_message(self, *_words):
                pass

        self.server = http.server.ThreadingHTTPServer((GATEWAY, 0), partial(Handler, directory=str(folder)))
        self.url = f"http://{GATEWAY}:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def build(self, layout, *options):
        """Build the repository of one platform; what it offered before is gone."""
        tool = "build_rpm_repo.py" if layout.startswith("rhel") else "build_repo.py"
        argv = [sys.executable, str(LAB / "cuda_repo" / tool), "--out", str(self.folder), "--distribution", layout]
        argv += ["--key-dir", str(self.folder.parent / f"key-{layout}"), "--headers", platform.release(), *options]
        done = subprocess.run(argv, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


class Run:
    """What a run of the playbook said."""

    def __init__(self, done):
        self.rc, self.text = done.returncode, done.stdout + done.stderr
        self.words = " ".join(self.text.split())
        recap = re.findall(r"^(\S+) +: ok=\d+ +changed=(\d+) .* failed=(\d+)", self.text, re.MULTILINE)
        self.changed = {name: int(changed) for name, changed, _failed in recap}
        self.failed = {name for name, _changed, failed in recap if int(failed)}
        self.served = self.text.count("SERVE ")

    def told(self, name):
        """What the tasks said of one host, on one line."""
        said = re.split(r"^(?=[a-z]+: \[|TASK |PLAY )", self.text, flags=re.MULTILINE)
        return " ".join(" ".join(part for part in said if part.split("[", 1)[-1].startswith(f"{name}]")).split())

    def __str__(self):
        return self.text[-6000:]


@pytest.fixture(scope="session")
def offer(tmp_path_factory):
    subprocess.run([sys.executable, str(LAB / "hosts.py"), "network-up"], check=True, stdout=subprocess.DEVNULL)
    offer = Offer(tmp_path_factory.mktemp("offer") / "www")
    offer.folder.mkdir()
    for facts in HOSTS.values():
        offer.build(facts["layout"])
    yield offer
    offer.server.shutdown()


def play(name, offer, *words, inventories=(), **variables):
    values = json.dumps({"offer_url": offer.url, **variables})
    argv = ["ansible-playbook", "-i", str(HERE / "hosts.yml")]
    argv += [word for path in inventories for word in ("-i", str(path))]
    argv += [str(HERE / name), "-e", values, *words]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "NO_COLOR": "1", "COLUMNS": "10000"}
    return Run(subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, env=environment))


@pytest.fixture(scope="session")
def role(offer):
    """Runs the role: role("host,host", "--check", variable=value)."""

    def run(limit, *words, **variables):
        return play("role.yml", offer, "--limit", limit, *words, **variables)

    return run


@pytest.fixture(scope="session")
def play_each(offer, tmp_path_factory):
    """Runs a playbook on several hosts, with variables for each: play_each("role.yml", {"host": {variable: value}})."""

    def run(name, variables, *words):
        path = tmp_path_factory.mktemp("each") / "variables.json"
        path.write_text(json.dumps({"all": {"hosts": variables}}))
        return play(name, offer, "--limit", ":".join(variables), *words, inventories=[path])

    return run


@pytest.fixture(scope="session")
def role_each(play_each):
    """The same for the role: role_each({"host": {variable: value}})."""
    return partial(play_each, "role.yml")


@pytest.fixture(scope="session", autouse=True)
def hosts(offer):
    """Boot all hosts, side by side, and make their platforms."""

    def up(name):
        facts = HOSTS[name]
        argv = [sys.executable, str(LAB / "hosts.py"), "up", name]
        argv += ["--suite", facts["lab_suite"], "--address", facts["ansible_host"]]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)

    down = [sys.executable, str(LAB / "hosts.py"), "down", *HOSTS]
    subprocess.run(down, check=True, stdout=subprocess.DEVNULL)
    try:
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(up, HOSTS))
        prepared = play("prepare.yml", offer)
        assert prepared.rc == 0, str(prepared)
        yield
    finally:
        subprocess.run(down, check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def on():
    """Runs a shell command on a host as root: on("host", "command")."""

    def run(name, command, check=True):
        keys = ["-i", str(STATE / "ssh/id_ed25519"), "-o", f"UserKnownHostsFile={STATE}/ssh/known_hosts"]
        keys += ["-o", "ControlMaster=auto", "-o", "ControlPersist=60s", "-o", f"ControlPath={STATE}/ssh/to-%C"]
        argv = ["ssh", "-q", *keys, f"deploy@{HOSTS[name]['ansible_host']}", "sudo sh -s"]
        done = subprocess.run(argv, input=command, capture_output=True, text=True)
        assert done.returncode == 0 or not check, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    return run


@pytest.fixture(scope="session")
def versions(on):
    """Installed packages of a host and their versions without epoch and revision, and those that are held."""

    def read(name):
        if name in PLATFORMS["apt"]["hosts"]:
            text = on(
                name, "dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\\n' | sed -n 's/^installed //p'"
            )
            held = on(name, "apt-mark showhold").split()
        else:
            text = on(name, "rpm -qa --qf '%{NAME} %{VERSION}-%{RELEASE}\\n'")
            locks = on(name, "cat /etc/dnf/plugins/versionlock.list 2>/dev/null || true")
            held = re.findall(r"^([a-z].*)-\d+:", locks, re.MULTILINE)
        return {name: value.split("-")[0] for name, value in map(str.split, text.splitlines())}, set(held)

    return read
