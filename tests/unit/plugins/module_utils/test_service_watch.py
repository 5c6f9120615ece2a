# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ends the watch on a service."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import journal, service_watch

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


@pytest.mark.parametrize(
    "line, bad",
    [
        ('[x] INFO:     1.2.3.4:5 - "GET /v1/models/torch.OutOfMemoryError HTTP/1.1" 404 Not Found', False),
        ('INFO:     CUDA error:0 - "GET / HTTP/1.1" 200 OK', False),
        ('INFO:     x" HTTP/1.1" 500 :0 - "GET / HTTP/1.1" 200 OK', False),
        ('INFO:     1.2.3.4:5 - "GET /?x="HTTP/1.1"+500 HTTP/1.1" 200 OK', False),
        ('INFO:     1.2.3.4:5 - "GET /?x="HTTP/1.1"+200 HTTP/1.1" 502 Bad Gateway', True),
        ('INFO:     Received sigquit from a child process - "WebSocket /x" [accepted]', False),
        ("[2026-01-01 00:00:00] INFO:     watchdog timeout, and the rest was cut", False),
        (' 12%|#  | 1/8 [00:00<00:04,  1.66it/s][x] INFO:     CUDA error:0 - "GET / HTTP/1.1" 200 OK', False),
        ('1.2.3.4 - - [x] "GET /CUDA%20error HTTP/1.1" 200 612 "-" "CUDA error"', False),
        ('1.2.3.4 - - [x] "GET / HTTP/1.1" 502 612 "-" "curl"', True),
        ('fine\r[x] INFO:     1:5 - "GET / HTTP/1.1" 500 Internal Server Error', True),
    ],
)
def test_of_a_request_only_the_status_counts(line, bad):
    problem = service_watch.line_problem([line], service_watch.compiled(service_watch.PATTERNS))
    assert (problem is not None) is bad


def record(text, line_break=None, pid=7, invocation="a" * 32, writer="app"):
    return journal._EMPTY._replace(text=text, line_break=line_break, pid=pid, invocation=invocation, writer=writer)


def test_a_message_that_journald_split_is_read_with_its_beginning():
    """What follows the beginning of a request is the client's, whatever it looks like."""
    whole = service_watch.Messages()
    found = whole.texts([record("INFO:     x", "line-max"), record("Traceback (most rec", "pid-change", 8)], "a" * 32)
    # The rest may come with a later look.
    found += whole.texts([record("CUDA error: y", "line-max"), record("ent call last):", pid=8)], "a" * 32)
    found += whole.texts([record(':0 - "GET / HTTP/1.1" 200 OK'), record("CUDA error: z", pid=9)], "a" * 32)
    bad = [text for text in found if service_watch.line_problem([text], service_watch.compiled(service_watch.PATTERNS))]
    assert bad == ["Traceback (most recent call last):", "CUDA error: z"]


def test_only_the_start_itself_is_watched():
    records = [record("a"), record("b", invocation="b" * 32), record("c", writer="systemd"), record(None)]
    assert service_watch.Messages().texts(records, "a" * 32) == ["a"]


def test_what_is_kept_of_split_messages_is_bounded():
    whole = service_watch.Messages()
    for number in range(2000):
        whole.texts([record("x" * 1000, "line-max", pid=number % 400)], "a" * 32)
    whole.texts([record("x" * 10**6, "line-max", pid=1)] * 3, "a" * 32)
    assert len(whole._open) <= 256
    assert max(len(text) for text in whole._open.values()) <= 2 * 65536


def test_a_pattern_that_is_none_is_named():
    with pytest.raises(ValueError, match=r'patterns holds "\(", which is no regular expression'):
        service_watch.compiled(["fine", "("])
