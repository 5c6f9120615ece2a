# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of the stand-in share."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.tests.lab.standin import harness


@pytest.fixture(scope="session")
def tree(tmp_path_factory):
    """tree("0.5.23"): the folder of the stand-in in that release, built once for all tests."""
    directory = tmp_path_factory.mktemp("standin")
    built = {}

    def get(release):
        if release not in built:
            built[release] = harness.unpack(f"{release}+standin", directory)
        return built[release]

    return get
