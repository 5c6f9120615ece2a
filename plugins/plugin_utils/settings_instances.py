# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several SGLang services on one host: what is wrong with each, and what two of them both claim."""

from __future__ import annotations

import json

from ._settings.numbers import printable
from .settings import normalised, plain
from .settings_problems import settings_problems

VARIABLE = "serve_instances"


def label_of(instance, number):
    """Return how an operator finds an instance: by its name, or by its place."""
    name = instance.get("name")
    return f"{VARIABLE}[{name!r}]" if isinstance(name, str) and name else f"{VARIABLE}[{number}]"


def instances_problems(instances, common):
    """Return everything that is wrong with the services of a host, errors first.

    instances: a list of mappings, each with settings that differ from `common`; common: a mapping of all settings,
    C(release) among them. An empty list stands for one service that is `common`. Problems are those of
    C(settings_problems), named by the variable in which the setting was written.
    """
    common = plain(common)
    if not instances:
        return settings_problems(common, str(common.get("release")))
    if not isinstance(instances, (list, tuple)) or not all(isinstance(one, dict) for one in instances):
        return [_problem(VARIABLE, plain(instances), "it must be a list of mappings", "write one mapping per service")]
    instances = plain(instances)
    found = []
    for number, instance in enumerate(instances):
        label = label_of(instance, number)
        for name in instance:
            if name not in common:
                found.append(
                    _problem(
                        f"{label}.{name}",
                        "(hidden)",
                        f"there is no variable serve_{name}",
                        "name variables of role serve without serve_",
                    )
                )
        if len(instances) > 1 and "name" not in instance:
            found.append(_problem(f"{label}.name", None, "several services need a name each", "set it"))
        settings = {**common, **instance}
        names = {name: f"{label}.{name}" for name in instance}
        for problem in settings_problems(settings, str(settings.get("release")), names=names):
            if problem not in found:
                found.append(problem)
    found += _claimed_twice(printable(instances), printable(common))
    return sorted(found, key=lambda problem: problem["level"] != "error")


def _problem(variable, value, problem, mend):
    value = printable(value)
    shown = value if value == "(hidden)" else json.dumps(value, ensure_ascii=False, default=str)
    message = f"{variable} is {shown}: {problem}; {mend}."
    return {
        "level": "error",
        "variable": variable,
        "value": value,
        "problem": problem,
        "mend": mend,
        "message": message,
    }


def _claimed_twice(instances, common):
    """Return one problem that names every name, port and GPU that two services claim, or nothing."""
    owners = {"name": {}, "port": {}, "GPU": {}}
    for number, instance in enumerate(instances):
        values = normalised({**common, **instance})
        claims = [("name", values["name"]), ("port", values["port"])]
        claims += [("GPU", str(gpu)) for gpu in (values["gpus"] if isinstance(values["gpus"], list) else [])]
        # A name or port of another type is an error of its own.
        for kind, claim in ((kind, claim) for kind, claim in claims if not isinstance(claim, (dict, list))):
            owners[kind].setdefault(claim, []).append(label_of(instance, number) if kind != "name" else str(number))
    clashes = [
        f"{kind} {claim} of {' and '.join(claimants)}"
        for kind, claims in owners.items()
        for claim, claimants in claims.items()
        if len(claimants) > 1
    ]
    unplaced = [
        label_of(instance, number)
        for number, instance in enumerate(instances)
        if not normalised({**common, **instance})["gpus"]
    ]
    if len(instances) > 1 and 0 < len(unplaced) < len(instances):
        clashes.append(f"every GPU of {' and '.join(unplaced)}, which names none")
    if not clashes:
        return []
    names = [instance.get("name") for instance in instances]
    return [
        _problem(
            VARIABLE,
            names,
            f"two services claim the same: {', '.join(clashes)}",
            "give each service a name, a port and GPUs of its own",
        )
    ]
