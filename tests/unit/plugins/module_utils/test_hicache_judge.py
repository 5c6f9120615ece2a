# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict where more than a log is known: the unit's state, the server's own word, a deadline, a real journal."""

from __future__ import annotations

import ast
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import (
    hicache_evidence,
    hicache_judge,
    hicache_witness,
    journal,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[4]
DATA = ROOT / "tests" / "unit" / "data"
UTILS = ROOT / "plugins" / "module_utils"
MINE = ("hicache_log", "hicache_size", "hicache_evidence", "hicache_judge", "hicache_witness", "journal")
MINE += ("command_output", "_hicache/started", "_hicache/token_bytes", "_host/socket_owner", "proc_text")
MINE += ("kv_geometry", "_model/parallel_layout")
PACKAGES = ("_hicache", "_host", "_model")
REMOTE = "/usr/lib/systemd/systemd-journal-remote"
A, B = "a" * 32, "b" * 32
ALIVE = {
    "Id": "sglang.service",
    "LoadState": "loaded",
    "ActiveState": "active",
    "SubState": "running",
    "InvocationID": A,
}


def rank_line(rank, gb="44.77"):
    return f"[2026-03-01 23:45:06 TP{rank}] Allocating {gb} GB host memory for hierarchical KV cache.\n"


READY = "[2026-03-01 23:45:09] The server is fired up and ready to roll!\n"
BEGIN = "[2026-03-01 23:45:00] server_args=ServerArgs(tp_size=2, hicache_ratio=4.0)\n"
BOTH = rank_line(0) + rank_line(1)


def judge(text, around=None, **ask):
    evidence = hicache_evidence.read_log(io.BytesIO(text.encode()))
    return hicache_judge.judge(evidence.start, hicache_judge.Ask(**{"ranks": 2, **ask}), around, evidence.restarts)


def codes(result):
    return [reason["code"] for reason in result["reasons"]]


def around(**changes):
    return hicache_judge.Around(**{"unit": ALIVE, "invocation": A, "bound": True, **changes})


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"LoadState": "not-found", "ActiveState": "inactive"}, "unit_not_found"),
        ({"ActiveState": "failed", "SubState": "failed", "Result": "oom-kill"}, "unit_failed"),
        ({"ActiveState": "inactive", "SubState": "dead"}, "unit_inactive"),
        ({"ActiveState": "deactivating", "SubState": "stop-sigterm"}, "unit_inactive"),
        ({"ActiveState": "activating", "SubState": "auto-restart"}, "restart_scheduled"),
        ({"InvocationID": B, "NRestarts": "3"}, "restarted"),
    ],
)
def test_a_unit_that_is_not_alive_fails_whatever_the_lines_say(changes, code):
    result, phase = judge(BEGIN + BOTH + READY, around(unit={**ALIVE, **changes}))
    assert (result["verdict"], result["allocation_verdict"], phase) == ("fail", "pass", "done")
    assert code in codes(result)


def test_a_living_unit_passes():
    result, phase = judge(BEGIN + BOTH + READY, around())
    assert (result["verdict"], phase) == ("pass", "done")


def test_processes_killed_for_memory_fail_though_the_unit_lives():
    result, phase = judge(BEGIN + rank_line(0), around(oom_kills=1))
    assert (result["verdict"], result["allocation_verdict"], phase) == ("fail", "fail", "done")
    assert "killed_by_oom" in codes(result)


def test_a_journal_without_a_message_of_the_start_proves_nothing():
    result, phase = judge("", around())
    assert (result["verdict"], result["allocation_verdict"], phase) == ("inconclusive", "inconclusive", "wait")
    assert "journal_empty" in codes(result)


def test_a_journal_without_the_beginning_of_the_start_proves_nothing():
    result, _phase = judge(rank_line(1), around())
    assert result["allocation_verdict"] == "inconclusive"
    assert "start_rotated_away" in codes(result)


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        (BEGIN, "wait"),
        (BEGIN + rank_line(0), "wait"),
        (BEGIN + BOTH, "wait"),
        (BEGIN + rank_line(0) + READY, "settle"),
        (BEGIN + READY, "settle"),
        (BEGIN + BOTH + READY, "done"),
        (BEGIN + rank_line(0) + "Exit code: -9\n", "done"),
        (BEGIN + rank_line(0) + rank_line(1, "40.00"), "done"),
        (BEGIN + BOTH + rank_line(2), "done"),
    ],
)
def test_waiting_ends_when_nothing_better_can_come(text, phase):
    assert judge(text, around())[1] == phase


