# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_log, hicache_size

OLD = "Allocating 44.77 GB host memory for hierarchical KV cache."
NEW = "Allocating kv hierarchical KV host pool: 637081 tokens, 44.77 GB host memory."

ALLOCATIONS = [
    (OLD, "kv", "by_order", 44.77, None),
    (NEW, "kv", "main", 44.77, 637081),
    ("Allocating full hierarchical KV host pool: 5 tokens, 1.00 GB host memory.", "full", "main", 1.0, 5),
    ("Allocating swa hierarchical KV host pool: 5 tokens, 1.00 GB host memory.", "swa", "side", 1.0, 5),
    ("Allocating draft hierarchical KV host pool: 5 tokens, 0.73 GB host memory.", "draft", "draft", 0.73, 5),
    ("Allocating draft_swa hierarchical KV host pool: 5 tokens, 0.73 GB host memory.", "draft_swa", "side", 0.73, 5),
    ("Allocating new-kind hierarchical KV host pool: 5 tokens, 0.73 GB host memory.", "new-kind", "side", 0.73, 5),
    ("Allocating 2.00 GB host memory for hierarchical Mamba cache (layout=page_first).", "mamba", "side", 2.0, None),
    (
        "Allocating 2.00 GB host memory for hierarchical Mamba cache (96 state slots, layout=page_first).",
        "mamba",
        "side",
        2.0,
        None,
    ),
    ("Allocating 35.25 GB host memory for NSA indexer (layout=layer_first).", "indexer", "side", 35.25, None),
    ("Allocating 35.25 GB host memory for DSA indexer (layout=page_first).", "indexer", "side", 35.25, None),
    (
        "Allocating 35.25 GB host memory for DSA indexer (layout=page_first), packed MTP layers: target_layers=78, "
        "draft_layers=1, total_layers=79.",
        "indexer",
        "side",
        35.25,
        None,
    ),
    (
        "Allocating 1.50 GB host memory for V4 paged pool 'c128' (layers=30, pages=99, item_bytes=584).",
        "v4_paged",
        "side",
        1.5,
        None,
    ),
    (
        "Allocating 1.50 GB host memory for V4 state pool 'c4' (layers=30, pages=99, item_bytes=4, layout=page_first).",
        "v4_state",
        "side",
        1.5,
        None,
    ),
    (
        "Allocating 1.50 GB host memory for MiniMax sparse index-K (layout=page_first).",
        "minimax_index",
        "side",
        1.5,
        None,
    ),
    (
        "Allocating 1.50 GB host memory for MiniMax NVFP4 index cache (layout=page_first).",
        "minimax_index",
        "side",
        1.5,
        None,
    ),
    ("Allocating 1.50 GB host memory for a pool of tomorrow.", "other", "side", 1.5, None),
]


@pytest.mark.parametrize(("text", "pool", "role", "gb", "tokens"), ALLOCATIONS)
def test_every_text_of_every_release_is_known(text, pool, role, gb, tokens):
    for prefix in ("", "[2026-03-01 23:45:06 TP3] ", "[2026-03-01 23:45:06.123 DP0 PP1 TP3 EP3] ", "INFO pool.base: "):
        (event,) = hicache_log.parse_segment(prefix + text)
        assert event.kind == "alloc"
        data = event.data
        assert (data["pool"], data["role"], data["gb"], data["tokens"]) == (pool, role, gb, tokens)


@pytest.mark.parametrize(("text", "_pool", "_role", "_gb", "_tokens"), ALLOCATIONS)
def test_a_text_that_is_cut_is_no_allocation(text, _pool, _role, _gb, _tokens):
    for length in range(1, len(text)):
        events = hicache_log.parse_segment(f"[2026-03-01 23:45:06 TP3] {text[:length]}")
        assert all(event.kind != "alloc" for event in events), text[:length]


@pytest.mark.parametrize(("text", "_pool", "_role", "_gb", "_tokens"), ALLOCATIONS)
def test_a_text_that_is_quoted_is_no_allocation(text, _pool, _role, _gb, _tokens):
    for quote in (
        f"why does it say {text}",
        f"'{text}'",
        f"[2026-03-01 23:45:06] Receive: obj=X(text='{text}')",
        f"{text} ?",
    ):
        events = hicache_log.parse_segment(quote)
        assert all(event.kind not in ("alloc", "mark", "fatal") or event.code == "request" for event in events), quote


