# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systemd runs around a start of SGLang: ``free`` before it, ``ready`` after it.

``free`` refuses a start, with a sentence, while something of the last instance is left: processes, the port, memory of
its GPUs. ``ready`` ends when the server answers, so that the unit is active when it serves, and fails when it does not.
Only an answer of the unit counts: the listening socket has to be held by a process of its control group.

Python 3.9, standard library alone; run with -I -S. ``free`` runs as root.
"""

from __future__ import annotations

import argparse
import http.client
import ipaddress
import os
import pwd
import re
import socket
import struct
import subprocess
import sys
import time
from urllib.parse import urlsplit

GB = 10**9
POLL_SECONDS = 1.0
# One look may take: a health check of SGLang generates a token, and waits up to 20 s for it.
ANSWER_SECONDS = 30
SMI_SECONDS = 20


# -- the last instance --------------------------------------------------------------------------------------------


def read(path):
    """Text of a file of the kernel; empty where it is gone."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def groups_of(pid, proc="/proc"):
    """Control groups of a process: {controllers: path}; the unified hierarchy has the name ''."""
    found = {}
    for line in read(f"{proc}/{pid}/cgroup").splitlines():
        _number, _colon, rest = line.partition(":")
        controllers, _colon, path = rest.partition(":")
        found[controllers] = path
    return found


def group_of(pid, proc="/proc"):
    """Control group of a process in which systemd keeps it, the empty text where it is gone."""
    groups = groups_of(pid, proc)
    # With the first version of control groups the unified hierarchy may be there and hold nothing.
    return groups.get("name=systemd") or groups.get("") or ""


def unit_of(group):
    """Name of the unit that a control group belongs to, or None."""
    units = [part for part in group.split("/") if part.endswith((".service", ".scope"))]
    return units[-1] if units else None


def own_group(unit, pid, proc="/proc"):
    """Control group of the unit, as this program was started in it; None where it was not."""
    group = group_of(pid, proc)
    return group[: group.rindex(unit) + len(unit)] if unit_of(group) == unit else None


def ancestors(pid, proc="/proc"):
    """The process itself and those that started it."""
    found = set()
    while pid > 0 and pid not in found:
        found.add(pid)
        fields = read(f"{proc}/{pid}/stat").rpartition(")")[2].split()
        pid = int(fields[1]) if len(fields) > 1 else 0
    return found


def name_of(pid, proc="/proc"):
    return f"{pid} ({read(f'{proc}/{pid}/comm').strip() or 'gone'})"


def processes_of(group, own, proc="/proc"):
    """Processes of a control group besides ``own``, those that are dead but not yet gone left out."""
    found = []
    for entry in os.listdir(proc):
        if not entry.isdigit() or int(entry) in own or not within(group_of(entry, proc), group):
            continue
        state = read(f"{proc}/{entry}/stat").rpartition(")")[2].split()
        if state and state[0] not in ("Z", "X"):
            found.append(int(entry))
    return sorted(found)


def within(group, other):
    return group == other or group.startswith(f"{other}/")


def canonical(host):
    """An address as Python writes it, an IPv4 one in its IPv6 form as IPv4; a name stays."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    return str(getattr(address, "ipv4_mapped", None) or address)


def address_of(text):
    """An address of /proc/net/tcp or tcp6 in usual notation: the kernel prints 32-bit words in its byte order."""
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    return canonical(str(ipaddress.ip_address(struct.pack(f"={len(words)}I", *words))))


def listeners(port, proc="/proc"):
    """What listens on a TCP port: a list of (address, inode of the socket, uid of who made it)."""
    found = []
    for name in ("tcp", "tcp6"):
        # ProcSubset=pid leaves of /proc/net what the process's own folder holds.
        text = read(f"{proc}/self/net/{name}") or read(f"{proc}/net/{name}")
        for line in text.splitlines()[1:]:
            fields = line.split()
            if len(fields) < 10 or fields[3] != "0A":
                continue
            address, _colon, number = fields[1].rpartition(":")
            if int(number, 16) == port:
                found.append((address_of(address), fields[9], int(fields[7])))
    return found


def in_the_way(listening, host):
    """Tell whether a listening address keeps a server from listening on ``host``."""
    wild = ("0.0.0.0", "::", "")
    host = "127.0.0.1" if host == "localhost" else canonical(host)
    return listening in wild or host in wild or listening == host


def owner_of(inode, proc="/proc"):
    """Pid of a process that holds a socket, or None."""
    for entry in os.listdir(proc):
        if not entry.isdigit():
            continue
        try:
            for link in os.scandir(f"{proc}/{entry}/fd"):
                if os.readlink(link.path) == f"socket:[{inode}]":
                    return int(entry)
        except OSError:
            continue
    return None


def ask_smi(query):
    """Lines of an answer of nvidia-smi as lists of fields; nothing where it cannot be asked."""
    try:
        done = subprocess.run(
            ["nvidia-smi", query, "--format=csv,noheader"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SMI_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    if done.returncode:
        return []
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return [[field.strip() for field in line.split(",")] for line in lines if "," in line]


def gpu_processes(gpus):
    """Pids that hold memory of the service's GPUs, {pid: GPU}; ``gpus``: numbers or UUIDs, empty for all."""
    apps = ask_smi("--query-compute-apps=gpu_uuid,pid")
    if not apps:
        return {}
    wanted = set(gpus)
    for fields in ask_smi("--query-gpu=index,uuid") if gpus else []:
        if fields[0] in wanted:
            wanted.add(fields[1])
    return {int(fields[1]): fields[0] for fields in apps if fields[1].isdigit() and (not gpus or fields[0] in wanted)}