def test_what_follows_in_an_endless_line_begins_no_message(monkeypatch):
    monkeypatch.setattr(hicache_evidence, "LINE_LIMIT", 4096)
    prompt = f"[2026-03-01 23:45:06] {'x' * 4096}"[:4096]
    result, _phase = judge(BEGIN + prompt + rank_line(0) + prompt + "x" * 8192 + rank_line(1) + BOTH)
    assert result["ranks_seen"] == 2
    result, _phase = judge(BEGIN + prompt + rank_line(0) + prompt + "x" * 4096 + rank_line(1))
    assert result["ranks_seen"] == 0


def test_a_deadline_is_a_reason_of_its_own_and_shows_the_progress():
    text = BEGIN + "Loading safetensors checkpoint shards:  50% Completed | 32/64 [00:16<00:00,  2.01it/s]\n"
    result, _phase = judge(text, around(deadline=600))
    (reason,) = [one for one in result["reasons"] if one["code"] == "deadline"]
    assert "600 s" in reason["message"]
    assert "32/64" in reason["message"]


HEALTHY = {"ok": True, "message": "answered 200"}
SICK = {"ok": False, "message": "answered 503"}
MUTE = {"ok": None, "message": "no answer"}
NODE_1 = BEGIN.replace("tp_size=2", "tp_size=4, nnodes=2, node_rank=1")


@pytest.mark.parametrize(
    ("text", "readiness", "health", "verdict"),
    [
        (BEGIN + BOTH + READY, "auto", None, "pass"),
        (BEGIN + BOTH + READY, "auto", HEALTHY, "pass"),
        (BEGIN + BOTH + READY, "auto", SICK, "fail"),
        (BEGIN + BOTH + READY, "auto", MUTE, "inconclusive"),
        (BEGIN + BOTH + READY, "line", SICK, "pass"),
        (BEGIN + BOTH, "auto", HEALTHY, "inconclusive"),
        (BEGIN + BOTH, "line", HEALTHY, "inconclusive"),
        (BEGIN + BOTH, "health", HEALTHY, "pass"),
        (BEGIN + BOTH, "health", SICK, "fail"),
        (BEGIN + BOTH, "health", None, "inconclusive"),
        (BEGIN + BOTH, "none", None, "pass"),
        (BOTH, "auto", HEALTHY, "pass"),
        (NODE_1 + BOTH, "auto", HEALTHY, "pass"),
        (NODE_1 + BOTH, "auto", None, "inconclusive"),
        (BEGIN + BOTH + "Exit code: -9\n", "none", HEALTHY, "fail"),
        (BEGIN + rank_line(0), "none", HEALTHY, "fail"),
    ],
)
def test_readiness(text, readiness, health, verdict):
    result, _phase = judge(text, around(health=health), readiness=readiness)
    assert result["verdict"] == verdict, result["reasons"]


def test_a_sick_server_may_still_become_healthy():
    assert judge(BEGIN + BOTH + READY, around(health=SICK))[1] == "wait"


@pytest.mark.parametrize(
    ("tokens", "per_token", "verdict", "code"),
    [
        ([637081, 637081], None, "pass", "metrics_agree"),
        ([637081, 318541], None, "inconclusive", "metrics_differ"),
        ([], None, "pass", "metrics_absent"),
        ([0, 0], None, "pass", "metrics_absent"),
    ],
)
def test_the_metrics_are_a_second_witness_of_tokens(tokens, per_token, verdict, code):
    text = "".join(
        f"[TP{rank}] Allocating kv hierarchical KV host pool: 637081 tokens, 44.77 GB host memory.\n" for rank in (0, 1)
    )
    metrics = [{"labels": {}, "tokens": one} for one in tokens]
    result, _phase = judge(BEGIN + text + READY, around(metrics=metrics), bytes_per_token=per_token)
    assert result["verdict"] == verdict
    assert result["allocation_verdict"] == "pass"
    assert code in codes(result)


