# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the command line of each SGLang release accepts.

The knowledge is C(engine_arguments.json) beside this file, made by C(tests/tools/make_argument_table.py)
from the real argparse parsers of SGLang 0.5.9 to 0.5.23 (C(sglang.srt.server_args)). Names of options are
written without their leading dashes throughout: C(context-length).
"""

from __future__ import annotations

import ast
import difflib
import functools
import json
import math
import os
import re
from collections import namedtuple

from ._settings.vllm_words import value_counterpart

TABLE_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "engine_arguments.json")

# A local part, such as +cu130, says how a release was built; its command line is the same.
_RELEASE = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)(?:\.post([0-9]+))?(?:\+[a-zA-Z0-9.]+)?\Z")
_COUNT = re.compile(r"(?:[0-9]+|[0-9]+(?:\.[0-9]+)?[kMGT]|[0-9]+[KMGT]i)\Z")
# What argparse takes for a negative number, hence for a value, and not for an option.
_NEGATIVE = re.compile(r"-[0-9]+\Z|-[0-9]*\.[0-9]+\Z")

Argument = namedtuple("Argument", "name names kind nargs choices deprecated required default")
Argument.__doc__ = """One option of one release.

name: as asked for; names: every spelling of it, sorted;
kind: flag (no value), switch (no value, and a twin with the prefix no-), int, float, str, json,
or count (an integer that may end in k, M, G, T or Ki, Mi, Gi, Ti);
nargs: None (one value), + (one or more), * (any number) or ? (none or one);
choices: frozenset of text, or None when any value is taken;
deprecated: taken, but the release warns about it; required: the release does not start without it;
default: what the parser fills in, None for nothing.
"""

Finding = namedtuple("Finding", "level problem mend code")
Finding.__doc__ = """What is wrong with one option.

