# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is a model folder complete? Answered from the files' own headers, without reading the weights.

A safetensors file begins with the length of its header (8 bytes, little endian) and the header itself (JSON), which
gives the place of each tensor in the rest of the file. So a file's right size is known from its first bytes, and a
download that stopped early shows. The index (``model.safetensors.index.json``) names the shard of each tensor.

Formats: https://github.com/huggingface/safetensors (README, "Format") and the git LFS pointer specification. Which
files an engine loads: ``sglang/srt/model_loader/weight_utils.py`` (0.5.9 to 0.5.23): all ``*.safetensors``, limited to
those that the index names where there is one, else ``*.bin``.
"""

from __future__ import annotations

import json
import os
import re
import struct
import zipfile

CONFIG = "config.json"
SAFETENSORS_INDEX = "model.safetensors.index.json"
BIN_INDEX = "pytorch_model.bin.index.json"
LFS_POINTER_START = b"version https://git-lfs.github.com/spec/"
# The safetensors library refuses longer headers too.
HEADER_LIMIT = 100_000_000
SHARD_NAME = re.compile(r"^(?P<stem>.+)-(?P<number>\d+)-of-(?P<count>\d+)(?P<suffix>\.safetensors|\.bin)$")
# What downloaders, browsers and rsync call a file that they have not finished.
PARTIAL_NAME = re.compile(
    r"\.(?:part|partial|incomplete|tmp|download|crdownload|aria2)$|^\..+\.(?:safetensors|bin|json)\.[A-Za-z0-9]{6}$"
)
WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
# Bits of one element by dtype; tensors of other dtypes are only checked for their place.
DTYPE_BITS = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "I64": 64,
    "U64": 64,
    "F64": 64,
}


class FormatError(ValueError):
    """A file that is not what its name says; the message says what is wrong, without the file's name."""


class ShortFileError(FormatError):
    """A file that ends before its header says that it should."""


def is_lfs_pointer(path):
    """True when the file at ``path`` is git LFS's pointer, a text of some 130 bytes that stands for the real file."""
    with open(path, "rb") as stream:
        return stream.read(len(LFS_POINTER_START)) == LFS_POINTER_START


def parse_header(text):
    """Tensors of a safetensors header.

    ``text``: the header's bytes. Returns ``(names, data_bytes)``: the set of tensor names and the number of bytes
    after the header. Raises FormatError when it is no header, or when its tensors overlap or leave a gap.
    """
    try:
        header = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        raise FormatError("its header is not JSON") from None
    if not isinstance(header, dict):
        raise FormatError("its header is not a JSON object")
    places = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        try:
            start, end = entry["data_offsets"]
            count = 1
            for extent in entry["shape"]:
                count *= extent
            bits = DTYPE_BITS.get(entry["dtype"])
        except (KeyError, TypeError, ValueError):
            raise FormatError(f"its header does not describe the tensor {name}") from None
        if bits is not None and (end - start) * 8 != count * bits:
            raise FormatError(f"the place of the tensor {name} does not fit its shape")
        places.append((start, end, name))
    position = 0
    for start, end, name in sorted(places):
        if start != position or end < start:
            raise FormatError(f"the tensor {name} does not begin where the one before it ends")
        position = end
    return {name for _start, _end, name in places}, position


def read_safetensors(path):
    """Names of the tensors in a safetensors file whose size is the one that its header gives.

    Raises ShortFileError when bytes are missing, FormatError when it is no safetensors file or has bytes too many,
    OSError when it cannot be read.
    """
    size = os.path.getsize(path)
    with open(path, "rb") as stream:
        prefix = stream.read(8)
        if len(prefix) < 8:
            raise ShortFileError(f"it has {size} bytes, fewer than the 8 that begin a safetensors file")
        (length,) = struct.unpack("<Q", prefix)
        if length > HEADER_LIMIT:
            raise FormatError("it does not begin with the length of a safetensors header")
        if size < 8 + length:
            raise ShortFileError(f"it has {size} bytes and ends within its header of {length} bytes")
        names, data_bytes = parse_header(stream.read(length))
    expected = 8 + length + data_bytes
    if size < expected:
        raise ShortFileError(f"it has {size} of {expected} bytes")
    if size > expected:
        raise FormatError(f"it has {size} bytes, {size - expected} more than its header describes")
    return names


def read_index(path):
    """Shard of each tensor, from an index file.

    Returns ``{tensor name: file name}``. Raises FormatError when the file is no index or names a file outside its
    folder, OSError when it cannot be read.
    """
    index = _read_json(path)
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise FormatError("it has no weight_map")
    for name in weight_map.values():
        if not isinstance(name, str) or os.path.isabs(name) or ".." in name.split("/"):
            raise FormatError(f"its weight_map names {name!r}, which is no file of the folder")
    return weight_map


