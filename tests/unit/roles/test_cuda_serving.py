# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role cuda neither changes the driver nor restarts the host under a service that runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

ROLE = Path(__file__).resolve().parents[3] / "roles" / "cuda"
NOW, NEW = "580.95.05", "580.126.09"
WHOLE = {"ansible.builtin.include_role": {"name": "llmfleet.sglang.cuda"}}
RESTART = {
    "ansible.builtin.include_role": {"name": "llmfleet.sglang.cuda", "tasks_from": "reboot.yml"},
    # A restart over a local connection is refused for itself.
    "vars": {"cuda_reboot_allowed": True, "__cuda_connection": "ssh", "__cuda_reboot_reason": "another is loaded."},
}


def said(text):
    return [{"ansible.builtin.debug": {"msg": text}}]


@pytest.fixture
def host(stage):
    """A host with a driver; what would change this machine says so instead. Returns a function that plays."""
    stage.hosts.update(ash={})
    role = stage.collection / "roles" / "cuda"
    shutil.copytree(ROLE, role)
    for name in ("platform", "install", "probe", "daemon", "report"):
        (role / "tasks" / f"{name}.yml").write_text(yaml.safe_dump(said(f"DOES {name}")))
    restart = yaml.safe_load((role / "tasks" / "reboot.yml").read_text())
    for task in restart:
        if task.pop("ansible.builtin.reboot", None):
            task.update(said("DOES restart")[0])
    (role / "tasks" / "reboot.yml").write_text(yaml.safe_dump(restart, sort_keys=False))
    programs = stage.folder / "bin"
    programs.mkdir()

    def play(task, *, loaded=NOW, wanted=NEW, units=()):
        lines = "".join(f"{unit} loaded active running SGLang\n" for unit in units)
        program = programs / "systemctl"
        program.write_text(f"#!/bin/sh\nprintf '%s' '{lines}'\n")
        program.chmod(0o755)
        gpus = {"pci_gpus": ["a"], "nvswitches": 0, "driver_version": loaded, "kernel_module": {"version": loaded}}
        stage.answer({**gpus, "available": True, "nouveau_loaded": False, "error": None}, module="gpu_info")
        stage.variables.update(cuda_driver_version=wanted)
        environment = {"STAGE_HOST": "ash", "PATH": f"{programs}:/usr/bin:/bin"}
        return stage.play([task], environment=environment)

    return play


def test_another_driver_is_refused_while_a_service_runs(host):
    status, output = host(WHOLE, units=["sglang-kimi.service"])
    assert status != 0 and "DOES install" not in output, output
    assert f"cuda_driver_version is {NEW}, {NOW} is loaded, and sglang-kimi.service runs" in output, output
    assert "upgrade_driver.yml" in output, output


@pytest.mark.parametrize(
    "changes",
    [
        {"units": []},
        {"units": ["sglang-kimi.service"], "wanted": NOW},
        {"units": ["sglang-kimi.service"], "wanted": ""},
        {"units": ["sglang-kimi.service"], "loaded": None},
    ],
    ids=["stopped", "the-same", "not-pinned", "none-loaded"],
)
def test_a_driver_that_no_service_loses_is_installed(host, changes):
    status, output = host(WHOLE, **changes)
    assert status == 0 and "DOES install" in output, output


@pytest.mark.parametrize(("units", "restarts"), [([], True), (["sglang-kimi.service"], False)])
def test_a_host_is_not_restarted_under_a_service(host, units, restarts):
    _status, output = host(RESTART, units=units)
    assert ("DOES restart" in output) is restarts, output
    assert ("sglang-kimi.service runs" in output) is not restarts, output
