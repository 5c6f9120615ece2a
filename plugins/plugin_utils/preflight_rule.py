# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all rules of the preflight share: how a rule is declared, and what it may look at.

A rule is a function that takes a Look and returns None, or a Finding. A value that the host did not show is None and
never a finding: only what was seen is held against a host.
"""

from __future__ import annotations

from collections import namedtuple

from . import release_needs

ERROR, WARNING = "error", "warning"
MAIN, GPUS = "main", "gpus"

Rule = namedtuple("Rule", "code levels entries judge")
Rule.__doc__ = """One rule: its code, the levels that it may report, the entry points it belongs to, its function."""

Finding = namedtuple("Finding", "seen needed mend level")
Finding.__new__.__defaults__ = (None,)
Finding.__doc__ = """What a rule reports, in parts of sentences; `level` where the rule has more than one."""

RULES = []

# What role cuda is going to mend is not held against a host before it ran.
MENDED_BY_CUDA = ("missing", "driver_not_loaded", "version_mismatch", "unknown_field")


def rule(code, levels=ERROR, entries=MAIN):
    """Register the decorated function; several levels or entry points are separated by spaces."""

    def register(judge):
        RULES.append(Rule(code, tuple(levels.split()), tuple(entries.split()), judge))
        return judge

    return register


class Look:
    """What was read from a host, and the role's variables without their prefix."""

    def __init__(self, entry, host, gpus, facts, settings, check_mode=False):
        self.entry = entry
        self.host = host
        self.gpus = gpus
        self.facts = facts
        self.settings = settings
        self.check_mode = check_mode
        self.release = str(settings["release"]).partition("+")[0]
        self.need = release_needs.needs_of(self.release)

    def number(self, name):
        """A setting as a number."""
        return float(self.settings[name])

    def flag(self, name):
        """A setting as a truth value; text as --extra-vars gives it included."""
        value = self.settings[name]
        return value.strip().lower() in ("true", "yes", "on", "1") if isinstance(value, str) else bool(value)

    def least(self, name):
        """Sentence part that names a variable with its value."""
        return f"preflight_{name} is {self.settings[name]}"

    def path(self, path):
        """What was read of a path."""
        return next((row for row in self.host["paths"] if row["path"] == path), None)

    # -- GPUs ------------------------------------------------------------------------------------------

    @property
    def failure(self):
        """Code of nvidia-smi's failure, an empty text without one."""
        return (self.gpus["error"] or {}).get("code") or ""

    @property
    def source(self):
        """Where GPUs are counted: nvidia-smi, pci or none."""
        chosen = self.settings["gpu_detection"]
        if not self.flag("gpu_required"):
            return "none"
        if self.entry == GPUS:
            return "nvidia-smi"
        if chosen in ("none", "pci"):
            return chosen
        if self.gpus["available"]:
            return "nvidia-smi"
        return "pci" if chosen == "auto" else "none"

    @property
    def asks_driver(self):
        """Whether the driver is looked at, be it there or not."""
        return self.flag("gpu_required") and (
            self.entry == GPUS or self.settings["gpu_detection"] in ("auto", "nvidia-smi")
        )

    @property
    def driver_works(self):
        """Whether nvidia-smi answers or the kernel module is loaded."""
        return self.gpus["available"] or self.gpus["kernel_module"]["loaded"]

    @property
    def driver_level(self):
        """Level of what role cuda mends when it runs after this look, or would have mended in check mode."""
        later = self.entry == MAIN and self.flag("driver_install_enabled")
        return WARNING if later or (self.check_mode and self.failure == "missing") else ERROR


def gigabytes(size):
    """A size in GB (1e9 bytes), with one decimal."""
    return f"{size / 1e9:.1f} GB"


def listed(values):
    """Different values in their order, joined by commas."""
    return ", ".join(dict.fromkeys(str(value) for value in values))
