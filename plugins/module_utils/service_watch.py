# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a running service must not do while it is watched: restart, stop, log errors, answer with a status of 500.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

import re

from .hicache_log import access_status, is_access, strip_ansi

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

MOST_SHOWN = 300
# Of a message that journald split: as much as is kept to tell whose words the rest of it holds.
_KEPT = 65536
_MOST_OPEN = 256


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


class Messages:
    """Whole messages of one start out of its records, look by look.

    journald ends a record where a line grows too long or where another process writes; what the same process writes
    next goes on with it, and may be any word of a client.
    """

    def __init__(self):
        self._open = {}

    def texts(self, records, invocation):
        """Texts of the records that the start itself wrote, each with the beginning that was split off it.

        records: :class:`journal.Record` tuples; invocation: id of the start.
        """
        found = []
        for record in records:
            if record.writer != "app" or record.invocation != invocation or not record.text:
                continue
            text = self._open.pop(record.pid, "") + record.text
            if record.line_break in ("line-max", "pid-change") and record.pid is not None:
                self._open[record.pid] = text if len(text) <= 2 * _KEPT else text[:_KEPT] + text[-_KEPT:]
                if len(self._open) > _MOST_OPEN:
                    del self._open[next(iter(self._open))]
            found.append(text)
        return found


def line_problem(messages, patterns):
    """One sentence about the first message that matches a pattern, or None.

    Of a web server's record of a request only the protocol and the status are looked at (``HTTP/1.1" 500``): the
    client's address, the path and the agent are the client's own words.
    """
    for message in messages:
        for line in re.split(r"[\r\n]+", strip_ansi(message)):
            text = access_status(line) if is_access(line.strip()) else line
            if text and any(pattern.search(text) for pattern in patterns):
                return f"its journal says: {line.strip()[:MOST_SHOWN]}"
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
