#!/usr/bin/python
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: router_worker
short_description: Put an engine into sglang-router, or take it out without cutting a request
version_added: 0.1.0
description:
  - Runs on the host of the router. Writes down what a worker is to be, and brings the running router there.
  - What is written down outlives the router. Role P(llmfleet.sglang.router#role) has a program beside the router that
    puts the serving workers in after each start, and only those.
  - A router that is asked to remove a worker gives it no new requests, and finishes those that it has, streams
    included. It counts them no longer, so that this module looks at the connections of this host to the engine, and
    asks the engine for its requests.
author:
  - llmfleet contributors (@llmfleet)
options:
  url:
    description:
      - Address of the engine as the router reaches it, with its port and without a path.
      - Needed but for O(state=info).
    type: str
  state:
    description:
      - With V(serving) the engine must answer its health check first; then it is written down and put in, and the
        router must call it healthy. If that fails, everything is as it was.
      - With V(drained) it is written down first, then taken out, and then its requests are waited for.
      - V(absent) does the same and forgets the worker.
      - V(info) changes nothing and returns RV(workers).
    type: str
    required: true
  host:
    description: Name of the engine's host in the inventory, for people.
    type: str
    default: ""
  service:
    description: Name of the engine's service on that host, for people.
    type: str
    default: ""
  reason:
    description:
      - Why the worker gets the state. A worker that has it already keeps the reason that it has; but what V(rollout)
        drained gets the reason and the name of somebody else who drains it with a reason.
    type: str
    default: ""
  by:
    description: Who asked for it.
    type: str
    default: ""
  only_by:
    description:
      - With O(state=serving), a drained worker stays drained where somebody else drained it, as C(by) of RV(previous)
        says. Empty puts any worker in.
    type: str
    default: ""
  wait:
    description:
      - Whether the requests of a worker that is taken out are waited for. With several routers, take it out of all of
        them before waiting.
    type: bool
    default: true
  drain_timeout:
    description: Longest time in seconds to wait for the requests of a worker that is taken out.
    type: int
    default: 1800
  quiet_seconds:
    description:
      - Time in seconds over which an engine must say that it has no requests, while connections to it are open.
    type: float
    default: 2
  timeout:
    description: Longest time in seconds to wait for the engine's health, and again for the router to serve it.
    type: int
    default: 60
  router_url:
    description: Address of the router.
    type: str
    default: http://127.0.0.1:30100
  workers_file:
    description: File of what ought to be. Made where it is missing.
    type: path
    default: /etc/sglang-router/workers.json
attributes:
  check_mode:
    support: full
    description: Asks the router and reads the file, and tells what would be done.
  diff_mode:
    support: full
    description: The worker's entry in the file before and after.
"""

EXAMPLES = r"""
- name: Take an engine out and wait until its requests are done
  llmfleet.sglang.router_worker:
    url: http://gpu1.example.org:30000
    state: drained
    host: gpu1
    service: kimi
    reason: a fan is replaced
    by: operator
    drain_timeout: 600

- name: Put it back
  llmfleet.sglang.router_worker:
    url: http://gpu1.example.org:30000
    state: serving
    host: gpu1
    service: kimi

- name: See all workers
  llmfleet.sglang.router_worker:
    state: info
  register: router
"""

RETURN = r"""
url:
  description: The worker's address as it is written down.
  type: str
  returned: when url is given
state:
  description: What is written down about the worker; V(absent) where nothing is, V(all) without a url.
  type: str
  returned: always
previous:
  description: The worker's entry before this run, null where there was none.
  type: dict
  returned: unless state is info
  sample: {host: gpu1, service: kimi, state: serving, reason: "", by: "", since: "2026-01-31T12:00:00Z"}
router_running:
  description: Whether the router answered.
  type: bool
  returned: always
seconds:
  description: Time that the requests, or the start of serving, were waited for.
  type: float
  returned: unless state is info
requests_left:
  description: Requests that the worker still has; null where they were not waited for.
  type: int
  returned: unless state is info
workers:
  description:
    - All workers, or the one of O(url), each with its entry (C(state) is V(unknown) where it has none), and with what
      the router says as C(in_router), C(healthy) and C(requests).
  type: list
  elements: dict
  returned: always
"""

import getpass
import json
import time

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import router_api, router_change, router_store

STATES = ("serving", "drained", "absent", "info")
ARGUMENTS = {
    "url": {"type": "str"},
    "state": {"type": "str", "required": True},
    "host": {"type": "str", "default": ""},
    "service": {"type": "str", "default": ""},
    "reason": {"type": "str", "default": ""},
    "by": {"type": "str", "default": ""},
    "only_by": {"type": "str", "default": ""},
    "wait": {"type": "bool", "default": True},
    "drain_timeout": {"type": "int", "default": 1800},
    "quiet_seconds": {"type": "float", "default": 2},
    "timeout": {"type": "int", "default": 60},
    "router_url": {"type": "str", "default": "http://127.0.0.1:30100"},
    "workers_file": {"type": "path", "default": "/etc/sglang-router/workers.json"},
}


def shown(entry):
    """An entry for a difference."""
    return json.dumps(entry, indent=2, sort_keys=True) + "\n" if entry else ""


def look(params, router, result):
    """Note what is written down and what the router has."""
    workers = router_store.read(params["workers_file"])
    try:
        listed = router.workers()
        result["router_running"] = True
    except router_api.NotRunning:
        listed = {}
        result["router_running"] = False
    records = router_change.overview(workers, listed)
    result["workers"] = [record for record in records if params["url"] in (None, record["url"])]
    if params["url"]:
        result["state"] = workers.get(params["url"], {"state": "absent"})["state"]
    return workers, listed


def foretell(params, workers, listed, entry):
    """(changed, entry before, entry after) of a run in check mode."""
    url, wanted = params["url"], params["state"]
    before = workers.get(url)
    if wanted == router_store.SERVING:
        foreign = params["only_by"] and before and before["by"] != params["only_by"]
        if foreign and before["state"] == router_store.DRAINED:
            return False, before, before
        served = any(record["healthy"] for record in listed.get(url, []))
        after = router_store.changed_workers(workers, url, wanted, entry).get(url)
        return not served or before != after, before, after
    after = router_store.changed_workers(workers, url, wanted, entry).get(url)
    return url in listed or before != after, before, after


def bring_about(params, router, result, entry):
    """Change the worker; returns (changed, entry before, entry after)."""
    began = time.monotonic()
    url, path = params["url"], params["workers_file"]
    if params["state"] == router_store.SERVING:
        done = router_change.serve(router, path, url, entry, params["timeout"], params["only_by"])
    else:
        done = router_change.take_out(router, path, url, params["state"], entry)
        if params["wait"]:
            result["requests_left"] = router_change.wait_quiet(url, params["drain_timeout"], params["quiet_seconds"])
    result["seconds"] = round(time.monotonic() - began, 2)
    return done


def run(module, result):
    """Do what the module is for."""
    params = module.params
    router = router_api.Router(params["router_url"])
    if params["url"] is not None:
        params["url"] = result["url"] = router_api.normal_url(params["url"])
    workers, listed = look(params, router, result)
    if params["state"] == "info":
        return
    result.update(seconds=0.0, requests_left=None)
    by = params["by"] or getpass.getuser()
    entry = router_store.entry_of(
        params["state"], params["host"], params["service"], params["reason"], by, router_store.moment()
    )
    change = foretell if module.check_mode else bring_about
    arguments = (workers, listed, entry) if module.check_mode else (router, result, entry)
    changed, before, after = change(params, *arguments)
    result.update(changed=changed, previous=before)
    if module._diff:
        result["diff"] = {"before": shown(before), "after": shown(after), "before_header": params["url"]}
    if not module.check_mode:
        look(params, router, result)
    if result["requests_left"]:
        module.fail_json(
            msg=f"{params['url']} still has {result['requests_left']} requests after {params['drain_timeout']} s "
            "(drain_timeout). It is out of the router and gets no new ones. Run this again to wait on, give a longer "
            "time, or stop the engine and cut them.",
            **result,
        )


def main():
    """The module."""
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
        required_if=[("state", state, ["url"]) for state in ("serving", "drained", "absent")],
    )
    if module.params["state"] not in STATES:
        module.fail_json(msg=f"state is {module.params['state']}: it has to be one of {', '.join(STATES)}.")
    result = {"changed": False, "state": "all", "router_running": False, "workers": []}
    try:
        run(module, result)
    except (router_api.BadUrl, router_change.Refused, router_api.Unexpected) as error:
        module.fail_json(msg=str(error), **result)
    except router_api.NotRunning as error:
        module.fail_json(
            msg=f"The router does not run: {error}. See 'systemctl status sglang-router', or give its address in "
            "router_url.",
            **result,
        )
    except router_store.Unreadable as error:
        module.fail_json(
            msg=f"{error}. Nothing was changed. Mend the file by hand, or move it away and run playbook router, which "
            "writes it anew from the inventory.",
            **result,
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
