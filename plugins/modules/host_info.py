#!/usr/bin/python
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_info
short_description: Read what a model server needs to know about its host
version_added: 0.1.0
description:
  - Reads init system, C library, kernel, memory, NUMA nodes, limits, clock, journal, Secure Boot, disk space and the
    owner of a TCP port from files and system calls.
  - What a host does not have or does not show is null, which means unknown.
  - Paths may not exist yet. The space counted is that of the file system on which they would be made.
author:
  - llmfleet contributors (@llmfleet)
options:
  paths:
    description:
      - Absolute paths whose disk space is wanted.
    type: list
    elements: str
    default: []
  ports:
    description:
      - TCP ports whose listeners are wanted. Without them none are looked for.
    type: list
    elements: int
    default: []
  python_executable:
    description:
      - Name or path of an interpreter whose version is wanted. It is the one program that the module starts.
    type: str
  proc_path:
    description:
      - Where the proc file system is mounted.
    type: path
    default: /proc
  sys_path:
    description:
      - Where the sys file system is mounted, with the hierarchy of cgroups below it.
    type: path
    default: /sys
  root_path:
    description:
      - Where everything else is read from (C(/etc), C(/run), C(/lib/modules), C(/var), C(/dev/shm)). Another one than
        the root is for tests. O(paths) are never below it.
    type: path
    default: /
extends_documentation_fragment:
  - llmfleet.sglang.attributes
"""

EXAMPLES = r"""
- name: Read host memory and the space for weights
  llmfleet.sglang.host_info:
    paths: [/srv/models/Kimi-K2.5]
    ports: [30000]
  register: host
  become: true
"""

RETURN = r"""
init:
  description: Name of process 1, null if it cannot be read.
  returned: always
  type: str
  sample: systemd
systemd:
  description: Whether systemd runs the host.
  returned: always
  type: bool
  sample: true
python_version:
  description: Version of the Python that runs the module.
  returned: always
  type: str
  sample: 3.11.2
engine_python:
  description: The interpreter that O(python_executable) names, null where none was asked for.
  returned: always
  type: dict
  contains:
    path:
      description: Its path, null if it is not there.
      type: str
      sample: /usr/bin/python3.12
    version:
      description: Its version, null if it is not there or does not run.
      type: str
      sample: 3.12.3
glibc_version:
  description: Version of the GNU C library, null where there is another one.
  returned: always
  type: str
  sample: "2.36"
memory:
  description: Host memory in bytes, null where it cannot be read.
  returned: always
  type: dict
  contains:
    total:
      description: All memory.
      type: int
      sample: 1081976737792
    available:
      description: What new processes could take without swapping.
      type: int
      sample: 1049764642816
    swap_total:
      description: All swap space.
      type: int
      sample: 0
    cgroup_limit:
      description:
        - The smallest limit of the cgroups above the place where a system service runs (C(memory.max), or
          C(memory.limit_in_bytes) of version 1). Null where nothing limits it.
      type: int
      sample: null
    hugepages:
      description: Reserved huge pages, one entry for each size that the kernel knows.
      type: list
      elements: dict
      contains:
        size:
          description: Bytes of one page.
          type: int
          sample: 2097152
        total:
          description: Pages that are reserved.
          type: int
          sample: 0
        free:
          description: Pages of them that nobody uses.
          type: int
          sample: 0
    overcommit:
      description: C(vm.overcommit_memory); 2 is strict accounting.
      type: int
      sample: 0
numa:
  description: NUMA nodes in the order of their numbers, empty where the kernel has none.
  returned: always
  type: list
  elements: dict
  contains:
    id:
      description: Number of the node.
      type: int
      sample: 0
    cpus:
      description: Its CPUs as the kernel lists them.
      type: str
      sample: 0-63,128-191
    total:
      description: Its memory in bytes, null where it cannot be read.
      type: int
      sample: 540988368896
    free:
      description: Its free memory in bytes. Page cache that could be given back is not counted in.
      type: int
      sample: 521431564288
