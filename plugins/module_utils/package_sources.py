# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take the entries of one repository out of the files of a package manager.

Pure functions on text, one for each form: apt's one-line entries (``.list``), its deb822 stanzas (``.sources``) and
the sections of yum and dnf (``.repo``). Each returns ``(text, entries, keys)``: what is left, what was taken out, and
the keyring files that the removed entries named. What is left is "" when no entry of any kind remains; comments alone
do not keep a file.
"""

from __future__ import annotations

import re


def without_list_entries(text, addresses):
    """apt's one-line form. An entry that is commented out is none."""
    left, removed, keys = [], [], []
    for line in text.splitlines(keepends=True):
        entry = line.strip()
        if re.match(r"deb(-src)?\s", entry) and _names(entry, addresses):
            removed.append(entry)
            signed = re.search(r"\[[^]]*\bsigned-by=([^\]\s]+)", entry, re.IGNORECASE)
            keys += _paths(signed.group(1).split(",")) if signed else []
        else:
            left.append(line)
    remains = any(re.match(r"\s*deb(-src)?\s", line) for line in left)
    return ("".join(left) if remains else "", removed, keys) if removed else (text, [], [])


def without_stanzas(text, addresses):
    """apt's deb822 form: stanzas with empty lines between them."""
    left, removed, keys = [], [], []
    for stanza in re.split(r"(?<=\n)(?=[ \t]*\n)", text):
        fields = _fields(stanza)
        uris = fields.get("uris", "")
        if uris and fields.get("enabled", "yes") not in ("no", "false", "0") and _names(uris, addresses):
            removed.append(" ".join(uris.split()))
            keys += _paths(fields.get("signed-by", "").split())
        else:
            left.append(stanza)
    remains = any(_fields(stanza).get("uris") for stanza in left)
    return ("".join(left).lstrip("\n") if remains else "", removed, keys) if removed else (text, [], [])


def without_sections(text, addresses):
    """yum's and dnf's form: sections with a name in brackets."""
    left, removed, keys = [], [], []
    for section in re.split(r"(?m)^(?=\[)", text):
        fields = {key.strip().lower(): value.strip() for key, _sep, value in _assignments(section)}
        where = " ".join(fields.get(key, "") for key in ("baseurl", "mirrorlist", "metalink"))
        if section.startswith("[") and _names(where, addresses):
            removed.append(f"{section.split(']')[0]}] {where.strip()}")
            keys += _paths(re.sub(r"file:/+", "/", fields.get("gpgkey", "")).split())
        else:
            left.append(section)
    remains = any(section.startswith("[") for section in left)
    return ("".join(left) if remains else "", removed, keys) if removed else (text, [], [])


def form_of(name):
    """The function for a file of that name, None for a file that no package manager reads."""
    for ending, function in FORMS:
        if name.endswith(ending):
            return function
    return None


FORMS = ((".list", without_list_entries), (".sources", without_stanzas), (".repo", without_sections))


def _names(text, addresses):
    return any(address in text for address in addresses)


def _paths(words):
    return [word for word in words if word.startswith("/")]


def _fields(stanza):
    """{field in small letters: value} of one deb822 stanza; a value goes on in lines that start with a blank."""
    fields, name = {}, None
    for line in stanza.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if line[0] in " \t" and name:
            fields[name] += "\n" + line.strip()
        elif ":" in line:
            name, _sep, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()
    return fields


def _assignments(section):
    for line in section.splitlines():
        if "=" in line and not line.lstrip().startswith(("#", ";")):
            yield line.partition("=")
