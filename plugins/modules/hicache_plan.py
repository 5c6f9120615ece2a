#!/usr/bin/python
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hicache_plan
short_description: Tell what a start of SGLang will take of its host's memory, and whether it fits
version_added: 0.1.0
description:
  - Computes the host pools of the hierarchical KV cache (HiCache) of each rank from the model's C(config.json), to the
    byte, and the very line that the release will log for them.
  - Holds the sum against the memory of the host by the rule of the release. Up to 0.5.18 each rank compares alone;
    from 0.5.19 the memory is divided by the ranks of the host; from 0.5.21 limits of control groups count.
  - Reads nothing of the host on which it runs, so that it runs on the controller as well, or where a host is planned
    only. What it needs to know comes from M(llmfleet.sglang.host_info) and M(llmfleet.sglang.gpu_info).
  - What cannot be told is not a failure. RV(fits) is then null, and RV(unknown) says why. An architecture whose KV
    geometry is not known is named there; a size (O(hicache_size)) is held against the memory even so.
  - A decode server (C(disaggregation-mode) C(decode) among O(engine_options)) without HiCache makes a host pool for
    retracted requests by itself from 0.5.18 on, unless its model has MLA. It is planned like any other pool.
  - Models that carry their own draft layers (GLM, DeepSeek, MiMo) need no O(draft_config). From 0.5.18 on those layers
    live in the main pool; before, they have a pool of their own.
  - Units are in the names. GB is 10**9 bytes, as SGLang prints host pools; GiB is 2**30 bytes, as SGLang prints device
    pools, which it calls GB.
author:
  - llmfleet contributors (@llmfleet)