level: error or warning; problem and mend: parts of a sentence;
code: unknown, absent (an option of other releases), spelling, abbreviation, ambiguous, no_value, a_value, list, type,
choice, not_finite, deprecated, stray or missing.
"""

# Findings about what the release's parser takes all the same: it reads on where the collection does not.
TAKEN_CODES = frozenset(("abbreviation", "deprecated", "not_finite"))


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


def is_older(release, bound):
    """Tell whether a release is older than the tuple `bound`; a text that is no release counts as new."""
    try:
        return release_key(release) < bound
    except UnknownRelease:
        return False


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


def _default(form, index):
    for text, held in form.get("defaults", {}).items():
        if not held or index in _positions(held):
            try:
                return ast.literal_eval(text)
            except (ValueError, SyntaxError):
                return text
    return False if form["kind"] == "flag" else None


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
            default = _default(form, index)
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
                    default,
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


def expansions(name, release):
    """Return the options that argparse takes a name for: itself, else every option that it begins, sorted.

    One is what an abbreviation means in silence; several are an error of their own.
    """
    options = arguments(release)
    if name in options:
        return [name]
    return sorted(option for option in options if name and option.startswith(name))


def name_finding(name, release):
    """Return the Finding about the name of an option in a release, or None when the release takes it as it is."""
    options = arguments(release)
    if name in options:
        return None
    if name in ("help", "h"):
        return Finding("error", "prints SGLang's help and starts no server", "remove it", "unknown")
    plain = name.lstrip("-").replace("_", "-")
    if plain in options:
        problem = "is not written as SGLang names it"
        return Finding("error", problem, f"write {plain}, with no leading dashes", "spelling")
    held = releases_of(plain)
    meant = expansions(plain, release)
    gone = f"; {plain} itself is {span(held)}" if held else ""
    if len(meant) == 1:
        return Finding(
            "error",
            f"is an abbreviation, which SGLang {release} takes for {meant[0]} and another release may read otherwise"
            + gone,
            f"write {meant[0]}",
            "abbreviation",
        )
    if meant:
        which = ", ".join(meant[:4]) + (f" and {len(meant) - 4} more" if len(meant) > 4 else "")
        return Finding(
            "error",
            f"is not an option of SGLang {release} but the beginning of several, {which}" + gone,
            f"write one of them, such as {closest(plain, meant) or meant[0]}"
            + (f", or deploy a release that has it ({held[0]} to {held[-1]})" if held else ""),
            "ambiguous",
        )
    near = closest(name, options)
    if held:
        mend = f"remove it, or deploy a release that has it ({held[0]} to {held[-1]})"
        if near is not None and near != plain:
            mend += f"; the closest option of {release} is {near}"
        return Finding("error", f"is not an option of SGLang {release}: it is {span(held)}", mend, "absent")
    mend = f"write {near} if that is what you mean, or remove it" if near else "remove it"
    return Finding("error", f"is not an option of SGLang {release}", mend, "unknown")


def _parses(function, text):
    try:
        function(text)
    except ValueError:
        return False
    return True


def _value_mend(argument, value):
    """Return what a value of this kind looks like when the given one is none, else None."""
    text = word(value)
    if argument.kind == "int":
        return None if _parses(int, text) else "write a whole number"
    if argument.kind == "count":
        fits = _parses(int, text) or _COUNT.match(text.strip())
        return None if fits else "write a whole number, or one with a suffix such as 128k or 128Ki"
    if argument.kind == "float":
        return None if _parses(float, text) else "write a number"
    if argument.kind == "json":
        return (
            None
            if isinstance(value, (dict, list, tuple)) or _parses(json.loads, text)
            else ("write a mapping or a list, or JSON as text")
        )
    if isinstance(value, (list, tuple)):
        return "write text"
    return None


def _kind_finding(argument, item, in_list):
    """Return the Finding about one value that is of the wrong kind, or None."""
    if item is None or isinstance(item, bool):
        return Finding("error", f"holds {json.dumps(item)}, which is no value", "write text or a number", "type")
    mend = _value_mend(argument, item)
    if mend is None and in_list and word(item).startswith("-") and not _NEGATIVE.match(word(item)):
        mend = "write values without a leading dash, which SGLang would read as options"
    if mend is not None:
        return Finding("error", f"does not fit: the option takes values of kind {argument.kind}", mend, "type")
    if argument.kind == "float" and not math.isfinite(float(word(item))):
        return Finding("error", "is no finite number", "write a number", "not_finite")
    return None


def _choice_finding(argument, item, release):
    """Return the Finding about one value that the release has no choice for, or None."""
    text = word(item)
    if argument.kind == "int":
        text = str(int(text))
    if argument.choices is None or text in argument.choices:
        return None
    held = releases_of_choice(argument.name, text)
    problem = f"is not a choice of SGLang {release}"
    if held:
        problem += f": that value is {span(held)}"
    meant = value_counterpart(argument.names, text, argument.choices)
    near = meant or closest(text, argument.choices)
    mend = f"write one of {', '.join(sorted(argument.choices))}"
    if near is not None and (meant or not held):
        mend = f"write {near} if that is what you mean, else {mend[6:]}"
    return Finding("error", problem, mend, "choice")


def value_findings(argument, value, release):
    """Return the Findings about the value of one option, best shown behind the name and the value.

    value: as an operator writes it in YAML (see option_words); argument: from arguments(release).
    """
    if value is None or value is False:
        return []
    found = []
    if argument.deprecated:
        problem = f"is an old option that SGLang {release} still takes"
        found.append(Finding("warning", problem, "write its successor in time", "deprecated"))
    is_list = isinstance(value, (list, tuple)) and argument.kind != "json"
    wrong = None
    if argument.kind in ("flag", "switch"):
        if value is not True:
            wrong = ("is given a value, but the option takes none", "write true or false", "a_value")
    elif value is True:
        if argument.nargs not in ("?", "*"):
            wrong = ("has no value, but the option needs one", "write the value instead of true", "no_value")
    elif is_list and argument.nargs not in ("+", "*"):
        wrong = ("is a list, but the option takes one value", "write one value", "list")
    elif is_list and not value and argument.nargs == "+":
        wrong = ("is an empty list, but the option needs a value", "write a value or null", "no_value")
    else:
        for item in value if is_list else [value]:
            finding = _kind_finding(argument, item, is_list) or _choice_finding(argument, item, release)
            if finding is not None:
                found.append(finding)
    if wrong is not None:
        found.append(Finding("error", *wrong))
    return found


def _is_option(text, release):
    """Tell whether argparse takes a word for an option and not for a value."""
    if len(text) < 2 or not text.startswith("-") or _NEGATIVE.match(text):
        return False
    if " " in text:
        flag, equals, _joined = text.partition("=")
        return bool(equals) and flag.startswith("--") and bool(expansions(flag[2:], release))
    return True


def argv_findings(argv, release):
    """Read a whole command line as the release's parser would, and return what is wrong with it.

    argv: words after C(python -m sglang.launch_server). Returns a list of (word, Finding); an empty list
    says that every word is an option of the release with a value that fits. The parser itself leaves with an
    error exactly where a Finding has a code that is not in TAKEN_CODES.
    """
    options = arguments(release)
    found = []
    missing = {argument.names for argument in options.values() if argument.required}
    position = 0
    while position < len(argv):
        flag, equals, joined = argv[position].partition("=")
        position += 1
        if not flag.startswith("--"):
            found.append((flag, Finding("error", "is a value that belongs to no option", "remove it", "stray")))
            continue
        meant = expansions(flag[2:], release)
        argument = options[meant[0]] if len(meant) == 1 else None
        values = [joined] if equals else []
        # The values of a flag that is not known go with it, else each would be a finding of its own.
        limit = len(argv) if argument is None or argument.nargs in ("+", "*") else 1
        if argument is not None and argument.kind in ("flag", "switch"):
            limit = 0
        while not equals and len(values) < limit and position < len(argv) and not _is_option(argv[position], release):
            values.append(argv[position])
            position += 1
        problem = name_finding(flag[2:], release)
        if problem is not None:
            found.append((flag, problem))
        if argument is None:
            continue
        missing.discard(argument.names)
        value = True
        if values:
            value = values if argument.nargs in ("+", "*") else values[0]
        found.extend((flag, finding) for finding in value_findings(argument, value, release))
    for names in sorted(missing):
        found.append(("--" + names[-1], Finding("error", "is missing", "give it a value", "missing")))
    return found


def is_refused(findings):
    """Tell whether the release's parser leaves with an error over findings of argv_findings."""
    return any(finding.code not in TAKEN_CODES for _word, finding in findings)
