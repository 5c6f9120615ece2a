# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which process a holder is, from a /proc that the test makes, and who it says that it is."""

from __future__ import annotations

import getpass
import multiprocessing
import os
import socket

import pytest
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import fleet_holder


def stat(state="S", began=4711, name="python3"):
    """The text of /proc/PID/stat: pid, name, state, and the start as the 22nd field of all."""
    fields = [state, *(str(number) for number in range(4, 22)), str(began), *(str(number) for number in range(23, 53))]
    return f"7 ({name}) {' '.join(fields)}\n"


@pytest.fixture(name="proc")
def fixture_proc(tmp_path):
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("boot-1\n")
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").symlink_to("pid:[4026531836]")
    for pid in (7, fleet_holder.main_pid()):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(stat())
    return tmp_path


@pytest.mark.parametrize(
    ("text", "began"),
    [
        (stat(), 4711),
        (stat("R", 0), 0),
        (stat("D"), 4711),
        # Ended, and not yet asked for by its parent.
        (stat("Z"), None),
        (stat("X"), None),
        # A name may look like the rest of the line.
        (stat(name="x) Z 1 2"), 4711),
        (stat("Z", name="x) S 1 2"), None),
    ],
)
def test_when_a_process_began(proc, text, began):
    (proc / "7/stat").write_text(text)
    assert fleet_holder.started(7, str(proc)) == began


def test_bytes_in_a_name_are_no_error(proc):
    (proc / "7/stat").write_bytes(stat(name="\udcff").encode(errors="surrogateescape"))
    assert fleet_holder.started(7, str(proc)) == 4711


def test_no_process_began_never(proc):
    assert fleet_holder.started(8, str(proc)) is None
    assert fleet_holder.started(None, str(proc)) is None


def test_a_controller_is_a_boot_and_a_namespace(proc):
    assert fleet_holder.controller(str(proc)) == "boot-1/pid:[4026531836]"


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({}, "alive"),
        ({"started": 4712}, "dead"),
        ({"started": None}, "dead"),
        ({"pid": 8}, "dead"),
        # No process, and none written down, is no match.
        ({"pid": 8, "started": None}, "dead"),
        ({"controller_id": "boot-2/pid:[4026531836]"}, "elsewhere"),
        ({"controller_id": "boot-1/pid:[4026531837]"}, "elsewhere"),
        ({"controller_id": None}, "elsewhere"),
    ],
)
def test_whether_a_holder_runs(proc, change, state):
    holder = {"pid": 7, "started": 4711, "controller_id": "boot-1/pid:[4026531836]"}
    assert fleet_holder.state_of({**holder, **change}, str(proc)) == state


def test_a_holder_says_who_it_is(proc):
    own = fleet_holder.own("rollout.yml", str(proc))
    assert {**own, "token": ""} == {
        "token": "", "user": fleet_holder.user(), "controller": socket.gethostname(),
        "controller_id": "boot-1/pid:[4026531836]", "pid": os.getpid(), "started": 4711, "playbook": "rollout.yml",
    }  # fmt: skip
    assert len(own["token"]) == 32 and fleet_holder.state_of(own, str(proc)) == fleet_holder.ALIVE


def test_each_process_boot_and_namespace_has_a_token_of_its_own(proc):
    def token():
        return fleet_holder.own("", str(proc))["token"]

    tokens = [token()]
    (proc / str(os.getpid()) / "stat").write_text(stat(began=4712))
    tokens.append(token())
    (proc / "sys/kernel/random/boot_id").write_text("boot-2\n")
    tokens.append(token())
    assert len(set(tokens)) == 3 and tokens[-1] == token()


def test_a_task_of_a_run_is_that_run():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(fleet_holder.main_pid) == os.getpid() == fleet_holder.main_pid()


@pytest.mark.parametrize(
    ("name", "real", "told"),
    [
        ("root", "jo", "jo as root"),
        ("jo", "jo", "jo"),
        ("jo", None, "jo"),
        ("jo", "", "jo"),
        (KeyError("no entry"), None, str(os.getuid())),
        (OSError("no entry"), "jo", f"jo as {os.getuid()}"),
    ],
)
def test_the_name_of_a_user(monkeypatch, name, real, told):
    def getuser():
        if isinstance(name, Exception):
            raise name
        return name

    monkeypatch.setattr(getpass, "getuser", getuser)
    monkeypatch.delenv("SUDO_USER", raising=False)
    if real is not None:
        monkeypatch.setenv("SUDO_USER", real)
    assert fleet_holder.user() == told
