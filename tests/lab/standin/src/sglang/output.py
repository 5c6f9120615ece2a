# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines in the engine's own form: logger lines on stderr with a prefix by release, access lines on stdout."""

from __future__ import annotations

import os
import time

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
GREEN, RESET = "\033[32m", "\033[0m"


def stamp(milliseconds=False):
    """Local time as the engine's logger prints it."""
    now = time.time()
    text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    return f"{text}.{int(now * 1000) % 1000:03d}" if milliseconds else text


def write(stream, text):
    """One write call per text, so that lines of several processes do not mix."""
    data = text.encode()
    while data:
        data = data[os.write(stream, data) :]


class Log:
    """The logger of one process; `tags` is the rank part of the prefix, such as " TP0"."""

    def __init__(self, tags="", level="info", milliseconds=False, ansi=False):
        self.tags = tags
        self.threshold = LEVELS.get(level.lower(), 20)
        self.milliseconds = milliseconds
        self.ansi = ansi

    def line(self, text):
        """The whole line, with prefix, without its end."""
        line = f"[{stamp(self.milliseconds)}{self.tags}] {text}"
        return f"{GREEN}{line}{RESET}" if self.ansi else line

    def enabled(self, level):
        """Does --log-level let this level through?"""
        return LEVELS[level] >= self.threshold

    def info(self, text):
        """A line at level info, the level of everything that a verifier looks for."""
        if self.enabled("info"):
            write(2, self.line(text) + "\n")

    def warning(self, text):
        """A line at level warning; the level's name is not printed."""
        if self.enabled("warning"):
            write(2, self.line(text) + "\n")

    def error(self, text):
        """A line at level error."""
        if self.enabled("error"):
            write(2, self.line(text) + "\n")


class ServerLog:
    """What uvicorn prints: its own lines on stderr, one access line per request on stdout."""

    def __init__(self, level="info"):
        self.threshold = LEVELS.get(level.lower(), 20)

    def info(self, text):
        """A line of uvicorn.error at level info."""
        if self.threshold <= 20:
            write(2, f"[{stamp()}] INFO:     {text}\n")

    def error(self, text):
        """A line of uvicorn.error at level error."""
        if self.threshold <= 40:
            write(2, f"[{stamp()}] ERROR:    {text}\n")

    def access(self, address, request, status):
        """An access line; `request` is method, path and protocol."""
        if self.threshold <= 20:
            write(1, f'[{stamp()}] INFO:     {address} - "{request}" {status}\n')
