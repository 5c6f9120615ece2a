# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a start of SGLang will take of its host's memory, and whether that fits, told before anything is started.

Units: GB is 10**9 bytes, as SGLang prints host pools; GiB is 2**30 bytes, as SGLang prints device pools and calls GB.
Everything is computed in bytes and rounded where it is shown.

Source: ``srt/mem_cache/memory_pool_host.py``, ``srt/mem_cache/pool_host/base.py``, ``srt/mem_cache/host_memory.py``,
``srt/mem_cache/hicache_auto_size.py`` and ``srt/distributed/utils.py`` of the SGLang wheels 0.5.9 to 0.5.23.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

import re
from collections import namedtuple

from . import hicache_size, kv_geometry
from .hicache_size import GB, GIB

MIB = 2**20
#: How the sentence begins that turns the figure of the device into that of the host.
CONVERSION = "In the units of the log: "

#: What an estimate of the device tokens takes off at its low end: bytes of a GPU that its driver and the CUDA context
#: hold, weights that every rank holds whole as a share of its part, and bytes of buffers that live beside the cache.
ESTIMATE_CONTEXT = 2 * GIB
ESTIMATE_UNSPLIT_WEIGHTS = 0.05
ESTIMATE_BUFFERS = GIB

#: Highest ratio that is tried in the search for the largest one, in hundredths.
_MOST_HUNDREDTHS = 100_000
_MOST_GB = 100_000

# Engine options that may carry a secret, and options with a text as value that change the tokens of the device.
_SECRET_OPTION = re.compile(r"key|password|secret|auth|(?:^|-)token(?:$|-)", re.IGNORECASE)
_TEXT_OPTIONS = frozenset(
    {
        "decode-attention-backend",
        "dtype",
        "load-format",
        "moe-a2a-backend",
        "moe-runner-backend",
        "prefill-attention-backend",
        "quantization",
        "speculative-attention-mode",
        "speculative-draft-model-quantization",
    }
)


class PlanError(ValueError):
    """The settings cannot be planned; the message names the setting, its value and the mend."""


#: stage: number of the pipeline stage; ranks: how many of its ranks are on this host; layers: what it holds.
Stage = namedtuple("Stage", "number ranks layers")
#: tokens: the figure to plan with; low, high: its range; source: given, remembered, limit, estimated or unknown;
#: sentence: where it comes from.
DeviceTokens = namedtuple("DeviceTokens", "tokens low high source sentence")


def _gb(value, digits=2):
    return f"{value / GB:,.{digits}f} GB"


def _gib(value, digits=2):
    return f"{value / GIB:,.{digits}f} GiB"


def _plural(count, word):
    return f"{count} {word}{'' if count == 1 else 's'}"


# --- settings that decide the tokens of the device -------------------------------------------------------------------


