# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose process listens on a port, told from a made proc folder, and once from the real one."""

from __future__ import annotations

import os
import socket

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils._host import socket_owner

GROUP = "/system.slice/sglang.service"
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
LOOPBACK, ANY, OTHER = "0100007F", "00000000", "0200007F"
ANY6, LOOPBACK6 = "0" * 32, "00000000000000000000000001000000"
MAPPED = "0000000000000000FFFF00000100007F"


def table(*sockets):
    """Text of /proc/net/tcp with sockets of (address, port, inode) or (address, port, inode, state)."""
    lines = []
    for number, (address, port, inode, *state) in enumerate(sockets):
        lines.append(
            f"{number:4}: {address}:{port:04X} {'0' * len(address)}:0000 {state[0] if state else '0A'} "
            f"00000000:00000000 00:00000000 00000000  1000        0 {inode} 1 0 100 0 0 10 0\n"
        )
    return HEAD + "".join(lines)


class Proc:
    def __init__(self, folder):
        self.folder = folder
        (folder / "net").mkdir()

    def net(self, tcp=(), tcp6=()):
        (self.folder / "net" / "tcp").write_text(table(*tcp))
        (self.folder / "net" / "tcp6").write_text(table(*tcp6))

    def process(self, pid, cgroup, *inodes, comm="python3"):
        folder = self.folder / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "cgroup").write_text(cgroup if ":" in cgroup else f"0::{cgroup}\n")
        (folder / "comm").write_text(comm + "\n")
        (folder / "fd" / "0").symlink_to("/dev/null")
        for number, inode in enumerate(inodes, 3):
            (folder / "fd" / str(number)).symlink_to(f"socket:[{inode}]")

    def ask(self, address="127.0.0.1", port=30000, group=GROUP):
        return socket_owner.socket_owner(port, address, group, str(self.folder))


@pytest.fixture(name="proc")
def make_proc(tmp_path):
    return Proc(tmp_path)


USER = "/user.slice/user-1000.slice/user@1000.service/app.slice/nc.scope"


def test_a_listener_of_the_unit_is_ours(proc):
    proc.net([(LOOPBACK, 30000, 11)])
    proc.process(5, USER, 12)
    proc.process(7, GROUP, 11)
    assert proc.ask() == {"ours": True, "pid": 7, "comm": "python3", "unit": "sglang.service"}


@pytest.mark.parametrize(
    "cgroup", [GROUP + "/worker", f"1:name=systemd:{GROUP}\n0::/init.scope\n", f"0::{GROUP}/a.scope\n"]
)
def test_a_group_below_the_units_and_an_older_hierarchy_are_ours(proc, cgroup):
    proc.net([(LOOPBACK, 30000, 11)])
    proc.process(7, cgroup, 11)
    assert proc.ask()["ours"] is True


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        (USER, "nc.scope"),
        ("/system.slice/other.service", "other.service"),
        # Names that only begin or end like ours.
        (GROUP + "x", None),
        ("/user.slice" + GROUP, "sglang.service"),
        ("/", None),
    ],
)
def test_a_listener_of_somebody_else_is_named(proc, cgroup, unit):
    proc.net([(LOOPBACK, 30000, 11)])
    proc.process(5, GROUP, 12)
    proc.process(9, cgroup, 11, comm="nc")
    assert proc.ask() == {"ours": False, "pid": 9, "comm": "nc", "unit": unit}


@pytest.mark.parametrize(
    ("address", "tcp", "tcp6", "ours"),
    [
        # The socket of the very address answers, not the one of all.
        ("127.0.0.1", [(LOOPBACK, 30000, 66), (ANY, 30000, 11)], [], False),
        ("127.0.0.1", [(LOOPBACK, 30000, 11), (ANY, 30000, 66)], [], True),
        ("127.0.0.1", [(OTHER, 30000, 66), (ANY, 30000, 11)], [], True),
        ("127.0.0.1", [], [(ANY6, 30000, 11)], True),
        ("127.0.0.1", [], [(MAPPED, 30000, 66), (ANY6, 30000, 11)], False),
        ("::1", [(ANY, 30000, 66)], [(LOOPBACK6, 30000, 11)], True),
        # What could answer and is not ours counts.
        ("127.0.0.1", [(ANY, 30000, 11)], [(ANY6, 30000, 66)], False),
        ("a-name", [(LOOPBACK, 30000, 11), (OTHER, 30000, 66)], [], False),
        # Another port, a connection, or nothing.
        ("127.0.0.1", [(LOOPBACK, 30001, 66)], [], None),
        ("127.0.0.1", [(LOOPBACK, 30000, 66, "01")], [], None),
        ("127.0.0.1", [(OTHER, 30000, 66)], [], None),
        ("::1", [(ANY, 30000, 66)], [], None),
    ],
)
def test_the_socket_that_would_answer_decides(proc, address, tcp, tcp6, ours):
    proc.net(tcp, tcp6)
    proc.process(7, GROUP, 11)
    proc.process(9, USER, 66)
    assert proc.ask(address)["ours"] is ours


@pytest.mark.parametrize("group", [None, "", "/", "/a/../..", "sglang.service"])
def test_a_unit_without_a_group_tells_nothing(proc, group):
    proc.net([(LOOPBACK, 30000, 11)])
    proc.process(7, GROUP, 11)
    assert proc.ask(group=group)["ours"] is None


def test_a_process_that_may_not_be_looked_at_tells_nothing(proc, monkeypatch):
    proc.net([(LOOPBACK, 30000, 66)])
    proc.process(9, USER, 66)
    listdir = os.listdir

    def refuse(path):
        if str(path).endswith("/fd"):
            raise PermissionError(path)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", refuse)
    assert proc.ask()["ours"] is None


def test_a_folder_that_is_none_tells_nothing(tmp_path):
    assert socket_owner.socket_owner(30000, "127.0.0.1", GROUP, str(tmp_path / "none"))["ours"] is None
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text(HEAD + "0: XX:YY 0:0 0A a b c d e f\n")
    assert socket_owner.socket_owner(30000, "127.0.0.1", GROUP, str(tmp_path))["ours"] is None


def test_a_socket_of_this_process_is_found_in_the_real_proc():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        found = socket_owner.socket_owner(listener.getsockname()[1], "127.0.0.1", "/no/such.service")
    assert (found["ours"], found["pid"]) == (False, os.getpid())
