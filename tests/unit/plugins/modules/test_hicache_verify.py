# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module with a systemctl and a journalctl that play recorded answers and note how they are called."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import json
import os
import re
import subprocess
import threading
import time
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_judge, hicache_log, journal
from ansible_collections.llmfleet.sglang.plugins.module_utils._hicache import verifier
from ansible_collections.llmfleet.sglang.plugins.modules import hicache_verify

DATA = Path(__file__).resolve().parents[2] / "data"
REMOTE = "/usr/lib/systemd/systemd-journal-remote"
A, B = "a" * 32, "b" * 32
ALIVE = {
    "Id": "sglang.service",
    "LoadState": "loaded",
    "ActiveState": "active",
    "SubState": "running",
    "InvocationID": A,
}
FAILED = {**ALIVE, "ActiveState": "failed", "SubState": "failed", "Result": "exit-code"}

JOURNALCTL = """#!/bin/sh
printf '%s\\n' "$*" >> "$FAKE/journalctl.calls"
printf '%s %s\\n' "$LC_ALL" "$LANGUAGE" >> "$FAKE/locale"
case "$*" in
  *_TRANSPORT=kernel*) cat "$FAKE/kernel" 2>/dev/null; exit 0 ;;
esac
n=$(($(cat "$FAKE/n" 2>/dev/null || echo 0) + 1))
echo "$n" > "$FAKE/n"
cat "$FAKE/journal.$n" 2>/dev/null
cat "$FAKE/errors" >&2 2>/dev/null
exit "$(cat "$FAKE/code" 2>/dev/null || echo 0)"
"""
SYSTEMCTL = """#!/bin/sh
printf '%s\\n' "$*" >> "$FAKE/systemctl.calls"
m=$(($(cat "$FAKE/m" 2>/dev/null || echo 0) + 1))
echo "$m" > "$FAKE/m"
[ -e "$FAKE/show.$m" ] && cp "$FAKE/show.$m" "$FAKE/show"
cat "$FAKE/show"
"""


class Ended(Exception):
    """The module ended; holds its answer and whether it failed."""

    def __init__(self, failed, answer):
        super().__init__(answer.get("msg"))
        self.failed = failed
        self.answer = answer


class Host:
    """A host with a unit, as the two commands show it."""

    def __init__(self, folder):
        self.folder = folder

    def states(self, *states):
        for number, state in enumerate(states, 1):
            (self.folder / f"show.{number}").write_text("".join(f"{key}={value}\n" for key, value in state.items()))

    def journal(self, *looks):
        """What each look at the journal shows: lists of messages, or of dicts of fields."""
        count = 0
        for number, look in enumerate(looks, 1):
            lines = []
            for entry in look:
                count += 1
                fields = entry if isinstance(entry, dict) else {"MESSAGE": entry}
                lines.append(json.dumps({**base(count), **fields}, separators=(",", ":")))
            (self.folder / f"journal.{number}").write_text("".join(line + "\n" for line in lines))

    def calls(self, name):
        path = self.folder / f"{name}.calls"
        return path.read_text().splitlines() if path.exists() else []


def base(number):
    return {
        "__CURSOR": f"s=1;i={number}",
        "__REALTIME_TIMESTAMP": str(1772408706000000 + number * 1000000),
        "_TRANSPORT": "stdout",
        "_PID": "42",
        "_SYSTEMD_UNIT": "sglang.service",
        "_SYSTEMD_INVOCATION_ID": A,
    }


STARTED = {
    "MESSAGE": "Started sglang.service - SGLang.",
    "MESSAGE_ID": "39f53479d3a045ac8e11786248231fbf",
    "_PID": "1",
    "_COMM": "systemd",
    "UNIT": "sglang.service",
    "INVOCATION_ID": A,
    "_SYSTEMD_UNIT": "init.scope",
}
READY = "[2026-03-01 23:45:09] The server is fired up and ready to roll!"


def line(rank, gb="44.77"):
    return f"[2026-03-01 23:45:06 TP{rank}] Allocating {gb} GB host memory for hierarchical KV cache."


TOKENS = "[2026-03-01 23:45:05 TP0] max_total_num_tokens=159270, chunked_prefill_size=8192"


