# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import sys

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils.command_output import BLOCK, hand_on


def _run(code, **kwargs):
    blocks = []
    result = hand_on([sys.executable, "-c", code], blocks.append, dict(os.environ, PROBE="seen"), **kwargs)
    return blocks, result


def test_output_arrives_whole_and_in_large_blocks():
    blocks, (status, said) = _run("import sys\nfor n in range(200000): print(n)")
    assert b"".join(blocks) == b"".join(b"%d\n" % number for number in range(200000))
    assert (status, said) == (0, "")
    assert all(BLOCK <= len(block) < 2 * BLOCK for block in blocks[:-1])


def test_status_errors_and_environment_are_handed_on():
    blocks, result = _run("import os, sys; print(os.environ['PROBE'], file=sys.stderr); sys.exit(3)")
    assert (b"".join(blocks), result) == (b"", (3, "seen\n"))


def test_a_command_that_falls_silent_is_ended():
    _blocks, (status, said) = _run("import time; print('on', flush=True); time.sleep(60)", idle_limit=0.5)
    assert status == 1
    assert "wrote nothing for 0.5 s" in said


def test_a_command_that_does_not_exist_is_an_error():
    with pytest.raises(OSError):
        hand_on(["/nonexistent/journalctl"], print, {})
