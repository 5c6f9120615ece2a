# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The script that makes the argument table, from parsers made for the purpose."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[4] / "tests" / "tools" / "make_argument_table.py"

# Stands in for an installed SGLang: a parser with one option of each sort the real ones have.
SERVER_ARGS = """
import argparse, json
print("imports of the real one are talkative")
class DeprecatedStoreTrueAction(argparse.Action):
    def __init__(self, option_strings, dest, nargs=0, **kwargs):
        super().__init__(option_strings, dest, nargs=nargs, **kwargs)
def human_readable_int(text):
    return int(text)
class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path", "--model", required=True, type=str)
        parser.add_argument("--tp-size", "--tensor-parallel-size", type=int, default=1)
        parser.add_argument("--enable-metrics", action="store_true")
        parser.add_argument("--trust", action=argparse.BooleanOptionalAction)
        parser.add_argument("--context-length", type=human_readable_int)
        parser.add_argument("--levels", type=int, nargs="+", choices=[1, 2])
        parser.add_argument("--overrides", type=json.loads, default={})
        parser.add_argument("--old", action=DeprecatedStoreTrueAction)
"""


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("make_argument_table", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def argument(flag, **changes):
    entry = {
        "action": "Store",
        "choices": None,
        "default": "None",
        "dest": flag.strip("-"),
        "flags": [flag],
        "nargs": None,
        "required": False,
        "type": "str",
    }
    entry.update(changes)
    return entry


def write(folder, release, *arguments):
    path = folder / f"{release}.json"
    path.write_text(json.dumps({entry["flags"][0]: entry for entry in arguments}))


def test_describe_asks_the_installed_parser(script, tmp_path):
    site = tmp_path / "site"
    package = site / "sglang" / "srt"
    package.mkdir(parents=True)
    (package / "server_args.py").write_text(SERVER_ARGS)
    metadata = site / "sglang-9.8.7.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 9.8.7\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{site}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)

    assert script.main(["describe", "--python", str(python), str(tmp_path)]) == 0

    found = json.loads((tmp_path / "9.8.7.json").read_text())
    assert found["--tp-size"] == argument(
        "--tp-size", flags=["--tp-size", "--tensor-parallel-size"], type="int", default="1", dest="tp_size"
    )
    assert found["--model-path"]["required"] is True
    assert found["--levels"]["choices"] == [1, 2]
    assert {flag: entry["action"] for flag, entry in found.items()} == {
        "--context-length": "Store",
        "--enable-metrics": "StoreTrue",
        "--levels": "Store",
        "--model-path": "Store",
        "--old": "DeprecatedStoreTrue",
        "--overrides": "Store",
        "--tp-size": "Store",
        "--trust": "BooleanOptional",
    }

    table = script.table_of(tmp_path)
    assert {name: forms[0]["kind"] for name, forms in table["flags"].items()} == {
        "context-length": "count",
        "enable-metrics": "flag",
        "levels": "int",
        "model": "str",
        "old": "flag",
        "overrides": "json",
        "tensor-parallel-size": "int",
        "trust": "switch",
    }
    assert table["flags"]["old"][0]["deprecated"] is True
    assert {name: forms[0]["defaults"] for name, forms in table["flags"].items() if "defaults" in forms[0]} == {
        "overrides": {"{}": ""},
        "tensor-parallel-size": {"1": ""},
        "old": {"None": ""},
    }


def test_defaults_carry_the_releases_in_which_they_hold(script, tmp_path):
    write(tmp_path, "0.5.9", argument("--a", default="2.0"), argument("--b", default="'x'"))
    write(tmp_path, "0.5.10", argument("--a"), argument("--b", default="'y'"))
    flags = script.table_of(tmp_path)["flags"]
    assert flags["a"] == [{"in": "0-1", "kind": "str", "defaults": {"2.0": "0"}}]
    assert flags["b"] == [{"in": "0-1", "kind": "str", "defaults": {"'x'": "0", "'y'": "1"}}]


def test_forms_and_choices_carry_the_releases_in_which_they_hold(script, tmp_path):
    write(tmp_path, "0.5.9", argument("--a", choices=["x", "y"]), argument("--b"))
    write(tmp_path, "0.5.10", argument("--a", choices=["x", "z"]))
    write(tmp_path, "0.5.10.post1", argument("--a"), argument("--b", type="int"))
    table = script.table_of(tmp_path)
    assert table == {
        "releases": ["0.5.9", "0.5.10", "0.5.10.post1"],
        "flags": {
            "a": [
                {"in": "0-1", "kind": "str", "choices": {"x": "", "y": "0", "z": "1"}},
                {"in": "2", "kind": "str"},
            ],
            "b": [{"in": "0", "kind": "str"}, {"in": "2", "kind": "int"}],
        },
    }


def test_an_option_that_went_and_came_is_one_form(script, tmp_path):
    for release, arguments in (("0.5.9", ["--a"]), ("0.5.10", []), ("0.5.11", ["--a"])):
        write(tmp_path, release, *[argument(flag) for flag in arguments])
    assert script.table_of(tmp_path)["flags"] == {"a": [{"in": "0,2", "kind": "str"}]}


def test_the_order_of_spellings_does_not_part_an_option(script, tmp_path):
    write(tmp_path, "0.5.9", argument("--long", flags=["--long", "--l"]))
    write(tmp_path, "0.5.10", argument("--l", flags=["--l", "--long"]))
    assert script.table_of(tmp_path)["flags"] == {"l": [{"in": "0-1", "kind": "str", "names": ["l", "long"]}]}


def test_the_table_is_the_same_every_time_and_check_notices_a_change(script, tmp_path, capsys):
    write(tmp_path, "0.5.9", argument("--b", choices=["y", "x"]), argument("--a"))
    target = tmp_path / "out" / "table"
    target.parent.mkdir()
    assert script.main(["table", str(tmp_path), "-o", str(target)]) == 0
    first = target.read_text()
    assert script.main(["table", str(tmp_path), "-o", str(target)]) == 0
    assert target.read_text() == first
    assert json.loads(first)["releases"] == ["0.5.9"]
    assert first.splitlines()[2].startswith('"a":')
    assert script.main(["table", str(tmp_path), "-o", str(target), "--check"]) == 0
    write(tmp_path, "0.5.10", argument("--a"))
    assert script.main(["table", str(tmp_path), "-o", str(target), "--check"]) == 1
    assert "run 'table' again" in capsys.readouterr().err
    assert target.read_text() == first


def test_a_folder_without_releases_is_named(script, tmp_path):
    with pytest.raises(SystemExit, match=r"holds no RELEASE\.json"):
        script.table_of(tmp_path)
