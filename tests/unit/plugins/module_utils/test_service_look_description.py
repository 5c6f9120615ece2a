# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every key of a service's description, with everything there and with nothing there, and what systemd is asked for."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import service_look
from hypothesis import given
from hypothesis import strategies as st

UNIT = {"Id": "sglang-kimi.service", "LoadState": "loaded", "ActiveState": "failed", "SubState": "failed"}


def test_systemd_is_asked_for_all_that_is_read():
    argv = service_look.show_argv(["sglang-a.service", "-odd.service"])
    assert argv[:2] == ["systemctl", "show"] and "--no-pager" in argv
    # A unit's name that begins with a dash is no option.
    assert argv[-3:] == ["--", "sglang-a.service", "-odd.service"]
    (asked,) = [word for word in argv if word.startswith("--property=")]
    assert set(asked[len("--property=") :].split(",")) == {
        "Id", "LoadState", "ActiveState", "SubState", "Result", "InvocationID", "NRestarts",
        "ActiveEnterTimestampMonotonic", "MainPID", "DropInPaths",
    }  # fmt: skip


def test_names_come_from_folders_files_and_wishes():
    assert service_look.service_names([], ["kimi-k2.5.env", ".env", "env", "a.env.bak"], []) == ["", "kimi-k2.5"]
    assert service_look.service_names(["b", "a"], ["a.env"], ["c", "b"]) == ["a", "b", "c"]


def test_the_file_of_a_verdict_is_named_as_a_fact_may_be():
    assert service_look.fact_file("kimi-k2-int4") == "sglang_kimi_k2_int4.fact"


def test_values_may_have_equal_signs_and_blocks_need_a_name():
    text = "Id=a.service\nResult=x=y\nnoise\n\nResult=nobody's\n\nId=\nResult=empty\n\nId=b.service"
    assert service_look.parse_blocks(text) == {
        "a.service": {"Id": "a.service", "Result": "x=y"},
        "b.service": {"Id": "b.service"},
    }
    assert service_look.parse_blocks("") == {}


@pytest.mark.parametrize(
    ("state", "entered", "now", "seconds"),
    [
        ("active", "40000000", 100.9, 60),
        ("active", "40999999", 41.0, 0),
        ("active", "1000000000000", 1000002.5, 2),
        # The clock was read before the unit became active.
        ("active", "41000000", 40.0, 0),
        ("active", "39000000", 40.0, 1),
        ("active", "0", 40.0, None),
        ("active", "", 40.0, None),
        ("active", "n/a", 40.0, None),
        ("active", None, 40.0, None),
        ("failed", "39000000", 40.0, None),
        ("inactive", "39000000", 40.0, None),
    ],
)
def test_how_long_a_unit_is_up(state, entered, now, seconds):
    unit = {"ActiveState": state, "ActiveEnterTimestampMonotonic": entered}
    assert service_look.uptime_seconds(unit, now) == seconds


@pytest.mark.parametrize("state", ["activating", "reloading", "refreshing", "deactivating"])
def test_a_unit_on_its_way_is_loading(state):
    assert service_look.condition({"LoadState": "loaded", "ActiveState": state}) == "loading"


@pytest.mark.parametrize(("load", "active"), [("", "active"), ("loaded", "maintenance"), ("masked", "inactive")])
def test_other_words_of_systemd(load, active):
    assert service_look.condition({"LoadState": load, "ActiveState": active}) == ("stopped" if load else "missing")


FACT = {
    "verdict": "fail", "invocation_id": "i1", "ranks_seen": 7, "total_gb": 156.7, "expected_gb": 179.1,
    "summary": "FAIL - 7 of 8 ranks",
}  # fmt: skip


def test_a_kept_verdict_has_its_figures():
    assert service_look.kept_verdict(FACT, 1000.0, "i1", 1001.9) == {
        "verdict": "fail", "source": "kept", "age_seconds": 1, "current": True, "ranks_seen": 7, "total_gb": 156.7,
        "expected_gb": 179.1, "summary": "FAIL - 7 of 8 ranks",
    }  # fmt: skip
    assert service_look.kept_verdict({"verdict": "pass"}, 1000.0, "i1", 1000.5) == {
        "verdict": "pass", "source": "kept", "age_seconds": 0, "current": False, "ranks_seen": None, "total_gb": None,
        "expected_gb": None, "summary": "",
    }  # fmt: skip


@given(st.floats(0, 2e9), st.floats(0, 2e9))
def test_the_age_of_a_verdict_is_never_below_zero(written, now):
    age = service_look.kept_verdict(FACT, written, "i1", now)["age_seconds"]
    assert age >= 0 and (now <= written or age <= now - written < age + 1)


@pytest.mark.parametrize("invocation", ["", None])
def test_no_verdict_is_about_a_service_that_does_not_run(invocation):
    assert service_look.kept_verdict({**FACT, "invocation_id": invocation}, 0.0, invocation, 1.0)["current"] is False


def test_a_service_with_everything():
    verify = {"node_rank": "1", "ranks": "8", "port": 30000}
    store = {
        "id": "0.5.23-11111111",
        "state": {"active": "0.5.23-22222222", "pending": {"reasons": ["A port."]}, "rollout": {"to": "x"}},
        "record": {
            "release": "0.5.23", "model_path": "/srv/m", "model_revision": "c91c", "url": "http://h:1",
            "verify": verify,
        },
    }  # fmt: skip
    unit = {**UNIT, "Result": "oom-kill", "InvocationID": "i1", "NRestarts": "3"}
    assert service_look.describe("kimi", unit, FACT, store) == {
        "name": "kimi", "unit": "sglang-kimi.service", "condition": "failed", "result": "oom-kill",
        "invocation_id": "i1", "restarts": 3, "release": "0.5.23", "id": "0.5.23-11111111",
        "active_id": "0.5.23-22222222", "model_path": "/srv/m", "model_revision": "c91c", "url": "http://h:1",
        "node_rank": 1, "ranks_expected": 8, "pending": ["A port."], "rollout": {"to": "x"},
        "verify": verify, "verdict": FACT,
    }  # fmt: skip


@pytest.mark.parametrize("store", [{}, {"state": None, "record": None}, {"state": {"pending": None}, "record": {}}])
@pytest.mark.parametrize("unit", [{}, {"LoadState": "not-found", "Result": "", "InvocationID": "", "NRestarts": "0"}])
def test_a_service_with_nothing(unit, store):
    assert service_look.describe("kimi", unit, None, store) == {
        "name": "kimi", "unit": "sglang-kimi.service", "condition": "missing", "result": "", "invocation_id": None,
        "restarts": None, "release": None, "id": None, "active_id": None, "model_path": None, "model_revision": None,
        "url": None, "node_rank": 0, "ranks_expected": None, "pending": None, "rollout": None, "verify": {},
        "verdict": None,
    }  # fmt: skip


def test_a_record_with_empty_words_is_told_as_one_without():
    record = dict.fromkeys(("release", "model_path", "model_revision", "url"), "")
    found = service_look.describe("kimi", UNIT, None, {"record": {**record, "verify": {"node_rank": "", "ranks": ""}}})
    assert [found[name] for name in record] == [None] * 4
    assert (found["node_rank"], found["ranks_expected"], found["restarts"]) == (0, None, None)
