#!/usr/bin/python
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_config
short_description: Keep the configurations of an SGLang service on its host, and make one of them the active one
version_added: 0.1.0
description:
  - Keeps each configuration of a service (unit, environment file and a record) below O(config_dir), so that an older
    pair of release and unit can be made the active one again.
  - Restarts the service only for a change that a running service cannot take. Comments, descriptions, ordering, limits
    of starts and stops, and the properties of the control group are applied by systemd to the service that runs.
  - A run that was broken off after it had changed the files is completed by the next one, because the start that
    still has the old configuration is noted before the first file changes.
  - A running process that was started with other arguments or variables than its configuration has is a reason for a
    restart too, whoever started it.
  - Starts are not waited for. The module returns when the new start has begun, and M(llmfleet.sglang.service_verify)
    tells whether it became ready, and notes what was proved.
author:
  - llmfleet contributors (@llmfleet)
options:
  name:
    description:
      - Name of the service. Its unit is C(sglang-NAME.service).
    type: str
    required: true
  state:
    description:
      - V(staged) checks the unit with C(systemd-analyze verify) and keeps the configuration. Nothing that runs or that
        systemd reads is touched.
      - V(active) makes a configuration the active one, restarts the service where it must, and starts and enables it.
      - V(rollout) writes O(rollout) into the service's state.
      - V(info) only reads.
    type: str
    default: info
  config_dir:
    description:
      - Folder of the environment file and of the service's own folder.
    type: path
    default: /etc/sglang
  group:
    description:
      - Group that may read the environment file.
    type: str
    default: sglang
  unit:
    description:
      - Text of the unit, for O(state=staged) and O(state=active).
    type: str
  environment:
    description:
      - Text of the environment file, for O(state=staged) and O(state=active). Its values are never returned.
    type: str
  record:
    description:
      - What is worth knowing about the configuration, without secrets, for O(state=staged) and O(state=active).
      - The last part of C(release_dir) in it begins the configuration's ID. C(id), C(name), C(unit) and C(made_at) are
        added.
    type: dict
  id:
    description:
      - For O(state=active), instead of O(unit), the ID of a configuration that the host keeps, or V(verified) for the
        newest verified one that is not the active one.
    type: str
  restart:
    description:
      - V(auto) restarts a running service where O(state=active) needs it, and starts one that does not run.
      - V(never) does neither. What is left to be done is noted, and done by the next run with V(auto).
    type: str
    choices: [auto, never]
    default: auto
  stop_timeout:
    description:
      - How long the unit may take to stop, in seconds. The new start is waited for that long and 90 seconds more.
    type: int
    default: 300
  kept:
    description:
      - How many configurations are kept, counted by age and once more by verification. Older ones are removed when one
        is made active.
    type: int
    default: 5
  rollout:
    description:
      - For O(state=rollout), what is noted. Leave it out to remove the note.
    type: dict
extends_documentation_fragment:
  - llmfleet.sglang.attributes
attributes:
  check_mode:
    details: Says what would change and what would restart, and why, also on a host that has nothing yet.
  diff_mode:
    details: Shows the unit, the names of environment variables, and the reasons for a restart. Values stay hidden.
notes:
  - Needs root, and systemd 252 or newer.
seealso:
  - module: llmfleet.sglang.service_verify
"""

EXAMPLES = r"""
- name: Keep a configuration for a later rollout
  llmfleet.sglang.service_config:
    name: kimi
    state: staged
    unit: "{{ lookup('ansible.builtin.template', 'sglang.service.j2') }}"
    environment: "{{ lookup('ansible.builtin.template', 'sglang.env.j2') }}"
    record:
      release: 0.5.23
      release_dir: /opt/sglang/releases/0.5.23-0123456789ab
  become: true
  register: staged

- name: Make it the active one
  llmfleet.sglang.service_config:
    name: kimi
    state: active
    id: "{{ staged.id }}"
  become: true

- name: Go back to what was verified before
  llmfleet.sglang.service_config:
    name: kimi
    state: active
    id: verified
  become: true

- name: Look at what a host keeps
  llmfleet.sglang.service_config:
    name: kimi
  become: true
  register: kept
"""

RETURN = r"""
id:
  description: The configuration that was asked for, with O(state=info) the active one, or null.
  returned: always
  type: str
  sample: 0.5.23-0123456789ab-1f2e3d4c
previous:
  description: The configuration that was active before, or null.
  returned: always
  type: str
