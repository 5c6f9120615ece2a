#!/usr/bin/python
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_lock
short_description: One rollout of a fleet at a time
version_added: 0.1.0
description:
  - Takes, renews, gives back, breaks or shows a lock in a file of one host that all controllers reach.
  - The lock names its holder. It ends with its holder when the controller says that its process is gone (O(dead)), and
    by itself when it was not renewed for O(lease) seconds.
  - What the lookup P(llmfleet.sglang.rollout_holder#lookup) returns is a holder, and the same lookup tells whether
    another holder of the same controller still runs.
author:
  - llmfleet contributors (@llmfleet)
options:
  path:
    description: File of the lock.
    type: path
    default: /var/lib/llmfleet/rollout.lock
  state:
    description:
      - V(taken) fails where another holder has it, with a sentence that names that holder.
      - V(renewed) fails where O(holder) no longer has it, because somebody broke it.
      - V(released) gives it back where O(holder) has it, and does nothing otherwise.
      - V(broken) removes it, whoever has it.
      - V(info) only reads it.
    type: str
    default: info
  holder:
    description:
      - Who takes the lock. Required for V(taken), V(renewed) and V(released).
      - Needs at least C(token), which is the same for all tasks of one run and for no other run.
    type: dict
  lease:
    description: Seconds for which the lock is held without being renewed.
    type: int
    default: 7200
  phase:
    description: What the holder is doing, for people who read the lock.
    type: str
    default: ""
  dead:
    description: C(token) of a holder whose process ended, as the controller knows. The lock is taken from it.
    type: str
    default: ""
  alive:
    description: C(token) of a holder whose process runs, as the controller knows. Its lock does not run out.
    type: str
    default: ""
attributes:
  check_mode:
    description: Says who would get the lock, and changes nothing.
    support: full
  diff_mode:
    description: The lock is not shown as a difference.
    support: none
seealso:
  - plugin: llmfleet.sglang.rollout_holder
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Read who holds the lock
  llmfleet.sglang.fleet_lock:
  register: lock

- name: Take it
  vars:
    other: "{{ lock.holder or {} }}"
    state_of_other: "{{ lookup('llmfleet.sglang.rollout_holder', of=other) }}"
  llmfleet.sglang.fleet_lock:
    state: taken
    holder: "{{ lookup('llmfleet.sglang.rollout_holder') }}"
    dead: "{{ other.token if state_of_other == 'dead' else '' }}"
    alive: "{{ other.token if state_of_other == 'alive' else '' }}"
"""

RETURN = r"""
holder:
  description:
    - Content of the lock afterwards, with C(since), C(renewed) and C(until) in seconds since 1970 by the clock of its
      host. V(null) where nobody holds it.
  type: dict
  returned: always
previous:
  description: Holder from whom the lock was taken, because it is dead, its time was over, or the lock was broken.
  type: dict
  returned: when O(state) is V(taken) or V(broken)
told:
  description: RV(previous) as words, empty where there is none.
  type: str
  returned: when O(state) is V(taken) or V(broken)
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import fleet_lock

STATES = ("taken", "renewed", "released", "broken", "info")


def apply(lock, params, pretend):
    """Do what the parameters ask for; returns what the module tells."""
    state, holder = params["state"], params["holder"]
    told = {"changed": False}
    if state == "taken":
        told["changed"], previous = lock.take(
            holder, params["lease"], params["phase"], params["dead"] or None, params["alive"] or None, pretend
        )
        told.update(previous=previous, told=fleet_lock.describe(previous) if previous is not None else "")
    elif state == "renewed":
        lock.renew(holder, params["lease"], params["phase"], pretend)
    elif state == "released":
        told["changed"] = lock.release(holder, pretend)
    elif state == "broken":
        previous = lock.break_open(pretend)
        told.update(
            changed=previous is not None,
            previous=previous,
            told=fleet_lock.describe(previous) if previous is not None else "",
        )
    told["holder"] = lock.read()
    return told


def main():
    needs_holder = [("state", state, ["holder"]) for state in ("taken", "renewed", "released")]
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "default": "/var/lib/llmfleet/rollout.lock"},
            "state": {"type": "str", "default": "info"},
            "holder": {"type": "dict"},
            "lease": {"type": "int", "default": 7200},
            "phase": {"type": "str", "default": ""},
            "dead": {"type": "str", "default": ""},
            "alive": {"type": "str", "default": ""},
        },
        required_if=needs_holder,
        supports_check_mode=True,
    )
    if module.params["state"] not in STATES:
        module.fail_json(msg=f"state is {module.params['state']}: it has to be one of {', '.join(STATES)}.")
    if module.params["holder"] is not None and not module.params["holder"].get("token"):
        module.fail_json(msg="holder has no token; it is what tells one run from another.")
    try:
        told = apply(fleet_lock.Lock(module.params["path"]), module.params, module.check_mode)
    except fleet_lock.LockError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(
            msg=f"{module.params['path']} cannot be used for the lock: {error.strerror} ({error.filename})."
        )
    module.exit_json(**told)


if __name__ == "__main__":
    main()
