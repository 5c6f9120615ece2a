# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of a running service: a restart for a reason only, said before and done once, and the way back."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
from ansible_collections.llmfleet.sglang.tests.service.host import UNIT, counts, said_in, until

OLD = {"sglang_version": "0.5.16+standin", "serve_speculative_enabled": False}
# What a unit file, a shell, a template or a codec could spoil.
HOSTILE = [
    " leading, two  spaces, trailing ",
    "100% %n %i %%",
    "$HOME ${HOME} $$ ${UNSET:-x} cost $5",
    "it's \"both\" 'single'",
    "back\\slash \\n \\x41 end\\",
    '{"a":{"path":"C:\\\\x","n":[1,2.5,null,true],"q":"\\"%s\\" $1"}}',
    "; # comment [Service] ExecStart=/bin/false",
    "größe € 漢字 🚀",
    "`id` $(id) *?[a] ~ ! && || > <",
]


def since(server, before):
    """The starts that began after those in a list."""
    return [one for one in server.starts() if one not in before]


def words_of(server, pid, name="cmdline"):
    """What a process got, one word for each line's worth, whatever is in them."""
    text = server.on_host(f"base64 --wrap=0 /proc/{pid}/{name}")
    return (
        subprocess.run(["base64", "-d"], input=text.encode(), capture_output=True, check=True)
        .stdout.decode()
        .split("\0")
    )


# ---- another release, and the way back -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def old(server):
    """The host with a release that ends by killing itself, and without a draft model."""
    server.before_old = server.show()
    status, told = server.serve(lab_release_step="main", **OLD)
    assert status == 0, told[-6000:]
    server.told_old = told
    return server


def test_without_speculation_the_verdict_follows(old):
    assert "--speculative" not in " ".join(words_of(old, old.show()["MainPID"]))
    assert "PASS - 8 of 8 ranks" in old.told_old
    assert "--enable-hierarchical-cache" in words_of(old, old.show()["MainPID"])


def stream(server, tokens):
    """A streaming request on the host: (process, lines that come)."""
    body = (
        '{"model":"kimi-k2.5","messages":[{"role":"user","content":"Count."}],"stream":true,"ignore_eos":true,'
        f'"max_tokens":{tokens}}}'
    )
    url = "http://127.0.0.1:30000/v1/chat/completions"
    command = f"curl --silent --no-buffer --max-time 170 {url} --data {shlex.quote(body)}"
    running = subprocess.Popen(server.ssh(command), stdout=subprocess.PIPE, text=True)
    return running, (line.strip() for line in running.stdout if line.startswith("data:"))


def drained(server):
    """Stop the unit under a stream; returns (chunks that came, the unit afterwards)."""
    running, lines = stream(server, 400)
    chunks = [next(lines)]
    server.on_host(f"systemctl stop --no-block {UNIT}")
    until(lambda: server.show()["ActiveState"] != "active")
    chunks += list(lines)
    assert running.wait() == 0
    until(lambda: server.show()["ActiveState"] in ("inactive", "failed"))
    return chunks, server.show()


def test_an_old_release_finishes_a_stream_and_its_stop_is_a_success(old):
    chunks, unit = drained(old)
    assert (len(chunks) > 400, chunks[-1]) == (True, "data: [DONE]")
    # It ended by a SIGKILL of itself, and nobody shall be called for that.
    assert (unit["ActiveState"], unit["Result"], unit["NRestarts"]) == ("inactive", "success", "0")


def test_a_crash_of_an_old_release_is_restarted_all_the_same(old):
    began = old.restart("die-after-ready=0")
    until(lambda: old.show()["NRestarts"] != "0")
    old.fault("")
    unit = until(
        lambda: next(
            (one for one in [old.show()] if one["ActiveState"] == "active" and one["InvocationID"] != began), None
        )
    )
    assert int(unit["NRestarts"]) >= 1


def test_the_verified_pair_of_release_and_unit_comes_back(old):
    kept = old.module("service_config", name="kimi", state="info")
    assert {entry["id"] for entry in kept["state"]["verified"]} >= {old.first, kept["id"]}
    told = old.module("service_config", name="kimi", state="active", id="verified")
    assert (told["id"], told["previous"], told["restarted"]) == (old.first, kept["id"], True)
    unit = old.ready()
    words = words_of(old, unit["MainPID"])
    assert words[0].startswith("/opt/sglang/releases/0.5.23+standin")
    assert "--speculative-algorithm" in words
    # Judged by the settings that it was made from, the inventory's are the same again.
    status, told = old.verify()
    assert status == 0, told[-6000:]


