# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout did, as a table and as sentences about all that is wrong."""

from __future__ import annotations

from .fleet_workers import by_rollout, one_line, workers_of

PHASES = {
    "check": "before anything was changed",
    "out": "while it was taken out of the routers",
    "switch": "while the service changed to the new configuration",
    "gate": "at the gate",
    "soak": "in the soak",
    "in": "while it was put back into the routers",
    "driver": "while the driver changed",
}

# What role rollout keeps of each host, as facts with the prefix rollout_.
KEPT = ("phase", "failure", "back", "back_message", "done")


def table(rows):
    """Return rows of cells as aligned lines; the first row is the heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def ended(message):
    """Return a message as one sentence's end."""
    text = one_line(message or "no message")
    return text if text.endswith((".", "!", "?")) else f"{text}."


def left_beyond(workers, names):
    """Return {host: a sentence} of hosts that a rollout took out of routers and that this run does not change."""
    found = {}
    for worker in workers:
        if by_rollout(worker) and worker.get("host") not in names:
            found.setdefault(worker.get("host"), []).append(worker)
    return {
        host: (
            f"{host} is out of router {', '.join(dict.fromkeys(one['router'] for one in entries))} since a rollout"
            f" that did not end there ({entries[0].get('reason') or 'no reason given'}), and is not in this run: run"
            " the same playbook for it as well."
        )
        for host, entries in found.items()
    }


def failure_sentence(host, failure):
    """Say where a host failed, and with what."""
    phase = PHASES.get(failure.get("phase"), failure.get("phase"))
    return f"{host} failed {phase}: {ended(failure.get('message'))}"


def outcome_of(host, run, planned):
    """Return (outcome, its sentence or "") of one host: what became of it."""
    told = {name: run["hosts"][host].get(f"rollout_{name}") for name in KEPT}
    if host in run["lost"]:
        where = PHASES.get(told.get("phase"), "")
        return "unreachable", (
            f"{host} could not be reached any more{f' ({where})' if where else ''}."
            " Nothing puts it back by itself: run the same playbook again once it answers."
        )
    if told.get("back") == "done":
        return "went back", failure_sentence(host, told["failure"]) if told.get("failure") else ""
    if told.get("back") == "failed":
        first = f"{failure_sentence(host, told['failure'])} And " if told.get("failure") else ""
        return "out", (
            f"{first}{host} could not go back and is left out of the routers: {ended(told.get('back_message'))}"
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
    if host in planned["skipped"]:
        return "there already", ""
    if host in planned["left_out"]:
        return "left alone", ""
    return "untouched", ""


def report(run):
    """Return {"lines", "problems", "out"} of a rollout.

    run: order (host names), hosts ({host: its variables, of which those of KEPT count}), plan (what fleet_plan made),
    lost (host names), asked (what the routers said at the end), stopped (sentence or "").
    """
    planned = run["plan"]
    workers, silent = workers_of(run.get("asked") or [])
    batch_of = {host: batch["number"] for batch in planned["batches"] for host in batch["hosts"]}
    problems = [run["stopped"]] if run.get("stopped") else []
    problems += [f"{sentence}; which hosts it serves is not known." for sentence in silent]
    rows = [["host", "batch", "outcome", "routers"]]
    out = {}
    for host in run["order"]:
        outcome, sentence = outcome_of(host, run, planned)
        if sentence:
            problems.append(sentence)
        own = [worker for worker in workers if worker.get("host") == host]
        drained = [worker for worker in own if worker["state"] == "drained"]
        if drained:
            out[host] = f"{host} is out of the routers: {drained[0].get('reason') or 'no reason given'}"
        states = ", ".join(sorted({worker["state"] for worker in own})) or (
            "unknown" if run.get("asked") else "no router"
        )
        rows.append([host, str(batch_of.get(host, "none")), outcome, states])
    out.update(left_beyond(workers, run["order"]))
    notes = [planned["drained"].get(host) or sentence for host, sentence in out.items()]
    return {"lines": [*table(rows), *notes], "problems": problems, "out": sorted(out)}