options:
  release:
    description:
      - Release of SGLang. It decides page rule, draft pool, memory rule and wording.
    type: str
    required: true
  hicache_enabled:
    description:
      - SGLang's C(--enable-hierarchical-cache). Without it there are no host pools but those of a decode server, and
        only the weights are judged.
    type: bool
    default: true
  model_config:
    description:
      - Parsed C(config.json) of the model. Without it nothing can be told but the weights, and a size that is too
        large for the host.
      - Where the model's folder has a C(hf_quant_config.json), its content belongs under the key C(hf_quant_config).
        It can tell the type of the KV cache.
    type: dict
  draft_config:
    description:
      - Parsed C(config.json) of the draft model. A model that carries its own draft layers counts those alone.
      - Without it the draft is the model itself where O(draft_expected) is true and the model carries draft layers.
    type: dict
  draft_expected:
    description:
      - Whether there is a draft. Without O(draft_config) and draft layers of the model the plan then cannot tell.
    type: bool
    default: false
  speculative_algorithm:
    description:
      - SGLang's C(--speculative-algorithm). C(EAGLE) and C(NEXTN) run the draft layers of the model itself, which
        0.5.18 and newer keep in the main pool; without it, that is what is taken for such a model.
    type: str
  kv_cache_dtype:
    description:
      - SGLang's C(--kv-cache-dtype). Without it, or with C(auto), it is what the checkpoint asks for, else 16 bits.
    type: str
  tensor_parallel_size:
    description:
      - SGLang's C(--tp-size).
    type: int
    default: 1
  pipeline_parallel_size:
    description:
      - SGLang's C(--pp-size). Each stage holds its own layers.
    type: int
    default: 1
  data_parallel_size:
    description:
      - SGLang's C(--dp-size). Without O(dp_attention_enabled) the whole engine stands that many times on the host.
    type: int
    default: 1
  dp_attention_enabled:
    description:
      - SGLang's C(--enable-dp-attention). The ranks of one attention group share the KV heads.
    type: bool
    default: false
  nodes:
    description:
      - SGLang's C(--nnodes), the number of hosts that one engine spans.
    type: int
    default: 1
  node_rank:
    description:
      - SGLang's C(--node-rank), the number of this host among O(nodes).
    type: int
    default: 0
  engine_options:
    description:
      - Further options of the engine by their name without dashes in front. What is read, and wins over the options of
        this module, is C(tp-size), C(dp-size), C(attn-dp-size), C(enable-dp-attention), C(pp-size), C(dcp-size),
        C(attn-cp-size), C(nnodes) and C(node-rank) in each of their spellings.
      - Also read are C(disaggregation-mode), C(disaggregation-decode-retraction-backup),
        C(disaggregation-decode-enable-radix-cache), C(disaggregation-decode-enable-offload-kvcache),
        C(enable-priority-scheduling), C(disable-priority-preemption), C(context-length), C(hicache-host-memory-mode)
        and C(speculative-draft-kv-cache-dtype). Others are ignored; do not give any that are secret.
    type: dict
    default: {}
  page_size:
    description:
      - SGLang's C(--page-size). Without it, 1, or what O(attention_backends) ask for.
    type: int
  attention_backends:
    description:
      - Attention backends that the start names. Some take certain page sizes only, and SGLang then changes the size.
    type: list
    elements: str
    default: []
  ratio:
    description:
      - SGLang's C(--hicache-ratio). Without it and O(hicache_size) it is 2, which 0.5.21 and newer lower to what fits.
    type: float
  hicache_size:
    description:
      - SGLang's C(--hicache-size), GB (10**9 bytes) of a rank. Above 0 it wins over O(ratio).
      - From 0.5.17 on it is one budget for all kinds of pools of a model (full attention, sliding windows, recurrent
        states); before, each of them has it.
    type: int
  host_memory_fraction:
    description:
      - SGLang's C(--hicache-host-memory-fraction), the share that a lowered ratio may fill.
    type: float
    default: 0.8
  device_tokens:
    description:
      - Tokens that the device pool of a rank holds, where they are known.
    type: int
  max_total_tokens:
    description:
      - SGLang's C(--max-total-tokens), an upper limit of the device pool.
    type: int
  remembered:
    description:
      - What role C(verify) kept on the host of the last start (C(ansible_local.sglang_NAME)). Its tokens are used when
        it passed and its C(device_settings) are those of O(settings).
    type: dict
  settings:
    description:
      - The settings that decide how many tokens fit on the device, to compare with those of O(remembered).
    type: dict
    default: {}
  mem_fraction_static:
    description:
      - SGLang's C(--mem-fraction-static), for an estimate of the tokens and for the weights.
    type: float
  weight_bytes:
    description:
      - Size of the model's weights in bytes.
    type: int
  draft_weight_bytes:
    description:
      - Size of the draft's weights in bytes.
    type: int
  gpus:
    description:
      - RV(llmfleet.sglang.gpu_info#module:gpus), in the order of the ranks.
    type: list
    elements: dict
    default: []
  memory:
    description:
      - Memory of the host in bytes, as RV(llmfleet.sglang.host_info#module:memory) has it. The keys C(total),
        C(available) and C(cgroup_limit) (null where there is no limit) are read.
    type: dict
  memory_limits:
    description:
      - Limits of the service itself, C(MemoryMax) and C(MemoryHigh) as systemd reads them (C(400G), C(80%),
        C(infinity)). The smallest counts together with C(cgroup_limit) of O(memory).
    type: list
    elements: str
    default: []
  memory_stat:
    description:
      - Text of C(memory.stat) of the control group of the service that runs now. What it holds is counted as
        available, because a new start gets it back.
    type: str
  rank_memory_gb:
    description:
      - Host memory in GB (10**9 bytes) that the process of a rank takes besides its pools. An assumption; where it
        alone decides, RV(fits) is null.
    type: float
    default: 4
  numa:
    description:
      - RV(llmfleet.sglang.host_info#module:numa), to tell the need of each NUMA node.
    type: list
    elements: dict
    default: []
extends_documentation_fragment:
  - llmfleet.sglang.attributes
"""

EXAMPLES = r"""
- name: Read memory and NUMA nodes
  llmfleet.sglang.host_info:
  register: host

- name: Plan Kimi-K2.5 on 8 ranks
  llmfleet.sglang.hicache_plan:
    release: 0.5.23
    model_config: "{{ lookup('ansible.builtin.file', 'Kimi-K2.5/config.json') | from_json }}"
    tensor_parallel_size: 8
    ratio: 4.0
    device_tokens: 159277
    memory: "{{ host.memory }}"
    numa: "{{ host.numa }}"
  register: plan

- name: Show it
  ansible.builtin.debug:
    msg: "{{ plan.text }}"

- name: Stop where it does not fit
  ansible.builtin.assert:
    that: plan.fits is not false
    fail_msg: "{{ plan.objections | join(' ') }}"
"""

RETURN = r"""
fits:
  description: Whether everything fits; null where that cannot be told.
  returned: always
  type: bool
  sample: true
objections:
  description: Why it does not fit, in sentences.
  returned: always
  type: list
  elements: str
  sample: []
unknown:
  description: Why it cannot be told, in sentences.
  returned: always
  type: list
  elements: str
  sample: []
cautions:
  description: What may go wrong although it fits, in sentences.
  returned: always
  type: list
  elements: str
  sample: []
explanation:
  description: How the figures came about, in sentences.
  returned: always
  type: list
  elements: str
  sample:
    - "In the units of the log: 10.42 GiB on the device x 4 = 41.70 GiB = 44.77 GB."
text:
  description: The plan as lines of text, at most 96 columns.
  returned: always
  type: list
  elements: str
  sample: ["fits - SGLang 0.5.23, 8 ranks, x 4, page size 1"]
release:
  description: The release planned for.
  returned: always
  type: str
  sample: 0.5.23
ranks:
  description: Ranks on this host; null where they cannot be told.
  returned: always
  type: int
  sample: 8
page_size:
  description: Tokens of a page as the start will have them.
  returned: always
  type: int
  sample: 1
ratio:
  description: The ratio that the start will use, null where a size decides.
  returned: always
  type: float
  sample: 4.0
size_gb:
  description: The size of a rank's main pool in GB (10**9 bytes), null where a ratio decides.
  returned: always
  type: int
  sample: 40
largest_ratio:
  description: The largest ratio that fits, rounded down to hundredths. 0 where none does, null where it cannot be told.
  returned: always
  type: float
  sample: 7.88
reliable_ratio:
  description:
    - The largest ratio that fits in whatever order the ranks allocate. From 0.5.19 a rank that comes late sees less
      memory, divides it again, and may be refused what fits. Where the release chooses the ratio itself, all ranks look
      at the memory once before any of them allocates, and none comes late.
  returned: always
  type: float
  sample: 4.27
largest_size_gb:
  description: The largest C(--hicache-size) in GB (10**9 bytes) that fits.
  returned: always
  type: int
  sample: 88
bytes_per_token:
  description: Bytes of one token on the rank that holds most layers.
  returned: always
  type: int
  sample: 70272
draft_bytes_per_token:
  description: Bytes of one token of the draft on a rank, null without one.
  returned: always
  type: int
  sample: 1152
device_tokens:
  description: Tokens of the device pool of a rank that were planned with; the middle of the range of an estimate.
  returned: always
  type: int
  sample: 159277
device_tokens_low:
  description: Low end of the range.
  returned: always
  type: int
  sample: 159277
device_tokens_high:
  description: High end of the range. RV(largest_ratio) is for this one.
  returned: always
  type: int
  sample: 159277
device_tokens_source:
  description:
    - Where the tokens come from. One of V(given), V(remembered), V(limit) (C(--max-total-tokens)), V(estimated) and
      V(unknown).
  returned: always
  type: str
  sample: remembered
pools:
  description: The host pools, the main ones first. Empty where they cannot be told.
  returned: always
  type: list
  elements: dict
  contains:
    pool:
      description:
        - V(kv) for the main pool, V(draft) for the draft's, V(budget) for all that a size takes where the geometry of
          the model is not known.
      type: str
      sample: kv
    stage:
      description: Number of the pipeline stage.
      type: int
      sample: 0
    ranks:
      description: Ranks of this host that have such a pool.
      type: int
      sample: 8
    layers:
      description: Layers of the model or of the draft in it; null in a V(budget).
      type: int
      sample: 61
    packed_layers:
      description: Draft layers of the model that live in it besides.
      type: int
      sample: 0
    bytes_per_token:
      description: Bytes of one token; null in a V(budget).
      type: int
      sample: 70272
    tokens:
      description: Tokens that it holds; null in a V(budget).
      type: int
      sample: 637109
    bytes:
      description: Its size in bytes, as SGLang asks for it.
      type: int
      sample: 44770923648
    pinned_bytes:
      description: Bytes that it really takes; before 0.5.4 the next power of two.
      type: int
      sample: 44770923648
    total_bytes:
      description: Bytes of all its ranks on this host.
      type: int
      sample: 358167389184
    gb:
      description: Its size in GB (10**9 bytes), as SGLang prints it.
      type: float
      sample: 44.77
    gib:
      description: Its size in GiB (2**30 bytes).
      type: float
      sample: 41.7
    total_gb:
      description: Size of all its ranks in GB (10**9 bytes).
      type: float
      sample: 358.17
    line:
      description: What SGLang will log before it allocates, without the prefix of the log; null in a V(budget).
      type: str
      sample: "Allocating kv hierarchical KV host pool: 637109 tokens, 44.77 GB host memory."
per_rank_gb:
  description: All pools of a rank in GB (10**9 bytes); the largest where ranks differ.
  returned: always
  type: float
  sample: 45.5
per_rank_gib:
  description: The same in GiB (2**30 bytes).
  returned: always
  type: float
  sample: 42.38
total_gb:
  description: All pools of the host in GB (10**9 bytes).
  returned: always
  type: float
  sample: 364.04
total_gib:
  description: The same in GiB (2**30 bytes).
  returned: always
  type: float
  sample: 339.04
memory:
  description: Memory of the host in GB (10**9 bytes), null where it is not known.
  returned: always
  type: dict
  contains:
    total_gb:
      description: All memory.
      type: float
      sample: 773.0
    available_gb:
      description: Available memory, with what the running service gives back.
      type: float
      sample: 760.0
    held_gb:
      description: What the running service gives back.
      type: float
      sample: 0.0
    cgroup_limit_gb:
      description: What control groups allow the service, null without a limit.
      type: float
      sample: null
    processes_gb:
      description: What the processes of the ranks take besides their pools.
      type: float
      sample: 32.0
    reserve_gb:
      description: What SGLang leaves to the host.
      type: float
      sample: 10.74
    usable_gb:
      description: What is left for pools.
      type: float
      sample: 717.26
    usable_per_rank_gb:
      description: What the release grants one pool of a rank.
      type: float
      sample: 89.66
    left_gb:
      description: What RV(memory.usable_gb) has left after all pools.
      type: float
      sample: 353.22
numa:
  description: Need and room of each NUMA node. Empty where the nodes of the GPUs are not known.
  returned: always
  type: list
  elements: dict
  contains:
    id:
      description: Number of the node.
      type: int
      sample: 0
    ranks:
      description: Ranks whose GPU is on it.
      type: int
      sample: 4
    need_gb:
      description: Their pools in GB (10**9 bytes).
      type: float
      sample: 182.02
    room_gb:
      description: What the node has for them in GB (10**9 bytes), about.
      type: float
      sample: 358.63
    total_gb:
      description: All of its memory in GB (10**9 bytes).
      type: float
      sample: 386.0
    fits:
      description: Whether the room is enough.
      type: bool
      sample: true
weights:
  description: Weights against the memory of a GPU; values are null where they are not known.
  returned: always
  type: dict
  contains:
    total_gb:
      description: The weights in GB (10**9 bytes).
      type: float
      sample: 595.0
    per_rank_gib:
      description: Their even part on a rank in GiB (2**30 bytes).
      type: float
      sample: 69.27
    gpu_gib:
      description: Memory of the smallest GPU in GiB (2**30 bytes).
      type: float
      sample: 95.59
    static_gib:
      description: The share of it that O(mem_fraction_static) gives to weights and cache.
      type: float
      sample: 84.12
    left_gib:
      description: What is left of that for the cache.
      type: float
      sample: 14.85
    fits:
      description: Whether the weights leave anything.
      type: bool
      sample: true
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import hicache_plan, plan_text

ARGUMENTS = {
    "release": {"type": "str", "required": True},
    "hicache_enabled": {"type": "bool", "default": True},
    "model_config": {"type": "dict"},
    "draft_config": {"type": "dict"},
    "draft_expected": {"type": "bool", "default": False},
    "speculative_algorithm": {"type": "str"},
    "kv_cache_dtype": {"type": "str"},
    "tensor_parallel_size": {"type": "int", "default": 1},
    "pipeline_parallel_size": {"type": "int", "default": 1},
    "data_parallel_size": {"type": "int", "default": 1},
    "dp_attention_enabled": {"type": "bool", "default": False},
    "nodes": {"type": "int", "default": 1},
    "node_rank": {"type": "int", "default": 0},
    "engine_options": {"type": "dict", "default": {}},
    "page_size": {"type": "int"},
    "attention_backends": {"type": "list", "elements": "str", "default": []},
    "ratio": {"type": "float"},
    "hicache_size": {"type": "int"},
    "host_memory_fraction": {"type": "float", "default": 0.8},
    "device_tokens": {"type": "int", "no_log": False},
    "max_total_tokens": {"type": "int", "no_log": False},
    "remembered": {"type": "dict"},
    "settings": {"type": "dict", "default": {}},
    "mem_fraction_static": {"type": "float"},
    "weight_bytes": {"type": "int"},
    "draft_weight_bytes": {"type": "int"},
    "gpus": {"type": "list", "elements": "dict", "default": []},
    "memory": {"type": "dict"},
    "memory_limits": {"type": "list", "elements": "str", "default": []},
    "memory_stat": {"type": "str"},
    "rank_memory_gb": {"type": "float", "default": 4},
    "numa": {"type": "list", "elements": "dict", "default": []},
}


def _refuse_overflow():
    """Name the option whose figure no number of its type can hold; Ansible's own conversion ends in a traceback."""
    loose = {
        name: {**argument, "type": "raw"} if argument["type"] in ("int", "float") else argument
        for name, argument in ARGUMENTS.items()
    }
    module = AnsibleModule(argument_spec=loose, supports_check_mode=True)
    for name, argument in ARGUMENTS.items():
        if argument["type"] in ("int", "float") and module.params[name] is not None:
            try:
                {"int": int, "float": float}[argument["type"]](module.params[name])
            except ValueError:
                continue
            except OverflowError:
                shown = hicache_plan.shown(module.params[name])
                module.fail_json(msg=f"{name} is {shown}: that is no such amount; give a number that can be meant")
    module.fail_json(msg="A figure is too large for its type: no amount of this kind can be meant; give a smaller one")


def main():
    """Entry point."""
    try:
        module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    except OverflowError:
        _refuse_overflow()
        return
    ask = dict(module.params)
    ask["size_gb"] = ask.pop("hicache_size")
    memory = dict(ask["memory"] or {}, held=hicache_plan.held_bytes(ask.pop("memory_stat")))
    try:
        limits = [hicache_plan.limit_bytes(text, memory.get("total")) for text in ask.pop("memory_limits")]
        known = [limit for limit in [memory.get("cgroup_limit"), *limits] if limit is not None]
        ask["memory"] = dict(memory, cgroup_limit=min(known) if known else None)
        plan = hicache_plan.make_plan(ask)
    except ValueError as error:
        module.fail_json(msg=str(error))
    text = plan_text.host_lines(None, plan)
    module.exit_json(changed=False, text=text, **plan)


if __name__ == "__main__":
    main()
