# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter that names everything that keeps a host from serving."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ..plugin_utils import preflight_rules as _rules

DOCUMENTATION = r"""
name: preflight_findings
short_description: Everything that keeps a host from serving a model
version_added: 0.1.0
author: llmfleet contributors (@llmfleet)
description:
  - Judges what M(llmfleet.sglang.host_info) and M(llmfleet.sglang.gpu_info) read on a host, by the variables of role
    P(llmfleet.sglang.preflight#role). Works on the controller alone.
  - What a host did not show (null) is never a finding.
positional: gpus
options:
  _input:
    description: What M(llmfleet.sglang.host_info) returned.
    type: dict
    required: true
  gpus:
    description: What M(llmfleet.sglang.gpu_info) returned.
    type: dict
    required: true
  facts:
    description:
      - The host's facts C(distribution), C(distribution_version), C(architecture), and its major version as
        C(distribution_major).
    type: dict
    required: true
  settings:
    description: The variables of the role without their prefix, such as C(services) for C(preflight_services).
    type: dict
    required: true
  entry:
    description: V(main) before a driver is installed, V(gpus) after that.
    type: str
    choices: [main, gpus]
    default: main
  accepted:
    description: Codes whose errors are reported as warnings.
    type: list
    elements: str
    default: []
  check_mode:
    description: Whether the play only checks, so that a driver may be missing that it would have installed.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Judge what was read
  ansible.builtin.set_fact:
    findings: "{{ host | llmfleet.sglang.preflight_findings(gpus=gpus, facts=facts, settings=settings) }}"
"""

RETURN = r"""
_value:
  description: One mapping per finding, errors first; empty when nothing was found.
  type: list
  elements: dict
  contains:
    level:
      description: V(error), or V(warning) for what serves but is worth knowing.
      type: str
    code:
      description: Short name of the finding. They are listed in C(docs/preflight.md) of the collection.
      type: str
    seen:
      description: What the host has.
      type: str
    needed:
      description: What it should have, with the variable that says so.
      type: str
    mend:
      description: What to do.
      type: str
    accepted:
      description: Whether it is an error that O(accepted) turned into a warning.
      type: bool
"""


def preflight_findings(host, gpus, facts, settings, entry="main", accepted=(), check_mode=False):
    """Return what is wrong with a host as a list of dictionaries."""
    for name, value in (("host", host), ("gpus", gpus), ("facts", facts), ("settings", settings)):
        if not isinstance(value, dict):
            raise AnsibleFilterError(f"preflight_findings: {name} is {type(value).__name__}; give a mapping")
    if entry not in ("main", "gpus"):
        raise AnsibleFilterError(f"preflight_findings: entry is {entry!r}; choose main or gpus")
    try:
        return _rules.findings(entry, host, gpus, facts, settings, list(accepted), bool(check_mode))
    except KeyError as error:
        raise AnsibleFilterError(f"preflight_findings: {error.args[0]} is missing in what was given") from error
    except ValueError as error:
        raise AnsibleFilterError(f"preflight_findings: a setting is no number: {error}") from error


class FilterModule:
    """What Ansible loads."""

    def filters(self):
        """Return the filters of this file."""
        return {"preflight_findings": preflight_findings}
