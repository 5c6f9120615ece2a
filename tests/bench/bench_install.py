#!/usr/bin/env python3
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the installation of a locked release from a folder of wheels against `uv pip sync` by hand.

Makes 60 wheels of 8 MB with 200 modules each and a lock of them (0.5 GB, thrown away afterwards). By hand is what an
operator would type: `uv venv`, then `uv pip sync --require-hashes --compile-bytecode`. The other side is the module
sglang_release as Ansible runs it. Both verify the hashes, unpack, link and compile, with an empty cache; the module
has in addition its own start, the list of what was installed, the import and `--help` of the release, the writing of
all files to the disk, stamp and link, and all of that counts.

The two are measured in memory, which shows the work that the module adds, and on the disk, where its files are written
for good. They take turns at being first. A disk that has rested may take the first installation in half the time of all
later ones, whichever side that is: one is made before and not counted. The median of the pairs' ratios counts in each
place. Ends with status 1 above the limit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

MODULE = "ansible_collections.llmfleet.sglang.plugins.modules.sglang_release"
COLLECTIONS = Path(__file__).resolve().parents[2] / ".venv" / "collections"
RUNNER = f"import os, sys; sys.argv[1:] = [os.environ.pop('ARGUMENTS')]; from {MODULE} import main; main()"
UV = Path(sys.executable).parent / "uv"
LIMIT = 1.2
WHEELS, MEGABYTES, MODULES = 60, 8, 200
MEMORY = Path("/dev/shm")


def make_wheel(folder: Path, name: str, files: dict[str, bytes]) -> str:
    """Write a wheel; returns its line of a lock."""
    info = f"{name}-1.0.dist-info"
    files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"]).encode()
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for file, content in files.items():
            wheel.writestr(file, content)
    return f"{name}==1.0 --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


def make_wheels(folder: Path) -> Path:
    """Write all wheels and their lock; returns the lock."""
    source = random.Random(1)
    lines = [make_wheel(folder, "sglang", {"sglang/__init__.py": b"", "sglang/launch_server.py": b"print('usage')\n"})]
    for number in range(WHEELS):
        name = f"package{number}"
        code = b"".join(b"def f%d(x):\n    return x + %d\n" % (row, row) for row in range(40))
        files = {f"{name}/m{module}.py": code for module in range(MODULES)}
        files[f"{name}/data.bin"] = source.randbytes(MEGABYTES << 20)
        lines.append(make_wheel(folder, name, files))
    lock = folder / "lock.txt"
    lock.write_text("".join(lines))
    return lock


def by_hand(folder: Path, wheels: Path, lock: Path) -> float:
    environment = {**os.environ, "UV_CACHE_DIR": str(folder / "cache"), "UV_LINK_MODE": "hardlink"}
    began = time.perf_counter()
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, folder / "venv"], env=environment, check=True)
    sync = [UV, "pip", "sync", "--quiet", "--python", folder / "venv/bin/python", "--require-hashes"]
    subprocess.run(
        [*sync, "--compile-bytecode", "--no-index", "--find-links", wheels, lock], env=environment, check=True
    )
    return time.perf_counter() - began


def by_module(folder: Path, wheels: Path, lock: Path) -> float:
    shutil.copyfile(lock, folder / "lock.txt")
    arguments = {
        "name": "1.0-0123456789ab", "version": "1.0", "releases_dir": str(folder / "releases"), "uv": str(UV),
        "python": sys.executable, "cache_dir": str(folder / "cache"), "lock": str(folder / "lock.txt"),
        "environment": {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}, "link": str(folder / "current"), "kept": 3,
        "_ansible_remote_tmp": str(folder),
    }  # fmt: skip
    environment = {
        **os.environ,
        "PYTHONPATH": str(COLLECTIONS),
        "ARGUMENTS": json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
    }
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", RUNNER], env=environment, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - began
    result = json.loads(done.stdout)
    if not result.get("complete"):
        sys.exit(f"bench: {result}")
    return taken


def measure(base: Path, rounds: int) -> float:
    """Install in turns in a folder; returns the median of the ratios of module to hand."""
    wheels = base / "wheels"
    wheels.mkdir()
    lock = make_wheels(wheels)

    def seconds(call) -> float:
        folder = base / "side"
        folder.mkdir()
        os.sync()
        taken = call(folder, wheels, lock)
        shutil.rmtree(folder)
        return taken

    seconds(by_hand)
    ratios = []
    for turn in range(rounds):
        sides = [by_hand, by_module] if turn % 2 == 0 else [by_module, by_hand]
        taken = {call: seconds(call) for call in sides}
        ratios.append(taken[by_module] / taken[by_hand])
        print(
            f"  by hand {taken[by_hand]:6.2f} s   sglang_release {taken[by_module]:6.2f} s   {ratios[-1]:.2f} times   "
            f"load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    return statistics.median(ratios)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="folder on the disk (default: that of temporary files)")
    args = parser.parse_args(argv)
    print(f"install of {WHEELS + 1} locked wheels, {WHEELS * MEGABYTES} MB, limit {LIMIT}")
    kept = []
    for place, folder in (("in memory", MEMORY), ("on the disk", args.folder)):
        print(f"{place}:")
        with tempfile.TemporaryDirectory(dir=folder) as base:
            ratio = measure(Path(base), args.rounds)
        kept.append(ratio <= LIMIT)
        print(f"  median {ratio:.2f} times  {'kept' if kept[-1] else 'MISSED'}", flush=True)
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
