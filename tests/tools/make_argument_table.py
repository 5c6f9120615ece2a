#!/usr/bin/env python3
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make plugins/plugin_utils/engine_arguments.json, the table of SGLang's command line by release.

    make_argument_table.py describe --python VENV/bin/python FOLDER
        asks the real parser of an installed SGLang and writes FOLDER/RELEASE.json

    make_argument_table.py table FOLDER [-o FILE] [--check]
        packs every FOLDER/RELEASE.json into one table; --check compares instead of writing

A release's file maps an option string to action, type, nargs, choices, required, default (as repr() writes
it) and flags (all its option strings), as argparse holds them. The table is the same knowledge turned round:
per flag, each form it has had and the releases in which that form holds.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

TABLE = Path(__file__).resolve().parents[2] / "plugins" / "plugin_utils" / "engine_arguments.json"

# argparse's type callables, by name, in the words of the table. A name not listed here is a parser of
# SGLang's own with rules that the table does not know: any text is then taken.
KINDS = {
    "str": "str",
    "nullable_str": "str",
    "int": "int",
    "float": "float",
    "human_readable_int": "count",
    "loads": "json",
    "json_list_type": "json",
    "parse_cuda_graph_config_arg": "json",
    "parse_cuda_graph_backend_arg": "str",
}

# The default of most options, which the table leaves out.
IMPLIED_DEFAULTS = {"flag": "False"}

# Runs under the interpreter of the release that is described, so it must not import anything of ours.
DESCRIBE = r"""
import argparse, json, sys
from importlib.metadata import version
from sglang.srt.server_args import ServerArgs
parser = argparse.ArgumentParser()
ServerArgs.add_cli_args(parser)
found = {}
for action in parser._actions:
    if isinstance(action, argparse._HelpAction) or not action.option_strings:
        continue
    name = type(action).__name__.lstrip("_")
    found[action.option_strings[0]] = {
        "action": name[:-len("Action")] if name.endswith("Action") else name,
        "choices": None if action.choices is None else list(action.choices),
        "default": repr(action.default),
        "dest": action.dest,
        "flags": list(action.option_strings),
        "nargs": action.nargs,
        "required": action.required,
        "type": getattr(action.type, "__name__", str(action.type)),
    }
json.dump({"release": version("sglang"), "arguments": found}, sys.stdout, default=str)
"""


def release_key(release):
    """Order releases as pip does: 0.5.9 < 0.5.10 < 0.5.10.post1."""
    return tuple(int(number) for number in re.findall(r"\d+", release))


def ranges(numbers):
    """Write a set of positions as text: {0, 1, 2, 5} is "0-2,5"."""
    parts = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def form_of(argument):
    """Return the form of one argument as (kind, nargs, names, deprecated, required, has choices)."""
    names = [flag[2:] for flag in argument["flags"] if flag.startswith("--")]
    action = argument["action"]
    nargs = argument["nargs"]
    if action == "BooleanOptional":
        kind, names = "switch", [name for name in names if f"no-{name}" in names]
    elif nargs == 0:
        kind = "flag"
    else:
        kind = KINDS.get(argument["type"], "str")
    return (
        kind,
        nargs or None,
        tuple(sorted(names)),
        action.startswith("Deprecated"),
        bool(argument["required"]),
        argument["choices"] is not None,
    )


def table_of(folder):
    """Pack the files of FOLDER; the result depends on their content only, never on their order on disk."""
    files = sorted(Path(folder).glob("*.json"), key=lambda path: release_key(path.stem))
    if not files:
        raise SystemExit(f"{folder} holds no RELEASE.json: make one with the mode 'describe'")
    flags = {}
    for index, path in enumerate(files):
        for argument in json.loads(path.read_text(encoding="utf-8")).values():
            form = form_of(argument)
            # The name of a row is the same in every release, whichever spelling is the first one there.
            row = flags.setdefault(min(form[2]), {})
            entry = row.setdefault(form, {"in": set(), "choices": {}, "defaults": {}})
            entry["in"].add(index)
            if argument["default"] != IMPLIED_DEFAULTS.get(form[0], "None"):
                entry["defaults"].setdefault(argument["default"], set()).add(index)
            for choice in argument["choices"] or []:
                entry["choices"].setdefault(str(choice), set()).add(index)
    rows = {}
    for name in sorted(flags):
        rows[name] = []
        for form, entry in sorted(flags[name].items(), key=lambda item: min(item[1]["in"])):
            kind, nargs, names, deprecated, required, has_choices = form
            packed = {"in": ranges(entry["in"]), "kind": kind}
            if nargs:
                packed["nargs"] = nargs
            if names != (name,):
                packed["names"] = list(names)
            if deprecated:
                packed["deprecated"] = True
            if required:
                packed["required"] = True
            for part in ["defaults"] * bool(entry["defaults"]) + ["choices"] * has_choices:
                packed[part] = {
                    value: ranges(held) if held != entry["in"] else "" for value, held in sorted(entry[part].items())
                }
            rows[name].append(packed)
    return {"releases": [path.stem for path in files], "flags": rows}


def render(table):
    """One line per flag: small, and a release more shows as the lines that it changes."""
    compact = {"separators": (",", ":"), "ensure_ascii": False}
    lines = [f"{json.dumps(name)}:{json.dumps(row, **compact)}" for name, row in table["flags"].items()]
    body = ",\n".join(lines)
    return f'{{"releases":{json.dumps(table["releases"], **compact)},\n"flags":{{\n{body}\n}}}}\n'


def describe(python, folder):
    """Write what the parser of the SGLang behind the interpreter `python` accepts into FOLDER."""
    answer = subprocess.run([python, "-c", DESCRIBE], stdout=subprocess.PIPE, check=True).stdout
    # Imports of SGLang may print; the document is the last line.
    found = json.loads(answer.decode().strip().splitlines()[-1])
    path = Path(folder) / f"{found['release']}.json"
    path.write_text(json.dumps(found["arguments"], indent=0, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{path}: {len(found['arguments'])} arguments")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = parser.add_subparsers(dest="mode", required=True)
    mode = modes.add_parser("describe", help="one release's file from its own parser")
    mode.add_argument("--python", required=True, help="interpreter that has the release installed")
    mode.add_argument("folder")
    mode = modes.add_parser("table", help="the table from a folder of such files")
    mode.add_argument("folder")
    mode.add_argument("-o", "--output", type=Path, default=TABLE)
    mode.add_argument("--check", action="store_true", help="write nothing, fail when the table would differ")
    options = parser.parse_args(argv)
    if options.mode == "describe":
        describe(options.python, options.folder)
        return 0
    text = render(table_of(options.folder))
    if options.check:
        if options.output.read_text(encoding="utf-8") != text:
            print(f"{options.output} differs from what {options.folder} gives: run 'table' again", file=sys.stderr)
            return 1
        return 0
    options.output.write_text(text, encoding="utf-8")
    print(f"{options.output}: {len(text.encode())} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
