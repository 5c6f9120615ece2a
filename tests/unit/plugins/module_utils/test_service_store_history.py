# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of configurations, what runs, what a service may go back to, what may be removed, and what a change means."""

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import service_store, unit_changes
from hypothesis import given
from hypothesis import strategies as st

A, B, C, D = "ABCD"
IDS = st.sampled_from("ABCDEFGH")


def state(active=None, verified=(), pending=None, rollout=None):
    entries = [{"id": one, "invocation_id": f"start {number}"} for number, one in enumerate(verified)]
    return {"active": active, "verified": entries, "pending": pending, "rollout": rollout}


# -- names --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("kimi", True),
        ("K2.5_b-1", True),
        ("", False),
        (".kimi", False),
        ("-kimi", False),
        ("kimi/..", False),
        ("kimi\n", False),
        ("kimi qwen", False),
        # A file beside the folder has these endings.
        ("kimi.env", False),
        ("kimi.json", False),
        ("kimi.service", False),
    ],
)
def test_a_service_has_a_name_that_is_one_file(name, good):
    assert service_store.is_service_name(name) is good


def test_an_id_is_the_releases_folder_and_a_digest():
    found = service_store.config_id("/opt/sglang/0.5.23-0123456789ab/", "unit", "env")
    assert re.fullmatch(r"0\.5\.23-0123456789ab-[0-9a-f]{8}", found)
    # Known from hosts: a digest that changes makes every service restart.
    assert service_store.config_id("/opt/r", "unit", "env") == "r-19135e54"
    assert service_store.config_id("", "unit", "env").startswith("release-")
    assert service_store.config_id("/opt/r", "\udcff", "").startswith("r-")


@given(st.text(max_size=4), st.text(max_size=4), st.text(max_size=4), st.text(max_size=4))
def test_two_configurations_have_two_ids(unit, environment, other_unit, other_environment):
    one, other = (unit, environment), (other_unit, other_environment)
    ids = [service_store.config_id("/opt/r", *texts) for texts in (one, other)]
    assert (ids[0] == ids[1]) == (one == other)


def test_text_that_moves_from_the_unit_to_the_environment_is_another_configuration():
    cuts = ["", "a", "ab", "abc"]
    found = {service_store.config_id("/opt/r", cut, "abc"[len(cut) :]) for cut in cuts}
    assert len(found) == len(cuts)


def test_a_time_is_utc():
    assert service_store.utc(0) == "1970-01-01T00:00:00Z"
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", service_store.utc())


# -- what runs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pending", "invocation", "runs"),
    [
        (None, "i1", B),
        (None, None, B),
        # The start that was to be replaced still runs.
        ({"invocation_id": "i1", "runs": A}, "i1", A),
        ({"invocation_id": "i1", "runs": None}, "i1", None),
        # It was replaced, by the run that broke off or by another hand.
        ({"invocation_id": "i1", "runs": A}, "i2", B),
        # Nothing runs: what comes next is the active one.
        ({"invocation_id": "", "runs": A}, "", B),
        ({"invocation_id": None, "runs": A}, None, B),
        ({"runs": A}, "i1", B),
    ],
)
def test_which_configuration_a_start_has(pending, invocation, runs):
    assert service_store.running_id(state(active=B, pending=pending), invocation) == runs


# -- what was verified --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verified", "entry", "ids"),
    [
        ([], {"id": A, "invocation_id": "start 0"}, [A]),
        ([A], {"id": A, "invocation_id": "start 0"}, None),
        # The same configuration, started once more; and another one in the same start.
        ([A], {"id": A, "invocation_id": "start 1"}, [A, A]),
        ([A], {"id": B, "invocation_id": "start 0"}, [A, B]),
        ([A, B], {"id": A, "invocation_id": "start 0"}, [A, B, A]),
    ],
)
def test_a_verified_start_is_noted_once(verified, entry, ids):
    before = state(active=D, verified=verified, rollout={"from": C})
    kept = json.loads(json.dumps(before))
    after = service_store.with_verified(before, entry)
    assert before == kept
    if ids is None:
        assert after is None
    else:
        assert [one["id"] for one in after["verified"]] == ids and after["verified"][-1] == entry
        assert {**after, "verified": kept["verified"]} == kept


@given(st.lists(IDS, max_size=60))
def test_whatever_is_forgotten_the_order_of_first_starts_stays(history):
    now = service_store.empty_state()
    for number, one in enumerate(history):
        now = service_store.with_verified(now, {"id": one, "invocation_id": str(number)})
    ids = [entry["id"] for entry in now["verified"]]
    assert len(ids) == min(len(history), service_store.VERIFIED_KEPT)
    # Fewer configurations than places: each one stays known, in the order in which they came.
    assert list(dict.fromkeys(ids)) == list(dict.fromkeys(history))
    assert ids[-1:] == history[-1:]


@pytest.mark.parametrize(
    ("active", "verified", "present", "found"),
    [
        (B, [A, B], {A, B}, A),
        # The newest one, not the first; and never where the service is already.
        (C, [A, B, C], {A, B, C}, B),
        (B, [A, C, B], {A, B, C}, C),
        (B, [A, B, A, B], {A, B}, A),
        (A, [A], {A}, None),
        (B, [], {A, B}, None),
        # One that was removed cannot be gone back to, and one that was never verified must not.
        (C, [A, B, C], {A, C}, A),
        (B, [A, B], {B}, None),
        (B, [B], {A, B, C}, None),
        (None, [A], {A}, A),
    ],
)
def test_what_a_service_may_go_back_to(active, verified, present, found):
    assert service_store.last_verified(state(active, verified), present) == found


