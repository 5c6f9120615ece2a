# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one message of an SGLang start says about HiCache host memory.

The texts stand in three tables: :data:`POOLS` (allocation lines), :data:`FATALS` (what says that a start or its
allocation did not succeed) and :data:`MARKS` (what shows how far a start got). A text of a later release is one
more row. Every text is matched at the *beginning* of a message, after the prefixes that loggers and collectors put
before it: a user's prompt may quote any of them.

Units: GB is 10**9 bytes, the unit SGLang prints for host pools.

Source: the published SGLang wheels 0.4.6 to 0.5.23; the log forms as journald 252, Docker, containerd (CRI),
Compose and rsyslog write them.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

import json
import re
from collections import namedtuple

# -- tables ----------------------------------------------------------------------------------------------------

#: ``name``: stable name; ``role``: main (counts as a rank), draft, or side (host memory only); ``start`` what the
#: text starts with, used to see a line that was cut; ``regex`` the whole text; ``since``/``until``: releases.
Pool = namedtuple("Pool", "name role start regex since until")

# Every number is bounded: more digits are no figure that SGLang prints, and int() refuses thousands of them.
_GB = r"(?P<gb>\d{1,9}(?:\.\d{1,9})?) GB host memory"

POOLS = (
    Pool(
        "kv",
        "by_order",
        "Allocating # GB host memory for hierarchical KV cache.",
        re.compile(rf"Allocating {_GB} for hierarchical KV cache\."),
        "0.4.6",
        "0.5.16",
    ),
    Pool(
        "labelled",
        "by_label",
        "Allocating kv hierarchical KV host pool: # tokens, # GB host memory",
        re.compile(
            r"Allocating (?P<label>[A-Za-z][\w.-]*) hierarchical KV host pool: (?P<tokens>\d{1,15}) tokens, "
            rf"{_GB}(?:\.|, packed MTP KV layers: target_layers=(?P<target_layers>\d{{1,6}}), "
            r"draft_layers=(?P<draft_layers>\d{1,6}), total_layers=(?P<total_layers>\d{1,6})\.|, [^\r\n\[]{1,200}\.)"
        ),
        "0.5.17",
        None,
    ),
    Pool(
        "mamba",
        "side",
        "Allocating # GB host memory for hierarchical Mamba cache",
        re.compile(rf"Allocating {_GB} for hierarchical Mamba cache(?: \([^\r\n\[]*\))?\."),
        "0.5.10",
        None,
    ),
    Pool(
        "indexer",
        "side",
        "Allocating # GB host memory for DSA indexer",
        re.compile(rf"Allocating {_GB} for (?:NSA|DSA) indexer\b[^\r\n\[]*\."),
        "0.5.11",
        None,
    ),
    Pool(
        "v4_paged",
        "side",
        "Allocating # GB host memory for V4 paged pool",
        re.compile(rf"Allocating {_GB} for V4 paged pool '(?P<item>[^'\r\n]*)'[^\r\n\[]*\."),
        "0.5.12",
        None,
    ),
    Pool(
        "v4_state",
        "side",
        "Allocating # GB host memory for V4 state pool",
        re.compile(rf"Allocating {_GB} for V4 state pool '(?P<item>[^'\r\n]*)'[^\r\n\[]*\."),
        "0.5.12",
        None,
    ),
    Pool(
        "minimax_index",
        "side",
        "Allocating # GB host memory for MiniMax",
        re.compile(rf"Allocating {_GB} for MiniMax (?:sparse index-K|NVFP4 index cache)\b[^\r\n\[]*\."),
        "0.5.15",
        None,
    ),
    # A pool that a later release adds: never a rank, but memory.
    Pool("other", "side", None, re.compile(rf"Allocating {_GB} for [^\r\n\[]{{1,200}}\."), None, None),
    # Code of 0.5.20 and newer that no release reaches yet: the rank shares the pool of another one.
    Pool(
        "shared",
        "shared",
        None,
        re.compile(
            r"MLATokenToKVPoolHost dummy mode: allocator-only, size=(?P<tokens>\d{1,15}) tokens, "
            r"saving (?P<gb>\d{1,9}(?:\.\d{1,9})?) GB host memory\b[^\r\n]*"
        ),
        "0.5.20",
        None,
    ),
)

#: Role of each label of the labelled wording; an unknown label is a side pool.
LABEL_ROLES = {"kv": "main", "full": "main", "swa": "side", "draft": "draft", "draft_swa": "side"}

#: ``code``: stable code; ``effect``: ``allocation`` (the host memory was refused, could not be pinned, or its owner
#: was killed for want of memory), ``death`` (the start is over), ``trouble`` (the start is over unless it becomes
#: ready after this message); ``writer``: app, systemd or kernel; ``advice``: what to do.
Fatal = namedtuple("Fatal", "code effect writer regex advice")

# An exception class, a torch rank mark or a C++ "what()" may stand before an application's own words.
_EXC = (
    r"(?:\[rank\d+\]:\s*)?(?:what\(\):\s*)?(?:E\s+)?"
    r"(?:(?:[A-Za-z_][\w.]{0,100})?(?:Error|Exception|Interrupt|Exit): )?"
)


def _app(code, effect, text, advice):
    return Fatal(code, effect, "app", re.compile(_EXC + text), advice)


