# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found where a host or a process is not as its record says, and what is not taken for that."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import service_store
from ansible_collections.llmfleet.sglang.plugins.module_utils._host.process import process_of
from ansible_collections.llmfleet.sglang.plugins.module_utils._service import drift

UNIT = r"""[Unit]
Description=SGLang service kimi

[Service]
User=sglang
MemoryMax=700G
Environment=PATH=/opt/sglang/bin:/usr/bin
Environment="NOTE=50%% of $HOME"
Environment=HOME=%h
EnvironmentFile=/etc/sglang/kimi.env
ExecStart=/opt/sglang/bin/python -m sglang.launch_server \
    --model-path /srv/models/Kimi-K2.5 \
    --tp-size 8 \
    --hicache-ratio 4.0 \
    --chat-template "50%% $$HOME" \
    --enable-hierarchical-cache
"""
ENVIRONMENT = 'HF_TOKEN="planted-4711"\nNCCL_DEBUG="WARN"\n'
WORDS = [
    "/opt/sglang/bin/python", "-m", "sglang.launch_server", "--model-path", "/srv/models/Kimi-K2.5", "--tp-size", "8",
    "--hicache-ratio", "4.0", "--chat-template", "50% $HOME", "--enable-hierarchical-cache",
]  # fmt: skip
VARIABLES = {
    "PATH": "/opt/sglang/bin:/usr/bin", "NOTE": "50% of $HOME", "HF_TOKEN": "planted-4711", "NCCL_DEBUG": "WARN",
}  # fmt: skip


def told(differences):
    return [(each["setting"], each["recorded"], each["found"]) for each in differences]


def test_the_command_line_and_the_variables_of_a_record_are_what_the_process_gets():
    assert drift.recorded_words(UNIT) == WORDS
    # What systemd replaces (%h) is not known from the text, and not compared.
    assert drift.recorded_variables(UNIT, ENVIRONMENT) == VARIABLES


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(
            "--hicache-ratio 4.0",
            "--hicache-ratio 2.0",
            [("--hicache-ratio", "--hicache-ratio 4.0", "--hicache-ratio 2.0")],
            id="ratio",
        ),
        pytest.param("--tp-size 8 \\\n    ", "", [("--tp-size", "--tp-size 8", None)], id="option-gone"),
        pytest.param(
            "    --enable-hierarchical-cache",
            "    --enable-hierarchical-cache --disable-radix-cache",
            [("--disable-radix-cache", None, "--disable-radix-cache")],
            id="option-added",
        ),
        pytest.param("MemoryMax=700G", "MemoryMax=100G", [("MemoryMax", "700G", "100G")], id="limit"),
        pytest.param("User=sglang", "User=root", [("User", "sglang", "root")], id="account"),
        pytest.param("service kimi", "service of somebody", [], id="words-for-people"),
        pytest.param("[Service]", "# a comment\n[Service]", [], id="comment"),
    ],
)
def test_an_edited_unit_file(old, new, expected):
    assert old in UNIT
    found = drift.file_differences((UNIT, ENVIRONMENT), (UNIT.replace(old, new), ENVIRONMENT))
    assert told(found) == expected
    assert all(each["where"] == "in the unit file" for each in found)


def test_an_edited_environment_file_is_told_without_values():
    found = drift.file_differences((UNIT, ENVIRONMENT), (UNIT, ENVIRONMENT.replace("4711", "4712") + 'NEW="secret"\n'))
    assert [each["setting"] for each in found] == ["HF_TOKEN", "NEW"]
    sentences = " ".join(drift.sentence(each) for each in found)
    assert "planted" not in sentences and "secret" not in sentences
    assert "HF_TOKEN in the environment file is another value (hidden)" in sentences


