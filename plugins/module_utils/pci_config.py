# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the configuration space of a PCI function.

Pure functions on bytes and text: nothing here opens a file.
"""

from __future__ import annotations

import re

# PCI Express Base Specification: extended capabilities begin at 0x100; Access Control Services is number 0x000d.
_FIRST_EXTENDED = 0x100
_ACS = 0x000D
_ACS_CONTROL = 6
# Request and completion redirect: traffic between two functions below the bridge goes up to the root complex.
_REDIRECTS = 0x04 | 0x08

_ADDRESS = re.compile(r"^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")


def redirects(config):
    """Whether a bridge redirects traffic between devices (ACS), from its configuration space.

    None where the bytes end before the extended capabilities, as they do for an unprivileged reader.
    """
    if config is None or len(config) <= _FIRST_EXTENDED:
        return None
    offset, seen = _FIRST_EXTENDED, set()
    while offset >= _FIRST_EXTENDED and offset + 8 <= len(config) and offset not in seen:
        seen.add(offset)
        header = int.from_bytes(config[offset : offset + 4], "little")
        if header & 0xFFFF == _ACS:
            control = int.from_bytes(config[offset + _ACS_CONTROL : offset + _ACS_CONTROL + 2], "little")
            return bool(control & _REDIRECTS)
        offset = header >> 20
    return False


def is_address(name):
    """Whether a name is a PCI address as sysfs writes it."""
    return bool(_ADDRESS.match(name))


def bridges_above(real_path):
    """Addresses of the bridges between the root complex and a function, outermost first, from its path below /sys."""
    return [name for name in real_path.split("/")[:-1] if is_address(name)]


def sysfs_address(bus_id):
    """nvidia-smi's "00000000:01:00.0" as sysfs writes it, "0000:01:00.0"; None if it is no address."""
    found = re.match(r"^([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])$", bus_id or "")
    return f"{int(found.group(1), 16):04x}:{found.group(2).lower()}" if found else None
