# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module on a folder that looks like /etc/apt, with keys that GnuPG made."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.llmfleet.sglang.plugins.module_utils import openpgp_keys
from ansible_collections.llmfleet.sglang.plugins.modules import package_sources_absent


@pytest.fixture(scope="module")
def keys():
    """Two keys, as (fingerprint, binary, armoured) by GnuPG's own word."""
    home = tempfile.mkdtemp(prefix="llmfleet-gpg-", dir="/tmp")

    def gpg(*words, text=False):
        argv = ["gpg", "--homedir", home, "--batch", "--quiet", "--passphrase", "", *words]
        return subprocess.run(argv, capture_output=True, check=True, text=text).stdout

    made = []
    for name, kind in (("old", "rsa2048"), ("other", "ed25519")):
        gpg("--quick-generate-key", f"{name} <{name}@example.com>", kind, "sign", "never")
        listing = gpg("--list-keys", "--with-colons", name, text=True)
        fingerprint = next(line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr:"))
        made.append((fingerprint, gpg("--export", name), gpg("--armor", "--export", name)))
    yield made
    subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], capture_output=True)
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def etc(tmp_path, keys):
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "trusted.gpg.d").mkdir()
    (tmp_path / "keyring.asc").write_bytes(keys[0][2])
    (tmp_path / "sources.list").write_text(
        "deb http://debian.example/debian bookworm main\n"
        f"deb [signed-by={tmp_path}/keyring.asc] https://nvidia.example/cuda/ /\n"
    )
    (tmp_path / "sources.list.d" / "cuda.list").write_text("deb https://nvidia.example/cuda/ /\n")
    (tmp_path / "sources.list.d" / "ours.sources").write_text("URIs: https://nvidia.example/cuda/\n")
    (tmp_path / "trusted.gpg").write_bytes(keys[1][1] + keys[0][1])
    (tmp_path / "trusted.gpg.d" / "cuda.asc").write_bytes(keys[0][2])
    (tmp_path / "trusted.gpg.d" / "kbx.gpg").write_bytes(b"\x00\x00\x00\x20\x01\x01\x00\x02KBXf")
    return tmp_path


@pytest.fixture
def run(etc, keys, capsys):
    def run_module(check_mode=False, code=0, **arguments):
        arguments = {
            "addresses": ["nvidia.example/cuda/"],
            "keep": [str(etc / "sources.list.d" / "ours.sources")],
            "key_ids": [keys[0][0][-16:]],
            "source_paths": [str(etc / "sources.list"), str(etc / "sources.list.d"), str(etc / "missing")],
            "trusted_paths": [str(etc / "trusted.gpg"), str(etc / "trusted.gpg.d")],
            **arguments,
        }
        with (
            patch_module_args({**arguments, "_ansible_check_mode": check_mode, "_ansible_diff": True}),
            pytest.raises(SystemExit) as ended,
        ):
            package_sources_absent.main()
        assert ended.value.code == code
        return json.loads(capsys.readouterr().out)

    return run_module


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_entries_and_keys_go_and_the_rest_stays(etc, keys, run):
    result = run()
    assert result["changed"]
    assert len(result["entries"]) == 2
    left = content(etc)
    assert left["sources.list"] == b"deb http://debian.example/debian bookworm main\n"
    assert left["trusted.gpg"] == keys[1][1]
    assert "sources.list.d/ours.sources" in left
    assert not {"sources.list.d/cuda.list", "trusted.gpg.d/cuda.asc", "keyring.asc"} & set(left)
    assert {key["fingerprint"] for key in result["keys"]} == {keys[0][0], ""}
    assert [line.split(":")[0].rsplit("/", 1)[1] for line in result["unreadable"]] == ["kbx.gpg"]
    assert any("debian.example" in part["after"] for part in result["diff"])


def test_a_second_run_changes_nothing(run):
    run()
    again = run()
    assert not again["changed"]
    assert again["entries"] == again["keys"] == []


def test_check_mode_tells_the_same_and_changes_nothing(etc, run):
    before = content(etc)
    told = run(check_mode=True)
    assert content(etc) == before
    assert told == run()


def test_a_keyring_that_another_entry_names_stays(etc, run):
    (etc / "sources.list.d" / "more.list").write_text(
        f"deb [signed-by={etc}/keyring.asc] https://other.example/repository /\n"
    )
    run()
    assert (etc / "keyring.asc").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [({"addresses": [""]}, "addresses holds an empty text"), ({"key_ids": ["3BF8"]}, "key_ids has '3BF8'")],
)
def test_arguments_that_would_match_too_much_are_refused(run, arguments, told):
    assert told in run(code=1, **arguments)["msg"]


def test_keys_are_told_by_the_fingerprints_of_gnupg(keys):
    assert [name for name, _key in openpgp_keys.split_keys(keys[0][1] + keys[1][1])] == [keys[0][0], keys[1][0]]
    for fingerprint, binary, armoured in keys:
        assert openpgp_keys.dearmour(armoured) == binary
        assert openpgp_keys.without_keys(armoured, [fingerprint]) == (b"", [fingerprint])
        assert openpgp_keys.without_keys(armoured, ["0" * 16]) == (armoured, [])


@pytest.mark.parametrize("damage", [b"\x99", b"\x99\x01\x0d\x04", b"KBXf", b"\xb4\x05other"])
def test_what_is_no_key_is_told(damage):
    with pytest.raises(ValueError, match=r"packet|public key"):
        openpgp_keys.split_keys(damage)
