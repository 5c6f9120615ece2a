# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep a router at what is written down about its workers. Runs on the router host, by systemd.

    router_sync.py start   after a start of the router: put the serving workers in, wait until it has them
    router_sync.py watch   look again and again: a worker whose engine comes late is put in, a drained one taken out

Standard library only, Python 3.9 and newer, no Ansible. Workers that are not written down are left alone and named.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from . import router_api, router_store

LOOK = 0.25
# An addition of an engine that is healthy is a matter of less than a second.
ADDITION_SECONDS = 10


def plan(workers, listed, healthy):
    """What a router lacks and what it has too many: (urls to add, ids to remove, unknown urls)."""
    add = [url for url in router_store.urls_in(workers, router_store.SERVING) if url not in listed and url in healthy]
    drained = router_store.urls_in(workers, router_store.DRAINED)
    remove = [(url, record["id"]) for url in drained for record in listed.get(url, [])]
    return add, remove, sorted(set(listed) - set(workers))


def healthy_of(urls):
    """Those of some engines that answer their health check."""
    if not urls:
        return set()
    with ThreadPoolExecutor(max_workers=min(32, len(urls))) as pool:
        answers = pool.map(lambda url: router_api.engine_healthy(url, 5.0)[0], urls)
        return {url for url, answer in zip(urls, answers) if answer}


def once(router, path):
    """Bring a router to what is written down; returns sentences about what was done."""
    listed = router.workers()
    missing = [url for url in router_store.urls_in(router_store.read(path), router_store.SERVING) if url not in listed]
    healthy = healthy_of(missing)
    # Under the lock, and until the router has them: who drains a worker meanwhile finds it there and removes it.
    with router_store.held(path):
        workers = router_store.read(path)
        add, remove, unknown = plan(workers, router.workers(), healthy)
        told = [f"{url} is put in" for url in add] + [f"{url} is drained and was taken out" for url, _id in remove]
        for url in add:
            router.add(url)
        for _url, identity in remove:
            router.remove(identity)
        deadline = time.monotonic() + ADDITION_SECONDS
        while add and not set(add) <= set(router.workers()) and time.monotonic() < deadline:
            time.sleep(LOOK)
    absent = sorted(set(missing) - healthy)
    return told, [f"{url} is to serve and does not answer" for url in absent] + [
        f"{url} is in the router and not written down" for url in unknown
    ]


def wait_answer(router, seconds):
    """Wait until a router answers."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return router.workers()
        except (router_api.NotRunning, router_api.Unexpected):
            if time.monotonic() >= deadline:
                raise
            time.sleep(LOOK)


def wait_all(router, path, seconds):
    """Wait until a router calls each worker healthy that is to serve and was added; returns the sorted others."""
    deadline = time.monotonic() + seconds
    while True:
        listed = router.workers()
        lacking = [
            url
            for url in router_store.urls_in(router_store.read(path), router_store.SERVING)
            if not any(record["healthy"] for record in listed.get(url, []))
        ]
        waited_for = [url for url in lacking if url in listed]
        if not waited_for or time.monotonic() >= deadline:
            return lacking
        time.sleep(LOOK)


def say(sentence):
    """One line for the journal, at once."""
    sys.stdout.write(f"{sentence}\n")
    sys.stdout.flush()


def start(router, path, seconds):
    """Fill a router that was started."""
    wait_answer(router, seconds)
    told, open_matters = once(router, path)
    lacking = wait_all(router, path, seconds)
    for sentence in told + open_matters:
        say(sentence)
    say(f"ready; {len(lacking)} of the workers that are to serve are missing")


def watch(router, path, interval):
    """Look again and again, and say what changed."""
    said = []
    while True:
        try:
            told, open_matters = once(router, path)
        except (router_api.NotRunning, router_api.Unexpected, router_store.Unreadable) as error:
            told, open_matters = [], [str(error)]
        for sentence in told + [matter for matter in open_matters if matter not in said]:
            say(sentence)
        said = open_matters
        time.sleep(interval)


def main(argv=None):
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mode", choices=["start", "watch"])
    parser.add_argument("--router", required=True, help="address of the router")
    parser.add_argument("--workers", required=True, help="file of the workers")
    parser.add_argument("--seconds", type=float, default=60, help="start: longest wait")
    parser.add_argument("--interval", type=float, default=10, help="watch: seconds between two looks")
    options = parser.parse_args(argv)
    router = router_api.Router(options.router)
    try:
        if options.mode == "watch":
            watch(router, options.workers, options.interval)
        start(router, options.workers, options.seconds)
    except (router_api.NotRunning, router_api.Unexpected, router_store.Unreadable) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0
