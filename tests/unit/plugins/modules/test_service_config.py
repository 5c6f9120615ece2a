# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module with a systemd that plays along: what it writes, what it asks of systemd, and in which order."""

from __future__ import annotations

import contextlib
import grp
import json
import os
from pathlib import Path

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.llmfleet.sglang.plugins.module_utils import service_store
from ansible_collections.llmfleet.sglang.plugins.modules import service_config

NAME, UNIT = "kimi", "sglang-kimi.service"
RELEASE = "0.5.23-0123456789ab"
GROUP = grp.getgrgid(os.getegid()).gr_name
TEXT = """[Unit]
Description=one
[Service]
MemoryMax=1G
ExecStart=/usr/bin/env python -m sglang.launch_server --port 30000
[Install]
WantedBy=multi-user.target
"""
OTHER = TEXT.replace("30000", "30001")
LIVE = TEXT.replace("1G", "2G").replace("=one", "=two")
ENVIRONMENT = 'HF_TOKEN="planted-4711"\n'


class Ended(Exception):
    """The module ended; holds its answer and whether it failed."""

    def __init__(self, failed, answer):
        super().__init__(answer.get("msg"))
        self.failed, self.answer = failed, answer


class Killed(Exception):
    """The module was killed at a step."""


class Host:
    """A host with a systemd that knows one unit."""

    def __init__(self, folder):
        self.config_dir, self.unit_dir = folder / "etc" / "sglang", folder / "units"
        self.unit_dir.mkdir(parents=True)
        self.calls, self.starts, self.loaded = [], 0, None
        self.state, self.enabled, self.said = "inactive", False, ""
        # Which words kill the module before they are done.
        self.kill_at = None

    @property
    def file(self):
        return self.unit_dir / UNIT

    @property
    def invocation(self):
        return f"{self.starts:032x}" if self.starts else ""

    def command(self, argv, **_options):
        words = list(argv)
        if words[:2] != ["systemctl", "show"]:
            self.calls.append(" ".join(words[1:] if words[0] == "systemctl" else words[:2]))
        if self.kill_at and self.kill_at in words:
            raise Killed(self.kill_at)
        if words[0] == "systemd-analyze":
            return (1 if self.said else 0), "", self.said and f"{words[-1]}:3: {self.said}\n"
        on_disk = self.file.read_text() if self.file.exists() else None
        if words[1] == "show":
            found = {
                "LoadState": "loaded" if self.loaded else "not-found",
                "ActiveState": "activating" if self.state == "auto-restart" else self.state,
                "SubState": self.state,
                "InvocationID": self.invocation,
                "NeedDaemonReload": "yes" if self.loaded and self.loaded != on_disk else "no",
                "UnitFileState": "enabled" if self.enabled else "disabled",
            }
            return 0, "".join(f"{key}={value}\n" for key, value in found.items()), ""
        if words[1] == "daemon-reload":
            self.loaded = on_disk
        elif words[1] == "reenable":
            self.enabled = True
        elif words[1] in ("start", "restart"):
            assert self.loaded, "systemd has not read a unit"
            self.starts += 1
            self.state = "activating"
        return 0, "", ""

    def ended(self, **options):
        """How the module ends."""
        arguments = {"name": NAME, "config_dir": str(self.config_dir), "group": GROUP, "_ansible_diff": True}
        with patch_module_args({**arguments, **options}), pytest.raises(Ended) as ended:
            service_config.main()
        return ended.value

    def run(self, check=False, **options):
        """The module's answer."""
        ended = self.ended(_ansible_check_mode=check, **options)
        assert not ended.failed, ended.answer["msg"]
        return ended.answer

    def prove(self, summary="pass"):
        """Note the running start as verified, as the verification does; tells whether that was new."""
        store = service_store.Store(str(self.config_dir), NAME, str(self.unit_dir))
        with store.locked():
            one = service_store.running_id(store.state(), self.invocation)
            return store.note_verified(one, self.invocation, summary)

    def refuse(self, **options):
        """What the module says when it fails."""
        ended = self.ended(**options)
        assert ended.failed
        return ended.answer["msg"]

    def deploy(self, text=TEXT, environment=ENVIRONMENT, state="active", **options):
        record = {"release": "0.5.23", "release_dir": f"/opt/sglang/releases/{RELEASE}", "verify": {"ranks": 8}}
        return self.run(state=state, unit=text, environment=environment, record=record, **options)

    def kept(self):
        return json.loads((self.config_dir / NAME / "state.json").read_text())


