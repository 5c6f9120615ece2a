# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the variables of role rollout, found before any host is asked."""

from __future__ import annotations

import json

from . import fleet_batches


def _number(value):
    """Return a number, or None where the value is none; text from the command line counts."""
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None


def _batches(settings):
    sizes = settings.get("batches")
    if not isinstance(sizes, list) or not sizes:
        yield "batches", sizes, 'it is no list of sizes; set hosts or percentages, [1, "25%", "100%"] for example'
        return
    for size in sizes:
        try:
            good = fleet_batches.amount(size, 1000) >= 1
        except ValueError:
            good = False
        if not good:
            yield (
                "batches",
                sizes,
                f"{json.dumps(size)} is no size; each is a number of hosts from 1 on, or a percentage above 0 in"
                ' quotes, "25%" for example',
            )


def _minimum(settings):
    minimum = settings.get("serving_minimum")
    units = len({str(unit) for unit in settings["units"].values()})
    try:
        floor = fleet_batches.amount(minimum, units)
    except ValueError:
        yield "serving_minimum", minimum, 'it is no number of hosts and no percentage; set 2 or "50%" for example'
        return
    # Hosts beyond a limit serve as well, so only a whole fleet can be held against it here.
    if floor >= units and not settings.get("limited"):
        yield (
            "serving_minimum",
            minimum,
            f"the fleet has {units} host{'' if units == 1 else 's'}, so none could ever be taken out; set it below"
            f" {units}",
        )


def _canary(settings):
    group, groups = settings.get("canary_group"), settings.get("groups") or {}
    if group and settings.get("canary_required") and not groups.get(group):
        yield (
            "canary_group",
            group,
            "the inventory has no such group, or it has no hosts; add the group, or leave the variable out to begin"
            " with the first host",
        )


def _numbers(settings):
    for name, least, mend in (
        ("soak_seconds", 0, "set 0 for no soak, or seconds, 60 for example"),
        ("soak_poll_seconds", 0.1, "set seconds, 2 for example"),
        ("capacity_timeout_seconds", 0, "set 0 for no wait, or seconds, 300 for example"),
        ("lock_lease_seconds", 1, "set seconds, 14400 for example"),
    ):
        number = _number(settings.get(name))
        if number is None or number < least:
            yield name, settings.get(name), f"it is no number of {least:g} or more; {mend}"
    lease = _number(settings.get("lock_lease_seconds"))
    soak, start, drain = (
        _number(settings.get(f"{name}_seconds")) or 0 for name in ("soak", "start_timeout", "drain_timeout")
    )
    # A batch that fails takes its hosts out, and starts them, once more.
    longest = soak + 2 * (start + drain)
    if lease is not None and lease >= 1 and lease <= longest:
        yield (
            "lock_lease_seconds",
            settings["lock_lease_seconds"],
            f"a batch and its way back may take {longest:g} s, the soak and twice a drain and a start, and the lock"
            " would run out meanwhile; set more than that",
        )


def _places(settings):
    host = settings.get("lock_host")
    if host and host not in (settings.get("known_hosts") or []):
        yield "lock_host", host, "the inventory has no such host; name one that every controller reaches"
    if not str(settings.get("lock_path") or "").startswith("/"):
        yield "lock_path", settings.get("lock_path"), "it is no absolute path; set a file on the lock's host"


def problems(settings):
    """Return one sentence for each problem: variable, value, what is wrong, the mend."""
    found = []
    for check in (_batches, _minimum, _canary, _numbers, _places):
        for name, value, told in check(settings):
            found.append(f"rollout_{name} is {json.dumps(value, default=str)}: {told}.")
    return found
