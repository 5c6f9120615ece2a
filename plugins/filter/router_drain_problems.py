# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: router_drain_problems
short_description: Tell whether a drain would leave too few workers
version_added: 0.1.0
description:
  - Counts for each router and each service the workers that serve and are healthy, without those that are to be taken
    out.
author:
  - llmfleet contributors (@llmfleet)
positional: _input, urls, minimum
options:
  _input:
    description: Results of module M(llmfleet.sglang.router_worker) in a loop over routers.
    type: list
    elements: dict
    required: true
  urls:
    description: Addresses of the workers that are to be taken out.
    type: list
    elements: str
    required: true
  minimum:
    description: How many of a service must go on.
    type: int
    required: true
"""

EXAMPLES = r"""
- name: Refuse to take out too many
  ansible.builtin.assert:
    that: seen.results | llmfleet.sglang.router_drain_problems(urls, 2) | length == 0
"""

RETURN = r"""
_value:
  description: Sentences, one for each router and service that would have too few; none where it may be done.
  type: list
  elements: str
"""

from ..plugin_utils.router_fleet import drain_problems


class FilterModule:
    """The filter router_drain_problems."""

    def filters(self):
        """Return the filters by name."""
        return {"router_drain_problems": drain_problems}
