# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Release B fails, each time in another way, on canaries and in a later batch. Several hosts share a rollout.

The tests go on from each other: after the last one, two hosts are on B.
"""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.tests.fleet.fleet import HOSTS, B, is_back

# {fault: words of its sentence}.
FAULTS = {
    "crash": ["at the gate"],
    # At the gate or in the soak, as it happens.
    "die-after-ready=1": ["failed"],
    "rank-wrong-size": ["at the gate", "TP1 reported"],
    "slow-load=900": ["at the gate"],
    "killed in the soak": ["in the soak"],
}
# The start budget of B in these tests, which only slow-load exceeds.
BUDGET = 90


def sentences(played, host):
    """What the last message says of a host."""
    told = played.text.rpartition("TASK [llmfleet.sglang.rollout : Stop where something is wrong]")[2]
    return next(line.strip() for line in told.splitlines() if line.strip().startswith(f"{host} failed"))


@pytest.mark.parametrize(
    ("sizes", "earlier", "faults", "untouched"),
    [
        ([3, 1], [], ["crash", "die-after-ready=1", "rank-wrong-size"], ["fl-4"]),
        ([2, 2], [], ["slow-load=900", "killed in the soak"], ["fl-3", "fl-4"]),
        ([1, 3], ["fl-1"], ["crash", "die-after-ready=1", "slow-load=900"], []),
        ([1, 2], ["fl-1", "fl-2"], ["rank-wrong-size", "killed in the soak"], []),
    ],
    ids=["canaries", "canaries-late", "later-batch", "later-batch-late"],
)
def test_b_fails(fleet, sizes, earlier, faults, untouched):
    """The batch is back on A and serves, others are as they were, and each host is named with where it failed."""
    victims = dict(zip(HOSTS[len(earlier) :], faults))
    before = {host: fleet.state(host) for host in untouched}
    for host in HOSTS:
        fault = victims.get(host, "")
        fleet.fault(host, "" if fault.startswith("killed") else fault)
    with fleet.playing(
        "rollout.yml", lab_release=B, rollout_batches=sizes, rollout_serving_minimum=0,
        rollout_soak_seconds=15, serve_start_timeout_seconds=BUDGET,
    ) as running:  # fmt: skip
        if faults[-1].startswith("killed"):
            victim = HOSTS[len(earlier) + len(faults) - 1]
            fleet.wait_phase(victim, "soak", running=running)
            fleet.on(victim, "pkill -KILL -u sglang -f sglang::scheduler")
    played = running.told()
    assert played.code == 2, played
    assert f"failed at {', '.join(victims)}, and no further batch began" in played.words, played
    table = played.table()
    for host, fault in victims.items():
        told = sentences(played, host)
        print(f"\n{fault}, batch {table[host][0]}: {told}\n  {table[host]} {fleet.stands(host)}")
        assert [word for word in FAULTS[fault] if word not in told] == [], (fault, told)
    assert is_back(fleet, victims), played
    assert {table[host][1] for host in victims} == {"went back"}, played
    # Batches before stay where they got to; those after it were not begun.
    assert [fleet.stands(host) for host in earlier] == [(B, True, False)] * len(earlier)
    assert {table[host][1] for host in earlier} <= {"done", "there already"}
    assert {host: fleet.state(host) for host in untouched} == before
    assert {table[host][1] for host in untouched} <= {"untouched"}
