# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command lines about which the table and the real parsers must be of one mind: good, bad and short ones."""

from __future__ import annotations

import shlex

MODEL = ("--model-path", "/m")
KIMI = shlex.split(
    "--model-path /srv/models/Kimi-K2.5 --served-model-name kimi-k2.5 --host 127.0.0.1 --port 30000 --tp-size 8 "
    "--trust-remote-code --mem-fraction-static 0.88 --attention-backend flashinfer --speculative-algorithm EAGLE3 "
    "--speculative-draft-model-path /srv/models/draft --speculative-num-steps 3 --speculative-eagle-topk 1 "
    "--speculative-num-draft-tokens 4 --enable-hierarchical-cache --hicache-ratio 4.0 "
    "--hicache-write-policy write_through --hicache-io-backend kernel --tool-call-parser kimi_k2 "
    "--reasoning-parser kimi_k2 --enable-metrics --log-level info --context-length 131072 --disable-custom-all-reduce"
)

_AFTER_THE_MODEL = """
--tensor-parallel-size 8 --data-parallel-size 2
--tp 8
--mem-frac 0.9
--hicache-rat 3
--hicache-rat=3
--hicache-s 3
--cuda-graph-max-bs 8
--cuda-graph-max-bs-decode 8
--enable-hicache
--enable-his
--hicache-host-memory-fraction 0.8
--hicache-host-memory-mode buffer_only
--disable-hicache-numa-detect
--hicache-ratoi 4.0
--hicache_ratio 4.0
--hicache-ratio four
--hicache-ratio nan
--hicache-ratio -1
--hicache-ratio 4.0 5.0
--hicache-ratio
--hicache-size 44.77
--hicache-size 45
--hicache-size 1_000
--hicache-write-policy writethrough
--hicache-io-backend gpu
--hicache-mem-layout page_first_direct
--hicache-mem-layout page
--tool-call-parser kimi
--reasoning-parser kimi_k3
--speculative-algorithm EAGLE9
--attention-backend cutlass_mla
--kv-cache-dtype fp8
--enable-metrics yes
--enable-metrics=1
--context-length 128k
--context-length 1.5Ki
--max-total-tokens 40k
--cuda-graph-bs 1 2 4
--cuda-graph-bs-decode 1 two
--cuda-graph-bs-decode
--lora-paths
--lora-paths a b c
--forward-hooks {
--json-model-override-args "{}"
--served-model-name "two words"
--served-model-name "-two words"
--served-model-name -single
--served-model-name=-single
--stream-interval -1
--enable-hierarchical-cache --disable-radix-cache
--enable-lmcache
--page-size 64 --page-size 32
stray
-x
"""

VECTORS = [
    KIMI,
    [],
    ["--port", "30000"],
    *([*MODEL, *shlex.split(line)] for line in _AFTER_THE_MODEL.strip().splitlines()),
]

# What only the parsers know: the table takes these, and the installed release refuses them before a service stops.
DEEPER = [
    [*MODEL, "--cuda-graph-config", '{"decoed":{}}'],
    [*MODEL, "--cuda-graph-config", "[]"],
    [*MODEL, "--lora-paths", '{"name":"a"}'],
]
