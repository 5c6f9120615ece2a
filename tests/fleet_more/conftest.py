# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet of stage "fleet", which these tests go on with."""

from ansible_collections.llmfleet.sglang.tests.fleet.conftest import fleet, on_a  # noqa: F401
