# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator meets besides: a plan in check mode, a part of the fleet, drained hosts, a foreign lock."""

from __future__ import annotations

import json

from ansible_collections.llmfleet.sglang.tests.fleet.fleet import HOSTS, ROUTER, A, B, until


def test_settings_that_cannot_work_are_refused_together(fleet):
    played = fleet.play(
        "rollout.yml", rollout_batches=["half"], rollout_serving_minimum=4, rollout_soak_seconds=-1,
        rollout_canary_group="nobody", rollout_canary_required=True,
    )  # fmt: skip
    assert played.code != 0
    for word in ("rollout_batches", "rollout_serving_minimum is 4", "rollout_soak_seconds is -1", '"nobody"'):
        assert word in played.words, played
    assert "PLAY [Roll out" not in played.text


def test_a_fleet_that_is_there_is_left_alone_and_check_mode_shows_a_plan(on_a):
    before = {host: on_a.state(host) for host in HOSTS}
    checked = on_a.play("rollout.yml", "--check", lab_release=B)
    assert checked.code == 0 and "4 serve now, and 2 or more do all the time." in checked.words, checked
    again = on_a.play("rollout.yml")
    assert again.code == 0 and {row[1] for row in again.table().values()} == {"there already"}, again
    assert {host: on_a.state(host) for host in HOSTS} == before


def test_a_host_that_a_person_drained_stays_out_and_is_named(on_a):
    drained = on_a.play("drain.yml", "--limit", "fl-3", drain_reason="a fan is replaced")
    assert drained.code == 0, drained
    played = on_a.play("rollout.yml", "--limit", "fl-3,fl-4", rollout_batches=["100%"])
    assert played.code == 0 and played.table()["fl-3"][1:] == ["left alone", "drained"], played
    assert "fl-3 is drained by" in played.words and "a fan is replaced" in played.words
    assert "fl-3" not in on_a.listed()
    undrained = on_a.play("undrain.yml", "--limit", "fl-3")
    assert undrained.code == 0, undrained
    until(lambda: on_a.listed().get("fl-3"), "fl-3 in the router")


def test_a_part_of_the_fleet_goes_back_alone(on_a):
    there = on_a.play("rollout.yml", "--limit", "fl-1,fl-2", lab_release=B, rollout_batches=["100%"])
    assert there.code == 0, there
    nothing = on_a.play("rollback.yml", rollback_to="0.5.17")
    assert nothing.code != 0 and 'no verified configuration of it is called "0.5.17"' in nothing.words, nothing
    assert "Nothing was changed." in nothing.words
    some = on_a.play("rollback.yml", "--limit", "fl-2", rollout_serving_minimum=2)
    assert some.code == 0, some
    assert [on_a.stands(host)[0] for host in HOSTS] == [B, A, A, A]


def test_a_lock_of_another_controller_is_broken_knowingly(fleet):
    path = "/var/lib/llmfleet/rollout.lock"
    settings = {"lab_release": B, "rollout_serving_minimum": 0}
    other = {"token": "x", "user": "jo", "controller": "desk", "pid": 7, "playbook": "rollout.yml", "since": 1}
    fleet.on(ROUTER, f"cat > {path}", given=json.dumps({**other, "renewed": 1, "until": 9e9, "controller_id": "?"}))
    refused = fleet.play("rollout.yml", "--limit", "fl-1", **settings)
    assert refused.code != 0 and "held by jo at desk (pid 7, rollout.yml)" in refused.words, refused
    broken = fleet.play("rollout.yml", "--limit", "fl-1", rollout_lock_broken=True, **settings)
    assert broken.code == 0 and "the lock of jo at desk" in broken.words, broken
    assert fleet.on(ROUTER, f"cat {path}", check=False) == ""
