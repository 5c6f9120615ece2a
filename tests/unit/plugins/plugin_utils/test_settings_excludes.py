# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What excludes the hierarchical cache, or another option, in which releases: as read from their sources."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import engine_arguments as table
from ansible_collections.llmfleet.sglang.plugins.plugin_utils._settings import excludes
from ansible_collections.llmfleet.sglang.plugins.plugin_utils.settings_problems import settings_problems

PLAIN = {
    "name": "a",
    "model_path": "/srv/models/a",
    "host": "127.0.0.1",
    "port": 30000,
    "tensor_parallel_size": 8,
    "speculative_enabled": False,
    "hicache_enabled": True,
    "hicache_ratio": 2.0,
    "hicache_write_policy": "write_through",
    "hicache_io_backend": "kernel",
    "engine_options": {},
    "environment": {},
    "unit_directives": {},
}
OFF = {"hicache_enabled": False, "hicache_ratio": None}
EAGLE3 = {"speculative_enabled": True, "speculative_algorithm": "EAGLE3", "draft_model_path": "/srv/models/b"}
NEXTN = {"speculative_enabled": True, "speculative_algorithm": "NEXTN", "draft_model_path": "/srv/models/b"}
DSPARK = {"speculative_enabled": True, "speculative_algorithm": "DSPARK", "draft_model_path": "/srv/models/b"}
MODE, RADIX = "disaggregation-mode", "disaggregation-decode-enable-radix-cache"
BACKEND = "disaggregation-transfer-backend"
OFFLOAD, RETRACTION = "disaggregation-decode-enable-offload-kvcache", "disaggregation-decode-retraction-backup"
POLICY = "disaggregation-decode-allocation-policy"
DECODE = {MODE: "decode"}
CACHED = {MODE: "decode", RADIX: True, BACKEND: "nixl"}


def refused(release, options, changes=None):
    """Engine options that errors name, and their messages."""
    found = settings_problems({**PLAIN, **(changes or {}), "engine_options": options}, release)
    errors = [problem for problem in found if problem["level"] == "error"]
    names = [problem["variable"].partition("['")[2].rstrip("']") or problem["variable"] for problem in errors]
    return names, " ".join(problem["message"] for problem in errors)


@pytest.mark.parametrize("release", table.known_releases())
def test_a_decode_server_has_no_hierarchical_cache_without_a_radix_cache(release):
    names, message = refused(release, DECODE)
    assert names == [MODE]
    assert f"serve_engine_options['{MODE}'] is \"decode\": " in message
    assert "set serve_hicache_enabled to false" in message and RADIX in message
    assert refused(release, DECODE, OFF)[0] == []
    if table.release_key(release) < (0, 5, 11, 0):
        assert "deploy 0.5.11 or later" in message
    else:
        assert f"add {RADIX} with the value true" in message
        assert refused(release, CACHED)[0] == []
        assert refused(release, {**CACHED, RADIX: False})[0] == [MODE]


# Options, settings, the option that is refused, and the first and last release of the table that refuse it.
BOUNDS = [
    # The radix cache of a decode server, and speculation.
    (CACHED, {**OFF, **EAGLE3}, RADIX, "0.5.11", "0.5.22"),
    (CACHED, {**OFF, **NEXTN}, RADIX, "0.5.11", "0.5.22"),
    (CACHED, {**OFF, **DSPARK}, RADIX, "0.5.12.post1", "0.5.20"),
    ({**CACHED, "enable-hisparse": True}, {}, "enable-hisparse", "0.5.11", "0.5.23"),
    ({**CACHED, BACKEND: "fake"}, {}, RADIX, "0.5.11", "0.5.23"),
    ({**CACHED, BACKEND: "mooncake"}, {}, RADIX, "0.5.11", "0.5.11"),
    ({MODE: "decode", RADIX: True}, {}, RADIX, "0.5.11", "0.5.11"),
    ({**CACHED, "dcp-size": 2}, {}, RADIX, "0.5.17", "0.5.20"),
    ({**CACHED, "dcp-size": "2"}, OFF, RADIX, "0.5.17", "0.5.20"),
    # Other options of the two roles.
    ({OFFLOAD: True}, {}, OFFLOAD, "0.5.9", "0.5.23"),
    ({OFFLOAD: True, MODE: "decode"}, OFF, OFFLOAD, "0.5.10.post1", "0.5.23"),
    ({OFFLOAD: True, MODE: "decode", "hicache-storage-backend": "file"}, {**OFF, **EAGLE3}, OFFLOAD, "0.5.9", "0.5.9"),
    (
        {OFFLOAD: True, MODE: "decode", "hicache-storage-backend": "file", RETRACTION: "host_pool"},
        OFF,
        OFFLOAD,
        "0.5.18",
        "0.5.23",
    ),
    ({MODE: "prefill", BACKEND: "fake"}, {}, BACKEND, "0.5.9", "0.5.23"),
    ({**CACHED, POLICY: "prefill_complete"}, {}, POLICY, "0.5.22", "0.5.23"),
    ({MODE: "prefill", POLICY: "prefill_complete"}, {}, POLICY, "0.5.22", "0.5.23"),
    # Other caches, and what they do beside the hierarchical one.
    ({"disable-radix-cache": True}, {}, "disable-radix-cache", "0.5.9", "0.5.23"),
    ({"enable-lmcache": True}, {}, "enable-lmcache", "0.5.9", "0.5.23"),
    ({"enable-flexkv": True}, {}, "enable-flexkv", "0.5.16", "0.5.23"),
    ({"radix-cache-backend": "flexkv"}, {}, "radix-cache-backend", "0.5.13", "0.5.23"),
    ({"dllm-algorithm": "LowConfidence"}, {}, "dllm-algorithm", "0.5.9", "0.5.23"),
    ({"enable-int8-mamba-checkpoint": True}, {}, "enable-int8-mamba-checkpoint", "0.5.14", "0.5.23"),
    ({"enable-unified-memory": True}, {}, "enable-unified-memory", "0.5.15.post1", "0.5.20"),
    ({"enable-unified-memory": True}, EAGLE3, "enable-unified-memory", "0.5.15.post1", "0.5.23"),
    ({"enable-kv-cache-sharding": True}, {}, "enable-kv-cache-sharding", "0.5.22", "0.5.22"),
    (
        {"enable-kv-cache-sharding": True, "hicache-storage-backend": "file"},
        {},
        "enable-kv-cache-sharding",
        "0.5.22",
        "0.5.23",
    ),
    # Context parallelism.
    ({"dcp-size": 2}, DSPARK, "dcp-size", "0.5.15.post1", "0.5.17"),
    ({"dcp-size": 2}, EAGLE3, "dcp-size", "0.5.15.post1", "0.5.23"),
    ({"dcp-size": 2, "hicache-storage-backend": "file"}, {}, "hicache-storage-backend", "0.5.15.post1", "0.5.18"),
]


