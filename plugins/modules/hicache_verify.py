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
  - The arguments that the start itself prints are evidence too. Where they differ from what was asked for, the verdict
    is C(fail) whatever was allocated.
  - A size that was asked for and cannot be compared is never C(pass).
  - An answer over HTTP counts only where the listening socket belongs to the unit's control group.
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
      - V(0) means that HiCache is off. Then a host pool that is reported fails, and readiness decides. The pools that
        a decode server makes for retracted requests (SGLang 0.5.18 and newer) are no HiCache and are expected.
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
      - A start whose own arguments have another ratio, or a size, which wins over a ratio, fails.
    type: float
  hicache_size:
    description:
      - The size in GB per rank that the server was asked for instead of a ratio.
      - From SGLang 0.5.17 this is one budget for the full, SWA and Mamba pools of a rank together. Before, each has it.
    type: float
  bytes_per_token:
    description:
      - Bytes that one token takes in the main pool of one rank. For MLA models it is not divided by the
        tensor-parallel size; V(70272) for Kimi-K2.5 with a bf16 KV cache.
      - Without it, and without O(model_path), sizes predicted from a ratio can be compared in tokens only, or with
        the rounded size of the pool on the device. Where neither is logged the verdict is C(inconclusive).
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
      - The type of the KV cache is what the start's own line about the pool on the device says, else its
        C(--kv-cache-dtype), else what the checkpoint says, else 16 bits. The parallel layout is the start's own, else
        the one of the options below.
    type: path
  draft_model_path:
    description:
      - The same for the draft model and O(draft_bytes_per_token).
      - A model that carries its own draft layers (MTP) may be named here again; those layers alone count then.
    type: path
  tensor_parallel_size:
    description:
      - SGLang's C(--tp-size), the tensor-parallel ranks of the whole service. For O(model_path) and
        O(draft_model_path), where the start does not print its layout; without either it is V(1).
      - This and the other sizes of the layout are compared with the start's own arguments where they are given.
    type: int
  data_parallel_size:
    description: SGLang's C(--dp-size).
    type: int
  dp_attention_enabled:
    description: Whether the service has C(--enable-dp-attention). Then each rank holds more of the KV heads.
    type: bool
  pipeline_parallel_size:
    description: SGLang's C(--pp-size), the number of pipeline stages. Each stage holds a part of the layers.
    type: int
  decode_context_parallel_size:
    description: SGLang's C(--dcp-size).
    type: int
  nodes:
    description: SGLang's C(--nnodes), the hosts of the service.
    type: int
  node_rank:
    description: SGLang's C(--node-rank) of this host.
    type: int
  kv_cache_dtype:
    description:
      - SGLang's C(--kv-cache-dtype); empty or V(auto) is the model's own type.
      - A start whose own arguments have another one fails.
    type: str
  draft_kv_cache_dtype:
    description: SGLang's C(--speculative-draft-kv-cache-dtype); by default the draft has the target's type.
    type: str
  expected_settings:
    description:
      - What the service was deployed with, by the names that the start prints in C(server_args), such as
        C(hicache_ratio), C(speculative_algorithm), C(kv_cache_dtype), C(port) or C(model_path).
      - A start whose own arguments have another value fails with the code RV(ignore:settings_differ). Empty values and
        V(auto) leave the choice to the engine. A size above 0 wins over a ratio on either side.
      - What a release resolves by itself is no difference (V(NEXTN) and V(EAGLE), page sizes and memory layouts that
        a backend imposes). Arguments that it may change are only noted.
    type: dict
  page_size:
    description:
      - Tokens of a page, where the start's own arguments do not name them; by default V(1).
      - A start whose own arguments have another one, which no backend imposes, fails.
    type: int
  release:
    description:
      - Release of SGLang, such as V(0.5.23). It decides the page rule and whether a draft pool has to be there.
      - By default inferred from the wording of the lines.
    type: str
  tolerance_gb:
    description:
      - How many GB a size may differ from the expected one.
      - A tolerance above 0.05 GB and a tenth of the expected size tells sizes apart no more; then the verdict is
        C(inconclusive) unless tokens can be compared.
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
      - Before it, O(metrics_url) or O(server_info_url) is believed, the process that listens there has to be one of the
        unit. Another process fails with the code RV(ignore:port_taken).
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
          C(line_cut), C(allocation_failed), C(hicache_off), C(main_pool_missing), C(no_allocation_line),
          C(unknown_wording), C(retraction_pool)."
        - "Sizes: C(size_wrong), C(size_zero), C(sizes_differ), C(size_not_compared), C(bytes_per_token_wrong),
          C(geometry_unknown), C(draft_size_wrong), C(draft_missing), C(draft_not_compared)."
        - "The start's own arguments: C(settings_differ), C(settings_resolved)."
        - "Evidence that is missing or hidden: C(evidence_lost), C(rate_limited), C(blob), C(null_message),
          C(oversize_message), C(damaged_message), C(cut_lines), C(lines_wrapped), C(input_cut), C(unclear_line),
          C(start_rotated_away), C(journal_empty), C(journal_damaged), C(journal_unreadable), C(no_permission),
          C(log_level)."
        - "What the server said before it died: C(host_memory_refused), C(host_pool_too_small), C(pool_not_supported),
          C(pin_failed), C(host_out_of_memory), C(gpu_out_of_memory), C(cuda_graph_failed), C(cuda_error),
          C(nccl_error), C(scheduler_exception), C(scheduler_died), C(subprocess_died), C(exit_code),
          C(initialization_failed), C(watchdog_timeout), C(crash), C(port_in_use), C(bad_arguments), C(launch_failed),
          C(last_error). What the unit's own helper said: C(start_timed_out), C(leftovers)."
        - "What systemd, the kernel and containers said: C(killed_by_oom), C(killed_by_oomd), C(main_process_exited),
          C(unit_failed), C(unit_inactive), C(unit_not_found), C(unit_stopped), C(start_timed_out),
          C(restart_scheduled), C(restarted), C(restarts), C(container_exited)."
        - "Readiness and witnesses: C(ready), C(not_ready), C(said_and_serving), C(readiness_not_asked), C(healthy),
          C(unhealthy), C(health_unknown), C(port_taken), C(port_owner_unknown), C(metrics_agree),
          C(metrics_differ), C(metrics_absent), C(metrics_show), C(server_info_agrees), C(server_info_differs),
          C(deadline)."
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
bytes_per_token:
  description:
    - Bytes of one token in the main pool of one rank that the sizes were compared with, as given or as the model and
      this start say; null where they are not known or differ between pipeline stages.
  returned: always
  type: int
  sample: 70272
draft_bytes_per_token:
  description: The same of the draft's pool.
  returned: always
  type: int
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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_judge
from ansible_collections.llmfleet.sglang.plugins.module_utils._hicache.verifier import (
    ARGUMENT_SPEC,
    Verifier,
    check_parameters,
)


def make_module():
    """The module, or an answer that names the number which is larger than any float."""
    try:
        return AnsibleModule(
            argument_spec=ARGUMENT_SPEC,
            mutually_exclusive=[("journal_files", "log_file"), ("ratio", "hicache_size")],
            required_one_of=[("ranks", "rank_set")],
            supports_check_mode=True,
        )
    except OverflowError:
        raw = AnsibleModule(argument_spec={name: {"type": "raw"} for name in ARGUMENT_SPEC}, supports_check_mode=True)
        for name, spec in ARGUMENT_SPEC.items():
            value = raw.params[name]
            if spec["type"] in ("float", "int") and isinstance(value, int) and abs(value) > 10**20:
                raw.fail_json(msg=f"{name} is a number of more than 20 digits: give the value of the server.")
        raw.fail_json(msg="A number is larger than any server has: give the values of the server.")


def main():
    module = make_module()
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
