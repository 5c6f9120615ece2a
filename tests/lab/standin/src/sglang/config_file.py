# SPDX-License-Identifier: GPL-3.0-or-later
"""`--config FILE.yaml`: the flat YAML mapping that SGLang turns into flags, read without a YAML library."""

from __future__ import annotations

import json
import re


def scalar(text):
    """A YAML scalar: quoted text, true/false/null, a flow list or object, else the text itself."""
    text = text.strip()
    if text.startswith(('"', "'")) and text[-1:] == text[:1] and len(text) > 1:
        return json.loads(text) if text[0] == '"' else text[1:-1].replace("''", "'")
    if text.startswith(("[", "{")):
        return json.loads(text)
    return {"true": True, "false": False, "null": None, "~": None, "": None}.get(text.lower(), text)


def without_comment(line):
    """The line up to a `#` that begins a word outside quotes."""
    quote = ""
    for at, character in enumerate(line):
        if character in "\"'" and quote in ("", character):
            quote = "" if quote else character
        elif character == "#" and not quote and (at == 0 or line[at - 1].isspace()):
            return line[:at]
    return line


def read(path):
    """The mapping in the file; only `key: value` and `- item` lines below a key are understood."""
    if not path.endswith((".yaml", ".yml")):
        raise ValueError(f"Config file must be YAML format, got: {path}")
    values, last = {}, None
    with open(path, encoding="utf-8") as stream:
        for raw in stream:
            line = without_comment(raw.rstrip("\n"))
            if not line.strip() or line.strip() == "---":
                continue
            item = re.match(r"\s*-\s+(.*)$", line)
            if item and last:
                values[last] = (values[last] or []) + [scalar(item.group(1))]
                continue
            key, _colon, value = line.partition(":")
            last = key.strip().strip("\"'")
            values[last] = scalar(value)
    return values


def merge(parser, argv):
    """The command line with the file's settings put before it, so that the line itself wins."""
    at = argv.index("--config")
    if at + 1 >= len(argv):
        parser.error("argument --config: expected one argument")
    switches = {name for action in parser._actions if action.nargs == 0 for name in action.option_strings}
    words = []
    for key, value in read(argv[at + 1]).items():
        flag = f"--{key}"
        if flag in switches:
            words += [flag] if value else []
        elif isinstance(value, list):
            words += [flag, *map(str, value)]
        elif isinstance(value, dict):
            words += [flag, json.dumps(value)]
        else:
            words += [flag, str(value)]
    return words + argv[:at] + argv[at + 2 :]
