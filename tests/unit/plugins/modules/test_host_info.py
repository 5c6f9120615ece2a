# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import sys

import pytest
from ansible_collections.llmfleet.sglang.plugins.modules import host_info


class Exit(Exception):
    """Raised where the module would end its process."""


class FakeModule:
    """Stands for AnsibleModule."""

    def __init__(self, **params):
        roots = {"proc_path": "/proc", "sys_path": "/sys", "root_path": "/"}
        self.params = {"paths": [], "ports": [], "python_executable": None, **roots, **params}
        self.result = None
        self.spec = None

    def __call__(self, argument_spec, supports_check_mode):
        self.spec = argument_spec
        assert supports_check_mode
        return self

    def get_bin_path(self, name):
        return shutil.which(name)

    def run_command(self, argv):
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def exit_json(self, **result):
        self.result = result
        raise Exit

    def fail_json(self, **result):
        self.result = {"failed": True, **result}
        raise Exit


def run(monkeypatch, **params):
    fake = FakeModule(**params)
    monkeypatch.setattr(host_info, "AnsibleModule", fake)
    with pytest.raises(Exit):
        host_info.main()
    return fake.result


def test_a_path_that_is_not_there_counts_for_its_nearest_parent(monkeypatch, tmp_path):
    (tmp_path / "models").mkdir()
    wanted = tmp_path / "models" / "a" / "b"
    (path,) = run(monkeypatch, paths=[str(wanted)])["paths"]
    usage = os.statvfs(tmp_path)
    assert (path["path"], path["nearest"], path["used"]) == (str(wanted), str(tmp_path / "models"), 0)
    assert abs(path["free"] - usage.f_bavail * usage.f_frsize) < 10**9


def test_what_is_there_already_is_counted_on_disk(monkeypatch, tmp_path):
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "shard").write_bytes(os.urandom(3_000_000))
    (folder / "link").symlink_to("sub/shard")
    (path,) = run(monkeypatch, paths=[str(folder)])["paths"]
    assert path["nearest"] == str(folder)
    assert 3_000_000 <= path["used"] < 3_200_000


def test_a_relative_path_is_refused(monkeypatch):
    result = run(monkeypatch, paths=["srv/models"])
    assert result["failed"] is True
    assert "'srv/models'" in result["msg"]


def test_the_owner_of_a_port_is_found(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (listener,) = run(monkeypatch, ports=[port])["listeners"]
    assert (listener["address"], listener["port"], listener["pid"]) == ("127.0.0.1", port, os.getpid())
    assert run(monkeypatch, ports=[port])["listeners"] == []


def tree(root, **texts):
    """Write files below a root."""
    for path, content in texts.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content) if isinstance(content, bytes) else target.write_text(content)


