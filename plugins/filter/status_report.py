# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = """
name: status_report
short_description: Make one report on a fleet of what its hosts and routers said
version_added: 0.1.0
author: llmfleet contributors (@llmfleet)
description:
  - One row for each service, for each host that did not answer, and for each router that does not.
positional: _input
options:
  _input:
    description:
      - Results of M(llmfleet.sglang.service_status) by host.
    type: dict
    required: true
  routers:
    description: Results of M(llmfleet.sglang.router_worker) in a loop over the routers.
    type: list
    elements: dict
    default: []
  counted:
    description: Codes of problems that make the fleet not well.
    type: list
    elements: str
    default: []
  made_at:
    description: When the hosts were looked at.
    type: str
    default: ""
  judged:
    description: By host, results of M(llmfleet.sglang.hicache_verify) in a loop over its services.
    type: dict
    default: {}
"""

EXAMPLES = """
- name: Show the fleet
  ansible.builtin.debug:
    msg: "{{ (looks | llmfleet.sglang.status_report(routers, ['unreachable', 'failed'])).lines }}"
"""

RETURN = """
_value:
  description:
    - C(rows), C(lines) of a table, C(counts) by state, whether the fleet is C(well), and C(against), a sentence for
      each problem that counts.
  type: dict
"""

from ..plugin_utils.status_table import fleet_report


def status_report(looks, routers=(), counted=(), made_at="", judged=None):
    """The report on a fleet."""
    return fleet_report(looks, list(routers), set(counted), made_at, judged)


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filters by name."""
        return {"status_report": status_report}