@pytest.fixture(name="host")
def make_host(tmp_path, monkeypatch):
    folder = tmp_path / "fake"
    folder.mkdir()
    for name, text in (("journalctl", JOURNALCTL), ("systemctl", SYSTEMCTL)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("FAKE", str(folder))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(journal, "unreadable", lambda: False)

    def end(failed):
        def leave(_self, **answer):
            raise Ended(failed, answer)

        return leave

    monkeypatch.setattr(AnsibleModule, "exit_json", end(False))
    monkeypatch.setattr(AnsibleModule, "fail_json", end(True))
    return Host(folder)


def run(check_mode=False, **arguments):
    arguments = {"unit": "sglang", "ranks": 2, "poll_interval": 0.1, **arguments}
    if arguments.get("ranks") is None:
        del arguments["ranks"]
    if check_mode:
        arguments["_ansible_check_mode"] = True
    with patch_module_args(arguments), pytest.raises(Ended) as ended:
        hicache_verify.main()
    return ended.value


def codes(answer):
    return [reason["code"] for reason in answer["reasons"]]


def test_a_good_start_passes_at_the_first_look(host):
    host.states(ALIVE)
    host.journal([STARTED, TOKENS, line(0), line(1), READY])
    ended = run(ratio=4.0, bytes_per_token=70272, page_size=1, release="0.5.16", timeout=60)
    assert not ended.failed, ended.answer
    answer = ended.answer
    assert answer["changed"] is False
    assert answer["verdict"] == answer["allocation_verdict"] == "pass"
    assert answer["ranks"] == [{"rank": f"TP{one}", "pool": "kv", "gb": 44.77, "tokens": None} for one in (0, 1)]
    assert (answer["ranks_seen"], answer["per_rank_gb"], answer["total_gb"]) == (2, [44.77], 89.54)
    assert (answer["expected_gb"], answer["device_tokens"], answer["invocation_id"]) == (44.77, 159270, A)
    assert (answer["ready"], answer["lost"], answer["fatal"]) == (True, [], [])
    assert (answer["started_at"], answer["ready_at"]) == ("2026-03-01T23:45:07.000000Z", "2026-03-01T23:45:11.000000Z")
    assert answer["messages"] == 5
    assert len(host.calls("systemctl")) == len(host.calls("journalctl")) == 1


def test_the_commands_are_called_as_documented(host):
    host.states(ALIVE)
    host.journal([STARTED, line(0)], [line(1), READY])
    assert not run(timeout=60).failed
    fields = ",".join(journal.OUTPUT_FIELDS)
    matches = f"_SYSTEMD_INVOCATION_ID={A} + _PID=1 INVOCATION_ID={A} + _UID=0 OBJECT_SYSTEMD_INVOCATION_ID={A}"
    assert host.calls("journalctl") == [
        f"--no-pager --output=json --all --output-fields={fields} {matches}",
        f"--no-pager --output=json --all --output-fields={fields} --after-cursor=s=1;i=2 {matches}",
    ]
    properties = ",".join(journal.SHOW_PROPERTIES)
    assert set(host.calls("systemctl")) == {f"show --no-pager --property={properties} -- sglang.service"}
    assert set((host.folder / "locale").read_text().splitlines()) == {"C C"}


def test_each_look_continues_where_the_last_one_stopped(host):
    host.states(ALIVE)
    host.journal([STARTED], [], [line(0)], [line(1)], [READY])
    ended = run(timeout=60)
    assert not ended.failed
    cursors = [call.partition("--after-cursor=")[2].split(" ")[0] for call in host.calls("journalctl")]
    assert cursors == ["", "s=1;i=1", "s=1;i=1", "s=1;i=2", "s=1;i=3"]
    assert ended.answer["messages"] == 4


def test_waiting_ends_when_the_unit_dies(host):
    host.states(ALIVE, ALIVE, FAILED)
    host.journal([STARTED, line(0)], [], ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 18.56 GiB."])
    began = time.monotonic()
    ended = run(timeout=600)
    assert time.monotonic() - began < 60
    assert ended.failed
    assert ended.answer["verdict"] == ended.answer["allocation_verdict"] == "fail"
    assert {"unit_failed", "gpu_out_of_memory", "rank_missing"} <= set(codes(ended.answer))
    assert "deadline" not in codes(ended.answer)


def test_waiting_ends_when_the_unit_was_started_again(host):
    host.states(ALIVE, {**ALIVE, "InvocationID": B, "NRestarts": "1"})
    host.journal([STARTED, line(0), line(1)])
    ended = run(timeout=600)
    assert ended.answer["verdict"] == "fail"
    assert {"restarted", "restarts"} <= set(codes(ended.answer))


def test_waiting_ends_when_the_sizes_are_wrong(host):
    host.states(ALIVE)
    host.journal([STARTED, line(0, "22.38"), line(1, "22.38")])
    ended = run(expected_gb=44.77, timeout=600)
    assert ended.answer["verdict"] == "fail"
    assert "size_wrong" in codes(ended.answer)


def test_a_deadline_that_passes_is_a_reason(host):
    host.states(ALIVE)
    host.journal([STARTED, "[2026-03-01 23:45:00 TP0] Load weight begin. avail mem=38.88 GB"])
    ended = run(timeout=1)
    assert ended.failed
    assert ended.answer["verdict"] == "inconclusive"
    assert "deadline" in codes(ended.answer)
    assert "Load weight begin" in ended.answer["msg"]


def test_without_a_timeout_there_is_one_look(host):
    host.states(ALIVE)
    host.journal([STARTED, line(0)], [line(1)])
    ended = run()
    assert ended.answer["allocation_verdict"] == "fail"
    assert ended.answer["ranks_missing"] == ["TP1"]
    assert len([call for call in host.calls("journalctl") if "kernel" not in call]) == 1


def test_late_lines_alone_are_no_start(host):
    host.states(ALIVE)
    host.journal(['[2026-03-01 23:45:06] INFO:     10.0.0.1:1 - "GET /health HTTP/1.1" 200 OK'])
    answer = run().answer
    assert (answer["verdict"], answer["messages"]) == ("inconclusive", 1)
    assert "start_rotated_away" in codes(answer)
    assert "journal_empty" not in codes(answer)


def test_the_progress_of_a_load_is_shown_though_it_is_not_decoded(host):
    host.states(ALIVE)
    host.journal([STARTED, {"MESSAGE": list(b"\rLoading shards:  50% Completed | 32/64 [00:16<00:00,  2.01it/s]")}])
    assert "32/64" in run().answer["progress"]


def test_a_ready_server_without_every_rank_is_judged_after_a_moment(host):
    host.states(ALIVE)
    host.journal([STARTED, TOKENS, line(0), READY])
    began = time.monotonic()
    ended = run(timeout=600)
    assert 1.5 < time.monotonic() - began < 30
    assert (ended.answer["verdict"], ended.answer["ranks_missing"]) == ("fail", ["TP1"])


@pytest.mark.parametrize(("fail_on", "failed"), [(["fail", "inconclusive"], True), (["fail"], False), ([], False)])
def test_the_verdicts_that_fail_the_task_can_be_chosen(host, fail_on, failed):
    host.states(ALIVE)
    host.journal([STARTED])
    ended = run(fail_on=fail_on)
    assert ended.answer["verdict"] == "inconclusive"
    assert ended.failed is failed


def test_check_mode_does_the_same(host):
    host.states(ALIVE)
    host.journal([STARTED, line(0), line(1), READY])
    ended = run(check_mode=True)
    assert (ended.failed, ended.answer["verdict"], ended.answer["changed"]) == (False, "pass", False)


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ({"Id": "sglang.service", "LoadState": "not-found", "ActiveState": "inactive"}, "unit_not_found"),
        (
            {"Id": "sglang.service", "LoadState": "loaded", "ActiveState": "inactive", "InvocationID": ""},
            "unit_inactive",
        ),
    ],
)
def test_a_unit_that_never_ran_fails_at_once(host, state, code):
    host.states(state)
    ended = run(timeout=600)
    assert ended.answer["verdict"] == "fail"
    assert code in codes(ended.answer)
    assert host.calls("journalctl") == []