@pytest.mark.parametrize(("options", "changes", "option", "first", "last"), BOUNDS)
def test_what_excludes_what_and_in_which_releases(options, changes, option, first, last):
    # In a release that does not have an option of its own, the option is what is refused.
    judged = [release for release in table.known_releases() if set(options) <= set(table.arguments(release))]
    judged = [release for release in judged if not _other_choice(release, options, changes)]
    told = [release for release in judged if option in refused(release, options, changes)[0]]
    wanted = [release for release in judged if _key(first) <= _key(release) <= _key(last)]
    assert told == wanted != []
    for release in told:
        names, message = refused(release, options, changes)
        assert names == [option], message
    # Without it nothing is wrong.
    for release in set(judged) - set(told):
        assert refused(release, options, changes)[0] == []


def _key(release):
    return table.release_key(release)


def _other_choice(release, options, changes):
    """Tell whether a release has no such value for one of the options."""
    known = table.arguments(release)
    given = {**options, "speculative-algorithm": changes.get("speculative_algorithm")}
    return any(table.value_findings(known[name], value, release) for name, value in given.items())


def test_the_way_out_of_one_refusal_is_not_the_next():
    # On a decode server that speculates, the radix cache would be refused in turn.
    for release, taken in (("0.5.16", False), ("0.5.22", False), ("0.5.23", True)):
        names, message = refused(release, DECODE, EAGLE3)
        assert names == [MODE]
        assert ("serve_speculative_enabled to false" in message) is not taken


@pytest.mark.parametrize(
    ("options", "number"),
    [
        ({"dcp-size": 2}, 2),
        ({"dcp-size": "2"}, 2),
        ({"decode-context-parallel-size": 4}, 4),
        ({"dcp-size": True}, 0),
        ({"dcp-size": "two"}, 0),
        ({"dcp-size": "9" * 5000}, 0),
        ({"dcp-size": 2.5}, 0),
        ({}, 0),
    ],
)
def test_numbers_of_options(options, number):
    assert excludes.number_of(options, *excludes.DCP_OPTIONS) == number


@pytest.mark.parametrize(
    ("release", "options", "remarked"),
    [
        # A decode server keeps retracted requests in a host pool from 0.5.18 on, and offloads into the same storage.
        ("0.5.17", {"hicache-storage-backend-extra-config": "{}", MODE: "decode"}, True),
        ("0.5.18", {"hicache-storage-backend-extra-config": "{}", MODE: "decode"}, False),
        ("0.5.16", {"hicache-storage-backend": "file", OFFLOAD: True, MODE: "decode"}, False),
        ("0.5.23", {"hicache-storage-backend": "file"}, True),
    ],
)
def test_options_of_a_cache_that_is_off(release, options, remarked):
    found = settings_problems({**PLAIN, **OFF, "engine_options": options}, release)
    assert [problem["level"] for problem in found] == (["warning"] if remarked else [])
    assert all("does nothing while serve_hicache_enabled is false" in problem["message"] for problem in found)
