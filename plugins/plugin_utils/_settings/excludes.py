# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that exclude the hierarchical cache, or each other, found before the old service stops.

SGLang finds them after its parser, in the resolution of its arguments (up to 0.5.18
C(sglang/srt/server_args.py), later C(sglang/srt/arg_groups)), which needs GPUs on most releases: the question
to the installed release ends at the parser and finds none of them. The bounds were read from the wheels of
0.5.9 to 0.5.23.
"""

from __future__ import annotations

from ..engine_arguments import is_older

RADIX_OPTION = "disaggregation-decode-enable-radix-cache"
DCP_OPTIONS = ("dcp-size", "decode-context-parallel-size")

# A decode server can keep a radix cache from this release on.
_DECODE_RADIX = (0, 5, 11, 0)
# Option; first release and first that no longer does, None for no bound; what SGLang does with it beside the
# hierarchical cache.
_REFUSED = "SGLang does not start with it while the hierarchical cache is on"
_EXCLUDING = (
    ("disable-radix-cache", None, None, _REFUSED),
    ("enable-lmcache", None, (0, 5, 20, 0), "SGLang ignores it while the hierarchical cache is on"),
    ("enable-lmcache", (0, 5, 20, 0), (0, 5, 21, 0), "SGLang takes it in place of the hierarchical cache"),
    ("enable-lmcache", (0, 5, 21, 0), None, _REFUSED),
    ("enable-flexkv", None, (0, 5, 20, 0), "SGLang ignores it while the hierarchical cache is on"),
    ("enable-flexkv", (0, 5, 20, 0), None, "SGLang takes it in place of the hierarchical cache"),
    ("enable-unified-cache-external-linker", None, None, _REFUSED),
    ("enable-int8-mamba-checkpoint", None, None, _REFUSED),
    ("enable-kv-cache-sharding", None, (0, 5, 23, 0), _REFUSED),
    ("enable-unified-memory", None, (0, 5, 21, 0), _REFUSED),
)


def number_of(options, *names):
    """Return the whole number of the first of some spellings of an option, 0 when none is one.

    Text counts as SGLang's parser reads it: C("2") is 2.
    """
    for name in names:
        value = options.get(name)
        if isinstance(value, str) and value.strip().isascii() and value.strip().isdecimal() and len(value) < 10:
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return 0


def speculation_of(values):
    """Return the algorithm that SGLang speculates with, None for none; NEXTN is its other name of EAGLE."""
    if values["speculative_enabled"] is not True:
        return None
    algorithm = values["speculative_algorithm"]
    return "EAGLE" if algorithm == "NEXTN" else algorithm


def hicache_excludes(values, release, known, problems):
    """Options that exclude the hierarchical cache (_handle_cache_compatibility, handle_hicache)."""
    options = values["engine_options"]
    if values["hicache_enabled"] is not True:
        _without_hicache(options, release, problems)
        return
    off = f"or set {problems.variable('hicache_enabled')} to false"

    def refuse(option, problem, mend=None):
        problems.add("engine_options", options[option], problem, mend or f"remove {option}, {off}", key=option)

    for option, first, bound, problem in _EXCLUDING:
        begun = first is None or not is_older(release, first)
        if options.get(option) is True and begun and (bound is None or is_older(release, bound)):
            refuse(option, problem)
    if options.get("radix-cache-backend") is not None:
        refuse("radix-cache-backend", "SGLang takes it in place of the hierarchical cache")
    if options.get("dllm-algorithm") is not None:
        refuse("dllm-algorithm", "SGLang switches the hierarchical cache off in silence with it")
    storage = options.get("hicache-storage-backend") is not None
    if options.get("enable-kv-cache-sharding") is True and storage and not is_older(release, (0, 5, 23, 0)):
        refuse(
            "enable-kv-cache-sharding",
            "SGLang does not take it with a storage backend of the hierarchical cache",
            "remove it, or remove hicache-storage-backend",
        )
    algorithm = speculation_of(values)
    if (
        options.get("enable-unified-memory") is True
        and algorithm in ("EAGLE", "EAGLE3", "STANDALONE")
        and not is_older(release, (0, 5, 21, 0))
    ):
        refuse("enable-unified-memory", "SGLang does not take it with EAGLE and the hierarchical cache together")
    _context_parallel(values, release, refuse)
    _decode_server(values, release, problems)
    if options.get("disaggregation-decode-allocation-policy") == "prefill_complete":
        _prefill_complete(values, options, refuse)


def _context_parallel(values, release, refuse):
    """Decode context parallelism beside the hierarchical cache (resolve_hicache_dcp_compatibility)."""
    options, algorithm = values["engine_options"], speculation_of(values)
    storage = options.get("hicache-storage-backend") is not None
    for option in DCP_OPTIONS:
        if number_of(options, option) < 2:
            continue
        if algorithm is not None and is_older(release, (0, 5, 18, 0)):
            refuse(option, "with the hierarchical cache this release takes no speculation when it is above 1")
        elif algorithm not in (None, "DSPARK"):
            refuse(option, "with the hierarchical cache SGLang takes no speculation but DSPARK when it is above 1")
        if options.get("enable-hisparse") is True:
            refuse("enable-hisparse", f"SGLang does not take it with {option} above 1")
        if options.get("hicache-host-memory-mode") == "buffer_only":
            refuse("hicache-host-memory-mode", f"SGLang does not take buffer_only with {option} above 1")
        elif storage and is_older(release, (0, 5, 19, 0)):
            refuse(
                "hicache-storage-backend",
                f"this release does not take it with {option} above 1",
                f"remove it, or set {option} to 1",
            )


def _decode_server(values, release, problems):
    """A decode server has no radix cache unless it is asked for, and without one no hierarchical cache.

    C(handle_pd_disaggregation) sets disable_radix_cache, and C(_handle_cache_compatibility), which runs later,
    stops the start: in every release from 0.5.9 to 0.5.23.
    """
    options = values["engine_options"]
    if options.get("disaggregation-mode") != "decode":
        return
    off = f"set {problems.variable('hicache_enabled')} to false"
    if is_older(release, _DECODE_RADIX):
        problem = f"a decode server of SGLang {release} has no radix cache, which the hierarchical cache needs"
        mend = f"{off}, or deploy 0.5.11 or later with {RADIX_OPTION}"
    elif options.get(RADIX_OPTION) is not True:
        problem = "SGLang switches the radix cache of a decode server off, and the hierarchical cache excludes that"
        mend = f"add {RADIX_OPTION} with the value true, or {off}"
        if not _takes_decode_radix(speculation_of(values), release):
            mend = (
                f"{off}, or add {RADIX_OPTION} with the value true and set "
                f"{problems.variable('speculative_enabled')} to false"
            )
    else:
        return
    problems.add("engine_options", "decode", problem, mend, key="disaggregation-mode")


def _takes_decode_radix(algorithm, release):
    """Tell whether the radix cache of a decode server goes with a speculative algorithm."""
    if algorithm is None:
        return True
    if is_older(release, (0, 5, 21, 0)):
        return False
    return algorithm == "DSPARK" or (algorithm in ("EAGLE", "EAGLE3") and not is_older(release, (0, 5, 23, 0)))


def _prefill_complete(values, options, refuse):
    """An allocation policy that takes hardly any hierarchical cache (_validate_prefill_complete, 0.5.22 on)."""
    policy = "disaggregation-decode-allocation-policy"
    if options.get("disaggregation-mode") == "decode":
        refuse(policy, "SGLang does not take it on a decode server with the hierarchical cache")
    elif options.get("disaggregation-mode") == "prefill" and (
        options.get("hicache-storage-backend") is not None or values["hicache_write_policy"] != "write_back"
    ):
        refuse(policy, "SGLang takes it on a prefill server with the hierarchical cache under write_back alone")


def _without_hicache(options, release, problems):
    """Options of a cache that is off, and those of caches that need the radix cache."""
    switch = problems.variable("hicache_enabled")
    # A decode server that offloads its cache, or keeps retracted requests in a host pool, reads the same options.
    stored = options.get("disaggregation-decode-enable-offload-kvcache") is True
    pooled = options.get("disaggregation-mode") == "decode" and not is_older(release, (0, 5, 18, 0))
    for option, value in options.items():
        if option.startswith("hicache-") and value not in (None, False) and not (stored or pooled):
            problems.add(
                "engine_options",
                problems.shown(option, value),
                f"it does nothing while {switch} is false",
                f"remove it, or set {switch} to true",
                key=option,
                level="warning",
            )
    for option in ("enable-lmcache", "enable-unified-cache-external-linker"):
        if options.get(option) is True and options.get("disable-radix-cache") is True:
            problems.add(
                "engine_options", True, "SGLang does not take it with disable-radix-cache", "remove one", key=option
            )


def disaggregation_excludes(values, release, known, problems):
    """What a server of one role excludes, with the hierarchical cache or without (handle_pd_disaggregation)."""
    options = values["engine_options"]
    mode = options.get("disaggregation-mode")

    def refuse(option, problem, mend):
        problems.add("engine_options", options[option], problem, mend, key=option)

    offload = "disaggregation-decode-enable-offload-kvcache"
    if options.get(offload) is True and mode != "decode":
        refuse(offload, "SGLang takes it on a decode server alone", "remove it, or set disaggregation-mode to decode")
    elif options.get(offload) is True:
        if options.get("hicache-storage-backend") is None and not is_older(release, (0, 5, 10, 0)):
            refuse(offload, "SGLang takes it with a storage backend alone", "add hicache-storage-backend, or remove it")
        if options.get("disaggregation-decode-retraction-backup") == "host_pool":
            refuse(
                offload,
                "it and disaggregation-decode-retraction-backup host_pool exclude each other",
                "remove one of the two",
            )
        # The overlapped scheduler (spec v2) is on wherever it can be: settings.engine_environment.
        if speculation_of(values) in ("EAGLE", "EAGLE3", "STANDALONE") and is_older(release, (0, 5, 10, 0)):
            refuse(
                offload,
                f"SGLang {release} does not take it with overlapped speculation",
                f"remove it, or set {problems.variable('speculative_enabled')} to false",
            )
    if mode == "prefill" and options.get("disaggregation-transfer-backend") == "fake":
        refuse("disaggregation-transfer-backend", "SGLang takes fake on a decode server alone", "name mooncake or nixl")
    if mode != "decode" or options.get(RADIX_OPTION) is not True:
        return
    algorithm = speculation_of(values)
    if not _takes_decode_radix(algorithm, release):
        refuse(
            RADIX_OPTION,
            f"SGLang {release} does not take it with the speculation {algorithm}",
            f"remove it, or set {problems.variable('speculative_enabled')} to false",
        )
    if options.get("enable-hisparse") is True:
        refuse("enable-hisparse", f"SGLang does not take it with {RADIX_OPTION}", "remove one of the two")
    backend = options.get("disaggregation-transfer-backend", "mooncake")
    if backend == "fake" or (backend != "nixl" and is_older(release, (0, 5, 12, 0))):
        refuse(
            RADIX_OPTION,
            f"SGLang {release} does not take it with disaggregation-transfer-backend {backend}",
            "remove it, or set disaggregation-transfer-backend to nixl",
        )
    split = any(number_of(options, option) > 1 for option in DCP_OPTIONS)
    if split and is_older(release, (0, 5, 21, 0)) and not is_older(release, (0, 5, 17, 0)):
        refuse(
            RADIX_OPTION,
            f"SGLang {release} takes neither it nor the hierarchical cache with context parallelism on a decode server",
            f"remove it, or {DCP_OPTIONS[0]}",
        )
