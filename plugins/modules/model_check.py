#!/usr/bin/python
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_check
short_description: Prove that a model folder is complete
version_added: 0.1.0
description:
  - Reads C(config.json), the index and the header of each weight file of a model folder, and tells which files are
    missing, short, damaged, or only git LFS pointers. The weights themselves are not read, so that 64 shards of
    10 GB take a second.
  - An incomplete folder is not a failure of the module. It is told in RV(complete) and RV(problems), because the
    caller knows whether the folder may still be filled.
author:
  - llmfleet contributors (@llmfleet)
options:
  path:
    description:
      - Folder of the model. It need not be there.
    type: path
    required: true
  stamp:
    description:
      - File that keeps size and modification time of each file after a full check. While they are the same, the next
        check looks at nothing else.
      - Without it, every check is a full one.
    type: path
  stamp_write:
    description:
      - Whether O(stamp) is written when a full check finds the folder complete.
      - A folder that cannot be written to, such as a read-only mount, gives a warning and no stamp.
    type: bool
    default: true
  repo:
    description:
      - Name of the repository that the files come from, kept in O(stamp).
    type: str
    default: ""
  revision:
    description:
      - Revision that the files come from, kept in O(stamp).
    type: str
    default: ""
attributes:
  check_mode:
    description: Checks in the same way, and writes no stamp.
    support: full
  diff_mode:
    description: The stamp is not shown.
    support: none
"""

EXAMPLES = r"""
- name: Look at a model folder
  llmfleet.sglang.model_check:
    path: /srv/models/Kimi-K2.5
    stamp: /srv/models/Kimi-K2.5/.llmfleet-model.json
  register: model

- name: Stop unless it is complete
  ansible.builtin.assert:
    that: model.complete
    fail_msg: "{{ model.problems | join('; ') }}"
"""

RETURN = r"""
complete:
  description: Whether every file that the index or the numbering asks for is there with its right size.
  type: bool
  returned: always
kind:
  description: What the weights are.
  type: str
  returned: always
  sample: safetensors-index
files:
  description: Weight files, index and C(config.json), as far as they are there.
  type: list
  elements: str
  returned: always
missing:
  description: Files that are not there.
  type: list
  elements: str
  returned: always
short:
  description: Files with fewer bytes than their own header asks for.
  type: list
  elements: str
  returned: always
lfs_pointers:
  description: Files that are git LFS pointers.
  type: list
  elements: str
  returned: always
problems:
  description: What is wrong, one sentence each, with the name of the file.
  type: list
  elements: str
  returned: always
total_bytes:
  description: Size of RV(files) in bytes.
  type: int
  returned: always
free_bytes:
  description: Free bytes of the file system that holds the folder, or would hold it.
  type: int
  returned: always
stamp_used:
  description: Whether the answer comes from the stamp.
  type: bool
  returned: always
same_origin:
  description: Whether the stamp names the same O(repo) and O(revision).
  type: bool
  returned: always
"""

import json
import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import safetensors_index

STAMP_FORMAT = 1


def read_stamp(path):
    """Content of a stamp; None when there is none, or one that this version did not write."""
    try:
        with open(path, "rb") as stream:
            stamp = json.loads(stream.read().decode("utf-8"))
    except (OSError, ValueError, TypeError):
        return None
    if not isinstance(stamp, dict) or stamp.get("format") != STAMP_FORMAT or not isinstance(stamp.get("files"), dict):
        return None
    return stamp


def free_bytes(path):
    """Free bytes, for users that are not root, where ``path`` is or would be made."""
    while not os.path.isdir(path):
        path = os.path.dirname(path.rstrip("/")) or "/"
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize


def from_stamp(stamp):
    """Result of a check whose files are those of the stamp."""
    return {
        "complete": True,
        "kind": stamp.get("kind", "none"),
        "files": sorted(stamp["files"]),
        "missing": [],
        "short": [],
        "lfs_pointers": [],
        "problems": [],
        "total_bytes": sum(size for size, _mtime_ns in stamp["files"].values()),
    }


def write_stamp(module, stamp, content):
    """Writes the stamp in one step; False where the place cannot be written to."""
    partial = f"{stamp}.{os.getpid()}"
    try:
        with open(partial, "w", encoding="utf-8") as stream:
            json.dump(content, stream, indent=1, sort_keys=True)
            stream.write("\n")
        os.chmod(partial, 0o644)
        os.replace(partial, stamp)
    except OSError as error:
        module.warn(f"The stamp {stamp} cannot be written ({error.strerror}): the next check is a full one again.")
        return False
    return True


def check(module):
    """Result of the module."""
    path, stamp_path = module.params["path"], module.params["stamp"]
    origin = {"repo": module.params["repo"], "revision": module.params["revision"]}
    stamp = read_stamp(stamp_path) if stamp_path else None
    marks = safetensors_index.fingerprint(path, stamp["files"]) if stamp else None
    stamp_used = bool(stamp and stamp["files"] and marks == stamp["files"])
    result = from_stamp(stamp) if stamp_used else safetensors_index.check_folder(path)
    same_origin = bool(stamp and {key: stamp.get(key) for key in origin} == origin)
    result.update(
        changed=False,
        stamp_used=stamp_used,
        same_origin=same_origin,
        free_bytes=free_bytes(path),
    )
    if not (result["complete"] and stamp_path and module.params["stamp_write"]) or (stamp_used and same_origin):
        return result
    if module.check_mode:
        result["changed"] = True
        return result
    marks = safetensors_index.fingerprint(path, result["files"])
    content = {"format": STAMP_FORMAT, "kind": result["kind"], "files": marks, **origin}
    result["changed"] = result["same_origin"] = write_stamp(module, stamp_path, content)
    return result


def main():
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "stamp": {"type": "path"},
            "stamp_write": {"type": "bool", "default": True},
            "repo": {"type": "str", "default": ""},
            "revision": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    module.exit_json(**check(module))


if __name__ == "__main__":
    main()
