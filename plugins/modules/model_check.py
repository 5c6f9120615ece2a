#!/usr/bin/python
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_check
short_description: Prove that a model folder is complete and undamaged
version_added: 0.1.0
description:
  - Reads C(config.json), the index and the header of each weight file of a model folder, and tells which files are
    missing, short, damaged, unfinished, or only git LFS pointers.
  - Where sums are known, it compares them, with as many threads as the host has processors. They come from
    O(checksums), from a file C(SHA256SUMS) in the folder, from what huggingface_hub noted when it filled the folder, or
    from the stamp of an earlier check.
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
      - File that keeps size, modification time, inode and sha256 of each file after a check. A file for which the first
        three are the same is not read again, so that 64 shards take a moment.
      - Without it, every check is a full one.
    type: path
  stamp_write:
    description:
      - Whether O(stamp) is written when a check finds the folder complete.
      - A folder that cannot be written to, such as a read-only mount, gives a warning and no stamp.
    type: bool
    default: true
  verify:
    description:
      - V(stamp) reads what O(stamp) does not vouch for.
      - V(full) reads every byte and compares it with the sums, those of O(stamp) included. For a folder without any
        sums it makes them, so that later checks find what changes from then on.
      - V(headers) reads no weights and writes no stamp.
    type: str
    choices: [headers, stamp, full]
    default: stamp
  checksums:
    description:
      - Sums of the files, as C(sha256sum) prints them. Files that are named there have to be in the folder.
    type: str
    default: ""
  sums_required:
    description:
      - Whether every file shall have its sha256 in RV(manifest), which has files read that nobody has a sum for.
    type: bool
    default: false
  threads:
    description:
      - How many files are read at once. V(0) means one for each processor.
    type: int
    default: 0
  progress:
    description:
      - File that tells how far a long check is, renewed every few seconds. Removed at the end.
    type: path
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
seealso:
  - module: llmfleet.sglang.model_fetch
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

- name: Read every byte of a folder on NFS, and keep its stamp elsewhere
  llmfleet.sglang.model_check:
    path: /mnt/models/Kimi-K2.5
    stamp: /var/lib/llmfleet/kimi-k2.5.json
    checksums: "{{ lookup('ansible.builtin.file', 'kimi-k2.5.SHA256SUMS') }}"
    verify: full
  async: 86400
  poll: 30
"""

RETURN = r"""
complete:
  description: Whether every file is there with its right size and, where it is known and was asked for, its right sum.
  type: bool
  returned: always
kind:
  description: What the weights are.
  type: str
  returned: always
  sample: safetensors-index
files:
  description: Weight files, index, C(config.json) and files that a list of sums names, as far as they are there.
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
damaged:
  description: Files whose header or sum is wrong, or that cannot be read.
  type: list
  elements: str
  returned: always
partial:
  description: Files whose name says that a download or copy has not finished.
  type: list
  elements: str
  returned: always
extra:
  description: Weight files that nothing asks for. They are no problem where an index names the weights.
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
read_bytes:
  description: Bytes that were read to compute sums.
  type: int
  returned: always
free_bytes:
  description: Free bytes of the file system that holds the folder, or would hold it.
  type: int
  returned: always
manifest:
  description:
    - C(name), C(size) in bytes and C(sha256) of each file, the last one V(null) where it is not known. Empty unless
      RV(complete).
  type: list
  elements: dict
  returned: always
summed:
  description: Whether the folder is complete and RV(manifest) has the sha256 of every file.
  type: bool
  returned: always
stamp_used:
  description: Whether the answer comes from the stamp alone.
  type: bool
  returned: always
same_origin:
  description: Whether the stamp names the same O(repo) and O(revision).
  type: bool
  returned: always
