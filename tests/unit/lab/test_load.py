# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The load generator counts what is whole, and notices whatever is not."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from ansible_collections.llmfleet.sglang.tests.lab import load

SCRIPT = Path(load.__file__).resolve()
TOKENS = 4


def events(finish="length", used=TOKENS, done=True, count=TOKENS):
    """The events of a stream."""
    made = [{"choices": [{"delta": {"content": "word"}, "finish_reason": None}]} for _ in range(count)]
    made += [
        {"choices": [{"delta": {}, "finish_reason": finish}]},
        {"choices": [], "usage": {"completion_tokens": used}},
    ]
    return b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in made) + (b"data: [DONE]\n\n" * done)


class Engine(BaseHTTPRequestHandler):
    """Answers with what the test put into ``answers``, the last one for ever."""

    protocol_version = "HTTP/1.1"
    answers, asked, pause = [], [], 0.0

    def log_message(self, *_args):
        """Nothing is printed."""

    def do_POST(self):
        """A status, a body, and whether the connection is closed before the announced end."""
        self.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        status, body, broken = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.send_response(status)
        self.send_header("content-length", str(len(body) + 100 * broken))
        self.end_headers()
        time.sleep(self.pause)
        self.wfile.write(body)
        self.close_connection = True


@pytest.fixture(name="engine")
def fixture_engine():
    """A server; its answers are set by the test."""
    kind = type("OneEngine", (Engine,), {"answers": [], "asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        kind.url = f"http://127.0.0.1:{server.server_port}"
        yield kind
        server.shutdown()


def run(url, *words):
    """Run the generator with one request on one stream; returns (status, summary)."""
    command = [sys.executable, str(SCRIPT), "--url", url, "--streams=1", "--requests=1", f"--tokens={TOKENS}", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, json.loads(done.stdout)


def test_a_whole_stream_is_whole(engine):
    engine.answers = [(200, events(), False)]
    status, told = run(engine.url, "--model=some")
    assert status == 0
    assert (told["requests"], told["whole"], told["failed"], told["cut"]) == (1, 1, 0, 0)
    assert told["statuses"] == {"200": 1} and told["ended"] and told["first"] <= told["last"]
    asked = engine.asked[0]
    assert (asked["model"], asked["stream"], asked["max_tokens"], asked["ignore_eos"]) == ("some", True, TOKENS, True)


@pytest.mark.parametrize(
    ("body", "broken", "told"),
    [
        (events(done=False), False, "without [DONE]"),
        (events(finish=None), False, "no finish reason"),
        (events(used=TOKENS - 1), False, "3 tokens where 4"),
        (events()[:150], True, "without [DONE]"),
        (events()[:100], False, "no JSON"),
        (b"", False, "0 events"),
        (b'data: {"error": {"message": "worker is gone"}}\n\n' + events(), False, "worker is gone"),
    ],
    ids=["no-done", "no-finish", "too-short", "broken", "half-event", "empty", "error"],
)
def test_a_cut_stream_is_noticed(engine, body, broken, told):
    engine.answers = [(200, body, broken)]
    status, summary = run(engine.url)
    assert status == 1
    assert (summary["whole"], summary["failed"], summary["cut"]) == (0, 0, 1)
    assert told in summary["examples"][0]["told"]


def test_a_refused_request_is_counted_by_its_status(engine):
    engine.answers = [(503, b"no available workers", False)]
    status, summary = run(engine.url)
    assert (status, summary["failed"], summary["statuses"]) == (1, 1, {"503": 1})
    assert summary["examples"][0]["told"] == "no available workers"


def test_a_refused_connection_is_a_failed_request():
    status, summary = run("http://127.0.0.1:9")
    assert (status, summary["failed"], summary["statuses"]) == (1, 1, {"none": 1})


def test_sigterm_lets_open_streams_end(engine, tmp_path):
    engine.answers, engine.pause = [(200, events(), False)], 1.0
    output = tmp_path / "summary.json"
    words = [f"--url={engine.url}", "--streams=3", f"--tokens={TOKENS}", f"--output={output}"]
    with subprocess.Popen([sys.executable, str(SCRIPT), *words]) as running:
        deadline = time.monotonic() + 60
        while not (output.exists() and json.loads(output.read_text())["open"] == 3):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
    told = json.loads(output.read_text())
    assert told["ended"] and told["open"] == told["failed"] == told["cut"] == 0
    assert told["requests"] == told["whole"] >= 3
