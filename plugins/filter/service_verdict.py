# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = """
name: service_verdict
short_description: One verdict on a service from its journal and from its answers
version_added: 0.1.0
author: llmfleet contributors (@llmfleet)
description:
  - Puts the result of M(llmfleet.sglang.hicache_verify) and the registered answers of the running server together to
    one verdict, with reasons and one line for people.
options:
  _input:
    description: The result of M(llmfleet.sglang.hicache_verify).
    type: dict
    required: true
  settings:
    description: >-
      The keys C(host), C(unit), C(ranks), C(release), C(hicache_enabled), C(speculative_enabled) and
      C(accept_length_above), and C(device_settings), what the tokens of the device depend on, for a later
      M(llmfleet.sglang.hicache_plan).
    type: dict
    required: true
  answers:
    description: >-
      The keys C(chat) and C(prefix), as registered from M(ansible.builtin.uri). Leave it out where nothing was asked.
    type: dict
"""

EXAMPLES = """
- name: Show one line for the service
  ansible.builtin.debug:
    msg: "{{ (journal | llmfleet.sglang.service_verdict(settings, answers)).summary }}"
"""

RETURN = """
_value:
  description: The verdict, its reasons, a summary line and the figures worth keeping; GB are 1e9 bytes.
  type: dict
"""

from ansible_collections.llmfleet.sglang.plugins.module_utils.service_verdict import service_verdict


class FilterModule:
    """The filter of this file."""

    def filters(self):
        return {"service_verdict": service_verdict}
