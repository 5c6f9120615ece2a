#!/usr/bin/python
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hicache_verify
short_description: Prove from the journal that an SGLang start allocated its HiCache host memory
version_added: 0.1.0
author:
  - llmfleet contributors (@llmfleet)
description:
  - Reads what one start of an SGLang service has logged, counts the ranks that reported a HiCache host pool, compares
    each size with the predicted one, and sees whether this same start failed or became ready.
  - The answer is C(pass), C(fail) or C(inconclusive), always with reasons. It is C(inconclusive) where messages were
    lost or hidden, because a log with holes proves neither success nor failure.
  - Lines alone never pass. SGLang prints them before it allocates and pins the memory, so the same start has to become
    ready as well.
  - Without O(journal_files) and O(log_file) the host's journal is read, bound to the unit's current invocation.
    Lines of an earlier start are never counted.
  - Knows the texts of SGLang 0.4.6 to 0.5.23. GB means 10**9 bytes, the unit that SGLang prints for host pools.
options:
  unit:
    description:
      - Name of the systemd unit, such as V(sglang-kimi.service). A name without a type means a service.
      - Required unless O(log_file) is given; a saved log of several units needs it as well.
    type: str
  invocation_id:
    description:
      - The start to judge, 32 hexadecimal digits as C(systemctl show --property=InvocationID) prints.
      - By default the unit's current start, and for O(journal_files) and O(log_file) the newest start in them.
      - A start that is not the current one any more fails with the code RV(ignore:restarted).
    type: str
  journal_files:
    description: Read these journal files of the target host instead of its journal.
    type: list
    elements: path
  log_file:
    description:
      - Read this saved log of the target host instead of its journal. Files that end in C(.gz), C(.bz2) or C(.xz) are
        decompressed.
      - "The form is found line by line: journalctl short, short-iso, short-full, short-unix, cat, json, json-pretty and
        export; dmesg; rsyslog; Docker, Compose, kubectl and CRI; JSON lines; plain output."
    type: path
  ranks:
    description:
      - Number of ranks that this host runs, for one node the product of the parallel sizes.
      - V(0) means that HiCache is off. Then a host pool that is reported fails, and readiness decides.
      - One of O(ranks) and O(rank_set) is required.
    type: int
  rank_set:
    description:
      - The ranks that this host runs, each a number (V(8)), a span (V(8-15)) or a name (V(PP1 TP3)).
      - Wins over O(ranks). On the second node of two with 8 GPUs each it is V(8-15).
    type: list
    elements: str
  expected_gb:
    description: Size in GB of each rank's main pool. Wins over what is predicted from the options below.
    type: float
  ratio:
    description:
      - The ratio of host pool to device pool that the server was asked for.
      - The size is predicted from the device tokens that the same start logged, this ratio, the page rule of the
        release and O(bytes_per_token).
    type: float
  hicache_size:
    description: The size in GB per rank that the server was asked for instead of a ratio.
    type: float
  bytes_per_token:
    description:
      - Bytes that one token takes in the main pool of one rank. For MLA models it is not divided by the
        tensor-parallel size; V(70272) for Kimi-K2.5 with a bf16 KV cache.
      - Without it, sizes predicted from a ratio can be compared in tokens only.
    type: int
  draft_bytes_per_token:
    description:
      - Bytes that one token takes in the draft model's pool of one rank.
      - When given, each rank's draft pool is checked too. SGLang before 0.5.11 has none.
    type: int
  model_path:
    description:
      - Folder of the model on the target host. Its C(config.json) gives O(bytes_per_token) where that is left out;
        a file that cannot be read, and an architecture that is not known, give nothing.
      - Leave it out where each rank holds a part of the layers only (pipeline parallelism).
    type: path
  draft_model_path:
    description: The same for the draft model and O(draft_bytes_per_token).
    type: path
  tensor_parallel_size:
    description:
      - Number of tensor-parallel ranks of the whole service, among which the heads of a model with MHA or GQA are
        divided. For O(model_path) and O(draft_model_path).
    type: int
    default: 1
  kv_cache_dtype:
    description: SGLang's C(--kv-cache-dtype), for the same; empty or V(auto) is the model's own type.
    type: str
  page_size:
    description: Tokens of a page. By default what the server's logged arguments say, else V(1).
    type: int
  release:
    description:
      - Release of SGLang, such as V(0.5.23). It decides the page rule and whether a draft pool has to be there.
      - By default inferred from the wording of the lines.
    type: str
  tolerance_gb:
    description: How many GB a size may differ from the expected one.
    type: float
    default: 0.01
  readiness:
    description:
      - What has to prove that this start became ready.
      - V(auto) wants the ready line, and the health address too where O(health_url) is given. Where the line may have
        been lost, or this is not node 0, the health address alone is enough.
      - V(line) wants the line alone. V(health) wants the health address alone.
      - V(none) asks for no readiness. The nodes after the first print no ready line.
    type: str
    choices: [auto, line, health, none]
    default: auto
  health_url:
    description:
      - Address that answers 200 when the server can generate, such as V(http://127.0.0.1:30000/health_generate).
      - Asked only when all ranks have reported, and not for saved logs.
    type: str
  metrics_url:
    description:
      - Address of the server's metrics. C(sglang:hicache_host_total_tokens) is compared with the lines as a second
        witness, where the server offers it (SGLang 0.5.10 and newer with metrics on).
    type: str
  server_info_url:
    description: Address of the server's C(/server_info). Ratio, size and device tokens are compared with the log.
    type: str
  api_key:
    description: Key for O(server_info_url), which needs it where the server has one.
    type: str
  timeout:
    description:
      - How many seconds to wait for a start that is not complete yet. V(0) judges once what is there.
      - Waiting ends at once when the verdict is certain, for example because the unit died. A model of hundreds of GB
        can load for more than half an hour.
    type: int
    default: 0
  poll_interval:
    description: Seconds between two looks at the journal. Each look continues where the last one stopped.
    type: float
    default: 5
  fail_on:
    description: Verdicts that make the task fail. An empty list only reports.
    type: list
    elements: str
    choices: [fail, inconclusive]
    default: [fail, inconclusive]
extends_documentation_fragment:
  - llmfleet.sglang.attributes
attributes:
  check_mode:
    details: The module reads only, so check mode does the same work.
  platform:
    details: Needs systemd 252 or newer unless a saved log is read.
notes:
  - Reading other users' messages needs root or the group C(systemd-journal); use C(become).
  - A saved log is judged as it is, O(timeout), O(health_url) and the other addresses are not used for it.
seealso:
  - name: HiCache of SGLang
    description: What the host pools are for.
    link: https://docs.sglang.io/
"""

EXAMPLES = r"""
- name: Wait for the start and prove its host memory
  llmfleet.sglang.hicache_verify:
    unit: sglang-kimi.service
    ranks: 8
    ratio: 4.0
    bytes_per_token: 70272
    release: 0.5.23
    health_url: http://127.0.0.1:30000/health_generate
    timeout: 3600
  become: true

- name: Judge the second node of a pair, which prints no ready line
  llmfleet.sglang.hicache_verify:
    unit: sglang-kimi.service
    rank_set: [8-15]
    expected_gb: 44.77
    readiness: none
  become: true

- name: Look at a saved log without failing
  llmfleet.sglang.hicache_verify:
    log_file: /var/tmp/sglang.log
    ranks: 8
    fail_on: []
  register: result
"""

RETURN = r"""
verdict:
  description:
    - V(pass) when all ranks allocated the right size and this start became ready.
    - V(fail) when the allocation failed or the start died. V(inconclusive) in every other case.
  returned: always
  type: str
  sample: pass
allocation_verdict:
  description: The verdict on the allocation lines alone.
  returned: always
  type: str
  sample: pass
reasons:
  description: Why, in the order in which it was found.
  returned: always
  type: list
  elements: dict
  contains:
    code:
      description:
        - Stable code.
        - "Allocation: C(allocated), C(no_pool_expected), C(rank_missing), C(unexpected_rank), C(doubled_rank),
          C(line_cut), C(allocation_failed), C(hicache_off), C(main_pool_missing), C(no_allocation_line)."
        - "Sizes: C(size_wrong), C(size_zero), C(sizes_differ), C(size_not_compared), C(bytes_per_token_wrong),
          C(settings_differ), C(draft_size_wrong), C(draft_missing)."
        - "Evidence that is missing or hidden: C(evidence_lost), C(rate_limited), C(blob), C(null_message),
          C(oversize_message), C(damaged_message), C(cut_lines), C(input_cut), C(unclear_line), C(start_rotated_away),
          C(journal_empty), C(journal_damaged), C(journal_unreadable), C(no_permission), C(log_level)."
        - "What the server said before it died: C(host_memory_refused), C(host_pool_too_small), C(pool_not_supported),
          C(pin_failed), C(host_out_of_memory), C(gpu_out_of_memory), C(cuda_graph_failed), C(cuda_error),
          C(nccl_error), C(scheduler_exception), C(scheduler_died), C(subprocess_died), C(exit_code),
          C(initialization_failed), C(watchdog_timeout), C(crash), C(port_in_use), C(bad_arguments), C(last_error).
          What the unit's own helper said: C(start_timed_out), C(leftovers)."
        - "What systemd, the kernel and containers said: C(killed_by_oom), C(killed_by_oomd), C(main_process_exited),
          C(unit_failed), C(unit_inactive), C(unit_not_found), C(unit_stopped), C(start_timed_out),
          C(restart_scheduled), C(restarted), C(restarts), C(container_exited)."
        - "Readiness and witnesses: C(ready), C(not_ready), C(readiness_not_asked), C(healthy), C(unhealthy),
          C(health_unknown), C(metrics_agree), C(metrics_differ), C(metrics_absent), C(metrics_show),
          C(server_info_agrees), C(server_info_differs), C(deadline)."
      type: str
    message:
      description: What was seen, what was expected, and what to do. Keys and tokens are masked.
      type: str
    verdict:
      description: "What the reason speaks for: pass, fail, inconclusive, or note."
      type: str
ranks:
  description: Every pool that takes host memory, by rank.
  returned: always
  type: list
  elements: dict
  contains:
    rank:
      description: Name of the rank, such as V(TP3) or V(PP0 TP3); a process or number where the log names no rank.
      type: str
    pool:
      description: V(kv) or V(full) for the main pool, V(draft), or the name of another pool.
      type: str
    gb:
      description: Size in GB (10**9 bytes).
      type: float
    tokens:
      description: Size in tokens, where the release prints it.
      type: int
ranks_seen:
  description: Number of ranks that reported a main pool.
  returned: always
  type: int
  sample: 8
ranks_expected:
  description: Number of ranks that was expected.
  returned: always
  type: int
  sample: 8
ranks_missing:
  description: Names of the ranks that did not report, as far as they can be told.
  returned: always
  type: list
  elements: str
per_rank_gb:
  description: The different sizes in GB that were seen, main pools first, then draft pools.
  returned: always
  type: list
  elements: float
  sample: [44.77, 0.73]
total_gb:
  description: GB of all pools of all ranks together, the host memory that HiCache takes.
  returned: always
  type: float
  sample: 364.0
expected_gb:
  description: GB that each rank's main pool was expected to have, or null when nothing allows a prediction.
  returned: always
  type: float
  sample: 44.77
device_tokens:
  description: Tokens of the device pool that this start logged, or null.
  returned: always
  type: int
  sample: 159270
invocation_id:
  description: The start that was judged, or null for a log that does not name it.
  returned: always
  type: str
ready:
  description: Whether this start is known to have become ready.
  returned: always
  type: bool
lost:
  description: What is known to be missing or hidden, with C(code), C(message) and C(count).
  returned: always
  type: list
  elements: dict
fatal:
  description: Messages that say that this start or its allocation failed, with C(code), C(rank), C(message) and C(at).
  returned: always
  type: list
  elements: dict
started_at:
  description: When this start began, in UTC, or as the log writes it where it names no zone.
  returned: always
  type: str
  sample: "2026-03-01T23:45:06.745533Z"
ready_at:
  description: When this start said that it is ready.
  returned: always
  type: str
seconds_to_ready:
  description: Seconds between the two, or null.
  returned: always
  type: float
progress:
  description: The last message that shows how far the start got, masked and cut.
  returned: always
  type: str
messages:
  description: Number of messages of this start that were read.
  returned: always
  type: int
summary:
  description: The verdict in one line.
  returned: always
  type: str
  sample: "pass: 8 of 8 ranks, 44.77 GB each (expected 44.77 GB), 358.16 GB in total"
"""

import bz2
import gzip
import lzma
import os
import time
import zlib

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.llmfleet.sglang.plugins.module_utils import (
    command_output,
    hicache_judge,
    hicache_size,
    hicache_witness,
    journal,
    kv_geometry,
)
from ansible_collections.llmfleet.sglang.plugins.module_utils.hicache_evidence import Evidence, read_log

PROBE_TIMEOUT = 30

ARGUMENT_SPEC = {
    "unit": {"type": "str"},
    "invocation_id": {"type": "str"},
    "journal_files": {"type": "list", "elements": "path"},
    "log_file": {"type": "path"},
    "ranks": {"type": "int"},
    "rank_set": {"type": "list", "elements": "str"},
    "expected_gb": {"type": "float"},
    "ratio": {"type": "float"},
    "hicache_size": {"type": "float"},
    "bytes_per_token": {"type": "int", "no_log": False},
    "draft_bytes_per_token": {"type": "int", "no_log": False},
    "model_path": {"type": "path"},
    "draft_model_path": {"type": "path"},
    "tensor_parallel_size": {"type": "int", "default": 1},
    "kv_cache_dtype": {"type": "str"},
    "page_size": {"type": "int"},
    "release": {"type": "str"},
    "tolerance_gb": {"type": "float", "default": 0.01},
    "readiness": {"type": "str", "choices": ["auto", "line", "health", "none"], "default": "auto"},
    "health_url": {"type": "str"},
    "metrics_url": {"type": "str"},
    "server_info_url": {"type": "str"},
    "api_key": {"type": "str", "no_log": True},
    "timeout": {"type": "int", "default": 0},
    "poll_interval": {"type": "float", "default": 5},
    "fail_on": {
        "type": "list",
        "elements": "str",
        "choices": ["fail", "inconclusive"],
        "default": ["fail", "inconclusive"],
    },
}


def check_parameters(params):
    """Return a sentence that names the first impossible value, or None."""
    above_zero = (
        "ratio",
        "bytes_per_token",
        "draft_bytes_per_token",
        "tensor_parallel_size",
        "page_size",
        "hicache_size",
        "expected_gb",
    )
    for name in above_zero:
        value = params[name]
        if value is not None and not value > 0:
            return f"{name} is {value}: it has to be above 0. Give the value of the server, or leave the option out."
    for name in ("tolerance_gb", "timeout", "ranks"):
        if params[name] is not None and not params[name] >= 0:
            return f"{name} is {params[name]}: it has to be 0 or more."
    if not params["poll_interval"] >= 0.1:
        return f"poll_interval is {params['poll_interval']}: it has to be 0.1 seconds or more."
    try:
        if params["release"] is not None:
            hicache_size.parse_release(params["release"])
        if params["rank_set"] is not None:
            wanted = hicache_judge.parse_rank_set(params["rank_set"])
            if params["ranks"] is not None and params["ranks"] != len(wanted):
                return f"ranks is {params['ranks']}, but rank_set names {len(wanted)} ranks. Leave ranks out."
    except ValueError as error:
        return f"{error}."
    if params["invocation_id"] is not None and not journal.is_invocation_id(params["invocation_id"]):
        return (
            f"invocation_id is {params['invocation_id']!r}: it has to be 32 hexadecimal digits, as systemctl show "
            "--property=InvocationID prints."
        )
    if not params["unit"] and not params["log_file"]:
        return "unit is missing: name the systemd unit whose journal is to be read, such as sglang-kimi.service."
    if params["unit"] and not hicache_witness.is_unit_name(params["unit"]):
        return (
            f"unit is {params['unit']!r}, which cannot be the name of a unit. Use a name such as sglang-kimi.service."
        )
    if params["readiness"] == "health" and not params["health_url"] and not params["log_file"]:
        return "readiness is health and health_url is missing: give the address to ask."
    return None


def with_geometry(params):
    """The parameters with bytes per token of the models whose folders are given, as far as those are known."""
    found = dict(params)
    for name, folder in (("bytes_per_token", "model_path"), ("draft_bytes_per_token", "draft_model_path")):
        if found[name] is None and found[folder]:
            found[name] = kv_geometry.folder_bytes_per_token(
                found[folder], found["tensor_parallel_size"], found["kv_cache_dtype"] or None
            )
    return found


class Verifier:
    """One run of the module."""

    def __init__(self, module):
        self.module = module
        self.params = module.params
        self.unit = journal.full_unit_name(self.params["unit"]) if self.params["unit"] else None
        known = with_geometry(self.params)
        self.ask = hicache_judge.Ask(**{name: known[name] for name in hicache_judge.Ask._fields})
        self.began = time.monotonic()
        self.evidence = None
        self.stream = None
        self.cursor = None
        self.environment = dict(os.environ, LC_ALL="C", LANGUAGE="C", SYSTEMD_COLORS="0", SYSTEMD_PAGER="")

    def remaining(self):
        return self.params["timeout"] - (time.monotonic() - self.began)

    # -- reading --------------------------------------------------------------------------------------------------

    def journalctl(self, argv, take):
        """Run journalctl and hand its output to ``take`` block by block; returns status and standard error."""
        return command_output.hand_on(argv, take, self.environment)

    def lines(self, argv):
        """Run journalctl for few lines; returns the lines as bytes and its words."""
        blocks = []

        def take(block):
            if sum(len(one) for one in blocks) < 16 * 1024 * 1024:
                blocks.append(block)

        _code, said = self.journalctl(argv, take)
        return b"".join(blocks).splitlines(), said

    def read_on(self, invocation, files):
        """Read the journal of one start from where the last look stopped."""
        argv = journal.journal_argv(
            invocation, self.module.get_bin_path("journalctl", required=True), files, self.cursor
        )
        stream = journal.JsonStream(lambda: self.evidence.wants_everything)

        def take(block):
            for record in stream.feed(block):
                self.evidence.feed(record)

        code, said = self.journalctl(argv, take)
        for record in stream.close():
            self.evidence.feed(record)
        self.evidence.glance(stream.last)
        self.total += stream.lines
        # What the prefilter left out was read as well: a journal with late lines only is not an empty one.
        self.evidence.start.messages = self.total
        self.cursor = stream.cursor or self.cursor
        self.evidence.note_text(said)
        if self.total == 0 and not files and journal.unreadable():
            self.evidence.lose("no_permission", "the journal could not be read with the rights of this user")
        if code != 0 and stream.lines == 0 and not self.evidence.start.losses:
            words = said.strip().splitlines()
            self.evidence.start.lose("journal_unreadable", f"journalctl failed: {words[0] if words else code}")

    def show(self):
        argv = journal.show_argv(self.unit, self.module.get_bin_path("systemctl", required=True))
        code, out, err = self.module.run_command(argv, environ_update={"LC_ALL": "C", "LANGUAGE": "C"})
        state = journal.parse_show(out)
        if code != 0 and not state:
            self.module.fail_json(
                msg=f"systemctl show {self.unit} failed: {err.strip() or code}. The module needs a host that runs "
                "systemd."
            )
        return state

    # -- sources --------------------------------------------------------------------------------------------------

    def saved_log(self):
        name = self.params["log_file"]
        try:
            with self.open_log(name) as source:
                self.evidence = read_log(source, self.unit, self.params["invocation_id"])
        except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
            self.module.fail_json(
                msg=f"log_file {name} cannot be read: {error}. Give a readable file of the target host."
            )
        result, _phase = hicache_judge.judge(self.evidence.start, self.ask, None, self.evidence.restarts)
        return result

    @staticmethod
    def open_log(name):
        for ending, opener in ((".gz", gzip.open), (".bz2", bz2.open), (".xz", lzma.open)):
            if name.endswith(ending):
                return opener(name, "rb")
        return open(name, "rb")

    def saved_journal(self):
        files = self.params["journal_files"]
        for name in files:
            if not os.access(name, os.R_OK):
                self.module.fail_json(
                    msg=f"journal_files names {name}, which cannot be read. Check the path and the rights."
                )
        invocation = self.params["invocation_id"] or self.newest(files)
        self.total = 0
        self.evidence = Evidence(self.unit, invocation)
        if invocation:
            self.read_on(invocation, files)
        around = hicache_judge.Around(invocation=invocation, bound=bool(invocation))
        result, _phase = hicache_judge.judge(self.evidence.start, self.ask, around, self.evidence.restarts)
        result["messages"] = self.total
        return result

    def newest(self, files):
        argv = journal.newest_invocation_argv(self.unit, self.module.get_bin_path("journalctl", required=True), files)
        lines, _said = self.lines(argv)
        for line in lines:
            record = journal.parse_json_line(line)
            if record is not None and record.invocation and record.unit == self.unit:
                return record.invocation
        return None

    def live(self):
        state = self.show()
        invocation = self.params["invocation_id"] or state.get("InvocationID") or None
        self.total = 0
        self.evidence = Evidence(self.unit, invocation)
        settled = None
        looked_again = False
        while True:
            if invocation:
                self.read_on(invocation, ())
            result, phase, _around = self.judge_live(state, invocation, None)
            now = time.monotonic()
            if phase == "done":
                if looked_again or result["verdict"] == "pass":
                    break
                # The messages of a death may reach the journal a moment after the unit's state.
                looked_again = True
                time.sleep(min(0.5, self.params["poll_interval"]))
                state = self.show()
                continue
            if phase == "settle" and settled is None:
                # A notice of dropped messages follows up to a rate limit interval (30 s) later.
                settled = now + (31 if self.total > 1000 else max(2, 2 * self.params["poll_interval"]))
            if not invocation or self.remaining() <= 0 or (phase == "settle" and now >= settled):
                break
            time.sleep(max(0.05, min(self.params["poll_interval"], self.remaining())))
            state = self.show()
        if result["verdict"] != "pass" and invocation:
            if phase != "done" and result["allocation_verdict"] != "pass" and self.params["health_url"]:
                # journald tells of dropped messages only with the next message: make the server write one.
                self.fetch(self.params["health_url"], 10)
                time.sleep(1)
                self.read_on(invocation, ())
            self.read_kernel(result)
        if self.params["metrics_url"] or self.params["server_info_url"] or result["verdict"] != "pass":
            waited = self.params["timeout"] if self.params["timeout"] and self.remaining() <= 0 else None
            result = self.judge_live(state, invocation, waited, last=True)[0]
        result["messages"] = self.total
        return result

    def judge_live(self, state, invocation, waited, last=False):
        around = hicache_judge.Around(
            unit=state,
            invocation=invocation,
            deadline=waited,
            oom_kills=hicache_witness.oom_kills(state.get("ControlGroup")),
            bound=True,
        )
        result, phase = hicache_judge.judge(self.evidence.start, self.ask, around, self.restarts(state))
        if phase != "done" or result["verdict"] == "pass":
            health = self.health(result, last)
            if health is not None:
                around = around._replace(health=health)
        if last and result["allocation_verdict"] != "fail":
            around = around._replace(metrics=self.metrics(), server_info=self.server_info())
        result, phase = hicache_judge.judge(self.evidence.start, self.ask, around, self.restarts(state))
        return result, phase, around

    def restarts(self, state):
        number = state.get("NRestarts") or ""
        return max(self.evidence.restarts, int(number) if number.isdigit() else 0)

    def read_kernel(self, result):
        """Ask the kernel's log why a start is not complete: who was killed for want of memory, and by which limit."""
        since = self.evidence.start.started_at
        if not isinstance(since, float):
            return
        lines, _said = self.lines(journal.kernel_argv(since, self.module.get_bin_path("journalctl", required=True)))
        for line in lines:
            if b"oom" in line or b"ut of memory" in line:
                record = journal.parse_json_line(line)
                if record is not None:
                    self.evidence.feed(record._replace(writer="kernel"))

    # -- the server's own word -------------------------------------------------------------------------------------

    def fetch(self, url, timeout=PROBE_TIMEOUT, key=None):
        """GET an address of the server itself, never through a proxy; returns (status or None, body, error)."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            answer = open_url(url, headers=headers, timeout=timeout, use_proxy=False, http_agent="llmfleet.sglang")
            return answer.getcode(), answer.read(4 * 1024 * 1024), None
        except Exception as error:
            return getattr(error, "code", None), b"", str(getattr(error, "reason", error))

    def health(self, result, last):
        url = self.params["health_url"]
        readiness = self.params["readiness"]
        if not url or readiness in ("line", "none") or result["allocation_verdict"] != "pass":
            return None
        start = self.evidence.start
        # Each question makes the server generate a token and write a line: none before an answer can matter.
        if not (last or start.ready or readiness == "health" or hicache_judge.line_may_be_absent(start)):
            return None
        limit = PROBE_TIMEOUT
        if self.params["timeout"]:
            limit = max(5, min(PROBE_TIMEOUT, self.remaining()))
        return hicache_witness.health(url, *self.fetch(url, limit))

    def metrics(self):
        if not self.params["metrics_url"]:
            return None
        status, body, _error = self.fetch(self.params["metrics_url"])
        return hicache_witness.parse_metrics(body.decode("utf-8", "replace")) if status == 200 else []

    def server_info(self):
        if not self.params["server_info_url"]:
            return None
        status, body, _error = self.fetch(self.params["server_info_url"], key=self.params["api_key"])
        return hicache_witness.parse_server_info(body) if status == 200 else None

    def run(self):
        if self.params["log_file"]:
            return self.saved_log()
        if self.params["journal_files"]:
            return self.saved_journal()
        return self.live()


def main():
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC,
        mutually_exclusive=[("journal_files", "log_file"), ("ratio", "hicache_size")],
        required_one_of=[("ranks", "rank_set")],
        supports_check_mode=True,
    )
    problem = check_parameters(module.params)
    if problem:
        module.fail_json(msg=problem)
    verifier = Verifier(module)
    result = verifier.run()
    result["changed"] = False
    result["summary"] = hicache_judge.summary(result)
    if result["verdict"] in module.params["fail_on"]:
        module.fail_json(msg=hicache_judge.explain(result, verifier.unit or module.params["log_file"]), **result)
    module.exit_json(msg=result["summary"], **result)


if __name__ == "__main__":
    main()
