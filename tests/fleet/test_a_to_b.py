# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet that is well: from A to B under load while a second rollout is refused, and back."""

from __future__ import annotations

from ansible_collections.llmfleet.sglang.tests.fleet.fleet import HOSTS, A, B


def test_hosts_that_had_nothing_are_deployed_and_served(fleet):
    assert fleet.first is None or {row[1] for row in fleet.first.table().values()} == {"done"}, fleet.first
    assert all(fleet.stands(host) == (A, True, False) for host in HOSTS)
    assert {host for host, healthy in fleet.listed().items() if healthy} == set(HOSTS)


def test_from_a_to_b_under_load_with_a_second_rollout_that_is_refused(on_a, record_property):
    with on_a.load() as summary, on_a.watched() as seen:
        with on_a.playing("rollout.yml", lab_release=B, rollout_batches=["100%"], rollout_soak_seconds=5) as first:
            on_a.wait_phase("fl-1", "out", "switch", "gate", running=first)
            second = on_a.play("rollout.yml", "--limit", "fl-4", lab_release=B, rollout_serving_minimum=0)
        told = first.told()
    print("load:", summary)
    assert told.code == 0, told
    assert second.code != 0 and "A rollout of this fleet is under way" in second.words, second
    assert f"(pid {first.pid}, " in second.words and "playbooks/rollout.yml" in second.words
    assert all(on_a.stands(host) == (B, True, False) for host in HOSTS)
    # The plan splits the batch of four, as two of them have to serve.
    assert [row[0] for row in told.table().values()] == ["1", "1", "2", "2"]
    assert {row[1] for row in told.table().values()} == {"done"}
    record_property("load", summary)
    assert (summary["failed"], summary["cut"]) == (0, 0) and summary["whole"] > 0, summary
    # Each was seen out, and never fewer than two served.
    assert min(len(hosts) for hosts in seen) >= 2, seen
    assert {host for host in HOSTS if any(host not in hosts for hosts in seen)} == set(HOSTS)


def test_back_to_what_was_verified_before(fleet):
    assert all(fleet.release(host) == B for host in HOSTS)
    back = fleet.play("rollback.yml", rollback_to=A, rollout_batches=["100%"], rollout_serving_minimum=0)
    assert back.code == 0 and {row[1] for row in back.table().values()} == {"done"}, back
    assert all(fleet.stands(host) == (A, True, False) for host in HOSTS)
