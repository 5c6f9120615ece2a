#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write src/sglang/data/arguments.json: the command line of every imitated SGLang release.

Each input is one JSON file named RELEASE.json, a mapping of a flag to what argparse holds about it
(action, type, nargs, choices, default, dest, flags, required), as read from that release's own parser:

    parser = argparse.ArgumentParser(); ServerArgs.add_cli_args(parser)
    {a.option_strings[0]: {...} for a in parser._actions}

The output keeps one line per flag with the releases in which its description changed, so that a new release
adds a few lines and not a second table.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from pathlib import Path

OUT = Path(__file__).parent / "src" / "sglang" / "data" / "arguments.json"


def release_key(name):
    """Sort "0.5.10.post1" after "0.5.9": the numbers of the name."""
    return [int(number) for number in re.findall(r"\d+", name)]


def compact(flag, entry):
    """Drop what argparse would fill in by itself."""
    spec = {}
    if entry["action"] != "Store":
        spec["action"] = entry["action"]
    if entry["type"] not in ("None", "str"):
        spec["type"] = entry["type"]
    if entry["nargs"] not in (None, 0):
        spec["nargs"] = entry["nargs"]
    if entry["choices"] is not None:
        spec["choices"] = entry["choices"]
    try:
        default = ast.literal_eval(entry["default"])
    except (SyntaxError, ValueError):
        default = entry["default"]
    if default is not None:
        spec["default"] = default
    if entry["dest"] != flag.lstrip("-").replace("-", "_"):
        spec["dest"] = entry["dest"]
    aliases = [name for name in entry["flags"] if name != flag]
    if aliases:
        spec["aliases"] = aliases
    if entry["required"]:
        spec["required"] = True
    return spec


def build(tables):
    """Merge {release: {flag: entry}} into {flag: [[first release, spec or None], ...]}."""
    releases = sorted(tables, key=release_key)
    flags = {}
    for flag in sorted({flag for table in tables.values() for flag in table}):
        history = []
        for release in releases:
            entry = tables[release].get(flag)
            spec = compact(flag, entry) if entry else None
            if history and history[-1][1] == spec:
                continue
            if spec is None and not history:
                continue
            history.append([release, spec])
        flags[flag] = history
    return releases, flags


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="RELEASE.json files")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(argv)
    releases, flags = build({path.stem: json.loads(path.read_text()) for path in options.files})
    lines = ['{"releases": ' + json.dumps(releases) + ",", '"flags": {']
    lines += [
        json.dumps(flag) + ": " + json.dumps(history, sort_keys=True) + ("," if flag != max(flags) else "")
        for flag, history in sorted(flags.items())
    ]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text("\n".join([*lines, "}}"]) + "\n")
    print(f"{options.out.name}: {len(releases)} releases, {len(flags)} flags", file=sys.stderr)


if __name__ == "__main__":
    main()