@pytest.fixture
def host(tmp_path, monkeypatch):
    made = Host(tmp_path)

    def end(failed):
        def leave(_self, **answer):
            raise Ended(failed, answer)

        return leave

    monkeypatch.setattr(AnsibleModule, "exit_json", end(False))
    monkeypatch.setattr(AnsibleModule, "fail_json", end(True))
    monkeypatch.setattr(AnsibleModule, "run_command", lambda _self, argv, **options: made.command(argv, **options))
    monkeypatch.setattr(service_store, "UNIT_DIR", str(made.unit_dir))
    monkeypatch.setattr(service_config.time, "sleep", lambda _seconds: None)
    return made


def test_a_first_deployment_keeps_enables_and_starts(host):
    result = host.deploy()
    assert result["changed"] and result["started"] and not result["restarted"]
    assert result["id"].startswith(f"{RELEASE}-") and result["previous"] is None
    assert result["invocation_id"] == host.invocation and result["active_state"] == "activating"
    assert host.calls == [
        "systemd-analyze verify", "daemon-reload", f"reenable -- {UNIT}", f"reset-failed -- {UNIT}",
        f"start --no-block -- {UNIT}",
    ]  # fmt: skip
    folder = host.config_dir / NAME / "configs" / result["id"]
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {
        "unit": 0o644, "env": 0o640, "record.json": 0o644,
    }  # fmt: skip
    assert host.file.read_text() == TEXT and host.file.stat().st_mode & 0o777 == 0o644
    active = host.config_dir / f"{NAME}.env"
    assert active.read_text() == ENVIRONMENT and active.stat().st_mode & 0o777 == 0o640
    record = json.loads((folder / "record.json").read_text())
    assert record == result["record"]
    assert (record["id"], record["name"], record["unit"], record["verify"]) == (result["id"], NAME, UNIT, {"ranks": 8})
    assert host.kept() == {"active": result["id"], "verified": [], "pending": None, "rollout": None}
    assert "planted" not in json.dumps(result)


def test_a_second_run_changes_nothing(host):
    host.deploy()
    host.state, before = "active", len(host.calls)
    result = host.deploy()
    assert not result["changed"] and not result["diff"]
    assert host.calls[before:] == []


@pytest.mark.parametrize("check", [True, False])
def test_what_systemd_applies_by_itself_restarts_nothing(host, check):
    host.deploy()
    host.state, before = "active", len(host.calls)
    result = host.deploy(LIVE, check=check)
    assert result["changed"] and not result["restart_needed"] and not result["restarted"]
    assert [(one["directive"], one["effect"]) for one in result["changes"]] == [
        ("Description", "none"), ("MemoryMax", "live"),
    ]  # fmt: skip
    assert host.starts == 1
    assert host.calls[before:] == ["systemd-analyze verify", *([] if check else ["daemon-reload"])]
    assert (host.file.read_text() == TEXT) is check


def test_a_key_on_the_units_command_line_is_in_no_answer(host):
    before = TEXT.replace("--port", "--api-key planted-4711 --port")
    host.deploy(before)
    answer = host.deploy(before.replace("planted-4711", "planted-4712").replace("30000", "30001"))
    told = json.dumps(answer)
    assert "planted" not in told and "30001" in told, told


def test_what_was_verified_leaves_nothing_pending(host):
    host.deploy()
    host.deploy(OTHER, restart="never")
    assert host.kept()["pending"]["reasons"]
    # Somebody starts it anew, and that start is proved.
    host.command(["systemctl", "restart", UNIT])
    assert host.prove()
    assert host.kept()["pending"] is None


def test_check_mode_says_why_a_restart_is_needed_and_does_nothing(host):
    host.deploy()
    host.state = "active"
    files = {path: path.read_bytes() for path in host.config_dir.rglob("*") if path.is_file()}
    before = list(host.calls)
    result = host.deploy(OTHER, ENVIRONMENT.replace("4711", "4712"), check=True)
    assert result["changed"] and result["restart_needed"] and result["restarted"]
    assert result["restart_reasons"] == [
        "The command line changes from --port 30000 to --port 30001.",
        "The variable HF_TOKEN of the service's environment has another value.",
    ]
    assert result["restart_reasons"][0] in result["diff"][-1]["prepared"]
    assert [call for call in host.calls if not call.startswith("systemd-analyze")] == [
        call for call in before if not call.startswith("systemd-analyze")
    ]
    assert {path: path.read_bytes() for path in host.config_dir.rglob("*") if path.is_file()} == files
    assert "planted" not in json.dumps(result)


def test_a_change_that_needs_it_restarts_once(host):
    first = host.deploy()
    host.state, before = "active", len(host.calls)
    result = host.deploy(OTHER)
    assert result["restarted"] and not result["started"] and result["previous"] == first["id"]
    assert host.calls[before:] == [
        "systemd-analyze verify", "daemon-reload", f"reset-failed -- {UNIT}", f"restart --no-block -- {UNIT}",
    ]  # fmt: skip
    assert host.kept()["pending"] is None
    host.state = "active"
    assert not host.deploy(OTHER)["changed"]
    assert host.starts == 2


