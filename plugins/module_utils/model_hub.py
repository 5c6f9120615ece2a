# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""huggingface_hub's ``hf download`` as a child that is watched.

Its transfers over xet are known to hang near their end, so a child that gains no byte for a while is ended. It dies
with its parent, and never outlives the lock.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time

from . import bound_process, disk_usage


def command(client, repo, revision, folder, workers, names):
    """Arguments of ``hf download`` for some files of a repository."""
    pinned = ["--revision", revision] if revision else []
    return [*client, "download", repo, *names, "--local-dir", folder, "--max-workers", str(workers), *pinned]


def last_words(text, count=4):
    """The last lines of an output that say something, without progress bars and advice."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text))]
    lines = [line for line in lines if line and "|" not in line and not line.startswith("Hint:")]
    return " | ".join(lines[-count:]) or "nothing"


def run(argv, environment, folder, stall, tell=None, pause=1.0):
    """Runs the downloader; returns ``(whether it ended well, what it said at last)``.

    ``stall``: seconds without a byte gained in ``folder`` after which it is ended. ``tell`` is called with the bytes in
    the folder.
    """
    with tempfile.TemporaryFile() as output:
        try:
            child = subprocess.Popen(
                argv,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=bound_process.die_with_parent,
                cwd="/",
            )
        except OSError as error:
            return False, f"{argv[0]} cannot be run: {error.strerror}"
        stalled = _watch(child, folder, stall, tell, pause)
        output.seek(0)
        said = last_words(output.read()[-65536:].decode("utf-8", "replace"))
    if stalled:
        return False, f"it gained no byte for {stall} s and was ended; at last it said: {said}"
    return child.returncode == 0, said


def _watch(child, folder, stall, tell, pause):
    before, since = -1, time.monotonic()
    while True:
        try:
            child.wait(pause)
            return False
        except subprocess.TimeoutExpired:
            now = disk_usage.occupied(folder)
        if now != before:
            before, since = now, time.monotonic()
            if tell is not None:
                tell(now)
        elif time.monotonic() - since > stall:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return True
