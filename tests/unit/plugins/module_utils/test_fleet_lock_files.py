# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rollout's lock on the disk, and each answer of its operations."""

from __future__ import annotations

import json
import os
import stat

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import fleet_lock
from ansible_collections.llmfleet.sglang.tests.unit.plugins import disk_trace

NOW, LEASE = 1_000_000.0, 100
ONE, TWO = ({"token": token, "user": "jo", "controller": "desk", "pid": 7, "playbook": "p"} for token in ("1", "2"))


@pytest.fixture(name="lock")
def fixture_lock(tmp_path):
    lock = fleet_lock.Lock(str(tmp_path / "new" / "rollout.lock"), lambda: lock.now)
    lock.now = NOW
    return lock


def test_the_content_is_on_disk_before_it_takes_the_others_place(lock, monkeypatch):
    lock.take(ONE, LEASE)
    trace = disk_trace.record(monkeypatch)
    lock.take(ONE, LEASE, "plan")
    synced, replaced = trace[:2]
    assert synced[0] == "fsync" and json.loads(synced[2])["phase"] == "plan"
    assert replaced == ("replace", synced[1], lock.path)
    assert os.path.dirname(synced[1]) == os.path.dirname(lock.path)


@pytest.mark.parametrize("call", ["fsync", "replace", "chmod"])
def test_a_lock_that_cannot_be_written_stays_as_it_was(lock, monkeypatch, call):
    lock.take(ONE, LEASE)

    def full(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space left"):
        lock.renew(ONE, LEASE, "batch 1")
    assert lock.read()["phase"] == ""
    assert sorted(os.listdir(os.path.dirname(lock.path))) == ["rollout.lock", "rollout.lock.guard"]


def test_everybody_may_read_the_lock_and_nobody_else_holds_its_guard(lock):
    with disk_trace.umask(0o022):
        lock.take(ONE, LEASE)
    modes = [stat.S_IMODE(os.stat(path).st_mode) for path in (lock.path, f"{lock.path}.guard")]
    assert modes == [0o644, 0o600] and stat.S_IMODE(os.stat(os.path.dirname(lock.path)).st_mode) == 0o755


def test_a_second_process_waits(lock):
    assert disk_trace.keeps_out(lock.alone, lock.alone)
    # With the guard's file there it is the same.
    assert disk_trace.keeps_out(lock.alone, lock.alone)


@pytest.mark.parametrize(
    "call",
    [
        lambda lock: lock.take(ONE, LEASE),
        lambda lock: lock.renew(ONE, LEASE),
        lambda lock: lock.release(ONE),
        lambda lock: lock.break_open(),
    ],
    ids=["take", "renew", "release", "break"],
)
def test_whatever_changes_the_lock_is_alone_from_its_look_on(lock, monkeypatch, call):
    lock.take(ONE, LEASE)
    before, seen, real = disk_trace.open_descriptors(), [], lock.read
    monkeypatch.setattr(lock, "read", lambda: (seen.append(disk_trace.is_locked(f"{lock.path}.guard")), real())[1])
    call(lock)
    assert seen == [True]
    assert not disk_trace.is_locked(f"{lock.path}.guard") and disk_trace.open_descriptors() == before


def test_check_mode_waits_for_nobody_and_makes_nothing(lock, tmp_path):
    assert lock.take(ONE, LEASE, pretend=True) == (True, None)
    assert lock.renew(ONE, LEASE, pretend=True) is None
    assert lock.release(ONE, pretend=True) is False and lock.break_open(pretend=True) is None
    assert os.listdir(tmp_path) == []
    lock.take(ONE, LEASE)
    with lock.alone():
        assert lock.take(ONE, LEASE, pretend=True) == (False, None)
        assert lock.release(ONE, pretend=True) is True and lock.release(TWO, pretend=True) is False
        assert lock.break_open(pretend=True)["token"] == "1"
    assert lock.read()["token"] == "1"


def test_what_is_written_by_taking_and_by_renewing(lock):
    lock.take(ONE, LEASE, "plan")
    assert lock.read() == {**ONE, "since": NOW, "renewed": NOW, "until": NOW + LEASE, "phase": "plan"}
    lock.now += 10
    lock.renew(ONE, 50)
    assert lock.read() == {**ONE, "since": NOW, "renewed": NOW + 10, "until": NOW + 60, "phase": "plan"}
    lock.renew(ONE, 50, "soak")
    assert lock.read()["phase"] == "soak"
    lock.now += 10
    lock.take(ONE, LEASE)
    assert lock.read() == {**ONE, "since": NOW, "renewed": NOW + 20, "until": NOW + 120, "phase": ""}


def test_a_new_holder_has_a_beginning_of_its_own(lock):
    lock.take(ONE, LEASE, "plan")
    lock.now += LEASE
    changed, before = lock.take(TWO, LEASE)
    assert (changed, before["token"], before["phase"]) == (True, "1", "plan")
    assert lock.read()["since"] == NOW + LEASE


def test_a_lock_of_ones_own_without_a_beginning_begins_now(lock):
    os.makedirs(os.path.dirname(lock.path))
    lock.write({"token": "1"})
    assert lock.take(ONE, LEASE) == (False, None) and lock.read()["since"] == NOW


def test_a_renewal_without_a_phase_before_has_none(lock):
    os.makedirs(os.path.dirname(lock.path))
    lock.write({"token": "1"})
    lock.renew(ONE, LEASE)
    assert lock.read() == {"token": "1", "renewed": NOW, "until": NOW + LEASE, "phase": ""}


@pytest.mark.parametrize(
    ("found", "dead", "alive", "taken"),
    [
        ({}, None, None, True),
        ({"token": "1", "until": NOW + 1}, None, None, True),
        ({"token": "2", "until": NOW + 1}, None, None, False),
        ({"token": "2", "until": str(NOW)}, None, None, True),
        ({"token": "2", "until": NOW + 1}, "2", None, True),
        ({"token": "2", "until": NOW - 1}, None, "2", False),
        # What the controller knows of others says nothing about this one.
        ({"token": "2", "until": NOW + 1}, "3", "4", False),
        ({"token": "2", "until": NOW - 1}, "3", "4", True),
        # Nobody renews what cannot be read.
        ({"token": "2"}, None, None, True),
        ({"token": "2", "until": None}, None, None, True),
        ({"token": "2", "until": "soon"}, None, None, True),
        ({"token": "2"}, None, "2", False),
    ],
)
def test_who_may_take_it(found, dead, alive, taken):
    assert fleet_lock.may_take(found, "1", dead, alive, NOW) is taken


def test_a_holder_is_described_in_full():
    holder = {**ONE, "since": 0, "renewed": 60, "phase": "gate"}
    assert fleet_lock.describe(holder) == (
        "jo at desk (pid 7, p) since 1970-01-01 00:00:00 UTC, last heard 1970-01-01 00:01:00 UTC in phase gate"
    )
    assert fleet_lock.describe({**holder, "phase": ""}).endswith("in phase -")
    for wrong in ({}, None, {**holder, "since": "x"}, {**holder, "renewed": None, "since": []}):
        assert fleet_lock.describe(wrong) == "somebody who did not write down a name"


@pytest.mark.parametrize(
    ("content", "read"), [(b"{", {}), (b"\xff\xfe", {}), (b"[]", {}), (b'{"a": 1}', {"a": 1}), (None, None)]
)
def test_what_is_read(lock, content, read):
    os.makedirs(os.path.dirname(lock.path))
    if content is not None:
        with open(lock.path, "wb") as stream:
            stream.write(content)
    assert lock.read() == read


def test_a_lock_that_may_not_be_read_is_not_taken_for_a_free_one(lock):
    os.makedirs(lock.path)
    with pytest.raises(IsADirectoryError):
        lock.read()
