# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet that is well: from A to B under load, two rollouts at once, and back."""

from __future__ import annotations

from ansible_collections.llmfleet.sglang.tests.fleet.fleet import HOSTS, A, B, until

SERVED = (A, True, False)


def test_hosts_that_had_nothing_are_deployed_and_served(fleet):
    assert {row[1] for row in fleet.first.table().values()} == {"done"}, fleet.first
    assert all(fleet.stands(host) == SERVED for host in HOSTS)
    assert {host for host, healthy in fleet.listed().items() if healthy} == set(HOSTS)


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


def test_from_a_to_b_under_load_with_a_second_rollout_that_is_refused(on_a, record_property):
    with on_a.load() as summary, on_a.watched() as seen:
        with on_a.playing("rollout.yml", lab_release=B, rollout_batches=[1, "100%"], rollout_soak_seconds=5) as first:
            on_a.wait_phase("fl-1", "out", "switch", "gate", running=first)
            second = on_a.play("rollout.yml", "--limit", "fl-4", lab_release=B, rollout_serving_minimum=0)
        told = first.told()
    assert told.code == 0, told
    assert second.code != 0 and "A rollout of this fleet is under way" in second.words, second
    assert f"(pid {first.pid}, " in second.words and "playbooks/rollout.yml" in second.words
    assert all(on_a.stands(host) == (B, True, False) for host in HOSTS)
    # The plan splits the batch of three, as two of four have to serve.
    assert [row[0] for row in told.table().values()] == ["1", "2", "2", "3"]
    assert {row[1] for row in told.table().values()} == {"done"}
    record_property("load", summary)
    print("load:", summary)
    assert (summary["failed"], summary["cut"]) == (0, 0) and summary["whole"] > 0, summary
    # One at a time was seen out, and never fewer than two served.
    assert min(len(hosts) for hosts in seen) >= 2, seen
    assert {host for host in HOSTS if any(host not in hosts for hosts in seen)} == set(HOSTS)


def test_back_to_what_was_verified_before(fleet):
    assert all(fleet.release(host) == B for host in HOSTS)
    nothing = fleet.play("rollback.yml", rollback_to="0.5.17")
    assert nothing.code != 0 and 'no verified configuration of it is called "0.5.17"' in nothing.words, nothing
    assert "Nothing was changed." in nothing.words
    some = fleet.play("rollback.yml", "--limit", "fl-2", rollout_serving_minimum=2)
    assert some.code == 0, some
    assert [fleet.stands(host)[0] for host in HOSTS] == [B, A, B, B]
    rest = fleet.play("rollback.yml", rollback_to=A, rollout_batches=["100%"])
    assert rest.code == 0 and rest.table()["fl-2"][1] == "there already", rest
    assert all(fleet.stands(host) == SERVED for host in HOSTS)


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