def test_the_predicted_line_is_the_line_that_is_read():
    for release in ("0.4.6", "0.5.16", "0.5.17", "0.5.23"):
        line = hicache_size.allocation_line(44.77, 637081, release=release)
        (event,) = hicache_log.parse_segment(line)
        assert event.kind == "alloc"
        assert event.data["labelled"] is (release >= "0.5.17")


def test_packed_layers_are_read():
    text = NEW[:-1] + ", packed MTP KV layers: target_layers=12, draft_layers=1, total_layers=13."
    assert hicache_log.parse_segment(text)[0].data["packed"] == (12, 13)


FATALS = [
    (
        "host_memory_refused",
        "ValueError: Not enough host memory available. Requesting 44.77 GB but only have 1 GB free.",
    ),
    ("host_memory_refused", "ValueError: Not enough host memory for V4 paged pool c4. Requesting 3.00 GB"),
    ("host_memory_refused", "ValueError: No host memory is left for HiCache after the 10 GiB reserve; free some"),
    ("host_memory_refused", "ValueError: Cannot automatically size HiCache host memory; set --hicache-size explicitly"),
    (
        "host_pool_too_small",
        "AssertionError: The host memory should be larger than the device memory with the current protocol",
    ),
    ("pool_not_supported", "ValueError: HiRadixCache only supports MHA and MLA yet"),
    ("pin_failed", "RuntimeError: cudaHostRegister failed (rc=801, unknown) at offset=0 size=5"),
    ("pin_failed", "cudaHostRegister failed (rc=801)"),
    ("host_out_of_memory", "OSError: [Errno 12] Cannot allocate memory"),
    ("host_out_of_memory", "MemoryError"),
    (
        "host_out_of_memory",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory",
    ),
    ("gpu_out_of_memory", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 18.56 GiB."),
    ("gpu_out_of_memory", "[rank3]: torch.OutOfMemoryError: CUDA out of memory."),
    ("gpu_out_of_memory", "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."),
    ("gpu_out_of_memory", "[2026-03-01 23:45:06 TP0] Prefill out of memory. Try to lower your batch size."),
    ("cuda_graph_failed", "Exception: Capture cuda graph failed: CUDA out"),
    ("cuda_error", "CUDA error: an illegal memory access"),
    ("cuda_error", "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"),
    ("cuda_error", "  what():  CUDA error: an illegal memory access was encountered"),
    ("nccl_error", "torch.distributed.DistBackendError: NCCL error in: x.cpp"),
    (
        "nccl_error",
        "[rank3]:[E301 09:12:11.1 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: x",
    ),
    ("crash", "sglang::schedul[4242]: segfault at 0 ip 0 sp 0 error 4 in libcuda.so"),
    ("scheduler_exception", "[2026-03-01 23:45:06 TP0] Scheduler hit an exception: Traceback (most recent call last):"),
    ("scheduler_exception", "[2026-03-01 23:45:06] DetokenizerManager hit an exception: Traceback"),
    ("scheduler_died", "[2026-03-01 23:45:06] Rank 0 scheduler is dead. Please check if there are relevant logs."),
    ("scheduler_died", "[2026-03-01 23:45:06] Rank 0 scheduler died during initialization (exit code: -9)."),
    ("subprocess_died", "Subprocess scheduler_0 (pid=12) crashed with exit code -9. Triggering SIGQUIT for cleanup..."),
    ("subprocess_died", "[2026-03-01 23:45:06] Received sigquit from a child process. It usually means the child"),
    ("subprocess_died", "SIGQUIT received. signum=3, frame=None. It usually means one child failed."),
    ("subprocess_died", "RuntimeError: sglang subprocess exited with code -9 before reporting ready"),
    ("exit_code", "[2026-03-01 23:45:06] Exit code: -9"),
    ("initialization_failed", "RuntimeError: Initialization failed. Please see the error messages above."),
    ("watchdog_timeout", "[2026-03-01 23:45:06 TP0] Watchdog timeout (self.watchdog_timeout=300)"),
    ("watchdog_timeout", "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)"),
    ("crash", "Fatal Python error: Segmentation fault"),
    ("crash", "terminate called after throwing an instance of 'c10::Error'"),
    ("crash", "/usr/bin/run: line 3:  4711 Killed                  python3 -m sglang.launch_server"),
    ("crash", "Segmentation fault (core dumped)"),
    ("port_in_use", "OSError: [Errno 98] Address already in use"),
    (
        "port_in_use",
        "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 3): address already in use",
    ),
    ("port_in_use", "zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:30235')"),
    ("bad_arguments", "launch_server.py: error: unrecognized arguments: --x"),
    ("bad_arguments", "sglang serve: error: argument --hicache-size: invalid int value: '44.77'"),
    ("container_exited", "sglang-worker-1 exited with code 137"),
    ("main_process_exited", "sglang.service: Main process exited, code=killed, status=9/KILL"),
    ("main_process_exited", "sglang.service: Control process exited, code=exited, status=203/EXEC"),
    ("unit_failed", "sglang.service: Failed with result 'signal'."),
    ("killed_by_oom", "sglang.service: Failed with result 'oom-kill'."),
    ("killed_by_oom", "sglang.service: A process of this unit has been killed by the OOM killer."),
    ("restart_scheduled", "sglang.service: Scheduled restart job, restart counter is at 3."),
    ("start_timed_out", "sglang.service: start operation timed out. Terminating."),
    ("unit_stopped", "sglang.service: Deactivated successfully."),
    (
        "start_timed_out",
        "sglang-kimi.service failed to start: http://127.0.0.1:30000/health was not ready within 3600 s, it does not "
        "answer (refused). Read its lines above, or allow more (serve_start_timeout_seconds).",
    ),
    (
        "leftovers",
        "sglang-kimi.service is not started: after 180 s this is still left: processes of the last instance: 7 (x).",
    ),
    ("killed_by_oom", "Memory cgroup out of memory: Killed process 4242 (sglang::schedul) total-vm:1kB"),
    ("killed_by_oom", "Out of memory: Killed process 4242 (sglang::schedul) total-vm:1kB"),
    ("killed_by_oom", "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=sglang::schedul,pid=4242,uid=990"),
]


@pytest.mark.parametrize(("code", "text"), FATALS)
def test_every_failure_text_is_known(code, text):
    events = hicache_log.parse_segment(text, None)
    assert [event.code for event in events if event.kind == "fatal"] == [code]


@pytest.mark.parametrize(
    "text",
    [
        "[2026-03-01 23:45:06] kill_process_tree called: parent_pid=12",
        "[2026-03-01 23:45:06 TP0] Exit code: 0",
        "sglang.service: Main process exited, code=exited, status=0/SUCCESS",
        "HiCache kv host pool (5 tokens) is smaller than the device pool (9 tokens);L2 cache effectiveness is reduced.",
        "[2026-03-01 23:45:06 TP0] Unsupported element_size = 656 for JIT HiCache kernel",
        "Invoked with: 801",
        "TypeError: cudaGetErrorString(): incompatible function arguments",
        'INFO:     10.0.0.1:41000 - "GET /health HTTP/1.1" 503 Service Unavailable',
        "Exception in ASGI application",
    ],
)
def test_what_only_looks_like_a_failure_is_none(text):
    assert [event for event in hicache_log.parse_segment(text, None) if event.kind == "fatal"] == []


def test_a_writer_is_heard_only_about_its_own_matters():
    text = "sglang.service: Main process exited, code=killed, status=9/KILL"
    assert hicache_log.parse_segment(text, "app")[0].kind == "text"
    assert hicache_log.parse_segment(OLD, "kernel") == []
    assert hicache_log.parse_segment("Suppressed 20 messages from sglang.service", "app")[0].kind == "text"


@pytest.mark.parametrize(
    ("text", "tags", "rest"),
    [
        ("[2026-03-01 23:45:06 TP3] x", (("TP", 3),), "x"),
        ("[2026-03-01 23:45:06.123] x", (), "x"),
        ("[TP2] x", (("TP", 2),), "x"),
        ("[PP1 TP2] x", (("PP", 1), ("TP", 2)), "x"),
        ("[TP2 PP1 DP0] x", (("DP", 0), ("PP", 1), ("TP", 2)), "x"),
        ("[2026-03-01 23:45:06 ATTN_CP5 TP5] x", (("ATTN_CP", 5), ("TP", 5)), "x"),
        ("[2026-03-01 23:45:06 MOE_DP1 TP5] x", (("MOE_DP", 1), ("TP", 5)), "x"),
        ("[2025-12-02 07:04:51 DisaggregationMode.IGPUDECODE TP1] x", (("TP", 1),), "x"),
        ("[2025-12-02 07:04:51 WORKER3] x", (("WORKER", 3),), "x"),
        ("2026-08-31T18:05:32.831330Z  INFO memory_pool_host.__init__: x", (), "x"),
        ("2026-08-31 18:05:32,831 - sglang.srt.mem_cache - INFO - x", (), "x"),
        ("2026-08-31 18:05:32.831 | INFO     | sglang.pool:alloc:91 - x", (), "x"),
        ("INFO 08-31 18:05:32 [memory_pool_host.py:91] x", (), "x"),
        ("(Scheduler pid=123, ip=10.0.0.1) [2026-03-01 23:45:06 TP3] x", (("TP", 3),), "x"),
        ("Receive: x", (), "Receive: x"),
        ("user: x", (), "user: x"),
    ],
)
def test_prefixes_are_taken_off(text, tags, rest):
    prefix = hicache_log.split_prefix(text)
    assert (prefix.tags, prefix.rest) == (tags, rest)


@pytest.mark.parametrize(
    "bar",
    [
        "Loading safetensors checkpoint shards:  50% Completed | 32/64 [00:16<00:00,  2.01it/s]",
        "Capturing batches (bs=16 avail_mem=4.65 GB):  12%|█▎        | 1/8 [00:00<00:04,  1.66it/s]",
        " 33%|███▎      | 1/3 [00:00<00:00, 9.96it/s]",
        "100%|##########| 1.5G/1.5G [00:10<00:00, 150MB/s]",
        "Loading: 3it [00:01,  2.00it/s]",
        "12.5MB [00:01, 9.00MB/s]",
    ],
)
def test_a_message_may_follow_a_progress_bar(bar):
    assert hicache_log.is_bar(bar)
    (event,) = hicache_log.parse_segment(f"{bar}[2026-03-01 23:45:06 TP0] {OLD}")
    assert event.kind == "alloc"
    assert event.tags == (("TP", 0),)
    assert not hicache_log.is_bar(f"[2026-03-01 23:45:06] Receive: {bar}")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("server_args=ServerArgs(api_key='sk-1234567890', tp_size=8)", "sk-1234567890"),
        ("admin_api_key='topsecretvalue'", "topsecretvalue"),
        ("--api-key topsecretvalue --tp 8", "topsecretvalue"),
        ("--api-key=topsecretvalue", "topsecretvalue"),
        ("Authorization: Bearer topsecretvalue", "topsecretvalue"),
        ("hf_abcdefghijklmnop", "hf_abcdefghijklmnop"),
        ('{"api_key": "topsecretvalue"}', "topsecretvalue"),
        ("https://user:topsecretvalue@host/x", "topsecretvalue"),
        ("HF_TOKEN=topsecretvalue", "topsecretvalue"),
    ],
)
def test_keys_and_tokens_are_masked(text, secret):
    shown = hicache_log.redact(text)
    assert secret not in shown
    assert "***" in shown


