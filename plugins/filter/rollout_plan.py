# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter that plans a rollout: batches, moves, and who is left alone."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..plugin_utils import fleet_plan as _fleet_plan

DOCUMENTATION = r"""
name: rollout_plan
short_description: Who changes from what to what in a rollout, in which batch, and who does not
version_added: 0.1.0
author: llmfleet contributors (@llmfleet)
description:
  - Hosts of an unfinished rollout come first, then canaries, then batches of the given sizes. Hosts of one unit, the
    nodes of a multi-node service, stay in one batch.
  - A batch that would leave fewer than V(minimum) units serving in a router, or none of a service that has several, is
    split, and refused where a single one is too many.
  - Hosts that run the wanted configuration, and were verified since they started, are skipped. Hosts that a person has
    drained are left alone unless V(drained_included) is true.
options:
  _input:
    description:
      - V(looks), a list of mappings with V(host), V(unit), V(services), what M(llmfleet.sglang.service_config) returned
        in a loop over names of services, and V(staged), the ID of the staged configuration of each.
      - V(asked), what M(llmfleet.sglang.router_worker) returned in a loop over routers, and V(routers), their names.
      - V(sizes), V(canary), V(minimum), V(drained_included), V(change) for a change of the host alone, and V(wanted),
        which is empty for the staged configuration, V(verified), an id, or a release.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Plan the rollout
  ansible.builtin.set_fact:
    plan: "{{ {'looks': looks, 'asked': [], 'routers': [], 'sizes': [1, '25%', '100%'], 'minimum': '50%'}
              | llmfleet.sglang.rollout_plan }}"
"""

RETURN = r"""
_value:
  description:
    - V(batches) (number, title, hosts), V(moves) (from, to, back for each service of a host), V(units), V(skipped),
      V(drained), V(left_out), V(unfinished), V(minimum), V(refused) with sentences, and V(lines) of text.
  type: dict
"""


def rollout_plan(settings):
    """See DOCUMENTATION."""
    if not isinstance(settings, dict):
        raise AnsibleFilterError("rollout_plan works on a mapping")
    return _fleet_plan.plan(settings)


class FilterModule:
    """The filter rollout_plan."""

    def filters(self):
        """Return the filters by name."""
        return {"rollout_plan": rollout_plan}
