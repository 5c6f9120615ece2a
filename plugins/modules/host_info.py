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
  - Reads init system, C library, memory, free disk space and the owner of a TCP port, without any program of the host.
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
  port:
    description:
      - TCP port whose listeners are wanted. Without it none are looked for.
    type: int
  proc_path:
    description:
      - Where the proc file system is mounted.
    type: path
    default: /proc
extends_documentation_fragment:
  - llmfleet.sglang.attributes
"""

EXAMPLES = r"""
- name: Read host memory and the space for weights
  llmfleet.sglang.host_info:
    paths: [/srv/models/Kimi-K2.5]
    port: 30000
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
listeners:
  description: Sockets that listen on O(port).
  returned: always
  type: list
  elements: dict
  contains:
    address:
      description: Address that the socket is bound to.
      type: str
      sample: 127.0.0.1
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

from ..module_utils import proc_text


def read_text(*parts):
    """Content of a small file, or None when it cannot be read."""
    try:
        with open(os.path.join(*parts), encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return None


def read_glibc():
    """Version of the C library that Python runs on, None where it is not GNU's."""
    try:
        name, _space, version = os.confstr("CS_GNU_LIBC_VERSION").partition(" ")
    except (AttributeError, OSError, ValueError):
        return None
    return version if name == "glibc" else None


def read_memory(proc_path):
    """Total and available memory in bytes."""
    sizes = proc_text.parse_meminfo(read_text(proc_path, "meminfo") or "")
    return {"total": sizes.get("MemTotal"), "available": sizes.get("MemAvailable")}


def occupied(path):
    """Bytes on disk below a path, links not followed."""
    total = 0
    for folder, _folders, files in os.walk(path):
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except OSError:
                continue
    return total


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
        "used": occupied(path) if os.path.isdir(path) else 0,
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


def read_listeners(proc_path, port):
    """Sockets that listen on a port, with process and unit."""
    listeners = []
    for name in ("tcp", "tcp6"):
        listeners += proc_text.parse_listeners(read_text(proc_path, "net", name) or "", port)
    for listener in listeners:
        listener["pid"] = find_owner(proc_path, listener.pop("inode"))
        text = read_text(proc_path, str(listener["pid"]), "cgroup") if listener["pid"] else None
        listener["unit"] = proc_text.parse_unit(text or "")
    return listeners


def main():
    module = AnsibleModule(
        argument_spec={
            "paths": {"type": "list", "elements": "str", "default": []},
            "port": {"type": "int"},
            "proc_path": {"type": "path", "default": "/proc"},
        },
        supports_check_mode=True,
    )
    for path in module.params["paths"]:
        if not os.path.isabs(path):
            module.fail_json(msg=f"paths has {path!r}, which is not absolute. Give a path from the root on.")
    proc_path = module.params["proc_path"]
    port = module.params["port"]
    module.exit_json(
        changed=False,
        init=(read_text(proc_path, "1", "comm") or "").strip() or None,
        systemd=os.path.isdir("/run/systemd/system"),
        python_version=platform.python_version(),
        glibc_version=read_glibc(),
        memory=read_memory(proc_path),
        paths=[read_path(path) for path in module.params["paths"]],
        listeners=[] if port is None else read_listeners(proc_path, port),
    )


if __name__ == "__main__":
    main()
