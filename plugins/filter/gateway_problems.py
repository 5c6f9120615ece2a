# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter that names everything that is wrong with the variables of role gateway."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..plugin_utils import gateway as _gateway

DOCUMENTATION = r"""
name: gateway_problems
short_description: Everything that is wrong with the variables of role gateway
version_added: 0.1.0
author: llmfleet contributors (@llmfleet)
description:
  - Checks services, clients, keys and certificates, and what they mean together.
  - No sentence holds a key or the content of a certificate; they are named by their place in the variable.
options:
  _input:
    description:
      - The variables of the role without their prefix, that is V(services), V(clients), V(certificates),
        V(self_signed_allowed), V(firewall_sources), V(firewall_router_sources), and V(defaults) with what
        services have in common.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Refuse bad settings before anything is changed
  vars:
    problems: "{{ {'services': gateway_services, 'clients': gateway_clients} | llmfleet.sglang.gateway_problems }}"
  ansible.builtin.assert:
    that: problems | length == 0
    fail_msg: "{{ problems | join('\n') }}"
"""

RETURN = r"""
_value:
  description: One sentence per problem, with the variable, its value, what is wrong, and the mend.
  type: list
  elements: str
"""


def gateway_problems(settings):
    """See DOCUMENTATION."""
    if not isinstance(settings, dict):
        raise AnsibleFilterError("gateway_problems works on a mapping of settings")
    return _gateway.problems(settings)


class FilterModule:
    """The filter gateway_problems."""

    def filters(self):
        """Return the filters by name."""
        return {"gateway_problems": gateway_problems}
