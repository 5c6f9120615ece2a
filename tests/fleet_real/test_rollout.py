# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real engine as a host of a fleet: behind the real router, and through a rollout under load.

The host of the molecule scenario "real" has to be there. The other one runs the stand-in, so that one always serves.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_size
from ansible_collections.llmfleet.sglang.tests.fleet.fleet import UNIT, Fleet

HOSTS = ("real-1", "real-2")
ROUTER = "real-lb"
INVENTORY = Path(__file__).with_name("inventory")
PER_TOKEN = 3456


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """The scenario's host and a second one behind a router, as a rollout left them that staged everything."""
    made = Fleet(tmp_path_factory.mktemp("fleet"), INVENTORY, ROUTER)
    others = [ROUTER, HOSTS[1]]
    made.lab("down", *others)
    for name in others:
        made.lab("up", name, "--suite=bookworm", f"--address={made.address[name]}")
    router = made.play("router.yml")
    assert router.code == 0, router
    everything = {"rollout_stage_enabled": True, "rollout_serving_minimum": 0, "rollout_batches": ["100%"]}
    made.first = made.play("rollout.yml", **everything)
    yield made
    made.lab("down", *others)


def verdict(fleet, host):
    """The verdict that is kept on a host."""
    return json.loads(fleet.on(host, "cat /etc/ansible/facts.d/sglang_kimi.fact"))


def answered(fleet, host):
    """Generations that the engine of a host has answered since its first start."""
    lines = f"journalctl -u {UNIT} -o cat --grep 'POST /v1/chat/completions.* 200' | grep -c POST || true"
    return int(fleet.on(host, lines))


def test_both_engines_are_verified_and_served(fleet):
    assert fleet.first.code == 0, fleet.first
    assert {host: row[1] for host, row in fleet.first.table().items()} == dict.fromkeys(HOSTS, "done")
    assert fleet.listed() == dict.fromkeys(HOSTS, True)
    for host in HOSTS:
        assert fleet.stands(host)[1:] == (True, False)
        assert (verdict(fleet, host)["verdict"], verdict(fleet, host)["expected_gb"]) == ("pass", 0.55)


def test_a_changed_ratio_is_rolled_out_without_losing_a_request(fleet):
    before = {host: answered(fleet, host) for host in HOSTS}
    with fleet.load(2, "--tokens=6") as summary, fleet.watched() as seen:
        second = fleet.play("rollout.yml", serve_hicache_ratio=3.0)
    print("load:", summary)
    assert second.code == 0, second
    assert {host: row[1] for host, row in second.table().items()} == dict.fromkeys(HOSTS, "done")
    assert (summary["failed"], summary["cut"]) == (0, 0) and summary["whole"] > 0, summary
    after = {host: answered(fleet, host) for host in HOSTS}
    assert all(after[host] > before[host] for host in HOSTS), (before, after)

    # Each was seen out, and one served all the time.
    assert min(len(hosts) for hosts in seen) >= 1, seen
    assert {host for host in HOSTS if any(host not in hosts for hosts in seen)} == set(HOSTS)

    gb = hicache_size.tokens_to_gb(hicache_size.host_tokens(40000, 3.0, 64, "0.5.23"), PER_TOKEN)
    for host in HOSTS:
        kept = verdict(fleet, host)
        assert fleet.stands(host)[1:] == (True, False)
        assert (kept["verdict"], kept["ranks_seen"], kept["expected_gb"]) == ("pass", 2, round(gb, 2))
    assert round(gb, 2) == 0.41
