# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An interpreter that imports the real parser of a release of SGLang, in half a second and without torch.

python = interpreter("0.5.23")    # a path; the wheel comes from the package index once

Its own code is all real: the wheel of the release, unpacked. What it imports without calling is not there: see
stubs/sitecustomize.py. Tests of the scenario "real" ask a complete installation the same questions.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "parsers"
STUBS = Path(__file__).resolve().parent / "stubs"
CONSTRAINTS = ROOT / "tests" / "lab" / "engine" / "constraints-cpu.txt"
# What the parsers really use; small.
LIBRARIES = ("msgspec", "orjson", "packaging", "PyYAML", "typing_extensions")


def _pip(*arguments):
    command = [sys.executable, "-m", "pip", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stdout}")


def _complete(folder, make):
    """Have a folder that `make` fills; an interrupted run leaves nothing that looks complete."""
    if not folder.is_dir():
        partial = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        make(partial)
        partial.rename(folder)
    return folder


def _libraries(folder):
    _pip("install", "--quiet", "--no-deps", "--target", folder, "--constraint", CONSTRAINTS, *LIBRARIES)


def _release(release):
    def fill(folder):
        # "===" takes no local version, such as the one of the stand-in engine, for the real one.
        _pip("download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", folder, f"sglang==={release}")
        (wheel,) = folder.glob("*.whl")
        site = folder / "lib" / "python3" / "site-packages"
        with zipfile.ZipFile(wheel) as archive:
            wanted = (".py", "METADATA", "RECORD", "entry_points.txt")
            archive.extractall(site, [name for name in archive.namelist() if name.endswith(wanted)])
        wheel.unlink()

    return fill


def interpreter(release):
    """Return the path of an interpreter that has the release, as a virtual environment would have it."""
    libraries = _complete(CACHE / f"libraries-{sys.implementation.cache_tag}", _libraries)
    folder = _complete(CACHE / release, _release(release))
    python = folder / "bin" / "python"
    text = (
        "#!/bin/sh\n"
        f"PYTHONPATH='{STUBS}:{folder / 'lib' / 'python3' / 'site-packages'}:{libraries}'"
        f" exec '{sys.executable}' \"$@\"\n"
    )
    if not python.exists() or python.read_text() != text:
        python.parent.mkdir(exist_ok=True)
        python.write_text(text)
        python.chmod(0o755)
    return python
