# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in's lines: by release, and held against saved logs of the real engine."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path

import pytest
from ansible_collections.llmfleet.sglang.tests.lab.standin import harness, shapes

DATA = Path(__file__).parent / "data"
TINY = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "num_hidden_layers": 3,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "hidden_size": 256,
    "dtype": "bfloat16",
    "max_position_embeddings": 2048,
}
# The command line of the saved real runs; their model: make_tiny_model.py's.
REAL_FLAGS = shlex.split(
    "--device cpu --tp-size 2 --trust-remote-code --mem-fraction-static 0.88 --max-total-tokens 40000 --page-size 64 "
    "--attention-backend triton --enable-hierarchical-cache --hicache-ratio 4.0 --hicache-write-policy write_through "
    "--hicache-io-backend kernel --tool-call-parser kimi_k2 --reasoning-parser kimi_k2 --enable-metrics "
    "--host 127.0.0.1 --api-key planted-key-0001"
)


@pytest.fixture
def kimi(tmp_path):
    return harness.write_model(tmp_path / "kimi", harness.KIMI)


@pytest.fixture
def draft(tmp_path):
    return harness.write_model(tmp_path / "draft", harness.EAGLE3_DRAFT)


def allocations(server):
    """{rank tag: [text after the prefix, ...]} of the allocation lines."""
    found = {}
    for tags, text in re.findall(r"\[\S+ \S+((?: \w+)*)\] (Allocating [^\r\n]*)", server.log):
        found.setdefault(tags.strip(), []).append(text)
    return found


# ---- against the real engine ------------------------------------------------------------------------------------


def play(tree, tmp_path):
    """Ask the stand-in what the saved real runs were asked, and stop it while it answers; its whole log."""
    model = harness.write_model(tmp_path / "tiny", TINY)
    key = "planted-key-0001"
    text = {"model": "tiny", "messages": [{"role": "user", "content": "abcdefghij" * 40}], "max_tokens": 8}
    slow = {"SGLANG_STANDIN_TOKEN_DELAY_MS": "20"}
    with harness.StandIn(tree, model, tmp_path, *REAL_FLAGS, env=slow) as server:
        server.wait_ready()
        for path in ("/health", "/health_generate", "/ready", "/metrics", "/nope"):
            server.ask(path)
        for path in ("/nope", "/model_info", "/get_model_info", "/server_info", "/get_server_info"):
            server.ask(path, key=key)
        for path in ("/v1/models", "/v1/chat/completions"):
            server.ask(path, key=key)
        server.ask("/v1/models")
        server.ask("/v1/chat/completions", b"{nope", key=key)
        for path in ("/v1/chat/completions", "/v1/completions", "/generate"):
            server.ask(path, {**text, "prompt": "hello", "text": "hello"}, key=key)
        server.ask("/flush_cache", b"", key=key)
        with server.open("/v1/chat/completions", {**text, "max_tokens": 60, "ignore_eos": True, "stream": True}, key):
            server.terminate()
            server.wait_for("SIGTERM received")
            server.ask("/health")
            server.ask("/ready")
            server.wait_for("Remaining number of requests 1.")
        server.wait_exit()
        return server.log + server.access_log


@pytest.mark.parametrize("release", ["0.5.16", "0.5.23"])
def test_shapes_are_those_of_the_real_engine(tree, tmp_path, release):
    real = (DATA / f"real-{release}-tp2.log").read_text()
    assert shapes.differences(real, play(tree(release), tmp_path)) == []


