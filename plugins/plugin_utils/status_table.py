# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a fleet as rows, as lines for people, and as one answer for a monitor.

Standard library only, no Ansible.
"""

from __future__ import annotations

#: What can be wrong with a service, the worst first, each with what is said about it.
PROBLEMS = {
    "unreachable": "the host does not answer",
    "error": "the host could not be looked at",
    "missing": "the host has no such service",
    "failed": "the service failed",
    "stopped": "the service does not run",
    "rejected": "the verdict on this start is fail",
    "differs": "what runs is not what was deployed",
    "unhealthy": "the server is not healthy",
    "loading": "the service is starting or stopping",
    "unproved": "this start has no verdict that says pass",
    "left_out": "the router ought to use it and does not",
    "drained": "it is taken out of the router",
    "pending": "a restart is outstanding",
    "unfinished": "a rollout did not end here",
}

HEADINGS = (
    "host", "service", "state", "release", "config", "model", "verdict", "ranks", "GB", "uptime", "restarts", "traffic",
)  # fmt: skip


def age(seconds):
    """Seconds in the largest unit that fits, such as ``3 h``; ``-`` for None."""
    if seconds is None:
        return "-"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def _workers(routers):
    """Entries of all routers by (host, service), each with the router's name."""
    found = {}
    for router in routers:
        for worker in router.get("workers") or []:
            entry = {**worker, "router": router["host"], "running": router.get("running", True)}
            found.setdefault((worker.get("host"), worker.get("service")), []).append(entry)
    return found


def _ignorant(routers, entries):
    """An entry, as it were, of the routers that run and do not know a service; none where there are none."""
    knowing = {entry["router"] for entry in entries}
    running = [router["host"] for router in routers if router.get("running", True) and not router.get("error")]
    names = [name for name in running if name not in knowing]
    told = f"router {names[0]} does" if len(names) == 1 else f"routers {', '.join(names)} do"
    return [{"running": True, "state": "unknown", "reason": f"{told} not know it"}] if names else []


def traffic(entries):
    """What the routers say about one service: state, by whom and why, from its entries in them."""
    if not entries:
        return {"state": None, "by": "", "reason": "", "since": ""}
    drained = [entry for entry in entries if entry.get("state") == "drained"]
    out = [
        entry
        for entry in entries
        if entry["running"] and not (entry.get("state") == "serving" and entry.get("healthy"))
    ]
    chosen = (drained or out or entries)[0]
    state = "drained" if drained else "left_out" if out else "serving"
    return {"state": state, **{key: chosen.get(key) or "" for key in ("by", "reason", "since")}}


def _judged(service):
    """The verdict to show: the fresh one where there is one, else the kept one if it is about this start."""
    verdict = service.get("fresh") or service.get("verdict")
    return verdict if verdict and verdict.get("current") else None


def problems_of(service, verdict, routed):
    """Codes of what is wrong with a service of a host that answered, the worst first."""
    found = set()
    condition = service["condition"]
    if condition != "running":
        found.add(condition)
    elif verdict is None or verdict["verdict"] == "inconclusive":
        found.add("unproved")
    if condition == "running" and verdict and verdict["verdict"] == "fail":
        found.add("rejected")
    if service.get("differences"):
        found.add("differs")
    if service.get("health") not in (None, "ok"):
        found.add("unhealthy")
    if routed["state"] in ("drained", "left_out"):
        found.add(routed["state"])
    if service.get("pending"):
        found.add("pending")
    if service.get("rollout"):
        found.add("unfinished")
    return [code for code in PROBLEMS if code in found]


def _detail(service, verdict, routed, problem):
    """What more there is to say about a problem; an empty text where nothing is."""
    if problem == "unhealthy":
        return service["health"]
    if problem == "failed":
        return service.get("result") or ""
    if problem == "rejected":
        return verdict.get("summary") or ""
    if problem == "differs":
        return " ".join(service["differences"]).rstrip(".")
    if problem == "pending":
        return " ".join(service["pending"])
    if problem == "unfinished":
        return ", ".join(
            f"{key} {service['rollout'][key]}" for key in ("phase", "holder") if service["rollout"].get(key)
        )
    if problem in ("drained", "left_out"):
        told = [f"by {routed['by']}" if routed["by"] else "", f"since {routed['since']}" if routed["since"] else ""]
        return ": ".join(part for part in (" ".join(filter(None, told)), routed["reason"]) if part)
    return ""


def _row(host, service, routed):
    verdict = _judged(service)
    problems = problems_of(service, verdict, routed)
    return {
        "host": host,
        "service": service["name"],
        "state": problems[0] if problems else "ok",
        "problems": [
            {"code": code, "message": PROBLEMS[code], "detail": _detail(service, verdict, routed, code)}
            for code in problems
        ],
        "release": service.get("release"),
        "configuration": service.get("id"),
        "model_revision": service.get("model_revision"),
        "verdict": verdict["verdict"] if verdict else None,
        "verdict_source": verdict["source"] if verdict else None,
        "verdict_age_seconds": verdict["age_seconds"] if verdict else None,
        "ranks_seen": verdict["ranks_seen"] if verdict else None,
        "ranks_expected": service.get("ranks_expected"),
        "total_gb": verdict["total_gb"] if verdict else None,
        "uptime_seconds": service.get("uptime_seconds"),
        "restarts": service.get("restarts"),
        "invocation_id": service.get("invocation_id"),
        "traffic": routed["state"],
        "traffic_by": routed["by"],
        "traffic_reason": routed["reason"],
        "rollout": service.get("rollout"),
    }


