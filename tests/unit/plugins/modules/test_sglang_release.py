# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module as a process of its own, with the real uv, a real virtual environment and small wheels.

What it is killed, interrupted or overtaken in is held up by a script in uv's place, never by time.
"""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest

MODULE = "ansible_collections.llmfleet.sglang.plugins.modules.sglang_release"
UV = Path(sys.executable).parent / "uv"
VERSION = "1.0"
NAME = "1.0-0123456789ab"
OTHER = "1.0-ffffffffffff"
PATIENCE = 120
# The arguments leave the environment, from which no child may learn them.
RUNNER = f"import os, sys; sys.argv[1:] = [os.environ.pop('ARGUMENTS')]; from {MODULE} import main; main()"
# Holds up where the test says, until the test lets it go on; notes each command line.
SCRIPT = """#!/bin/sh
printf '%s\\n' "$*" >> {folder}/commands
case " $* " in
*" $(cat {folder}/hold 2>/dev/null || echo nothing) "*)
    echo $$ > {folder}/holding.part; mv {folder}/holding.part {folder}/holding
    while [ -e {folder}/hold ]; do sleep 0.05; done ;;
esac
exec {uv} "$@"
"""
HELP = """import pathlib, sys, time
hold = pathlib.Path({hold!r})
if hold.exists() and hold.read_text().strip() == "--help":
    (hold.parent / "holding").write_text("0")
    while hold.exists():
        time.sleep(0.05)
print("usage")
"""


def make_wheel(folder, name, version, files):
    """Write a wheel; returns its sha256."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{file},,\n" for file in files) + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(zipfile.ZipInfo(file), text)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)


class Host:
    """The folders of a host, and the module that works on them."""

    def __init__(self, folder):
        self.folder = folder
        self.wheels = folder / "wheels"
        self.wheels.mkdir()
        self.releases = folder / "opt" / "releases"
        self.link = folder / "opt" / "current"
        self.units = folder / "units"
        self.units.mkdir()
        self.uv = folder / "uv"
        self.uv.write_text(SCRIPT.format(folder=folder, uv=UV))
        self.uv.chmod(0o755)
        self.sum = make_wheel(
            self.wheels,
            "sglang",
            VERSION,
            {
                "sglang/__init__.py": "",
                "sglang/data.txt": "x" * 4096,
                "sglang/launch_server.py": HELP.format(hold=str(folder / "hold")),
            },
        )

    def lock(self, digest=None):
        path = self.folder / "lock.txt"
        path.write_text(f"sglang=={VERSION} --hash=sha256:{digest or self.sum}\n")
        return str(path)

    def start(self, check_mode=False, **arguments):
        defaults = {
            "name": NAME, "version": VERSION, "releases_dir": str(self.releases), "link": str(self.link),
            "python": sys.executable, "uv": str(self.uv), "cache_dir": str(self.folder / "opt/cache"),
            "managed_python_dir": str(self.folder / "opt/python"), "tools_dir": str(self.folder / "opt/tools"),
            "environment": {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels)}, "bytecode": False,
            "reference_paths": [str(self.units)], "service_cache_dir": str(self.folder / "cache"), "timeout": 300,
        }  # fmt: skip
        if "requirements" not in arguments and "lock" not in arguments:
            arguments["lock"] = self.lock()
        arguments = {
            **defaults,
            **arguments,
            "_ansible_check_mode": check_mode,
            "_ansible_remote_tmp": str(self.folder),
        }
        return subprocess.Popen(
            [sys.executable, "-c", RUNNER], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path),
                 "ARGUMENTS": json.dumps({"ANSIBLE_MODULE_ARGS": arguments})}, text=True,
        )  # fmt: skip

    def run(self, **arguments):
        output, errors = self.start(**arguments).communicate(timeout=PATIENCE)
        assert output, errors
        return json.loads(output)

    def hold(self, words):
        (self.folder / "hold").write_text(words)

    def held(self, **arguments):
        """Start the module and return it when it is held up."""
        process = self.start(**arguments)
        wait_for((self.folder / "holding").exists, "the hold")
        return process

    def let_go(self):
        (self.folder / "hold").unlink()

    def names(self):
        return sorted(path.name for path in self.releases.iterdir() if not path.name.startswith("."))

    def content(self, name=NAME):
        """Paths, inodes, times and contents of a release; the number of links of a file may change."""
        root = self.releases / name
        return {
            str(path.relative_to(root)): (path.lstat().st_ino, path.lstat().st_mtime_ns, path.lstat().st_mode)
            for path in root.rglob("*")
        }


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def test_a_locked_release_is_built_checked_stamped_and_linked(host):
    first = host.run()
    assert (first["changed"], first["complete"]) == (True, True), first
    assert list(first["seconds"]) == [
        "prepare",
        "installer",
        "interpreter",
        "environment",
        "packages",
        "check",
        "stamp",
    ]
    stamp = json.loads((host.releases / NAME / "complete.json").read_text())
    assert stamp["lock_sha256"] == hashlib.sha256(Path(host.lock()).read_bytes()).hexdigest()
    assert os.readlink(host.link) == str(host.releases / NAME)
    assert f"sglang=={VERSION}" in (host.releases / NAME / "installed.txt").read_text()
    assert "--no-index" in (host.folder / "commands").read_text()
    assert [
        path for path in (host.releases / NAME).rglob("*") if path.lstat().st_mode & 0o002 and not path.is_symlink()
    ] == []
    before = host.content()
    second = host.run()
    assert (second["changed"], second["complete"], second["removed"]) == (False, True, [])
    assert host.content() == before