def test_figures_are_not_masked():
    text = "637081 tokens, 44.77 GB, max_total_num_tokens=159270, api_key=None, tokens: 5"
    assert hicache_log.redact(text) == text


def test_shown_lines_are_short():
    assert len(hicache_log.redact("x" * 1000, 100)) == 100


def test_the_server_arguments_are_read_without_keys():
    found = hicache_log.parse_server_args(
        "server_args=ServerArgs(model_path='/srv/m', tp_size=8, hicache_ratio=4.0, hicache_size=0, page_size=None, "
        "enable_hierarchical_cache=True, log_level='info', api_key='sk-1', node_rank=1)"
    )
    assert found == {
        "model_path": "/srv/m",
        "tp_size": 8,
        "hicache_ratio": 4.0,
        "hicache_size": 0,
        "page_size": None,
        "enable_hierarchical_cache": True,
        "log_level": "info",
        "node_rank": 1,
    }


def test_tables_are_whole():
    for fatal in hicache_log.FATALS:
        assert fatal.effect in ("allocation", "death", "trouble")
        assert fatal.writer in ("app", "systemd", "kernel")
        assert fatal.advice
    assert len({pool.name for pool in hicache_log.POOLS}) == len(hicache_log.POOLS)


@pytest.mark.parametrize(
    "text",
    [
        "HUGGING_FACE_HUB_TOKEN=topsecretvalue",
        "MY_TOKEN='topsecretvalue'",
        "AWS_SECRET_ACCESS_KEY=topsecretvalue",
        "error: unrecognized arguments: --api-key 'top secret topsecretvalue'",
        "error: unrecognized arguments: '--api-key', 'topsecretvalue'",
        "error: unrecognized arguments: '--api-key' 'topsecretvalue'",
        '{"passphrase": "topsecretvalue", "x": 1}',
        '{\\"api_key\\": \\"topsecretvalue\\"}',
        "api_key=SecretStr('topsecretvalue')",
        "api_key=b'topsecretvalue'",
        "api_key=['topsecretvalue', 'topsecretvalue']",
        "api_keys=['x', 'topsecretvalue']",
        "api_key='it\\'s topsecretvalue'",
        "api_key='cut in topsecretvalue",
        "api_key='p@ss,topsecretvalue'",
        "private_key=topsecretvalue",
        "ssl_keyfile_password='topsecretvalue'",
        "mooncake_password:topsecretvalue",
        "Authorization: topsecretvalue",
        "Authorization: Bearer topsecretvalue",
        "Cookie: session=topsecretvalue",
        "redis://:topsecretvalue@host:6379/0",
        "https://host/x?token=topsecretvalue&api_key=topsecretvalue",
    ],
)
def test_secrets_of_every_form_are_masked(text):
    assert "topsecretvalue" not in hicache_log.redact(f"RuntimeError: {text} and the rest")


