# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter that gives each service of role gateway all of its fields."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..plugin_utils import gateway as _gateway

DOCUMENTATION = r"""
name: gateway_services
short_description: The services of role gateway with every field
version_added: 0.1.0
author: llmfleet contributors (@llmfleet)
description:
  - Gives each service its own value of a field, else the common one, else the filter's.
positional: defaults
options:
  _input:
    description: What C(gateway_services) holds.
    type: list
    elements: dict
    required: true
  defaults:
    description: Values that services have in common, by field.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Show on which ports the gateway listens
  ansible.builtin.debug:
    msg: "{{ gateway_services | llmfleet.sglang.gateway_services | map(attribute='port') }}"
"""

RETURN = r"""
_value:
  description: The services, each with all fields.
  type: list
  elements: dict
"""


def gateway_services(services, defaults=None):
    """See DOCUMENTATION."""
    if not isinstance(services, list):
        raise AnsibleFilterError("gateway_services works on a list of services")
    return _gateway.services(services, defaults)


class FilterModule:
    """The filter gateway_services."""

    def filters(self):
        """Return the filters by name."""
        return {"gateway_services": gateway_services}
