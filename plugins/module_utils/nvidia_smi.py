# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what nvidia-smi and the kernel print about NVIDIA GPUs.

Pure functions on text: nothing here starts a process or opens a file. Memory is in MiB (2**20 bytes), as nvidia-smi
counts it. A value that the tool does not have ("[N/A]", "[Not Supported]", ...) is None.
"""

from __future__ import annotations

import re

NVIDIA_VENDOR = "0x10de"
# PCI base class 03: display controllers. NVIDIA's data centre boards are 0x0302xx (3D), the others 0x0300xx (VGA);
# the audio function of a board is class 04 and NVSwitches are class 06.
PCI_DISPLAY_CLASS = "0x03"
PCI_NVSWITCH_CLASS = "0x0680"

# name of the field in the result -> (name that nvidia-smi knows, kind)
GPU_FIELDS = (
    ("index", "index", "int"),
    ("name", "name", "text"),
    ("uuid", "uuid", "text"),
    ("pci_bus_id", "pci.bus_id", "text"),
    ("memory_total_mib", "memory.total", "int"),
    ("memory_used_mib", "memory.used", "int"),
    ("driver_version", "driver_version", "text"),
    ("compute_capability", "compute_cap", "text"),
    ("mig_enabled", "mig.mode.current", "switch"),
    ("ecc_enabled", "ecc.mode.current", "switch"),
    ("ecc_uncorrected_volatile", "ecc.errors.uncorrected.volatile.total", "int"),
    ("ecc_uncorrected_aggregate", "ecc.errors.uncorrected.aggregate.total", "int"),
    ("persistence_enabled", "persistence_mode", "switch"),
)
# The name comes last because it is the only value that may hold a comma.
PROCESS_FIELDS = ("gpu_uuid", "pid", "used_memory", "process_name")

_NOT_THERE = re.compile(r"^\[?(N/A|Not Supported|Not Available|Unknown|Insufficient Permissions)\]?$", re.IGNORECASE)
_PROBLEM = re.compile(r"^(\[.*\]|ERR!|.*\b(?:requires reset|is lost|Unknown Error)\b.*)$", re.IGNORECASE)

# First match wins. Codes are part of the module's interface.
_FAILURES = (
    ("version_mismatch", re.compile(r"Driver/library version mismatch", re.IGNORECASE)),
    ("driver_not_loaded", re.compile(r"couldn't communicate with the NVIDIA driver|Driver Not Loaded", re.IGNORECASE)),
    ("no_devices", re.compile(r"No devices were found", re.IGNORECASE)),
    ("gpu_lost", re.compile(r"GPU is lost|Unable to determine the device handle|requires reset", re.IGNORECASE)),
    ("unknown_field", re.compile(r"is not a valid field to query", re.IGNORECASE)),
    ("no_permission", re.compile(r"Insufficient Permissions|Permission denied", re.IGNORECASE)),
)


def gpu_query(binary):
    """Arguments of the query for all GPUs, as a list."""
    fields = ",".join(field for _key, field, _kind in GPU_FIELDS)
    return [binary, "--query-gpu=" + fields, "--format=csv,noheader,nounits"]


def process_query(binary):
    """Arguments of the query for the processes that hold a compute context, as a list."""
    return [binary, "--query-compute-apps=" + ",".join(PROCESS_FIELDS), "--format=csv,noheader,nounits"]


def parse_gpus(text):
    """Turn the answer to :func:`gpu_query` into a list of dictionaries, one per GPU, in nvidia-smi's order.

    Each has the keys of GPU_FIELDS (int, bool, str or None) and ``problems``: sentences about values that report a
    broken GPU, for example "memory.used: [GPU requires reset]".

    Raises ValueError when a line has not as many columns as were asked for.
    """
    gpus = []
    for line in text.splitlines():
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(GPU_FIELDS):
            raise ValueError(f"nvidia-smi answered {len(cells)} columns instead of {len(GPU_FIELDS)}: {line.strip()!r}")
        gpu = {"problems": []}
        for (key, field, kind), cell in zip(GPU_FIELDS, cells):
            gpu[key] = _value(cell, kind, field, gpu["problems"])
        gpus.append(gpu)
    return gpus


def parse_processes(text, gpus=()):
    """Turn the answer to :func:`process_query` into a list of dictionaries.

    Keys: ``gpu_uuid``, ``gpu_index`` (None when the UUID is not among gpus), ``pid``, ``name``, ``used_memory_mib``
    (None where the driver does not tell). Lines that are not rows ("No running processes found") are left out.
    """
    index_of = {gpu["uuid"]: gpu["index"] for gpu in gpus}
    processes = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",", len(PROCESS_FIELDS) - 1)]
        if len(cells) != len(PROCESS_FIELDS) or not cells[1].isdigit():
            continue
        processes.append(
            {
                "gpu_uuid": cells[0],
                "gpu_index": index_of.get(cells[0]),
                "pid": int(cells[1]),
                "name": cells[3],
                "used_memory_mib": _value(cells[2], "int", "used_memory", []),
            }
        )
    return processes


def parse_cuda_version(text):
    """The newest CUDA version that the driver serves, from the header of nvidia-smi's plain table; None if absent."""
    found = re.search(r"CUDA (?:UMD )?Version\s*:\s*(\d+\.\d+)", text)
    return found.group(1) if found else None


