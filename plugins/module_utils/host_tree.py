# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a host's kernel and systemd tell below given folders.

Every function takes the roots (of /proc, of /sys, of the file system) and reads only below them, so that a made tree
answers like a host. What is not there or cannot be read is None, or left out of a list: never an exception.
Sizes are in bytes.
"""

from __future__ import annotations

import ctypes
import os
import re

from . import journald_conf, proc_text

CAP_SYS_RESOURCE = 24
# Of adjtimex(2): the kernel's word for a clock that no time server disciplines.
_TIME_ERROR = 5
# GUIDs of the UEFI specification's global variables and of shim's.
_SECURE_BOOT = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_OWNER_KEYS = "MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23"
# Where DKMS and Ubuntu keep the certificate with which they sign what they build.
_DKMS_CERTIFICATES = ("var/lib/dkms/mok.pub", "var/lib/shim-signed/mok/MOK.der")


def read_bytes(*parts):
    """Content of a small file, or None."""
    try:
        with open(os.path.join(*parts), "rb") as stream:
            return stream.read()
    except OSError:
        return None


def read_text(*parts):
    """Content of a small text file, or None."""
    content = read_bytes(*parts)
    return None if content is None else content.decode("utf-8", "replace")


def read_number(*parts):
    """Content of a file that holds one whole number, or None."""
    text = (read_text(*parts) or "").strip()
    return int(text) if re.match(r"^-?\d+$", text) else None


def names_in(*parts):
    """Names in a folder, sorted; none where there is no such folder."""
    try:
        return sorted(os.listdir(os.path.join(*parts)))
    except OSError:
        return []


def numbers_in(pattern, *parts):
    """Numbers in those names of a folder that the pattern matches, in order; its group 1 is the number."""
    found = (re.match(pattern, name) for name in names_in(*parts))
    return sorted(int(match.group(1)) for match in found if match)


def read_hugepages(sys_path):
    """Reserved huge pages, one entry for each size: size in bytes, total and free as numbers of pages."""
    folder = os.path.join(sys_path, "kernel/mm/hugepages")
    pages = []
    for kib in numbers_in(r"^hugepages-(\d+)kB$", folder):
        total = read_number(folder, f"hugepages-{kib}kB", "nr_hugepages")
        free = read_number(folder, f"hugepages-{kib}kB", "free_hugepages")
        if total is not None:
            pages.append({"size": kib * 1024, "total": total, "free": free})
    return pages


def read_numa(sys_path):
    """NUMA nodes: number, CPUs as the kernel writes the list, total and free memory."""
    folder = os.path.join(sys_path, "devices/system/node")
    nodes = []
    for number in numbers_in(r"^node(\d+)$", folder):
        sizes = proc_text.parse_node_memory(read_text(folder, f"node{number}", "meminfo") or "")
        cpus = (read_text(folder, f"node{number}", "cpulist") or "").strip()
        nodes.append({"id": number, "cpus": cpus, "total": sizes.get("MemTotal"), "free": sizes.get("MemFree")})
    return nodes


def _cgroup_folders(proc_path, sys_path, controller):
    """Folders of the cgroups above a system service, outermost first, and whether they are version 2."""
    cgroups = proc_text.parse_cgroups(read_text(proc_path, "1", "cgroup") or "")
    root = os.path.join(sys_path, "fs/cgroup")
    second = controller not in cgroups
    path = cgroups.get("" if second else controller)
    if path is None:
        return [], second
    if not second:
        root = os.path.join(root, controller)
    # Process 1 sits in init.scope; services are in system.slice beside it.
    parts = [part for part in path.split("/") if part and part != "init.scope"] + ["system.slice"]
    return [os.path.join(root, *parts[:depth]) for depth in range(len(parts) + 1)], second


def read_cgroup_limit(proc_path, sys_path, controller, file_of_first, file_of_second):
    """The smallest limit of the cgroups above where a system service runs, None where none limits it."""
    folders, second = _cgroup_folders(proc_path, sys_path, controller)
    name = file_of_second if second else file_of_first
    limits = [proc_text.parse_cgroup_limit(read_text(folder, name) or "") for folder in folders]
    return min((limit for limit in limits if limit is not None), default=None)


def read_memory(proc_path, sys_path):
    """Host memory: total, available, swap, hugepages, and the limit of the cgroups above system services."""
    sizes = proc_text.parse_meminfo(read_text(proc_path, "meminfo") or "")
    return {
        "total": sizes.get("MemTotal"),
        "available": sizes.get("MemAvailable"),
        "swap_total": sizes.get("SwapTotal"),
        "cgroup_limit": read_cgroup_limit(proc_path, sys_path, "memory", "memory.limit_in_bytes", "memory.max"),
        "hugepages": read_hugepages(sys_path),
        "overcommit": read_number(proc_path, "sys/vm/overcommit_memory"),
    }


def read_shm(root_path):
    """Size and free space of /dev/shm; None where it is no file system of its own."""
    folder = os.path.join(root_path, "dev/shm")
    try:
        if not os.path.ismount(folder):
            return None
        usage = os.statvfs(folder)
    except OSError:
        return None
    return {"size": usage.f_blocks * usage.f_frsize, "free": usage.f_bavail * usage.f_frsize}


def read_limits(proc_path, sys_path):
    """How far systemd can raise the limits of a service, from those of process 1 and from the kernel's own.

    A number or None for unlimited; the whole is None where process 1 cannot be looked at.
    """
    text = read_text(proc_path, "1", "limits")
    if text is None:
        return None
    hard = proc_text.parse_limits(text)
    capabilities = proc_text.parse_capabilities(read_text(proc_path, "1", "status") or "")
    unbound = capabilities is not None and bool(capabilities >> CAP_SYS_RESOURCE & 1)
    most_files = read_number(proc_path, "sys/fs/nr_open")
    tasks = [
        read_number(proc_path, "sys/kernel/pid_max"),
        read_number(proc_path, "sys/kernel/threads-max"),
        read_cgroup_limit(proc_path, sys_path, "pids", "pids.max", "pids.max"),
    ]
    open_files = most_files if unbound else hard.get("Max open files")
    return {
        "memlock": None if unbound else hard.get("Max locked memory"),
        "open_files": open_files,
        "tasks": min((number for number in tasks if number is not None), default=None),
    }


def read_kernel(proc_path, root_path):
    """Release and parameters of the running kernel, and whether its headers are there and offered."""
    release = (read_text(proc_path, "sys/kernel/osrelease") or "").strip() or None
    return {
        "release": release,
        "parameters": proc_text.parse_command_line(read_text(proc_path, "cmdline") or ""),
        "headers_installed": release is not None and _has_headers(root_path, release),
        "headers_offered": None if release is None else offers_package(root_path, f"linux-headers-{release}"),
    }


def _has_headers(root_path, release):
    """Whether modules can be built for a kernel: Debian's and Fedora's layouts, the latter without kernel-core too."""
    places = (
        f"lib/modules/{release}/build", f"usr/lib/modules/{release}/build", f"usr/src/linux-headers-{release}",
        f"usr/src/kernels/{release}",
    )  # fmt: skip
    return any(os.path.exists(os.path.join(root_path, place, "Makefile")) for place in places)


def offers_package(root_path, name):
    """Whether apt's lists offer a package; None where there are no lists to read (other package managers, too)."""
    folder = os.path.join(root_path, "var/lib/apt/lists")
    lists = [entry for entry in names_in(folder) if entry.endswith("_Packages")]
    wanted = f"Package: {name}\n".encode()
    for entry in lists:
        try:
            with open(os.path.join(folder, entry), "rb") as stream:
                if any(line == wanted for line in stream):
                    return True
        except OSError:
            return None
    return False if lists else None


