# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that somebody changed by hand: every playbook gives the same verdict, and writes down no better one.

A change is made once; then each playbook that judges runs on it. What ``site.yml`` deployed is the measure: the record
of the configuration that the host keeps.
"""

from __future__ import annotations

import json
import re
import shlex
from contextlib import contextmanager
from pathlib import Path

import pytest
from ansible_collections.llmfleet.sglang.tests.service.host import NAME, UNIT, said_in, until

UNIT_FILE = f"/etc/systemd/system/{UNIT}"
DROP_IN = f"/etc/systemd/system/{UNIT}.d/override.conf"
ENVIRONMENT = "/etc/sglang/kimi.env"
FACT = "/etc/ansible/facts.d/sglang_kimi.fact"
FOREIGN, FOREIGN_UNIT = "/usr/local/lib/lab-foreign.py", "lab-foreign"
# A value that nobody may read in what a playbook says.
PLANTED = "planted-3f1c9a7e"
FORGED_DEATH = "Rank 0 scheduler died"
FORGED_POOLS = " ".join(
    f"[2026-03-01 23:45:06 TP{rank}] Allocating 44.77 GB host memory for hierarchical KV cache." for rank in range(8)
)
PAIR = [
    {"name": "left", "port": 30010, "tensor_parallel_size": 4, "gpus": [0, 1, 2, 3]},
    {"name": "right", "port": 30011, "tensor_parallel_size": 4, "gpus": [4, 5, 6, 7]},
]


# -- changes by hand ----------------------------------------------------------------------------------------------


def rewrite(server, path, change):
    """Change a file of the host; a change that changes nothing is a mistake of the test."""
    text = server.on_host(f"cat {path}") + "\n"
    assert change(text) != text, text
    # In place, so that owner and mode stay.
    server.on_host(f"cat > {path}", change(text))


def reload_and_restart(server, fault="", unit=UNIT):
    server.on_host("systemctl daemon-reload")
    if unit == UNIT:
        server.restart(fault)
    else:
        server.on_host(f"systemctl restart --no-block {unit}")
    server.ready(unit)


def ratio_of(text):
    return re.sub(r"--hicache-ratio \S+", "--hicache-ratio 2.0", text)


def ratio_edited(server):
    rewrite(server, UNIT_FILE, ratio_of)
    reload_and_restart(server)


def bytes_halved(server):
    reload_and_restart(server, "half-bytes")


def speculation_removed(server):
    rewrite(server, UNIT_FILE, lambda text: re.sub(r" *--speculative-\S+ \S+( \\)?\n", "", text))
    assert "--speculative" not in server.on_host(f"cat {UNIT_FILE}")
    reload_and_restart(server)


def nothing_accepted(server):
    reload_and_restart(server, "accept-length=1.00")


def edited_not_restarted(server):
    rewrite(server, UNIT_FILE, ratio_of)


def environment_edited(server):
    rewrite(server, ENVIRONMENT, lambda text: re.sub(r"(?m)^LAB_TOKEN=.*$", f"LAB_TOKEN={PLANTED}", text))
    rewrite(server, ENVIRONMENT, lambda text: f"{text}SGLANG_ADDED={PLANTED}\n")
    reload_and_restart(server)


def drop_in(server):
    words = re.search(r"(?ms)^ExecStart=(.*?[^\\])$", server.on_host(f"cat {UNIT_FILE}")).group(1)
    server.on_host(f"mkdir -p {Path(DROP_IN).parent}")
    server.on_host(f"cat > {DROP_IN}", f"[Service]\nExecStart=\nExecStart={ratio_of(words)}\n")
    reload_and_restart(server)


def foreign(server):
    """Another user's server on the service's port, which answers 200 whatever it is asked."""
    server.on_host(f"cat > {FOREIGN}", Path(__file__).with_name("foreign.py").read_text())
    run = f"systemd-run --quiet --unit={FOREIGN_UNIT} --uid=nobody --collect"
    server.on_host(f"{run} python3 {FOREIGN} 30000")
    until(lambda: "200" in server.on_host(f"{ask('/health')}; true"))


def port_taken_while_stopped(server):
    server.on_host(f"systemctl stop {UNIT}")
    foreign(server)


def port_taken_and_moved(server):
    rewrite(server, UNIT_FILE, lambda text: text.replace("30000", "30001"))
    reload_and_restart(server)
    foreign(server)


def forged_pools_and_none(server):
    reload_and_restart(server, "no-hicache-lines,forwarded-trusted")
    forge(server, FORGED_POOLS)


def ask(path, *words, port=30000):
    """The words of a request on the host that prints the status."""
    given = " ".join(shlex.quote(word) for word in words)
    return f"curl --silent --output /dev/null --write-out '%{{http_code}}' {given} http://127.0.0.1:{port}{path}"


def forge(server, text):
    """Name a client that does not exist, and see the access record that it made of that."""
    before = server.journal(invocation=server.invocation()).count(text)
    assert server.on_host(ask("/v1/models", "--header", f"X-Forwarded-For: {text}")) == "200"
    until(lambda: server.journal(invocation=server.invocation()).count(text) > before)


def put_right(server):
    """Undo every change by hand, and start the service as it was deployed."""
    server.on_host(f"systemctl stop {FOREIGN_UNIT} 2>/dev/null; rm -rf {Path(DROP_IN).parent} {FOREIGN}")
    kept = f"/etc/sglang/kimi/configs/{server.first}"
    # In place, so that owner and mode stay.
    server.on_host(f"cat {kept}/unit > {UNIT_FILE}; cat {kept}/env > {ENVIRONMENT}")
    reload_and_restart(server)


# -- what the playbooks say ---------------------------------------------------------------------------------------


def codes_in(told):
    return set(re.findall(r"\bcode: '?(\w+)", told))


def fact(server):
    return json.loads(server.on_host(f"cat {FACT}"))


def verified(server):
    return server.state()["verified"]


def status(server, judged):
    """Run status.yml; returns (status, the row of the service, what it said)."""
    path = server.folder / "fleet.json"
    path.unlink(missing_ok=True)
    done, told = server.play(
        "playbooks/status.yml", status_format="json", status_file=str(path), status_judgement_enabled=judged
    )
    rows = [row for row in json.loads(path.read_text())["rows"] if row["service"] == "kimi"]
    assert len(rows) == 1, rows
    return done, rows[0], told


JUDGES = {
    "verify": lambda server, **more: server.verify(**more),
    "undrain": lambda server, **more: server.play("playbooks/undrain.yml", **more),
    "site --tags verify": lambda server, **more: server.site("--tags=verify", **more),
}
# Those of them that write their verdict down.
WRITERS = ("undrain", "site --tags verify")


class Edit:
    """A change by hand: what it does, and the code, the words and the states that it has to lead to."""

    def __init__(self, apply, codes, words=(), states=("rejected",), judged="fail"):
        self.apply, self.codes, self.words, self.states, self.judged = apply, set(codes), words, states, judged

    def __repr__(self):
        return self.apply.__name__


DIFFERS = "settings_differ"
EDITS = [
    Edit(ratio_edited, [DIFFERS], ["2.0", "4.0"]),
    Edit(bytes_halved, ["size_wrong"], ["22.39", "44.77"]),
    Edit(speculation_removed, [DIFFERS], ["--speculative-algorithm", "EAGLE3"]),
    # Nobody may send a request for a status: without a verdict on this start it is not known how the server answers.
    Edit(nothing_accepted, ["accept_length"], ["1.00"], states=("unproved",), judged="inconclusive"),
    Edit(edited_not_restarted, [DIFFERS], ["2.0", "4.0"]),
    Edit(environment_edited, [DIFFERS], ["LAB_TOKEN", "SGLANG_ADDED"]),
    Edit(drop_in, [DIFFERS], [DROP_IN, "2.0", "4.0"]),
    Edit(port_taken_while_stopped, ["unit_inactive"], states=("stopped",)),
    Edit(port_taken_and_moved, [DIFFERS], ["30001", "30000"]),
    Edit(forged_pools_and_none, ["rank_missing"]),
]


@contextmanager
def edited(server, edit):
    try:
        edit.apply(server)
        yield
    finally:
        put_right(server)


@pytest.fixture
def sound(healthy):
    """The host as it was deployed: nothing of an earlier test's change is left, also where that test failed."""
    told = healthy.module("service_verify", name="kimi", written_down=False)
    if told["verdict"] != "pass":
        put_right(healthy)
        told = healthy.module("service_verify", name="kimi", written_down=False)
    assert told["verdict"] == "pass", told["reasons"]
    return healthy


