# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is on a host, and what runs there, against the record of what was deployed.

A service is judged by the record of its configuration. That only means something while the unit, the environment and
the process are those of the record, so every difference is found here first.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict

from .. import argument_check, service_store, unit_changes
from .._hicache import started
from .._host.process import process_of
from .._model import parallel_layout

HIDDEN = argument_check.HIDDEN
#: Variables that steer the engine: one that a process has and no record names is a difference.
ENGINE_VARIABLES = ("SGLANG_", "SGL_", "CUDA_VISIBLE_DEVICES", "FORWARDED_ALLOW_IPS")

# A specifier that systemd replaces when it starts the unit: its value is not known from the text.
_SPECIFIER = re.compile(r"(?<!%)(?:%%)*%(?!%)")

_PUT_RIGHT = "Run site.yml, which deploys the configuration again"
_DEPLOY_IT = "Run site.yml, which restarts the service as recorded; to keep the change, set it in the inventory first"


def _difference(where, setting, recorded, found, fix):
    return {"where": where, "setting": setting, "recorded": recorded, "found": found, "fix": fix}


def sentence(difference):
    """One difference as a sentence: what it is, both values, and what to do."""
    recorded, found = (
        "not set" if difference[side] is None else str(difference[side]) for side in ("recorded", "found")
    )
    if recorded == found == HIDDEN:
        recorded, found = "one value (hidden)", "another value (hidden)"
    return (
        f"{difference['setting']} {difference['where']} is {found}, and the record of the deployment has {recorded}. "
        f"{difference['fix']}."
    )


def file_differences(recorded, found):
    """Differences between the unit and environment file of a record and those that systemd reads.

    ``recorded`` and ``found`` are ``(unit, environment)``, the texts of both files. What only people read does not
    count.
    """
    if not found[0]:
        return [_difference("on disk", "the unit file", "there", "missing", _PUT_RIGHT)]
    changes = unit_changes.changes_between(recorded[0], found[0], recorded[1], found[1])
    differences = []
    for change in changes:
        if change["effect"] == unit_changes.NONE:
            continue
        variable = change["section"] == "environment"
        where = "in the environment file" if variable else "in the unit file"
        setting = change["directive"] if variable else _setting_of(change)
        differences.append(_difference(where, setting, change["before"], change["after"], _PUT_RIGHT))
    return differences


def _setting_of(change):
    """Name what a change of a unit is about: the option of the command line, or the directive."""
    if change["directive"] == "ExecStart":
        words = (change["after"] or change["before"] or "").split()
        return words[0] if words and words[0].startswith("--") else "ExecStart"
    return change["directive"]


def drop_in_differences(unit, drop_ins):
    """Differences that drop-ins of the unit itself make.

    ``unit``: text of the recorded unit; ``drop_ins``: a list of ``(path, text)``. Drop-ins for all services of a host,
    as distributions and container engines bring them, are not the unit's own.
    """
    recorded = unit_changes.parse_unit(unit)
    differences = []
    for path, text in drop_ins:
        for (section, directive), values in unit_changes.parse_unit(text).items():
            old = recorded.get((section, directive))
            if unit_changes.effect_of(section, directive) == unit_changes.NONE or values == old:
                continue
            shown = [None if one is None else unit_changes.redacted_unit(" | ".join(one)) for one in (old, values)]
            if argument_check.is_secret_name(directive) or directive.startswith(("Environment", "SetCredential")):
                shown = [None if one is None else HIDDEN for one in shown]
            if directive.startswith("Exec"):
                secrets = argument_check.secrets_of([word for one in (old or []) + values for word in _words(one)])
                shown = [None if one is None else argument_check.masked(one, secrets) for one in shown]
            fix = f"Remove {path}, or put its directives into serve_unit_directives and run site.yml"
            differences.append(_difference(f"in {path}", directive, *shown, fix))
    return differences


def _words(value):
    """Words of a command line as the program gets them: systemd's doubled percent and dollar signs undone."""
    return [word.replace("%%", "%").replace("$$", "$") for word in unit_changes.words_of(value)]


def recorded_words(unit):
    """The command line of a recorded unit as the program gets it, a list of words; empty where it has none."""
    values = unit_changes.parse_unit(unit).get(("Service", "ExecStart")) or []
    return _words(values[-1]) if values else []


def recorded_variables(unit, environment):
    """The variables that a recorded unit and its environment file give to the process, a dict of texts."""
    found = {}
    for value in unit_changes.parse_unit(unit).get(("Service", "Environment")) or []:
        if not value:
            found = {}
        for word in unit_changes.words_of(value):
            name, _equals, text = word.partition("=")
            if not _SPECIFIER.search(text):
                found[name] = text.replace("%%", "%")
    for name, raw in unit_changes.parse_environment(environment).items():
        words = unit_changes.words_of(raw)
        found[name] = words[0] if len(words) == 1 else raw
    unset = _names(unit, "UnsetEnvironment")
    return {name: text for name, text in found.items() if name not in unset}


