# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures on request, from SGLANG_STANDIN_FAULT or the file named by SGLANG_STANDIN_FAULT_FILE.

A comma separated list of NAME[=VALUE][@RANK]; the names are described in tests/lab/standin/README.md.
"""

from __future__ import annotations

import os
import re
import sys

KNOWN = {
    # before or while memory is allocated
    "crash": "1",
    "nccl-hang": None,
    "cuda-oom": None,
    "no-kv-room": None,
    "host-memory": "31.20",
    "host-register": "2",
    "hang-before-allocation": None,
    "hang-after-allocation": None,
    "rank-killed": None,
    "rank-killed-early": None,
    "rank-missing": None,
    "rank-doubled": None,
    "rank-wrong-size": None,
    "half-bytes": "0.5",
    "eof-mid-line": None,
    "illegal-access": None,
    "no-compiler": None,
    "no-hicache-lines": None,
    "slow-load": "60",
    # how lines reach the journal
    "bar-open": None,
    "pid-change": None,
    "ansi": None,
    "long-line": "60000",
    "flood": "20000",
    "flood-after-ready": "20000",
    "prompt-quotes-allocation": None,
    "print-secret": "planted-secret",
    # serving
    "port-in-use": None,
    "warmup-fails": None,
    "never-ready": None,
    "die-after-ready": "5",
    "watchdog": "5",
    "http-500-after": "0",
    "nan-after": "0",
    "generation-hangs": "0",
    "unhealthy": None,
    "accept-length": "1.00",
    "no-cached-tokens": None,
    "no-metrics": None,
    "forwarded-trusted": None,
    # stopping
    "ignore-sigterm": None,
    "linger": None,
}
RANKED = {
    "host-memory",
    "host-register",
    "hang-before-allocation",
    "hang-after-allocation",
    "rank-killed",
    "rank-killed-early",
    "rank-missing",
    "rank-doubled",
    "rank-wrong-size",
    "half-bytes",
    "eof-mid-line",
    "illegal-access",
    "no-compiler",
    "bar-open",
    "pid-change",
    "cuda-oom",
    "die-after-ready",
    "watchdog",
    "linger",
}
FIRST_RANK = {"bar-open", "pid-change"}
LAST_RANK = {"rank-killed", "rank-killed-early", "rank-missing", "rank-doubled", "rank-wrong-size", "eof-mid-line"}


class FaultError(ValueError):
    """The list names a fault that does not exist."""


class Faults:
    """The faults of this start."""

    def __init__(self, text=""):
        self.asked = {}
        for word in filter(None, re.split(r"[,\s]+", text.strip())):
            match = re.fullmatch(r"([a-z0-9-]+)(?:=([^@]*))?(?:@(\d+))?", word)
            if not match or match.group(1) not in KNOWN or (match.group(3) and match.group(1) not in RANKED):
                raise FaultError(
                    f"SGLANG_STANDIN_FAULT: {word!r} is no fault of the stand-in; the form is NAME[=VALUE][@RANK] "
                    f"with NAME one of {', '.join(sorted(KNOWN))}."
                )
            name, value, rank = match.groups()
            self.asked[name] = (KNOWN[name] if value is None else value, None if rank is None else int(rank))

    def __contains__(self, name):
        return name in self.asked

    def value(self, name):
        """The fault's value as text (its default where none was given), or None when it was not asked for."""
        return self.asked[name][0] if name in self.asked else None

    def number(self, name):
        """The fault's value as a number, or None when it was not asked for."""
        return None if name not in self.asked else float(self.asked[name][0] or 0)

    def hits(self, name, rank, last):
        """Does the fault strike this rank? Without @RANK it strikes the first, the last or all, as its way is."""
        if name not in self.asked:
            return False
        chosen = self.asked[name][1]
        if chosen is None:
            return (name not in FIRST_RANK or rank == 0) and (name not in LAST_RANK or rank == last)
        return rank == chosen


def from_environment():
    """The faults that the environment asks for; a missing file asks for none."""
    text = os.environ.get("SGLANG_STANDIN_FAULT", "")
    path = os.environ.get("SGLANG_STANDIN_FAULT_FILE")
    if path and os.path.exists(path):
        with open(path, encoding="utf-8") as stream:
            text += "\n" + "\n".join(line.split("#")[0] for line in stream)
    try:
        return Faults(text)
    except FaultError as problem:
        print(problem, file=sys.stderr)
        raise SystemExit(64) from None
