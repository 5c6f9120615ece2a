# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of routers and engines that are late, short, broken or of another status, and how requests are sent."""

from __future__ import annotations

import builtins
import contextlib
import http.client
import io
import json
import re
import socket
import threading

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import router_api as api

URL = "http://127.0.0.1:1"


def request_of(connection):
    """Receive one request, with its body."""
    text = ""
    while True:
        text += connection.recv(65536).decode()
        head, ended, body = text.partition("\r\n\r\n")
        length = re.search(r"(?i)content-length: (\d+)", head)
        if ended and len(body.encode()) >= int(length.group(1) if length else 0):
            return text


@contextlib.contextmanager
def server(*answers):
    """Give each connection one of some raw answers (None: no answer while the test lasts), and note what it sent."""
    heard, over = [], threading.Event()

    def serve(listener):
        for answer in answers:
            connection, _address = listener.accept()
            with connection:
                heard.append(request_of(connection))
                if answer is None:
                    over.wait(20)
                else:
                    connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", heard
        over.set()


def answer(status, body=""):
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body.encode())}\r\n\r\n{body}".encode()


def said(monkeypatch, *answers):
    """Let requests have some answers, (status, text) or an exception; returns the list of what was asked."""
    asked, left = [], list(answers)

    def ask(base, path, method="GET", body=None, timeout=None):
        asked.append((base, path, method, body, timeout))
        one = left.pop(0)
        if isinstance(one, Exception):
            raise one
        return one

    monkeypatch.setattr(api, "ask", ask)
    return asked


# -- requests -----------------------------------------------------------------------------------------------------


def test_a_request_without_a_body_has_no_type_and_one_with_a_body_has():
    with server(answer(200, "a"), answer(404, "b")) as (url, heard):
        assert api.ask(url, "/x") == (200, "a")
        assert api.ask(url, "/y", "POST", {"url": "é"}) == (404, "b")
    assert heard[0].startswith("GET /x HTTP/1.1\r\n") and "Content-Type" not in heard[0]
    assert heard[1].startswith("POST /y HTTP/1.1\r\n") and "Content-Type: application/json" in heard[1]
    assert json.loads(heard[1].partition("\r\n\r\n")[2]) == {"url": "é"}
    assert all("Connection: close" in request for request in heard)


def test_an_empty_body_is_a_body():
    with server(answer(200)) as (url, heard):
        assert api.ask(url, "/", "POST", {}) == (200, "")
    assert heard[0].endswith("\r\n\r\n{}")


def test_bytes_that_are_no_text_are_no_error():
    with server(b"HTTP/1.1 200 X\r\nContent-Length: 2\r\n\r\n\xffa") as (url, _heard):
        assert api.ask(url, "/") == (200, "\ufffda")


@pytest.mark.parametrize("failing", [True, False])
def test_every_connection_is_closed_and_has_its_scheme_and_its_time(monkeypatch, failing):
    seen = []

    class Connection:
        status = 200

        def __init__(self, host, port, timeout):
            seen.append((host, port, timeout))

        def request(self, *_words):
            if failing:
                raise ConnectionRefusedError

        def getresponse(self):
            return self

        def read(self):
            return b""

        def close(self):
            seen.append("closed")

    monkeypatch.setattr(http.client, "HTTPSConnection", Connection)
    monkeypatch.setattr(http.client, "HTTPConnection", None)
    with pytest.raises(ConnectionRefusedError) if failing else contextlib.nullcontext():
        api.ask("https://gpu1:443", "/", timeout=3)
    assert seen == [("gpu1", 443, 3), "closed"]


# -- router -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(111, "refused"),
        ConnectionResetError(104, "reset"),
        http.client.RemoteDisconnected("closed without an answer"),
    ],
)
def test_a_router_that_does_not_run(monkeypatch, error):
    said(monkeypatch, error)
    with pytest.raises(api.NotRunning, match=r"nothing answers at http://127\.0\.0\.1:1 \("):
        api.Router(URL).workers()


@pytest.mark.parametrize("error", [socket.timeout("timed out"), http.client.BadStatusLine("SSH-2.0"), OSError(113, "")])
def test_a_router_that_gives_no_answer_is_not_one_that_does_not_run(monkeypatch, error):
    asked = said(monkeypatch, error)
    with pytest.raises(api.Unexpected, match=r"http://127\.0\.0\.1:1/workers gave no answer within 2\.5 s \("):
        api.Router(URL + "/", 2.5).workers()
    assert asked == [(URL, "/workers", "GET", None, 2.5)]