changes:
  description: What the running service would get or got.
  returned: always
  type: list
  elements: dict
  contains:
    section:
      description: Section of the unit, or V(environment) for the environment file.
      type: str
    directive:
      description: Name of the directive or of the variable.
      type: str
    before:
      description: The value before, or null. Values of the environment file are hidden.
      type: str
    after:
      description: The value after, or null.
      type: str
    effect:
      description: V(none), V(live) for what systemd applies by itself, or V(restart).
      type: str
restart_needed:
  description: Whether the service runs and has to be restarted for it.
  returned: always
  type: bool
restart_reasons:
  description: Why, one sentence for each change that a running service cannot take.
  returned: always
  type: list
  elements: str
  sample: ["The command line changes from --hicache-ratio 4.0 to --hicache-ratio 2.0."]
restarted:
  description: Whether the service was restarted, or would be in check mode.
  returned: always
  type: bool
started:
  description: Whether the service did not run and was started, or would be in check mode.
  returned: always
  type: bool
invocation_id:
  description: The start that runs now, or null.
  returned: always
  type: str
active_state:
  description: State of the unit as systemd calls it.
  returned: always
  type: str
  sample: activating
record:
  description: The record of RV(id), or null.
  returned: always
  type: dict
state:
  description: The service's state, with C(active), C(verified), C(pending) and C(rollout).
  returned: always
  type: dict
configurations:
  description: IDs of all configurations that the host keeps, the newest first.
  returned: always
  type: list
  elements: str
