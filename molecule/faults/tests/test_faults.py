# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module says of a live journal when a start fails, or when what it wrote gets lost."""

from __future__ import annotations

import json
import re
import time

import pytest

UNIT = "sglang-kimi.service"
DROP_IN = f"/run/systemd/system/{UNIT}.d/50-test.conf"
FAULTS = "/etc/sglang/faults"
SETTINGS = {
    "unit": UNIT,
    "ranks": 8,
    "ratio": 4.0,
    "bytes_per_token": 70272,
    "draft_bytes_per_token": 1152,
    "health_url": "http://127.0.0.1:30000/health_generate",
    # Eight ranks on a loaded machine take their time; what is dead or ready is not waited for.
    "timeout": 90,
    "poll_interval": 1,
    "fail_on": [],
}


@pytest.fixture
def start(host):
    """Start the unit with faults and directives of its own; puts everything back after the test."""

    def run(faults="", directives="", ready=True):
        _stop(host)
        host.check_output(f"printf '%s\\n' '{faults}' > {FAULTS}")
        host.check_output(f"mkdir -p $(dirname {DROP_IN}) && printf '%b' '{directives}' > {DROP_IN}")
        host.check_output("systemctl daemon-reload")
        shown = f"systemctl show --property=InvocationID --value {UNIT}"
        before = host.check_output(shown)
        # A start lasts until the server is ready, and some never are.
        host.check_output(f"systemctl start --no-block {UNIT}")
        wait_for(host, f'test "$({shown})" != "{before}"')
        if ready:
            wait_for(host, f"systemctl is-active {UNIT}")

    with host.sudo():
        yield run
        _stop(host)
        host.run(f"rm -f {FAULTS} {DROP_IN}; systemctl daemon-reload")


def _stop(host):
    host.run(f"systemctl kill --signal=KILL {UNIT}; systemctl stop {UNIT}; systemctl reset-failed {UNIT}")


def wait_for(host, command, seconds=120):
    """Wait until a command succeeds on the host: how long a start takes there is nobody's to know."""
    deadline = time.monotonic() + seconds
    while host.run(command).failed:
        assert time.monotonic() < deadline, f"after {seconds} s this still fails: {command}"
        time.sleep(0.5)


def judge(host, become=True, **options):
    """The module's result."""
    return host.ansible(
        "llmfleet.sglang.hicache_verify", json.dumps({**SETTINGS, **options}), check=False, become=become
    )


def codes(result):
    return {reason["code"] for reason in result["reasons"]}


def shown(host):
    """What the operator's grep counts: lines that the short view of the whole unit shows."""
    return int(host.run(f"journalctl --unit={UNIT} --no-pager | grep -c 'Allocating kv'").stdout)


def test_a_sound_start_passes(host, start):
    start()
    result = judge(host)
    assert result["verdict"] == "pass", result
    assert result["ranks_seen"] == 8
    assert [pool["gb"] for pool in result["ranks"] if pool["pool"] == "kv"] == [44.77] * 8
    assert result["changed"] is False


def test_lines_of_an_earlier_start_prove_nothing(host, start):
    start()
    assert judge(host)["verdict"] == "pass"
    start("host-memory", ready=False)
    result = judge(host)
    assert shown(host) >= 8
    assert result["verdict"] == "fail", result


@pytest.mark.parametrize(
    "fault",
    [
        "rank-killed",
        "rank-missing",
        "rank-wrong-size",
        "eof-mid-line",
        "host-register",
        "no-compiler",
        "illegal-access",
        "cuda-oom",
        "no-hicache-lines",
        "warmup-fails",
        "port-in-use",
        "crash",
    ],
)
def test_a_start_that_failed_is_called_failed(host, start, fault):
    start(fault, ready=False)
    began = time.monotonic()
    result = judge(host)
    assert result["verdict"] == "fail", result
    assert result["reasons"], "a verdict without a reason helps nobody"
    # A unit that died is not waited for.
    assert time.monotonic() - began < SETTINGS["timeout"]


