# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout did, as a table and as sentences about all that is wrong."""

from __future__ import annotations

import re

PHASES = {
    "check": "before anything was changed",
    "out": "while it was taken out of the routers",
    "switch": "while the service changed to the new configuration",
    "gate": "at the gate",
    "soak": "in the soak",
    "in": "while it was put back into the routers",
    "driver": "while the driver changed",
}


def table(rows):
    """Return rows of cells as aligned lines; the first row is the heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def one_line(text):
    """Return a message in one line, without the words that Ansible puts before it."""
    return re.sub(r"^(?:Task failed: )?(?:(?:Module|Action) failed: )?", "", " ".join(str(text).split()))


def failure_sentence(host, failure):
    """Say where a host failed, and with what."""
    phase = PHASES.get(failure.get("phase"), failure.get("phase"))
    return f"{host} failed {phase}: {one_line(failure.get('message') or 'no message')}"


def outcome_of(host, report):
    """Return (outcome, its sentence or "") of one host: what became of it."""
    told = report["hosts"].get(host) or {}
    if host in report["lost"]:
        where = PHASES.get(told.get("phase"), "")
        return "unreachable", (
            f"{host} could not be reached any more{f' ({where})' if where and host in report['started'] else ''}."
            " Nothing puts it back by itself: run the same playbook again once it answers."
        )
    if told.get("back") == "done":
        return "went back", failure_sentence(host, told["failure"]) if told.get("failure") else ""
    if told.get("back") == "failed":
        first = f"{failure_sentence(host, told['failure'])} And " if told.get("failure") else ""
        return "out", (
            f"{first}{host} could not go back and is left out of the routers:"
            f" {one_line(told.get('back_message') or 'no message')}"
        )
    if told.get("back") == "none":
        first = (
            failure_sentence(host, told["failure"]) if told.get("failure") else f"{host} was given up with its batch."
        )
        return "out", f"{first} There is nothing to go back to: it is left out of the routers."
    if told.get("failure"):
        return "failed", failure_sentence(host, told["failure"])
    if told.get("done"):
        return "done", ""
    if host in report["skipped"]:
        return "there already", ""
    if host in report["left_out"]:
        return "left alone", ""
    return "untouched", ""


def report(run):
    """Return {"lines", "problems", "out"} of a rollout.

    run: order (host names), hosts ({host: {failure, back, back_message, done, phase}}), batch_of ({host: number}),
    started, lost, skipped, left_out, drained ({host: sentence}), workers, stopped (sentence or "").
    """
    problems = [run["stopped"]] if run.get("stopped") else []
    rows = [["host", "batch", "outcome", "routers"]]
    out = {}
    for host in run["order"]:
        outcome, sentence = outcome_of(host, run)
        if sentence:
            problems.append(sentence)
        states = sorted({worker["state"] for worker in run["workers"] if worker.get("host") == host})
        drained = [worker for worker in run["workers"] if worker.get("host") == host and worker["state"] == "drained"]
        if drained:
            out[host] = drained[0].get("reason") or "no reason given"
        rows.append([host, str(run["batch_of"].get(host, "-")), outcome, ", ".join(states) or "-"])
    notes = []
    for host, reason in out.items():
        notes.append(run["drained"].get(host) or f"{host} is out of the routers: {reason}")
    return {"lines": [*table(rows), *notes], "problems": problems, "out": sorted(out)}
