# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a host whose service was proved: it remembers the tokens, and says what the start logged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
INVENTORY = Path(os.environ.get("MOLECULE_SCENARIO_DIRECTORY", ROOT / "molecule" / "default")) / "inventory"


def test_the_plan_is_what_the_start_logged(host, fact, tmp_path):
    name = host.backend.hostname
    plans = tmp_path / "plans.json"
    done = subprocess.run(
        [
            Path(sys.executable).parent / "ansible-playbook",
            f"--inventory={INVENTORY}",
            f"--limit={name}",
            "playbooks/plan.yml",
            f"--extra-vars=plan_json_file={plans}",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    plan = json.loads(plans.read_text())["hosts"][name]
    assert (plan["device_tokens_source"], plan["device_tokens"]) == ("remembered", 159277), plan["explanation"]
    planned = sorted(pool["gb"] for pool in plan["pools"] for _rank in range(pool["ranks"]))
    assert planned == sorted(pool["gb"] for pool in fact["ranks"])
    assert len(planned) == 16
    assert plan["fits"] is True
