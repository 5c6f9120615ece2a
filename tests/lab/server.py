#!/usr/bin/env python3
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""LAB. One small HTTP server from which lab hosts install: static files, and a model hub.

Below the root folder everything is served as it lies there, with byte ranges and with folder listings that
``pip --find-links`` reads. The folder ``hub/ORG/REPO`` is served a second time below ``/hub`` in the way that
``hf download`` of huggingface_hub 2.x asks (``HF_ENDPOINT=http://HOST:PORT/hub``): revision, tree, and
``resolve`` with the headers that the client checks. A file ``.hub-token`` in a repository's folder makes the
repository ask for that token.

Connections break on request: ``.lab-faults.json`` in the root folder holds a list of faults, of which the first that
fits a request happens to it::

    [{"match": "shard-00002", "times": 3, "drop_after": 1000}]

``match`` is searched in the path. ``times`` is how often it happens (always, without it), ``method`` is GET by default.
What happens: ``status`` with ``headers`` answers with an error; ``drop_after`` closes the connection after so many
bytes of the body; ``stall_after`` sends nothing more for ``seconds`` (60) and then closes; ``size_change`` tells and
sends a file that is so many bytes longer, or shorter; ``flip`` changes the byte at that place; ``rate`` is bytes per
second.

The server goes into the background by itself. Starting it again changes nothing while the same code serves the
same root at the same address.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import functools
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

IDENTITY_PATH = "/.llmfleet-lab-server"
FAULTS_NAME = ".lab-faults.json"
START_TIMEOUT = 15.0
# What the real hub keeps in LFS, and so gives a sha256 for.
LFS_SUFFIXES = (".safetensors", ".bin", ".pt", ".gguf")
CHUNK = 1 << 20
RESOLVE = re.compile(r"^/hub/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)$")
API = re.compile(r"^/hub/api/models/(?P<repo>[^/]+/[^/]+)(?:/(?P<call>revision|tree)/(?P<revision>[^/]+))?/?$")


class RangeError(ValueError):
    """A Range header that no byte of the file satisfies."""


def parse_range(header: str | None, size: int) -> tuple[int, int] | None:
    """First and last byte that a Range header asks for; None when the whole file is to be sent.

    Only one range is answered; several ranges and malformed headers are ignored, as RFC 9110 allows.
    Raises RangeError when the range lies behind the end.
    """
    match = re.fullmatch(r"bytes=(\d*)-(\d*)", (header or "").strip())
    if not match or match.group(1) == match.group(2) == "":
        return None
    first, last = match.groups()
    if first == "":
        length = int(last)
        if length == 0 or size == 0:
            raise RangeError(header)
        return max(0, size - length), size - 1
    start = int(first)
    end = min(int(last), size - 1) if last else size - 1
    if start >= size:
        raise RangeError(header)
    return (start, end) if end >= start else None


@functools.lru_cache(maxsize=4096)
def _digests(path: str, size: int, _mtime_ns: int) -> tuple[str, str]:
    blob = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
    sha256 = hashlib.sha256()
    with open(path, "rb") as stream:
        while chunk := stream.read(CHUNK):
            blob.update(chunk)
            sha256.update(chunk)
    return blob.hexdigest(), sha256.hexdigest()


class Faults:
    """The faults of the file ``.lab-faults.json``, counted down as they happen."""

    def __init__(self, root: Path):
        self._path = root / FAULTS_NAME
        self._lock = threading.Lock()
        self._stamp: tuple[int, int] | None = None
        self._left: list[list] = []

    def take(self, method: str, path: str) -> dict:
        """The fault that happens to this request, or an empty dictionary."""
        with self._lock:
            try:
                status = self._path.stat()
                stamp = (status.st_mtime_ns, status.st_ino)
                if stamp != self._stamp:
                    self._left = [[fault, fault.get("times")] for fault in json.loads(self._path.read_text())]
                    self._stamp = stamp
            except FileNotFoundError:
                return {}
            for entry in self._left:
                fault, left = entry
                if left == 0 or fault.get("method", "GET") != method or not re.search(fault["match"], path):
                    continue
                entry[1] = None if left is None else left - 1
                return fault
        return {}


class HubFile:
    """One file of a repository with the sums that the hub gives for it."""

    def __init__(self, folder: Path, path: Path):
        status = path.stat()
        self.path = path
        self.name = path.relative_to(folder).as_posix()
        self.size = status.st_size
        self.blob, self.sha256 = _digests(str(path), status.st_size, status.st_mtime_ns)
        self.lfs = path.suffix in LFS_SUFFIXES

    @property
    def etag(self) -> str:
        """sha256 of an LFS file, git's blob id of any other."""
        return self.sha256 if self.lfs else self.blob

    def tree_entry(self) -> dict:
        """The file's entry in the answer of the tree call."""
        entry = {"type": "file", "oid": self.blob, "size": self.size, "path": self.name}
        if self.lfs:
            entry["lfs"] = {"oid": self.sha256, "size": self.size, "pointerSize": 134}
        return entry


class HubRepository:
    """A folder ``hub/ORG/REPO`` seen as a repository with one commit, whose id follows from its files."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.files = {
            entry.name: entry
            for entry in (HubFile(folder, path) for path in sorted(folder.rglob("*")) if self._served(path))
        }
        listing = "".join(f"{entry.sha256} {entry.name}\n" for entry in self.files.values())
        self.revision = hashlib.sha1(listing.encode(), usedforsecurity=False).hexdigest()
        token = folder / ".hub-token"
        self.token = token.read_text().strip() if token.is_file() else None

    def _served(self, path: Path) -> bool:
        return path.is_file() and not any(part.startswith(".") for part in path.relative_to(self.folder).parts)

    def knows(self, revision: str) -> bool:
        """True for the one commit and for the branch name main."""
        return revision in (self.revision, "main")


class HubError(Exception):
    """An answer of the hub that is no success: status, X-Error-Code, message."""

    def __init__(self, status: HTTPStatus, code: str, message: str):
        super().__init__(message)
        self.status, self.code = status, code


class LabHandler(SimpleHTTPRequestHandler):
    """Static files with ranges, and the hub's API below /hub."""

    protocol_version = "HTTP/1.1"
    server_version = "llmfleet-lab"

    def do_GET(self):
        self._answer(with_body=True)

    def do_HEAD(self):
        self._answer(with_body=False)

    def _answer(self, with_body: bool) -> None:
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        self.fault = self.server.faults.take(self.command, path)
        if "status" in self.fault:
            self._send_json({"error": "a fault of the lab"}, with_body, self.fault["status"], self.fault.get("headers"))
            return
        try:
            if path == IDENTITY_PATH:
                self._send_json(self.server.identity, with_body)
            elif match := API.match(path):
                self._send_api(match, with_body)
            elif match := RESOLVE.match(path):
                repository = self._repository(match["repo"], match["revision"])
                entry = repository.files.get(match["path"])
                if entry is None:
                    message = f"no file {match['path']} in {match['repo']}"
                    raise HubError(HTTPStatus.NOT_FOUND, "EntryNotFound", message)
                self._send_file(entry.path, with_body, self._hub_headers(repository, entry))
            else:
                self._send_static(with_body)
        except HubError as error:
            headers = {"X-Error-Code": error.code, "X-Error-Message": str(error)}
            self._send_json({"error": str(error)}, with_body, error.status, headers)

    def _repository(self, name: str, revision: str | None) -> HubRepository:
        folder = Path(self.directory) / "hub" / name
        if ".." in name.split("/") or not folder.is_dir():
            raise HubError(HTTPStatus.NOT_FOUND, "RepoNotFound", f"no repository {name}")
        repository = HubRepository(folder)
        if repository.token is not None and self.headers.get("Authorization") != f"Bearer {repository.token}":
            raise HubError(HTTPStatus.UNAUTHORIZED, "GatedRepo", f"repository {name} asks for its token")
        if revision is not None and not repository.knows(revision):
            raise HubError(HTTPStatus.NOT_FOUND, "RevisionNotFound", f"no revision {revision} in {name}")
        return repository

    def _send_api(self, match: re.Match, with_body: bool) -> None:
        repository = self._repository(match["repo"], match["revision"])
        entries = [entry.tree_entry() for entry in repository.files.values()]
        if match["call"] == "tree":
            self._send_json(entries, with_body)
            return
        siblings = [{"rfilename": entry["path"]} for entry in entries]
        answer = {"id": match["repo"], "modelId": match["repo"], "sha": repository.revision, "siblings": siblings}
        self._send_json({**answer, "private": False, "gated": False, "tags": [], "downloads": 0}, with_body)

    @staticmethod
    def _hub_headers(repository: HubRepository, entry: HubFile) -> dict[str, str]:
        headers = {"X-Repo-Commit": repository.revision, "ETag": f'"{entry.etag}"'}
        if entry.lfs:
            headers["X-Linked-ETag"] = f'"{entry.etag}"'
            headers["X-Linked-Size"] = str(entry.size)
        return headers

    def _send_static(self, with_body: bool) -> None:
        target = Path(self.translate_path(self.path))
        if target.is_file():
            self._send_file(target, with_body, {})
        elif with_body:
            super().do_GET()
        else:
            super().do_HEAD()

    def _send_file(self, target: Path, with_body: bool, headers: dict[str, str]) -> None:
        try:
            stream = target.open("rb")
        except OSError:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        with stream:
            size = max(0, os.fstat(stream.fileno()).st_size + self.fault.get("size_change", 0))
            try:
                wanted = parse_range(self.headers.get("Range"), size)
            except RangeError:
                self.send_response(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
                self.send_header("Content-Range", f"bytes */{size}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            first, last = wanted if wanted else (0, size - 1)
            self.send_response(HTTPStatus.PARTIAL_CONTENT if wanted else HTTPStatus.OK)
            if wanted:
                self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
            self.send_header("Content-Type", self.guess_type(str(target)))
            self.send_header("Content-Length", str(last - first + 1))
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Last-Modified", self.date_time_string(int(os.fstat(stream.fileno()).st_mtime)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if with_body:
                self._copy(stream, first, last - first + 1)

    def _copy(self, stream, first: int, count: int) -> None:
        stream.seek(first)
        fault, position = self.fault, first
        while count > 0:
            chunk = stream.read(min(CHUNK, count, max(1, fault.get("rate", CHUNK) // 10)))
            chunk = chunk or b"\0" * min(CHUNK, count)  # of a file that is told to be longer
            for name in ("drop_after", "stall_after"):
                if name in fault and position + len(chunk) - first > fault[name]:
                    self.wfile.write(chunk[: max(0, fault[name] - (position - first))])
                    self.wfile.flush()
                    time.sleep(fault.get("seconds", 60) if name == "stall_after" else 0)
                    self.close_connection = True
                    return
            if "flip" in fault and position <= fault["flip"] < position + len(chunk):
                place = fault["flip"] - position
                chunk = chunk[:place] + bytes([chunk[place] ^ 1]) + chunk[place + 1 :]
            self.wfile.write(chunk)
            position += len(chunk)
            count -= len(chunk)
            if "rate" in fault:
                time.sleep(0.1)

    def _send_json(self, content, with_body: bool, status=HTTPStatus.OK, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)


class LabServer(ThreadingHTTPServer):
    """The server with what it says about itself."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], root: Path):
        super().__init__(address, functools.partial(LabHandler, directory=str(root)))
        self.identity = {**identity(root), "pid": os.getpid()}
        self.faults = Faults(root)

    def handle_error(self, request, client_address):
        # A client that goes away in the middle of a file is no fault of the server.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def identity(root: Path) -> dict[str, str]:
    """What makes two servers the same: their code and their root folder."""
    return {"root": str(root.resolve()), "code": hashlib.sha256(Path(__file__).read_bytes()).hexdigest()}


def ask_identity(bind: str, port: int) -> dict | None:
    """Identity of the lab server at an address; None when nobody or somebody else answers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{bind}:{port}{IDENTITY_PATH}", timeout=3) as answer:
            found = json.load(answer)
    except (OSError, ValueError, urllib.error.URLError):
        return None
    return found if isinstance(found, dict) and "root" in found else None


def stop(pid_file: Path) -> bool:
    """Ends the server of the pid file; True when there was one."""
    try:
        pid = int(pid_file.read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        pid_file.unlink(missing_ok=True)
        return False
    # The number may meanwhile belong to another program.
    ours = any(Path(os.fsdecode(word)).name == Path(__file__).name for word in command)
    if ours:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + START_TIMEOUT
        while Path(f"/proc/{pid}/cmdline").exists() and _alive(pid) and time.monotonic() < deadline:
            time.sleep(0.05)
    pid_file.unlink(missing_ok=True)
    return ours


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (OSError, IndexError):
        return False


def serve(bind: str, port: int, root: Path, pid_file: Path) -> None:
    """Serves until SIGTERM."""
    with LabServer((bind, port), root) as server:
        pid_file.write_text(f"{os.getpid()}\n")

        def end(_signal, _frame):
            sys.exit(0)

        signal.signal(signal.SIGTERM, end)
        server.serve_forever()


def start(bind: str, port: int, root: Path, pid_file: Path, log_file: Path) -> bool:
    """Starts the server in the background; True when it was not already there as wanted."""
    found = ask_identity(bind, port)
    wanted = identity(root)
    if found and all(found.get(key) == value for key, value in wanted.items()):
        return False
    stop(pid_file)
    log_file.parent.mkdir(parents=True, exist_ok=True)
    arguments = ["--bind", bind, "--port", str(port), "--root", str(root), "--pid-file", str(pid_file)]
    with log_file.open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), *arguments, "--foreground"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        if child.poll() is not None:
            break
        found = ask_identity(bind, port)
        if found and found.get("pid") == child.pid:
            return True
        time.sleep(0.05)
    tail = log_file.read_text(errors="replace").strip().splitlines()[-1:] or ["it wrote nothing"]
    raise SystemExit(f"the lab server did not start at {bind}:{port} (log {log_file}): {tail[0]}")


def main(argv: list[str] | None = None) -> int:
    """Command line; prints ``changed ...`` or ``unchanged ...``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bind", default="10.213.77.1", help="address (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8077, help="port (default: %(default)s)")
    parser.add_argument("--root", type=Path, default=Path("/var/lib/llmfleet-lab/www"), help="folder that is served")
    parser.add_argument("--pid-file", type=Path, default=Path("/var/lib/llmfleet-lab/server.pid"))
    parser.add_argument("--log-file", type=Path, help="log (default: the pid file's name with .log)")
    parser.add_argument("--stop", action="store_true", help="end the server of the pid file")
    parser.add_argument("--foreground", action="store_true", help="serve here instead of in the background")
    parser.add_argument("--print-revision", type=Path, metavar="FOLDER", help="commit id that a folder is served under")
    arguments = parser.parse_args(argv)
    if arguments.print_revision:
        print(HubRepository(arguments.print_revision).revision)
        return 0
    if arguments.foreground:
        serve(arguments.bind, arguments.port, arguments.root, arguments.pid_file)
        return 0
    arguments.pid_file.parent.mkdir(parents=True, exist_ok=True)
    with arguments.pid_file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if arguments.stop:
            changed = stop(arguments.pid_file)
            what = "server stopped" if changed else "no server"
        else:
            arguments.root.mkdir(parents=True, exist_ok=True)
            log_file = arguments.log_file or arguments.pid_file.with_suffix(".log")
            changed = start(arguments.bind, arguments.port, arguments.root, arguments.pid_file, log_file)
            what = f"http://{arguments.bind}:{arguments.port}/ serves {arguments.root}"
    print("changed" if changed else "unchanged", what)
    return 0


if __name__ == "__main__":
    sys.exit(main())
