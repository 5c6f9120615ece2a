# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet of all tests: one host prepared, four booted from its disk, a router, and release A on all of them."""

from __future__ import annotations

import os

import pytest
from ansible_collections.llmfleet.sglang.tests.fleet.fleet import BASE, HOSTS, ROUTER, Fleet, is_back
from ansible_collections.llmfleet.sglang.tests.lab import controller


@pytest.fixture(scope="session")
def fleet(tmp_path_factory):
    """The fleet on release A, deployed by a rollout to hosts that had nothing."""
    made = Fleet(tmp_path_factory.mktemp("fleet"))
    # For work on these tests: hosts that are there are taken as they are, and stay.
    kept = "LLMFLEET_FLEET_KEPT" in os.environ
    if kept and set(HOSTS) <= set(made.running()):
        made.first = None
        yield made
        return
    controller.offer()
    made.lab("down", *HOSTS, ROUTER, BASE)
    made.lab("up", BASE, "--suite=bookworm", f"--address={made.address[BASE]}")
    prepared = made.play("prepare.yml")
    assert prepared.code == 0, prepared
    made.lab("stop", BASE)
    for host in (*HOSTS, ROUTER):
        made.lab("up", host, "--like", BASE, f"--address={made.address[host]}")
    router = made.play("router.yml")
    assert router.code == 0, router
    made.first = made.play("rollout.yml", rollout_batches=["100%"])
    assert made.first.code == 0, made.first
    yield made
    if not kept:
        made.lab("down", *HOSTS, ROUTER, BASE)


@pytest.fixture
def on_a(fleet):
    """The fleet with every host on release A, verified and served, and without a fault."""
    for host in HOSTS:
        fleet.fault(host, "")
    if not is_back(fleet, HOSTS):
        played = fleet.play("rollout.yml", rollout_batches=["100%"], rollout_serving_minimum=0)
        assert played.code == 0, played
    return fleet
