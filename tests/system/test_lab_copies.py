# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that stand on another one's disk: what they share, what is their own, and what interruptions leave."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[1] / "lab" / "hosts.py"
STATE = Path("/var/lib/llmfleet-lab")
FIRST, COPY, SECOND = "like-a", "like-b", "like-c"
ADDRESSES = {FIRST: "10.213.77.200", COPY: "10.213.77.201", SECOND: "10.213.77.202"}


def tool(*words, check=True):
    done = subprocess.run([sys.executable, str(TOOL), *words], capture_output=True, text=True, check=False)
    if check:
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["changed"]
    return done


def up(name, like=None, check=True):
    return tool("up", name, "--address", ADDRESSES[name], *(["--like", like] if like else []), check=check)


def on_host(name, command):
    keys = ["-i", str(STATE / "ssh/id_ed25519"), "-o", f"UserKnownHostsFile={STATE}/ssh/known_hosts"]
    return subprocess.run(
        ["ssh", "-q", *keys, "-o", "StrictHostKeyChecking=yes", f"deploy@{ADDRESSES[name]}", f"sudo sh -c '{command}'"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def layers():
    """The layers that stand on what these tests made."""
    return sorted(path.name for path in (STATE / "layers").glob("like-*"))


@pytest.fixture(autouse=True)
def nothing_left():
    tool("down", *ADDRESSES)
    yield
    tool("down", *ADDRESSES)
    assert not [name for name in ADDRESSES if (STATE / "hosts" / name).exists()]
    assert layers() == []
    assert "/hosts/like-" not in Path("/proc/self/mountinfo").read_text()


@pytest.fixture
def prepared():
    """A host with a file more, a file less and lines in its journal, which is stopped."""
    up(FIRST)
    on_host(FIRST, "echo prepared > /etc/prepared; rm /etc/debian_version; logger --tag lab of the first; sync")
    identity = on_host(FIRST, "cat /etc/machine-id")
    assert tool("stop", FIRST) is True
    return identity


def test_a_copy_has_the_disk_of_the_other_and_an_identity_of_its_own(prepared):
    assert up(COPY, FIRST) is True
    assert up(SECOND, FIRST) is True
    assert len(layers()) == 1, "the second copy needs no layer of its own"
    for name in (COPY, SECOND):
        assert on_host(name, "cat /etc/prepared; ls /etc/debian_version || true") == "prepared"
        assert on_host(name, "hostname") == name
        assert ADDRESSES[name] in on_host(name, "ip -4 -oneline address show dev host0")
        assert "of the first" not in on_host(name, "journalctl --merge")
    identities = {prepared, *(on_host(name, "cat /etc/machine-id") for name in (COPY, SECOND))}
    assert len(identities) == 3
    assert on_host(COPY, "ls /var/log/journal") == on_host(COPY, "cat /etc/machine-id")
    keys = {name: on_host(name, "cat /etc/ssh/ssh_host_ed25519_key.pub").split()[1] for name in (COPY, SECOND)}
    assert keys[COPY] != keys[SECOND]
    known = (STATE / "ssh/known_hosts").read_text()
    assert all(f"{ADDRESSES[name]} ssh-ed25519 {key}\n" in known for name, key in keys.items())


def test_neither_sees_what_the_other_writes_later_or_needs_it(prepared):
    up(COPY, FIRST)
    on_host(COPY, "echo mine > /etc/prepared")
    assert up(FIRST) is True
    assert on_host(FIRST, "cat /etc/prepared /etc/machine-id").split() == ["prepared", prepared]
    on_host(FIRST, "echo later > /etc/prepared")
    assert up(COPY, FIRST) is False, "a copy that runs is left as it is"
    tool("stop", FIRST)
    up(SECOND, FIRST)
    assert on_host(SECOND, "cat /etc/prepared") == "later"
    tool("down", FIRST)
    tool("stop", COPY)
    assert up(COPY, FIRST) is True, "it boots again although the other one is gone"
    assert on_host(COPY, "cat /etc/prepared") == "mine"


@pytest.mark.parametrize("seconds", [0.15, 0.5, 1.0])
def test_an_interrupted_copy_is_healed_by_the_next(prepared, seconds):
    words = ["up", COPY, "--like", FIRST, "--address", ADDRESSES[COPY]]
    running = subprocess.Popen([sys.executable, str(TOOL), *words], stdout=subprocess.DEVNULL)
    time.sleep(seconds)
    running.kill()
    running.wait()
    up(COPY, FIRST)
    assert on_host(COPY, "cat /etc/prepared") == "prepared"
    up(FIRST)
    assert on_host(FIRST, "cat /etc/prepared") == "prepared"


def test_a_layer_that_was_noted_and_not_made_is_made_by_the_next(prepared):
    (STATE / "hosts" / FIRST / "layers.json").write_text(json.dumps(["like-a-noted"]))
    up(FIRST)
    assert on_host(FIRST, "cat /etc/prepared") == "prepared"
    assert layers() == ["like-a-noted"]


def test_a_blank_host_in_the_place_of_a_copy_is_made_anew(prepared):
    up(COPY, FIRST)
    assert up(COPY) is True
    assert on_host(COPY, "ls /etc/prepared || true") == ""


def test_what_cannot_be_copied_is_refused_with_its_mend():
    assert "there is no host like-a" in up(COPY, FIRST, check=False).stderr
    assert "cannot be like itself" in up(COPY, COPY, check=False).stderr
    up(FIRST)
    refused = up(COPY, FIRST, check=False)
    assert refused.returncode == 1
    assert "stop it first: hosts.py stop like-a" in refused.stderr