def _systemd(code, effect, text, advice):
    return Fatal(code, effect, "systemd", re.compile(text), advice)


def _kernel(code, effect, text, advice):
    return Fatal(code, effect, "kernel", re.compile(text), advice)


_LOWER = "lower the ratio or the size of the host pools, or free host memory"
_READ = "read the traceback that stands before this message"
_SCHED = "read the last messages of that rank; exit code -9 usually means that the kernel killed it for memory"

FATALS = (
    # the host pool was refused
    _app("host_memory_refused", "allocation", r"Not enough host memory\b", _LOWER),
    _app("host_memory_refused", "allocation", r"No host memory is left for HiCache\b", _LOWER),
    _app(
        "host_memory_refused",
        "allocation",
        r"(?:Cannot automatically size HiCache host memory|HiCache auto-sizing does not support)\b",
        "set the ratio or the size of the host pool yourself",
    ),
    _app(
        "host_pool_too_small",
        "allocation",
        r"The host memory should be larger than the device memory\b",
        "raise the ratio above 1, or the size above the device pool's",
    ),
    _app(
        "pool_not_supported",
        "allocation",
        r"(?:HiRadixCache only supports|[Hh]ierarchical cache (?:is not|does not) support)",
        "turn HiCache off for this model, or use a release that supports its KV pool",
    ),
    _app(
        "pin_failed",
        "allocation",
        r"(?:cuda|hip|musa)Host(?:Register|Alloc)\b[^\r\n]{0,40}\bfail",
        "host memory could not be pinned: check LimitMEMLOCK of the unit, confidential computing (rc 801) and pools "
        "of 512 GiB and more",
    ),
    _app("host_out_of_memory", "allocation", r"\[Errno 12\] Cannot allocate memory", _LOWER),
    _app("host_out_of_memory", "allocation", r"[^\r\n]{0,120}DefaultCPUAllocator: (?:can't|not enough)", _LOWER),
    _app("host_out_of_memory", "allocation", r"(?<=Error: )Unable to allocate [\d.]+ [KMGT]iB", _LOWER),
    Fatal("host_out_of_memory", "allocation", "app", re.compile(r"MemoryError\s*$"), _LOWER),
    # the GPU had no room
    _app(
        "gpu_out_of_memory",
        "trouble",
        r"(?:CUDA|HIP) out of memory\b",
        "lower the static memory fraction or what else takes memory of the GPU",
    ),
    _app(
        "gpu_out_of_memory",
        "trouble",
        r"(?:Not enough memory\. Please try to increase --mem-fraction-static|Loaded weights leave no GPU memory)",
        "change the static memory fraction as the message says",
    ),
    _app("gpu_out_of_memory", "trouble", r"(?:Prefill|Decode) out of memory\b", "lower the batch size"),
    _app("cuda_graph_failed", "trouble", r"Capture (?:cuda|CUDA) graph failed\b", "lower the static memory fraction"),
    _app("cuda_error", "trouble", r"(?:CUDA|HIP) error: ", "check the GPU (dmesg, Xid) and the HiCache io backend"),
    _app(
        "nccl_error",
        "trouble",
        r"(?:NCCL (?:error|Error)\b|nccl(?:Unhandled|System|Internal|Remote)\w*Error\b"
        r"|\[[^\]\r\n]{0,200}ProcessGroupNCCL[^\r\n]{0,300}Watchdog caught collective operation timeout)",
        "check the links between the GPUs (IOMMU, ACS, P2P)",
    ),
    # processes that died
    _app("scheduler_exception", "death", r"(?:\w+ ){0,3}\w+ hit an exception: ", _READ),
    _app("scheduler_died", "death", r"Rank \d+ scheduler (?:is dead\b|died\b)", _SCHED),
    _app("subprocess_died", "death", r"Subprocess \S+ \(pid=\d+\) crashed with exit code -?\d+", _SCHED),
    _app("subprocess_died", "death", r"sglang subprocess exited with code -?\d+", _SCHED),
    _app("subprocess_died", "death", r"Scheduler or DataParallelController \d+ terminated with -?\d+", _SCHED),
    _app("subprocess_died", "death", r"(?:Received sigquit from a child process|SIGQUIT received\.)", _SCHED),
    _app("exit_code", "death", r"Exit code: -?[1-9]\d*\s*$", _SCHED),
    _app("initialization_failed", "death", r"Initialization failed\.", _READ),
    _app(
        "watchdog_timeout",
        "death",
        r"(?:Scheduler w|W)atchdog timeout \((?![^)\r\n]*soft=True)",
        "a batch did not end in time: look for a hang of the GPUs, or raise the watchdog timeout",
    ),
    Fatal(
        "crash",
        "death",
        "app",
        re.compile(
            r"(?:Fatal Python error: |Segmentation fault\b|terminate called (?:after throwing|without)"
            r"|!{3,} ?Segfault encountered)"
        ),
        _READ,
    ),
    _app(
        "port_in_use",
        "trouble",
        r"(?:ERROR:\s+)?(?:\[Errno 98\] )?(?:error while attempting to bind on address [^\r\n]{0,80}: )?"
        r"[Aa]ddress already in use\b",
        "stop what holds the port (a left-over process of an earlier start?) or choose another port",
    ),
    _app(
        "port_in_use",
        "trouble",
        r"(?:The server socket has failed to listen\b|EADDRINUSE\b|\w{1,40} at \d+ is not available in \d+ seconds\b"
        r"|[Pp]ort \d+ is (?:already in use|not available)\b)",
        "stop what holds the port (a left-over process of an earlier start?) or choose another port",
    ),
    _app(
        "bad_arguments",
        "death",
        r"(?:[\w./-]*launch_server(?:\.py)?|sglang(?: serve)?): error: ",
        "mend the option that the message names; this release may not know it",
    ),
    Fatal(
        "crash",
        "death",
        "app",
        re.compile(
            r"(?:\S+: line \d+:\s+\d+ )?(?:Killed|Aborted|Bus error|Segmentation fault)(?:\s+\(core dumped\))?(?:\s|$)"
        ),
        _SCHED,
    ),
    _app("subprocess_died", "death", r"process \d+ terminated with (?:signal|exit code) ", _SCHED),
    # what the unit's own helper says before and after a start: role serve, service.py
    Fatal(
        "start_timed_out",
        "death",
        "app",
        re.compile(r"\S{1,255}\.service failed to start: \S+ was not ready within [\d.]{1,20} s, "),
        "the start budget ran out: read what the load was doing, or allow more (serve_start_timeout_seconds)",
    ),
    Fatal(
        "leftovers",
        "death",
        "app",
        re.compile(r"\S{1,255}\.service is not started: after [\d.]{1,20} s this is still left: [^\r\n]*"),
        "end what holds it, or wait longer (serve_leftover_timeout_seconds)",
    ),
    # without systemd's word, the server's own is all that says that it was stopped
    _app(
        "unit_stopped",
        "death",
        r"(?:SIGTERM received\. signum=|(?:INFO:\s+)?Application shutdown complete\.)",
        "the server was stopped: start it again",
    ),
    # container engines
    Fatal("container_exited", "death", "app", re.compile(r"\S+ exited with code (?!0\b)\d+\s*$"), _SCHED),
    Fatal(
        "killed_by_oom",
        "allocation",
        "app",
        re.compile(r"(?:Reason:\s+)?OOMKilled\b"),
        "raise the memory limit of the container, or lower the host pools",
    ),
    # systemd about the unit: unit is what stands before the colon
    _systemd(
        "killed_by_oom",
        "allocation",
        r"(?P<unit>\S+): (?:A process of this unit has been killed by the OOM killer|Failed with result 'oom-kill'"
        r"|systemd-oomd killed \d+ process)",
        "raise or remove MemoryMax of the unit, or lower the host pools",
    ),
    _systemd(
        "main_process_exited",
        "death",
        r"(?P<unit>\S+): (?:Main|Control) process exited, code=(?:killed|dumped), status=[^\r\n]*",
        "find who sent the signal: kernel log (OOM), systemctl stop, or a crash",
    ),
    _systemd(
        "main_process_exited",
        "death",
        r"(?P<unit>\S+): (?:Main|Control) process exited, code=exited, status=(?!0\b)[^\r\n]*",
        _READ,
    ),
    _systemd("unit_failed", "death", r"(?P<unit>\S+): Failed with result '[^'\r\n]*'", _READ),
    _systemd("unit_failed", "death", r"Failed to start (?P<unit>[^\r\n]+?)\.?$", _READ),
    _systemd(
        "start_timed_out",
        "death",
        r"(?P<unit>\S+): [Ss]tart(?:-\w+)? operation timed out\b",
        "raise TimeoutStartSec of the unit",
    ),
    _systemd(
        "watchdog_timeout",
        "death",
        r"(?P<unit>\S+): Watchdog timeout \(limit",
        "SGLang does not talk to systemd: remove WatchdogSec from the unit",
    ),
    _systemd(
        "restart_scheduled",
        "death",
        r"(?P<unit>\S+): (?:Scheduled restart job, restart counter is at (?P<counter>\d{1,9})"
        r"|Start request repeated too quickly)",
        "the unit restarts by itself after a failure: mend the failure first",
    ),
    _systemd(
        "unit_stopped",
        "death",
        r"(?:(?P<unit>\S+): (?:Deactivated successfully|Succeeded)|Stopp(?:ing|ed) (?P<unit2>[^\r\n]+?)\.{0,3}$)",
        "the unit was stopped: start it again",
    ),
    _systemd(
        "killed_by_oomd",
        "allocation",
        r"Killed (?P<cgroup>/\S+) due to memory (?:pressure|used)",
        "systemd-oomd killed the unit: lower the host pools or exempt the unit",
    ),
    # the kernel
    _kernel(
        "killed_by_oom",
        "allocation",
        r"oom-kill:constraint=(?P<constraint>\w+)[^\r\n]*",
        "CONSTRAINT_MEMCG: MemoryMax of the unit is too small; CONSTRAINT_CPUSET: allowed NUMA nodes are too small; "
        "CONSTRAINT_NONE: the host has too little memory",
    ),
    _kernel(
        "killed_by_oom",
        "allocation",
        r"Memory cgroup out of memory: Killed process (?P<pid>\d{1,10}) \((?P<comm>[^)\r\n]*)\)?",
        "MemoryMax of the unit is smaller than its host pools need",
    ),
    _kernel(
        "killed_by_oom",
        "allocation",
        r"Out of memory: Kill(?:ed)? process (?P<pid>\d{1,10}) \((?P<comm>[^)\r\n]*)\)?",
        "the host ran out of memory: lower the host pools",
    ),
    _kernel(
        "crash",
        "death",
        r"Process (?P<pid>\d{1,10}) \((?P<comm>[^)\r\n]*)\) of user \d+ (?:terminated abnormally|dumped core)",
        _READ,
    ),
    _kernel("crash", "death", r"(?P<comm>[^\[\]\r\n]{1,15})\[(?P<pid>\d{1,10})\]: segfault at ", _READ),
    _kernel(
        "killed_by_oom",
        "allocation",
        r"oom_reaper: reaped process (?P<pid>\d{1,10}) \((?P<comm>[^)\r\n]*)\)?",
        "the host ran out of memory: lower the host pools",
    ),
)

