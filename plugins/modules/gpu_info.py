#!/usr/bin/python
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_info
short_description: Read the NVIDIA GPUs of a host
version_added: 0.1.0
description:
  - Reads GPUs, driver and processes with C(nvidia-smi), the loaded kernel module from C(/proc), and the PCI functions
    from C(/sys), so that GPUs are counted before a driver is there too.
  - A host without GPUs, without C(nvidia-smi), or with a driver that does not answer is not a failure of the module.
    It is told in RV(available) and RV(error), because the caller knows what the host ought to have.
author:
  - llmfleet contributors (@llmfleet)
options:
  binary:
    description:
      - Name or path of C(nvidia-smi).
    type: str
    default: nvidia-smi
  timeout:
    description:
      - Seconds after which one call of C(nvidia-smi) is given up. A wedged GPU makes it hang.
    type: int
    default: 60
  proc_path:
    description:
      - Where the proc file system is mounted.
    type: path
    default: /proc
  pci_path:
    description:
      - Folder with one entry per PCI function, each with the files C(vendor), C(device) and C(class), as C(/sys) has
        them.
    type: path
    default: /sys/bus/pci/devices
  module_path:
    description:
      - Folder with one entry per loaded kernel module.
    type: path
    default: /sys/module
  library_paths:
    description:
      - Folders in which the driver's libraries are looked for.
    type: list
    elements: path
    default: [/usr/lib/x86_64-linux-gnu, /usr/lib/aarch64-linux-gnu, /usr/lib64]
extends_documentation_fragment:
  - llmfleet.sglang.attributes
"""

EXAMPLES = r"""
- name: Read the GPUs
  llmfleet.sglang.gpu_info:
  register: gpus

- name: Stop unless eight of them answer
  ansible.builtin.assert:
    that:
      - gpus.available
      - gpus.gpus | length == 8
    fail_msg: "{{ gpus.error.message | default('The host has ' ~ gpus.gpus | length ~ ' GPUs.') }}"
"""

RETURN = r"""
available:
  description: Whether C(nvidia-smi) is there and answered.
  returned: always
  type: bool
  sample: true
error:
  description: Why there is no answer. Null when RV(available) is true.
  returned: always
  type: dict
  contains:
    code:
      description:
        - One of V(missing) (no C(nvidia-smi)), V(driver_not_loaded), V(version_mismatch) (kernel module and libraries
          differ), V(no_devices), V(gpu_lost), V(timeout), V(no_permission), V(unknown_field), V(unreadable) (an answer
          of another form) and V(failed).
      type: str
      sample: no_devices
    message:
      description: What C(nvidia-smi) said, in one line.
      type: str
      sample: No devices were found
    rc:
      description: Exit status of C(nvidia-smi). Null when it was not started.
      type: int
      sample: 6
    library_version:
      description: Version of the user-space libraries when the message names it, else null.
      type: str
      sample: "580.126"
binary:
  description: Path of C(nvidia-smi), null if it is missing.
  returned: always
  type: str
  sample: /usr/bin/nvidia-smi
driver_version:
  description: Version of the driver as the first GPU reports it, null without an answer.
  returned: always
  type: str
  sample: 580.126.09
cuda_version:
  description: Newest CUDA version that the driver serves, null without an answer.
  returned: always
  type: str
  sample: "13.0"
gpus:
  description: The GPUs in the order of C(nvidia-smi). Values that a GPU does not have are null.
  returned: always
  type: list
  elements: dict
  contains:
    index:
      description: Number of the GPU.
      type: int
      sample: 0
    name:
      description: Name of the product.
      type: str
      sample: NVIDIA RTX PRO 6000 Blackwell Server Edition
    uuid:
      description: Identity of the GPU.
      type: str
      sample: GPU-0b9f6b9a-2f63-5c4f-9a70-0d4cf4c7d2f1
    pci_bus_id:
      description: PCI address.
      type: str
      sample: "00000000:01:00.0"
    memory_total_mib:
      description: Memory in MiB (2**20 bytes).
      type: int
      sample: 97887
    memory_used_mib:
      description: Memory in use in MiB (2**20 bytes).
      type: int
      sample: 2
    driver_version:
      description: Version of the driver.
      type: str
      sample: 580.126.09
    compute_capability:
      description: Compute capability.
      type: str
      sample: "12.0"
    mig_enabled:
      description: Whether the GPU is divided into instances.
      type: bool
      sample: false
    ecc_enabled:
      description: Whether memory errors are corrected.
      type: bool
      sample: true
    ecc_uncorrected_volatile:
      description: Uncorrected memory errors since the driver was loaded.
      type: int
      sample: 0
    ecc_uncorrected_aggregate:
      description: Uncorrected memory errors in the life of the GPU.
      type: int
      sample: 0
    persistence_enabled:
      description: Whether the driver stays initialised without a client.
      type: bool
      sample: true
    numa_node:
      description: The NUMA node that the GPU is attached to, null on a host without such nodes or if unknown.
      type: int
      sample: 0
    problems:
      description: Values by which the GPU says that it is broken.
      type: list
      elements: str
      sample: []
