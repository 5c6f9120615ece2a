# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role sglang on both platforms: blank, again, beside a running service, and when its controller is killed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

README = str(Path(__file__).resolve().parents[2] / "README.md")

UNIT = """[Service]
Type=exec
ExecStart={release}/venv/bin/python -m http.server --bind 127.0.0.1 8123
"""
# Holds up the installation of the packages while /run/hold is there.
SLOW_UV = """#!/bin/sh
case " $* " in *" pip install "*)
    echo "$*" >> /run/installs
    while [ -e /run/hold ]; do sleep 0.2; done ;;
esac
exec "$(ls -d /opt/sglang/tools/uv-*/bin/uv)" "$@"
"""


def test_check_mode_on_a_blank_host_ends_well_and_changes_nothing(play, hosts):
    played = play("sglang.yml", "inventory", "--check")
    assert played.code == 0, str(played)
    assert all(changed > 0 for changed in played.changed.values())
    for host in hosts.values():
        assert host.run("ls -d /opt/sglang /var/lib/sglang 2>/dev/null; getent passwd sglang", check=False) == ""


def test_a_release_is_installed_on_both_platforms_and_a_second_run_changes_nothing(play, hosts):
    assert play("sglang.yml", "inventory").code == 0
    for host in hosts.values():
        (name,) = host.releases()
        assert host.run("readlink /opt/sglang/current") == f"/opt/sglang/releases/{name}"
        # The service's account, which owns nothing of it, can use all of it.
        run = "/opt/sglang/current/venv/bin/python -m sglang.launch_server --help >/dev/null && echo fine"
        assert host.run(f"setpriv --reuid sglang --regid sglang --clear-groups sh -c '{run}'") == "fine"
        assert host.run("find /opt/sglang/releases -user sglang -o -perm /o+w ! -type l | head -1") == ""
    again = play("sglang.yml", "inventory")
    assert again.code == 0 and set(again.changed.values()) == {0}, str(again)
    checked = play("sglang.yml", "inventory", "--check")
    assert checked.code == 0 and set(checked.changed.values()) == {0}, str(checked)


def test_a_second_release_beside_a_running_service_leaves_it_alone(play, hosts):
    host = hosts["inst-12"]
    old = host.run("readlink /opt/sglang/current")
    host.run("cat > /etc/systemd/system/runs.service; systemctl daemon-reload", given=UNIT.format(release=old))
    host.run("systemctl start runs.service")
    show = "systemctl show runs.service --property InvocationID,MainPID,NRestarts,ActiveState"
    before, files = host.run(show), host.files(old)
    assert "ActiveState=active" in before
    # With one release to keep, the running one is surplus, and stays because it runs.
    played = play(
        "sglang.yml", "inventory", "--limit", host.name, sglang_version="0.5.16+standin", sglang_releases_kept=1
    )
    assert played.code == 0, str(played)
    new = host.run("readlink /opt/sglang/current")
    assert re.search(r"/0\.5\.16\+standin-[0-9a-f]{12}$", new)
    assert (host.run(show), host.files(old)) == (before, files)
    # Stopped and forgotten, it goes, and its caches with it.
    host.run(f"mkdir -p /var/cache/sglang/kimi/{old.rpartition('/')[2]}/triton")
    host.run("systemctl stop runs.service; rm /etc/systemd/system/runs.service; systemctl daemon-reload")
    played = play(
        "sglang.yml", "inventory", "--limit", host.name, sglang_version="0.5.16+standin", sglang_releases_kept=1
    )
    assert played.code == 0 and played.changed == {host.name: 1}, str(played)
    assert host.releases() == [new.rpartition("/")[2]]
    assert host.run("ls /var/cache/sglang/kimi") == ""


def test_the_killed_controllers_release_is_completed_once(play, start, until, hosts):
    host = hosts["inst-13"]
    host.run("cat > /usr/local/bin/slow-uv; chmod 755 /usr/local/bin/slow-uv; touch /run/hold", given=SLOW_UV)
    variables = {"sglang_version": "0.5.16+standin", "sglang_uv_executable": "/usr/local/bin/slow-uv"}
    first = start("sglang.yml", "inventory", "--limit", host.name, **variables)
    until(lambda: host.run("cat /run/installs 2>/dev/null || true"), "the installation")
    # The controller and its connection are gone at once; the host goes on by itself.
    subprocess.run(["pkill", "--signal", "KILL", "--session", str(first.pid)], check=True)
    first.wait()
    assert host.run("ls /opt/sglang/releases/0.5.16*/complete.json 2>/dev/null || true") == ""
    host.run("rm /run/hold")
    second = play("sglang.yml", "inventory", "--limit", host.name, **variables)
    assert second.code == 0, str(second)
    assert "0.5.16" in host.run("cat /opt/sglang/current/complete.json")
    assert host.run("wc -l < /run/installs") == "1"


def test_what_a_killed_installer_left_is_removed_and_done_again(play, hosts):
    host = hosts["inst-13"]
    # The module alone: neither the killer itself nor the watcher of the job, which has its name among its arguments.
    killer = (
        "while ! [ -s /run/installs ]; do sleep 0.2; done; "
        'pkill -KILL -f "python[0-9.]* [^ ]*[A]nsiballZ_sglang_release"; rm /run/hold'
    )
    host.run(f"touch /run/hold; rm /run/installs; systemd-run --quiet --unit=killer sh -c '{killer}'")
    variables = {"sglang_version": "0.5.23+standin", "sglang_uv_executable": "/usr/local/bin/slow-uv"}
    variables["sglang_constraints"] = ["absent==1"]
    killed = play("sglang.yml", "inventory", "--limit", host.name, **variables)
    assert killed.code != 0, str(killed)
    half = host.run("for d in /opt/sglang/releases/*; do [ -e $d/complete.json ] || echo $d; done")
    assert half.count("/opt/sglang/releases/") == 1
    # Not the same release: what is wanted meanwhile may have changed.
    variables["sglang_constraints"] = ["absent==2"]
    assert play("sglang.yml", "inventory", "--limit", host.name, **variables).code == 0
    assert host.run("for d in /opt/sglang/releases/*; do [ -e $d/complete.json ] || echo $d; done") == ""


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"sglang_lock_file": "/no/such/lock"}, ["sglang_lock_file", "/no/such/lock", "auto"]),
        ({"sglang_lock_file": README}, ["sglang_lock_file", "README.md", "does not pin"]),
        ({"sglang_pip_extra_args": ["--index-url=https://a:planted@h/"]}, ["sglang_pip_extra_args", "PIP_INDEX_URL"]),
        (
            {"sglang_python_executable": "/bin/false", "sglang_managed_python_version": "",
             "sglang_build_packages_enabled": False},
            ["sglang_python_executable", "/bin/false", "sglang_managed_python_version"],
        ),
    ],
    ids=["no-lock", "no-pin", "credentials-in-argv", "no-python"],
)  # fmt: skip
def test_unusable_settings_are_refused_by_name(play, hosts, variables, words):
    before = hosts["inst-12"].releases()
    played = play("sglang.yml", "inventory", "--limit", "inst-12", **variables)
    assert played.code != 0
    assert [word for word in words if word not in played.text] == [], str(played)
    assert "planted" not in played.text
    assert hosts["inst-12"].releases() == before