#: What shows the progress of a start: ``code`` and the text. ``before`` marks stand before the allocation lines.
Mark = namedtuple("Mark", "code before regex")

MARKS = (
    Mark("server_args", True, re.compile(r"server_args=")),
    Mark("distributed", True, re.compile(r"Init torch distributed begin\.")),
    Mark("distributed_end", True, re.compile(r"Init torch distributed ends\.|Memory baseline taken\.")),
    Mark("weights", True, re.compile(r"Load weight begin\.")),
    Mark("weights_end", True, re.compile(r"Load weight end\.")),
    Mark(
        "device_pool",
        True,
        re.compile(
            r"(?:(?P<kind>Full|SWA) )?KV Cache (?:is allocated|VA upper bound)\b"
            r"(?:[^\r\n#]{0,60}?\bdtype: (?P<dtype>torch\.\w{1,40}))?[^\r\n]*?#tokens: (?P<tokens>\d{1,15})"
            r"(?:, KV size: (?P<kv_gib>\d{1,9}\.\d\d) GB|, K size: (?P<k_gib>\d{1,9}\.\d\d) GB, V size: "
            r"(?P<v_gib>\d{1,9}\.\d\d) GB)?"
        ),
    ),
    Mark("memory_pool_end", True, re.compile(r"Memory pool end\.")),
    Mark("graphs", True, re.compile(r"Capture [^\r\n]{0,60}(?:cuda|CUDA) graph (?:begin|end)\b")),
    Mark("device_tokens", True, re.compile(r"max_total_num_tokens=(?P<tokens>\d{1,15})\b")),
    Mark(
        "hicache_attached",
        False,
        re.compile(r"Tree cache initialized: [^\r\n]*\b(?:hicache_attached|hierarchical)=True"),
    ),
    Mark("startup_complete", False, re.compile(r"(?:INFO:\s+)?Application startup complete\.")),
    Mark("ready", False, re.compile(r"The server is fired up and ready to roll!\s*$")),
    Mark("serving", False, re.compile(r"(?:Prefill|Decode) batch\b")),
    Mark("request", False, re.compile(r"(?:Receive|Finish): obj=")),
)

