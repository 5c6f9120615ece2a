# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every setting that must be refused or remarked on, and that fitting ones are not."""

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import engine_arguments as table
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import settings_instances
from ansible_collections.llmfleet.sglang.plugins.plugin_utils._settings import vllm_words
from ansible_collections.llmfleet.sglang.plugins.plugin_utils.settings import SETTINGS
from ansible_collections.llmfleet.sglang.plugins.plugin_utils.settings_problems import settings_problems

KIMI = {
    "name": "kimi",
    "model_path": "/srv/models/Kimi-K2.5",
    "draft_model_path": "/srv/models/kimi-k2.5-eagle3",
    "served_model_name": "kimi-k2.5",
    "trust_remote_code": True,
    "host": "127.0.0.1",
    "port": 30000,
    "tensor_parallel_size": 8,
    "mem_fraction_static": 0.88,
    "speculative_enabled": True,
    "speculative_algorithm": "EAGLE3",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
    "hicache_enabled": True,
    "hicache_ratio": 4.0,
    "hicache_size": None,
    "hicache_write_policy": "write_through",
    "hicache_io_backend": "kernel",
    "tool_call_parser": "kimi_k2",
    "reasoning_parser": "kimi_k2",
    "metrics_enabled": True,
    "log_level": "info",
    "restart_seconds": 60,
    "stop_timeout_seconds": 300,
    "engine_options": {},
    "environment": {},
    "unit_directives": {},
}


def problems(release="0.5.23", **changes):
    return settings_problems(dict(KIMI, **changes), release)


def option(name, value=True):
    return {"engine_options": {name: value}}


def directive(name, value, section="Service"):
    return {"unit_directives": {section: {name: value}}}


