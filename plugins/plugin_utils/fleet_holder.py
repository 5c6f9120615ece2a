# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which process of which controller this run is, and whether another one still runs.

A process is known by its pid and the time at which it began, which the kernel gives to no second one. A controller is
known by its boot and its namespace of pids, so that two containers with one name are two controllers.
"""

from __future__ import annotations

import getpass
import hashlib
import multiprocessing
import os
import socket
from pathlib import Path

ALIVE, DEAD, ELSEWHERE = "alive", "dead", "elsewhere"


def started(pid, proc="/proc"):
    """Return when a process began (ticks since the boot), or None where there is none or it has ended."""
    try:
        text = Path(proc, str(pid), "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name of the program is in parentheses, and may hold any character.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])


def controller(proc="/proc"):
    """Return what tells this controller, as it has booted, from every other."""
    boot = Path(proc, "sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{os.readlink(f'{proc}/self/ns/pid')}"


def main_pid():
    """Return the pid of the program that runs the playbook; tasks run in children of it."""
    return os.getppid() if multiprocessing.parent_process() else os.getpid()


def user():
    """Return the name of who runs the playbook, and as whom."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    real = os.environ.get("SUDO_USER")
    return f"{real} as {name}" if real and real != name else name


def own(playbook, proc="/proc"):
    """Return this run as a holder of a lock."""
    pid = main_pid()
    place, began = controller(proc), started(pid, proc)
    return {
        "token": hashlib.sha256(f"{place}/{pid}/{began}".encode()).hexdigest()[:32],
        "user": user(),
        "controller": socket.gethostname(),
        "controller_id": place,
        "pid": pid,
        "started": began,
        "playbook": playbook,
    }


def state_of(holder, proc="/proc"):
    """Tell whether a holder still runs: alive, dead, or elsewhere where only its own controller knows."""
    place = str(holder.get("controller_id") or "")
    here = controller(proc)
    if place != here:
        # The same namespace's number after another boot says nothing: another machine may have it as well.
        return ELSEWHERE
    began = started(holder.get("pid"), proc)
    return ALIVE if began is not None and began == holder.get("started") else DEAD
