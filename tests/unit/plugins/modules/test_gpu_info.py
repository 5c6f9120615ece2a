# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import nvidia_smi
from ansible_collections.llmfleet.sglang.plugins.modules import gpu_info

SMI = "/usr/bin/nvidia-smi"
LAB_SMI = Path(__file__).resolve().parents[3] / "lab" / "cuda_repo" / "files" / "nvidia-smi"
GPU_ROW = (
    "{0}, NVIDIA RTX PRO 6000 Blackwell Server Edition, GPU-{0}, 00000000:{0:02x}:00.0, 97887, 2, 580.126.09, 12.0, "
    "Disabled, Enabled, 0, 0, Enabled\n"
)
EIGHT = "".join(GPU_ROW.format(index) for index in range(8))
TABLE = "| NVIDIA-SMI 580.126.09    Driver Version: 580.126.09    CUDA Version: 13.0 |\n"


class Exit(Exception):
    """Raised where the module would end its process."""


class FakeModule:
    """Stands for AnsibleModule: plays recorded answers and notes the arguments of every call."""

    def __init__(self, answers=(), paths=None, **params):
        self.answers = list(answers)
        self.paths = {"nvidia-smi": SMI, "timeout": "/usr/bin/timeout"} if paths is None else paths
        self.params = {
            "binary": "nvidia-smi",
            "timeout": 60,
            "proc_path": "/nonexistent",
            "pci_path": "/nonexistent",
            "module_path": "/nonexistent",
            "library_paths": ["/nonexistent"],
            **params,
        }
        self.calls = []
        self.result = None
        self.spec = None

    def __call__(self, argument_spec, supports_check_mode):
        self.spec = argument_spec
        assert supports_check_mode
        return self

    def get_bin_path(self, name):
        return self.paths.get(name)

    def run_command(self, argv, environ_update=None):
        assert environ_update == {"LANG": "C", "LC_ALL": "C"}
        self.calls.append(argv)
        return self.answers.pop(0)

    def exit_json(self, **result):
        self.result = result
        raise Exit

    def fail_json(self, **result):
        self.result = {"failed": True, **result}
        raise Exit


def run(monkeypatch, fake):
    monkeypatch.setattr(gpu_info, "AnsibleModule", fake)
    with pytest.raises(Exit):
        gpu_info.main()
    return fake.result


def test_eight_gpus_and_the_exact_calls(monkeypatch):
    fake = FakeModule([(0, EIGHT, ""), (0, "GPU-3, 99, 1024, python3\n", ""), (0, TABLE, "")])
    result = run(monkeypatch, fake)
    limit = ["/usr/bin/timeout", "--kill-after=5", "60"]
    assert fake.calls == [
        [*limit, *nvidia_smi.gpu_query(SMI)],
        [*limit, *nvidia_smi.process_query(SMI)],
        [*limit, SMI],
    ]
    assert result["changed"] is False
    assert result["available"] is True
    assert result["error"] is None
    assert (result["driver_version"], result["cuda_version"], result["binary"]) == ("580.126.09", "13.0", SMI)
    assert [gpu["index"] for gpu in result["gpus"]] == list(range(8))
    assert result["processes"] == [
        {"gpu_uuid": "GPU-3", "gpu_index": 3, "pid": 99, "name": "python3", "used_memory_mib": 1024, "unit": None}
    ]


def test_without_coreutils_timeout_the_call_is_plain(monkeypatch):
    fake = FakeModule([(6, "No devices were found\n", "")], paths={"nvidia-smi": SMI})
    run(monkeypatch, fake)
    assert fake.calls == [nvidia_smi.gpu_query(SMI)]


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ([(6, "No devices were found\n", "")], "no_devices"),
        ([(0, "", "")], "no_devices"),
        (
            [(18, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.126\n", "")],
            "version_mismatch",
        ),
        ([(124, "", "")], "timeout"),
        ([(0, "1, 2, 3\n", "")], "unreadable"),
        ([(0, EIGHT, ""), (255, "Failed to initialize NVML: Unknown Error", "")], "failed"),
        ([(0, EIGHT, ""), (0, "", ""), (137, "", "")], "timeout"),
    ],
)
def test_a_driver_that_does_not_answer_is_told_and_is_no_failure(monkeypatch, answers, code):
    result = run(monkeypatch, FakeModule(answers))
    assert "failed" not in result
    assert result["available"] is False
    assert result["error"]["code"] == code
    assert result["driver_version"] is None


