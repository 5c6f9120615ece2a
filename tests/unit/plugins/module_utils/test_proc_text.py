# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import proc_text

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:7530 00000000:0000 0A 00000000:00000000 00:00000000 00000000   998        0 4711 1 0 100 0 0 10 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 100 0 0 10 0
   2: 0100007F:7530 0100007F:C001 01 00000000:00000000 00:00000000 00000000   998        0 4713 1 0 100 0 0 10 0
"""
TCP6 = """\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when
   0: 00000000000000000000000000000000:7530 00000000000000000000000000000000:0000 0A 0:0 00:0 0 998 0 4714 1 0 100
   1: 00000000000000000000000001000000:7530 00000000000000000000000000000000:0000 0A 0:0 00:0 0 998 0 4715 1 0 100
"""


def test_memory_is_in_bytes_and_counters_are_not_scaled():
    text = "MemTotal:       1056618884 kB\nMemAvailable:   1025160784 kB\nHugePages_Total:    512\nnonsense\n"
    assert proc_text.parse_meminfo(text) == {
        "MemTotal": 1056618884 * 1024,
        "MemAvailable": 1025160784 * 1024,
        "HugePages_Total": 512,
    }


def test_only_listening_sockets_of_the_port_count():
    assert proc_text.parse_listeners(TCP, [30000]) == [{"address": "127.0.0.1", "port": 30000, "inode": "4711"}]
    assert proc_text.parse_listeners(TCP, [22]) == [{"address": "0.0.0.0", "port": 22, "inode": "4712"}]
    assert [row["inode"] for row in proc_text.parse_listeners(TCP, [30000, 22])] == ["4711", "4712"]
    assert proc_text.parse_listeners(TCP, [30001]) == []
    assert proc_text.parse_listeners("", [22]) == []


def test_listeners_of_version_6():
    assert [row["address"] for row in proc_text.parse_listeners(TCP6, [30000])] == ["::", "::1"]


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("0::/system.slice/sglang-kimi.service\n", "sglang-kimi.service"),
        ("12:pids:/x\n1:name=systemd:/system.slice/sglang-kimi.service\n0::/\n", "sglang-kimi.service"),
        ("0::/system.slice/sglang-kimi.service/sub\n", "sglang-kimi.service"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope\n", "run-1.scope"),
        ("3:memory:/system.slice/other.service\n", None),
        ("9:name=systemd:/init.scope\n8:pids:/\n0::/system.slice/sglang-kimi.service\n", "sglang-kimi.service"),
        ("0::/init.scope\n", None),
        ("0::/\n", None),
        ("", None),
    ],
)
def test_unit_of_a_process(text, unit):
    assert proc_text.parse_unit(text) == unit
