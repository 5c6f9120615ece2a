# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quote words so that systemd hands them on unchanged.

Three grammars, each its own (systemd.syntax(7), systemd.service(5), systemd.exec(5)):
C(ExecStart=) unquotes, undoes C escapes, then replaces % specifiers and $ variables;
C(Environment=) does the same but knows no $ variables; a file named by C(EnvironmentFile=) has
shell-like quotes and knows neither specifiers nor variables.
"""

from __future__ import annotations

import re

# Anything else is put in double quotes. A leading # or ; would start a comment on a continued line,
# a lone ; would separate commands.
_PLAIN = re.compile(r"[A-Za-z0-9_./:=@+,-]+\Z")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def unsafe_characters(value):
    """Say what in a text systemd cannot carry, in words, or None.

    Refused are line breaks, other control characters but the tab, and text that is not valid Unicode.
    """
    text = str(value)
    if "\n" in text or "\r" in text:
        return "a line break"
    for character in text:
        if character != "\t" and (ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0):
            return "a control character"
        if 0xD800 <= ord(character) <= 0xDFFF:
            return "bytes that are not UTF-8"
        if character in "\u2028\u2029":
            return "a line break"
    return None


def _checked(value):
    text = str(value)
    unsafe = unsafe_characters(text)
    if unsafe is not None:
        raise ValueError(f"a value for systemd holds {unsafe}; remove it")
    return text


def _c_quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t") + '"'


def quote_argument(value):
    """Return one word of C(ExecStart=) (or ExecStartPre and the like) that systemd reads as `value`.

    Raises ValueError for what unsafe_characters names. The first word of a command, its program, has
    prefixes of its own and is not for this function unless it starts with a slash.
    """
    text = _checked(value)
    if _PLAIN.match(text):
        return text
    return _c_quoted(text.replace("%", "%%").replace("$", "$$"))


def quote_assignment(name, value):
    """Return one assignment for C(Environment=), C(NAME=value), quoted as a whole where needed.

    Raises ValueError for a name that is no variable name and for what unsafe_characters names.
    """
    return _quote_setting(_assignment(name, value))


def _quote_setting(text):
    return text if _PLAIN.match(text) else _c_quoted(text.replace("%", "%%"))


def quote_environment_line(name, value):
    """Return one line for a file named by C(EnvironmentFile=).

    The value is always in double quotes, in which only backslash, double quote, backquote and $ need a
    backslash. Raises ValueError as quote_assignment does.
    """
    assignment = _assignment(name, value)
    escaped = re.sub(r'([\\"`$])', r"\\\1", assignment.partition("=")[2])
    return f'{name}="{escaped}"'


def _assignment(name, value):
    if not is_variable_name(name):
        raise ValueError(f"{name!r} is not a name for an environment variable; use letters, digits and _")
    return f"{name}={_checked(value)}"


def is_variable_name(name):
    """Tell whether systemd takes `name` as the name of an environment variable."""
    return _NAME.match(str(name)) is not None