def test_the_metrics_are_a_second_witness_of_gb():
    text = BEGIN + BOTH + READY
    agree = [{"labels": {}, "tokens": 637081}]
    assert judge(text, around(metrics=agree), bytes_per_token=70272)[0]["verdict"] == "pass"
    differ = [{"labels": {}, "tokens": 637081 // 2}]
    assert judge(text, around(metrics=differ), bytes_per_token=70272)[0]["verdict"] == "inconclusive"


def test_the_metrics_are_shown_where_the_log_cannot_tell():
    result, _phase = judge(rank_line(1), around(metrics=[{"labels": {}, "tokens": 637081}]), bytes_per_token=70272)
    assert result["allocation_verdict"] == "inconclusive"
    (reason,) = [one for one in result["reasons"] if one["code"] == "metrics_show"]
    assert "637081 tokens, 44.77 GB" in reason["message"]


@pytest.mark.parametrize(
    ("info", "verdict"),
    [
        ({"hicache_ratio": 4.0, "hicache_size": 0}, "pass"),
        ({"hicache_ratio": 2.0, "hicache_size": 0}, "inconclusive"),
        ({"enable_hierarchical_cache": False}, "inconclusive"),
        ({"max_total_num_tokens": 5}, "inconclusive"),
        ({"max_total_num_tokens": 159270}, "pass"),
        (None, "pass"),
    ],
)
def test_the_server_info_is_a_second_witness(info, verdict):
    text = BEGIN + "[2026-03-01 23:45:01 TP0] max_total_num_tokens=159270, x\n" + BOTH + READY
    result, _phase = judge(text, around(server_info=info), ratio=4.0, bytes_per_token=70272)
    assert result["verdict"] == verdict, result["reasons"]


def test_metrics_are_read_from_prometheus_text():
    text = (
        "# HELP sglang:hicache_host_total_tokens x\n"
        'sglang:hicache_host_total_tokens{model_name="m",tp_rank="0"} 637081.0\n'
        "sglang:hicache_host_total_tokens 6.37081e+05\n"
        'sglang:hicache_host_total_tokens{tp_rank="1"} NaN\n'
        "sglang:hicache_host_used_tokens 5\n"
    )
    assert hicache_witness.parse_metrics(text) == [
        {"labels": {"model_name": "m", "tp_rank": "0"}, "tokens": 637081},
        {"labels": {}, "tokens": 637081},
    ]


def test_keys_in_the_server_info_are_never_kept():
    found = hicache_witness.parse_server_info(b'{"api_key": "sk-1", "tp_size": 8, "admin_api_key": "x"}')
    assert found == {"tp_size": 8}
    assert hicache_witness.parse_server_info(b"<html>") is None
    assert hicache_witness.parse_server_info(b"[]") is None


@pytest.mark.parametrize(
    ("status", "ok"), [(200, True), (503, False), (500, False), (404, None), (401, None), (None, None)]
)
def test_the_answer_of_the_health_address(status, ok):
    assert hicache_witness.health("http://x", status, b"", "refused")["ok"] is ok


def test_kills_are_read_from_the_cgroup(tmp_path):
    folder = tmp_path / "system.slice" / "sglang.service"
    folder.mkdir(parents=True)
    (folder / "memory.events").write_text("low 0\noom 3\noom_kill 2\noom_group_kill 0\n")
    assert hicache_witness.oom_kills("/system.slice/sglang.service", str(tmp_path)) == 2
    assert hicache_witness.oom_kills("/system.slice/other.service", str(tmp_path)) is None
    assert hicache_witness.oom_kills("/../x", str(tmp_path)) is None
    assert hicache_witness.oom_kills("", str(tmp_path)) is None


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (["8"], [(("TP", 8),)]),
        ([8, 9], [(("TP", 8),), (("TP", 9),)]),
        (["8-10"], [(("TP", 8),), (("TP", 9),), (("TP", 10),)]),
        (["PP0 TP3", "pp1,tp3"], [(("PP", 0), ("TP", 3)), (("PP", 1), ("TP", 3))]),
        (["DP0"], [(("DP", 0),)]),
    ],
)
def test_ranks_are_named(values, wanted):
    assert hicache_judge.parse_rank_set(values) == wanted


@pytest.mark.parametrize("values", [[], ["x"], ["10-8"], ["GPU1"], ["1", "1"], ["1-3", "2"], ["-1"], [""]])
def test_what_names_no_rank_is_refused(values):
    with pytest.raises(ValueError, match="rank"):
        hicache_judge.parse_rank_set(values)


def test_numbers_name_data_parallel_ranks_where_there_are_no_others():
    text = "".join(line.replace("TP", "DP") for line in (rank_line(0), rank_line(1)))
    result, _phase = judge(text, ranks=None, rank_set=["0-1"])
    assert (result["allocation_verdict"], result["ranks_missing"]) == ("pass", [])


def test_the_output_is_bounded_and_masked():
    text = BEGIN.replace("tp_size", "api_key='sk-verysecretkey', tp_size") + "".join(
        f"[TP{rank}] Scheduler hit an exception: Traceback --api-key sk-verysecretkey {'x' * 9000}\n"
        for rank in range(5000)
    )
    result, _phase = judge(text)
    shown = repr(result)
    assert "verysecret" not in shown
    assert len(shown) < 30000


