# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter that tells which ranks a node runs."""

from __future__ import annotations

from ..plugin_utils import settings as _settings

DOCUMENTATION = r"""
name: node_ranks
short_description: Ranks that one node of a service runs
version_added: 0.1.0
author: llmfleet contributors (@llmfleet)
description:
  - Tells how many ranks run on a host, and which, from tensor, data, context and pipeline parallelism and nodes.
options:
  _input:
    description: The variables of role C(serve) without their prefix.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the ranks of the second of two nodes
  vars:
    settings: {tensor_parallel_size: 16, nodes: 2, node_rank: 1}
  ansible.builtin.debug:
    msg: "{{ settings | llmfleet.sglang.node_ranks }}"
  # => {"ranks": 8, "rank_set": ["8-15"], "stages": 1}
"""

RETURN = r"""
_value:
  description: >-
    C(ranks), their number, C(rank_set), their names, which is empty on a single node, and C(stages), the pipeline
    stages of all nodes.
  type: dict
"""


def node_ranks(settings):
    """See DOCUMENTATION."""
    return _settings.node_ranks(settings)


class FilterModule:
    """The filter node_ranks."""

    def filters(self):
        """Return the filters by name."""
        return {"node_ranks": node_ranks}