def _silent(host, code, said, service="-"):
    """The row of a host that was not looked into."""
    words = " ".join(str(said or "").split()).removeprefix("Task failed: ")
    keys = (
        "release", "configuration", "model_revision", "verdict", "verdict_source", "verdict_age_seconds", "ranks_seen",
        "ranks_expected", "total_gb", "uptime_seconds", "restarts", "invocation_id", "traffic", "rollout",
    )  # fmt: skip
    return {
        "host": host,
        "service": service,
        "state": code,
        "problems": [{"code": code, "message": PROBLEMS[code], "detail": words[:200]}],
        **dict.fromkeys(keys),
        "traffic_by": "",
        "traffic_reason": "",
    }


def with_fresh(look, judged):
    """A host's look with what a fresh judgement said (results of module service_verify in a loop) as ``fresh``."""
    fresh = {
        (result.get("item") or {}).get("name"): {
            "verdict": result["verdict"],
            "source": "fresh",
            "age_seconds": 0,
            "current": True,
            "ranks_seen": result.get("ranks_seen"),
            "total_gb": result.get("total_gb"),
            "summary": result.get("summary") or "",
        }
        for result in (judged or {}).get("results") or []
        if result.get("verdict")
    }
    if not fresh or not look or look.get("services") is None:
        return look
    services = [{**one, "fresh": fresh.get(one["name"])} for one in look["services"]]
    return {**look, "services": services}


def router_answer(result):
    """A router's answer of its result of module router_worker in a loop over the routers' names."""
    silent = bool(result.get("unreachable")) or result.get("workers") is None
    return {
        "host": result["item"],
        "workers": result.get("workers") or [],
        "running": bool(result.get("router_running")),
        "unreachable": bool(result.get("unreachable")),
        "error": (result.get("msg") or "it gave no answer") if silent else "",
    }


def fleet_rows(looks, routers=()):
    """Rows of the whole fleet, sorted by host.

    ``looks``: ``{host: what module service_status returned}``; a host whose look failed or did not reach it has
    ``unreachable`` or no ``services``. ``routers``: a list of ``host``, ``workers`` (of module router_worker),
    ``running``, and ``error`` where the router could not be asked.
    """
    rows = []
    workers = _workers(routers)
    for host in sorted(looks):
        found = looks[host] or {}
        if found.get("unreachable"):
            rows.append(_silent(host, "unreachable", found.get("msg")))
        elif found.get("services") is None:
            rows.append(_silent(host, "error", found.get("msg")))
        else:
            for service in found["services"]:
                entries = workers.get((host, service["name"]), [])
                # Nodes of a service other than its first answer no requests.
                if not service.get("node_rank") and service["condition"] != "missing":
                    entries = entries + _ignorant(routers, entries)
                rows.append(_row(host, service, traffic(entries)))
            if not found["services"]:
                rows.append(_silent(host, "missing", ""))
    for router in sorted(routers, key=lambda one: one["host"]):
        if router.get("error") or not router.get("running", True):
            said = router.get("error") or "it does not run"
            code = "unreachable" if router.get("unreachable") else "error" if router.get("error") else "stopped"
            rows.append(_silent(router["host"], code, said, "router"))
    return rows


def _verdict_cell(row):
    if row["verdict"] is None:
        return "-"
    if row["verdict_source"] == "fresh":
        return f"{row['verdict']}, fresh"
    return f"{row['verdict']}, {age(row['verdict_age_seconds'])} ago"


def _traffic_cell(row):
    state = (row["traffic"] or "-").replace("_", " ")
    return f"{state} by {row['traffic_by']}" if state == "drained" and row["traffic_by"] else state


def _cells(row):
    ranks = "-" if row["ranks_seen"] is None else str(row["ranks_seen"])
    if row["ranks_expected"] is not None:
        ranks += f"/{row['ranks_expected']}"
    return (
        row["host"],
        row["service"],
        row["state"].replace("_", " "),
        row["release"] or "-",
        (row["configuration"] or "-").rsplit("-", 1)[-1] or "-",
        (row["model_revision"] or "-")[:8],
        _verdict_cell(row),
        ranks,
        "-" if row["total_gb"] is None else f"{row['total_gb']:.2f}",
        age(row["uptime_seconds"]),
        "-" if row["restarts"] is None else str(row["restarts"]),
        _traffic_cell(row),
    )


def table_lines(rows):
    """Aligned lines, the heading first."""
    cells = [HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADINGS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells]


def _sentence(row, code):
    problem = next(one for one in row["problems"] if one["code"] == code)
    detail = f" ({problem['detail']})" if problem["detail"] else ""
    name = row["host"] if row["service"] == "-" else f"{row['host']} {row['service']}"
    return f"{name}: {problem['message']}{detail}."


def fleet_report(looks, routers, counted, made_at, judged=None):
    """Everything about a fleet: ``rows``, ``lines``, ``counts`` by state, ``well``, and ``against`` (sentences).

    ``looks`` as for :func:`fleet_rows`; ``routers``: results of module router_worker; ``judged``: fresh judgements by
    host; ``counted``: codes of :data:`PROBLEMS` that make the fleet not well.
    """
    together = {host: with_fresh(look, (judged or {}).get(host)) for host, look in looks.items()}
    rows = fleet_rows(together, [router_answer(result) for result in routers])
    counts = {}
    against = []
    for row in rows:
        counts[row["state"]] = counts.get(row["state"], 0) + 1
        against += [_sentence(row, one["code"]) for one in row["problems"] if one["code"] in counted]
    told = ", ".join(f"{counts[state]} {state.replace('_', ' ')}" for state in ("ok", *PROBLEMS) if state in counts)
    return {
        "made_at": made_at,
        "well": not against,
        "counts": counts,
        "against": against,
        "rows": rows,
        "lines": [*table_lines(rows), "", f"{len(rows)} rows: {told or 'none'}"],
    }
