# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what journald.conf and its drop-ins make journald do.

Pure functions on text: nothing here opens a file. Times are in seconds.
"""

from __future__ import annotations

import re

# Where systemd looks, the strongest first. A drop-in hides those of the same name in the weaker folders.
FOLDERS = ("etc/systemd", "run/systemd", "usr/local/lib/systemd", "usr/lib/systemd")

# journald's own defaults, the same from systemd 249 (Ubuntu 22.04) to 257 (Debian 13, RHEL 10).
DEFAULTS = {"Storage": "auto", "RateLimitIntervalSec": "30s", "RateLimitBurst": "10000", "MaxLevelStore": "debug"}
_FORMER_NAMES = {"RateLimitInterval": "RateLimitIntervalSec"}

LEVELS = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")

_UNITS = {
    "us": 1e-6, "usec": 1e-6, "ms": 1e-3, "msec": 1e-3, "": 1, "s": 1, "sec": 1, "second": 1, "seconds": 1,
    "m": 60, "min": 60, "minute": 60, "minutes": 60, "h": 3600, "hr": 3600, "hour": 3600, "hours": 3600,
    "d": 86400, "day": 86400, "days": 86400,
}  # fmt: skip


def parse(text):
    """Settings of the section Journal as ``{name: text}``; a later line replaces an earlier one."""
    settings = {}
    section = None
    for line in re.sub(r"\\\n", " ", text).splitlines():
        line = line.strip()
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif section == "Journal" and "=" in line and not line.startswith(("#", ";")):
            name, _equals, value = line.partition("=")
            name = name.strip()
            settings[_FORMER_NAMES.get(name, name)] = value.strip()
    return settings


def order(drop_ins):
    """Paths of drop-ins in the order in which they are read, from ``[(index in FOLDERS, file name, path), ...]``."""
    strongest = {}
    for _rank, name, path in sorted(drop_ins):
        strongest.setdefault(name, path)
    return [strongest[name] for name in sorted(strongest)]


def merge(texts):
    """What holds after the main file and the drop-ins, read in this order, with journald's defaults below them.

    An empty value takes a setting back to its default, as systemd has it.
    """
    merged = dict(DEFAULTS)
    for text in texts:
        for name, value in parse(text).items():
            merged[name] = value or DEFAULTS.get(name, "")
    return merged


def seconds(text):
    """A time span of systemd ("30s", "1min 30s", "0") in seconds; None if it is none or infinite."""
    parts = re.findall(r"([0-9.]+)\s*([a-z]*)\s*", text.strip().lower())
    if not parts or re.sub(r"[0-9.]+\s*[a-z]*\s*", "", text.strip().lower()):
        return None
    try:
        return float(sum(float(number) * _UNITS[unit] for number, unit in parts))
    except (KeyError, ValueError):
        return None


def level(text):
    """Number of a log level that is given by name or number, 0 (emerg) to 7 (debug); None if it is none."""
    text = text.strip().lower()
    if text in LEVELS:
        return LEVELS.index(text)
    return int(text) if re.match(r"^[0-7]$", text) else None


def storage(text, has_folder):
    """Where messages go: persistent, volatile or none. ``auto`` is decided by whether /var/log/journal exists."""
    text = text.strip().lower()
    if text in ("persistent", "volatile", "none"):
        return text
    return "persistent" if has_folder else "volatile"