#: Messages of collectors that say that messages are missing or hidden.
LOSSES = (
    (
        "rate_limited",
        re.compile(r"Suppressed (?P<count>\d{1,12}) messages? from (?P<unit>\S+)"),
        "journald",
    ),
    (
        "rate_limited",
        re.compile(
            r"(?:imuxsock|imjournal)\b[^\r\n]{0,40}\b(?P<count>\d{1,12}) messages? (?:lost|from|discarded)"
            r"[^\r\n]*rate-limit"
        ),
        "rsyslog",
    ),
    (
        "rate_limited",
        re.compile(
            r"(?:imuxsock|imjournal)[^\r\n]{0,20} (?:lost|begin to drop)\b(?: (?P<count>\d{1,12}) messages)?"
            r"[^\r\n]*rate-limit"
        ),
        "rsyslog",
    ),
    ("cut_lines", re.compile(r"Hint: Some lines were ellipsized\b"), "journalctl"),
    ("blob", re.compile(r"\[[\d.]+[KMGTPE]?B? blob data\]\s*$"), None),
    (
        "no_permission",
        re.compile(
            r"(?:Hint: You are currently not seeing messages from|No journal files were opened due to insufficient"
            r"|Users in groups '[^\r\n]*can see all messages)"
        ),
        "journalctl",
    ),
    (
        "journal_damaged",
        re.compile(
            r"(?:Journal file \S+ (?:is truncated|corrupted|uses an unsupported)"
            r"|Failed to (?:open|iterate)[^\r\n]*journal)"
        ),
        "journalctl",
    ),
)

# -- bytes that never belong to a message -----------------------------------------------------------------------

_ANSI = re.compile(r"(?:\x1b|\\x1b|\\u001b|\\033|\\e|#033|\^\[)(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufeff]")


def strip_ansi(text):
    """Remove terminal control sequences, real or escaped (rsyslog writes ``#033[32m``), and control characters."""
    if "\x1b" in text or "[" in text:
        text = _ANSI.sub("", text)
    return _CONTROL.sub("", text)


