# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: router_reconciliation
short_description: Compare the workers of a router with the inventory
version_added: 0.1.0
description:
  - Takes the results of module M(llmfleet.sglang.router_worker) with C(state=info), one for each router, and
    tells what one of the routers lacks, and what it has that the inventory has no longer.
  - A worker that is new to this router and drained on another one is to be drained here as well.
author:
  - llmfleet contributors (@llmfleet)
positional: _input, router, wanted
options:
  _input:
    description: Results of the module in a loop over routers, each with C(item) and C(workers).
    type: list
    elements: dict
    required: true
  router:
    description: The router that is compared.
    type: str
    required: true
  wanted:
    description:
      - For each host of the inventory its engines, as a list of C(url), C(host) and C(service); V(false) where they
        are not known in this run.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Compare with the inventory
  ansible.builtin.set_fact:
    compared: "{{ seen.results | llmfleet.sglang.router_reconciliation(inventory_hostname, wanted) }}"
"""

RETURN = r"""
_value:
  description: A mapping with C(new), workers with the state that they are to have, and C(gone).
  type: dict
"""

from ..plugin_utils.router_fleet import reconciliation


class FilterModule:
    """The filter router_reconciliation."""

    def filters(self):
        """Return the filters by name."""
        return {"router_reconciliation": reconciliation}
