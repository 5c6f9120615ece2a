# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What role gateway knows about its variables: services with their defaults, keys as digests, and what is wrong.

No message of this file shows a key or the content of a certificate: they are named by their place in the variable.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import re

HIDDEN = "(hidden)"
# nginx finds the client by the end of the key, without regard to case, and then compares a digest of the whole.
TAIL_LENGTH = 6
KEY_LENGTHS = (32, 256)
# Random keys of 32 hexadecimal digits practically always have more different characters than this.
KEY_VARIETY = 8
KEY_PATTERN = re.compile(r"[A-Za-z0-9._~+/=-]+")
CLIENT_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
SERVICE_PATTERN = re.compile(r"[a-z][a-z0-9-]{0,31}")
PATH_PATTERN = re.compile(r"/v1(/[a-z0-9_-]+)+")
UPSTREAM_PATTERN = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9.-]*):([0-9]{1,5})")
HOST_PATH_PATTERN = re.compile(r"/[A-Za-z0-9._/@+-]+")
# Below /v1, and yet not for clients: how busy the engine is.
CLOSED_PATHS = ("/v1/loads",)
CLIENT_FIELDS = ("name", "keys", "services")
# What a service has when nobody says otherwise; None stands for "none".
SERVICE_DEFAULTS = {
    "address": "0.0.0.0",
    "port": 443,
    "upstreams": ["127.0.0.1:30000"],
    "certificate_path": None,
    "key_path": None,
    "self_signed": False,
    "paths": ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/models"],
    "health_sources": ["127.0.0.1", "::1"],
    "requests_per_minute": 600,
    "burst": 100,
    "connections": 64,
    "body_mib": 32,
    "connect_timeout_seconds": 5,
    "read_timeout_seconds": 3600,
    "metrics_address": "0.0.0.0",
    "metrics_port": None,
    "metrics_sources": [],
    "draining": False,
}
# {field: (least, most)}
NUMBERS = {
    "port": (1, 65535),
    "metrics_port": (1, 65535),
    "requests_per_minute": (1, 600000),
    "burst": (0, 100000),
    "connections": (1, 65535),
    "body_mib": (1, 1024),
    "connect_timeout_seconds": (1, 75),
    "read_timeout_seconds": (1, 86400),
}


def services(given, defaults=None):
    """Each service with every field: its own value, else that of `defaults`, else SERVICE_DEFAULTS."""
    common = {**SERVICE_DEFAULTS, **{name: value for name, value in (defaults or {}).items() if value is not None}}
    found = [
        {**common, **{name: value for name, value in service.items() if value is not None}}
        for service in given
        if isinstance(service, dict)
    ]
    for service in found:
        service.update({name: _is_true(service[name]) for name in ("self_signed", "draining")})
    return found


def digest(service, client, key):
    """What nginx's $secure_link is compared with: base64url of MD5 over service, client and key, without padding."""
    text = f"{service}/{client}/{key}".encode()
    # MD5 is the one hash that nginx computes from a variable without more modules. What is weak about it, collisions,
    # helps nobody who does not choose the keys; a random key of 32 characters is out of reach of any search.
    return base64.urlsafe_b64encode(hashlib.md5(text, usedforsecurity=False).digest()).rstrip(b"=").decode()


def may_use(client, service_name):
    """Whether a client may use a service: all that it lists, or all when it lists none."""
    listed = client.get("services")
    return listed is None or service_name in listed


def keys(clients, given):
    """One entry for each service and key: {service, client, tail, digest}, in a lasting order, without the key."""
    found = [
        {
            "service": str(service["name"]),
            "client": str(client["name"]),
            "tail": str(key)[-TAIL_LENGTH:].lower(),
            "digest": digest(service["name"], client["name"], key),
        }
        for service in given
        for client in clients
        if may_use(client, service["name"])
        for key in client["keys"]
    ]
    return sorted(found, key=lambda entry: (entry["service"], entry["client"], entry["tail"]))