processes:
  description: Processes with a compute context.
  returned: always
  type: list
  elements: dict
  contains:
    pid:
      description: Process id.
      type: int
      sample: 4242
    name:
      description: Name that C(nvidia-smi) gives.
      type: str
      sample: sglang::scheduler_TP0
    gpu_uuid:
      description: Identity of the GPU.
      type: str
      sample: GPU-0b9f6b9a-2f63-5c4f-9a70-0d4cf4c7d2f1
    gpu_index:
      description: Number of the GPU, null if it is not among RV(gpus).
      type: int
      sample: 0
    used_memory_mib:
      description: Memory of the process on that GPU in MiB (2**20 bytes), null where the driver does not tell.
      type: int
      sample: 84231
    unit:
      description: The systemd unit of the process, null if it has none or is gone.
      type: str
      sample: sglang-kimi.service
library_versions:
  description:
    - Versions of the user-space driver that lie in O(library_paths), as the names of C(libcuda.so) and
      C(libnvidia-ml.so) tell them. Two, or another one than the kernel module's, are a half upgrade.
  returned: always
  type: list
  elements: str
  sample: [580.126.09]
kernel_module:
  description: The loaded NVIDIA kernel module.
  returned: always
  type: dict
  contains:
    loaded:
      description: Whether one is loaded.
      type: bool
      sample: true
    version:
      description: Its version, null if unknown.
      type: str
      sample: 580.126.09
    open:
      description: Whether it is the open one, null if unknown.
      type: bool
      sample: true
nouveau_loaded:
  description: Whether the nouveau driver is loaded, which keeps NVIDIA's from binding.
  returned: always
  type: bool
  sample: false
pci_gpus:
  description: NVIDIA GPUs as the PCI bus shows them, with or without a driver, ordered by address.
  returned: always
  type: list
  elements: dict
  contains:
    address:
      description: PCI address.
      type: str
      sample: "0000:01:00.0"
    device:
      description: PCI device id.
      type: str
      sample: "0x2bb5"
    class:
      description: PCI class.
      type: str
      sample: "0x030200"
    numa_node:
      description: The NUMA node that it is attached to, null on a host without such nodes or if unknown.
      type: int
      sample: 0
    iommu:
      description:
        - How the IOMMU treats it. V(identity) passes addresses through, V(DMA) and V(DMA-FQ) translate them. Null
          without an IOMMU.
      type: str
      sample: identity
    acs_bridges:
      description:
        - Bridges above it that send traffic between devices up to the root complex (Access Control Services). Empty
          for a reader without privileges.
      type: list
      elements: str
      sample: []
    link_width:
      description: Lanes in use, null if unknown.
      type: int
      sample: 16
    link_width_max:
      description: Lanes that it has, null if unknown.
      type: int
      sample: 16
nvswitches:
  description: How many NVSwitches the PCI bus shows. GPUs behind them need a fabric manager.
  returned: always
  type: int
  sample: 0
fabric_manager_running:
  description: Whether C(nv-fabricmanager) runs.
  returned: always
  type: bool
  sample: false
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import host_tree, nvidia_smi, pci_config, proc_text

LIBRARY_PATHS = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"]


def list_functions(pci_path):
    """(address, vendor, class) of each PCI function below a sysfs folder, ordered by address."""
    for address in host_tree.names_in(pci_path):
        vendor, kind = (host_tree.read_text(pci_path, address, name) or "" for name in ("vendor", "class"))
        yield address, vendor.strip(), kind.strip()


def read_node(pci_path, address):
    """NUMA node of a PCI function; the kernel's -1 means that it does not know."""
    node = host_tree.read_number(pci_path, address, "numa_node") if address else None
    return node if node is not None and node >= 0 else None


def read_function(pci_path, address, kind):
    """What is told of one GPU on the bus."""
    real = os.path.realpath(os.path.join(pci_path, address))
    bridges = pci_config.bridges_above(real)
    configs = {name: host_tree.read_bytes(real[: real.index(name) + len(name)], "config") for name in bridges}
    return {
        "address": address,
        "device": (host_tree.read_text(pci_path, address, "device") or "").strip(),
        "class": kind,
        "numa_node": read_node(pci_path, address),
        "iommu": (host_tree.read_text(pci_path, address, "iommu_group", "type") or "").strip() or None,
        "acs_bridges": [name for name in bridges if pci_config.redirects(configs[name])],
        "link_width": host_tree.read_number(pci_path, address, "current_link_width"),
        "link_width_max": host_tree.read_number(pci_path, address, "max_link_width"),
    }