def test_a_missing_unit_file_is_a_difference():
    assert told(drift.file_differences((UNIT, ENVIRONMENT), ("", ENVIRONMENT))) == [
        ("the unit file", "there", "missing")
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "[Service]\nExecStart=\nExecStart=/opt/python -m sglang.launch_server --hicache-ratio 2.0\n",
            ["ExecStart"],
            id="command",
        ),
        pytest.param("[Service]\nEnvironment=SGLANG_X=planted-1\n", ["Environment"], id="variable"),
        pytest.param("[Service]\nMemoryMax=10G\n", ["MemoryMax"], id="limit"),
        pytest.param("[Service]\nMemoryMax=700G\n", [], id="same-value"),
        pytest.param("[Unit]\nDescription=ours\n", [], id="words-for-people"),
    ],
)
def test_a_drop_in_of_the_unit(text, expected):
    found = drift.drop_in_differences(UNIT, [("/etc/systemd/system/sglang-kimi.service.d/x.conf", text)])
    assert [each["setting"] for each in found] == expected
    for each in found:
        assert "Remove /etc/systemd/system/sglang-kimi.service.d/x.conf" in drift.sentence(each)
        assert "planted" not in drift.sentence(each)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda words: words, [], id="same"),
        pytest.param(
            lambda words: ["2.0" if word == "4.0" else word for word in words],
            [("--hicache-ratio", "4.0", "2.0")],
            id="ratio",
        ),
        pytest.param(lambda words: words[:-1], [("--enable-hierarchical-cache", "given", None)], id="switch-gone"),
        pytest.param(
            lambda words: [*words, "--max-total-tokens=9"], [("--max-total-tokens", None, "9")], id="option-added"
        ),
        pytest.param(
            lambda words: ["/usr/bin/python3", *words[1:]],
            [
                (
                    "the program",
                    "/opt/sglang/bin/python -m sglang.launch_server",
                    "/usr/bin/python3 -m sglang.launch_server",
                )
            ],
            id="program",
        ),
        pytest.param(lambda words: ["sglang::http_server"], [], id="title-in-place-of-arguments"),
        pytest.param(lambda words: ["python -m sglang.launch_server", "", ""], [], id="padded-title"),
    ],
)
def test_the_arguments_of_the_running_process(change, expected):
    assert told(drift.argument_differences(WORDS, change(list(WORDS)))) == expected


def test_a_key_among_the_arguments_is_not_shown():
    recorded = [*WORDS, "--api-key", "planted-4711"]
    found = drift.argument_differences(recorded, [*WORDS, "--api-key", "planted-4712"])
    assert [each["setting"] for each in found] == ["--api-key"]
    assert "planted" not in json.dumps(found)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        pytest.param({}, [], id="same"),
        pytest.param({"INVOCATION_ID": "a" * 32, "LANG": "C.UTF-8", "http_proxy": "x"}, [], id="systemd-and-manager"),
        pytest.param({"NCCL_DEBUG": "INFO"}, ["NCCL_DEBUG"], id="other-value"),
        pytest.param({"HF_TOKEN": None}, ["HF_TOKEN"], id="gone"),
        pytest.param({"SGLANG_HICACHE_X": "1"}, ["SGLANG_HICACHE_X"], id="steers-the-engine"),
        pytest.param({"FORWARDED_ALLOW_IPS": "*"}, ["FORWARDED_ALLOW_IPS"], id="trusts-clients"),
    ],
)
def test_the_variables_of_the_running_process(change, names):
    found = {name: value for name, value in {**VARIABLES, **change}.items() if value is not None}
    differences = drift.variable_differences(VARIABLES, found)
    assert [each["setting"] for each in differences] == names
    assert "planted" not in json.dumps(differences)


def test_what_the_unit_passes_on_clears_or_takes_away():
    unit = UNIT + "PassEnvironment=SGLANG_X\nUnsetEnvironment=NCCL_DEBUG\n"
    found = {name: value for name, value in VARIABLES.items() if name != "NCCL_DEBUG"}
    process = {"arguments": WORDS, "variables": {**found, "SGLANG_X": "1"}}
    assert drift.process_differences((unit, ENVIRONMENT), process) == []
    assert drift.process_differences((UNIT, ENVIRONMENT), process) != []
    # An empty assignment clears the ones before it, for systemd and here.
    cleared = UNIT.replace("Environment=HOME=%h", "Environment=")
    assert "PATH" not in drift.recorded_variables(cleared, ENVIRONMENT)
    told_by_file = drift.file_differences((UNIT, ENVIRONMENT), (cleared, ENVIRONMENT))
    assert {"Environment PATH", "Environment NOTE"} <= {each["setting"] for each in told_by_file}


