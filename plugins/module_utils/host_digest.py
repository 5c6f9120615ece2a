# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell whether what the roles manage on a host is still as they left it.

Each thing that is watched gives one line. Small files are read; of large ones (packages' database, weights, virtual
environments) size and time of the last change have to do, as for every tool that looks before it copies.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os

#: Files that the roles write or that decide what they do. Contents, rights and owners count.
CONTENTS = (
    "/etc/apt/keyrings/*",
    "/etc/apt/preferences.d/*",
    "/etc/apt/sources.list",
    "/etc/apt/sources.list.d/*",
    "/etc/dnf/plugins/versionlock.list",
    "/etc/group",
    "/etc/modprobe.d/*",
    "/etc/nginx/**",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/sglang/**",
    "/etc/systemd/journald.conf.d/*",
    "/etc/systemd/system/nginx.service.d/*",
    "/etc/systemd/system/sglang*",
    "/etc/systemd/system/sglang*/*",
    "/etc/yum.repos.d/*",
    "/usr/share/keyrings/*",
)
#: Files of which size and time of change count.
STATUS = (
    "/boot/vmlinuz-*",
    "/usr/bin/nvidia-smi",
    "/usr/lib/sysimage/rpm/*",
    "/var/lib/dpkg/status",
    "/var/lib/rpm/*",
    "/sys/bus/pci/devices/*",
)
UNITS = ("sglang-*.service", "nvidia-persistenced.service", "nvidia-fabricmanager.service", "nginx.service")
UNIT_PROPERTIES = ("Id", "LoadState", "ActiveState", "UnitFileState", "InvocationID", "NeedDaemonReload")


def _status(path):
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return f"{found.st_mode:o} {found.st_uid}:{found.st_gid} {found.st_size} {found.st_mtime_ns}"


def content_line(path):
    """Rights, owner and digest of a file, or the target of a link; None for what is no file."""
    try:
        found = os.lstat(path)
        if os.path.islink(path):
            return f"link {os.readlink(path)}"
        if not os.path.isfile(path):
            return f"{found.st_mode:o} {found.st_uid}:{found.st_gid}"
        with open(path, "rb") as stream:
            digest = hashlib.sha256(stream.read()).hexdigest()
    except OSError as error:
        return f"unreadable {error.errno}"
    return f"{found.st_mode:o} {found.st_uid}:{found.st_gid} {digest}"


def tree_lines(folder, depth):
    """{path: status} of all files below a folder, down to a depth; links to folders are not followed."""
    found = {}
    for path, folders, names in os.walk(folder):
        if path[len(folder) :].count(os.sep) >= depth:
            folders[:] = []
        for name in [*names, *folders]:
            full = os.path.join(path, name)
            found[full] = _status(full)
    return found


def record_trees(config_dir):
    """Folders that the configurations of the services name: (release folders, model folders)."""
    releases, models = set(), set()
    for path in glob.glob(f"{config_dir}/*/configs/*/record.json"):
        try:
            with open(path, encoding="utf-8") as stream:
                record = json.load(stream)
        except (OSError, ValueError):
            continue
        releases.add(record.get("release_dir"))
        models.update((record.get("model_path"), record.get("draft_model_path")))
    return sorted(filter(None, releases)), sorted(filter(None, models))


def watched(config_dir="/etc/sglang", root=""):
    """{what: line} of everything on disk that is watched."""
    found = {}
    for pattern in CONTENTS:
        for path in glob.glob(root + pattern, recursive=True):
            found[path] = content_line(path)
    for pattern in STATUS:
        for path in glob.glob(root + pattern):
            # What a device is called says that it is there; its times change with every look.
            found[path] = "there" if "/sys/" in path else _status(path)
    releases, models = record_trees(config_dir)
    for folder in releases:
        # The folder of the packages changes with each that is put in or taken out.
        found.update(tree_lines(folder, 4))
    for folder in models:
        found.update(tree_lines(folder, 8))
    return found


def differences(before, after):
    """Names of what is other in the second of two dicts, sorted."""
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def shortened(lines):
    """The same dict with a short digest for each line, which is all that has to be kept."""
    return {name: hashlib.sha256(str(line).encode()).hexdigest()[:16] for name, line in lines.items()}
