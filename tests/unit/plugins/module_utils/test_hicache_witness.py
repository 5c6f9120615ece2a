# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the server and the host tell beside the log: health, metrics, settings, kills for want of memory."""

from __future__ import annotations

import json

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_witness


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("sglang-kimi.service", True),
        ("a@b:c_d\\x2d.service", True),
        ("-x.service", False),
        ("a/b.service", False),
        ("a b", False),
        ("", False),
        ("x" * 255, True),
        ("x" * 256, False),
    ],
)
def test_the_name_of_a_unit(name, is_one):
    assert hicache_witness.is_unit_name(name) is is_one


@pytest.mark.parametrize(
    ("status", "ok", "words"),
    [
        (200, True, "answered 200."),
        (500, False, "cannot generate"),
        (502, False, "answered 502"),
        (503, False, "answered 503"),
        (504, False, "answered 504"),
        (501, None, "says nothing about health"),
        (404, None, "answered 404"),
        (None, None, "did not answer: refused"),
    ],
)
def test_the_answer_of_a_health_address(status, ok, words):
    told = hicache_witness.health("http://h/x", status, b"", "refused")
    assert told["ok"] is ok and words in told["message"] and told["message"].startswith("http://h/x ")


NAME = "sglang:hicache_host_total_tokens"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        (f"{NAME} 5", [({}, 5)]),
        (f" {NAME.replace(':', '_')} 5.0 ", [({}, 5)]),
        (f'{NAME}{{tp_rank="0",x="a\\"b"}} 6.4e5', [({"tp_rank": "0", "x": 'a\\"b'}, 640000)]),
        (f"{NAME} 0", [({}, 0)]),
        (f"{NAME} -1", []),
        (f"{NAME} NaN\n{NAME} +Inf\n{NAME} e\n{NAME} 1e999\n{NAME} 7", [({}, 7)]),
        (f"{NAME} 999999999999999", [({}, 10**15 - 1)]),
        (f"{NAME} 1000000000000000", []),
        (f"# TYPE {NAME} gauge\nother 5", []),
    ],
)
def test_the_metrics_of_host_pools(text, found):
    assert [(one["labels"], one["tokens"]) for one in hicache_witness.parse_metrics(text)] == found


def test_the_metrics_are_bounded():
    assert len(hicache_witness.parse_metrics(f"{NAME} 5\n" * 1100)) == 1024


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"5", b"[" * 10**5, b"\xff"])
def test_what_is_no_server_info(body):
    assert hicache_witness.parse_server_info(body) is None


def test_of_the_server_info_the_settings_that_matter_are_kept():
    known = {name: number for number, name in enumerate(hicache_witness._INFO)}
    body = json.dumps({**known, "api_key": "x"}).encode()
    assert hicache_witness.parse_server_info(body) == known
    assert hicache_witness.parse_server_info(b"{}") == {}


@pytest.mark.parametrize(
    ("content", "kills"),
    [
        ("low 0\noom 5\noom_kill 3\noom_group_kill 9\n", 3),
        ("oom_kill 0\n", 0),
        ("oom_kill x\n", None),
        ("oom 5\n", None),
        (None, None),
        ("oom_kill \u00b2\n", None),
    ],
)
def test_processes_that_were_killed_for_memory(tmp_path, content, kills):
    group = tmp_path / "system.slice" / "x.service"
    group.mkdir(parents=True)
    if content is not None:
        (group / "memory.events").write_text(content, encoding="utf-8")
    assert hicache_witness.oom_kills("/system.slice/x.service", str(tmp_path)) == kills
    assert hicache_witness.oom_kills("/system.slice/../system.slice/x.service", str(tmp_path)) is None
    for group in (None, ""):
        assert hicache_witness.oom_kills(group, str(tmp_path)) is None
