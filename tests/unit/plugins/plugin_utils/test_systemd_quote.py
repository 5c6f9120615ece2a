# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quoting for systemd, against a second reading of its grammar written from its manual pages.

tests/lab/systemd_round_trip.py asks a running systemd the same.
"""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import systemd_quote as quoting
from hypothesis import given
from hypothesis import strategies as st

# Every printable character and the tab; what is refused has its own test.
TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], include_characters="\t", exclude_characters="\u2028\u2029"),
    max_size=30,
)


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        ("plain", "plain"),
        ("--tp-size=8", "--tp-size=8"),
        ("/srv/models/Kimi-K2.5", "/srv/models/Kimi-K2.5"),
        (8, "8"),
        ("", '""'),
        (" ", '" "'),
        ("a b", '"a b"'),
        (";", '";"'),
        ("#no", '"#no"'),
        ("100%", '"100%%"'),
        ("%h", '"%%h"'),
        ("$HOME", '"$$HOME"'),
        ("${HOME}", '"$${HOME}"'),
        ("$$", '"$$$$"'),
        ('say "hi"', '"say \\"hi\\""'),
        ("it's", '"it\'s"'),
        ("back\\slash", '"back\\\\slash"'),
        ("end\\", '"end\\\\"'),
        ("\\n", '"\\\\n"'),
        ("tab\there", '"tab\\there"'),
        ('{"a":[1,"b c"]}', '"{\\"a\\":[1,\\"b c\\"]}"'),
        ("größe €", '"größe €"'),
        ("*?[]~`!&|<>()", '"*?[]~`!&|<>()"'),
    ],
)
def test_arguments(value, quoted):
    assert quoting.quote_argument(value) == quoted


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("plain", "NAME=plain"),
        ("", "NAME="),
        ("a b", '"NAME=a b"'),
        ("$HOME", '"NAME=$HOME"'),
        ("50%", '"NAME=50%%"'),
        ('a"b\\c', '"NAME=a\\"b\\\\c"'),
    ],
)
def test_environment_assignments(value, line):
    assert quoting.quote_assignment("NAME", value) == line


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("plain", 'NAME="plain"'),
        ("", 'NAME=""'),
        ("$HOME `id`", 'NAME="\\$HOME \\`id\\`"'),
        ("50%", 'NAME="50%"'),
        ('a"b\\c', 'NAME="a\\"b\\\\c"'),
        ("a=b#c;d", 'NAME="a=b#c;d"'),
        (7, 'NAME="7"'),
    ],
)
def test_environment_file_lines(value, line):
    assert quoting.quote_environment_line("NAME", value) == line


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "\n", "a\0b", "\x1b[0m", "\x7f", "\x85", "\ud800", "a\u2028b"])
def test_what_a_unit_cannot_carry_is_refused(value):
    assert quoting.unsafe_characters(value)
    for quote in (
        quoting.quote_argument,
        lambda text: quoting.quote_assignment("NAME", text),
        lambda text: quoting.quote_environment_line("NAME", text),
    ):
        with pytest.raises(ValueError, match="remove it"):
            quote(value)


@pytest.mark.parametrize("name", ["", "1A", "A B", "A=B", "A-B", "Ä", "A\n"])
def test_names_that_are_none(name):
    with pytest.raises(ValueError, match="not a name"):
        quoting.quote_assignment(name, "x")
    with pytest.raises(ValueError, match="not a name"):
        quoting.quote_environment_line(name, "x")


def read_words(line):
    """Split and unescape a line as systemd.syntax(7) says, for the escapes that are used here."""
    words, word, quote, position = [], None, None, 0
    while position < len(line):
        character = line[position]
        position += 1
        if character == "\\":
            word = (word or "") + {"\\": "\\", '"': '"', "t": "\t"}[line[position]]
            position += 1
        elif quote:
            if character == quote:
                quote = None
            else:
                word += character
        elif character in "\"'":
            quote = character
            word = word or ""
        elif character in " \t":
            if word is not None:
                words.append(word)
                word = None
        else:
            word = (word or "") + character
    return words + ([word] if word is not None else [])


def expand(word, dollars):
    """Replace doubled signs, and fail on a single one, which would be a specifier or a variable."""
    for sign in "%$" if dollars else "%":
        rest = word.replace(sign * 2, "")
        assert sign not in rest
        word = word.replace(sign * 2, sign)
    return word


@given(st.lists(TEXT, min_size=1, max_size=5))
def test_any_words_come_back_from_a_command_line(words):
    line = " ".join(quoting.quote_argument(word) for word in words)
    assert "\n" not in line
    assert [expand(word, dollars=True) for word in read_words(line)] == words


@given(TEXT)
def test_any_value_comes_back_from_an_assignment(value):
    (word,) = read_words(quoting.quote_assignment("NAME", value))
    assert expand(word, dollars=False) == "NAME=" + value
