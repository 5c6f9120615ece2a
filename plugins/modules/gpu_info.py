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
      - Folder with one entry per PCI function, each with the files C(vendor), C(device) and C(class).
    type: path
    default: /sys/bus/pci/devices
  module_path:
    description:
      - Folder with one entry per loaded kernel module.
    type: path
    default: /sys/module
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
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import nvidia_smi, proc_text


def read_text(*parts):
    """Content of a small file, or None when it cannot be read."""
    try:
        with open(os.path.join(*parts), encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return None


def read_pci(pci_path):
    """NVIDIA GPUs below a sysfs folder, ordered by address."""
    try:
        addresses = sorted(os.listdir(pci_path))
    except OSError:
        return []
    found = []
    for address in addresses:
        vendor = read_text(pci_path, address, "vendor") or ""
        device_class = read_text(pci_path, address, "class") or ""
        if nvidia_smi.is_gpu_function(vendor, device_class):
            device = (read_text(pci_path, address, "device") or "").strip()
            found.append({"address": address, "device": device, "class": device_class.strip()})
    return found


def read_kernel_module(proc_path, module_path):
    """State of NVIDIA's kernel module: loaded, version, open."""
    text = read_text(proc_path, "driver", "nvidia", "version")
    module = {"loaded": text is not None or os.path.isdir(os.path.join(module_path, "nvidia"))}
    module.update(nvidia_smi.parse_module_version(text or ""))
    if module["version"] is None:
        module["version"] = (read_text(module_path, "nvidia", "version") or "").strip() or None
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
    out, result["error"] = smi.call(nvidia_smi.process_query(smi.binary))
    if result["error"]:
        return
    result["processes"] = nvidia_smi.parse_processes(out, result["gpus"])
    for process in result["processes"]:
        text = read_text(module.params["proc_path"], str(process["pid"]), "cgroup")
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
        },
        supports_check_mode=True,
    )
    if module.params["timeout"] < 1:
        module.fail_json(msg=f"timeout is {module.params['timeout']}. Give at least 1 second.")
    binary = module.get_bin_path(module.params["binary"])
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
        "pci_gpus": read_pci(module.params["pci_path"]),
    }
    if binary is None:
        message = f"{module.params['binary']} is not installed"
        result["error"] = {"code": "missing", "message": message, "rc": None, "library_version": None}
    else:
        read_gpus(module, result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
