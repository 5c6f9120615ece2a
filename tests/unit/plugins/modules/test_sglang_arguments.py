# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module against the stand-in's parser, and against interpreters that misbehave."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.llmfleet.sglang.plugins.modules import sglang_arguments
from ansible_collections.llmfleet.sglang.tests.lab.standin import harness

GOOD = ["--model-path", "/m", "--tp-size", "8", "--enable-hierarchical-cache"]


@pytest.fixture(scope="session")
def tree(tmp_path_factory):
    return harness.unpack("0.5.23+standin", tmp_path_factory.mktemp("standin"))


@pytest.fixture
def python(tree, tmp_path):
    """An interpreter that has the stand-in, as a virtual environment would."""
    return program(tmp_path, f'PYTHONPATH="{tree}" exec "{sys.executable}" "$@"')


def program(folder, line):
    path = folder / "venv" / "bin" / "python"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    record = folder / "venv" / "lib" / "python3.11" / "site-packages" / "sglang-0.5.23.dist-info" / "RECORD"
    record.parent.mkdir(parents=True)
    record.write_text("")
    return path


@pytest.fixture
def run(capsys):
    """Run the module as Ansible would."""

    def run_module(python, argv=tuple(GOOD), check_mode=False, **arguments):
        arguments = {"python": str(python), "argv": list(argv), **arguments}
        with patch_module_args({**arguments, "_ansible_check_mode": check_mode}), pytest.raises(SystemExit) as ended:
            sglang_arguments.main()
        assert ended.value.code == 0
        return json.loads(capsys.readouterr().out)

    return run_module


def test_what_fits_is_accepted(run, python):
    result = run(python)
    assert (result["outcome"], result["release"], result["changed"]) == ("accepted", "0.5.23+standin", False)
    assert result["message"] == "SGLang 0.5.23+standin takes these arguments."
    assert result["seconds"] > 0


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--hicache-ratio", "four"], "argument --hicache-ratio: invalid float value: 'four'."),
        (["--hicache-ratoi", "4"], "unrecognized arguments: --hicache-ratoi 4."),
        (["--hicache-s", "4"], "ambiguous option: --hicache-s could match"),
        (["--cuda-graph-config", '{"decoed":{}}'], "unknown phase 'decoed'"),
        (["--help"], "it would print its help"),
        (["--config", "/no/such.yaml"], "FileNotFoundError"),
    ],
)
def test_what_does_not_fit_is_refused_in_the_parser_s_words(run, python, argv, words):
    result = run(python, [*GOOD, *argv])
    assert result["outcome"] == "refused"
    assert words in result["message"]


def test_a_short_option_is_told(run, python):
    assert run(python, [*GOOD, "--hicache-rat", "3"])["abbreviations"] == [
        {"given": "--hicache-rat", "meant": "--hicache-ratio"}
    ]


def test_a_stamp_saves_the_second_question(run, python, tmp_path):
    stamp = tmp_path / "a.json"
    assert run(python, stamp=str(stamp), check_mode=True)["changed"] is True
    assert not stamp.exists()
    first = run(python, stamp=str(stamp))
    assert (first["changed"], first["stamp_used"]) == (True, False)
    assert stat.S_IMODE(stamp.stat().st_mode) == 0o600
    # Whoever is asked now would say nothing of use.
    python.write_text("#!/bin/sh\nexit 3\n")
    second = run(python, stamp=str(stamp))
    assert (second["changed"], second["stamp_used"], second["outcome"], second["release"], second["seconds"]) == (
        *(False, True, "accepted", "0.5.23+standin", 0),
    )
    assert run(python, [*GOOD, "--port", "1"], stamp=str(stamp))["outcome"] == "broken"
    assert run(python, environment={"A": "1"}, stamp=str(stamp))["outcome"] == "broken"
    (tmp_path / "venv/lib/python3.11/site-packages/sglang-0.5.23.dist-info/RECORD").write_text("another")
    assert run(python, stamp=str(stamp))["outcome"] == "broken"


