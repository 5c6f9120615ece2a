# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with 8 RTX PRO 6000 Blackwell has no finding, and each fault that is put in is the one that is found."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.llmfleet.sglang.plugins.filter.preflight_findings import preflight_findings
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import preflight_rules, release_needs

ROOT = Path(__file__).resolve().parents[4]
GB = 10**9
UNIT = "sglang-kimi.service"

# Two sockets, Ubuntu 24.04, no InfiniBand: the first real host.
HOST = {
    "init": "systemd",
    "systemd": True,
    "python_version": "3.12.3",
    "engine_python": {"path": "/usr/bin/python3", "version": "3.12.3"},
    "glibc_version": "2.39",
    "memory": {
        "total": 811 * GB,
        "available": 800 * GB,
        "swap_total": 8 * GB,
        "cgroup_limit": None,
        "hugepages": [{"size": 2**21, "total": 0, "free": 0}, {"size": 2**30, "total": 0, "free": 0}],
        "overcommit": 0,
    },
    "numa": [
        {"id": 0, "cpus": "0-63", "total": 405 * GB, "free": 400 * GB},
        {"id": 1, "cpus": "64-127", "total": 406 * GB, "free": 400 * GB},
    ],
    "shm": {"size": 405 * GB, "free": 405 * GB},
    "limits": {"memlock": None, "open_files": 1048576, "tasks": 4194304},
    "kernel": {
        "release": "6.8.0-79-generic",
        "parameters": ["quiet"],
        "headers_installed": True,
        "headers_offered": True,
    },
    "iommu": {"groups": 0},
    "secure_boot": {"enabled": False, "key_enrolled": False},
    "clock": {"synchronized": True},
    "journal": {"storage": "persistent", "max_level": 7, "rate_limit_seconds": 30.0, "rate_limit_burst": 10000},
    "restart_pending": False,
    "paths": [
        {"path": path, "nearest": "/", "free": 3000 * GB, "used": 0, "write_allowed": True, "exec_allowed": True}
        for path in (
            "/srv/models",
            "/srv/models/Kimi-K2.5",
            "/opt/sglang/releases",
            "/var/lib/sglang",
            "/var/cache/sglang",
        )
    ],
    "listeners": [],
}
GPUS = {
    "available": True,
    "error": None,
    "binary": "/usr/bin/nvidia-smi",
    "driver_version": "580.126.09",
    "cuda_version": "13.0",
    "gpus": [
        {
            "index": index,
            "name": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
            "uuid": f"GPU-{index}",
            "pci_bus_id": f"00000000:{index + 1:02X}:00.0",
            "memory_total_mib": 97887,
            "memory_used_mib": 2,
            "driver_version": "580.126.09",
            "compute_capability": "12.0",
            "mig_enabled": False,
            "ecc_enabled": True,
            "ecc_uncorrected_volatile": 0,
            "ecc_uncorrected_aggregate": 0,
            "persistence_enabled": True,
            "numa_node": index // 4,
            "problems": [],
        }
        for index in range(8)
    ],
    "processes": [],
    "kernel_module": {"loaded": True, "version": "580.126.09", "open": True},
    "library_versions": ["580.126.09"],
    "nouveau_loaded": False,
    "pci_gpus": [
        {
            "address": f"0000:{index + 1:02x}:00.0",
            "device": "0x2bb5",
            "class": "0x030200",
            "numa_node": index // 4,
            "iommu": None,
            "acs_bridges": [],
            "link_width": 16,
            "link_width_max": 16,
        }
        for index in range(8)
    ],
    "nvswitches": 0,
    "fabric_manager_running": False,
}
FACTS = {
    "distribution": "Ubuntu",
    "distribution_version": "24.04",
    "distribution_major": "24",
    "architecture": "x86_64",
}
# The same host before role cuda ran.
BLANK = {
    "available": False,
    "binary": None,
    "driver_version": None,
    "cuda_version": None,
    "gpus": [],
    "error": {"code": "missing", "message": "nvidia-smi is not installed", "rc": None, "library_version": None},
    "kernel_module": {"loaded": False, "version": None, "open": None},
    "library_versions": [],
}


