# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One model on two hosts: one unit of a rollout, each node's own ranks proved on that node."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.llmfleet.sglang.tests.fleet.fleet import UNIT, A, B

PAIR = ["-i", str(Path(__file__).with_name("pair.yml")), "--limit", "fl-1,fl-2"]
SETTINGS = {"rollout_batches": [1], "rollout_serving_minimum": 0}


def ranks(fleet, host):
    """Ranks that the host's running start has reported a pool for."""
    invocation = fleet.on(host, f"systemctl show --property InvocationID --value {UNIT}")
    said = fleet.on(host, f"journalctl --no-pager --output=cat _SYSTEMD_INVOCATION_ID={invocation}")
    return sorted(set(re.findall(r" (TP\d)\] .*Allocating", said)))


@pytest.fixture
def pair(on_a):
    """The pair on release A; the second node, which may have been an engine of its own, is none any more."""
    played = on_a.play("rollout.yml", *PAIR, **SETTINGS)
    assert played.code == 0, played
    # A batch of one, and yet both: they are one unit.
    assert {host: row[:2] for host, row in played.table().items()} == {"fl-1": ["1", "done"], "fl-2": ["1", "done"]}
    return on_a


def test_each_node_is_proved_by_its_own_ranks_and_the_first_alone_is_routed(pair):
    assert (ranks(pair, "fl-1"), ranks(pair, "fl-2")) == (["TP0", "TP1"], ["TP2", "TP3"])
    assert [pair.stands(host) for host in ("fl-1", "fl-2")] == [(A, True, False)] * 2
    assert set(pair.listed()) == {"fl-1", "fl-3", "fl-4"}
    # Alone, on any later day.
    verified = pair.play("verify.yml", *PAIR[:2], "--limit", "fl-2")
    assert verified.code == 0 and "PASS - 2 of 2 ranks" in verified.words, verified
    # A rank of the other node does not stand for one that is missing here.
    wrong = pair.play("verify.yml", *PAIR[:2], "--limit", "fl-2", serve_node_rank=0, verify_timeout=5)
    assert wrong.code != 0 and "TP2" in wrong.words, wrong


def test_a_node_that_fails_takes_its_mate_back(pair):
    pair.fault("fl-2", "rank-wrong-size")
    played = pair.play("rollout.yml", *PAIR, lab_release=B, **SETTINGS)
    assert played.code == 2, played
    assert "fl-2 failed at the gate" in played.words and "TP3 reported" in played.words, played
    assert {host: row[1] for host, row in played.table().items()} == {"fl-1": "went back", "fl-2": "went back"}
    assert [pair.stands(host) for host in ("fl-1", "fl-2")] == [(A, True, False)] * 2
    assert pair.listed()["fl-1"]
