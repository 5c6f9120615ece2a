# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose request it was, as the engine's web server tells it in its access lines: uvicorn's, of release 0.54.

A client at an address of FORWARDED_ALLOW_IPS may name another one in X-Forwarded-For, and whatever text it puts there
is printed. Standard library alone.
"""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import quote, unquote

DEFAULT = "127.0.0.1,::1"


def with_port(value):
    """(host, port) of `HOST:PORT` or `[HOST]:PORT`; any other text is a host with port 0."""
    if value.startswith("["):
        host, closed, rest = value[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            return value, 0
        return host, number(rest[1:])
    host, _colon, port = value.partition(":")
    if value.count(":") == 1 and number(port, None) is not None:
        return host, number(port)
    return value, 0


def number(text, otherwise=0):
    """The text as a whole number."""
    try:
        return int(text)
    except ValueError:
        return otherwise


class Trusted:
    """The addresses whose word counts: the text of FORWARDED_ALLOW_IPS, or `*` for everybody."""

    def __init__(self, text):
        self.everybody = text == "*"
        self.literals, self.networks = set(), []
        for name in (part.strip() for part in text.split(",")):
            try:
                self.networks.append(ipaddress.ip_network(name))
            except ValueError:
                self.literals.add(name)

    def __contains__(self, host):
        if self.everybody or not host:
            return self.everybody
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return host in self.literals
        return any(address in network for network in self.networks)

    def client(self, address, named):
        """(host, port) of a request's client.

        `address`: that of the connection. `named`: the values of its X-Forwarded-For headers. The last one that is not
        a trusted proxy itself counts; the first where all are.
        """
        if address[0] not in self or not named:
            return address
        hosts = [part.strip() for part in ", ".join(named).split(",")]
        strangers = [one for one in map(with_port, reversed(hosts)) if one[0] not in self]
        host, port = strangers[0] if strangers and not self.everybody else with_port(hosts[0])
        return (host, port) if host else address


def from_environment(faults=()):
    """Whom this start trusts; the fault `forwarded-trusted` has it trust everybody."""
    return Trusted("*" if "forwarded-trusted" in faults else os.environ.get("FORWARDED_ALLOW_IPS", DEFAULT))


def request_of(line):
    """Method, path and protocol as an access line has them, of a request's first line."""
    method, _space, rest = line.partition(" ")
    target, _space, protocol = rest.rpartition(" ")
    if not target:
        return line
    path, question, query = target.partition("?")
    return f"{method} {quote(unquote(path))}{question}{query} {protocol}"
