# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the texts of Linux's proc file system.

Pure functions on text: nothing here opens a file. Sizes are in bytes.
"""

from __future__ import annotations

import ipaddress
import re
import struct

_LISTENING = "0A"


def parse_meminfo(text):
    """Sizes of /proc/meminfo as ``{"MemTotal": bytes, ...}``; its "kB" are KiB (2**10 bytes). Counters stay numbers."""
    sizes = {}
    for line in text.splitlines():
        found = re.match(r"^([^:]+):\s+(\d+)(\s+kB)?\s*$", line)
        if found:
            sizes[found.group(1)] = int(found.group(2)) * (1024 if found.group(3) else 1)
    return sizes


def parse_listeners(text, ports):
    """Listening TCP sockets of some ports from /proc/net/tcp or tcp6: ``[{"address", "port", "inode"}, ...]``."""
    listeners = []
    for line in text.splitlines()[1:]:
        cells = line.split()
        if len(cells) < 10 or cells[3] != _LISTENING:
            continue
        address, _colon, number = cells[1].rpartition(":")
        if int(number, 16) in ports:
            listeners.append({"address": _address(address), "port": int(number, 16), "inode": cells[9]})
    return listeners


def parse_unit(text):
    """The systemd unit that a process belongs to, from /proc/PID/cgroup (version 1, hybrid or 2); None if none.

    The innermost service or scope is meant: ``/system.slice/a.service/b.scope`` is ``b.scope``. systemd keeps its units
    in one of two hierarchies and leaves all processes in its own ``init.scope`` in the other.
    """
    for line in text.splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3 or not (parts[:2] == ["0", ""] or parts[1] == "name=systemd"):
            continue
        for component in reversed(parts[2].split("/")):
            if component.endswith((".service", ".scope")) and component != "init.scope":
                return component
    return None


def parse_node_memory(text):
    """Sizes of a NUMA node's meminfo below /sys, as :func:`parse_meminfo`: each line begins with "Node N "."""
    return parse_meminfo(re.sub(r"(?m)^Node \d+ +", "", text))


def parse_limits(text):
    """Hard limits of /proc/PID/limits: ``{"Max open files": 1048576, "Max locked memory": None, ...}``.

    None means unlimited. Sizes are in bytes, counts are numbers.
    """
    limits = {}
    for line in text.splitlines():
        found = re.match(r"^(Max [a-z ]+?) {2,}(\d+|unlimited) +(\d+|unlimited)\b", line)
        if found:
            limits[found.group(1)] = None if found.group(3) == "unlimited" else int(found.group(3))
    return limits


def parse_capabilities(text):
    """The effective capabilities of /proc/PID/status as a number with one bit for each; None if it does not tell."""
    found = re.search(r"(?m)^CapEff:\s*([0-9a-fA-F]+)\s*$", text)
    return int(found.group(1), 16) if found else None


def parse_cgroups(text):
    """Paths of /proc/PID/cgroup: ``{"": path in version 2, "memory": path of that controller in version 1, ...}``."""
    paths = {}
    for line in text.splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            for controller in parts[1].split(","):
                paths[controller] = parts[2]
    return paths


def parse_cgroup_limit(text):
    """A limit of a cgroup (memory.max, pids.max, memory.limit_in_bytes, ...); None where there is none.

    Version 2 says "max"; version 1 a number near 2**63 that is rounded to pages.
    """
    text = text.strip()
    if not text.isdigit() or int(text) >= 2**62:
        return None
    return int(text)


def parse_command_line(text):
    """The kernel's parameters in their order; quotes keep spaces together."""
    return [word.replace('"', "") for word in re.findall(r'(?:[^\s"]|"[^"]*")+', text)]


def _address(text):
    # The kernel prints each 32-bit word of the address in the machine's byte order.
    words = [int(text[start : start + 8], 16) for start in range(0, len(text), 8)]
    return str(ipaddress.ip_address(struct.pack(f"={len(words)}I", *words)))
