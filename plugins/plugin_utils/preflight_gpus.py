# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on GPUs and their driver."""

from __future__ import annotations

from .preflight_rule import ERROR, GPUS, MAIN, MENDED_BY_CUDA, WARNING, Finding, listed, rule
from .release_needs import is_older

# Longest table of lanes in PCIe; 255 in sysfs is "unknown".
_MOST_LANES = 32


def _numbers(gpus):
    return listed(gpu["index"] for gpu in gpus)


def _answering(look):
    """The GPUs as the driver sees them; none where it is not asked or does not answer."""
    return look.gpus["gpus"] if look.source == "nvidia-smi" and look.gpus["available"] else []


def _needed_driver(look):
    """(version, sentence part) of the oldest driver that serves the release."""
    own = look.settings["min_driver_version"]
    if own:
        return own, look.least("min_driver_version")
    return (
        look.need.driver,
        f"{look.need.driver} or newer for CUDA {look.need.cuda}, which SGLang {look.release} brings",
    )


@rule("gpu_count", ERROR, "main gpus")
def _count(look):
    wanted = int(look.number("gpu_count"))
    on_bus = len(look.gpus["pci_gpus"])
    if look.source == "pci":
        seen, count = f"{on_bus} NVIDIA GPUs on the PCI bus", on_bus
    elif look.source == "nvidia-smi" and look.gpus["available"]:
        count = len(look.gpus["gpus"])
        seen = f"{count} GPUs in nvidia-smi, {on_bus} on the PCI bus"
    else:
        return None
    if count >= wanted:
        return None
    return Finding(
        seen,
        look.least("gpu_count"),
        'Look for the missing ones with `lspci -d 10de:` and in the kernel\'s log (Xid, "Above 4G decoding"), or lower '
        "the variable and serve_tensor_parallel_size.",
    )


@rule("gpu_driver", "error warning", "main gpus")
def _driver(look):
    if not look.asks_driver or look.gpus["available"] or look.failure == "version_mismatch":
        return None
    managed = look.flag("driver_install_enabled")
    if look.entry == MAIN and managed and look.failure in MENDED_BY_CUDA:
        return None
    mend = {
        "missing": "Set cuda_install_enabled to true, or install the driver by hand.",
        "driver_not_loaded": "See `dkms status`, `modprobe nvidia` and the kernel's log.",
        "timeout": "A GPU hangs: see the kernel's log for Xid messages, and preflight_smi_timeout for a slow start.",
        "no_permission": "Run the play with become.",
    }.get(
        look.failure,
        'Look for the GPUs with `lspci -d 10de:` and in the log of the kernel (Xid, "Above 4G decoding").',
    )
    level = WARNING if look.check_mode and look.failure == "missing" and managed else ERROR
    return Finding(f"nvidia-smi does not answer: {look.gpus['error']['message']}", "a driver that answers", mend, level)


@rule("driver_mismatch", "error warning", "main gpus")
def _mismatch(look):
    if not look.asks_driver:
        return None
    loaded, libraries = look.gpus["kernel_module"]["version"], look.gpus["library_versions"]
    if look.failure == "version_mismatch":
        told = look.gpus["error"]["library_version"]
        seen = f"kernel module {loaded or 'of another version'}, libraries {told or listed(libraries) or 'unknown'}"
    elif loaded and libraries and libraries != [loaded]:
        seen = f"kernel module {loaded}, libraries {listed(libraries)}"
    elif len(libraries) > 1:
        seen = f"libraries of {listed(libraries)} side by side"
    else:
        return None
    return Finding(
        seen,
        "kernel module and libraries of one version",
        "Restart the host, or allow it by cuda_reboot_allowed; hold the packages (cuda_hold_enabled), so that no "
        "upgrade in the background splits them again.",
        look.driver_level,
    )


@rule("driver_kind", "error warning", "main gpus")
def _kind(look):
    if not look.asks_driver or look.gpus["kernel_module"]["open"] is not False:
        return None
    if look.gpus["available"] or look.failure in ("version_mismatch", "missing"):
        return None
    return Finding(
        f"the proprietary kernel module {look.gpus['kernel_module']['version'] or ''} is loaded and drives no GPU",
        "NVIDIA's open kernel modules: Blackwell runs with no others",
        "Remove the driver that is installed (cuda-drivers, a distribution's own, a .run file) and let role cuda "
        "install nvidia-open.",
        look.driver_level,
    )


