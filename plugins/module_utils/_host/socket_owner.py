# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find out whose process listens on a TCP port of this host.

An answer on a port proves something about a unit only if the listening socket belongs to a process of the unit's
control group. The kernel's tables of sockets name an inode, and ``/proc/PID/fd`` shows which process holds it.

Source: ``Documentation/networking/proc_net_tcp.rst`` of Linux; systemd puts each unit into a control group of its own.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

import ipaddress
import os

from ..proc_text import parse_cgroups, parse_listeners, parse_unit


def _unknown():
    return {"ours": None, "pid": None, "comm": None, "unit": None}


def _read(*parts):
    try:
        with open(os.path.join(*parts), encoding="utf-8", errors="replace") as stream:
            return stream.read(4 * 1024 * 1024)
    except OSError:
        return None


def _plain(address):
    """An address without the IPv6 form of IPv4; None where the text is none."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def answering(listeners, address):
    """Those of some listening sockets that a connection to ``address`` may reach.

    The kernel prefers a socket that is bound to the address over one that is bound to all of them. An address that is
    no number may be any of them.
    """
    wanted = _plain(address)
    if wanted is None:
        return list(listeners)
    exact = [one for one in listeners if _plain(one["address"]) == wanted]
    if exact:
        return exact
    # A socket of all IPv6 addresses takes IPv4 as well, unless its program said otherwise.
    return [
        one
        for one in listeners
        if _plain(one["address"]).is_unspecified and (wanted.version == 4 or ":" in one["address"])
    ]


def in_group(text, control_group):
    """Tell whether /proc/PID/cgroup places a process in a control group or below it (version 1, hybrid or 2)."""
    paths = parse_cgroups(text)
    # Where systemd keeps its units: the unified hierarchy has no name.
    own = [(paths.get(name) or "").rstrip("/") for name in ("", "name=systemd")]
    return any(path == control_group or path.startswith(control_group + "/") for path in own)


def _holds(proc, pid, links):
    """Which of some links (``socket:[INODE]``) a process holds; None where its files may not be looked at."""
    folder = os.path.join(proc, pid, "fd")
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return set()
    except OSError:
        return None
    found = set()
    for name in names:
        try:
            link = os.readlink(os.path.join(folder, name))
        except OSError:
            continue
        if link in links:
            found.add(link)
    return found


def socket_owner(port, address, control_group, proc="/proc"):
    """Say whether the process that listens on a port belongs to a unit.

    ``address`` is the one that is going to be asked, ``control_group`` systemd's ``ControlGroup`` of the unit (such as
    ``/system.slice/sglang.service``), ``proc`` the proc file system.

    Returns ``{"ours": True, False or None, "pid": int or None, "comm": str or None, "unit": str or None}``. None means
    that it cannot be told: nothing listens, the unit has no control group, or the rights do not suffice. False names
    a process that is not of the unit. Never raises.
    """
    group = (control_group or "").rstrip("/")
    listeners = []
    for name in ("tcp", "tcp6"):
        text = _read(proc, "net", name)
        try:
            listeners += parse_listeners(text, {port}) if text else []
        except ValueError:
            return _unknown()
    links = {f"socket:[{one['inode']}]" for one in answering(listeners, address)}
    if not links or not group.startswith("/") or ".." in group:
        return _unknown()
    try:
        pids = [name for name in os.listdir(proc) if name.isdigit()]
    except OSError:
        return _unknown()
    groups = {pid: _read(proc, pid, "cgroup") or "" for pid in pids}
    own = [pid for pid in pids if in_group(groups[pid], group)]
    owner = None
    for pid in own:
        held = _holds(proc, pid, links)
        if held:
            links -= held
            owner = owner or pid
        if not links:
            return _told(True, proc, owner, groups[owner])
    # What is left is held by somebody else, or by nobody that may be looked at.
    for pid in pids:
        if pid not in own and _holds(proc, pid, links):
            return _told(False, proc, pid, groups[pid])
    return _unknown()


def _told(ours, proc, pid, cgroup):
    comm = (_read(proc, pid, "comm") or "").strip()[:64]
    return {"ours": ours, "pid": int(pid), "comm": comm or None, "unit": parse_unit(cgroup)}