def test_numbers_of_tokens_are_not_masked():
    text = "Decode batch, #token: 20480, token usage: 0.13, tokens=5, max_total_num_tokens=159270, api_key=None, x"
    assert hicache_log.redact(text) == text


@pytest.mark.parametrize(
    "text",
    [
        f"Allocating kv hierarchical KV host pool: {'9' * 5000} tokens, 1.00 GB host memory.",
        f"Allocating {'9' * 5000}.00 GB host memory for hierarchical KV cache.",
        f"max_total_num_tokens={'9' * 5000}, chunked_prefill_size=8192",
        f"server_args=ServerArgs(tp_size={'9' * 5000}, hicache_ratio={'9' * 5000}.5)",
        f"sglang.service: Scheduled restart job, restart counter is at {'9' * 5000}.",
        f"Suppressed {'9' * 5000} messages from sglang.service",
        f"Out of memory: Killed process {'9' * 5000} (sglang::schedul)",
        f"[2026-03-01 23:45:06 TP{'9' * 5000}] Decode batch",
    ],
)
def test_a_number_of_thousands_of_digits_is_no_figure(text):
    for writer in ("app", None):
        assert not [event for event in hicache_log.parse_segment(text, writer) if event.kind == "alloc"]


@pytest.mark.parametrize(
    "piece",
    [
        '"WebSocket /x',
        'HTTP/1.1" 200 ',
        "INFO:     ",
        "http_request{",
        "[2026-03-01 23:45:06] Load weight end.",
        "[ProcessGroupNCCL",
        "[2026-03-01 23:45:06 TP1",
        "Error: ",
        "a.b:",
        "(pid=1",
        "12%|x| 1/8 [0]",
        "api_key=",
    ],
)
def test_a_long_line_is_read_in_short_time(piece):
    text = (piece * 200000)[:200000]
    began = time.process_time()
    hicache_log.parse_segment(text, None)
    assert time.process_time() - began < 2