@pytest.mark.parametrize(
    ("release", "old", "new"),
    [
        ("0.5.23", "Allocating kv hierarchical KV host pool:", "Allocating kv hierarchical host pool:"),
        ("0.5.16", "GB host memory for hierarchical KV cache.", "GB of host memory for hierarchical KV cache."),
        ("0.5.23", "KV Cache is allocated. dtype: torch.bfloat16, ", "KV Cache is allocated. "),
        ("0.5.23", "The server is fired up and ready to roll!", "The server is ready!"),
        ("0.5.23", "server_args={", "server_args=ServerArgs("),
        ("0.5.23", "max_total_num_tokens=40000, ", "max_total_num_tokens: 40000, "),
        ("0.5.23", "Gracefully exiting... Remaining", "Gracefully exiting. Remaining"),
        ("0.5.23", '"GET /health HTTP/1.1" 200 OK', '"GET /health HTTP/1.1" 200'),
    ],
)
def test_drift_is_seen(release, old, new):
    real = (DATA / f"real-{release}-tp2.log").read_text()
    assert old in real
    assert shapes.differences(real, real) == []
    assert shapes.differences(real, real.replace(old, new))


def test_order_of_a_rank_is_seen():
    real = (DATA / "real-0.5.23-tp2.log").read_text()
    totals = next(line for line in real.split("\n") if "max_total_num_tokens=40000" in line)
    moved = real.replace(totals + "\n", "") + totals + "\n"
    assert any("kinds of  TP0 come as" in text for text in shapes.differences(real, moved))


def test_every_exception_is_needed():
    """A pattern in NOT_IMITATED that fits no line of the saved logs is stale, one that hides a kind is wrong."""
    seen = [
        shape
        for release in ("0.5.16", "0.5.23")
        for shape in shapes.normalise((DATA / f"real-{release}-tp2.log").read_text())
    ]
    for pattern, _reason in shapes.NOT_IMITATED:
        assert any(re.match(pattern, shape.text) for shape in seen), pattern
    hidden = [shape.text for shape in seen if shapes.listed(shape, shapes.NOT_IMITATED) and shapes.kind(shape)]
    assert [text for text in hidden if not text.startswith("INFO")] == []


def test_journal_messages_compare_like_text():
    real = (DATA / "real-0.5.16-tp2.log").read_text()
    assert shapes.differences(real.splitlines(), real) == []


# ---- by release -------------------------------------------------------------------------------------------------

OLD = "Allocating 44.77 GB host memory for hierarchical KV cache."
NEW = "Allocating kv hierarchical KV host pool: 637109 tokens, 44.77 GB host memory."


@pytest.mark.parametrize(
    ("release", "main", "drafts"),
    [
        ("0.5.9", OLD, []),
        ("0.5.10.post1", OLD, []),
        ("0.5.11", OLD, ["Allocating 0.33 GB host memory for hierarchical KV cache."]),
        ("0.5.16", OLD, ["Allocating 0.33 GB host memory for hierarchical KV cache."]),
        ("0.5.17", NEW, ["Allocating draft hierarchical KV host pool: 637110 tokens, 0.33 GB host memory."]),
        ("0.5.23", NEW, ["Allocating draft hierarchical KV host pool: 637109 tokens, 0.33 GB host memory."]),
    ],
)
def test_eight_ranks_and_the_draft(tree, kimi, draft, tmp_path, release, main, drafts):
    flags = [*harness.KIMI_FLAGS, *harness.SPECULATION, "--speculative-algorithm", "EAGLE3", "--tp", "8"]
    flags += ["--speculative-draft-model-path", str(draft)]
    begun = time.monotonic()
    with harness.StandIn(tree(release), kimi, tmp_path, *flags) as server:
        server.wait_ready()
        assert time.monotonic() - begun < 60
        assert allocations(server) == {f"TP{rank}": [main, *drafts] for rank in range(8)}
        registered = server.lines("HiCache draft KV registered: MHATokenToKVPool (host ")
        assert len(registered) == (8 if release in ("0.5.11", "0.5.16", "0.5.17") else 0)
        names = sorted(server.children().values())
        assert names == ["sglang::detoken", *["sglang::schedul"] * 8]
        assert len(server.lines("KV Cache is allocated.")) == 16
        assert ("dtype: torch.bfloat16" in server.lines("KV Cache is allocated.")[0]) == (
            release not in ("0.5.9", "0.5.10.post1", "0.5.11")
        )
        tree_lines = server.lines("Tree cache initialized:")
        assert len(tree_lines) == (0 if release in ("0.5.9", "0.5.10.post1", "0.5.11") else 8)
        form = "server_args={'model_path'" if release == "0.5.23" else "server_args=ServerArgs(model_path="
        assert server.lines("server_args=")[0].split("] ", 1)[1].startswith(form)


