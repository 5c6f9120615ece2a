# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import journald_conf


def test_only_the_section_journal_counts_and_comments_do_not():
    text = "Storage=none\n[Upload]\nStorage=none\n[Journal]\n# Storage=a\n; Storage=b\n Storage = volatile \nX=1\\\n2\n"
    assert journald_conf.parse(text) == {"Storage": "volatile", "X": "1 2"}


def test_the_former_name_of_the_interval_is_known():
    assert journald_conf.parse("[Journal]\nRateLimitInterval=0\n") == {"RateLimitIntervalSec": "0"}


def test_a_drop_in_hides_those_of_its_name_in_weaker_folders_and_names_give_the_order():
    assert journald_conf.order([(3, "10-z.conf", "usr"), (0, "50-a.conf", "etc"), (1, "10-z.conf", "run")]) == [
        "run",
        "etc",
    ]


def test_later_texts_win_and_an_empty_value_is_the_default():
    texts = ["[Journal]\nStorage=none\nRateLimitBurst=7\n", "[Journal]\nStorage=volatile\nRateLimitBurst=\n"]
    merged = journald_conf.merge(texts)
    assert (merged["Storage"], merged["RateLimitBurst"], merged["MaxLevelStore"]) == ("volatile", "10000", "debug")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30), ("0", 0), ("5", 5), ("1min 30s", 90), ("1min30s", 90), ("500ms", 0.5), ("2h", 7200),
        ("1.5min", 90), ("infinity", None), ("", None), ("3 parsecs", None), ("1.2.3", None),
    ],
)  # fmt: skip
def test_time_spans(text, seconds):
    assert journald_conf.seconds(text) == seconds


@pytest.mark.parametrize(("text", "number"), [("debug", 7), ("INFO", 6), ("4", 4), ("8", None), ("loud", None)])
def test_levels(text, number):
    assert journald_conf.level(text) == number


@pytest.mark.parametrize(
    ("text", "folder", "storage"),
    [
        ("auto", True, "persistent"),
        ("auto", False, "volatile"),
        ("persistent", False, "persistent"),
        ("Volatile", True, "volatile"),
        ("none", True, "none"),
        ("nonsense", True, "persistent"),
    ],
)
def test_storage(text, folder, storage):
    assert journald_conf.storage(text, folder) == storage
