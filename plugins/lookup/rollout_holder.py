# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lookup that tells which run of which controller this is."""

from __future__ import annotations

DOCUMENTATION = r"""
name: rollout_holder
short_description: Which run of which controller this is, or whether another still runs
version_added: 0.1.0
author: llmfleet contributors (@llmfleet)
description:
  - Without O(of), returns this run as a holder for M(llmfleet.sglang.fleet_lock). All tasks of one run get the same
    C(token), and no other run ever gets it.
  - With O(of), tells whether the run that holds a lock still runs, as far as this controller can know.
options:
  _terms:
    description: Not used.
  of:
    description: A holder, as it stands in a lock.
    type: dict
"""

EXAMPLES = r"""
- name: Show who would hold the lock
  ansible.builtin.debug:
    msg: "{{ lookup('llmfleet.sglang.rollout_holder') }}"
"""

RETURN = r"""
_raw:
  description:
    - Without O(of), a mapping with C(token), C(user), C(controller), C(controller_id), C(pid), C(started) and
      C(playbook).
    - With O(of), V(alive), V(dead), or V(elsewhere) where it began on another controller or before this one booted.
  type: list
  elements: raw
"""

from ansible import context
from ansible.plugins.lookup import LookupBase

from ..plugin_utils import fleet_holder


class LookupModule(LookupBase):
    """See DOCUMENTATION."""

    def run(self, terms, variables=None, **kwargs):
        """Return one element."""
        self.set_options(var_options=variables, direct=kwargs)
        other = self.get_option("of")
        if other:
            return [fleet_holder.state_of(other)]
        played = context.CLIARGS.get("args") or ["?"]
        return [fleet_holder.own(" ".join(str(name) for name in played))]
