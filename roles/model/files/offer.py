# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gives the files of model folders to other hosts over HTTP, for as long as they fetch.

    offer.py offer.json

The settings (``token``, ``port``, ``idle`` seconds, ``roots`` by kind, ``files`` by kind) are read and removed. Only
the files that they list are given, and only to who has the token. Ranges are answered, so that a broken transfer is
taken up again. Standard library, Python 3.9; the kernel copies from the page cache to the network (sendfile).
"""

from __future__ import annotations

import hmac
import json
import os
import re
import sys
import threading
import time
import urllib.parse
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BLOCK = 1 << 24
# A client that takes nothing for so long has gone.
CLIENT_TIMEOUT = 120


def start_of(header, size):
    """First byte that a Range header asks for: 0 without one, None when the file ends before it."""
    match = re.fullmatch(r"bytes=(\d+)-", (header or "").strip())
    start = int(match.group(1)) if match else 0
    return start if start < size or size == start == 0 else None


class Offer(ThreadingHTTPServer):
    """The server, with what it may give."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, settings):
        self.token = f"Bearer {settings['token']}".encode()
        self.idle = settings["idle"]
        self.paths = {
            f"/{kind}/{entry['name']}": os.path.join(settings["roots"][kind], entry["name"])
            for kind, entries in settings["files"].items()
            for entry in entries
        }
        self.running, self.used = 0, time.monotonic()
        self.lock = threading.Lock()
        super().__init__(("", settings["port"]), Handler)

    def count(self, change):
        """Notes that a transfer begins or ends."""
        with self.lock:
            self.running += change
            self.used = time.monotonic()

    def end_when_idle(self):
        """Returns when nothing has been asked for a while."""
        while True:
            time.sleep(min(1.0, self.idle))
            with self.lock:
                if not self.running and time.monotonic() - self.used >= self.idle:
                    break
        self.shutdown()

    def handle_error(self, request, client_address):
        # A client that goes away in the middle of a file comes back by itself.
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD."""

    protocol_version = "HTTP/1.1"
    server_version = "llmfleet-model-offer"
    sys_version = ""
    timeout = CLIENT_TIMEOUT

    def do_GET(self):
        self._answer(with_body=True)

    def do_HEAD(self):
        self._answer(with_body=False)

    def _answer(self, with_body):
        if not hmac.compare_digest((self.headers.get("Authorization") or "").encode(), self.server.token):
            self._say(HTTPStatus.FORBIDDEN)
            return
        self.server.count(1)
        try:
            path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
            if path == "/ready":
                self._say(HTTPStatus.OK)
            elif path not in self.server.paths:
                self._say(HTTPStatus.NOT_FOUND)
            else:
                self._give(self.server.paths[path], with_body)
        finally:
            self.server.count(-1)

    def _say(self, status, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _give(self, path, with_body):
        try:
            stream = open(path, "rb")  # noqa: SIM115  closed below
        except OSError:
            self._say(HTTPStatus.NOT_FOUND)
            return
        with stream:
            size = os.fstat(stream.fileno()).st_size
            start = start_of(self.headers.get("Range"), size)
            if start is None:
                self._say(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, [("Content-Range", f"bytes */{size}")])
                return
            self.send_response(HTTPStatus.PARTIAL_CONTENT if start else HTTPStatus.OK)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(size - start))
            self.end_headers()
            self.wfile.flush()
            if with_body:
                self._send(stream.fileno(), start, size)

    def _send(self, source, start, size):
        # The socket has a time limit and is non-blocking for it: sendfile of the socket waits as it should.
        with os.fdopen(os.dup(source), "rb") as stream:
            while start < size:
                sent = self.connection.sendfile(stream, start, min(BLOCK, size - start))
                if not sent:
                    self.close_connection = True
                    return
                start += sent
                self.server.count(0)

    def log_message(self, format, *args):
        pass


def main(argv):
    with open(argv[1], encoding="utf-8") as stream:
        settings = json.load(stream)
    os.unlink(argv[1])
    with Offer(settings) as server:
        threading.Thread(target=server.end_when_idle, daemon=True).start()
        print(f"gives {len(server.paths)} files away on port {settings['port']}", flush=True)
        server.serve_forever()
    print("nobody has asked for anything for a while", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