@pytest.mark.parametrize(
    ("release", "flags", "tags"),
    [
        ("0.5.23", "", [""]),
        ("0.5.23", "--tp 2 --pp-size 2", ["PP0 TP0", "PP0 TP1", "PP1 TP0", "PP1 TP1"]),
        ("0.5.9", "--tp 2 --ep-size 2", ["TP0 EP0", "TP1 EP1"]),
        ("0.5.16", "--tp 1 --dp-size 2", ["DP0", "DP1"]),
        ("0.5.16", "--tp 4 --dp-size 4 --enable-dp-attention", ["DP0 TP0", "DP1 TP1", "DP2 TP2", "DP3 TP3"]),
        ("0.5.16", "--tp 4 --attn-cp-size 4", [f"ATTN_CP{rank} TP{rank}" for rank in range(4)]),
        ("0.5.4", "--tp 2 --pp-size 2 --ep-size 2", ["TP0 EP0 PP0", "TP0 EP0 PP1", "TP1 EP1 PP0", "TP1 EP1 PP1"]),
    ],
)
def test_prefix_by_parallelism(tree, kimi, tmp_path, release, flags, tags):
    with harness.StandIn(tree(release), kimi, tmp_path, *harness.KIMI_FLAGS, *flags.split()) as server:
        server.wait_ready()
        assert sorted(allocations(server)) == tags


def test_second_node_has_its_own_ranks_and_no_ready_line(tree, kimi, tmp_path):
    flags = [*harness.KIMI_FLAGS, *shlex.split("--tp 16 --nnodes 2 --node-rank 1 --dist-init-addr 10.0.0.1:5000")]
    with harness.StandIn(tree("0.5.23"), kimi, tmp_path, *flags) as server:
        server.wait_for("Tree cache initialized")
        deadline = time.monotonic() + 5
        while len(allocations(server)) < 8 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert sorted(allocations(server), key=lambda tag: int(tag[2:])) == [f"TP{rank}" for rank in range(8, 16)]
        time.sleep(0.3)
        assert harness.READY not in server.log


@pytest.mark.parametrize(
    ("release", "flags", "text"),
    [
        ("0.5.23", "--page-size 64", "636992 tokens, 44.76 GB"),  # 159232 x 4 = 636928, and one page more
        ("0.5.23", "--hicache-size 50", "711521 tokens, 50.00 GB"),  # the size wins over the ratio
        ("0.5.23", "--kv-cache-dtype fp8_e4m3", "637109 tokens, 22.39 GB"),
        ("0.5.23", "--max-total-tokens 40000 --page-size 64", "160064 tokens, 11.25 GB"),
        ("0.5.23", "--attention-backend trtllm_mla", "636992 tokens, 44.76 GB"),  # forces pages of 64
        ("0.5.5", "--page-size 64", "Allocating 44.76 GB"),  # aligned down, no page more
        ("0.5.16", "--page-size 64", "Allocating 44.76 GB"),
    ],
)
def test_sizes(tree, kimi, tmp_path, release, flags, text):
    with harness.StandIn(tree(release), kimi, tmp_path, *harness.KIMI_FLAGS, *flags.split()) as server:
        server.wait_ready()
        (lines,) = allocations(server).values()
        assert text in lines[0]


