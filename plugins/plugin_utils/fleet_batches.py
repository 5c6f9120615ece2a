# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cut a fleet into batches: the unfinished first, then canaries, then sizes, and never more than may be missing.

What is counted is a unit: a host, or the hosts of one multi-node service, which stop and start together.
"""

from __future__ import annotations

import dataclasses
import re

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(%?)\Z")


def amount(size, total, least=0):
    """Return how many of `total` a number or a percentage is, rounded down, and no fewer than `least`.

    Raises ValueError where it is neither.
    """
    found = _SIZE.match(str(size).strip())
    if isinstance(size, bool) or not found or ("." in found.group(1) and not found.group(2)):
        raise ValueError(size)
    number = float(found.group(1)) * total / 100 if found.group(2) else int(found.group(1))
    return max(least, int(number))


def units_of(hosts):
    """Return [(unit, [host names])] in the order of each unit's first host; `hosts` is [(host name, unit)]."""
    found = {}
    for name, unit in hosts:
        found.setdefault(str(unit), []).append(name)
    return list(found.items())


def cut(units, sizes, total):
    """Return lists of units, cut by sizes of hosts; the last size goes on until no unit is left.

    A unit that is larger than the size makes a batch of its own.
    """
    batches, left = [], list(units)
    while left:
        size = amount(sizes[min(len(batches), len(sizes) - 1)], total, least=1)
        batch, count = [], 0
        while left and (not batch or count + len(left[0][1]) <= size):
            batch.append(left.pop(0))
            count += len(batch[-1][1])
        batches.append(batch)
    return batches


@dataclasses.dataclass(frozen=True)
class Floor:
    """How many of the units that serve now go on serving: all of a router, or those of one service.

    members: the units that can serve here; None for every one.
    """

    serving: set
    least: int
    members: set | None = None
    router: str = ""
    service: str = ""

    def broken_by(self, units):
        """Tell whether too few would be left without some units. Without one that serves nothing is lost."""
        return bool(self.serving & units) and len(self.serving - units) < self.least

    def joined(self, units):
        """Return the floor once some units serve as well."""
        more = units if self.members is None else units & self.members
        return dataclasses.replace(self, serving=self.serving | more)


def split(batch, floors):
    """Cut one batch of units so that every floor is kept; returns (parts, None), or (None, the floor that forbids)."""
    parts, part, taken = [], [], set()
    for unit in batch:
        own = {unit[0]}
        forbids = next((floor for floor in floors if floor.broken_by(own)), None)
        if forbids:
            return None, forbids
        if part and any(floor.broken_by(taken | own) for floor in floors):
            parts.append(part)
            part, taken = [], set()
        part.append(unit)
        taken |= own
    return [*parts, part], None


def make(hosts, sizes, canary=(), unfinished=(), floors=()):
    """Return (batches, None or (host names, the floor that forbids them)), each batch {"title", "hosts"}.

    hosts: [(host name, unit)]; sizes: numbers of hosts or percentages of them; canary, unfinished: names of hosts;
    floors: what shall serve all the time.
    """
    total = len(hosts)
    units = units_of(hosts)
    begun = [unit for unit in units if set(unit[1]) & set(unfinished)]
    first = [unit for unit in units if set(unit[1]) & set(canary) and unit not in begun]
    rest = [unit for unit in units if unit not in begun and unit not in first]
    planned = [("unfinished", begun)] if begun else []
    if first:
        planned += [("canary", batch) for batch in cut(first, sizes[:1], total)]
        planned += [("", batch) for batch in cut(rest, sizes[1:] or sizes, total)]
    else:
        planned += [("" if number else "canary", batch) for number, batch in enumerate(cut(rest, sizes, total))]
    batches = []
    for title, batch in planned:
        parts, forbids = split(batch, floors)
        if forbids:
            return batches, ([name for _unit, names in batch for name in names], forbids)
        batches += [{"title": title, "hosts": [name for _unit, names in part for name in names]} for part in parts]
        floors = [floor.joined({unit for unit, _names in batch}) for floor in floors]
    return batches, None
