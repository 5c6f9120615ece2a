# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a running service must not do while it is watched: restart, stop, log errors, answer with a status of 500.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

import re

SHOWN = ("ActiveState", "SubState", "InvocationID", "NRestarts", "Result", "ExecMainStatus")

#: Lines of SGLang (0.5.9 to 0.5.23) after which nobody should trust an answer. Warnings are none of them.
PATTERNS = (
    r"Traceback \(most recent call last\)",
    r"Scheduler hit an exception",
    r"CUDA error|CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError",
    r"NCCL (?:error|WARN .*unhandled)",
    r"watchdog timeout",
    r"Received sigquit from a child process",
    # Access lines of the web server, which end with the status. 501 and 505 are about what was asked: a router tries
    # whether a new worker speaks HTTP/2, and SGLang does not.
    r"HTTP/1\.[01]\" 5(?!0[15])[0-9]{2}\b",
)

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
MOST_SHOWN = 300


def state_problem(shown, invocation, restarts):
    """One sentence about the unit's state, or None while it is the start that was verified.

    shown: properties of systemctl show; invocation: id of that start; restarts: NRestarts when the watch began.
    """
    state = shown.get("ActiveState", "")
    if state != "active":
        return (
            f"the service is {state or 'unknown'} ({shown.get('SubState') or '-'}, result {shown.get('Result') or '-'},"
            f" status {shown.get('ExecMainStatus') or '-'}), and not active any more"
        )
    if shown.get("InvocationID") != invocation:
        return f"the service was started anew: its invocation is {shown.get('InvocationID')}, and not {invocation}"
    if restarts is not None and shown.get("NRestarts") != restarts:
        return f"the service was restarted by systemd: NRestarts is {shown.get('NRestarts')}, and was {restarts}"
    return None


def line_problem(messages, patterns):
    """One sentence about the first message that matches a pattern, or None."""
    for message in messages:
        text = _ESCAPES.sub("", message)
        for pattern in patterns:
            if pattern.search(text):
                return f"its journal says: {text.strip()[:MOST_SHOWN]}"
    return None


def compiled(patterns):
    """Patterns as regular expressions; raises ValueError with a sentence for one that is none."""
    found = []
    for pattern in patterns:
        try:
            found.append(re.compile(pattern))
        except re.error as error:
            raise ValueError(f'patterns holds "{pattern}", which is no regular expression: {error}.') from None
    return found