def test_grouped_heads_are_divided_by_tp(tree, tmp_path):
    llama = {
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "hidden_size": 4096,
        "torch_dtype": "bfloat16",
    }
    model = harness.write_model(tmp_path / "llama", llama)
    flags = [*harness.KIMI_FLAGS, "--max-total-tokens", "10000"]
    for tp, size in (("1", "5.24 GB"), ("4", "1.31 GB")):
        with harness.StandIn(tree("0.5.23"), model, tmp_path, *flags, "--tp", tp) as server:
            server.wait_ready()
            assert all(size in lines[0] for lines in allocations(server).values())
            assert "K size: " in server.lines("KV Cache is allocated.")[0]


def test_log_level_hides_the_lines(tree, kimi, tmp_path):
    flags = [*harness.KIMI_FLAGS, "--tp", "2", "--log-level", "warning"]
    with harness.StandIn(tree("0.5.23"), kimi, tmp_path, *flags) as server:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                if server.ask("/health")[0] == 200:
                    break
            except OSError:
                time.sleep(0.05)
        assert server.ask("/health")[0] == 200
        assert "Allocating" not in server.log
        assert harness.READY not in server.log
        assert server.access_log == ""


def test_keys_and_milliseconds_in_the_lines(tree, kimi, tmp_path):
    flags = ["--api-key", "planted-key", "--admin-api-key", "planted-admin"]
    with harness.StandIn(tree("0.5.16"), kimi, tmp_path, *flags, env={"SGLANG_LOG_MS": "1"}) as server:
        server.wait_ready()
        line = server.lines("server_args=")[0]
        assert "api_key='planted-key'" in line
        assert "admin_api_key='planted-admin'" in line
        assert re.match(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\] server_args=", line)
        assert len(line) > 4096, "as long as the real line, which journald hands out as null"


def test_ranks_cost_little(tree, kimi, tmp_path):
    with harness.StandIn(tree("0.5.23"), kimi, tmp_path, *harness.KIMI_FLAGS, "--tp", "8") as server:
        server.wait_ready()
        time.sleep(0.2)
        ticks, private = {}, {}
        for pid in server.children():
            ticks[pid] = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            private[pid] = sum(int(number) for number in re.findall(r"Private_\w+:\s+(\d+) kB", rollup))
        assert max(private.values()) < 15_000, private
        time.sleep(1)
        for pid, before in ticks.items():
            assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13] == before, "idle"


# ---- failures of the real engine --------------------------------------------------------------------------------

DECISIVE = (
    r"ValueError: Not enough host memory|Scheduler hit an exception: Traceback|Received sigquit|SIGQUIT received|"
    r"kill_process_tree called|Initialization failed\. warmup error|ERROR: +\[Errno|INFO: +Waiting for application|"
    r"INFO: +Application|The server is fired up|INFO: +Uvicorn|Max running requests is reset|Load weight|KV Cache is|"
    r"Memory pool end|Allocating|Memory baseline|Init (?:parallel|torch distributed)"
)


def decisive(text):
    """(rank word, shape) of the lines that decide how a start is judged."""
    return {shape for shape in shapes.normalise(text) if re.match(DECISIVE, shape.text)}


@pytest.mark.parametrize(
    ("release", "log", "faults", "flags", "status"),
    [
        ("0.5.23", "host-memory", "host-memory=5.73", "--hicache-size 500", -9),
        ("0.5.16", "host-memory", "host-memory=5.73", "--hicache-size 500", -9),
        ("0.5.23", "port-taken", "port-in-use", "", -9),
    ],
)
def test_failures_read_like_the_real_engine(tree, tmp_path, release, log, faults, flags, status):
    model = harness.write_model(tmp_path / "tiny", TINY)
    env = {"SGLANG_STANDIN_WARMUP_TRIES": "1"}
    words = [*REAL_FLAGS, *flags.split()]
    with harness.StandIn(tree(release), model, tmp_path, *words, faults=faults, env=env) as server:
        assert server.wait_exit() == status, "as the real engine left"
        found = decisive(server.log)
    assert found == decisive((DATA / f"real-{release}-{log}.log").read_text())


