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


@pytest.mark.parametrize(
    ("release", "rule"),
    [
        (None, "extra_page"),
        (hicache_size.FIRST_EXTRA_PAGE, "extra_page"),
        (hicache_size.FIRST_ALIGNED, "down"),
        ((0, 4, 0, 0), "none"),
        ("0.5.23", "extra_page"),
    ],
)
def test_the_rule_of_pages_has_its_releases(release, rule):
    assert hicache_size.page_rule(release) == rule


@pytest.mark.parametrize("backend", sorted(hicache_size.BACKEND_PAGES))
def test_what_attention_backends_make_of_a_page(backend):
    taken, replacement = hicache_size.BACKEND_PAGES[backend]
    for size in (1, 16, 32, 64, 128, 256):
        found = hicache_size.effective_page_size(size, ["fa3", backend])
        assert found == (size if size in taken else replacement)
    assert hicache_size.effective_page_size(48, ["fa3"]) == 48
    assert hicache_size.effective_page_size(None) == hicache_size.effective_page_size(0) == 1


@pytest.mark.parametrize(
    ("main", "device", "page", "release", "tokens"),
    [
        (1000, 500, 64, "0.5.23", 1000),
        (1000, 500, 64, None, 1000),
        (1000, 500, 64, "0.5.22", 1024),
        (1000, None, 64, "0.5.22", 1024),
        (1024, None, 64, "0.5.22", 1088),
        (1024, 512, 64, "0.5.22", 1088),
    ],
)
def test_the_draft_has_a_slot_for_each_slot_of_the_main_pool(main, device, page, release, tokens):
    assert hicache_size.draft_tokens(main, device, page, release) == tokens


def test_before_memory_was_pinned_exactly_a_pool_took_a_power_of_two():
    old = ".".join(map(str, hicache_size.FIRST_EXACT_PINNING[:3]))
    assert hicache_size.pinned_bytes(1000, old) == hicache_size.pinned_bytes(1000) == 1000
    for requested, taken in ((0, 0), (1, 1), (2, 2), (3, 4), (1000, 1024), (1024, 1024), (1025, 2048)):
        assert hicache_size.pinned_bytes(requested, "0.5.0") == taken


GIB = 2**30


@pytest.mark.parametrize(
    ("available", "ranks", "release", "limit", "budget"),
    [
        (90 * GIB, 8, None, None, 10 * GIB),
        (90 * GIB, 8, "0.5.19", None, 10 * GIB),
        (90 * GIB, 8, "0.5.18", None, 80 * GIB),
        (90 * GIB, 8, None, 50 * GIB, 5 * GIB),
        (50 * GIB, 8, None, 90 * GIB, 5 * GIB),
        (90 * GIB, 8, None, 0, -10 * GIB // 8),
        (90 * GIB, 8, "0.5.18", 50 * GIB, 80 * GIB),
    ],
)
def test_what_a_release_grants_one_pool(available, ranks, release, limit, budget):
    assert hicache_size.rank_budget(available, ranks, release, limit) == budget


def test_the_ratio_that_a_release_finds_itself():
    assert hicache_size.auto_ratio(1000, 100) == 2.0
    assert hicache_size.auto_ratio(100, 100) == pytest.approx(0.76)
    assert hicache_size.auto_ratio(1000, 100, fraction=0.1) == pytest.approx(0.95)
    assert hicache_size.auto_ratio(1000, 100, ratio=3.0) == 3.0


@pytest.mark.parametrize(("page", "release"), [(1, "0.5.23"), (64, "0.5.23"), (64, "0.5.5"), (1, None)])
def test_the_device_pool_behind_a_line(page, release):
    tokens = 159277
    gb = hicache_size.printed_gb(hicache_size.tokens_to_gb(hicache_size.host_tokens(tokens, 4, page, release), 70272))
    fewest, most = hicache_size.device_tokens_of(gb, 4, 70272, page, release)
    assert fewest <= tokens <= most

    def printed(device):
        size = hicache_size.tokens_to_gb(hicache_size.host_tokens(device, 4, page, release), 70272)
        return hicache_size.printed_gb(size)

    assert [printed(one) == gb for one in (fewest - 1, fewest, most, most + 1)] == [False, True, True, False]
    # A page of more than 0.01 GB leaves figures out.
    assert hicache_size.device_tokens_of(1.01, 4, 10**7, 64, release) is None


def test_the_line_of_packed_layers():
    line = hicache_size.allocation_line(1.0, 5, release="0.5.18", layers=61, packed_layers=1)
    assert line.endswith(" GB host memory, packed MTP KV layers: target_layers=61, draft_layers=1, total_layers=62.")
    assert hicache_size.allocation_line(1.0, 5) == (
        "Allocating kv hierarchical KV host pool: 5 tokens, 1.00 GB host memory."
    )
    assert hicache_size.allocation_line(1.0, release="0.5.16").endswith("for hierarchical KV cache.")


def test_a_prediction_tells_its_rule():
    assert hicache_size.predict() == {"tokens": None, "gb": None, "rule": "nothing to predict from"}
    assert hicache_size.predict(size_gb=30) == {"tokens": None, "gb": 30.0, "rule": "hicache_size 30 GB"}
    assert hicache_size.predict(100, 2.5) == {
        "tokens": 251,
        "gb": None,
        "rule": "100 device tokens x 2.5, page size 1 = 251 tokens",
    }
    assert hicache_size.predict(100, 2.5, None, 10**6, 64, "0.5.5") == {
        "tokens": 192,
        "gb": pytest.approx(0.192),
        "rule": "100 device tokens x 2.5, page size 64 = 192 tokens x 1000000 B",
    }
    assert hicache_size.predict(100, 2.5, 1, 10**6, 1, "0.5.5") == {
        "tokens": 1000,
        "gb": pytest.approx(1.0),
        "rule": "hicache_size 1 GB / 1000000 B per token = 1000 tokens",
    }
    assert hicache_size.predict(100, 0)["tokens"] is None and hicache_size.predict(0, 4)["tokens"] is None


def test_bytes_of_heads_with_values_of_another_size():
    assert hicache_size.mha_bytes_per_token(8, 128, 2, 4, 1, 64) == 2 * (128 + 64) * 2
    assert hicache_size.mha_bytes_per_token(8, 128, 1, v_head_dim=0) == 8 * 128 * 2
    with pytest.raises(ValueError, match="page_size is 0"):
        hicache_size.align_tokens(10, 0)
    assert hicache_size.align_tokens(10, 1) == 11
    assert hicache_size.host_tokens_for_size(1, 1, 1, "0.5.5") == 10**9


def test_a_page_that_is_not_named_has_one_token():
    assert hicache_size.align_tokens(10) == 11
    assert hicache_size.host_tokens(10, 2) == 21
    assert hicache_size.host_tokens_for_size(1, 10**8) == 11
    assert hicache_size.draft_tokens(10, release="0.5.22") == hicache_size.draft_tokens(10, 5, release="0.5.22") == 11
    assert hicache_size.predict(10, 2)["tokens"] == 21
    assert hicache_size.device_tokens_of(44.77, 4, 70272) == hicache_size.device_tokens_of(44.77, 4, 70272, 1)
