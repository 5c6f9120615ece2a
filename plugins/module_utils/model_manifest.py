# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a model folder ought to hold: names, sizes and sums of its files, wherever they are told.

A manifest is ``{name: {"size": bytes or None, "sha256": hex or None, "git": hex or None}}``. Sources:

* the tree call of the hub's API (``/api/models/ORG/NAME/tree/REVISION``): sha256 of files in LFS or xet, git's blob id
  (SHA-1) of all others;
* a list as ``sha256sum`` prints it, for mirrors and folders;
* what huggingface_hub leaves in a folder that it filled: ``.cache/huggingface/download/NAME.metadata``, whose second
  line is the ETag, or links into ``blobs/``, whose names are it. The ETag of a file in LFS is its sha256.
"""

from __future__ import annotations

import os
import re

SUMS_NAME = "SHA256SUMS"
SHA256 = re.compile(r"^[0-9a-f]{64}$")
SHA1 = re.compile(r"^[0-9a-f]{40}$")
GNU_LINE = re.compile(r"^\\?(?P<sum>[0-9a-fA-F]{64})(?: [ *]| +)(?P<name>\S.*)$")
BSD_LINE = re.compile(r"^SHA256 \((?P<name>.+)\) = (?P<sum>[0-9a-fA-F]{64})$")
HUB_METADATA = os.path.join(".cache", "huggingface", "download")
# Folders and files that tools keep beside a model, and that are no part of it.
OWN_PREFIX = ".llmfleet-"


class ManifestError(ValueError):
    """A list that cannot be used; the message says why."""


def safe_name(name):
    """The name of a file below its folder, without ``./``. Raises ManifestError when it leads elsewhere."""
    clean = name[2:] if isinstance(name, str) and name.startswith("./") else name
    parts = clean.split("/") if isinstance(clean, str) else [""]
    if any(part in ("", ".", "..") for part in parts) or "\0" in clean or "\\" in clean:
        raise ManifestError(f"it names {name!r}, which is no file below the folder")
    return clean


def entry(size=None, sha256=None, git=None):
    """One file of a manifest."""
    return {"size": size, "sha256": sha256, "git": git}


def from_hub_tree(content):
    """Manifest of the entries of the hub's tree call. Raises ManifestError when it is no such answer."""
    if not isinstance(content, list):
        raise ManifestError("the hub's list of files is no list")
    manifest = {}
    for item in content:
        try:
            if item["type"] != "file":
                continue
            name, size, lfs = safe_name(item["path"]), int(item["size"]), item.get("lfs")
            sha256 = lfs["oid"].split(":")[-1] if lfs else None
            git = None if lfs else item.get("oid")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, ManifestError):
                raise
            raise ManifestError(f"the hub's list of files has an entry without path, size or sum: {item!r}") from None
        if (sha256 and not SHA256.match(sha256)) or (git and not SHA1.match(git)):
            raise ManifestError(f"the hub's list of files gives a sum for {name} that is none: {sha256 or git!r}")
        manifest[name] = entry(size, sha256, git)
    return manifest


def from_sums(text):
    """Manifest of a list as ``sha256sum`` prints it, with or without ``--tag``. Sizes are not known.

    Raises ManifestError with the number of the first line that is none.
    """
    manifest = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip("\r")
        if not line.strip() or line.startswith("#"):
            continue
        found = GNU_LINE.match(line) or BSD_LINE.match(line)
        if not found:
            raise ManifestError(f"line {number} is not what sha256sum prints: {line[:80]!r}")
        name, sha256 = safe_name(found.group("name")), found.group("sum").lower()
        if manifest.get(name, {}).get("sha256", sha256) != sha256:
            raise ManifestError(f"line {number} gives {name} a second sum")
        if name != SUMS_NAME and not name.startswith(OWN_PREFIX):
            manifest[name] = entry(None, sha256)
    return manifest


def from_list(content):
    """Manifest of a list of ``{"name", "size", "sha256"}``, as :func:`to_list` gives it."""
    try:
        return {
            safe_name(item["name"]): entry(int(item["size"]), item.get("sha256") or None, item.get("git") or None)
            for item in content
        }
    except (KeyError, TypeError, ValueError) as error:
        raise ManifestError(f"an entry has no name or no size ({error})") from None


def to_list(manifest):
    """The manifest as a list in the order of names, for results and requests."""
    return [{"name": name, **manifest[name]} for name in sorted(manifest)]


def from_folder(folder, names):
    """Sums that the folder itself gives for ``names``: its SHA256SUMS, or what huggingface_hub noted.

    Returns ``(manifest, source)`` with one of ``SHA256SUMS``, ``huggingface_hub`` and an empty text as the source.
    Raises ManifestError when SHA256SUMS is not readable as such a list.
    """
    path = os.path.join(folder, SUMS_NAME)
    if os.path.isfile(path):
        with open(path, encoding="utf-8", errors="replace") as stream:
            try:
                return from_sums(stream.read()), SUMS_NAME
            except ManifestError as error:
                raise ManifestError(f"{SUMS_NAME} is no list of sums: {error}") from None
    manifest = {}
    for name in names:
        sha256 = _noted_by_hub(folder, name)
        if sha256:
            manifest[name] = entry(None, sha256)
    return manifest, "huggingface_hub" if manifest else ""


def _noted_by_hub(folder, name):
    path = os.path.join(folder, name)
    if os.path.islink(path):
        target = os.path.basename(os.readlink(path))
        return target if SHA256.match(target) else None
    try:
        with open(os.path.join(folder, HUB_METADATA, name + ".metadata"), encoding="utf-8") as stream:
            lines = stream.read().splitlines()
        etag, noted = lines[1].strip().strip('"'), float(lines[2])
        # As the hub's own client does: a note says nothing about a file that changed after it.
        fresh = os.stat(path).st_mtime - 1 <= noted
    except (OSError, IndexError, ValueError):
        return None
    return etag if SHA256.match(etag) and fresh else None
