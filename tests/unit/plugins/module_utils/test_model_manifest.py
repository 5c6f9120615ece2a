# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import model_manifest as subject
from hypothesis import given
from hypothesis import strategies as st

ONE, TWO, BLOB = "1" * 64, "2" * 64, "b" * 40


def entry(size=None, sha256=None, git=None):
    return {"size": size, "sha256": sha256, "git": git}


def test_the_hubs_list_gives_sha256_for_what_is_in_lfs_and_a_blob_id_for_the_rest():
    tree = [
        {"type": "directory", "path": "sub", "oid": BLOB, "size": 0},
        {"type": "file", "path": "config.json", "oid": BLOB, "size": 2},
        {"type": "file", "path": "sub/a.safetensors", "oid": BLOB, "size": 9,
         "lfs": {"oid": ONE, "size": 9, "pointerSize": 134}, "xetHash": TWO},
        {"type": "file", "path": "old.bin", "oid": BLOB, "size": 9, "lfs": {"oid": f"sha256:{TWO}"}},
    ]  # fmt: skip
    assert subject.from_hub_tree(tree) == {
        "config.json": entry(2, None, BLOB),
        "sub/a.safetensors": entry(9, ONE),
        "old.bin": entry(9, TWO),
    }


@pytest.mark.parametrize(
    ("tree", "word"),
    [
        ({"error": "x"}, "is no list"),
        (["x"], "an entry without path"),
        ([{"type": "file", "path": "a"}], "an entry without path"),
        ([{"type": "file", "path": "../a", "size": 1, "oid": BLOB}], "'../a', which is no file below the folder"),
        ([{"type": "file", "path": "/a", "size": 1, "oid": BLOB}], "'/a'"),
        ([{"type": "file", "path": "a", "size": 1, "oid": "short"}], "a sum for a that is none: 'short'"),
        ([{"type": "file", "path": "a", "size": 1, "lfs": {"oid": "zz"}}], "a sum for a that is none: 'zz'"),
    ],
)
def test_an_answer_that_is_no_list_of_files_is_refused(tree, word):
    with pytest.raises(subject.ManifestError, match=word):
        subject.from_hub_tree(tree)


@pytest.mark.parametrize(
    "text",
    [
        f"{ONE}  a.json\n{TWO}  sub/b\n",
        f"{ONE} *a.json\n{TWO} *sub/b\n",
        f"{ONE.upper()}  ./a.json\r\n\r\n# a remark\n{TWO}  ./sub/b",
        f"SHA256 (a.json) = {ONE}\nSHA256 (sub/b) = {TWO}\n",
        f"{ONE}  a.json\n{ONE}  a.json\n{TWO}  sub/b\n{TWO}  SHA256SUMS\n{TWO}  .llmfleet-model.json\n",
    ],
)
def test_lists_of_sums_in_every_form(text):
    assert subject.from_sums(text) == {"a.json": entry(None, ONE), "sub/b": entry(None, TWO)}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("<html>", "line 1 is not what sha256sum prints: '<html>'"),
        (f"{ONE}  a\n{'1' * 40}  b", "line 2"),
        (f"{ONE}  a\n{TWO}  a", "line 2 gives a a second sum"),
        (f"{ONE}  a/../../b", "no file below the folder"),
        (f"{ONE}  /etc/passwd", "no file below the folder"),
    ],
)
def test_what_is_no_list_of_sums_is_refused_with_its_line(text, word):
    with pytest.raises(subject.ManifestError, match=word):
        subject.from_sums(text)


@given(st.dictionaries(st.from_regex(r"[a-z][a-z0-9 ._-]{0,8}[a-z0-9]", fullmatch=True),
                       st.from_regex(r"[0-9a-f]{64}", fullmatch=True)))  # fmt: skip
def test_what_sha256sum_prints_is_read_back(sums):
    text = "".join(f"{sha256}  {name}\n" for name, sha256 in sums.items())
    assert subject.from_sums(text) == {name: entry(None, sha256) for name, sha256 in sums.items()}


@pytest.mark.parametrize("name", ["", ".", "..", "a//b", "a/./b", "a/../b", "/a", "a/", "a\\b", "a\0b", None, 5])
def test_names_that_lead_elsewhere_are_refused(name):
    with pytest.raises(subject.ManifestError):
        subject.safe_name(name)


def test_a_list_for_requests_is_read_back():
    manifest = {"b": entry(2, TWO), "a": entry(1, ONE)}
    content = subject.to_list(manifest)
    assert [item["name"] for item in content] == ["a", "b"]
    assert subject.from_list(content) == manifest
    with pytest.raises(subject.ManifestError):
        subject.from_list([{"name": "a"}])


def test_a_folders_own_list_comes_first(tmp_path):
    (tmp_path / "SHA256SUMS").write_text(f"{ONE}  a\n")
    assert subject.from_folder(str(tmp_path), ["a", "b"]) == ({"a": entry(None, ONE)}, "SHA256SUMS")
    (tmp_path / "SHA256SUMS").write_text("rubbish")
    with pytest.raises(subject.ManifestError, match="SHA256SUMS is no list of sums: line 1"):
        subject.from_folder(str(tmp_path), ["a"])


def test_what_the_hubs_client_noted_counts_while_it_is_fresh(tmp_path):
    notes = tmp_path / ".cache" / "huggingface" / "download"
    notes.mkdir(parents=True)
    for name, etag in (("a", ONE), ("b", f'"{TWO}"'), ("small", BLOB), ("late", ONE)):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (1000, 1000))
        (notes / f"{name}.metadata").write_text(f"commit\n{etag}\n{900 if name == 'late' else 1000.5}\n")
    found = subject.from_folder(str(tmp_path), ["a", "b", "small", "late", "none"])
    assert found == ({"a": entry(None, ONE), "b": entry(None, TWO)}, "huggingface_hub")


def test_a_snapshot_of_the_hubs_cache_names_its_blobs(tmp_path):
    (tmp_path / "blobs").mkdir()
    for name, blob in (("a", ONE), ("small", BLOB)):
        (tmp_path / "blobs" / blob).write_text(name)
        (tmp_path / name).symlink_to(f"blobs/{blob}")
    assert subject.from_folder(str(tmp_path), ["a", "small"]) == ({"a": entry(None, ONE)}, "huggingface_hub")
    assert subject.from_folder(str(tmp_path), ["small"]) == ({}, "")