def _canonical(value):
    """One form for values that mean the same: 8, "8" and 8.0; true and "true"; None and ""."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).lower()
    try:
        return f"{float(value):.15g}"
    except (TypeError, ValueError):
        return str(value)


def _telling_option(name, value):
    if _SECRET_OPTION.search(name):
        return False
    return name in _TEXT_OPTIONS or _canonical(value) in (None, "true", "false") or _is_number(value)


def _is_number(value):
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def device_settings(settings):
    """The settings on which the tokens of the device depend, in a form that can be kept and compared.

    ``settings`` is a mapping of names to values; its ``engine_options`` may hold anything, and only numbers, switches
    and a few known names of it are taken, so that nothing secret is kept.
    """
    found = {}
    for name, value in (settings or {}).items():
        if name == "engine_options":
            for option, setting in sorted((value or {}).items()):
                plain = str(option).lstrip("-").replace("_", "-")
                if _telling_option(plain, setting):
                    found[f"engine_options.{plain}"] = _canonical(setting)
        else:
            found[name] = _canonical(value)
    return {name: value for name, value in sorted(found.items()) if value is not None}


def setting_differences(then, now):
    """What differs between two results of :func:`device_settings`, one phrase for each name."""
    differences = []
    for name in sorted({**then, **now}):
        if then.get(name) != now.get(name):
            was, has = then.get(name, "not set"), now.get(name, "not set")
            differences.append(f"{name} was {was} then and is {has} now")
    return differences


# --- memory that the running service gives back ---------------------------------------------------------------------


def held_bytes(memory_stat):
    """Bytes that services give back when they stop, from the texts of their control groups' ``memory.stat``; 0 without.

    Anonymous and shared memory only: pages of files count as available already. Several texts stand one after another.
    """
    held = {}
    for name, value in re.findall(r"^(\w+) (\d+)$", memory_stat or "", re.MULTILINE):
        held[name] = held.get(name, 0) + int(value)
    if "anon" in held:
        return held["anon"] + held.get("shmem", 0)
    return held.get("total_rss", 0) + held.get("total_shmem", 0)


_SIZE = re.compile(r"^(\d+(?:\.\d+)?)\s*([KMGTPE%]?)B?$", re.IGNORECASE)


def limit_bytes(text, total=None):
    """Bytes of a limit as systemd writes it (``400G``, ``80%``, ``infinity``); its units are powers of 1024.

    None where it sets no limit, or is a share of a memory that is not known.

    :raises PlanError: when the text is no such limit.
    """
    words = str(text).strip()
    if words.lower() in ("", "infinity", "none", "max"):
        return None
    found = _SIZE.match(words)
    if not found:
        raise PlanError(f"{text!r} is no limit of memory. Give it as systemd reads it, such as 400G, 80% or infinity.")
    value, unit = float(found.group(1)), found.group(2).upper()
    if unit == "%":
        return int(total * value / 100) if total else None
    return int(value * 1024 ** " KMGTPE".index(unit or " "))


# --- ranks ------------------------------------------------------------------------------------------------------------


def _positive(ask, name):
    value = ask.get(name) or 1
    if value < 1:
        raise PlanError(f"{name} is {value}. Give 1 or more.")
    return value


def host_stages(ask, layers):
    """The :class:`Stage` of each pipeline stage that has ranks on this host, of one engine."""
    tensor, pipeline = _positive(ask, "tensor_parallel_size"), _positive(ask, "pipeline_parallel_size")
    nodes, node_rank = _positive(ask, "nodes"), ask.get("node_rank") or 0
    if tensor * pipeline % nodes or (nodes % pipeline and pipeline % nodes):
        raise PlanError(
            f"nodes is {nodes}, which does not divide tensor_parallel_size {tensor} x pipeline_parallel_size {pipeline}"
            " evenly. Give a number of hosts that does."
        )
    if not 0 <= node_rank < nodes:
        raise PlanError(f"node_rank is {node_rank}. Give 0 to {nodes - 1}, as nodes is {nodes}.")
    if pipeline >= nodes:
        share = pipeline // nodes
        numbers, ranks = range(node_rank * share, (node_rank + 1) * share), tensor
    else:
        hosts_per_stage = nodes // pipeline
        numbers, ranks = [node_rank // hosts_per_stage], tensor // hosts_per_stage
    return [Stage(number, ranks, kv_geometry.stage_layers(layers, pipeline, number)) for number in numbers]


def attention_ranks(ask):
    """The number of ranks that share the KV heads: under DP attention each group has its own cache."""
    tensor, data = _positive(ask, "tensor_parallel_size"), _positive(ask, "data_parallel_size")
    if not ask.get("dp_attention_enabled"):
        return tensor
    if tensor % data:
        raise PlanError(
            f"data_parallel_size is {data}, which does not divide tensor_parallel_size {tensor}. "
            "Under DP attention it must."
        )
    return tensor // data


def engines(ask):
    """How many engines stand side by side on this host: plain data parallelism starts the whole several times."""
    return 1 if ask.get("dp_attention_enabled") else _positive(ask, "data_parallel_size")


# --- tokens of the device ---------------------------------------------------------------------------------------------


def gpu_bytes(ask):
    """Memory in bytes of the smallest GPU, or None where none is known."""
    sizes = [gpu.get("memory_total_mib") for gpu in ask.get("gpus") or []]
    sizes = [size for size in sizes if size]
    return min(sizes) * MIB if sizes else None


def weight_share(ask):
    """Bytes of the model's weights on one rank, as if all were split evenly; None where their size is not known."""
    ranks = _positive(ask, "tensor_parallel_size") * _positive(ask, "pipeline_parallel_size")
    return ask["weight_bytes"] / ranks if ask.get("weight_bytes") else None