def available_gb(proc="/proc"):
    """Host memory that a start finds, in GB of 1e9 bytes, or None."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", read(f"{proc}/meminfo"), re.MULTILINE)
    return int(found.group(1)) * 1024 / GB if found else None


def leftovers(ask, group, own, proc="/proc"):
    """What keeps the unit from starting, one part of a sentence each.

    ``group``: the unit's control group, None where that is not known; ``own``: processes of this program.
    """
    found = []
    left = processes_of(group, own, proc) if group else []
    if left:
        found.append(f"processes of the last instance: {', '.join(name_of(pid, proc) for pid in left[:8])}")
    for address, inode, _uid in listeners(ask.port, proc):
        if in_the_way(address, ask.host):
            owner = owner_of(inode, proc)
            holder = f"process {name_of(owner, proc)}" if owner else "a process that is not seen"
            found.append(f"port {ask.port}, on which {holder} listens")
            break
    for pid, gpu in sorted(gpu_processes(ask.gpus).items()):
        # Another unit may well share a GPU. What has no unit, or no process any more, is what a crash leaves.
        holder = group_of(pid, proc)
        if pid not in left and (unit_of(holder) is None or (group and within(holder, group))):
            found.append(f"memory of GPU {gpu}, held by process {name_of(pid, proc)}")
    free = available_gb(proc)
    if ask.memory_gb and free is not None and free < ask.memory_gb:
        found.append(f"host memory: {free:.1f} GB are available and {ask.memory_gb:g} GB are asked for")
    return found


def wait_until_free(ask):
    """Wait until nothing is left; returns the exit status."""
    own, group = ancestors(os.getpid()), own_group(ask.unit, os.getpid())
    deadline = time.monotonic() + ask.seconds
    told = None
    while True:
        found = leftovers(ask, group, own)
        if not found:
            return 0
        if found != told:
            print(f"{ask.unit} waits for {'; '.join(found)}", flush=True)
            told = found
        if time.monotonic() >= deadline:
            print(
                f"{ask.unit} is not started: after {ask.seconds:g} s this is still left: {'; '.join(found)}. "
                "End what holds it, or wait longer (serve_leftover_timeout_seconds).",
                file=sys.stderr,
            )
            return 1
        time.sleep(POLL_SECONDS)


# -- the new instance ---------------------------------------------------------------------------------------------


def born(pid, proc="/proc"):
    """When a process was born, by the kernel's clock; None where it is gone or dead."""
    fields = read(f"{proc}/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] not in ("Z", "X") else None


def answer(url, seconds):
    """What the server answers: (status or None, words)."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=seconds)
    try:
        connection.request("GET", parts.path or "/", headers={"User-Agent": "llmfleet.sglang"})
        status = connection.getresponse().status
        return status, f"it last answered with status {status}"
    except (OSError, http.client.HTTPException) as error:
        return None, f"it does not answer ({error})"
    finally:
        connection.close()


def rank_of(listening, address):
    """Which of several listeners the kernel hands a connection to: the highest rank; 0 gets none of it."""
    if listening == address:
        return 3
    if listening == "0.0.0.0" and ":" not in address:
        return 2
    # May take IPv4 as well; whether it does is not shown.
    return 1 if listening == "::" else 0


def answering(host, port, proc="/proc"):
    """Listeners that may answer a request to an address or name, as ``listeners`` gives them.

    Several of one rank share the connections (SO_REUSEPORT), so all of them are meant.
    """
    try:
        asked = {canonical(row[4][0]) for row in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except OSError:
        asked = {canonical(host)}
    every = listeners(port, proc)
    found = []
    for address in sorted(asked):
        ranks = [rank_of(row[0], address) for row in every]
        best = max(ranks, default=0)
        found += [row for row, rank in zip(every, ranks) if rank == best > 0 and row not in found]
    return found


def members_of(group, main, proc="/proc"):
    """Pids of the unit: those of its control group, or, where that is not known, the main process and its offspring."""
    if group:
        return processes_of(group, set(), proc)
    pids = [int(entry) for entry in os.listdir(proc) if entry.isdigit()]
    return [pid for pid in pids if main in ancestors(pid, proc)]


def sockets_of(pids, proc="/proc"):
    """Inodes of the sockets that processes hold, as text, and the pids of those that do not show theirs."""
    found, hidden = set(), []
    for pid in pids:
        try:
            entries = list(os.scandir(f"{proc}/{pid}/fd"))
        except PermissionError:
            hidden.append(pid)
            continue
        except OSError:
            continue
        for entry in entries:
            try:
                link = os.readlink(entry.path)
            except OSError:
                continue
            if link.startswith("socket:["):
                found.add(link[len("socket:[") : -1])
    return found, hidden


def user_of(uid):
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def silence(host, port, group, main, proc="/proc"):
    """Why an answer on a port would not be the unit's: words about it, empty where it would be.

    ``group``: the unit's control group, None where that is not known; ``main``: pid of its main process. This runs as
    the service's user in its sandbox, which hides processes of others, but not their sockets.
    """
    answers = answering(host, port, proc)
    if not answers:
        return f"it does not answer (nothing listens on port {port} of {host})"
    own, hidden = sockets_of(members_of(group, main, proc), proc)
    for address, inode, uid in answers:
        if inode in own:
            continue
        pid = owner_of(inode, proc)
        held = f"port {port} of {address} is held by"
        if pid is None and hidden:
            return f"who holds port {port} cannot be told: process {name_of(hidden[0], proc)} does not show its sockets"
        if pid is None:
            return f"{held} a process of user {user_of(uid)} that is not of this unit"
        unit = unit_of(group_of(pid, proc))
        return f"{held} process {name_of(pid, proc)} of {unit or 'no unit'}, which is not of this unit"
    return ""


def wait_until_ready(ask):
    """Wait until the server answers 200 while the main process lives; returns the exit status."""
    deadline = time.monotonic() + ask.seconds
    birth = born(ask.pid)
    group = own_group(ask.unit, os.getpid())
    parts = urlsplit(ask.url)
    where = (parts.hostname, parts.port or 80, group, ask.pid)
    words, told = "it was not asked", None
    while True:
        now = born(ask.pid)
        if now is None or now != birth:
            print(
                f"{ask.unit} failed to start: its main process {ask.pid} ended, see its lines above.", file=sys.stderr
            )
            return 1
        left = deadline - time.monotonic()
        if left <= 0:
            print(
                f"{ask.unit} failed to start: {ask.url} was not ready within {ask.seconds:g} s, {words}. Read its "
                "lines above, or allow more (serve_start_timeout_seconds).",
                file=sys.stderr,
            )
            return 1
        words = silence(*where)
        if words.startswith(("port ", "who ")) and words != told:
            print(f"{ask.unit} is not ready: {words}.", flush=True)
            told = words
        if not words:
            status, words = answer(ask.url, max(1.0, min(ANSWER_SECONDS, left)))
            # Who listens may have changed since, and an answer of somebody else is none.
            if status == 200 and born(ask.pid) == birth:
                words = silence(*where)
                if not words:
                    return 0
        time.sleep(POLL_SECONDS)


def main(argv):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    actions = parser.add_subparsers(dest="action", required=True)
    free = actions.add_parser("free", allow_abbrev=False)
    free.add_argument("--host", required=True)
    free.add_argument("--port", type=int, required=True)
    free.add_argument("--gpus", type=lambda text: [part for part in text.split(",") if part], default=[])
    free.add_argument("--memory-gb", type=float)
    ready = actions.add_parser("ready", allow_abbrev=False)
    ready.add_argument("--url", required=True)
    ready.add_argument("--pid", type=int, default=int(os.environ.get("MAINPID") or 0))
    for action in (free, ready):
        action.add_argument("--unit", required=True)
        action.add_argument("--seconds", type=float, required=True)
    ask = parser.parse_args(argv)
    return wait_until_free(ask) if ask.action == "free" else wait_until_ready(ask)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
