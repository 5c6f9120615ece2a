# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which lines belong to one start, without server arguments in the log, and which words about memory are unknown."""

from __future__ import annotations

import io

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_evidence

T = "2026-03-01 23:45:06"
BEGIN = "Init torch distributed begin."
ALLOC = "Allocating 44.77 GB host memory for hierarchical KV cache."
READY = f"[{T}] The server is fired up and ready to roll!"


def start_of(*lines):
    return hicache_evidence.read_log(io.BytesIO("".join(f"{line}\n" for line in lines).encode()), None, None).start


def ranks(start):
    return [item.tags for item in start.allocations]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        # A rank that has allocated does not begin once more in the same start.
        ([f"[{T} TP0] {ALLOC}", f"[{T} TP0] {BEGIN}"], []),
        ([f"[{T} TP1] {ALLOC}", f"[{T} TP0] {ALLOC}", f"[{T} TP1] {BEGIN}"], []),
        # Another one may come late.
        ([f"[{T} TP0] {ALLOC}", f"[{T} TP1] {BEGIN}"], [(("TP", 0),)]),
        ([f"[{T} TP0] {BEGIN}", f"[{T} TP0] {ALLOC}"], [(("TP", 0),)]),
        # Without a rank nobody knows whose line it is.
        ([f"[{T}] {ALLOC}", f"[{T}] {BEGIN}"], [()]),
        # A server that was ready and begins was started again.
        ([f"[{T} TP0] {ALLOC}", READY, f"[{T} TP1] {BEGIN}"], []),
    ],
)
def test_where_a_start_without_arguments_begins(lines, found):
    assert [tuple(tags) for tags in ranks(start_of(*lines))] == found


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("Reserved 44.77 GB host memory by a new release", True),
        ("A new host pool of 44.77 GB", True),
        ("HiCache host memory is pinned", False),
        ("Sync fixed-size HiCache host pool", False),
        ("Load weight somehow", False),
        ("Something else", False),
    ],
)
def test_words_about_host_memory_that_nobody_knows_are_kept(text, unknown):
    assert start_of(f"[{T} TP0] {text}").unknown_lines == ([text] if unknown else [])


@pytest.mark.parametrize(("between", "failed"), [([], True), ([f"[{T}] Load weight begin."], False)])
def test_a_traceback_ends_with_the_next_message(between, failed):
    trace = [
        "Traceback (most recent call last):",
        '  File "/opt/venv/lib/python3.11/site-packages/sglang/launch_server.py", line 6, in <module>',
        "    from sglang.srt import x",
    ]
    # What is raised ends it too: the words after it are no second end.
    start = start_of(*trace, *between, "ImportError: no module", "ValueError: of something else")
    assert [death.code for death in start.deaths if death.code == "launch_failed"] == ["launch_failed"] * failed


@pytest.mark.parametrize("line", ["max_total_num_tokens={}, x", "KV Cache is allocated. #tokens: {}, KV size: 1.00 GB"])
def test_figures_of_a_container_are_those_of_its_newest_start(line):
    def one(origin, tokens):
        return [
            f"{origin}  | [{T}] server_args=ServerArgs(model_path='/m', tp_size=1)",
            f"{origin}  | [{T} TP0] {line.format(tokens)}",
            f"{origin}  | [{T} TP0] {ALLOC}",
        ]

    start = start_of(*one("a-1", 1000), *one("b-1", 3000), *one("a-1", 2000))
    figures = {**start.device, **start.pools}
    assert {origin: tokens for (origin, _tags), tokens in figures.items()} == {"a-1": 2000, "b-1": 3000}