def test_an_asked_start_that_is_over_fails(host):
    host.states({**ALIVE, "InvocationID": B})
    host.journal([STARTED, line(0), line(1), READY])
    ended = run(invocation_id=A)
    assert (ended.answer["verdict"], ended.answer["allocation_verdict"]) == ("fail", "pass")
    assert f"_SYSTEMD_INVOCATION_ID={A}" in host.calls("journalctl")[0]


def test_no_permission_is_no_evidence(host):
    host.states(ALIVE)
    host.journal([])
    (host.folder / "errors").write_text(
        "Hint: You are currently not seeing messages from other users and the system.\n"
    )
    ended = run()
    assert ended.answer["verdict"] == "inconclusive"
    assert "no_permission" in codes(ended.answer)


def test_an_unreadable_journal_without_a_hint_is_no_evidence(host, monkeypatch):
    monkeypatch.setattr(journal, "unreadable", lambda: True)
    host.states(ALIVE)
    host.journal([])
    assert "no_permission" in codes(run().answer)


def test_a_journalctl_that_fails_is_no_evidence(host):
    host.states(ALIVE)
    (host.folder / "errors").write_text("Failed to add match 'x': Invalid argument\n")
    (host.folder / "code").write_text("1")
    ended = run()
    assert ended.answer["verdict"] == "inconclusive"
    assert "Failed to add match" in ended.answer["lost"][0]["message"]


