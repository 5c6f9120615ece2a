# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What apt is told, and what it tells, when packages are fetched for another host."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import apt_closure


def test_a_private_root_takes_of_this_machine_only_how_to_reach_out():
    dump = 'Acquire::http::Proxy "http://p:1";\nAPT::Install-Recommends "1";\nDir "/";\nAcquire::https::CAInfo "/c";\n'
    told = apt_closure.settings("/r", "amd64", dump)
    assert 'Dir "/r";' in told and 'Dir "/";' not in told
    assert 'Acquire::http::Proxy "http://p:1";' in told and 'Acquire::https::CAInfo "/c";' in told
    assert 'APT::Install-Recommends "1"' not in told


def test_uris_are_told_by_the_names_of_the_files():
    told = (
        "Reading package lists...\n"
        "'http://d/pool/l/libc6_2.36_amd64.deb' libc6_2.36_amd64.deb 2759320 SHA256:ab\n"
        "'http://d/z_1%3a1.2_amd64.deb' z_1%3a1.2_amd64.deb 5 \n"
        "'file:/srv/c/a_1_all.deb' a_1_all.deb 7 MD5Sum:00\n"
    )
    assert apt_closure.fetched(told) == {
        "libc6_2.36_amd64.deb": "http://d/pool/l/libc6_2.36_amd64.deb",
        "a_1_all.deb": "file:/srv/c/a_1_all.deb",
    } | {"z_1:1.2_amd64.deb": "http://d/z_1%3a1.2_amd64.deb"}


@pytest.mark.parametrize(
    ("uri", "repository", "expected"),
    [
        ("https://n/cuda/x/./a.deb", "https://n/cuda/x/", "a.deb"),
        ("https://n/cuda/x/sub/a.deb", "https://n/cuda/x", "sub/a.deb"),
        ("https://n/cuda/xy/a.deb", "https://n/cuda/x", ""),
        ("https://n/cuda/x/../../a.deb", "https://n/cuda/x/", ""),
        ("https://d/a.deb", "", ""),
    ],
)
def test_a_package_belongs_to_the_repository_that_it_comes_from(uri, repository, expected):
    assert apt_closure.below(uri, repository) == expected


def test_an_entry_of_the_index_names_the_file_beside_it():
    told = apt_closure.index_entry("Package: a\nVersion: 1\n", "a_1_all.deb", 7, "ab")
    assert told == "Package: a\nVersion: 1\nFilename: ./a_1_all.deb\nSize: 7\nSHA256: ab\n"
