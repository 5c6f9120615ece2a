# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a release of SGLang needs from its host: CUDA, driver, C library, Python.

Read from the wheels and from what their torch is built for; the drivers are those of NVIDIA's CUDA release notes.
"""

from __future__ import annotations

import re
from collections import namedtuple

Need = namedtuple("Need", "first cuda driver glibc python_first python_last")
Need.__doc__ = """Needs of the releases from `first` on, up to the next row.

cuda: what torch is built with. driver: the oldest that serves it. python_last: None where no wheel sets an end.
"""

# Oldest first.
NEEDS = (
    # Pure Python on torch 2.9.1, whose wheels bring CUDA 12.8.
    Need("0.5.9", "12.8", "570.26", "2.28", "3.10", None),
    # Compiled wheels (manylinux_2_34; CPython 3.11, 3.12 and 3.13) on torch 2.11 to 2.14, which bring CUDA 13.0.
    Need("0.5.11", "13.0", "580.65.06", "2.34", "3.11", "3.13"),
)


def version_key(text):
    """The numbers of a version for comparisons: "0.5.10.post1" is (0, 5, 10, 1); a local part does not count."""
    return tuple(int(number) for number in re.findall(r"\d+", str(text).partition("+")[0]))


def is_older(version, other):
    """Whether a version comes before another one."""
    return version_key(version) < version_key(other)


def needs_of(release):
    """The row of a release. One that is older than the table has its first row, one without a number its last."""
    if not version_key(release):
        return NEEDS[-1]
    fitting = [need for need in NEEDS if not is_older(release, need.first)]
    return fitting[-1] if fitting else NEEDS[0]