def test_memory_is_bounded_by_the_start_and_not_by_the_log():
    evidence = hicache_evidence.read_log(io.BytesIO((BEGIN + rank_line(0) * 20000).encode()))
    assert len(evidence.start.allocations) <= hicache_evidence.MAX_ALLOCATIONS


# -- real journals ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session", params=["normal", "draft", "tqdm", "twostarts"])
def exported(request, tmp_path_factory):
    target = tmp_path_factory.mktemp("journal") / f"{request.param}.journal"
    assert os.path.exists(REMOTE), "systemd-journal-remote is missing: install the package of this name"
    source = DATA / "journals" / "exports" / f"{request.param}.export"
    subprocess.run([REMOTE, f"--output={target}", str(source)], check=True, capture_output=True)
    return request.param, target


def test_a_real_journal_is_read_like_its_text(exported):
    name, target = exported
    lines = subprocess.run(
        journal.newest_invocation_argv("sglang.service", files=[target]), check=True, capture_output=True
    ).stdout.splitlines()
    invocation = journal.parse_json_line(lines[0]).invocation
    evidence = hicache_evidence.Evidence("sglang.service", invocation)
    stream = journal.JsonStream(lambda: evidence.wants_everything)
    content = subprocess.run(journal.journal_argv(invocation, files=[target]), check=True, capture_output=True).stdout
    for record in [*stream.feed(content), *stream.close()]:
        evidence.feed(record)
    ask = hicache_judge.Ask(ranks=8, expected_gb=44.77, ratio=4.0)
    result, phase = hicache_judge.judge(evidence.start, ask, around(unit=None, invocation=invocation))
    assert (result["verdict"], result["allocation_verdict"], phase) == ("pass", "pass", "done")
    assert result["per_rank_gb"] == ([44.77, 0.73] if name == "draft" else [44.77])
    assert result["invocation_id"] == (B if name == "twostarts" else A)
    assert result["started_at"].startswith("2026-03-01T23:45:0")
    assert result["seconds_to_ready"] > 0
    # From where the reading stopped there is nothing more.
    more = journal.journal_argv(invocation, files=[target], after_cursor=stream.cursor)
    assert subprocess.run(more, check=True, capture_output=True).stdout == b""


def test_an_export_file_is_read_without_a_journal(exported):
    name, _target = exported
    with (DATA / "journals" / "exports" / f"{name}.export").open("rb") as source:
        evidence = hicache_evidence.read_log(source, "sglang.service")
    result, _phase = hicache_judge.judge(evidence.start, hicache_judge.Ask(ranks=8, expected_gb=44.77))
    assert (result["verdict"], result["ranks_seen"]) == ("pass", 8)


# -- properties ---------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        rank_line(0),
        rank_line(1),
        rank_line(0, "0.73"),
        rank_line(2),
        READY,
        BEGIN,
        "Allocating 44.77 GB host memory for hierarchical KV cache.\n",
        "Mar 01 23:45:06 h systemd[1]: Started sglang.service - SGLang.\n",
        "Mar 01 23:45:06 h sglang[1]: [87B blob data]\n",
        "\r 12%|x| 1/8 [00:00<00:04,  1.66it/s]",
        "[2026-03-01 23:45:06] Receive: obj=X(text='",
        "sglang.service: Main process exited, code=killed, status=9/KILL\n",
        '{"MESSAGE":[65,108],"_PID":"1"}\n',
        '{"MESSAGE":null,"_TRANSPORT":"stdout"}\n',
        "-- Boot 0f --\n",
        "\x1b[1m",
        "#033[32m",
        "{\n",
        "__CURSOR=x\n",
    ]
)
TEXTS = st.lists(
    st.one_of(PIECES, st.text(max_size=60), st.text(max_size=20).map(lambda text: text + "\n")), max_size=14
)
ASKS = st.fixed_dictionaries(
    {},
    optional={
        "expected_gb": st.sampled_from([44.77, 0.73]),
        "ratio": st.sampled_from([1.0, 4.0]),
        "hicache_size": st.sampled_from([44.77, 100]),
        "bytes_per_token": st.sampled_from([1, 70272]),
        "draft_bytes_per_token": st.just(1152),
        "page_size": st.sampled_from([1, 64]),
        "release": st.sampled_from(["0.5.5", "0.5.10", "0.5.23"]),
        "readiness": st.sampled_from(["auto", "line", "none"]),
        "rank_set": st.sampled_from([["0-1"], ["PP0 TP0", "TP1"]]),
    },
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS, ASKS)
def test_no_text_stops_the_judge_and_every_verdict_has_reasons(pieces, ask):
    result, phase = judge("".join(pieces), **ask)
    assert result["verdict"] in ("pass", "fail", "inconclusive")
    assert phase in ("done", "settle", "wait")
    assert result["reasons"]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.one_of(
            PIECES.filter(lambda text: "TP1]" not in text and not text.startswith("Alloc")), st.text(max_size=60)
        ),
        max_size=14,
    ),
    ASKS,
)
def test_nothing_passes_without_a_whole_line_of_every_rank(pieces, ask):
    # Whatever else is said, TP1 never says a whole line.
    result, _phase = judge("".join(pieces), **{**ask, "rank_set": ["TP0", "TP1"]})
    assert result["verdict"] != "pass"
    assert result["allocation_verdict"] != "pass"


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 7), st.integers(0, 60))
def test_a_line_that_lacks_any_part_of_its_end_is_missing(rank, kept):
    lines = [rank_line(number) for number in range(8)]
    line = lines[rank]
    lines[rank] = line[: min(kept, len(line) - 2)] + "\n"
    result, _phase = judge(BEGIN + "".join(lines) + READY, ranks=8)
    assert result["ranks_seen"] == 7
    assert result["verdict"] != "pass"


