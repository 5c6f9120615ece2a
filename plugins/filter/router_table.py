# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: router_table
short_description: Write the workers of a router as lines for people
version_added: 0.1.0
description:
  - One line for each worker, with its host, service, address, state and what there is to say. Workers that are to serve
    and do not are named C(LEFT OUT).
author:
  - llmfleet contributors (@llmfleet)
positional: _input
options:
  _input:
    description: Workers as module M(llmfleet.sglang.router_worker) returns them.
    type: list
    elements: dict
    required: true
  gone:
    description: Those of them that the inventory has no longer.
    type: list
    elements: dict
    default: []
  new:
    description: Workers that could not be put in.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Say it, one line for each worker
  ansible.builtin.debug:
    msg: "{{ router_state.workers | llmfleet.sglang.router_table }}"
"""

RETURN = r"""
_value:
  description: The lines, sorted by host.
  type: list
  elements: str
"""

from ..plugin_utils.router_fleet import table


class FilterModule:
    """The filter router_table."""

    def filters(self):
        """Return the filters by name."""
        return {"router_table": table}
