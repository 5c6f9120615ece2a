# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host cannot be reached before a rollout, or in the middle of it."""

from __future__ import annotations

from ansible_collections.llmfleet.sglang.tests.fleet.fleet import HOSTS, B, is_back, until


def test_a_host_that_is_gone_before(on_a):
    before = {host: on_a.state(host) for host in HOSTS}
    with on_a.cut_off("fl-3"):
        played = on_a.play("rollout.yml", lab_release=B, rollout_batches=[1, 3], rollout_serving_minimum=0)
    assert played.code != 0 and "fl-3 did not answer, and nothing was changed" in played.words, played
    assert {host: on_a.state(host)["active"] for host in HOSTS} == {host: before[host]["active"] for host in HOSTS}


def test_a_host_that_goes_in_the_middle(on_a):
    settings = {"lab_release": B, "rollout_batches": [2, 2], "rollout_serving_minimum": 0}
    with on_a.playing("rollout.yml", rollout_soak_seconds=30, **settings) as running:
        on_a.wait_phase("fl-2", "soak", running=running)
        with on_a.cut_off("fl-2"):
            until(lambda: running.poll() is not None, "the end of the rollout")
    played = running.told()
    assert played.code != 0 and "fl-2 could not be reached any more" in played.words, played
    assert played.table()["fl-2"][1:] == ["unreachable", "drained"], played
    assert "fl-2 is out of the routers: rollout of" in played.words
    assert is_back(on_a, ["fl-1"]) and played.table()["fl-3"][1] == "untouched"
    # The same playbook again finishes it, and begins with the host that was left.
    again = on_a.play("rollout.yml", **{**settings, "rollout_batches": ["100%"]})
    assert again.code == 0 and again.table()["fl-2"][:2] == ["1", "done"], again
    assert all(on_a.stands(host) == (B, True, False) for host in HOSTS)
