# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the store leaves on the disk: lasting, complete, with the right modes and group, and one writer at a time."""

from __future__ import annotations

import grp
import os
import stat

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import service_store
from ansible_collections.llmfleet.sglang.tests.unit.plugins import disk_trace
from hypothesis import given
from hypothesis import strategies as st

ONE, TWO, THREE = (f"0.5.23-{number * 8}" for number in "123")
OWN_GROUP = grp.getgrgid(os.getegid()).gr_name
# Bytes that are no UTF-8 come in from files that people edit, and leave as they came.
TEXT = "[Service]\r\nMemoryMax=1G \udcff é\n"


@pytest.fixture(name="store")
def fixture_store(tmp_path):
    (tmp_path / "units").mkdir()
    return service_store.Store(str(tmp_path / "etc"), "kimi", str(tmp_path / "units"))


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def add(store, one=ONE, record=None):
    store.add(one, TEXT, 'A="1"\n', record or {"release": "0.5.23"}, OWN_GROUP)


# -- one file -----------------------------------------------------------------------------------------------------


def test_a_file_is_on_disk_before_its_name_is_and_the_name_before_the_end(tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    path.write_text("before")
    trace = disk_trace.record(monkeypatch)
    service_store.write(str(path), "after", 0o644)
    (synced, replaced, folder) = trace
    assert synced[0] == "fsync" and synced[2] == "after"
    assert replaced == ("replace", synced[1], str(path))
    assert folder == ("fsync", str(tmp_path), None)
    assert os.path.dirname(synced[1]) == str(tmp_path), "a file of another file system cannot take its place"


@pytest.mark.parametrize("wanted", [0o644, 0o640, 0o600])
def test_a_file_has_its_mode_whatever_the_umask_is(tmp_path, monkeypatch, wanted):
    path, seen = str(tmp_path / "env"), []
    real = os.open

    def noted(name, flags, given=0o777, **options):
        descriptor = real(name, flags, given, **options)
        if flags & os.O_CREAT:
            seen.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return descriptor

    monkeypatch.setattr(os, "open", noted)
    for umask in (0o000, 0o077):
        with disk_trace.umask(umask):
            service_store.write(path, "secret", wanted)
        assert mode(path) == wanted
    assert seen == [0o600, 0o600], "it has wider rights for a moment"


def test_a_file_gets_its_group_before_its_mode(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(os, "fchown", lambda descriptor, user, group: calls.append(("group", user, group)))
    monkeypatch.setattr(os, "fchmod", lambda descriptor, given: calls.append(("mode", given)))
    service_store.write(str(tmp_path / "env"), "", 0o640, OWN_GROUP)
    assert calls == [("group", -1, os.getegid()), ("mode", 0o640)]
    calls.clear()
    service_store.write(str(tmp_path / "unit"), "", 0o644)
    assert calls == [("mode", 0o644)]


def test_a_group_that_the_host_does_not_have_is_named(tmp_path):
    path = tmp_path / "env"
    path.write_text("before")
    with pytest.raises(service_store.StoreError, match='group is "no-such-group": the host has no such group'):
        service_store.write(str(path), "after", 0o640, "no-such-group")
    assert path.read_text() == "before" and os.listdir(tmp_path) == ["env"]


@pytest.mark.parametrize("call", ["fsync", "replace", "fchmod"])
def test_a_file_that_cannot_be_replaced_stays_as_it_was(tmp_path, monkeypatch, call):
    path = tmp_path / "unit"
    path.write_text("before")

    def full(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space left"):
        service_store.write(str(path), "after", 0o644)
    assert path.read_text() == "before" and os.listdir(tmp_path) == ["unit"]


def test_what_a_killed_run_with_the_same_pid_left_is_no_obstacle(tmp_path):
    partial = tmp_path / f".unit.{os.getpid()}"
    partial.write_text("half")
    partial.chmod(0o666)
    service_store.write(str(tmp_path / "unit"), "whole", 0o644)
    assert (tmp_path / "unit").read_text() == "whole" and os.listdir(tmp_path) == ["unit"]


def test_no_link_is_followed_where_a_file_is_made(tmp_path, monkeypatch):
    target = tmp_path / "passwd"
    target.write_text("root")
    partial = tmp_path / f".unit.{os.getpid()}"
    real = os.unlink

    def planted(path, **options):
        # Somebody who may write into the folder is quicker.
        real(path, **options) if os.path.lexists(path) else None
        if os.fspath(path) == str(partial):
            partial.symlink_to(target)

    monkeypatch.setattr(os, "unlink", planted)
    with pytest.raises(FileExistsError):
        service_store.write(str(tmp_path / "unit"), "whole", 0o644)
    assert target.read_text() == "root"


@given(
    st.text(alphabet=st.characters(codec="utf-8")) | st.binary().map(lambda raw: raw.decode(errors="surrogateescape"))
)
def test_every_text_is_read_as_it_was_written(tmp_path_factory, text):
    path = str(tmp_path_factory.getbasetemp() / "any-text")
    service_store.write(path, text, 0o644)
    assert service_store.read(path) == text
    assert service_store.write_if_other(path, text, 0o644) is False


def test_where_nothing_is_there_is_nothing_to_read(tmp_path):
    (tmp_path / "file").write_text("")
    assert service_store.read(str(tmp_path / "none")) is None
    assert service_store.read(str(tmp_path / "file" / "below")) is None
    assert service_store.read(str(tmp_path / "file")) == ""
    with pytest.raises(IsADirectoryError):
        service_store.read(str(tmp_path))


def test_a_file_is_replaced_where_text_mode_or_group_is_another(tmp_path, monkeypatch):
    path = str(tmp_path / "env")
    assert service_store.write_if_other(path, "a", 0o640, OWN_GROUP) is True
    before = os.stat(path).st_ino
    assert service_store.write_if_other(path, "a", 0o640, OWN_GROUP) is False
    assert os.stat(path).st_ino == before
    assert service_store.write_if_other(path, "b", 0o640, OWN_GROUP) is True
    os.chmod(path, 0o644)
    assert service_store.write_if_other(path, "b", 0o640, OWN_GROUP) is True
    assert mode(path) == 0o640
    os.chmod(path, 0o4640)
    assert service_store.write_if_other(path, "b", 0o640, OWN_GROUP) is True
    monkeypatch.setattr(service_store, "group_id", lambda name: os.getegid() + 1)
    monkeypatch.setattr(os, "fchown", lambda descriptor, user, group: None)
    assert service_store.write_if_other(path, "b", 0o640) is False, "no group was asked for"
    assert service_store.write_if_other(path, "b", 0o640, "another") is True


def test_no_descriptor_is_left_open(store):
    before = disk_trace.open_descriptors()
    with store.locked():
        add(store)
        store.make_active(ONE, OWN_GROUP)
        store.write_state(service_store.empty_state())
    assert disk_trace.open_descriptors() == before


# -- the lock -----------------------------------------------------------------------------------------------------


def test_a_second_run_waits_for_the_first(store):
    assert disk_trace.keeps_out(store.locked, store.locked)


def test_another_service_of_the_host_does_not_wait(store, tmp_path):
    other = service_store.Store(str(tmp_path / "etc"), "qwen", str(tmp_path / "units"))
    assert not disk_trace.keeps_out(store.locked, other.locked)


def test_the_lock_is_given_back_also_by_a_run_that_fails(store):
    with pytest.raises(KeyError), store.locked():
        assert disk_trace.is_locked(store.folder)
        raise KeyError
    assert not disk_trace.is_locked(store.folder)


# -- a configuration ----------------------------------------------------------------------------------------------


def test_a_configuration_is_on_disk_before_it_appears_and_its_name_before_the_end(store, monkeypatch):
    trace = disk_trace.record(monkeypatch)
    add(store)
    (moved,) = trace.of("rename")
    place = trace.index(moved)
    assert moved[2] == store.path(ONE) and os.path.dirname(moved[1]) == store.configs
    before = [(event[1], event[2]) for event in trace[:place] if event[0] == "fsync"]
    assert [text for _path, text in before if text is not None] == [
        TEXT,
        'A="1"\n',
        service_store.as_json({"release": "0.5.23"}),
    ]
    # The three names in the folder, each after its file.
    assert [path for path, text in before if text is None] == [moved[1]] * 3
    assert trace[place + 1 :] == [("fsync", store.configs, None)]


def test_a_configuration_has_its_texts_its_modes_and_its_group(store):
    with disk_trace.umask(0o077), store.locked():
        add(store)
    assert store.texts(ONE) == (TEXT, 'A="1"\n')
    assert store.record(ONE) == {"release": "0.5.23"}
    found = {name: mode(store.path(ONE, name)) for name in os.listdir(store.path(ONE))}
    assert found == {"unit": 0o644, "env": 0o640, "record.json": 0o644}
    assert [mode(path) for path in (store.folder, store.configs, store.path(ONE))] == [0o755] * 3
    assert os.stat(store.path(ONE, "env")).st_gid == os.getegid()


def test_the_environment_belongs_to_the_group_that_was_given(store, monkeypatch):
    given_to = []
    monkeypatch.setattr(service_store, "group_id", lambda name: f"number of {name}")
    monkeypatch.setattr(
        os,
        "fchown",
        lambda descriptor, user, group: given_to.append((os.readlink(f"/proc/self/fd/{descriptor}"), user, group)),
    )
    store.add(ONE, TEXT, "", {}, "sglang")
    ((path, user, group),) = given_to
    assert (user, group) == (-1, "number of sglang") and os.path.basename(path).startswith(".env.")


def test_of_a_configuration_that_is_there_only_the_record_is_new(store):
    add(store)
    before = {name: os.stat(store.path(ONE, name)).st_ino for name in ("unit", "env")}
    store.add(ONE, "other", "other", {"release": "new"}, OWN_GROUP)
    assert store.texts(ONE) == (TEXT, 'A="1"\n') and store.record(ONE) == {"release": "new"}
    assert {name: os.stat(store.path(ONE, name)).st_ino for name in ("unit", "env")} == before
    assert mode(store.path(ONE, "record.json")) == 0o644


def test_what_a_killed_run_left_is_removed_and_nothing_else(store):
    add(store)
    left = os.path.join(store.configs, f".{TWO}.4711")
    os.makedirs(os.path.join(left, "deep"))
    add(store, TWO)
    assert sorted(os.listdir(store.configs)) == sorted([ONE, TWO])


def test_what_a_run_with_the_same_pid_left_does_not_come_into_a_configuration(store):
    left = store.path(f".{ONE}.{os.getpid()}")
    os.makedirs(left)
    with open(os.path.join(left, "stray"), "w", encoding="utf-8"):
        pass
    add(store)
    assert sorted(os.listdir(store.path(ONE))) == ["env", "record.json", "unit"]


def test_configurations_are_told_the_newest_first(store):
    assert store.ids() == []
    for one, age in ((ONE, 30), (TWO, 10), (THREE, 20)):
        add(store, one)
        os.utime(store.path(one), (1000 - age, 1000 - age))
    os.makedirs(os.path.join(store.configs, ".0.5.23-44444444.7"))
    os.makedirs(os.path.join(store.configs, "notes"))
    assert store.ids() == [TWO, THREE, ONE]
    os.utime(store.path(THREE), (990, 990))
    assert store.ids() == [TWO, THREE, ONE], "of one age they come by name"


def test_a_configuration_is_there_or_has_no_texts(store):
    add(store)
    with open(os.path.join(store.folder, "unit"), "w", encoding="utf-8") as stream:
        stream.write("beside the configurations")
    os.makedirs(store.path("notes"))
    with open(store.path("0.5.23-99999999"), "w", encoding="utf-8"):
        pass
    assert store.has(ONE) is True
    for other in (None, "", TWO, "..", "notes", f"../configs/{ONE}", "0.5.23-99999999"):
        assert store.has(other) is False
        assert (store.texts(other), store.record(other)) == (("", ""), None)
    os.unlink(store.path(ONE, "unit"))
    os.unlink(store.path(ONE, "env"))
    assert store.texts(ONE) == ("", "")


@pytest.mark.parametrize("content", ["{", "\x00"])
def test_a_record_that_cannot_be_read_is_named(store, content):
    add(store)
    with open(store.path(ONE, "record.json"), "w", encoding="utf-8") as stream:
        stream.write(content)
    with pytest.raises(service_store.StoreError, match=r"record\.json cannot be read: .* Remove that folder") as caught:
        store.record(ONE)
    assert str(caught.value).startswith(store.path(ONE, "record.json"))


@pytest.mark.parametrize("content", [None, ""])
def test_a_record_that_is_missing_is_none(store, content):
    add(store)
    os.unlink(store.path(ONE, "record.json"))
    if content is not None:
        with open(store.path(ONE, "record.json"), "w", encoding="utf-8"):
            pass
    assert store.record(ONE) is None


def test_only_what_is_named_is_removed(store):
    for one in (ONE, TWO, THREE):
        add(store, one)
    store.remove([ONE, THREE, "0.5.23-99999999"])
    assert store.ids() == [TWO]


# -- the active one, and the state --------------------------------------------------------------------------------


def test_the_active_one_is_a_copy_with_modes_of_its_own(store):
    add(store)
    assert store.active_texts() == ("", "")
    assert store.make_active(ONE, OWN_GROUP) is True
    assert store.active_texts() == (TEXT, 'A="1"\n')
    assert os.path.basename(store.active_unit) == "sglang-kimi.service"
    assert (mode(store.active_unit), mode(store.active_environment)) == (0o644, 0o640)
    assert store.make_active(ONE, OWN_GROUP) is False


@pytest.mark.parametrize("edited", ["active_unit", "active_environment"])
def test_a_copy_that_another_hand_changed_is_put_right(store, edited):
    add(store)
    store.make_active(ONE, OWN_GROUP)
    for spoil in (lambda path: os.chmod(path, 0o666), os.unlink):
        spoil(getattr(store, edited))
        assert store.make_active(ONE, OWN_GROUP) is True
        assert store.active_texts() == (TEXT, 'A="1"\n')
        assert (mode(store.active_unit), mode(store.active_environment)) == (0o644, 0o640)


def test_the_state_is_written_for_everybody_to_read_and_read_back(store):
    assert store.exists() is False and store.state() == service_store.empty_state()
    state = {**service_store.empty_state(), "active": ONE, "verified": [{"id": ONE, "invocation_id": "i"}]}
    with disk_trace.umask(0o077), store.locked():
        store.write_state(state)
    assert store.exists() is True and store.state() == state and mode(store.state_file) == 0o644


@pytest.mark.parametrize("text", ["{", "[]", '"text"', "7", '{"verified": {}}', '{"verified": null}'])
def test_a_state_that_cannot_be_read_is_named_and_not_taken_for_an_empty_one(store, text):
    with store.locked(), open(store.state_file, "w", encoding="utf-8") as stream:
        stream.write(text)
    with pytest.raises(service_store.StoreError, match=r"cannot be read: .* Move it away"):
        store.state()


def test_a_state_of_an_older_release_has_every_key():
    assert service_store.read_state('{"active": "a"}') == {**service_store.empty_state(), "active": "a"}


def test_json_is_for_people_to_read_and_to_compare():
    assert service_store.as_json({"b": "é", "a": [1]}) == '{\n "a": [\n  1\n ],\n "b": "é"\n}\n'
