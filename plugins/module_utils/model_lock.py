# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One writer of a model folder at a time.

The lock is the kernel's (flock) on a file beside the folder: it ends with its holder, however that ends, and on NFS it
holds between hosts. The file's content only tells people who holds it, and how far it is.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import time


class LockHeldError(Exception):
    """Somebody else holds the lock; the message names him."""


def describe(holder, now):
    """One sentence's part about a holder, from the content of a lock file."""
    try:
        since = int(holder["since"])
        began = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(since))
        who = f"pid {int(holder['pid'])} on host {holder['host']}, since {began} ({max(0, int(now) - since)} s)"
    except (KeyError, TypeError, ValueError):
        return "a process that did not write down its name"
    total, done = holder.get("total") or 0, holder.get("done") or 0
    return f"{who}, {done / 1e9:.1f} of {total / 1e9:.1f} GB done" if total else who


class Lock:
    """The lock of one model folder, for use in ``with``."""

    def __init__(self, path, clock=time.time):
        self.path = path
        self.clock = clock
        self.descriptor = None
        self.content = {}

    def take(self, wait=0, pause=1.0):
        """Takes the lock, after up to ``wait`` seconds. Raises LockHeldError, or OSError where no file can be made."""
        deadline = time.monotonic() + wait
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = self._read(descriptor)
                os.close(descriptor)
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
                if time.monotonic() >= deadline:
                    raise LockHeldError(describe(holder, self.clock())) from None
                time.sleep(pause)
                continue
            # Whoever waited may have opened a file that its holder has removed since.
            if self._is_current(descriptor):
                self.descriptor = descriptor
                self.content = {"pid": os.getpid(), "host": socket.gethostname(), "since": int(self.clock())}
                self._write()
                return self
            os.close(descriptor)

    def note(self, done, total):
        """Writes down how far the holder is."""
        self.content.update(done=done, total=total)
        self._write()

    def release(self):
        """Ends the lock and removes its file."""
        if self.descriptor is None:
            return
        with contextlib.suppress(OSError):
            os.unlink(self.path)
        os.close(self.descriptor)
        self.descriptor = None

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.release()

    def _is_current(self, descriptor):
        try:
            there = os.stat(self.path)
        except OSError:
            return False
        mine = os.fstat(descriptor)
        return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)

    def _write(self):
        text = json.dumps(self.content, sort_keys=True).encode() + b"\n"
        try:
            # Readers may come at any time: no moment without content, and padding over what was longer.
            size = os.fstat(self.descriptor).st_size
            os.pwrite(self.descriptor, text.ljust(max(size, len(text))), 0)
        except OSError:
            # On a full disk the lock still holds; only its note is missing.
            pass

    @staticmethod
    def _read(descriptor):
        try:
            found = json.loads(os.pread(descriptor, 4096, 0).decode("utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}
