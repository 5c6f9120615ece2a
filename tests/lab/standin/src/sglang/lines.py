# SPDX-License-Identifier: GPL-3.0-or-later
"""What the engine says, by release. Every function returns the message, without prefix and line end.

Read from the packages 0.5.9, 0.5.10.post1, 0.5.11, 0.5.12.post1, 0.5.13.post1, 0.5.14, 0.5.15.post1 and 0.5.16 to
0.5.23; those of 0.5.16 and 0.5.23 were also seen in life.
"""

from __future__ import annotations

from .geometry import GIB
from .release import RELEASE

READY = "The server is fired up and ready to roll!"
SIGQUIT_AT_LAUNCH = "Received sigquit from a child process. It usually means the child failed."
HEALTH_IN_SHUTDOWN = "Health check request received during shutdown. Returning 503."
PROMPT_QUOTE = (
    "Receive: obj=GenerateReqInput(text='why does my log say [2026-03-01 23:45:08 TP1] "
    "Allocating 44.77 GB host memory for hierarchical KV cache. ?', sampling_params={})"
)


def server_args(values, release=RELEASE):
    """All arguments in one line: a ServerArgs(...) until 0.5.18, a dict since 0.5.19. Keys and tokens included."""
    if release.at_least("0.5.19"):
        return f"server_args={values!r}"
    return "server_args=ServerArgs(" + ", ".join(f"{key}={value!r}" for key, value in values.items()) + ")"


def deprecated_endpoint(old, new):
    """A request used an old path."""
    return f"Endpoint '{old}' is deprecated and will be removed in a future version. Please use '{new}' instead."


def spec_requests():
    """Speculation caps the requests where --max-running-requests is not given; printed before server_args."""
    return (
        "Max running requests is reset to 48 for speculative decoding. "
        "You can override this by explicitly setting --max-running-requests."
    )


def chat_template():
    """The template's content format, found when the tokenizer was read."""
    return "Using default HuggingFace chat template with detected content format: string"


def template_features(args, release=RELEASE):
    """The parsers that the chat template suggests; None before 0.5.13 or where there are none."""
    parsers = [
        f"{name}={getattr(args, name)}" for name in ("reasoning_parser", "tool_call_parser") if getattr(args, name)
    ]
    if not parsers or not release.at_least("0.5.13"):
        return None
    return f"Auto-detected template features: {', '.join(parsers)}"


def distributed_begin(release=RELEASE):
    """The rank starts to look for the others; a NCCL hang shows nothing after this."""
    return "Init parallel begin." if release.at_least("0.5.21") else "Init torch distributed begin."


def distributed_end(seconds, release=RELEASE):
    """The ranks found each other."""
    if release.at_least("0.5.21"):
        return f"Init parallel ends. elapsed={seconds:.2f} s"
    return f"Init torch distributed ends. elapsed={seconds:.2f} s, mem usage=1.33 GB"


def memory_baseline(release=RELEASE):
    """Since 0.5.21; None before."""
    return "Memory baseline taken. mem usage=1.33 GB" if release.at_least("0.5.21") else None


def load_begin(available):
    """Weights are read from here on. `available`: GiB of the device."""
    return f"Load weight begin. avail mem={available:.2f} GB"


def load_end(seconds, architecture, dtype, available, used, release=RELEASE):
    """Weights are on the device."""
    middle = "" if release.at_least("0.5.10") else f"dtype={dtype}, "
    return (
        f"Load weight end. elapsed={seconds:.2f} s, type={architecture}, {middle}"
        f"avail mem={available:.2f} GB, mem usage={used:.2f} GB."
    )


def kv_cache(geometry, tokens, page, release=RELEASE):
    """The device pool; its "GB" is GiB, and holds one page more than `tokens`."""
    size = (tokens + page) * geometry.bytes_per_token / GIB
    dtype = f"dtype: {geometry.dtype}, " if release.at_least("0.5.13") else ""
    if geometry.kind == "mla":
        return f"KV Cache is allocated. {dtype}#tokens: {tokens}, KV size: {size:.2f} GB"
    return f"KV Cache is allocated. {dtype}#tokens: {tokens}, K size: {size / 2:.2f} GB, V size: {size / 2:.2f} GB"


def memory_pool_end(available):
    """All device pools stand."""
    return f"Memory pool end. avail mem={available:.2f} GB"


def capture_begin(name, tokens, sizes, available, release=RELEASE):
    """CUDA graphs are recorded. `name`: "target decode", "target verify", "draft decode", "draft extend"."""
    if release.at_least("0.5.14"):
        return (
            f"Capture {name} CUDA graph begin. backend=full, num_tokens_per_req={tokens}, "
            f"bs={sizes}, avail mem={available:.2f} GB"
        )
    word = {"draft decode": "draft cuda graph", "draft extend": "draft extend cuda graph"}.get(name, "cuda graph")
    return f"Capture {word} begin. This can take up to several minutes. avail mem={available:.2f} GB"


