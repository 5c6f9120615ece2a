# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the file of the workers is replaced and locked: whole or not at all, and by one at a time."""

from __future__ import annotations

import json
import os
import stat

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import router_store as store
from ansible_collections.llmfleet.sglang.tests.unit.plugins import disk_trace

A, B = "http://a:1", "http://b:1"
ENTRY = store.entry_of("serving", "h", "s", "é", "me", "2026-01-01T00:00:00Z")


@pytest.fixture(name="path")
def fixture_path(tmp_path):
    return str(tmp_path / "new" / "router" / "workers.json")


def test_the_file_is_on_disk_before_it_takes_the_others_place(tmp_path, monkeypatch):
    path = str(tmp_path / "workers.json")
    store.write(path, {})
    trace = disk_trace.record(monkeypatch)
    store.write(path, {A: ENTRY})
    synced, replaced = trace[:2]
    assert synced[0] == "fsync" and json.loads(synced[2]) == {"workers": {A: ENTRY}}
    assert replaced == ("replace", synced[1], path) and os.path.dirname(synced[1]) == str(tmp_path)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_file_that_cannot_be_replaced_stays_as_it_was(tmp_path, monkeypatch, call):
    path = str(tmp_path / "workers.json")
    store.write(path, {A: ENTRY})

    def full(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space left"):
        store.write(path, {B: ENTRY})
    assert store.read(path) == {A: ENTRY} and os.listdir(tmp_path) == ["workers.json"]


def test_everybody_may_read_it_and_only_its_owner_writes(path):
    with disk_trace.umask(0o022):
        store.change(path, A, "serving", ENTRY)
    found = {name: stat.S_IMODE(os.stat(os.path.join(os.path.dirname(path), name)).st_mode) for name in
             os.listdir(os.path.dirname(path))}  # fmt: skip
    assert found == {"workers.json": 0o644, ".workers.lock": 0o644}
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o755
    with disk_trace.umask(0o077):
        store.write(path, {})
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o644


def test_a_second_change_waits_for_the_first(path):
    # The first one makes the folder and the lock's file; with both there it is the same.
    for _again in range(2):
        assert disk_trace.keeps_out(lambda: store.held(path), lambda: store.held(path))


def test_the_lock_is_given_back_also_by_one_that_fails(path):
    lock = os.path.join(os.path.dirname(path), ".workers.lock")
    before = disk_trace.open_descriptors()
    for _again in range(2):
        with pytest.raises(KeyError), store.held(path):
            assert disk_trace.is_locked(lock)
            raise KeyError
        assert not disk_trace.is_locked(lock)
    assert disk_trace.open_descriptors() == before


@pytest.mark.parametrize("call", [lambda path: store.change(path, A, "serving", ENTRY),
                                  lambda path: store.put(path, A, ENTRY)], ids=["change", "put"])  # fmt: skip
def test_what_changes_the_file_holds_the_lock(path, monkeypatch, call):
    seen, real = [], store.read

    def noted(name):
        seen.append(disk_trace.is_locked(os.path.join(os.path.dirname(path), ".workers.lock")))
        return real(name)

    monkeypatch.setattr(store, "read", noted)
    call(path)
    assert seen == [True] and real(path) == {A: ENTRY}
    before = os.stat(path).st_ino
    call(path)
    assert os.stat(path).st_ino == before, "what is so already is not written again"


def test_a_change_tells_what_was_and_what_is(path):
    assert store.change(path, A, "serving", ENTRY) == (None, ENTRY)
    drained = {**ENTRY, "state": "drained", "reason": "fan"}
    assert store.change(path, A, "drained", drained) == (ENTRY, drained)
    assert store.change(path, A, "absent") == (drained, None)
    assert store.change(path, A, "absent") == (None, None)


def test_putting_back_leaves_the_others_alone(path):
    for url in (A, B):
        store.change(path, url, "serving", ENTRY)
    store.put(path, A, None)
    assert store.read(path) == {B: ENTRY}
    store.put(path, A, {**ENTRY, "state": "drained"})
    assert store.read(path) == {A: {**ENTRY, "state": "drained"}, B: ENTRY}
    assert store.urls_in(store.read(path), "serving") == [B]


def test_the_text_is_one_that_people_compare():
    text = store.render({B: ENTRY, A: {**ENTRY, "reason": ""}})
    assert text.endswith("}\n") and text.index(A) < text.index(B)
    assert text.splitlines()[1:4] == ['  "workers": {', f'    "{A}": {{', '      "by": "me",']


def test_a_time_is_utc():
    assert store.moment(0) == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize("text", ["[]", '"workers"', "null", "7", "{}", '{"workers": null}'])
def test_another_content_is_not_taken_for_no_workers(text):
    with pytest.raises(store.Unreadable, match="has no mapping 'workers'"):
        store.parse(text)


def test_a_file_that_may_not_be_read_is_not_taken_for_none(tmp_path):
    with pytest.raises(IsADirectoryError):
        store.read(str(tmp_path))


def test_a_person_who_drains_what_a_person_drained_changes_nothing():
    first = {**ENTRY, "state": "drained", "by": "ann", "reason": "fan"}
    second = {**first, "by": "bob", "reason": "memory"}
    assert store.changed_workers({A: first}, A, "drained", second) == {A: first}
    # Put back and drained anew, it is the second one's.
    assert store.changed_workers({A: ENTRY}, A, "drained", second) == {A: second}
    rollout = {**first, "by": "rollout"}
    # A rollout does not take over what a person drained, and serving knows no such thing.
    assert store.changed_workers({A: first}, A, "drained", rollout) == {A: first}
    served = {**ENTRY, "by": "rollout"}
    assert store.changed_workers({A: served}, A, "serving", {**ENTRY, "by": "ann"}) == {A: served}
