# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a deployment is made of on the controller, summed up: variables, and the collection itself.

Standard library only, no Ansible.
"""

from __future__ import annotations

import hashlib
import json
import re

PREFIXES = (
    "bundle_", "cuda_", "gateway_", "model_", "plan_", "preflight_", "serve_", "sglang_", "site_", "verify_",
)  # fmt: skip
FOLDERS = ("roles", "plugins", "playbooks")
#: What a template may take from outside of the variables, so that its text does not stand for its value.
_OUTSIDE = re.compile(
    r"\b(?:lookup|query|q)\s*\(|\bnow\s*\(|\bis\s+(?:file|directory|exists)\b|\brandom\b|\bhostvars\b"
)


def names(variables, prefixes=PREFIXES):
    """Names of the variables that decide a deployment, sorted."""
    return sorted(name for name in variables if name.startswith(prefixes) and name != "site_state")


def collection_digest(folder):
    """Digest of all files of the collection that take part."""
    found = hashlib.sha256()
    for part in FOLDERS:
        for path in sorted((folder / part).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                content = path.read_bytes()
                found.update(f"{path.relative_to(folder)}\0{len(content)}\0".encode() + content)
    return found.hexdigest()


def _text(value):
    return json.dumps(value, sort_keys=True, default=str)


def digest(variables, value_of, folder):
    """Digest of variables and collection; empty where a variable's value cannot be told before its role runs.

    ``value_of`` gives the value of a variable and raises ValueError where it refers to something that only its role
    knows. Its text stands for it then: what it refers to is among the variables, in the collection, or on the host.
    """
    found = hashlib.sha256(collection_digest(folder).encode())
    for name in sorted(variables):
        try:
            text = _text(value_of(variables[name]))
        except ValueError:
            text = _text(variables[name])
            if _OUTSIDE.search(text):
                return ""
        found.update(f"{name}\0{len(text)}\0{text}\0".encode())
    return found.hexdigest()
