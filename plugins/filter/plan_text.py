# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter that makes text of memory plans."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..module_utils import plan_text as _text

DOCUMENTATION = r"""
name: plan_text
short_description: Memory plans as aligned text
version_added: 0.1.0
author: llmfleet contributors (@llmfleet)
description:
  - Makes lines of text from the results of M(llmfleet.sglang.hicache_plan), at most 96 columns wide.
positional: form
options:
  _input:
    description: The plans by the names of their hosts.
    type: dict
    required: true
  form:
    description: V(hosts) is a block for each host, V(fleet) one table with a line for each host.
    type: str
    choices: [hosts, fleet]
    default: fleet
"""

EXAMPLES = r"""
- name: Show the plan of this host
  ansible.builtin.debug:
    msg: "{{ {inventory_hostname: plan_result} | llmfleet.sglang.plan_text('hosts') }}"
"""

RETURN = r"""
_value:
  description: The lines.
  type: list
  elements: str
"""


def plan_text(plans, form="fleet"):
    """See DOCUMENTATION."""
    if not isinstance(plans, dict):
        raise AnsibleFilterError("plan_text works on a mapping of host names to plans")
    if form == "fleet":
        return _text.fleet_lines(plans)
    if form == "hosts":
        lines = []
        for host in sorted(plans):
            lines += [*([""] if lines else []), *_text.host_lines(host, plans[host])]
        return lines
    raise AnsibleFilterError(f"form is {form!r}. Give hosts or fleet.")


class FilterModule:
    """The filter plan_text."""

    def filters(self):
        """Return the filters by name."""
        return {"plan_text": plan_text}
