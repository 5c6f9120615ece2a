# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ends the watch on a service."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import service_watch

WELL = {"ActiveState": "active", "SubState": "running", "InvocationID": "a" * 32, "NRestarts": "0"}


@pytest.mark.parametrize(
    "change, told",
    [
        ({}, None),
        ({"ActiveState": "failed", "SubState": "failed", "Result": "signal", "ExecMainStatus": "9"}, "failed"),
        ({"ActiveState": "activating", "SubState": "auto-restart", "Result": "exit-code"}, "auto-restart"),
        ({"InvocationID": "b" * 32}, "started anew"),
        ({"NRestarts": "1"}, "NRestarts is 1, and was 0"),
    ],
)
def test_the_state_of_the_unit(change, told):
    problem = service_watch.state_problem({**WELL, **change}, "a" * 32, "0")
    assert problem is None if told is None else told in problem


@pytest.mark.parametrize(
    "line, bad",
    [
        ('[2026-01-01 00:00:00] INFO:     10.0.0.1:5 - "POST /generate HTTP/1.1" 500 Internal Server Error', True),
        ('INFO:     10.0.0.1:5 - "GET /health_generate HTTP/1.1" 503 Service Unavailable', True),
        ('INFO:     10.0.0.1:5 - "POST /v1/chat/completions HTTP/1.1" 200 OK', False),
        # A router that tries whether a new worker speaks HTTP/2.
        ('[2026-01-01 00:00:00] INFO: 10.0.0.1:5 - "PRI * HTTP/2.0" 505 HTTP Version Not Supported', False),
        ('INFO:     10.0.0.1:5 - "BREW /pot HTTP/1.1" 501 Not Implemented', False),
        ('INFO:     10.0.0.1:5 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request', False),
        ("[2026-01-01 TP3] Scheduler hit an exception: Traceback (most recent call last):", True),
        ("\x1b[31mRuntimeError: CUDA error: an illegal memory access was encountered\x1b[0m", True),
        ("Received sigquit from a child process. It usually means the child failed.", True),
        ("[2026-01-01 TP0] Decode batch. #running-req: 1, gen throughput (token/s): 500.12", False),
        ("UserWarning: an error of rounding is expected", False),
    ],
)
def test_lines_of_the_journal(line, bad):
    problem = service_watch.line_problem(["fine", line], service_watch.compiled(service_watch.PATTERNS))
    assert (problem is not None) is bad
    assert not bad or ("\x1b" not in problem and problem.startswith("its journal says: "))


def test_a_pattern_that_is_none_is_named():
    with pytest.raises(ValueError, match=r'patterns holds "\(", which is no regular expression'):
        service_watch.compiled(["fine", "("])
