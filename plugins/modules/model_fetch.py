#!/usr/bin/python
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_fetch
short_description: Bring a model folder to a revision, whole or not at all
version_added: 0.1.0
description:
  - Fetches the files of a model from a hub, from a folder on an HTTP server, or from another host that gives its copy
    away, and compares each with its size and its sum.
  - The new revision grows beside the folder, as C(.NAME.part-KEY), with a key for each revision. Files that the folder
    has already become hard links.
    When everything is there and proved, it takes the folder's place in one step. Nothing is deleted before.
  - A run that was interrupted is resumed by the next one, within files too. One run at a time writes to a folder; a
    second one is refused, with the process that holds the lock.
  - Runs for hours where the model is large. Give the task C(async).
author:
  - llmfleet contributors (@llmfleet)
options:
  path:
    description:
      - Folder of the model. A mount point cannot be replaced, and is refused.
    type: path
    required: true
  stamp:
    description:
      - File that keeps what was proved. By default C(.llmfleet-model.json) in O(path).
    type: path
  source:
    description:
      - V(hub) asks the hub at O(url) for O(repo) at O(revision).
      - V(http) takes the files below O(url).
    type: str
    choices: [hub, http]
    default: hub
  url:
    description:
      - Address of the hub, or of the folder that holds the files. The module appends names to it.
    type: str
    required: true
  repo:
    description:
      - Repository on the hub, C(organisation/name). For V(http) it is only kept in the stamp.
    type: str
    default: ""
  revision:
    description:
      - Commit or branch on the hub. For V(http) it is only kept in the stamp, and a folder that is stamped with it is
        done; without it, the list of the server is compared in every run.
    type: str
    default: ""
  checksums:
    description:
      - Sums of the files as C(sha256sum) prints them. For V(http), C(SHA256SUMS) at O(url) by default.
    type: str
    default: ""
  files:
    description:
      - RV(llmfleet.sglang.model_check#module:manifest) of another host's copy, which nothing else is then asked for.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name below the folder.
        type: str
        required: true
      size:
        description: Bytes.
        type: int
        required: true
      sha256:
        description: Its sum.
        type: str
        required: true
  token:
    description:
      - Bearer token. It follows no redirect to another host.
    type: str
    default: ""
  proxy_enabled:
    description:
      - Whether the proxies of the environment are used.
    type: bool
    default: true
  hub_command:
    description:
      - Program of huggingface_hub, as a list of arguments, for example C(/opt/hub/bin/hf). It transfers over xet where
        the hub can. What it does not bring is fetched over plain HTTP. Without it, everything is.
    type: list
    elements: str
    default: []
  hub_environment:
    description:
      - Further environment of O(hub_command).
    type: dict
    default: {}
  verify:
    description:
      - V(stamp) believes the stamp as long as size, time and inode of a file are the same. V(full) reads every byte.
    type: str
    choices: [stamp, full]
    default: stamp
  workers:
    description:
      - How many files are fetched at once.
    type: int
    default: 8
  threads:
    description:
      - How many files are read at once to prove them. V(0) means one for each processor.
    type: int
    default: 0
  retries:
    description:
      - How many tries for a file may fail one after the other without a byte gained.
    type: int
    default: 5
  retry_delay:
    description:
      - Seconds before the second of these tries. It doubles each time, up to 300 seconds, unless the server says how
        long.
    type: float
    default: 2
  stall_timeout:
    description:
      - Seconds without a byte after which a connection counts as broken.
    type: int
    default: 120
  hub_stall_timeout:
    description:
      - Seconds without a byte after which O(hub_command) counts as hanging, and is ended.
    type: int
    default: 600
  lock_wait:
    description:
      - Seconds to wait for another writer of the same folder. With V(0) it is refused at once.
    type: int
    default: 0
  previous_keep:
    description:
      - Whether the revision before stays, as C(.NAME.previous) beside the folder, until the one after the next.
    type: bool
    default: false
  progress:
    description:
      - File that tells how far the run is, renewed every few seconds. Removed at the end.
    type: path
attributes:
  check_mode:
    description: Asks the source for its list, compares sizes and space, reads no weights and writes nothing.
    support: full
  diff_mode:
    description: The files that change are in RV(fetched).
    support: none
seealso:
  - module: llmfleet.sglang.model_check
"""

EXAMPLES = r"""
- name: Have a pinned revision from the hub
  llmfleet.sglang.model_fetch:
    path: /srv/models/Kimi-K2.5
    url: https://huggingface.co
    repo: moonshotai/Kimi-K2.5
    revision: 0123456789abcdef0123456789abcdef01234567
    hub_command: [/opt/sglang/tools/hub/venv/bin/hf]
  async: 86400
  poll: 30

- name: Have it from a mirror with a file SHA256SUMS
  llmfleet.sglang.model_fetch:
    path: /srv/models/Kimi-K2.5
    source: http
    url: https://mirror.example.com/models/Kimi-K2.5
  async: 86400
  poll: 30
"""

RETURN = r"""
action:
  description:
    - V(none), V(stamped) where the folder was right and had no stamp, V(filled) where it was made or replaced.
  type: str
  returned: success
fetched:
  description: Files that came from the source, in check mode those that would.
  type: list
  elements: str
  returned: success
kept:
  description: Files of the folder that were right.
  type: list
  elements: str
  returned: success
repaired:
  description: Files of the folder that were damaged or of another revision, and came anew.
  type: list
  elements: str
  returned: success
removed:
  description: Folders that earlier runs had left.
  type: list
  elements: str
  returned: success
bytes_fetched:
  description: Size of RV(fetched).
  type: int
  returned: success
seconds:
  description: How long it took.
  type: float
  returned: success
"""

import os
import time

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import model_job, model_transfer
from ..module_utils.model_manifest import ManifestError
from ..module_utils.model_progress import ProgressFile

STAMP_NAME = ".llmfleet-model.json"
EMPTY = {"action": "none", "fetched": [], "kept": [], "repaired": [], "removed": [], "bytes_fetched": 0}


def job_of(module, tell):
    """The job that the arguments describe."""
    params = module.params
    settings = dict(params)
    settings["stamp"] = params["stamp"] or os.path.join(params["path"], STAMP_NAME)
    settings["url"] = params["url"].rstrip("/")
    settings["stall"] = params["hub_stall_timeout"]
    settings["hub_environment"] = {name: str(value) for name, value in params["hub_environment"].items()}
    client = model_transfer.Client(
        token=params["token"],
        proxied=params["proxy_enabled"],
        timeout=params["stall_timeout"],
        retries=params["retries"],
        delay=params["retry_delay"],
        log=module.log,
    )
    return model_job.Job(settings, client, lambda what, done, total: tell(done, total, what), module.warn)


def main():
    files = {
        "name": {"type": "str", "required": True},
        "size": {"type": "int", "required": True},
        "sha256": {"type": "str", "required": True},
    }
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "stamp": {"type": "path"},
            "source": {"type": "str", "choices": ["hub", "http"], "default": "hub"},
            "url": {"type": "str", "required": True},
            "repo": {"type": "str", "default": ""},
            "revision": {"type": "str", "default": ""},
            "checksums": {"type": "str", "default": ""},
            "files": {"type": "list", "elements": "dict", "options": files},
            "token": {"type": "str", "default": "", "no_log": True},
            "proxy_enabled": {"type": "bool", "default": True},
            "hub_command": {"type": "list", "elements": "str", "default": []},
            "hub_environment": {"type": "dict", "default": {}},
            "verify": {"type": "str", "choices": ["stamp", "full"], "default": "stamp"},
            "workers": {"type": "int", "default": 8},
            "threads": {"type": "int", "default": 0},
            "retries": {"type": "int", "default": 5},
            "retry_delay": {"type": "float", "default": 2},
            "stall_timeout": {"type": "int", "default": 120},
            "hub_stall_timeout": {"type": "int", "default": 600},
            "lock_wait": {"type": "int", "default": 0},
            "previous_keep": {"type": "bool", "default": False},
            "progress": {"type": "path"},
        },
        supports_check_mode=True,
    )
    began = time.monotonic()
    try:
        with ProgressFile(module.params["progress"], "looking", log=module.log) as tell:
            job = job_of(module, tell)
            if module.check_mode:
                found = job.preview()
                done = {**EMPTY, "action": found["action"], "changed": found["changed"], "fetched": found["missing"]}
                done["bytes_fetched"] = found["bytes"]
            else:
                done = job.run()
    except (model_job.JobError, model_transfer.TransferError, ManifestError) as error:
        module.fail_json(msg=f"{error}.")
    module.exit_json(**{**EMPTY, **done, "seconds": round(time.monotonic() - began, 3)})


if __name__ == "__main__":
    main()
