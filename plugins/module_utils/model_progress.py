# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a long read or transfer is, for people: a small file, and a line in the journal once a minute."""

from __future__ import annotations

import contextlib
import json
import os
import time

LOG_PAUSE = 60.0


def sentence(what, done, total, seconds):
    """One line of progress."""
    rate = done / seconds if seconds > 0 else 0
    told = f"{what}: {done / 1e9:.1f} of {total / 1e9:.1f} GB in {seconds:.0f} s"
    if rate <= 0:
        return told
    return f"{told}, {rate / 1e6:.0f} MB/s, {max(0, total - done) / rate:.0f} s to go"


class ProgressFile:
    """For use in ``with``; gives a function ``tell(done, total)``. Without a path nothing is written but the log."""

    def __init__(self, path, what, log=None, clock=time.monotonic):
        self.path, self.what = path, what
        self._log = log or (lambda _text: None)
        self._clock = clock
        self._began = self._logged = clock()

    def tell(self, done, total, what=None):
        """Writes the state down. A place that cannot be written to is no error."""
        what = what or self.what
        if what != self.what:
            self.what, self._began = what, self._clock()
        now = self._clock()
        told = sentence(what, done, total, now - self._began)
        if now - self._logged >= LOG_PAUSE:
            self._logged = now
            self._log(told)
        if not self.path:
            return
        content = {"what": what, "done": done, "total": total, "seconds": int(now - self._began), "told": told}
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            with open(self.path + ".new", "w", encoding="utf-8") as stream:
                stream.write(json.dumps(content, sort_keys=True) + "\n")
            os.replace(self.path + ".new", self.path)
        except OSError:
            pass

    def __enter__(self):
        return self.tell

    def __exit__(self, *_error):
        if self.path:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
