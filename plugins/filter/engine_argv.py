# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters that turn the settings of a service into SGLang's command line and environment."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..plugin_utils import settings as _settings

DOCUMENTATION = r"""
name: engine_argv
short_description: SGLang's command line from typed settings
version_added: 0.1.0
author: llmfleet contributors (@llmfleet)
description:
  - Returns the words after C(python -m sglang.launch_server), in a fixed order.
  - Options of HiCache and of speculation appear only while their switch is on.
  - Nothing is checked; use P(llmfleet.sglang.settings_problems#filter) for that.
positional: release
options:
  _input:
    description:
      - The variables of role C(serve) without their prefix, such as C(port) for C(serve_port).
      - C(engine_options) is a mapping of further options, named without leading dashes. V(true) gives the bare
        option, V(false) and V(null) leave it out, a list gives one word each, a mapping gives compact JSON, and
        anything else is the option's value.
    type: dict
    required: true
  release:
    description: The release of SGLang, such as V(0.5.23).
    type: str
    required: true
seealso:
  - plugin: llmfleet.sglang.engine_environment
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show the command line
  ansible.builtin.debug:
    msg: "{{ {'model_path': '/srv/models/tiny', 'port': 30000} | llmfleet.sglang.engine_argv('0.5.23') }}"
  # => ["--model-path", "/srv/models/tiny", "--port", "30000"]
"""

RETURN = r"""
_value:
  description: The words, unquoted.
  type: list
  elements: str
"""


def engine_argv(settings, release):
    """See DOCUMENTATION."""
    if not isinstance(settings, dict):
        raise AnsibleFilterError("engine_argv works on a mapping of settings")
    return _settings.engine_argv(settings, str(release))


class FilterModule:
    """The filter engine_argv."""

    def filters(self):
        """Return the filters by name."""
        return {"engine_argv": engine_argv}
