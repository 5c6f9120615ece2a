# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller is killed in each phase and run again; the router is restarted meanwhile; the lock is broken."""

from __future__ import annotations

import json
import signal

import pytest
from ansible_collections.llmfleet.sglang.tests.fleet.fleet import ROUTER, B, until

PHASES = ["out", "switch", "gate", "soak", "in"]
SETTINGS = {"lab_release": B, "rollout_batches": [1], "rollout_serving_minimum": 0, "rollout_soak_seconds": 5}


@pytest.fixture(scope="module")
def killed(fleet):
    """Rollouts of one host, each killed in the next phase; {phase: (phase when it was found, output)}."""
    found = {}
    for phase in PHASES:
        later = PHASES[PHASES.index(phase) :]
        with fleet.playing("rollout.yml", "--limit", "fl-1,fl-2", **SETTINGS) as running:
            reached = fleet.wait_phase("fl-1", *later, running=running)
            running.send_signal(signal.SIGKILL)
        found[phase] = reached, running.told()
    return found


def test_a_killed_rollout_leaves_its_host_out_of_the_router_and_known(killed, fleet):
    print({phase: reached for phase, (reached, _told) in killed.items()})
    assert set(killed) == set(PHASES)
    rollout = fleet.state("fl-1")["rollout"]
    assert rollout is not None and rollout["to"].startswith(B), rollout
    # Every run after the first one took the lock from a process that was gone.
    for phase in PHASES[1:]:
        told = killed[phase][1].words
        assert "its process is gone" in told, killed[phase][1]


def test_run_again_it_is_finished_though_the_router_is_restarted(killed, fleet):
    with fleet.playing("rollout.yml", "--limit", "fl-1,fl-2", **SETTINGS) as running:
        fleet.wait_phase("fl-2", "gate", "soak", running=running)
        fleet.on(ROUTER, "systemctl restart sglang-router.service")
    played = running.told()
    assert played.code == 0, played
    assert [fleet.stands(host) for host in ("fl-1", "fl-2")] == [(B, True, False)] * 2
    assert played.table()["fl-1"][:2] == ["1", "done"] and "unfinished" in played.words
    until(lambda: {"fl-1", "fl-2"} <= set(fleet.listed()), "both hosts in the router")


def test_a_lock_of_another_controller_is_broken_knowingly(fleet):
    path = "/var/lib/llmfleet/rollout.lock"
    other = {"token": "x", "user": "jo", "controller": "desk", "pid": 7, "playbook": "rollout.yml", "since": 1}
    fleet.on(ROUTER, f"cat > {path}", given=json.dumps({**other, "renewed": 1, "until": 9e9, "controller_id": "?"}))
    refused = fleet.play("rollout.yml", "--limit", "fl-1", **SETTINGS)
    assert refused.code != 0 and "held by jo at desk (pid 7, rollout.yml)" in refused.words, refused
    broken = fleet.play("rollout.yml", "--limit", "fl-1", rollout_lock_broken=True, **SETTINGS)
    assert broken.code == 0 and "the lock of jo at desk" in broken.words, broken
    assert fleet.on(ROUTER, f"cat {path}", check=False) == ""
