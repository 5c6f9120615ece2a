# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role on every platform, and what may go wrong; the tests build on each other, in this order.

Package managers, signatures, holds, locks and module streams are real. What is in the packages is emulated.
"""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
import yaml

PLATFORMS = yaml.safe_load((Path(__file__).parent / "hosts.yml").read_text())["all"]["children"]
HOSTS = {name: facts for group in PLATFORMS.values() for name, facts in group["hosts"].items()}
APT, DNF = list(PLATFORMS["apt"]["hosts"]), list(PLATFORMS["dnf"]["hosts"])
FIRST, SECOND = "580.105.08", "580.126.09"
DRIVER = {"nvidia-open", "nvidia-persistenced"}
LEGACY = "deb https://developer.download.nvidia.com/compute/cuda/repos/{layout}/x86_64/ /"


def test_check_mode_on_blank_hosts_changes_nothing(role, on):
    look = "cat /etc/os-release; ls -R /etc/apt /etc/yum.repos.d /etc/dnf /etc/modprobe.d 2>/dev/null | md5sum; "
    look += "dpkg-query -W | md5sum; rpm -qa 2>/dev/null | md5sum"
    before = {name: on(name, look) for name in HOSTS}
    done = role("all", "--check")
    assert done.rc == 0, str(done)
    assert done.served == len(HOSTS)
    print("check mode on blank hosts:", done.changed)
    assert {name: on(name, look) for name in HOSTS} == before
    assert all(4 <= count <= 6 for count in done.changed.values())


def test_what_an_older_installation_left_is_removed_and_the_rest_stays(role, on, offer):
    """Prepares the first installation, which has to get over it."""
    for name in APT:
        layout = HOSTS[name]["layout"]
        deb822 = (
            f"Types: deb\nURIs: https://developer.download.nvidia.com/compute/cuda/repos/{layout}/x86_64/\nSuites: /\n"
        )
        deb822 += "\nTypes: deb\nURIs: http://127.0.0.1:9/kept\nSuites: ./\nTrusted: yes\nEnabled: no\n"
        # With two keys for one repository apt does not even start.
        on(
            name,
            f"""
            curl -sf {offer.url}/{layout}/x86_64/llmfleet-lab.pub -o /usr/share/keyrings/old-cuda.asc
            echo '{LEGACY.format(layout=layout)}' >> /etc/apt/sources.list
            printf '%s\\n' 'deb [signed-by=/usr/share/keyrings/old-cuda.asc] {offer.url}/{layout}/x86_64/ /' \
                '# a remark' > /etc/apt/sources.list.d/old-mirror.list
            printf '{deb822}' > /etc/apt/sources.list.d/mixed.sources
            cd /tmp && curl -sf {offer.url}/{layout}/x86_64/cuda-keyring_1.1-1_all.deb -O
            dpkg -i cuda-keyring_1.1-1_all.deb
        """,
        )
    for name in DNF:
        on(
            name,
            """
            printf '[%s]\\nname=old\\nbaseurl=%s\\nenabled=%s\\n\\n' \
                cuda-rhel9-x86_64 https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64 1 \
                kept http://127.0.0.1:9/kept 0 > /etc/yum.repos.d/cuda-rhel.repo
        """,
        )


def test_the_first_run_installs_and_holds_the_tuple(role, on, versions):
    done = role("all")
    assert done.rc == 0, str(done)
    assert done.served == len(HOSTS)
    print("first run:", done.changed)
    for name in HOSTS:
        packages, held = versions(name)
        assert {packages[part] for part in DRIVER} == {FIRST}
        assert packages["cuda-toolkit-13-0"] == "13.0.1"
        parts = {part for part, version in packages.items() if version == FIRST}
        assert len(parts) >= 7
        assert parts <= held, f"{name}: {parts - held} are not held"
        assert "cuda-toolkit-13-0" in held
        assert not {"cuda", "cuda-drivers", "nvidia-fabricmanager", "cuda-keyring"} & set(packages)
        assert on(name, "systemctl is-enabled nvidia-persistenced; systemctl is-active nvidia-persistenced") == (
            "enabled\nactive"
        )
        assert "nouveau" in on(name, "cat /etc/modprobe.d/*.conf")
    for name in APT:
        left = on(name, "cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null; ls /etc/apt/sources.list.d")
        assert "developer.download.nvidia.com" not in left
        assert "old-mirror.list" not in left
        assert "127.0.0.1:9/kept" in left
        assert on(name, "ls /usr/share/keyrings/").count("cuda") == 0
        # Headers first: DKMS builds while the driver is configured.
        log = on(name, "grep ' installed ' /var/log/dpkg.log")
        assert log.index(f"linux-headers-{platform.release()}") < log.index("nvidia-open:")
    for name in DNF:
        left = on(name, "cat /etc/yum.repos.d/*.repo")
        assert "developer.download.nvidia.com" not in left
        assert "127.0.0.1:9/kept" in left
        assert "exclude = cuda cuda-drivers*" in left
    assert "stream=open-dkms" in on("cuda-el9", "cat /etc/dnf/modules.d/nvidia-driver.module")


def test_names_are_those_of_the_distribution(versions):
    assert {"nvidia-dkms-580-open", "libnvidia-compute-580"} <= set(versions("cuda-ubu22")[0]) & set(
        versions("cuda-ubu24")[0]
    )
    assert {"nvidia-kernel-open-dkms", "nvidia-driver-cuda"} <= set(versions("cuda-deb12")[0]) & set(
        versions("cuda-deb13")[0]
    )
    assert {"kmod-nvidia-open-dkms", "nvidia-kmod-common"} <= set(versions("cuda-el9")[0]) & set(
        versions("cuda-el10")[0]
    )


def test_the_second_run_changes_nothing(role):
    done = role("all")
    assert done.rc == 0, str(done)
    assert done.changed == dict.fromkeys(HOSTS, 0), str(done)


def test_an_unattended_upgrade_leaves_the_tuple_alone(on, versions):
    on("cuda-deb12", "DEBIAN_FRONTEND=noninteractive apt-get -y -o APT::Get::List-Cleanup=0 upgrade")
    on("cuda-el9", "dnf --assumeyes upgrade")
    for name in ("cuda-deb12", "cuda-el9"):
        assert {versions(name)[0][part] for part in DRIVER} == {FIRST}


# From here on the hosts have different things done to them, side by side: each wave is one run.
def now(**more):
    return {"cuda_driver_version": SECOND, "cuda_toolkit_version": "13.0.2", **more}


@pytest.fixture(scope="module")
def first_wave(role_each, offer, on, versions):
    """Another tuple; a kernel that would come along; a module that cannot be built; NVSwitches."""
    before = {name: versions(name) for name in ("cuda-deb13", "cuda-el10")}
    offer.build("debian13", "--with-kernel")
    offer.build("rhel10", "--with-kernel")
    on("cuda-ubu22", "mkdir -p /etc/llmfleet-lab && touch /etc/llmfleet-lab/build-fails")
    for index, kind in enumerate(("0x030200", "0x068000", "0x068000")):
        on("cuda-ubu24", f"mkdir -p /srv/pci/0000:0{index}:00.0 && cd /srv/pci/0000:0{index}:00.0 && "
                         f"echo 0x10de > vendor && echo 0x22a3 > device && echo {kind} > class")  # fmt: skip
    done = role_each(
        {
            "cuda-deb12": now(),
            "cuda-el9": now(),
            "cuda-deb13": {"cuda_driver_version": SECOND},
            "cuda-el10": {"cuda_driver_version": SECOND},
            "cuda-ubu22": now(cuda_reboot_allowed=True),
            "cuda-ubu24": {"cuda_pci_path": "/srv/pci"},
        }
    )
    assert done.failed == set(HOSTS) - {"cuda-ubu24"}, str(done)
    done.before = before
    return done


@pytest.mark.parametrize("name", ["cuda-deb12", "cuda-el9"])
def test_another_tuple_is_installed_and_held_and_the_run_stops_before_serve(first_wave, on, versions, name):
    assert "SERVE" not in first_wave.told(name)
    assert "must be restarted before the driver works (cuda_reboot_required)" in first_wave.told(name)
    assert "set cuda_reboot_allowed to true" in first_wave.told(name)
    packages, held = versions(name)
    parts = {part for part, version in packages.items() if version.startswith("580.")}
    assert {packages[part] for part in parts} == {SECOND}
    assert packages["cuda-toolkit-13-0"] == "13.0.2"
    assert parts <= held
    assert FIRST not in on(name, "cat /etc/dnf/plugins/versionlock.list /etc/apt/preferences.d/* 2>/dev/null || true")


@pytest.mark.parametrize("name", ["cuda-deb13", "cuda-el10"])
def test_a_kernel_that_comes_along_is_refused_before_anything_is_installed(first_wave, on, versions, name):
    # dnf leaves the kernels out of what it installs, and then lacks what the driver needs.
    word = "would also install linux-image-9.99.0-lab" if name == "cuda-deb13" else "FAILED"
    assert word in first_wave.told(name)
    assert "Nothing was installed" in first_wave.told(name) or name == "cuda-el10"
    assert versions(name) == first_wave.before[name]
    assert "vmlinuz" not in on(name, "ls /boot")


def test_a_failure_in_the_middle_is_held(first_wave, on, versions):
    assert "nvidia-dkms-580-open" in first_wave.told("cuda-ubu22")
    held = versions("cuda-ubu22")[1]
    assert {"nvidia-open", "nvidia-dkms-580-open", "libnvidia-compute-580", "cuda-toolkit-13-0"} <= held


def test_a_fabric_manager_comes_with_nvswitches(first_wave, on, versions):
    assert "SERVE" in first_wave.told("cuda-ubu24")
    packages, held = versions("cuda-ubu24")
    assert packages["nvidia-fabricmanager"] == packages["nvidia-open"] == FIRST
    assert "nvidia-fabricmanager" in held
    assert on("cuda-ubu24", "systemctl is-enabled nvidia-fabricmanager; systemctl is-active nvidia-fabricmanager") == (
        "enabled\nactive"
    )


@pytest.fixture(scope="module")
def second_wave(first_wave, role_each, on):
    """A local connection; a version that is not offered; the end of what failed; the same again; no GPU."""
    on("cuda-deb12", "cat /proc/sys/kernel/random/boot_id > /etc/boot-id")
    on("cuda-ubu22", "rm /etc/llmfleet-lab/build-fails")
    return role_each(
        {
            "cuda-deb12": now(cuda_reboot_allowed=True, pretend_local=True),
            "cuda-el9": {"cuda_driver_version": "580.65.06"},
            "cuda-ubu22": now(cuda_reboot_allowed=True),
            "cuda-ubu24": {"cuda_pci_path": "/srv/pci"},
            "cuda-deb13": {"cuda_gpu_required": False},
        }
    )


def test_a_local_connection_is_never_restarted(second_wave, on):
    """The variable alone is not enough: over a local connection the run itself would die."""
    assert "A host is never restarted over a local connection" in second_wave.told("cuda-deb12"), str(second_wave)
    assert on("cuda-deb12", "cat /proc/sys/kernel/random/boot_id") == on("cuda-deb12", "cat /etc/boot-id")


def check_vanished(done, name, versions):
    assert name in done.failed, str(done)
    assert "cuda_driver_version is '580.65.06'" in done.told(name)
    assert "offers nvidia-open as 580." in done.told(name)
    assert FIRST in done.told(name)
    assert versions(name)[0]["nvidia-open"] == SECOND


def test_a_vanished_version_is_named_with_what_is_there_by_dnf(second_wave, versions):
    check_vanished(second_wave, "cuda-el9", versions)


def test_what_failed_in_the_middle_is_finished_by_the_next_run(second_wave, on, versions):
    assert "cuda-ubu22" not in second_wave.failed, str(second_wave)
    packages, held = versions("cuda-ubu22")
    assert {packages[part] for part in DRIVER} == {SECOND}
    assert held >= DRIVER
    assert on("cuda-ubu22", "dpkg --audit") == ""


def test_a_second_run_with_a_fabric_manager_changes_nothing(second_wave):
    assert second_wave.changed["cuda-ubu24"] == 0, str(second_wave)
    assert "cuda-ubu24" not in second_wave.failed


def test_a_host_without_a_gpu_is_left_alone_where_none_is_required(second_wave):
    assert "cuda-deb13" not in second_wave.failed, str(second_wave)
    assert second_wave.changed["cuda-deb13"] == 0
    assert "left as it is: no NVIDIA GPU" in second_wave.told("cuda-deb13")


@pytest.fixture(scope="module")
def third_wave(second_wave, role_each, offer, on):
    """Leave to restart; a mirror that is broken; no NVSwitches any more."""
    on("cuda-el9", "rm -rf /var/cache/dnf")
    offer.broken = r"^/rhel9/x86_64/.*(Packages|InRelease|Release|repodata/)"
    try:
        return role_each({"cuda-deb12": now(cuda_reboot_allowed=True), "cuda-el9": now(), "cuda-ubu24": {}})
    finally:
        offer.broken = ""


def test_with_permission_the_host_is_restarted_once_and_serves(third_wave, on):
    assert "cuda-deb12" not in third_wave.failed, str(third_wave)
    assert f"SERVE home=/usr/local/cuda-13.0 restart=False driver={SECOND}" in third_wave.told("cuda-deb12")
    assert on("cuda-deb12", "cat /proc/sys/kernel/random/boot_id") != on("cuda-deb12", "cat /etc/boot-id")


def check_broken(done, name, manager):
    assert name in done.failed, str(done)
    for told in (f"{manager} cannot use", "(cuda_repository_url)", "name a mirror that is whole"):
        assert told in done.told(name), str(done)
    assert "SERVE" not in done.told(name)


def test_a_broken_mirror_is_named_by_dnf(third_wave):
    check_broken(third_wave, "cuda-el9", "dnf")


def test_a_fabric_manager_goes_where_there_are_no_nvswitches(third_wave, versions):
    assert "cuda-ubu24" not in third_wave.failed, str(third_wave)
    assert "nvidia-fabricmanager" not in versions("cuda-ubu24")[0]


@pytest.fixture(scope="module")
def fourth_wave(third_wave, role_each, on):
    """A version that is not offered; a module that was built for another kernel."""
    on("cuda-ubu24", f"mkdir -p /etc/llmfleet-lab && echo 'nvidia/{FIRST}, 6.1.0-1-amd64, x86_64: installed' "
                     "> /etc/llmfleet-lab/dkms-status")  # fmt: skip
    return role_each({"cuda-deb12": {"cuda_driver_version": "580.65.06"}, "cuda-ubu24": {}})


def test_a_vanished_version_is_named_with_what_is_there_by_apt(fourth_wave, versions):
    check_vanished(fourth_wave, "cuda-deb12", versions)


def test_a_module_for_another_kernel_stops_the_run(fourth_wave):
    assert "cuda-ubu24" in fourth_wave.failed, str(fourth_wave)
    told = f"dkms built nvidia/{FIRST} for 6.1.0-1-amd64, and not for {platform.release()}"
    assert told in fourth_wave.told("cuda-ubu24")


def test_a_broken_mirror_is_named_by_apt(fourth_wave, role, offer, on):
    on("cuda-deb12", "rm -rf /var/lib/apt/lists/10.213*; apt-get clean")
    offer.broken = r"/(Packages|InRelease|Release)"
    try:
        done = role("cuda-deb12", **now())
    finally:
        offer.broken = ""
    check_broken(done, "cuda-deb12", "apt")


def test_a_rotated_key(role, offer, on):
    offer.build("debian12", "--rotate-key")
    pinned = role("cuda-deb12", **now(cuda_repository_key_checksum=f"sha256:{'0' * 64}"))
    assert "If the key was rotated" in pinned.words, str(pinned)
    assert "it is sha256:" in pinned.words
    # The address still gives the old key: apt alone would go on with the old index and say nothing.
    old = role("cuda-deb12", **now(cuda_repository_key_url=f"{offer.url}/debian13/x86_64/llmfleet-lab.pub"))
    assert "signed by another key" in old.words, str(old)
    done = role("cuda-deb12", **now())
    assert done.rc == 0, str(done)


def test_an_installed_version_that_vanished_is_kept(role, offer, on):
    offer.build("debian12", "--driver-version", FIRST)
    on("cuda-deb12", "apt-get update")
    done = role("cuda-deb12", **now())
    assert done.rc == 0, str(done)
    assert done.changed == {"cuda-deb12": 0}, str(done)