# What stands for a secret, quoted (an end that was cut off counts too), in brackets, in a call, or bare.
_SECRET = (
    r"(?:[A-Za-z_]\w{0,40}\()?(?:(?:bearer|basic|token|digest)\s+)?"
    r"(?:\[[^\]\r\n]*\]?|\\+\"[^\"\\\r\n]*(?:\\+\")?|[bru]?\"(?:[^\"\\]|\\.)*\"?|[bru]?'(?:[^'\\]|\\.)*'?"
    r"|[^\s,'\")}\]&;]+)"
)
_SECRETS = (
    # --api-key VALUE and --api-key=VALUE, each word quoted or not
    (re.compile(rf"(?i)(--[\w-]{{0,60}}(?:key|token|secret|password)['\"]?(?:=|,?\s+))(?!--){_SECRET}"), r"\1***"),
    (
        re.compile(
            r"(?i)((?<![\w-])[\w-]{0,60}(?:key|secret|password|passwd|passphrase|credential|authorization|cookie)s?"
            rf"\\?['\"]?\s*[=:]\s*)(?!None\b){_SECRET}"
        ),
        r"\1***",
    ),
    # A number of tokens is no secret.
    (
        re.compile(
            r"(?i)((?<![\w-])[\w-]{0,60}tokens?\\?['\"]?\s*[=:]\s*)(?!None\b|\d[\d.]*[kMG]?(?:[\s,;)\]}]|$))"
            rf"{_SECRET}"
        ),
        r"\1***",
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}"), r"\1 ***"),
    (re.compile(r"\b(?:hf_|sk-|gh[a-z]_|github_pat_|glpat-|nvapi-|xox[a-z]-)[A-Za-z0-9_-]{8,}"), "***"),
    (re.compile(r"(\w{1,40}://)[^\s/@]+@"), r"\1***@"),
)