def test_dropped_messages_are_no_missing_rank(host):
    notice = {
        "MESSAGE": "Suppressed 20 messages from sglang.service",
        "N_DROPPED": "20",
        "_COMM": "systemd-journal",
        "_SYSTEMD_UNIT": "systemd-journald.service",
        "_SYSTEMD_INVOCATION_ID": B,
        "OBJECT_SYSTEMD_UNIT": "sglang.service",
        "OBJECT_SYSTEMD_INVOCATION_ID": A,
    }
    host.states(ALIVE)
    host.journal([STARTED, TOKENS, line(0), notice, READY])
    ended = run()
    assert ended.answer["verdict"] == "inconclusive"
    assert ended.answer["lost"] == [
        {"code": "rate_limited", "message": ended.answer["lost"][0]["message"], "count": 20}
    ]


def test_the_kernel_is_asked_who_was_killed(host):
    host.states(FAILED)
    host.journal([STARTED, line(0)])
    killed = {"MESSAGE": "Memory cgroup out of memory: Killed process 4242 (sglang::schedul)", "_TRANSPORT": "kernel"}
    other = {"MESSAGE": "Out of memory: Killed process 17 (chrome)", "_TRANSPORT": "kernel"}
    (host.folder / "kernel").write_text("".join(json.dumps(one) + "\n" for one in (other, killed)))
    ended = run()
    assert ended.answer["allocation_verdict"] == "fail"
    assert [one["message"] for one in ended.answer["fatal"]] == [killed["MESSAGE"]]
    assert any("--since=@1772408707 _TRANSPORT=kernel" in call for call in host.calls("journalctl"))


def test_a_progress_bar_hides_no_rank(host):
    bar = "\rCapturing batches:  12%|█▎        | 1/8 [00:00<00:04,  1.66it/s]"
    host.states(ALIVE)
    host.journal(
        [
            STARTED,
            {"MESSAGE": list((bar + line(0)).encode())},
            {"MESSAGE": list(bar.encode()), "_LINE_BREAK": "pid-change", "_PID": "43"},
            {"MESSAGE": "nothing of interest", "_PID": "44"},
            {"MESSAGE": line(1), "_PID": "43"},
            READY,
        ]
    )
    assert run().answer["verdict"] == "pass"


