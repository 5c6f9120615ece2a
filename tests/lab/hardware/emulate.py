#!/usr/bin/env python3
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a lab host look like a server with two sockets, 811 GB and eight GPUs. Runs on the host, as root.

Files and folders below /lab/tree are mounted over those of /proc and /sys that a reader of hardware looks at. A test
edits them to put a fault in; a second run puts everything back as it was, faults of any kind included.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

TREE = Path("/lab/tree")
KERNEL = "6.8.0-79-generic"
DRIVER = "580.126.09"
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
CGROUPS = Path("/sys/fs/cgroup")

LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max open files            1048576              1048576              files
Max locked memory         unlimited            unlimited            bytes
"""

CLOCK = """\
import ctypes


class CDLL(ctypes.CDLL):
    def adjtimex(self, state):
        with open("/lab/tree/clock") as stream:
            return int(stream.read())


ctypes.CDLL = CDLL
"""


def bridge(control=0x01):
    """Configuration space of a PCIe bridge, with its register for Access Control Services."""
    space = bytearray(4096)
    space[0x100:0x104] = (0x000D | 1 << 16).to_bytes(4, "little")
    space[0x106:0x108] = control.to_bytes(2, "little")
    return bytes(space)


def hardware():
    """{path below the tree: content}; a content that is a Path is a link."""
    files = {
        "meminfo": "MemTotal:  792000000 kB\nMemAvailable:  780000000 kB\nSwapTotal:  0 kB\n",
        "limits": LIMITS,
        "comm": "systemd\n",
        "clock": "0\n",
        "osrelease": KERNEL + "\n",
        "overcommit": "0\n",
        "pid_max": "4194304\n",
        "threads-max": "4000000\n",
        "memory_limit": "9223372036854771712\n",
        "driver/nvidia/version": f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {DRIVER}  Release Build\n",
        "module/nvidia/version": DRIVER + "\n",
        "firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": b"\x06\0\0\0\0",
        "firmware/efi/efivars/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23": b"\x06\0\0\0",
        "acs_bridge": bridge(0x1D),
    }
    for size in (2048, 1048576):
        for name in ("nr_hugepages", "free_hugepages"):
            files[f"hugepages/hugepages-{size}kB/{name}"] = "0\n"
    for node in (0, 1):
        files[f"node/node{node}/cpulist"] = f"{node * 64}-{node * 64 + 63}\n"
        files[f"node/node{node}/meminfo"] = f"Node {node} MemTotal: 396000000 kB\nNode {node} MemFree: 390000000 kB\n"
    for index in range(8):
        address = f"0000:{1 + 0x20 * index:02x}:00.0"
        above = f"devices/pci0000:{0x20 * index:02x}/0000:{0x20 * index:02x}:01.1"
        device = f"{above}/{address}"
        files[f"{above}/config"] = bridge()
        for name, text in {
            "vendor": "0x10de", "device": "0x2bb5", "class": "0x030200", "numa_node": str(index // 4),
            "current_link_width": "16", "max_link_width": "16", "iommu_group/type": "identity",
        }.items():  # fmt: skip
            files[f"{device}/{name}"] = text + "\n"
        files[f"pci/{address}"] = TREE / device
    return files


MOUNTS = {
    "meminfo": "/proc/meminfo",
    "limits": "/proc/1/limits",
    "comm": "/proc/1/comm",
    "osrelease": "/proc/sys/kernel/osrelease",
    "overcommit": "/proc/sys/vm/overcommit_memory",
    "pid_max": "/proc/sys/kernel/pid_max",
    "threads-max": "/proc/sys/kernel/threads-max",
    "driver": "/proc/driver",
    "module": "/sys/module",
    "firmware": "/sys/firmware",
    "hugepages": "/sys/kernel/mm/hugepages",
    "node": "/sys/devices/system/node",
    "pci": "/sys/bus/pci/devices",
}


def system():
    """{path: content} of what is no mount; None is a file that a sound host does not have."""
    smi = json_of(DRIVER)
    return {
        f"/usr/src/linux-headers-{KERNEL}/Makefile": "",
        "/usr/share/llmfleet-lab/nvidia-library.json": smi,
        "/usr/share/llmfleet-lab/nvidia-module.json": smi,
        "/run/llmfleet-lab/nvidia-module": DRIVER + "\n",
        "/run/nvidia-persistenced/socket": "",
        "/etc/llmfleet-lab/gpus.json": "{}",
        f"{LIBRARIES}/libcuda.so.{DRIVER}": "",
        f"{LIBRARIES}/libnvidia-ml.so.{DRIVER}": "",
        f"{LIBRARIES}/libcuda.so.590.48.01": None,
        "/usr/lib/python3/dist-packages/llmfleet_lab_clock.py": CLOCK,
        "/usr/lib/python3/dist-packages/llmfleet_lab_clock.pth": "import llmfleet_lab_clock\n",
        "/etc/systemd/journald.conf.d/99-fault.conf": None,
        "/run/reboot-required": None,
        "/usr/local/bin/python3.99": None,
    }


def json_of(version):
    return f'{{"version": "{version}"}}\n'


def write(path, content):
    """Write a file in place, so that a mount of it goes on to show it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Path):
        path.symlink_to(content)
    elif content is None:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def empty(folder):
    """Remove what is in a folder, and keep the folder, which may be mounted elsewhere."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def mounted(path):
    return f" {path} " in Path("/proc/self/mountinfo").read_text()


def memory_limit():
    """The file that limits the memory of all services: version 1 or 2 of cgroups; None without either."""
    places = (CGROUPS / "memory/memory.limit_in_bytes", CGROUPS / "system.slice/memory.max")
    return next((path for path in places if path.exists()), None)


def undo_faults():
    """Take away what faults left that is no file: mounts and units."""
    for path in ("/srv/models", "/opt/sglang", "/var/cache/sglang"):
        if mounted(path):
            subprocess.run(["umount", "--lazy", path], check=True)
    subprocess.run(["mount", "-o", "remount,size=2G", "/dev/shm"], check=True)
    subprocess.run(["systemctl", "--quiet", "stop", "stranger.service"], check=False, stderr=subprocess.DEVNULL)
    release = Path("/etc/os-release")
    kept = Path("/lab/os-release")
    if not kept.exists():
        kept.write_text(release.read_text())
    if release.read_text() != kept.read_text():
        release.unlink()
        release.write_text(kept.read_text())
    smi = Path("/usr/bin/nvidia-smi")
    if Path("/lab/nvidia-smi").exists():
        shutil.copy("/lab/nvidia-smi", smi)
        smi.chmod(0o755)


def main():
    os.umask(0o022)
    TREE.mkdir(parents=True, exist_ok=True)
    undo_faults()
    for name, target in MOUNTS.items():
        if mounted(target) and (TREE / name).is_dir():
            empty(TREE / name)
    shutil.rmtree(TREE / "devices", ignore_errors=True)
    for path, content in hardware().items():
        write(TREE / path, content)
    for path, content in system().items():
        write(Path(path), content)
    if not Path("/sys/module").exists():
        subprocess.run(["mount", "-o", "remount,rw", "/sys"], check=True)
        for name in ("module", "firmware"):
            Path("/sys", name).mkdir(exist_ok=True)
    limit = memory_limit()
    for name, target in {**MOUNTS, **({"memory_limit": str(limit)} if limit else {})}.items():
        # A file that an editor replaced is another one than what is mounted.
        if mounted(target) and not os.path.samefile(TREE / name, target):
            subprocess.run(["umount", target], check=True)
        if not mounted(target):
            subprocess.run(["mount", "--bind", str(TREE / name), target], check=True)


if __name__ == "__main__":
    main()
