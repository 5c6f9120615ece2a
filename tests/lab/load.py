#!/usr/bin/env python3
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep streams open through a base url all the time, and tell whether each of them was whole.

    load.py --url http://10.213.77.180:30100 --streams 8 --tokens 40 --output summary.json

A stream is whole when its status is 200, it has a finish reason, the tokens that were asked for, and [DONE]. The
summary is written once a second and at the end. SIGTERM or SIGINT: streams that run are read to their end, no new ones
are made. The exit status is 1 where a request failed or was cut.
"""

from __future__ import annotations

import argparse
import collections
import http.client
import json
import os
import signal
import sys
import threading
import time
import urllib.parse
from datetime import datetime, timezone
from pathlib import Path

EXAMPLES_KEPT = 20


class Failed(Exception):
    """A request without an answer of status 200."""

    def __init__(self, status, told):
        super().__init__(told)
        self.status = status


class Cut(Exception):
    """An answer that began and was not whole."""


def now():
    """This moment, for a summary."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def check_stream(lines, tokens):
    """Read the lines of a stream; raises Cut where something of it is missing."""
    finish, used, done, events = None, None, False, 0
    try:
        for raw in lines:
            line = raw.strip()
            if line == b"data: [DONE]":
                done = True
            elif line.startswith(b"data:"):
                event = json.loads(line[5:])
                events += 1
                if "error" in event:
                    raise Cut(f"the stream has an error after {events} events: {json.dumps(event['error'])[:200]}")
                for choice in event.get("choices") or []:
                    finish = choice.get("finish_reason") or finish
                used = event.get("usage") or used
    except (OSError, http.client.HTTPException) as error:
        raise Cut(f"the stream broke off after {events} events: {error!r}") from error
    except ValueError as error:
        raise Cut(f"event {events + 1} of the stream is no JSON: {error}") from error
    if not done:
        raise Cut(f"the stream ended after {events} events without [DONE]")
    if finish is None:
        raise Cut(f"the stream has no finish reason in {events} events")
    counted = (used or {}).get("completion_tokens")
    if counted != tokens:
        raise Cut(f"the stream has {counted} tokens where {tokens} were asked for")


class Load:
    """All streams with what became of them."""

    def __init__(self, options):
        self.options = options
        self.base = urllib.parse.urlsplit(options.url)
        self.lock = threading.Lock()
        self.ending = threading.Event()
        self.statuses, self.examples = collections.Counter(), []
        self.requests = self.whole = self.failed = self.cut = self.open = 0
        self.longest = self.longest_wait = 0.0
        self.first = self.last = None

    def ask(self, number, turn):
        """Make one request and read it to its end; returns the seconds until its first byte."""
        kind = http.client.HTTPSConnection if self.base.scheme == "https" else http.client.HTTPConnection
        # A connection for each request: none can be closed just while it is used again.
        connection = kind(self.base.hostname, self.base.port, timeout=self.options.timeout)
        content = f"{self.options.prompt} Stream {number}, turn {turn}: count for me."
        body = {
            "model": self.options.model,
            "messages": [{"role": "user", "content": content}],
            "max_tokens": self.options.tokens,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        headers = {"Content-Type": "application/json", "Connection": "close"}
        if self.options.key_file:
            headers["Authorization"] = f"Bearer {self.options.key_file.read_text().strip()}"
        began = time.monotonic()
        try:
            try:
                path = f"{self.base.path.rstrip('/')}/v1/chat/completions"
                connection.request("POST", path, json.dumps(body), headers)
                answer = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                raise Failed("none", repr(error)) from error
            waited = time.monotonic() - began
            if answer.status != 200:
                raise Failed(str(answer.status), answer.read(300).decode(errors="replace"))
            check_stream(answer, self.options.tokens)
            return waited
        finally:
            connection.close()

    def note(self, kind, status, told=""):
        """Count an answer."""
        self.statuses[status] += 1
        setattr(self, kind, getattr(self, kind) + 1)
        if told and len(self.examples) < EXAMPLES_KEPT:
            self.examples.append({"at": now(), "kind": kind, "status": status, "told": told})

    def one(self, number, turn):
        """Make one request and count what became of it."""
        with self.lock:
            self.requests += 1
            self.open += 1
            self.first = self.first or now()
        began, waited = time.monotonic(), 0.0
        noted = ("whole", "200")
        try:
            waited = self.ask(number, turn)
        except Failed as failure:
            noted = ("failed", failure.status, str(failure))
        except Cut as cut:
            noted = ("cut", "200", str(cut))
        with self.lock:
            self.note(*noted)
            self.open -= 1
            self.last = now()
            self.longest = max(self.longest, time.monotonic() - began)
            self.longest_wait = max(self.longest_wait, waited)
        return noted[0] == "whole"

    def stream(self, number):
        """One stream after the other until the end."""
        turn = 0
        while not self.ending.is_set() and (not self.options.requests or turn < self.options.requests):
            turn += 1
            if not self.one(number, turn):
                # Whoever refuses at once is not asked a thousand times a second.
                self.ending.wait(0.2)

    def summary(self, ended):
        """What became of all requests."""
        with self.lock:
            return {
                "url": self.options.url,
                "streams": self.options.streams,
                "tokens": self.options.tokens,
                "requests": self.requests,
                "whole": self.whole,
                "failed": self.failed,
                "cut": self.cut,
                "open": self.open,
                "statuses": dict(self.statuses),
                "longest_seconds": round(self.longest, 3),
                "longest_wait_seconds": round(self.longest_wait, 3),
                "first": self.first,
                "last": self.last,
                "ended": ended,
                "examples": list(self.examples),
            }

    def write(self, ended=False):
        """Write the summary in one step."""
        text = json.dumps(self.summary(ended), indent=2) + "\n"
        if self.options.output:
            partial = self.options.output.with_name(f".{self.options.output.name}.{os.getpid()}")
            partial.write_text(text)
            partial.replace(self.options.output)
        elif ended:
            print(text, end="")

    def run(self):
        """Keep the streams open until the end; returns the exit status."""
        threads = [threading.Thread(target=self.stream, args=(n,)) for n in range(1, self.options.streams + 1)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + self.options.seconds if self.options.seconds else None
        while any(thread.is_alive() for thread in threads):
            if deadline and time.monotonic() >= deadline:
                self.ending.set()
            self.write()
            until = time.monotonic() + 1
            while any(thread.is_alive() for thread in threads) and time.monotonic() < until:
                time.sleep(0.02)
        for thread in threads:
            thread.join()
        self.write(ended=True)
        return 1 if self.failed or self.cut else 0


def main(argv=None):
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True, help="base url, without /v1")
    parser.add_argument("--streams", type=int, default=8, help="streams that are open at a time (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=40, help="tokens of each answer (default: %(default)s)")
    parser.add_argument("--model", default="lab", help="name of the served model (default: %(default)s)")
    parser.add_argument("--prompt", default="", help="beginning of all prompts")
    parser.add_argument("--key-file", type=Path, help="file with the key of a gateway")
    parser.add_argument("--requests", type=int, default=0, help="requests of each stream; 0 (default) goes on")
    parser.add_argument(
        "--seconds", type=float, default=0, help="time after which no new request is made; 0: on SIGTERM"
    )
    parser.add_argument("--timeout", type=float, default=120, help="longest silence in seconds (default: %(default)s)")
    parser.add_argument("--output", type=Path, help="file of the summary; without it, stdout at the end")
    load = Load(parser.parse_args(argv))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: load.ending.set())
    return load.run()


if __name__ == "__main__":
    sys.exit(main())