def test_a_release_from_lists_keeps_its_lists(host):
    assert host.run(requirements=["sglang==1.0"], constraints=["torch==2.14.1"])["complete"]
    assert (host.releases / NAME / "requirements.txt").read_text() == "sglang==1.0\n"
    assert (host.releases / NAME / "constraints.txt").read_text() == "torch==2.14.1\n"


def test_check_mode_tells_and_changes_nothing(host):
    told = host.run(check_mode=True)
    assert (told["changed"], told["complete"], host.releases.exists()) == (True, False, False)
    host.run()
    host.link.unlink()
    assert host.run(check_mode=True)["changed"] is True
    assert not host.link.exists()


def test_looking_builds_nothing(host):
    told = host.run(build=False)
    assert (told["changed"], told["complete"], told["interpreter"]["problem"]) == (False, False, "")
    assert not host.releases.exists()


def test_a_second_release_shares_files_and_leaves_the_first_alone(host):
    host.run()
    before = host.content()
    assert host.run(name=OTHER)["complete"]
    assert host.content() == before
    inodes = {name: next((host.releases / name).rglob("data.txt")).stat().st_ino for name in (NAME, OTHER)}
    assert inodes[NAME] == inodes[OTHER]
    assert os.readlink(host.link) == str(host.releases / OTHER)


@pytest.mark.parametrize(
    ("prepare", "arguments", "phase", "words"),
    [
        (None, {"digest": "0" * 64}, "packages", ["sglang", "sha256:000"]),
        (None, {"requirements": ["sglang==1.0", "absent-thing==7"]}, "packages", ["absent-thing"]),
        (None, {"version": "1.0+cu130"}, "check", ["'1.0+cu130'", "'1.0'", "==="]),
        ("raise ImportError('libnuma.so.1')", {}, "check", ["libnuma.so.1"]),
        (None, {"uv": "/no/such/uv"}, "installer", ["/no/such/uv"]),
        (None, {"python_minimum": "9.9"}, "interpreter", ["9.9", "managed_python is empty"]),
        (None, {"timeout": 1, "hold": "freeze"}, "check", ["longer than 1 s"]),
    ],
    ids=["hash", "absent", "version", "import", "no-uv", "old-python", "timeout"],
)
def test_a_failure_is_named_and_leaves_nothing(host, prepare, arguments, phase, words):
    if prepare:
        host.sum = make_wheel(host.wheels, "sglang", VERSION, {"sglang/__init__.py": prepare})
    if "digest" in arguments:
        arguments = {"lock": host.lock(arguments["digest"])}
    if "hold" in arguments:
        host.hold(arguments["hold"])
        arguments = {"timeout": arguments["timeout"]}
    result = host.run(**arguments)
    assert result["failed"] and result["phase"] == phase, result
    for word in words:
        assert word in result["msg"]
    assert "pypi.org" not in result["msg"], "the index was asked although PIP_NO_INDEX is set"
    assert host.names() == [] and not host.link.exists()


PHASES = ["venv", "sync", "freeze", "--help"]


@pytest.mark.parametrize("phase", PHASES)
def test_what_a_sigkill_leaves_is_removed_by_the_next_run(host, phase):
    host.hold(phase)
    process = host.held(name=OTHER)
    holding = int((host.folder / "holding").read_text())
    process.kill()
    process.communicate()
    if holding:
        wait_for(lambda: not Path(f"/proc/{holding}").exists(), "the end of the program that was started")
    assert host.names() == [OTHER] and not (host.releases / OTHER / "complete.json").exists()
    assert not host.link.exists()
    # The next run is of another release: what nobody asks for again must not stay either.
    host.let_go()
    result = host.run()
    assert result["complete"] and result["removed"] == [OTHER]
    assert host.names() == [NAME]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["terminated", "hung-up"])
def test_an_interruption_leaves_nothing(host, number):
    host.hold("sync")
    process = host.held()
    process.send_signal(number)
    result = json.loads(process.communicate(timeout=PATIENCE)[0])
    assert result["failed"] and number.name in result["msg"]
    assert host.names() == []


def test_a_second_run_waits_and_finds_the_work_done(host):
    host.hold("sync")
    first = host.held()
    second = host.start()
    lock = str(host.releases / ".lock")
    wait_for(lambda: lock in open_files(second.pid), "the second run at the lock")
    assert second.poll() is None
    host.let_go()
    results = [json.loads(process.communicate(timeout=PATIENCE)[0]) for process in (first, second)]
    assert [result["changed"] for result in results] == [True, False]
    assert all(result["complete"] for result in results)
    assert (host.folder / "commands").read_text().count("pip sync") == 1


