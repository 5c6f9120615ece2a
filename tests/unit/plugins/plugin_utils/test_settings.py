# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line and environment that typed settings make, from the role's own defaults."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import engine_arguments as table
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import settings as subject

ROLE = Path(__file__).resolve().parents[4] / "roles" / "serve"

KIMI_LINE = """
    --model-path /srv/models/Kimi-K2.5 --served-model-name kimi-k2.5 --host 127.0.0.1 --port 30000 --tp-size 8
    --trust-remote-code --mem-fraction-static 0.88
    --speculative-algorithm EAGLE3 --speculative-draft-model-path /srv/models/kimi-k2.5-eagle3
    --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4
    --enable-hierarchical-cache --hicache-ratio 4.0 --hicache-write-policy write_through --hicache-io-backend kernel
    --tool-call-parser kimi_k2 --reasoning-parser kimi_k2 --enable-metrics --log-level info
"""
KIMI_ARGV = KIMI_LINE.split()


def kimi(**changes):
    """Return the settings of the role's defaults, with the values that come from other roles filled in."""
    defaults = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())
    names = {setting.name for setting in subject.SETTINGS}
    settings = {name[len("serve_") :]: value for name, value in defaults.items() if name[len("serve_") :] in names}
    settings["model_path"] = "/srv/models/Kimi-K2.5"
    settings["draft_model_path"] = "/srv/models/kimi-k2.5-eagle3"
    settings.update(changes)
    return settings


def test_the_role_gives_every_setting_and_no_other():
    names = {setting.name for setting in subject.SETTINGS}
    given = yaml.safe_load((ROLE / "vars" / "main" / "settings.yml").read_text())["__serve_common"]
    defaults = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())
    assert names <= set(given)
    assert {name: f"{{{{ serve_{name} }}}}" for name in given} == given
    assert {f"serve_{name}" for name in given} == set(defaults) - {"serve_instances"}


@pytest.mark.parametrize("release", ["0.5.10.post1", "0.5.13", "0.5.23"])
def test_the_defaults_are_kimi_on_eight_gpus(release):
    assert subject.engine_argv(kimi(), release) == KIMI_ARGV


@pytest.mark.parametrize("release", table.known_releases())
def test_every_release_takes_the_defaults(release):
    assert table.argv_findings(subject.engine_argv(kimi(), release), release) == []


@pytest.mark.parametrize(
    ("changes", "gone", "new"),
    [
        ({"hicache_enabled": False}, "hierarchical-cache hicache", []),
        ({"speculative_enabled": False}, "speculative", []),
        ({"hicache_ratio": None, "hicache_size": 45}, "hicache-ratio", ["--hicache-size", "45"]),
        ({"trust_remote_code": False, "metrics_enabled": False}, "trust-remote metrics", []),
        ({"tool_call_parser": None, "reasoning_parser": ""}, "parser", []),
        ({"page_size": 64}, "", ["--page-size", "64"]),
        ({"max_total_tokens": 40000}, "", ["--max-total-tokens", "40000"]),
        ({"attention_backend": "triton"}, "", ["--attention-backend", "triton"]),
        ({"hicache_mem_layout": "layer_first"}, "", ["--hicache-mem-layout", "layer_first"]),
        ({"kv_cache_dtype": "fp8_e4m3"}, "", ["--kv-cache-dtype", "fp8_e4m3"]),
    ],
)
def test_switches_and_single_settings(changes, gone, new):
    argv = subject.engine_argv(kimi(**changes), "0.5.23")
    for part in gone.split():
        assert not [word for word in argv if word.startswith("--") and part in word]
    if new:
        position = argv.index(new[0])
        assert argv[position : position + 2] == new
    assert table.argv_findings(argv, "0.5.23") == []


def test_engine_options_follow_in_the_order_of_their_names():
    options = {"stream-interval": 0, "context-length": 131072, "disable-custom-all-reduce": True, "quantization": None}
    argv = subject.engine_argv(kimi(engine_options=options), "0.5.23")
    assert argv[: len(KIMI_ARGV)] == KIMI_ARGV
    assert argv[len(KIMI_ARGV) :] == [
        "--context-length",
        "131072",
        "--disable-custom-all-reduce",
        "--stream-interval",
        "0",
    ]
    assert argv == subject.engine_argv(kimi(engine_options=dict(reversed(options.items()))), "0.5.23")


def test_a_json_option_is_one_word_where_the_release_reads_json():
    settings = kimi(engine_options={"forward-hooks": [{"name": "a"}]})
    assert subject.engine_argv(settings, "0.5.23")[-1] == '[{"name":"a"}]'


def test_a_release_that_is_not_known_still_has_a_command_line():
    assert subject.engine_argv(kimi(), "0.9.0") == KIMI_ARGV


def test_extra_variables_are_text_and_mean_the_same():
    text = {
        "port": "30000",
        "tensor_parallel_size": " 8 ",
        "mem_fraction_static": "0.88",
        "hicache_ratio": "4",
        "hicache_enabled": "True",
        "page_size": "",
    }
    assert subject.engine_argv(kimi(**text), "0.5.23") == KIMI_ARGV
    off = subject.engine_argv(kimi(hicache_enabled="false", speculative_enabled="no"), "0.5.23")
    assert not [word for word in off if "hi" in word.partition("--")[2][:2] or "speculative" in word]


@pytest.mark.parametrize(
    ("release", "environment"),
    [
        ("0.5.8", {}),
        ("0.5.9", {"SGLANG_ENABLE_SPEC_V2": "1"}),
        ("0.5.10.post1", {"SGLANG_ENABLE_SPEC_V2": "1"}),
        ("0.5.13", {"SGLANG_ENABLE_SPEC_V2": "1"}),
        ("0.5.13.post1", {"SGLANG_ENABLE_SPEC_V2": "1"}),
        ("0.5.14", {}),
        ("0.5.23", {}),
        ("main", {}),
    ],
)
def test_the_switch_of_the_overlapped_scheduler(release, environment):
    assert subject.engine_environment(kimi(), release) == environment
    assert subject.engine_environment({**kimi(), "speculative_algorithm": "NEXTN"}, release) == environment


@pytest.mark.parametrize(
    "changes",
    [{"speculative_enabled": False}, {"speculative_eagle_topk": 2}, {"speculative_algorithm": "NGRAM"}],
)
def test_the_switch_stays_away_where_the_release_would_refuse_it(changes):
    assert subject.engine_environment(kimi(**changes), "0.5.10.post1") == {}


def test_settings_are_not_changed():
    settings = kimi(engine_options={"context-length": 1})
    before = repr(settings)
    subject.engine_argv(settings, "0.5.23")
    assert repr(settings) == before
