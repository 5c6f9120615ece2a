# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parser of a complete installation: the table and the module hold against it as against the light one."""

from __future__ import annotations

import base64
import json
import re
import shlex
from pathlib import Path

import pytest
from ansible_collections.llmfleet.sglang.tests.parsers import agreement, vectors
from ansible_collections.llmfleet.sglang.tests.tools import make_argument_table

RELEASE = "0.5.23"
# Runs where SGLang is; here it can only be read.
READ_MANY = Path(agreement.__file__).with_name("read_many.py")
UNIT = "/etc/systemd/system/sglang-kimi.service"


@pytest.fixture(scope="module")
def python(host):
    """The interpreter of the release that the unit runs."""
    return re.search(r"^ExecStart=(\S+)", host.file(UNIT).content_string, re.MULTILINE).group(1)


@pytest.fixture(scope="module")
def run(host, python):
    """Run a program under that interpreter; returns the last line of its output."""

    def execute(program, text=""):
        encoded = base64.b64encode(text.encode()).decode()
        command = f"cd / && echo {encoded} | base64 --decode | HF_HUB_OFFLINE=1 {python} -c {shlex.quote(program)}"
        return host.check_output(f"sh -c {shlex.quote(command)}").splitlines()[-1]

    return execute


def ask(host, argv, **arguments):
    """The module's result."""
    options = {"argv": argv, "user": "sglang", **arguments}
    return host.ansible("llmfleet.sglang.sglang_arguments", json.dumps(options), check=False, become=True)


def test_the_table_says_what_the_installed_parser_says(run, tmp_path):
    found = json.loads(run(make_argument_table.DESCRIBE))
    assert found["release"] == RELEASE
    (tmp_path / f"{RELEASE}.json").write_text(json.dumps(found["arguments"]))
    assert agreement.table_differences(tmp_path, RELEASE) == []


def test_the_verdicts_are_those_of_the_installed_parser(run):
    answers = json.loads(run(READ_MANY.read_text(), agreement.questions()))
    assert agreement.verdict_differences(answers, RELEASE) == []
    assert agreement.deeper_differences(answers, RELEASE) == []


def test_the_module_asks_it_as_the_service_s_user(host, python):
    result = ask(host, vectors.KIMI, python=python)
    print(f"\nread in {result['seconds']} s: {result['message']}")
    assert (result["outcome"], result["release"], result["changed"]) == ("accepted", RELEASE, False)
    result = ask(host, vectors.DEEPER[0], python=python)
    assert result["outcome"] == "refused"
    assert "unknown phase 'decoed'" in result["message"]


def test_the_deployment_left_its_stamp(host):
    with host.sudo():
        stamp = json.loads(host.file("/etc/sglang/kimi.arguments.json").content_string)
        assert host.file("/etc/sglang/kimi.arguments.json").mode == 0o600
    assert stamp["release"] == RELEASE
