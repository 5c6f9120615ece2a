# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real engine on a real journal: what it logged is what was predicted, digit by digit."""

from __future__ import annotations

import json
import re
import time

from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_size
from ansible_collections.llmfleet.sglang.plugins.module_utils.kv_geometry import bytes_per_token
from ansible_collections.llmfleet.sglang.tests.lab.standin import harness, shapes

UNIT = "sglang-kimi.service"
READY = "The server is fired up and ready to roll!"


def _messages(records, invocation):
    texts = []
    for record in records(invocation):
        message = record["MESSAGE"]
        texts.append(message if isinstance(message, str) else bytes(message).decode(errors="replace"))
    return texts


def test_the_engine_logged_the_predicted_line(host, properties, records):
    config = json.loads(host.file("/srv/models/tiny-kimi/config.json").content_string)
    per_token = bytes_per_token(config, 2)
    tokens = hicache_size.host_tokens(40000, 4.0, 64, "0.5.23")
    gb = hicache_size.tokens_to_gb(tokens, per_token)
    line = hicache_size.allocation_line(gb, tokens, release="0.5.23")
    logged = [text for text in _messages(records, properties()["InvocationID"]) if "hierarchical KV host pool" in text]
    print("\npredicted:", line, *logged, sep="\n  ")
    assert gb >= 0.5
    assert sorted(re.search(r"(TP\d)\] (.*)", text).groups() for text in logged) == [("TP0", line), ("TP1", line)]


def test_the_verdict_is_kept_with_the_engines_figures(fact, properties):
    assert fact["verdict"] == "pass"
    assert fact["invocation_id"] == properties()["InvocationID"]
    assert fact["ranks_seen"] == 2
    assert fact["expected_gb"] == 0.55
    assert fact["total_gb"] == 1.1
    assert fact["device_tokens"] == 40000


def test_two_runs_made_one_start(records):
    started = {record["INVOCATION_ID"] for record in records() if record.get("JOB_TYPE") in ("start", "restart")}
    assert len(started) == 1


def test_the_second_witness_agrees(http):
    status, body = http("/metrics")
    assert status == 200
    assert re.search(r"^sglang:hicache_host_total_tokens\{[^}]*\} 160064\.0$", body, re.MULTILINE)


def test_a_request_is_answered(host):
    body = json.dumps({"model": "kimi-k2.5", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4})
    answer = host.check_output(
        "curl --silent --max-time 120 --header 'Content-Type: application/json' "
        f"--data '{body}' http://127.0.0.1:30000/v1/chat/completions"
    )
    assert json.loads(answer)["usage"]["completion_tokens"] >= 1


def _start_up(messages):
    """Lines until the ready line that other programs read; requests come in an order of their own."""
    end = next(number for number, text in enumerate(messages) if READY in text)
    wanted = set(shapes.RELIED_ON) - {"access", "prefill", "drain", "draining", "end"}
    return [
        text for text in messages[: end + 1] if any(shapes.kind(shape) in wanted for shape in shapes.normalise(text))
    ], wanted


def test_the_stand_in_still_writes_what_the_engine_writes(host, properties, records, tmp_path):
    real, wanted = _start_up(_messages(records, properties()["InvocationID"]))
    config = json.loads(host.file("/srv/models/tiny-kimi/config.json").content_string)
    model = harness.write_model(tmp_path / "model", config)
    flags = [
        "--tp-size", "2", "--max-total-tokens", "40000", "--page-size", "64", "--attention-backend", "triton",
        "--device", "cpu", "--enable-metrics", "--enable-hierarchical-cache", "--hicache-ratio", "4.0",
        "--trust-remote-code",
    ]  # fmt: skip
    with harness.StandIn(harness.unpack("0.5.23", tmp_path), model, tmp_path, *flags) as engine:
        engine.wait_ready()
        standin, _wanted = _start_up(engine.log.splitlines())
    assert shapes.differences(real, standin, relied_on=sorted(wanted)) == []


def test_perfect_lines_of_a_dead_server_do_not_pass(host):
    """Without a C++ compiler the engine logs both allocations and then dies: the case that misled everybody."""
    with host.sudo():
        host.check_output("mv /usr/bin/g++ /usr/bin/g++.away && mv /usr/bin/c++ /usr/bin/c++.away")
        # Kernels that an earlier start compiled would hide that there is no compiler any more.
        host.check_output("find /var/cache /var/lib/sglang /tmp -path '*torchinductor*' -delete")
        try:
            shown = f"systemctl show --property=InvocationID --value {UNIT}"
            before = host.check_output(shown)
            # The start never becomes ready, so that nobody may wait for it.
            host.check_output(f"systemctl restart --no-block {UNIT}")
            deadline = time.monotonic() + 300
            while host.check_output(shown) == before:
                assert time.monotonic() < deadline, "no new start began"
                time.sleep(0.5)
            options = {
                "unit": UNIT, "ranks": 2, "ratio": 4.0, "bytes_per_token": 3456, "page_size": 64, "release": "0.5.23",
                "health_url": "http://127.0.0.1:30000/health_generate", "timeout": 300, "poll_interval": 1,
                "fail_on": [],
            }  # fmt: skip
            result = host.ansible("llmfleet.sglang.hicache_verify", json.dumps(options), check=False, become=True)
        finally:
            host.check_output("mv /usr/bin/g++.away /usr/bin/g++ && mv /usr/bin/c++.away /usr/bin/c++")
    assert result["allocation_verdict"] == "pass", result
    assert result["verdict"] == "fail", result
    assert result["ranks_seen"] == 2
