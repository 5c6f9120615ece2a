# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options and values of vLLM, and what an SGLang service has in their place.

Nothing here takes an option from SGLang: a release that knows a word itself is asked first. The names of vLLM are
those of C(vllm serve) (C(vllm/engine/arg_utils.py) and C(vllm/entrypoints/openai/cli_args.py)).
"""

from __future__ import annotations

# Option of vLLM: what to do. A name in braces is a setting, which stands for the variable that holds it; a name in
# angle brackets is an option of SGLang.
OPTIONS = {
    "max-model-len": "write <context-length>",
    "max-num-seqs": "write <max-running-requests>",
    "max-num-batched-tokens": "write <chunked-prefill-size>, or <max-prefill-tokens> for all requests of one step",
    "gpu-memory-utilization": "remove it and set {mem_fraction_static}, which covers weights and KV cache alone",
    "num-gpu-blocks-override": "remove it and set {max_total_tokens}, which counts tokens",
    "block-size": "remove it and set {page_size}",
    "enable-prefix-caching": "remove it: the prefix cache is on by default",
    "no-enable-prefix-caching": "write <disable-radix-cache>, which the hierarchical cache excludes",
    "enable-chunked-prefill": "remove it: it is on by default, with <chunked-prefill-size>",
    "no-enable-chunked-prefill": "write <chunked-prefill-size> with the value -1",
    "enforce-eager": "write <disable-cuda-graph>",
    "swap-space": "remove it and set {hicache_ratio} or {hicache_size}, the host memory of the hierarchical cache",
    "kv-offloading-size": "remove it and set {hicache_size}, in GB (1e9 bytes) for each rank",
    "kv-offloading-backend": "remove it and set {hicache_enabled}",
    "kv-transfer-config": "write <disaggregation-mode>, or <hicache-storage-backend> for a cache that hosts share",
    "enable-auto-tool-choice": "remove it: {tool_call_parser} is enough",
    "enable-reasoning": "remove it: {reasoning_parser} is enough",
    "speculative-config": "remove it and set {speculative_enabled}, {speculative_algorithm} and {draft_model_path}",
    "speculative-model": "remove it and set {speculative_enabled} and {draft_model_path}",
    "num-speculative-tokens": "remove it and set {speculative_num_draft_tokens}",
    "enable-expert-parallel": "write <ep-size>",
    "all2all-backend": "write <moe-a2a-backend>",
    "distributed-executor-backend": "remove it: SGLang starts its processes itself, on several hosts by {nodes}",
    "master-addr": "remove it and set {dist_init_address}",
    "master-port": "remove it and set {dist_init_address}",
    "guided-decoding-backend": "write <grammar-backend>",
    "structured-outputs-config": "write <grammar-backend>",
    "limit-mm-per-prompt": "write <limit-mm-data-per-request>",
    "hf-overrides": "write <json-model-override-args>",
    "rope-scaling": "write <json-model-override-args>",
    "rope-theta": "write <json-model-override-args>",
    "tokenizer": "write <tokenizer-path>",
    "seed": "write <random-seed>",
    "lora-modules": "write <lora-paths>",
    "max-loras": "write <max-loras-per-batch>",
    "scheduling-policy": "write <schedule-policy>",
    "enable-sleep-mode": "write <enable-memory-saver>",
    "generation-config": "write <sampling-defaults>",
    "override-generation-config": "write <preferred-sampling-params>",
    "root-path": "write <fastapi-root-path>",
    "uvicorn-log-level": "write <log-level-http>",
    "disable-uvicorn-access-log": "write <log-level-http> with the value warning",
    "disable-log-requests": "remove it: requests are logged with <log-requests> alone",
    "enable-log-requests": "write <log-requests>",
    "disable-log-stats": "remove it: statistics are served with {metrics_enabled} alone",
}

# (Option of SGLang, value of vLLM in small letters): values of SGLang, the best first; the first that the release
# has is the counterpart.
_DTYPES = {"fp16": ("float16",), "bf16": ("bfloat16",), "fp32": ("float32",)}
VALUES = {
    "kv-cache-dtype": {
        "fp8": ("fp8_e4m3",),
        "fp8_inc": ("fp8_e4m3",),
        "fp8_ds_mla": ("fp8_e4m3",),
        "float16": ("auto",),
        "fp16": ("auto",),
        "half": ("auto",),
    },
    "dtype": _DTYPES,
    "quantization": {
        "nvfp4": ("modelopt_fp4",),
        "modelopt_fp8_block": ("modelopt_fp8",),
        "fp8_e4m3": ("fp8",),
        "int8": ("w8a8_int8",),
        "gptq_marlin_24": ("gptq_marlin",),
        "ptpc_fp8": ("w8a8_fp8",),
        "none": ("unquant",),
    },
    "attention-backend": {
        "flash_attn": ("fa3",),
        "flash_attn_mla": ("fa3",),
        "flashinfer_mla": ("trtllm_mla",),
        "triton_attn": ("triton",),
        "triton_mla": ("triton",),
        "torch_sdpa": ("torch_native",),
        "rocm_aiter_fa": ("aiter",),
        "rocm_aiter_mla": ("aiter",),
    },
    "tool-call-parser": {
        "deepseek_v3": ("deepseekv3",),
        "deepseek_v31": ("deepseekv31",),
        "deepseek_v32": ("deepseekv32",),
        "llama3_json": ("llama3",),
        "llama4_pythonic": ("pythonic",),
        "minimax_m2": ("minimax-m2",),
        "openai": ("gpt-oss",),
        "qwen3_xml": ("qwen3_coder",),
        "glm4_moe": ("glm45",),
    },
    "reasoning-parser": {
        "deepseek_r1": ("deepseek-r1",),
        "deepseek_v3": ("deepseek-v3",),
        "minimax_m2": ("minimax",),
        "openai_gptoss": ("gpt-oss",),
        "glm4_moe": ("glm45",),
    },
    "speculative-algorithm": {
        "mtp": ("EAGLE",),
        "deepseek_mtp": ("EAGLE",),
        "glm4_moe_mtp": ("EAGLE",),
        "mimo_mtp": ("EAGLE",),
        "qwen3_next_mtp": ("EAGLE",),
        "draft_model": ("STANDALONE",),
        "eagle": ("EAGLE",),
        "eagle3": ("EAGLE3",),
        "nextn": ("NEXTN",),
        "ngram": ("NGRAM",),
        "standalone": ("STANDALONE",),
        "dflash": ("DFLASH",),
        "dspark": ("DSPARK",),
    },
}


def option_mend(name, variable):
    """Return what to do about an option of vLLM, a part of a sentence, or None when it is none.

    name: as an operator writes it, with dashes or underscores; variable: a function that gives the name of the
    variable that holds a setting.
    """
    mend = OPTIONS.get(name.lstrip("-").replace("_", "-"))
    if mend is None:
        return None
    for part in mend.split("{")[1:]:
        setting = part.partition("}")[0]
        mend = mend.replace("{" + setting + "}", variable(setting))
    return mend.replace("<", "").replace(">", "")


def value_counterpart(names, value, choices=None):
    """Return SGLang's value for one of vLLM, or None.

    names: every spelling of the option; choices: those of the release, None when it takes any.
    """
    for name in names:
        for counterpart in VALUES.get(name, {}).get(str(value).strip().lower(), ()):
            if counterpart != value and (choices is None or counterpart in choices):
                return counterpart
    return None
