# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host says about its SGLang services: its units, what it keeps of their configurations, the last verdict.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

PROPERTIES = (
    "Id",
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "InvocationID",
    "NRestarts",
    "ActiveEnterTimestampMonotonic",
    "MainPID",
    "DropInPaths",
)

#: States of systemd in which a start is still to become ready, or a stop to end.
_PASSING = {"activating", "reloading", "refreshing", "deactivating"}


def service_names(folders, environments, wanted):
    """Names of the services of a host: what it keeps (folders, ``NAME.env`` files) and what is asked for, sorted."""
    kept = {name[: -len(".env")] for name in environments if name.endswith(".env")}
    return sorted({*folders, *kept, *wanted})


def fact_file(name):
    """Name of the file in which role verify keeps its verdict on a service."""
    return f"sglang_{name.replace('-', '_')}.fact"


def show_argv(units):
    """Command line that prints the state of several units, one block each."""
    return ["systemctl", "show", "--no-pager", f"--property={','.join(PROPERTIES)}", "--", *units]


def parse_blocks(text):
    """Read the output of :func:`show_argv`. Returns a dict of dicts of strings, by the unit's name."""
    found = {}
    for block in text.split("\n\n"):
        values = dict(line.partition("=")[::2] for line in block.splitlines() if "=" in line)
        if values.get("Id"):
            found[values["Id"]] = values
    return found


def _number(text):
    return int(text) if str(text or "").isdigit() else None


def uptime_seconds(unit, monotonic):
    """Whole seconds since the unit became active, or None where it is not; ``monotonic``: the clock's seconds now."""
    entered = _number(unit.get("ActiveEnterTimestampMonotonic"))
    if unit.get("ActiveState") != "active" or not entered:
        return None
    return max(0, int(monotonic - entered / 1e6))


def condition(unit):
    """One word on a unit: missing, running, loading, failed or stopped."""
    if unit.get("LoadState") in (None, "", "not-found"):
        return "missing"
    active = unit.get("ActiveState")
    if active == "active":
        return "running"
    if active in _PASSING:
        return "loading"
    return "failed" if active == "failed" else "stopped"


def kept_verdict(fact, written, invocation, now):
    """The verdict that role verify left on the host, with its age in seconds, or None where there is none.

    ``fact``: content of the file; ``written``: when it was written; ``now``: both in seconds since 1970. ``current``
    tells whether it is about the start that runs: a verdict on an earlier one says nothing about this one.
    """
    if not isinstance(fact, dict) or not fact.get("verdict"):
        return None
    return {
        "verdict": fact["verdict"],
        "source": "kept",
        "age_seconds": max(0, int(now - written)),
        "current": bool(invocation) and fact.get("invocation_id") == invocation,
        "ranks_seen": fact.get("ranks_seen"),
        "total_gb": fact.get("total_gb"),
        "expected_gb": fact.get("expected_gb"),
        "summary": fact.get("summary") or "",
    }


def describe(name, unit, kept, store):
    """What is to be told about one service.

    ``unit``: its properties; ``kept``: of :func:`kept_verdict`; ``store``: ``state`` (content of state.json), ``id``
    of the configuration that runs, and its ``record``; each empty where the host keeps none.
    """
    state, record = store.get("state") or {}, store.get("record") or {}
    verify = record.get("verify") or {}
    found = condition(unit)
    return {
        "name": name,
        "unit": f"sglang-{name}.service",
        "condition": found,
        "result": unit.get("Result") or "",
        "invocation_id": unit.get("InvocationID") or None,
        "restarts": None if found == "missing" else _number(unit.get("NRestarts")),
        "release": record.get("release") or None,
        "id": store.get("id"),
        "active_id": state.get("active"),
        "model_path": record.get("model_path") or None,
        "model_revision": record.get("model_revision") or None,
        "url": record.get("url") or None,
        "node_rank": int(verify.get("node_rank") or 0),
        "ranks_expected": _number(verify.get("ranks")),
        "pending": (state.get("pending") or {}).get("reasons") if state.get("pending") else None,
        "rollout": state.get("rollout"),
        "verify": verify,
        "verdict": kept,
    }