def role_settings():
    """The role's own defaults, with what a template gives where no other role sets anything."""
    defaults = yaml.safe_load((ROOT / "roles/preflight/defaults/main.yml").read_text())
    made = {
        "release": "0.5.23",
        "engine_python": "python3",
        "hugepages_allowed": False,
        "model_dir": "/srv/models",
        "model_paths": ["/srv/models/Kimi-K2.5"],
        "release_dir": "/opt/sglang/releases",
        "memlock_limit": "infinity",
        "open_files_limit": 1048576,
        "services": [{"unit": UNIT, "port": 30000}, {"unit": "sglang-b.service", "port": "30001"}],
        "unit_directives": {},
        "journal_required": True,
        "peer_access_required": True,
        "driver_install_enabled": True,
        "headers_install_enabled": True,
        "planned_driver_version": "",
        "planned_toolkit_series": "13.0",
    }
    plain = {name.removeprefix("preflight_"): value for name, value in defaults.items()}
    assert set(made) == {name for name, value in plain.items() if "{{" in str(value)}
    return {**plain, **made, "managed_python": ""}


SETTINGS = role_settings()


def put(target, changes):
    """Set values by their paths: {"memory.total": 1, "paths.0.free": 2}."""
    for path, value in changes.items():
        *folders, last = path.split(".")
        place = target
        for name in folders:
            place = place[int(name)] if isinstance(place, list) else place[name]
        if isinstance(place, list):
            place[int(last)] = value
        else:
            assert last in place, path
            place[last] = value


def look(entry="main", accepted=(), check_mode=False, host=None, gpus=None, facts=None, settings=None):
    """Findings on the good host with some changes."""
    parts = [copy.deepcopy(part) for part in (HOST, GPUS, FACTS, SETTINGS)]
    for part, changes in zip(parts, (host, gpus, facts, settings)):
        put(part, changes or {})
    return preflight_findings(
        parts[0], parts[1], parts[2], parts[3], entry=entry, accepted=accepted, check_mode=check_mode
    )


def told(found):
    return [f"{row['level']} {row['code']}" for row in found]


@pytest.mark.parametrize("entry", ["main", "gpus"])
def test_the_good_host_has_no_finding(entry):
    assert look(entry) == []


def test_a_good_host_before_the_driver_has_no_finding():
    assert look(gpus=BLANK, host={"kernel.headers_installed": False}) == []


def row(code, level="error", entries="main", seen="", **changes):
    """A case: this code and no other, at this level, from these entry points."""
    wanted = f"{level} {code}"
    return [pytest.param(entry, wanted, seen, changes, id=f"{code}-{entry}-{seen}"[:60]) for entry in entries.split()]


def gpu(**changes):
    return {f"gpus.3.{name}": value for name, value in changes.items()}


def failing(code, message="it failed", library=None, **more):
    error = {"code": code, "message": message, "rc": 1, "library_version": library}
    return {**BLANK, "binary": "/usr/bin/nvidia-smi", "error": error, **more}


BOTH = {"entries": "main gpus"}
AFTER = {"entries": "gpus"}
UNMANAGED = {"driver_install_enabled": False}
LOADED = {"kernel_module": {"loaded": True, "version": "580.105.08", "open": True}}
PROCESS = {"pid": 7, "name": "python3", "gpu_uuid": "GPU-3", "gpu_index": 3, "used_memory_mib": 9, "unit": "a.service"}

