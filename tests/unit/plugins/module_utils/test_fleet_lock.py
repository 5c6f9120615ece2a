# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of a fleet: one holder, who ends with his process or his lease, and can be broken."""

from __future__ import annotations

import multiprocessing
import os
import stat

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import fleet_lock
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import fleet_holder

LEASE = 100


def holder(token, **more):
    return {"token": token, "user": "jo", "controller": "desk", "pid": 7, "playbook": "rollout.yml", **more}


class Clock:
    now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def lock(tmp_path, clock):
    return fleet_lock.Lock(str(tmp_path / "new" / "rollout.lock"), clock)


def test_one_holder_at_a_time(lock):
    assert lock.take(holder("one"), LEASE, "plan") == (True, None)
    with pytest.raises(fleet_lock.LockError) as refused:
        lock.take(holder("two"), LEASE)
    for word in ("jo at desk", "pid 7", "rollout.yml", "phase plan", "1970-01-12", "rollout_lock_broken=true"):
        assert word in str(refused.value)
    assert lock.read()["token"] == "one"
    assert lock.release(holder("two")) is False and lock.read()["token"] == "one"
    assert lock.release(holder("one")) is True and lock.read() is None
    assert lock.release(holder("one")) is False


def test_taking_it_again_keeps_its_beginning(lock, clock):
    lock.take(holder("one"), LEASE)
    clock.now += 10
    assert lock.take(holder("one"), LEASE) == (False, None)
    assert (lock.read()["since"], lock.read()["until"]) == (1_000_000, 1_000_110)


@pytest.mark.parametrize(
    "later, dead, alive, taken",
    [
        (0, None, None, False),
        (0, "one", None, True),
        (0, "other", None, False),
        (LEASE - 1, None, None, False),
        (LEASE, None, None, True),
        # A process that runs holds it for as long as it likes.
        (LEASE * 9, None, "one", False),
    ],
)
def test_the_lock_ends_with_its_holder(lock, clock, later, dead, alive, taken):
    lock.take(holder("one"), LEASE)
    clock.now += later
    if taken:
        changed, before = lock.take(holder("two"), LEASE, dead=dead, alive=alive)
        assert changed and before["token"] == "one" and lock.read()["token"] == "two"
    else:
        with pytest.raises(fleet_lock.LockError):
            lock.take(holder("two"), LEASE, dead=dead, alive=alive)


def test_each_phase_renews_it(lock, clock):
    lock.take(holder("one"), LEASE, "plan")
    clock.now += LEASE - 1
    lock.renew(holder("one"), LEASE, "batch 1")
    clock.now += LEASE - 1
    with pytest.raises(fleet_lock.LockError, match="in phase batch 1"):
        lock.take(holder("two"), LEASE)


def test_who_was_broken_notices(lock):
    lock.take(holder("one"), LEASE)
    assert lock.break_open()["token"] == "one" and lock.break_open() is None
    with pytest.raises(fleet_lock.LockError, match="nobody has it now"):
        lock.renew(holder("one"), LEASE)
    lock.take(holder("two"), LEASE)
    with pytest.raises(fleet_lock.LockError, match="is held by jo at desk"):
        lock.renew(holder("one"), LEASE)
    assert lock.read()["token"] == "two"


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"token": "x"}', "\xff"])
def test_a_lock_that_nobody_can_read_is_no_lock(lock, content):
    lock.take(holder("one"), LEASE)
    with open(lock.path, "w", encoding="latin-1") as stream:
        stream.write(content)
    changed, before = lock.take(holder("two"), LEASE)
    assert changed and fleet_lock.describe(before) == "somebody who did not write down a name"


def test_check_mode_writes_nothing(lock):
    assert lock.take(holder("one"), LEASE, pretend=True) == (True, None)
    assert not os.path.exists(os.path.dirname(lock.path))
    lock.take(holder("one"), LEASE)
    with pytest.raises(fleet_lock.LockError):
        lock.take(holder("two"), LEASE, pretend=True)
    assert lock.release(holder("one"), pretend=True) and lock.break_open(pretend=True)
    assert lock.read()["token"] == "one"
    assert stat.S_IMODE(os.stat(lock.path).st_mode) == 0o644


def compete(path, number, barrier, winners):
    barrier.wait()
    try:
        fleet_lock.Lock(path).take(holder(f"t{number}"), LEASE)
        winners.put(number)
    except fleet_lock.LockError:
        pass


def test_of_many_at_once_one_gets_it(tmp_path):
    context = multiprocessing.get_context("fork")
    for turn in range(5):
        path = str(tmp_path / f"{turn}" / "lock")
        barrier, winners = context.Barrier(6), context.SimpleQueue()
        racers = [context.Process(target=compete, args=(path, number, barrier, winners)) for number in range(6)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        first = winners.get()
        assert winners.empty() and fleet_lock.Lock(path).read()["token"] == f"t{first}"


def test_a_holder_is_this_process_and_lives():
    own = fleet_holder.own("rollout.yml")
    assert own["pid"] == os.getpid() and own["playbook"] == "rollout.yml" and own == fleet_holder.own("rollout.yml")
    assert fleet_holder.state_of(own) == fleet_holder.ALIVE
    # The same pid, given to another process.
    assert fleet_holder.state_of({**own, "started": own["started"] - 1}) == fleet_holder.DEAD
    assert fleet_holder.state_of({**own, "controller_id": "another boot"}) == fleet_holder.ELSEWHERE
    assert fleet_holder.state_of({}) == fleet_holder.ELSEWHERE


def test_a_process_that_ended_is_dead():
    child = os.fork()
    if child == 0:
        os._exit(0)
    # Until its parent asks for it, it is a zombie, which runs nothing any more.
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert fleet_holder.started(child) is None
    os.waitpid(child, 0)
    assert fleet_holder.started(child) is None
