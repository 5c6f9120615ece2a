# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import pci_config


def space(*entries):
    """Configuration space with extended capabilities given as (offset, number, next, control)."""
    content = bytearray(4096)
    for offset, number, after, control in entries:
        content[offset : offset + 4] = (number | 1 << 16 | after << 20).to_bytes(4, "little")
        content[offset + 6 : offset + 8] = control.to_bytes(2, "little")
    return bytes(content)


@pytest.mark.parametrize(
    ("config", "redirects"),
    [
        (None, None),
        (b"\x00" * 64, None),  # what a reader without privileges gets
        (space(), False),
        (space((0x100, 0x000D, 0, 0x04)), True),
        (space((0x100, 0x000D, 0, 0x08)), True),
        (space((0x100, 0x000D, 0, 0x1D)), True),  # what Linux sets
        (space((0x100, 0x000D, 0, 0x53)), False),  # everything but the two redirects
        (space((0x100, 0x0001, 0x2A0, 0xFFFF), (0x2A0, 0x000D, 0, 0x1D)), True),
        (space((0x100, 0x0001, 0x2A0, 0xFFFF), (0x2A0, 0x0019, 0, 0xFFFF)), False),
        (space((0x100, 0x0001, 0x100, 0)), False),  # a chain that bites its tail
        (space((0x100, 0x0001, 0xFFC, 0)), False),
        (b"\xff" * 4096, False),  # a device that fell off the bus
    ],
)
def test_redirection_is_read_from_the_control_register(config, redirects):
    assert pci_config.redirects(config) is redirects


@pytest.mark.parametrize(
    ("path", "bridges"),
    [
        ("/sys/devices/pci0000:c0/0000:c0:01.1/0000:c1:00.0", ["0000:c0:01.1"]),
        ("/sys/devices/pci10000:00/10000:00:1d.0/10000:01:00.0/10000:02:00.0", ["10000:00:1d.0", "10000:01:00.0"]),
        ("/sys/bus/pci/devices/0000:01:00.0", []),
    ],
)
def test_the_bridges_above_a_device_stand_in_its_path(path, bridges):
    assert pci_config.bridges_above(path) == bridges


@pytest.mark.parametrize(
    ("bus_id", "address"),
    [
        ("00000000:01:00.0", "0000:01:00.0"),
        ("00000000:E1:00.0", "0000:e1:00.0"),
        ("00010000:C1:00.0", "10000:c1:00.0"),
        ("[N/A]", None),
        (None, None),
    ],
)
def test_addresses_of_nvidia_smi_and_sysfs(bus_id, address):
    assert pci_config.sysfs_address(bus_id) == address
