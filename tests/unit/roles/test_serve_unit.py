# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit of inventories/example, as role serve renders it for several releases."""

from __future__ import annotations

import pytest

from .conftest import ROOT

EXAMPLE = ROOT / "inventories" / "example" / "group_vars" / "sglang_servers"
# Gives the role's variables and does nothing.
VARIABLES = {
    "ansible.builtin.include_role": {"name": "llmfleet.sglang.serve", "tasks_from": "nothing.yml", "public": True},
}
RELEASES = ("0.5.9", "0.5.16", "0.5.23")


@pytest.fixture(scope="module")
def units(tmp_path_factory):
    """{release: lines of the unit}."""
    from .conftest import Stage

    stage = Stage(tmp_path_factory.mktemp("units"))
    folder = stage.collection / "roles" / "serve"
    folder.mkdir()
    for name in ("defaults", "vars", "meta", "templates"):
        (folder / name).symlink_to(ROOT / "roles" / "serve" / name)
    (folder / "tasks").mkdir()
    (folder / "tasks" / "nothing.yml").write_text("[]\n")
    for release in RELEASES:
        stage.hosts["h" + release.replace(".", "_")] = {"serve_release": release, "ansible_host": "192.0.2.1"}
    template = str(ROOT / "roles" / "serve" / "templates" / "sglang.service.j2")
    render = {
        "ansible.builtin.copy": {
            "content": f"{{{{ lookup('ansible.builtin.template', '{template}') }}}}",
            "dest": f"{stage.folder}/{{{{ inventory_hostname }}}}.service",
        },
        "vars": {"__serve_one": "{{ __serve_settings }}"},
    }
    files = [str(path) for path in sorted(EXAMPLE.glob("*.yml"))]
    status, output = stage.play([VARIABLES, render], vars_files=files)
    assert status == 0, output
    return {
        release: (stage.folder / f"h{release.replace('.', '_')}.service").read_text().splitlines()
        for release in RELEASES
    }


@pytest.mark.parametrize("release", RELEASES)
def test_the_web_server_trusts_no_forwarded_address(units, release):
    # systemd takes the empty value, and uvicorn then trusts nobody; unset it would trust loopback.
    lines = [line for line in units[release] if "FORWARDED_ALLOW_IPS" in line]
    assert lines == ["Environment=FORWARDED_ALLOW_IPS="]


@pytest.mark.parametrize("release", RELEASES)
def test_the_unit_waits_with_its_own_name_and_port(units, release):
    before = [line for line in units[release] if line.startswith("ExecStartPre=")]
    after = [line for line in units[release] if line.startswith("ExecStartPost=")]
    name = "sglang-kimi.service"
    assert len(before) == len(after) == 1
    # The look before a start sees the processes of all; the one after it is the service's user, in its sandbox.
    assert before[0].startswith("ExecStartPre=+/") and f" free --unit={name} " in before[0]
    assert after[0].startswith("ExecStartPost=/") and f" ready --unit={name} " in after[0]
    assert "--url=http://192.0.2.1:30000/health" in after[0]
    assert "ProtectProc=invisible" in units[release]
