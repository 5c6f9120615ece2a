# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped locks: every package pinned and with its sums. Against the index: tests/tools/check_engine_locks.py."""

from __future__ import annotations

import re

import pytest
from ansible_collections.llmfleet.sglang.tests.tools import check_engine_locks as subject

LOCKS = sorted(subject.LOCKS.glob("*.txt"))
ENGINES = [path for path in LOCKS if path.name.startswith("sglang-")]
LINE = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_every_line_is_a_pin_or_a_sum(path):
    text = path.read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    odd = [line for line in lines if not LINE.fullmatch(line) and not subject.ENTRY.match(line)]
    assert odd == []
    entries = subject.entries(text)
    assert len(entries) == len([line for line in lines if not line.startswith(" ")])
    assert [name for name, _version, _marker, sums in entries if not sums] == []


@pytest.mark.parametrize("python", subject.PYTHONS)
@pytest.mark.parametrize("path", ENGINES, ids=lambda path: path.stem)
def test_a_lock_pins_its_release_and_cuda_once_for_each_python(path, python):
    chosen = [entry for entry in subject.entries(path.read_text()) if subject.fits(entry[2], python)]
    pins = {name: version for name, version, _marker, _sums in chosen}
    assert len(pins) == len(chosen)
    assert f"sglang-{pins['sglang']}" == path.stem
    assert {"torch", "flashinfer-python", "nvidia-cudnn-cu13", "sglang-kernel"} <= set(pins)


def test_an_entry_is_read_with_its_marker_and_sums():
    text = (
        "# made\na==1 \\\n    --hash=sha256:" + "0" * 64 + "\nb[x]===2+cu130 ; python_full_version < '3.12' \\\n"
        "    --hash=sha256:" + "1" * 64 + " \\\n    --hash=sha256:" + "2" * 64 + "\nc==3\n"
    )
    assert subject.entries(text) == [
        ("a", "1", "", {"0" * 64}),
        ("b", "2+cu130", "python_full_version < '3.12'", {"1" * 64, "2" * 64}),
        ("c", "3", "", set()),
    ]
    assert [subject.fits("python_full_version < '3.12'", python) for python in ("3.11", "3.12")] == [True, False]


def test_a_wheel_must_have_a_sum_of_the_lock_fit_and_be_given_out(monkeypatch):
    def file(name, digest):
        return {"filename": name, "hashes": {"sha256": digest}, "size": 5, "url": f"https://h/{name}"}

    files = [
        file("a-1-cp311-cp311-manylinux_2_28_x86_64.whl", "x"),
        file("a-1-cp312-cp312-manylinux_2_39_x86_64.whl", "x"),
        file("a-1.tar.gz", "x"),
    ]
    monkeypatch.setattr(subject, "files_of", lambda _name: files)
    monkeypatch.setattr(subject, "given_out", lambda _url: "")
    assert subject.problem(("a", "1", "", {"x"}), "3.11") == ("", 5)
    assert "no wheel for Python 3.12" in subject.problem(("a", "1", "", {"x"}), "3.12")[0]
    assert "no wheel for Python 3.11" in subject.problem(("a", "1", "", {"y"}), "3.11")[0]
    assert subject.problem(("a", "1", "", set()), "3.11")[0] == "a==1 has no sum"
    monkeypatch.setattr(subject, "given_out", lambda _url: "HTTP Error 404")
    assert subject.problem(("a", "1", "", {"x"}), "3.11")[0].endswith("x86_64.whl: HTTP Error 404")


def test_without_an_index_it_says_that_nothing_was_checked(monkeypatch, capsys):
    def unreachable(_url, _method="GET"):
        raise OSError("no route")

    monkeypatch.setattr(subject, "ask", unreachable)
    subject.files_of.cache_clear()
    assert subject.main() == 0
    told = capsys.readouterr().out
    assert "NOT CHECKED" in told and "no route" in told and "says nothing about the locks" in told