def capture_end(name, seconds, used, available, release=RELEASE):
    """The graphs stand."""
    if release.at_least("0.5.14"):
        return (
            f"Capture {name} CUDA graph end. elapsed={seconds:.2f} s, "
            f"mem usage={used:.2f} GB, avail mem={available:.2f} GB."
        )
    word = {"draft decode": "draft cuda graph", "draft extend": "draft extend cuda graph"}.get(name, "cuda graph")
    return f"Capture {word} end. Time elapsed: {seconds:.2f} s. mem usage={used:.2f} GB. avail mem={available:.2f} GB."


def no_prefill_graph():
    """Since 0.5.14, where the graph of the prefill is off, as it is on a CPU."""
    return (
        "Disable prefill CUDA graph because cuda_graph_config resolved prefill.backend='disabled' "
        "(e.g. via --cuda-graph-backend-prefill=disabled or auto-disable rules)."
    )


def totals(tokens, chunk, prefill, requests, context, device, available):
    """One line of TP rank 0 with the capacity of the start."""
    memory = "available_cpu_mem" if device == "cpu" else "available_gpu_mem"
    return (
        f"max_total_num_tokens={tokens}, chunked_prefill_size={chunk}, max_prefill_tokens={prefill}, "
        f"max_running_requests={requests}, context_len={context}, {memory}={available:.2f} GB"
    )


def before_host_pool(free_bytes, release=RELEASE):
    """Lines just before the host pool: the cache's kind, and the memory that was found since 0.5.21."""
    if not release.at_least("0.5.21"):
        return []
    return [
        "Init Unified Radix Cache. Components: (<ComponentType.FULL: 0>,). Tree Core: RustUnifiedTreeCore",
        f"HiCache memory headroom: host {min(free_bytes / GIB, 1007.1):.1f} GiB, cgroup 8589934592.0 GiB",
    ]


def allocating(tokens, size_bytes, label="kv", release=RELEASE):
    """The line that a verifier looks for; printed before the memory is taken. GB is 1e9."""
    if release.at_least("0.5.17"):
        return f"Allocating {label} hierarchical KV host pool: {tokens} tokens, {size_bytes / 1e9:.2f} GB host memory."
    return f"Allocating {size_bytes / 1e9:.2f} GB host memory for hierarchical KV cache."


def small_host_pool(label, host, device, release=RELEASE):
    """The host pool is smaller than the device pool: fatal until 0.5.14, a warning since. (text, fatal)"""
    if not release.at_least("0.5.15"):
        return "The host memory should be larger than the device memory with the current protocol", True
    name = f" {label} host pool" if release.at_least("0.5.17") else " host KV pool"
    return (
        f"HiCache{name} ({host} tokens) is smaller than the device pool ({device} tokens);"
        "L2 cache effectiveness is reduced."
        "Consider increasing --hicache-ratio (or --hicache-size) for higher L2 cache hit rate.",
        False,
    )


def draft_registered(kind, tokens, release=RELEASE):
    """The draft's host pool, 0.5.11 to 0.5.18; None otherwise."""
    if not release.at_least("0.5.11") or release.at_least("0.5.19"):
        return None
    pool = "MLATokenToKVPool" if kind == "mla" else "MHATokenToKVPool"
    return f"HiCache draft KV registered: {pool} (host {tokens} slots)"


def after_host_pool(hicache, layers, source="default", release=RELEASE):
    """Lines once the cache stands. `hicache`: is the host pool attached?"""
    found = []
    if release.at_least("0.5.21"):
        if hicache:
            found.append(f"Attached hybrid pool stack to UnifiedRadixCache: pools=KV, transfer_layer_id_max={layers}")
        implementation = "UnifiedRadixCache"
    else:
        implementation = "HiRadixCache" if hicache else "RadixCache"
    if release.at_least("0.5.13"):
        text = f"Tree cache initialized: source={source} impl={implementation} hybrid_swa=False hybrid_ssm=False "
        text += f"hicache_attached={hicache}" if release.at_least("0.5.18") else f"hierarchical={hicache}"
        found.append(text if release.at_least("0.5.22") else text + " streaming_wrapped=False")
    return found


def timings(load, pools, total, release=RELEASE):
    """How long the parts of the start took, since 0.5.17; None before."""
    if not release.at_least("0.5.17"):
        return None
    graphs = ", ".join(
        f"{name}=0.00"
        for name in ("prefill", "decode", "target_verify", "draft_prefill", "draft_decode", "draft_extend")
    )
    return (
        f"Engine startup timings (s): load_weight={load:.2f}, kv_cache_allocation={pools:.2f}, "
        f"scheduler_e2e={total:.2f}, cuda_graph={{{graphs}}}, tokenizer_e2e={total:.2f}"
    )


