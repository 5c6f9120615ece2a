# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the command line of each SGLang release accepts.

The knowledge is C(engine_arguments.json) beside this file, made by C(tests/tools/make_argument_table.py)
from the real argparse parsers of SGLang 0.5.9 to 0.5.23 (C(sglang.srt.server_args)). Names of options are
written without their leading dashes throughout: C(context-length).
"""

from __future__ import annotations

import difflib
import functools
import json
import math
import os
import re
from collections import namedtuple

TABLE_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "engine_arguments.json")

# A local part, such as +cu130, says how a release was built; its command line is the same.
_RELEASE = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)(?:\.post([0-9]+))?(?:\+[a-zA-Z0-9.]+)?\Z")
_COUNT = re.compile(r"(?:[0-9]+|[0-9]+(?:\.[0-9]+)?[kMGT]|[0-9]+[KMGT]i)\Z")
# What argparse takes for a negative number, hence for a value, and not for an option.
_NEGATIVE = re.compile(r"-[0-9]+\Z|-[0-9]*\.[0-9]+\Z")
_INT = re.compile(r"[+-]?[0-9]+\Z")

Argument = namedtuple("Argument", "name names kind nargs choices deprecated required")
Argument.__doc__ = """One option of one release.

name: as asked for; names: every spelling of it, sorted;
kind: flag (no value), switch (no value, and a twin with the prefix no-), int, float, str, json,
or count (an integer that may end in k, M, G, T or Ki, Mi, Gi, Ti);
nargs: None (one value), + (one or more), * (any number) or ? (none or one);
choices: frozenset of text, or None when any value is taken;
deprecated: taken, but the release warns about it; required: the release does not start without it.
"""

Finding = namedtuple("Finding", "level problem mend")
Finding.__doc__ = "What is wrong with one option: level (error or warning), problem and mend (parts of a sentence)."


class UnknownRelease(ValueError):
    """The release is not one whose command line the table holds."""


def release_key(release):
    """Return a sortable tuple (major, minor, patch, post) for a release such as C(0.5.10.post1).

    Raises UnknownRelease when the text is not a final or post release.
    """
    match = _RELEASE.match(str(release))
    if match is None:
        raise UnknownRelease(f"{release!r} is not a release of SGLang such as 0.5.23 or 0.5.10.post1")
    return tuple(int(number or 0) for number in match.groups())


@functools.cache
def _table():
    with open(TABLE_FILE, encoding="utf-8") as handle:
        return json.load(handle)


def known_releases():
    """Return the releases of the table, oldest first."""
    return tuple(_table()["releases"])


def table_release(release):
    """Return the release of the table that stands for `release`.

    A post release has the command line of its base as far as SGLang's history goes, so 0.5.13.post1 is
    read as 0.5.13 and 0.5.15 as 0.5.15.post1. Raises UnknownRelease for every other release.
    """
    wanted = release_key(release)
    same_base = [known for known in known_releases() if release_key(known)[:3] == wanted[:3]]
    if not same_base:
        first, last = known_releases()[0], known_releases()[-1]
        raise UnknownRelease(f"{release} is not a release whose command line is known ({first} to {last})")
    return min(same_base, key=lambda known: abs(release_key(known)[3] - wanted[3]))


def _positions(text):
    found = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        found.update(range(int(first), int(last if dash else first) + 1))
    return found


@functools.cache
def arguments(release):
    """Return every option of a release as a dict of name (each spelling its own key) to Argument.

    Raises UnknownRelease.
    """
    index = known_releases().index(table_release(release))
    found = {}
    for row, forms in _table()["flags"].items():
        for form in forms:
            if index not in _positions(form["in"]):
                continue
            names = tuple(form.get("names", (row,)))
            choices = form.get("choices")
            if choices is not None:
                choices = frozenset(choice for choice, held in choices.items() if not held or index in _positions(held))
            for name in names:
                found[name] = Argument(
                    name,
                    names,
                    form["kind"],
                    form.get("nargs"),
                    choices,
                    form.get("deprecated", False),
                    form.get("required", False),
                )
                if form["kind"] == "switch":
                    found["no-" + name] = found[name]._replace(name="no-" + name, kind="flag")
    return found


@functools.cache
def releases_of(name):
    """Return the releases that know an option, oldest first; empty when none does."""
    return tuple(release for release in known_releases() if name in arguments(release))


@functools.cache
def releases_of_choice(name, choice):
    """Return the releases in which an option takes a value, oldest first."""
    found = []
    for release in known_releases():
        argument = arguments(release).get(name)
        if argument is not None and (argument.choices is None or choice in argument.choices):
            found.append(release)
    return tuple(found)


def word(value):
    """Return one value of an option as the text of one command line word.

    Mappings become compact JSON with their keys in the order given; a list inside a list likewise.
    Integers and floats keep their shortest exact form, so 0 stays C(0) and 4.0 stays C(4.0).
    """
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return str(value)


def option_words(name, value, argument=None):
    """Return the command line words of one option.

    value: True gives the bare flag; False and None leave the option out (for a switch, False gives its
    C(--no-) twin); a list gives one word each after the flag (one JSON word where the release wants JSON);
    a mapping gives JSON; anything else gives the flag and the value. A value with a leading dash is joined
    to its flag by C(=), because argparse would take it for a flag.
    """
    flag = "--" + name
    if value is None:
        return []
    if isinstance(value, bool):
        if value:
            return [flag]
        return ["--no-" + name] if argument is not None and argument.kind == "switch" else []
    if isinstance(value, (list, tuple)) and not (argument is not None and argument.kind == "json"):
        return [flag] + [word(item) for item in value]
    text = word(value)
    if text.startswith("-") and not _NEGATIVE.match(text):
        return [flag + "=" + text]
    return [flag, text]


def span(releases):
    """Say in words which releases these are, a part of a sentence: C(known from 0.5.14 to 0.5.19)."""
    first, last = releases[0], releases[-1]
    if last == known_releases()[-1]:
        return f"known from {first} on"
    if first == known_releases()[0]:
        return f"known up to {last}"
    return f"known only in {first}" if first == last else f"known from {first} to {last}"


def closest(name, names):
    """Return the known name nearest to a mistyped one, or None."""
    asked = name.lstrip("-").replace("_", "-")
    near = difflib.get_close_matches(asked, sorted(names), n=1, cutoff=0.6)
    return near[0] if near else None


def name_finding(name, release):
    """Return the Finding about the name of an option in a release, or None when the release takes it as it is."""
    options = arguments(release)
    if name in options:
        return None
    plain = name.lstrip("-").replace("_", "-")
    if plain in options:
        return Finding("error", "is not written as SGLang names it", f"write {plain}, with no leading dashes")
    expanded = sorted(option for option in options if plain and option.startswith(plain))
    if expanded and len({options[option].names for option in expanded}) == 1:
        return Finding("error", "is an abbreviation, which a later release may read otherwise", f"write {expanded[0]}")
    near = closest(name, options)
    held = releases_of(plain)
    if held:
        mend = f"remove it, or deploy a release that has it ({held[0]} to {held[-1]})"
        if near is not None and near != plain:
            mend += f"; the closest option of {release} is {near}"
        return Finding("error", f"is not an option of SGLang {release}: it is {span(held)}", mend)
    mend = f"write {near} if that is what you mean, or remove it" if near else "remove it"
    return Finding("error", f"is not an option of SGLang {release}", mend)


def _number(value):
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _value_mend(argument, value):
    """Return what a value of this kind looks like when the given one is none, else None."""
    text = word(value)
    if argument.kind == "int":
        fits = not isinstance(value, float) and _INT.match(text.strip())
        return None if fits else "write a whole number"
    if argument.kind == "count":
        return None if _COUNT.match(text) else "write a whole number, or one with a suffix such as 128k or 128Ki"
    if argument.kind == "float":
        number = _number(text)
        return None if number is not None and math.isfinite(number) else "write a number"
    if argument.kind == "json":
        if isinstance(value, (dict, list, tuple)):
            return None
        try:
            json.loads(text)
        except ValueError:
            return "write a mapping or a list, or JSON as text"
        return None
    if isinstance(value, (list, tuple)):
        return "write text"
    return None


def value_findings(argument, value, release):
    """Return the Findings about the value of one option, best shown behind the name and the value.

    value: as an operator writes it in YAML (see option_words); argument: from arguments(release).
    """
    name = argument.name
    if value is None or value is False:
        return []
    found = []
    if argument.deprecated:
        found.append(
            Finding("warning", f"is an old option that SGLang {release} still takes", "write its successor in time")
        )
    if argument.kind in ("flag", "switch"):
        if value is not True:
            found.append(Finding("error", "is given a value, but the option takes none", "write true or false"))
        return found
    if value is True:
        if argument.nargs not in ("?", "*"):
            found.append(Finding("error", "has no value, but the option needs one", "write the value instead of true"))
        return found
    is_list = isinstance(value, (list, tuple)) and argument.kind != "json"
    if is_list and argument.nargs not in ("+", "*"):
        found.append(Finding("error", "is a list, but the option takes one value", "write one value"))
        return found
    if is_list and not value and argument.nargs == "+":
        found.append(Finding("error", "is an empty list, but the option needs a value", "write a value or null"))
        return found
    for item in value if is_list else [value]:
        if item is None or isinstance(item, bool):
            found.append(Finding("error", f"holds {json.dumps(item)}, which is no value", "write text or a number"))
            continue
        mend = _value_mend(argument, item)
        if mend is None and is_list and word(item).startswith("-") and not _NEGATIVE.match(word(item)):
            mend = "write values without a leading dash, which SGLang would read as options"
        if mend is not None:
            found.append(Finding("error", f"does not fit: the option takes values of kind {argument.kind}", mend))
        elif argument.choices is not None and word(item) not in argument.choices:
            held = releases_of_choice(name, word(item))
            problem = f"is not a choice of SGLang {release}"
            if held:
                problem += f": that value is {span(held)}"
            near = closest(word(item), argument.choices)
            mend = f"write one of {', '.join(sorted(argument.choices))}"
            if near is not None and not held:
                mend = f"write {near} if that is what you mean, else {mend[6:]}"
            found.append(Finding("error", problem, mend))
    return found


def _is_option(text):
    return len(text) > 1 and text.startswith("-") and not _NEGATIVE.match(text)


def argv_findings(argv, release):
    """Read a whole command line as the release's parser would, and return what it would refuse.

    argv: words after C(python -m sglang.launch_server). Returns a list of (word, Finding); an empty list
    says that every word is an option of the release with a value that fits. Abbreviations are refused.
    """
    options = arguments(release)
    found = []
    missing = {argument.names for argument in options.values() if argument.required}
    position = 0
    while position < len(argv):
        flag, equals, joined = argv[position].partition("=")
        position += 1
        if not flag.startswith("--"):
            found.append((flag, Finding("error", "is a value that belongs to no option", "remove it")))
            continue
        name = flag[2:]
        values = [joined] if equals else []
        while not equals and position < len(argv) and not _is_option(argv[position]):
            argument = options.get(name)
            # The values of a flag that is not known go with it, else each would be a finding of its own.
            limit = len(argv) if argument is None or argument.nargs in ("+", "*") else 1
            if argument is not None and argument.kind in ("flag", "switch"):
                limit = 0
            if len(values) >= limit:
                break
            values.append(argv[position])
            position += 1
        problem = name_finding(name, release)
        if problem is not None:
            found.append((flag, problem))
            continue
        argument = options[name]
        missing.discard(argument.names)
        if argument.kind in ("flag", "switch") or not values:
            value = values[0] if values else True
        else:
            value = values if argument.nargs in ("+", "*") else values[0]
        found.extend((flag, finding) for finding in value_findings(argument, value, release))
    for names in sorted(missing):
        found.append(("--" + names[-1], Finding("error", "is missing", "give it a value")))
    return found
