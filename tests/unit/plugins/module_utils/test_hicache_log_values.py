# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of a line of server arguments, ranks of a structured log, and lines that lost the break between them."""

from __future__ import annotations

import json

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_log


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a'", "a"),
        ('"a"', "a"),
        ("''", ""),
        ("7", 7),
        ("0.5", 0.5),
        ("True", True),
        ("False", False),
        ("None", None),
    ],
)
def test_a_value_of_the_server_arguments(text, value):
    found = hicache_log.parse_server_args(f"server_args=ServerArgs(before=1, chosen={text}, after=2)")
    assert found == {"before": 1, "chosen": value, "after": 2}
    assert type(found["chosen"]) is type(value)


def test_a_text_without_its_other_quote_is_no_value():
    found = {}
    for text in ("'a\"", "'", "\"a'"):
        hicache_log._take_argument(f"chosen={text}", found)
    assert found == {}


@pytest.mark.parametrize("name", ["dp_rank", "pp_rank", "attn_cp_rank", "moe_dp_rank", "tp_rank", "ep_rank"])
@pytest.mark.parametrize(
    ("rank", "known"),
    [(0, True), (7, True), (10**6 - 1, True), (-1, False), (10**6, False), (True, False), ("1", False)],
)
def test_the_rank_of_a_structured_message(name, rank, known):
    message, tags, content = hicache_log.json_message(json.dumps({"message": "hello", name: rank}))
    assert (message, content[name]) == ("hello", rank)
    assert tags == (((name[: -len("_rank")].upper(), rank),) if known else ())


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"message": 7}', '{"fields": "x"}', "[" * 10000, "{" * 9999 + "}"]
)
def test_what_is_no_structured_message(text):
    assert hicache_log.json_message(text) is None


def test_the_first_message_of_the_outer_object_counts():
    text = json.dumps({"log": "outer", "fields": {"MESSAGE": "inner"}})
    assert hicache_log.json_message(text)[0] == "outer"
    assert hicache_log.json_message(json.dumps({"fields": {"message": "inner", "log": "x"}}))[0] == "inner"


@pytest.mark.parametrize(("end", "seen"), [(3999, True), (4000, True), (4001, False)])
def test_a_request_is_looked_for_in_the_first_4000_characters(end, seen):
    quoted = "Receive: obj="
    assert hicache_log.is_dump("x" * (end - len(quoted)) + quoted) is seen
