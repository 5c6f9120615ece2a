# SPDX-License-Identifier: GPL-3.0-or-later
"""Which SGLang release is imitated, and comparison with others."""

from __future__ import annotations

import re

from .version import __version__


class Release:
    """A release such as "0.5.10.post1"; a local part ("+standin") does not count."""

    def __init__(self, text):
        self.text = text.split("+")[0]
        self.key = tuple(int(number) for number in re.findall(r"\d+", self.text))

    def at_least(self, other):
        """True when this release is `other` (text) or newer; "0.5.10.post1" is newer than "0.5.10"."""
        return self.key >= Release(other).key

    def __str__(self):
        return self.text


RELEASE = Release(__version__)
