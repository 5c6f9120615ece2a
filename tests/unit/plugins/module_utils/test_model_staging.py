# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import sys

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import model_hub, model_progress
from ansible_collections.llmfleet.sglang.plugins.module_utils import model_staging as subject


@pytest.fixture
def places(tmp_path):
    places = subject.Places(str(tmp_path / "model"))
    for folder, text in ((places.path, "old"), (places.part, "new")):
        os.makedirs(folder)
        with open(os.path.join(folder, "a"), "w", encoding="utf-8") as stream:
            stream.write(text)
    return places


def read(folder):
    with open(os.path.join(folder, "a"), encoding="utf-8") as stream:
        return stream.read()


@pytest.mark.parametrize("exchange", [True, False])
def test_the_new_folder_takes_the_place_of_the_old_one(places, monkeypatch, exchange):
    if not exchange:
        monkeypatch.setattr(subject, "_exchange", lambda _first, _second: False)
    os.makedirs(places.previous)
    subject.put_in_place(places)
    assert (read(places.path), read(places.previous), os.path.exists(places.part)) == ("new", "old", False)


def test_this_system_can_exchange_names(places):
    assert subject._exchange(places.path, places.part) is True
    assert (read(places.path), read(places.part)) == ("new", "old")


def test_the_first_folder_needs_no_place_made(places):
    subject.remove(places.path)
    subject.put_in_place(places)
    assert (read(places.path), os.path.exists(places.previous)) == ("new", False)


def test_what_cannot_take_the_place_gives_it_back(places, monkeypatch):
    original = os.rename

    def refuse(source, target):
        if source == places.part:
            raise OSError(5, "Input/output error")
        original(source, target)

    monkeypatch.setattr(subject, "_exchange", lambda _first, _second: False)
    monkeypatch.setattr(subject.os, "rename", refuse)
    with pytest.raises(OSError):
        subject.put_in_place(places)
    assert read(places.path) == "old"


def test_a_crash_in_between_is_healed(places):
    assert subject.heal(places) is False
    os.rename(places.path, places.previous)
    assert subject.heal(places) is True
    assert read(places.path) == "old"


def test_files_are_linked_and_copied_where_they_cannot_be(tmp_path, monkeypatch):
    source = tmp_path / "source"
    source.write_bytes(b"x" * 3_000_000)
    assert subject.link_or_copy(str(source), str(tmp_path / "sub" / "link")) is True
    assert (tmp_path / "sub" / "link").stat().st_ino == source.stat().st_ino

    def refuse(_source, _target):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(subject.os, "link", refuse)
    assert subject.link_or_copy(str(source), str(tmp_path / "copy")) is False
    assert (tmp_path / "copy").read_bytes() == source.read_bytes()

    def cannot(*_arguments):
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(subject.os, "copy_file_range", cannot)
    assert subject.link_or_copy(str(source), str(tmp_path / "slow")) is False
    assert (tmp_path / "slow").read_bytes() == source.read_bytes()


def test_a_full_disk_is_no_reason_to_copy(tmp_path, monkeypatch):
    (tmp_path / "source").write_text("")
    monkeypatch.setattr(subject.os, "link", lambda _a, _b: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError):
        subject.link_or_copy(str(tmp_path / "source"), str(tmp_path / "target"))


def test_what_belongs_to_another_revision_is_cleared(tmp_path):
    for name in ("a", "a.part", "sub/b", "c", "sub/d.part", subject.PROVED, ".cache/huggingface/x.incomplete"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert subject.clear(str(tmp_path), ["a", "sub/b"]) == ["c", "sub/d.part"]
    assert subject.walk(str(tmp_path)) == sorted(
        ["a", "a.part", "sub/b", subject.PROVED, ".cache/huggingface/x.incomplete"]
    )


def test_rights_are_given_to_all(tmp_path):
    (tmp_path / "sub").mkdir(mode=0o700)
    (tmp_path / "sub" / "a").write_text("")
    (tmp_path / "sub" / "a").chmod(0o600)
    subject.open_to_all(str(tmp_path))
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "sub", tmp_path / "sub" / "a")] == [0o755, 0o644]


