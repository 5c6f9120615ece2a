# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import package_sources

WANTED = ["nvidia.example/cuda/", "file:/var/cuda-repo-"]
LIST = (
    "# a remark\n"
    "deb http://debian.example/debian bookworm main\n"
    "deb [arch=amd64 signed-by=/usr/share/keyrings/old.gpg] https://nvidia.example/cuda/debian12/ /\n"
    "  deb-src https://nvidia.example/cuda/debian12/ /\n"
    "# deb https://nvidia.example/cuda/debian12/ /\n"
)
STANZAS = (
    "# ours\nTypes: deb\nURIs: https://nvidia.example/cuda/debian12/\n"
    "Suites: /\nSigned-By: /etc/apt/keyrings/a.asc\n\n"
    "Types: deb\nURIs: http://debian.example/debian\n https://nvidia.example/other/\nSuites: bookworm\n"
)
SECTIONS = (
    "# a remark\n[cuda-rhel9]\nname=cuda\nbaseurl = https://nvidia.example/cuda/rhel9/\n"
    "gpgkey=file:///etc/pki/rpm-gpg/OLD\n\n[base]\nbaseurl=https://almalinux.example/9/\n"
)


@pytest.mark.parametrize(
    ("name", "text", "left", "removed", "keys"),
    [
        pytest.param("a.list", LIST, "# a remark\ndeb http://debian.example/debian bookworm main\n"
                     "# deb https://nvidia.example/cuda/debian12/ /\n", 2, ["/usr/share/keyrings/old.gpg"],
                     id="lines"),
        pytest.param("a.list", "# old\ndeb https://nvidia.example/cuda/ /\n", "", 1, [], id="only-lines"),
        pytest.param("a.list", "deb file:/var/cuda-repo-debian12-local /\n", "", 1, [], id="local-repository"),
        pytest.param("a.list", "# deb https://nvidia.example/cuda/ /\n", "# deb https://nvidia.example/cuda/ /\n",
                     0, [], id="commented-out"),
        pytest.param("a.sources", STANZAS, "Types: deb\nURIs: http://debian.example/debian\n"
                     " https://nvidia.example/other/\nSuites: bookworm\n", 1, ["/etc/apt/keyrings/a.asc"],
                     id="stanzas"),
        pytest.param("a.sources", STANZAS.split("\n\n")[0] + "\n", "", 1, ["/etc/apt/keyrings/a.asc"],
                     id="only-stanza"),
        pytest.param("a.sources", "Types: deb\nURIs:\n https://nvidia.example/cuda/x/\nSuites: /\n", "", 1, [],
                     id="address-in-the-next-line"),
        pytest.param("a.sources", "Enabled: no\nURIs: https://nvidia.example/cuda/\n",
                     "Enabled: no\nURIs: https://nvidia.example/cuda/\n", 0, [], id="disabled"),
        pytest.param("a.repo", SECTIONS, "# a remark\n[base]\nbaseurl=https://almalinux.example/9/\n", 1,
                     ["/etc/pki/rpm-gpg/OLD"], id="sections"),
        pytest.param("a.repo", "[cuda]\nmirrorlist=https://nvidia.example/cuda/m\n", "", 1, [], id="only-section"),
    ],
)  # fmt: skip
def test_an_entry_goes_and_the_others_stay(name, text, left, removed, keys):
    after, entries, keyrings = package_sources.form_of(name)(text, WANTED)
    assert after == left
    assert len(entries) == removed
    assert keyrings == keys


@pytest.mark.parametrize("text", [LIST, STANZAS, SECTIONS])
def test_a_second_time_changes_nothing(text):
    form = {LIST: "a.list", STANZAS: "a.sources", SECTIONS: "a.repo"}[text]
    after, _entries, _keys = package_sources.form_of(form)(text, WANTED)
    assert package_sources.form_of(form)(after, WANTED) == (after, [], [])


def test_other_files_are_not_read():
    assert package_sources.form_of("cuda.list.save") is None
