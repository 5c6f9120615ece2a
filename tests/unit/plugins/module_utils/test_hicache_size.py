# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_size
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("0.5.23", (0, 5, 23, 0)),
        ("0.5.5.post3", (0, 5, 5, 3)),
        ("v0.4.6.post5", (0, 4, 6, 5)),
        ("0.5.0rc1", (0, 5, 0, 0)),
        ("0.5", (0, 5, 0, 0)),
        ("0.5.9.dev123+gabc", (0, 5, 9, 0)),
    ],
)
def test_a_release_is_parsed(text, parsed):
    assert hicache_size.parse_release(text) == parsed


@pytest.mark.parametrize("text", ["", "latest", "main", "5", None])
def test_what_is_no_release_is_refused(text):
    with pytest.raises(ValueError, match="is not an SGLang release"):
        hicache_size.parse_release(text)


def test_kimi_takes_70272_bytes_per_token_on_every_rank():
    assert hicache_size.mla_bytes_per_token(512, 64, 61) == 70272
    assert hicache_size.mla_bytes_per_token(512, 64, 61, item_size=1) == 35136


def test_heads_are_split_over_the_ranks_down_to_one():
    assert hicache_size.mha_bytes_per_token(8, 128, 32) == 131072
    assert hicache_size.mha_bytes_per_token(8, 128, 32, tensor_parallel_size=8) == 16384
    assert hicache_size.mha_bytes_per_token(8, 128, 32, tensor_parallel_size=16) == 16384


@pytest.mark.parametrize(
    ("device", "ratio", "page", "release", "tokens"),
    [
        (159270, 4.0, 1, "0.5.9", 637081),
        (159277, 4.0, 1, "0.5.5", 637108),
        (159277, 4.0, 1, "0.5.5.post3", 637109),
        (210000, 1.0, 1, "0.5.23", 210001),
        (6000, 4.0, 64, "0.5.5", 24000),
        (6000, 4.0, 64, "0.5.23", 24064),
        (6001, 4.0, 64, "0.5.5", 24000),
        (6001, 4.0, 64, "0.4.4", 24004),
        (159270, 4.0, 1, None, 637081),
    ],
)
def test_the_page_rule_follows_the_release(device, ratio, page, release, tokens):
    assert hicache_size.host_tokens(device, ratio, page, release) == tokens


@pytest.mark.parametrize(
    ("size", "per_token", "gb"), [(100, 12464, 100.0), (100, 13120, 100.0), (120, 51168, 120.0), (96, 51168, 96.0)]
)
def test_a_size_is_met_within_one_page(size, per_token, gb):
    tokens = hicache_size.host_tokens_for_size(size, per_token, 1, "0.5.16")
    assert hicache_size.printed_gb(hicache_size.tokens_to_gb(tokens, per_token)) == gb


def test_the_sample_line_of_kimi():
    found = hicache_size.predict(159270, 4.0, None, 70272, 1, "0.5.9")
    assert found["tokens"] == 637081
    assert hicache_size.allocation_line(found["gb"], release="0.5.9") == (
        "Allocating 44.77 GB host memory for hierarchical KV cache."
    )
    assert hicache_size.allocation_line(found["gb"], found["tokens"], release="0.5.23") == (
        "Allocating kv hierarchical KV host pool: 637081 tokens, 44.77 GB host memory."
    )
    assert hicache_size.allocation_line(0.73, 637081, "draft", "0.5.17").startswith("Allocating draft hierarchical")


def test_a_new_line_needs_tokens():
    with pytest.raises(ValueError, match="tokens must be given"):
        hicache_size.allocation_line(44.77, release="0.5.17")


def test_what_is_known_decides_what_is_predicted():
    assert hicache_size.predict()["gb"] is None
    assert hicache_size.predict(159270, 4.0)["tokens"] == 637081
    assert hicache_size.predict(159270, 4.0)["gb"] is None
    assert hicache_size.predict(size_gb=100)["gb"] == 100.0
    assert hicache_size.predict(159270, 4.0, 100, 70272)["gb"] == pytest.approx(100, abs=0.001)


def test_impossible_geometry_is_refused():
    with pytest.raises(ValueError, match="page_size is 0"):
        hicache_size.host_tokens(10, 1, 0)
    with pytest.raises(ValueError, match="bytes_per_token is 0"):
        hicache_size.host_tokens_for_size(1, 0)


@given(st.integers(1, 10**8), st.integers(1, 1024))
def test_a_new_pool_is_whole_pages_and_one_more_than_fits(tokens, page):
    found = hicache_size.align_tokens(tokens, page, "0.5.23")
    assert found % page == 0
    assert tokens < found <= tokens + page
    older = hicache_size.align_tokens(tokens, page, "0.5.5")
    assert older % page == 0
    assert found == older + page
