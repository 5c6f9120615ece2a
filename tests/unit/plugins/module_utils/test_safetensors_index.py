# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import struct
import zipfile

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import safetensors_index as subject
from hypothesis import given
from hypothesis import strategies as st

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 9000000000\n"


def safetensors(tensors, padding=0):
    """Bytes of a safetensors file: ``{name: (dtype, shape, data)}``."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode() + b" " * padding
    return struct.pack("<Q", len(text)) + text + data


def with_header(header):
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return struct.pack("<Q", len(text)) + text


SHARDS = {
    "model-00001-of-000002.safetensors": {"a": ("BF16", [2, 3], b"x" * 12), "b": ("F32", [2], b"y" * 8)},
    "model-00002-of-000002.safetensors": {"c": ("I32", [4], b"z" * 16)},
}


@pytest.fixture
def folder(tmp_path):
    """A complete model of two shards with an index."""
    (tmp_path / "config.json").write_text('{"model_type": "deepseek_v3"}')
    weight_map = {}
    for name, tensors in SHARDS.items():
        (tmp_path / name).write_bytes(safetensors(tensors))
        weight_map.update(dict.fromkeys(tensors, name))
    index = {"metadata": {"total_size": 36}, "weight_map": weight_map}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    return tmp_path


def check(folder):
    return subject.check_folder(str(folder))


def test_complete_folder(folder):
    (folder / "README.md").write_text("not a weight")
    result = check(folder)
    assert result["problems"] == []
    assert result["complete"] is True
    assert result["kind"] == "safetensors-index"
    assert result["files"] == ["config.json", *sorted(SHARDS), "model.safetensors.index.json"]
    assert result["total_bytes"] == sum((folder / name).stat().st_size for name in result["files"])


def test_every_missing_shard_is_named(folder):
    for name in SHARDS:
        (folder / name).unlink()
    result = check(folder)
    assert result["complete"] is False
    assert result["missing"] == sorted(SHARDS)
    assert result["problems"] == [f"{name} is missing" for name in sorted(SHARDS)]


@pytest.mark.parametrize("kept", [0, 5, 8, 20, -1])
def test_short_shard(folder, kept):
    path = folder / "model-00001-of-000002.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:kept])
    result = check(folder)
    assert result["complete"] is False
    assert result["short"] == [path.name]
    if kept == -1:
        assert result["problems"] == [f"{path.name} is short: it has {len(whole) - 1} of {len(whole)} bytes"]


def test_shard_that_is_too_long(folder):
    path = folder / "model-00001-of-000002.safetensors"
    path.write_bytes(path.read_bytes() + b"..")
    assert check(folder)["problems"] == [
        f"{path.name} is damaged: it has {path.stat().st_size} bytes, 2 more than its header describes"
    ]


def test_shard_that_lacks_a_tensor_of_the_index(folder):
    path = folder / "model-00001-of-000002.safetensors"
    path.write_bytes(safetensors({"a": SHARDS[path.name]["a"]}))
    assert check(folder)["problems"] == [f"{path.name} lacks 1 tensors that the index places there, the first is b"]


def test_lfs_pointers_are_named_as_such(folder):
    for name in ("model-00002-of-000002.safetensors", "model.safetensors.index.json"):
        (folder / name).write_bytes(POINTER)
    result = check(folder)
    # Without the index nothing says which shards there ought to be: the index is what is told.
    assert result["lfs_pointers"] == ["model.safetensors.index.json"]
    (folder / "model.safetensors.index.json").unlink()
    result = check(folder)
    assert result["lfs_pointers"] == ["model-00002-of-000002.safetensors"]
    assert "git LFS pointer" in result["problems"][0]
    assert result["short"] == []


def test_folder_without_weights(folder):
    for name in [*SHARDS, "model.safetensors.index.json"]:
        (folder / name).unlink()
    result = check(folder)
    assert result["kind"] == "none"
    assert result["problems"] == ["there are no weights: neither an index, nor a .safetensors file, nor a .bin file"]


def test_no_folder(tmp_path):
    result = check(tmp_path / "nowhere")
    assert result["complete"] is False
    assert result["problems"] == [f"{tmp_path / 'nowhere'} is not a folder"]


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe"])
def test_config_that_is_no_object(folder, content):
    (folder / "config.json").write_bytes(content)
    result = check(folder)
    assert result["complete"] is False
    assert result["problems"][0].startswith("config.json is damaged: it is not")


def test_config_that_is_missing(folder):
    (folder / "config.json").unlink()
    assert check(folder)["missing"] == ["config.json"]


def test_numbered_shards_without_an_index(folder):
    (folder / "model.safetensors.index.json").unlink()
    assert check(folder)["complete"] is True
    (folder / "model-00001-of-000002.safetensors").unlink()
    result = check(folder)
    assert result["kind"] == "safetensors"
    assert result["missing"] == ["model-00001-of-000002.safetensors"]


def test_single_file(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(safetensors({"a": ("U8", [1], b"!")}, padding=3))
    result = check(tmp_path)
    assert result["complete"] is True
    assert result["kind"] == "safetensors"


def test_bin_files(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "training_args.bin").write_bytes(b"no weights")
    target = tmp_path / "pytorch_model.bin"
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("archive/data.pkl", b"." * 1000)
    assert check(tmp_path)["kind"] == "bin"
    assert check(tmp_path)["complete"] is True
    target.write_bytes(target.read_bytes()[:-30])
    assert check(tmp_path)["short"] == ["pytorch_model.bin"]


@pytest.mark.parametrize("name", ["../outside.safetensors", "/etc/passwd", "a/../../b", 7])
def test_index_that_leaves_its_folder(folder, name):
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    result = check(folder)
    assert result["complete"] is False
    assert "which is no file of the folder" in result["problems"][0]


@pytest.mark.parametrize("index", [{}, {"weight_map": {}}, {"weight_map": ["a"]}])
def test_index_without_tensors(folder, index):
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert check(folder)["problems"] == ["model.safetensors.index.json is damaged: it has no weight_map"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff" * 40, "does not begin with the length"),
        (with_header(b"{not json"), "not JSON"),
        (with_header([1]), "not a JSON object"),
        (with_header({"a": {"dtype": "U8", "shape": [1]}}), "does not describe the tensor a"),
        (with_header({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 2]}}) + b"..", "does not fit its shape"),
        (with_header({"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}}) + b"..", "does not begin where"),
        (
            with_header(
                {
                    "a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
                    "b": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]},
                }
            )
            + b"...",
            "tensor b does not begin where",
        ),
    ],
)
def test_damaged_headers(tmp_path, content, message):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(subject.FormatError, match=message):
        subject.read_safetensors(str(path))


def test_packed_and_unknown_dtypes_are_only_checked_for_their_place(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors({"a": ("F4_NEW", [3], b".."), "b": ("U8", [1], b".")}))
    assert subject.read_safetensors(str(path)) == {"a", "b"}


def test_unreadable_file(folder, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(subject, "read_safetensors", refuse)
    assert "model-00001-of-000002.safetensors cannot be read: Permission denied" in check(folder)["problems"]


@pytest.mark.parametrize(
    ("name", "partial", "extra"),
    [
        ("model-00001-of-000002.safetensors.part", True, False),
        ("a.incomplete", True, False),
        (".model-00001-of-000002.safetensors.x7Yz12", True, False),
        (".config.json.aB3dE6", True, False),
        ("consolidated.safetensors", False, True),
        ("old.bin", False, True),
        ("README.md", False, False),
        (".llmfleet-model.json", False, False),
        (".gitattributes", False, False),
    ],
)
def test_strays_are_told_apart(folder, name, partial, extra):
    (folder / name).write_text("")
    known = set(SHARDS) | {"config.json"}
    assert subject.strays(str(folder), known) == ([name] if partial else [], [name] if extra else [])
    assert subject.strays(str(folder), known | {name}) == ([], [])
    assert subject.strays(str(folder / "nowhere"), known) == ([], [])


@given(count=st.integers(1, 200), gone=st.sets(st.integers(1, 200), min_size=1), width=st.sampled_from([5, 6]))
def test_missing_of_set_names_what_is_gone(count, gone, width):
    names = {f"model-{number:0{width}d}-of-{count:06d}.safetensors" for number in range(1, count + 1)}
    removed = {f"model-{number:0{width}d}-of-{count:06d}.safetensors" for number in gone} & names
    left = names - removed
    assert subject.missing_of_set(left | {"other.safetensors"}) == (sorted(removed) if left else [])


@given(st.lists(st.integers(0, 64), max_size=6), st.integers(0, 16), st.integers(-40, 40))
def test_only_the_right_size_passes(tmp_path_factory, sizes, padding, change):
    content = safetensors({f"t{n}": ("U8", [size], b"." * size) for n, size in enumerate(sizes)}, padding)
    altered = content[: len(content) + change] if change < 0 else content + b"." * change
    path = tmp_path_factory.mktemp("size") / "model.safetensors"
    path.write_bytes(altered)
    if altered == content:
        assert subject.read_safetensors(str(path)) == {f"t{n}" for n in range(len(sizes))}
    else:
        with pytest.raises(subject.FormatError):
            subject.read_safetensors(str(path))
