# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systemd runs around a start of SGLang: ``free`` before it, ``ready`` after it.

``free`` refuses a start, with a sentence, while something of the last instance is left: processes, the port, memory of
its GPUs. ``ready`` ends when the server answers, so that the unit is active when it serves, and fails when it does not.

Python 3.9, standard library alone; run with -I -S. ``free`` runs as root.
"""

from __future__ import annotations

import argparse
import http.client
import os
import re
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


def address_of(text):
    """An address of /proc/net/tcp in usual notation, as far as wildcard and loopback tell apart."""
    if len(text) == 8:
        return ".".join(str(int(text[at : at + 2], 16)) for at in (6, 4, 2, 0))
    if set(text) == {"0"}:
        return "::"
    if text[:24].upper() in ("0000000000000000FFFF0000", "0000000000000000FFFF0000"):
        return address_of(text[24:])
    return "::1" if text == "00000000000000000000000001000000" else text.lower()


def listeners(port, proc="/proc"):
    """What listens on a TCP port: a list of (address, inode of the socket)."""
    found = []
    for name in ("tcp", "tcp6"):
        for line in read(f"{proc}/net/{name}").splitlines()[1:]:
            fields = line.split()
            if len(fields) < 10 or fields[3] != "0A":
                continue
            address, _colon, number = fields[1].rpartition(":")
            if int(number, 16) == port:
                found.append((address_of(address), fields[9]))
    return found


def in_the_way(listening, host):
    """Tell whether a listening address keeps a server from listening on ``host``."""
    wild = ("0.0.0.0", "::", "")
    host = "127.0.0.1" if host == "localhost" else host
    return listening in wild or host in wild or listening == host or (":" in listening and ":" in host)


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
    for address, inode in listeners(ask.port, proc):
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


def wait_until_ready(ask):
    """Wait until the server answers 200 while the main process lives; returns the exit status."""
    deadline = time.monotonic() + ask.seconds
    birth = born(ask.pid)
    words = "it was not asked"
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
        status, words = answer(ask.url, max(1.0, min(ANSWER_SECONDS, left)))
        if status == 200 and born(ask.pid) == birth:
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