def test_a_real_process_is_read_and_one_that_is_gone_is_not_judged():
    argv = [sys.executable, "-c", "import sys; print(1, flush=True); sys.stdin.read()", "--tp-size", "8"]
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"SGLANG_X": "1"})
    try:
        # Its arguments are there once it runs.
        child.stdout.readline()
        found = process_of(str(child.pid))
        assert found["arguments"] == argv and found["variables"] == {"SGLANG_X": "1"}
    finally:
        child.communicate()
    gone = {"arguments": None, "variables": None}
    assert process_of(child.pid) == process_of("0") == process_of("") == process_of(None) == gone
    assert drift.process_differences((UNIT, ENVIRONMENT), gone) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(
            WORDS,
            {
                "model_path": "/srv/models/Kimi-K2.5", "tp_size": 8, "hicache_ratio": 4.0,
                "enable_hierarchical_cache": True, "enable_dp_attention": False,
            },
            id="usual",
        ),
        pytest.param(
            ["--tensor-parallel-size=4", "--enable-dp-attention", "--data-parallel-size", "4"],
            {"tp_size": 4, "dp_size": 4, "enable_dp_attention": True, "enable_hierarchical_cache": False},
            id="other-spellings",
        ),
        pytest.param(
            ["--api-key", "planted-4711"],
            {"enable_hierarchical_cache": False, "enable_dp_attention": False},
            id="keys-left-out",
        ),
        pytest.param(
            ["--tp-size", "4", "--tp-size", "8", "--served-model-name", "infinity", "--revision", "1234567e890"],
            {
                "tp_size": 8, "served_model_name": "infinity", "revision": "1234567e890",
                "enable_hierarchical_cache": False, "enable_dp_attention": False,
            },
            id="last-one-counts-and-words-are-no-numbers",
        ),
        pytest.param(
            ["--attn-dp-size", "8", "--json-model-override-args", "x" * 5000, "--tool-call-parser", "glm45"],
            {"enable_hierarchical_cache": False},
            id="what-an-engine-rewrites-is-not-asked-for",
        ),
    ],
)  # fmt: skip
def test_what_the_arguments_of_a_start_have_to_show(words, expected):
    assert drift.expected_settings(words) == expected


@pytest.fixture
def store(tmp_path):
    """The store of a service whose configuration A runs and is on disk, and B is kept beside it."""
    made = service_store.Store(str(tmp_path / "etc"), "kimi", str(tmp_path / "units"))
    os.makedirs(tmp_path / "units")
    for one, text in (("a-11111111", UNIT), ("b-22222222", UNIT.replace("ratio 4.0", "ratio 2.0"))):
        made.add(one, text, ENVIRONMENT, {}, None)
    made.write_state({**service_store.empty_state(), "active": "a-11111111"})
    made.make_active("a-11111111", None)
    return made


def test_a_host_that_is_as_recorded(store):
    assert drift.host_differences(store, {}, "a-11111111") == []


@pytest.mark.parametrize("name", ["sglang-kimi.service.d", "sglang-.service.d"])
def test_only_drop_ins_that_are_meant_for_the_unit_count(store, tmp_path, name):
    own, all_services = tmp_path / name, tmp_path / "service.d"
    for folder in (own, all_services):
        folder.mkdir()
        (folder / "x.conf").write_text("[Service]\nUser=root\n")
    shown = {"DropInPaths": f"{all_services}/x.conf {own}/x.conf"}
    assert [each["where"] for each in drift.host_differences(store, shown, "a-11111111")] == [f"in {own}/x.conf"]


def test_files_are_those_of_the_next_start_and_the_process_is_that_of_its_own(store, monkeypatch):
    """A restart is outstanding: the files are those of A, and what runs was started with B."""
    words = ["2.0" if word == "4.0" else word for word in WORDS]
    monkeypatch.setattr(drift, "process_of", lambda _pid: {"arguments": words, "variables": None})
    assert drift.host_differences(store, {"MainPID": "7"}, "b-22222222") == []
    assert [each["setting"] for each in drift.host_differences(store, {"MainPID": "7"}, "a-11111111")] == [
        "--hicache-ratio"
    ]
