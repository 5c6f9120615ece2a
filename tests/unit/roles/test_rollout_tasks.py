# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tasks of role rollout have to have, whatever else they do."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

ROLE = Path(__file__).resolve().parents[3] / "roles" / "rollout"


@pytest.mark.parametrize("name", ["begin", "settle"])
def test_the_lock_is_renewed_before_a_batch_and_before_its_way_back(name):
    tasks = yaml.safe_load((ROLE / "tasks" / f"{name}.yml").read_text())
    first = tasks[0]
    assert first.get("llmfleet.sglang.fleet_lock", {}).get("state") == "renewed"
    # A lock's host that does not answer must not end the run while hosts are out of the routers.
    assert first["run_once"] and first["ignore_unreachable"] and first["ignore_errors"]
    assert first["failed_when"] is False
