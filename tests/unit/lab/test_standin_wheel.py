# SPDX-License-Identifier: GPL-3.0-or-later
"""The wheel: same bytes every time, valid, installable as sglang, and plain about what it is."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import subprocess
import sys
import zipfile

import pytest
from ansible_collections.llmfleet.sglang.tests.lab.standin import build_wheel


def test_same_bytes(tmp_path):
    first = build_wheel.build("0.5.23+standin", tmp_path / "a").read_bytes()
    second = build_wheel.build("0.5.23+standin", tmp_path / "b").read_bytes()
    assert first == second


def test_record_and_metadata(tmp_path):
    wheel = build_wheel.build("0.5.16+standin", tmp_path)
    assert wheel.name == "sglang-0.5.16+standin-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        info = "sglang-0.5.16+standin.dist-info/"
        rows = list(csv.reader(io.StringIO(archive.read(f"{info}RECORD").decode())))
        assert sorted(row[0] for row in rows) == sorted(archive.namelist())
        for name, digest, size in rows:
            if name.endswith("/RECORD"):
                continue
            data = archive.read(name)
            found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert (digest, int(size)) == (f"sha256={found}", len(data)), name
        metadata = archive.read(f"{info}METADATA").decode()
    assert "Requires-Python: >=3.9" in metadata
    assert "serves no model" in metadata.split("\n\n")[0]
    assert len(wheel.read_bytes()) < 60_000


def test_bad_version(tmp_path):
    with pytest.raises(ValueError, match="is no version"):
        build_wheel.build("../evil", tmp_path)


def test_installs_like_the_real_one(tmp_path):
    build_wheel.build("0.5.23+standin", tmp_path / "wheels")
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    python = venv / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "-q", "--no-index", "--find-links", str(tmp_path / "wheels")]
    subprocess.run([*pip, "sglang==0.5.23"], check=True)
    version = subprocess.run([str(python), "-c", "import sglang; print(sglang.__version__)"], capture_output=True)
    assert version.stdout == b"0.5.23+standin\n"
    script = subprocess.run([str(venv / "bin" / "sglang"), "serve", "--nonsense"], capture_output=True, text=True)
    assert script.returncode == 2
    assert "the following arguments are required: --model-path" in script.stderr