shm:
  description: The file system C(/dev/shm) in bytes, null where it is none of its own.
  returned: always
  type: dict
  contains:
    size:
      description: What it may hold.
      type: int
      sample: 540988368896
    free:
      description: What it may still take.
      type: int
      sample: 540988368896
limits:
  description: How far systemd can raise limits of a service; null where process 1 cannot be looked at.
  returned: always
  type: dict
  contains:
    memlock:
      description: Bytes that a service may lock, null where nothing limits it.
      type: int
      sample: null
    open_files:
      description: Files that a service may open, null where nothing limits it.
      type: int
      sample: 1048576
    tasks:
      description: The smallest of C(kernel.pid_max), C(kernel.threads-max) and C(pids.max) of the cgroups above.
      type: int
      sample: 4194304
kernel:
  description: The running kernel.
  returned: always
  type: dict
  contains:
    release:
      description: Its release, null if unknown.
      type: str
      sample: 6.8.0-79-generic
    parameters:
      description: Its command line, in words.
      type: list
      elements: str
      sample: [iommu=pt, quiet]
    headers_installed:
      description: Whether modules can be built for it.
      type: bool
      sample: true
    headers_offered:
      description:
        - Whether the lists of C(apt) offer the package C(linux-headers-RELEASE). Null without such lists.
      type: bool
      sample: true
iommu:
  description: The IOMMU.
  returned: always
  type: dict
  contains:
    groups:
      description: How many groups of devices it made, 0 where it is off.
      type: int
      sample: 96
secure_boot:
  description: Secure Boot. Both are null on a host that was not booted by UEFI.
  returned: always
  type: dict
  contains:
    enabled:
      description: Whether it is enforced.
      type: bool
      sample: false
    key_enrolled:
      description: Whether the key with which DKMS signs modules is among the keys of the machine's owner.
      type: bool
      sample: false
clock:
  description: The clock.
  returned: always
  type: dict
  contains:
    synchronized:
      description: Whether the kernel calls it synchronised. Null where it may not be asked, as in a container.
      type: bool
      sample: true
journal:
  description: What C(journald.conf) and its drop-ins make of messages.
  returned: always
  type: dict
  contains:
    storage:
      description: V(persistent), V(volatile) (lost with the next boot) or V(none).
      type: str
      sample: persistent
    max_level:
      description: The least important level that is stored, V(0) (emerg) to V(7) (debug); null if unreadable.
      type: int
      sample: 7
    rate_limit_seconds:
      description: Time in which RV(journal.rate_limit_burst) messages of one unit are kept, 0 for no limit.
      type: float
      sample: 30.0
    rate_limit_burst:
      description: Messages in that time, 0 for no limit; null if unreadable.
      type: int
      sample: 10000
restart_pending:
  description: Whether the distribution asks for a restart of the host.
  returned: always
  type: bool
  sample: false
paths:
  description: Disk space of each path, in the order of O(paths).
  returned: always
  type: list
  elements: dict
  contains:
    path:
      description: The path as it was given.
      type: str
      sample: /srv/models/Kimi-K2.5
    nearest:
      description: The path itself or its nearest parent that exists.
      type: str
      sample: /srv
    free:
      description: Bytes that an unprivileged user may still write there.
      type: int
      sample: 3221225472000
    used:
      description: Bytes that the path itself already occupies, 0 if it does not exist.
      type: int
      sample: 0
    write_allowed:
      description: Whether the file system is mounted for writing.
      type: bool
      sample: true
    exec_allowed:
      description: Whether programs and libraries on the file system may be run.
      type: bool
      sample: true
listeners:
  description: Sockets that listen on O(ports).
  returned: always
  type: list
  elements: dict
  contains:
    address:
      description: Address that the socket is bound to.
      type: str
      sample: 127.0.0.1
    port:
      description: Which of the ports.
      type: int
      sample: 30000
    pid:
      description: Process that holds the socket, null if it cannot be seen (run with privileges).
      type: int
      sample: 4242
    unit:
      description: The systemd unit of the process, null if it has none or cannot be seen.
      type: str
      sample: sglang-kimi.service