HOST = {
    "proc/1/comm": "systemd\n",
    "proc/1/cgroup": "0::/init.scope\n",
    "proc/1/limits": "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max locked memory         8388608              8388608              bytes     \n"
    "Max open files            1024                 524288               files     \n",
    "proc/1/status": "Name:\tsystemd\nCapEff:\t000001ffffffffff\n",
    "proc/meminfo": "MemTotal: 1000 kB\nMemAvailable: 500 kB\nSwapTotal: 7 kB\nHugePages_Total: 4\n",
    "proc/cmdline": 'BOOT_IMAGE=/vmlinuz iommu=pt dyndbg="file a.c +p" quiet\n',
    "proc/sys/kernel/osrelease": "6.8.0-79-generic\n",
    "proc/sys/kernel/pid_max": "4194304\n",
    "proc/sys/kernel/threads-max": "90000\n",
    "proc/sys/fs/nr_open": "1048576\n",
    "proc/sys/vm/overcommit_memory": "2\n",
    "sys/fs/cgroup/memory.max": "900\n",
    "sys/fs/cgroup/pids.max": "max\n",
    "sys/fs/cgroup/system.slice/memory.max": "800\n",
    "sys/fs/cgroup/system.slice/pids.max": "5000\n",
    "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "2\n",
    "sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages": "1\n",
    "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "0\n",
    "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages": "0\n",
    "sys/devices/system/node/node10/meminfo": "Node 10 MemTotal: 300 kB\nNode 10 MemFree: 200 kB\n",
    "sys/devices/system/node/node10/cpulist": "64-127\n",
    "sys/devices/system/node/node2/meminfo": "Node 2 MemTotal: 100 kB\nNode 2 MemFree: 50 kB\n",
    "sys/devices/system/node/node2/cpulist": "0-63\n",
    "sys/devices/system/node/online": "2,10\n",
    "sys/kernel/iommu_groups/0/type": "DMA\n",
    "sys/kernel/iommu_groups/1/type": "identity\n",
    "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": b"\x06\0\0\0\x01",
    "sys/firmware/efi/efivars/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23": b"\x06\0\0\0listKEYend",
    "root/var/lib/dkms/mok.pub": b"KEY",
    "root/usr/src/linux-headers-6.8.0-79-generic/Makefile": "",
    "root/run/systemd/system/x": "",
    "root/run/reboot-required": "",
    "root/etc/systemd/journald.conf": "[Journal]\n#Storage=none\nStorage=volatile\nRateLimitBurst=5\n",
    "root/usr/lib/systemd/journald.conf.d/50-a.conf": "[Journal]\nRateLimitInterval=1min 30s\nMaxLevelStore=err\n",
    "root/etc/systemd/journald.conf.d/50-a.conf": "[Journal]\nMaxLevelStore=notice\n",
    "root/run/systemd/journald.conf.d/90-b.conf": "[Journal]\nRateLimitIntervalSec=2min\n[Other]\nStorage=none\n",
    "root/etc/systemd/journald.conf.d/99-no.txt": "[Journal]\nStorage=none\n",
}


def of_tree(monkeypatch, folder, texts):
    tree(folder, **texts)
    paths = {"proc_path": "proc", "sys_path": "sys", "root_path": "root"}
    return run(monkeypatch, **{name: str(folder / path) for name, path in paths.items()})


def test_a_host_is_read_from_its_trees(monkeypatch, tmp_path):
    result = of_tree(monkeypatch, tmp_path, HOST)
    assert (result["init"], result["systemd"], result["restart_pending"]) == ("systemd", True, True)
    assert result["memory"] == {
        "total": 1024000,
        "available": 512000,
        "swap_total": 7168,
        "cgroup_limit": 800,
        "hugepages": [{"size": 2**21, "total": 0, "free": 0}, {"size": 2**30, "total": 2, "free": 1}],
        "overcommit": 2,
    }
    assert result["numa"] == [
        {"id": 2, "cpus": "0-63", "total": 102400, "free": 51200},
        {"id": 10, "cpus": "64-127", "total": 307200, "free": 204800},
    ]
    assert result["limits"] == {"memlock": None, "open_files": 1048576, "tasks": 5000}
    assert result["kernel"] == {
        "release": "6.8.0-79-generic",
        "parameters": ["BOOT_IMAGE=/vmlinuz", "iommu=pt", "dyndbg=file a.c +p", "quiet"],
        "headers_installed": True,
        "headers_offered": None,
    }
    assert result["iommu"] == {"groups": 2}
    assert result["secure_boot"] == {"enabled": True, "key_enrolled": True}
    assert result["journal"] == {
        "storage": "volatile",
        "max_level": 5,
        "rate_limit_seconds": 120.0,
        "rate_limit_burst": 5,
    }
    assert result["shm"] is None


