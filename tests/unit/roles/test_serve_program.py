# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that waits before and after a start of a service."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
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


# A server whose health comes after a while, as a process of its own: family, address, port and number of looks until it
# is healthy. With --child the listening process is a child of the one that was started.
SERVER = """
import http.server, os, socket, sys, time
family, address, port, looks = sys.argv[1:5]
if "--child" in sys.argv and os.fork():
    time.sleep(600)

class Handler(http.server.BaseHTTPRequestHandler):
    looks = int(looks)
    def do_GET(self):
        Handler.looks -= 1
        self.send_response(503 if Handler.looks > 0 else 200)
        self.end_headers()
    def log_message(self, *words):
        pass

class Server(http.server.ThreadingHTTPServer):
    address_family = getattr(socket, family)
    def server_bind(self):
        if "--shared" in sys.argv:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        super().server_bind()

server = Server((address, int(port)), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@pytest.fixture
def serving():
    """A function that starts a server: (process, port)."""
    started = []

    def start(looks=0, *options, address="127.0.0.1", port=0, family="AF_INET"):
        words = [sys.executable, "-c", SERVER, family, address, str(port), str(looks), *options]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
        started.append(process)
        return process, int(process.stdout.readline())

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


@pytest.fixture
def process():
    running = subprocess.Popen(["sleep", "600"])
    yield running
    running.kill()
    running.wait()


def ready(port, pid, seconds, host="127.0.0.1"):
    url = f"http://{host}:{port}/health"
    return run("ready", f"--unit={UNIT}", f"--url={url}", f"--seconds={seconds}", MAINPID=str(pid))


@pytest.mark.parametrize("options", [(), ("--child",)], ids=["main", "child"])
def test_a_start_is_complete_when_the_server_answers(serving, options):
    main, port = serving(2, *options)
    done = ready(port, main.pid, 100)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


@pytest.mark.parametrize(
    ("family", "address", "host"),
    [
        ("AF_INET", "0.0.0.0", "127.0.0.1"),
        ("AF_INET6", "::", "127.0.0.1"),
        ("AF_INET6", "::", "[::1]"),
        ("AF_INET6", "::1", "[::1]"),
        ("AF_INET", "127.0.0.1", "localhost"),
        ("AF_INET", "127.0.0.9", "127.0.0.9"),
    ],
)
def test_a_server_is_found_on_every_kind_of_address(serving, family, address, host):
    if family == "AF_INET6" and not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    main, port = serving(family=family, address=address)
    done = ready(port, main.pid, 100, host)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_start_that_takes_too_long_has_failed(serving):
    main, port = serving(10**6)
    done = ready(port, main.pid, 1)
    assert done.returncode == 1
    assert "was not ready within 1 s, it last answered with status 503" in done.stderr


def test_a_server_that_nobody_reaches_is_told(process):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        done = ready(unused.getsockname()[1], process.pid, 1)
    assert done.returncode == 1 and "it does not answer (nothing listens on port" in done.stderr


def test_another_process_on_the_port_is_not_the_service(serving, process):
    other, port = serving()
    done = ready(port, process.pid, 1)
    assert done.returncode == 1
    held = f"port {port} of 127.0.0.1 is held by process {other.pid} (python"
    assert f"{UNIT} is not ready: {held}" in done.stdout
    assert held in done.stderr and "which is not of this unit. Read its lines above" in done.stderr


def test_another_process_that_takes_the_requests_of_an_address_is_not_the_service(serving):
    # The service listens on all addresses, and somebody on the one that is asked.
    main, port = serving(0, "--shared", address="0.0.0.0")
    other, _port = serving(0, "--shared", port=port)
    done = ready(port, main.pid, 1)
    assert done.returncode == 1
    assert f"port {port} of 127.0.0.1 is held by process {other.pid} (python" in done.stderr
    # On an address that only the service answers it is ready.
    assert ready(port, main.pid, 100, "127.0.0.2").returncode == 0


def test_a_port_that_is_shared_with_another_process_is_not_the_services_alone(serving):
    main, port = serving(0, "--shared")
    other, _port = serving(0, "--shared", port=port)
    done = ready(port, main.pid, 1)
    assert done.returncode == 1 and f"process {other.pid} (python" in done.stderr
    os.killpg(other.pid, signal.SIGKILL)
    other.wait()
    assert ready(port, main.pid, 100).returncode == 0


def test_a_main_process_that_died_is_not_waited_for(serving, process):
    process.kill()
    # Whether it is reaped or not yet: both are dead.
    _other, port = serving(10**6)
    done = ready(port, process.pid, 100)
    assert done.returncode == 1
    assert f"its main process {process.pid} ended" in done.stderr
    process.wait()
    # Another server that answers is not this one.
    assert ready(serving()[1], process.pid, 100).returncode == 1


OURS, THEIRS = f"0::/system.slice/{UNIT}\n", "0::/system.slice/nginx.service\n"
ANY, LOOP, ANY6, MAPPED = "00000000", "0100007F", "0" * 32, "0000000000000000FFFF00000100007F"


def listening(proc, *rows):
    """Write (address, inode) rows as sockets that listen on port 30000, all made by user 0."""
    for name, size in (("tcp", 8), ("tcp6", 32)):
        lines = [
            LISTEN.format(address=address, port=30000, state="0A").replace(" 4711 ", f" {inode} ")
            for address, inode in rows
            if len(address) == size
        ]
        (proc.folder / "net" / name).write_text("head\n" + "".join(lines))


@pytest.mark.parametrize(
    ("rows", "host", "holder"),
    [
        # Ours is 1 or 2, theirs 3; inode 9 belongs to nobody who is seen.
        ([(LOOP, 1)], "127.0.0.1", None),
        ([(LOOP, 2)], "127.0.0.1", None),
        ([(LOOP, 3)], "127.0.0.1", "process 77 (nginx) of nginx.service"),
        ([(LOOP, 9)], "127.0.0.1", "a process of user root"),
        ([(ANY, 3)], "127.0.0.1", "process 77 (nginx) of nginx.service"),
        ([(ANY6, 3)], "127.0.0.1", "process 77 (nginx) of nginx.service"),
        ([(MAPPED, 1)], "127.0.0.1", None),
        # An address comes before all addresses, and IPv4 before what takes both.
        ([(LOOP, 1), (ANY, 3)], "127.0.0.1", None),
        ([(ANY, 1), (LOOP, 3)], "127.0.0.1", "process 77 (nginx) of nginx.service"),
        ([(ANY, 1), (ANY6, 3)], "127.0.0.1", None),
        ([(ANY, 1), (ANY6, 3)], "::1", "process 77 (nginx) of nginx.service"),
        # Several of one rank share what comes.
        ([(LOOP, 1), (LOOP, 3)], "127.0.0.1", "process 77 (nginx) of nginx.service"),
        ([(LOOP, 1), (LOOP, 9)], "127.0.0.1", "a process of user root"),
        ([(LOOP, 1), (LOOP, 2)], "127.0.0.1", None),
        # Another address is another server.
        ([("0A4D0A0A", 3), (LOOP, 1)], "127.0.0.1", None),
        ([("0A4D0A0A", 3)], "127.0.0.1", "nothing listens"),
        ([(LOOP, 1)], "::1", "nothing listens"),
    ],
)
def test_whose_answer_it_would_be(subject, proc, rows, host, holder):
    for pid, cgroup, inode, name in [
        (41, OURS, 1, "python"),
        (42, OURS.replace("service\n", "service/inner\n"), 2, "python"),
        (77, THEIRS, 3, "nginx"),
    ]:
        folder = proc.process(pid, cgroup, name=name)
        os.symlink(f"socket:[{inode}]", folder / "fd" / "3")
    listening(proc, *rows)
    words = subject.silence(host, 30000, GROUP, 41, str(proc.folder))
    if holder is None:
        assert words == ""
    else:
        assert holder in words and "30000" in words


def test_a_process_of_the_unit_that_hides_its_sockets_is_named(subject, proc, monkeypatch):
    proc.process(41, OURS, name="python")
    listening(proc, (LOOP, 9))
    scan = os.scandir

    def refusing(path):
        if str(path).endswith("/41/fd"):
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(subject.os, "scandir", refusing)
    words = subject.silence("127.0.0.1", 30000, GROUP, 41, str(proc.folder))
    assert words == "who holds port 30000 cannot be told: process 41 (python) does not show its sockets"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0100007F", "127.0.0.1"),
        ("00000000", "0.0.0.0"),
        ("0" * 32, "::"),
        ("00000000000000000000000001000000", "::1"),
        ("0000000000000000FFFF00000100007F", "127.0.0.1"),
        ("B80D0120000000000000000001000000", "2001:db8::1"),
    ],
)
@pytest.mark.skipif(sys.byteorder != "little", reason="the texts are those of a little-endian machine")
def test_addresses_of_the_kernel(subject, text, address):
    assert subject.address_of(text) == address


def test_one_ipv6_address_is_not_in_the_way_of_another(subject):
    assert not subject.in_the_way("2001:db8::1", "2001:db8::2")
    assert subject.in_the_way("2001:db8::1", "2001:db8:0::1")
    assert subject.in_the_way("::", "2001:db8::2")
