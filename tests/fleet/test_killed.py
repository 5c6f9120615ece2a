# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller is killed in each phase and run again; the router is restarted meanwhile."""

from __future__ import annotations

import signal

import pytest
from ansible_collections.llmfleet.sglang.tests.fleet.fleet import ROUTER, A, B, is_back, until

PHASES = ["out", "switch", "gate", "soak", "in"]
# The first of both is killed, and the second one not begun before it is finished.
FIRST, SECOND = "fl-3", "fl-4"
LIMIT = ["--limit", f"{FIRST},{SECOND}"]
SETTINGS = {"lab_release": B, "rollout_batches": [1], "rollout_serving_minimum": 0, "rollout_soak_seconds": 5}


@pytest.fixture(scope="module")
def killed(fleet):
    """Rollouts of two hosts, each killed in the next phase of the first; {phase: (phase when killed, what it said)}."""
    fleet.fault(FIRST, "")
    fleet.fault(SECOND, "")
    if not is_back(fleet, [FIRST, SECOND]):
        played = fleet.play("rollout.yml", *LIMIT, rollout_batches=["100%"], rollout_serving_minimum=0)
        assert played.code == 0, played
    found = {}
    for phase in PHASES:
        later, stale = PHASES[PHASES.index(phase) :], fleet.state(FIRST)["rollout"]
        with fleet.playing("rollout.yml", *LIMIT, **SETTINGS) as running:
            reached = fleet.wait_phase(FIRST, *later, running=running, stale=stale)
            running.send_signal(signal.SIGKILL)
        found[phase] = reached, running.told()
    return found


def test_a_killed_rollout_leaves_its_host_out_of_the_router_and_known(killed, fleet):
    print("\nkilled in:", {phase: reached for phase, (reached, _told) in killed.items()})
    assert set(killed) == set(PHASES)
    rollout = fleet.state(FIRST)["rollout"]
    assert rollout is not None and rollout["to"].startswith(B), rollout
    assert fleet.stands(SECOND) == (A, True, False)
    # Every run after the first one took the lock from a process that was gone.
    for phase in PHASES[1:]:
        told = killed[phase][1].words
        assert "its process is gone" in told, killed[phase][1]


def test_run_again_it_is_finished_though_the_router_is_restarted(killed, fleet):
    with fleet.playing("rollout.yml", *LIMIT, **SETTINGS) as running:
        fleet.wait_phase(SECOND, "gate", "soak", running=running)
        fleet.on(ROUTER, "systemctl restart sglang-router.service")
    played = running.told()
    assert played.code == 0, played
    assert [fleet.stands(host) for host in (FIRST, SECOND)] == [(B, True, False)] * 2
    assert played.table()[FIRST][:2] == ["1", "done"] and "unfinished" in played.words
    until(lambda: {FIRST, SECOND} <= set(fleet.listed()), "both hosts in the router")
