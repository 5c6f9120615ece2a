# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module against the lab's hub and a mirror, with connections that break in every way."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import sys
import threading
import time
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.llmfleet.sglang.plugins.module_utils import (
    model_job,
    model_lock,
    model_proof,
    model_staging,
    model_transfer,
)
from ansible_collections.llmfleet.sglang.plugins.modules import model_fetch
from ansible_collections.llmfleet.sglang.tests.lab import server, shards

SHARDS = 4
SIZE = 1 << 20
STAMP = ".llmfleet-model.json"


def shard_name(number):
    return shards.shard_name(number, SHARDS)


def write_model(folder, **arguments):
    return shards.write_model(folder, SHARDS, SIZE, **arguments)


@pytest.fixture
def www(tmp_path):
    """What the server offers: the repository org/tiny."""
    write_model(tmp_path / "www" / "hub" / "org" / "tiny")
    return tmp_path / "www"


@pytest.fixture
def repository(www):
    return www / "hub" / "org" / "tiny"


@pytest.fixture
def address(www):
    with server.LabServer(("127.0.0.1", 0), www) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.02,))
        thread.start()
        yield "http://{}:{}".format(*running.server_address)
        running.shutdown()
        thread.join()


@pytest.fixture
def faults(www):
    """Sets what goes wrong from now on."""

    def set_faults(*entries):
        path = www / server.FAULTS_NAME
        path.with_suffix(".new").write_text(json.dumps(entries))
        path.with_suffix(".new").replace(path)

    return set_faults


@pytest.fixture
def target(tmp_path):
    return tmp_path / "srv" / "model"


@pytest.fixture
def run(address, target, repository, capsys, monkeypatch):
    """Runs the module as Ansible would; returns its result, with ``failed`` and ``warned``."""
    warnings = []
    monkeypatch.setattr(model_fetch.AnsibleModule, "warn", lambda _self, text, **_more: warnings.append(text))

    def run_module(check_mode=False, **arguments):
        warnings.clear()
        defaults = {
            "path": str(target), "url": f"{address}/hub", "repo": "org/tiny",
            "revision": server.HubRepository(repository).revision, "retry_delay": 0.001, "stall_timeout": 5,
        }  # fmt: skip
        arguments = {**defaults, **arguments, "_ansible_check_mode": check_mode}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            model_fetch.main()
        return {"failed": False, **json.loads(capsys.readouterr().out), "warned": " ".join(warnings)}

    return run_module


@pytest.fixture
def mirror(repository, address):
    """Arguments for the same model as a folder with its sums."""
    (repository / "SHA256SUMS").write_text(shards.sums_of(repository))
    return {"source": "http", "url": f"{address}/hub/org/tiny", "repo": "", "revision": ""}


def contents(folder):
    own = (STAMP, "SHA256SUMS")
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in own}


def beside(target):
    return sorted(path.name for path in target.parent.iterdir())