"""

import os
import platform

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import disk_usage, host_tree, proc_text


def read_glibc():
    """Version of the C library that Python runs on, None where it is not GNU's."""
    try:
        name, _space, version = os.confstr("CS_GNU_LIBC_VERSION").partition(" ")
    except (AttributeError, OSError, ValueError):
        return None
    return version if name == "glibc" else None


def read_python(module, name):
    """Path and version of an interpreter."""
    if name is None:
        return None
    path = module.get_bin_path(name)
    if path is None:
        return {"path": None, "version": None}
    program = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    rc, out, _err = module.run_command([path, "-I", "-c", program])
    return {"path": path, "version": out.strip() if rc == 0 and out.strip() else None}


def read_path(path):
    """Free space where a path is or would be, and what it already occupies."""
    nearest = os.path.normpath(path)
    while not os.path.exists(nearest):
        nearest = os.path.dirname(nearest)
    usage = os.statvfs(nearest)
    return {
        "path": path,
        "nearest": nearest,
        "free": usage.f_bavail * usage.f_frsize,
        "used": disk_usage.occupied(path) if os.path.isdir(path) else 0,
        "write_allowed": not usage.f_flag & os.ST_RDONLY,
        "exec_allowed": not usage.f_flag & os.ST_NOEXEC,
    }


def find_owner(proc_path, inode):
    """Process that holds a socket, or None."""
    for entry in sorted(os.listdir(proc_path)):
        if not entry.isdigit():
            continue
        folder = os.path.join(proc_path, entry, "fd")
        try:
            for descriptor in os.listdir(folder):
                if os.readlink(os.path.join(folder, descriptor)) == f"socket:[{inode}]":
                    return int(entry)
        except OSError:
            continue
    return None


def read_listeners(proc_path, ports):
    """Sockets that listen on one of the ports, with process and unit."""
    listeners = []
    for name in ("tcp", "tcp6") if ports else ():
        listeners += proc_text.parse_listeners(host_tree.read_text(proc_path, "net", name) or "", ports)
    for listener in listeners:
        listener["pid"] = find_owner(proc_path, listener.pop("inode"))
        text = host_tree.read_text(proc_path, str(listener["pid"]), "cgroup") if listener["pid"] else None
        listener["unit"] = proc_text.parse_unit(text or "")
    return listeners


def main():
    module = AnsibleModule(
        argument_spec={
            "paths": {"type": "list", "elements": "str", "default": []},
            "ports": {"type": "list", "elements": "int", "default": []},
            "python_executable": {"type": "str"},
            "proc_path": {"type": "path", "default": "/proc"},
            "sys_path": {"type": "path", "default": "/sys"},
            "root_path": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    for path in module.params["paths"]:
        if not os.path.isabs(path):
            module.fail_json(msg=f"paths has {path!r}, which is not absolute. Give a path from the root on.")
    proc_path, sys_path, root_path = (module.params[name] for name in ("proc_path", "sys_path", "root_path"))
    module.exit_json(
        changed=False,
        init=(host_tree.read_text(proc_path, "1", "comm") or "").strip() or None,
        systemd=os.path.isdir(os.path.join(root_path, "run/systemd/system")),
        python_version=platform.python_version(),
        engine_python=read_python(module, module.params["python_executable"]),
        glibc_version=read_glibc(),
        memory=host_tree.read_memory(proc_path, sys_path),
        numa=host_tree.read_numa(sys_path),
        shm=host_tree.read_shm(root_path),
        limits=host_tree.read_limits(proc_path, sys_path),
        kernel=host_tree.read_kernel(proc_path, root_path),
        iommu=host_tree.read_iommu(sys_path),
        secure_boot=host_tree.read_secure_boot(sys_path, root_path),
        clock=host_tree.read_clock(root_path),
        journal=host_tree.read_journal(root_path),
        restart_pending=host_tree.restart_pending(root_path),
        paths=[read_path(path) for path in module.params["paths"]],
        listeners=read_listeners(proc_path, module.params["ports"]),
    )


if __name__ == "__main__":
    main()