@contextlib.contextmanager
def server(answers):
    """A small server: path to (status, body), or to a list of them, one per question."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers.get("Authorization")))
            answer = answers.get(self.path, (404, ""))
            status, body = (
                answer.pop(0)
                if isinstance(answer, list) and len(answer) > 1
                else answer
                if isinstance(answer, tuple)
                else answer[0]
            )
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_arguments):
            pass

    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listener.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.server_port}", asked
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


METRICS = (
    'sglang:hicache_host_total_tokens{tp_rank="0"} 637081.0\nsglang:hicache_host_total_tokens{tp_rank="1"} 637081.0\n'
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 44.77),
        # What is given wins over what the folder says.
        ({"bytes_per_token": 35136}, 22.38),
        # A folder that says nothing leaves the sizes to be held against each other.
        ({"model_path": "/nowhere"}, None),
    ],
    ids=["folder", "given", "nowhere"],
)
def test_the_bytes_of_a_token_come_from_the_models_folder(host, tmp_path, given, expected):
    text = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "num_hidden_layers": 61}
    config = {"architectures": ["KimiK25ForConditionalGeneration"], "text_config": text}
    (tmp_path / "config.json").write_text(json.dumps(config))
    host.states(ALIVE)
    host.journal([STARTED, TOKENS, line(0), line(1), READY])
    settings = {"model_path": str(tmp_path), "tensor_parallel_size": 8, **given}
    assert run(ratio=4.0, page_size=1, release="0.5.16", **settings).answer["expected_gb"] == expected


def test_the_server_itself_is_a_witness(host, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    host.states(ALIVE)
    host.journal([STARTED, TOKENS, line(0), line(1), READY])
    info = json.dumps({"hicache_ratio": 4.0, "hicache_size": 0, "api_key": "sk-verysecret"})
    with server({"/h": (200, ""), "/m": (200, METRICS), "/i": (200, info)}) as (url, asked):
        ended = run(
            ratio=4.0,
            bytes_per_token=70272,
            health_url=f"{url}/h",
            metrics_url=f"{url}/m",
            server_info_url=f"{url}/i",
            api_key="sk-question",
        )
    assert not ended.failed, ended.answer
    assert {"healthy", "metrics_agree", "server_info_agrees"} <= set(codes(ended.answer))
    assert ("/i", "Bearer sk-question") in asked
    assert ("/h", None) in asked
    assert "secret" not in repr(ended.answer)


def test_a_health_address_is_asked_until_it_answers(host):
    host.states(ALIVE)
    host.journal([STARTED, line(0), line(1), READY])
    with server({"/h": [(503, ""), (503, ""), (200, "")]}) as (url, asked):
        ended = run(health_url=f"{url}/h", timeout=60)
    assert not ended.failed, ended.answer
    assert len(asked) >= 3


def test_a_wedged_server_fails_at_the_deadline(host):
    host.states(ALIVE)
    host.journal([STARTED, line(0), line(1), READY])
    with server({"/h": (503, "")}) as (url, _asked):
        ended = run(health_url=f"{url}/h", timeout=1)
    assert (ended.answer["verdict"], ended.answer["allocation_verdict"]) == ("fail", "pass")
    assert {"unhealthy", "deadline"} <= set(codes(ended.answer))


def test_a_server_that_is_not_reached_is_no_proof(host):
    host.states(ALIVE)
    host.journal([STARTED, line(0), line(1), READY])
    ended = run(health_url="http://127.0.0.1:9/health")
    assert ended.answer["verdict"] == "inconclusive"
    assert "health_unknown" in codes(ended.answer)


def test_metrics_that_differ_do_not_pass(host):
    host.states(ALIVE)
    host.journal([STARTED, line(0), line(1), READY])
    with server({"/m": (200, METRICS.replace("637081", "5"))}) as (url, _asked):
        ended = run(bytes_per_token=70272, metrics_url=f"{url}/m")
    assert ended.answer["verdict"] == "inconclusive"
    assert "metrics_differ" in codes(ended.answer)


def test_the_server_is_not_asked_before_an_answer_can_matter(host):
    host.states(ALIVE)
    host.journal([STARTED, line(0)], [line(1)], [READY])
    with server({"/h": (200, "")}) as (url, asked):
        assert not run(health_url=f"{url}/h", timeout=60).failed
    assert len(asked) == 1


GROUP = "/system.slice/sglang.service"


def own(ours, seen=None):
    """A look at the socket that always finds the same; notes what was asked in ``seen``."""

    def look(port, address, group):
        if seen is not None:
            seen.append((port, address, group))
        return {"ours": ours, "pid": 77, "comm": "nc", "unit": "user@1000.service"}

    return look


@pytest.mark.parametrize(
    ("ours", "verdict", "code"), [(True, "pass", "healthy"), (False, "fail", "port_taken"), (None, "pass", "healthy")]
)
def test_an_answer_counts_only_from_the_units_own_socket(host, monkeypatch, ours, verdict, code):
    seen = []
    monkeypatch.setattr(verifier, "socket_owner", own(ours, seen))
    host.states({**ALIVE, "ControlGroup": GROUP})
    host.journal([STARTED, line(0), line(1), READY])
    with server({"/h": (200, "")}) as (url, asked):
        ended = run(health_url=f"{url}/h")
    assert (ended.answer["verdict"], code in codes(ended.answer)) == (verdict, True), ended.answer
    assert seen[0] == (int(url.rpartition(":")[2]), "127.0.0.1", GROUP)
    # Nothing is asked of a stranger.
    assert bool(asked) is (ours is not False)


def test_a_server_without_a_ready_line_has_to_own_its_port(host, monkeypatch):
    found = {}
    for ours in (True, None):
        monkeypatch.setattr(verifier, "socket_owner", own(ours))
        host.states({**ALIVE, "ControlGroup": GROUP})
        host.journal([STARTED, line(0), line(1)])
        for name in ("n", "m"):
            (host.folder / name).unlink(missing_ok=True)
        with server({"/h": (200, "")}) as (url, _asked):
            found[ours] = run(health_url=f"{url}/h", readiness="health").answer
    assert (found[True]["verdict"], found[None]["verdict"]) == ("pass", "inconclusive")
    assert "port_owner_unknown" in codes(found[None])


@pytest.mark.parametrize("name", ["metrics_url", "server_info_url"])
def test_a_stranger_is_asked_for_nothing_and_given_no_key(host, monkeypatch, name):
    monkeypatch.setattr(verifier, "socket_owner", own(False))
    host.states({**ALIVE, "ControlGroup": GROUP})
    host.journal([STARTED, line(0), line(1), READY])
    with server({"/x": (200, METRICS)}) as (url, asked):
        ended = run(**{name: f"{url}/x"}, api_key="sk-question")
    assert (ended.answer["verdict"], asked) == ("fail", [])
    assert "77 (nc) of user@1000.service" in ended.answer["msg"]


def test_a_process_of_another_group_on_the_port_is_found(host):
    host.states({**ALIVE, "ControlGroup": "/system.slice/no-such.service"})
    host.journal([STARTED, line(0), line(1), READY])
    with server({"/h": (200, "")}) as (url, _asked):
        ended = run(health_url=f"{url}/h")
    assert "port_taken" in codes(ended.answer)
    assert f"process {os.getpid()} " in ended.answer["msg"]


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://127.0.0.1:30000/health", ("127.0.0.1", 30000)),
        ("http://[::1]:8/h", ("::1", 8)),
        ("https://host/h", ("host", 443)),
        ("http://host", ("host", 80)),
        ("http://host:99999/h", None),
        ("/health", None),
    ],
)
def test_the_port_is_read_from_an_address(url, place):
    assert verifier.port_of(url) == place


def test_what_the_service_was_deployed_with_is_compared(host):
    arguments = "[2026-03-01 23:45:04] server_args=ServerArgs(tp_size=2, port=30000, speculative_algorithm=None)"
    wanted = {"port": 30000, "speculative_algorithm": "EAGLE3"}
    host.states(ALIVE)
    host.journal([STARTED, arguments, line(0), line(1), READY])
    ended = run(expected_settings=wanted)
    assert ended.answer["verdict"] == "fail"
    assert "speculative_algorithm is not set, where EAGLE3 was asked for" in ended.answer["msg"]


# -- saved logs and journal files ------------------------------------------------------------------------------------


def test_a_saved_log_is_judged_without_a_unit(host):
    ended = run(unit=None, ranks=8, expected_gb=44.77, log_file=str(DATA / "journals" / "40-kimi-journal-short.log"))
    assert (ended.failed, ended.answer["verdict"], ended.answer["ranks_seen"]) == (False, "pass", 8)
    assert host.calls("journalctl") == host.calls("systemctl") == []


def test_a_compressed_log_is_read(host, tmp_path):
    target = tmp_path / "x.log.gz"
    target.write_bytes(gzip.compress((DATA / "journals" / "40-kimi-journal-short.log").read_bytes()))
    assert run(unit=None, ranks=8, log_file=str(target)).answer["verdict"] == "pass"


@pytest.mark.parametrize(
    "content",
    [None, b"no gzip", gzip.compress(b"x", mtime=0)[:10] + b"\xff" * 40, gzip.compress(b"x" * 9999, mtime=0)[:-9]],
)
def test_a_log_that_cannot_be_read_is_an_error(host, tmp_path, content):
    target = tmp_path / "x.log.gz"
    if content:
        target.write_bytes(content)
    ended = run(unit=None, log_file=str(target))
    assert ended.failed
    assert str(target) in ended.answer["msg"]
    assert "verdict" not in ended.answer


@pytest.mark.parametrize(
    ("name", "sizes", "invocation"),
    [("normal", [44.77], A), ("draft", [44.77, 0.73], A), ("tqdm", [44.77], A), ("twostarts", [44.77], B)],
)
def test_journal_files_are_read(host, tmp_path, name, sizes, invocation, monkeypatch):
    assert os.path.exists(REMOTE), "systemd-journal-remote is missing: install the package of this name"
    target = tmp_path / f"{name}.journal"
    source = DATA / "journals" / "exports" / f"{name}.export"
    subprocess.run([REMOTE, f"--output={target}", str(source)], check=True, capture_output=True)
    (host.folder / "journalctl").unlink()
    ended = run(ranks=8, expected_gb=44.77, ratio=4.0, journal_files=[str(target)])
    assert not ended.failed, ended.answer
    assert (ended.answer["per_rank_gb"], ended.answer["invocation_id"]) == (sizes, invocation)
    assert host.calls("systemctl") == []
    # An earlier start of the same file can be asked for.
    if name == "twostarts":
        earlier = run(ranks=8, invocation_id=A, journal_files=[str(target)])
        assert earlier.answer["per_rank_gb"] == [30.12]
    # The files hold nothing of another unit.
    other = run(unit="other.service", ranks=8, journal_files=[str(target)])
    assert (other.answer["verdict"], other.answer["ranks_seen"]) == ("inconclusive", 0)


def test_a_journal_file_that_is_missing_is_an_error(host):
    ended = run(journal_files=["/nonexistent/x.journal"])
    assert ended.failed
    assert "/nonexistent/x.journal" in ended.answer["msg"]


# -- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"ranks": -1}, "ranks is -1"),
        ({"ranks": None}, "ranks, rank_set"),
        ({"ranks": None, "rank_set": []}, "rank"),
        ({"ranks": None, "rank_set": ["GPU0"]}, "GPU0"),
        ({"ranks": 3, "rank_set": ["8-15"]}, "ranks is 3"),
        ({"ratio": 0}, "ratio is 0"),
        ({"ratio": 4.0, "hicache_size": 100}, "mutually exclusive"),
        ({"hicache_size": -1}, "hicache_size is -1"),
        ({"expected_gb": 0}, "expected_gb is 0"),
        ({"tensor_parallel_size": 0}, "tensor_parallel_size is 0"),
        ({"bytes_per_token": 0}, "bytes_per_token is 0"),
        ({"page_size": 0}, "page_size is 0"),
        ({"release": "latest"}, "'latest' is not an SGLang release"),
        ({"tolerance_gb": -0.1}, "tolerance_gb is -0.1"),
        ({"timeout": -1}, "timeout is -1"),
        ({"poll_interval": 0}, "poll_interval is 0"),
        ({"invocation_id": "x"}, "invocation_id is 'x'"),
        ({"unit": None}, "unit is missing"),
        ({"unit": "a/b"}, "unit is 'a/b'"),
        ({"unit": "-x"}, "unit is '-x'"),
        ({"readiness": "health"}, "health_url is missing"),
        ({"log_file": "/x", "journal_files": ["/y"]}, "mutually exclusive"),
        ({"fail_on": ["pass"]}, "fail_on"),
        ({"readiness": "maybe"}, "readiness"),
        ({"ranks": 10**9}, "ranks is 1000000000"),
        ({"ranks": 10**400}, "ranks is a number of more than 20 digits"),
        ({"ranks": None, "rank_set": ["0-4000", "4001-8000"]}, "more than 4096 ranks"),
        ({"ratio": "inf"}, "ratio is inf"),
        ({"ratio": "nan"}, "ratio is nan"),
        ({"ratio": 1e308}, "ratio is 1e+308"),
        ({"ratio": 10**400}, "ratio is a number of more than 20 digits"),
        ({"hicache_size": 1e308}, "hicache_size is 1e+308"),
        ({"expected_gb": "inf"}, "expected_gb is inf"),
        ({"tolerance_gb": "inf"}, "tolerance_gb is inf"),
        ({"tolerance_gb": "nan"}, "tolerance_gb is nan"),
        ({"tolerance_gb": 10**400}, "tolerance_gb is a number of more than 20 digits"),
        ({"bytes_per_token": 10**400}, "bytes_per_token is a number of more than 20 digits"),
        ({"page_size": 10**9}, "page_size is 1000000000"),
        ({"timeout": 10**9}, "timeout is 1000000000"),
        ({"poll_interval": "inf"}, "poll_interval is inf"),
        ({"poll_interval": "nan"}, "poll_interval is nan"),
        ({"tensor_parallel_size": 10**9}, "tensor_parallel_size is 1000000000"),
        ({"data_parallel_size": 3, "tensor_parallel_size": 8, "dp_attention_enabled": True}, "data_parallel_size is 3"),
        ({"nodes": 0}, "nodes is 0"),
        ({"node_rank": 2, "nodes": 2, "tensor_parallel_size": 8}, "node_rank is 2"),
        ({"expected_settings": {"a b": 1}}, "expected_settings names 'a b'"),
        ({"expected_settings": {"lora": ["x"]}}, "expected_settings.lora"),
        ({"expected_settings": {"hicache_ratio": float("inf")}}, "expected_settings.hicache_ratio is inf"),
    ],
)
def test_an_impossible_value_is_named_before_anything_is_read(host, arguments, words):
    ended = run(**arguments)
    assert ended.failed
    assert words in ended.answer["msg"]
    assert host.calls("journalctl") == host.calls("systemctl") == []


# -- documentation ----------------------------------------------------------------------------------------------------


def test_the_documentation_names_every_option_and_its_default():
    documented = yaml.safe_load(hicache_verify.DOCUMENTATION)["options"]
    assert set(documented) == set(hicache_verify.ARGUMENT_SPEC)
    for name, spec in hicache_verify.ARGUMENT_SPEC.items():
        text = documented[name]
        for key in ("type", "default", "choices", "elements"):
            assert text.get(key) == spec.get(key), f"{name}: {key}"


def test_the_documentation_names_every_result(host):
    host.states(ALIVE)
    host.journal([STARTED, line(0), line(1), READY])
    answer = run().answer
    assert set(answer) - {"changed", "msg"} == set(yaml.safe_load(hicache_verify.RETURN))


def test_the_documentation_names_every_code():
    judge = Path(hicache_judge.__file__)
    source = judge.read_text() + (judge.parent / "_hicache" / "started.py").read_text()
    codes_of = set(re.findall(r'reasons\.(?:fail|unknown|good|note)\(\s*"(\w+)"', source)) | {"deadline"}
    codes_of |= set(hicache_judge._REMEDY) | {fatal.code for fatal in hicache_log.FATALS}
    codes_of |= {loss[0] for loss in hicache_log.LOSSES}
    codes_of |= set(re.findall(r'Death\(\s*"(\w+)"', (judge.parent / "hicache_evidence.py").read_text()))
    described = yaml.safe_load(hicache_verify.RETURN)["reasons"]["contains"]["code"]["description"]
    assert set(re.findall(r"C\((\w+)\)", " ".join(described))) == codes_of


def test_the_examples_are_valid(host):
    host.states(FAILED)
    for task in yaml.safe_load(hicache_verify.EXAMPLES):
        arguments = task["llmfleet.sglang.hicache_verify"]
        assert set(arguments) <= set(hicache_verify.ARGUMENT_SPEC)
        ended = run(**{"ranks": None, "unit": None, **arguments, "timeout": 0})
        assert "verdict" in ended.answer or "cannot be read" in ended.answer["msg"]