def problems(settings):
    """Every problem of the role's variables, without the role's prefix, as sentences."""
    found = []
    given = settings.get("services")
    if not isinstance(given, list) or not given:
        found.append(_said("gateway_services", given, "it names no service", "list one, with at least name and port"))
        given = []
    whole = services(given, settings.get("defaults"))
    for place, service in enumerate(given):
        found += _service_problems(f"gateway_services[{place}]", service, settings)
    found += _name_problems(given)
    found += _port_problems(whole)
    found += _client_problems(settings.get("clients"), [str(service.get("name")) for service in whole])
    found += _certificate_problems(settings.get("certificates"), [str(service.get("name")) for service in whole])
    for name in ("health_sources", "paths", "upstreams"):
        if name in (settings.get("defaults") or {}):
            found += _list_problems(f"gateway_{name}", name, settings["defaults"][name])
    for name, value in (settings.get("defaults") or {}).items():
        if name in NUMBERS:
            found += _number_problems(f"gateway_{name}", value, NUMBERS[name])
    found += _network_problems("gateway_firewall_sources", settings.get("firewall_sources") or [])
    found += _network_problems("gateway_firewall_router_sources", settings.get("firewall_router_sources") or [])
    return found


def _shown(value):
    if isinstance(value, str):
        return '"' + "".join(letter if letter.isprintable() else "?" for letter in value) + '"'
    return str(value)


def _said(variable, value, problem, mend):
    return f"{variable} is {value if value == HIDDEN else _shown(value)}: {problem}; {mend}."


def _is_true(value):
    """A boolean, which comes from the command line as text."""
    return str(value).lower() in ("true", "yes", "on", "1")


def _is_number(value):
    return isinstance(value, int) and not isinstance(value, bool)


def _number_problems(variable, value, limits):
    # A number on the command line comes as text.
    number = int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value) else value
    if _is_number(number) and limits[0] <= number <= limits[1]:
        return []
    return [_said(variable, value, "it is out of range", f"use a whole number from {limits[0]} to {limits[1]}")]


def _network_problems(variable, value):
    if not isinstance(value, list):
        return [_said(variable, value, "it is no list", "list addresses or networks such as 192.0.2.0/24")]
    found = []
    for item in value:
        try:
            ipaddress.ip_network(str(item))
        except ValueError:
            found.append(
                _said(variable, item, "it is no address or network", "write 192.0.2.7 or 192.0.2.0/24, host bits zero")
            )
    return found


def _list_problems(variable, field, value):
    if field == "health_sources":
        return _network_problems(variable, value)
    if not isinstance(value, list) or not value:
        return [_said(variable, value, "it is no list with an entry", "list at least one")]
    if field == "paths":
        return [
            _said(
                variable,
                path,
                "only the OpenAI paths may be opened, everything else of SGLang administers or discloses",
                "list paths below /v1 such as /v1/chat/completions; /health and /metrics have settings of their own",
            )
            for path in value
            if not PATH_PATTERN.fullmatch(str(path)) or str(path) in CLOSED_PATHS
        ]
    found = []
    for upstream in value:
        matched = UPSTREAM_PATTERN.fullmatch(str(upstream))
        if not matched or not 1 <= int(matched.group(2)) <= 65535:
            found.append(_said(variable, upstream, "it is no engine's address", "write HOST:PORT, as 127.0.0.1:30000"))
    return found


def _service_problems(where, service, settings):
    if not isinstance(service, dict):
        return [_said(where, service, "it is no mapping", "write name: and port: in it")]
    found = []
    unknown = sorted(str(field) for field in service if field not in SERVICE_DEFAULTS and field != "name")
    for field in unknown:
        # Someone may have put a secret here: the name is enough to find it.
        found.append(
            _said(f"{where}.{field}", HIDDEN, "there is no such field", f"use one of {', '.join(SERVICE_DEFAULTS)}")
        )
    if not SERVICE_PATTERN.fullmatch(str(service.get("name", ""))):
        found.append(
            _said(f"{where}.name", service.get("name"), "it is no name of a service", "use 1 to 32 of a-z, 0-9 and -")
        )
    for field, limits in NUMBERS.items():
        if service.get(field) is not None:
            found += _number_problems(f"{where}.{field}", service[field], limits)
    for field in ("address", "metrics_address"):
        if service.get(field) is not None:
            try:
                ipaddress.ip_address(str(service[field]))
            except ValueError:
                found.append(_said(f"{where}.{field}", service[field], "it is no IP address", "use one, or 0.0.0.0"))
    for field in ("upstreams", "paths", "health_sources"):
        if service.get(field) is not None:
            found += _list_problems(f"{where}.{field}", field, service[field])
    sources = service.get("metrics_sources") or []
    found += _network_problems(f"{where}.metrics_sources", sources)
    if service.get("metrics_port") is not None and not sources:
        found.append(
            _said(
                f"{where}.metrics_sources",
                sources,
                "the metrics would have a listener that nobody may ask",
                "list the addresses of the monitoring, or leave metrics_port out",
            )
        )
    return found + _origin_problems(where, service, settings)