def missing_of_set(names):
    """Names that are missing from numbered shards.

    ``names``: file names; those like ``model-00001-of-000064.safetensors`` tell how many there are. Returns the
    names that ought to be there as well, sorted.
    """
    present = set(names)
    missing = set()
    for name in present:
        match = SHARD_NAME.match(name)
        if not match:
            continue
        width, count = len(match.group("number")), int(match.group("count"))
        for number in range(1, count + 1):
            shard = f"{match.group('stem')}-{number:0{width}d}-of-{match.group('count')}{match.group('suffix')}"
            if shard not in present:
                missing.add(shard)
    return sorted(missing)


def check_folder(folder):
    """Checks a model folder.

    ``folder``: path. Returns a dictionary:

    * ``complete`` (bool): every file that the index or the numbering asks for is there and has its right size;
    * ``kind`` (str): ``safetensors-index``, ``safetensors``, ``bin-index``, ``bin`` or ``none``;
    * ``files`` (list of str): the weight files, the index and config.json, as far as they are there;
    * ``missing``, ``short``, ``damaged``, ``lfs_pointers`` (lists of str): file names;
    * ``problems`` (list of str): one sentence each, with the file's name;
    * ``total_bytes`` (int): size of ``files``.
    """
    result = {
        "complete": False,
        "kind": "none",
        "files": [],
        "missing": [],
        "short": [],
        "damaged": [],
        "lfs_pointers": [],
        "problems": [],
        "total_bytes": 0,
    }
    if not os.path.isdir(folder):
        result["problems"].append(f"{folder} is not a folder")
        return result
    _check_file(result, folder, CONFIG, _read_json)
    shards, tensors = _weight_files(result, folder)
    for name in shards:
        reader = read_safetensors if name.endswith(".safetensors") else _read_bin
        names = _check_file(result, folder, name, reader)
        absent = sorted(tensors.get(name, set()) - names) if names is not None and tensors.get(name) else []
        if absent and reader is read_safetensors:
            result["damaged"].append(name)
            result["problems"].append(
                f"{name} lacks {len(absent)} tensors that the index places there, the first is {absent[0]}"
            )
    result["files"].sort()
    result["total_bytes"] = sum(os.path.getsize(os.path.join(folder, name)) for name in result["files"])
    result["complete"] = not result["problems"]
    return result


def strays(folder, known):
    """Files of a folder that are no part of its model: ``(partial, extra)``, both lists of names.

    ``known``: names that are part of it. ``partial``: what looks like an unfinished download or copy. ``extra``:
    weights that nothing asks for.
    """
    try:
        present = sorted(os.listdir(folder))
    except OSError:
        return [], []
    partial = [name for name in present if name not in known and PARTIAL_NAME.search(name)]
    extra = [name for name in present if name not in known and name not in partial and name.endswith(WEIGHT_SUFFIXES)]
    return partial, extra


def _weight_files(result, folder):
    """Names of the weight files that must be there, and ``{file name: set of tensors}`` where an index tells."""
    present = sorted(os.listdir(folder))
    for index, kind, suffix in (
        (SAFETENSORS_INDEX, "safetensors", ".safetensors"),
        (BIN_INDEX, "bin", ".bin"),
    ):
        if index in present:
            result["kind"] = f"{kind}-index"
            weight_map = _check_file(result, folder, index, read_index) or {}
            tensors = {}
            for tensor, name in weight_map.items():
                tensors.setdefault(name, set()).add(tensor)
            return sorted(tensors), tensors
        found = [name for name in present if name.endswith(suffix) and name != "training_args.bin"]
        if found:
            result["kind"] = kind
            return sorted(set(found) | set(missing_of_set(found))), {}
    result["problems"].append("there are no weights: neither an index, nor a .safetensors file, nor a .bin file")
    return [], {}


def _check_file(result, folder, name, reader):
    """Reads one file with ``reader`` and notes what is wrong with it; None when something is."""
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        result["missing"].append(name)
        result["problems"].append(f"{name} is missing")
        return None
    result["files"].append(name)
    try:
        if is_lfs_pointer(path):
            result["lfs_pointers"].append(name)
            result["problems"].append(
                f"{name} is a git LFS pointer, not the file itself: fetch it with git lfs pull or hf download"
            )
            return None
        return reader(path)
    except ShortFileError as error:
        result["short"].append(name)
        result["problems"].append(f"{name} is short: {error}")
    except FormatError as error:
        result["damaged"].append(name)
        result["problems"].append(f"{name} is damaged: {error}")
    except OSError as error:
        result["damaged"].append(name)
        result["problems"].append(f"{name} cannot be read: {error.strerror}")
    return None


def _read_json(path):
    with open(path, "rb") as stream:
        try:
            content = json.loads(stream.read().decode("utf-8"))
        except (ValueError, RecursionError):
            raise FormatError("it is not JSON") from None
    if not isinstance(content, dict):
        raise FormatError("it is not a JSON object")
    return content


def _read_bin(path):
    # torch.save writes a zip archive, whose directory stands at the end.
    if not zipfile.is_zipfile(path):
        raise ShortFileError("it does not end like a file that torch.save wrote")
    return set()
