# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of all unit tests."""

from __future__ import annotations

import os

from hypothesis import settings

# A loaded machine takes its time: how long an example takes says nothing about the code. What decides whether a change
# lands takes the same examples each time; every other run looks for new ones.
settings.register_profile("patient", deadline=None, derandomize=os.environ.get("CI", "") == "true")
settings.load_profile("patient")
