# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What routers say of the workers that they have, and who took one out."""

from __future__ import annotations

import re

from ..module_utils.router_store import DRAINED, ROLLOUT


def one_line(text):
    """Return a message in one line, without the words that Ansible puts before it."""
    return re.sub(r"^(?:Task failed: )?(?:(?:Module|Action) failed: )?", "", " ".join(str(text).split()))


def workers_of(asked):
    """Return (workers, sentences about routers that did not answer) from what module router_worker said of each router.

    A worker is what the router's file and the router say of it, with router, and reached: whether the router runs.
    """
    workers, silent = [], []
    for answer in asked:
        router = answer.get("item")
        if answer.get("unreachable") or answer.get("failed") or "workers" not in answer:
            silent.append(f"router {router} did not answer: {one_line(answer.get('msg') or 'no message')}")
            continue
        running = answer.get("router_running", True)
        workers += [{**worker, "router": router, "reached": running} for worker in answer["workers"]]
    return workers, silent


def by_rollout(worker):
    """Tell whether a worker was taken out of its router by a rollout."""
    return worker.get("state") == DRAINED and worker.get("by") == ROLLOUT


def by_person(worker):
    """Tell whether a worker was taken out of its router by anybody else."""
    return worker.get("state") == DRAINED and not by_rollout(worker)
