# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role verify: by what each service is judged, what is shown of it, and where the play stops."""

from __future__ import annotations

import pytest

JUDGE = {"ansible.builtin.import_role": {"name": "llmfleet.sglang.verify"}}
REPORT = {
    "ansible.builtin.include_role": {"name": "llmfleet.sglang.verify", "tasks_from": "report.yml"},
    "vars": {"__verify_ended": True},
}
LOAD = {"ansible.builtin.import_role": {"name": "llmfleet.sglang.serve", "tasks_from": "settings.yml"}}


def verdict(host, name, word, code="allocated", **more):
    return {
        "verdict": word, "summary": f"{host} sglang-{name}.service: {word.upper()} - 8 of 8 ranks",
        "reasons": [{"code": code, "message": f"{name} on {host}: {code}."}], "journal_tail": [],
        "unit": f"sglang-{name}.service", "without_record": False, **more,
    }  # fmt: skip


@pytest.fixture
def fleet(stage):
    """Two hosts with two services each, all proved unless a test says otherwise first."""
    stage.real("verify", "serve")
    stage.hosts.update(ash={}, cedar={})
    stage.variables.update(serve_instances=[{"name": "kimi"}, {"name": "embed", "port": 30001}])
    return stage


def judged(fleet):
    for host in ("ash", "cedar"):
        for name in ("kimi", "embed"):
            fleet.answer(verdict(host, name, "pass"), name=name, on=host)


def test_every_service_of_every_host_has_its_line_and_is_asked_once(fleet):
    judged(fleet)
    status, output = fleet.play([JUDGE, REPORT])
    assert status == 0, output
    last = output[output.rindex("TASK [llmfleet.sglang.verify : Show the verdicts]") :]
    for host in ("ash", "cedar"):
        for name in ("kimi", "embed"):
            assert f"{host} sglang-{name}.service: PASS" in last, output
    asked = [(one["on"], one["name"]) for one in fleet.asked(module="service_verify")]
    assert sorted(asked) == [("ash", "embed"), ("ash", "kimi"), ("cedar", "embed"), ("cedar", "kimi")]
    assert all("settings" not in one for one in fleet.asked(module="service_verify"))


@pytest.mark.parametrize(
    ("word", "accepted", "stops"),
    [("fail", False, True), ("fail", True, True), ("inconclusive", False, True), ("inconclusive", True, False)],
)
def test_one_service_that_is_not_proved_stops_its_host_and_all_lines_are_shown(fleet, word, accepted, stops):
    bad = verdict("ash", "kimi", word, "size_wrong", journal_tail=["the last message"])
    fleet.answer(bad, name="kimi", on="ash")
    judged(fleet)
    fleet.variables["verify_inconclusive_accepted"] = accepted
    status, output = fleet.play([JUDGE, {"ansible.builtin.debug": {"msg": "went on {{ inventory_hostname }}"}}])
    assert (status != 0) is stops, output
    assert ("went on ash" not in output) is stops and "went on cedar" in output
    shown = output[output.index("Show the verdicts]") :]
    assert all(f"{host} sglang-{name}" in shown for host in ("ash", "cedar") for name in ("kimi", "embed"))
    assert "kimi on ash: size_wrong." in output and "the last message" in output


def test_a_service_without_a_record_is_judged_by_the_variables_of_its_own(fleet):
    bare = {**verdict("ash", "embed", "inconclusive", "no_record"), "without_record": True}
    by_variables = verdict("ash", "embed", "pass")
    by_variables["summary"] += ", judged by variables: the host keeps no record"
    fleet.hosts.pop("cedar")
    # The module is asked without settings first: what it answers then depends on them alone.
    fleet.answer(by_variables, name="embed", settings=SETTINGS_OF_EMBED)
    fleet.answer(bare, name="embed")
    judged(fleet)
    status, output = fleet.play([LOAD, JUDGE])
    given = [one["settings"] for one in fleet.asked(module="service_verify", name="embed") if "settings" in one]
    assert len(given) == 1, output
    assert (given[0]["name"], given[0]["url"], given[0]["ranks"], given[0]["ratio"]) == (
        "embed", "http://127.0.0.1:30001", 8, 4.0,
    )  # fmt: skip
    assert given[0]["speculative_enabled"] is True
    assert status != 0 and "no_record" in output
    # Settings of one's own come first.
    fleet.variables["verify_settings"] = SETTINGS_OF_EMBED
    status, output = fleet.play([LOAD, JUDGE])
    assert status == 0 and "judged by variables" in output, output


SETTINGS_OF_EMBED = {"ranks": 1, "url": "http://127.0.0.1:30009"}


def test_a_host_that_was_not_judged_is_named_at_the_end(fleet):
    judged(fleet)
    stop = {
        "ansible.builtin.fail": {"msg": "no"},
        "when": "inventory_hostname == 'ash'",
    }
    status, output = fleet.play([stop, JUDGE, REPORT])
    assert status != 0
    last = output[output.rindex("Show the verdicts]") :]
    assert "ash: NO VERDICT" in last and "cedar sglang-embed.service: PASS" in last, output


def test_the_lines_go_to_a_file_of_the_controller(fleet):
    judged(fleet)
    fleet.variables["verify_report_file"] = str(fleet.folder / "verdicts.txt")
    status, output = fleet.play([JUDGE])
    assert status == 0, output
    lines = (fleet.folder / "verdicts.txt").read_text().splitlines()
    assert lines == [
        f"{host} sglang-{name}.service: PASS - 8 of 8 ranks" for host in ("ash", "cedar") for name in ("kimi", "embed")
    ]
