# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet for all tests of this folder: one host is deployed, and the others are booted from its disk."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.tests.scale.fleet import Fleet


@pytest.fixture(scope="session")
def fleet():
    """The fleet with its first host deployed; tests boot as many as they need."""
    made = Fleet()
    made.prepare()
    yield made
    made.down()
