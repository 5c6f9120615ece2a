# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import dkms_status

KERNEL = "6.1.0-27-amd64"


def test_both_forms_are_read():
    text = (
        "nvidia, 470.57.02, 5.4.0-80-generic, x86_64: installed\n"
        "nvidia-open/580.126.09, 6.1.0-27-amd64, x86_64: installed (original_module exists)\n"
        "zfs/2.1.11: added\n"
        "Error! something else\n"
    )
    assert dkms_status.parse_dkms_status(text) == [
        {
            "module": "nvidia",
            "version": "470.57.02",
            "kernel": "5.4.0-80-generic",
            "architecture": "x86_64",
            "state": "installed",
            "remark": "",
        },
        {
            "module": "nvidia-open",
            "version": "580.126.09",
            "kernel": KERNEL,
            "architecture": "x86_64",
            "state": "installed",
            "remark": "(original_module exists)",
        },
        {"module": "zfs", "version": "2.1.11", "kernel": None, "architecture": None, "state": "added", "remark": ""},
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"nvidia/580.126.09, {KERNEL}, x86_64: installed", ""),
        (f"nvidia-open/580.126.09, {KERNEL}, x86_64: installed", ""),
        ("", ""),
        (f"zfs/2.1.11, {KERNEL}, x86_64: built", ""),
        (
            f"nvidia/580.105.08, {KERNEL}, x86_64: installed",
            "in version 580.105.08, and not in 580.126.09",
        ),
        (
            f"nvidia/580.126.09, 6.1.0-28-amd64, x86_64: installed\nnvidia/580.105.08, {KERNEL}, x86_64: installed",
            f"built nvidia/580.126.09 for 6.1.0-28-amd64, and not for {KERNEL}",
        ),
        ("nvidia/580.126.09: added", f"for no kernel, and not for {KERNEL}"),
        (f"nvidia/580.126.09, {KERNEL}, x86_64: built", "built, which is not installed"),
        (
            f"nvidia/580.126.09, {KERNEL}, x86_64: installed (WARNING! Diff between built and installed module!)",
            "WARNING! Diff between built and installed module!",
        ),
    ],
)
def test_what_keeps_the_module_from_being_there(text, told):
    problem = dkms_status.module_problem(text, KERNEL, "580.126.09")
    assert told in problem
    assert bool(told) == bool(problem)


def test_without_a_version_any_is_right():
    assert dkms_status.module_problem(f"nvidia/1.2.3, {KERNEL}, x86_64: installed", KERNEL) == ""
