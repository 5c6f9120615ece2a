# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What role rollout refuses before any host is asked, and in which words."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import fleet_settings

GOOD = {
    "batches": [1, "25%", "100%"],
    "serving_minimum": "50%",
    "canary_group": "sglang_canary",
    "canary_required": False,
    "capacity_timeout_seconds": 300,
    "soak_seconds": 60,
    "soak_poll_seconds": 2,
    "lock_host": "lb",
    "lock_path": "/var/lib/llmfleet/rollout.lock",
    "lock_lease_seconds": 14400,
    "start_timeout_seconds": 3600,
    "drain_timeout_seconds": 1800,
    "units": {"a": "a", "b": "b", "c": "c"},
    "groups": {"all": ["a", "b", "c", "lb"]},
    "known_hosts": ["a", "b", "c", "lb"],
    "limited": False,
}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"batches": ["2"], "soak_seconds": "0", "lock_lease_seconds": "10801"},
        {"serving_minimum": 2},
        {"serving_minimum": 0},
        # A limit: hosts that are not played on serve as well.
        {"serving_minimum": 9, "limited": True},
        # Without routers nothing is waited for before a stop.
        {"drain_timeout_seconds": "0", "lock_lease_seconds": 7261},
        {"canary_required": True, "groups": {"sglang_canary": ["a"]}},
        {"capacity_timeout_seconds": 0},
    ],
)
def test_what_is_good(change):
    assert fleet_settings.problems({**GOOD, **change}) == []


@pytest.mark.parametrize(
    "change, words",
    [
        ({"batches": []}, ["rollout_batches is []", "list of sizes"]),
        ({"batches": "50%"}, ['rollout_batches is "50%"']),
        ({"batches": [1, "half"]}, ['"half" is no size', "25%"]),
        ({"batches": [0]}, ["0 is no size"]),
        ({"batches": ["0%"]}, ['"0%" is no size']),
        ({"batches": [-1]}, ["-1 is no size"]),
        ({"batches": [1.5]}, ["1.5 is no size"]),
        ({"serving_minimum": "most"}, ["rollout_serving_minimum", "no percentage"]),
        ({"serving_minimum": -1}, ["rollout_serving_minimum is -1"]),
        ({"serving_minimum": 3}, ["rollout_serving_minimum is 3", "3 hosts", "set it below 3"]),
        ({"serving_minimum": "100%"}, ["rollout_serving_minimum", "none could ever be taken out"]),
        # Three nodes of one service are one.
        ({"serving_minimum": 1, "units": {"a": "x", "b": "x", "c": "x"}}, ["the fleet has 1 host,"]),
        ({"canary_required": True}, ["rollout_canary_group", "no such group"]),
        ({"soak_seconds": -1}, ["rollout_soak_seconds is -1", "0 for no soak"]),
        ({"soak_seconds": "long"}, ["rollout_soak_seconds"]),
        ({"soak_poll_seconds": 0}, ["rollout_soak_poll_seconds is 0"]),
        ({"capacity_timeout_seconds": None}, ["rollout_capacity_timeout_seconds is null"]),
        ({"lock_lease_seconds": 0}, ["rollout_lock_lease_seconds is 0"]),
        # Out, start and soak, and on a bad day out and a start once more.
        ({"lock_lease_seconds": 10860}, ["rollout_lock_lease_seconds is 10860", "10860 s", "run out meanwhile"]),
        ({"lock_lease_seconds": 7200}, ["rollout_lock_lease_seconds is 7200", "10860 s"]),
        ({"lock_host": "nobody"}, ["rollout_lock_host", "no such host"]),
        ({"lock_path": "lock"}, ["rollout_lock_path", "no absolute path"]),
    ],
)
def test_what_is_refused(change, words):
    problems = fleet_settings.problems({**GOOD, **change})
    assert len(problems) == 1
    assert [word for word in words if word not in problems[0]] == [], problems
