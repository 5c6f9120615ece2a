# SPDX-License-Identifier: GPL-3.0-or-later
"""What the stand-in answers, how it counts, and how it stops."""

from __future__ import annotations

import json
import re
import time

import pytest
from ansible_collections.llmfleet.sglang.tests.lab.standin import harness

CHAT = {"model": "kimi", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 40}
LONG = {**CHAT, "messages": [{"role": "user", "content": "the same long prefix " * 100}]}


@pytest.fixture(scope="module")
def kimi(tmp_path_factory):
    return harness.write_model(tmp_path_factory.mktemp("model") / "kimi", harness.KIMI)


@pytest.fixture(scope="module")
def draft(tmp_path_factory):
    return harness.write_model(tmp_path_factory.mktemp("model") / "draft", harness.EAGLE3_DRAFT)


@pytest.fixture(scope="module")
def server(tree, kimi, tmp_path_factory):
    flags = [*harness.KIMI_FLAGS, "--tp", "2", "--page-size", "64", "--enable-cache-report"]
    flags += ["--served-model-name", "kimi", "--hicache-ratio", "4"]
    with harness.StandIn(tree("0.5.23"), kimi, tmp_path_factory.mktemp("run"), *flags) as running:
        running.wait_ready()
        yield running


def metric(server, name):
    """The first sample of a metric."""
    match = re.search(rf"^sglang:{name}\{{[^}}]*\}} (\S+)$", server.ask("/metrics")[1], re.MULTILINE)
    return float(match.group(1))


# ---- answers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/health", "/health_generate", "/ready", "/ping"])
def test_health(server, path):
    assert server.ask(path) == (200, "")


def test_unknown_paths_and_methods(server):
    assert server.ask("/nope") == (404, {"detail": "Not Found"})
    assert server.ask("/nope", {})[0] == 404
    assert server.ask("/v1/chat/completions") == (405, {"detail": "Method Not Allowed"})


def test_models(server):
    status, body = server.ask("/v1/models")
    assert status == 200
    assert [(entry["id"], entry["max_model_len"]) for entry in body["data"]] == [("kimi", 262144)]


def test_server_info_holds_arguments_and_capacity(server):
    status, info = server.ask("/server_info")
    assert status == 200
    assert (info["version"], info["max_total_num_tokens"]) == ("0.5.23+standin", 159232)
    assert (info["hicache_ratio"], info["tp_size"], info["enable_hierarchical_cache"]) == (4.0, 2, True)
    assert info["internal_states"][0]["memory_usage"]["token_capacity"] == 159232
    assert info["internal_states"][0]["memory_usage"]["kvcache"] == pytest.approx(159296 * 70272 / 2**30, abs=0.001)
    assert len(info) > 500


