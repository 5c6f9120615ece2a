# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of all unit tests."""

from __future__ import annotations

from hypothesis import settings

# A loaded machine takes its time: how long an example takes says nothing about the code.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