def test_a_missing_binary_starts_nothing(monkeypatch):
    fake = FakeModule(paths={})
    result = run(monkeypatch, fake)
    assert fake.calls == []
    assert result["binary"] is None
    assert result["error"] == {
        "code": "missing",
        "message": "nvidia-smi is not installed",
        "rc": None,
        "library_version": None,
    }


def test_a_deadline_of_zero_is_refused(monkeypatch):
    result = run(monkeypatch, FakeModule(timeout=0))
    assert result["failed"] is True
    assert result["msg"].startswith("timeout is 0.")


def test_pci_functions_kernel_modules_and_units_are_read_from_the_file_system(monkeypatch, tmp_path):
    for address, vendor, device, device_class in (
        ("0000:21:00.0", "0x10de", "0x2bb5", "0x030200"),
        ("0000:01:00.0", "0x10de", "0x2bb5", "0x030200"),
        ("0000:01:00.1", "0x10de", "0x22e8", "0x040300"),
        ("0000:02:00.0", "0x1a03", "0x2000", "0x030000"),
    ):
        folder = tmp_path / "pci" / address
        folder.mkdir(parents=True)
        for name, text in (("vendor", vendor), ("device", device), ("class", device_class)):
            (folder / name).write_text(text + "\n")
    (tmp_path / "pci" / "0000:03:00.0").mkdir()
    (tmp_path / "module" / "nouveau").mkdir(parents=True)
    (tmp_path / "proc" / "driver" / "nvidia").mkdir(parents=True)
    (tmp_path / "proc" / "driver" / "nvidia" / "version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.105.08  Release Build  (a@b)\n"
    )
    (tmp_path / "proc" / "99").mkdir()
    (tmp_path / "proc" / "99" / "cgroup").write_text("0::/system.slice/sglang-kimi.service\n")
    fake = FakeModule(
        [(0, EIGHT, ""), (0, "GPU-3, 99, 1024, python3\n", ""), (0, TABLE, "")],
        proc_path=str(tmp_path / "proc"),
        pci_path=str(tmp_path / "pci"),
        module_path=str(tmp_path / "module"),
    )
    result = run(monkeypatch, fake)
    unknown = {"numa_node": None, "iommu": None, "acs_bridges": [], "link_width": None, "link_width_max": None}
    assert result["pci_gpus"] == [
        {"address": "0000:01:00.0", "device": "0x2bb5", "class": "0x030200", **unknown},
        {"address": "0000:21:00.0", "device": "0x2bb5", "class": "0x030200", **unknown},
    ]
    assert (result["nvswitches"], result["fabric_manager_running"]) == (0, False)
    assert result["gpus"][1]["numa_node"] is None
    assert result["kernel_module"] == {"loaded": True, "version": "580.105.08", "open": True}
    assert result["nouveau_loaded"] is True
    assert result["processes"][0]["unit"] == "sglang-kimi.service"


def config_space(*capabilities):
    """4096 bytes of configuration space with a chain of extended capabilities, each (number, control)."""
    space = bytearray(4096)
    for place, (number, control) in enumerate(capabilities):
        offset = 0x100 + 0x20 * place
        after = offset + 0x20 if place + 1 < len(capabilities) else 0
        space[offset : offset + 4] = (number | 1 << 16 | after << 20).to_bytes(4, "little")
        space[offset + 6 : offset + 8] = control.to_bytes(2, "little")
    return bytes(space)