def test_a_server_that_dies_after_it_was_ready_fails(host, start):
    start("die-after-ready=2", ready=False)
    wait_for(host, f"systemctl is-failed {UNIT}")
    result = judge(host)
    assert result["verdict"] == "fail", result


def test_a_hang_is_told_with_the_last_progress(host, start):
    start("hang-after-allocation", ready=False)
    invocation = f"_SYSTEMD_INVOCATION_ID=$(systemctl show --property=InvocationID --value {UNIT})"
    wait_for(host, f"test $(journalctl --quiet --output=cat {invocation} | grep -c 'Allocating kv') -ge 8")
    result = judge(host, timeout=4)
    assert result["verdict"] == "inconclusive", result
    assert result["allocation_verdict"] == "pass"
    assert any("4" in reason["message"] for reason in result["reasons"])


def test_a_progress_bar_hides_a_rank_from_grep_only(host, start):
    start("bar-open")
    result = judge(host)
    with host.sudo():
        invocation = host.check_output(f"systemctl show --property=InvocationID --value {UNIT}")
        view = host.run(f"journalctl --no-pager _SYSTEMD_INVOCATION_ID={invocation} | grep -c 'Allocating kv'").stdout
    assert int(view) < 8
    assert result["verdict"] == "pass", result


def test_lines_that_the_rate_limit_dropped_leave_it_open(host, start):
    start("flood=4000", "[Service]\\nLogRateLimitIntervalSec=3s\\nLogRateLimitBurst=50\\n", ready=False)
    # The journal tells what it dropped with the next message after the interval.
    wait_for(
        host,
        "curl --silent --output /dev/null --max-time 5 http://127.0.0.1:30000/health;"
        f" journalctl --sync; journalctl --quiet --grep='^Suppressed [0-9]+ messages from {UNIT}'",
    )
    result = judge(host, timeout=5)
    assert result["verdict"] == "inconclusive", result
    assert result["lost"]


def test_a_restart_loop_is_no_start(host, start):
    start("crash", "[Service]\\nRestart=always\\nRestartSec=1\\n[Unit]\\nStartLimitIntervalSec=0\\n", ready=False)
    wait_for(host, f"test $(systemctl show --property=NRestarts --value {UNIT}) -ge 2")
    result = judge(host)
    assert result["verdict"] == "fail", result


def test_a_start_whose_beginning_was_vacuumed_is_left_open(host, start):
    start()
    assert judge(host)["verdict"] == "pass"
    host.check_output("journalctl --rotate --vacuum-time=1s")
    time.sleep(2)
    host.check_output("journalctl --rotate --vacuum-time=1s")
    result = judge(host, timeout=2)
    assert result["verdict"] == "inconclusive", result


def test_a_user_without_permission_is_told_so(host, start):
    start()
    result = judge(host, become=False, timeout=2)
    assert result["verdict"] == "inconclusive", result
    assert "no_permission" in codes(result)


def test_a_wrong_ratio_in_the_unit_is_seen(host, start):
    start()
    unit = host.file(f"/etc/systemd/system/{UNIT}").content_string
    command = re.search(r"^ExecStart=(?:.*\\\n)*.*$", unit, re.MULTILINE).group()
    wrong = command.replace("--hicache-ratio 4.0", "--hicache-ratio 2.0")
    assert wrong != command
    host.check_output(
        f"mkdir -p $(dirname {DROP_IN}) && cat > {DROP_IN} <<'TEXT'\n[Service]\nExecStart=\n{wrong}\nTEXT"
    )
    host.check_output(f"systemctl daemon-reload && timeout 120 systemctl restart {UNIT}")
    result = judge(host)
    assert result["verdict"] == "fail", result
    assert {pool["gb"] for pool in result["ranks"] if pool["pool"] == "kv"} == {22.39}
    assert result["expected_gb"] == 44.77
