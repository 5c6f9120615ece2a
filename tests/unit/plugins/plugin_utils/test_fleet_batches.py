# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Batches of a fleet: sizes, canaries, the unfinished, units, and the floor."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import fleet_batches

ALL = "abcdefgh"


def made(names=ALL, sizes=(1, "25%", "100%"), units=None, serving=(), minimum=0, **more):
    """Batches as words such as "a bc defgh", with the title of each that has one, and what was forbidden."""
    hosts = [(name, (units or {}).get(name, name)) for name in names]
    more.setdefault("floors", [fleet_batches.Floor(set(serving), minimum)])
    batches, forbidden = fleet_batches.make(hosts, list(sizes), **more)
    told = " ".join("".join(batch["hosts"]) + (f":{batch['title']}" if batch["title"] else "") for batch in batches)
    return told, "".join(forbidden[0]) if forbidden else None


@pytest.mark.parametrize(
    "size, total, wanted",
    [(1, 8, 1), ("3", 8, 3), ("25%", 8, 2), ("100%", 8, 8), ("50%", 1, 0), ("12.5%", 8, 1), (0, 8, 0), (" 2 ", 8, 2)],
)
def test_amounts(size, total, wanted):
    assert fleet_batches.amount(size, total) == wanted


@pytest.mark.parametrize("size", [True, None, -1, "-1", "x", "", "1.5", 1.5, "25 %x", [1]])
def test_what_is_no_amount(size):
    with pytest.raises(ValueError):
        fleet_batches.amount(size, 8)


@pytest.mark.parametrize(
    "arguments, wanted",
    [
        ({}, "a:canary bc defgh"),
        ({"sizes": [2]}, "ab:canary cd ef gh"),
        ({"sizes": ["10%"], "names": "abc"}, "a:canary b c"),
        ({"names": "a"}, "a:canary"),
        ({"names": ""}, ""),
        # Canaries take the first size until none is left, the others begin with the second.
        ({"canary": ["c", "f"]}, "c:canary f:canary ab degh"),
        ({"canary": ["c", "f"], "sizes": [2]}, "cf:canary ab de gh"),
        # What an earlier rollout left comes first, all at once, a canary of it too.
        ({"unfinished": ["e", "g"], "canary": ["e"]}, "eg:unfinished a:canary bc dfh"),
        ({"unfinished": ["e"], "canary": ["c"]}, "e:unfinished c:canary ab dfgh"),
    ],
)
def test_batches(arguments, wanted):
    assert made(**arguments) == (wanted, None)


def test_hosts_of_one_unit_stay_together():
    units = {"a": "x", "c": "x", "e": "y", "f": "y", "g": "y"}
    # A unit that is larger than the size is a batch of its own, and one that does not fit begins the next.
    assert made(units=units) == ("ac:canary bd efgh", None)
    assert made(units=units, sizes=[1, 3, "100%"]) == ("ac:canary bd efgh", None)
    assert made(units=units, sizes=[2]) == ("ac:canary bd efg h", None)
    assert made(units=units, unfinished=["g"]) == ("efg:unfinished ac:canary bd h", None)


@pytest.mark.parametrize(
    "minimum, serving, wanted",
    [
        (4, ALL, ("a:canary bc defg h", None)),
        (6, ALL, ("a:canary bc de fg h", None)),
        (7, ALL, ("a:canary b c d e f g h", None)),
        (8, ALL, ("", "a")),
        (9, ALL, ("", "a")),
        # Who does not serve costs nothing, and serves afterwards.
        (6, "abcdef", ("", "a")),
        (6, "bcdefgh", ("a:canary bc de fg h", None)),
        (2, "", ("", None)),
    ],
)
def test_the_floor_splits_batches_or_forbids_them(minimum, serving, wanted):
    told = made(serving=set(serving), minimum=minimum, names=ALL if serving else "")
    assert told == wanted


def test_hosts_beyond_the_rollout_count_for_the_floor():
    assert made("ab", ["100%"], serving={"a", "b", "z"}, minimum=1) == ("ab:canary", None)
    assert made("ab", ["100%"], serving={"a", "b"}, minimum=1) == ("a:canary b:canary", None)


def test_hosts_that_do_not_serve_are_not_split():
    assert made("abcd", ["100%"], serving=set(), minimum=2) == ("abcd:canary", None)
    assert made("abcdef", ["100%"], serving={"a", "c", "f"}, minimum=2) == ("ab:canary cde:canary f:canary", None)


def test_a_unit_counts_as_one():
    units = {"a": "x", "b": "x", "c": "y", "d": "y"}
    assert made("abcd", ["100%"], units=units, serving={"x", "y"}, minimum=1) == ("ab:canary cd:canary", None)


def test_every_floor_is_kept():
    floors = [fleet_batches.Floor(set("abcd"), 1), fleet_batches.Floor(set("ab"), 1, members=set("ab"), service="x")]
    assert made("abcd", ["100%"], floors=floors) == ("a:canary bcd:canary", None)
    # Who joins counts where it is a member, and nowhere else.
    alone = [fleet_batches.Floor(set("b"), 1, members=set("ab"), service="x")]
    assert made("abc", [1], floors=alone) == ("a:canary b c", None)
    assert made("cb", [1], floors=alone) == ("c:canary", "b")
    hosts = [("b", "b")]
    assert fleet_batches.make(hosts, [1], floors=alone) == ([], (["b"], alone[0]))