# Settings, release, the variable named, and words that the message must hold.
ERRORS = [
    # Numbers.
    ({"tensor_parallel_size": 0}, "0.5.23", "serve_tensor_parallel_size", ["is 0", "at least 1 GPU", "8 for Kimi"]),
    ({"tensor_parallel_size": -8}, "0.5.23", "serve_tensor_parallel_size", ["is -8"]),
    ({"tensor_parallel_size": None}, "0.5.23", "serve_tensor_parallel_size", ["at least 1 GPU"]),
    ({"tensor_parallel_size": 2.5}, "0.5.23", "serve_tensor_parallel_size", ["is 2.5", "whole number"]),
    ({"tensor_parallel_size": "eight"}, "0.5.23", "serve_tensor_parallel_size", ['"eight"', "whole number"]),
    ({"tensor_parallel_size": True}, "0.5.23", "serve_tensor_parallel_size", ["whole number"]),
    ({"mem_fraction_static": 0}, "0.5.23", "serve_mem_fraction_static", ["between 0 and 1", "0.88"]),
    ({"mem_fraction_static": 1.0}, "0.5.23", "serve_mem_fraction_static", ["between 0 and 1"]),
    ({"mem_fraction_static": 88}, "0.5.23", "serve_mem_fraction_static", ["between 0 and 1"]),
    ({"mem_fraction_static": "nan"}, "0.5.23", "serve_mem_fraction_static", ["must be a number"]),
    ({"page_size": 0}, "0.5.23", "serve_page_size", ["at least 1", "null"]),
    ({"page_size": -64}, "0.5.23", "serve_page_size", ["at least 1"]),
    ({"max_total_tokens": 0}, "0.5.23", "serve_max_total_tokens", ["at least 1"]),
    ({"restart_seconds": -1}, "0.5.23", "serve_restart_seconds", ["at least 0"]),
    ({"stop_timeout_seconds": 0}, "0.5.23", "serve_stop_timeout_seconds", ["at least 1"]),
    # Addresses.
    ({"port": 0}, "0.5.23", "serve_port", ["not a TCP port", "30000"]),
    ({"port": 65536}, "0.5.23", "serve_port", ["not a TCP port"]),
    ({"port": None}, "0.5.23", "serve_port", ["not a TCP port"]),
    ({"port": 1}, "0.5.23", "serve_port", ["below 1024"]),
    ({"port": 443}, "0.5.23", "serve_port", ["below 1024", "gateway"]),
    ({"host": ""}, "0.5.23", "serve_host", ["no address"]),
    ({"host": "127.0.0.1 --api-key x"}, "0.5.23", "serve_host", ["no address"]),
    # The unit's name.
    ({"name": "a/b"}, "0.5.23", "serve_name", ['"a/b"', "sglang-a/b.service", "such as kimi"]),
    ({"name": "-a"}, "0.5.23", "serve_name", ["beginning with a letter or digit"]),
    ({"name": "..", "model_path": "/m"}, "0.5.23", "serve_name", ["cannot be part"]),
    ({"name": "a b"}, "0.5.23", "serve_name", ["cannot be part"]),
    ({"name": "a@b"}, "0.5.23", "serve_name", ["cannot be part"]),
    ({"name": "a:b"}, "0.5.23", "serve_name", ["cannot be part"]),
    ({"name": "a%h"}, "0.5.23", "serve_name", ["cannot be part"]),
    ({"name": "größe"}, "0.5.23", "serve_name", ["cannot be part"]),
    ({"name": ""}, "0.5.23", "serve_name", ["needs a name"]),
    ({"name": "kimi.service"}, "0.5.23", "serve_name", ["write kimi"]),
    ({"name": "k" * 241}, "0.5.23", "serve_name", ["241 characters", "240"]),
    # Paths.
    ({"model_path": "moonshotai/Kimi-K2.5"}, "0.5.23", "serve_model_path", ["absolute path"]),
    ({"model_path": ""}, "0.5.23", "serve_model_path", ["absolute path"]),
    ({"model_path": "/home/me/Kimi"}, "0.5.23", "serve_model_path", ["ProtectHome hides", "ProtectHome: false"]),
    ({"model_path": "/root/../root/Kimi"}, "0.5.23", "serve_model_path", ["ProtectHome hides"]),
    ({"model_path": "/tmp/Kimi"}, "0.5.23", "serve_model_path", ["PrivateTmp hides"]),
    ({"draft_model_path": "draft-eagle3"}, "0.5.23", "serve_draft_model_path", ["absolute path"]),
    # Speculation.
    (
        {"draft_model_path": ""},
        "0.5.23",
        "serve_draft_model_path",
        ["EAGLE3 needs a draft", "serve_speculative_enabled"],
    ),
    ({"speculative_algorithm": None}, "0.5.23", "serve_speculative_algorithm", ["without an algorithm"]),
    ({"speculative_algorithm": "EAGLE"}, "0.5.23", "serve_speculative_algorithm", ["EAGLE-3", "set it to EAGLE3"]),
    ({"speculative_algorithm": "EAGLE9"}, "0.5.9", "serve_speculative_algorithm", ["not a choice of SGLang 0.5.9"]),
    (
        {"speculative_num_draft_tokens": 6},
        "0.5.23",
        "serve_speculative_num_draft_tokens",
        ["is 6", "serve_speculative_num_steps 3", "set it to 4", "serve_speculative_num_steps to 5"],
    ),
    ({"speculative_eagle_topk": None}, "0.5.23", "serve_speculative_eagle_topk", ["all three or none"]),
    ({"speculative_num_steps": 0}, "0.5.23", "serve_speculative_num_steps", ["at least 1"]),
    ({}, "0.5.9", "serve_release", ["EAGLE-3 hooks", "0.5.10.post1", "serve_speculative_enabled"]),
    # HiCache.
    ({"hicache_ratio": -1}, "0.5.23", "serve_hicache_ratio", ["is -1.0", "above 0", "4.0"]),
    ({"hicache_ratio": 0}, "0.5.23", "serve_hicache_ratio", ["above 0"]),
    ({"hicache_ratio": "four"}, "0.5.23", "serve_hicache_ratio", ["must be a number"]),
    ({"hicache_ratio": "inf"}, "0.5.23", "serve_hicache_ratio", ["must be a number"]),
    ({"hicache_ratio": 1.0}, "0.5.14", "serve_hicache_ratio", ["larger than the device pool", "refuses"]),
    ({"hicache_size": 45}, "0.5.23", "serve_hicache_size", ["serve_hicache_ratio is 4.0 as well", "null"]),
    ({"hicache_ratio": None}, "0.5.23", "serve_hicache_ratio", ["neither a ratio nor a size", "serve_hicache_size"]),
    ({"hicache_ratio": None, "hicache_size": 44.77}, "0.5.23", "serve_hicache_size", ["is 44.77", "whole number"]),
    ({"hicache_ratio": None, "hicache_size": 0}, "0.5.23", "serve_hicache_size", ["1 or more"]),
    ({"hicache_write_policy": "through"}, "0.5.23", "serve_hicache_write_policy", ["write_through"]),
    ({"hicache_io_backend": "gpu"}, "0.5.23", "serve_hicache_io_backend", ["not a choice", "kernel"]),
    ({"hicache_mem_layout": "foo"}, "0.5.23", "serve_hicache_mem_layout", ["not a choice"]),
    (option("disable-radix-cache"), "0.5.10", "serve_engine_options['disable-radix-cache']", ["serve_hicache_enabled"]),
    (option("enable-lmcache"), "0.5.23", "serve_engine_options['enable-lmcache']", ["hierarchical cache is on"]),
    (
        option("enable-unified-cache-external-linker"),
        "0.5.23",
        "serve_engine_options['enable-unified-cache-external-linker']",
        ["hierarchical cache is on"],
    ),
    (option("enable-unified-memory"), "0.5.23", "serve_engine_options['enable-unified-memory']", ["EAGLE"]),
    (option("dcp-size", 2), "0.5.23", "serve_engine_options['dcp-size']", ["DSPARK"]),
    (
        {"hicache_enabled": False, **{"engine_options": {"enable-lmcache": True, "disable-radix-cache": True}}},
        "0.5.23",
        "serve_engine_options['enable-lmcache']",
        ["disable-radix-cache"],
    ),
    (
        {"speculative_enabled": False, "engine_options": {"dcp-size": 2, "enable-hisparse": True}},
        "0.5.23",
        "serve_engine_options['enable-hisparse']",
        ["dcp-size above 1"],
    ),
    (
        option("hicache-host-memory-mode", "buffer_only"),
        "0.5.23",
        "serve_engine_options['hicache-host-memory-mode']",
        ["add hicache-storage-backend"],
    ),
    (
        {
            "speculative_enabled": False,
            "engine_options": {
                "dcp-size": 2,
                "hicache-host-memory-mode": "buffer_only",
                "hicache-storage-backend": "file",
            },
        },
        "0.5.23",
        "serve_engine_options['hicache-host-memory-mode']",
        ["dcp-size above 1"],
    ),
    (
        {
            "speculative_eagle_topk": 4,
            "speculative_num_draft_tokens": 16,
            "page_size": 64,
            "attention_backend": "trtllm_mla",
        },
        "0.5.23",
        "serve_speculative_eagle_topk",
        ["is 4", "here 64", "trtllm_mla", "flashinfer"],
    ),
    (
        {"speculative_eagle_topk": 4, "speculative_num_draft_tokens": 16, "attention_backend": "cutlass_mla"},
        "0.5.13",
        "serve_speculative_eagle_topk",
        ["here 128"],
    ),
    # Speculation without a draft model: whose draft layers would it be?
    *[
        (
            {"speculative_algorithm": algorithm, "draft_model_path": draft, **model},
            "0.5.23",
            "serve_draft_model_path",
            words,
        )
        for algorithm, draft, model, words in [
            ("EAGLE", None, {}, ["is null", "EAGLE without a draft", "this model has none"]),
            ("NEXTN", "", {"model_path": "/srv/models/Kimi-K2-Instruct", "served_model_name": "k"}, ["has none"]),
            ("EAGLE", "/srv/models/Kimi-K2.5/", {}, ['is "/srv/models/Kimi-K2.5/"', "this model has none"]),
            ("EAGLE", None, {"model_path": "/m/DeepSeek-R1-Distill-Qwen-7B", "served_model_name": None}, ["has none"]),
            ("EAGLE3", None, {"model_path": "/m/GLM-4.7", "served_model_name": None}, ["EAGLE3 needs a draft model"]),
            ("EAGLE3", "/srv/models/Kimi-K2.5", {}, ["of its own", "the target's folder"]),
            ("STANDALONE", None, {"model_path": "/m/DeepSeek-V3.1"}, ["STANDALONE needs a draft", "in silence"]),
            ("DFLASH", None, {"model_path": "/m/Qwen3-8B"}, ["DFLASH needs a draft", "refuse to start"]),
        ]
    ],
    ({"speculative_algorithm": "NEXTN"}, "0.5.23", "serve_speculative_algorithm", ["EAGLE-3 one", "under NEXTN"]),
    ({"speculative_algorithm": "eagle3"}, "0.5.23", "serve_speculative_algorithm", ['is "eagle3"', "write EAGLE3"]),
    ({"speculative_algorithm": "deepseek_mtp"}, "0.5.13", "serve_speculative_algorithm", ["write EAGLE"]),
    ({"speculative_algorithm": "draft_model"}, "0.5.23", "serve_speculative_algorithm", ["write STANDALONE"]),
    ({"speculative_algorithm": "eagle"}, "0.5.11", "serve_speculative_algorithm", ["write EAGLE if"]),
    (
        {"speculative_algorithm": "NEXTN", "draft_model_path": "/m/d", "speculative_num_draft_tokens": 6},
        "0.5.23",
        "serve_speculative_num_draft_tokens",
        ["set it to 4"],
    ),
    # Choices by release.
    ({"reasoning_parser": "kimi_k3"}, "0.5.16", "serve_reasoning_parser", ["known from 0.5.17 on", "kimi_k2"]),
    ({"tool_call_parser": "kimi"}, "0.5.23", "serve_tool_call_parser", ["not a choice"]),
    ({"kv_cache_dtype": "fp8"}, "0.5.10", "serve_kv_cache_dtype", ["fp8_e4m3"]),
    ({"attention_backend": "cutlass_mla"}, "0.5.20", "serve_attention_backend", ["known up to 0.5.19"]),
    # Other options.
    (option("hicache-ratoi", 4), "0.5.23", "serve_engine_options['hicache-ratoi']", ["write hicache-ratio if"]),
    (option("contxt-length", 4), "0.5.23", "serve_engine_options['contxt-length']", ["write context-length if"]),
    (option("context-len", 4), "0.5.23", "serve_engine_options['context-len']", ["abbreviation", "context-length"]),
    (option("context_length", 4), "0.5.23", "serve_engine_options['context_length']", ["write context-length"]),
    (option("--context-length", 4), "0.5.23", "serve_engine_options['--context-length']", ["no leading dashes"]),
    (option("cuda-graph-max-bs", 4), "0.5.23", "serve_engine_options['cuda-graph-max-bs']", ["known up to 0.5.19"]),
    (
        option("hicache-host-memory-fraction", 0.5),
        "0.5.20",
        "serve_engine_options['hicache-host-memory-fraction']",
        ["known from 0.5.21 on"],
    ),
    (option("context-length", "12x"), "0.5.23", "serve_engine_options['context-length']", ["128k"]),
    (option("stream-interval", "a"), "0.5.23", "serve_engine_options['stream-interval']", ["whole number"]),
    (option("load-format", "zip"), "0.5.23", "serve_engine_options['load-format']", ["not a choice"]),
    (option("skip-server-warmup", 1), "0.5.23", "serve_engine_options['skip-server-warmup']", ["takes none"]),
    (option("tp-size", 4), "0.5.23", "serve_engine_options['tp-size']", ["repeats serve_tensor_parallel_size"]),
    (
        option("tensor-parallel-size", 4),
        "0.5.10",
        "serve_engine_options['tensor-parallel-size']",
        ["repeats serve_tensor_parallel_size"],
    ),
    (option("model", "/m"), "0.5.23", "serve_engine_options['model']", ["repeats serve_model_path"]),
    (option("--log_level", "info"), "0.5.23", "serve_engine_options['--log_level']", ["repeats serve_log_level"]),
    (option("enable-hicache"), "0.5.23", "serve_engine_options['enable-hicache']", ["repeats serve_hicache_enabled"]),
    (option("tp", 4), "0.5.23", "serve_engine_options['tp']", ["short for", "repeats serve_tensor_parallel_size"]),
    (option("hicache-rat", 2), "0.5.23", "serve_engine_options['hicache-rat']", ["repeats serve_hicache_ratio"]),
    (
        option("hicache-s", 2),
        "0.5.23",
        "serve_engine_options['hicache-s']",
        ["the beginning of several", "hicache-size", "hicache-storage-backend"],
    ),
    (
        option("cuda-graph-max-bs", 4),
        "0.5.20",
        "serve_engine_options['cuda-graph-max-bs']",
        ["beginning of several", "cuda-graph-max-bs-decode", "known up to 0.5.19", "0.5.9 to 0.5.19"],
    ),
    (option("disable-custom", True), "0.5.23", "serve_engine_options['disable-custom']", ["disable-custom-all-reduce"]),
    (option("lora-p", ["a"]), "0.5.23", "serve_engine_options['lora-p']", ["abbreviation", "lora-paths"]),
    (
        option("hicache-storage-backend-extra", {"a": 1}),
        "0.5.23",
        "serve_engine_options['hicache-storage-backend-extra']",
        ["abbreviation", "write hicache-storage-backend-extra-config"],
    ),
    (option("help"), "0.5.23", "serve_engine_options['help']", ["starts no server"]),
    (option("config", "/etc/a.json"), "0.5.23", "serve_engine_options['config']", ["YAML"]),
    (option("config", "a.yaml"), "0.5.23", "serve_engine_options['config']", ["absolute path"]),
    (
        option("soft-watchdog-timeout", float("inf")),
        "0.5.23",
        "serve_engine_options['soft-watchdog-timeout']",
        ["finite"],
    ),
    (option("api-k", "planted"), "0.5.23", "serve_engine_options['api-k']", ["(hidden)", "journal"]),
    (option("apikey", "planted"), "0.5.23", "serve_engine_options['apikey']", ["(hidden)", "journal"]),
    (option("api-key", "planted"), "0.5.23", "serve_engine_options['api-key']", ["journal", "ps", "gateway"]),
    (option("admin-api-key", "planted"), "0.5.23", "serve_engine_options['admin-api-key']", ["(hidden)"]),
    (option("--api_key", "planted"), "0.5.23", "serve_engine_options['--api_key']", ["(hidden)"]),
    (option("chat-template", "a\nb"), "0.5.23", "serve_engine_options['chat-template']", ["line break"]),
    (option("lora-paths", ["a", "b\n"]), "0.5.23", "serve_engine_options['lora-paths']", ["line break"]),
    ({"engine_options": ["context-length"]}, "0.5.23", "serve_engine_options", ["must be a mapping"]),
    ({"engine_options": "--context-length 8"}, "0.5.23", "serve_engine_options", ["must be a mapping"]),
    # Text that a unit cannot carry.
    ({"served_model_name": "a\nb"}, "0.5.23", "serve_served_model_name", ["line break"]),
    ({"model_path": "/srv/a\rb"}, "0.5.23", "serve_model_path", ["line break"]),
    ({"served_model_name": "\x1b[0m"}, "0.5.23", "serve_served_model_name", ["control character"]),
    ({"metrics_enabled": "maybe"}, "0.5.23", "serve_metrics_enabled", ["true or false"]),
    # Environment.
    ({"environment": {"A": "x\ny"}}, "0.5.23", "serve_environment['A']", ["line break"]),
    ({"environment": {"A-B": "x"}}, "0.5.23", "serve_environment['A-B']", ["no name"]),
    ({"environment": {"A": True}}, "0.5.23", "serve_environment['A']", ["in quotes"]),
    ({"environment": "A=planted"}, "0.5.23", "serve_environment", ["must be a mapping"]),
    (
        {"environment": {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64, expandable_segments: True"}},
        "0.5.23",
        "serve_environment['PYTORCH_CUDA_ALLOC_CONF']",
        ["all-reduce", "disable-custom-all-reduce"],
    ),
    (
        {"tensor_parallel_size": 2, "environment": {"PYTORCH_ALLOC_CONF": "expandable_segments:true"}},
        "0.5.23",
        "serve_environment['PYTORCH_ALLOC_CONF']",
        ["all-reduce"],
    ),
    # Evidence.
    ({"log_level": "warning"}, "0.5.23", "serve_log_level", ["level info", "serve_verification_expected"]),
    ({"log_level": "ERROR"}, "0.5.23", "serve_log_level", ["level info"]),
    ({"log_level": "warn"}, "0.5.23", "serve_log_level", ["no level", "debug, info"]),
    ({"log_level": "notice", "verification_expected": False}, "0.5.23", "serve_log_level", ["no level"]),
    (
        {
            "speculative_eagle_topk": 4,
            "speculative_num_draft_tokens": 16,
            "hicache_enabled": False,
            "environment": {"SGLANG_ENABLE_SPEC_V2": "1"},
        },
        "0.5.10.post1",
        "serve_environment['SGLANG_ENABLE_SPEC_V2']",
        ["topk above 1", "serve_speculative_eagle_topk"],
    ),
    (
        {"environment": {"SGLANG_LOGGING_CONFIG_PATH": "/x"}},
        "0.5.23",
        "serve_environment['SGLANG_LOGGING_CONFIG_PATH']",
        ["replaces the lines"],
    ),
    # The release.
    ({"release_check_enabled": False}, "0.5.8.post1", "serve_release", ["no Kimi-K2.5", "0.5.10.post1"]),
    ({}, "0.5.8.post1", "serve_release", ["0.5.9 to 0.5.23", "serve_release_check_enabled"]),
    ({}, "0.5.24", "serve_release", ["0.5.9 to 0.5.23", "serve_release_check_enabled"]),
    ({}, "", "serve_release", ["0.5.9 to 0.5.23"]),
    # Directives.
    (directive("ExecStart", "/bin/true"), "0.5.23", "serve_unit_directives['Service.ExecStart']", ["role writes"]),
    (directive("RestartSec", 5), "0.5.23", "serve_unit_directives['Service.RestartSec']", ["serve_restart_seconds"]),
    (directive("Type", "notify"), "0.5.23", "serve_unit_directives['Service.Type']", ["time out"]),
    (directive("Nice", "1\n[X]"), "0.5.23", "serve_unit_directives['Service.Nice']", ["one line"]),
    (directive("Ni ce", 1), "0.5.23", "serve_unit_directives['Service.Ni ce']", ["no name of a directive"]),
    (directive("Nice", 1, "Servcie"), "0.5.23", "serve_unit_directives['Servcie']", ["Unit, Service and Install"]),
    ({"unit_directives": {"Service": "Nice=1"}}, "0.5.23", "serve_unit_directives['Service']", ["mapping"]),
]

WARNINGS = [
    *[
        (
            {
                "speculative_algorithm": algorithm,
                "draft_model_path": draft,
                "model_path": "/m/a",
                "served_model_name": "b",
            },
            release,
            "serve_draft_model_path",
            ["draft layers (MTP)", "num_nextn_predict_layers"],
        )
        for algorithm, draft, release in [
            ("EAGLE", None, "0.5.11"),
            ("NEXTN", "", "0.5.23"),
            ("EAGLE", "/m/a", "0.5.16"),
        ]
    ],
    (
        {"environment": {"FORWARDED_ALLOW_IPS": "*"}},
        "0.5.23",
        "serve_environment['FORWARDED_ALLOW_IPS']",
        ["trusts nobody"],
    ),
    (
        {"environment": {"SGLANG_HUGEPAGE_SIZE": "2MB"}},
        "0.5.12",
        "serve_environment['SGLANG_HUGEPAGE_SIZE']",
        ["not read it"],
    ),
    (
        {"environment": {"SGLANG_HUGEPAGE_SIZE": "1GB"}},
        "0.5.13",
        "serve_environment['SGLANG_HUGEPAGE_SIZE']",
        ["needs it twice"],
    ),
    (
        {"environment": {"SGLANG_HUGEPAGE_SIZE": "1gb "}},
        "0.5.23",
        "serve_environment['SGLANG_HUGEPAGE_SIZE']",
        ["needs it twice"],
    ),
    (
        {"environment": {"SGLANG_HUGEPAGE_SIZE": "1G"}},
        "0.5.23",
        "serve_environment['SGLANG_HUGEPAGE_SIZE']",
        ["2MB and 1GB"],
    ),
    ({"host": "0.0.0.0"}, "0.5.23", "serve_host", ["without any key", "gateway"]),
    ({"restart_seconds": 0}, "0.5.23", "serve_restart_seconds", ["60 or more"]),
    ({"restart_seconds": 59}, "0.5.23", "serve_restart_seconds", ["60 or more"]),
    ({"hicache_ratio": 0.5}, "0.5.15.post1", "serve_hicache_ratio", ["above 1"]),
    ({"hicache_io_backend": "direct"}, "0.5.14", "serve_hicache_io_backend", ["page_first_direct", "the default"]),
    (
        {"hicache_io_backend": "direct", "hicache_mem_layout": "page_first"},
        "0.5.11",
        "serve_hicache_io_backend",
        ["page_first_direct"],
    ),
    ({"hicache_mem_layout": "page_first_direct"}, "0.5.23", "serve_hicache_mem_layout", ["backend direct"]),
    (
        {"hicache_mem_layout": "layer_first", **option("hicache-storage-backend", "mooncake")},
        "0.5.23",
        "serve_hicache_mem_layout",
        ["mooncake"],
    ),
    ({"attention_backend": "fa3"}, "0.5.13", "serve_attention_backend", ["fa3", "flashinfer or triton"]),
    (
        option("decode-attention-backend", "fa3"),
        "0.5.13",
        "serve_engine_options['decode-attention-backend']",
        ["fa3", "kernel by direct", "serve_hicache_io_backend"],
    ),
    ({}, "0.5.10.post1", "serve_release", ["keeps no draft", "0.5.11"]),
    ({"speculative_enabled": False}, "0.5.9", "serve_release", ["memory", "0.5.10.post1"]),
    (
        {"speculative_enabled": False, **option("ep-size", 8)},
        "0.5.10.post1",
        "serve_release",
        ["expert parallelism", "later release"],
    ),
    (
        {"attention_backend": "flashmla", "page_size": 1},
        "0.5.23",
        "serve_page_size",
        ["flashmla", "takes 64", "set it to 64"],
    ),
    ({"attention_backend": "trtllm_mla", "page_size": 128}, "0.5.23", "serve_page_size", ["set it to 32 or 64"]),
    (option("enable-mixed-chunk"), "0.5.23", "serve_engine_options['enable-mixed-chunk']", ["in silence"]),
    ({"hicache_ratio": None, "hicache_size": 549}, "0.5.23", "serve_hicache_size", ["512 GiB", "below 549"]),
    (
        option("hicache-host-memory-fraction", 0.5),
        "0.5.23",
        "serve_engine_options['hicache-host-memory-fraction']",
        ["drops it in silence", "serve_hicache_ratio"],
    ),
    (
        {
            "hicache_write_policy": "write_back",
            "engine_options": {"hicache-host-memory-mode": "buffer_only", "hicache-storage-backend": "file"},
        },
        "0.5.23",
        "serve_hicache_write_policy",
        ["write_through instead"],
    ),
    (
        {
            "hicache_mem_layout": "page_first_direct",
            "hicache_io_backend": "direct",
            "speculative_enabled": False,
            **option("enable-unified-memory"),
        },
        "0.5.23",
        "serve_hicache_mem_layout",
        ["page_first and the io backend kernel"],
    ),
    (
        {"hicache_mem_layout": "layer_first", **option("hicache-storage-backend", "npu_memcache")},
        "0.5.23",
        "serve_hicache_mem_layout",
        ["npu_memcache"],
    ),
    (
        {"hicache_enabled": False, **option("hicache-storage-backend", "file")},
        "0.5.23",
        "serve_engine_options['hicache-storage-backend']",
        ["does nothing", "serve_hicache_enabled"],
    ),
    (option("cuda-graph-max-bs", 8), "0.5.14", "serve_engine_options['cuda-graph-max-bs']", ["old option"]),
    (option("config", "/etc/a.yaml"), "0.5.23", "serve_engine_options['config']", ["only by the installed release"]),
    (
        {"environment": {"SGLANG_ENABLE_SPEC_V2": "1"}},
        "0.5.14",
        "serve_environment['SGLANG_ENABLE_SPEC_V2']",
        ["no longer reads"],
    ),
]

FINE = [
    *[
        (
            {
                "speculative_algorithm": algorithm,
                "draft_model_path": draft,
                "model_path": path,
                "served_model_name": None,
            },
            "0.5.23",
        )
        for algorithm, draft, path in [
            ("EAGLE", None, "/srv/models/GLM-4.7"),
            ("EAGLE", "", "/srv/models/GLM-5-FP8"),
            ("NEXTN", None, "/srv/models/DeepSeek-V3.2"),
            ("EAGLE", "/srv/models/DeepSeek-R1", "/srv/models/DeepSeek-R1/"),
            ("NEXTN", None, "/srv/models/MiMo-V2-Flash"),
            ("EAGLE", None, "/srv/models/Qwen3-Next-80B"),
            ("EAGLE", "/srv/models/kimi-k2-mtp-draft", "/srv/models/Kimi-K2.5"),
            ("DSPARK", None, "/srv/models/DeepSeek-V4"),
        ]
    ],
    ({"environment": {"FORWARDED_ALLOW_IPS": "", "SGLANG_HUGEPAGE_SIZE": ""}}, "0.5.23"),
    ({"release_check_enabled": False, "environment": {"SGLANG_HUGEPAGE_SIZE": "2MB"}}, "0.9.0"),
    ({"cpus": "0-8191", "numa_nodes": "0", "numa_policy": "bind"}, "0.5.23"),
    ({}, "0.5.11"),
    ({}, "0.5.13.post1"),
    ({}, "0.5.23"),
    ({"speculative_enabled": False, "draft_model_path": ""}, "0.5.10.post1"),
    ({"model_path": "/srv/models/other", "served_model_name": "other", "speculative_enabled": False}, "0.5.9"),
    ({"hicache_enabled": False, "hicache_ratio": None}, "0.5.23"),
    ({"hicache_enabled": False, **option("disable-radix-cache")}, "0.5.23"),
    ({"hicache_ratio": None, "hicache_size": 1}, "0.5.23"),
    ({"hicache_io_backend": "direct"}, "0.5.13"),
    ({"hicache_io_backend": "direct", "hicache_mem_layout": "page_first_direct"}, "0.5.23"),
    ({"attention_backend": "fa3"}, "0.5.14"),
    ({"speculative_eagle_topk": 4, "speculative_num_draft_tokens": 16}, "0.5.23"),
    (
        {"speculative_num_steps": None, "speculative_eagle_topk": None, "speculative_num_draft_tokens": None},
        "0.5.23",
    ),
    ({"speculative_algorithm": "NGRAM", "draft_model_path": None}, "0.5.23"),
    (
        {
            "speculative_eagle_topk": 4,
            "speculative_num_draft_tokens": 16,
            "page_size": 64,
            "attention_backend": "triton",
        },
        "0.5.23",
    ),
    ({"attention_backend": "flashmla", "page_size": 64}, "0.5.23"),
    ({"log_level": "DEBUG"}, "0.5.23"),
    (option("ep-size", 8), "0.5.11"),
    (option("bucket-time-to-first-token", [0.1, 0.5]), "0.5.23"),
    ({"host": "::1"}, "0.5.23"),
    ({"port": 1024, "page_size": 1, "max_total_tokens": 1, "stop_timeout_seconds": 1}, "0.5.23"),
    ({"port": 65535}, "0.5.23"),
    ({"restart_seconds": 0, "hicache_enabled": False}, "0.5.23"),
    ({"log_level": "debug"}, "0.5.23"),
    ({"log_level": "warning", "verification_expected": False}, "0.5.23"),
    ({"name": "k" * 240}, "0.5.23"),
    ({"name": "kimi-k2.5_a"}, "0.5.23"),
    ({"model_path": "/home/me/Kimi", "sandbox_enabled": False}, "0.5.23"),
    ({"model_path": "/home/me/Kimi", **directive("ProtectHome", "read-only")}, "0.5.23"),
    ({"model_path": "/homes/Kimi"}, "0.5.23"),
    ({"port": "30000", "tensor_parallel_size": "8", "hicache_enabled": "true"}, "0.5.23"),
    ({"tensor_parallel_size": 1, "environment": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}}, "0.5.23"),
    (
        {
            "environment": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
            **option("disable-custom-all-reduce"),
        },
        "0.5.23",
    ),
    ({"environment": {"SGLANG_ENABLE_SPEC_V2": "0", "N": 3, "EMPTY": "", "TAB": "a\tb"}}, "0.5.13"),
    (option("device", "cpu"), "0.5.23"),
    (option("dcp-size", 1), "0.5.23"),
    (option("stream-interval", 0), "0.5.23"),
    (option("disable-radix-cache", False), "0.5.23"),
    (option("hicache-storage-backend-extra-config", {"a": "b\nc"}), "0.5.23"),
    (directive("NUMAPolicy", "interleave"), "0.5.23"),
    (directive("ProtectHome", None), "0.5.23"),
    (directive("Environment", ["A=1", "B=2"]), "0.5.23"),
    ({"release_check_enabled": False, **option("some-new-option", 1)}, "0.9.0"),
    ({"release_check_enabled": False}, "0.6.0rc1"),
]


@pytest.mark.parametrize(("changes", "release", "variable", "words"), ERRORS)
def test_what_is_refused(changes, release, variable, words):
    errors = [problem for problem in problems(release, **changes) if problem["level"] == "error"]
    assert [problem["variable"] for problem in errors] == [variable]
    for word in words:
        assert word in errors[0]["message"]


@pytest.mark.parametrize(("changes", "release", "variable", "words"), WARNINGS)
def test_what_is_remarked_on(changes, release, variable, words):
    found = problems(release, **changes)
    assert [(problem["level"], problem["variable"]) for problem in found] == [("warning", variable)]
    for word in words:
        assert word in found[0]["message"]


@pytest.mark.parametrize(("changes", "release"), FINE)
def test_what_is_taken(changes, release):
    assert [problem["message"] for problem in problems(release, **changes)] == []


@pytest.mark.parametrize(("changes", "release", "variable", "words"), ERRORS + WARNINGS)
def test_every_message_is_one_sentence_of_its_parts(changes, release, variable, words):
    for problem in problems(release, **changes):
        assert set(problem) == {"level", "variable", "value", "problem", "mend", "message"}
        assert problem["message"].startswith(f"{problem['variable']} is ")
        assert problem["message"].endswith(f": {problem['problem']}; {problem['mend']}.")
        assert "\n" not in problem["message"]


@pytest.mark.parametrize("changes", [changes for changes, *rest in ERRORS + WARNINGS if "environment" in changes])
def test_values_of_the_environment_are_never_shown(changes):
    secret = "planted-4711"
    if isinstance(changes["environment"], dict):
        environment = {name: f"{value}{secret}" for name, value in changes["environment"].items()}
    else:
        environment = secret
    assert secret not in repr(problems("0.5.23", environment=environment))


def test_keys_are_never_shown():
    for name in ("api-key", "--api_key", "admin-api-key", "ssl-keyfile-password", "api-k", "adm", "apikey", "hf-token"):
        found = problems(**option(name, "planted-4711"))
        assert found
        assert "planted-4711" not in repr(found)


@pytest.mark.parametrize(
    "value",
    [
        {"secret_access_key": "planted-4711"},
        '{"nested": [{"password": "planted-4711"}]}',
        '{"broken": "planted-4711',
        "redis://user:planted-4711@host:1/0",
    ],
)
@pytest.mark.parametrize("name", ["hicache-storage-backend-extra-confg", "hicache-storage-backend-extra-c", "port"])
def test_secrets_inside_of_values_are_never_shown(name, value):
    found = problems(**option(name, value))
    assert found
    assert "planted-4711" not in repr(found)


def test_variables_in_directives_are_never_shown():
    for value in ("A=planted-4711\nB=1", ["A=planted-4711\n"], {"A": "planted-4711"}):
        for name in ("Environment", "EnvironmentFile", "SetCredential"):
            for section in ("Service", "Servcie"):
                found = problems(**directive(name, value, section))
                assert found
                assert "planted-4711" not in repr(found)


def test_everything_is_named_at_once_errors_first():
    found = problems("0.5.23", tensor_parallel_size=0, port=0, host="0.0.0.0", hicache_ratio=-1, **option("zzzz", 1))
    assert [problem["level"] for problem in found] == ["error"] * 4 + ["warning"]


def test_variables_carry_the_prefix_that_is_asked_for():
    (found,) = settings_problems(dict(KIMI, port=0), "0.5.23", prefix="serve_instances[1].")
    assert found["variable"] == "serve_instances[1].port"


@pytest.mark.parametrize("release", table.known_releases()[2:])
def test_the_kimi_settings_are_fine_from_0_5_11_on(release):
    assert problems(release) == []


# What a user of vLLM writes, and what the message leads to.
VLLM = [
    ("max-model-len", 131072, ["write context-length"]),
    ("--max_model_len", 131072, ["write context-length"]),
    ("max-num-seqs", 256, ["write max-running-requests"]),
    ("gpu-memory-utilization", 0.9, ["remove it and set serve_mem_fraction_static"]),
    ("gpu_memory_utilization", 0.9, ["remove it and set serve_mem_fraction_static"]),
    ("enable-prefix-caching", True, ["remove it", "on by default"]),
    ("enforce-eager", True, ["write disable-cuda-graph"]),
    ("max-num-batched-tokens", 8192, ["write chunked-prefill-size, or max-prefill-tokens"]),
    ("swap-space", 64, ["serve_hicache_ratio or serve_hicache_size"]),
    ("speculative-config", {"method": "eagle3"}, ["serve_speculative_algorithm and serve_draft_model_path"]),
    ("enable-auto-tool-choice", True, ["remove it: serve_tool_call_parser is enough"]),
    ("block-size", 16, ["set serve_page_size"]),
    ("tokenizer", "/m/t", ["write tokenizer-path"]),
    ("seed", 7, ["write random-seed"]),
    ("max-loras", 4, ["write max-loras-per-batch"]),
]


@pytest.mark.parametrize(("name", "value", "words"), VLLM)
@pytest.mark.parametrize("release", ["0.5.9", "0.5.16", "0.5.23"])
def test_an_option_of_vllm_leads_to_that_of_sglang(name, value, words, release):
    changes = {"speculative_enabled": False, "model_path": "/m/a", "served_model_name": "a", **option(name, value)}
    (found,) = problems(release, **changes)
    assert (found["level"], found["variable"]) == ("error", f"serve_engine_options[{name!r}]")
    assert found["problem"] == "it is an option of vLLM and none of SGLang"
    for word in words:
        assert word in found["mend"]


def test_what_vllm_and_sglang_share_is_no_word_of_vllm():
    assert problems(**option("tensor-parallel-size", 8))[0]["mend"].endswith("set serve_tensor_parallel_size instead")
    assert problems(**option("max-lora-rank", 16)) == problems(**option("dtype", "half")) == []
    # Nor what a release to come may have: it is asked.
    (found,) = problems("0.9.0", release_check_enabled=False, **option("max-model-len", 8))
    assert "context-length" in found["mend"]


@pytest.mark.parametrize("release", table.known_releases())
def test_every_word_of_vllm_leads_somewhere(release):
    options, names = table.arguments(release), {setting.name for setting in SETTINGS}
    for word, mend in vllm_words.OPTIONS.items():
        assert word not in options
        for name in re.findall("<(.*?)>", mend):
            assert name in options, (word, name)
        assert set(re.findall("{(.*?)}", mend)) <= names, word
        assert not set("<>{}").intersection(vllm_words.option_mend(word, lambda setting: f"serve_{setting}"))


def test_every_value_of_vllm_has_a_counterpart():
    for name, values in vllm_words.VALUES.items():
        argument = table.arguments("0.5.23")[name]
        for value, counterparts in values.items():
            assert value == value.lower()
            assert argument.choices is None or not {value}.intersection(argument.choices), (name, value)
            assert argument.choices is None or set(counterparts) & argument.choices, (name, value)


@pytest.mark.parametrize("release", ["0.5.9", "0.5.16", "0.5.17", "0.5.23"])
@pytest.mark.parametrize(
    ("setting", "value", "counterpart"),
    [
        ("kv_cache_dtype", "fp8", "fp8_e4m3"),
        ("kv_cache_dtype", "fp8_inc", "fp8_e4m3"),
        ("kv_cache_dtype", "float16", "auto"),
        ("attention_backend", "FLASH_ATTN", "fa3"),
        ("attention_backend", "TRITON_MLA", "triton"),
        ("tool_call_parser", "llama3_json", "llama3"),
        ("reasoning_parser", "deepseek_r1", "deepseek-r1"),
        ("quantization", "nvfp4", "modelopt_fp4"),
        ("dtype", "bf16", "bfloat16"),
    ],
)
def test_a_value_of_vllm_leads_to_that_of_sglang(setting, value, counterpart, release):
    typed = setting in {known.name for known in SETTINGS}
    changes = {setting: value} if typed else option(setting, value)
    found = [row for row in problems(release, **changes, speculative_enabled=False) if "choice" in row["problem"]]
    assert [row["level"] for row in found] == ["error"]
    assert found[0]["mend"].startswith(f"write {counterpart} if that is what you mean, else one of ")


HOSTILE = [
    "", float("inf"), float("-inf"), float("nan"), "inf", "nan", 10**400, -(10**400), 10**5000, "9" * 5000, 2**63,
    1e308, "1e400", [10**5000], {"a": 10**5000}, [[float("nan")]],
]  # fmt: skip
# What may be left empty, and is then SGLang's or systemd's own choice.
COUNTED = ("tensor_parallel_size", "nodes", "node_rank", "port", "start_timeout_seconds", "leftover_timeout_seconds")


@pytest.mark.parametrize("release", ["0.5.9", "0.5.23", "0.9.9"])
@pytest.mark.parametrize("setting", [setting for setting in SETTINGS if setting.kind in ("int", "float")])
def test_a_number_that_nothing_counts_with_is_refused_by_name(setting, release):
    for value in HOSTILE:
        found = problems(release, **{setting.name: value})
        named = [
            row for row in found if row["level"] == "error" and row["variable"].startswith(f"serve_{setting.name}")
        ]
        assert named or (value == "" and setting.name not in COUNTED), (setting.name, value)
        assert all(len(row["message"]) < 6000 and row["message"] for row in found)


@pytest.mark.parametrize("setting", SETTINGS)
def test_no_value_of_a_setting_ends_in_a_traceback(setting):
    for value in [*HOSTILE, None, True, [], {}, [[]], {"a": None}, -1, 0, 10**9, 1e9]:
        for release in ("0.5.9", "0.5.23", "x"):
            json.dumps(problems(release, **{setting.name: value}), allow_nan=True)
        instances = [{"name": "a", setting.name: value}, {"name": "b", setting.name: value}]
        json.dumps(settings_instances.instances_problems(instances, {**KIMI, "release": "0.5.23"}))


@pytest.mark.parametrize(
    ("changes", "variable", "words"),
    [
        ({"nodes": ""}, "serve_nodes", ['is ""', "whole number"]),
        ({"nodes": 1e9}, "serve_nodes", ["is 1000000000.0", "whole number"]),
        ({"nodes": 10**9}, "serve_nodes", ["is 1000000000", "more than 4096 hosts", "set 4096 at most"]),
        ({"nodes": 10**400}, "serve_nodes", ['is "1e400"', "too large"]),
        ({"nodes": float("inf")}, "serve_nodes", ["is Infinity", "a finite one"]),
        ({"hicache_ratio": 1e308}, "serve_hicache_ratio", ["more than 10000 host tokens"]),
        ({"hicache_ratio": None, "hicache_size": 10**6}, "serve_hicache_size", ["more than 100000 GB"]),
        ({"start_timeout_seconds": None}, "serve_start_timeout_seconds", ["is null", "set it to seconds"]),
        ({"leftover_timeout_seconds": ""}, "serve_leftover_timeout_seconds", ['is ""', "set it to seconds"]),
        ({"nodes": 2, **option("pp-size", 10**9)}, "serve_engine_options['pp-size']", ["more than 4096 GPUs"]),
        (option("context-length", 10**400), "serve_engine_options['context-length']", ['is "1e400"', "too large"]),
        (option("api-key", 10**400), "serve_engine_options['api-key']", ['is (hidden)']),
        ({"environment": {"A": 10**400}}, "serve_environment['A']", ["(hidden)"]),
        ({"unit_directives": {"Service": {"Nice": 10**400}}}, "serve_unit_directives['Service']", ["(hidden)"]),
        ({"cpus": "0-1000000000"}, "serve_cpus", ["no kernel counts that far"]),
        ({"hicache_ratio": None, "hicache_size": 9, **option("hicache-host-memory-fraction", 0)},
         "serve_engine_options['hicache-host-memory-fraction']", ["above 0 and not above 1"]),
    ],
)  # fmt: skip
def test_numbers_beyond_reason(changes, variable, words):
    errors = [problem for problem in problems(**changes) if problem["level"] == "error"]
    assert [problem["variable"] for problem in errors] == [variable]
    for word in words:
        assert word in errors[0]["message"]