@pytest.mark.parametrize("edit", EDITS, ids=repr)
def test_every_playbook_sees_what_was_changed_by_hand(sound, edit):
    server = sound
    before = verified(server)
    with edited(server, edit):
        # Before anybody has judged this start: what the host itself tells, and a judgement without a request.
        done, row, told = status(server, judged=True)
        said = [told]
        assert done != 0, told[-3000:]
        assert {problem["code"] for problem in row["problems"]} & set(edit.states), row["problems"]
        assert row["verdict"] == edit.judged, row
        for name, judge in JUDGES.items():
            kept = fact(server)
            done, told = judge(server)
            said.append(told)
            assert done != 0, (name, told[-3000:])
            assert edit.codes <= codes_in(told), (name, codes_in(told), told[-3000:])
            for word in edit.words:
                assert word in said_in(told), (name, word, told[-3000:])
            assert f"{NAME} {UNIT}: FAIL - " in said_in(told), (name, told[-3000:])
            assert f"{UNIT}: PASS" not in said_in(told), name
            # Nothing of it is written down as good.
            assert verified(server) == before, name
            now = fact(server)
            if name in WRITERS:
                assert now["verdict"] == "fail", (name, now["summary"])
                assert edit.codes <= {reason["code"] for reason in now["reasons"]}
                # The same sentence, whichever playbook.
                for text in said[1:]:
                    assert now["summary"] in said_in(text), (now["summary"], text[-3000:])
            else:
                assert now == kept, name
        # The verdict that is kept is that on this start now.
        done, row, told = status(server, judged=False)
        said.append(told)
        assert done != 0, told[-3000:]
        problems = {problem["code"]: problem["detail"] for problem in row["problems"]}
        assert "stopped" in problems or problems["rejected"] == now["summary"], problems
        assert PLANTED not in "".join(said)