@rule("nouveau", "error warning", "main gpus")
def _nouveau(look):
    if not look.asks_driver or look.gpus["available"] or not look.gpus["nouveau_loaded"]:
        return None
    return Finding(
        "the nouveau driver is loaded and holds the GPUs",
        "NVIDIA's own driver",
        "Role cuda keeps it from loading (cuda_nouveau_blocked); the host must be restarted after that "
        "(cuda_reboot_allowed).",
        look.driver_level,
    )


@rule("driver_pin", ERROR)
def _pin(look):
    pinned = look.settings["planned_driver_version"]
    version, needed = _needed_driver(look)
    if not look.asks_driver or not pinned or not look.flag("driver_install_enabled") or not is_older(pinned, version):
        return None
    return Finding(f"cuda_driver_version is {pinned}", needed, f"Set cuda_driver_version to {version} or newer.")


@rule("toolkit_series", WARNING)
def _toolkit(look):
    series = look.settings["planned_toolkit_series"]
    if not look.asks_driver or not look.flag("driver_install_enabled") or not is_older(series, look.need.cuda):
        return None
    return Finding(
        f"cuda_toolkit_series is {series}",
        f"{look.need.cuda} or newer: SGLang {look.release} compiles kernels at run time for the CUDA of its torch",
        f'Set cuda_toolkit_series to "{look.need.cuda}".',
    )


@rule("gpu_driver_version", ERROR, "main gpus")
def _driver_version(look):
    seen, serves = look.gpus["driver_version"], look.gpus["cuda_version"]
    later = look.entry == MAIN and look.flag("driver_install_enabled")
    if not _answering(look) or seen is None or later:
        return None
    version, needed = _needed_driver(look)
    too_old = is_older(seen, version)
    if not too_old and (serves is None or not is_older(serves, look.need.cuda)):
        return None
    if not too_old:
        needed = f"a driver that serves CUDA {look.need.cuda}, which SGLang {look.release} brings"
    return Finding(
        f"driver {seen}{f', which serves CUDA {serves}' if serves else ''}",
        needed,
        "Set cuda_driver_version to a newer one.",
    )


@rule("fabric_manager", "error warning", "main gpus")
def _fabric_manager(look):
    if not _answering(look) or not look.gpus["nvswitches"] or look.gpus["fabric_manager_running"]:
        return None
    return Finding(
        f"NVSwitches ({look.gpus['nvswitches']}) and no fabric manager that runs",
        "nv-fabricmanager: CUDA does not initialise without it (error 802)",
        "Let role cuda install it in the driver's version (cuda_fabric_manager auto or present), and see "
        "`systemctl status nvidia-fabricmanager`.",
        look.driver_level,
    )


@rule("gpu_persistence", WARNING, GPUS)
def _persistence(look):
    off = [gpu for gpu in _answering(look) if gpu["persistence_enabled"] is False]
    if not off:
        return None
    return Finding(
        f"persistence mode is off on GPU {_numbers(off)}",
        "nvidia-persistenced running, so that the driver stays initialised",
        "Set cuda_persistenced_enabled to true.",
    )


@rule("gpu_name", ERROR, "main gpus")
def _name(look):
    wanted = str(look.settings["gpu_name"])
    other = [gpu for gpu in _answering(look) if wanted.lower() not in (gpu["name"] or "").lower()]
    if not other:
        return None
    return Finding(
        f"{listed(gpu['name'] for gpu in other)} as GPU {_numbers(other)}",
        look.least("gpu_name"),
        "Set the variable to the name of the GPUs that the host shall have; empty takes any.",
    )


@rule("gpu_memory", ERROR, "main gpus")
def _gpu_memory(look):
    least = look.number("gpu_min_memory_gib") * 1024
    small = [gpu for gpu in _answering(look) if gpu["memory_total_mib"] is not None and gpu["memory_total_mib"] < least]
    if not small:
        return None
    return Finding(
        f"{listed(gpu['memory_total_mib'] for gpu in small)} MiB on GPU {_numbers(small)}",
        look.least("gpu_min_memory_gib"),
        "Use GPUs with more memory, or lower the variable for a smaller model.",
    )


