# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter that quotes a value so that systemd hands it on unchanged."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..plugin_utils.systemd_quote import quote_argument, quote_assignment, quote_environment_line

DOCUMENTATION = r"""
name: systemd_quote
short_description: Quote a value for a systemd unit or an environment file
version_added: 0.1.0
author: llmfleet contributors (@llmfleet)
description:
  - Quotes by systemd's own rules, which are not a shell's. Line breaks and control characters are refused.
positional: context, name
options:
  _input:
    description: The value; numbers are taken as text.
    type: raw
    required: true
  context:
    description:
      - V(argument) for one word of C(ExecStart=), where percent and dollar signs are doubled.
      - V(environment) for one C(NAME=value) of C(Environment=), where percent signs are doubled.
      - V(environment_file) for one line of a file named by C(EnvironmentFile=).
    type: str
    choices: [argument, environment, environment_file]
    default: argument
  name:
    description: The name of the variable, needed in the two environments.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Quote a word with a percent sign
  ansible.builtin.debug:
    msg: "{{ '100% \"sure\"' | llmfleet.sglang.systemd_quote }}"
  # => "100%% \"sure\""

- name: Quote an assignment
  ansible.builtin.debug:
    msg: "{{ '$HOME/a b' | llmfleet.sglang.systemd_quote('environment', 'WHERE') }}"
  # => "WHERE=$HOME/a b"
"""

RETURN = r"""
_value:
  description: The quoted text, with the variable's name before it in the two environments.
  type: str
"""


def systemd_quote(value, context="argument", name=""):
    """See DOCUMENTATION."""
    try:
        if context == "argument":
            return quote_argument(value)
        if context == "environment":
            return quote_assignment(name, value)
        if context == "environment_file":
            return quote_environment_line(name, value)
    except ValueError as error:
        raise AnsibleFilterError(f"systemd_quote: {error}") from error
    raise AnsibleFilterError(
        f"systemd_quote knows no context {context!r}; use argument, environment or environment_file"
    )


class FilterModule:
    """The filter systemd_quote."""

    def filters(self):
        """Return the filters by name."""
        return {"systemd_quote": systemd_quote}
