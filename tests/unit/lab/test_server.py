# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's server gives what pip and hf download ask for."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from ansible_collections.llmfleet.sglang.tests.lab import server
from hypothesis import given
from hypothesis import strategies as st

SCRIPT = Path(server.__file__).resolve()
WEIGHTS = bytes(range(256)) * 10
REPO = "/hub/org/tiny"
API = "/hub/api/models/org/tiny"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder with a wheel and two repositories, one of which asks for a token."""
    folder = tmp_path_factory.mktemp("www")
    (folder / "wheels").mkdir()
    (folder / "wheels" / "a-1-py3-none-any.whl").write_bytes(b"0123456789")
    for name in ("tiny", "gated"):
        repository = folder / "hub" / "org" / name
        (repository / "sub").mkdir(parents=True)
        (repository / "config.json").write_text("{}")
        (repository / "sub" / "model.safetensors").write_bytes(WEIGHTS)
        (repository / ".git").mkdir()
        (repository / ".git" / "HEAD").write_text("hidden")
    (folder / "hub" / "org" / "gated" / ".hub-token").write_text("hf_secret\n")
    return folder


@pytest.fixture(scope="module")
def address(root):
    """Host and port of a server of that folder."""
    with server.LabServer(("127.0.0.1", 0), root) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running.server_address
        running.shutdown()
        thread.join()


@pytest.fixture
def ask(address, capsys):
    """Sends one request; gives status, headers, body."""

    def request(path, method="GET", **headers):
        connection = http.client.HTTPConnection(*address, timeout=10)
        connection.request(method, path, headers={key.replace("_", "-"): value for key, value in headers.items()})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, answer.headers, body

    return request


@pytest.fixture(scope="module")
def revision(root):
    """Commit that the repository is served under."""
    return server.HubRepository(root / "hub" / "org" / "tiny").revision


def test_listing_links_the_wheels(ask):
    status, _headers, body = ask("/wheels/")
    assert status == 200
    assert b'href="a-1-py3-none-any.whl"' in body


@pytest.mark.parametrize(
    ("wanted", "status", "content_range", "body"),
    [
        (None, 200, None, b"0123456789"),
        ("bytes=3-", 206, "bytes 3-9/10", b"3456789"),
        ("bytes=0-0", 206, "bytes 0-0/10", b"0"),
        ("bytes=8-99", 206, "bytes 8-9/10", b"89"),
        ("bytes=-3", 206, "bytes 7-9/10", b"789"),
        ("bytes=10-", 416, "bytes */10", b""),
        ("bytes=0-1,4-5", 200, None, b"0123456789"),
        ("lines=1-2", 200, None, b"0123456789"),
    ],
)
def test_ranges(ask, wanted, status, content_range, body):
    got = ask("/wheels/a-1-py3-none-any.whl", **({"Range": wanted} if wanted else {}))
    assert (got[0], got[1]["Content-Range"], got[2]) == (status, content_range, body)


@given(st.one_of(st.none(), st.integers(0, 300)), st.one_of(st.none(), st.integers(0, 300)), st.integers(0, 200))
def test_range_gives_the_bytes_that_were_asked_for(first, last, size):
    content = bytes(number % 256 for number in range(size))
    header = f"bytes={'' if first is None else first}-{'' if last is None else last}"
    try:
        found = server.parse_range(header, size)
    except server.RangeError:
        assert (first is None and (last == 0 or size == 0)) or (first is not None and first >= size)
        return
    if found is None:
        assert (first is None and last is None) or (last is not None and last < first)
        return
    got = content[found[0] : found[1] + 1]
    if first is None:
        assert got == content[-last:]
    else:
        assert got == content[first : None if last is None else last + 1]


def test_nothing_outside_the_root(ask, root):
    (root.parent / "outside").write_text("secret")
    for path in ("/../outside", "/%2e%2e/outside", "/wheels/../../outside", "/hub/../../outside"):
        assert ask(path)[0] == 404
    assert ask("/hub/api/models/../../revision/main")[0] == 404


def test_tree_gives_the_sums_that_the_client_compares(ask, revision):
    status, _headers, body = ask(f"{API}/tree/{revision}?recursive=true&expand=false")
    assert status == 200
    entries = {entry["path"]: entry for entry in json.loads(body)}
    assert sorted(entries) == ["config.json", "sub/model.safetensors"]
    sha256 = hashlib.sha256(WEIGHTS).hexdigest()
    assert entries["sub/model.safetensors"]["lfs"] == {"oid": sha256, "size": len(WEIGHTS), "pointerSize": 134}
    assert entries["config.json"]["oid"] == hashlib.sha1(b"blob 2\0{}").hexdigest()
    assert "lfs" not in entries["config.json"]


def test_revision_call_resolves_a_branch(ask, revision):
    for name in ("main", revision):
        answer = json.loads(ask(f"{API}/revision/{name}")[2])
        assert answer["sha"] == revision
        assert {"rfilename": "config.json"} in answer["siblings"]


def test_resolve_has_the_headers_of_the_hub(ask, revision):
    path = f"{REPO}/resolve/{revision}/sub/model.safetensors"
    status, headers, body = ask(path, method="HEAD")
    sha256 = hashlib.sha256(WEIGHTS).hexdigest()
    assert (status, body) == (200, b"")
    assert headers["X-Repo-Commit"] == revision
    assert headers["ETag"] == headers["X-Linked-ETag"] == f'"{sha256}"'
    assert headers["X-Linked-Size"] == headers["Content-Length"] == str(len(WEIGHTS))
    assert headers["Accept-Ranges"] == "bytes"
    assert ask(path)[2] == WEIGHTS
    assert ask(path, Range=f"bytes={len(WEIGHTS) - 5}-")[2] == WEIGHTS[-5:]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/hub/api/models/org/none/revision/main", 404, "RepoNotFound"),
        (f"{API}/revision/{'0' * 40}", 404, "RevisionNotFound"),
        (f"{API}/tree/{'0' * 40}", 404, "RevisionNotFound"),
        (f"{REPO}/resolve/main/none.json", 404, "EntryNotFound"),
        (f"{REPO}/resolve/main/.git/HEAD", 404, "EntryNotFound"),
        ("/hub/api/models/org/gated/revision/main", 401, "GatedRepo"),
        ("/hub/org/gated/resolve/main/config.json", 401, "GatedRepo"),
    ],
)
def test_errors_are_told_as_the_client_expects(ask, path, status, code):
    got = ask(path)
    assert (got[0], got[1]["X-Error-Code"]) == (status, code)


def test_token_opens_a_gated_repository(ask):
    assert ask("/hub/org/gated/resolve/main/config.json", Authorization="Bearer hf_wrong")[0] == 401
    assert ask("/hub/org/gated/resolve/main/config.json", Authorization="Bearer hf_secret")[0] == 200


def test_changed_file_gets_new_sums_and_a_new_commit(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"one")
    before = server.HubRepository(tmp_path)
    assert before.revision == server.HubRepository(tmp_path).revision
    (tmp_path / "model.safetensors").write_bytes(b"two")
    os.utime(tmp_path / "model.safetensors", ns=(1, 1))
    after = server.HubRepository(tmp_path)
    assert after.files["model.safetensors"].sha256 == hashlib.sha256(b"two").hexdigest()
    assert after.revision != before.revision


@pytest.fixture
def control(tmp_path):
    """Runs the script's command line for a folder and a free port of its own, and ends what it started."""
    with http.client.socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    pid_file = tmp_path / "state" / "server.pid"

    def run(*arguments, root=tmp_path / "www"):
        options = ["--bind", "127.0.0.1", "--port", str(port), "--pid-file", str(pid_file), "--root", str(root)]
        done = subprocess.run(
            [sys.executable, str(SCRIPT), *options, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        return done.returncode, done.stdout.split(" ")[0].strip(), done.stderr

    run.port, run.pid_file = port, pid_file
    yield run
    run("--stop")


def test_start_again_changes_nothing_and_stop_ends_it(control):
    assert control()[:2] == (0, "changed")
    pid = int(control.pid_file.read_text())
    assert server.ask_identity("127.0.0.1", control.port)["pid"] == pid
    assert control()[:2] == (0, "unchanged")
    assert int(control.pid_file.read_text()) == pid
    assert control("--stop")[:2] == (0, "changed")
    assert server.ask_identity("127.0.0.1", control.port) is None
    assert control("--stop")[:2] == (0, "unchanged")


def test_other_root_replaces_the_server(control, tmp_path):
    control()
    pid = int(control.pid_file.read_text())
    assert control(root=tmp_path / "other")[:2] == (0, "changed")
    assert server.ask_identity("127.0.0.1", control.port)["root"] == str(tmp_path / "other")
    assert int(control.pid_file.read_text()) != pid


def test_leftover_pid_file_harms_nobody(control):
    control.pid_file.parent.mkdir()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        control.pid_file.write_text(f"{stranger.pid}\n")
        assert control()[:2] == (0, "changed")
        assert stranger.poll() is None
        stranger.communicate(b"\n")
        assert stranger.returncode == 0


def test_port_of_another_program_is_told(control):
    with http.client.socket.socket() as other:
        other.bind(("127.0.0.1", control.port))
        other.listen()
        code, _what, message = control()
    assert code == 1
    assert "Address already in use" in message
