# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a router host keeps about its workers: which of them serve, which are drained, and why.

Standard library only, Python 3.9 and newer, no Ansible. The role copies this file to the router host as well, where the
program that fills the router reads it. The file is replaced in one step, and changed under a lock only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
import time

SERVING, DRAINED = "serving", "drained"
# By whom a worker is drained that a rollout took out; every other name is a person's.
ROLLOUT = "rollout"
FIELDS = ("host", "service", "state", "reason", "by", "since")


class Unreadable(Exception):
    """The file is there and is not what this collection writes; the message says what is wrong."""


def parse(text, path="workers.json"):
    """Workers of the file's text, {url: entry}."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{path} is no JSON ({error})") from error
    workers = content.get("workers") if isinstance(content, dict) else None
    if not isinstance(workers, dict):
        raise Unreadable(f"{path} has no mapping 'workers'")
    for url, entry in workers.items():
        state = entry.get("state") if isinstance(entry, dict) else None
        if state not in (SERVING, DRAINED):
            raise Unreadable(
                f"{path} has for {url} the state {json.dumps(state)}, which is neither serving nor drained"
            )
    return {url: {**dict.fromkeys(FIELDS, ""), **entry} for url, entry in workers.items()}


def render(workers):
    """Text of the file."""
    return json.dumps({"workers": {url: workers[url] for url in sorted(workers)}}, indent=2, sort_keys=True) + "\n"


def entry_of(state, host, service, reason, by, since):
    """An entry of the file."""
    return {"host": host, "service": service, "state": state, "reason": reason, "by": by, "since": since}


def changed_workers(workers, url, wanted, entry=None):
    """Workers after one of them was given a state, or was taken out (``wanted`` is absent).

    A worker that has the state already keeps its entry: who drained it first, and why, stays true. Only a person who
    gives a reason takes over what a rollout drained, so that no rollout puts it back. Host and service are corrected
    where they are given.
    """
    after = dict(workers)
    if wanted == "absent":
        after.pop(url, None)
        return after
    before = workers.get(url)
    if before is not None:
        names = {name: entry[name] or before[name] for name in ("host", "service")}
        over = wanted == DRAINED and before["by"] == ROLLOUT != entry["by"] and entry["reason"]
        entry = {**(before if before["state"] == wanted and not over else entry), **names}
    after[url] = entry
    return after


def urls_in(workers, state):
    """Sorted urls of the workers in a state."""
    return sorted(url for url, entry in workers.items() if entry["state"] == state)


def moment(seconds=None):
    """A time as it stands in the file."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def read(path):
    """Workers of a file; none where it is missing."""
    try:
        with open(path, encoding="utf-8") as stream:
            return parse(stream.read(), path)
    except FileNotFoundError:
        return {}


def write(path, workers):
    """Replace the file in one step. Everybody may read it."""
    folder = os.path.dirname(path)
    number, partial = tempfile.mkstemp(prefix=".workers-", dir=folder)
    try:
        with open(number, "w", encoding="utf-8") as stream:
            os.fchmod(stream.fileno(), 0o644)
            stream.write(render(workers))
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


@contextlib.contextmanager
def held(path):
    """Hold the lock of a file of workers. Whoever may read the lock's file may hold it."""
    lock = os.path.join(os.path.dirname(path), ".workers.lock")
    try:
        number = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(lock), mode=0o755, exist_ok=True)
        number = os.open(lock, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def change(path, url, wanted, entry=None):
    """Give a worker a state under the lock; returns its entries before and after (None: there is none)."""
    with held(path):
        before = read(path)
        after = changed_workers(before, url, wanted, entry)
        if after != before:
            write(path, after)
    return before.get(url), after.get(url)


def put(path, url, entry):
    """Put an entry back as it was (None: none)."""
    with held(path):
        workers = read(path)
        after = {name: kept for name, kept in workers.items() if name != url}
        if entry is not None:
            after[url] = entry
        if after != workers:
            write(path, after)
