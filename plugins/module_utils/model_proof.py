# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sums of a model's files, computed in parallel, and the stamp that spares computing them again.

A stamp is ``{"format": 2, "kind", "repo", "revision", "made": seconds, "files": {name: mark}}``. A mark is ``{"size",
"mtime_ns", "inode", "sha256"}``: a file whose first three are the same still has the sum; any other is read again.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from . import stamp_file

STAMP_FORMAT = 2
# Large enough that hashlib, which lets other threads run meanwhile, does nearly all of the work.
CHUNK = 1 << 20
MOST_THREADS = 32


def default_threads():
    """As many threads as this process has processors."""
    return max(1, min(MOST_THREADS, len(os.sched_getaffinity(0))))


class Progress:
    """Bytes that all threads have done, handed on from time to time. ``tell(done, total)`` is called by one thread."""

    def __init__(self, total, tell=None, pause=2.0, clock=time.monotonic):
        self.total, self.done = total, 0
        self._tell, self._pause, self._clock = tell, pause, clock
        self._lock = threading.Lock()
        self._next = 0.0

    def add(self, count):
        """Counts bytes; negative ones were done for nothing."""
        with self._lock:
            self.done += count
            if self._tell is None or self._clock() < self._next:
                return
            self._next = self._clock() + self._pause
            self._tell(self.done, self.total)


def hash_file(path, git_size=None, add=None):
    """sha256 of a file, and git's blob id where ``git_size`` is the file's size: ``(sha256, git or None)``.

    ``add`` is called with the number of bytes after each part. The file is read once.
    """
    sha256 = hashlib.sha256()
    blob = None
    if git_size is not None:
        blob = hashlib.sha1(f"blob {git_size}\0".encode())
    buffer = bytearray(CHUNK)
    view = memoryview(buffer)
    with open(path, "rb", buffering=0) as stream:
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        while True:
            count = stream.readinto(buffer)
            if not count:
                break
            sha256.update(view[:count])
            if blob is not None:
                blob.update(view[:count])
            if add is not None:
                add(count)
    return sha256.hexdigest(), blob.hexdigest() if blob is not None else None


def mark_of(path, sha256=None):
    """The mark of a file as it lies there. Raises OSError."""
    status = os.stat(path)
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "inode": status.st_ino, "sha256": sha256}


def same_file(mark, path):
    """Whether the file is the one that the mark was made of, as far as size, time and inode tell."""
    try:
        found = mark_of(path)
        return all(mark[key] == found[key] for key in ("size", "mtime_ns", "inode"))
    except (OSError, KeyError, TypeError):
        return False


def changed_files(folder, marks):
    """Names among ``marks`` whose file is not the one that was marked, sorted."""
    return sorted(name for name in marks if not same_file(marks[name], os.path.join(folder, name)))


def prove(folder, names, expected, marks=None, full=False, threads=0, add=None, every=False):
    """Compares files with what is expected of them, reading only what has to be read.

    ``names``: files that are there. ``expected``: manifest (:mod:`model_manifest`). ``marks``: those of a stamp; a file
    that is still the same is not read unless ``full``. A file that neither ``expected`` nor ``marks`` has a sum for is
    only read when ``full`` or ``every``, to have one from then on.

    Returns ``{"marks": {name: mark}, "damaged": {name: sentence}, "read": names that were read}``.
    """
    marks = marks or {}
    jobs, result = [], {"marks": {}, "damaged": {}, "read": []}
    for name in sorted(names):
        path, wanted, mark = os.path.join(folder, name), expected.get(name) or {}, marks.get(name) or {}
        try:
            found = mark_of(path)
        except OSError as error:
            result["damaged"][name] = f"{name} cannot be read: {error.strerror}"
            continue
        size = wanted.get("size")
        if size is not None and found["size"] != size:
            what = "is short" if found["size"] < size else "is too long"
            result["damaged"][name] = f"{name} {what}: it has {found['size']} of {size} bytes"
            continue
        known = mark.get("sha256") if same_file(mark, path) else None
        if known and not full and (wanted.get("sha256") or known) == known:
            result["marks"][name] = dict(found, sha256=known)
        elif full or every or known or mark.get("sha256") or wanted.get("sha256") or wanted.get("git"):
            jobs.append((name, found))
        else:
            result["marks"][name] = found
    # The longest first: no thread is left with a large file at the end.
    jobs.sort(key=lambda job: -job[1]["size"])
    with ThreadPoolExecutor(max_workers=threads or default_threads()) as pool:
        work = [(name, found, pool.submit(_judge, folder, name, found, expected, marks, add)) for name, found in jobs]
        for name, found, future in work:
            sha256, sentence = future.result()
            result["read"].append(name)
            if sentence:
                result["damaged"][name] = sentence
            else:
                result["marks"][name] = dict(found, sha256=sha256)
    return result


def _judge(folder, name, found, expected, marks, add):
    path, wanted, mark = os.path.join(folder, name), expected.get(name) or {}, marks.get(name) or {}
    try:
        sha256, git = hash_file(path, found["size"] if wanted.get("git") else None, add)
    except OSError as error:
        return None, f"{name} cannot be read: {error.strerror}"
    if not same_file(found, path):
        return None, f"{name} changed while it was read: another program writes to it"
    if wanted.get("sha256"):
        if sha256 != wanted["sha256"]:
            return None, f"{name} is damaged: its sha256 is {sha256}, expected is {wanted['sha256']}"
    elif wanted.get("git"):
        if git != wanted["git"]:
            return None, f"{name} is damaged: its git blob id is {git}, expected is {wanted['git']}"
    elif mark.get("sha256") and sha256 != mark["sha256"]:
        return None, f"{name} changed since it was stamped: its sha256 is {sha256}, it was {mark['sha256']}"
    return sha256, None


def _well_formed(stamp):
    return (
        stamp["format"] == STAMP_FORMAT
        and isinstance(stamp["files"], dict)
        and bool(stamp["files"])
        and all(
            isinstance(mark, dict) and isinstance(mark.get("size"), int) and isinstance(mark.get("mtime_ns"), int)
            for mark in stamp["files"].values()
        )
    )


def read_stamp(path):
    """Content of a stamp; None when there is none, or none that this version understands."""
    return stamp_file.read_stamp(path, _well_formed)


def write_stamp(path, marks, kind, repo, revision, now=None):
    """Writes a stamp in one step. Raises OSError."""
    content = {
        "format": STAMP_FORMAT,
        "kind": kind,
        "repo": repo,
        "revision": revision,
        "made": int(time.time() if now is None else now),
        "files": marks,
    }
    stamp_file.write_stamp(path, content)
