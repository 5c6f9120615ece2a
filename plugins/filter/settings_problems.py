# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter that names everything that is wrong with the settings of a service."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..plugin_utils import settings_problems as _problems

DOCUMENTATION = r"""
name: settings_problems
short_description: Everything that is wrong with the settings of an SGLang service
version_added: 0.1.0
author: llmfleet contributors (@llmfleet)
description:
  - Checks typed settings and engine options against the command line of the release, SGLang's own rules,
    the combinations that SGLang replaces in silence, and what systemd can carry.
  - Works on the controller alone and takes well under a second.
positional: release
options:
  _input:
    description: The variables of role C(serve) without their prefix, such as C(port) for C(serve_port).
    type: dict
    required: true
  release:
    description: The release of SGLang, such as V(0.5.23).
    type: str
    required: true
  prefix:
    description: What stands before a setting's name in the variable that an operator writes.
    type: str
    default: serve_
"""

EXAMPLES = r"""
- name: Refuse bad settings before anything is changed
  vars:
    problems: "{{ settings | llmfleet.sglang.settings_problems('0.5.23') }}"
  ansible.builtin.assert:
    that: problems | selectattr('level', 'equalto', 'error') | length == 0
    fail_msg: "{{ problems | map(attribute='message') | join('\n') }}"
"""

RETURN = r"""
_value:
  description: One mapping per problem, errors first; empty when nothing was found.
  type: list
  elements: dict
  contains:
    level:
      description: V(error), or V(warning) for what works but is worth knowing.
      type: str
    variable:
      description: The variable as the operator writes it.
      type: str
    value:
      description: Its value, V((hidden\)) for what may be secret.
      type: raw
    problem:
      description: What is wrong, a part of a sentence.
      type: str
    mend:
      description: What to write instead, a part of a sentence.
      type: str
    message:
      description: The whole as one sentence.
      type: str
"""


def settings_problems(settings, release, prefix="serve_"):
    """See DOCUMENTATION."""
    if not isinstance(settings, dict):
        raise AnsibleFilterError("settings_problems works on a mapping of settings")
    return _problems.settings_problems(settings, str(release), str(prefix))


class FilterModule:
    """The filter settings_problems."""

    def filters(self):
        """Return the filters by name."""
        return {"settings_problems": settings_problems}