def read_secure_boot(sys_path, root_path):
    """Whether Secure Boot is enforced, and whether the key that DKMS signs with is enrolled; None is unknown."""
    folder = os.path.join(sys_path, "firmware/efi/efivars")
    state = read_bytes(folder, _SECURE_BOOT)
    # Four bytes of attributes, then the value.
    enabled = None if state is None or len(state) < 5 else state[4] == 1
    enrolled = read_bytes(folder, _OWNER_KEYS)
    keys = [read_bytes(root_path, path) for path in _DKMS_CERTIFICATES]
    return {
        "enabled": enabled,
        "key_enrolled": None if enrolled is None else any(key and key in enrolled for key in keys),
    }


def read_clock(root_path, library=None):
    """Whether the clock is synchronised by the kernel's own word; None where it may not be asked (a container)."""
    try:
        library = library or ctypes.CDLL(None, use_errno=True)
        # struct timex has 208 bytes; all zero means: only read.
        state = library.adjtimex(ctypes.create_string_buffer(512))
    except (AttributeError, OSError):
        state = -1
    if state < 0:
        marked = os.path.exists(os.path.join(root_path, "run/systemd/timesync/synchronized"))
        return {"synchronized": True if marked else None}
    return {"synchronized": state != _TIME_ERROR}


def read_journal(root_path):
    """What journald does with messages: storage, level, and the limit on bursts (0: none)."""
    mains = [os.path.join(root_path, folder, "journald.conf") for folder in journald_conf.FOLDERS]
    main = next((path for path in mains if os.path.isfile(path)), None)
    drop_ins = []
    for rank, folder in enumerate(journald_conf.FOLDERS):
        for name in names_in(root_path, folder, "journald.conf.d"):
            if name.endswith(".conf"):
                drop_ins.append((rank, name, os.path.join(root_path, folder, "journald.conf.d", name)))
    paths = ([main] if main else []) + journald_conf.order(drop_ins)
    settings = journald_conf.merge(read_text(path) or "" for path in paths)
    burst = settings["RateLimitBurst"]
    return {
        "storage": journald_conf.storage(
            settings["Storage"], os.path.isdir(os.path.join(root_path, "var/log/journal"))
        ),
        "max_level": journald_conf.level(settings["MaxLevelStore"]),
        "rate_limit_seconds": journald_conf.seconds(settings["RateLimitIntervalSec"]),
        "rate_limit_burst": int(burst) if burst.isdigit() else None,
    }


def read_iommu(sys_path):
    """How many groups the IOMMU made: 0 where it is off."""
    return {"groups": len(names_in(sys_path, "kernel/iommu_groups"))}


def restart_pending(root_path):
    """Whether the distribution asks for a restart (Debian's and Ubuntu's mark)."""
    return any(
        os.path.exists(os.path.join(root_path, path)) for path in ("run/reboot-required", "var/run/reboot-required")
    )


def has_process(proc_path, names):
    """Whether a process with one of these names runs; the kernel keeps 15 letters of a name."""
    short = {name[:15] for name in names}
    return any(
        (read_text(proc_path, entry, "comm") or "").strip() in short for entry in names_in(proc_path) if entry.isdigit()
    )