def redact(text, limit=300):
    """Mask keys and tokens in a line that is going to be shown, and cut it to ``limit`` characters."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text if len(text) <= limit else text[: limit - 3] + "..."


# -- prefixes ---------------------------------------------------------------------------------------------------

_STAMP = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)"
_TAG = r"[A-Za-z_][\w.-]*"

#: SGLang's own prefix: ``[2026-03-01 23:45:06.123 DP0 PP0 TP3 EP3] ``; forks add words, some drop the time.
APP_PREFIX = re.compile(rf"\[(?P<time>{_STAMP})?(?P<tags>(?:(?:(?<=\[)| ){_TAG})*)\](?: |$|(?=[A-Za-z{{]))")
_RANK_TAG = re.compile(r"^([A-Za-z_]+?)_?(\d{1,6})$")

#: Words that name a process of the server, in the order in which a rank is written.
RANK_WORDS = ("DP", "PP", "CP", "ATTN_CP", "MOE_DP", "TP", "EP")

_RANKS_ONLY = re.compile(rf"(?i)\s?(?:{'|'.join(RANK_WORDS)})_?\d{{1,6}}(?: (?:{'|'.join(RANK_WORDS)})_?\d{{1,6}})*$")

_GENERIC_PREFIXES = (
    re.compile(rf"{_STAMP}(?=\s|$)\s*"),
    re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?\s+"),
    # logging.basicConfig: LEVEL:logger.name:message
    re.compile(rf"{_LEVEL}:(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*:(?=\S)"),
    re.compile(rf"\[?{_LEVEL}\]?(?=[\s:|-])[\s:|-]*"),
    re.compile(rf"{_LEVEL}:\s*"),
    re.compile(r"[|-]\s+"),
    re.compile(
        r"(?:[A-Za-z_]\w*\.)+(?!py:|\w*(?:Error|Exception): )[A-Za-z_]\w*(?::\w+)?(?::\d+)?(?::\s+| - |\s+\|\s+)"
    ),
    re.compile(r"\[[\w./-]+\.py:\d+\]:?\s+"),
    re.compile(r"[\w./-]{1,200}\.py:\d{1,6}(?::| -)?\s+"),
    re.compile(r"\([^()\r\n]{0,80}\bpid=\d+[^()\r\n]{0,80}\)\s*"),
    re.compile(r"\[rank\d+\]:\s*"),
    re.compile(r"\[\d+,\d+\]<std(?:out|err)>:\s*"),
)

Prefix = namedtuple("Prefix", "tags time rest had_app")


def _rank_tags(words):
    known, foreign = [], []
    for word in words.split():
        match = _RANK_TAG.match(word)
        if not match:
            continue
        name, number = match.group(1).upper(), int(match.group(2))
        if name in RANK_WORDS:
            known.append((name, number))
        else:
            foreign.append((name, number))
    # A numbered word of a fork tells processes apart only where the server itself names none.
    tags = known or foreign
    return tuple(sorted(set(tags), key=lambda tag: (RANK_WORDS.index(tag[0]) if tag[0] in RANK_WORDS else 99, tag)))


def split_prefix(text):
    """Take SGLang's and other loggers' prefixes off a message.

    Returns ``Prefix(tags, time, rest, had_app)``: ``tags`` is a tuple such as ``(("PP", 0), ("TP", 3))``, ``time``
    the first time stamp of SGLang's own prefix as written or None.
    """
    tags, time, had_app = (), None, False
    rest = text.lstrip()
    for _step in range(10):
        match = APP_PREFIX.match(rest)
        if match and (match.group("time") or match.group("tags").strip()) and not had_app:
            had_app = True
            time = match.group("time")
            tags = _rank_tags(match.group("tags"))
            rest = rest[match.end() :].lstrip()
            continue
        if match and had_app and not tags and not match.group("time") and _RANKS_ONLY.match(match.group("tags")):
            # Some loggers put the rank into brackets of its own.
            tags = _rank_tags(match.group("tags"))
            rest = rest[match.end() :].lstrip()
            continue
        for pattern in _GENERIC_PREFIXES:
            match = pattern.match(rest)
            if match and match.end():
                rest = rest[match.end() :].lstrip()
                break
        else:
            break
    return Prefix(tags, time, rest, had_app)


def rank_name(tags):
    """``(("PP", 0), ("TP", 3))`` as ``PP0 TP3``."""
    return " ".join(f"{name}{number}" for name, number in tags)


# -- progress bars ------------------------------------------------------------------------------------------------

_BAR = re.compile(
    r"[^'\"\r\n%\[{]{0,160}?(?:"
    r"\d{1,3}%(?:\|[^|\r\n]{0,400}\|| Completed \|)\s*\d+(?:\.\d+)?[kMG]?/\d+(?:\.\d+)?[kMG]?\s*\[[^\]\r\n]{0,120}\]"
    # a bar whose total is not known
    r"|\b\d+(?:\.\d+)?[kMG]?[a-zA-Z]{1,8} \[\d+:\d\d(?::\d\d)?, [^\]\r\n]{0,60}\])"
)
_BAR_START = re.compile(r"[^'\"\r\n%\[{]{0,160}?\d{1,3}%(?:\||$| Completed)")


def skip_bars(text):
    """Return what follows the progress bars that a segment begins with (the segment itself when there are none)."""
    position = 0
    while True:
        match = _BAR.match(text, position)
        if not match:
            return text[position:]
        position = match.end()


def is_bar(text):
    """Tell whether a segment holds nothing but progress bars, whole or cut."""
    rest = skip_bars(text).strip()
    return not rest or bool(_BAR_START.match(rest))


# -- access records -----------------------------------------------------------------------------------------------

# What the client sent stands in an access record as it came: its address may be a made X-Forwarded-For, its path and
# agent hold what it likes. How the record ends is the web server's own: uvicorn, granian, aiohttp, nginx, the router.
_ACCESS_END = re.compile(r"HTTP/\d(?:\.\d)?\\*\" \d{3}\b|\"WebSocket [^\"\r\n]{0,4000}\" (?:\[accepted\]|\d{3}\b)")
_STATUS = re.compile(r"(?P<status>HTTP/\d(?:\.\d)?\\*\" \d{3})(?: [A-Za-z][A-Za-z' -]{0,60}| -)?\s*$")
# nginx and others go on with what they sent; a quotation mark of the client they escape.
_PROXY_STATUS = re.compile(r"(?P<status>HTTP/\d(?:\.\d)?\" \d{3}) (?:\d+|-)(?:\s|$)")
_ROUTER_REQUEST = re.compile(r"\bhttp_request\{|\b(?:started|finished) processing request\b")
# uvicorn pads the name of the level; its words about itself are few, all else behind this prefix is an access record
# whose end was cut off.
_UVICORN = re.compile(r"(?:\[[^\]\r\n]{0,80}\] ?)?(?:INFO|DEBUG|TRACE):\s{2,}(?P<words>.*)$", re.S)
_UVICORN_WORDS = re.compile(
    r"(?:Application (?:startup|shutdown) complete\.|Waiting for (?:application (?:startup|shutdown)\.|connections to "
    r"close\.[^\r\n]*|background tasks to complete\.[^\r\n]*)|(?:Started|Finished) server process \[\d{1,10}\]"
    r"|Shutting down|connection (?:open|closed)|Uvicorn running on [^\r\n]{1,200})\s*$"
)


def is_access(text):
    """Tell whether a line (without control sequences) is a web server's record of a request, whole or cut.

    Such a record is no event of the engine, whatever it holds.
    """
    if ("HTTP/" in text or '"WebSocket ' in text) and _ACCESS_END.search(text):
        return True
    if ("processing" in text or "http_request{" in text) and _ROUTER_REQUEST.search(text):
        return True
    return is_access_head(text)


def is_access_head(text):
    """Tell whether a line begins as an access record of uvicorn does, behind progress bars or not."""
    if not ("INFO:  " in text or "DEBUG:  " in text or "TRACE:  " in text):
        return False
    match = _UVICORN.match(skip_bars(text).lstrip())
    return bool(match and not _UVICORN_WORDS.match(match.group("words")))


def access_status(text):
    """The end of an access record from ``HTTP/`` to the status, without any word of the client, else an empty text.

    >>> access_status('INFO:     10.0.0.1:5 - "GET /x HTTP/1.1" 500 Internal Server Error')
    'HTTP/1.1" 500'
    """
    match = _STATUS.search(text)
    if match is None and not is_access_head(text):
        match = _PROXY_STATUS.search(text)
    return match.group("status") if match else ""


# -- events -----------------------------------------------------------------------------------------------------

#: ``kind``: alloc, cut, fatal, mark, loss or text; ``code``: name from the tables; ``data``: dict;
#: ``tags``: rank; ``text``: the message without prefixes; ``time``: SGLang's own time stamp as written.
Event = namedtuple("Event", "kind code data tags text time")

_CUT = re.compile(r"Allocating(?: \d| [A-Za-z][\w.-]* hierarchical\b)")
_CUT_PREFIX = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\[\]\r\n]{0,80}$")
#: SGLang's own prefix, whole: what follows another text on the same line counts behind it alone.
OWN_PREFIX = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: " + _TAG + r")*\] ")
# More than this holds no text of the tables: it is a piece of something that a client sent.
_LONGEST = 32768
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,15})?")
_GLUED = re.compile(
    r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?(?: "
    + _TAG
    + r")*\] Allocating [^\r\n]{1,200}(?:KV cache|host memory)\.\s*$"
)
_QUOTED = re.compile(r"(?:Receive|Finish): obj=|\b(?:text|prompt|messages|content|input_ids|body)['\"]?\s*[=:]")


def is_dump(text):
    """Tell whether a message shows a user's request, whose text may hold anything."""
    return bool(_QUOTED.search(text[:4000]))