def _origin_problems(where, service, settings):
    """Where the certificate comes from: one of three, and whole."""
    found = []
    paths = {field: service[field] for field in ("certificate_path", "key_path") if service.get(field)}
    for field, value in paths.items():
        if not HOST_PATH_PATTERN.fullmatch(str(value)):
            found.append(_said(f"{where}.{field}", value, "it is no absolute path of a file on the host", "write one"))
    if len(paths) == 1:
        missing = ({"certificate_path", "key_path"} - set(paths)).pop()
        found.append(_said(f"{where}.{missing}", None, f"{next(iter(paths))} is of no use alone", "set both"))
    certificates = settings.get("certificates")
    content = isinstance(certificates, dict) and str(service.get("name")) in certificates
    origins = bool(paths) + content + _is_true(service.get("self_signed"))
    if origins != 1:
        found.append(
            _said(
                f"{where}.certificate_path",
                service.get("certificate_path"),
                "the service has no certificate" if origins == 0 else "the service's certificate has several origins",
                f"set one of: certificate_path and key_path, gateway_certificates.{service.get('name')} with the "
                "contents, or self_signed in a lab",
            )
        )
    if _is_true(service.get("self_signed")) and not _is_true(settings.get("self_signed_allowed")):
        found.append(
            _said(
                f"{where}.self_signed",
                service["self_signed"],
                "clients could not tell this host from an impostor",
                "give it a certificate, or set gateway_self_signed_allowed to true in a lab",
            )
        )
    return found


def _name_problems(given):
    names = [str(service.get("name")) for service in given if isinstance(service, dict)]
    return [
        _said(f"gateway_services[{place}].name", name, "another service has it already", "give each its own name")
        for place, name in enumerate(names)
        if name in names[:place]
    ]


def _meet(one, other):
    """Whether two listening addresses take the same connections."""
    wild = ("0.0.0.0", "::")
    return one == other or one in wild or other in wild


def _port_problems(whole):
    found, taken = [], []
    for service in whole:
        for variable, address, port in (
            (f"port of service {service.get('name')}", str(service["address"]), service["port"]),
            (
                f"metrics_port of service {service.get('name')}",
                str(service["metrics_address"]),
                service["metrics_port"],
            ),
        ):
            if port is None:
                continue
            for owner, other_address, other_port in taken:
                if str(other_port) == str(port) and _meet(address, other_address):
                    found.append(_said(variable, port, f"it is taken by {owner}", "give each listener its own port"))
            taken.append((variable, address, port))
    engines = {
        str(upstream)
        for service in whole
        if isinstance(service["upstreams"], list)
        for upstream in service["upstreams"]
        if str(upstream).startswith(("127.", "localhost:", "[::1]:"))
    }
    for variable, address, port in taken:
        for engine in sorted(engines):
            if engine.rsplit(":", 1)[1] == str(port) and _meet(address, engine.rsplit(":", 1)[0]):
                found.append(
                    _said(
                        variable, port, f"the engine {engine} listens on it (serve_port)", "choose another, such as 443"
                    )
                )
    return found


