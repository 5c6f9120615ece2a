# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import struct

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.llmfleet.sglang.plugins.module_utils import safetensors_index
from ansible_collections.llmfleet.sglang.plugins.modules import model_check

REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def folder(tmp_path):
    """A complete model of one file."""
    header = json.dumps({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"....")
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


@pytest.fixture
def run(folder, capsys):
    """Runs the module on the folder as Ansible would."""

    def run_module(check_mode=False, **arguments):
        arguments = {"path": str(folder), "stamp": str(folder / ".stamp"), **arguments}
        with patch_module_args({**arguments, "_ansible_check_mode": check_mode}), pytest.raises(SystemExit) as ended:
            model_check.main()
        assert ended.value.code == 0
        return json.loads(capsys.readouterr().out)

    return run_module


def test_first_check_stamps_and_second_uses_the_stamp(run, folder, monkeypatch):
    first = run(repo="org/name", revision=REVISION)
    assert (first["complete"], first["changed"], first["stamp_used"], first["same_origin"]) == (True, True, False, True)
    assert (folder / ".stamp").stat().st_mode & 0o777 == 0o644
    monkeypatch.setattr(safetensors_index, "check_folder", lambda path: pytest.fail("a full check was made"))
    second = run(repo="org/name", revision=REVISION)
    assert (second["complete"], second["changed"], second["stamp_used"]) == (True, False, True)
    for key in ("kind", "files", "total_bytes", "problems"):
        assert second[key] == first[key]


@pytest.mark.parametrize("damage", ["touch", "shorten", "remove"])
def test_stamp_does_not_hide_a_change(run, folder, damage):
    run()
    path = folder / "model.safetensors"
    if damage == "touch":
        os.utime(path, ns=(0, 1))
    elif damage == "shorten":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        path.unlink()
    result = run()
    assert result["stamp_used"] is False
    assert result["complete"] is (damage == "touch")
    assert result["changed"] is (damage == "touch")


def test_other_revision_is_seen(run):
    run(repo="org/name", revision=REVISION)
    result = run(repo="org/name", revision=REVISION[::-1], stamp_write=False)
    assert (result["complete"], result["same_origin"], result["changed"]) == (True, False, False)
    assert run(repo="org/name", revision=REVISION, stamp_write=False)["same_origin"] is True


def test_other_revision_is_stamped_where_the_caller_vouches_for_it(run):
    run(repo="org/name", revision=REVISION)
    second = run(repo="org/name", revision=REVISION[::-1])
    assert (second["stamp_used"], second["changed"], second["same_origin"]) == (True, True, True)
    assert run(repo="org/name", revision=REVISION[::-1])["changed"] is False


def test_stamp_of_another_format_is_not_believed(run, folder):
    run()
    stamp = json.loads((folder / ".stamp").read_text())
    (folder / ".stamp").write_text(json.dumps({**stamp, "format": stamp["format"] + 1}))
    result = run()
    assert (result["stamp_used"], result["changed"]) == (False, True)


def test_incomplete_folder_is_no_failure_and_gets_no_stamp(run, folder):
    (folder / "config.json").unlink()
    result = run()
    assert (result["complete"], result["changed"], result["missing"]) == (False, False, ["config.json"])
    assert not (folder / ".stamp").exists()


def test_check_mode_writes_nothing(run, folder):
    result = run(check_mode=True)
    assert (result["complete"], result["changed"]) == (True, True)
    assert not (folder / ".stamp").exists()


def test_no_stamp_where_none_is_wanted(run, folder):
    assert run(stamp_write=False)["changed"] is False
    assert run(stamp=None)["changed"] is False
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]


def test_place_that_cannot_be_written_gives_a_warning(run, folder, monkeypatch):
    # Where controller code is loaded, ansible-core shows warnings at once instead of returning them.
    warnings = []
    monkeypatch.setattr(model_check.AnsibleModule, "warn", lambda _self, text, **_more: warnings.append(text))
    result = run(stamp=str(folder / "missing" / "stamp"))
    assert (result["complete"], result["changed"]) == (True, False)
    assert "cannot be written (No such file or directory)" in " ".join(warnings)


@pytest.mark.parametrize(
    "content", ["", "[]", '{"format": 0, "files": {}}', '{"format": 1, "files": {}}', '{"format": 1}']
)
def test_stamp_that_says_nothing_is_not_believed(run, folder, content):
    (folder / ".stamp").write_text(content)
    result = run()
    assert (result["complete"], result["stamp_used"], result["changed"]) == (True, False, True)


def test_folder_that_is_not_there_tells_free_space(run, folder):
    result = run(path=str(folder / "a" / "b"))
    assert result["complete"] is False
    assert result["free_bytes"] > 0
