# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter that says what a rollout did."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..plugin_utils import fleet_report as _fleet_report

DOCUMENTATION = r"""
name: rollout_report
short_description: What a rollout did with each host, and what is wrong
version_added: 0.1.0
author: llmfleet contributors (@llmfleet)
description:
  - Makes one table, and one sentence for each thing that is wrong. Hosts that are out of the routers are named with the
    reason.
options:
  _input:
    description:
      - V(order), V(hosts), V(plan), V(lost), V(asked) and V(stopped), as role rollout keeps them.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what became of the fleet
  ansible.builtin.debug:
    msg: "{{ (run | llmfleet.sglang.rollout_report).lines }}"
"""

RETURN = r"""
_value:
  description:
    - V(lines) of text, V(problems) with sentences, and V(out), the hosts that are out of the routers.
  type: dict
"""


def rollout_report(settings):
    """See DOCUMENTATION."""
    if not isinstance(settings, dict):
        raise AnsibleFilterError("rollout_report works on a mapping")
    return _fleet_report.report(settings)


class FilterModule:
    """The filter rollout_report."""

    def filters(self):
        """Return the filters by name."""
        return {"rollout_report": rollout_report}
