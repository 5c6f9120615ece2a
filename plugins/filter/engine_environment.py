# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter that gives the environment variables that a release of SGLang needs for some settings."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..plugin_utils import settings as _settings

DOCUMENTATION = r"""
name: engine_environment
short_description: Environment variables that a release of SGLang needs for typed settings
version_added: 0.1.0
author: llmfleet contributors (@llmfleet)
description:
  - Returns C(SGLANG_ENABLE_SPEC_V2) for EAGLE speculation (also as NEXTN) with topk 1 in 0.5.9 to 0.5.13, the
    releases that read it, and an empty mapping otherwise.
positional: release
options:
  _input:
    description: The variables of role C(serve) without their prefix.
    type: dict
    required: true
  release:
    description: The release of SGLang, such as V(0.5.23).
    type: str
    required: true
seealso:
  - plugin: llmfleet.sglang.engine_argv
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show the environment of an older release
  vars:
    settings: {speculative_enabled: true, speculative_algorithm: EAGLE3, speculative_eagle_topk: 1}
  ansible.builtin.debug:
    msg: "{{ settings | llmfleet.sglang.engine_environment('0.5.13') }}"
  # => {"SGLANG_ENABLE_SPEC_V2": "1"}
"""

RETURN = r"""
_value:
  description: Names and values of variables.
  type: dict
"""


def engine_environment(settings, release):
    """See DOCUMENTATION."""
    if not isinstance(settings, dict):
        raise AnsibleFilterError("engine_environment works on a mapping of settings")
    return _settings.engine_environment(settings, str(release))


class FilterModule:
    """The filter engine_environment."""

    def filters(self):
        """Return the filters by name."""
        return {"engine_environment": engine_environment}
