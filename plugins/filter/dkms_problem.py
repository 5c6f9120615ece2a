# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: dkms_problem
short_description: Why DKMS has no NVIDIA module for a kernel
version_added: 0.1.0
description:
  - Reads what C(dkms status) printed, in the form of dkms 2 or 3, and tells what keeps the NVIDIA module of one
    version from being there for one kernel.
  - A status without any NVIDIA module is no problem, because precompiled modules need no DKMS.
author:
  - llmfleet contributors (@llmfleet)
options:
  _input:
    description:
      - The text.
    type: str
    required: true
  kernel:
    description:
      - The running kernel, as C(uname -r) names it.
    type: str
    required: true
  version:
    description:
      - Version of the driver. Empty takes any.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Stop without a module for the running kernel
  ansible.builtin.assert:
    that: problem | length == 0
    fail_msg: "{{ problem }}"
  vars:
    problem: "{{ dkms.stdout | llmfleet.sglang.dkms_problem(ansible_facts['kernel'], '580.126.09') }}"
"""

RETURN = r"""
_value:
  description: What is wrong, as the middle of a sentence. Empty when the module is installed.
  type: str
  sample: "dkms says of nvidia/580.126.09 for 6.1.0-27-amd64: built, which is not installed"
"""

from ansible_collections.llmfleet.sglang.plugins.module_utils.dkms_status import module_problem


class FilterModule:
    """The filter."""

    def filters(self):
        return {"dkms_problem": module_problem}
