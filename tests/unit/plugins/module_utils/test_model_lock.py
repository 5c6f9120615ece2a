# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import model_lock as subject

HOLDER = """
import sys
sys.path.insert(0, {folder!r})
import model_lock
with model_lock.Lock({path!r}) as lock:
    lock.take()
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / ".model.lock")


@pytest.fixture
def holder(path):
    """Another process that holds the lock."""
    code = HOLDER.format(folder=str(Path(subject.__file__).parent), path=path)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout.readline() == "held\n"
        yield running
        running.kill()


def test_the_holder_is_named(path, holder):
    with pytest.raises(subject.LockHeldError, match=rf"^pid {holder.pid} on host \S+, since \d{{4}}-.* UTC \(\d+ s\)$"):
        subject.Lock(path).take()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_lock_ends_with_its_holder(path, holder, number):
    holder.send_signal(number)
    holder.wait()
    with subject.Lock(path) as lock:
        lock.take()
        assert json.loads(Path(path).read_text())["pid"] == os.getpid()
    assert not Path(path).exists()


def test_a_waiting_run_gets_the_lock_when_its_holder_ends(path, holder):
    holder.stdin.close()
    with subject.Lock(path) as lock:
        lock.take(wait=60, pause=0.01)
        assert lock.descriptor is not None


def test_progress_stands_in_the_file_and_in_the_message(path):
    with subject.Lock(path, clock=lambda: 1_800_000_000) as lock:
        lock.take()
        lock.note(123_400_000_000, 595_000_000_000)
        lock.note(1, 2)  # shorter than what stood there
        assert json.loads(Path(path).read_text())["done"] == 1
        lock.note(123_400_000_000, 595_000_000_000)
        with pytest.raises(subject.LockHeldError, match=r"\(60 s\), 123\.4 of 595\.0 GB done"):
            subject.Lock(path, clock=lambda: 1_800_000_060).take()


def test_a_file_that_its_holder_removed_is_no_lock(path, monkeypatch):
    first = subject.Lock(path).take()
    waiting = subject.Lock(path)
    original = subject.fcntl.flock

    def release_first(descriptor, what):
        monkeypatch.setattr(subject.fcntl, "flock", original)
        first.release()  # between the opening of the file and its lock
        original(descriptor, what)

    monkeypatch.setattr(subject.fcntl, "flock", release_first)
    waiting.take()
    assert Path(path).exists()
    with pytest.raises(subject.LockHeldError):
        subject.Lock(path).take()
    waiting.release()


@pytest.mark.parametrize("content", [{}, {"pid": "x"}, {"pid": 1, "host": "a", "since": None}])
def test_a_holder_without_a_name_is_told_as_such(content):
    assert subject.describe(content, 0) == "a process that did not write down its name"


@pytest.mark.parametrize("text", ["", "rubbish", "[]", "\xff"])
def test_rubbish_in_the_file_is_no_hindrance(path, text):
    Path(path).write_text(text, encoding="latin-1")
    with subject.Lock(path) as lock:
        lock.take()
        assert json.loads(Path(path).read_text())["host"]


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(FileNotFoundError):
        subject.Lock(str(tmp_path / "none" / "lock")).take()
