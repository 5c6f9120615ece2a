#!/usr/bin/env python3
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure playbooks on a fleet of lab hosts, all with the same hosts and forks in one run.

One host is deployed with the stand-in engine, and 32 are booted from its disk. A deployment that changes nothing, with
site_shortcut_enabled, is held against `ansible all -m ping` on the same 8 hosts, in turns; of one that goes through all
roles the ratio is told and has no limit. Then verify.yml and status.yml on 8 and 32 hosts against
themselves on one: the time of a host must fall or stay level. The best of the rounds counts. At last the time of each
role is told, in a deployment of one host that changes nothing. Needs root, as the lab does. Ends with status 1 above a
limit.
"""

from __future__ import annotations

import argparse
import functools
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / ".venv" / "collections")]

from ansible_collections.llmfleet.sglang.tests.scale.fleet import Fleet, role_seconds  # noqa: E402

DEPLOYED, PING_LIMIT = 8, 12.0
SHORTCUT = ("-e", "site_shortcut_enabled=true")
COUNTS = (1, 8, 32)
# A host of many may take as long as a host of one, and what two runs of the same differ by.
LEVEL_LIMIT = 1.05


def failed(done) -> None:
    """End with what a playbook said before its recap, which is long on many hosts."""
    sys.exit(f"bench: {done.output.partition('PLAY RECAP')[0][-3000:]}")


def best(rounds: int, *calls) -> list[float]:
    """Seconds of each call, in turns, the best of the rounds."""
    taken: list[list[float]] = [[] for _call in calls]
    for _round in range(rounds):
        for times, call in zip(taken, calls):
            done = call()
            if done.code:
                failed(done)
            times.append(done.seconds)
    return [min(times) for times in taken]


def row(what: str, hosts: int, seconds: float, ratio: float | None = None, limit: float | None = None) -> bool:
    """Print one line of the table; returns whether the limit is kept."""
    kept = ratio is None or limit is None or ratio <= limit
    told = "" if ratio is None else f"{ratio:9.2f}"
    judged = "" if limit is None else f"{limit:8.2f}  {'kept' if kept else 'MISSED'}"
    print(f"{what:30}{hosts:6}{seconds:9.2f}{seconds / hosts:9.2f}{told:>9}{judged}", flush=True)
    return kept


def tell_roles(fleet: Fleet) -> None:
    """Print what each role takes where nothing is to be done."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        # Without skipped tasks a task is named only when its first host answers, and its time would go to another one.
        done = fleet.play("site.yml", 1, ANSIBLE_LOG_PATH=str(log), ANSIBLE_DISPLAY_SKIPPED_HOSTS="1")
        if done.code:
            failed(done)
        print(f"\nsite.yml on 1 host, no change: {done.seconds:.1f} s; of these, in tasks of role")
        for role, (tasks, seconds) in role_seconds(log.read_text()).items():
            print(f"  {role:12}{tasks:4} tasks{seconds:9.2f} s")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hosts", type=int, default=max(COUNTS), help="largest number of hosts (default: %(default)s)")
    args = parser.parse_args(argv)
    counts = [count for count in COUNTS if count <= args.hosts]
    fleet = Fleet()
    kept = []
    try:
        fleet.prepare()
        fleet.boot(counts[-1])
        print(f"{'':30}{'hosts':>6}{'s':>9}{'s/host':>9}{'ratio':>9}{'limit':>8}")
        # Verdicts on the starts of this boot, and connections that are open: both sides begin alike.
        proved = fleet.play("playbooks/verify.yml", counts[-1], "-e", "verify_timeout=600")
        if proved.code:
            failed(proved)
        # Through all roles, so that the next can see that nothing has changed.
        deploy = functools.partial(fleet.play, "site.yml", DEPLOYED, *SHORTCUT)
        (whole,) = best(1, deploy)
        ping, short = best(args.rounds, functools.partial(fleet.ping, DEPLOYED), deploy)
        row("ansible all -m ping", DEPLOYED, ping)
        kept.append(row("site.yml, no change, to ping", DEPLOYED, short, short / ping, PING_LIMIT))
        row("  through all roles", DEPLOYED, whole, whole / ping)
        # verify.yml keeps no verdict, so that only status.yml's own judgement is about the starts of this boot.
        for playbook, words in (("verify", ()), ("status", ("-e", "status_judgement_enabled=true"))):
            one = None
            for count in counts:
                play = functools.partial(fleet.play, f"playbooks/{playbook}.yml", count, *words)
                (seconds,) = best(args.rounds, play)
                each = seconds / count
                one = one or each
                kept.append(row(f"{playbook}.yml, each to one", count, seconds, each / one, LEVEL_LIMIT))
        tell_roles(fleet)
    finally:
        fleet.down()
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
