# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stamps: small JSON files that say that something else is whole, written last and in one step.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os


def read_stamp(path, fits=None):
    """Content of a stamp; None without one, with one that is no JSON object, and with one that ``fits`` refuses.

    ``fits`` gets the content and may raise KeyError, TypeError or ValueError for one that is not well formed.
    """
    try:
        with open(path, "rb") as stream:
            stamp = json.loads(stream.read().decode("utf-8"))
        if not isinstance(stamp, dict) or (fits is not None and not fits(stamp)):
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return stamp


def write_stamp(path, content, mode=0o644):
    """Writes a stamp in one step, so that a reader finds the whole of it or none. Raises OSError.

    What it speaks of has to be on its disk before: see :func:`sync_file_system`.
    """
    partial = f"{path}.{os.getpid()}"
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "w", encoding="utf-8") as stream:
            # Whatever the umask is.
            os.fchmod(descriptor, mode)
            json.dump(content, stream, indent=1, sort_keys=True)
            stream.write("\n")
            stream.flush()
            os.fsync(descriptor)
        os.replace(partial, path)
    except FileExistsError:
        # What an earlier process with this number left in mid-writing.
        os.unlink(partial)
        write_stamp(path, content, mode)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def sync_file_system(path):
    """Returns when everything that was written to the file system of ``path`` is on its disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            os.sync()
    except AttributeError:
        os.sync()
    finally:
        os.close(descriptor)
