# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which verified starts of a service are remembered, and for how long."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import service_store


def after(ids):
    """The remembered ids once starts of these configurations were verified one after the other."""
    state = service_store.empty_state()
    for number, one in enumerate(ids):
        state = service_store.with_verified(state, {"id": one, "invocation_id": str(number)}) or state
    return [entry["id"] for entry in state["verified"]]


def test_which_configuration_came_first_is_not_forgotten():
    # However often the newer one was started, and however often the host went there and back.
    assert after("A" + "B" * 40) == ["A"] + ["B"] * 19
    told = after("ZAB" + "AB" * 20)
    assert len(told) == 20 and told[:3] == ["Z", "A", "B"] and told[-2:] == ["A", "B"]


def test_of_too_many_configurations_the_oldest_is_forgotten():
    ids = "ABCDEFGHIJKLMNOPQRSTUVW"
    assert after(ids) == list(ids[-20:])
    assert after(ids + "W") == [*ids[-19:], "W"]


@pytest.mark.parametrize("name", ["state.json", "configs/0.5.23-ab-1f2e3d4c/record.json"])
def test_a_file_of_lists_without_end_is_refused_by_its_name(tmp_path, name):
    store = service_store.Store(str(tmp_path), "kimi")
    path = tmp_path / "kimi" / name
    path.parent.mkdir(parents=True)
    path.write_text("[" * 200_000)
    with pytest.raises(service_store.StoreError, match=path.name):
        store.state() if name == "state.json" else store.record("0.5.23-ab-1f2e3d4c")