@pytest.mark.parametrize("text", ["", "rubbish", "[]"])
def test_a_note_of_proved_files_that_is_none_counts_for_nothing(tmp_path, text):
    assert subject.read_proved(str(tmp_path)) == {}
    (tmp_path / subject.PROVED).write_text(text)
    assert subject.read_proved(str(tmp_path)) == {}
    subject.write_proved(str(tmp_path), {"a": {"size": 1}})
    assert subject.read_proved(str(tmp_path)) == {"a": {"size": 1}}


def test_places_of_a_link_are_beside_the_folder_itself(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "model").symlink_to(tmp_path / "disk" / "real")
    assert subject.Places(str(tmp_path / "model")).part.startswith(str(tmp_path / "disk" / ".real.part-"))


def test_each_revision_of_each_repository_grows_in_a_folder_of_its_own(tmp_path):
    origins = [("a", "1"), ("a", "2"), ("b", "1"), ("a", ""), ("", "1")]
    parts = [subject.Places(str(tmp_path / "m"), *origin).part for origin in origins]
    assert len(set(parts)) == len(origins)
    assert parts[0] == subject.Places(str(tmp_path / "m"), *origins[0]).part


def test_the_last_words_of_the_hubs_client():
    text = "Fetching: 10%|#| 1/10\rFetching: 20%|##| 2/10\n\x1b[31mError: reset\x1b[0m\nHint: try again\n\n"
    assert model_hub.last_words(text) == "Error: reset"
    assert model_hub.last_words("") == "nothing"


def test_the_hubs_client_is_asked_for_single_files():
    argv = model_hub.command(["/opt/hf"], "org/name", "1" * 40, "/srv/.m.part", 8, ["a", "b"])
    assert argv == ["/opt/hf", "download", "org/name", "a", "b", "--local-dir", "/srv/.m.part", "--max-workers", "8",
                    "--revision", "1" * 40]  # fmt: skip
    assert "--revision" not in model_hub.command(["hf"], "org/name", "", "/srv", 1, ["a"])


def test_the_hubs_client_tells_its_progress_and_ends_with_its_parent(tmp_path):
    code = (
        "import ctypes, os, time\n"
        "signal = ctypes.c_int()\n"
        "ctypes.CDLL(None).prctl(2, ctypes.byref(signal))\n"  # PR_GET_PDEATHSIG
        "open('a', 'wb').write(b'x' * 100000)\n"
        "os.sync(); time.sleep(0.4); print('signal', signal.value)\n"
    )
    seen = []
    argv = [sys.executable, "-c", f"import os; os.chdir({str(tmp_path)!r})\n{code}"]
    assert model_hub.run(argv, dict(os.environ), str(tmp_path), 60, seen.append, pause=0.05) == (True, "signal 9")
    assert max(seen) >= 100_000


def test_progress_for_people(tmp_path):
    told = "reading /m: 100.0 of 595.0 GB in 50 s, 2000 MB/s, 248 s to go"
    assert model_progress.sentence("reading /m", 100e9, 595e9, 50) == told
    now, logged = [0.0], []
    path = tmp_path / "run" / "p.json"
    with model_progress.ProgressFile(str(path), "reading /m", logged.append, lambda: now[0]) as tell:
        for now[0] in (10.0, 50.0, 61.0, 90.0):
            tell(1e9 * now[0], 595e9)
        assert logged == ["reading /m: 61.0 of 595.0 GB in 61 s, 1000 MB/s, 534 s to go"]
        assert '"total": 595000000000.0' in path.read_text()
    assert not path.exists()
    with model_progress.ProgressFile("/proc/nowhere/p.json", "x") as tell:
        tell(1, 2)
