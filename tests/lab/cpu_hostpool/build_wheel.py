#!/usr/bin/env python3
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the wheel of the lab-only CPU host-pool plugin with the standard library alone.

The same sources give the same bytes, so that a lab release directory keeps its name from one build to the next.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import sys
import zipfile
from pathlib import Path

NAME = "llmfleet_lab_cpu_hostpool"
VERSION = "0.1.0"
SOURCE = Path(__file__).resolve().parent / "src"

METADATA = f"""Metadata-Version: 2.1
Name: {NAME.replace("_", "-")}
Version: {VERSION}
Summary: Lab only: HiCache host pools of SGLang on a CPU
License: GPL-3.0-or-later
Requires-Python: >=3.11
"""
WHEEL = """Wheel-Version: 1.0
Generator: llmfleet-lab (1)
Root-Is-Purelib: true
Tag: py3-none-any
"""
ENTRY_POINTS = f"""[sglang.srt.plugins]
llmfleet_lab_cpu_hostpool = {NAME}:register
"""
# The earliest time a zip archive can hold.
TIMESTAMP = (1980, 1, 1, 0, 0, 0)


def wheel_name() -> str:
    """File name of the wheel."""
    return f"{NAME}-{VERSION}-py3-none-any.whl"


def wheel_files() -> dict[str, bytes]:
    """Path in the archive -> content, without the RECORD file."""
    info = f"{NAME}-{VERSION}.dist-info"
    files = {path.relative_to(SOURCE).as_posix(): path.read_bytes() for path in sorted((SOURCE / NAME).rglob("*.py"))}
    files[f"{info}/METADATA"] = METADATA.encode()
    files[f"{info}/WHEEL"] = WHEEL.encode()
    files[f"{info}/entry_points.txt"] = ENTRY_POINTS.encode()
    return files


def record(files: dict[str, bytes]) -> bytes:
    """RECORD of a wheel: path, sha256 in unpadded url-safe base64, size in bytes."""
    lines = []
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}")
    lines.append(f"{NAME}-{VERSION}.dist-info/RECORD,,")
    return ("\n".join(lines) + "\n").encode()


def build(out: Path) -> tuple[Path, bool]:
    """Writes the wheel into the folder ``out``; returns its path and whether its bytes changed."""
    files = wheel_files()
    files[f"{NAME}-{VERSION}.dist-info/RECORD"] = record(files)
    out.mkdir(parents=True, exist_ok=True)
    target = out / wheel_name()
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, TIMESTAMP)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    partial.chmod(0o644)
    changed = not target.exists() or target.read_bytes() != partial.read_bytes()
    partial.replace(target)
    return target, changed


def main(argv: list[str] | None = None) -> int:
    """Command line; prints ``changed PATH`` or ``unchanged PATH``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the wheel")
    target, changed = build(parser.parse_args(argv).out)
    print("changed" if changed else "unchanged", target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