def prefill_batch(new, cached, usage, running, graph, speed, release=RELEASE):
    """One line per prefill, of TP rank 0. `graph`: "cuda graph" or "cpu graph"."""
    head = (
        f"Prefill batch, #new-seq: 1, #new-token: {new}, #cached-token: {cached}, token usage: {usage:.2f}, "
        f"#running-req: {running}, #queue-req: 0, "
    )
    if not release.at_least("0.5.10"):
        return f"{head}input throughput (token/s): {speed:.2f}, {graph}: False"
    pending = "#pending-token: 0, " if release.at_least("0.5.11") else ""
    return f"{head}{pending}{graph}: False, input throughput (token/s): {speed:.2f}"


def decode_batch(running, used, usage, accept, graph, speed, release=RELEASE):
    """One line per 40 decode steps, of TP rank 0. `accept`: mean accept length, None without speculation."""
    spec = "" if accept is None else f"accept len: {accept:.2f}, accept rate: {max(0.0, (accept - 1) / 3):.2f}, "
    return (
        f"Decode batch, #running-req: {running}, #token: {used}, token usage: {usage:.2f}, {spec}"
        f"{graph}: {graph == 'cuda graph'}, gen throughput (token/s): {speed:.2f}, #queue-req: 0"
    )


def request_received(text, parameters):
    """What --log-requests prints of each request."""
    return f"Receive: obj=GenerateReqInput(text={text!r}, sampling_params={parameters!r})"


def not_enough_memory(wanted, free):
    """The refusal of a rank; both in bytes, both printed in GB."""
    return (
        f"ValueError: Not enough host memory available. Requesting {wanted / 1e9:.2f} GB but only have "
        f"{free / 1e9:.2f} GB free. Please reduce the size of the hierarchical cache."
    )


def register_failed(code, size_bytes, release=RELEASE):
    """Pinning was refused. Before 0.5.13 the return code was not looked at, and CUDA failed later."""
    if not release.at_least("0.5.13"):
        return "RuntimeError: CUDA error: invalid argument"
    reason = {"2": "cudaError.cudaErrorMemoryAllocation", "801": "cudaError.cudaErrorNotSupported"}.get(
        code, "cudaError.cudaErrorInvalidValue"
    )
    return (
        f"RuntimeError: cudaHostRegister failed (rc={code}, {reason}) at offset=0 size={size_bytes} "
        f"(total={size_bytes}, chunk_limit={size_bytes}); host buffer is not pinned and device transfers may "
        "silently return stale data."
    )


def no_kv_room(fraction, release=RELEASE):
    """The weights fill what the fraction leaves."""
    if not release.at_least("0.5.14"):
        return (
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. "
            f"Current value: mem_fraction_static={fraction}"
        )
    return (
        f"ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static={fraction}. "
        "Raise --mem-fraction-static above 0.913 (minimum viable = 1 - available/pre = 0.908)."
    )


def scheduler_exception(problem, frames=()):
    """A rank's own report of its end: the word Traceback on the first line, the problem on the last."""
    body = "".join(f'  File "{name}", line {number}, in {function}\n' for name, number, function in frames)
    return f"Scheduler hit an exception: Traceback (most recent call last):\n{body}{problem}\n"


def rank_died(rank, code):
    """Since 0.5.10: the launcher's error for a rank that went away during the start."""
    return (
        f"RuntimeError: Rank {rank} scheduler died during initialization (exit code: {code}). "
        f"If exit code is -9 (SIGKILL), a common cause is the OS OOM killer. "
        f"Run `dmesg -T | grep -i oom` to check."
    )


def subprocess_crashed(name, pid, code):
    """Since 0.5.10: the launcher noticed a dead child while serving."""
    return f"Subprocess {name} (pid={pid}) crashed with exit code {code}. Triggering SIGQUIT for cleanup..."


def sigquit_received(release=RELEASE):
    """A child reported its failure while serving."""
    return "SIGQUIT received. signum=None, frame=None. It usually means one child failed."


def sigterm_received():
    """The drain begins."""
    return "SIGTERM received. signum=None frame=None. Draining requests and shutting down..."


def gracefully_exiting(rids):
    """Every 5 s of the drain."""
    return (
        f"Gracefully exiting... Remaining number of requests {len(rids)}. Remaining requests remaining_rids={rids!r}."
    )


def watchdog(timeout):
    """A rank's forward pass took too long."""
    return f"Scheduler watchdog timeout (self.watchdog_timeout={timeout}, self.soft=False)"
