# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad days: what breaks, what systemd does about it, and what the operator is told. See docs/faults-of-a-host.md."""

from __future__ import annotations

import re

from ansible_collections.llmfleet.sglang.tests.service.host import UNIT, said_in, until


def back(server, began):
    """Wait until another start than the given one is ready; returns the unit."""
    return until(
        lambda: next(
            (one for one in [server.show()] if one["ActiveState"] == "active" and one["InvocationID"] != began), None
        )
    )


def test_a_crash_is_restarted_and_counted(healthy):
    began = healthy.restart("die-after-ready=1")
    until(lambda: healthy.show()["NRestarts"] != "0")
    healthy.fault("")
    unit = back(healthy, began)
    assert int(unit["NRestarts"]) >= 1
    assert "Scheduled restart job, restart counter is at 1." in healthy.journal(invocation=began)


def test_a_killed_rank_takes_the_service_down_and_it_comes_back(healthy):
    began = healthy.invocation()
    ranks = healthy.ranks()
    healthy.on_host(f"kill -9 {ranks[sorted(ranks)[3]]}")
    unit = back(healthy, began)
    assert unit["NRestarts"] == "1"
    left = set(ranks.values()) & set(healthy.ranks().values())
    assert left == set()


def test_a_crash_loop_ends_at_the_start_limit_and_verify_says_so(healthy):
    healthy.restart("crash")
    unit = until(lambda: next((one for one in [healthy.show()] if one["ActiveState"] == "failed"), None))
    # The first start and those after it, up to the limit.
    assert unit["NRestarts"] == str(int(unit["StartLimitBurst"]) - 1) or unit["NRestarts"] == unit["StartLimitBurst"]
    assert "Start request repeated too quickly." in healthy.journal()
    status, told = healthy.verify()
    assert status != 0
    assert f"{UNIT}: FAIL - " in said_in(told), told[-3000:]
    print(said_in(told)[-2500:])


def test_a_start_beyond_its_budget_is_a_failed_start(healthy):
    healthy.on_host(f"systemctl stop {UNIT}")
    healthy.fault("slow-load=600")
    status, told = healthy.serve(serve_start_timeout_seconds=3)
    assert status != 0
    assert f"{UNIT}: FAIL - " in said_in(told), told[-3000:]
    print(said_in(told)[-2500:])
    until(lambda: healthy.show()["Result"] != "success")
    assert "fired up" not in healthy.journal(invocation=healthy.starts()[-1])


def test_a_port_that_another_process_holds_refuses_the_start_by_name(healthy):
    healthy.on_host(f"systemctl stop {UNIT}")
    healthy.on_host("systemd-run --quiet --unit=lab-squatter --collect python3 -m http.server 30000 --bind 127.0.0.1")
    until(lambda: healthy.on_host("ss -Hltn 'sport = :30000'"))
    try:
        healthy.on_host(f"systemctl start --no-block {UNIT}")
        said = until(
            lambda: re.search(
                rf"{UNIT} is not started: after 10 s this is still left: port 30000, on which process \d+ \(python3\)"
                r" listens\. End what holds it",
                healthy.journal(),
            )
        )
        print(said.group())
        # It was refused before the engine was run at all.
        assert "server_args=" not in healthy.journal(invocation=healthy.starts()[-1])
        assert healthy.show()["ActiveState"] != "active"
    finally:
        healthy.on_host("systemctl stop lab-squatter")
    healthy.on_host(f"systemctl reset-failed {UNIT}; systemctl start --no-block {UNIT}")
    healthy.ready()


def test_no_line_of_a_burst_is_lost(healthy):
    began = healthy.restart("flood=100000")
    healthy.ready()
    match = f"_SYSTEMD_INVOCATION_ID={began}"

    def kept():
        # journald may still have some to write when the server is ready.
        command = f"journalctl --sync; journalctl --quiet --output=cat {match} | grep -c 'Unsupported element_size'"
        return int(healthy.on_host(command))

    seen = [kept()]
    while seen[-1] < 100_000 and (len(seen) < 3 or seen[-1] > seen[-2]):
        seen.append(kept())
    assert seen[-1] == 100_000, seen
    assert healthy.on_host(f"journalctl --quiet --grep='^Suppressed .* {UNIT}' --boot; true") == ""
