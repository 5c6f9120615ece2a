#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the stand-in as a wheel named sglang, with nothing but zipfile; the same input gives the same bytes.

build_wheel.py --version 0.5.23+standin --out DIR
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import re
import sys
import zipfile
from pathlib import Path

SOURCE = Path(__file__).parent / "src"
EPOCH = (1980, 1, 1, 0, 0, 0)
METADATA = """\
Metadata-Version: 2.1
Name: sglang
Version: {version}
Summary: Lab stand-in for SGLang: prints its lines and answers its endpoints for tests. It serves no model.
License: GPL-3.0-or-later
Requires-Python: >=3.9
Description-Content-Type: text/plain

This is not SGLang. It is a stand-in used by the tests of the Ansible collection llmfleet.sglang; it needs no GPU,
loads no weights and computes nothing. Never deploy it.
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: llmfleet-standin\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
ENTRY_POINTS = "[console_scripts]\nsglang = sglang.cli:main\n"


def contents(version):
    """{name in the wheel: bytes} without RECORD."""
    files = {
        path.relative_to(SOURCE).as_posix(): path.read_bytes()
        for path in sorted(SOURCE.rglob("*"))
        if path.is_file() and path.suffix in (".py", ".json") and path.name != "version.py"
    }
    files["sglang/version.py"] = f'__version__ = "{version}"\n'.encode()
    info = f"sglang-{version}.dist-info"
    files[f"{info}/METADATA"] = METADATA.format(version=version).encode()
    files[f"{info}/WHEEL"] = WHEEL.encode()
    files[f"{info}/entry_points.txt"] = ENTRY_POINTS.encode()
    files[f"{info}/top_level.txt"] = b"sglang\n"
    return files


def build(version, out):
    """Write the wheel into the directory `out` and return its path."""
    if not re.fullmatch(r"\d+(\.\d+)+(\.post\d+)?(\+[a-z0-9.]+)?", version):
        raise ValueError(f"--version: {version!r} is no version; give one such as 0.5.23+standin.")
    files = contents(version)
    record = f"sglang-{version}.dist-info/RECORD"
    rows = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}\n")
    files[record] = "".join([*rows, f"{record},,\n"]).encode()
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"sglang-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return path


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", required=True, help="such as 0.5.23+standin")
    parser.add_argument("--out", required=True, type=Path, help="directory for the wheel")
    options = parser.parse_args(argv)
    try:
        print(build(options.version, options.out))
    except ValueError as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