def test_a_folder_is_filled_stamped_and_then_left_alone(run, target, repository, www):
    result = run()
    assert (result["failed"], result["changed"], result["action"]) == (False, True, "filled")
    assert result["fetched"] == sorted(contents(repository))
    assert contents(target) == contents(repository)
    assert beside(target) == ["model"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o755
    assert {stat.S_IMODE(path.stat().st_mode) for path in target.iterdir()} == {0o644}
    marks = json.loads((target / STAMP).read_text())["files"]
    assert {name: mark["sha256"] for name, mark in marks.items()} == {
        name: hashlib.sha256(data).hexdigest() for name, data in contents(repository).items()
    }
    shutil.rmtree(www / "hub")  # a stamped folder asks nobody
    revision = json.loads((target / STAMP).read_text())["revision"]
    again = run(revision=revision)
    assert (again["failed"], again["changed"], again["action"]) == (False, False, "none")


def test_check_mode_tells_what_would_come_and_writes_nothing(run, target):
    result = run(check_mode=True)
    assert (result["changed"], len(result["fetched"]), result["bytes_fetched"] > SHARDS * SIZE) == (
        True, SHARDS + 3, True,
    )  # fmt: skip
    assert not target.parent.exists()


def test_a_folder_that_is_right_only_gets_its_stamp(run, target, repository):
    shutil.copytree(repository, target)
    inode = (target / shard_name(1)).stat().st_ino
    result = run()
    assert (result["action"], result["fetched"], result["changed"]) == ("stamped", [], True)
    assert (target / shard_name(1)).stat().st_ino == inode
    assert run()["changed"] is False


BROKEN = {
    "dropped often, each time a little farther": [{"match": "00002", "times": 9, "drop_after": 100_000}],
    "dropped before the first byte": [{"match": "00002", "times": 3, "drop_after": 0}],
    "busy": [{"match": "00003", "times": 2, "status": 503}],
    "too many requests": [{"match": "00003", "times": 1, "status": 429, "headers": {"Retry-After": "0"}}],
    "list of files busy": [{"match": "/tree/", "times": 2, "status": 502}],
    "stalled": [{"match": "00001", "times": 1, "stall_after": 1000, "seconds": 3}],
    "one bit wrong": [{"match": "00001", "times": 1, "flip": 700_000}],
    "one bit wrong in a small file": [{"match": "config.json", "times": 1, "flip": 0}],
    "told shorter": [{"match": "00004", "times": 2, "size_change": -5}],
    "told longer": [{"match": "00004", "times": 2, "size_change": 5}],
}


@pytest.mark.parametrize("entries", BROKEN.values(), ids=BROKEN)
def test_broken_connections_are_taken_up_again(run, target, repository, faults, entries):
    faults(*entries)
    result = run(stall_timeout=1)
    assert result["failed"] is False, result["msg"]
    assert contents(target) == contents(repository)


LOST = {
    "gone": ([{"match": "00002", "status": 404}], ["00002", "404"]),
    "forbidden": ([{"match": "00002", "status": 403}], ["00002", "403", "token"]),
    "always busy": ([{"match": "00002", "status": 503}], ["00002", "3 times in a row", "503"]),
    "always dropped": ([{"match": "00002", "drop_after": 0}], ["00002", "broke off after 0 of"]),
    "always damaged": ([{"match": "00002", "flip": 500_000}], ["00002", "fetched whole twice", "its sha256 is"]),
    "always too short": ([{"match": "00002", "size_change": -1}], ["00002", "bytes, expected are"]),
}


@pytest.mark.parametrize(("entries", "words"), LOST.values(), ids=LOST)
def test_what_cannot_be_fetched_is_named_and_the_next_run_completes_it(run, target, faults, repository, entries, words):
    faults(*entries)
    result = run(retries=2, workers=1)
    assert result["failed"] is True
    for word in words:
        assert word in result["msg"]
    assert not target.exists()
    (part,) = target.parent.glob(".model.part-*")
    assert f"stays in {part}, and the next run resumes it" in result["msg"]
    faults()
    first = (part / shard_name(1)).stat().st_ino
    assert run()["failed"] is False
    assert contents(target) == contents(repository)
    assert (target / shard_name(1)).stat().st_ino == first
    assert beside(target) == ["model"]


def test_an_unknown_revision_is_told_with_the_hubs_words(run, target):
    result = run(revision="0" * 40)
    assert result["failed"] is True
    assert "404" in result["msg"]
    assert "no revision" in result["msg"]


def test_a_server_that_is_not_there_is_named(run):
    result = run(url="http://127.0.0.1:9/hub", retries=1)
    assert "http://127.0.0.1:9/hub" in result["msg"]
    assert "cannot be reached" in result["msg"]


def test_a_new_revision_shares_what_did_not_change(run, target, repository):
    run()
    before = {path.name: path.stat().st_ino for path in target.iterdir()}
    write_model(repository, changed=(2,))
    preview = run(check_mode=True)
    assert (preview["changed"], preview["fetched"]) == (True, [shard_name(2)])
    result = run()
    assert (result["action"], result["fetched"]) == ("filled", [shard_name(2)])
    after = {path.name: path.stat().st_ino for path in target.iterdir()}
    assert {name for name in before if before[name] != after[name]} == {shard_name(2), STAMP}
    assert contents(target) == contents(repository)
    assert beside(target) == ["model"]


def test_the_old_revision_stays_whole_until_the_new_one_is(run, target, repository, faults):
    run()
    old = contents(target)
    write_model(repository, seed=1)
    faults({"match": "00003", "status": 404})
    result = run()
    assert result["failed"] is True
    assert contents(target) == old
    faults()
    run(previous_keep=True)
    assert contents(target) == contents(repository)
    assert contents(target.parent / ".model.previous") == old
    run()
    assert beside(target) == ["model"]


def test_without_an_exchange_of_names_the_old_one_makes_way(run, target, repository, monkeypatch):
    run()
    write_model(repository, seed=1)
    monkeypatch.setattr(model_staging, "_exchange", lambda _first, _second: False)
    assert run()["action"] == "filled"
    assert contents(target) == contents(repository)


def test_a_crash_between_two_names_is_healed(run, target, repository):
    run()
    os.rename(target, target.parent / ".model.previous")
    result = run()
    assert (result["failed"], result["fetched"]) == (False, [])
    assert "the revision before is back" in result["warned"]
    assert contents(target) == contents(repository)


def test_a_flipped_byte_is_found_by_a_full_check_and_mended(run, target, repository):
    run()
    path = target / shard_name(3)
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[SIZE // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert run()["changed"] is False  # time and size are the same: the stamp is believed
    result = run(verify="full")
    assert (result["repaired"], result["fetched"]) == ([shard_name(3)], [shard_name(3)])
    assert f"{shard_name(3)} is damaged: its sha256 is" in result["warned"]
    assert contents(target) == contents(repository)
    assert run(verify="full")["changed"] is False


@pytest.mark.parametrize("damage", ["short", "missing", "touched and flipped"])
def test_damage_that_shows_is_mended_by_the_next_run(run, target, repository, damage):
    run()
    path = target / shard_name(1)
    data = path.read_bytes()
    path.unlink()
    if damage == "short":
        path.write_bytes(data[:-9])
    elif damage != "missing":
        path.write_bytes(data[:-9] + b"flipped..")
    result = run()
    assert result["fetched"] == [shard_name(1)]
    assert contents(target) == contents(repository)


def test_a_touched_file_is_read_again_and_not_fetched(run, target, monkeypatch):
    run()
    os.utime(target / shard_name(1), ns=(1, 1))
    read = []
    original = model_proof.hash_file
    monkeypatch.setattr(model_proof, "hash_file", lambda path, *more: read.append(path) or original(path, *more))
    result = run()
    assert (result["action"], result["fetched"]) == ("stamped", [])
    assert read == [str(target / shard_name(1))]


def test_a_second_writer_is_refused_with_the_first_ones_name(run, target):
    target.parent.mkdir()
    with model_lock.Lock(str(target.parent / ".model.lock")) as lock:
        lock.take()
        lock.note(5_000_000_000, 600_000_000_000)
        result = run()
        assert result["failed"] is True
        for word in (f"pid {os.getpid()}", "on host", "since", "5.0 of 600.0 GB", str(target), "model_lock_wait"):
            assert word in result["msg"]
    assert run()["action"] == "filled"


def test_a_second_writer_may_wait(run, target):
    target.parent.mkdir()
    lock = model_lock.Lock(str(target.parent / ".model.lock")).take()
    timer = threading.Timer(0.3, lock.release)
    timer.start()
    assert run(lock_wait=60)["action"] == "filled"
    timer.join()


def test_a_small_disk_is_refused_with_figures(run, target, monkeypatch):
    monkeypatch.setattr(model_staging, "free_bytes", lambda _path: 600_000)
    for check_mode in (True, False):
        result = run(check_mode=check_mode)
        assert "7 files with 0.004 GB are still to come" in result["msg"]
        assert "has 0.001 GB free" in result["msg"]
        assert "Free 0.004 GB" in result["msg"]


def test_a_disk_that_fills_up_is_told_with_figures(run, target, monkeypatch):
    def full(_self, _data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(model_transfer._Part, "append", full)
    result = run()
    assert "the disk is full while" in result["msg"]
    assert "GB are free" in result["msg"]
    monkeypatch.undo()


def test_a_mount_point_is_refused(run, monkeypatch, target):
    target.mkdir(parents=True)
    monkeypatch.setattr(os.path, "ismount", lambda path: path == str(target))
    assert f"Give a folder below it, for example {target}/model" in run()["msg"]


def test_what_an_interrupted_run_left_is_used(run, target, repository):
    revision = server.HubRepository(repository).revision
    part = Path(model_staging.Places(str(target), "org/tiny", revision).part)
    part.mkdir(parents=True)
    whole = (repository / shard_name(1)).read_bytes()
    (part / shard_name(1)).write_bytes(whole)
    (part / f"{shard_name(2)}.part").write_bytes((repository / shard_name(2)).read_bytes()[:500_000])
    (part / shard_name(3)).write_bytes(b"x" * len((repository / shard_name(3)).read_bytes()))
    (part / "of-another-revision").write_text("")
    result = run()
    assert shard_name(1) not in result["fetched"]
    assert contents(target) == contents(repository)


def test_who_goes_back_to_a_revision_and_forth_again_loses_nothing(run, target, repository, faults):
    old = server.HubRepository(repository).revision
    run()
    write_model(repository, changed=(1, 3))
    new = server.HubRepository(repository).revision
    faults({"match": "00003", "status": 404})
    assert run(revision=new, workers=1)["failed"] is True
    (part,) = target.parent.glob(".model.part-*")
    fetched = (part / shard_name(1)).stat().st_ino
    back = run(revision=old)
    assert (back["failed"], back["changed"]) == (False, False)
    assert (part / shard_name(1)).stat().st_ino == fetched
    faults()
    forth = run(revision=new)
    assert forth["fetched"] == [shard_name(3)]
    assert contents(target) == contents(repository)
    assert beside(target) == ["model"]


def test_what_was_fetched_of_a_revision_that_nobody_wants_goes_after_a_week(run, target):
    run()
    others = [target.parent / name for name in (".model.part-00000000", ".model.part", ".model.part-of-somebody")]
    for other in others:
        (other / "sub").mkdir(parents=True)
        (other / "sub" / "x.part").write_text("x")
    assert run()["changed"] is False
    long_ago = time.time() - (model_staging.STALE_DAYS + 1) * 86400
    for other in others:
        for path in (other / "sub" / "x.part", other / "sub", other):
            os.utime(path, (long_ago, long_ago))
    # One in which something arrived lately stays.
    os.utime(others[1] / "sub" / "x.part")
    result = run()
    assert (result["changed"], result["removed"]) == (True, [str(others[0])])
    assert run()["changed"] is False
    assert [other.exists() for other in others] == [False, True, True]


def test_a_link_to_the_folder_stays_a_link(run, target, repository):
    target.parent.mkdir()
    (target.parent / "elsewhere").mkdir()
    target.symlink_to(target.parent / "elsewhere" / "tiny")
    assert run()["action"] == "filled"
    assert target.is_symlink()
    assert contents(target) == contents(repository)
    assert run()["changed"] is False


def test_a_mirror_is_a_folder_with_its_sums(run, target, repository, mirror):
    result = run(**mirror)
    assert result["failed"] is False, result["msg"]
    assert contents(target) == contents(repository)
    for check_mode in (True, False):
        again = run(check_mode, **mirror)
        assert (again["action"], again["changed"]) == ("none", False)
    os.utime(target / shard_name(1), ns=(1, 1))
    assert (run(True, **mirror)["action"], run(**mirror)["action"]) == ("stamped", "stamped")
    write_model(repository, changed=(4,))
    (repository / "SHA256SUMS").unlink()
    (repository / "SHA256SUMS").write_text(shards.sums_of(repository))
    assert run(**mirror)["fetched"] == [shard_name(4)]


def test_a_mirror_with_a_name_for_its_revision_is_asked_once(run, repository, mirror, www):
    run(**mirror | {"revision": "r1"})
    shutil.rmtree(repository)
    repository.mkdir()
    assert run(**mirror | {"revision": "r1"})["changed"] is False
    assert "answers 404" in run(**mirror | {"revision": "r2"})["msg"]


def test_a_mirror_without_sums_is_refused_with_the_mend(run, address):
    result = run(source="http", url=f"{address}/hub/org/tiny", revision="")
    assert "sha256sum * > SHA256SUMS" in result["msg"]
    assert "model_checksums_file" in result["msg"]


def test_sums_can_be_given(run, target, address, repository):
    result = run(source="http", url=f"{address}/hub/org/tiny", revision="", checksums=shards.sums_of(repository))
    assert result["failed"] is False
    assert contents(target) == contents(repository)


@pytest.mark.parametrize(
    ("line", "word"), [("abc  config.json", "line 1"), (f"{'0' * 64}  ../../etc/passwd", "no file below the folder")]
)
def test_sums_that_are_none_are_refused(run, address, target, line, word):
    result = run(source="http", url=f"{address}/hub/org/tiny", revision="", checksums=line)
    assert word in result["msg"]
    assert not target.exists()


def test_a_source_without_a_shard_makes_no_model(run, target, repository, mirror):
    (repository / shard_name(2)).unlink()
    (repository / "SHA256SUMS").unlink()
    (repository / "SHA256SUMS").write_text(shards.sums_of(repository))
    result = run(**mirror)
    assert f"{shard_name(2)} is missing" in result["msg"]
    assert not target.exists()


def test_another_hosts_list_is_all_that_counts(run, target, repository, address):
    files = [
        {"name": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in contents(repository).items()
    ]
    arguments = {"source": "http", "url": f"{address}/hub/org/tiny", "files": files}
    assert run(**arguments)["action"] == "filled"
    assert run(**arguments | {"url": "http://127.0.0.1:9/"})["changed"] is False
    files[0]["sha256"] = "0" * 64
    assert "fetched whole twice" in run(**arguments)["msg"]


def test_the_token_goes_to_the_hub_and_into_no_message(run, repository, target):
    (repository / ".hub-token").write_text("hf_planted")
    assert "401" in run(token="hf_wrong_planted")["msg"]
    result = run(token="hf_planted")
    assert result["failed"] is False
    assert "hf_planted" not in json.dumps(result)
    assert "hf_planted" not in (target / STAMP).read_text()


CLIENT = """
import os, shutil, sys
words = sys.argv[1:]
folder = words[words.index("--local-dir") + 1]
names = words[2:words.index("--local-dir")]
os.makedirs(folder + "/.cache/huggingface/download", exist_ok=True)
for name in names[:{count}]:
    shutil.copy("{repository}/" + name, folder)
print("token", os.environ.get("HF_TOKEN"), os.environ.get("EXTRA"))
{then}
"""
CLIENTS = {
    "does all": (99, "", ""),
    "dies half-way": (2, "sys.exit('xet: connection reset')", "failed"),
    "hangs": (2, "import time; time.sleep(600)", "gained no byte for"),
    "brings damaged files": (99, f"open(folder + '/{shard_name(1)}', 'r+b').write(b'x' * 99)", "missing or damaged"),
}


@pytest.mark.parametrize(("count", "then", "warned"), CLIENTS.values(), ids=CLIENTS)
def test_the_hubs_own_client_is_watched_and_what_it_leaves_is_fetched(
    run, tmp_path, target, repository, count, then, warned
):
    program = tmp_path / "hf.py"
    program.write_text(CLIENT.format(count=count, repository=repository, then=then))
    result = run(hub_command=[sys.executable, str(program)], hub_environment={"EXTRA": "1"}, hub_stall_timeout=2)
    assert result["failed"] is False, result["msg"]
    assert warned in result["warned"]
    assert contents(target) == contents(repository)
    assert not (target / ".cache").exists()


def test_a_client_that_cannot_run_is_told(run, target, repository):
    result = run(hub_command=["/nonexistent/hf"])
    assert "/nonexistent/hf cannot be run" in result["warned"]
    assert contents(target) == contents(repository)


def test_a_full_disk_of_the_client_is_no_reason_to_try_again(run, tmp_path, repository):
    program = tmp_path / "hf.py"
    told = "sys.exit('OSError: [Errno 28] No space left on device')"
    program.write_text(CLIENT.format(count=1, repository=repository, then=told))
    assert "the disk is full" in run(hub_command=[sys.executable, str(program)])["msg"]


def test_progress_is_written_down_and_removed(run, tmp_path, monkeypatch):
    seen = []
    path = tmp_path / "run" / "progress.json"
    original = model_job.Job._finish

    def finish(self, marks):
        seen.append(json.loads(path.read_text()))
        return original(self, marks)

    monkeypatch.setattr(model_job.Job, "_finish", finish)
    run(progress=str(path))
    assert seen[0]["what"].startswith("fetching to")
    assert seen[0]["total"] > SHARDS * SIZE
    assert not path.exists()
