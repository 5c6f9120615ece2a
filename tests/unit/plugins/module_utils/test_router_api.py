# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of workers, answers of router and engine, and the kernel's table of connections."""

from __future__ import annotations

import socket

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import router_api as api
from ansible_collections.llmfleet.sglang.tests.unit.plugins import fake_router

TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:75A4 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: B44D0D0A:C001 B54D0D0A:7530 01 00000000:00000000 00:00000000 00000000   998        0 2 1 0 20 4 30 10 -1
   2: B44D0D0A:C002 B54D0D0A:7530 02 00000000:00000000 00:00000000 00000000   998        0 3 1 0 20 4 30 10 -1
   3: B44D0D0A:C003 B54D0D0A:7530 06 00000000:00000000 00:00000000 00000000   998        0 4 1 0 20 4 30 10 -1
   4: B44D0D0A:C004 B54D0D0A:7531 01 00000000:00000000 00:00000000 00000000   998        0 5 1 0 20 4 30 10 -1
   5: B44D0D0A:C005 B64D0D0A:7530 01 00000000:00000000 00:00000000 00000000   998        0 6 1 0 20 4 30 10 -1
"""
TCP6 = """  sl  local_address                         remote_address                        st
   0: 0000000000000000FFFF0000B44D0D0A:C001 0000000000000000FFFF0000B54D0D0A:7530 01 0
   1: 000080FE00000000000000000100007F:C001 B80D0120000000000000000001000000:7530 01 0
"""


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("http://gpu1:30000", "http://gpu1:30000"),
        ("http://GPU1.Example.org:30000/", "http://gpu1.example.org:30000"),
        ("https://192.0.2.1:443", "https://192.0.2.1:443"),
        ("http://[2001:DB8::1]:30000", "http://[2001:db8::1]:30000"),
    ],
)
def test_one_worker_has_one_address(given, wanted):
    assert api.normal_url(given) == wanted


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("gpu1:30000", "does not begin with http"),
        ("10.0.0.1:30000", "does not begin with http"),
        ("grpc://gpu1:30000", "does not begin with http"),
        ("http://gpu1", "names no port"),
        ("http://:30000", "names no host"),
        ("http://gpu1 :30000", "names no host"),
        ("http://gpu1:30000/v1", "a path after its port"),
        ("http://gpu1:30000?a=b", "a path after its port"),
        ("http://gpu1:99999", "is no address"),
        ("http://user:secret@gpu1:30000", "a name or a password"),
        ("", "does not begin with http"),
    ],
)
def test_a_wrong_address_is_refused_with_a_sentence(given, told):
    with pytest.raises(api.BadUrl) as caught:
        api.normal_url(given)
    assert told in str(caught.value) and "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "requests"),
    [
        ('sglang:num_running_reqs{tp_rank="0"} 3.0\nsglang:num_queue_reqs{tp_rank="0"} 2.0\n', 5),
        ('sglang:num_running_reqs{dp_rank="0"} 1.0\nsglang:num_running_reqs{dp_rank="1"} 1.0\n', 2),
        ("sglang:num_running_reqs 0.0\n", 0),
        ("# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs_total 7.0\n", None),
        ("", None),
    ],
)
def test_requests_in_the_metrics(text, requests):
    assert api.requests_of_metrics(text) == requests


@pytest.mark.parametrize(
    ("content", "requests"),
    [
        (
            {"loads": [{"num_running_reqs": 2, "num_waiting_reqs": 1}, {"num_running_reqs": 1, "num_waiting_reqs": 0}]},
            4,
        ),
        ({"loads": [{"num_running_reqs": 0, "num_waiting_reqs": 0}]}, 0),
        ({"loads": []}, None),
        ({"loads": [{"dp_rank": 0}]}, None),
    ],
)
def test_requests_in_the_loads(content, requests):
    assert api.requests_of_loads(content) == requests


@pytest.mark.parametrize(
    ("text", "addresses", "count"),
    [
        (TCP, ["10.13.77.181"], 2),
        (TCP, ["10.13.77.182"], 1),
        (TCP, ["10.13.77.181", "10.13.77.182"], 3),
        (TCP, ["10.13.77.180"], 0),
        (TCP6, ["10.13.77.181"], 1),
        (TCP6, ["2001:db8::1"], 1),
        ("", ["10.13.77.181"], 0),
    ],
)
def test_connections_in_the_kernels_table(text, addresses, count):
    assert api.open_connections(text, addresses, 30000) == count


def test_a_real_connection_is_seen():
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert api.connections_to(url) == 0
        with socket.create_connection(server.getsockname()):
            assert api.connections_to(url) == 1


def test_a_name_without_an_address_is_not_taken_for_no_connection(monkeypatch):
    def unknown(*_arguments):
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(api.Unexpected, match=r"gpu1\.example\.org has no address here .*Temporary failure"):
        api.connections_to("http://gpu1.example.org:30000")


def test_the_same_worker_under_two_addresses_is_one():
    content = {
        "workers": [{"id": "1", "url": "http://a:1", "is_healthy": True, "load": 2}, {"id": "2", "url": "http://a:1/"}]
    }
    found = api.listed_workers(content)
    assert [record["id"] for record in found["http://a:1"]] == ["1", "2"]
    assert [record["healthy"] for record in found["http://a:1"]] == [True, False]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"job_status": {"status": "failed", "message": "no such host"}}, "no such host"),
        ({"job_status": {"status": "failed", "message": None}}, "no reason given"),
        ({"job_status": {"status": "processing"}}, ""),
        ({"job_status": None}, ""),
        ({}, ""),
    ],
)
def test_the_end_of_a_job(content, problem):
    assert api.job_problem(content) == problem


def test_a_worker_is_added_asked_for_and_removed():
    with fake_router.running() as (_kind, state, url):
        router = api.Router(url)
        identity = router.add("http://a:1")
        assert list(router.workers()) == ["http://a:1"] and router.problem_of(identity) == ""
        router.remove(identity)
        assert router.workers() == {} and state.asked == [("add", "http://a:1"), ("remove", "http://a:1")]


def test_a_router_that_is_down_and_another_server_are_told_apart():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(api.NotRunning):
            api.Router(f"http://127.0.0.1:{bound.getsockname()[1]}").workers()
    with fake_router.running() as (_kind, _state, url), pytest.raises(api.Unexpected, match="404"):
        api.Router(f"{url}/elsewhere")._ask("/nothing")


def test_an_engine_tells_its_requests_by_loads_or_by_metrics():
    with fake_router.running() as (kind, _state, url):
        kind.running, kind.waiting = 3, 1
        assert api.engine_requests(url) == 4
        kind.loads = False
        assert api.engine_requests(url) == 3
    assert api.engine_requests(url, 1) is None
    assert api.engine_healthy(url, 1)[0] is False
