# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One rollout of a fleet at a time: who holds the lock, who may take it, and until when.

The content of the lock is a mapping: the holder's own (token, user, controller, pid, playbook, ...), since, renewed and
until (seconds since 1970, by the clock of the lock's host), and phase.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
import time


class LockError(Exception):
    """The lock cannot be had or kept; the message is a sentence."""


def moment(seconds):
    """Seconds since 1970 as people read them."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def describe(holder):
    """One sentence's part about a holder."""
    try:
        return (
            f"{holder['user']} at {holder['controller']} (pid {holder['pid']}, {holder['playbook']}) since"
            f" {moment(holder['since'])}, last heard {moment(holder['renewed'])} in phase {holder.get('phase') or '-'}"
        )
    except (KeyError, TypeError, ValueError):
        return "somebody who did not write down a name"


def may_take(holder, token, dead, alive, now):
    """Tell whether the lock may be taken: it is free, one's own, its holder is dead, or its time is over.

    dead and alive: the token of a holder of which the controller knows that its process ended, or runs.
    """
    if not holder or holder.get("token") == token:
        return True
    if holder.get("token") == dead:
        return True
    if holder.get("token") == alive:
        return False
    try:
        return float(holder["until"]) <= now
    except (KeyError, TypeError, ValueError):
        # A lock that nobody can read has no holder who renews it.
        return True


class Lock:
    """The lock's file on its host. Every change is made under the kernel's lock on a file beside it."""

    def __init__(self, path, clock=time.time):
        self.path = path
        self.clock = clock

    @contextlib.contextmanager
    def alone(self):
        """Keep every other process of this host from the lock meanwhile."""
        os.makedirs(os.path.dirname(self.path), mode=0o755, exist_ok=True)
        descriptor = os.open(f"{self.path}.guard", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def read(self):
        """Content of the lock, or None where nobody holds it; {} for one that cannot be read."""
        try:
            with open(self.path, encoding="utf-8") as stream:
                content = json.load(stream)
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError):
            return {}
        return content if isinstance(content, dict) else {}

    def write(self, content):
        """Write the lock whole, or leave it as it was."""
        handle, part = tempfile.mkstemp(prefix=".lock-", dir=os.path.dirname(self.path))
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump(content, stream, indent=2, sort_keys=True)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(part, 0o644)
            os.replace(part, self.path)
        except BaseException:
            os.unlink(part)
            raise

    def take(self, holder, lease, phase="", dead=None, alive=None, pretend=False):
        """Take the lock; returns (changed, the holder before or None). Raises LockError where another has it."""
        with contextlib.nullcontext() if pretend else self.alone():
            before, now = self.read(), self.clock()
            if before is not None and not may_take(before, holder["token"], dead, alive, now):
                raise LockError(
                    f"A rollout of this fleet is under way: {self.path} is held by {describe(before)}. Wait for its"
                    " end; if you know that it is gone, break the lock with -e rollout_lock_broken=true."
                )
            own = before is not None and before.get("token") == holder["token"]
            since = before.get("since", now) if own else now
            if not pretend:
                self.write(dict(holder, since=since, renewed=now, until=now + lease, phase=phase))
            return not own, None if own else before

    def renew(self, holder, lease, phase="", pretend=False):
        """Say that the holder lives. Raises LockError where the lock is no longer its own."""
        if pretend:
            return
        with self.alone():
            before, now = self.read(), self.clock()
            if before is None or before.get("token") != holder["token"]:
                found = "nobody has it now" if before is None else f"it is held by {describe(before)}"
                raise LockError(
                    f"The lock of this rollout was broken: {self.path} is no longer its own, {found}. It stops here, so"
                    " that two rollouts do not change the same hosts."
                )
            self.write(dict(before, renewed=now, until=now + lease, phase=phase or before.get("phase", "")))

    def release(self, holder, pretend=False):
        """Give the lock back; returns whether it was one's own."""
        with contextlib.nullcontext() if pretend else self.alone():
            before = self.read()
            own = before is not None and before.get("token") == holder["token"]
            if own and not pretend:
                os.unlink(self.path)
            return own

    def break_open(self, pretend=False):
        """Remove the lock whoever holds it; returns the holder or None."""
        with contextlib.nullcontext() if pretend else self.alone():
            before = self.read()
            if before is not None and not pretend:
                os.unlink(self.path)
            return before
