#!/usr/bin/env python3
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""LAB. Write a model that is nothing but files: shards with headers and an index, for tests of transfers and sums.

The same arguments give the same bytes. A shard of ``changed`` differs from the one of the same seed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import struct
from pathlib import Path

BLOCK = 1 << 20


def shard_name(number: int, count: int) -> str:
    """Name of a shard, as the hub has them."""
    return f"model-{number:05d}-of-{count:06d}.safetensors"


def write_shard(path: Path, number: int, size: int, seed: str) -> None:
    """Write one shard with ``size`` bytes of data."""
    header = json.dumps({f"t{number}": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    bits = random.Random(seed)
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(header)) + header)
        for start in range(0, size, BLOCK):
            stream.write(bits.randbytes(min(BLOCK, size - start)))


def write_model(folder: Path, count: int = 4, size: int = 1 << 20, seed: int = 0, changed: tuple = ()) -> Path:
    """Write a model of ``count`` shards into a folder, new inodes for those that are there; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {}
    for number in range(1, count + 1):
        path = folder / shard_name(number, count)
        path.unlink(missing_ok=True)
        write_shard(path, number, size, f"{seed} {number} {number in changed}")
        weights[f"t{number}"] = path.name
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
    return folder


def sums_of(folder: Path) -> str:
    """What ``sha256sum *`` prints in the folder."""
    names = sorted(
        path.name for path in folder.iterdir() if not path.name.startswith(".") and path.name != "SHA256SUMS"
    )
    return "".join(f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=4, help="number of shards (default: %(default)s)")
    parser.add_argument("--size", type=int, default=1 << 20, help="bytes of data in each (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    write_model(arguments.folder, arguments.count, arguments.size, arguments.seed)


if __name__ == "__main__":
    main()
