# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Release B fails, each in its own way, on canaries and in a later batch; a host is gone. Several share a rollout."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.tests.fleet.fleet import HOSTS, A, B, until

# What the message must say of each fault; the first word is the phase.
FAULTS = {
    "crash": ["at the gate"],
    "die-after-ready=1": ["fl-"],
    "rank-wrong-size": ["at the gate", "rank"],
    "slow-load=900": ["at the gate"],
}
# The start budget of B in these tests, which only slow-load exceeds.
BUDGET = 60


def rolled(fleet, sizes, **more):
    return fleet.play(
        "rollout.yml", lab_release=B, rollout_batches=sizes, rollout_serving_minimum=0,
        serve_start_timeout_seconds=BUDGET, **more,
    )  # fmt: skip


def is_back(fleet, hosts):
    """All hosts are on A, verified, and served."""
    written = fleet.written()
    return all(fleet.stands(host) == (A, True, False) and written[host]["state"] == "serving" for host in hosts)


def sentences(played, host):
    """What the last message says of a host."""
    told = played.text.rpartition("TASK [llmfleet.sglang.rollout : Stop where something is wrong]")[2]
    return " ".join(line.strip() for line in told.splitlines() if line.strip().startswith(f"{host} "))


def hold(fleet, played, faults, sound):
    """The batch with these faults is back on A; each host is named with its phase; the sound ones went back as well."""
    assert played.code != 0, played
    assert "failed at" in played.words and "no further batch began" in played.words
    assert is_back(fleet, [*faults, *sound]), played
    table = played.table()
    assert {table[host][1] for host in [*faults, *sound]} == {"went back"}, played
    for host, fault in faults.items():
        told = sentences(played, host)
        print(f"{fault:18} batch {table[host][0]}  {told}")
        assert [word for word in FAULTS[fault] if word not in told] == [], (fault, told)


def test_on_canaries(on_a):
    faults = dict(zip(HOSTS, FAULTS))
    for host, fault in faults.items():
        on_a.fault(host, fault)
    hold(on_a, rolled(on_a, [4], rollout_soak_seconds=10), faults, [])


def test_in_a_later_batch(on_a):
    faults = dict(zip(HOSTS[1:], ["die-after-ready=1", "rank-wrong-size", "slow-load=900"]))
    for host, fault in faults.items():
        on_a.fault(host, fault)
    played = rolled(on_a, [1, 3], rollout_soak_seconds=10)
    hold(on_a, played, faults, [])
    # The batch before stays where it got to.
    assert on_a.stands("fl-1") == (B, True, False) and played.table()["fl-1"][1] == "done"


@pytest.mark.parametrize("later", [False, True], ids=["canary", "later"])
def test_only_in_the_soak(on_a, later):
    victim = "fl-2" if later else "fl-1"
    if later:
        on_a.fault("fl-3", "crash")
    sizes = [1, 2, 1]
    with on_a.playing(
        "rollout.yml", lab_release=B, rollout_batches=sizes, rollout_serving_minimum=0, rollout_soak_seconds=45
    ) as running:
        on_a.wait_phase(victim, "soak", running=running)
        on_a.on(victim, "pkill -KILL -f 'sglang::scheduler' || pkill -KILL -u sglang -f TP1")
    played = running.told()
    assert played.code != 0, played
    told = sentences(played, victim)
    print(f"killed in the soak  batch {played.table()[victim][0]}  {told}")
    assert "in the soak" in told, played
    batch = HOSTS[1:3] if later else HOSTS[:1]
    assert is_back(on_a, batch), played
    assert played.table()["fl-4"][1] == "untouched"
    if later:
        assert "at the gate" in sentences(played, "fl-3") and on_a.stands("fl-1") == (B, True, False)


def test_a_host_that_is_gone_before(on_a):
    before = {host: on_a.state(host) for host in HOSTS}
    with on_a.cut_off("fl-3"):
        played = rolled(on_a, [1, 3])
    assert played.code != 0 and "fl-3 did not answer, and nothing was changed" in played.words, played
    assert {host: on_a.state(host)["active"] for host in HOSTS} == {host: before[host]["active"] for host in HOSTS}


def test_a_host_that_goes_in_the_middle(on_a):
    with on_a.playing(
        "rollout.yml", lab_release=B, rollout_batches=[2, 2], rollout_serving_minimum=0, rollout_soak_seconds=30
    ) as running:
        on_a.wait_phase("fl-2", "soak", running=running)
        with on_a.cut_off("fl-2"):
            until(lambda: running.poll() is not None, "the end of the rollout")
    played = running.told()
    assert played.code != 0 and "fl-2 could not be reached any more" in played.words, played
    assert played.table()["fl-2"][1:] == ["unreachable", "drained"], played
    assert "fl-2 is out of the routers: rollout of" in played.words
    assert is_back(on_a, ["fl-1"]) and played.table()["fl-3"][1] == "untouched"
    # The same playbook again finishes it, and begins with the host that was left.
    again = rolled(on_a, ["100%"], rollout_soak_seconds=0)
    assert again.code == 0 and again.table()["fl-2"][:2] == ["1", "done"], again
    assert all(on_a.stands(host) == (B, True, False) for host in HOSTS)
