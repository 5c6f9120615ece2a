# SPDX-License-Identifier: GPL-3.0-or-later
"""Every fault does what its line in the README says."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest
from ansible_collections.llmfleet.sglang.tests.lab.standin import harness

README = Path(harness.__file__).parent / "README.md"
CHAT = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 20}
NEW = "Allocating kv hierarchical KV host pool: 637109 tokens, 44.77 GB host memory."


@pytest.fixture(scope="module")
def kimi(tmp_path_factory):
    return harness.write_model(tmp_path_factory.mktemp("model") / "kimi", harness.KIMI)


@pytest.fixture
def run(tree, kimi, tmp_path):
    """run("rank-killed@1", release="0.5.16", tp=4): a started server, killed at the end of the test."""
    started = []

    def start(faults, *flags, release="0.5.23", tp=4, env=None, **kwargs):
        words = [*harness.KIMI_FLAGS, "--tp", str(tp), *flags]
        server = harness.StandIn(tree(release), kimi, tmp_path, *words, faults=faults, env=env, **kwargs)
        started.append(server.__enter__())
        return server

    yield start
    for server in started:
        server.__exit__()


def ranks(server):
    """Ranks with a complete allocation line, in the order of the lines."""
    return [int(rank) for rank in re.findall(r" TP(\d+)\] Allocating [^\r\n[]* GB host memory[^\r\n]*\.", server.log)]


def settle(server, seconds=0.6):
    """Give the server time to do what it should not do."""
    time.sleep(seconds)
    return server.process.poll()


# ---- the list ---------------------------------------------------------------------------------------------------


def test_readme_lists_every_fault(tree):
    source = (tree("0.5.23") / "sglang" / "faults.py").read_text()
    known = set(re.findall(r'^    "([a-z0-9-]+)": ', source, re.MULTILINE))
    listed = set(re.findall(r"^\| `([a-z0-9-]+)", README.read_text(), re.MULTILINE))
    assert known == listed


@pytest.mark.parametrize("faults", ["no-such-fault", "flood@1", "rank-killed@x", "rank-killed@1,nope"])
def test_unknown_fault(run, faults):
    server = run(faults)
    assert server.wait_exit() == 64
    assert "is no fault of the stand-in" in server.log


def test_fault_file(run, tmp_path):
    path = tmp_path / "faults"
    server = run("", env={"SGLANG_STANDIN_FAULT_FILE": str(path)})
    server.wait_ready()
    path.write_text("# switched by a test\nrank-missing@2\n")
    server = run("", env={"SGLANG_STANDIN_FAULT_FILE": str(path)})
    server.wait_ready()
    assert sorted(ranks(server)) == [0, 1, 3]


# ---- starts that fail -------------------------------------------------------------------------------------------


def test_crash(run):
    assert run("crash=7").wait_exit() == 7


@pytest.mark.parametrize("fault", ["nccl-hang", "hang-before-allocation"])
def test_hang_before_allocation(run, fault):
    server = run(fault)
    server.wait_for("Init parallel begin." if fault == "nccl-hang" else "Memory pool end.")
    assert settle(server) is None
    assert ranks(server) == []


def test_hang_after_allocation(run):
    server = run("hang-after-allocation")
    server.wait_for("Allocating kv")
    assert settle(server) is None
    assert sorted(ranks(server)) == [0, 1, 2, 3]
    assert "Tree cache initialized" not in server.log
    assert harness.READY not in server.log


@pytest.mark.parametrize(
    ("release", "fault", "text"),
    [
        ("0.5.23", "host-memory=5.73", "Requesting 44.77 GB but only have 5.73 GB free. Please reduce the size of"),
        (
            "0.5.16",
            "host-memory",
            "ValueError: Not enough host memory available. Requesting 44.77 GB but only have 31.20",
        ),
        ("0.5.23", "host-register=801", "RuntimeError: cudaHostRegister failed (rc=801, "),
        ("0.5.16", "host-register", "cudaHostRegister failed (rc=2, cudaError.cudaErrorMemoryAllocation) at offset=0"),
        ("0.5.10.post1", "host-register", "RuntimeError: CUDA error: invalid argument"),
        ("0.5.23", "cuda-oom", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 18.56 GiB."),
        (
            "0.5.23",
            "no-kv-room",
            "Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.88",
        ),
        ("0.5.23", "illegal-access", "CUDA error: an illegal memory access was encountered"),
        ("0.5.23", "no-compiler", "Could not find nvcc"),
    ],
)
def test_rank_reports_and_the_server_kills_itself(run, release, fault, text):
    server = run(fault, release=release)
    assert server.wait_exit() == -signal.SIGKILL
    log = server.log
    assert text in log
    assert "Scheduler hit an exception: Traceback (most recent call last):" in log
    assert "Received sigquit from a child process. It usually means the child failed." in log
    assert harness.READY not in log
    lines_first = fault.startswith("host-register") or fault in ("illegal-access", "no-compiler")
    assert bool(ranks(server)) is lines_first
    if fault == "host-register=801":
        assert sorted(ranks(server)) == [0, 1, 2, 3], "perfect lines, and no pinned memory"


def test_host_memory_of_one_rank(run):
    server = run("host-memory@1")
    server.wait_exit()
    assert 1 not in ranks(server)
    assert len(server.lines("Scheduler hit an exception")) == 1


@pytest.mark.parametrize(
    ("release", "memory", "passes"), [("0.5.16", "60", True), ("0.5.23", "60", False), ("0.5.23", "200", True)]
)
def test_availability_check_by_release(run, release, memory, passes):
    """One pool of 44.77 GB fits in 60 - 10.7 GB; since 0.5.19 the free memory is divided by the ranks."""
    server = run("", release=release, env={"SGLANG_STANDIN_HOST_MEMORY_GB": memory})
    if passes:
        server.wait_ready()
    else:
        assert server.wait_exit() == -signal.SIGKILL
        assert "Not enough host memory available. Requesting 44.77 GB but only have 12.32 GB free." in server.log


@pytest.mark.parametrize("release", ["0.5.10.post1", "0.5.16", "0.5.23"])
@pytest.mark.parametrize(("fault", "rank"), [("rank-killed", 3), ("rank-killed@1", 1), ("rank-killed-early@0", 0)])
def test_killed_rank_ends_the_start(run, release, fault, rank):
    server = run(fault, release=release)
    assert server.wait_exit() == 1
    assert f"RuntimeError: Rank {rank} scheduler died during initialization (exit code: -9)." in server.log
    assert (rank in ranks(server)) is not ("early" in fault)
    assert server.children() == {}


def test_killed_rank_is_not_noticed_until_0_5_9(run):
    server = run("rank-killed@3", release="0.5.9")
    server.wait_for("TP3] Allocating")
    assert settle(server, 1) is None, "the launcher waits for ever"
    server = run("rank-killed@0", release="0.5.9")
    assert server.wait_exit() == 1
    assert "Rank 0 scheduler is dead. Please check if there are relevant logs." in server.log
    assert "Exit code: -9" in server.log


def test_end_in_the_middle_of_a_line(run):
    server = run("eof-mid-line@2")
    assert server.wait_exit() == 1
    assert 2 not in ranks(server)
    assert re.search(r"TP2\] Alloca", server.log)


def test_small_host_pool(run):
    server = run("", "--hicache-ratio", "0.5", release="0.5.14")
    assert server.wait_exit() == -signal.SIGKILL
    assert "AssertionError: The host memory should be larger than the device memory" in server.log
    server = run("", "--hicache-ratio", "0.5", release="0.5.16")
    server.wait_ready()
    assert "HiCache host KV pool (79639 tokens) is smaller than the device pool (159277 tokens);" in server.log


def test_model_folder_without_weights_or_config(tree, tmp_path):
    bare = harness.write_model(tmp_path / "bare", harness.KIMI, weights=False)
    with harness.StandIn(tree("0.5.23"), bare, tmp_path, "--tp", "2") as server:
        assert server.wait_exit() == -signal.SIGKILL
        assert f"RuntimeError: Cannot find any model weights with `{bare}`" in server.log
    with harness.StandIn(tree("0.5.23"), bare, tmp_path, env={"SGLANG_STANDIN_IGNORE_WEIGHTS": "1"}) as server:
        server.wait_ready()
    with harness.StandIn(tree("0.5.23"), tmp_path / "missing", tmp_path) as server:
        assert server.wait_exit() == 1
        assert "OSError: Can't load the configuration of" in server.log


# ---- lines that mislead -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fault", "missing"), [("rank-missing", 3), ("rank-missing@0", 0)])
def test_missing_rank(run, fault, missing):
    server = run(fault)
    server.wait_ready()
    assert sorted(ranks(server)) == [rank for rank in range(4) if rank != missing]


def test_doubled_rank(run):
    server = run("rank-doubled@1")
    server.wait_ready()
    assert sorted(ranks(server)) == [0, 1, 1, 2, 3]


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("rank-wrong-size=30.12@2", "TP2] Allocating kv hierarchical KV host pool: 637109 tokens, 30.12 GB"),
        ("rank-wrong-size", "TP3] Allocating kv hierarchical KV host pool: 477831 tokens, 33.58 GB"),
        ("rank-wrong-size=0", "TP3] Allocating kv hierarchical KV host pool: 637109 tokens, 0.00 GB"),
    ],
)
def test_wrong_size(run, fault, text):
    server = run(fault)
    server.wait_ready()
    assert text in server.log
    assert server.log.count("44.77 GB") == 3


@pytest.mark.parametrize(
    ("fault", "sizes"),
    [
        ("half-bytes", {0: 22.39, 1: 22.39, 2: 22.39, 3: 22.39}),
        ("half-bytes=0.25", {0: 11.19, 1: 11.19, 2: 11.19, 3: 11.19}),
        ("half-bytes@2", {0: 44.77, 1: 44.77, 2: 22.39, 3: 44.77}),
    ],
)
def test_half_of_the_bytes(run, fault, sizes):
    server = run(fault)
    server.wait_ready()
    found = re.findall(r"TP(\d)\] Allocating kv hierarchical KV host pool: (\d+) tokens, ([\d.]+) GB", server.log)
    assert {int(rank): float(size) for rank, _tokens, size in found} == sizes
    # Tokens and arguments are those that were asked for.
    assert {tokens for _rank, tokens, _size in found} == {"637109"}
    assert server.ask("/server_info")[1]["hicache_ratio"] == 4.0


def test_half_of_the_bytes_of_the_draft_too(run, tmp_path):
    draft = harness.write_model(tmp_path / "draft", harness.EAGLE3_DRAFT)
    flags = ["--speculative-draft-model-path", str(draft), "--speculative-algorithm", "EAGLE3"]
    server = run("half-bytes", *harness.SPECULATION, *flags)
    server.wait_ready()
    # 2 heads of each rank x 128 x (K and V) x 2 bytes x 637109 tokens are 0.65 GB.
    found = re.findall(r"TP0\] Allocating (\w+) hierarchical KV host pool: 637109 tokens, ([\d.]+) GB", server.log)
    assert found == [("kv", "22.39"), ("draft", "0.33")]


def test_no_hicache_lines(run):
    server = run("no-hicache-lines")
    server.wait_ready()
    assert "Allocating" not in server.log
    assert "hicache_attached=False" in server.log
    assert "hicache_host_total_tokens" not in server.ask("/metrics")[1]


def test_open_bar(run):
    server = run("bar-open@2")
    server.wait_ready()
    (record,) = [line for line in server.log.split("\n") if "TP2] Allocating" in line]
    assert record.startswith("\r")
    assert re.search(r"it/s\]\[\d{4}-\S+ \S+ TP2\] Allocating", record)
    assert sorted(ranks(server)) == [0, 1, 2, 3]


def test_line_split_by_another_process(run):
    server = run("pid-change@1", merged=True)
    server.wait_ready()
    assert re.search(r"TP1\] Allocating kv \[", server.log)
    assert sorted(ranks(server)) == [0, 2, 3]


def test_ansi(run):
    server = run("ansi")
    server.wait_ready()
    assert f"TP0] {NEW}\x1b[0m" in server.log
    assert re.search(r"\x1b\[32m\[[^]]* TP0\] Allocating", server.log)


def test_long_line(run):
    server = run("long-line")
    server.wait_ready()
    assert max(map(len, server.log.split("\n"))) > 48 * 1024


def test_floods(run):
    server = run("flood=3000")
    server.wait_ready()
    before, _, _ = server.log.partition("TP0] Allocating")
    assert before.count("Unsupported element_size") == 3000
    server = run("flood-after-ready=500")
    server.wait_ready()
    server.wait_for("element_size = 499")
    assert "Unsupported" not in server.log.split(harness.READY)[0]


def test_quoted_line(run):
    server = run("prompt-quotes-allocation,no-hicache-lines")
    server.wait_ready()
    (line,) = server.lines("Allocating 44.77 GB")
    assert "Receive: obj=GenerateReqInput(text=" in line


def test_secret(run):
    server = run("print-secret=planted-secret-1")
    server.wait_ready()
    assert "HF_TOKEN=planted-secret-1" in server.log


def test_slow_load(run):
    begun = time.monotonic()
    server = run("slow-load=1.5")
    server.wait_ready()
    assert time.monotonic() - begun > 1.5


# ---- servers that fail ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("really", [False, True])
def test_port_in_use(run, really):
    if really:
        first = run("", tp=1)
        first.wait_ready()
        second = run("", tp=1, port=first.port)
        assert second.wait_exit() == 3
        assert harness.READY in second.log, "the other server answered the warm-up"
    else:
        second = run("port-in-use", tp=1, env={"SGLANG_STANDIN_WARMUP_TRIES": "2"})
        assert second.wait_exit() == -signal.SIGKILL
        assert "Initialization failed. warmup error: Traceback" in second.log
        assert harness.READY not in second.log
    text = (
        f"ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', {second.port}): address already"
    )
    assert text in second.log


def test_warm_up_fails(run):
    server = run("warmup-fails")
    assert server.wait_exit() == -signal.SIGKILL
    assert "Initialization failed. warmup error: Traceback" in server.log
    assert harness.READY not in server.log


def test_never_ready(run):
    server = run("never-ready")
    server.wait_for("Uvicorn running on")
    assert settle(server) is None
    assert harness.READY not in server.log
    assert server.ask("/health")[0] == 503


@pytest.mark.parametrize("release", ["0.5.16", "0.5.23"])
def test_death_after_ready(run, release):
    server = run("die-after-ready=0.3@2", release=release)
    server.wait_ready()
    assert server.wait_exit() == -signal.SIGKILL
    pattern = r"Subprocess scheduler_2 \(pid=\d+\) crashed with exit code -9. Triggering SIGQUIT for cleanup..."
    assert re.search(pattern, server.log)
    assert "SIGQUIT received. signum=None, frame=None. It usually means one child failed." in server.log


def test_death_after_ready_is_not_noticed_until_0_5_9(run):
    server = run("die-after-ready=0.2", release="0.5.9")
    server.wait_ready()
    assert settle(server, 1) is None
    assert server.ask("/health")[0] == 503
    with pytest.raises(TimeoutError):
        server.ask("/v1/chat/completions", CHAT, timeout=0.5)


def test_watchdog(run):
    server = run("watchdog=0.2@1", "--watchdog-timeout", "300")
    server.wait_ready()
    assert server.wait_exit() == -signal.SIGKILL
    assert "TP1] Scheduler watchdog timeout (self.watchdog_timeout=300.0, self.soft=False)" in server.log
    assert "SIGQUIT received." in server.log


def test_status_500(run):
    server = run("http-500-after=2")
    server.wait_ready()
    assert [server.ask("/v1/chat/completions", CHAT)[0] for _ in range(4)] == [200, 200, 500, 500]
    assert server.ask("/health")[0] == 200


def test_nan(run):
    server = run("nan-after=1")
    server.wait_ready()
    answers = [server.ask("/v1/chat/completions", CHAT)[1]["choices"][0]["message"] for _ in range(2)]
    assert answers[0]["content"].startswith("This answer")
    assert answers[1]["content"] == "!" * 20


def test_generation_hangs(run):
    server = run("generation-hangs=1")
    server.wait_ready()
    assert server.ask("/v1/chat/completions", CHAT)[0] == 200
    with pytest.raises(TimeoutError):
        server.ask("/v1/chat/completions", CHAT, timeout=0.5)
    assert server.ask("/health")[0] == 200
    server.terminate()
    server.wait_for("Remaining number of requests 1.")
    assert settle(server) is None, "a drain has no upper bound"


def test_unhealthy(run):
    server = run("unhealthy")
    server.wait_ready()
    assert server.ask("/health")[0] == 503
    assert "Health check failed. Server couldn't get a response from detokenizer" in server.log


def test_accept_length(run):
    server = run("accept-length=1.00", *harness.SPECULATION, "--speculative-algorithm", "NGRAM")
    server.wait_ready()
    server.ask("/v1/chat/completions", CHAT)
    assert server.ask("/server_info")[1]["internal_states"][0]["avg_spec_accept_length"] == 1.0


def test_no_cached_tokens(run):
    server = run("no-cached-tokens")
    server.wait_ready()
    text = {"text": "the same prefix " * 50, "sampling_params": {"max_new_tokens": 1}}
    server.ask("/generate", text)
    assert server.ask("/generate", text)[1]["meta_info"]["cached_tokens"] == 0


def test_no_metrics(run):
    server = run("no-metrics")
    server.wait_ready()
    assert server.ask("/metrics")[0] == 404


# ---- servers that do not stop -----------------------------------------------------------------------------------


def test_ignored_sigterm(run):
    server = run("ignore-sigterm")
    server.wait_ready()
    server.terminate()
    server.wait_for("SIGTERM received.")
    assert settle(server, 1) is None
    assert server.ask("/v1/chat/completions", CHAT)[0] == 200


def test_lingering_rank(run):
    server = run("linger@1")
    server.wait_ready()
    (rank,) = [
        pid
        for pid in server.children()
        if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sglang::scheduler_TP1")
    ]
    server.process.kill()
    server.wait_exit()
    time.sleep(0.3)
    alive = harness.alive(rank)
    os.kill(rank, signal.SIGKILL)
    assert alive