"""

import os
import tempfile
import time

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import service_store, unit_changes
from ..module_utils._host.process import process_of
from ..module_utils._service import drift

# Beyond the time that a stop may take: a loaded host is slow to begin a start.
GRACE_SECONDS = 90
SHOWN = (
    *("LoadState", "ActiveState", "SubState", "Result", "InvocationID", "NeedDaemonReload", "UnitFileState", "Job"),
    "MainPID",
)

STATES = ("staged", "active", "rollout", "info")

ARGUMENT_SPEC = {
    "name": {"type": "str", "required": True},
    "state": {"type": "str", "default": "info"},
    "config_dir": {"type": "path", "default": "/etc/sglang"},
    "group": {"type": "str", "default": "sglang"},
    "unit": {"type": "str"},
    "environment": {"type": "str", "no_log": True},
    "record": {"type": "dict"},
    "id": {"type": "str"},
    "restart": {"type": "str", "choices": ["auto", "never"], "default": "auto"},
    "stop_timeout": {"type": "int", "default": 300},
    "kept": {"type": "int", "default": 5},
    "rollout": {"type": "dict"},
}


def check_parameters(params):
    """Return a sentence that names the first impossible value, or None."""
    if not service_store.is_service_name(params["name"]):
        return (
            f'name is "{params["name"]}": it cannot be the name of a service and of its folder. Use letters, digits, '
            "dots, underscores and dashes, such as kimi."
        )
    if params["state"] not in STATES:
        return f"state is {params['state']}: it has to be one of {', '.join(STATES)}."
    if params["kept"] < 1:
        return f"kept is {params['kept']}: at least 1 configuration has to stay."
    if params["stop_timeout"] < 0:
        return f"stop_timeout is {params['stop_timeout']}: it has to be 0 seconds or more."
    texts = [name for name in ("unit", "environment", "record") if params[name] is not None]
    wants_texts = params["state"] == "staged" or (params["state"] == "active" and params["id"] is None)
    if wants_texts and len(texts) < 3:
        return f"state is {params['state']}: it needs unit, environment and record, or for state=active an id."
    return None


class Service:
    """One run of the module."""

    def __init__(self, module):
        self.module = module
        self.params = module.params
        self.store = service_store.Store(self.params["config_dir"], self.params["name"], service_store.UNIT_DIR)
        self.unit = self.store.unit

    # -- systemd --------------------------------------------------------------------------------------------------

    def run(self, *words):
        environment = {"LC_ALL": "C", "LANGUAGE": "C", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": ""}
        return self.module.run_command(list(words), environ_update=environment)

    def systemctl(self, *words):
        """Run systemctl; a refusal ends the module."""
        code, out, err = self.run("systemctl", *words)
        if code != 0:
            said = (err or out).strip() or f"status {code}"
            self.module.fail_json(msg=f"systemctl {' '.join(words)} failed: {said}")
        return out

    def show(self):
        out = self.systemctl("show", f"--property={','.join(SHOWN)}", "--", self.unit)
        return dict(line.partition("=")[::2] for line in out.splitlines() if "=" in line)

    def check_unit(self, text):
        """Have systemd read a copy of the unit. What it says about it is an error, even where it calls it a remark."""
        program = unit_changes.words_of((unit_changes.parse_unit(text).get(("Service", "ExecStart")) or [""])[0])[:1]
        if self.module.check_mode and not (program and os.path.exists(program[0])):
            # A blank host: what the unit starts is still to be installed.
            return
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, self.unit)
            service_store.write(copy, text, 0o644)
            code, out, err = self.run("systemd-analyze", "verify", "--man=no", copy)
        said = [line.strip() for line in (out + err).splitlines() if line.strip()]
        about = [line.replace(f"{folder}/", "") for line in said if self.unit in line]
        if about or code != 0:
            self.module.fail_json(
                msg=f"systemd does not take {self.unit}, and nothing was changed: {' '.join(about or said)}"
            )

    def wait_for_start(self, before):
        """Wait until another start than ``before`` has begun; returns the state of the unit."""
        patience = self.params["stop_timeout"] + GRACE_SECONDS
        deadline = time.monotonic() + patience
        idle = 0
        while True:
            state = self.show()
            if state.get("InvocationID") and state["InvocationID"] != before:
                return state
            idle = idle + 1 if state.get("Job", "0") in ("", "0") else 0
            if idle >= 10 or time.monotonic() >= deadline:
                why = "its start ended before it began" if idle >= 10 else f"no start began within {patience} s"
                self.module.fail_json(
                    msg=f"{self.unit} was told to start, and {why}: it is {state.get('ActiveState')} "
                    f"(result {state.get('Result')}). Read journalctl --unit={self.unit}, then run this again."
                )
            time.sleep(0.2)

    # -- states ---------------------------------------------------------------------------------------------------

    def result(self, state, shown, one, **values):
        found = {
            "changed": False,
            "id": one,
            "previous": state["active"],
            "changes": [],
            "restart_needed": False,
            "restart_reasons": [],
            "restarted": False,
            "started": False,
            "invocation_id": shown.get("InvocationID") or None,
            "active_state": shown.get("ActiveState") or "inactive",
            "record": self.store.record(one),
            "state": state,
            "configurations": self.store.ids(),
        }
        return {**found, **values}

    def info(self):
        state = self.store.state()
        return self.result(state, self.show(), state["active"])

    def wanted(self, state):
        """Return ID, texts and record of the configuration that is asked for."""
        params = self.params
        if params["unit"] is None:
            one = params["id"]
            if one == "verified":
                one = service_store.last_verified(state, self.store.ids())
                if one is None:
                    raise service_store.StoreError(
                        f"id is verified: {self.store.state_file} names no verified configuration but the active one. "
                        "Deploy the one that is wanted."
                    )
            if not self.store.has(one):
                raise service_store.StoreError(
                    f'id is "{one}": {self.store.configs} has no such configuration. It has '
                    f"{', '.join(self.store.ids()) or 'none'}."
                )
            return one, self.store.texts(one), self.store.record(one)
        unit, environment = (params[name].rstrip("\n") + "\n" for name in ("unit", "environment"))
        record = params["record"]
        one = service_store.config_id(str(record.get("release_dir") or ""), unit, environment)
        made_at = (self.store.record(one) or {}).get("made_at") or service_store.utc()
        return (
            one,
            (unit, environment),
            {**record, "id": one, "name": params["name"], "unit": self.unit, "made_at": made_at},
        )

    def stage(self, one, texts, record):
        """Keep a configuration; returns whether that is new."""
        if self.store.has(one) and self.store.record(one) == record:
            return False
        if not self.store.has(one):
            self.check_unit(texts[0])
        if not self.module.check_mode:
            self.store.add(one, *texts, record, self.params["group"])
        return True

    def compare(self, state, shown, texts):
        """Return (changes, reasons for a restart, diff) of a configuration against the service that runs."""
        invocation = shown.get("InvocationID")
        runs = service_store.running_id(state, invocation)
        disk = self.store.active_texts()
        changes, reasons = service_store.changes_of(
            state,
            invocation,
            {"runs": self.store.texts(runs) if self.store.has(runs) else None, "disk": disk},
            texts,
            shown.get("NeedDaemonReload") == "yes",
        )
        if self.store.has(runs):
            # Started by another hand, with a unit that has been put back since.
            reasons += [
                drift.sentence(one)
                for one in drift.process_differences(self.store.texts(runs), process_of(shown.get("MainPID")))
            ]
        if not is_up(shown):
            reasons = []
        diff = []
        if not self.module._diff:
            return changes, reasons, diff
        if disk[0] != texts[0]:
            before, after = (unit_changes.redacted_unit(text) for text in (disk[0], texts[0]))
            diff.append(named(self.store.active_unit, before, after))
        if disk[1] != texts[1]:
            outlines = unit_changes.environment_outline(disk[1]), unit_changes.environment_outline(texts[1], disk[1])
            diff.append(named(self.store.active_environment, *outlines))
        if reasons:
            told = "".join(f"  {reason}\n" for reason in reasons)
            diff.append({"prepared": f"{self.unit} needs a restart:\n{told}"})
        return changes, reasons, diff

    def staged(self):
        state, shown = self.store.state(), self.show()
        one, texts, record = self.wanted(state)
        changes, reasons, diff = self.compare(state, shown, texts)
        changed = self.stage(one, texts, record)
        return self.result(
            state, shown, one, changed=changed, changes=changes, restart_needed=bool(reasons), restart_reasons=reasons,
            record=record, diff=diff,
        )  # fmt: skip

    def active(self):
        state, shown = self.store.state(), self.show()
        previous = state["active"]
        one, texts, record = self.wanted(state)
        changes, reasons, diff = self.compare(state, shown, texts)
        changed = self.params["unit"] is not None and self.stage(one, texts, record)
        differs = previous != one or self.store.active_texts() != texts
        allowed = self.params["restart"] == "auto"
        restart = bool(reasons) and allowed
        # A unit that waits for its next try is left alone, unless it gets something new to try.
        start = allowed and not is_up(shown) and (differs or shown.get("SubState") != "auto-restart")
        # A unit without a section Install is static and cannot be enabled.
        enable = shown.get("UnitFileState") not in ("enabled", "static")
        reload = differs or shown.get("NeedDaemonReload") == "yes"
        changed = changed or reload or enable or restart or start
        if not self.module.check_mode:
            runs = service_store.running_id(state, shown.get("InvocationID"))
            state = self.note(state, reasons, shown, runs)
            if self.store.make_active(one, self.params["group"]) or reload:
                changed = True
                self.systemctl("daemon-reload")
                shown = self.show()
            # From here on every start gets the new configuration: only this one still has the older.
            state = self.note({**state, "active": one}, reasons, shown, runs)
            if enable or any(change["section"] == "Install" for change in changes):
                self.systemctl("reenable", "--", self.unit)
            if restart or start:
                # Failures of what ran before do not count against the limit of starts.
                self.run("systemctl", "reset-failed", "--", self.unit)
                self.systemctl("restart" if is_alive(shown) else "start", "--no-block", "--", self.unit)
                shown = self.wait_for_start(shown.get("InvocationID"))
                state = self.note(state, [], shown, None)
            self.store.remove(service_store.superfluous(state, self.store.ids(), self.params["kept"]))
        return self.result(
            state, shown, one, changed=changed, previous=previous, changes=changes, restart_needed=bool(reasons),
            restart_reasons=reasons, restarted=restart, started=start, record=record, diff=diff,
        )  # fmt: skip

    def note(self, state, reasons, shown, runs):
        """Write down what is active, and which start still has an older configuration while that is so."""
        pending = {"reasons": reasons, "invocation_id": shown.get("InvocationID"), "runs": runs} if reasons else None
        wanted = {**state, "pending": pending}
        if not self.store.exists() or wanted != self.store.state():
            self.store.write_state(wanted)
        return wanted

    def rollout(self):
        state = self.store.state()
        wanted = {**state, "rollout": self.params["rollout"]}
        changed = wanted != state
        if changed and not self.module.check_mode:
            self.store.write_state(wanted)
        return self.result(wanted, self.show(), state["active"], changed=changed)

    def go(self):
        action = getattr(self, self.params["state"])
        if self.module.check_mode or self.params["state"] == "info":
            return action()
        with self.store.locked():
            return action()


def is_alive(shown):
    """Tell whether processes of the unit run, or it waits for its next try."""
    return shown.get("ActiveState") in ("active", "activating", "reloading")


def is_up(shown):
    """Tell whether the unit runs or starts; one that waits for its next try after a failure does not."""
    return is_alive(shown) and shown.get("SubState") not in ("auto-restart", "auto-restart-queued")


def named(path, before, after):
    return {"before_header": path, "after_header": path, "before": before, "after": after}


def main():
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, mutually_exclusive=[("id", "unit")], supports_check_mode=True)
    problem = check_parameters(module.params)
    if problem:
        module.fail_json(msg=problem)
    try:
        result = Service(module).go()
    except service_store.StoreError as error:
        module.fail_json(msg=str(error))
    except PermissionError as error:
        module.fail_json(msg=f"{error.filename} cannot be written or read: {error.strerror}. Use become.")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
