# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a running server, and the cgroup of its unit, say beside the log.

Source: SGLang 0.5.10 to 0.5.23 (``sglang:hicache_host_total_tokens`` is the target pool of a rank, in tokens;
``/server_info`` is flat), cgroup v2 ``memory.events``.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

import json
import os
import re

_SAMPLE = re.compile(
    r"sglang[:_]hicache_host_total_tokens(?:\{(?P<labels>[^}]*)\})?\s+(?P<value>[-+0-9.eE]+|NaN|[+-]Inf)"
)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_INFO = (
    "enable_hierarchical_cache",
    "hicache_ratio",
    "hicache_size",
    "max_total_num_tokens",
    "page_size",
    "tp_size",
    "version",
)
_UNIT_NAME = re.compile(r"[A-Za-z0-9:_.@\\-]{1,255}")


def is_unit_name(name):
    """Tell whether systemd could have a unit of this name."""
    return bool(_UNIT_NAME.fullmatch(name)) and not name.startswith("-")


def health(url, status, _body, error):
    """Turn the answer of a health address into ``{"ok": True, False or None, "message": str}``.

    None means that nothing can be said: no answer, or one that is not about health.
    """
    if status == 200:
        return {"ok": True, "message": f"{url} answered 200."}
    if status in (500, 502, 503, 504):
        return {
            "ok": False,
            "message": f"{url} answered {status}: the server says that it cannot generate. Read its last messages.",
        }
    if status is not None:
        return {"ok": None, "message": f"{url} answered {status}, which says nothing about health. Check the address."}
    return {"ok": None, "message": f"{url} did not answer: {error}. Check the host and port of health_url."}


def parse_metrics(text):
    """Read ``sglang:hicache_host_total_tokens`` out of Prometheus text.

    Returns a list of ``{"labels": dict, "tokens": int}``, one per rank that publishes it.
    """
    found = []
    for line in text.splitlines():
        match = _SAMPLE.match(line.strip())
        if not match:
            continue
        try:
            tokens = int(float(match.group("value")))
        except (ValueError, OverflowError):
            continue
        # No pool has so many; a longer number is no figure of the engine.
        if len(found) < 1024 and 0 <= tokens < 10**15:
            found.append({"labels": dict(_LABEL.findall(match.group("labels") or "")), "tokens": tokens})
    return found


def parse_server_info(body):
    """Read the settings that matter here out of ``/server_info`` (bytes); keys in it are never kept.

    Returns a dict, or None when the body is no JSON object.
    """
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    return {name: data[name] for name in _INFO if name in data}


def oom_kills(control_group, root="/sys/fs/cgroup"):
    """Number of processes of a unit that the kernel killed for memory, from its cgroup; None when unknown."""
    if not control_group or ".." in control_group:
        return None
    try:
        with open(os.path.join(root, control_group.lstrip("/"), "memory.events"), encoding="ascii") as source:
            for line in source:
                name, _space, value = line.partition(" ")
                if name == "oom_kill":
                    return int(value)
    except (OSError, ValueError):
        return None
    return None
