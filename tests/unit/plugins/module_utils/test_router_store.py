# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written down about workers: parsing, changes, and a file that is never half."""

from __future__ import annotations

import json
import os
import threading

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import router_store as store

A, B = "http://a:1", "http://b:1"


def entry(state="serving", host="h", service="s", reason="", by="me", since="2026-01-01T00:00:00Z"):
    return store.entry_of(state, host, service, reason, by, since)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is no JSON"),
        ("[]", "has no mapping 'workers'"),
        ('{"workers": []}', "has no mapping 'workers'"),
        ('{"workers": {"http://a:1": {"state": "gone"}}}', 'the state "gone"'),
        ('{"workers": {"http://a:1": 5}}', "the state null"),
    ],
)
def test_a_strange_file_is_refused_with_a_sentence(text, told):
    with pytest.raises(store.Unreadable, match=r"some\.json"):
        store.parse(text, "some.json")
    with pytest.raises(store.Unreadable) as caught:
        store.parse(text)
    assert told in str(caught.value)


def test_an_entry_that_somebody_wrote_by_hand_has_all_fields():
    assert store.parse('{"workers": {"http://a:1": {"state": "drained"}}}') == {
        A: entry("drained", host="", service="", by="", since="")
    }


def test_what_is_written_is_read_back(tmp_path):
    path = str(tmp_path / "workers.json")
    workers = {B: entry(), A: entry("drained", reason="fan")}
    store.write(path, workers)
    assert store.read(path) == workers
    assert os.stat(path).st_mode & 0o777 == 0o644
    assert [name for name in os.listdir(tmp_path) if name != "workers.json"] == []
    assert list(json.loads((tmp_path / "workers.json").read_text())["workers"]) == [A, B]


@pytest.mark.parametrize(
    ("before", "wanted", "given", "after"),
    [
        ({}, "serving", entry(), {A: entry()}),
        ({A: entry()}, "drained", entry("drained", reason="fan"), {A: entry("drained", reason="fan")}),
        ({A: entry()}, "drained", entry("drained", host="", service=""), {A: entry("drained")}),
        # Whoever drained it first stays named; host and service are corrected.
        (
            {A: entry("drained", reason="fan", by="first", host="old")},
            "drained",
            entry("drained", reason="other", by="second", host="new", service=""),
            {A: entry("drained", reason="fan", by="first", host="new")},
        ),
        # A person has a reason of his own, and a rollout would put the worker back.
        (
            {A: entry("drained", reason="rollout of B", by="rollout")},
            "drained",
            entry("drained", reason="fan", by="anna"),
            {A: entry("drained", reason="fan", by="anna")},
        ),
        (
            {A: entry("drained", reason="rollout of B", by="rollout")},
            "drained",
            entry("drained", by="anna"),
            {A: entry("drained", reason="rollout of B", by="rollout")},
        ),
        (
            {A: entry("drained", reason="rollout of B", by="rollout")},
            "drained",
            entry("drained", reason="rollout of C", by="rollout"),
            {A: entry("drained", reason="rollout of B", by="rollout")},
        ),
        ({A: entry(), B: entry()}, "absent", None, {B: entry()}),
        ({}, "absent", None, {}),
    ],
    ids=[
        "new",
        "drained",
        "unnamed",
        "drained-twice",
        "drained-over",
        "unreasoned",
        "rolled-twice",
        "absent",
        "absent-before",
    ],
)
def test_a_change_of_one_worker(before, wanted, given, after):
    kept = json.loads(json.dumps(before))
    assert store.changed_workers(before, A, wanted, given) == after
    assert before == kept


def test_changes_at_the_same_time_lose_nothing(tmp_path):
    path = str(tmp_path / "new" / "workers.json")
    urls = [f"http://h{number}:1" for number in range(24)]
    threads = [threading.Thread(target=store.change, args=(path, url, "serving", entry())) for url in urls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.urls_in(store.read(path), "serving") == sorted(urls)


def test_an_entry_goes_back_as_it_was(tmp_path):
    path = str(tmp_path / "workers.json")
    assert store.change(path, A, "drained", entry("drained")) == (None, entry("drained"))
    before, _after = store.change(path, A, "serving", entry())
    store.put(path, A, before)
    assert store.read(path) == {A: entry("drained")}
    store.put(path, A, None)
    assert store.read(path) == {}


def test_a_missing_file_has_no_workers(tmp_path):
    assert store.read(str(tmp_path / "none.json")) == {}
