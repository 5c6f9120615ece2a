# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's hosts survive what happens to them: a second run, an interruption, a power cut, a leftover."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[1] / "lab" / "hosts.py"
STATE = Path("/var/lib/llmfleet-lab")
NAME, ADDRESS = "lab-test", "10.213.77.91"
FOLDER = STATE / "hosts" / NAME


def tool(*words, check=True):
    done = subprocess.run([sys.executable, str(TOOL), *words], capture_output=True, text=True, check=False)
    if check:
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
    return done


def up():
    return tool("up", NAME, "--address", ADDRESS)["changed"]


def on_host(command):
    keys = ["-i", str(STATE / "ssh/id_ed25519"), "-o", f"UserKnownHostsFile={STATE}/ssh/known_hosts"]
    return subprocess.run(
        ["ssh", "-q", *keys, "-o", "StrictHostKeyChecking=yes", f"deploy@{ADDRESS}", command],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def spawner():
    """The pid of the systemd-nspawn that runs the host."""
    return int(subprocess.check_output(["pgrep", "--full", f"^systemd-nspawn --directory={FOLDER}/merged"]).split()[0])


@pytest.fixture(autouse=True)
def host():
    tool("down", NAME)
    yield
    tool("down", NAME)
    assert not FOLDER.exists()
    assert str(FOLDER) not in Path("/proc/self/mountinfo").read_text()
    assert ADDRESS not in (STATE / "ssh/known_hosts").read_text()


def test_a_second_run_changes_nothing():
    assert up() is True
    identity = on_host("cat /etc/machine-id")
    assert up() is False
    assert on_host("cat /etc/machine-id") == identity


def test_a_host_keeps_its_disk_when_the_power_is_cut():
    up()
    on_host("sudo sh -c 'echo kept > /etc/kept && sync'")
    os.kill(spawner(), signal.SIGKILL)
    time.sleep(1)
    assert up() is True
    assert on_host("cat /etc/kept") == "kept"


@pytest.mark.parametrize("seconds", [0.15, 0.6, 1.2])
def test_an_interrupted_run_is_healed_by_the_next(seconds):
    running = subprocess.Popen([sys.executable, str(TOOL), "up", NAME, "--address", ADDRESS], stdout=subprocess.DEVNULL)
    time.sleep(seconds)
    running.kill()
    running.wait()
    up()
    assert on_host("systemctl is-system-running") in ("running", "degraded")


def test_what_an_earlier_lab_left_mounted_is_no_hindrance():
    up()
    os.kill(spawner(), signal.SIGKILL)
    (FOLDER / "host.json").unlink()
    assert up() is True
    assert on_host("hostname") == NAME


def test_a_host_comes_back_after_a_reboot():
    up()
    before = on_host("cat /proc/sys/kernel/random/boot_id")
    on_host("sudo systemctl reboot || true")
    deadline = time.monotonic() + 60
    after = before
    while after == before and time.monotonic() < deadline:
        time.sleep(1)
        try:
            after = on_host("cat /proc/sys/kernel/random/boot_id")
        except subprocess.CalledProcessError:
            continue
    assert after != before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["Lab_1", "--address", ADDRESS], "host name 'Lab_1'"),
        (["a-name-too-long", "--address", ADDRESS], "1 to 12"),
        ([NAME, "--address", "10.213.77.1"], "10.213.77.1"),
        ([NAME, "--address", "192.0.2.1"], "192.0.2.1"),
    ],
)
def test_bad_input_is_refused_with_its_mend(words, told):
    done = tool("up", *words, check=False)
    assert done.returncode == 1
    assert told in done.stderr