def _alloc_event(pool, match, prefix):
    groups = match.groupdict()
    label = groups.get("label")
    role = LABEL_ROLES.get(label, "side") if pool.role == "by_label" else pool.role
    data = {
        "role": role,
        "pool": label or pool.name,
        "gb": float(groups["gb"]),
        "tokens": int(groups["tokens"]) if groups.get("tokens") else None,
        "labelled": pool.role == "by_label",
        "item": groups.get("item"),
        "packed": None,
    }
    if groups.get("total_layers"):
        data["packed"] = (int(groups["target_layers"]), int(groups["total_layers"]))
    return Event("alloc", pool.name, data, prefix.tags, match.group(0), prefix.time)


_REPEATED = re.compile(r"(?:message repeated (?P<times>\d{1,6}) times: \[ ?)(?P<text>.*)\]\s*$", re.S)


def repeated(text):
    """Undo what rsyslog makes of equal lines: returns ``(times, text of the line)``."""
    match = _REPEATED.match(text)
    return (int(match.group("times")), match.group("text")) if match else (1, text)


def _looks_cut(prefix):
    """Tell whether a message is the beginning of an allocation line that lacks its end."""
    if _CUT.match(prefix.rest):
        return True
    if prefix.had_app:
        return 0 < len(prefix.rest) < 40 and _is_beginning(prefix.rest)
    return bool(_CUT_PREFIX.match(prefix.rest))


def _is_beginning(rest):
    word, label, more = (*rest.split(" "), "", "")[:3]
    if word != "Allocating":
        return "Allocating ".startswith(rest)
    if label in LABEL_ROLES:
        return "hierarchical".startswith(more)
    return not more and any(known.startswith(label) for known in LABEL_ROLES)


def parse_segment(text, writer="app"):
    """Read one line of one writer and return its events (a list, empty for a line that says nothing).

    ``writer`` is app, systemd, kernel, journald, journalctl, rsyslog or None (unknown: a text without source).
    Never raises, whatever the text.
    """
    text = strip_ansi(text).strip()
    if not text or (writer in ("app", None) and is_access(text)):
        return []
    for code, pattern, source in LOSSES:
        if source is None or writer in (None, source):
            match = pattern.match(text)
            if match:
                return [Event("loss", code, match.groupdict(), (), text, None)]
    if writer in ("systemd", "kernel", None):
        for fatal in FATALS:
            if fatal.writer != "app" and writer in (None, fatal.writer):
                match = fatal.regex.match(text)
                if match:
                    return [Event("fatal", fatal.code, _fatal_data(fatal, match), (), text, None)]
    if writer in ("app", None):
        return _parse_app(text)
    return []


def _fatal_data(fatal, match):
    data = {key: value for key, value in match.groupdict().items() if value is not None}
    data.update(effect=fatal.effect, advice=fatal.advice, writer=fatal.writer)
    return data


def _parse_app(text):
    events = []
    rest = skip_bars(text)
    after_bar = rest is not text and rest != text
    for _turn in range(8):
        prefix = split_prefix(rest)
        found = _parse_words(prefix, text)
        if found is None:
            break
        event, end = found
        events.append(event)
        rest = prefix.rest[end:].strip() if end else ""
        # Two processes on one stream may lose the line break between their lines.
        if not rest or not OWN_PREFIX.match(rest):
            break
    if events and events[-1].kind == "mark" and events[-1].code not in ("request", "server_args"):
        glued = _GLUED.search(events[-1].text)
        if glued and not is_dump(events[-1].text):
            other = split_prefix(glued.group(0))
            events.append(Event("unclear", "glued", {}, other.tags, glued.group(0), other.time))
    if not events:
        rest = prefix.rest
        kind = "text"
        if not after_bar and _GLUED.search(text) and not is_dump(text):
            kind = "unclear"
            glued = split_prefix(_GLUED.search(text).group(0))
            return [Event(kind, "glued", {}, glued.tags, text, glued.time)]
        events.append(Event(kind, None, {"had_app": prefix.had_app}, prefix.tags, rest, prefix.time))
    return events