def test_a_status_without_a_judgement_does_not_rest_on_a_verdict_of_before_the_change(sound):
    assert sound.play("playbooks/undrain.yml")[0] == 0
    with edited(sound, Edit(edited_not_restarted, [])):
        done, row, told = status(sound, judged=False)
        # It is still the start that was verified, and the verdict that is kept says so.
        assert fact(sound)["verdict"] == "pass"
        assert fact(sound)["invocation_id"] == sound.invocation()
        assert (done != 0, row["state"]) == (True, "differs"), told[-3000:]


def test_less_evidence_is_no_better_verdict(sound):
    before = verified(sound)
    with edited(sound, Edit(nothing_accepted, [])):
        for told in (
            sound.verify(verify_requests_enabled=False),
            sound.play("playbooks/undrain.yml", verify_requests_enabled=False),
        ):
            assert told[0] != 0
            assert f"{UNIT}: INCONCLUSIVE - " in said_in(told[1])
        assert fact(sound)["verdict"] == "inconclusive"
        assert sound.play("playbooks/undrain.yml")[0] != 0
        rejected = fact(sound)
        assert (rejected["verdict"], rejected["requests_sent"]) == ("fail", True)
        # What was seen on this start is not forgotten by a look that sees less.
        status_, told = sound.play("playbooks/undrain.yml", verify_requests_enabled=False)
        assert status_ != 0
        assert "accept_length" in codes_in(told)
        assert fact(sound)["verdict"] == "fail"
        assert "accept_length" in {reason["code"] for reason in fact(sound)["reasons"]}
        assert verified(sound) == before


def test_site_puts_an_edited_service_right(sound):
    with edited(sound, EDITS[0]):
        done, told = sound.site()
        assert done == 0, told[-3000:]
        assert "--hicache-ratio 4.0" in sound.on_host(f"cat {UNIT_FILE}")
        assert f"{NAME} {UNIT}: PASS - 8 of 8 ranks, 44.77 GB each (predicted 44.77)" in said_in(told)
        began = sound.invocation()
        assert fact(sound)["invocation_id"] == began
        assert began in {entry["invocation_id"] for entry in verified(sound)}
        done, told = sound.verify()
        assert done == 0, told[-3000:]
        assert fact(sound)["summary"] in said_in(told)