CASES = [
    *row("systemd", host={"init": "sh"}, seen="sh"),
    *row("systemd", host={"systemd": False}),
    *row("systemd", host={"init": None}, seen="unknown"),
    *row("distribution", facts={"distribution": "Devuan"}, seen="Devuan 24.04"),
    *row("distribution", facts={"distribution_version": "25.10", "distribution_major": "25"}, seen="Ubuntu 25.10"),
    *row("architecture", facts={"architecture": "aarch64"}, seen="aarch64"),
    *row("python", host={"python_version": "3.8.10"}, seen="3.8.10"),
    *row("engine_python", host={"engine_python.version": "3.10.12"}, seen="3.10.12"),
    *row("engine_python", host={"engine_python.version": "3.14.0"}, seen="3.14.0"),
    *row(
        "engine_python",
        "warning",
        host={"engine_python.version": "3.10.12"},
        settings={"managed_python": "3.12"},
        seen="3.10.12",
    ),
    *row("engine_python", host={"engine_python.version": None}, seen="does not run"),
    *row("engine_python", "warning", host={"engine_python.path": None}, settings={"engine_python": "python3.13"}),
    *row("engine_python", host={"engine_python.path": None}, settings={"engine_python": "/opt/python"}, seen="/opt"),
    *row("engine_python", host={"engine_python.version": "3.9.2"}, settings={"release": "0.5.10.post1"}, seen="3.9"),
    *row("glibc", host={"glibc_version": "2.31"}, seen="2.31"),
    *row("glibc", host={"glibc_version": None}, seen="missing"),
    *row("glibc", settings={"min_glibc_version": "2.40"}, seen="2.39"),
    *row("memory", host={"memory.total": 399 * GB}, seen="399.0 GB"),
    *row("memory", host={"memory.cgroup_limit": 300 * GB}, seen="leaves 300.0 GB"),
    *row("hugepages", "warning", host={"memory.hugepages.1.total": 8}, seen="8 of 1024 MiB"),
    *row("overcommit", "warning", host={"memory.overcommit": 2}),
    *row("numa_memory", "warning", host={"numa.1.total": 320 * GB}, seen="320.0 GB on NUMA node 1"),
    *row("numa_gpus", "warning", gpus={"pci_gpus.7.numa_node": None}, seen="0000:08:00.0"),
    *row(
        "numa_gpus",
        "warning",
        host={"numa.0.total": 340 * GB},
        settings={"min_memory_gb": 700, "numa_max_imbalance_percent": 50},
        seen="4 GPUs and 340.0 GB on NUMA node 0",
    ),
    *row("shm", "warning", host={"shm.free": GB // 2}, seen="0.5 GB free of 405.0"),
    *row("memlock", "warning", host={"limits.memlock": 8 * 2**20}, seen="8.0 MiB"),
    *row("memlock", "warning", host={"limits.memlock": 2**20}, settings={"memlock_limit": str(2**20 + 1)}),
    *row("open_files", "warning", host={"limits.open_files": 524288}, seen="524288"),
    *row("open_files", "warning", settings={"open_files_limit": "infinity"}),
    *row("tasks", "warning", host={"limits.tasks": 32767}, seen="32767"),
    *row("disk", host={"paths.0.free": 600 * GB}, seen="600.0 GB free at /"),
    *row("release_disk", host={"paths.2.free": 9 * GB, "paths.2.used": 5 * GB}, seen="5.0 GB of releases"),
    *row("disk_read_only", host={"paths.0.write_allowed": False}, seen="/srv/models"),
    *row("disk_noexec", host={"paths.2.exec_allowed": False}, seen="/opt/sglang/releases"),
    *row("disk_noexec", host={"paths.4.exec_allowed": False}, seen="/var/cache/sglang"),
    *row(
        "port",
        host={"listeners": [{"address": "::", "port": 30000, "pid": 9, "unit": "x.service"}]},
        seen="held by x.service",
    ),
    *row(
        "port", host={"listeners": [{"address": "::", "port": 30001, "pid": 9, "unit": UNIT}]}, seen="port 30001 held"
    ),
    *row(
        "port", host={"listeners": [{"address": "::", "port": 30000, "pid": None, "unit": None}]}, seen="without a unit"
    ),
    *row("clock", "warning", host={"clock.synchronized": False}),
    *row("journal_storage", host={"journal.storage": "none"}),
    *row("journal_storage", "warning", host={"journal.storage": "none"}, settings={"journal_required": "false"}),
    *row("journal_storage", "warning", host={"journal.storage": "volatile"}),
    *row("journal_level", host={"journal.max_level": 5}, seen="above level 5"),
    *row("journal_level", "warning", host={"journal.max_level": 4}, settings={"journal_required": False}),
    *row(
        "journal_rate_limit",
        "warning",
        host={"journal.rate_limit_burst": 500},
        settings={"unit_directives": {"Service": {"LogRateLimitIntervalSec": "20s", "LogRateLimitBurst": 0}}},
        seen="500 in 20 s",
    ),
    *row(
        "journal_rate_limit",
        "warning",
        host={"journal.rate_limit_burst": 500},
        settings={"unit_directives": {"Service": {"LogRateLimitIntervalSec": 0, "LogRateLimitBurst": None}}},
        seen="500 in 30 s",
    ),
    *row(
        "journal_rate_limit",
        "warning",
        settings={"unit_directives": {"Service": {"LogRateLimitIntervalSec": 60, "LogRateLimitBurst": "99"}}},
        seen="99 in 60 s",
    ),
    *row("kernel_bug", "warning", host={"kernel.release": "6.12.48+deb13-amd64"}, seen="6.12.48"),
    *row("kernel_bug", "warning", host={"kernel.release": "6.11.0-29-generic"}, seen="6.11.0"),
    *row("kernel_bug", "warning", host={"kernel.release": "6.13.12"}, seen="6.13.12"),
    *row(
        "kernel_headers",
        "warning",
        gpus=BLANK,
        host={"kernel.headers_installed": False, "kernel.headers_offered": False},
        seen="do not offer",
    ),
    *row(
        "kernel_headers",
        "warning",
        gpus=BLANK,
        host={"kernel.headers_installed": False},
        settings={"headers_install_enabled": False},
        seen="6.8.0-79-generic",
    ),
    *row("restart_pending", "warning", host={"restart_pending": True}),
    *row("secure_boot", gpus=BLANK, host={"secure_boot.enabled": True}),
    *row("secure_boot", gpus=BLANK, host={"secure_boot.enabled": True, "secure_boot.key_enrolled": None}),
    *row("iommu", "warning", gpus={f"pci_gpus.{i}.iommu": "DMA-FQ" for i in range(8)}, seen="8 GPUs (DMA-FQ)"),
    *row("acs", "warning", gpus={f"pci_gpus.{i}.acs_bridges": ["0000:00:01.1"] for i in range(8)}, seen="1 PCIe"),
    *row("gpu_count", gpus={"gpus": GPUS["gpus"][:7]}, seen="7 GPUs in nvidia-smi, 8 on", **BOTH),
    *row("gpu_count", gpus={**BLANK, "pci_gpus": GPUS["pci_gpus"][:7]}, seen="7 NVIDIA GPUs on the PCI bus"),
    *row("gpu_count", gpus={"pci_gpus": GPUS["pci_gpus"][:7]}, settings={"gpu_detection": "pci"}, seen="7 NVIDIA GPUs"),
    *row("gpu_driver", gpus=failing("no_devices", "No devices were found"), seen="No devices were found", **BOTH),
    *row("gpu_driver", gpus=failing("timeout", **LOADED), **BOTH),
    *row("gpu_driver", gpus=failing("gpu_lost", **LOADED), **BOTH),
    *row("gpu_driver", gpus=BLANK, settings=UNMANAGED, seen="not installed"),
    *row("gpu_driver", gpus=BLANK, **AFTER),
    *row("gpu_driver", gpus=failing("driver_not_loaded"), **AFTER),
    *row("driver_mismatch", "warning", gpus=failing("version_mismatch", library="580.126", **LOADED), seen="580.126"),
    *row("driver_mismatch", gpus=failing("version_mismatch", **LOADED), settings=UNMANAGED, seen="580.105.08"),
    *row("driver_mismatch", gpus=failing("version_mismatch", **LOADED), seen="580.105.08", **AFTER),
    *row("driver_mismatch", gpus={"library_versions": ["580.105.08"]}, seen="580.105.08", **AFTER),
    *row("driver_mismatch", "warning", gpus={"library_versions": ["580.126.09", "590.48.01"]}, seen="590.48.01"),
    *row(
        "driver_mismatch",
        "warning",
        gpus={"library_versions": ["580.126.09", "590.48.01"], "kernel_module.version": None},
        seen="side by side",
    ),
    *row("driver_pin", settings={"planned_driver_version": "575.57.08"}, seen="575.57.08"),
    *row("toolkit_series", "warning", settings={"planned_toolkit_series": "12.8"}, seen="12.8"),
    *row("gpu_driver_version", gpus={"driver_version": "575.57.08", "cuda_version": "12.9"}, seen="CUDA 12.9", **AFTER),
    *row("gpu_driver_version", gpus={"cuda_version": "12.9"}, seen="580.126.09", settings=UNMANAGED, **BOTH),
    *row("gpu_driver_version", settings={"min_driver_version": "590"}, seen="580.126.09", **AFTER),
    *row("gpu_persistence", "warning", gpus=gpu(persistence_enabled=False), seen="GPU 3", **AFTER),
    *row("gpu_name", gpus=gpu(name="NVIDIA H200"), seen="NVIDIA H200 as GPU 3", **BOTH),
    *row("gpu_memory", gpus=gpu(memory_total_mib=90 * 1024 - 1), seen="92159 MiB on GPU 3", **BOTH),
    *row("gpu_compute_capability", gpus=gpu(compute_capability="8.9"), seen="8.9 on GPU 3", **BOTH),
    *row("gpu_mig", gpus=gpu(mig_enabled=True), seen="GPU 3", **BOTH),
    *row("gpu_ecc", gpus=gpu(ecc_uncorrected_volatile=5), seen="5 uncorrected memory errors on GPU 3", **BOTH),
    *row("gpu_health", gpus=gpu(problems=["memory.used: [GPU requires reset]"]), seen="requires reset", **BOTH),
    *row("gpu_processes", gpus={"processes": [PROCESS]}, seen="python3 (process 7) on GPU 3", **BOTH),
    *row("gpu_leftover", "warning", gpus=gpu(memory_used_mib=2049), seen="2049 MiB in use on GPU 3", **BOTH),
    *row("gpu_link", "warning", gpus={"pci_gpus.2.link_width": 8}, seen="8 of 16 lanes at 0000:03:00.0"),
    *row("fabric_manager", "warning", gpus={"nvswitches": 4}, seen="NVSwitches (4)"),
    *row("fabric_manager", gpus={"nvswitches": 4}, seen="NVSwitches (4)", settings=UNMANAGED, **BOTH),
    *row("fabric_manager", gpus={"nvswitches": 4}, seen="NVSwitches (4)", **AFTER),
]


@pytest.mark.parametrize(("entry", "wanted", "seen", "changes"), CASES)
def test_each_fault_is_found_and_no_other(entry, wanted, seen, changes):
    found = look(entry, **changes)
    assert told(found) == [wanted]
    assert seen in found[0]["seen"]


@pytest.mark.parametrize(
    ("release", "allowed", "wanted"),
    [
        # The engine's own check counts no huge pages, whether it would take them or not.
        ("0.5.9", True, ["error memory"]),
        ("0.5.13", True, ["error memory"]),
        ("0.5.23", True, ["error memory"]),
        ("0.5.23.post1", True, ["error memory"]),
        ("0.5.24", True, []),
        ("0.5.23", False, ["error memory", "warning hugepages"]),
        ("0.5.24", False, ["error memory", "warning hugepages"]),
    ],
)
def test_huge_pages_are_no_memory_for_a_release_that_does_not_count_them(release, allowed, wanted):
    found = look(
        "main",
        host={"memory.hugepages.1.total": 400},
        settings={"hugepages_allowed": allowed, "release": release},
    )
    assert [line for line in told(found) if "memory" in line or "hugepages" in line] == wanted
    for finding in found:
        if finding["code"] == "hugepages":
            assert ("is no way to use them" in finding["mend"]) is (release == "0.5.23")
            assert "set SGLANG_HUGEPAGE_SIZE" not in finding["mend"]


@pytest.mark.parametrize(
    ("entry", "changes", "wanted"),
    [
        # What goes together is told together.
        (
            "main",
            {"host": {"memory.hugepages.1.total": 400}},
            ["error memory", "warning hugepages"],
        ),
        (
            "gpus",
            {"gpus": BLANK, "host": {"kernel.headers_installed": False}},
            ["error kernel_headers", "error gpu_driver"],
        ),
        ("gpus", {"gpus": BLANK, "host": {"secure_boot.enabled": True}}, ["error secure_boot", "error gpu_driver"]),
        (
            "gpus",
            {"gpus": {**failing("driver_not_loaded"), "nouveau_loaded": True}},
            ["error gpu_driver", "error nouveau"],
        ),
        ("main", {"gpus": {**BLANK, "nouveau_loaded": True}}, ["warning nouveau"]),
        (
            "main",
            {"gpus": failing("no_devices", kernel_module={"loaded": True, "version": "580.65.06", "open": False})},
            ["error gpu_driver", "warning driver_kind"],
        ),
        (
            "gpus",
            {"gpus": failing("no_devices", kernel_module={"loaded": True, "version": "580.65.06", "open": False})},
            ["error gpu_driver", "error driver_kind"],
        ),
        (
            "main",
            {"settings": {"planned_driver_version": "575.57.08", "planned_toolkit_series": "12.9"}},
            ["error driver_pin", "warning toolkit_series"],
        ),
    ],
)
def test_faults_that_belong_together(entry, changes, wanted):
    assert told(look(entry, **changes)) == wanted


@pytest.mark.parametrize(
    ("entry", "changes"),
    [
        # Not known is not wrong.
        ("main", {"host": {"memory.total": None, "memory.overcommit": None, "memory.hugepages": []}}),
        ("main", {"host": {"numa": [], "shm": None, "limits": None, "clock.synchronized": None}}),
        ("main", {"host": {"numa.0.total": None, "numa.1.total": None}}),
        ("main", {"host": {"limits.open_files": None, "limits.tasks": None}}),
        ("main", {"host": {"journal.max_level": None, "journal.rate_limit_burst": None}}),
        ("main", {"host": {"secure_boot.enabled": None, "secure_boot.key_enrolled": None}, "gpus": BLANK}),
        ("main", {"host": {"kernel.release": None, "kernel.headers_installed": False}, "gpus": BLANK}),
        ("main", {"host": {"kernel.headers_installed": False, "kernel.headers_offered": None}, "gpus": BLANK}),
        ("main", {"host": {"engine_python": None}}),
        (
            "main",
            {"gpus": {"pci_gpus.1.link_width": None, "pci_gpus.2.link_width": 0, "pci_gpus.3.link_width_max": 255}},
        ),
        ("gpus", {"gpus": gpu(memory_total_mib=None, compute_capability=None, mig_enabled=None, memory_used_mib=None)}),
        ("gpus", {"gpus": gpu(ecc_uncorrected_volatile=None, persistence_enabled=None)}),
        ("gpus", {"gpus": {"cuda_version": None, "library_versions": []}}),
        # What is as it should be, though it looks like a fault.
        ("main", {"host": {"memory.hugepages.1.total": 8}, "settings": {"hugepages_allowed": True}}),
        ("main", {"host": {"memory.hugepages.1.total": 1}, "settings": {"max_hugepages_gb": 2}}),
        ("main", {"host": {"memory.cgroup_limit": 500 * GB}}),
        ("main", {"host": {"numa": [*HOST["numa"], {"id": 2, "cpus": "", "total": 16 * GB, "free": 16 * GB}]}}),
        ("main", {"host": {"numa.1.total": 330 * GB}}),
        ("main", {"gpus": {"pci_gpus": GPUS["pci_gpus"][:1]}, "settings": {"gpu_count": 1}}),
        ("main", {"host": {"paths.0.free": 10 * GB, "paths.1.used": 640 * GB}}),
        ("main", {"host": {"paths.0.exec_allowed": False}}),
        ("main", {"host": {"listeners": [{"address": "127.0.0.1", "port": 30000, "pid": 9, "unit": UNIT}]}}),
        ("main", {"host": {"journal.rate_limit_burst": 5, "journal.max_level": 6}}),
        ("main", {"settings": {"unit_directives": {"Service": {"LogRateLimitIntervalSec": "30s"}}}}),
        ("main", {"settings": {"unit_directives": {"Service": {"LogRateLimitIntervalSec": 0}}}}),
        (
            "main",
            {
                "host": {"journal.rate_limit_burst": 5, "journal.rate_limit_seconds": 0},
                "settings": {"unit_directives": {"Service": {"LogRateLimitIntervalSec": None, "LogRateLimitBurst": 0}}},
            },
        ),
        ("main", {"host": {"kernel.release": "6.14.0-37-generic"}}),
        ("main", {"host": {"kernel.release": "6.1.0-42-amd64"}}),
        ("main", {"host": {"kernel.release": "6.12.48+deb13-amd64"}, "settings": {"kernel_bugs": []}}),
        ("main", {"host": {"secure_boot.enabled": True}}),  # the module is loaded
        ("main", {"host": {"secure_boot.enabled": True, "secure_boot.key_enrolled": True}, "gpus": BLANK}),
        ("main", {"gpus": {f"pci_gpus.{index}.iommu": "identity" for index in range(8)}}),
        (
            "main",
            {
                "gpus": {"pci_gpus.1.iommu": "DMA", "pci_gpus.1.acs_bridges": ["0000:00:01.1"]},
                "settings": {"peer_access_required": False},
            },
        ),
        ("main", {"gpus": failing("driver_not_loaded")}),
        ("main", {"gpus": {"driver_version": "535.1", "cuda_version": "12.2"}}),  # role cuda installs another one
        ("main", {"settings": {"planned_driver_version": "575.57.08", "release": "0.5.10.post1"}}),
        ("main", {"settings": {"planned_toolkit_series": "12.9", "release": "0.5.10.post1"}}),
        ("main", {"settings": {"planned_driver_version": "575.57.08", **UNMANAGED}}),
        ("gpus", {"gpus": {"driver_version": "575.57.08", "cuda_version": "12.9"}, "settings": {"release": "0.5.10"}}),
        ("main", {"host": {"engine_python.version": "3.10.12"}, "settings": {"release": "0.5.10.post1"}}),
        ("main", {"host": {"glibc_version": "2.31"}, "settings": {"release": "0.5.10.post1"}}),
        ("main", {"settings": {"release": "0.5.23+standin"}}),
        ("main", {"settings": {"release": "main"}}),
        ("gpus", {"gpus": gpu(name="Nvidia rtx pro 6000 blackwell max-q")}),
        ("gpus", {"gpus": gpu(name=None), "settings": {"gpu_name": ""}}),
        ("main", {"host": {"listeners": [{"address": "::1", "port": 30001, "pid": 9, "unit": "sglang-b.service"}]}}),
        ("gpus", {"gpus": {"processes": [{**PROCESS, "unit": "sglang-b.service"}]}}),
        ("gpus", {"gpus": {"processes": [{**PROCESS, "unit": UNIT}], **gpu(memory_used_mib=90000)}}),
        ("gpus", {"gpus": {"processes": [PROCESS]}, "settings": {"gpu_allowed_units": ["a.service"]}}),
        ("gpus", {"gpus": gpu(ecc_uncorrected_volatile=5), "settings": {"gpu_max_uncorrected_errors": "5"}}),
        ("gpus", {"gpus": {"nvswitches": 4, "fabric_manager_running": True}}),
        # A host without GPUs that is to have none.
        ("main", {"gpus": {**BLANK, "pci_gpus": []}, "settings": {"gpu_required": False}}),
        ("gpus", {"gpus": {**BLANK, "pci_gpus": [], "nouveau_loaded": True}, "settings": {"gpu_required": "false"}}),
        ("main", {"gpus": {**failing("no_devices"), "pci_gpus": []}, "settings": {"gpu_detection": "none"}}),
        ("main", {"gpus": {**BLANK, "pci_gpus": []}, "settings": {"gpu_detection": "nvidia-smi"}}),
    ],
)
def test_what_is_unknown_or_right_is_no_finding(entry, changes):
    assert look(entry, **changes) == []


def test_check_mode_does_not_hold_an_absent_driver_against_a_host():
    found = look("gpus", check_mode=True, gpus=BLANK, host={"kernel.headers_installed": False})
    assert told(found) == ["warning kernel_headers", "warning gpu_driver"]
    assert told(look("gpus", check_mode=True, gpus=failing("no_devices"))) == ["error gpu_driver"]


def test_an_accepted_error_is_a_warning_and_says_so():
    changes = {"host": {"memory.total": 10 * GB, "clock.synchronized": False}}
    found = look(accepted=["memory", "clock"], **changes)
    assert told(found) == ["warning memory", "warning clock"]
    assert [row["accepted"] for row in found] == [True, False]


def test_errors_come_first_and_every_part_is_a_sentence():
    for entry, _wanted, _seen, changes in (case.values for case in CASES):
        for finding in look(entry, **changes):
            assert list(finding) == ["level", "code", "seen", "needed", "mend", "accepted"]
            assert finding["mend"].endswith(".") and not finding["seen"].endswith(".")
            assert "None" not in finding["seen"] + finding["needed"] + finding["mend"]
    found = look(host={"clock.synchronized": False, "memory.total": GB, "restart_pending": True})
    assert told(found) == ["error memory", "warning clock", "warning restart_pending"]


def test_every_code_has_a_case():
    single = {case.values[1].split()[1] for case in CASES}
    assert {known.code for known in preflight_rules.ORDERED} - single == {"nouveau", "driver_kind"}  # told with others
    told_levels = {tuple(case.values[1].split()) for case in CASES}
    levels = {(level, known.code) for known in preflight_rules.ORDERED for level in known.levels}
    assert told_levels <= levels


def test_the_specification_and_the_document_name_every_code():
    specification = yaml.safe_load((ROOT / "roles/preflight/meta/argument_specs.yml").read_text())["argument_specs"]
    codes = [known.code for known in preflight_rules.ORDERED]
    assert specification["main"]["options"]["preflight_accepted_findings"]["choices"] == codes
    assert yaml.safe_load((ROOT / "roles/preflight/vars/main/codes.yml").read_text()) == {"__preflight_codes": codes}
    text = (ROOT / "docs/preflight.md").read_text()
    rows = re.findall(r"(?m)^\| `(\w+)` \| ([\w, ]+) \| ([^|]+) \| ", text)
    assert [(code, levels, entries.replace("`", "").strip()) for code, levels, entries in rows] == [
        (known.code, ", ".join(known.levels), ", ".join(known.entries)) for known in preflight_rules.ORDERED
    ]


@pytest.mark.parametrize(
    ("release", "cuda", "driver", "python"),
    [
        ("0.5.8.post1", "12.8", "570.26", "3.10"),
        ("0.5.10.post1", "12.8", "570.26", "3.10"),
        ("0.5.11", "13.0", "580.65.06", "3.11"),
        ("0.5.23", "13.0", "580.65.06", "3.11"),
        ("0.6.0", "13.0", "580.65.06", "3.11"),
        ("main", "13.0", "580.65.06", "3.11"),
    ],
)
def test_needs_of_releases(release, cuda, driver, python):
    need = release_needs.needs_of(release)
    assert (need.cuda, need.driver, need.python_first) == (cuda, driver, python)


@pytest.mark.parametrize(
    ("one", "other", "older"),
    [
        ("580.65.06", "580.126.09", True),
        ("580.126.09", "580.65.06", False),
        ("580", "580.65.06", True),
        ("0.5.10", "0.5.10.post1", True),
        ("0.5.9", "0.5.10", True),
        ("0.5.23+cu130", "0.5.23", False),
        ("0.5.23", "0.5.23+cu130", False),
    ],
)
def test_versions_are_compared_by_numbers(one, other, older):
    assert release_needs.is_older(one, other) is older


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([[], GPUS, FACTS, SETTINGS], "host is list"),
        ([HOST, None, FACTS, SETTINGS], "gpus is NoneType"),
        ([HOST, GPUS, FACTS, {**SETTINGS, "min_disk_gb": "much"}], "'much'"),
        ([{name: value for name, value in HOST.items() if name != "clock"}, GPUS, FACTS, SETTINGS], "clock"),
    ],
)
def test_what_cannot_be_judged_is_named(arguments, words):
    with pytest.raises(AnsibleFilterError, match=re.escape(words)):
        preflight_findings(*arguments)


def test_an_unknown_entry_point_is_refused():
    with pytest.raises(AnsibleFilterError, match="entry is 'all'"):
        preflight_findings(HOST, GPUS, FACTS, SETTINGS, entry="all")