def _client_problems(clients, service_names):
    if not isinstance(clients, list) or not clients:
        value = clients if clients in (None, []) else HIDDEN
        return [_said("gateway_clients", value, "nobody could use the gateway", "list clients with name and keys")]
    found, names, tails = [], [], {}
    for place, client in enumerate(clients):
        where = f"gateway_clients[{place}]"
        if not isinstance(client, dict):
            found.append(_said(where, HIDDEN, "it is no mapping", "write name: and keys: in it"))
            continue
        for field in sorted(str(field) for field in client if field not in CLIENT_FIELDS):
            # The name of a field may be a client's, and what stands there a key.
            shown = field if re.fullmatch(r"[a-z_]{1,20}", field) else HIDDEN
            found.append(_said(f"{where}.{shown}", HIDDEN, "there is no such field", f"use {', '.join(CLIENT_FIELDS)}"))
        name = str(client.get("name", ""))
        if not CLIENT_PATTERN.fullmatch(name):
            problem = "it is missing" if not name else "it is no name of a client"
            mend = "use 1 to 40 letters, digits, dots, - and _"
            found.append(_said(f"{where}.name", None if not name else HIDDEN, problem, mend))
        elif name in names:
            found.append(
                _said(f"{where}.name", name, "another client has it already", "list all its keys in one place")
            )
        names.append(name)
        found += _services_of_client_problems(where, client, service_names)
        found += _key_problems(where, client, tails)
    for name in service_names:
        if not any(isinstance(client, dict) and _safely(may_use, client, name) for client in clients):
            found.append(
                _said("gateway_clients", HIDDEN, f"no client may use service {name}", "add it to a client's services")
            )
    return found


def _safely(function, *arguments):
    try:
        return function(*arguments)
    except TypeError:
        return False


def _services_of_client_problems(where, client, service_names):
    listed = client.get("services")
    if listed is None:
        return []
    if not isinstance(listed, list) or not listed:
        return [_said(f"{where}.services", listed, "it is no list with an entry", "list services, or leave it out")]
    return [
        _said(f"{where}.services", name, "there is no such service", f"use of {', '.join(service_names) or 'none'}")
        for name in listed
        if name not in service_names
    ]


def _key_problems(where, client, tails):
    given = client.get("keys")
    if not isinstance(given, list) or not given:
        return [
            _said(f"{where}.keys", None if given is None else HIDDEN, "it is no list with a key", "list at least one")
        ]
    found = []
    for place, key in enumerate(given):
        variable = f"{where}.keys[{place}]"
        if not isinstance(key, str):
            found.append(_said(variable, HIDDEN, "it is no text", "quote it"))
            continue
        text = str(key)
        if not KEY_PATTERN.fullmatch(text):
            kinds = {"\n": "a line break", "\r": "a line break", " ": "a space", "'": "a quote", '"': "a quote"}
            odd = sorted({kinds.get(letter, "another character") for letter in re.sub(KEY_PATTERN, "", text)})
            problem = f"it holds {' and '.join(odd)}" if text else "it is empty"
            found.append(_said(variable, HIDDEN, problem, "use letters, digits and ._~+/=- only, without line breaks"))
        elif not KEY_LENGTHS[0] <= len(text) <= KEY_LENGTHS[1]:
            found.append(
                _said(
                    variable,
                    HIDDEN,
                    f"it has {len(text)} characters",
                    f"use {KEY_LENGTHS[0]} to {KEY_LENGTHS[1]} random ones, as `openssl rand -hex 32` makes",
                )
            )
        elif len(set(text)) < KEY_VARIETY:
            found.append(
                _said(variable, HIDDEN, f"it has {len(set(text))} different characters only", "make a random one")
            )
        else:
            tail = text[-TAIL_LENGTH:].lower()
            if tail in tails:
                found.append(
                    _said(
                        variable,
                        HIDDEN,
                        f"it is the key {tails[tail]}, or ends like it, and nginx tells keys by their "
                        f"last {TAIL_LENGTH} characters",
                        "make another one",
                    )
                )
            tails.setdefault(tail, variable)
    return found


def _certificate_problems(certificates, service_names):
    if not certificates:
        return []
    if not isinstance(certificates, dict):
        return [_said("gateway_certificates", HIDDEN, "it is no mapping", "write NAME: {certificate: ..., key: ...}")]
    found = []
    for name, content in certificates.items():
        where = f"gateway_certificates.{name}"
        if str(name) not in service_names:
            found.append(_said(where, HIDDEN, "there is no such service", "use the name of one of gateway_services"))
        if not isinstance(content, dict) or set(content) != {"certificate", "key"}:
            found.append(_said(where, HIDDEN, "it has not just certificate and key", "set these two"))
            continue
        for field, mark in (("certificate", "-----BEGIN CERTIFICATE-----"), ("key", "PRIVATE KEY-----")):
            if mark not in str(content[field]):
                found.append(_said(f"{where}.{field}", HIDDEN, "it is no PEM text of its kind", f"it must hold {mark}"))
    return found