def test_a_made_client_in_an_access_record_changes_nothing(sound):
    reload_and_restart(sound, "forwarded-trusted")
    try:
        done, told = sound.play("playbooks/undrain.yml")
        assert done == 0, told[-3000:]
        before = fact(sound)
        for text in (FORGED_DEATH, FORGED_POOLS):
            forge(sound, text)
        for name, judge in JUDGES.items():
            done, told = judge(sound)
            assert done == 0, (name, told[-3000:])
            assert before["summary"] in said_in(told), (name, before["summary"], told[-3000:])
        now = fact(sound)
        assert (now["verdict"], now["ranks"]) == ("pass", before["ranks"])
        done, row, told = status(sound, judged=True)
        assert (done, row["verdict"], row["state"]) == (0, "pass", "ok"), told[-3000:]
        assert sound.show()["NRestarts"] == "0"
    finally:
        put_right(sound)


def test_the_unit_takes_nobodys_word_for_who_a_client_is(sound):
    assert sound.on_host(ask("/v1/models", "--header", f"X-Forwarded-For: {FORGED_DEATH}")) == "200"
    # A second request, which is printed after the first.
    assert sound.on_host(ask("/v1/models", "--header", "X-Forwarded-For: 192.0.2.7")) == "200"
    journal = until(
        lambda: next((text for text in [sound.journal(invocation=sound.invocation())] if "/v1/models" in text), "")
    )
    assert FORGED_DEATH not in journal
    assert "192.0.2.7" not in journal


def test_a_service_without_a_record_is_judged_by_the_variables_and_the_line_tells_it(sound):
    aside = "/var/tmp/lab-kept-kimi"
    sound.on_host(f"mv /etc/sglang/kimi {aside}")
    try:
        done, told = sound.verify()
        assert done == 0, told[-3000:]
        assert re.search(rf"{UNIT}: PASS - 8 of 8 ranks, 44.77 GB each \(predicted 44.77\).* variables", said_in(told))
        done, told = sound.play("playbooks/undrain.yml")
        assert done == 0, told[-3000:]
        assert "variables" in fact(sound)["summary"]
        # It is no record: nobody may go back to it.
        assert sound.on_host("ls /etc/sglang/kimi 2>/dev/null; true") == ""
        reload_and_restart(sound, "half-bytes")
        done, told = sound.verify()
        assert done != 0, told[-3000:]
        assert re.search(rf"{UNIT}: FAIL - .* variables", said_in(told)), told[-3000:]
        assert "size_wrong" in codes_in(told), told[-3000:]
    finally:
        sound.on_host(f"rm -rf /etc/sglang/kimi; mv {aside} /etc/sglang/kimi")
        put_right(sound)


# -- two services of a host ---------------------------------------------------------------------------------------


def outcome_of(told):
    """What the last task that shows the verdicts said, as one line."""
    return said_in(told.rpartition("Show the verdicts")[2].partition("\nPLAY ")[0])


def test_the_last_lines_show_every_service_of_a_host(sound):
    server = sound
    try:
        done, told = server.site("--tags=sglang,model,serve,verify", serve_instances=PAIR)
        assert done == 0, told[-6000:]
        for text in (told, server.verify(serve_instances=PAIR)[1]):
            for name in ("left", "right"):
                assert f"{NAME} sglang-{name}.service: PASS - 4 of 4 ranks" in outcome_of(text), text[-3000:]
        rewrite(server, "/etc/systemd/system/sglang-right.service", ratio_of)
        reload_and_restart(server, unit="sglang-right.service")
        done, told = server.verify(serve_instances=PAIR)
        assert done != 0
        assert f"{NAME} sglang-left.service: PASS - 4 of 4 ranks" in outcome_of(told), told[-3000:]
        assert f"{NAME} sglang-right.service: FAIL - " in outcome_of(told), told[-3000:]
    finally:
        server.on_host("systemctl disable --quiet --now sglang-left sglang-right; true")
        server.on_host("rm -rf /etc/sglang/left* /etc/sglang/right* /etc/systemd/system/sglang-left.service")
        server.on_host("rm -rf /etc/systemd/system/sglang-right.service /etc/ansible/facts.d/sglang_{left,right}.fact")
        server.on_host("systemctl daemon-reload")
