# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Speak with sglang-router about its workers, and with an engine about its requests.

Standard library only, Python 3.9 and newer, no Ansible. The role copies this file to the router host as well. What the
router answers is that of sglang-router 0.3.2:

- ``POST /workers`` and ``DELETE /workers/ID`` answer 202 at once; the work is a job, and ``GET /workers/ID`` tells its
  end.
- An addition that finds no engine is tried again for ``--worker-startup-timeout-secs``, also after a DELETE.
- A worker that was removed finishes the requests that it has; the router counts them no longer.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import urllib.parse

# Running and waiting requests of an engine, in /metrics.
GAUGES = ("sglang:num_running_reqs", "sglang:num_queue_reqs")
SAMPLE = re.compile(r"^(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)(?:\{[^}]*\})?\s+(?P<value>\S+)")
# What else reading a figure raises where there is none: null, a list, 1e999, lists within lists without end.
_NO_FIGURE = (TypeError, OverflowError, RecursionError)
# States of a line of /proc/net/tcp in which a request may be under way: established, and just being opened.
TCP_OPEN = {"01", "02"}


class BadUrl(Exception):
    """A worker's url that no router should get; the message says why."""


class NotRunning(Exception):
    """Nothing listens at the router's address."""


class Unexpected(Exception):
    """Another answer than that of sglang-router; the message quotes it."""


# ---- pure -------------------------------------------------------------------------------------------------------


def normal_url(url):
    """A worker's url as the file and the router have it: scheme, host in small letters, port, and nothing else."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadUrl(f"url is '{url}', which is no address ({error})") from error
    example = "give one like http://gpu1.example.org:30000"
    if parts.scheme not in ("http", "https"):
        raise BadUrl(f"url is '{url}', which does not begin with http:// or https://; {example}")
    if parts.username is not None:
        raise BadUrl(f"url has a name or a password before its host, which the router would print; {example}")
    if not parts.hostname or re.search(r"[\s\\]", url):
        raise BadUrl(f"url is '{url}', which names no host; {example}")
    if port is None:
        raise BadUrl(f"url is '{url}', which names no port; {example}")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise BadUrl(f"url is '{url}', which has a path after its port; {example}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}"


def listed_workers(content):
    """Workers of the router's answer to GET /workers, {normal url: [record, ...]}.

    The router takes ``http://a:1`` and ``http://a:1/`` for two workers; here they are one with two records.
    """
    found = {}
    for worker in content.get("workers") or []:
        try:
            url = normal_url(worker["url"])
        except BadUrl:
            url = worker["url"]
        record = {"id": worker["id"], "healthy": bool(worker.get("is_healthy")), "requests": worker.get("load", 0)}
        found.setdefault(url, []).append({**record, "model": worker.get("model_id", "")})
    return found


def job_problem(content):
    """Why the last job of a worker failed; empty where it did not, or is still under way."""
    job = content.get("job_status") or {}
    return str(job.get("message") or "no reason given") if job.get("status") == "failed" else ""


def requests_of_metrics(text):
    """Running and waiting requests in an engine's /metrics; None where it has neither of the figures.

    With several ranks each has its own line: data parallel ones have requests of their own, the others repeat them.
    """
    found = None
    for line in text.splitlines():
        sample = SAMPLE.match(line)
        if sample and sample["name"] in GAUGES:
            found = (found or 0) + int(float(sample["value"]))
    return found


def requests_of_loads(content):
    """Running and waiting requests in an engine's answer to GET /v1/loads; None where it has none of the figures."""
    found = None
    for load in content.get("loads") or []:
        for name in ("num_running_reqs", "num_waiting_reqs"):
            if name in load:
                found = (found or 0) + int(load[name])
    return found


def open_connections(text, addresses, port):
    """Connections to a port of some addresses in the text of /proc/net/tcp or tcp6."""
    wanted = {(table_address(address), port) for address in addresses}
    count = 0
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) > 3 and words[3] in TCP_OPEN:
            address, _colon, hexadecimal = words[2].partition(":")
            count += (plain_address(address), int(hexadecimal, 16)) in wanted
    return count


