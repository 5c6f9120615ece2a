# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last value that is good and the first that is not, of each variable of a rollout."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import fleet_settings

GOOD = {
    "batches": [1],
    "serving_minimum": 1,
    "canary_group": "",
    "capacity_timeout_seconds": 0,
    "soak_seconds": 0,
    "soak_poll_seconds": 2,
    "lock_host": "",
    "lock_path": "/run/lock",
    "lock_lease_seconds": 1,
    "start_timeout_seconds": 0,
    "drain_timeout_seconds": 0,
    "units": {"a": "a", "b": "b"},
    "known_hosts": ["a", "b"],
    "limited": False,
}


def names(**change):
    """Names of the variables that are refused."""
    return [sentence.split()[0] for sentence in fleet_settings.problems({**GOOD, **change})]


@pytest.mark.parametrize(
    ("name", "good", "wrong"),
    [
        ("batches", [1], [0]),
        ("batches", ["0.1%"], ["0.0%"]),
        ("batches", [1, 1], [1, "x"]),
        ("batches", [1], ()),
        ("batches", [1], None),
        ("batches", [1], {"1": 1}),
        ("serving_minimum", 1, 2),
        ("serving_minimum", "99%", "100%"),
        ("serving_minimum", 0, None),
        ("soak_seconds", 0, -0.001),
        ("soak_seconds", 0, None),
        ("soak_poll_seconds", 0.1, 0.099),
        ("soak_poll_seconds", "0.1", "0"),
        ("capacity_timeout_seconds", 0, -0.001),
        ("capacity_timeout_seconds", 1, True),
        ("lock_lease_seconds", 1, 0.999),
        ("lock_lease_seconds", 1, False),
        ("lock_lease_seconds", 1, []),
        ("lock_host", "a", "c"),
        ("lock_host", None, "c"),
        ("lock_path", "/", ""),
        ("lock_path", "/", None),
        ("lock_path", "/", "./lock"),
    ],
)
def test_the_border_of_each_variable(name, good, wrong):
    assert names(**{name: good}) == []
    assert names(**{name: wrong}) == [f"rollout_{name}"]


@pytest.mark.parametrize(
    ("lease", "good"), [(1 + 2 * (10 + 100), False), (1 + 2 * (10 + 100) + 1, True), (1, False), (0.5, False)]
)
def test_the_lock_outlives_a_batch_and_its_way_back(lease, good):
    change = {"soak_seconds": 1, "start_timeout_seconds": 10, "drain_timeout_seconds": 100}
    found = fleet_settings.problems({**GOOD, **change, "lock_lease_seconds": lease})
    assert len(found) == (0 if good else 1)
    assert good or lease < 1 or "may take 221 s" in found[0]


def test_a_time_that_is_no_number_is_told_once_and_not_counted():
    change = {"soak_seconds": "long", "start_timeout_seconds": None, "drain_timeout_seconds": "x"}
    assert names(**change) == ["rollout_soak_seconds"]
    assert names(lock_lease_seconds=None) == ["rollout_lock_lease_seconds"]


@pytest.mark.parametrize(
    ("group", "required", "groups", "good"),
    [
        ("c", True, {"c": ["a"]}, True),
        ("c", True, {"c": []}, False),
        ("c", True, {}, False),
        ("c", True, None, False),
        ("c", False, {}, True),
        ("", True, {}, True),
    ],
)
def test_a_canary_group_that_is_asked_for_has_hosts(group, required, groups, good):
    change = {"canary_group": group, "canary_required": required, "groups": groups}
    assert names(**change) == ([] if good else ["rollout_canary_group"])


def test_a_minimum_of_a_limited_run_is_not_held_against_it():
    assert names(serving_minimum=2, limited=True) == []
    assert names(serving_minimum="many", limited=True) == ["rollout_serving_minimum"]


def test_every_wrong_size_is_told_and_the_words_fit_the_count():
    found = fleet_settings.problems({**GOOD, "batches": [0, 1, "x"], "serving_minimum": 2})
    assert len(found) == 3 and "0 is no size" in found[0] and '"x" is no size' in found[1]
    assert found[2] == (
        "rollout_serving_minimum is 2: the fleet has 2 hosts, so none could ever be taken out; set it below 2."
    )
    assert "has 1 host, so" in fleet_settings.problems({**GOOD, "units": {"a": "x", "b": "x"}})[0]


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("soak_seconds", "0"),
        ("soak_poll_seconds", "0.1"),
        ("capacity_timeout_seconds", "0"),
        ("lock_lease_seconds", "1"),
    ],
)
def test_the_least_number_is_told(name, least):
    (found,) = fleet_settings.problems({**GOOD, name: -1})
    assert f"rollout_{name} is -1: it is no number of {least} or more; set " in found