@settings(max_examples=100, deadline=None)
@given(st.permutations(range(8)), st.sampled_from(["", "Mar 01 23:45:06 h sglang[4]: ", "worker-1  | "]))
def test_the_order_of_the_ranks_does_not_matter(order, prefix):
    text = "".join(prefix + line for line in [BEGIN, *[rank_line(rank) for rank in order], READY])
    result, _phase = judge(text, ranks=8)
    assert (result["verdict"], result["ranks_seen"], result["total_gb"]) == ("pass", 8, 358.16)


# -- Python 3.9 and no Ansible --------------------------------------------------------------------------------------

PROGRAM = """
import io, json, pathlib, sys
sys.path.insert(0, sys.argv[1])
from module_utils import hicache_evidence, hicache_judge, hicache_size, hicache_witness, journal
folder = pathlib.Path(sys.argv[2])
for case in json.loads((folder / "expected.json").read_text()):
    asked = case["ask"]
    evidence = hicache_evidence.read_log(io.BytesIO((folder / case["file"]).read_bytes()))
    ask = hicache_judge.Ask(asked.get("ranks"), asked.get("rank_set"), asked.get("gb"), asked.get("ratio"))
    result, _phase = hicache_judge.judge(evidence.start, ask, None, evidence.restarts)
    for key, want in (("allocation_verdict", case["alloc_verdict"]), ("verdict", case["overall_verdict"])):
        assert result[key] == want or (want == "not-pass" and result[key] != "pass"), case["file"]
assert not [name for name in sys.modules if name.split(".")[0] in ("ansible", "ansible_collections")]
print("judged")
"""


def judge_with(python):
    done = subprocess.run(
        [python, "-I", "-c", PROGRAM, str(ROOT / "plugins"), str(DATA / "journals")], capture_output=True, text=True
    )
    assert done.stdout.strip() == "judged", done.stderr


def test_the_saved_logs_are_judged_without_ansible():
    judge_with(sys.executable)


def old_pythons():
    found = [shutil.which("python3.9")]
    found += [str(path) for path in sorted(Path.home().glob(".pyenv/versions/3.9.*/bin/python"))]
    works = [
        path for path in found if path and subprocess.run([path, "--version"], capture_output=True).returncode == 0
    ]
    # Where no Python 3.9 is installed, newer syntax is still held off by the test that parses the code.
    return works[:1] or [sys.executable]


@pytest.mark.parametrize("python", old_pythons())
def test_the_saved_logs_are_judged_by_python_39(python):
    judge_with(python)


@pytest.mark.parametrize("name", MINE)
def test_the_code_is_of_python_39_and_the_standard_library(name):
    tree = ast.parse((UTILS / f"{name}.py").read_text(), feature_version=(3, 9))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = (node.module or "").replace(".", "/")
            own = node.level in (1, 2) and (not module or module in (*MINE, *PACKAGES))
            assert own or (node.level == 0 and node.module.split(".")[0] in sys.stdlib_module_names)
            for alias in node.names if node.module == "datetime" else ():
                assert alias.name != "UTC", "datetime.UTC came with Python 3.11"
        elif isinstance(node, ast.Import):
            assert all(alias.name.split(".")[0] in sys.stdlib_module_names for alias in node.names)
        elif isinstance(node, ast.keyword):
            assert node.arg not in ("slots", "kw_only", "strict"), f"{node.arg}= came after Python 3.9"
        elif isinstance(node, ast.Attribute):
            assert node.attr not in ("bit_count", "pairwise", "batched"), f"{node.attr} came after Python 3.9"
