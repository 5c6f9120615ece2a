# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a program that ends with the one that started it.

Standard library only, Python 3.9 and newer, no Ansible. (``AnsibleModule.run_command`` knows no time limit, and leaves
its program running when the module is killed.)
"""

from __future__ import annotations

import ctypes
import signal
import subprocess

PR_SET_PDEATHSIG = 1


def die_with_parent():
    """Runs in the child: SIGKILL of its parent ends it as well."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def run(argv, environment, folder, timeout):
    """Exit status, output and error output (text) of a program that ran in ``folder``.

    Raises OSError when it cannot be run, and ``subprocess.TimeoutExpired`` after ``timeout`` seconds. However this
    function is left, the program is no longer running.
    """
    done = subprocess.Popen(
        argv, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        universal_newlines=True, errors="replace", close_fds=False, preexec_fn=die_with_parent,
    )  # fmt: skip
    try:
        output, errors = done.communicate(timeout=timeout)
    finally:
        if done.poll() is None:
            done.kill()
            done.wait()
    return done.returncode, output, errors