@rule("gpu_compute_capability", ERROR, "main gpus")
def _capability(look):
    least = str(look.settings["gpu_min_compute_capability"])
    known = [gpu for gpu in _answering(look) if gpu["compute_capability"] is not None]
    old = [gpu for gpu in known if is_older(gpu["compute_capability"], least)]
    if not old:
        return None
    return Finding(
        f"{listed(gpu['compute_capability'] for gpu in old)} on GPU {_numbers(old)}",
        look.least("gpu_min_compute_capability"),
        "Use newer GPUs, or lower the variable if the model's kernels run on these.",
    )


@rule("gpu_mig", ERROR, "main gpus")
def _mig(look):
    divided = [gpu for gpu in _answering(look) if gpu["mig_enabled"]]
    if not divided:
        return None
    return Finding(f"MIG on GPU {_numbers(divided)}", "whole GPUs", "Run `nvidia-smi -mig 0` when nothing uses them.")


@rule("gpu_ecc", ERROR, "main gpus")
def _ecc(look):
    most = look.number("gpu_max_uncorrected_errors")
    counted = [gpu for gpu in _answering(look) if gpu["ecc_uncorrected_volatile"] is not None]
    wrong = [gpu for gpu in counted if gpu["ecc_uncorrected_volatile"] > most]
    if not wrong:
        return None
    return Finding(
        f"{', '.join(str(gpu['ecc_uncorrected_volatile']) for gpu in wrong)} uncorrected memory errors on GPU "
        f"{_numbers(wrong)}",
        look.least("gpu_max_uncorrected_errors"),
        "Reset the GPU or restart the host; if errors come back, have the GPU replaced.",
    )


@rule("gpu_health", ERROR, "main gpus")
def _health(look):
    broken = [gpu for gpu in _answering(look) if gpu["problems"]]
    if not broken:
        return None
    return Finding(
        f"{listed(problem for gpu in broken for problem in gpu['problems'])} on GPU {_numbers(broken)}",
        "GPUs that answer every query",
        "Reset the GPU or restart the host, and look for Xid messages in the kernel's log.",
    )


@rule("gpu_processes", ERROR, "main gpus")
def _processes(look):
    units = [service["unit"] for service in look.settings["services"]] + look.settings["gpu_allowed_units"]
    strangers = [row for row in look.gpus["processes"] if row["unit"] not in units] if _answering(look) else []
    if not strangers:
        return None
    return Finding(
        f"{listed(row['name'] for row in strangers)} (process {listed(row['pid'] for row in strangers)}) on GPU "
        f"{listed('unknown' if row['gpu_index'] is None else row['gpu_index'] for row in strangers)}",
        f"GPUs that only {', '.join(units)} {'uses' if len(units) == 1 else 'use'}",
        "Stop the processes, or add their unit to preflight_gpu_allowed_units.",
    )


@rule("gpu_leftover", WARNING, "main gpus")
def _leftover(look):
    busy = {row["gpu_uuid"] for row in look.gpus["processes"]}
    most = look.number("gpu_max_leftover_mib")
    held = [gpu for gpu in _answering(look) if gpu["uuid"] not in busy and (gpu["memory_used_mib"] or 0) > most]
    if not held:
        return None
    return Finding(
        f"{listed(gpu['memory_used_mib'] for gpu in held)} MiB in use on GPU {_numbers(held)}, and no process in sight",
        look.least("gpu_max_leftover_mib"),
        "Look for what holds it (`fuser -v /dev/nvidia*`, containers, ended services); reset the GPU or restart the "
        "host.",
    )


@rule("gpu_link", WARNING)
def _link(look):
    narrow = []
    for gpu in look.gpus["pci_gpus"] if look.flag("gpu_required") else []:
        width, most = gpu["link_width"] or 0, gpu["link_width_max"] or 0
        if 0 < width < most <= _MOST_LANES:
            narrow.append(f"{width} of {most} lanes at {gpu['address']}")
    if not narrow:
        return None
    return Finding(
        f"GPUs on fewer PCIe lanes than they have: {', '.join(narrow)}",
        "all lanes: with tensor parallelism the slowest GPU sets the pace",
        "Look at the slot, at risers and cables, and at the firmware's bifurcation.",
    )
