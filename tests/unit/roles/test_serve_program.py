# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that waits before and after a start of a service."""

from __future__ import annotations

import argparse
import http.server
import importlib.util
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[3] / "roles" / "serve" / "files" / "service.py"
UNIT = "sglang-kimi.service"
GROUP = f"/system.slice/{UNIT}"
LISTEN = "   0: {address}:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  0 0 4711 1 0 100 0\n"


@pytest.fixture(scope="module")
def subject():
    spec = importlib.util.spec_from_file_location("service_program", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Proc:
    """A folder like /proc."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "net").mkdir()
        self.memory(64)
        self.listen()

    def memory(self, gb):
        (self.folder / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable:   {int(gb * 1e9 / 1024)} kB\n")

    def listen(self, address="0100007F", port=30000, state="07"):
        text = "head\n" + LISTEN.format(address=address, port=port, state=state)
        (self.folder / "net" / ("tcp" if len(address) == 8 else "tcp6")).write_text(text)

    def process(self, pid, cgroup, name="sglang::schedul", state="S"):
        folder = self.folder / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "cgroup").write_text(cgroup)
        (folder / "comm").write_text(name + "\n")
        (folder / "stat").write_text(f"{pid} ({name}) {state} 1 " + " ".join(["0"] * 30))
        return folder


@pytest.fixture
def proc(tmp_path):
    return Proc(tmp_path)


def look(subject, proc, own=(), **options):
    ask = argparse.Namespace(
        **{"unit": UNIT, "host": "127.0.0.1", "port": 30000, "gpus": [], "memory_gb": None, **options}
    )
    return subject.leftovers(ask, GROUP, set(own), str(proc.folder))


@pytest.mark.parametrize(
    ("cgroup", "state", "own", "left"),
    [
        (f"0::/system.slice/{UNIT}\n", "S", [], True),
        (f"0::/system.slice/{UNIT}\n", "D", [], True),
        (f"0::/system.slice/{UNIT}/inner\n", "S", [], True),
        (f"8:pids:/x\n1:name=systemd:/system.slice/{UNIT}\n0::/\n", "S", [], True),
        # Dead already, the unit's own, another unit's, or one of the same name in a container.
        (f"0::/machine.slice/a.scope/system.slice/{UNIT}\n", "S", [], False),
        (f"0::/system.slice/{UNIT}\n", "Z", [], False),
        (f"0::/system.slice/{UNIT}\n", "S", [41], False),
        ("0::/system.slice/sglang-other.service\n", "S", [], False),
        ("0::/\n", "S", [], False),
    ],
)
def test_processes_of_the_last_instance(subject, proc, monkeypatch, cgroup, state, own, left):
    monkeypatch.setattr(subject, "ask_smi", lambda _query: [])
    proc.process(41, cgroup, state=state)
    wanted = ["processes of the last instance: 41 (sglang::schedul)"] if left else []
    assert look(subject, proc, own) == wanted


@pytest.mark.parametrize(
    ("cgroup", "group"),
    [
        (f"0::/system.slice/{UNIT}\n", GROUP),
        (f"0::/system.slice/{UNIT}/control\n", GROUP),
        (f"1:name=systemd:/system.slice/{UNIT}\n0::/\n", GROUP),
        ("0::/user.slice/session-3.scope\n", None),
        ("", None),
    ],
)
def test_the_group_of_the_unit_is_that_of_the_program(subject, proc, cgroup, group):
    proc.process(41, cgroup)
    assert subject.own_group(UNIT, 41, str(proc.folder)) == group


@pytest.mark.parametrize(
    ("address", "host", "state", "left"),
    [
        ("0100007F", "127.0.0.1", "0A", True),
        ("0100007F", "localhost", "0A", True),
        ("00000000", "127.0.0.1", "0A", True),
        ("0" * 32, "127.0.0.1", "0A", True),
        ("0100007F", "0.0.0.0", "0A", True),
        ("0000000000000000FFFF00000100007F", "127.0.0.1", "0A", True),
        ("0A4D0A0A", "127.0.0.1", "0A", False),
        # A connection that waits to be forgotten does not hold the port.
        ("0100007F", "127.0.0.1", "06", False),
    ],
)
def test_the_port(subject, proc, monkeypatch, address, host, state, left):
    monkeypatch.setattr(subject, "ask_smi", lambda _query: [])
    proc.listen(address, state=state)
    folder = proc.process(77, "0::/x.service\n", name="nginx")
    os.symlink("socket:[4711]", folder / "fd" / "3")
    wanted = ["port 30000, on which process 77 (nginx) listens"] if left else []
    assert look(subject, proc, host=host) == wanted
    assert look(subject, proc, host=host, port=30001) == []


@pytest.mark.parametrize(
    ("gpus", "cgroup", "left"),
    [
        ([], f"0::/system.slice/{UNIT}\n", True),
        (["1"], f"0::/system.slice/{UNIT}\n", True),
        (["GPU-b"], f"0::/system.slice/{UNIT}\n", True),
        (["0"], None, False),
        (["1"], None, True),
        # What another unit has on the same GPU is that unit's.
        (["1"], "0::/system.slice/other.service\n", False),
        (["1"], "0::/user.slice/session-3.scope\n", False),
        (["1"], "0::/\n", True),
    ],
)
def test_memory_of_gpus(subject, proc, monkeypatch, gpus, cgroup, left):
    answers = {"apps": [["GPU-b", "41"]], "gpu=": [["0", "GPU-a"], ["1", "GPU-b"]]}
    monkeypatch.setattr(
        subject, "ask_smi", lambda query: next(answer for key, answer in answers.items() if key in query)
    )
    if cgroup:
        proc.process(41, cgroup, state="Z")
    name = "sglang::schedul" if cgroup else "gone"
    wanted = [f"memory of GPU GPU-b, held by process 41 ({name})"] if left else []
    assert look(subject, proc, gpus=gpus) == wanted


@pytest.mark.parametrize(("asked", "left"), [(None, False), (60.0, False), (65.0, True)])
def test_host_memory(subject, proc, monkeypatch, asked, left):
    monkeypatch.setattr(subject, "ask_smi", lambda _query: [])
    found = look(subject, proc, memory_gb=asked)
    assert found == (["host memory: 64.0 GB are available and 65 GB are asked for"] if left else [])


def run(*words, **environment):
    return subprocess.run(
        [sys.executable, "-I", "-S", str(PROGRAM), *words],
        capture_output=True, text=True, timeout=120, env={**os.environ, **environment}, check=False,
    )  # fmt: skip


def test_a_start_is_refused_with_a_sentence_until_the_port_is_free():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = ["free", f"--unit={UNIT}", "--host=127.0.0.1", f"--port={port}", "--seconds"]
        done = run(*words, "0")
        assert done.returncode == 1
        assert f"{UNIT} is not started: after 0 s this is still left: port {port}, on which process" in done.stderr
        assert "serve_leftover_timeout_seconds" in done.stderr
        waits = subprocess.Popen(
            [sys.executable, "-I", "-S", str(PROGRAM), *words, "300"], stdout=subprocess.PIPE, text=True
        )
        assert f"waits for port {port}" in waits.stdout.readline()
    # The port is free from here on.
    with waits:
        assert waits.wait(120) == 0


class Server:
    """A server whose health comes after a while."""

    def __init__(self, looks):
        self.looks = looks
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.looks -= 1
                self.send_response(503 if outer.looks > 0 else 200)
                self.end_headers()

            def log_message(self, *_words):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/health"


@pytest.fixture
def process():
    running = subprocess.Popen(["sleep", "600"])
    yield running
    running.kill()
    running.wait()


def ready(url, pid, seconds):
    return run("ready", f"--unit={UNIT}", f"--url={url}", f"--seconds={seconds}", MAINPID=str(pid))


def test_a_start_is_complete_when_the_server_answers(process):
    server = Server(looks=2)
    done = ready(server.url, process.pid, 100)
    assert done.returncode == 0, done.stderr
    assert server.looks == 0


def test_a_start_that_takes_too_long_has_failed(process):
    done = ready(Server(looks=10**6).url, process.pid, 1)
    assert done.returncode == 1
    assert "was not ready within 1 s, it last answered with status 503" in done.stderr


def test_a_server_that_nobody_reaches_is_told(process):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        done = ready(f"http://127.0.0.1:{unused.getsockname()[1]}/health", process.pid, 1)
    assert done.returncode == 1 and "it does not answer" in done.stderr


def test_a_main_process_that_died_is_not_waited_for(process):
    process.kill()
    # Whether it is reaped or not yet: both are dead.
    server = Server(looks=10**6)
    done = ready(server.url, process.pid, 100)
    assert done.returncode == 1
    assert f"its main process {process.pid} ended" in done.stderr
    process.wait()
    # Another server that answers is not this one.
    assert ready(Server(looks=0).url, process.pid, 100).returncode == 1
