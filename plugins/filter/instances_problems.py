# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter that names everything that is wrong with the services of a host."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..plugin_utils import settings_instances as _instances

DOCUMENTATION = r"""
name: instances_problems
short_description: Everything that is wrong with the SGLang services of a host
version_added: 0.1.0
author: llmfleet contributors (@llmfleet)
description:
  - Checks each service as P(llmfleet.sglang.settings_problems#filter) does, and that no two of them have the same name,
    port or GPU.
positional: common
options:
  _input:
    description:
      - The services, each a mapping of the variables of role C(serve) without their prefix.
      - An empty list stands for one service that O(common) describes.
    type: list
    elements: dict
    required: true
  common:
    description: What a service has that does not say otherwise, C(release) among it.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Refuse two services on one port
  vars:
    problems: "{{ [{'name': 'a'}, {'name': 'b'}] | llmfleet.sglang.instances_problems(settings) }}"
  ansible.builtin.debug:
    msg: "{{ problems | map(attribute='message') | list }}"
"""

RETURN = r"""
_value:
  description: One mapping per problem, as P(llmfleet.sglang.settings_problems#filter) returns them.
  type: list
  elements: dict
"""


def instances_problems(instances, common):
    """See DOCUMENTATION."""
    if not isinstance(common, dict):
        raise AnsibleFilterError("instances_problems needs a mapping of settings")
    return _instances.instances_problems(instances, common)


class FilterModule:
    """The filter instances_problems."""

    def filters(self):
        """Return the filters by name."""
        return {"instances_problems": instances_problems}
