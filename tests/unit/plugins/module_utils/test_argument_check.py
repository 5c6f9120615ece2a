# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which values are secret, and what an answer of the installed release means."""

from __future__ import annotations

import json

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import argument_check as check


@pytest.mark.parametrize(
    "name",
    ["api-key", "--admin-api-key", "ssl-keyfile-password", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "secretAccessKey",
     "apikey", "Authorization", "proxy-auth", "db_passwd"],
)  # fmt: skip
def test_names_of_secrets(name):
    assert check.is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["tokenizer-path", "max-total-tokens", "speculative-token-map", "bucket-time-to-first-token", "ssl-keyfile",
     "kt-max-deferred-experts-per-token", "author", "keyboard", "", "--", "1"],
)  # fmt: skip
def test_names_of_other_things(name):
    assert not check.is_secret_name(name)


@pytest.mark.parametrize(
    ("argv", "environment", "secrets"),
    [
        (["--api-key", "planted-1"], {}, ["planted-1"]),
        (["--api-key=planted-1"], {}, ["planted-1"]),
        (["--api-key", "planted-1", "planted-12", "--port", "30000"], {}, ["planted-12", "planted-1"]),
        (["--x", '{"a":{"secret_key":["planted-1",12345]},"b":"plain"}'], {}, ["planted-1", "12345"]),
        (["--x", '[{"token":"planted-1"}]'], {}, ["planted-1"]),
        (["--x", '{"token":"planted-1"'], {}, ['{"token":"planted-1"']),
        (["--x", "redis://me:planted@host/0"], {}, ["me:planted"]),
        (["--x=redis://me:planted@host/0"], {}, ["me:planted"]),
        (["--port", "30000", "--host", "::1"], {"HF_TOKEN": "planted-1", "N": "12345"}, ["planted-1"]),
        ([], {"P": "http://me:planted@proxy"}, ["me:planted"]),
        (["--api-key", "abc"], {}, []),
        (["--enable-metrics", "--x", "{}", "--y", "[1]"], {"EMPTY": None}, []),
    ],
)
def test_secrets_of_a_command_line(argv, environment, secrets):
    assert check.secrets_of(argv, environment) == secrets


def test_masking_takes_every_form_and_the_longest_first():
    secrets = check.secrets_of(["--api-key", 'pla"nted', "--admin-api-key", 'pla"nted-more'])
    for text in ('x pla"nted-more y', json.dumps('pla"nted-more'), repr('pla"nted'), 'pla"nted'):
        assert "pla" not in check.masked(text, secrets)


def test_the_environment_is_the_service_s_but_for_what_the_check_must_not_touch():
    found = check.environment_for(
        "/t", {"CUDA_VISIBLE_DEVICES": "0", "HF_HUB_OFFLINE": "0", "HOME": "/h", "A": 1, "B": None, "PATH": "/p"}
    )
    assert (found["CUDA_VISIBLE_DEVICES"], found["HF_HUB_OFFLINE"], found["HOME"]) == ("", "1", "/t")
    assert (found["A"], found["PATH"], found["LANG"]) == ("1", "/p", "C.UTF-8")
    assert "B" not in found


def test_the_fingerprint_follows_what_matters(tmp_path):
    asked = {"argv": ["--port", "1"], "environment": {}}
    first = check.fingerprint(asked, [["r", 1, 2]])
    assert check.fingerprint(dict(asked), [["r", 1, 2]]) == first
    assert check.fingerprint(dict(asked, argv=["--port", "2"]), [["r", 1, 2]]) != first
    assert check.fingerprint(asked, [["r", 1, 3]]) != first
    config = tmp_path / "a.yaml"
    config.write_text("a: 1")
    assert check.files_named_in(["--config", str(config), "--x", f"@{config}"]) == [str(config)] * 2
    assert check.state_of([str(config), "/no/such"])[0][:2] == [str(config), 4]


def answer(**changes):
    return json.dumps({"outcome": "accepted", "release": "0.5.23", "message": "", "abbreviations": [], **changes})


@pytest.mark.parametrize(
    ("stdout", "stderr", "status", "outcome", "message"),
    [
        (answer(), "noise\n\nmore\n", 0, "accepted", ""),
        (answer(outcome="refused", message="invalid planted-1\n value"), "", 0, "refused", "invalid (hidden) value"),
        (answer(outcome="broken", message="ImportError: x"), "", 0, "broken", "ImportError: x"),
        ("", "", -11, "broken", "its interpreter ended with signal 11"),
        ("", "no module planted-1\n", 1, "broken", "its interpreter ended with status 1: no module (hidden)"),
        ("{}", "", 0, "broken", "its interpreter ended with status 0"),
        ('"x"', "", 0, "broken", "its interpreter ended with status 0"),
        (answer(outcome="maybe"), "", 0, "broken", "its interpreter ended with status 0"),
        (answer(), "", None, "timeout", ""),
    ],
)
def test_answers(stdout, stderr, status, outcome, message):
    found = check.read_answer(stdout, stderr, status, ["planted-1"])
    assert (found["outcome"], found["message"]) == (outcome, message)
    assert "planted-1" not in json.dumps(found)
    assert set(found) == {"outcome", "message", "release", "abbreviations", "output"}


def test_only_the_last_lines_are_kept():
    found = check.read_answer(answer(), "".join(f"line {number}\n\n" for number in range(100)), 0, [])
    assert (len(found["output"]), found["output"][-1]) == (check.OUTPUT_LINES, "line 99")


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("accepted", ["SGLang 0.5.23 takes"]),
        ("refused", ["SGLang 0.5.23 refuses", "bad choice."]),
        ("broken", ["/v/python", "bad choice", "install the release anew"]),
        ("timeout", ["timeout is 7", "allow more"]),
        ("absent", ["/v/python", "no such program", "install the release first"]),
    ],
)
def test_sentences(outcome, words):
    text = check.sentence({"outcome": outcome, "release": "0.5.23", "message": "bad choice."}, "/v/python", 7)
    for word in words:
        assert word in text
