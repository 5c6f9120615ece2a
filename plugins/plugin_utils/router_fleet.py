# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller makes of the workers of all routers: what is new, what is gone, what a drain would leave."""

from __future__ import annotations

from ..module_utils import router_api


def plain(url):
    """An address as routers have it; one that no router would take stays as it is, for the module to refuse."""
    try:
        return router_api.normal_url(url)
    except router_api.BadUrl:
        return url


def reconciliation(seen, own, wanted):
    """Compare a router with the inventory: {new: [...], gone: [...]}.

    ``seen`` are results of module router_worker by router (``item``), ``own`` is the router in question, and ``wanted``
    has for each host of the inventory its engines, or false where they were not named in this run.
    """
    workers = {result["item"]: result.get("workers") or [] for result in seen}
    written = {worker["url"]: worker for worker in workers.get(own, []) if worker["state"] != "unknown"}
    drained = {
        worker["url"]: worker
        for router, others in sorted(workers.items())
        if router != own
        for worker in others
        if worker["state"] == "drained"
    }
    engines = {plain(engine["url"]): engine for engines in wanted.values() for engine in engines or []}
    new = []
    for url, engine in engines.items():
        if url not in written:
            there = drained.get(url)
            state = (
                {"state": "drained", "reason": there["reason"], "by": there["by"]} if there else {"state": "serving"}
            )
            new.append({"reason": "new in the inventory", "by": "", **engine, "url": url, **state})
    gone = [
        worker
        for url, worker in written.items()
        if url not in engines and (worker["host"] not in wanted or isinstance(wanted[worker["host"]], list))
    ]
    return {"new": new, "gone": gone}


def condition(worker):
    """(word, sentence) about a worker of a router."""
    requests = f"{worker['requests']} request{'' if worker['requests'] == 1 else 's'}"
    if worker["state"] == "drained":
        told = f"since {worker['since']} by {worker['by']}" + (f": {worker['reason']}" if worker["reason"] else "")
        if worker["in_router"]:
            told = f"STILL IN THE ROUTER with {requests}; {told}"
        return "drained", told
    if worker["state"] == "unknown":
        return "unknown", f"in the router with {requests}, and not written down; nobody takes care of it"
    if not worker["in_router"]:
        return "LEFT OUT", "it is to serve, and the router does not have it: its engine does not answer"
    if not worker["healthy"]:
        return "LEFT OUT", "it is to serve, and the router calls it unhealthy"
    return "serving", requests


def table(workers, gone=(), new=()):
    """One line for each worker; those of ``new`` could not be put in, those of ``gone`` the inventory has no longer."""
    gone = {worker["url"] for worker in gone}
    rows = []
    for worker in workers:
        word, told = condition(worker)
        if worker["url"] in gone:
            told += "; no longer in the inventory (router_removal_allowed takes it out)"
        rows.append((worker["host"] or "-", worker["service"] or "-", worker["url"], word, told))
    listed = {worker["url"] for worker in workers}
    for worker in new:
        if worker["url"] not in listed:
            told = "new, and its engine does not answer its health check; run this again when it does"
            rows.append((worker["host"], worker["service"], worker["url"], "LEFT OUT", told))
    widths = [max(len(row[column]) for row in rows) for column in range(4)] if rows else []
    return ["  ".join([*(text.ljust(width) for text, width in zip(row, widths)), row[4]]) for row in sorted(rows)]


def drain_problems(seen, urls, minimum):
    """Why some workers may not be taken out: sentences, one for each router and service that would fall below."""
    urls = {plain(url) for url in urls}
    problems = []
    for result in seen:
        serving = [
            worker
            for worker in result.get("workers") or []
            if worker["state"] == "serving" and worker["in_router"] and worker["healthy"]
        ]
        for service in sorted({worker["service"] for worker in serving if worker["url"] in urls}):
            left = [worker for worker in serving if worker["service"] == service and worker["url"] not in urls]
            if len(left) < minimum:
                problems.append(
                    f"Router {result['item']} would have {len(left)} serving worker{'' if len(left) == 1 else 's'} of "
                    f"service {service}, and drain_serving_minimum is {minimum}. Drain fewer hosts at a time "
                    "(--limit), put others back first, or give a smaller drain_serving_minimum."
                )
    return problems


def outcomes(results):
    """One line for each engine that a loop over routers and engines took out or put back."""
    lines = []
    for result in results:
        router, engine = result["item"]
        state = "would change" if result.get("seconds") == 0.0 and result.get("changed") else result.get("state", "?")
        known = next((worker for worker in result.get("workers") or []), {})
        told = f"in {result.get('seconds', 0)} s"
        if state == "drained" and known.get("reason"):
            told += f", since {known['since']} by {known['by']}: {known['reason']}"
        lines.append("  ".join([engine["host"], engine["service"], engine["url"], f"{state} on {router}", told]))
    return lines or ["no router (group sglang_routers), or no engine of its own: nothing to do"]
