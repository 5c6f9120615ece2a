# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import nvidia_smi

HEALTHY = (
    "0, NVIDIA RTX PRO 6000 Blackwell Server Edition, GPU-aa, 00000000:01:00.0, 97887, 2, 580.126.09, 12.0, "
    "Disabled, Enabled, 0, 7, Enabled\n"
)


def row(**changes):
    cells = dict(zip([key for key, _field, _kind in nvidia_smi.GPU_FIELDS], HEALTHY.strip().split(", ")))
    cells.update(changes)
    return ", ".join(cells.values()) + "\n"


def test_the_queries_name_the_fields_in_the_order_in_which_they_are_read():
    assert nvidia_smi.gpu_query("/usr/bin/nvidia-smi") == [
        "/usr/bin/nvidia-smi",
        "--query-gpu=index,name,uuid,pci.bus_id,memory.total,memory.used,driver_version,compute_cap,mig.mode.current,"
        "ecc.mode.current,ecc.errors.uncorrected.volatile.total,ecc.errors.uncorrected.aggregate.total,"
        "persistence_mode",
        "--format=csv,noheader,nounits",
    ]
    assert nvidia_smi.process_query("smi") == [
        "smi",
        "--query-compute-apps=gpu_uuid,pid,used_memory,process_name",
        "--format=csv,noheader,nounits",
    ]


def test_a_healthy_gpu_has_typed_values():
    assert nvidia_smi.parse_gpus(HEALTHY) == [
        {
            "index": 0,
            "name": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
            "uuid": "GPU-aa",
            "pci_bus_id": "00000000:01:00.0",
            "memory_total_mib": 97887,
            "memory_used_mib": 2,
            "driver_version": "580.126.09",
            "compute_capability": "12.0",
            "mig_enabled": False,
            "ecc_enabled": True,
            "ecc_uncorrected_volatile": 0,
            "ecc_uncorrected_aggregate": 7,
            "persistence_enabled": True,
            "problems": [],
        }
    ]


@pytest.mark.parametrize("absent", ["N/A", "[N/A]", "[Not Supported]", "[Unknown]", "[Insufficient Permissions]"])
@pytest.mark.parametrize("key", ["ecc_uncorrected_volatile", "mig_enabled", "compute_capability"])
def test_a_value_that_the_gpu_does_not_have_is_none_and_no_problem(key, absent):
    (gpu,) = nvidia_smi.parse_gpus(row(**{key: absent}))
    assert gpu[key] is None
    assert gpu["problems"] == []


@pytest.mark.parametrize("broken", ["[GPU requires reset]", "[Unknown Error]", "ERR!", "[GPU is lost]"])
def test_a_broken_gpu_is_a_problem(broken):
    (gpu,) = nvidia_smi.parse_gpus(row(memory_used_mib=broken))
    assert gpu["memory_used_mib"] is None
    assert gpu["problems"] == [f"memory.used: {broken}"]


def test_a_unit_where_a_number_was_asked_for_is_a_problem():
    (gpu,) = nvidia_smi.parse_gpus(row(memory_total_mib="97887 MiB"))
    assert gpu["memory_total_mib"] is None
    assert gpu["problems"] == ["memory.total: 97887 MiB is not a whole number"]


def test_mig_and_blank_lines():
    gpus = nvidia_smi.parse_gpus("\n" + row(mig_enabled="Enabled") + "\n" + row(index="1") + "\n")
    assert [(g["index"], g["mig_enabled"]) for g in gpus] == [(0, True), (1, False)]


@pytest.mark.parametrize("text", ["No devices were found\n", HEALTHY.rsplit(",", 1)[0], HEALTHY.strip() + ", more"])
def test_an_answer_with_other_columns_is_refused(text):
    with pytest.raises(ValueError, match="columns instead of 13"):
        nvidia_smi.parse_gpus(text)


def test_processes_keep_commas_in_names_and_find_their_gpu():
    text = "GPU-aa, 4242, 84231, /opt/a,b/python3\nGPU-zz, 7, [N/A], x\nNo running processes found\n\n"
    assert nvidia_smi.parse_processes(text, nvidia_smi.parse_gpus(HEALTHY)) == [
        {"gpu_uuid": "GPU-aa", "gpu_index": 0, "pid": 4242, "name": "/opt/a,b/python3", "used_memory_mib": 84231},
        {"gpu_uuid": "GPU-zz", "gpu_index": None, "pid": 7, "name": "x", "used_memory_mib": None},
    ]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("| NVIDIA-SMI 580.126.09   Driver Version: 580.126.09   CUDA Version: 13.0     |", "13.0"),
        ("CUDA UMD Version: 13.1", "13.1"),
        ("CUDA Version        : 12.9", "12.9"),
        ("CUDA Version: N/A", None),
        ("", None),
    ],
)
def test_cuda_version(text, version):
    assert nvidia_smi.parse_cuda_version(text) == version


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.09  Release Build  (dvs-builder@U22)  "
            "Wed Jan  7 22:14:05 UTC 2026\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n",
            {"version": "580.126.09", "open": True},
        ),
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.216.03  Fri Oct 25 22:43:06 UTC 2024\n",
            {"version": "535.216.03", "open": False},
        ),
        ("GCC version:  gcc version 12.2.0\n", {"version": None, "open": None}),
        ("", {"version": None, "open": None}),
    ],
)
def test_module_version(text, expected):
    assert nvidia_smi.parse_module_version(text) == expected


@pytest.mark.parametrize(
    ("rc", "stdout", "stderr", "code", "library"),
    [
        (6, "No devices were found\n", "", "no_devices", None),
        (
            18,
            "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.126\n",
            "",
            "version_mismatch",
            "580.126",
        ),
        (
            9,
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
            "NVIDIA driver is installed and running.\n\n",
            "",
            "driver_not_loaded",
            None,
        ),
        (9, "", "Failed to initialize NVML: Driver Not Loaded", "driver_not_loaded", None),
        (
            15,
            "Unable to determine the device handle for GPU0: 00000000:01:00.0: GPU is lost.  Reboot the system",
            "",
            "gpu_lost",
            None,
        ),
        (2, 'Field "compute_cap" is not a valid field to query.\n', "", "unknown_field", None),
        (4, "Failed to initialize NVML: Insufficient Permissions", "", "no_permission", None),
        (124, "", "", "timeout", None),
        (137, "", "", "timeout", None),
        (255, "Failed to initialize NVML: Unknown Error", "", "failed", None),
        (127, "", "", "failed", None),
    ],
)
def test_failures_are_told_apart(rc, stdout, stderr, code, library):
    failure = nvidia_smi.classify_failure(rc, stdout, stderr)
    assert (failure["code"], failure["rc"], failure["library_version"]) == (code, rc, library)
    assert failure["message"]
    assert "\n" not in failure["message"]


@pytest.mark.parametrize(
    ("vendor", "device_class", "is_gpu"),
    [
        ("0x10de\n", "0x030200\n", True),
        ("0x10de\n", "0x030000\n", True),
        ("0x10DE", "0x030200", True),
        ("0x10de\n", "0x040300\n", False),
        ("0x10de\n", "0x068000\n", False),
        ("0x1002\n", "0x030000\n", False),
        ("", "", False),
    ],
)
def test_only_display_controllers_of_nvidia_are_gpus(vendor, device_class, is_gpu):
    assert nvidia_smi.is_gpu_function(vendor, device_class) is is_gpu
