# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: router_outcome
short_description: Write what became of engines as lines for people
version_added: 0.1.0
description:
  - One line for each result of module M(llmfleet.sglang.router_worker) in a loop over pairs of a router and an
    engine.
author:
  - llmfleet contributors (@llmfleet)
positional: _input
options:
  _input:
    description: The results.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Say it, one line for each router and engine
  ansible.builtin.debug:
    msg: "{{ router_drained.results | llmfleet.sglang.router_outcome }}"
"""

RETURN = r"""
_value:
  description: The lines.
  type: list
  elements: str
"""

from ..plugin_utils.router_fleet import outcomes


class FilterModule:
    """The filter router_outcome."""

    def filters(self):
        """Return the filters by name."""
        return {"router_outcome": outcomes}