def options_of(words):
    """The options of a command line: a dict of each option to the list of its words; ``''`` has what precedes them."""
    found = OrderedDict()
    option = ""
    for word in words:
        if word.startswith("--") and " " not in word.partition("=")[0]:
            option, equals, joined = word.partition("=")
            found.setdefault(option, [])
            if equals:
                found[option].append(joined)
        else:
            found.setdefault(option, []).append(word)
    return found


def is_rewritten(words):
    """Tell whether a process has replaced its command line by a title, so that it says nothing about its arguments."""
    return not words or len([word for word in words if word]) == 1 or words[0].startswith("sglang::")


def argument_differences(recorded, found):
    """Differences between the recorded words of the command line and those of the running process."""
    if not recorded or is_rewritten(found) or recorded == found:
        return []
    secrets = argument_check.secrets_of([*recorded, *found])
    old, new = options_of(recorded), options_of(found)
    differences = []
    for option in [*old, *(one for one in new if one not in old)]:
        shown = [
            None if option not in side else argument_check.masked(" ".join(side[option]) or "given", secrets)
            for side in (old, new)
        ]
        if old.get(option) != new.get(option):
            name = option or "the program"
            differences.append(_difference("of the running process", name, *shown, _DEPLOY_IT))
    return differences


def _names(unit, directive):
    """The names that a directive of a unit lists, such as PassEnvironment."""
    values = unit_changes.parse_unit(unit).get(("Service", directive)) or []
    return {word.partition("=")[0] for value in values for word in unit_changes.words_of(value)}


def variable_differences(recorded, found, passed=()):
    """Differences between the recorded variables and those of the running process; values are never shown.

    ``passed``: names that the unit takes from systemd's own environment.
    """
    differences = []
    for name in sorted(recorded):
        if found.get(name) != recorded[name]:
            shown = HIDDEN if name in found else None
            differences.append(
                _difference("in the environment of the running process", name, HIDDEN, shown, _PUT_RIGHT)
            )
    for name in sorted(found):
        if name not in recorded and name not in passed and name.startswith(ENGINE_VARIABLES):
            differences.append(_difference("in the environment of the running process", name, None, HIDDEN, _PUT_RIGHT))
    return differences


def process_differences(texts, process):
    """Differences of a running process from the record that it was started by.

    ``texts`` is the recorded ``(unit, environment)``; ``process`` is ``{"arguments": list or None, "variables": dict or
    None}``, None where the kernel does not tell.
    """
    found = []
    if process["arguments"]:
        found += argument_differences(recorded_words(texts[0]), process["arguments"])
    if process["variables"] is not None and not is_rewritten(process["arguments"] or []):
        found += variable_differences(
            recorded_variables(*texts), process["variables"], _names(texts[0], "PassEnvironment")
        )
    return found


def host_differences(store, shown, one):
    """Differences of a host and of its running process from the records of a service.

    ``store``: its :class:`service_store.Store`; ``shown``: MainPID and DropInPaths of ``systemctl show``; ``one``: ID
    of the configuration that runs. The files are compared with the active configuration, which the next start gets.
    """
    active = store.state()["active"]
    found = []
    if store.has(active):
        texts = store.texts(active)
        found += file_differences(texts, store.active_texts())
        paths = (shown.get("DropInPaths") or "").split()
        # What is for all services of a host is not the unit's own; a folder for its prefix (sglang-.service.d) is.
        own = [path for path in paths if os.path.basename(os.path.dirname(path)) != "service.d"]
        found += drop_in_differences(texts[0], [(path, service_store.read(path) or "") for path in own])
    if store.has(one):
        found += process_differences(store.texts(one), process_of(shown.get("MainPID")))
    return found


#: Option of the command line to the name that the start's own ``server_args`` have for it, where they differ.
_ALIASES = {
    **parallel_layout.FIELDS,
    "model": "model_path",
    "speculative_draft_model": "speculative_draft_model_path",
    "enable_hicache": "enable_hierarchical_cache",
}


_NUMBER = re.compile(r"-?[0-9]{1,15}(?P<fraction>\.[0-9]{1,15})?\Z")


def _typed(words):
    """The value of an option of one value; of an option that is given twice the last one counts, as in the engine."""
    if not words:
        return True
    found = _NUMBER.match(words[-1])
    if not found:
        return words[-1]
    return float(words[-1]) if found.group("fraction") else int(words[-1])


def expected_settings(words):
    """What the ``server_args`` of a start with this command line have to show, by their own names.

    Only those whose difference is another deployment. Switches are true where they are given. The absence of a switch
    is told for the hierarchical cache and for DP attention, whose presence changes what a start allocates.
    """
    found = {"enable_hierarchical_cache": False, "enable_dp_attention": False}
    for option, values in options_of(words).items():
        name = option.lstrip("-").replace("-", "_")
        name = _ALIASES.get(name, name)
        if name in ("attn_dp_size", "attention_data_parallel_size"):
            # The width of DP attention, which needs no switch beside it.
            found.pop("enable_dp_attention", None)
        elif name in started.CERTAIN:
            found[name] = _typed(values)
    return found
