# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host says about its services, from the texts that systemd and the roles leave."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import service_look

SHOWN = """\
Result=success
NRestarts=2
Id=sglang-kimi.service
LoadState=loaded
ActiveState=active
SubState=running
InvocationID=0123456789abcdef0123456789abcdef
ActiveEnterTimestampMonotonic=40000000

Result=success
NRestarts=0
Id=sglang-qwen.service
LoadState=not-found
ActiveState=inactive
SubState=dead
ActiveEnterTimestampMonotonic=0
"""


def test_services_are_those_that_are_kept_and_those_that_are_asked_for():
    found = service_look.service_names(["kimi"], ["kimi.env", "qwen.env", "notes.txt"], ["embed"])
    assert found == ["embed", "kimi", "qwen"]


def test_each_block_is_one_unit():
    units = service_look.parse_blocks(SHOWN)
    assert sorted(units) == ["sglang-kimi.service", "sglang-qwen.service"]
    assert units["sglang-kimi.service"]["NRestarts"] == "2"
    assert service_look.uptime_seconds(units["sglang-kimi.service"], 100.9) == 60
    assert service_look.uptime_seconds(units["sglang-qwen.service"], 100.9) is None


@pytest.mark.parametrize(
    ("load", "active", "expected"),
    [
        ("loaded", "active", "running"),
        ("loaded", "activating", "loading"),
        ("loaded", "deactivating", "loading"),
        ("loaded", "inactive", "stopped"),
        ("loaded", "failed", "failed"),
        ("not-found", "inactive", "missing"),
        ("not-found", "active", "missing"),
        (None, None, "missing"),
    ],
)
def test_the_state_of_a_unit_is_one_word(load, active, expected):
    assert service_look.condition({"LoadState": load, "ActiveState": active}) == expected


@pytest.mark.parametrize(
    ("fact", "invocation", "expected"),
    [
        ({"verdict": "pass", "invocation_id": "a" * 32}, "a" * 32, True),
        ({"verdict": "pass", "invocation_id": "a" * 32}, "b" * 32, False),
        ({"verdict": "pass", "invocation_id": None}, None, False),
    ],
)
def test_a_kept_verdict_is_about_one_start(fact, invocation, expected):
    kept = service_look.kept_verdict(fact, 1000.0, invocation, 1090.5)
    assert kept["current"] is expected
    assert kept["age_seconds"] == 90


@pytest.mark.parametrize("fact", [None, [], {}, {"verdict": ""}])
def test_what_is_no_verdict_is_none(fact):
    assert service_look.kept_verdict(fact, 1000.0, "a" * 32, 1090.5) is None


def test_a_service_without_a_store_is_described_by_its_unit_alone():
    unit = service_look.parse_blocks(SHOWN)["sglang-kimi.service"]
    found = service_look.describe("kimi", unit, None, {})
    assert (found["condition"], found["restarts"], found["release"], found["id"]) == ("running", 2, None, None)
    assert found["pending"] is None and found["rollout"] is None


def test_a_store_tells_release_model_ranks_and_what_is_outstanding():
    store = {
        "id": "0.5.23-aa-11111111",
        "state": {"active": "0.5.23-bb-22222222", "pending": {"reasons": ["The port changes."]}, "rollout": None},
        "record": {
            "release": "0.5.23", "model_revision": "c91c", "url": "http://127.0.0.1:30000",
            "verify": {"ranks": "8", "node_rank": "1"},
        },
    }  # fmt: skip
    found = service_look.describe("kimi", service_look.parse_blocks(SHOWN)["sglang-kimi.service"], None, store)
    assert (found["release"], found["model_revision"], found["ranks_expected"]) == ("0.5.23", "c91c", 8)
    assert (found["id"], found["active_id"]) == ("0.5.23-aa-11111111", "0.5.23-bb-22222222")
    assert found["pending"] == ["The port changes."]
    assert found["node_rank"] == 1
