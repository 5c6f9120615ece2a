# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stamps are there whole or not at all, and one that is not understood is none."""

from __future__ import annotations

import os
import stat

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import stamp_file as subject


def test_a_stamp_is_read_as_it_was_written_whatever_the_umask_is(tmp_path):
    path = tmp_path / "stamp.json"
    before = os.umask(0o077)
    try:
        subject.write_stamp(str(path), {"b": 1, "a": "ü"})
        subject.write_stamp(str(path), {"b": 2, "a": "ü"})
    finally:
        os.umask(before)
    assert subject.read_stamp(str(path)) == {"a": "ü", "b": 2}
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == ["stamp.json"]
    subject.write_stamp(str(path), {}, 0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"text"', "{\xff", '{"format": 1}', '{"files": {}}'])
def test_what_is_no_stamp_counts_for_none(tmp_path, text):
    path = tmp_path / "stamp.json"
    path.write_bytes(text.encode("latin-1"))
    assert subject.read_stamp(str(path), lambda stamp: stamp["format"] == 2) is None
    assert subject.read_stamp(str(tmp_path / "absent")) is None
    assert subject.read_stamp(str(tmp_path)) is None


def test_a_stamp_that_cannot_be_written_leaves_the_old_one_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "stamp.json"
    subject.write_stamp(str(path), {"old": True})

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        subject.write_stamp(str(path), {"old": False})
    assert subject.read_stamp(str(path)) == {"old": True}
    assert os.listdir(tmp_path) == ["stamp.json"]


def test_what_a_killed_writer_left_is_no_hindrance_and_a_link_there_is_not_followed(tmp_path):
    path, other = tmp_path / "stamp.json", tmp_path / "other"
    other.write_text("mine")
    (tmp_path / f"stamp.json.{os.getpid()}").symlink_to(other)
    subject.write_stamp(str(path), {"new": True})
    assert subject.read_stamp(str(path)) == {"new": True}
    assert other.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["other", "stamp.json"]


def test_a_file_system_is_synced_by_its_own_call_or_with_all_others(tmp_path, monkeypatch):
    called = []
    monkeypatch.setattr(os, "sync", lambda: called.append("all"))
    subject.sync_file_system(str(tmp_path))
    assert called == []

    class Library:
        def __init__(self, _name, use_errno):
            pass

        @staticmethod
        def syncfs(_descriptor):
            return -1

    monkeypatch.setattr(subject.ctypes, "CDLL", Library)
    subject.sync_file_system(str(tmp_path))
    assert called == ["all"]
    with pytest.raises(FileNotFoundError):
        subject.sync_file_system(str(tmp_path / "absent"))
