# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What role gateway refuses, in which words, and the digests that nginx compares with."""

from __future__ import annotations

import base64
import hashlib

import pytest
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import gateway

KEY = "4f1d2c3b5a69788796a5b4c3d2e1f00f"
OTHER = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
PEM = {
    "certificate": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
    "key": "-----BEGIN PRIVATE KEY-----\nMC4C\n-----END PRIVATE KEY-----\n",
}


def settings(service=None, client=None, **more):
    """Variables that are in order, but for what is given."""
    return {
        "services": [{"name": "kimi", **(service or {})}],
        "clients": [{"name": "team-a", "keys": [KEY], **(client or {})}],
        "certificates": {"kimi": PEM},
        "self_signed_allowed": False,
        "firewall_sources": [],
        "defaults": {},
        **more,
    }


@pytest.mark.parametrize(
    "good",
    [
        settings(),
        settings({"port": "8443", "address": "::", "upstreams": ["[::1]:30000", "gpu2.example:30000"]}),
        settings({"certificate_path": "/etc/ssl/a.pem", "key_path": "/etc/ssl/a.key"}, certificates={}),
        settings({"self_signed": True}, certificates={}, self_signed_allowed=True),
        settings({"metrics_port": 9443, "metrics_sources": ["192.0.2.0/24", "2001:db8::/32"]}),
        settings(client={"keys": [KEY, OTHER], "services": ["kimi"]}),
        # Two listeners on one port, but on different addresses.
        settings(
            services=[{"name": "a", "address": "192.0.2.1"}, {"name": "b", "address": "192.0.2.2"}],
            certificates={"a": PEM, "b": PEM},
        ),
        # The engine listens on loopback, the gateway on the same port elsewhere.
        settings({"address": "192.0.2.1", "port": 30000}),
    ],
)
def test_good_settings_have_no_problems(good):
    assert gateway.problems(good) == []


