# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a running process was started, from Linux's proc file system.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

import os


def _texts(pid, name, proc):
    """The texts of a file that separates them by NUL; None where it is gone or may not be read."""
    try:
        with open(os.path.join(proc, str(pid), name), "rb") as stream:
            content = stream.read()
    except OSError:
        return None
    return [part.decode("utf-8", "surrogateescape") for part in content.rstrip(b"\0").split(b"\0")] if content else []


def process_of(pid, proc="/proc"):
    """Command line and initial environment of a process; ``pid`` is a number or systemd's text of one.

    Returns ``{"arguments": list of words or None, "variables": dict of texts or None}``; None where the kernel does not
    tell: the process is gone, or belongs to another user.
    """
    running = str(pid or 0).isdigit() and int(pid or 0) > 0
    words = _texts(pid, "cmdline", proc) if running else None
    variables = _texts(pid, "environ", proc) if running else None
    return {
        "arguments": words or None,
        "variables": None if not variables else dict(text.partition("=")[::2] for text in variables if "=" in text),
    }
