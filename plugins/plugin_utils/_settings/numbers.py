# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers among the settings of a service with which no rule could compute: too large, not finite, or meant by nobody.

They are named before anything else is judged, so that no rule ends in a traceback or never.
"""

from __future__ import annotations

import math

from ...module_utils import argument_check
from ..settings import SETTINGS
from .excludes import DCP_OPTIONS, number_of

# SGLang writes its arguments to the journal and /server_info returns them, in every release up to 0.5.23.
SECRET_OPTIONS = frozenset(("api-key", "admin-api-key", "ssl-keyfile-password"))
# A count beyond this fits in no field of SGLang, systemd or the kernel.
_MOST_INT = 2**63 - 1
# Settings of whole seconds that the unit hands to its own program.
_WAITS = ("start_timeout_seconds", "leftover_timeout_seconds")


def printable(value):
    """Return a value with huge numbers put in words: Python does not print integers of thousands of digits."""
    if isinstance(value, dict):
        return {name: printable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [printable(item) for item in value]
    if isinstance(value, int) and abs(value) > 10**30:
        return f"{'-' if value < 0 else ''}1e{int(value.bit_length() * 0.30103)}"
    return value


def _numbers_in(value):
    """Yield the numbers of a value, however deep they are."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, (dict, list)):
            waiting += item.values() if isinstance(item, dict) else item
        elif isinstance(item, (int, float)) and not isinstance(item, bool):
            yield item


def sizes(settings, problems):
    """Name numbers that nothing can count with; the other rules compute, and run only when there are none."""
    for setting in SETTINGS:
        value = settings.get(setting.name)
        secret = setting.name in ("environment", "unit_directives")
        keyed = value.items() if isinstance(value, dict) else [(None, value)]
        for key, item in keyed:
            for number in _numbers_in(item):
                if isinstance(number, int) and abs(number) > _MOST_INT:
                    problem, mend = "it is too large to count with", "write a number that is meant"
                elif isinstance(number, float) and not math.isfinite(number):
                    # A typed setting is told which kind it must be.
                    problem, mend = "it must be a number, a finite one", "write a number"
                else:
                    continue
                hidden = secret or (setting.name == "engine_options" and _is_secret_option(key))
                problems.add(setting.name, argument_check.HIDDEN if hidden else item, problem, mend, key=key)
                break
    for name in _WAITS:
        if settings.get(name, 0) in (None, ""):
            problems.add(name, settings[name], "the unit's program waits that long and no longer", "set it to seconds")
    return not problems.found


# Setting: the most that can be meant. What is above would be refused by nobody and waited for or computed with.
_MOST = {
    "tensor_parallel_size": (4096, "GPUs"),
    "nodes": (4096, "hosts"),
    "page_size": (2**20, "tokens"),
    "max_total_tokens": (2**40, "tokens"),
    "speculative_num_steps": (4096, "steps"),
    "speculative_eagle_topk": (4096, "branches"),
    "speculative_num_draft_tokens": (4096, "tokens"),
    "hicache_ratio": (10000, "host tokens for each device token"),
    "hicache_size": (100000, "GB for each rank"),
    "memory_available_gb": (1000000, "GB"),
    "restart_seconds": (31536000, "seconds, a year,"),
    "stop_timeout_seconds": (31536000, "seconds, a year,"),
    "start_timeout_seconds": (31536000, "seconds, a year,"),
    "leftover_timeout_seconds": (31536000, "seconds, a year,"),
}
_PARALLEL_OPTIONS = ("pp-size", "pipeline-parallel-size", "dp-size", "data-parallel-size", *DCP_OPTIONS)


def limits(values, problems):
    """Name counts that no host has; the other rules compute with them, and run only when there are none."""
    for name, (most, words) in _MOST.items():
        value = values[name]
        if value is not None and value > most:
            problems.add(name, value, f"more than {most} {words} cannot be meant", f"set {most} at most")
    for name in _PARALLEL_OPTIONS:
        if number_of(values["engine_options"], name) > 4096:
            value = values["engine_options"][name]
            problems.add("engine_options", value, "more than 4096 GPUs cannot be meant", "set 4096 at most", key=name)
    return not problems.found


def _is_secret_option(name):
    plain_name = str(name).lstrip("-").replace("_", "-")
    return plain_name in SECRET_OPTIONS or argument_check.is_secret_name(plain_name)
