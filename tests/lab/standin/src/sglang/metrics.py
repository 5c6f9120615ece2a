# SPDX-License-Identifier: GPL-3.0-or-later
"""/metrics: the gauges and counters that tests look at, named and labelled as the engine's."""

from __future__ import annotations


def render(engine, release):
    """The exposition text."""
    start = engine.start
    model = start.args.served_model_name
    unified = 'engine_type="unified",' if release.at_least("0.5.4") else ""
    cache = engine.cache
    out = []

    def labels(place, extra=""):
        return f'{{{extra}{unified}model_name="{model}",moe_ep_rank="0",pp_rank="{place.pp}",tp_rank="{place.tp}"}}'

    def family(name, kind, text, samples):
        out.append(f"# HELP sglang:{name} {text}")
        out.append(f"# TYPE sglang:{name} {kind}")
        out.extend(f"sglang:{name}{label} {float(value)}" for label, value in samples)

    def gauge(name, text, value, everywhere=False):
        chosen = start.places if everywhere else start.places[:1]
        family(name, "gauge", text, [(labels(place), value) for place in chosen])

    gauge(
        "max_total_num_tokens",
        "Maximum total number of tokens in the KV cache pool.",
        start.tokens,
        release.at_least("0.5.18"),
    )
    gauge("num_running_reqs", "The number of running requests.", len(engine.running))
    gauge("num_queue_reqs", "The number of requests in the waiting queue.", 0)
    gauge("num_used_tokens", "The number of used tokens.", 0)
    gauge("token_usage", "The token usage.", cache.used("device") / max(1, start.tokens))
    hits = engine.cached_tokens + engine.cached_host_tokens
    gauge("cache_hit_rate", "The prefix cache hit rate.", hits / max(1, engine.prompt_tokens))
    gauge("gen_throughput", "The generation throughput (token/s).", 0)
    gauge("spec_accept_length", "The average acceptance length of speculative decoding.", start.accept_length or 0)
    if engine.hicache and release.at_least("0.5.10"):
        gauge(
            "hicache_host_used_tokens",
            "Number of tokens currently used in host KV cache (HiCache).",
            cache.used("host"),
        )
        gauge(
            "hicache_host_total_tokens",
            "Total capacity of host KV cache in tokens (HiCache).",
            engine.host_tokens,
        )
    plain = f'{{{unified}model_name="{model}"}}'

    def counter(name, text, value, label=plain):
        family(name, "counter", text, [(label, value)])

    counter("prompt_tokens_total", "Number of prefill tokens processed.", engine.prompt_tokens)
    counter("generation_tokens_total", "Number of generation tokens processed.", engine.generated_tokens)
    counter("num_requests_total", "Number of requests processed.", engine.finished)
    family(
        "cached_tokens_total",
        "counter",
        "Number of cached prompt tokens.",
        [
            (f'{{cache_source="{tier}",{unified}model_name="{model}"}}', value)
            for tier, value in (("device", engine.cached_tokens), ("host", engine.cached_host_tokens))
            if value or tier == "device"
        ],
    )
    kind = "UnifiedRadixCache" if release.at_least("0.5.21") else "HiRadixCache"
    tree = f'{{cache_type="{kind}",dp_rank="0",pp_rank="0",tp_rank="0"}}'
    counter("evicted_tokens_total", "Tokens evicted from the device pool.", cache.evicted, tree)
    counter("load_back_tokens_total", "Tokens loaded from the host pool.", cache.loaded_back, tree)
    if engine.hicache and release.at_least("0.5.18"):
        counter("hicache_backup_tokens_total", "Tokens written to the host pool.", cache.backed_up, tree)
    return "\n".join(out) + "\n"