@pytest.mark.parametrize("step", ["daemon-reload", "reset-failed", "restart"])
def test_a_run_that_broke_off_is_completed_by_the_next(host, step):
    host.deploy()
    host.state, host.kill_at = "active", step
    with pytest.raises(Killed):
        host.deploy(OTHER)
    assert host.kept()["pending"]["invocation_id"] == host.invocation
    host.kill_at = None
    result = host.deploy(OTHER)
    assert result["restarted"] and host.starts == 2
    assert result["restart_reasons"] == ["The command line changes from --port 30000 to --port 30001."]
    assert host.kept()["pending"] is None and host.loaded == OTHER


@pytest.mark.parametrize("step", ["daemon-reload", "reset-failed", "restart"])
def test_a_run_that_broke_off_and_is_taken_back_restarts_nothing(host, step):
    host.deploy()
    host.state, host.kill_at = "active", step
    with pytest.raises(Killed):
        host.deploy(OTHER)
    host.kill_at = None
    result = host.deploy()
    assert not result["restarted"] and host.starts == 1
    assert host.loaded == host.file.read_text() == TEXT
    assert host.kept()["pending"] is None


def test_a_restart_by_somebody_else_completes_a_broken_run(host):
    host.deploy()
    host.state, host.kill_at = "active", "reset-failed"
    with pytest.raises(Killed):
        host.deploy(OTHER)
    host.kill_at = None
    host.starts += 1
    result = host.deploy(OTHER)
    assert not result["restarted"] and host.starts == 2
    assert host.kept()["pending"] is None


def test_restart_never_leaves_it_to_the_next_run(host):
    host.deploy()
    host.state = "active"
    result = host.deploy(OTHER, restart="never")
    assert result["restart_needed"] and not result["restarted"] and host.starts == 1
    assert host.loaded == OTHER and host.kept()["active"] == result["id"]
    assert host.deploy(OTHER)["restarted"] and host.starts == 2


def test_staging_touches_nothing_that_runs(host):
    first = host.deploy()
    host.state, before, files = "active", len(host.calls), (host.file.stat().st_mtime_ns, host.kept())
    result = host.deploy(OTHER, state="staged")
    assert result["changed"] and result["restart_needed"] and not result["restarted"]
    assert host.calls[before:] == ["systemd-analyze verify"]
    assert (host.file.stat().st_mtime_ns, host.kept()) == files
    assert not host.deploy(OTHER, state="staged")["changed"]
    made = host.run(state="active", id=result["id"])
    assert made["restarted"] and made["previous"] == first["id"] and host.file.read_text() == OTHER
    assert made["record"]["id"] == result["id"]


def test_a_host_without_anything_is_told_what_would_happen(host):
    for state in ("staged", "active"):
        result = host.deploy(TEXT.replace("/usr/bin/env", "/nowhere/python"), state=state, check=True)
        assert result["changed"] and result["started"] is (state == "active")
    assert not host.config_dir.exists() and host.calls == []
    assert host.run()["state"] == service_store.empty_state()
    assert not host.config_dir.exists()


def test_the_last_verified_configuration_comes_back(host):
    first = host.deploy()["id"]
    assert host.prove() and not host.prove("pass again")
    entry = host.kept()["verified"][-1]
    assert (entry["id"], entry["invocation_id"], entry["summary"]) == (first, host.invocation, "pass")
    host.state = "active"
    assert "names no verified configuration but the active one" in host.refuse(state="active", id="verified")
    host.deploy(OTHER)
    result = host.run(state="active", id="verified")
    assert result["id"] == first and result["restarted"]
    assert host.file.read_text() == TEXT and (host.config_dir / f"{NAME}.env").read_text() == ENVIRONMENT


def test_what_was_verified_is_what_runs(host):
    first = host.deploy()["id"]
    host.state = "active"
    host.deploy(OTHER, restart="never")
    host.prove()
    assert host.kept()["verified"][-1]["id"] == first


@pytest.mark.parametrize(
    ("state", "restart", "started", "word"),
    [
        ("inactive", "auto", True, "start"),
        ("failed", "auto", True, "start"),
        ("deactivating", "auto", True, "start"),
        ("auto-restart", "auto", True, "restart"),
        ("inactive", "never", False, None),
    ],
)
def test_a_service_that_is_down_is_started_with_the_new_configuration(host, state, restart, started, word):
    host.deploy()
    host.state = state
    result = host.deploy(OTHER, restart=restart)
    assert (result["started"], result["restarted"], result["restart_needed"]) == (started, False, False)
    assert host.starts == 1 + started
    if word:
        assert host.calls[-1] == f"{word} --no-block -- {UNIT}"


