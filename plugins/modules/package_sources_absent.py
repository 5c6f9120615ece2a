#!/usr/bin/python
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: package_sources_absent
short_description: Remove every entry of a repository that an older installation left
version_added: 0.1.0
description:
  - Takes entries out of the files of apt (one-line and deb822 form) and of yum and dnf by their address. Other entries
    of the same file stay as they are; a file is removed only when none is left in it.
  - Two entries for one repository with different keys stop apt altogether, and a package manager that has a repository
    twice is not pinned to one of them. M(ansible.builtin.deb822_repository) and M(ansible.builtin.apt_repository)
    remove an entry only where its file or its whole line is known.
  - Takes keys out of the key files that apt trusts for every repository, where C(apt-key) put them, and removes
    keyring files that only the removed entries named.
  - Works without GnuPG. Key files that are no plain OpenPGP file are left alone and told in RV(unreadable).
author:
  - llmfleet contributors (@llmfleet)
options:
  addresses:
    description:
      - Parts of addresses. An entry whose address holds one of them is removed.
    type: list
    elements: str
    required: true
  keep:
    description:
      - Files that are not touched.
    type: list
    elements: path
    default: []
  key_ids:
    description:
      - Ends of fingerprints, at least eight hexadecimal digits of each, of keys that are taken out of
        O(trusted_paths).
    type: list
    elements: str
    default: []
  source_paths:
    description:
      - Files of entries, and folders of such files.
    type: list
    elements: path
    default: [/etc/apt/sources.list, /etc/apt/sources.list.d, /etc/yum.repos.d]
  trusted_paths:
    description:
      - Files of keys that are trusted for every repository, and folders of such files.
    type: list
    elements: path
    default: [/etc/apt/trusted.gpg, /etc/apt/trusted.gpg.d]
extends_documentation_fragment:
  - llmfleet.sglang.attributes
attributes:
  diff_mode:
    support: full
"""

EXAMPLES = r"""
- name: Have one source of the driver only
  llmfleet.sglang.package_sources_absent:
    addresses:
      - developer.download.nvidia.com/compute/cuda/repos/
    keep:
      - /etc/apt/sources.list.d/llmfleet-cuda.sources
    key_ids:
      - A4B469963BF863CC
"""

RETURN = r"""
entries:
  description: The entries that were removed.
  returned: always
  type: list
  elements: dict
  contains:
    path:
      description: The file.
      type: str
      sample: /etc/apt/sources.list.d/cuda-debian12-x86_64.list
    entry:
      description: The entry.
      type: str
      sample: deb https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/ /
keys:
  description: The keys that were taken out.
  returned: always
  type: list
  elements: dict
  contains:
    path:
      description: The file.
      type: str
      sample: /etc/apt/trusted.gpg
    fingerprint:
      description: The fingerprint, empty for a keyring file that was removed as a whole.
      type: str
      sample: AE09FE4BBD223A84B2CCFCE3F60F4B3D7FA2AF80
unreadable:
  description: Key files that could not be read as a sequence of keys, with the reason.
  returned: always
  type: list
  elements: str
  sample: ["/etc/apt/trusted.gpg: no OpenPGP packet at byte 0"]
"""

import os
import re

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import openpgp_keys, package_sources


def files_of(paths):
    """The files among paths, and those in the folders among them."""
    for path in paths:
        if os.path.isdir(path):
            names = sorted(os.listdir(path))
            yield from (os.path.join(path, name) for name in names if os.path.isfile(os.path.join(path, name)))
        elif os.path.isfile(path):
            yield path


def read(path):
    with open(path, "rb") as stream:
        return stream.read()


def changed_sources(params):
    """({path: (text before, text after)}, removed entries, keyrings that they named, text of all that stays)."""
    changes, entries, keyrings, rest = {}, [], [], ""
    for path in files_of(params["source_paths"]):
        without = package_sources.form_of(path)
        if not without:
            continue
        before = read(path).decode("utf-8", "surrogateescape")
        if path in params["keep"]:
            rest += before
            continue
        after, removed, keys = without(before, params["addresses"])
        rest += after
        if removed:
            changes[path] = (before, after)
            entries += [{"path": path, "entry": entry} for entry in removed]
            keyrings += keys
    return changes, entries, keyrings, rest


def changed_keys(params):
    """({path: bytes after}, keys that were taken out, files that cannot be read)."""
    changes, keys, unreadable = {}, [], []
    for path in files_of(params["trusted_paths"] if params["key_ids"] else []):
        if not path.endswith((".gpg", ".asc")):
            continue
        try:
            after, removed = openpgp_keys.without_keys(read(path), params["key_ids"])
        except ValueError as error:
            unreadable.append(f"{path}: {error}")
            continue
        if removed:
            changes[path] = after
            keys += [{"path": path, "fingerprint": fingerprint} for fingerprint in removed]
    return changes, keys, unreadable


def write(module, path, content):
    """Replace a file at once, with the owner and the mode that it has; remove it when nothing is left."""
    if not content:
        os.unlink(path)
        return
    fresh = os.path.join(module.tmpdir, "llmfleet-sources")
    with open(fresh, "wb") as stream:
        stream.write(content)
    module.atomic_move(fresh, path)


def main():
    module = AnsibleModule(
        argument_spec={
            "addresses": {"type": "list", "elements": "str", "required": True},
            "keep": {"type": "list", "elements": "path", "default": []},
            "key_ids": {"type": "list", "elements": "str", "default": [], "no_log": False},
            "source_paths": {
                "type": "list",
                "elements": "path",
                "default": ["/etc/apt/sources.list", "/etc/apt/sources.list.d", "/etc/yum.repos.d"],
            },
            "trusted_paths": {
                "type": "list",
                "elements": "path",
                "default": ["/etc/apt/trusted.gpg", "/etc/apt/trusted.gpg.d"],
            },
        },
        supports_check_mode=True,
    )
    params = module.params
    if not all(params["addresses"]):
        module.fail_json(msg="addresses holds an empty text, which every entry holds. Give parts of addresses.")
    for key_id in params["key_ids"]:
        if not re.match("^[0-9A-Fa-f]{8,40}$", key_id):
            module.fail_json(
                msg=f"key_ids has '{key_id}', which is no end of a fingerprint. Give 8 to 40 hexadecimal digits."
            )
    try:
        sources, entries, named, rest = changed_sources(params)
        trusted, keys, unreadable = changed_keys(params)
        # A keyring that another entry names as well stays.
        keyrings = sorted({path for path in named if path not in rest and path not in params["keep"]})
        keyrings = [path for path in keyrings if os.path.isfile(path)]
        keys += [{"path": path, "fingerprint": ""} for path in keyrings]
        if not module.check_mode:
            for path, (_before, after) in sources.items():
                write(module, path, after.encode("utf-8", "surrogateescape"))
            for path, after in trusted.items():
                write(module, path, after)
            for path in keyrings:
                os.unlink(path)
    except OSError as error:
        module.fail_json(
            msg=f"{error.filename}: {error.strerror}. Run it with become, on a file system that is writable."
        )
    diff = [
        {"before_header": path, "after_header": path, "before": before, "after": after}
        for path, (before, after) in sorted(sources.items())
    ]
    module.exit_json(changed=bool(entries or keys), entries=entries, keys=keys, unreadable=unreadable, diff=diff)


if __name__ == "__main__":
    main()