def test_chat(server):
    status, body = server.ask("/v1/chat/completions", CHAT)
    assert status == 200
    choice = body["choices"][0]
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["content"].startswith("This answer comes from a stand-in")
    assert choice["message"]["reasoning_content"]
    usage = body["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    short = server.ask("/v1/chat/completions", {**CHAT, "max_tokens": 3})[1]
    assert (short["choices"][0]["finish_reason"], short["choices"][0]["message"]["content"]) == ("length", "")
    instant = server.ask("/v1/chat/completions", {**CHAT, "chat_template_kwargs": {"thinking": False}})[1]
    assert instant["choices"][0]["message"]["reasoning_content"] is None


def test_completion_and_generate(server):
    status, body = server.ask("/v1/completions", {"prompt": "once upon a time", "max_tokens": 5})
    assert (status, body["usage"]["completion_tokens"], body["object"]) == (200, 5, "text_completion")
    status, body = server.ask("/generate", {"text": "once", "sampling_params": {"max_new_tokens": 5}})
    assert (status, body["meta_info"]["completion_tokens"], len(body["output_ids"])) == (200, 5, 5)
    assert len(server.ask("/generate", {"text": ["a", "b"], "sampling_params": {"max_new_tokens": 1}})[1]) == 2


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", b"{nope"),
        ("/v1/chat/completions", b"[]"),
        ("/v1/chat/completions", {"model": "kimi"}),
        ("/v1/completions", {"model": "kimi"}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x" * 4 * 262145}]}),
    ],
)
def test_bad_requests(server, path, body):
    status, answer = server.ask(path, body)
    assert (status, answer["object"], answer["code"]) == (400, "error", 400)


def test_streaming(server):
    with server.open(
        "/v1/chat/completions", {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    ) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [line[6:] for line in answer.read().decode().split("\n\n") if line]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"])
    assert text.startswith("This answer")
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["usage"]["completion_tokens"] > 10


def test_stream_comes_token_by_token(tree, kimi, tmp_path):
    slow = {"SGLANG_STANDIN_TOKEN_DELAY_MS": "50"}
    with harness.StandIn(tree("0.5.23"), kimi, tmp_path, env=slow) as server:
        server.wait_ready()
        with server.open("/v1/completions", {"prompt": "x", "max_tokens": 10, "stream": True}) as answer:
            times = [time.monotonic() for line in answer if line.startswith(b"data: {")]
    # Held back until all is generated, they would come at one moment.
    assert times[-1] - times[0] > 0.3


def test_bearer_key(tree, kimi, tmp_path):
    with harness.StandIn(tree("0.5.23"), kimi, tmp_path, "--api-key", "planted", "--enable-metrics") as server:
        server.wait_ready()
        assert [server.ask(path)[0] for path in ("/health", "/health_generate", "/ready", "/metrics")] == [200] * 4
        for path in ("/v1/models", "/server_info", "/nope", "/ping"):
            assert server.ask(path) == (401, {"error": "Unauthorized"})
            assert server.ask(path, key="wrong")[0] == 401
        assert server.ask("/v1/models", key="planted")[0] == 200
        assert server.ask("/v1/chat/completions", CHAT)[0] == 401
        assert server.ask("/server_info", key="planted")[1]["api_key"] == "planted", "disclosed, as by the engine"


def test_endpoints_by_release(tree, kimi, tmp_path):
    with harness.StandIn(tree("0.5.16"), kimi, tmp_path) as server:
        server.wait_ready()
        assert server.ask("/ready")[0] == 404
        assert server.ask("/metrics")[0] == 404, "no --enable-metrics"
        assert server.ask("/get_server_info")[0] == 200
        assert server.lines("Endpoint '/get_server_info' is deprecated")


# ---- cache ------------------------------------------------------------------------------------------------------


def test_repeated_prefix_is_cached(server):
    server.ask("/flush_cache", b"")
    first = server.ask("/v1/chat/completions", LONG)[1]["usage"]
    before = metric(server, "cached_tokens_total")
    second = server.ask("/v1/chat/completions", LONG)[1]["usage"]
    assert first["prompt_tokens_details"] == {"cached_tokens": 0}
    cached = second["prompt_tokens_details"]["cached_tokens"]
    assert cached == (second["prompt_tokens"] - 1) // 64 * 64 > 0
    assert metric(server, "cached_tokens_total") - before == cached
    assert metric(server, "hicache_host_used_tokens") >= cached
    assert metric(server, "hicache_host_total_tokens") == 636992
    assert any(f"#cached-token: {cached}," in line for line in server.lines("Prefill batch"))


def test_no_cache_report_without_its_flag(tree, kimi, tmp_path):
    with harness.StandIn(tree("0.5.23"), kimi, tmp_path, "--page-size", "64") as server:
        server.wait_ready()
        server.ask("/v1/chat/completions", LONG)
        assert server.ask("/v1/chat/completions", LONG)[1]["usage"]["prompt_tokens_details"] is None
        native = {"text": "the same long prefix " * 100, "sampling_params": {"max_new_tokens": 1}}
        server.ask("/generate", native)
        assert server.ask("/generate", native)[1]["meta_info"]["cached_tokens"] > 0


def test_radix_cache_off(tree, kimi, tmp_path):
    with harness.StandIn(tree("0.5.23"), kimi, tmp_path, "--disable-radix-cache", "--enable-cache-report") as server:
        server.wait_ready()
        server.ask("/v1/chat/completions", LONG)
        usage = server.ask("/v1/chat/completions", LONG)[1]["usage"]
        assert usage["prompt_tokens_details"] == {"cached_tokens": 0}


@pytest.mark.parametrize(("hicache", "found"), [(True, True), (False, False)])
def test_host_tier_keeps_what_the_device_drops(tree, kimi, tmp_path, hicache, found):
    flags = ["--page-size", "64", "--max-total-tokens", "1024", "--enable-metrics"]
    flags += ["--enable-hierarchical-cache", "--hicache-ratio", "8"] if hicache else []
    with harness.StandIn(tree("0.5.23"), kimi, tmp_path, *flags) as server:
        server.wait_ready()
        for number in (*range(6), 0):
            text = f"{number} " + f"prompt {number} " * 200
            answer = server.ask("/generate", {"text": text, "sampling_params": {"max_new_tokens": 1}})[1]
        assert (answer["meta_info"]["cached_tokens"] > 0) is found
        assert (answer["meta_info"]["cached_tokens_details"]["host"] > 0) is found
        assert (metric(server, "load_back_tokens_total") > 0) is found


def test_exclusive_cache_flags(tree, kimi, tmp_path):
    flags = ["--enable-hierarchical-cache", "--disable-radix-cache"]
    with harness.StandIn(tree("0.5.23"), kimi, tmp_path, *flags) as server:
        assert server.wait_exit() == 1
        assert "mutually exclusive" in server.log


# ---- speculation ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("algorithm", "length"), [("EAGLE3", 3.2), ("EAGLE", 1.0), (None, None)])
def test_accept_length(tree, kimi, draft, tmp_path, algorithm, length):
    flags = list(harness.KIMI_FLAGS)
    if algorithm:
        flags += [*harness.SPECULATION, "--speculative-algorithm", algorithm]
        flags += ["--speculative-draft-model-path", str(draft)]
    with harness.StandIn(tree("0.5.23"), kimi, tmp_path, *flags) as server:
        server.wait_ready()
        server.ask("/generate", {"text": "x", "sampling_params": {"max_new_tokens": 300, "ignore_eos": True}})
        state = server.ask("/server_info")[1]["internal_states"][0]
        assert state.get("avg_spec_accept_length") == length
        assert metric(server, "spec_accept_length") == (length or 0)
        server.wait_for("Decode batch")
        line = server.lines("Decode batch")[0]
        assert (f"accept len: {length:.2f}, accept rate: " in line) if length else "accept len" not in line
        assert bool(server.lines("Max running requests is reset to 48")) is bool(algorithm)


# ---- stopping ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "status"), [("0.5.9", -9), ("0.5.16", -9), ("0.5.18", -9), ("0.5.19", 0), ("0.5.23", 0)]
)
def test_sigterm_drains(tree, kimi, tmp_path, release, status):
    slow = {"SGLANG_STANDIN_TOKEN_DELAY_MS": "30"}
    with harness.StandIn(tree(release), kimi, tmp_path, "--tp", "2", env=slow) as server:
        server.wait_ready()
        asked = {"prompt": "x", "max_tokens": 40, "ignore_eos": True, "stream": True}
        with server.open("/v1/completions", asked) as answer:
            answer.readline()
            children = server.children()
            server.terminate()
            server.wait_for("Remaining number of requests 1.")
            assert server.ask("/health")[0] == 503
            assert server.ask("/health_generate")[0] == 503
            late, body = server.ask("/v1/completions", {"prompt": "late", "max_tokens": 1})
            assert (late, body["usage"]["completion_tokens"]) == (200, 1), "the engine still takes requests"
            rest = answer.read().decode()
        assert rest.rstrip().endswith("data: [DONE]"), "the running stream is completed"
        assert rest.count("data: {") == 40
        assert server.wait_exit() == status
        log = server.log
        assert "SIGTERM received. signum=None frame=None. Draining requests and shutting down..." in log
        assert re.search(
            r"Remaining number of requests 1\. Remaining requests remaining_rids=\['[0-9a-f]{32}'\]\.", log
        )
        assert "Remaining number of requests 0. Remaining requests remaining_rids=[]." in log
        assert ("Finished server process" in log) is (release == "0.5.23")
        time.sleep(0.1)
        assert not any(pid in children for pid in server.children())


def test_sigterm_before_ready_kills(tree, kimi, tmp_path):
    with harness.StandIn(
        tree("0.5.23"), kimi, tmp_path, "--tp", "2", env={"SGLANG_STANDIN_LOAD_SECONDS": "30"}
    ) as server:
        server.wait_for("Load weight begin")
        server.terminate()
        assert server.wait_exit() == -15
        assert "Draining" not in server.log


@pytest.mark.parametrize("faults", ["", "hang-before-allocation"])
def test_ranks_die_with_the_main_process(tree, kimi, tmp_path, faults):
    with harness.StandIn(tree("0.5.23"), kimi, tmp_path, "--tp", "4", faults=faults) as server:
        server.wait_for("TP3] Memory pool end." if faults else harness.READY)
        deadline = time.monotonic() + 5
        while len(server.children()) < 5 and time.monotonic() < deadline:
            time.sleep(0.02)
        ranks = list(server.children())
        assert len(ranks) == 5
        server.process.kill()
        server.wait_exit()
        deadline = time.monotonic() + 5
        while any(harness.alive(pid) for pid in ranks) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not any(harness.alive(pid) for pid in ranks)


def test_health_is_503_until_the_warm_up_is_done(tree, kimi, tmp_path):
    with harness.StandIn(tree("0.5.23"), kimi, tmp_path, faults="never-ready") as server:
        server.wait_for("Uvicorn running on")
        deadline = time.monotonic() + 5
        status = None
        while status is None and time.monotonic() < deadline:
            try:
                status = server.ask("/health")[0]
            except OSError:
                time.sleep(0.02)
        assert status == 503
        assert harness.READY not in server.log
