# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter that names everything that is wrong with the variables of role rollout."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..plugin_utils import fleet_settings as _fleet_settings

DOCUMENTATION = r"""
name: rollout_problems
short_description: Everything that is wrong with the variables of role rollout
version_added: 0.1.0
author: llmfleet contributors (@llmfleet)
description:
  - Checks sizes of batches, the capacity floor, the canary group, times, and the place of the lock.
options:
  _input:
    description:
      - The variables of the role without their prefix, with V(units), the unit of each host, V(groups), V(known_hosts),
        V(limited), whether only a part of the fleet is played, V(start_timeout_seconds), and V(drain_timeout_seconds).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Refuse bad settings before anything is changed
  vars:
    problems: "{{ {'batches': rollout_batches, 'serving_minimum': rollout_serving_minimum, 'units': units}
                  | llmfleet.sglang.rollout_problems }}"
  ansible.builtin.assert:
    that: problems | length == 0
    fail_msg: "{{ problems | join('\n') }}"
"""

RETURN = r"""
_value:
  description:
    - One sentence per problem, with the variable, its value, what is wrong, and the mend.
  type: list
  elements: str
"""


def rollout_problems(settings):
    """See DOCUMENTATION."""
    if not isinstance(settings, dict):
        raise AnsibleFilterError("rollout_problems works on a mapping")
    return _fleet_settings.problems(settings)


class FilterModule:
    """The filter rollout_problems."""

    def filters(self):
        """Return the filters by name."""
        return {"rollout_problems": rollout_problems}
