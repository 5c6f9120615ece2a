#!/usr/bin/env python3
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the locks that roles sglang and router ship, from the package index, in roles/ROLE/files/locks.

    make_engine_locks.py sglang 0.5.23 0.5.22     one lock for each release of SGLang
    make_engine_locks.py uv 0.13.9                the installer's own
    make_engine_locks.py sglang-router 0.3.2      the router's

A lock holds each package with its version and the sums of its files. One lock fits Python 3.11 and 3.12: what differs
between them stands there with its marker. On 3.13 SGLang's own pins (outlines-core) have no wheels, and only packages
that come as wheels are taken, so that nothing is compiled at installation. Needs uv.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROLES = Path(__file__).resolve().parents[2] / "roles"
ROLE_OF = {"sglang": "sglang", "uv": "sglang", "sglang-router": "router"}
# Hosts with NVIDIA GPUs: 64-bit x86 Linux. Without this, the lock would hold other systems' packages as well.
PROJECT = """[project]
name = "locks"
version = "0"
[tool.uv]
environments = ["sys_platform == 'linux' and platform_machine == 'x86_64'{pythons}"]
"""
PYTHONS = {"sglang": " and python_full_version < '3.13'", "uv": "", "sglang-router": ""}
# The first Python that SGLang's compiled wheels are made for; the installer runs on what a distribution has.
OLDEST_PYTHON = {"sglang": "3.11", "uv": "3.9", "sglang-router": "3.9"}


def make(package: str, version: str) -> Path:
    """Write the lock of one version and return its path."""
    target = ROLES / ROLE_OF[package] / "files" / "locks" / f"{package}-{version}.txt"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pyproject.toml").write_text(PROJECT.format(pythons=PYTHONS[package]))
        Path(folder, "in.txt").write_text(f"{package}=={version}\n")
        command = [
            "uv", "pip", "compile", "--quiet", "--universal", "--python-version", OLDEST_PYTHON[package],
            "--generate-hashes", "--only-binary", ":all:", "--no-annotate", "--no-header",
            "--output-file", "out.txt", "in.txt",
        ]  # fmt: skip
        subprocess.run(command, cwd=folder, check=True)
        target.write_text(
            f"# Made by tests/tools/make_engine_locks.py {package} {version}\n" + Path(folder, "out.txt").read_text()
        )
    return target


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", choices=sorted(OLDEST_PYTHON))
    parser.add_argument("versions", nargs="+", metavar="VERSION")
    arguments = parser.parse_args(argv)
    for version in arguments.versions:
        print(make(arguments.package, version))
    return 0


if __name__ == "__main__":
    sys.exit(main())
