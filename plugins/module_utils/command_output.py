# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hand the output of a command on while it runs, in large blocks and without keeping it.

Standard library only, Python 3.9 and newer, no Ansible. (``AnsibleModule.run_command`` keeps all output in memory.)
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import subprocess
import tempfile

BLOCK = 256 * 1024
# fcntl names it from Python 3.10 on.
F_SETPIPE_SZ = 1031
# A command without a byte of output for so many seconds is taken for stuck.
IDLE_LIMIT = 300
MOST_ERRORS = 65536


def hand_on(argv, take, environment, idle_limit=IDLE_LIMIT):
    """Run ``argv`` and call ``take`` with each block (bytes, up to 512 KiB) of its standard output.

    Returns its exit status and what it said on standard error (text, up to 64 KiB). A command that writes nothing for
    ``idle_limit`` seconds is killed: the status is 1 then, and the text says so. Raises OSError when it cannot be run.
    """
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=environment
        )
        stuck = False
        descriptor = process.stdout.fileno()
        # Commands write 4 KB at a time: a wide pipe and large blocks spare both sides most of their turns.
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, F_SETPIPE_SZ, BLOCK)
        gathered = bytearray()
        try:
            while True:
                if not select.select([descriptor], [], [], idle_limit)[0]:
                    stuck = True
                    break
                piece = os.read(descriptor, BLOCK)
                gathered += piece
                if len(gathered) >= BLOCK or not piece:
                    take(bytes(gathered))
                    gathered.clear()
                if not piece:
                    break
        finally:
            if process.poll() is None and stuck:
                process.kill()
            process.stdout.close()
            code = process.wait()
        errors.seek(0)
        said = errors.read(MOST_ERRORS).decode("utf-8", "replace")
    if stuck:
        said += f"\n{os.path.basename(argv[0])} wrote nothing for {idle_limit} s and was ended"
    return (1 if stuck else code), said
