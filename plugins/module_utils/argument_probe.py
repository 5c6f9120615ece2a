# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the question of C(argument_check) under the interpreter of a release.

The module's C(run_command) cannot be used: it knows no time limit, no other account and no process group to end.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile

from . import argument_check


def ask(python, argv, environment, account, timeout):
    """Output, error output and exit status of the probe; the status is None when the time was up."""
    folder = tempfile.mkdtemp(prefix="sglang-arguments-")
    identity = {}
    try:
        if account is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)
            groups = os.getgrouplist(account.pw_name, account.pw_gid)
            identity = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": groups}
        # A session of its own, so that what the imports started can be ended with it.
        process = subprocess.Popen(
            [python, "-c", argument_check.PROBE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=argument_check.environment_for(folder, environment),
            start_new_session=True,
            **identity,
        )
        question = json.dumps({"argv": argv}).encode("utf-8")
        try:
            answer, said = process.communicate(question, timeout=timeout)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            answer, said, status = b"", b"", None
            process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return answer.decode("utf-8", "replace"), said.decode("utf-8", "replace"), status