def test_place_on_the_bus_iommu_and_bridges_are_read_from_sysfs(monkeypatch, tmp_path):
    device = tmp_path / "devices" / "pci0000:00" / "0000:00:01.1" / "0000:01:00.0" / "0000:02:00.0"
    device.mkdir(parents=True)
    for name, text in {
        "vendor": "0x10de", "device": "0x2bb5", "class": "0x030200", "numa_node": "1", "current_link_width": "8",
        "max_link_width": "16",
    }.items():  # fmt: skip
        (device / name).write_text(text + "\n")
    (tmp_path / "groups" / "7").mkdir(parents=True)
    (tmp_path / "groups" / "7" / "type").write_text("DMA-FQ\n")
    (device / "iommu_group").symlink_to(tmp_path / "groups" / "7")
    (device.parents[0] / "config").write_bytes(config_space((0x0001, 0), (0x000D, 0x1D)))
    (device.parents[1] / "config").write_bytes(config_space((0x0001, 0x1D), (0x000D, 0x01)))
    (tmp_path / "pci").mkdir()
    (tmp_path / "pci" / "0000:02:00.0").symlink_to(device)
    for address, node in (("0000:03:00.0", "-1"), ("0000:04:00.0", None)):
        folder = tmp_path / "pci" / address
        folder.mkdir()
        (folder / "vendor").write_text("0x10de\n")
        (folder / "class").write_text("0x068000\n" if node is None else "0x030200\n")
        if node:
            (folder / "numa_node").write_text(node + "\n")
    (tmp_path / "proc" / "77").mkdir(parents=True)
    (tmp_path / "proc" / "77" / "comm").write_text("nv-fabricmanage\n")
    (tmp_path / "lib").mkdir()
    for name in ("libcuda.so.580.126.09", "libnvidia-ml.so.580.105.08", "libcuda.so.1", "libcudart.so.13.0.1"):
        (tmp_path / "lib" / name).write_text("")
    rows = GPU_ROW.format(2) + GPU_ROW.format(3) + GPU_ROW.format(9)
    fake = FakeModule(
        [(0, rows, ""), (0, "", ""), (0, TABLE, "")],
        proc_path=str(tmp_path / "proc"),
        pci_path=str(tmp_path / "pci"),
        library_paths=[str(tmp_path / "lib"), "/nonexistent"],
    )
    result = run(monkeypatch, fake)
    assert result["pci_gpus"][0] == {
        "address": "0000:02:00.0",
        "device": "0x2bb5",
        "class": "0x030200",
        "numa_node": 1,
        "iommu": "DMA-FQ",
        "acs_bridges": ["0000:01:00.0"],
        "link_width": 8,
        "link_width_max": 16,
    }
    assert [gpu["numa_node"] for gpu in result["gpus"]] == [1, None, None]
    assert (result["nvswitches"], result["fabric_manager_running"]) == (1, True)
    assert result["library_versions"] == ["580.105.08", "580.126.09"]


def test_the_module_version_in_sysfs_is_enough(monkeypatch, tmp_path):
    (tmp_path / "nvidia").mkdir()
    (tmp_path / "nvidia" / "version").write_text("580.126.09\n")
    result = run(monkeypatch, FakeModule(paths={}, module_path=str(tmp_path)))
    assert result["kernel_module"] == {"loaded": True, "version": "580.126.09", "open": None}
    assert result["nouveau_loaded"] is False


def test_no_driver_at_all(monkeypatch):
    result = run(monkeypatch, FakeModule(paths={}))
    assert result["kernel_module"] == {"loaded": False, "version": None, "open": None}
    assert result["pci_gpus"] == []


