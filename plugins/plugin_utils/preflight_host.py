# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on the host itself: platform, memory, limits, disk, port."""

from __future__ import annotations

from .preflight_rule import ERROR, WARNING, Finding, gigabytes, listed, rule
from .release_needs import is_older, version_key


@rule("systemd")
def _systemd(look):
    if look.host["systemd"] and look.host["init"] == "systemd":
        return None
    return Finding(
        f"process 1 is {look.host['init'] or 'unknown'}",
        "systemd as process 1",
        "Use a host or virtual machine booted with systemd; a plain container is not enough.",
    )


@rule("distribution")
def _distribution(look):
    name, version, major = (look.facts[key] for key in ("distribution", "distribution_version", "distribution_major"))
    supported = look.settings["supported_distributions"]
    if f"{name} {version}" in supported or f"{name} {major}" in supported:
        return None
    return Finding(
        f"{name} {version}",
        f"preflight_supported_distributions is {', '.join(supported)}",
        "Install one of them, or add this one to the variable if you know that it serves.",
    )


@rule("architecture")
def _architecture(look):
    supported = look.settings["supported_architectures"]
    if look.facts["architecture"] in supported:
        return None
    return Finding(
        f"the machine is {look.facts['architecture']}",
        f"preflight_supported_architectures is {', '.join(supported)}",
        "Use another host, or add the architecture and mirrors with packages for it.",
    )


@rule("python")
def _python(look):
    if not is_older(look.host["python_version"], look.settings["min_python_version"]):
        return None
    return Finding(
        f"Python {look.host['python_version']} for Ansible's modules",
        look.least("min_python_version"),
        "Install a newer Python and name it in ansible_python_interpreter.",
    )


@rule("engine_python", "error warning")
def _engine_python(look):
    python = look.host["engine_python"]
    if python is None:
        return None
    named = f"preflight_engine_python is {look.settings['engine_python']}"
    first, last = look.need.python_first, look.need.python_last
    needed = f"Python {first}{f' to {last}' if last else ' or newer'} for the wheels of SGLang {look.release}"
    if python["path"] is None:
        absolute = str(look.settings["engine_python"]).startswith("/")
        mend = (
            "Install it there, or set sglang_python_executable to another interpreter."
            if absolute
            else "Role sglang installs its packages where the distribution has them; else name another interpreter in "
            "sglang_python_executable."
        )
        return Finding(f"{named}, which is not there", needed, mend, ERROR if absolute else WARNING)
    if python["version"] is None:
        return Finding(f"{named}, which does not run", needed, "Set sglang_python_executable to one that does.", ERROR)
    minor = version_key(python["version"])[:2]
    if minor >= version_key(first) and (last is None or minor <= version_key(last)):
        return None
    seen = f"{named}, which is Python {python['version']}"
    managed = look.settings.get("managed_python")
    if managed:
        mend = (
            f"Role sglang has uv fetch Python {managed} (sglang_managed_python_version); a host without a route cannot."
        )
        return Finding(seen, needed, mend, WARNING)
    mend = f"Set sglang_python_executable to such a Python, for example python{last or '3.12'}."
    return Finding(seen, needed, mend, ERROR)


@rule("glibc")
def _glibc(look):
    own = look.settings["min_glibc_version"]
    needed = own or look.need.glibc
    seen = look.host["glibc_version"]
    if seen is not None and not is_older(seen, needed):
        return None
    return Finding(
        f"glibc {seen or 'missing'}",
        look.least("min_glibc_version") if own else f"glibc {needed} for the wheels of SGLang {look.release}",
        "Use a newer distribution.",
    )


# Before it allocates a pool, SGLang compares it with what is available besides huge pages (HostKVCache), wherever the
# pool then goes: SGLANG_HUGEPAGE_SIZE (read from 0.5.13 on) needs the memory a second time in all releases up to this.
_GUARD_WITHOUT_HUGEPAGES = "0.5.23"
_GUARD_UNKNOWN = "0.5.24"


def _guard_ignores_hugepages(look):
    return is_older(look.release, _GUARD_UNKNOWN)


def _reserved(look):
    """Bytes in huge pages."""
    return sum(row["size"] * row["total"] for row in look.host["memory"]["hugepages"])