def parse_module_version(text):
    """Version and kind of the loaded kernel module from /proc/driver/nvidia/version.

    Returns ``{"version": str or None, "open": bool or None}``.
    """
    found = re.search(r"^NVRM version:.*?\s(\d+(?:\.\d+)+)\s", text + "\n", re.MULTILINE)
    if not found:
        return {"version": None, "open": None}
    return {"version": found.group(1), "open": "Open Kernel Module" in found.group(0)}


def classify_failure(rc, stdout, stderr):
    """Why nvidia-smi failed: ``{"code": str, "message": str, "rc": int, "library_version": str or None}``.

    Codes: version_mismatch, driver_not_loaded, no_devices, gpu_lost, unknown_field, no_permission, timeout (rc 124 of
    coreutils' timeout, or 137 when it had to kill), failed. nvidia-smi prints most of its errors to stdout.
    """
    text = "\n".join(part.strip() for part in (stdout, stderr) if part and part.strip())
    code = "failed"
    if rc in (124, 137):
        code = "timeout"
        text = text or "nvidia-smi did not answer in time"
    else:
        for name, pattern in _FAILURES:
            if pattern.search(text):
                code = name
                break
    library = re.search(r"NVML library version:\s*(\S+)", text)
    return {
        "code": code,
        "message": " ".join(text.split()) or f"nvidia-smi ended with code {rc} and said nothing",
        "rc": rc,
        "library_version": library.group(1) if library else None,
    }


def is_gpu_function(vendor, device_class):
    """Whether a PCI function, given sysfs' ``vendor`` and ``class`` texts, is an NVIDIA GPU."""
    return vendor.strip().lower() == NVIDIA_VENDOR and device_class.strip().lower().startswith(PCI_DISPLAY_CLASS)


def is_nvswitch(vendor, device_class):
    """Whether a PCI function is an NVSwitch: of NVIDIA, and a bridge of no standard kind."""
    return vendor.strip().lower() == NVIDIA_VENDOR and device_class.strip().lower().startswith(PCI_NVSWITCH_CLASS)


def library_version(name):
    """Version of the driver that a library's file name tells ("libcuda.so.580.126.09"); None for other names."""
    found = re.match(r"^lib(?:cuda|nvidia-ml)\.so\.(\d+\.\d+(?:\.\d+)?)$", name)
    return found.group(1) if found else None


def _value(cell, kind, field, problems):
    if cell == "" or _NOT_THERE.match(cell):
        return None
    if _PROBLEM.match(cell):
        problems.append(f"{field}: {cell}")
        return None
    if kind == "int":
        if re.match(r"^-?\d+$", cell):
            return int(cell)
        problems.append(f"{field}: {cell} is not a whole number")
        return None
    if kind == "switch":
        return {"enabled": True, "disabled": False}.get(cell.lower())
    return cell
