# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A memory plan as text for people: one block for a host, one table for a fleet. At most 96 columns.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

import textwrap

from .hicache_plan import CONVERSION

WIDTH = 96
ANSWERS = {True: "yes", False: "NO", None: "?"}


def _number(value, digits=2):
    return "-" if value is None else f"{value:,.{digits}f}"


def _row(cells, widths):
    """Cells in columns: the first to the left, the others to the right."""
    first, *rest = [str(cell) for cell in cells]
    parts = [first.ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(rest, widths[1:])]
    return "  ".join(parts).rstrip()


def table(rows):
    """Rows of cells as aligned lines; the first row is the heading."""
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
    return [_row(row, widths) for row in rows]


def _sentences(title, sentences):
    lines = []
    for sentence in sentences:
        lines += textwrap.wrap(f"{title}: {sentence}", WIDTH - 2, subsequent_indent="  ", break_long_words=False)
    return lines


def _tokens(plan):
    source = plan["device_tokens_source"]
    if plan["device_tokens"] is None:
        return "unknown"
    if source == "estimated":
        return f"{plan['device_tokens_low']:,} to {plan['device_tokens_high']:,}"
    return f"{plan['device_tokens']:,}"


def _wanted(plan):
    if plan["size_gb"]:
        return f"{plan['size_gb']:g} GB"
    return "-" if plan["ratio"] is None else f"x {plan['ratio']:g}"


def _pool_rows(plan):
    rows = [["pool", "ranks", "tokens", "B/token", "GB/rank", "GiB/rank", "GB in all"]]
    staged = len({pool["stage"] for pool in plan["pools"]}) > 1
    for pool in plan["pools"]:
        name = f"{pool['pool']} stage {pool['stage']}" if staged else pool["pool"]
        sizes = [_number(pool["gb"]), _number(pool["gib"]), _number(pool["total_gb"])]
        counts = ["-" if pool[key] is None else f"{pool[key]:,}" for key in ("tokens", "bytes_per_token")]
        rows.append([name, pool["ranks"], *counts, *sizes])
    sums = [_number(plan["per_rank_gb"]), _number(plan["per_rank_gib"]), _number(plan["total_gb"])]
    rows.append(["all", plan["ranks"], "", "", *sums])
    return rows


def _limits(plan):
    words = []
    if plan["largest_ratio"] is not None:
        words.append(f"ratio {plan['largest_ratio']:.2f}")
        if plan["reliable_ratio"] < plan["largest_ratio"]:
            words[-1] += f" ({plan['reliable_ratio']:.2f} in any order of the ranks)"
    if plan["largest_size_gb"] is not None:
        words.append(f"size {plan['largest_size_gb']} GB a rank")
    return ", or ".join(words)


def _facts(plan):
    memory, weights = plan["memory"], plan["weights"]
    source = plan["device_tokens_source"]
    rows = [("device tokens", _tokens(plan) + ("" if source == "unknown" else f" a rank, {source}"))]
    for sentence in plan["explanation"]:
        if sentence.startswith(CONVERSION):
            rows.append(("GiB and GB", sentence[len(CONVERSION) :].split(". ")[0]))
    if memory:
        taken = f"{_number(memory['available_gb'])} available"
        if memory["held_gb"]:
            taken += f" (held now: {_number(memory['held_gb'])})"
        if memory["cgroup_limit_gb"] is not None and memory["cgroup_limit_gb"] < memory["available_gb"]:
            taken += f", limited to {_number(memory['cgroup_limit_gb'])}"
        rows.append(("host memory, GB", taken))
        less = f"less {_number(memory['processes_gb'])} processes, {_number(memory['reserve_gb'])} reserve"
        rows.append(("for pools, GB", f"{_number(memory['usable_gb'])} ({less}), left {_number(memory['left_gb'])}"))
    if plan["numa"]:
        nodes = [f"node {node['id']}: {node['need_gb']:,.2f} of {node['room_gb']:,.2f}" for node in plan["numa"]]
        rows.append(("NUMA, GB", "; ".join(nodes)))
    if weights["fits"] is not None:
        rows.append(
            (
                "weights, GiB",
                f"{weights['per_rank_gib']:.2f} of {weights['static_gib']:.2f} a GPU, {weights['left_gib']:.2f} left",
            )
        )
    limits = _limits(plan)
    if limits:
        rows.append(("largest that fits", limits))
    return [f"{name + ':':<19}{text}" for name, text in rows]


def host_lines(host, plan):
    """The block of one host, a list of lines; ``host`` None leaves its name out."""
    answer = {True: "fits", False: "DOES NOT FIT", None: "cannot tell"}[plan["fits"]]
    head = f"{host}: {answer}" if host else answer
    if plan["ranks"]:
        head += f" - SGLang {plan['release']}, {plan['ranks']} ranks, {_wanted(plan)}, page size {plan['page_size']}"
    lines = [head]
    if plan["pools"]:
        lines += [f"  {line}" for line in table(_pool_rows(plan))]
    lines += [f"  {line}" for line in _facts(plan)]
    logged = list(dict.fromkeys(pool["line"] for pool in plan["pools"] if pool["line"]))
    if logged:
        guessed = plan["device_tokens_source"] == "estimated" and not plan["size_gb"]
        said = "would log for the middle of that range" if guessed else "will log"
        lines.append(f"  SGLang {said}, on each rank:")
        for line in logged:
            lines += textwrap.wrap(line, WIDTH, initial_indent="    ", subsequent_indent="      ")
    for title, key in (("does not fit", "objections"), ("cannot tell", "unknown"), ("warning", "cautions")):
        lines += [f"  {line}" for line in _sentences(title, plan[key])]
    return lines


def fleet_lines(plans):
    """One line for each host of ``{host: plan}``, and the sum."""
    rows = [["host", "fits", "ranks", "device tokens", "asked", "GB/rank", "GB in all", "for pools", "left", "largest"]]
    for host in sorted(plans):
        plan = plans[host]
        memory = plan["memory"] or {}
        rows.append(
            [
                host,
                ANSWERS[plan["fits"]],
                plan["ranks"] or "-",
                _tokens(plan),
                _wanted(plan),
                _number(plan["per_rank_gb"]),
                _number(plan["total_gb"]),
                _number(memory.get("usable_gb")),
                _number(memory.get("left_gb")),
                _number(plan["largest_ratio"]),
            ]
        )
    counts = [
        f"{sum(plan['fits'] is answer for plan in plans.values())} {word}"
        for answer, word in ((True, "fit"), (False, "do not fit"), (None, "cannot be told"))
        if answer is True or any(plan["fits"] is answer for plan in plans.values())
    ]
    total = sum(plan["total_gb"] or 0 for plan in plans.values())
    # Several services of a host are named HOST/SERVICE.
    kind = "service" if any("/" in name for name in plans) else "host"
    counted = f"{len(plans)} {kind}{'' if len(plans) == 1 else 's'}"
    return [*table(rows), f"{counted}: {', '.join(counts)}; {total:,.2f} GB of host memory in all."]
