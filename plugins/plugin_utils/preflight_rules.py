# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All rules of the preflight, and what they find on a host."""

from __future__ import annotations

from . import preflight_gpus, preflight_host, preflight_system
from .preflight_rule import ERROR, RULES, WARNING, Look

# The order of the report. Each of these registers its rules when it is imported.
_MODULES = [module.__name__ for module in (preflight_host, preflight_system, preflight_gpus)]
ORDERED = tuple(sorted(RULES, key=lambda known: _MODULES.index(known.judge.__module__)))


def findings(entry, host, gpus, facts, settings, accepted=(), check_mode=False):
    """What is wrong with a host, errors first: a list of dicts with level, code, seen, needed, mend and accepted.

    entry: main or gpus. host, gpus: what host_info and gpu_info returned. facts: distribution, distribution_version,
    distribution_major and architecture. settings: the role's variables without their prefix. accepted: codes whose
    errors are warnings.
    """
    look = Look(entry, host, gpus, facts, settings, check_mode)
    found = []
    for known in ORDERED:
        finding = known.judge(look) if entry in known.entries else None
        if finding is None:
            continue
        level = finding.level or known.levels[0]
        taken = level == ERROR and known.code in accepted
        found.append(
            {
                "level": WARNING if taken else level,
                "code": known.code,
                "seen": finding.seen,
                "needed": finding.needed,
                "mend": finding.mend,
                "accepted": taken,
            }
        )
    return sorted(found, key=lambda row: row["level"] != ERROR)
