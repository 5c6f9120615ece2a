# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks on many hosts: the same answer for each, and no more work for each when there are more of them.

Work is counted in tasks and in processor time, so that a loaded machine changes nothing. The bench measures seconds.
"""

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.llmfleet.sglang.tests.scale.fleet import hosts, recap

# The bench goes on to 32 hosts.
FEW, MANY = 2, 16
# verify.yml keeps no verdict.
ANEW = ("-e", "status_judgement_enabled=true")
MODPROBE = "/etc/modprobe.d/llmfleet-nouveau.conf"


@pytest.fixture(scope="module")
def many(fleet):
    """All hosts, with verdicts on the starts of this boot."""
    fleet.boot(MANY)
    return fleet


@pytest.fixture(scope="module")
def verified(many):
    """What verify.yml says about a few hosts and about all."""
    return {count: many.play("playbooks/verify.yml", count, "-e", "verify_timeout=600") for count in (FEW, MANY)}


def status(fleet, count, path, *words):
    """(exit status, report) of status.yml."""
    done = fleet.play("playbooks/status.yml", count, "-e", "status_format=json", "-e", f"status_file={path}", *words)
    assert path.exists(), done.output[-3000:]
    return done, json.loads(path.read_text())


def tasks_that_changed(output):
    """Names of the tasks that changed something on any host, in any batch."""
    tasks = re.split(r"^TASK \[", output, flags=re.MULTILINE)[1:]
    return sorted({task.partition("] ***")[0] for task in tasks if re.search(r"^changed: \[", task, re.MULTILINE)})


def test_every_host_is_verified(verified):
    done = verified[MANY]
    assert done.code == 0, done.output[-4000:]
    counts = recap(done.output)
    assert len(counts) == MANY
    assert done.output.count("PASS - 8 of 8 ranks") >= MANY


def test_a_host_of_many_costs_no_more_than_a_host_of_few(verified):
    few, many = verified[FEW], verified[MANY]
    assert {host: counts["ok"] for host, counts in recap(many.output).items()} == dict.fromkeys(
        recap(many.output), max(counts["ok"] for counts in recap(few.output).values())
    )
    assert many.processor / MANY < 1.2 * few.processor / FEW


def test_the_table_has_all_hosts_and_nothing_against_them(many, verified, tmp_path):
    done, report = status(many, MANY, tmp_path / "status.json", *ANEW)
    assert [(row["host"], row["state"], row["verdict"]) for row in report["rows"]] == [
        (name, "ok", "pass") for name in many.names(MANY)
    ], report["against"]
    assert {(row["ranks_seen"], row["ranks_expected"], row["verdict_source"]) for row in report["rows"]} == {
        (8, 8, "fresh")
    }
    assert (done.code, report["well"]) == (0, True)


def test_a_host_of_a_large_table_costs_no_more_than_one_of_a_small_table(many, tmp_path):
    few, _report = status(many, FEW, tmp_path / "few.json")
    all_, _report = status(many, MANY, tmp_path / "many.json")
    assert all_.processor / MANY < few.processor / FEW


def test_a_host_that_went_away_is_a_row_and_an_alarm(many, verified, tmp_path):
    gone = many.names(3)[-1]
    hosts("stop", gone)
    done, report = status(many, 3, tmp_path / "status.json", "--timeout=5", *ANEW)
    assert [(row["host"], row["state"]) for row in report["rows"]] == [
        (name, "unreachable" if name == gone else "ok") for name in many.names(3)
    ]
    assert done.code != 0
    assert f"{gone}: the host does not answer" in done.output
    done, report = status(
        many, 3, tmp_path / "status.json", "--timeout=5", *ANEW, "-e", "{status_counted: [failed, stopped]}"
    )
    assert (done.code, report["well"]) == (0, True), "what does not count is shown, and no alarm"
    many.up.remove(gone)
    many.boot(3)


def test_a_deployment_that_changes_nothing_changes_nothing_on_any_host(many):
    done = many.play("site.yml", 8, "-e", "site_shortcut_enabled=true")
    assert done.code == 0, done.output[-4000:]
    counts = recap(done.output)
    # The hosts have just booted: the verdict on this start is what there is to keep.
    assert tasks_that_changed(done.output) == [
        "llmfleet.sglang.verify : Keep the verdict as a local fact",
        "llmfleet.sglang.verify : Note with the service's configurations that this start passed",
    ]

    # The same again leaves the roles out, and proves the services all the same.
    again = many.play("site.yml", 8, "-e", "site_shortcut_enabled=true")
    assert again.code == 0, again.output[-4000:]
    counts_again = recap(again.output)
    assert {host: counts_again[host]["changed"] for host in counts_again} == dict.fromkeys(many.names(8), 0)
    assert all(counts_again[host]["ok"] < counts[host]["ok"] / 3 for host in counts)
    assert again.output.count("PASS - 8 of 8 ranks") >= 8


def test_a_change_by_hand_is_found_and_mended(many):
    touched = many.names(1)[0]
    many.program("ansible", touched, "-b", "-m", "ansible.builtin.file", "-a", f"path={MODPROBE} state=absent")
    done = many.play("site.yml", 2, "-e", "site_shortcut_enabled=true")
    assert done.code == 0, done.output[-4000:]
    counts = recap(done.output)
    assert [counts[name]["changed"] > 0 for name in many.names(2)] == [True, False]