def read_libraries(folders):
    """Versions in the names of the driver's libraries."""
    names = [name for folder in folders for name in host_tree.names_in(folder)]
    return sorted({version for version in map(nvidia_smi.library_version, names) if version})


def read_kernel_module(proc_path, module_path):
    """State of NVIDIA's kernel module: loaded, version, open."""
    text = host_tree.read_text(proc_path, "driver", "nvidia", "version")
    module = {"loaded": text is not None or os.path.isdir(os.path.join(module_path, "nvidia"))}
    module.update(nvidia_smi.parse_module_version(text or ""))
    if module["version"] is None:
        module["version"] = (host_tree.read_text(module_path, "nvidia", "version") or "").strip() or None
    return module


class Smi:
    """Calls of nvidia-smi, each with a deadline."""

    def __init__(self, module, binary):
        self.module = module
        self.binary = binary
        self.prefix = []
        limiter = module.get_bin_path("timeout")
        if limiter:
            self.prefix = [limiter, "--kill-after=5", str(module.params["timeout"])]

    def call(self, argv):
        """Standard output and error (None, or a dictionary as classify_failure gives)."""
        environment = {"LANG": "C", "LC_ALL": "C"}
        rc, out, err = self.module.run_command(self.prefix + argv, environ_update=environment)
        return out, nvidia_smi.classify_failure(rc, out, err) if rc != 0 else None


def read_gpus(module, result):
    """Fill the part of the result that comes from nvidia-smi."""
    smi = Smi(module, result["binary"])
    out, result["error"] = smi.call(nvidia_smi.gpu_query(smi.binary))
    if result["error"]:
        return
    try:
        result["gpus"] = nvidia_smi.parse_gpus(out)
    except ValueError as error:
        result["error"] = {"code": "unreadable", "message": str(error), "rc": 0, "library_version": None}
        return
    if not result["gpus"]:
        message = "nvidia-smi answered without a GPU"
        result["error"] = {"code": "no_devices", "message": message, "rc": 0, "library_version": None}
        return
    for gpu in result["gpus"]:
        gpu["numa_node"] = read_node(module.params["pci_path"], pci_config.sysfs_address(gpu["pci_bus_id"]))
    out, result["error"] = smi.call(nvidia_smi.process_query(smi.binary))
    if result["error"]:
        return
    result["processes"] = nvidia_smi.parse_processes(out, result["gpus"])
    for process in result["processes"]:
        text = host_tree.read_text(module.params["proc_path"], str(process["pid"]), "cgroup")
        process["unit"] = proc_text.parse_unit(text or "")
    out, result["error"] = smi.call([smi.binary])
    if result["error"]:
        return
    result["cuda_version"] = nvidia_smi.parse_cuda_version(out)
    result["driver_version"] = result["gpus"][0]["driver_version"]
    result["available"] = True


def main():
    module = AnsibleModule(
        argument_spec={
            "binary": {"type": "str", "default": "nvidia-smi"},
            "timeout": {"type": "int", "default": 60},
            "proc_path": {"type": "path", "default": "/proc"},
            "pci_path": {"type": "path", "default": "/sys/bus/pci/devices"},
            "module_path": {"type": "path", "default": "/sys/module"},
            "library_paths": {"type": "list", "elements": "path", "default": LIBRARY_PATHS},
        },
        supports_check_mode=True,
    )
    if module.params["timeout"] < 1:
        module.fail_json(msg=f"timeout is {module.params['timeout']}. Give at least 1 second.")
    binary = module.get_bin_path(module.params["binary"])
    pci_path = module.params["pci_path"]
    functions = list(list_functions(pci_path))
    result = {
        "changed": False,
        "available": False,
        "error": None,
        "binary": binary,
        "driver_version": None,
        "cuda_version": None,
        "gpus": [],
        "processes": [],
        "kernel_module": read_kernel_module(module.params["proc_path"], module.params["module_path"]),
        "nouveau_loaded": os.path.isdir(os.path.join(module.params["module_path"], "nouveau")),
        "library_versions": read_libraries(module.params["library_paths"]),
        "pci_gpus": [
            read_function(pci_path, address, kind)
            for address, vendor, kind in functions
            if nvidia_smi.is_gpu_function(vendor, kind)
        ],
        "nvswitches": len([kind for _address, vendor, kind in functions if nvidia_smi.is_nvswitch(vendor, kind)]),
        "fabric_manager_running": host_tree.has_process(module.params["proc_path"], ["nv-fabricmanager"]),
    }
    if binary is None:
        message = f"{module.params['binary']} is not installed"
        result["error"] = {"code": "missing", "message": message, "rc": None, "library_version": None}
    else:
        read_gpus(module, result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
