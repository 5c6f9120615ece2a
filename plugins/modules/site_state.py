#!/usr/bin/python
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: site_state
short_description: Tell whether a host is as the last complete deployment left it
version_added: 0.1.0
author:
  - llmfleet contributors (@llmfleet)
description:
  - A deployment is a function of its variables, of this collection, and of what it finds on the host. Where all three
    are as they were when the last one had ended well, another one would change nothing.
  - The action part, on the controller, sums up the variables and the collection. The module on the host sums up what
    the roles manage there, which is files, packages, releases, weights, units and the running kernel, and compares.
options:
  state:
    description:
      - V(compare) tells whether anything is other than at the last V(keep), and changes nothing.
      - V(keep) writes down how the host is now.
    type: str
    choices: [compare, keep]
    default: compare
  inputs:
    description:
      - Digest of the variables and of the collection. With O(state=compare) it is made by the action part. With
        O(state=keep) give the one that O(state=compare) returned at the beginning of the deployment.
    type: str
    default: ""
  prefixes:
    description: Variables that begin with one of these decide the deployment.
    type: list
    elements: str
    default: [bundle_, cuda_, gateway_, model_, plan_, preflight_, serve_, sglang_, site_, verify_]
  hours:
    description: After so many hours a host counts as changed in any case, so that it is looked at in full again.
    type: float
    default: 24
  path:
    description: File on the host in which it is written down.
    type: path
    default: /var/lib/llmfleet/site.json
  config_dir:
    description: Folder of the services' configurations.
    type: path
    default: /etc/sglang
extends_documentation_fragment:
  - llmfleet.sglang.attributes
attributes:
  check_mode:
    details: Nothing is written down in check mode.
notes:
  - Needs root, since the digest covers files that only root may read. Only digests are kept.
  - Of weights, virtual environments and the packages' database, sizes and times of change are compared, not contents.
"""

EXAMPLES = r"""
- name: See whether there is anything to do
  llmfleet.sglang.site_state:
  become: true
  register: site_state

- name: Write down that the deployment is complete
  llmfleet.sglang.site_state:
    state: keep
    inputs: "{{ site_state.inputs }}"
  become: true
"""

RETURN = r"""
unchanged:
  description: Whether another deployment would change nothing.
  returned: always
  type: bool
reasons:
  description: What is other than it was, at most twenty.
  returned: always
  type: list
  elements: str
  sample: ["/etc/modprobe.d/llmfleet-nouveau.conf"]
inputs:
  description: Digest of the variables and of the collection.
  returned: always
  type: str
"""

import json
import os
import time

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import host_digest, service_store

MOST_REASONS = 20

ARGUMENT_SPEC = {
    "state": {"type": "str", "choices": ["compare", "keep"], "default": "compare"},
    "inputs": {"type": "str", "default": ""},
    "prefixes": {
        "type": "list",
        "elements": "str",
        "default": [
            "bundle_", "cuda_", "gateway_", "model_", "plan_", "preflight_", "serve_", "sglang_", "site_", "verify_",
        ],
    },
    "hours": {"type": "float", "default": 24},
    "path": {"type": "path", "default": "/var/lib/llmfleet/site.json"},
    "config_dir": {"type": "path", "default": "/etc/sglang"},
}  # fmt: skip


def units(module):
    """{unit: line} of the units that the roles manage."""
    argv = [
        "systemctl", "show", "--no-pager", f"--property={','.join(host_digest.UNIT_PROPERTIES)}", "--",
        *host_digest.UNITS,
    ]  # fmt: skip
    _code, out, _err = module.run_command(argv, environ_update={"LC_ALL": "C", "LANGUAGE": "C"})
    found = {}
    for block in out.split("\n\n"):
        lines = sorted(line for line in block.splitlines() if "=" in line)
        name = next((line[len("Id=") :] for line in lines if line.startswith("Id=")), None)
        if name:
            found[name] = " ".join(lines)
    return found


def as_it_is(module):
    """Short digests of all that is watched."""
    lines = host_digest.watched(module.params["config_dir"])
    lines.update(units(module))
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
        lines["boot"] = f"{os.uname().release} {stream.read().strip()}"
    return host_digest.shortened(lines)


def compare(params, now):
    """What is other than at the last ``keep``, a list of words."""
    try:
        with open(params["path"], encoding="utf-8") as stream:
            kept = json.load(stream)
        lines, inputs, at = kept["lines"], kept["inputs"], float(kept["at"])
    except (OSError, ValueError, KeyError, TypeError):
        return ["no complete deployment is written down"]
    if not params["inputs"] or inputs != params["inputs"]:
        return ["the variables or the collection"]
    if not 0 <= time.time() - at <= params["hours"] * 3600:
        return [f"the last full look is older than {params['hours']:g} h"]
    return host_digest.differences(lines, now)


def main():
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    params = module.params
    now = as_it_is(module)
    reasons = compare(params, now)
    if params["state"] == "keep" and not module.check_mode:
        service_store.make_folder(os.path.dirname(params["path"]))
        text = json.dumps({"at": time.time(), "inputs": params["inputs"], "lines": now})
        service_store.write(params["path"], text, 0o600)
    module.exit_json(changed=False, unchanged=not reasons, reasons=reasons[:MOST_REASONS], inputs=params["inputs"])


if __name__ == "__main__":
    main()
