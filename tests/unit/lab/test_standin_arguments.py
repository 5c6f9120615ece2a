# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in takes and refuses the command lines that the imitated release takes and refuses."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from ansible_collections.llmfleet.sglang.tests.lab.standin import harness, make_argument_table

KIMI_LINE = (
    "--model-path /m --tp 8 --trust-remote-code --mem-fraction-static 0.88 --tool-call-parser kimi_k2 "
    "--reasoning-parser kimi_k2 --speculative-algorithm EAGLE3 --speculative-num-steps 3 --speculative-eagle-topk 1 "
    "--speculative-num-draft-tokens 4 --speculative-draft-model-path /d --enable-hierarchical-cache "
    "--hicache-ratio 4.0 --hicache-write-policy write_through --hicache-io-backend kernel --enable-metrics "
    "--served-model-name kimi-k2.5 --host 127.0.0.1 --port 30000 --watchdog-timeout 300"
)
PROBE = (
    "import json, sys; from sglang.arguments import parse; print(json.dumps(vars(parse(sys.argv[1:])), default=str))"
)


@pytest.fixture(scope="module")
def trees(tmp_path_factory):
    directory = tmp_path_factory.mktemp("standin")
    return {name: harness.unpack(f"{name}+standin", directory) for name in ("0.5.9", "0.5.16", "0.5.17", "0.5.23")}


def parse(tree, words):
    """Run the parser in a process of its own: (status, parsed arguments or None, stderr)."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words],
        env={"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout) if done.returncode == 0 else None, done.stderr


@pytest.mark.parametrize("release", ["0.5.9", "0.5.16", "0.5.23"])
def test_kimi_line_is_accepted(trees, release):
    status, args, problem = parse(trees[release], KIMI_LINE.split())
    assert status == 0, problem
    assert (args["tp_size"], args["hicache_ratio"], args["enable_hierarchical_cache"]) == (8, 4.0, True)
    assert args["speculative_draft_model_path"] == "/d"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("--model-path /m --hicache-ratoi 2", "unrecognized arguments: --hicache-ratoi 2"),
        ("--model-path /m --hicache-write-policy writethrough", "argument --hicache-write-policy: invalid choice"),
        ("--model-path /m --hicache-io-backend gpu", "argument --hicache-io-backend: invalid choice"),
        ("--model-path /m --hicache-ratio four", "argument --hicache-ratio: invalid float value: 'four'"),
        ("--model-path /m --hicache-size 44.77", "argument --hicache-size: invalid int value: '44.77'"),
        ("--model-path /m --tp-size eight", "invalid int value: 'eight'"),
        ("--model-path /m --tool-call-parser kimi", "argument --tool-call-parser: invalid choice"),
        ("--model-path /m --forward-hooks {", "argument --forward-hooks: Invalid JSON list: {."),
        ("--tp 2", "the following arguments are required: --model-path"),
    ],
)
@pytest.mark.parametrize("release", ["0.5.16", "0.5.23"])
def test_bad_words_leave_with_status_2(trees, release, words, text):
    status, _args, problem = parse(trees[release], words.split())
    assert status == 2
    assert text in problem


@pytest.mark.parametrize(
    ("release", "words", "status"),
    [
        ("0.5.9", "--speculative-algorithm EAGLE9", 2),  # a list of names until 0.5.11, free text after
        ("0.5.23", "--speculative-algorithm EAGLE9", 0),
        ("0.5.16", "--cuda-graph-max-bs 8", 0),
        ("0.5.23", "--cuda-graph-max-bs 8", 2),  # gone, and now the beginning of two flags
        ("0.5.16", "--enable-hicache", 2),
        ("0.5.23", "--enable-hicache", 0),
        ("0.5.16", "--hicache-host-memory-fraction 0.8", 2),
        ("0.5.23", "--hicache-host-memory-fraction 0.8", 0),
        ("0.5.16", "--hicache-rat 3", 0),
    ],
)
def test_flags_by_release(trees, release, words, status):
    found, _args, problem = parse(trees[release], ["--model-path", "/m", *words.split()])
    assert found == status, problem


def test_defaults_follow_the_release(trees):
    old = parse(trees["0.5.16"], ["--model", "/m"])[1]
    new = parse(trees["0.5.23"], ["--model", "/m"])[1]
    assert (old["hicache_ratio"], new["hicache_ratio"]) == (2.0, None)
    assert (old["port"], old["host"], old["hicache_mem_layout"]) == (30000, "127.0.0.1", "page_first")


def test_numbers_with_suffixes(trees):
    assert parse(trees["0.5.23"], ["--model", "/m", "--max-total-tokens", "40k"])[1]["max_total_tokens"] == 40000
    assert parse(trees["0.5.23"], ["--model", "/m", "--max-total-tokens", "4Ki"])[1]["max_total_tokens"] == 4096
    assert parse(trees["0.5.23"], ["--model", "/m", "--max-total-tokens", "1.5Ki"])[0] == 2
    assert parse(trees["0.5.9"], ["--model", "/m", "--max-total-tokens", "40k"])[0] == 2


def test_config_file(trees, tmp_path):
    config = tmp_path / "serve.yaml"
    config.write_text(
        "# settings\nmodel-path: /from/file\ntp-size: 4\nenable-hierarchical-cache: true\nenable-metrics: false\n"
        'api-key: "a # b"\nuvicorn-access-log-exclude-prefixes:\n  - /metrics\n  - /health\n'
    )
    status, args, problem = parse(trees["0.5.23"], ["--config", str(config), "--tp-size", "8"])
    assert status == 0, problem
    assert (args["model_path"], args["tp_size"]) == ("/from/file", 8), "the line itself wins over the file"
    assert (args["enable_hierarchical_cache"], args["enable_metrics"]) == (True, False)
    assert args["uvicorn_access_log_exclude_prefixes"] == ["/metrics", "/health"]
    config.write_text("model-path: /m\nhicache-ratoi: 4.0\n")
    status, _args, problem = parse(trees["0.5.23"], ["--config", str(config)])
    assert (status, "unrecognized arguments: --hicache-ratoi 4.0" in problem) == (2, True)


def test_help_says_what_this_is(trees):
    done = subprocess.run(
        [sys.executable, "-m", "sglang.launch_server", "--help"],
        env={"PYTHONPATH": str(trees["0.5.23"])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert "stand-in" in done.stdout
    assert "--hicache-write-policy {write_back,write_through,write_through_selective}" in done.stdout


def test_table_keeps_history():
    entry = {
        "action": "Store",
        "choices": None,
        "default": "2.0",
        "dest": "x",
        "flags": ["--x"],
        "nargs": None,
        "required": False,
        "type": "float",
    }
    tables = {"0.5.10": {"--x": {**entry, "default": "None"}}, "0.5.9": {"--x": entry}, "0.5.11": {}}
    releases, flags = make_argument_table.build(tables)
    assert releases == ["0.5.9", "0.5.10", "0.5.11"]
    assert flags["--x"] == [
        ["0.5.9", {"default": 2.0, "type": "float"}],
        ["0.5.10", {"type": "float"}],
        ["0.5.11", None],
    ]
