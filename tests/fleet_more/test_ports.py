# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A service that gets another port: the router has it where it listens, on the way there and on every way back."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.tests.fleet.fleet import A, B

HOST = "fl-1"
SETTINGS = {"rollout_batches": [1], "rollout_serving_minimum": 0}


def places(fleet):
    """Addresses that the router has of the host, and those that are written down, with their state."""
    address = fleet.address[HOST]
    listed = [worker["url"] for worker in fleet.workers() if f"//{address}:" in worker["url"]]
    ports = {url.rpartition(":")[2]: entry["state"] for url, entry in fleet.entries().items() if entry["host"] == HOST}
    return [url.rpartition(":")[2] for url in listed], ports


@pytest.fixture
def moved(on_a):
    """The host on release B at another port."""
    played = on_a.play("rollout.yml", "--limit", HOST, lab_release=B, serve_port=30010, **SETTINGS)
    assert played.code == 0, played
    return on_a


def test_a_port_that_fails_gives_the_old_one_back(on_a):
    on_a.fault(HOST, "rank-wrong-size")
    played = on_a.play("rollout.yml", "--limit", HOST, lab_release=B, serve_port=30010, **SETTINGS)
    assert played.code == 2 and played.table()[HOST][1] == "went back", played
    assert on_a.stands(HOST) == (A, True, False)
    assert places(on_a) == (["30000"], {"30000": "serving"})


def test_another_port_and_back_to_what_was_verified_at_the_old_one(moved):
    assert moved.stands(HOST) == (B, True, False)
    assert places(moved) == (["30010"], {"30010": "serving"})
    # Whether the variables still name the new port or not.
    back = moved.play("rollback.yml", "--limit", HOST, rollback_to=A, serve_port=30010, **SETTINGS)
    assert back.code == 0 and back.table()[HOST][1] == "done", back
    assert moved.stands(HOST) == (A, True, False)
    assert places(moved) == (["30000"], {"30000": "serving"})