def test_a_new_release_finishes_a_stream_and_leaves_with_status_0(healthy):
    chunks, unit = drained(healthy)
    assert (len(chunks) > 400, chunks[-1]) == (True, "data: [DONE]")
    assert (unit["ActiveState"], unit["Result"], unit["ExecMainStatus"]) == ("inactive", "success", "0")
    healthy.on_host(f"systemctl start --no-block {UNIT}")


# ---- a change that needs a restart ---------------------------------------------------------------------------

CHANGE = {
    "serve_hicache_ratio": 3.0,
    "serve_engine_options": {"weight-version": " ".join(HOSTILE)},
    "environment": {f"LAB_{number}": value for number, value in enumerate(HOSTILE)},
}


@pytest.fixture(scope="module")
def changed(server):
    """A change that needs a restart: said in check mode, then made."""
    until(lambda: server.show()["ActiveState"] == "active")
    server.before_change = server.invocation(), server.starts()
    server.change_checked = server.serve("--check", **CHANGE)
    server.after_check = server.invocation()
    server.change_made = server.serve(**CHANGE)
    assert server.change_made[0] == 0, server.change_made[1][-6000:]
    return server


def test_a_restart_is_said_in_check_mode_and_not_done(changed):
    status, told = changed.change_checked
    assert status == 0, told[-6000:]
    assert "--hicache-ratio 4.0 to --hicache-ratio 3.0" in said_in(told)
    assert "The variable LAB_0 of the service's environment is new." in said_in(told)
    assert f"{UNIT} needs a restart" in said_in(told)
    assert changed.after_check == changed.before_change[0]


def test_it_happens_once(changed):
    assert len(since(changed, changed.before_change[1])) == 1
    assert changed.invocation() != changed.before_change[0]
    assert changed.state()["pending"] is None


def test_the_process_got_every_word_as_it_was_meant(changed):
    words = words_of(changed, changed.show()["MainPID"])
    assert words[words.index("--weight-version") + 1] == " ".join(HOSTILE)


def test_the_process_got_every_variable_as_it_was_meant(changed):
    got = dict(word.partition("=")[::2] for word in words_of(changed, changed.show()["MainPID"], "environ"))
    assert [got.get(f"LAB_{number}") for number in range(len(HOSTILE))] == HOSTILE


def test_a_line_break_is_refused_before_anything_changes(changed):
    before = changed.state()["active"]
    status, told = changed.serve(
        environment={"LAB_BAD": "two\nlines"}, serve_engine_options={"weight-version": "two\nlines"}
    )
    assert status != 0
    assert said_in(told).count("write it in one line") >= 2, told[-3000:]
    assert "LAB_BAD" in told and "weight-version" in told
    assert changed.state()["active"] == before


# ---- changes that need none ----------------------------------------------------------------------------------


def test_what_systemd_applies_by_itself_restarts_nothing(changed):
    before = changed.invocation(), changed.starts(), changed.state()["active"]
    status, told = changed.serve(
        **CHANGE,
        serve_restart_seconds=7,
        serve_unit_directives={"Unit": {"Description": "Another description"}, "Service": {"TasksMax": 54321}},
    )
    assert status == 0, told[-6000:]
    assert counts(told)["changed"] >= 1
    unit = changed.show()
    assert (unit["InvocationID"], changed.starts()) == before[:2]
    assert changed.state()["active"] != before[2]
    assert (unit["Description"], unit["RestartUSec"], unit["TasksMax"]) == ("Another description", "7s", "54321")
    assert unit["NeedDaemonReload"] == "no"


# ---- a run that broke off ------------------------------------------------------------------------------------


def test_a_broken_off_run_is_finished_by_the_next(healthy):
    before = healthy.invocation(), healthy.starts()
    settings = {"serve_hicache_enabled": False}
    status, told = healthy.play("tests/service/stage.yml", **settings)
    assert status == 0, told[-6000:]
    staged = re.search(r"staged=(\S+)=", told).group(1)
    assert (healthy.invocation(), healthy.state()["active"]) == (before[0], healthy.first)
    # As a run leaves it that ended between writing the files and the restart.
    told = healthy.module("service_config", name="kimi", state="active", id=staged, restart="never")
    assert (told["restarted"], told["restart_needed"]) == (False, True)
    assert healthy.state()["pending"]["invocation_id"] == healthy.invocation() == before[0]
    status, told = healthy.serve(**settings)
    assert status == 0, told[-6000:]
    assert len(since(healthy, before[1])) == 1
    assert healthy.state()["pending"] is None
    # The verdict follows the switch: no rank reports a pool, and that is right.
    assert "--enable-hierarchical-cache" not in words_of(healthy, healthy.show()["MainPID"])
    assert "PASS" in told
    assert (
        healthy.on_host(
            f"journalctl --quiet --grep='Allocating kv' _SYSTEMD_INVOCATION_ID={healthy.invocation()}; true"
        )
        == ""
    )