def _parse_words(prefix, whole):
    rest = prefix.rest
    if len(rest) > _LONGEST and not rest.startswith("server_args="):
        return None
    if rest.startswith(("Allocating ", "MLATokenToKVPoolHost dummy")):
        for pool in POOLS:
            match = pool.regex.match(rest)
            if not match:
                continue
            tail = rest[match.end() :].strip()
            if tail and not OWN_PREFIX.match(tail):
                continue
            return _alloc_event(pool, match, prefix), match.end()
    if _looks_cut(prefix):
        # journalctl and systemctl leave the last tenth of a line behind the mark.
        hidden = "\u2026" in rest or "..." in rest
        return Event("cut", "ellipsis" if hidden else "cut", {}, prefix.tags, rest, prefix.time), 0
    for mark in MARKS:
        match = mark.regex.match(rest)
        if match:
            data = {key: value for key, value in match.groupdict().items() if value is not None}
            if mark.code == "server_args":
                data = parse_server_args(whole_settings(rest))
            elif mark.code in ("device_tokens", "device_pool") and match.end("tokens") == len(rest):
                # The figure may go on where the line was cut.
                return Event("cut", "figure", {}, prefix.tags, rest, prefix.time), 0
            return Event("mark", mark.code, data, prefix.tags, rest, prefix.time), 0
    # uvicorn writes "ERROR:    [Errno 98] ...": its level word is part of the table's text or taken off as prefix.
    for fatal in FATALS:
        if fatal.writer == "app":
            match = fatal.regex.match(rest)
            if match:
                return Event("fatal", fatal.code, _fatal_data(fatal, match), prefix.tags, rest, prefix.time), 0
    return None


# Words, quoted texts and brackets of a Python call or dict; a quote that is never closed ends the reading.
_ARG_TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[()\[\]{}]|,|[^'"()\[\]{},]+""", re.S)
_ARG_ITEM = re.compile(r"""\s*['"]?([a-z]\w{0,79})['"]?\s*[=:]\s*(.*\S)\s*""", re.S)
# Names whose values may hold a key; those are never kept. A number of tokens is none.
_ARG_HIDDEN = re.compile(r"key|token(?!s)|tokens_|secret|passw|credential|auth|config|json|header|cookie|extra|env")
_MAX_ARGS = 800
_ARG_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?")

#: Settings that are numbers, and numbers only.
_NUMBERS = frozenset(
    (
        *("tp_size", "pp_size", "dp_size", "dcp_size", "nnodes", "node_rank", "page_size", "hicache_ratio"),
        *("hicache_size", "max_total_tokens", "port", "mem_fraction_static", "context_length"),
        *("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens"),
    )
)


def whole_settings(text):
    """The text of ``server_args=ServerArgs(...)`` as far as its settings are whole: a line may end in one of them."""
    return text if text.rstrip().endswith((")", "}")) else text[: max(text.rfind(","), 0)]


_QUIET = re.compile(r"--log-level[= ](?P<level>warn(?:ing)?|error|critical)\b")


def quiet_level(command):
    """The log level above info that a command line asks for, else None."""
    match = _QUIET.search(command or "")
    return match.group("level") if match else None


def parse_server_args(text):
    """Read the settings of a ``server_args=`` line, a call (``ServerArgs(...)``, to 0.5.19) or a dict (from 0.5.20).

    Returns ``{name: value}`` of every argument of its own whose value is None, a truth value, a number or a text; what
    stands inside of lists, dicts and quoted texts is no argument. Values whose names could be those of keys are left
    out, as is the last value of a line that was cut. Never raises.
    """
    _head, _sign, body = text.partition("server_args=")
    found, item, depth = {}, [], 0
    opened = re.match(r"\s*\w*\s*[({]", body)
    position = opened.end() if opened else 0
    while position < len(body) and len(found) < _MAX_ARGS:
        match = _ARG_TOKEN.match(body, position)
        if not match:
            break
        token, position = match.group(0), match.end()
        if token in "([{":
            depth += 1
        elif token in ")]}":
            depth -= 1
        if depth < 0 or (depth == 0 and token == ","):
            _take_argument("".join(item), found)
            item = []
            if depth < 0:
                break
        elif len(item) < 64:
            item.append(token)
    return found


def _take_argument(text, found):
    match = _ARG_ITEM.fullmatch(text)
    if not match:
        return
    name, value = match.groups()
    if name in found or len(value) > 1000 or _ARG_HIDDEN.search(name):
        return
    if value in ("True", "true", "False", "false"):
        value = value in ("True", "true")
    elif value in ("None", "null"):
        value = None
    elif _ARG_NUMBER.fullmatch(value):
        value = float(value) if re.search(r"[.e]", value) else int(value)
    elif value[0] in "'\"":
        if value[0] != value[-1] or len(value) < 2:
            return
        value = value[1:-1]
    elif re.search(r"[\[\](){}]", value):
        return
    if name in _NUMBERS and (isinstance(value, (bool, str)) or value in (float("inf"),)):
        return
    found[name] = value


# -- JSON messages ------------------------------------------------------------------------------------------------

_MESSAGE_KEYS = ("MESSAGE", "message", "msg", "log", "text", "event", "body", "@message")


def json_message(text):
    """Return ``(message, tags, object)`` of a line that is one JSON object of a structured logger, else None.

    ``tags`` holds a rank that the object names in a field of its own (``tp_rank`` and so on).
    """
    text = text.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    message = None
    for holder in (data, data.get("fields")):
        if isinstance(holder, dict):
            for key in _MESSAGE_KEYS:
                if isinstance(holder.get(key), str):
                    message = holder[key]
                    break
        if message is not None:
            break
    if message is None:
        return None
    tags = []
    for key in ("dp_rank", "pp_rank", "attn_cp_rank", "moe_dp_rank", "tp_rank", "ep_rank"):
        value = data.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**6:
            tags.append((key[: -len("_rank")].upper(), value))
    return message, tuple(tags), data
