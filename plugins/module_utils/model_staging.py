# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new revision grows beside the old one and takes its place when it is complete.

For ``/srv/models/NAME`` these lie beside it, on the same file system:

* ``.NAME.part-KEY``: what is being filled; the key is of repository and revision, so that who goes back to another
  revision in mid-download, and forth again, loses nothing. Files that the old revision has already are hard links;
* ``.NAME.previous``: the revision before, where it is to be kept;
* ``.NAME.lock``: the lock of the one writer (:mod:`model_lock`).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import re
import shutil
import stat
import time

PROVED = ".llmfleet-proved.json"
# What was fetched of a revision that nobody asks for any more goes after this time.
STALE_DAYS = 7
AT_FDCWD = -100
RENAME_EXCHANGE = 2


class Places:
    """Paths that belong to one model folder. A link to the folder stands for the folder."""

    def __init__(self, path, repo="", revision=""):
        self.path = os.path.realpath(path)
        self.parent, self.name = os.path.split(self.path)
        key = hashlib.sha256(f"{repo}@{revision}".encode()).hexdigest()[:8]
        self.part = os.path.join(self.parent, f".{self.name}.part-{key}")
        self.previous = os.path.join(self.parent, f".{self.name}.previous")
        self.lock = os.path.join(self.parent, f".{self.name}.lock")

    def other_parts(self):
        """Folders that are being filled with other revisions, sorted."""
        pattern = re.compile(re.escape(f".{self.name}.part") + "(-[0-9a-f]{8})?")
        found = []
        with contextlib.suppress(OSError):
            found = [os.path.join(self.parent, name) for name in os.listdir(self.parent) if pattern.fullmatch(name)]
        return sorted(path for path in found if path != self.part and os.path.isdir(path))

    def stale_parts(self, now=None):
        """Those of :meth:`other_parts` in which nothing has arrived for ``STALE_DAYS``."""
        oldest = (time.time() if now is None else now) - STALE_DAYS * 86400
        return [path for path in self.other_parts() if newest_change(path) < oldest]


def newest_change(folder):
    """Time of the last change of a folder, or of a file in it that was on its way (others may be links to old ones)."""
    newest = 0.0
    for base, _folders, names in os.walk(folder):
        growing = [name for name in names if name == PROVED or name.endswith((".part", ".incomplete"))]
        for path in [base, *(os.path.join(base, name) for name in growing)]:
            with contextlib.suppress(OSError):
                newest = max(newest, os.lstat(path).st_mtime)
    return newest


def is_mount_point(path):
    """Whether something is mounted at ``path``, so that it cannot be renamed."""
    return os.path.isdir(path) and os.path.ismount(path)


def nearest_folder(path):
    """The folder itself, or the nearest above it that is there."""
    while not os.path.isdir(path):
        path = os.path.dirname(path.rstrip("/")) or "/"
    return path


def free_bytes(path):
    """Free bytes, for users that are not root, where ``path`` is or would be made."""
    status = os.statvfs(nearest_folder(path))
    return status.f_bavail * status.f_frsize


def link_or_copy(source, target):
    """Puts ``source`` at ``target`` as a hard link, or as a copy where there are no links. True for a link."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    source = os.path.realpath(source)
    try:
        os.link(source, target)
        return True
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES, errno.ENOSYS):
            raise
    partial = target + ".part"
    with open(source, "rb") as reading, open(partial, "wb") as writing:
        _copy(reading.fileno(), writing.fileno(), os.fstat(reading.fileno()).st_size)
    os.replace(partial, target)
    return False


def _copy(source, target, size):
    # On file systems that can, copy_file_range shares the blocks and costs no space.
    done = 0
    while done < size:
        try:
            count = os.copy_file_range(source, target, min(size - done, 1 << 30))
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
                raise
            block = os.read(source, 1 << 20)
            count = os.write(target, block) if block else 0
            os.lseek(source, done + count, os.SEEK_SET)
        if not count:
            break
        done += count


def clear(folder, wanted, keep=(PROVED,)):
    """Removes everything from a folder that is neither wanted nor part of something wanted; returns the names.

    ``wanted``: names of files. ``NAME.part`` of a wanted file stays, so that its download is resumed.
    """
    stay = set(wanted) | {f"{name}.part" for name in wanted} | set(keep)
    removed = []
    for name in walk(folder):
        if name not in stay and not name.startswith(os.path.join(".cache", "huggingface", "")):
            os.unlink(os.path.join(folder, name))
            removed.append(name)
    return sorted(removed)


def walk(folder):
    """Names of all files and links below a folder."""
    found = []
    for base, folders, files in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(base, name))]
        found += [os.path.relpath(os.path.join(base, name), folder) for name in files + links]
    return sorted(found)


def open_to_all(folder):
    """Gives every user the right to read, and nobody but the owner the right to write."""
    for base, _folders, files in os.walk(folder):
        os.chmod(base, 0o755)
        for name in files:
            path = os.path.join(base, name)
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode) and stat.S_IMODE(status.st_mode) != 0o644:
                os.chmod(path, 0o644)


def read_proved(folder):
    """Marks of the files that an earlier run proved in a folder that is being filled."""
    try:
        with open(os.path.join(folder, PROVED), encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_proved(folder, marks):
    """Notes which files of a folder that is being filled are proved."""
    path = os.path.join(folder, PROVED)
    with open(path + ".new", "w", encoding="utf-8") as stream:
        json.dump(marks, stream)
    os.replace(path + ".new", path)


def _libc(name, *arguments):
    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (OSError, AttributeError):
        return -1
    return function(*arguments)


def _exchange(first, second):
    """Exchanges two folders in one step; False where the system or the file system cannot."""
    arguments = (AT_FDCWD, os.fsencode(first), AT_FDCWD, os.fsencode(second), RENAME_EXCHANGE)
    return _libc("renameat2", *arguments) == 0


def put_in_place(places):
    """Gives the filled folder the model's name. What had the name is then at ``places.previous``.

    At every moment one of the two has the name, but on file systems that cannot exchange names (NFS for one) there is
    none for the time between two calls; :func:`heal` mends what a crash at that moment leaves.
    """
    remove(places.previous)
    if not os.path.lexists(places.path):
        os.rename(places.part, places.path)
    elif _exchange(places.part, places.path):
        os.rename(places.part, places.previous)
    else:
        os.rename(places.path, places.previous)
        try:
            os.rename(places.part, places.path)
        except OSError:
            os.rename(places.previous, places.path)
            raise
    _sync_folder(places.parent)


def heal(places):
    """Gives the old revision its name back where a crash left nothing at it; whether that was so."""
    if os.path.lexists(places.path) or not os.path.isdir(places.previous):
        return False
    os.rename(places.previous, places.path)
    return True


def remove(path):
    """Removes a folder if it is there; whether it was."""
    if not os.path.lexists(path):
        return False
    shutil.rmtree(path)
    return True


def _sync_folder(path):
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
