#!/usr/bin/python
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_watch
short_description: Watch a running service for a while, and tell at once when it goes wrong
version_added: 0.1.0
description:
  - Looks at the unit, at its journal and, where O(health_url) is set, at the server, for O(seconds).
  - Fails as soon as the service is no longer active, was started anew, was restarted by systemd, logged a line of
    O(patterns), or the server did not answer with status 200.
  - The journal is read from the moment the unit became active, at most O(lookback) seconds before the watch, so that
    nothing is missed between an earlier check and the watch.
author:
  - llmfleet contributors (@llmfleet)
options:
  unit:
    description: The systemd unit, with or without C(.service).
    type: str
    required: true
  invocation_id:
    description: The start that has to go on. Without it, the one that runs when the watch begins.
    type: str
    default: ""
  seconds:
    description: How long to watch. V(0) looks once.
    type: float
    default: 60
  poll:
    description: Seconds between two looks.
    type: float
    default: 2
  lookback:
    description: Seconds before the watch from which lines of the journal count.
    type: int
    default: 300
  health_url:
    description: An address of the server that answers with status 200 while it is well.
    type: str
    default: ""
  health_interval:
    description: Seconds between two questions to O(health_url).
    type: float
    default: 10
  health_timeout:
    description: Seconds that an answer of O(health_url) may take.
    type: int
    default: 60
  patterns:
    description:
      - Regular expressions of Python; a line of the service's journal in which one is found ends the watch.
      - Of the web server's record of a request they see the protocol and the status alone, as in C(HTTP/1.1" 500); the
        address, the path and the agent are words of the client.
      - By default those of SGLang 0.5.9 to 0.5.23 for tracebacks, CUDA, NCCL, watchdogs, dead ranks, and requests that
        ended with a status from 500 on, other than 501 and 505, which are about the question.
    type: list
    elements: str
attributes:
  check_mode:
    description: Looks once, and does not wait.
    support: full
  diff_mode:
    description: Changes nothing.
    support: none
"""

EXAMPLES = r"""
- name: Watch the new start for a minute
  llmfleet.sglang.service_watch:
    unit: sglang-kimi.service
    seconds: 60
    health_url: http://127.0.0.1:30000/health_generate
  async: 120
  poll: 2
"""

RETURN = r"""
seconds:
  description: How long the service was watched.
  type: float
  returned: always
looks:
  description: How often it was looked at.
  type: int
  returned: always
invocation_id:
  description: The start that was watched.
  type: str
  returned: always
lines:
  description: Lines of its journal that were read.
  type: int
  returned: always
"""

import os
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

from ..module_utils import command_output, journal, service_watch


class Watch:
    """One run of the module."""

    def __init__(self, module):
        self.module = module
        self.params = module.params
        self.unit = journal.full_unit_name(self.params["unit"])
        self.environment = dict(os.environ, LC_ALL="C", LANGUAGE="C", SYSTEMD_COLORS="0", SYSTEMD_PAGER="")
        self.patterns = service_watch.compiled(self.params["patterns"] or service_watch.PATTERNS)
        self.began = time.monotonic()
        self.asked = None
        self.cursor = None
        self.whole = service_watch.Messages()
        self.told = {"changed": False, "seconds": 0.0, "looks": 0, "invocation_id": "", "lines": 0}

    def show(self):
        """State of the unit."""
        wanted = ",".join((*service_watch.SHOWN, "ActiveEnterTimestampMonotonic"))
        argv = [self.module.get_bin_path("systemctl", required=True), "show", f"--property={wanted}", "--", self.unit]
        _code, out, _said = self.module.run_command(argv, environ_update={"LC_ALL": "C"})
        return dict(line.partition("=")[::2] for line in out.splitlines())

    def messages(self):
        """What the service wrote since the last look."""
        argv = journal.journal_argv(
            self.told["invocation_id"], self.module.get_bin_path("journalctl", required=True), (), self.cursor
        )
        if self.cursor is None:
            argv.insert(1, f"--since=@{self.since:.6f}")
        stream, found = journal.JsonStream(lambda: True), []

        def take(block):
            found.extend(record for record in stream.feed(block))

        command_output.hand_on(argv, take, self.environment)
        found.extend(stream.close())
        self.cursor = stream.cursor or self.cursor
        self.told["lines"] += stream.lines
        return self.whole.texts(found, self.told["invocation_id"])

    def health(self):
        """One sentence about an answer that is not a good one, or None."""
        url, now = self.params["health_url"], time.monotonic()
        if not url or (self.asked is not None and now - self.asked < self.params["health_interval"]):
            return None
        self.asked = now
        try:
            answer = open_url(url, timeout=self.params["health_timeout"], use_proxy=False, http_agent="llmfleet.sglang")
            status, problem = answer.getcode(), ""
            answer.read(65536)
        except Exception as error:
            status, problem = getattr(error, "code", None), str(getattr(error, "reason", error))
        if status == 200:
            return None
        return f"{url} answered with {f'status {status}' if status else problem}"

    def look(self, restarts):
        """One sentence about what is wrong now, or None."""
        self.told["looks"] += 1
        problem = service_watch.state_problem(self.show(), self.told["invocation_id"], restarts)
        # A line says more than the state that it led to.
        return service_watch.line_problem(self.messages(), self.patterns) or problem or self.health()

    def run(self):
        first = self.show()
        self.told["invocation_id"] = self.params["invocation_id"] or first.get("InvocationID", "")
        if not journal.is_invocation_id(self.told["invocation_id"]):
            self.module.fail_json(msg=f"{self.unit} does not run: it has no invocation to watch.", **self.told)
        age = time.clock_gettime(time.CLOCK_MONOTONIC) - int(first.get("ActiveEnterTimestampMonotonic") or 0) / 1e6
        self.since = time.time() - min(max(age, 0.0), self.params["lookback"])
        restarts = first.get("NRestarts")
        while True:
            problem = self.look(restarts)
            self.told["seconds"] = round(time.monotonic() - self.began, 1)
            if problem:
                self.module.fail_json(
                    msg=f"After {self.told['seconds']:.0f} s of the watch on {self.unit}, {problem}.", **self.told
                )
            left = self.params["seconds"] - (time.monotonic() - self.began)
            if left <= 0 or self.module.check_mode:
                return self.told
            time.sleep(min(self.params["poll"], left))


def main():
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str", "required": True},
            "invocation_id": {"type": "str", "default": ""},
            "seconds": {"type": "float", "default": 60},
            "poll": {"type": "float", "default": 2},
            "lookback": {"type": "int", "default": 300},
            "health_url": {"type": "str", "default": ""},
            "health_interval": {"type": "float", "default": 10},
            "health_timeout": {"type": "int", "default": 60},
            "patterns": {"type": "list", "elements": "str"},
        },
        supports_check_mode=True,
    )
    try:
        watch = Watch(module)
    except ValueError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**watch.run())


if __name__ == "__main__":
    main()
