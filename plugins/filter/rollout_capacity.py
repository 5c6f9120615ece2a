# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter that tells whether a batch may be taken out of the routers now."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..plugin_utils import fleet_plan as _fleet_plan

DOCUMENTATION = r"""
name: rollout_capacity
short_description: Whether a batch may be taken out of the routers now
version_added: 0.1.0
author: llmfleet contributors (@llmfleet)
description:
  - Counts what each router serves at this moment. Each router that serves a host of the batch has to
    serve V(minimum) others as well, and one more of each service that it has several hosts of. A router that does not
    run lets no batch begin.
options:
  _input:
    description:
      - V(asked), what M(llmfleet.sglang.router_worker) returned in a loop over routers, V(routers), V(batch) with names
        of hosts, V(units), V(minimum), and V(setting), the variable as it was written.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Stop where too few would go on serving
  vars:
    question: {asked: "{{ asked.results }}", routers: [lb1], batch: [ash], units: {}, minimum: 2, setting: "50%"}
    answer: "{{ question | llmfleet.sglang.rollout_capacity }}"
  ansible.builtin.assert:
    that: answer.allowed
    fail_msg: "{{ answer.message }}"
"""

RETURN = r"""
_value:
  description:
    - V(allowed), V(serving), how many serve now, and V(message), a sentence where it is not allowed.
  type: dict
"""


def rollout_capacity(settings):
    """See DOCUMENTATION."""
    if not isinstance(settings, dict):
        raise AnsibleFilterError("rollout_capacity works on a mapping")
    return _fleet_plan.capacity(settings)


class FilterModule:
    """The filter rollout_capacity."""

    def filters(self):
        """Return the filters by name."""
        return {"rollout_capacity": rollout_capacity}