def estimate_tokens(ask, token_bytes, draft_token_bytes=0):
    """The range of tokens that the device will hold, ``(low, high)``; None where too little is known.

    SGLang gives the cache what its share of the GPU (``--mem-fraction-static``) leaves after the weights. The high end
    takes off the evenly split weights only. The low end also takes off what the driver holds, weights that are not
    split, the draft and buffers, and gives the draft's cache its part.
    """
    gpu, share, fraction = gpu_bytes(ask), weight_share(ask), ask.get("mem_fraction_static")
    if not (gpu and share and fraction and token_bytes):
        return None
    draft = (ask.get("draft_weight_bytes") or 0) * share / ask["weight_bytes"] if draft_token_bytes else 0
    high = (gpu * fraction - share) // token_bytes
    resident = (share + draft) * (1 + ESTIMATE_UNSPLIT_WEIGHTS) + ESTIMATE_BUFFERS
    low = (gpu - ESTIMATE_CONTEXT) * fraction - resident
    return max(0, int(low // (token_bytes + draft_token_bytes))), max(0, int(high))


def _remembered(ask, notes):
    """Tokens of the last proved start on this host, where the settings that decide them are the same."""
    fact = ask.get("remembered") or {}
    tokens = fact.get("device_tokens")
    if not tokens:
        return None
    when = f"the start of {fact.get('started_at') or 'an unknown time'}"
    if fact.get("verdict") != "pass":
        notes.append(f"{tokens:,} tokens of {when} are not used: its verdict was {fact.get('verdict')}.")
        return None
    then = fact.get("device_settings")
    if not then:
        notes.append(f"{tokens:,} tokens of {when} are not used: it did not record the settings that led to them.")
        return None
    differences = setting_differences(then, device_settings(ask.get("settings")))
    if differences:
        notes.append(f"{tokens:,} tokens of {when} are not used: {'; '.join(differences)}.")
        return None
    sentence = f"{tokens:,} tokens fit on the device of each rank: so {when} logged on this host, with these settings."
    return DeviceTokens(tokens, tokens, tokens, "remembered", sentence)


def _range(low, high, page, source, sentence):
    low, high = low // page * page, high // page * page
    return DeviceTokens((low + high) // 2 // page * page, low, high, source, sentence)


def find_device_tokens(ask, token_bytes, draft_token_bytes, page, notes):
    """The :class:`DeviceTokens` to plan with: given, remembered, limited, estimated, or unknown."""
    given, limit = ask.get("device_tokens"), ask.get("max_total_tokens")
    if given:
        return _range(given, given, page, "given", f"{given:,} tokens on the device of each rank, as given.")
    remembered = _remembered(ask, notes)
    if remembered:
        return remembered
    estimate = estimate_tokens(ask, token_bytes, draft_token_bytes)
    if limit and (estimate is None or estimate[0] >= limit):
        sentence = f"{limit:,} tokens on the device of each rank, as max_total_tokens asks."
        return _range(limit, limit, page, "limit", sentence)
    if estimate is None:
        sentence = (
            "How many tokens fit on the device is not known: no start on this host is remembered, and an estimate takes"
            " the memory of the GPUs, mem_fraction_static and the size of the weights."
        )
        return DeviceTokens(None, None, None, "unknown", sentence)
    low, high = (min(limit, end) if limit else end for end in estimate)
    sentence = (
        f"An estimate: {low:,} to {high:,} tokens fit on the device of each rank. {_gib(gpu_bytes(ask))} a GPU x "
        f"{ask['mem_fraction_static']:g}, less {_gib(weight_share(ask))} of weights, at {token_bytes:,} bytes a token;"
        " the low end also takes off what driver, draft and buffers may need. Only a start tells the true figure."
    )
    return _range(low, high, page, "estimated", sentence)


# --- pools ------------------------------------------------------------------------------------------------------------


def _pool(name, stage, token_bytes, tokens, release):
    size = tokens * token_bytes
    pinned = hicache_size.pinned_bytes(size, release)
    return {
        "pool": name,
        "stage": stage.number,
        "ranks": stage.ranks,
        "layers": stage.layers,
        "bytes_per_token": token_bytes,
        "tokens": tokens,
        "bytes": size,
        "pinned_bytes": pinned,
        "total_bytes": pinned * stage.ranks,
        "gb": round(size / GB, 2),
        "gib": round(size / GIB, 2),
        "total_gb": round(pinned * stage.ranks / GB, 2),
        "line": hicache_size.allocation_line(size / GB, tokens, name, release),
    }


class Shape:
    """What does not depend on ratio and tokens: geometry, ranks and page rule of one start on one host."""

    def __init__(self, ask):
        self.release = ask["release"]
        parsed = hicache_size.parse_release(self.release)
        self.page = hicache_size.effective_page_size(ask.get("page_size"), ask.get("attention_backends") or ())
        split, dtype = attention_ranks(ask), ask.get("kv_cache_dtype")
        self.main = kv_geometry.geometry(ask["model_config"], split, dtype)
        self.draft = None
        if ask.get("draft_config"):
            self.draft = kv_geometry.geometry(ask["draft_config"], split, dtype)
        self.draft_pooled = self.draft is not None and parsed >= hicache_size.FIRST_DRAFT_POOL
        self.copies = engines(ask)
        one = host_stages(ask, self.main.layers)
        self.ranks_of_engine = sum(stage.ranks for stage in one)
        self.stages = [stage._replace(ranks=stage.ranks * self.copies) for stage in one]
        self.ranks = self.ranks_of_engine * self.copies
        self.synced = parsed >= hicache_size.FIRST_SYNCED_SIZE
        # A stage of another host may be the one that holds most layers.
        pipeline = _positive(ask, "pipeline_parallel_size")
        self.most_layers = kv_geometry.stage_layers(self.main.layers, pipeline, pipeline - 1)

    @property
    def token_bytes(self):
        """Bytes of one token on the rank that holds most layers."""
        return self.most_layers * self.main.layer_bytes

    @property
    def draft_token_bytes(self):
        """Bytes of one token of the draft, 0 without one."""
        return self.draft.layers * self.draft.layer_bytes if self.draft else 0

    def main_tokens(self, stage, device_tokens, ratio, size_gb):
        """Tokens of the main pool of a rank, or None where they depend on tokens that are not known."""
        if size_gb:
            layers = self.most_layers if self.synced else stage.layers
            token_bytes = layers * self.main.layer_bytes
            return hicache_size.host_tokens_for_size(size_gb, token_bytes, self.page, self.release)
        if device_tokens and ratio:
            return hicache_size.host_tokens(device_tokens, ratio, self.page, self.release)
        return None

    def pools(self, device_tokens, ratio, size_gb):
        """The pools of all ranks on this host, the main ones first; empty where they are not known."""
        found = []
        for stage in self.stages:
            tokens = self.main_tokens(stage, device_tokens, ratio, size_gb)
            if tokens is not None:
                found.append(_pool("kv", stage, stage.layers * self.main.layer_bytes, tokens, self.release))
        if self.draft_pooled:
            for pool, stage in zip(list(found), self.stages):
                tokens = hicache_size.draft_tokens(pool["tokens"], device_tokens, self.page, self.release)
                drafted = stage._replace(layers=self.draft.layers)
                found.append(_pool("draft", drafted, self.draft_token_bytes, tokens, self.release))
        return found


# --- memory of the host -----------------------------------------------------------------------------------------------


class Memory:
    """What the host has for the pools, in bytes, by the rule of the release."""

    def __init__(self, ask, shape):
        facts = ask.get("memory") or {}
        self.release = shape.release
        self.shape = shape
        self.total = facts.get("total")
        self.held = facts.get("held") or 0
        self.limit = facts.get("cgroup_limit")
        self.reserve = hicache_size.RESERVE
        self.processes = int((ask.get("rank_memory_gb") or 0) * GB) * shape.ranks
        self.known = bool(facts.get("available"))
        self.available = (facts.get("available") or 0) + self.held
        bound = self.available if self.limit is None else min(self.available, self.limit)
        self.usable = bound - self.processes - self.reserve

    def budget(self, taken=0):
        """Bytes that the release grants a pool of one rank when the ranks already took ``taken`` bytes."""
        limit = None if self.limit is None else self.limit - self.processes - taken
        available = self.available - self.processes - taken
        return hicache_size.rank_budget(available, self.shape.ranks_of_engine, self.release, limit)

    def objections(self, pools):
        """Why pools do not fit, one sentence each."""
        total = sum(pool["total_bytes"] for pool in pools)
        found = []
        if total > self.usable:
            room = max(0, self.usable)
            found.append(
                f"The pools of {_plural(self.shape.ranks, 'rank')} take {_gb(total)}, and the host has "
                f"{_gb(room) if room else 'nothing left'} for them: {_gb(total - room)} too much."
            )
        main = sum(pool["total_bytes"] for pool in pools if pool["pool"] == "kv")
        for pool in pools:
            # All ranks make their main pools first, at the same time.
            granted = self.budget(0 if pool["pool"] == "kv" else main)
            if pool["bytes"] > granted:
                found.append(
                    f"SGLang {self.release} refuses the {pool['pool']} pool of a rank: it asks for "
                    f"{_gb(pool['bytes'])} and is granted {_gb(max(0, granted))}."
                )
                break
        return found

    def late_rank(self, pools):
        """A sentence where a rank that comes after all others would be refused although everything fits; else None."""
        if hicache_size.parse_release(self.release) < hicache_size.FIRST_DIVIDED or not pools:
            return None
        main = [pool for pool in pools if pool["pool"] == "kv"]
        last = max(main, key=lambda pool: pool["bytes"])
        granted = self.budget(sum(pool["total_bytes"] for pool in main) - last["pinned_bytes"])
        if last["bytes"] <= granted:
            return None
        return (
            f"A rank that allocates after its siblings is granted only {_gb(max(0, granted))} by SGLang "
            f"{self.release}, because it divides what they left by {self.shape.ranks_of_engine} again, and may be "
            f"refused its {_gb(last['bytes'])} from time to time. A smaller pool or more memory ends that."
        )

    def rule(self):
        """The release's rule in a sentence."""
        parsed = hicache_size.parse_release(self.release)
        parts = [f"{_gb(self.available)} of memory available on the host"]
        if self.held:
            parts.append(f"(of these {_gb(self.held)} that the running service gives back)")
        if self.limit is not None and self.limit < self.available:
            parts.append(f"of which control groups allow {_gb(self.limit)}")
        if self.processes:
            parts.append(f"less {_gb(self.processes)} for the processes of {_plural(self.shape.ranks, 'rank')}")
        parts.append(f"less 10 GiB ({_gb(self.reserve)}) that SGLang leaves alone = {_gb(self.usable)} for pools")
        if parsed >= hicache_size.FIRST_DIVIDED:
            count = self.shape.ranks_of_engine
            way = f"SGLang {self.release} divides it by {_plural(count, 'rank')}: {_gb(self.budget())} for a pool"
        else:
            way = f"SGLang {self.release} compares each rank alone with all of it; the sum is checked here only"
        return f"{' '.join(parts)}. {way}."

    def result(self, pools):
        """The figures for the result, GB rounded."""
        total = sum(pool["total_bytes"] for pool in pools)
        return {
            "total_gb": None if self.total is None else round(self.total / GB, 2),
            "available_gb": round(self.available / GB, 2),
            "held_gb": round(self.held / GB, 2),
            "cgroup_limit_gb": None if self.limit is None else round(self.limit / GB, 2),
            "processes_gb": round(self.processes / GB, 2),
            "reserve_gb": round(self.reserve / GB, 2),
            "usable_gb": round(self.usable / GB, 2),
            "usable_per_rank_gb": round(self.budget() / GB, 2),
            "left_gb": round((self.usable - total) / GB, 2) if pools else None,
        }


def _largest(test, most):
    """The largest whole number up to ``most`` that passes a test which all smaller ones pass too; 0 if none does."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if test(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _passes(memory, pools):
    """Whether pools fit in whatever order the ranks allocate them."""
    return not memory.objections(pools) and memory.late_rank(pools) is None


def numa_nodes(ask, memory, pools):
    """Need and room of each NUMA node; empty where the nodes of the GPUs are not known.

    SGLang binds the pool of a rank to the node of its GPU.
    """
    nodes = [node for node in ask.get("numa") or [] if node.get("total")]
    gpus = ask.get("gpus") or []
    places = []
    for pool in pools:
        places += [pool["pinned_bytes"]] * pool["ranks"] if pool["pool"] == "kv" else []
    drafts = []
    for pool in pools:
        drafts += [pool["pinned_bytes"]] * pool["ranks"] if pool["pool"] == "draft" else []
    needs = [main + draft for main, draft in zip(places, drafts or [0] * len(places))]
    homes = [gpu.get("numa_node") for gpu in gpus[: len(needs)]]
    known = {node["id"] for node in nodes}
    if len(nodes) < 2 or len(homes) < len(needs) or not needs or not set(homes) <= known:
        return []
    whole = sum(node["total"] for node in nodes)
    busy = max(0, whole - memory.available) + memory.processes + memory.reserve
    found = []
    for node in nodes:
        own = [need for need, home in zip(needs, homes) if home == node["id"]]
        room = node["total"] - busy * node["total"] // whole
        found.append(
            {
                "id": node["id"],
                "ranks": len(own),
                "need_gb": round(sum(own) / GB, 2),
                "room_gb": round(room / GB, 2),
                "total_gb": round(node["total"] / GB, 2),
                "fits": sum(own) <= room,
            }
        )
    return found


def weights(ask):
    """Weights against the memory of a GPU; ``fits`` is None where too little is known."""
    share, gpu, fraction = weight_share(ask), gpu_bytes(ask), ask.get("mem_fraction_static")
    static = gpu * fraction if gpu and fraction else None
    return {
        "total_gb": round(ask["weight_bytes"] / GB, 2) if ask.get("weight_bytes") else None,
        "per_rank_gib": None if share is None else round(share / GIB, 2),
        "gpu_gib": None if gpu is None else round(gpu / GIB, 2),
        "static_gib": None if static is None else round(static / GIB, 2),
        "left_gib": None if static is None or share is None else round((static - share) / GIB, 2),
        "fits": None if static is None or share is None else share < static,
    }


def _weights_sentence(found, ranks):
    return (
        f"Weights of {found['total_gb']:,.2f} GB over {_plural(ranks, 'GPU')} are {found['per_rank_gib']:.2f} GiB "
        f"each; mem_fraction_static leaves weights and cache {found['static_gib']:.2f} of {found['gpu_gib']:.2f} GiB, "
        f"so {found['left_gib']:.2f} GiB {'are left for the cache' if found['fits'] else 'are missing'}."
    )


# --- the plan ---------------------------------------------------------------------------------------------------------


def _ratio(ask, shape, memory, device_tokens, notes):
    """The ratio that the start will use; None where size decides, or an automatic one cannot be told."""
    if ask.get("size_gb"):
        return None
    if ask.get("ratio"):
        return ask["ratio"]
    if hicache_size.parse_release(shape.release) < hicache_size.FIRST_AUTO_SIZED:
        return hicache_size.DEFAULT_RATIO
    if not (memory.known and device_tokens):
        return None
    slots = device_tokens + shape.page
    held = slots * (shape.token_bytes + (shape.draft_token_bytes if shape.draft_pooled else 0))
    fraction = ask.get("host_memory_fraction") or 0.8
    found = hicache_size.auto_ratio(memory.budget(), held, fraction)
    notes.append(
        f"Neither ratio nor size is set: SGLang {shape.release} lowers its ratio of 2 until {fraction:g} of a rank's "
        f"share holds the pools, here to {max(0, found):.3f}."
    )
    return max(0.0, found)


def _pool_sentences(shape, tokens, ratio, size_gb, pools):
    found = []
    first = pools[0]
    main, draft = shape.main, shape.draft
    kept = "every rank holds it whole" if main.kind == "mla" else "each rank holds its own heads"
    found.append(
        f"One token takes {main.layer_bytes:,} bytes x {first['layers']} layers = {first['bytes_per_token']:,} bytes "
        f"on a rank ({main.architecture}, {main.kind.upper()}: {kept})."
    )
    rule = {
        "extra_page": f"and one page more (page size {shape.page})",
        "down": f"down to whole pages (page size {shape.page})",
        "none": "with no page rule",
    }[hicache_size.page_rule(shape.release)]
    base = f"{tokens.tokens:,} tokens x {ratio:g}" if not size_gb else f"hicache_size {size_gb:g} GB"
    found.append(
        f"Main pool: {base} {rule} = {first['tokens']:,} tokens x {first['bytes_per_token']:,} bytes = "
        f"{_gb(first['bytes'])} ({_gib(first['bytes'])}) a rank."
    )
    if not size_gb:
        # One page more on the device: SGLang counts its padding in the line of the device pool.
        device = (tokens.tokens + shape.page) * first["bytes_per_token"]
        found.append(
            f"{CONVERSION}{_gib(device)} on the device x {ratio:g} = {_gib(first['bytes'])} = {_gb(first['bytes'])}. "
            "The line of the device pool counts GiB and writes GB."
        )
    drafts = [pool for pool in pools if pool["pool"] == "draft"]
    if drafts:
        found.append(
            f"Draft pool: {drafts[0]['tokens']:,} tokens x {drafts[0]['bytes_per_token']:,} bytes = "
            f"{_gb(drafts[0]['bytes'])} a rank ({draft.architecture}, {_plural(draft.layers, 'layer')})."
        )
    elif draft is not None:
        found.append(f"SGLang {shape.release} gives the draft no host pool; that came with 0.5.11.")
    if first["pinned_bytes"] != first["bytes"]:
        found.append(
            f"SGLang {shape.release} pins the next power of two: {_gb(first['pinned_bytes'])} for the main pool of a "
            "rank."
        )
    total = sum(pool["total_bytes"] for pool in pools)
    whole = sum(pool["total_bytes"] for pool in pools if pool["pool"] == "kv")
    parts = f"{_gb(whole)} main" + (f" and {_gb(total - whole)} draft" if drafts else "")
    found.append(f"{_plural(shape.ranks, 'rank')}: {parts}, {_gb(total)} ({_gib(total)}) in all.")
    return found


def _small_pool(shape, tokens, pools):
    """(objection, warning) where a host pool is no larger than the device pool, which most releases take badly."""
    first = pools[0]
    if not tokens.tokens or first["tokens"] > tokens.tokens:
        return None, None
    seen = f"The host pool has {first['tokens']:,} tokens, and the device pool {tokens.tokens:,}"
    if hicache_size.parse_release(shape.release) < hicache_size.FIRST_SMALL_POOL:
        return f"{seen}: SGLang {shape.release} stops with an assertion. Give a ratio above 1, or a larger size.", None
    return None, f"{seen}: a host pool that is no larger brings little. Give a ratio above 1, or a larger size."


def _empty(ask):
    return {
        "fits": None,
        "release": ask.get("release"),
        "ranks": None,
        "page_size": None,
        "ratio": ask.get("ratio") or None,
        "size_gb": ask.get("size_gb") or None,
        "largest_ratio": None,
        "reliable_ratio": None,
        "largest_size_gb": None,
        "bytes_per_token": None,
        "draft_bytes_per_token": None,
        "device_tokens": None,
        "device_tokens_low": None,
        "device_tokens_high": None,
        "device_tokens_source": "unknown",
        "pools": [],
        "per_rank_gb": None,
        "per_rank_gib": None,
        "total_gb": None,
        "total_gib": None,
        "memory": None,
        "numa": [],
        "weights": weights(ask),
        "objections": [],
        "cautions": [],
        "unknown": [],
        "explanation": [],
    }


def _judge(ask, shape, memory, tokens, result):
    """Fill in whether the pools fit, and the largest that do."""
    size_gb, ratio, pools = result["size_gb"], result["ratio"], result["pools"]
    objections, warning = _small_pool(shape, tokens, pools)
    result["objections"] += [objections] if objections else []
    result["cautions"] += [warning] if warning else []
    if not memory.known:
        result["unknown"].append("The memory that the host has available is not known.")
        return
    if tokens.high:
        hundredths = _largest(
            lambda value: not memory.objections(shape.pools(tokens.high, value / 100, None)), _MOST_HUNDREDTHS
        )
        result["largest_ratio"] = hundredths / 100
        reliable = _largest(lambda value: _passes(memory, shape.pools(tokens.high, value / 100, None)), hundredths)
        result["reliable_ratio"] = reliable / 100
    result["largest_size_gb"] = _largest(
        lambda value: not memory.objections(shape.pools(tokens.high, None, value)) if value else True, _MOST_GB
    )
    against = memory.objections(pools)
    if tokens.source == "estimated" and not size_gb:
        least = memory.objections(shape.pools(tokens.low, ratio, None)) if tokens.low else []
        most = memory.objections(shape.pools(tokens.high, ratio, None))
        if most and not least:
            result["unknown"].append(
                f"At the low end of the estimate it fits, at the high end not: {' '.join(most)} "
                f"A ratio of {result['largest_ratio']:.2f} fits in any case."
            )
            against = []
        else:
            against = least
    # What the processes of the ranks take is an assumption: it may warn, and it must not stop a start that has run.
    certain = Memory({**ask, "rank_memory_gb": 0}, shape).objections(pools) if against and memory.processes else against
    if against and not certain:
        result["unknown"].append(
            f"It hangs on what the processes of the ranks take, assumed {_gb(memory.processes)} in all: "
            f"{' '.join(against)} Without them it fits."
        )
    result["objections"] += against if certain else []
    late = None if against else memory.late_rank(pools)
    result["cautions"] += [late] if late else []
    result["numa"] = numa_nodes(ask, memory, pools)
    for node in result["numa"]:
        if not node["fits"]:
            result["cautions"].append(
                f"NUMA node {node['id']} gets the pools of {_plural(node['ranks'], 'rank')}, {node['need_gb']:,.2f} "
                f"GB, and has about {node['room_gb']:,.2f} of its {node['total_gb']:,.2f} GB for them. Ranks that are "
                "bound to it can run out of memory while the other node has some."
            )
    result["explanation"].append(memory.rule())


def _limits(result):
    words = []
    if result["largest_ratio"] is not None:
        words.append(f"ratio {result['largest_ratio']:.2f}" if result["largest_ratio"] else "no ratio at all")
        if result["reliable_ratio"] and result["reliable_ratio"] < result["largest_ratio"]:
            words[-1] += f" ({result['reliable_ratio']:.2f} in any order of the ranks)"
    if result["largest_size_gb"]:
        words.append(f"size {result['largest_size_gb']} GB")
    return f"The largest that fits: {' or '.join(words)}." if words else None


def make_plan(ask):
    """The plan of one start on one host.

    ``ask`` is a mapping with the arguments of the module ``hicache_plan``, where they are described. The result is
    what the module returns. ``fits`` is None where it cannot be told, and ``unknown`` then says why.

    :raises PlanError: when settings contradict each other.
    :raises ValueError: when the release is none.
    """
    result = _empty(ask)
    hicache_size.parse_release(ask["release"])
    if not ask.get("hicache_enabled", True):
        result["explanation"].append("The hierarchical cache is off: no host pool is allocated.")
        return _close(result, ask)
    if not ask.get("model_config"):
        result["unknown"].append("The model's config.json is not known.")
        return _close(result, ask)
    try:
        shape = Shape(ask)
    except kv_geometry.GeometryError as error:
        result["unknown"].append(f"{str(error)[0].upper()}{str(error)[1:]}.")
        return _close(result, ask)
    if ask.get("draft_expected") and not ask.get("draft_config"):
        result["unknown"].append("The draft's config.json is not known, so its host pool is left out of the sums.")
    memory = Memory(ask, shape)
    notes = []
    tokens = find_device_tokens(ask, shape.token_bytes, shape.draft_token_bytes, shape.page, notes)
    result.update(
        ranks=shape.ranks,
        page_size=shape.page,
        bytes_per_token=shape.token_bytes,
        draft_bytes_per_token=shape.draft_token_bytes or None,
        device_tokens=tokens.tokens,
        device_tokens_low=tokens.low,
        device_tokens_high=tokens.high,
        device_tokens_source=tokens.source,
        memory=memory.result([]) if memory.known else None,
    )
    result["explanation"] += [tokens.sentence, *notes]
    notes = []
    result["ratio"] = _ratio(ask, shape, memory, tokens.tokens, notes)
    result["explanation"] += notes
    size_gb = result["size_gb"]
    pools = shape.pools(tokens.tokens, result["ratio"], size_gb)
    result["pools"] = pools
    if not pools:
        result["unknown"].append(tokens.sentence)
        return _close(result, ask)
    if shape.draft_pooled and len(shape.stages) > 1:
        result["cautions"].append("A draft pool is counted for every pipeline stage; the true sum may be smaller.")
    result["explanation"] += _pool_sentences(shape, tokens, result["ratio"], size_gb, pools)
    each = [sum(pool["pinned_bytes"] for pool in pools if pool["stage"] == stage.number) for stage in shape.stages]
    total = sum(pool["total_bytes"] for pool in pools)
    result.update(
        per_rank_gb=round(max(each) / GB, 2),
        per_rank_gib=round(max(each) / GIB, 2),
        total_gb=round(total / GB, 2),
        total_gib=round(total / GIB, 2),
        memory=memory.result(pools) if memory.known else None,
    )
    _judge(ask, shape, memory, tokens, result)
    limits = _limits(result)
    result["explanation"] += [limits] if limits else []
    return _close(result, ask)


def _close(result, ask):
    """Weights, and the one answer from all that was found."""
    found = result["weights"]
    if found["fits"] is not None:
        ranks = _positive(ask, "tensor_parallel_size") * _positive(ask, "pipeline_parallel_size")
        sentence = _weights_sentence(found, ranks)
        if found["fits"]:
            result["explanation"].append(sentence)
        else:
            result["objections"].append(f"{sentence} Use more or larger GPUs, or a smaller model.")
    if result["objections"]:
        result["fits"] = False
    elif not result["unknown"]:
        result["fits"] = True
    return result