"""

import os
import time

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import model_manifest, model_proof, model_staging, safetensors_index
from ..module_utils.model_progress import ProgressFile

EMPTY = {"missing": [], "short": [], "damaged": [], "lfs_pointers": [], "problems": []}


def from_stamp(stamp):
    """Result of a check whose files are those of the stamp."""
    total = sum(mark["size"] for mark in stamp["files"].values())
    return {"complete": True, "kind": stamp.get("kind", "none"), "files": sorted(stamp["files"]), "total_bytes": total}


def expectations(module, path, files, stamp):
    """What is known about the files: ``(manifest, who tells it)``. Raises ManifestError."""
    if module.params["checksums"].strip():
        return model_manifest.from_sums(module.params["checksums"]), "checksums"
    told, source = model_manifest.from_folder(path, files)
    for name, mark in ((stamp or {}).get("files") or {}).items():
        told.setdefault(name, model_manifest.entry(None, mark.get("sha256")))
    return told, source or f"the stamp of {stamp_day(stamp)}"


def stamp_day(stamp):
    """Day on which a stamp was made."""
    return time.strftime("%Y-%m-%d", time.gmtime((stamp or {}).get("made") or 0))


def stamp_suffices(module, stamp):
    """Whether the stamp alone answers what is asked."""
    if (
        not stamp
        or module.params["verify"] == "full"
        or model_proof.changed_files(module.params["path"], stamp["files"])
    ):
        return False
    if module.params["sums_required"] and not all(mark.get("sha256") for mark in stamp["files"].values()):
        return False
    if not module.params["checksums"].strip():
        return True
    wanted = model_manifest.from_sums(module.params["checksums"])
    return all(stamp["files"].get(name, {}).get("sha256") == wanted[name]["sha256"] for name in wanted)


def inspect(module, stamp):
    """Reads the folder: ``(result, marks)``."""
    path, params = module.params["path"], module.params
    result = safetensors_index.check_folder(path)
    if not os.path.isdir(path):
        return result, {}
    expected, source = expectations(module, path, result["files"], stamp)
    bad = set(result["short"] + result["damaged"] + result["lfs_pointers"] + result["missing"])
    for name in sorted(set(expected) - set(result["files"]) - bad):
        if os.path.isfile(os.path.join(path, name)):
            result["files"].append(name)
        else:
            result["missing"].append(name)
            result["problems"].append(f"{name} is missing: {source} names it")
    result["files"].sort()
    names = [name for name in result["files"] if name not in bad]
    result["total_bytes"] = sum(os.path.getsize(os.path.join(path, name)) for name in result["files"])
    marks = {}
    if params["verify"] != "headers":
        with ProgressFile(params["progress"], f"reading {path}", log=module.log) as tell:
            progress = model_proof.Progress(result["total_bytes"], tell)
            proof = model_proof.prove(
                path,
                names,
                expected,
                (stamp or {}).get("files"),
                params["verify"] == "full",
                params["threads"],
                progress.add,
                params["sums_required"],
            )
        marks = proof["marks"]
        result["damaged"] = sorted(set(result["damaged"]) | set(proof["damaged"]))
        advice = f". If it was replaced on purpose, remove {params['stamp']}"
        for sentence in proof["damaged"].values():
            result["problems"].append(sentence + (advice if " changed since it was stamped" in sentence else ""))
        result["read_bytes"] = progress.done
    return result, marks


def check(module):
    """Result of the module."""
    params = module.params
    path, stamp_path = params["path"], params["stamp"]
    origin = {"repo": params["repo"], "revision": params["revision"]}
    stamp = model_proof.read_stamp(stamp_path) if stamp_path else None
    stamp_used = stamp_suffices(module, stamp)
    result = {"read_bytes": 0, **{key: list(value) for key, value in EMPTY.items()}}
    found, marks = (from_stamp(stamp), stamp["files"]) if stamp_used else inspect(module, stamp)
    result.update(found)
    result["partial"], result["extra"] = safetensors_index.strays(path, set(result["files"]))
    for name in result["partial"]:
        result["problems"].append(
            f"{name} is an unfinished download or copy: wait for the program that writes it, or remove the file"
        )
    if result["extra"]:
        module.warn(f"{path} holds weights that nothing asks for: {', '.join(result['extra'][:5])}")
    same_origin = bool(stamp and {key: stamp.get(key) for key in origin} == origin)
    result.update(
        changed=False,
        complete=not result["problems"],
        stamp_used=stamp_used,
        same_origin=same_origin,
        free_bytes=model_staging.free_bytes(path),
        summed=False,
        manifest=[],
    )
    if not result["complete"]:
        return result
    result["manifest"] = [
        {"name": name, "size": marks[name]["size"], "sha256": marks[name].get("sha256")} for name in sorted(marks)
    ]
    result["summed"] = bool(marks) and all(mark.get("sha256") for mark in marks.values())
    wanted = stamp_path and params["stamp_write"] and params["verify"] != "headers"
    if not wanted or (stamp and same_origin and marks == stamp["files"]):
        return result
    if module.check_mode:
        result["changed"] = True
        return result
    try:
        model_proof.write_stamp(stamp_path, marks, result["kind"], **origin)
        result["changed"] = result["same_origin"] = True
    except OSError as error:
        module.warn(f"The stamp {stamp_path} cannot be written ({error.strerror}): the next check is a full one again.")
    return result


def main():
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "stamp": {"type": "path"},
            "stamp_write": {"type": "bool", "default": True},
            "verify": {"type": "str", "choices": ["headers", "stamp", "full"], "default": "stamp"},
            "checksums": {"type": "str", "default": ""},
            "sums_required": {"type": "bool", "default": False},
            "threads": {"type": "int", "default": 0},
            "progress": {"type": "path"},
            "repo": {"type": "str", "default": ""},
            "revision": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**check(module))
    except model_manifest.ManifestError as error:
        module.fail_json(msg=f"The sums for {module.params['path']} cannot be used: {error}.")


if __name__ == "__main__":
    main()