def open_files(pid):
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(entry))
        except OSError:
            continue
    return found


def test_a_run_that_may_not_wait_says_who_is_at_work(host):
    host.hold("sync")
    first = host.held()
    result = host.run(lock_timeout=0)
    assert result["failed"] and result["phase"] == "lock" and "lock_timeout" in result["msg"]
    host.let_go()
    assert json.loads(first.communicate(timeout=PATIENCE)[0])["complete"]


def test_old_releases_go_with_their_caches_unless_used(host):
    names = [f"1.0-{digit * 12}" for digit in "abcde"]
    for number, name in enumerate(names):
        (host.releases / name).mkdir(parents=True)
        (host.releases / name / "complete.json").write_text(json.dumps({"name": name}))
        os.utime(host.releases / name / "complete.json", (number, number))
    (host.releases / "my-own-folder").mkdir()
    for name in names:
        (host.folder / "cache/sglang-kimi" / name / "triton").mkdir(parents=True)
    (host.units / "sglang-kimi.service").write_text(f"ExecStart={host.releases / names[0]}/venv/bin/python -m x\n")
    running = subprocess.Popen(
        ["sleep", "600"], env={"PATH": f"{host.releases / names[1]}/venv/bin:/usr/bin:/bin"}, stdin=subprocess.DEVNULL
    )
    try:
        result = host.run(kept=2)
    finally:
        running.kill()
        running.wait()
    assert result["removed"] == [names[3], names[2]]
    assert host.names() == sorted([NAME, "my-own-folder", names[0], names[1], names[4]])
    assert sorted(path.name for path in (host.folder / "cache/sglang-kimi").iterdir()) == [names[0], names[1], names[4]]
    # Nothing uses the second one any more.
    assert host.run(kept=2)["removed"] == [names[1]]


def test_a_release_that_lost_its_interpreter_is_built_anew_unless_it_runs(host):
    host.run()
    (host.releases / NAME / "venv/bin/python").unlink()
    running = subprocess.Popen(["sleep", "600"], cwd=host.releases / NAME, stdin=subprocess.DEVNULL)
    try:
        result = host.run()
        assert result["failed"] and "uses it" in result["msg"]
        assert NAME in host.names()
    finally:
        running.kill()
        running.wait()
    assert host.run()["complete"]


def test_a_python_that_cannot_be_fetched_is_told_with_its_source(host):
    environment = {"UV_PYTHON_INSTALL_MIRROR": f"file://{host.folder}/no-mirror", "PIP_NO_INDEX": "1"}
    result = host.run(python_minimum="9.9", managed_python="3.12", environment=environment)
    assert result["failed"] and result["phase"] == "interpreter"
    assert "no-mirror" in result["msg"] and "9.9 or newer" in result["msg"]


def test_a_link_that_is_a_folder_is_refused(host):
    host.link.mkdir(parents=True)
    result = host.run()
    assert result["failed"] and str(host.link) in result["msg"]
    assert host.link.is_dir() and not host.releases.exists()


class Index(http.server.BaseHTTPRequestHandler):
    """A package index that asks for a password, and a proxy before it: both are seen in what it is asked."""

    def do_GET(self):
        self.server.asked.append(self.path)
        wanted = "Basic " + base64.b64encode(b"reader:planted-word").decode()
        path = self.path.replace("http://index.example.invalid", "")
        if self.headers.get("Authorization") != wanted:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="index"')
            self.end_headers()
            return
        wheel = self.server.wheels / path.rpartition("/")[2]
        if path.rstrip("/").endswith("simple/sglang"):
            names = [entry.name for entry in self.server.wheels.glob("sglang-*.whl")]
            body = "".join(f'<a href="/files/{name}">{name}</a>\n' for name in names).encode()
        elif wheel.is_file():
            body = wheel.read_bytes()
        else:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if b"<a " in body else "application/octet-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        """Says nothing."""


@pytest.fixture
def proxy(host):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
    server.asked, server.wheels = [], host.wheels
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("fails", [False, True], ids=["good", "failing"])
def test_an_index_with_a_password_behind_a_proxy_is_used_and_its_password_shown_nowhere(host, proxy, fails):
    process = host.start(
        lock=host.lock("0" * 64 if fails else None),
        environment={"HTTP_PROXY": f"http://127.0.0.1:{proxy.server_port}", "NO_PROXY": ""},
        secret_environment={"PIP_INDEX_URL": "http://reader:planted-word@index.example.invalid/simple"},
    )
    output, errors = process.communicate(timeout=PATIENCE)
    result = json.loads(output)
    assert result.get("failed", False) is fails, output
    assert any(path.startswith("http://index.example.invalid/simple/sglang") for path in proxy.asked), (
        "not by the proxy"
    )
    assert "planted-word" not in output + errors + (host.folder / "commands").read_text()
    for path in host.folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert b"planted-word" not in path.read_bytes(), path