@rule("memory")
def _memory(look):
    total, limit = look.host["memory"]["total"], look.host["memory"]["cgroup_limit"]
    if total is None:
        return None
    counted = look.flag("hugepages_allowed") and not _guard_ignores_hugepages(look)
    reserved = 0 if counted else _reserved(look)
    usable = total if limit is None else min(total, limit)
    if (usable - reserved) / 1e9 >= look.number("min_memory_gb"):
        return None
    seen = f"{gigabytes(total)} of host memory"
    if limit is not None and limit < total:
        seen += f", of which the limit of the cgroup leaves {gigabytes(limit)}"
    if reserved:
        seen += f", {gigabytes(reserved)} of it reserved as huge pages"
    return Finding(
        seen,
        look.least("min_memory_gb"),
        "Add memory, or make the hierarchical cache smaller (serve_hicache_ratio) and lower the variable with it.",
    )


@rule("hugepages", WARNING)
def _hugepages(look):
    reserved = _reserved(look)
    if look.flag("hugepages_allowed") or reserved / 1e9 <= look.number("max_hugepages_gb"):
        return None
    sizes = [
        f"{row['total']} of {row['size'] // 2**20} MiB" for row in look.host["memory"]["hugepages"] if row["total"]
    ]
    return Finding(
        f"{gigabytes(reserved)} reserved as huge pages ({', '.join(sizes)}), which SGLang does not use",
        look.least("max_hugepages_gb"),
        "Remove vm.nr_hugepages and hugepages= from sysctl and the kernel's parameters."
        + (
            f" SGLANG_HUGEPAGE_SIZE is no way to use them: SGLang up to {_GUARD_WITHOUT_HUGEPAGES} asks for the same "
            "memory outside of them before it allocates."
            if _guard_ignores_hugepages(look)
            else ""
        ),
    )


@rule("overcommit", WARNING)
def _overcommit(look):
    if look.host["memory"]["overcommit"] != 2:
        return None
    return Finding(
        "vm.overcommit_memory is 2 (strict accounting)",
        "0, the kernel's default: CUDA reserves far more addresses than memory",
        "Remove the setting from sysctl.",
    )


def _nodes(look):
    """NUMA nodes that have CPUs and whose memory is known."""
    return [node for node in look.host["numa"] if node["cpus"] and node["total"] is not None]


@rule("numa_memory", WARNING)
def _numa_memory(look):
    nodes = _nodes(look)
    largest = max((node["total"] for node in nodes), default=0)
    if len(nodes) < 2 or not largest:
        return None
    allowed = look.number("numa_max_imbalance_percent")
    if all((largest - node["total"]) * 100 / largest <= allowed for node in nodes):
        return None
    return Finding(
        ", ".join(f"{gigabytes(node['total'])} on NUMA node {node['id']}" for node in nodes),
        look.least("numa_max_imbalance_percent"),
        "Look for missing or failed memory modules (`dmidecode -t memory`), and fill the sockets alike.",
    )


@rule("numa_gpus", WARNING)
def _numa_gpus(look):
    gpus, nodes = look.gpus["pci_gpus"], _nodes(look)
    if len(gpus) < 2 or len(nodes) < 2 or not look.flag("gpu_required"):
        return None
    lost = [gpu["address"] for gpu in gpus if gpu["numa_node"] is None]
    if lost:
        return Finding(
            f"the NUMA node of the GPUs at {listed(lost)} is unknown",
            "a node for each GPU, beside whose memory SGLang puts its rank's cache",
            "Turn on the NUMA affinity of PCIe slots in the firmware; in a virtual machine, hand it through.",
        )
    share = look.number("min_memory_gb") / len(gpus)
    tight = []
    for node in nodes:
        here = len([gpu for gpu in gpus if gpu["numa_node"] == node["id"]])
        if here * share > node["total"] / 1e9:
            tight.append(f"{here} GPUs and {gigabytes(node['total'])} on NUMA node {node['id']}")
    if not tight:
        return None
    return Finding(
        "; ".join(tight),
        f"{share:.1f} GB a GPU on its own node ({look.least('min_memory_gb')}, {len(gpus)} GPUs)",
        "Spread GPUs or memory over the nodes, or set disable-hicache-numa-detect in serve_engine_options.",
    )


@rule("shm", WARNING)
def _shm(look):
    shm = look.host["shm"]
    if shm is None or shm["free"] / 1e9 >= look.number("min_shm_gb"):
        return None
    return Finding(
        f"{gigabytes(shm['free'])} free of {gigabytes(shm['size'])} in /dev/shm",
        look.least("min_shm_gb"),
        "Remove what ended processes left there, or mount it with a larger size= in /etc/fstab.",
    )


