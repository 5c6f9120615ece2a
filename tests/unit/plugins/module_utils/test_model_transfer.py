# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module's own tests against the lab's hub do not reach: pages, redirects, waiting times, other errors."""

from __future__ import annotations

import errno
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import model_transfer as subject


@pytest.fixture
def serve():
    """Starts servers that answer from a table of path to (status, headers, body); gives their address and requests."""
    started = []

    def start(table):
        seen = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                seen.append((self.path, self.headers.get("Authorization")))
                answers = table[self.path]
                status, headers, body = answers.pop(0) if isinstance(answers, list) else answers
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_HEAD = do_GET

            def log_message(self, *_arguments):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        started.append((server, thread))
        return f"http://127.0.0.1:{server.server_address[1]}", seen

    yield start
    for server, thread in started:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_list_of_files_has_pages(serve):
    first = "/api/models/org/name/tree/main?recursive=true"
    table = {
        first: (200, {"Link": '</more?cursor=2>; rel="next"'}, b'[{"path": "a"}]'),
        "/more?cursor=2": (200, {}, b"[1]"),
    }
    address, seen = serve(table)
    assert subject.Client().hub_tree(address, "org/name", "") == [{"path": "a"}, 1]
    assert [path for path, _token in seen] == [first, "/more?cursor=2"]


@pytest.mark.parametrize(("body", "word"), [(b"<html>", "no JSON"), (b"{}", "no list of files")])
def test_a_page_that_is_no_list_is_told(serve, body, word):
    address, _seen = serve({"/api/models/o/n/tree/r?recursive=true": (200, {}, body)})
    with pytest.raises(subject.TransferError, match=word):
        subject.Client().hub_tree(address, "o/n", "r")


def test_the_token_follows_to_the_same_host_only(serve):
    other, seen_there = serve({"/file": (200, {}, b"x")})
    here = {}
    address, seen = serve(here)
    here.update({"/away": (302, {"Location": f"{other}/file"}, b""), "/near": (302, {"Location": "/file"}, b""),
                 "/file": (200, {}, b"x")})  # fmt: skip
    client = subject.Client(token="hf_secret")
    assert client.get(f"{address}/away")[0] == client.get(f"{address}/near")[0] == b"x"
    assert seen_there == [("/file", None)]
    assert seen[-1] == ("/file", "Bearer hf_secret")


@pytest.mark.parametrize(("header", "pause"), [("7", 7), ("99999", 300)])
def test_the_servers_own_pause_is_kept_within_bounds(serve, header, pause):
    address, _seen = serve({"/file": [(429, {"Retry-After": header}, b""), (200, {}, b"x")]})
    pauses = []
    assert subject.Client(sleep=pauses.append).get(f"{address}/file")[0] == b"x"
    assert pauses == [pause]


def test_pauses_grow_and_end(serve):
    address, _seen = serve({"/file": (503, {"Retry-After": "soon"}, b"")})
    pauses = []
    with pytest.raises(subject.TransferError, match=r"failed 6 times in a row, at last: .* answers 503"):
        subject.Client(sleep=pauses.append, delay=100).get(f"{address}/file")
    assert [80 * 2**n <= pause <= 120 * 2**n or pause <= 360 for n, pause in enumerate(pauses)] == [True] * 5
    assert max(pauses) <= 360


def test_waiting_ends_when_another_file_failed(serve):
    address, _seen = serve({"/file": (503, {"Retry-After": "300"}, b"")})
    client = subject.Client()
    client.stop.set()
    with pytest.raises(subject.TransferError, match="another file failed"):
        client.get(f"{address}/file")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451, 501])
def test_what_no_other_try_mends_is_told_at_once(serve, status):
    address, seen = serve({"/file": (status, {"X-Error-Message": "say please"}, b"")})
    with pytest.raises(subject.TransferError, match=rf"answers {status} .*\(say please\)"):
        subject.Client().get(f"{address}/file")
    assert len(seen) == 1


def test_sizes_are_asked_for(serve):
    address, _seen = serve({"/file": (200, {"Content-Length": "0"}, b""), "/none": (200, {}, b"")})
    assert subject.Client().size_of(f"{address}/file") == 0
    with pytest.raises(subject.TransferError, match="does not tell the size"):
        subject.Client().size_of(f"{address}/none")


def test_an_answer_without_a_length_is_judged_by_its_sum(serve, tmp_path):
    address, _seen = serve({"/file": (200, {}, b"short")})
    with pytest.raises(subject.TransferError, match="broke off after 5 of 9 bytes"):
        subject.Client(retries=0).fetch(f"{address}/file", str(tmp_path / "f"), {"size": 9, "sha256": "0" * 64})


def test_a_server_that_sends_another_part_is_not_believed(serve, tmp_path):
    (tmp_path / "f.part").write_bytes(b"01234")
    wrong = (206, {"Content-Range": "bytes 0-9/10", "Content-Length": "10"}, b"0123456789")
    address, _seen = serve({"/file": [wrong, (200, {"Content-Length": "10"}, b"0123456789")]})
    client = subject.Client(sleep=lambda _pause: None)
    client.fetch(f"{address}/file", str(tmp_path / "f"), {"size": 10})
    assert (tmp_path / "f").read_bytes() == b"0123456789"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, ["the disk is full while model.safetensors was written", "GB are free"]),
        (errno.EDQUOT, ["the quota is used up while"]),
        (errno.EROFS, ["cannot be written: Read-only file system"]),
    ],
)
def test_errors_of_the_disk_are_told(tmp_path, number, words):
    error = subject.disk_error(OSError(number, os.strerror(number)), str(tmp_path / "none" / "model.safetensors"))
    assert isinstance(error, subject.FullDiskError) is (number != errno.EROFS)
    for word in words:
        assert word in str(error)


def test_names_are_quoted():
    assert subject.url_of("http://a/b/", "sub/a b#c") == "http://a/b/sub/a%20b%23c"