@pytest.mark.parametrize(
    ("bad", "variable", "told"),
    [
        (settings(services=[]), "gateway_services is []", "names no service"),
        (settings(services=None), "gateway_services is None", "names no service"),
        (settings(services=["kimi"]), 'gateway_services[0] is "kimi"', "no mapping"),
        (settings({"name": "Kimi 2"}, certificates={"Kimi 2": PEM}), 'services[0].name is "Kimi 2"', "a-z, 0-9"),
        (settings({"prot": 1}), "gateway_services[0].prot is (hidden)", "no such field"),
        (settings({"port": 70000}), "gateway_services[0].port is 70000", "from 1 to 65535"),
        (settings({"port": True}), "gateway_services[0].port is True", "from 1 to 65535"),
        (settings({"burst": -1}), "gateway_services[0].burst is -1", "from 0"),
        (settings({"body_mib": "big"}), 'gateway_services[0].body_mib is "big"', "whole number"),
        (settings({"address": "gpu1"}), 'gateway_services[0].address is "gpu1"', "no IP address"),
        (settings({"upstreams": ["http://127.0.0.1:30000"]}), "gateway_services[0].upstreams", "HOST:PORT"),
        (settings({"upstreams": ["127.0.0.1:99999"]}), "gateway_services[0].upstreams", "HOST:PORT"),
        (settings({"upstreams": []}), "gateway_services[0].upstreams is []", "at least one"),
        (settings({"paths": ["/server_info"]}), 'gateway_services[0].paths is "/server_info"', "administers"),
        (settings({"paths": ["/v1/loads"]}), 'gateway_services[0].paths is "/v1/loads"', "administers"),
        (settings({"paths": ["/v1/x; return 200"]}), "gateway_services[0].paths", "administers"),
        (settings({"health_sources": ["192.0.2.1/24"]}), "gateway_services[0].health_sources", "host bits"),
        (settings({"metrics_port": 9443}), "gateway_services[0].metrics_sources is []", "nobody may ask"),
        (settings({"port": 30000}), "port of service kimi is 30000", "serve_port"),
        (settings({"metrics_port": 443, "metrics_sources": ["::1"]}), "metrics_port of service kimi is 443", "taken"),
        (
            settings(services=[{"name": "a"}, {"name": "b"}], certificates={"a": PEM, "b": PEM}),
            "port of service b is 443",
            "taken by port of service a",
        ),
        (
            settings(services=[{"name": "kimi"}, {"name": "kimi", "port": 444}]),
            'gateway_services[1].name is "kimi"',
            "another service",
        ),
        (settings(certificates={}), "gateway_services[0].certificate_path is None", "no certificate"),
        (settings({"certificate_path": "/a.pem"}, certificates={}), "key_path is None", "set both"),
        (settings({"certificate_path": "a;b", "key_path": "/k"}, certificates={}), 'certificate_path is "a;b"', "path"),
        (settings({"certificate_path": "/a", "key_path": "/k"}), "certificate_path", "several origins"),
        (settings({"self_signed": "true"}, certificates={}), "self_signed", "gateway_self_signed_allowed"),
        (settings(certificates={"kimi": {"certificate": PEM["certificate"]}}), "certificates.kimi is (hidden)", "two"),
        (settings(certificates={"kimi": {**PEM, "key": "no PEM"}}), "certificates.kimi.key is (hidden)", "PRIVATE KEY"),
        (settings(certificates={"kimi": PEM, "x": PEM}), "gateway_certificates.x is (hidden)", "no such service"),
        (settings(firewall_router_sources=["rowan"]), 'gateway_firewall_router_sources is "rowan"', "192.0.2.0/24"),
        (settings(firewall_sources=["all"]), 'gateway_firewall_sources is "all"', "192.0.2.0/24"),
        (settings(defaults={"burst": -5}), "gateway_burst is -5", "from 0"),
        (settings(defaults={"paths": ["/metrics"]}), 'gateway_paths is "/metrics"', "administers"),
        (settings(clients=[]), "gateway_clients is []", "nobody"),
        (settings(clients=KEY), "gateway_clients is (hidden)", "nobody"),
        (settings(clients=[KEY]), "gateway_clients[0] is (hidden)", "no mapping"),
        (settings(client={"key": KEY}), "gateway_clients[0].key is (hidden)", "no such field"),
        (settings(client={OTHER: 1}), "gateway_clients[0].(hidden) is (hidden)", "no such field"),
        (settings(client={"name": ""}), "gateway_clients[0].name is None", "missing"),
        (settings(client={"name": KEY + "/" + OTHER}), "gateway_clients[0].name is (hidden)", "no name"),
        (settings(client={"services": ["glm"]}), 'gateway_clients[0].services is "glm"', "use of kimi"),
        (settings(client={"services": []}), "gateway_clients[0].services is []", "leave it out"),
        (settings(client={"keys": KEY}), "gateway_clients[0].keys is (hidden)", "no list"),
        (settings(client={"keys": []}), "gateway_clients[0].keys is (hidden)", "no list"),
        (settings(client={"keys": [""]}), "gateway_clients[0].keys[0] is (hidden)", "empty"),
        (settings(client={"keys": [7]}), "gateway_clients[0].keys[0] is (hidden)", "quote it"),
        (settings(client={"keys": [KEY[:31]]}), "gateway_clients[0].keys[0] is (hidden)", "it has 31 characters"),
        (settings(client={"keys": [KEY * 9]}), "gateway_clients[0].keys[0] is (hidden)", "it has 288 characters"),
        (settings(client={"keys": ["abc" * 12]}), "gateway_clients[0].keys[0] is (hidden)", "3 different"),
        (settings(client={"keys": [KEY + "\n"]}), "gateway_clients[0].keys[0] is (hidden)", "a line break"),
        (settings(client={"keys": [KEY + '"']}), "gateway_clients[0].keys[0] is (hidden)", "a quote"),
        (settings(client={"keys": [KEY + " x"]}), "gateway_clients[0].keys[0] is (hidden)", "a space"),
        (settings(client={"keys": [KEY + ";"]}), "gateway_clients[0].keys[0] is (hidden)", "another character"),
        (settings(client={"keys": [KEY, KEY]}), "gateway_clients[0].keys[1] is (hidden)", "gateway_clients[0].keys[0]"),
        # nginx looks the end up without regard to case.
        (settings(client={"keys": [KEY, OTHER[:-6] + "E1F00F"]}), "keys[1] is (hidden)", "last 6 characters"),
        (
            settings(clients=[{"name": "a", "keys": [KEY]}, {"name": "a", "keys": [OTHER]}]),
            'gateway_clients[1].name is "a"',
            "another client",
        ),
    ],
)
def test_bad_settings_are_named_with_their_mend(bad, variable, told):
    found = gateway.problems(bad)
    assert [sentence for sentence in found if variable in sentence and told in sentence], found
    text = "\n".join(found)
    assert KEY[:16] not in text and OTHER[:16] not in text and "MC4C" not in text
    assert all(sentence.endswith(".") and "; " in sentence for sentence in found)


def test_a_service_that_no_client_may_use_is_a_problem():
    two = [{"name": "kimi"}, {"name": "glm", "port": 444}]
    found = gateway.problems(
        settings(services=two, certificates={"kimi": PEM, "glm": PEM}, client={"services": ["kimi"]})
    )
    assert len(found) == 1 and "no client may use service glm" in found[0]


def test_a_service_has_its_own_fields_then_the_common_then_the_filters():
    (whole,) = gateway.services(
        [{"name": "kimi", "burst": 1, "draining": "true"}], {"burst": 2, "connections": 3, "paths": None}
    )
    assert (whole["burst"], whole["connections"], whole["requests_per_minute"]) == (1, 3, 600)
    assert (whole["draining"], whole["self_signed"]) == (True, False)
    assert whole["paths"] == gateway.SERVICE_DEFAULTS["paths"]


def test_keys_become_ends_and_digests():
    clients = [{"name": "b", "keys": [OTHER, KEY]}, {"name": "a", "keys": [KEY.upper()], "services": ["two"]}]
    found = gateway.keys(clients, [{"name": "two"}, {"name": "one"}])
    assert [(entry["service"], entry["client"], entry["tail"]) for entry in found] == [
        ("one", "b", OTHER[-6:]),
        ("one", "b", KEY[-6:]),
        ("two", "a", KEY[-6:]),
        ("two", "b", OTHER[-6:]),
        ("two", "b", KEY[-6:]),
    ]
    expected = base64.urlsafe_b64encode(hashlib.md5(f"one/b/{OTHER}".encode()).digest()).decode().rstrip("=")
    assert found[0]["digest"] == expected and len(expected) == 22
    assert len({entry["digest"] for entry in found}) == 5
    assert not any(KEY in str(entry) or OTHER in str(entry) for entry in found)