@rule("memlock", WARNING)
def _memlock(look):
    limits, wanted = look.host["limits"], str(look.settings["memlock_limit"])
    most = None if limits is None else limits["memlock"]
    if most is None or (wanted.isdigit() and int(wanted) <= most):
        return None
    return Finding(
        f"a service can lock {most / 2**20:.1f} MiB of memory at most, as process 1 may not raise its own limit",
        look.least("memlock_limit"),
        "Give the container that the host is CAP_SYS_RESOURCE or a higher limit; services do not read limits.conf.",
    )


@rule("open_files", WARNING)
def _open_files(look):
    limits, wanted = look.host["limits"], str(look.settings["open_files_limit"])
    most = None if limits is None else limits["open_files"]
    if most is None or (wanted.isdigit() and int(wanted) <= most):
        return None
    return Finding(
        f"a service can open {most} files at most",
        look.least("open_files_limit"),
        "Raise fs.nr_open by sysctl, and in a container the limit that it was started with; or lower "
        "serve_open_files_limit.",
    )


@rule("tasks", WARNING)
def _tasks(look):
    most = None if look.host["limits"] is None else look.host["limits"]["tasks"]
    if most is None or most >= look.number("min_tasks"):
        return None
    return Finding(
        f"{most} processes and threads at most (kernel.pid_max, kernel.threads-max, or pids.max of a cgroup)",
        look.least("min_tasks"),
        "Raise them by sysctl, and TasksMax= of the slice that services run in.",
    )


@rule("disk")
def _disk(look):
    place = look.path(look.settings["model_dir"])
    used = sum((look.path(path) or {}).get("used", 0) for path in dict.fromkeys(look.settings["model_paths"]))
    if place is None or (place["free"] + used) / 1e9 >= look.number("min_disk_gb"):
        return None
    return Finding(
        f"{gigabytes(place['free'])} free at {place['nearest']} for {look.settings['model_dir']}, and "
        f"{gigabytes(used)} of the model there",
        look.least("min_disk_gb"),
        "Free or mount space there, or point model_dir to another disk.",
    )


@rule("release_disk")
def _release_disk(look):
    place = look.path(look.settings["release_dir"])
    if place is None or (place["free"] + place["used"]) / 1e9 >= look.number("min_release_disk_gb"):
        return None
    return Finding(
        f"{gigabytes(place['free'])} free at {place['nearest']} for {look.settings['release_dir']}, and "
        f"{gigabytes(place['used'])} of releases there",
        look.least("min_release_disk_gb"),
        "Free or mount space there, or point sglang_releases_dir to another disk.",
    )


@rule("disk_read_only")
def _disk_read_only(look):
    wrong = [row for row in look.host["paths"] if not row["write_allowed"]]
    if not wrong:
        return None
    return Finding(
        f"{listed(row['nearest'] for row in wrong)} is mounted read-only, for {listed(row['path'] for row in wrong)}",
        "a file system for writing",
        "Look for errors of the disk in the kernel's log, and mount it for writing.",
    )


@rule("disk_noexec")
def _disk_noexec(look):
    programs = [look.path(path) for path in [look.settings["release_dir"], *look.settings["program_paths"]]]
    wrong = [row for row in programs if row is not None and not row["exec_allowed"]]
    if not wrong:
        return None
    return Finding(
        f"{listed(row['nearest'] for row in wrong)} is mounted noexec, for {listed(row['path'] for row in wrong)}",
        "a file system that programs run from: the release lies there, or kernels that it compiles",
        "Mount it without noexec, or move the folder (sglang_releases_dir).",
    )


@rule("port")
def _port(look):
    owners = {int(service["port"]): service["unit"] for service in look.settings["services"]}
    strangers = [row for row in look.host["listeners"] if row["unit"] != owners.get(row["port"])]
    if not strangers:
        return None
    units = listed(row["unit"] or "a process without a unit" for row in strangers)
    ports = listed(sorted({row["port"] for row in strangers}))
    return Finding(
        f"port {ports} held by {units} (process {listed(row['pid'] or '?' for row in strangers)})",
        f"a free port, or one that {listed(owners[row['port']] for row in strangers)} holds",
        "Stop that process, or choose another serve_port.",
    )
