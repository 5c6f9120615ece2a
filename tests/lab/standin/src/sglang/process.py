# SPDX-License-Identifier: GPL-3.0-or-later
"""Small helpers around processes: names, death with the parent, pipes with one line per message."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def set_title(title):
    """Give the process the engine's title: `ps` and the kernel's log show it (15 characters there)."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="ascii") as stream:
        stream.write(title[:15])
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open("/proc/self/stat", encoding="utf-8") as stream:
            fields = stream.read().rpartition(")")[2].split()
        start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end, proc(5)
        data = title.encode()[: end - start - 1]
        ctypes.memmove(start, data + b"\0" * (end - start - len(data)), end - start)


def die_with_parent():
    """SIGKILL for this process when its parent is gone, as the engine's children ask for."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def fork(work, title, keep=(), orphan=False):
    """Run work() in a child process; returns its pid. `keep`: file descriptors that stay open in the child."""
    sys.stdout.flush()
    sys.stderr.flush()
    begun_read, begun_write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(begun_write)
        os.read(begun_read, 1)  # the child closes its end once it has its name, so that nobody sees it without
        os.close(begun_read)
        return pid
    code = 1
    try:
        for number in (signal.SIGTERM, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        if not orphan:
            die_with_parent()
        set_title(title)
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2 and int(name) not in keep:
                with contextlib.suppress(OSError):
                    os.close(int(name))
        code = work() or 0
    except KeyboardInterrupt:
        pass
    finally:
        os._exit(code)


def send(descriptor, message):
    """Write one message as a line of JSON; a reader that is gone is no error."""
    with contextlib.suppress(OSError):
        os.write(descriptor, json.dumps(message).encode() + b"\n")


def messages(descriptor):
    """Messages of a pipe until its other end is closed; waits without using the processor."""
    rest = b""
    while True:
        chunk = os.read(descriptor, 65536)
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield json.loads(line)
