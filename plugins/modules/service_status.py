#!/usr/bin/python
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_status
short_description: Tell in one look what the SGLang services of a host are and how they are
version_added: 0.1.0
author:
  - llmfleet contributors (@llmfleet)
description:
  - Reads the state of the units from systemd, the configurations that M(llmfleet.sglang.service_config) keeps, and the
    verdicts that role P(llmfleet.sglang.verify#role) left, and asks each running server for its health.
  - One run covers all services of the host, and changes nothing.
options:
  names:
    description:
      - Services that ought to be there, as NAME of C(sglang-NAME.service). One that is missing is told as missing.
      - All others that the host keeps are told as well.
    type: list
    elements: str
    default: []
  config_dir:
    description: Folder of the services' configurations.
    type: path
    default: /etc/sglang
  facts_dir:
    description: Folder in which the verdicts are kept.
    type: path
    default: /etc/ansible/facts.d
  health_timeout:
    description: How long a server's C(/health) may take, in seconds. V(0) does not ask.
    type: int
    default: 25
extends_documentation_fragment:
  - llmfleet.sglang.attributes
attributes:
  check_mode:
    details: The module reads only, so check mode does the same work.
notes:
  - Needs systemd 252 or newer. Rights of root are needed only where others may not read these folders.
  - SGLang generates a token for C(/health), and gives itself 20 seconds for it.
seealso:
  - module: llmfleet.sglang.service_config
  - module: llmfleet.sglang.hicache_verify
"""

EXAMPLES = r"""
- name: Look at the services of the host
  llmfleet.sglang.service_status:
    names: [kimi]
  become: true
  register: look
"""

RETURN = r"""
services:
  description: All services, sorted by name.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: NAME of C(sglang-NAME.service).
      type: str
      sample: kimi
    unit:
      description: Name of the unit.
      type: str
    condition:
      description: V(running), V(loading), V(failed), V(stopped) or V(missing).
      type: str
    result:
      description: Why it ended, as systemd calls it.
      type: str
    invocation_id:
      description: The start that runs, or null.
      type: str
    uptime_seconds:
      description: Seconds since this start became ready, or null.
      type: int
    restarts:
      description: How often systemd restarted it by itself, or null.
      type: int
    release:
      description: Release of SGLang, or null where the host keeps no configuration.
      type: str
    id:
      description: The configuration that runs, or null.
      type: str
    active_id:
      description: The configuration that is the active one, or null.
      type: str
    model_path:
      description: Folder of the model, or null.
      type: str
    model_revision:
      description: Commit of the model, or null.
      type: str
    url:
      description: Base address of the server, or null.
      type: str
    node_rank:
      description: Which of the hosts that share the model this is.
      type: int
    ranks_expected:
      description: Ranks of this host, or null.
      type: int
    pending:
      description: Why a restart is outstanding, a list of sentences, or null.
      type: list
      elements: str
    rollout:
      description: What a rollout noted that did not end yet, or null.
      type: dict
    health:
      description: V(ok), the reason why not, or null where nobody was asked.
      type: str
    differences:
      description:
        - What on the host and in the running process is not as recorded, a list of sentences. Null where this user may
          not read what has to be compared.
      type: list
      elements: str
    verify:
      description: What the service is judged by, as its configuration has it.
      type: dict
    verdict:
      description:
        - The verdict that is kept, or null. C(verdict), C(source) (V(kept)), C(age_seconds), C(current) (whether it is
          about the start that runs), C(ranks_seen), C(total_gb) and C(expected_gb) in GB (10**9 bytes), C(summary).
      type: dict
"""

import glob
import json
import os
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

from ..module_utils import service_look, service_store
from ..module_utils._service import drift

ARGUMENT_SPEC = {
    "names": {"type": "list", "elements": "str", "default": []},
    "config_dir": {"type": "path", "default": "/etc/sglang"},
    "facts_dir": {"type": "path", "default": "/etc/ansible/facts.d"},
    "health_timeout": {"type": "int", "default": 25},
}


def names_of(params):
    """Names of the services that are kept on this host or asked for."""
    folders = [os.path.basename(os.path.dirname(path)) for path in glob.glob(f"{params['config_dir']}/*/state.json")]
    environments = [os.path.basename(path) for path in glob.glob(f"{params['config_dir']}/*.env")]
    return service_look.service_names(folders, environments, params["names"])


def units_of(module, names):
    """Properties of the units of all services, by their names."""
    if not names:
        return {}
    argv = service_look.show_argv([service_store.unit_name(name) for name in names])
    code, out, err = module.run_command(argv, environ_update={"LC_ALL": "C", "LANGUAGE": "C", "SYSTEMD_COLORS": "0"})
    units = service_look.parse_blocks(out)
    if code != 0 and not units:
        module.fail_json(
            msg=f"systemctl show failed: {err.strip() or code}. The module needs a host that runs systemd."
        )
    return units


def kept_of(params, name, invocation):
    """The verdict that is kept on a service, or None; one that cannot be read counts as none."""
    path = os.path.join(params["facts_dir"], service_look.fact_file(name))
    try:
        with open(path, encoding="utf-8") as stream:
            fact = json.load(stream)
        return service_look.kept_verdict(fact, os.stat(path).st_mtime, invocation, time.time())
    except (OSError, ValueError, RecursionError):
        return None


def store_of(params, name, invocation):
    """State, and ID and record of the configuration that runs."""
    store = service_store.Store(params["config_dir"], name)
    state = store.state()
    one = service_store.running_id(state, invocation)
    return {"state": state, "id": one, "record": store.record(one)}


def differences(params, name, unit, one):
    """What on the host and in the running process is not as recorded, a list of sentences.

    None where this user may not read what has to be compared.
    """
    store = service_store.Store(params["config_dir"], name)
    try:
        return [drift.sentence(each) for each in drift.host_differences(store, unit, one)]
    except PermissionError:
        return None


def health(service, timeout):
    """``ok``, a sentence on what is wrong, or None where nobody is to be asked."""
    if timeout <= 0 or service["condition"] != "running" or not service["url"] or service["node_rank"]:
        return None
    try:
        open_url(f"{service['url']}/health", timeout=timeout, use_proxy=False, http_agent="llmfleet.sglang")
    except Exception as error:
        status = getattr(error, "code", None)
        return f"/health gives {status}" if status else f"/health does not answer: {getattr(error, 'reason', error)}"
    return "ok"


def look(module):
    """All services of this host."""
    params = module.params
    names = names_of(params)
    units = units_of(module, names)
    services = []
    for name in names:
        unit = units.get(service_store.unit_name(name), {})
        invocation = unit.get("InvocationID") or None
        kept = kept_of(params, name, invocation)
        service = service_look.describe(name, unit, kept, store_of(params, name, invocation))
        service["uptime_seconds"] = service_look.uptime_seconds(unit, time.monotonic())
        running = service["condition"] in ("running", "loading")
        service["differences"] = differences(params, name, unit, service["id"]) if running else []
        service["health"] = health(service, params["health_timeout"])
        services.append(service)
    return services


def main():
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    for name in module.params["names"]:
        if not service_store.is_service_name(name):
            module.fail_json(msg=f'names has "{name}", which cannot be the name of a service. Give one such as kimi.')
    try:
        services = look(module)
    except (service_store.StoreError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, services=services)


if __name__ == "__main__":
    main()
