# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put a worker into a router, take it out, and wait for its requests.

Standard library only, Python 3.9 and newer, no Ansible. What ought to be is written down first, and the router is
brought there after it: whatever happens between the two, the program that fills the router ends it.
"""

from __future__ import annotations

import time

from . import router_api, router_store

# Between two looks at the same thing, in seconds.
LOOK = 0.25
# A removal of the router is a matter of milliseconds.
REMOVAL_SECONDS = 60
# Looks in a row without any connection that count as the end: a request may be about to connect.
LOOKS_WITHOUT_CONNECTION = 3


class Refused(Exception):
    """The worker cannot have the state that was asked for; the message says why and what to do."""

    def __init__(self, told, **more):
        super().__init__(told)
        self.more = more


class Quiet:
    """Judges by a row of looks whether a worker has no requests left.

    No open connection of this machine is proof. Connections may also wait for a next request: an engine that says over
    ``seconds`` that it has none has none either. A single zero is not enough, since an engine notes its figures from
    time to time only.
    """

    def __init__(self, seconds):
        self.seconds = seconds
        self.unconnected = 0
        self.idle_since = None

    def look(self, connections, requests, moment):
        """Take in a look; returns whether the worker has no requests left."""
        self.unconnected = self.unconnected + 1 if connections == 0 else 0
        if requests != 0:
            self.idle_since = None
        elif self.idle_since is None:
            self.idle_since = moment
        idle = self.idle_since is not None and moment - self.idle_since >= self.seconds
        return idle or self.unconnected >= LOOKS_WITHOUT_CONNECTION


def requests_left(connections, requests):
    """Requests that a worker still has, for people: what the engine says, or else connections."""
    return requests if requests is not None else connections


def remove_from_router(router, url):
    """Remove a worker from a router and see it gone; returns whether it was there. A router that is down has none."""
    deadline = time.monotonic() + REMOVAL_SECONDS
    was_there = False
    while True:
        try:
            records = router.workers().get(url, [])
            if not records:
                return was_there
            was_there = True
            for record in records:
                router.remove(record["id"])
        except router_api.NotRunning:
            return was_there
        if time.monotonic() >= deadline:
            raise Refused(
                f"{router.url} still has {url} {REMOVAL_SECONDS} s after its removal was asked for. It is written down "
                "as not serving; look at the router's journal (journalctl -u sglang-router)."
            )
        time.sleep(LOOK)


def wait_quiet(url, seconds, quiet_seconds):
    """Wait until a worker has no requests; returns how many are left after that time."""
    deadline = time.monotonic() + seconds
    quiet = Quiet(quiet_seconds)
    while True:
        connections = router_api.connections_to(url)
        requests = router_api.engine_requests(url) if connections else None
        if quiet.look(connections, requests, time.monotonic()):
            return 0
        if time.monotonic() >= deadline:
            return requests_left(connections, requests)
        time.sleep(LOOK)


def wait_engine(url, seconds):
    """Wait until an engine is healthy; Refused when it is not in that time."""
    deadline = time.monotonic() + seconds
    while True:
        healthy, told = router_api.engine_healthy(url)
        if healthy:
            return
        if time.monotonic() >= deadline:
            raise Refused(
                f"{url}/health did not answer 200 within {seconds} s (timeout): {told}. The worker was left as it was; "
                "see that the engine runs and that this host reaches it."
            )
        time.sleep(LOOK)


def wait_served(router, url, seconds):
    """Have a router serve a worker; returns why it does not after that time, or an empty text."""
    deadline = time.monotonic() + seconds
    told, identity = "it has not answered", None
    while True:
        try:
            records = router.workers().get(url, [])
            if any(record["healthy"] for record in records):
                return ""
            if records:
                told = "it has the worker, and calls it unhealthy"
            elif identity is None:
                identity = router.add(url)
            else:
                problem = router.problem_of(identity)
                told = f"the addition failed: {problem}" if problem else "the addition is still under way"
                # Its end was not seen, or it failed: ask again.
                identity = None if problem else identity
        except router_api.NotRunning as error:
            told, identity = str(error), None
        if time.monotonic() >= deadline:
            return told
        time.sleep(LOOK)


def serve(router, path, url, entry, timeout, only_by=""):
    """Have a worker serve; returns (changed, entry before, entry after)."""
    before = router_store.read(path).get(url)
    if only_by and before and before["state"] == router_store.DRAINED and before["by"] != only_by:
        return False, before, before
    if before and before["state"] == router_store.SERVING and is_served(router, url):
        return False, before, before
    wait_engine(url, timeout)
    before, after = router_store.change(path, url, router_store.SERVING, entry)
    told = wait_served(router, url, timeout)
    if told:
        # The entry goes back first: what fills the router would add the worker again.
        router_store.put(path, url, before)
        if not before or before["state"] != router_store.SERVING:
            remove_from_router(router, url)
        raise Refused(
            f"{router.url} does not serve {url} after {timeout} s (timeout): {told}. The worker was left as it was."
        )
    return True, before, after


def is_served(router, url):
    """Whether a router has a worker and calls it healthy; one that is down does not."""
    try:
        return any(record["healthy"] for record in router.workers().get(url, []))
    except router_api.NotRunning:
        return False


def take_out(router, path, url, wanted, entry=None):
    """Take a worker out, or forget it; returns (changed, entry before, entry after)."""
    before, after = router_store.change(path, url, wanted, entry)
    was_there = remove_from_router(router, url)
    return was_there or before != after, before, after


def overview(workers, listed):
    """One record for each worker that is written down, and for each that only the router has."""
    found = []
    for url in sorted(set(workers) | set(listed)):
        entry, records = workers.get(url), listed.get(url, [])
        known = {name: (entry or {}).get(name, "") for name in router_store.FIELDS}
        known["state"] = known["state"] or "unknown"
        found.append(
            {
                "url": url,
                **known,
                "in_router": bool(records),
                "healthy": any(record["healthy"] for record in records),
                "requests": sum(record["requests"] for record in records),
            }
        )
    return found
