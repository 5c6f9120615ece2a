# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The argument table and the module against the real parsers of two releases, an older one and the newest."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.llmfleet.sglang.plugins.modules import sglang_arguments
from ansible_collections.llmfleet.sglang.tests.parsers import agreement, light, vectors
from ansible_collections.llmfleet.sglang.tests.tools import make_argument_table

RELEASES = ("0.5.16", "0.5.23")


@pytest.fixture(scope="session", params=RELEASES)
def release(request):
    return request.param


@pytest.fixture(scope="session")
def python(release):
    return light.interpreter(release)


@pytest.fixture(scope="session")
def answers(python):
    done = subprocess.run(
        [python, Path(light.__file__).with_name("read_many.py")],
        input=agreement.questions(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_the_parser_is_the_release_s_own(python, release):
    program = "import sys, sglang.srt.server_args as found; print(found.__file__, sys.modules['torch'].__version__)"
    path, torch = subprocess.check_output([python, "-c", program], text=True).split()
    assert f"/{release}/lib/" in path
    assert torch == "99.0.0"


def test_the_table_says_what_the_parser_says(python, release, tmp_path):
    make_argument_table.describe(str(python), tmp_path)
    assert agreement.table_differences(tmp_path, release) == []


def test_the_table_s_verdicts_are_the_parser_s(answers, release):
    assert len(answers) == len(vectors.VECTORS) + len(vectors.DEEPER)
    assert agreement.verdict_differences(answers, release) == []
    # Lists without bad ones, good ones or short ones would prove little.
    refused = [answer[0] for answer in answers[: len(vectors.VECTORS)]]
    assert min(refused.count(True), refused.count(False)) >= 15
    assert sum(bool(answer[2]) for answer in answers) >= 4


def test_some_things_only_the_parser_knows(answers, release):
    assert agreement.deeper_differences(answers, release) == []


@pytest.fixture
def ask(python, capsys):
    """Run the module on the release as Ansible would."""

    def run(argv, **arguments):
        arguments = {"python": str(python), "argv": argv, **arguments}
        with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
            sglang_arguments.main()
        assert ended.value.code == 0
        return json.loads(capsys.readouterr().out)

    return run


def test_the_module_hands_on_the_parser_s_answer(ask, release):
    result = ask(vectors.KIMI)
    assert (result["outcome"], result["release"], result["abbreviations"]) == ("accepted", release, [])
    result = ask([*vectors.MODEL, "--mem-frac", "0.9"])
    assert result["outcome"] == "accepted"
    assert result["abbreviations"] == [{"given": "--mem-frac", "meant": "--mem-fraction-static"}]
    result = ask(vectors.DEEPER[0])
    assert result["outcome"] == "refused"
    assert "unknown phase 'decoed'" in result["message"]


def test_the_module_reads_a_file_of_settings_as_the_release_does(ask, tmp_path):
    config = tmp_path / "a.yaml"
    config.write_text("hicache-ratio: 4.0\nenable-metrics: true\n")
    assert ask([*vectors.MODEL, "--config", str(config)])["outcome"] == "accepted"
    config.write_text("hicache-ratoi: 4.0\n")
    result = ask([*vectors.MODEL, "--config", str(config)])
    assert result["outcome"] == "refused"
    assert "--hicache-ratoi" in result["message"]


def test_a_level_that_the_release_cannot_log_at_is_refused(ask):
    assert "NOTICE" in ask([*vectors.MODEL, "--log-level", "notice"])["message"]


def test_a_key_is_nowhere_in_the_answer(ask):
    for words in (["--api-key", "planted-4711", "planted-4711"], ["--api-key=planted-4711", "--no-such"]):
        result = ask([*vectors.MODEL, *words])
        assert result["outcome"] == "refused"
        assert "planted-4711" not in json.dumps(result)
