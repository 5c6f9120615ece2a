# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a folder occupies.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

import os


def occupied(folder):
    """Bytes that a folder occupies on its disk: files with holes counted as what they hold, links not followed."""
    total = 0
    for base, _folders, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(base, name)).st_blocks * 512
            except OSError:
                continue
    return total