def test_the_documentation_names_the_options_with_their_defaults(monkeypatch):
    yaml = pytest.importorskip("yaml")
    fake = FakeModule(paths={})
    run(monkeypatch, fake)
    documented = yaml.safe_load(gpu_info.DOCUMENTATION)["options"]
    assert {name: (option["type"], option["default"]) for name, option in documented.items()} == {
        name: (option["type"], option["default"]) for name, option in fake.spec.items()
    }
    returned = yaml.safe_load(gpu_info.RETURN)
    assert set(fake.result) - {"changed"} == set(returned)
    assert set(returned["gpus"]["contains"]) == {key for key, _f, _k in nvidia_smi.GPU_FIELDS} | {
        "problems",
        "numa_node",
    }


def lab_smi(root, argv, **config):
    """The lab's stand-in with its files below root, as a real process."""
    for name in ("nvidia-library", "nvidia-module"):
        path = root / "usr" / "share" / "llmfleet-lab" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text('{"version": "580.126.09"}')
    path = root / "etc" / "llmfleet-lab" / "gpus.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(config))
    environment = {**os.environ, "LLMFLEET_LAB_ROOT": str(root)}
    done = subprocess.run([sys.executable, str(LAB_SMI), *argv[1:]], capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"error": "no_devices"}, "no_devices"),
        ({"count": 0}, "no_devices"),
        ({"error": "mismatch"}, "version_mismatch"),
        ({"error": "not_loaded"}, "driver_not_loaded"),
        ({"error": "gpu_lost"}, "gpu_lost"),
    ],
)
def test_the_lab_fails_with_words_that_are_told_apart(tmp_path, config, code):
    rc, out, err = lab_smi(tmp_path, nvidia_smi.gpu_query(SMI), **config)
    assert rc != 0
    assert nvidia_smi.classify_failure(rc, out, err)["code"] == code


def test_the_lab_answers_the_queries_of_the_module(tmp_path):
    config = {
        "gpus": {"3": {"ecc_uncorrected": 5, "mig": "Enabled"}, "4": {"requires_reset": True}},
        "processes": [{"gpu": 2, "pid": 4242, "name": "python3", "used_mib": 5120}],
    }
    rc, out, _err = lab_smi(tmp_path, nvidia_smi.gpu_query(SMI), **config)
    gpus = nvidia_smi.parse_gpus(out)
    assert rc == 0
    assert [gpu["index"] for gpu in gpus] == list(range(8))
    assert {gpu["memory_total_mib"] for gpu in gpus} == {97887}
    assert [gpu["index"] for gpu in gpus if gpu["mig_enabled"]] == [3]
    assert [gpu["index"] for gpu in gpus if gpu["ecc_uncorrected_volatile"]] == [3]
    assert [gpu["index"] for gpu in gpus if gpu["problems"]] == [4]
    assert len({gpu["uuid"] for gpu in gpus}) == 8
    rc, out, _err = lab_smi(tmp_path, nvidia_smi.process_query(SMI), **config)
    processes = nvidia_smi.parse_processes(out, gpus)
    assert [(p["gpu_index"], p["pid"], p["used_memory_mib"]) for p in processes] == [(2, 4242, 5120)]
    rc, out, _err = lab_smi(tmp_path, [SMI])
    assert nvidia_smi.parse_cuda_version(out) == "13.0"


def test_the_lab_shows_an_upgrade_without_a_reboot_as_a_mismatch(tmp_path):
    assert lab_smi(tmp_path, nvidia_smi.gpu_query(SMI))[0] == 0
    for name in ("nvidia-library", "nvidia-module"):
        (tmp_path / "usr" / "share" / "llmfleet-lab" / f"{name}.json").write_text('{"version": "590.48.01"}')
    rc, out, err = lab_smi(tmp_path, nvidia_smi.gpu_query(SMI))
    assert nvidia_smi.classify_failure(rc, out, err)["code"] == "version_mismatch"
    (tmp_path / "run" / "llmfleet-lab" / "nvidia-module").unlink()
    assert lab_smi(tmp_path, nvidia_smi.gpu_query(SMI))[0] == 0
