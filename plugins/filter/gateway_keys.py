# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter that turns the keys of role gateway's clients into what nginx compares with."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..plugin_utils import gateway as _gateway

DOCUMENTATION = r"""
name: gateway_keys
short_description: Digests of the keys of role gateway's clients
version_added: 0.1.0
author: llmfleet contributors (@llmfleet)
description:
  - Gives, for each service and each key of a client that may use it, the end of the key and a digest of the whole.
  - nginx finds the client by the end, and compares the digest in its variable C($secure_link). The key itself
    does not reach the host.
positional: services
options:
  _input:
    description: Clients, each with V(name), V(keys), and V(services) where it may not use all.
    type: list
    elements: dict
    required: true
  services:
    description: The services; of each its V(name) is read.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Count the keys that are valid
  ansible.builtin.debug:
    msg: "{{ gateway_clients | llmfleet.sglang.gateway_keys(gateway_services) | length }}"
"""

RETURN = r"""
_value:
  description: One entry per service and key, sorted.
  type: list
  elements: dict
  contains:
    service:
      description: The name of the service.
      type: str
    client:
      description: The name of the client.
      type: str
    tail:
      description: The last 6 characters of the key, in lower case.
      type: str
    digest:
      description: base64url, without padding, of the MD5 of service, client and key, with C(/) between them.
      type: str
"""


def gateway_keys(clients, services):
    """See DOCUMENTATION."""
    if not isinstance(clients, list) or not isinstance(services, list):
        # The values may be secret.
        raise AnsibleFilterError("gateway_keys works on a list of clients and a list of services")
    return _gateway.keys(clients, services)


class FilterModule:
    """The filter gateway_keys."""

    def filters(self):
        """Return the filters by name."""
        return {"gateway_keys": gateway_keys}
