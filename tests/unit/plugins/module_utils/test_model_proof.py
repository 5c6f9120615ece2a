# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib
import json
import os

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import model_manifest
from ansible_collections.llmfleet.sglang.plugins.module_utils import model_proof as subject
from hypothesis import given
from hypothesis import strategies as st

CONTENTS = {"a": b"first", "b": b"second" * 400_000, "c": b""}


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def git(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@pytest.fixture
def folder(tmp_path):
    for name, data in CONTENTS.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


@pytest.fixture
def expected():
    return {name: model_manifest.entry(len(data), sha256(data)) for name, data in CONTENTS.items()}


@pytest.fixture
def marks(folder):
    return {name: subject.mark_of(folder / name, sha256(data)) for name, data in CONTENTS.items()}


@given(st.binary(max_size=3000))
def test_sums_are_those_of_the_libraries(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("sum") / "file"
    path.write_bytes(data)
    counted = []
    assert subject.hash_file(path, len(data), counted.append) == (sha256(data), git(data))
    assert sum(counted) == len(data)
    assert subject.hash_file(path) == (sha256(data), None)


def test_all_files_are_read_when_nothing_is_known(folder, expected):
    counted = []
    proof = subject.prove(str(folder), CONTENTS, expected, add=counted.append)
    assert (proof["damaged"], sorted(proof["read"])) == ({}, ["a", "b", "c"])
    assert {name: mark["sha256"] for name, mark in proof["marks"].items()} == {
        name: sha256(data) for name, data in CONTENTS.items()
    }
    assert sum(counted) == sum(map(len, CONTENTS.values()))


def test_marks_spare_the_reading(folder, expected, marks):
    assert subject.prove(str(folder), CONTENTS, expected, marks)["read"] == []
    assert subject.prove(str(folder), CONTENTS, {}, marks)["read"] == []
    os.utime(folder / "a", ns=(1, 1))
    proof = subject.prove(str(folder), CONTENTS, expected, marks)
    assert (proof["read"], proof["damaged"]) == (["a"], {})
    assert proof["marks"]["a"]["mtime_ns"] == 1


@pytest.mark.parametrize("key", ["size", "mtime_ns", "inode"])
def test_each_part_of_a_mark_counts(folder, marks, key):
    marks["a"][key] += 1
    assert subject.changed_files(str(folder), marks) == ["a"]


def test_files_without_a_sum_are_only_read_when_asked_for(folder):
    proof = subject.prove(str(folder), CONTENTS, {})
    assert (proof["read"], proof["marks"]["a"]["sha256"]) == ([], None)
    for arguments in ({"full": True}, {"every": True}):
        proof = subject.prove(str(folder), CONTENTS, {}, **arguments)
        assert (sorted(proof["read"]), proof["marks"]["a"]["sha256"]) == (["a", "b", "c"], sha256(b"first"))


def test_a_full_check_believes_no_mark(folder, marks):
    status = (folder / "a").stat()
    (folder / "a").write_bytes(b"fiRst")
    os.utime(folder / "a", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert subject.prove(str(folder), ["a"], {}, marks)["damaged"] == {}
    told = subject.prove(str(folder), ["a"], {}, marks, full=True)["damaged"]["a"]
    assert told == f"a changed since it was stamped: its sha256 is {sha256(b'fiRst')}, it was {sha256(b'first')}"


def test_damage_is_told_with_both_sums(folder, expected):
    (folder / "a").write_bytes(b"fiRst")
    told = subject.prove(str(folder), CONTENTS, expected)
    assert told["damaged"] == {"a": f"a is damaged: its sha256 is {sha256(b'fiRst')}, expected is {sha256(b'first')}"}
    assert "a" not in told["marks"]
    blob = {"a": model_manifest.entry(5, None, git(b"first"))}
    told = subject.prove(str(folder), ["a"], blob)["damaged"]["a"]
    assert told == f"a is damaged: its git blob id is {git(b'fiRst')}, expected is {git(b'first')}"
    (folder / "a").write_bytes(b"first")
    assert subject.prove(str(folder), ["a"], blob)["marks"]["a"]["sha256"] == sha256(b"first")


@pytest.mark.parametrize(
    ("data", "word"), [(b"firs", "is short: it has 4 of 5"), (b"first!", "is too long: it has 6 of 5")]
)
def test_a_wrong_size_is_told_without_reading(folder, expected, data, word):
    (folder / "a").write_bytes(data)
    proof = subject.prove(str(folder), ["a"], expected)
    assert (proof["damaged"], proof["read"]) == ({"a": f"a {word} bytes"}, [])


def test_a_mark_of_another_sum_than_the_expected_is_not_believed(folder, expected, marks):
    marks["a"]["sha256"] = "0" * 64
    assert subject.prove(str(folder), ["a"], expected, marks)["read"] == ["a"]


def test_a_file_that_is_written_meanwhile_is_told(folder, expected, monkeypatch):
    original = subject.hash_file

    def write_meanwhile(path, *more):
        result = original(path, *more)
        os.utime(path, ns=(5, 5))
        return result

    monkeypatch.setattr(subject, "hash_file", write_meanwhile)
    told = subject.prove(str(folder), ["a"], expected)["damaged"]["a"]
    assert told == "a changed while it was read: another program writes to it"


def test_files_that_cannot_be_read_are_told(folder, expected, monkeypatch):
    def refuse(path, *_more):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(subject, "hash_file", refuse)
    assert subject.prove(str(folder), ["a", "gone"], expected)["damaged"] == {
        "a": "a cannot be read: Input/output error",
        "gone": "gone cannot be read: No such file or directory",
    }


def test_a_stamp_is_read_back(folder, marks):
    path = folder / ".stamp"
    subject.write_stamp(str(path), marks, "safetensors", "org/name", "1" * 40, now=7)
    stamp = subject.read_stamp(str(path))
    assert stamp == {
        "format": 2, "kind": "safetensors", "repo": "org/name", "revision": "1" * 40, "made": 7, "files": marks,
    }  # fmt: skip
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_stamp_that_cannot_be_written_leaves_nothing(folder, marks, monkeypatch):
    monkeypatch.setattr(subject.os, "replace", lambda _a, _b: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError):
        subject.write_stamp(str(folder / ".stamp"), marks, "bin", "", "")
    assert sorted(path.name for path in folder.iterdir()) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "null", '{"format": 2}', '{"format": 2, "files": []}', '{"format": 2, "files": {}}',
        '{"format": 1, "files": {"a": [1, 2]}}', '{"format": 2, "files": {"a": [1, 2]}}',
        '{"format": 2, "files": {"a": {"size": "1", "mtime_ns": 2}}}',
    ],
)  # fmt: skip
def test_a_stamp_that_is_none_is_not_believed(tmp_path, content):
    (tmp_path / "stamp").write_text(content)
    assert subject.read_stamp(str(tmp_path / "stamp")) is None


def test_progress_is_told_now_and_then():
    told, now = [], [0.0]
    progress = subject.Progress(10, lambda *state: told.append(state), pause=2, clock=lambda: now[0])
    for now[0] in (0.0, 1.0, 2.0, 3.0, 4.5):
        progress.add(2)
    assert told == [(2, 10), (6, 10), (10, 10)]
    progress.add(-4)
    assert progress.done == 6


def test_stamps_are_json_that_people_can_read(folder, marks):
    subject.write_stamp(str(folder / ".stamp"), marks, "bin", "", "")
    assert "\n" in (folder / ".stamp").read_text().strip()
    assert set(json.loads((folder / ".stamp").read_text())["files"]["a"]) == {"size", "mtime_ns", "inode", "sha256"}
