# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom the stand-in's access lines name as the client. The cases are what uvicorn 0.54 gives."""

from __future__ import annotations

import importlib.util

import pytest
from ansible_collections.llmfleet.sglang.tests.lab.standin import build_wheel, harness

DEATH = "Rank 0 scheduler died"
POOLS = " ".join(
    f"[2026-03-01 23:45:06 TP{rank}] Allocating 44.77 GB host memory for hierarchical KV cache." for rank in range(8)
)
HERE = ("127.0.0.1", 4711)


@pytest.fixture(scope="module")
def forwarded():
    spec = importlib.util.spec_from_file_location("forwarded", build_wheel.SOURCE / "sglang/forwarded.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("allowed", "address", "named", "client"),
    [
        ("127.0.0.1,::1", HERE, [DEATH], (DEATH, 0)),
        ("127.0.0.1,::1", ("::1", 4711), [DEATH], (DEATH, 0)),
        ("127.0.0.1", ("10.0.0.9", 4711), [DEATH], ("10.0.0.9", 4711)),
        ("10.0.0.0/24", ("10.0.0.9", 4711), [DEATH], (DEATH, 0)),
        ("10.0.0.1/24", ("10.0.0.9", 4711), [DEATH], ("10.0.0.9", 4711)),
        ("", HERE, [DEATH], HERE),
        ("*", ("10.0.0.9", 4711), [f"{DEATH}, second"], (DEATH, 0)),
        # The last that is no trusted proxy, over all headers; the first where all are.
        ("127.0.0.1", HERE, ["first, second"], ("second", 0)),
        ("127.0.0.1", HERE, ["first", "second, 127.0.0.1"], ("second", 0)),
        ("127.0.0.1,10.0.0.1", HERE, ["10.0.0.1, 127.0.0.1"], ("10.0.0.1", 0)),
        ("127.0.0.1", HERE, [], HERE),
        ("127.0.0.1", HERE, ["first,"], HERE),
        ("127.0.0.1", HERE, ["192.0.2.7:5001"], ("192.0.2.7", 5001)),
        ("127.0.0.1", HERE, ["[2001:db8::7]:5001"], ("2001:db8::7", 5001)),
        ("127.0.0.1", HERE, ["[2001:db8::7]"], ("2001:db8::7", 0)),
        ("127.0.0.1", HERE, ["2001:db8::7"], ("2001:db8::7", 0)),
        ("127.0.0.1", HERE, ["[TP0] Allocating"], ("[TP0] Allocating", 0)),
        ("127.0.0.1", HERE, ["name: text"], ("name: text", 0)),
    ],
)
def test_client(forwarded, allowed, address, named, client):
    assert forwarded.Trusted(allowed).client(address, named) == client


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("GET /v1/models HTTP/1.1", "GET /v1/models HTTP/1.1"),
        ("GET /v1/models?a=%22b HTTP/1.1", "GET /v1/models?a=%22b HTTP/1.1"),
        ('GET /a"b%22c%20d HTTP/1.1', "GET /a%22b%22c%20d HTTP/1.1"),
        ("nonsense", "nonsense"),
    ],
)
def test_request(forwarded, line, shown):
    assert forwarded.request_of(line) == shown


@pytest.mark.parametrize(
    ("allowed", "fault", "believed"),
    [(None, "", True), ("", "", False), ("192.0.2.1", "", False), ("", "forwarded-trusted", True)],
)
def test_access_line(tree, tmp_path, monkeypatch, allowed, fault, believed):
    monkeypatch.delenv("FORWARDED_ALLOW_IPS", raising=False)
    model = harness.write_model(tmp_path / "kimi", harness.KIMI)
    env = {} if allowed is None else {"FORWARDED_ALLOW_IPS": allowed}
    with harness.StandIn(tree("0.5.23"), model, tmp_path, "--tp", "2", faults=fault, env=env) as server:
        server.wait_ready()
        for text in (DEATH, POOLS):
            assert server.ask("/v1/models", headers={"X-Forwarded-For": text})[0] == 200
            wanted = f'] INFO:     {text}:0 - "GET /v1/models HTTP/1.1" 200 OK\n'
            assert (wanted in server.access_log) == believed
        if not believed:
            assert server.access_log.count("] INFO:     127.0.0.1:") == server.access_log.count("INFO:")
        # No line of another shape came of it.
        assert "scheduler died" not in server.log