def test_a_service_that_waits_for_its_next_try_is_left_alone(host):
    host.deploy()
    host.state = "auto-restart"
    assert not host.deploy()["changed"] and host.starts == 1


def test_files_that_another_hand_changed_are_put_back_and_counted(host):
    host.deploy()
    host.state = "active"
    host.file.write_text(OTHER)
    host.loaded = OTHER
    result = host.deploy()
    assert result["restarted"] and host.file.read_text() == TEXT
    host.state = "active"
    # Edited and never read: nothing can run with it.
    host.file.write_text(OTHER)
    result = host.deploy()
    assert result["changed"] and not result["restarted"] and host.loaded == TEXT


def test_a_unit_from_before_the_store_is_compared_too(host):
    host.file.write_text(TEXT)
    host.config_dir.mkdir(parents=True)
    (host.config_dir / f"{NAME}.env").write_text(ENVIRONMENT)
    host.loaded, host.state, host.starts, host.enabled = TEXT, "active", 1, True
    assert not host.deploy(LIVE)["restarted"]
    host.state = "active"
    assert host.deploy(OTHER)["restarted"]


def test_a_unit_from_before_the_store_that_was_being_replaced_is_restarted(host):
    host.file.write_text(TEXT)
    host.loaded, host.state, host.starts, host.enabled = TEXT, "active", 1, True
    host.kill_at = "daemon-reload"
    with pytest.raises(Killed):
        host.deploy(OTHER)
    host.kill_at = None
    assert host.deploy(OTHER)["restarted"]


def test_a_unit_that_systemd_does_not_take_changes_nothing(host):
    host.said = "Unknown key name 'Nonsense' in section 'Service', ignoring."
    record = {"release_dir": f"/opt/sglang/releases/{RELEASE}"}
    for state in ("staged", "active"):
        told = host.refuse(state=state, unit=TEXT, environment=ENVIRONMENT, record=record)
        assert "nothing was changed" in told and "Nonsense" in told
    assert not host.file.exists() and not (host.config_dir / NAME / "configs").exists()


def test_old_configurations_go_and_used_ones_stay(host):
    verified = host.deploy()["id"]
    host.prove()
    made = []
    for number in range(4):
        host.state = "active"
        made.append(host.deploy(TEXT.replace("30000", str(31000 + number)), kept=2)["id"])
        for age, one in enumerate([verified, *made]):
            with contextlib.suppress(FileNotFoundError):
                os.utime(host.config_dir / NAME / "configs" / one, (age * 100, age * 100))
    result = host.run(state="active", id=made[-1], kept=2)
    assert set(result["configurations"]) >= {verified, made[-1], made[-2]}
    assert made[0] not in host.run()["configurations"]


def test_the_note_of_a_rollout_is_kept_and_removed(host):
    host.deploy()
    note = {"step": 1, "to": "x"}
    assert host.run(state="rollout", rollout=note, check=True)["changed"] and host.kept()["rollout"] is None
    assert host.run(state="rollout", rollout=note)["changed"] and host.kept()["rollout"] == note
    assert not host.run(state="rollout", rollout=note)["changed"]
    host.state = "active"
    host.deploy(OTHER)
    assert host.kept()["rollout"] == note
    assert host.run(state="rollout")["changed"] and host.kept()["rollout"] is None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"name": "a/b"}, 'name is "a/b"'),
        ({"name": "kimi.env"}, 'name is "kimi.env"'),
        ({"state": "present"}, "state is present: it has to be one of staged, active"),
        ({"kept": 0}, "kept is 0"),
        ({"stop_timeout": -1}, "stop_timeout is -1"),
        ({"state": "staged"}, "it needs unit, environment and record"),
        ({"state": "active", "unit": TEXT}, "it needs unit, environment and record"),
        ({"state": "active", "id": "1-00000000"}, 'id is "1-00000000"'),
        ({"state": "active", "id": "../.."}, 'id is "../.."'),
    ],
)
def test_what_cannot_be_is_refused(host, options, told):
    assert told in host.refuse(**options)
    assert host.calls == []


def test_a_state_that_cannot_be_read_is_named(host):
    host.deploy()
    Path(host.config_dir / NAME / "state.json").write_text("{")
    assert "state.json cannot be read" in host.refuse()


def test_a_group_that_is_missing_is_named(host):
    told = host.refuse(state="active", unit=TEXT, environment=ENVIRONMENT, record={}, group="no-such-group")
    assert 'group is "no-such-group"' in told and not host.file.exists()


def test_a_start_that_never_begins_is_told(host, monkeypatch):
    host.deploy()
    host.state = "failed"
    real = host.command
    monkeypatch.setattr(
        AnsibleModule,
        "run_command",
        lambda _self, argv, **_options: (0, "", "") if "--no-block" in argv else real(argv),
    )
    assert "was told to start" in host.refuse(state="active", id=host.kept()["active"])
