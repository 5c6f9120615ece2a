# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What code does to make files last and to keep others out: its calls, in order, and locks seen by another process."""

from __future__ import annotations

import contextlib
import fcntl
import multiprocessing
import os

# Long enough for another process to run into the lock, and to show that it waits there.
WAIT_SECONDS = 0.3


class Trace(list):
    """Events in order: ("fsync", path, text then) of a file, ("fsync", path, None) of a folder, (call, from, to)."""

    def of(self, call):
        return [event for event in self if event[0] == call]


def record(monkeypatch):
    """Note every fsync, replace and rename of this process, and do them."""
    trace = Trace()
    fsync, replace, rename = os.fsync, os.replace, os.rename

    def noted_fsync(descriptor):
        path, text = os.readlink(f"/proc/self/fd/{descriptor}"), None
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="surrogateescape", newline="") as stream:
                text = stream.read()
        trace.append(("fsync", path, text))
        fsync(descriptor)

    def noted(name, call):
        def moved(source, target, **options):
            trace.append((name, os.fspath(source), os.fspath(target)))
            call(source, target, **options)

        return moved

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted("replace", replace))
    monkeypatch.setattr(os, "rename", noted("rename", rename))
    return trace


def _hold(enter, held, let_go):
    with enter():
        held.set()
        let_go.wait(30)


def _try(enter, came_in):
    with enter():
        came_in.set()


def keeps_out(first, second):
    """Tell whether a process in the context of ``first()`` keeps one that wants that of ``second()`` waiting.

    Both are functions that return a context. The second process has to come in once the first has left.
    """
    context = multiprocessing.get_context("fork")
    held, let_go, came_in = context.Event(), context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(first, held, let_go))
    other = context.Process(target=_try, args=(second, came_in))
    holder.start()
    try:
        assert held.wait(30)
        other.start()
        waited = not came_in.wait(WAIT_SECONDS)
        let_go.set()
        assert came_in.wait(30)
        return waited
    finally:
        let_go.set()
        for process in (holder, other):
            if process.pid:
                process.join(30)
                process.kill()


def is_locked(path):
    """Tell whether some open file has the lock of ``path`` (a file or a folder), without waiting for it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextlib.contextmanager
def umask(value):
    """Set the umask meanwhile."""
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def open_descriptors():
    """Count the open descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))