@pytest.mark.parametrize("status", [199, 201, 202, 404, 500])
def test_a_list_with_another_status_is_quoted(monkeypatch, status):
    said(monkeypatch, (status, f" {'x' * 400} "))
    with pytest.raises(api.Unexpected) as caught:
        api.Router(URL).workers()
    assert str(caught.value) == f"GET {URL}/workers answered {status}: {'x' * 300}"


@pytest.mark.parametrize("sign", ["y", "["])
def test_an_answer_that_is_no_json_is_quoted(monkeypatch, sign):
    said(monkeypatch, (200, f" {sign * 100000} "))
    with pytest.raises(api.Unexpected) as caught:
        api.Router(URL).workers()
    assert str(caught.value) == f"GET {URL}/workers answered no JSON: {sign * 300}"


@pytest.mark.parametrize("text", ["[]", "null", "7", '"workers"', json.dumps(["z" * 400])])
def test_an_answer_that_is_no_mapping_is_quoted(monkeypatch, text):
    said(monkeypatch, (200, text))
    with pytest.raises(api.Unexpected) as caught:
        api.Router(URL).workers()
    assert str(caught.value) == f"GET {URL}/workers answered no JSON object: {text[:300]}"


def statuses(monkeypatch, call):
    """Which statuses a call takes."""
    taken = []
    for status in range(100, 600):
        said(monkeypatch, (status, '{"worker_id": "w"}'))
        with contextlib.suppress(api.Unexpected):
            call(api.Router(URL))
            taken.append(status)
    return taken


def test_which_statuses_are_answers(monkeypatch):
    assert statuses(monkeypatch, lambda router: router.workers()) == [200]
    assert statuses(monkeypatch, lambda router: router.add("http://a:1")) == [200, 202]
    # A worker that is gone already was removed, and has no job.
    assert statuses(monkeypatch, lambda router: router.remove("w")) == [200, 202, 404]
    assert statuses(monkeypatch, lambda router: router.problem_of("w")) == [200, 404]


def test_what_a_router_is_asked(monkeypatch):
    asked = said(monkeypatch, (202, '{"worker_id": "w"}'), (202, "{}"), (200, '{"job_status": null}'))
    router = api.Router(URL)
    assert router.add("http://a:1") == "w"
    assert router.remove("w") is None and router.problem_of("w") == ""
    assert [one[1:4] for one in asked] == [
        ("/workers", "POST", {"url": "http://a:1"}), ("/workers/w", "DELETE", None), ("/workers/w", "GET", None),
    ]  # fmt: skip


def test_a_worker_whose_address_nobody_would_write_is_listed_as_it_is():
    found = api.listed_workers({"workers": [{"url": "grpc://a:1", "id": "1"}, {"url": "http://B:1", "id": "2"}]})
    empty = {"healthy": False, "requests": 0, "model": ""}
    assert found == {"grpc://a:1": [{"id": "1", **empty}], "http://b:1": [{"id": "2", **empty}]}
    full = {"url": "http://a:1", "id": "1", "is_healthy": True, "load": 3, "model_id": "m"}
    assert api.listed_workers({"workers": [full]}) == {
        "http://a:1": [{"id": "1", "healthy": True, "requests": 3, "model": "m"}]
    }
    assert api.listed_workers({}) == api.listed_workers({"workers": None}) == {}


# -- engines ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "healthy", "told"),
    [
        ((200, ""), True, "status 200"),
        ((199, ""), False, "status 199"),
        ((201, ""), False, "status 201"),
        ((503, ""), False, "status 503"),
        (ConnectionRefusedError("refused"), False, "no answer (refused)"),
        (http.client.BadStatusLine("odd"), False, "no answer (odd)"),
    ],
)
def test_the_health_of_an_engine(monkeypatch, given, healthy, told):
    asked = said(monkeypatch, given)
    assert api.engine_healthy(URL, 3) == (healthy, told)
    assert asked == [(URL, "/health", "GET", None, 3)]


METRICS = "sglang:num_running_reqs 7\n"