def test_a_host_that_shows_nothing_is_unknown_and_no_failure(monkeypatch, tmp_path):
    for name in ("proc", "sys", "root"):
        (tmp_path / name).mkdir()
    result = of_tree(monkeypatch, tmp_path, {})
    assert result["memory"] == {
        "total": None,
        "available": None,
        "swap_total": None,
        "cgroup_limit": None,
        "hugepages": [],
        "overcommit": None,
    }
    assert (result["init"], result["systemd"], result["numa"], result["shm"]) == (None, False, [], None)
    assert result["limits"] is None
    assert result["kernel"] == {
        "release": None,
        "parameters": [],
        "headers_installed": False,
        "headers_offered": None,
    }
    assert result["iommu"] == {"groups": 0}
    assert result["secure_boot"] == {"enabled": None, "key_enrolled": None}
    assert result["journal"] == {
        "storage": "volatile",
        "max_level": 7,
        "rate_limit_seconds": 30.0,
        "rate_limit_burst": 10000,
    }
    assert (result["restart_pending"], result["listeners"]) == (False, [])


@pytest.mark.parametrize(
    ("texts", "limit"),
    [
        ({"proc/1/cgroup": "0::/init.scope\n"}, None),
        ({"proc/1/cgroup": "0::/init.scope\n", "sys/fs/cgroup/system.slice/memory.max": "max\n"}, None),
        # A container that sees the whole hierarchy: each level above may limit it.
        (
            {
                "proc/1/cgroup": "0::/machine.slice/a.scope/init.scope\n",
                "sys/fs/cgroup/machine.slice/memory.max": "4096\n",
                "sys/fs/cgroup/machine.slice/a.scope/memory.max": "max\n",
                "sys/fs/cgroup/machine.slice/a.scope/system.slice/memory.max": "8192\n",
            },
            4096,
        ),
        # Version 1, with the mark of "no limit" at the top.
        (
            {
                "proc/1/cgroup": "4:memory:/\n1:name=systemd:/init.scope\n0::/init.scope\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            None,
        ),
        (
            {
                "proc/1/cgroup": "4:cpu,memory:/\n1:name=systemd:/init.scope\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
                "sys/fs/cgroup/memory/system.slice/memory.limit_in_bytes": "12288\n",
                "sys/fs/cgroup/system.slice/memory.max": "1\n",
            },
            12288,
        ),
    ],
)
def test_the_smallest_limit_above_a_system_service_counts(monkeypatch, tmp_path, texts, limit):
    assert of_tree(monkeypatch, tmp_path, texts)["memory"]["cgroup_limit"] == limit


def test_a_container_cannot_raise_what_its_first_process_has(monkeypatch, tmp_path):
    status = {"proc/1/status": "CapEff:\t00000000fcecbfff\n"}
    limits = of_tree(monkeypatch, tmp_path, {**HOST, **status})["limits"]
    assert limits == {"memlock": 8388608, "open_files": 524288, "tasks": 5000}


@pytest.mark.parametrize(
    ("place", "there"),
    [
        ("lib/modules/{}/build/Makefile", True),
        ("usr/src/kernels/{}/Makefile", True),
        ("usr/src/linux-headers-{}/Makefile", True),
        ("usr/src/kernels/{}/nothing", False),
    ],
)
def test_kernel_headers_are_found_where_distributions_put_them(monkeypatch, tmp_path, place, there):
    texts = {"proc/sys/kernel/osrelease": "6.1.0-1-amd64\n", "root/" + place.format("6.1.0-1-amd64"): "x"}
    assert of_tree(monkeypatch, tmp_path, texts)["kernel"]["headers_installed"] is there
    other = {"proc/sys/kernel/osrelease": "6.1.0-2-amd64\n"}
    assert of_tree(monkeypatch, tmp_path, other)["kernel"]["headers_installed"] is False


@pytest.mark.parametrize(
    ("lists", "offered"),
    [
        ({}, None),
        ({"root/var/lib/apt/lists/a_Packages": "Package: linux-headers-6.1.0-1-amd64-x\n"}, False),
        ({"root/var/lib/apt/lists/a_Packages": "Package: z\n\nPackage: linux-headers-6.1.0-1-amd64\n"}, True),
        ({"root/var/lib/apt/lists/a_InRelease": "Package: linux-headers-6.1.0-1-amd64\n"}, None),
    ],
)
def test_the_lists_of_apt_tell_whether_headers_are_offered(monkeypatch, tmp_path, lists, offered):
    texts = {"proc/sys/kernel/osrelease": "6.1.0-1-amd64\n", **lists}
    assert of_tree(monkeypatch, tmp_path, texts)["kernel"]["headers_offered"] is offered


@pytest.mark.parametrize(("owner", "enrolled"), [(b"\x06\0\0\0", False), (b"\x06\0\0\0a KEY b", True)])
def test_the_key_of_dkms_is_looked_for_among_the_owners_keys(monkeypatch, tmp_path, owner, enrolled):
    name = "sys/firmware/efi/efivars/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23"
    assert of_tree(monkeypatch, tmp_path, {**HOST, name: owner})["secure_boot"]["key_enrolled"] is enrolled


class Clock:
    """Stands for the C library."""

    def __init__(self, answer):
        self.answer = answer

    def adjtimex(self, state):
        assert len(state) >= 208
        assert not any(state.raw)  # to read, and not to set
        return self.answer


@pytest.mark.parametrize(
    ("answer", "marked", "synchronized"),
    [(0, False, True), (1, False, True), (5, True, False), (-1, False, None), (-1, True, True)],
)
def test_the_clock_is_judged_by_the_kernel(tmp_path, answer, marked, synchronized):
    if marked:
        tree(tmp_path, **{"run/systemd/timesync/synchronized": ""})
    assert host_info.host_tree.read_clock(str(tmp_path), Clock(answer)) == {"synchronized": synchronized}


def test_a_library_without_the_call_leaves_the_clock_unknown(tmp_path):
    assert host_info.host_tree.read_clock(str(tmp_path), object()) == {"synchronized": None}


def test_this_machine_has_shared_memory(monkeypatch):
    shm = run(monkeypatch)["shm"]
    usage = os.statvfs("/dev/shm")
    assert shm["size"] == usage.f_blocks * usage.f_frsize
    assert 0 < shm["free"] <= shm["size"]


def test_the_interpreter_of_the_engine_is_asked_for_its_version(monkeypatch, tmp_path):
    assert run(monkeypatch)["engine_python"] is None
    found = run(monkeypatch, python_executable=sys.executable)["engine_python"]
    assert found == {"path": sys.executable, "version": platform.python_version()}
    broken = tmp_path / "python3.99"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    for name, path in ((str(broken), str(broken)), ("python-of-nobody", None)):
        assert run(monkeypatch, python_executable=name)["engine_python"] == {"path": path, "version": None}


@pytest.mark.parametrize(
    ("flags", "write", "execute"),
    [(0, True, True), (os.ST_RDONLY, False, True), (os.ST_NOEXEC | os.ST_NOSUID, True, False)],
)
def test_a_path_tells_how_it_is_mounted(monkeypatch, tmp_path, flags, write, execute):
    real = os.statvfs(tmp_path)
    changed = os.statvfs_result([*real[:8], flags, real[9]])
    monkeypatch.setattr(os, "statvfs", lambda path: changed)
    (path,) = run(monkeypatch, paths=[str(tmp_path)])["paths"]
    assert (path["write_allowed"], path["exec_allowed"]) == (write, execute)


def test_the_documentation_names_the_options_and_the_results(monkeypatch):
    yaml = pytest.importorskip("yaml")
    fake = FakeModule()
    monkeypatch.setattr(host_info, "AnsibleModule", fake)
    with pytest.raises(Exit):
        host_info.main()
    documented = yaml.safe_load(host_info.DOCUMENTATION)["options"]
    assert {name: (option["type"], option.get("default")) for name, option in documented.items()} == {
        name: (option["type"], option.get("default")) for name, option in fake.spec.items()
    }
    assert set(yaml.safe_load(host_info.RETURN)) == set(fake.result) - {"changed"}