def test_a_refusal_leaves_no_stamp_and_a_full_disk_no_failure(run, python, tmp_path, monkeypatch):
    # Where controller code is loaded, ansible-core shows warnings at once instead of returning them.
    warnings = []
    monkeypatch.setattr(sglang_arguments.AnsibleModule, "warn", lambda _self, text, **_more: warnings.append(text))
    stamp = tmp_path / "a.json"
    run(python, ["--no"], stamp=str(stamp))
    assert not stamp.exists()
    stamp.write_text("not json")
    assert run(python, stamp=str(stamp))["changed"] is True
    result = run(python, stamp=str(tmp_path / "no" / "folder" / "a.json"))
    assert (result["outcome"], result["changed"]) == ("accepted", False)
    assert "cannot be written" in " ".join(warnings)


def test_an_installation_that_cannot_be_told_apart_is_asked_every_time(run, python, tmp_path):
    (tmp_path / "venv/lib/python3.11/site-packages/sglang-0.5.23.dist-info/RECORD").unlink()
    assert run(python, stamp=str(tmp_path / "a.json"))["changed"] is False
    assert not (tmp_path / "a.json").exists()


def test_keys_are_in_no_answer_no_stamp_and_no_process_list(run, tree, tmp_path):
    # The interpreter notes what the process list shows of it and of its parent.
    python = program(
        tmp_path,
        f'tr "\\0" " " < /proc/$$/cmdline >> "{tmp_path}/seen"; tr "\\0" "\\n" < /proc/$$/environ >> "{tmp_path}/seen";'
        f' PYTHONPATH="{tree}" exec "{sys.executable}" "$@"',
    )
    for argv in ([*GOOD, "--api-key", "planted-4711"], [*GOOD, "--api-key", "planted-4711", "planted-4711"]):
        stamp = tmp_path / "a.json"
        result = run(python, argv, environment={"HF_TOKEN": "planted-4712"}, stamp=str(stamp))
        assert "planted-471" not in json.dumps(result)
    assert "planted-471" not in stamp.read_text()
    seen = (tmp_path / "seen").read_text()
    assert "HF_TOKEN=planted-4712" in seen
    assert "planted-4711" not in seen


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("exit 3", "ended with status 3"),
        ("echo boom >&2; exit 1", "ended with status 1: boom"),
        ("kill -SEGV $$", "ended with signal 11"),
        (f'exec "{sys.executable}" "$@"', "PackageNotFoundError"),
    ],
)
def test_a_broken_installation_is_told(run, tmp_path, line, words):
    result = run(program(tmp_path, line))
    assert result["outcome"] == "broken"
    assert words in result["message"]


def test_an_interpreter_that_hangs_is_ended_with_its_children(run, tmp_path):
    python = program(tmp_path, f'sleep 1000 & echo $! > "{tmp_path}/child"; wait')
    result = run(python, timeout=2)
    assert result["outcome"] == "timeout"
    assert "timeout is 2" in result["message"]
    child = (tmp_path / "child").read_text().strip()
    state = subprocess.run(["ps", "-o", "state=", "-p", child], capture_output=True, text=True, check=False).stdout
    assert state.strip() in ("", "Z")


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_release_that_is_not_there_is_absent(run, tmp_path, check_mode):
    result = run(tmp_path / "venv" / "bin" / "python", check_mode=check_mode)
    assert (result["outcome"], result["changed"]) == ("absent", False)


def test_the_parser_runs_as_the_service_s_account(run, tmp_path):
    python = program(tmp_path, f'id -un > "{tmp_path}/who"; id -Gn >> "{tmp_path}/who"; pwd >> "{tmp_path}/who"')
    for folder in [tmp_path, *list(tmp_path.parents)[:-1]]:
        if str(folder).startswith("/tmp/pytest"):
            folder.chmod(0o777 if folder == tmp_path else 0o755)
    result = run(python, user="nobody")
    if os.geteuid() != 0:
        assert "only root" in result["message"]
        return
    name, groups, folder = (tmp_path / "who").read_text().split("\n")[:3]
    assert (name, groups) == ("nobody", "nogroup")
    assert not os.path.exists(folder)


def test_an_account_that_is_not_there_yet_is_no_obstacle(run, python):
    assert run(python, user="no-such-account")["outcome"] == "accepted"