@pytest.mark.parametrize(
    "loads",
    [
        (404, '{"loads": [{"num_running_reqs": 1}]}'),
        (200, "<html>"),
        (200, "[]"),
        (200, '{"loads": ["odd"]}'),
        (200, '{"loads": [{"num_running_reqs": "many"}]}'),
        (200, '{"loads": [{"num_running_reqs": null}]}'),
        (200, '{"loads": [{"num_running_reqs": 1e999}]}'),
        (200, '{"loads": [7]}'),
        (200, "[" * 100000),
        (200, '{"loads": []}'),
        ConnectionResetError("reset"),
        http.client.IncompleteRead(b""),
    ],
)
def test_an_engine_whose_loads_say_nothing_is_asked_for_its_metrics(monkeypatch, loads):
    asked = said(monkeypatch, loads, (200, METRICS))
    assert api.engine_requests(URL, 2) == 7
    assert [one[1] for one in asked] == ["/v1/loads", "/metrics"] and {one[4] for one in asked} == {2}


@pytest.mark.parametrize("metrics", [(404, METRICS), (200, ""), (200, "sglang:num_running_reqs nan\n"),
                                     (200, "sglang:num_running_reqs +Inf\n"), OSError()])  # fmt: skip
def test_an_engine_that_says_nothing_has_no_known_number_of_requests(monkeypatch, metrics):
    said(monkeypatch, (404, ""), metrics)
    assert api.engine_requests(URL) is None


def test_no_requests_is_a_number(monkeypatch):
    asked = said(monkeypatch, (200, '{"loads": [{"num_running_reqs": 0}]}'))
    assert api.engine_requests(URL) == 0 and len(asked) == 1


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("0: A B54D0D0A:7530 01", 1),
        ("0: A B54D0D0A:7530 01 0", 1),
        ("0: A B54D0D0A:7530 0A", 0),
        ("0: A B54D0D0A:7530", 0),
        ("0:", 0),
        ("", 0),
    ],
)
def test_a_line_of_the_kernels_table_may_be_short(line, count):
    assert api.open_connections(f"  sl  local rem st\n{line}\n", ["10.13.77.181"], 30000) == count


def test_the_heading_of_the_kernels_table_is_no_connection():
    assert api.open_connections("0: A B54D0D0A:7530 01\n", ["10.13.77.181"], 30000) == 0


def tables(monkeypatch, **found):
    """Let the kernel have tables, each a text or an exception."""
    real = builtins.open

    def opened(path, *words, **options):
        if str(path).startswith("/proc/net/"):
            content = found[str(path).rpartition("/")[2]]
            if isinstance(content, Exception):
                raise content
            return io.StringIO(content)
        return real(path, *words, **options)

    monkeypatch.setattr(builtins, "open", opened)


ONE = "heading\n0: A 0100007F:7530 01\n"
ONE_OF_SIX = "heading\n0: A 0000000000000000FFFF00000100007F:7530 01\n"


@pytest.mark.parametrize(
    ("four", "six", "count"),
    [
        (ONE, ONE_OF_SIX, 2),
        (ONE, FileNotFoundError(), 1),
        # A machine without IPv4 still has the other table.
        (FileNotFoundError(), ONE_OF_SIX, 1),
    ],
)
def test_connections_of_both_families_count(monkeypatch, four, six, count):
    tables(monkeypatch, tcp=four, tcp6=six)
    assert api.connections_to("http://127.0.0.1:30000") == count


def test_a_scope_is_no_part_of_an_address(monkeypatch):
    tables(monkeypatch, tcp="", tcp6="heading\n0: A 000080FE000000000000000001000000:7530 01\n")
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, port: [(10, 1, 6, "", ("fe80::1%eth0", port, 0, 2))])
    assert api.connections_to("http://[fe80::1]:30000") == 1


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("0000000000000000FFFF0000B54D0D0A", "B54D0D0A"),
        ("B54D0D0A", "B54D0D0A"),
        ("0000000000000000FFFF000", "0000000000000000FFFF000"),
        ("B80D0120000000000000000001000000", "B80D0120000000000000000001000000"),
    ],
)
def test_an_ipv4_address_of_a_socket_of_both_families(written, plain):
    assert api.plain_address(written) == plain
