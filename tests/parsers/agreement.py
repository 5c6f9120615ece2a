# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold the argument table against the parser of an installed release, wherever it is installed."""

from __future__ import annotations

import json
import re

from ansible_collections.llmfleet.sglang.plugins.plugin_utils import engine_arguments as table
from ansible_collections.llmfleet.sglang.tests.tools import make_argument_table

from . import vectors


def table_differences(folder, release):
    """Return what the table says otherwise than FOLDER/RELEASE.json, which the parser wrote; nothing when all is well.

    Compared are spellings, types, numbers of values, choices, defaults, deprecation and what is required.
    """
    asked = make_argument_table.table_of(folder)
    assert asked["releases"] == [release]
    kept = table._table()
    index = kept["releases"].index(release)
    return [
        (name, theirs, ours)
        for name in sorted({*asked["flags"], *kept["flags"]})
        for theirs, ours in [(_forms(asked["flags"].get(name), 0), _forms(kept["flags"].get(name), index))]
        if theirs != ours
    ]


def _forms(row, index):
    """The forms of a row that hold in one release, without the names of releases."""
    held = [form for form in row or [] if index in table._positions(form["in"])]
    return [
        {
            key: sorted(item for item, at in value.items() if not at or index in table._positions(at))
            if key in ("choices", "defaults")
            else value
            for key, value in form.items()
            if key != "in"
            and not (key == "defaults" and not any(not at or index in table._positions(at) for at in value.values()))
        }
        for form in held
    ]


def verdict_differences(answers, release):
    """Return the command lines about which table and parser differ: whether they are refused, and what is short."""
    found = []
    for words, (refused, message, taken) in zip(vectors.VECTORS, answers[: len(vectors.VECTORS)]):
        findings = table.argv_findings(words, release)
        short = {word: finding for word, finding in findings if finding.code == "abbreviation"}
        meant = {
            word: "--" + re.search(r"takes for (\S+)", finding.problem).group(1) for word, finding in short.items()
        }
        if (table.is_refused(findings), meant) != (refused, taken):
            found.append((words, (refused, message, taken), [(word, finding.code) for word, finding in findings]))
    return found


def deeper_differences(answers, release):
    """Return the command lines of DEEPER that the parser takes, or that the table refuses too."""
    return [
        words
        for words, (refused, _message, _taken) in zip(vectors.DEEPER, answers[len(vectors.VECTORS) :])
        if not refused or table.argv_findings(words, release)
    ]


def questions():
    """The text that read_many.py reads."""
    return json.dumps([*vectors.VECTORS, *vectors.DEEPER])
