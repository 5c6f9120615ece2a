# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter that makes the address at which a host reaches its own server."""

from __future__ import annotations

from ..plugin_utils import settings as _settings

DOCUMENTATION = r"""
name: service_url
short_description: Base URL of a server as its own host reaches it
version_added: 0.1.0
author: llmfleet contributors (@llmfleet)
description:
  - Puts address and port together. A server that listens on every address is reached on loopback.
positional: port
options:
  _input:
    description: The address that the server listens on.
    type: str
    required: true
  port:
    description: Its port.
    type: int
    required: true
"""

EXAMPLES = r"""
- name: Show where the server answers
  ansible.builtin.debug:
    msg: "{{ '0.0.0.0' | llmfleet.sglang.service_url(30000) }}"
  # => http://127.0.0.1:30000
"""

RETURN = r"""
_value:
  description: The URL, without a slash at its end.
  type: str
"""


def service_url(host, port):
    """See DOCUMENTATION."""
    return _settings.service_url(host, port)


class FilterModule:
    """The filter service_url."""

    def filters(self):
        """Return the filters by name."""
        return {"service_url": service_url}
