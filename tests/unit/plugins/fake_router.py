# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A router and an engine that answer like sglang-router 0.3.2 and SGLang, in this process."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class State:
    """What the router has, and what befalls it."""

    def __init__(self):
        self.workers = {}
        self.jobs = {}
        self.asked = []
        # Urls whose addition fails, and urls that stay after a removal.
        self.unreachable, self.sticky, self.unhealthy = set(), set(), set()


class Handler(BaseHTTPRequestHandler):
    """Both roles: /workers is the router's, the rest the engine's."""

    state = None
    health, running, waiting, loads = 200, 0, 0, True

    def log_message(self, *_args):
        """Nothing is printed."""

    def answer(self, status, body):
        """A JSON answer, or text."""
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        """Lists, jobs, health and figures."""
        kind = type(self)
        if self.path == "/workers":
            records = [
                {
                    "id": identity,
                    "url": url,
                    "is_healthy": url not in self.state.unhealthy,
                    "load": 0,
                    "model_id": "lab",
                }
                for identity, url in self.state.workers.items()
            ]
            return self.answer(200, {"workers": records, "total": len(records)})
        if self.path.startswith("/workers/"):
            return self.answer(200, {"job_status": self.state.jobs.get(self.path.rpartition("/")[2])})
        if self.path == "/health":
            return self.answer(kind.health, "")
        if self.path == "/v1/loads" and kind.loads:
            return self.answer(200, {"loads": [{"num_running_reqs": kind.running, "num_waiting_reqs": kind.waiting}]})
        if self.path == "/metrics":
            return self.answer(200, f'sglang:num_running_reqs{{tp_rank="0"}} {kind.running}.0\n')
        return self.answer(404, {"detail": "Not Found"})

    def do_POST(self):
        """An addition."""
        url = json.loads(self.rfile.read(int(self.headers["content-length"])))["url"]
        self.state.asked.append(("add", url))
        identity = f"id-{len(self.state.asked)}"
        if url in self.state.unreachable:
            self.state.jobs[identity] = {"status": "failed", "message": "Both HTTP and gRPC health checks failed"}
        else:
            self.state.workers[identity] = url
        self.answer(202, {"status": "accepted", "worker_id": identity})

    def do_DELETE(self):
        """A removal."""
        identity = self.path.rpartition("/")[2]
        self.state.asked.append(("remove", self.state.workers.get(identity)))
        if self.state.workers.get(identity) not in self.state.sticky:
            self.state.workers.pop(identity, None)
        self.answer(202, {"status": "accepted"})


@contextlib.contextmanager
def running():
    """A server of its own, as (class of its handler, state, url)."""
    state = State()
    kind = type("OneHandler", (Handler,), {"state": state})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield kind, state, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