def table_address(address):
    """An address as the kernel's tables write it: words of four bytes, each in the machine's order."""
    packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    return "".join(packed[start : start + 4][::-1].hex() for start in range(0, len(packed), 4)).upper()


def plain_address(written):
    """An IPv4 address that a socket of both families has is written as IPv6: the last word is the address."""
    mapped = "0000000000000000FFFF0000"
    return written[len(mapped) :] if len(written) == 32 and written.startswith(mapped) else written


# ---- requests ---------------------------------------------------------------------------------------------------


def ask(base, path, method="GET", body=None, timeout=10.0):
    """(status, text) of a request; OSError or HTTPException where there is no answer. Knows no proxies."""
    parts = urllib.parse.urlsplit(base)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=timeout)
    try:
        headers = {"Connection": "close", **({"Content-Type": "application/json"} if body is not None else {})}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        connection.close()


def engine_healthy(url, timeout=10.0):
    """Whether an engine answers its health check, and what it said where it does not."""
    try:
        status, _text = ask(url, "/health", timeout=timeout)
    except (OSError, http.client.HTTPException) as error:
        return False, f"no answer ({error})"
    return status == 200, f"status {status}"


def engine_requests(url, timeout=5.0):
    """Requests that an engine has, running and waiting; None where it does not tell."""
    for path, figures in (
        ("/v1/loads", lambda text: requests_of_loads(json.loads(text))),
        ("/metrics", requests_of_metrics),
    ):
        try:
            status, text = ask(url, path, timeout=timeout)
            found = figures(text) if status == 200 else None
        except (OSError, http.client.HTTPException, ValueError, AttributeError, *_NO_FIGURE):
            continue
        if found is not None:
            return found
    return None


def connections_to(url):
    """Open connections of this machine to a worker."""
    parts = urllib.parse.urlsplit(url)
    try:
        addresses = {entry[4][0].partition("%")[0] for entry in socket.getaddrinfo(parts.hostname, parts.port)}
    except OSError as error:
        # Nothing is known then of the requests that it has.
        raise Unexpected(
            f"{parts.hostname} has no address here ({error}), so that nobody can tell whether {url} still has "
            "requests. See that this host resolves the name, and run this again."
        ) from error
    count = 0
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as stream:
                count += open_connections(stream.read(), addresses, parts.port)
        except OSError:
            continue
    return count


class Router:
    """A router at an address."""

    def __init__(self, url, timeout=10.0):
        self.url = url.rstrip("/")
        self.timeout = timeout

    def _ask(self, path, method="GET", body=None, expected=(200,)):
        try:
            status, text = ask(self.url, path, method, body, self.timeout)
        except (ConnectionRefusedError, ConnectionResetError, http.client.RemoteDisconnected) as error:
            raise NotRunning(f"nothing answers at {self.url} ({error})") from error
        except (OSError, http.client.HTTPException) as error:
            raise Unexpected(f"{self.url}{path} gave no answer within {self.timeout:g} s ({error})") from error
        if status not in expected:
            raise Unexpected(f"{method} {self.url}{path} answered {status}: {text.strip()[:300]}")
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Unexpected(f"{method} {self.url}{path} answered no JSON: {text.strip()[:300]}") from error
        if not isinstance(content, dict):
            raise Unexpected(f"{method} {self.url}{path} answered no JSON object: {text.strip()[:300]}")
        return content

    def workers(self):
        """Its workers, {normal url: [record, ...]}."""
        return listed_workers(self._ask("/workers"))

    def add(self, url):
        """Have a worker added; returns its id, by which the job can be asked for."""
        return self._ask("/workers", "POST", {"url": url}, expected=(200, 202))["worker_id"]

    def remove(self, identity):
        """Have a worker removed; one that is gone already is no error."""
        self._ask(f"/workers/{identity}", "DELETE", expected=(200, 202, 404))

    def problem_of(self, identity):
        """Why the last job of a worker failed."""
        return job_problem(self._ask(f"/workers/{identity}", expected=(200, 404)))
