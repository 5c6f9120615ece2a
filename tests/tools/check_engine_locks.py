#!/usr/bin/env python3
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the shipped locks of SGLang against the package index, without a GPU and without fetching a wheel.

For each lock and each Python: it resolves on 64-bit x86 Linux with all hashes required (`uv pip install --dry-run`:
no dependency is missing or contradicted), and each package has a wheel there that has one of the lock's sums, fits, and
is given out (HEAD). Where no index can be reached it says that nothing was checked, and ends with status 0; with 1
where a lock is wrong. The index is that of UV_DEFAULT_INDEX or PIP_INDEX_URL, else PyPI.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.markers import Marker
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename

LOCKS = Path(__file__).resolve().parents[2] / "roles" / "sglang" / "files" / "locks"
PYTHONS = ("3.11", "3.12")
INDEX = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("PIP_INDEX_URL") or "https://pypi.org/simple"
# The oldest C library that SGLang's own wheel fits.
GLIBC = (2, 34)
TRIES = 4
ENTRY = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?===?(?P<version>[^\s;\\]+)(?: ; (?P<marker>[^\\]+))?", re.M
)


def entries(text: str) -> list[tuple[str, str, str, set[str]]]:
    """Name, version, marker and sums of each package of a lock."""
    found = []
    for part in re.split(r"\n(?=[A-Za-z0-9])", re.sub(r"^#.*\n", "", text, flags=re.M)):
        match = ENTRY.match(part)
        if match:
            sums = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", part))
            found.append((match["name"], match["version"], (match["marker"] or "").strip(), sums))
    return found


def fits(marker: str, python: str) -> bool:
    environment = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
    environment |= {"platform_machine": "x86_64", "platform_system": "Linux", "os_name": "posix"}
    environment |= {"implementation_name": "cpython", "platform_python_implementation": "CPython"}
    return not marker or Marker(marker).evaluate(environment)


@functools.cache
def tags(python: str) -> set:
    """Tags of the wheels that a host with this Python can install."""
    version = tuple(map(int, python.split(".")))
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(GLIBC[1], 4, -1)]
    platforms += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"]
    return {*cpython_tags(version, platforms=platforms), *compatible_tags(version, f"cp{''.join(python.split('.'))}",
                                                                        platforms)}  # fmt: skip


def ask(url: str, method: str = "GET") -> bytes:
    """An answer of the index. Raises OSError when it does not come in several tries."""
    request = urllib.request.Request(url, method=method)
    request.add_header("Accept", "application/vnd.pypi.simple.v1+json")
    for attempt in range(1, TRIES + 1):
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            if (error.code < 500 and error.code != 429) or attempt == TRIES:
                raise
        except OSError:
            if attempt == TRIES:
                raise
        time.sleep(attempt)
    raise AssertionError("not reached")


@functools.cache
def files_of(name: str) -> list[dict]:
    page = f"{INDEX.rstrip('/')}/{canonicalize_name(name)}/"
    return [{**file, "url": urllib.parse.urljoin(page, file["url"])} for file in json.loads(ask(page))["files"]]


@functools.cache
def given_out(url: str) -> str:
    """Why a file cannot be had; empty when it can."""
    try:
        ask(url, "HEAD")
    except OSError as error:
        return str(error)
    return ""


def problem(entry: tuple, python: str) -> tuple[str, int]:
    """Why a package of a lock cannot be installed, and else its size in bytes."""
    name, version, _marker, sums = entry
    if not sums:
        return f"{name}=={version} has no sum", 0
    wheels = [file for file in files_of(name) if file["hashes"].get("sha256") in sums]
    wheels = [file for file in wheels if file["filename"].endswith(".whl")]
    wheels = [file for file in wheels if parse_wheel_filename(file["filename"])[3] & tags(python)]
    if not wheels:
        return f"{name}=={version} has no wheel for Python {python} with one of the lock's sums", 0
    told = given_out(wheels[0]["url"])
    return (f"{wheels[0]['filename']}: {told}" if told else ""), wheels[0].get("size") or 0


def resolves(lock: Path, python: str) -> str:
    """What uv says against a lock; empty when it resolves."""
    with tempfile.TemporaryDirectory() as folder:
        argv = ["uv", "pip", "install", "--quiet", "--dry-run", "--require-hashes", "--only-binary", ":all:"]
        argv += ["--default-index", INDEX, "--python-version", python, "--python-platform", "x86_64-manylinux_2_34"]
        done = subprocess.run([*argv, "--target", folder, "-r", str(lock)], capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else ""


def main() -> int:
    began = time.monotonic()
    shown = re.sub(r"//[^/@]*@", "//", INDEX)
    try:
        files_of("sglang")
    except (OSError, ValueError) as error:
        print(
            f"locks: NOT CHECKED: {shown} gives no list of packages here ({error}). This says nothing about the locks."
        )
        return 0
    problems = []
    for lock in sorted(LOCKS.glob("sglang-*.txt")):
        for python in PYTHONS:
            chosen = [entry for entry in entries(lock.read_text()) if fits(entry[2], python)]
            with ThreadPoolExecutor(16) as pool:
                answers = list(pool.map(lambda entry, python=python: problem(entry, python), chosen))
            told = [text for text, _size in answers if text]
            against = resolves(lock, python)
            told += [against] if against else []
            size = sum(size for _text, size in answers) / 1e9
            print(f"{lock.stem}, Python {python}: {len(chosen)} packages, {size:.1f} GB of wheels, "
                  f"{'; '.join(told) if told else 'resolve, and all can be had'}")  # fmt: skip
            problems += told
    print(
        f"locks: {len(problems)} problems, asked of {shown} in {time.monotonic() - began:.0f} s; nothing was installed"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