def test_a_taken_port_with_a_server_on_it_says_ready_and_dies(tree, tmp_path):
    """The real 0.5.23 did exactly this: the other server answered its warm-up."""
    model = harness.write_model(tmp_path / "tiny", TINY)
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with harness.StandIn(tree("0.5.23"), model, first, *REAL_FLAGS) as holder:
        holder.wait_ready()
        with harness.StandIn(tree("0.5.23"), model, second, *REAL_FLAGS, port=holder.port) as server:
            assert server.wait_exit() == 3
            found = decisive(server.log)
    real = (DATA / "real-0.5.23-port-taken-by-a-server.log").read_text()
    assert harness.READY in real
    assert found == decisive(real)


@pytest.mark.parametrize("release", ["0.5.16", "0.5.23"])
def test_speculation_starts_like_the_real_engine(tree, tmp_path, release):
    """Up to the graphs, where the real engine stops on a CPU: draft weights and draft pool have lines of their own."""
    real = (DATA / f"real-{release}-eagle3.log").read_text().split("Disable prefill CUDA graph")[0]
    model = harness.write_model(tmp_path / "tiny", TINY)
    eagle = {**harness.EAGLE3_DRAFT, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 64}
    draft = harness.write_model(tmp_path / "draft", eagle)
    words = [*REAL_FLAGS, *harness.SPECULATION, "--speculative-algorithm", "EAGLE3"]
    words += ["--speculative-draft-model-path", str(draft)]
    with harness.StandIn(tree(release), model, tmp_path, *words, faults="hang-before-allocation") as server:
        server.wait_for("max_total_num_tokens=")
        deadline = time.monotonic() + 5
        while server.log.count("Memory pool end.") < 4 and time.monotonic() < deadline:
            time.sleep(0.02)
        log = server.log
    assert decisive(log) == decisive(real)
    expected = ["Load weight end"] * 2 + ["KV Cache is allocated", "Memory pool end"] * 2
    for text in (real, log):  # in the real run the first rank to fail ended the start before the other's draft pool
        ranks = {" TP0": [], " TP1": []}
        for rank, shape in shapes.parsed(text):
            if rank in ranks and shape.text.split(".")[0] in expected:
                ranks[rank].append(shape.text.split(".")[0])
        assert expected in ranks.values()


@pytest.mark.parametrize(
    ("release", "order"),
    [
        ("0.5.13", ["weights", "pool", "graph", "weights", "pool", "graph", "graph"]),
        ("0.5.14", ["weights", "weights", "pool", "pool", "graph", "graph", "graph"]),
    ],
)
def test_target_and_draft_take_turns_by_release(tree, kimi, draft, tmp_path, release, order):
    words = [*harness.KIMI_FLAGS, *harness.SPECULATION, "--speculative-algorithm", "EAGLE3"]
    words += ["--speculative-draft-model-path", str(draft)]
    with harness.StandIn(tree(release), kimi, tmp_path, *words) as server:
        server.wait_ready()
        names = {"Load weight end": "weights", "Memory pool end": "pool", "graph end": "graph"}
        found = re.findall(r"Load weight end|Memory pool end|graph end", server.log)
        assert [names[word] for word in found] == order


def test_memory_is_taken_only_when_asked(tree, kimi, tmp_path):
    used = {}
    for megabytes in ("0", "64"):
        env = {"SGLANG_STANDIN_TOUCH_MB": megabytes}
        with harness.StandIn(tree("0.5.23"), kimi, tmp_path, *harness.KIMI_FLAGS, "--tp", "2", env=env) as server:
            server.wait_ready()
            sizes = [
                int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text()).group(1))
                for pid, name in server.children().items()
                if name == "sglang::schedul"
            ]
        used[megabytes] = sizes
    assert max(used["0"]) < 40_000 < 64_000 < min(used["64"])