# -- what may be removed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_state", "newest_first", "kept", "removed"),
    [
        (state(), [D, C, B, A], 2, [B, A]),
        (state(), [D, C, B, A], 4, []),
        (state(), [D, C, B, A], 0, [D, C, B, A]),
        (state(active=A), [D, C, B, A], 1, [C, B]),
        (state(active=D, pending={"runs": B}), [D, C, B, A], 1, [C, A]),
        (state(active=D, pending={"runs": None}), [D, C, B, A], 1, [C, B, A]),
        # The last verified ones stay, whatever is newer.
        (state(active=D, verified=[A, B]), [D, C, B, A], 1, [C, A]),
        (state(active=D, verified=[A, B, A]), [D, C, B, A], 1, [C, B]),
        (state(active=D, verified=[A, B, B, B]), [D, C, B, A], 2, []),
        # Where a rollout goes, or comes from, is needed for its way back.
        (state(active=D, rollout={"from": B, "to": A}), [D, C, B, A], 1, [C]),
    ],
)
def test_what_is_superfluous(given_state, newest_first, kept, removed):
    assert service_store.superfluous(given_state, newest_first, kept) == removed


@given(st.lists(IDS, unique=True), st.lists(IDS), st.none() | IDS, st.none() | IDS, st.none() | IDS, st.integers(1, 5))
def test_nothing_that_is_in_use_or_may_be_gone_back_to_is_removed(newest_first, verified, active, runs, origin, kept):
    now = state(active, verified, {"runs": runs} if runs else None, {"from": origin} if origin else None)
    removed = service_store.superfluous(now, newest_first, kept)
    assert not {active, runs, origin} & set(removed)
    assert not set(newest_first[:kept]) & set(removed)
    newest = list(dict.fromkeys(reversed(verified)))[:kept]
    assert not set(newest) & set(removed)
    assert removed == [one for one in newest_first if one in removed]
    # And it does not keep everything.
    assert len(set(newest_first) - set(removed)) <= 2 * kept + 3


# -- what a change means ------------------------------------------------------------------------------------------

UNIT = "[Service]\nMemoryMax=1G\nExecStart=/usr/bin/python -m sglang.launch_server --port 30000\n"
PORT = UNIT.replace("30000", "30001")
LIVE = UNIT.replace("1G", "2G")
TARGET = (UNIT, 'A="1"\n')


def words(runs, disk, target=TARGET, pending=None, invocation="i1", need_reload=False):
    changes, reasons = service_store.changes_of(
        state(pending=pending), invocation, {"runs": runs, "disk": disk}, target, need_reload
    )
    return len(changes), reasons


def why(before, after):
    return unit_changes.restart_reasons(unit_changes.changes_between(before[0], after[0], before[1], after[1]))


@pytest.mark.parametrize("need_reload", [False, True])
def test_a_service_that_is_what_it_should_be_has_no_change(need_reload):
    assert words(TARGET, TARGET, need_reload=need_reload) == (0, [])


def test_a_change_that_systemd_takes_up_live_is_no_restart():
    assert words((LIVE, TARGET[1]), (LIVE, TARGET[1])) == (1, [])


def test_a_change_is_told_once_although_store_and_disk_both_show_it():
    other = (PORT, TARGET[1])
    assert why(other, TARGET) and words(other, other) == (1, why(other, TARGET))
    # The copies were changed by another hand as well, in another place.
    both = (PORT, 'A="2"\n')
    count, reasons = words(other, both)
    assert count == 2 and set(why(other, TARGET)) < set(reasons) and set(why(both, TARGET)) <= set(reasons)


def test_what_another_hand_changed_on_disk_counts():
    edited = (PORT, TARGET[1])
    assert words(TARGET, edited) == (1, why(edited, TARGET))
    # systemd has not read the unit, so that no start can have it; the environment is read at each start.
    assert words(TARGET, edited, need_reload=True) == (0, [])
    environment = (UNIT, 'A="2"\n')
    assert words(TARGET, environment, need_reload=True) == (1, why(environment, TARGET))


def test_a_run_that_broke_off_changed_the_copies_itself_and_noted_what_runs():
    pending, old = {"invocation_id": "i1", "runs": A}, (PORT, TARGET[1])
    assert words(old, (LIVE, TARGET[1]), pending=pending) == (1, why(old, TARGET))
    # Of another start that note says nothing.
    count, reasons = words(old, (LIVE, 'A="2"\n'), pending=pending, invocation="i2")
    assert count == 3 and len(reasons) > len(why(old, TARGET))


def test_where_nobody_knows_what_runs_the_reasons_of_the_broken_run_stay():
    pending = {"invocation_id": "i1", "runs": None, "reasons": ["The port changes."]}
    assert words(None, TARGET, pending=pending) == (0, ["The port changes."])
    assert words(None, TARGET, pending={**pending, "reasons": None}) == (0, [])
    assert words(None, TARGET, pending=pending, invocation="i2") == (0, [])
    edited = (PORT, TARGET[1])
    told = why(edited, TARGET)
    assert words(None, edited, pending={**pending, "reasons": [*told, "More."]}) == (1, [*told, "More."])
    # What the store knows of is compared, and needs no note.
    assert words(TARGET, TARGET, pending=pending) == (0, [])


def test_where_nobody_knows_what_runs_an_unread_unit_is_a_reason():
    (count, reasons) = words(None, TARGET, need_reload=True)
    assert count == 0 and len(reasons) == 1 and "nobody knows what runs" in reasons[0]
    assert words(None, TARGET) == (0, [])
    edited = (PORT, TARGET[1])
    assert words(None, edited, need_reload=True)[1] == [*why(edited, TARGET), *reasons]
    pending = {"invocation_id": "i1", "runs": None, "reasons": ["The port changes."]}
    assert words(None, TARGET, pending=pending, need_reload=True) == (0, ["The port changes."])
