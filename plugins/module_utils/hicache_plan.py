# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a start of SGLang will take of its host's memory, and whether that fits, told before anything is started.

Units: GB is 10**9 bytes, as SGLang prints host pools; GiB is 2**30 bytes, as SGLang prints device pools and calls GB.
Everything is computed in bytes and rounded where it is shown.

Source: ``srt/mem_cache/memory_pool_host.py``, ``srt/mem_cache/pool_host/base.py``, ``srt/mem_cache/host_memory.py``,
``srt/mem_cache/hicache_auto_size.py``, ``srt/mem_cache/hybrid_cache/hybrid_pool_assembler.py``,
``srt/mem_cache/kv_cache_builder.py``, ``srt/speculative/base_spec_worker.py`` and ``srt/distributed/utils.py`` of the
SGLang wheels 0.5.9 to 0.5.23.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

import re
from collections import namedtuple

from . import hicache_size, kv_geometry
from ._model import parallel_layout
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
    """The settings cannot be planned; the message names the setting, its value and what to do."""


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


# --- figures that cannot be ------------------------------------------------------------------------------------------

#: The most that a figure of each kind can be: far above any machine, far below what a float cannot hold.
_MOST_BYTES = 10**18
_MOST_TOKENS = 10**12
# name: (least, most, the unit for the message); 0 and null stand for what is not given where the least is 0.
_RANGES = {
    "page_size": (0, 10**6, "tokens"),
    "ratio": (0, 1000, "times the device pool"),
    "size_gb": (0, 10**6, "GB (10**9 bytes)"),
    "host_memory_fraction": (0, 1, "as a share"),
    "device_tokens": (0, _MOST_TOKENS, "tokens"),
    "max_total_tokens": (0, _MOST_TOKENS, "tokens"),
    "mem_fraction_static": (0, 1, "as a share"),
    "weight_bytes": (0, _MOST_BYTES, "bytes"),
    "draft_weight_bytes": (0, _MOST_BYTES, "bytes"),
    "rank_memory_gb": (0, 10**6, "GB (10**9 bytes)"),
}
# What the option of the module is called where the name differs.
_OPTION_NAMES = {"size_gb": "hicache_size"}


def shown(value):
    """A value for a message, cut where it is long."""
    try:
        text = repr(value) if isinstance(value, str) else str(value)
    except ValueError:
        return "beyond what can be printed"
    return text if len(text) <= 40 else f"{text[:20]}... ({len(text)} characters)"


def check_figure(name, value, least, most, unit):
    """Refuse what is no amount: text, truth values, infinity, not-a-number, and what no machine has.

    :raises PlanError: naming the figure and its value.
    """
    if value is None:
        return
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    # No comparison holds for not-a-number, and infinity is beyond every range.
    if not number or not least <= value <= most:
        raise PlanError(f"{name} is {shown(value)}: that is no such amount; give {least} to {most:,} {unit}")


def check_figures(ask):
    """Refuse every figure of ``ask`` that cannot be; see :func:`check_figure`.

    :raises PlanError: naming the figure and its value.
    """
    for name, (least, most, unit) in _RANGES.items():
        check_figure(_OPTION_NAMES.get(name, name), ask.get(name), least, most, unit)
    for key in ("total", "available", "cgroup_limit", "held"):
        check_figure(f"memory.{key}", (ask.get("memory") or {}).get(key), 0, _MOST_BYTES, "bytes")
    for gpu in ask.get("gpus") or []:
        check_figure("gpus.memory_total_mib", gpu.get("memory_total_mib"), 0, 10**12, "MiB")
    for node in ask.get("numa") or []:
        check_figure("numa.total", node.get("total"), 0, _MOST_BYTES, "bytes")
    tokens = (ask.get("remembered") or {}).get("device_tokens")
    check_figure("remembered.device_tokens", tokens, 0, _MOST_TOKENS, "tokens")


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
    except OverflowError:
        return shown(value)


def _telling_option(name, value):
    if _SECRET_OPTION.search(name):
        return False
    return name in _TEXT_OPTIONS or _canonical(value) in (None, "true", "false") or _is_number(value)


def _is_number(value):
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
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
    # A counter of the kernel has 64 bits; longer ones are none of its.
    for name, value in re.findall(r"^(\w+) (\d{1,19})$", memory_stat or "", re.MULTILINE):
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
    found = _SIZE.match(words) if len(words) <= 24 else None
    if not found:
        raise PlanError(
            f"{shown(str(text))} is no limit of memory. Give it as systemd reads it, such as 400G, 80% or infinity."
        )
    value, unit = float(found.group(1)), found.group(2).upper()
    if unit == "%":
        return int(total * value / 100) if total else None
    return int(value * 1024 ** " KMGTPE".index(unit or " "))


# --- ranks ------------------------------------------------------------------------------------------------------------


def layout_of(ask):
    """The :class:`parallel_layout.Layout` of a plan's settings and engine options.

    :raises ValueError: when they contradict each other.
    """
    return parallel_layout.layout(parallel_layout.from_service(ask))


def host_stages(layout, layers):
    """The :class:`Stage` of each pipeline stage that has ranks on this host, of one engine."""
    return [
        Stage(stage.number, stage.ranks, kv_geometry.stage_layers(layers, layout.stages, stage.number))
        for stage in layout.host_stages
    ]


# --- tokens of the device ---------------------------------------------------------------------------------------------


def gpu_bytes(ask):
    """Memory in bytes of the smallest GPU, or None where none is known."""
    sizes = [gpu.get("memory_total_mib") for gpu in ask.get("gpus") or []]
    sizes = [size for size in sizes if size]
    return min(sizes) * MIB if sizes else None


def weight_share(ask):
    """Bytes of the model's weights on one rank, as if all were split evenly; None where their size is not known."""
    return ask["weight_bytes"] / weight_ranks(ask) if ask.get("weight_bytes") else None


def weight_ranks(ask):
    """Ranks of one engine on all its hosts, which share the weights."""
    found = parallel_layout.from_service(ask)
    return (found.get("tensor_parallel_size") or 1) * (found.get("pipeline_parallel_size") or 1)


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

#: Names of pools that all ranks make first, at the same time; drafts follow.
_FIRST_POOLS = ("kv", "budget")


def _entry(name, stage, size, release, **known):
    """One pool of the ranks of a stage; ``size``: its bytes on a rank; ``known``: what is told of its tokens."""
    pinned = hicache_size.pinned_bytes(size, release)
    return {
        "pool": name,
        "stage": stage.number,
        "ranks": stage.ranks,
        "layers": None,
        "packed_layers": 0,
        "bytes_per_token": None,
        "tokens": None,
        "bytes": size,
        "pinned_bytes": pinned,
        "total_bytes": pinned * stage.ranks,
        "gb": round(size / GB, 2),
        "gib": round(size / GIB, 2),
        "total_gb": round(pinned * stage.ranks / GB, 2),
        "line": None,
        **known,
    }


def _pool(name, stage, token_bytes, tokens, release, packed=0):
    size = tokens * token_bytes
    return _entry(
        name,
        stage,
        size,
        release,
        layers=stage.layers,
        packed_layers=packed,
        bytes_per_token=token_bytes,
        tokens=tokens,
        line=hicache_size.allocation_line(size / GB, tokens, name, release, stage.layers, packed),
    )


#: The engine options that a plan reads; role plan passes these and no others, as others may be secret.
READ_OPTIONS = frozenset(
    {
        *parallel_layout.ALL_SPELLINGS,
        "context-length",
        "disable-priority-preemption",
        "disaggregation-decode-enable-offload-kvcache",
        "disaggregation-decode-enable-radix-cache",
        "disaggregation-decode-retraction-backup",
        "disaggregation-mode",
        "enable-priority-scheduling",
        "hicache-host-memory-mode",
        "speculative-draft-kv-cache-dtype",
    }
)


def _option(ask, name):
    """An engine option by either spelling; None without."""
    for option, value in (ask.get("engine_options") or {}).items():
        if str(option).lstrip("-").replace("_", "-") == name:
            return value
    return None


def _option_on(ask, name):
    value = _option(ask, name)
    return value is True or str(value).strip().lower() in ("true", "yes", "on", "1")


def makes_retraction_pool(ask, kind="mha"):
    """Whether a start makes a host pool for retracted requests though HiCache is off.

    ``kind`` is that of the geometry; None where it is not known, and the answer is then that for MHA. Decode servers do
    so from 0.5.18, with MHA and sliding-window caches, unless another way to keep retracted requests is chosen.
    """
    backup = _option(ask, "disaggregation-decode-retraction-backup")
    if (
        str(_option(ask, "disaggregation-mode")).strip().lower() != "decode"
        or hicache_size.parse_release(ask["release"]) < hicache_size.FIRST_RETRACTION_POOL
        or kind == "mla"
    ):
        return False
    if backup not in (None, ""):
        return str(backup).strip() == "host_pool"
    preempts = _option_on(ask, "enable-priority-scheduling") and not _option_on(ask, "disable-priority-preemption")
    return not (
        layout_of(ask).context_ranks > 1
        or _option_on(ask, "disaggregation-decode-enable-radix-cache")
        or _option_on(ask, "disaggregation-decode-enable-offload-kvcache")
        or preempts
    )


def retraction_ratio(ask, device_tokens, page):
    """The ratio of a retraction pool where neither ratio nor size is given: ``(ratio, note)``.

    From 0.5.21 it is raised until the longest request fits, whose length comes from ``context-length`` or the model.
    """
    release = hicache_size.parse_release(ask["release"])
    if release < hicache_size.FIRST_SMALL_RETRACTION_POOL:
        return hicache_size.FIRST_RETRACTION_RATIO, None
    ratio = hicache_size.RETRACTION_RATIO
    if release < hicache_size.FIRST_REQUEST_SIZED_RETRACTION or not device_tokens:
        return ratio, None
    text = kv_geometry.text_config(ask["model_config"])
    longest = _option(ask, "context-length") or text.get("max_position_embeddings")
    try:
        longest = int(longest)
    except (TypeError, ValueError, OverflowError):
        longest = 0
    if not 0 < longest <= _MOST_TOKENS:
        return ratio, "How long a request may be is not known; a retraction pool that has to hold one may be larger."
    least = -(-min(longest, device_tokens) // page) * page
    if least <= device_tokens * ratio:
        return ratio, None
    return least / device_tokens, f"It has to hold the longest request, about {least:,} tokens."


def own_draft(ask):
    """The config of the draft to plan with: that which is given, else the model's where it carries draft layers."""
    if ask.get("draft_config"):
        return ask["draft_config"]
    model = ask.get("model_config")
    if not ask.get("draft_expected") or not isinstance(model, dict) or not kv_geometry.draft_layers(model):
        return None
    return model if str(ask.get("speculative_algorithm") or "EAGLE").upper() in _EAGLE else None


#: Algorithms whose draft may be layers of the model itself; SGLang takes NEXTN for EAGLE.
_EAGLE = ("EAGLE", "NEXTN")


class Shape:
    """What does not depend on ratio and tokens: geometry, ranks and page rule of one start on one host."""

    def __init__(self, ask):
        self.release = ask["release"]
        parsed = hicache_size.parse_release(self.release)
        self.page = hicache_size.effective_page_size(ask.get("page_size"), ask.get("attention_backends") or ())
        self.layout = layout_of(ask)
        dtype = ask.get("kv_cache_dtype")
        self.main = kv_geometry.geometry(ask["model_config"], self.layout.attention_ranks, dtype)
        if self.layout.context_ranks > 1 and self.main.kind != "mla":
            raise kv_geometry.GeometryError(
                f"the heads of a rank under decode context parallelism ({self.layout.context_ranks}) are not known"
            )
        self.draft = None
        draft = own_draft(ask)
        if draft:
            own = _option(ask, "speculative-draft-kv-cache-dtype") or dtype
            self.draft = kv_geometry.geometry(draft, self.layout.draft_attention_ranks, own, draft=True)
        self.draft_pooled = self.draft is not None and parsed >= hicache_size.FIRST_DRAFT_POOL
        # EAGLE3 is never packed; what carries its own draft layers and runs as EAGLE is.
        algorithm = str(ask.get("speculative_algorithm") or "EAGLE").upper()
        self.packed = (
            self.draft_pooled
            and parsed >= hicache_size.FIRST_PACKED_DRAFT
            and algorithm in _EAGLE
            and kv_geometry.draft_layers(draft) is not None
        )
        self.copies = self.layout.engines
        self.ranks_of_engine = self.layout.engine_ranks
        self.ranks = self.layout.ranks
        self.stages = [
            stage._replace(ranks=stage.ranks * self.copies) for stage in host_stages(self.layout, self.main.layers)
        ]
        self.synced = parsed >= hicache_size.FIRST_SYNCED_SIZE
        # A stage of another host may be the one that holds most layers.
        last = self.layout.stages - 1
        self.most_layers = kv_geometry.stage_layers(self.main.layers, self.layout.stages, last)

    @property
    def token_bytes(self):
        """Bytes of one token of the model on the rank that holds most layers."""
        return self.most_layers * self.main.layer_bytes

    @property
    def draft_token_bytes(self):
        """Bytes of one token of the draft, 0 without one."""
        return self.draft.layers * self.draft.layer_bytes if self.draft else 0

    @property
    def packed_bytes(self):
        """Bytes of a token that the draft adds to the main pool."""
        return self.draft_token_bytes if self.packed else 0

    def main_tokens(self, stage, device_tokens, ratio, size_gb):
        """Tokens of the main pool of a rank, or None where they depend on tokens that are not known.

        The figure is that of :func:`hicache_size.predict`, by which the verdict judges as well.
        """
        layers = self.most_layers if self.synced else stage.layers
        token_bytes = layers * self.main.layer_bytes + self.packed_bytes
        return hicache_size.predict(device_tokens, ratio, size_gb, token_bytes, self.page, self.release)["tokens"]

    def pools(self, device_tokens, ratio, size_gb):
        """The pools of all ranks on this host, the main ones first; empty where they are not known."""
        found = []
        for stage in self.stages:
            tokens = self.main_tokens(stage, device_tokens, ratio, size_gb)
            if tokens is not None:
                token_bytes = stage.layers * self.main.layer_bytes + self.packed_bytes
                packed = self.draft.layers if self.packed else 0
                found.append(_pool("kv", stage, token_bytes, tokens, self.release, packed))
        if self.draft_pooled and not self.packed:
            for pool, stage in zip(list(found), self.stages):
                tokens = hicache_size.draft_tokens(pool["tokens"], device_tokens, self.page, self.release)
                drafted = stage._replace(layers=self.draft.layers)
                found.append(_pool("draft", drafted, self.draft_token_bytes, tokens, self.release))
        return found


class SizedShape:
    """A start whose pools are known by their size only, because the geometry of its model is not.

    A size is a budget of bytes: what it takes of the host is known without the bytes of a token.
    """

    draft = None
    draft_pooled = packed = False

    def __init__(self, ask):
        self.release = ask["release"]
        self.page = hicache_size.effective_page_size(ask.get("page_size"), ask.get("attention_backends") or ())
        self.layout = layout_of(ask)
        self.ranks_of_engine = self.layout.engine_ranks
        self.ranks = self.layout.ranks
        self.stages = [Stage(one.number, one.ranks * self.layout.engines, None) for one in self.layout.host_stages]
        shared = hicache_size.parse_release(self.release) >= hicache_size.FIRST_SHARED_BUDGET
        self.kinds = kv_geometry.pool_kinds(ask.get("model_config"))
        #: How many times the size is taken at least.
        self.times = 1 if shared else len(self.kinds or ("full",))
        #: Why the size may not be all that is taken; None where it is.
        self.doubt = None
        if ask.get("draft_expected") or ask.get("draft_config"):
            self.doubt = "The pool of the draft comes on top of the size, and its bytes are not known."
        elif kv_geometry.has_indexer(ask.get("model_config")):
            self.doubt = "The pool of the indexer comes on top of the size, and its bytes are not known."
        elif self.kinds is None and not shared:
            self.doubt = (
                f"Each kind of pool has the size in SGLang {self.release}, and the model's kinds are not known."
            )

    def pools(self, device_tokens, ratio, size_gb):
        """One pool for all that a size takes of each rank; empty without a size."""
        if not size_gb:
            return []
        size = int(size_gb * GB) * self.times
        return [_entry("budget", stage, size, self.release) for stage in self.stages]


# --- memory of the host -----------------------------------------------------------------------------------------------


class Memory:
    """What the host has for the pools, in bytes, by the rule of the release."""

    def __init__(self, ask, shape):
        facts = ask.get("memory") or {}
        self.release = shape.release
        self.shape = shape
        #: Whether all ranks read the memory once, together, before the first pool is made: only where the release
        #: chooses the ratio, and then all pools of a rank fit its share. Else each pool is compared when it is made.
        self.together = sized_by_release(ask)
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

    def objections(self, pools, together=None):
        """Why pools do not fit, one sentence each; ``together`` as for :meth:`late_rank`."""
        together = self.together if together is None else together
        total = sum(pool["total_bytes"] for pool in pools)
        found = []
        if total > self.usable:
            room = max(0, self.usable)
            found.append(
                f"The pools of {_plural(self.shape.ranks, 'rank')} take {_gb(total)}, and the host has "
                f"{_gb(room) if room else 'nothing left'} for them: {_gb(total - room)} too much."
            )
        main = sum(pool["total_bytes"] for pool in pools if pool["pool"] in _FIRST_POOLS)
        for pool in pools:
            # All ranks make their main pools first, at the same time.
            granted = self.budget(0 if pool["pool"] in _FIRST_POOLS or together else main)
            if pool["bytes"] > granted:
                name = "the pools" if pool["pool"] == "budget" else f"the {pool['pool']} pool"
                found.append(
                    f"SGLang {self.release} refuses {name} of a rank: it asks for "
                    f"{_gb(pool['bytes'])} and is granted {_gb(max(0, granted))}."
                )
                break
        return found

    def late_rank(self, pools, together=None):
        """A sentence where a rank that comes after all others would be refused although everything fits; else None.

        ``together`` None takes what the start does; False asks for a start that gives its ratio or size.
        """
        if hicache_size.parse_release(self.release) < hicache_size.FIRST_DIVIDED or not pools:
            return None
        if self.together if together is None else together:
            return None
        main = [pool for pool in pools if pool["pool"] in _FIRST_POOLS]
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
    return not memory.objections(pools, together=False) and memory.late_rank(pools, together=False) is None


def numa_nodes(ask, memory, pools):
    """Need and room of each NUMA node; empty where the nodes of the GPUs are not known.

    SGLang binds the pool of a rank to the node of its GPU.
    """
    nodes = [node for node in ask.get("numa") or [] if node.get("total")]
    gpus = ask.get("gpus") or []
    places = []
    for pool in pools:
        places += [pool["pinned_bytes"]] * pool["ranks"] if pool["pool"] in _FIRST_POOLS else []
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


def sized_by_release(ask):
    """Whether the release lowers its own ratio to what fits: 0.5.21 and newer, with neither ratio nor size given."""
    given = ask.get("ratio") or ask.get("size_gb")
    return not given and hicache_size.parse_release(ask["release"]) >= hicache_size.FIRST_AUTO_SIZED


def _ratio(ask, shape, memory, device_tokens, result):
    """The ratio that the start will use; None where size decides, or an automatic one cannot be told."""
    if ask.get("size_gb"):
        return None
    if ask.get("ratio"):
        return ask["ratio"]
    notes = result["explanation"]
    if ask.get("hicache_enabled", True):
        buffered = str(_option(ask, "hicache-host-memory-mode")).strip() == "buffer_only"
        wanted = hicache_size.BUFFER_RATIO if buffered else hicache_size.DEFAULT_RATIO
    else:
        wanted, note = retraction_ratio(ask, device_tokens, shape.page)
        notes.append(f"SGLang {shape.release} makes a retraction pool of {wanted:.3g} times the device pool.")
        notes += [note] if note else []
    if not sized_by_release(ask):
        return wanted
    if not device_tokens:
        return None
    if not memory.known:
        return wanted
    slots = device_tokens + shape.page
    held = slots * (shape.token_bytes + (shape.draft_token_bytes if shape.draft_pooled else 0))
    fraction = ask.get("host_memory_fraction") or 0.8
    found = hicache_size.auto_ratio(memory.budget(), held, fraction, wanted)
    notes.append(
        f"Neither ratio nor size is set: SGLang {shape.release} lowers its ratio of {wanted:.3g} until {fraction:g} of "
        f"a rank's share holds the pools, here to {max(0, found):.3f}."
    )
    if found <= 0:
        result["objections"].append(
            f"No host memory is left for a pool after the 10 GiB that SGLang {shape.release} leaves alone, and it "
            "stops then. Free memory on the host, or start fewer services."
        )
    return max(0.0, found)


def _pool_sentences(shape, tokens, ratio, size_gb, pools):
    found = []
    first = pools[0]
    main, draft = shape.main, shape.draft
    kept = "every rank holds it whole" if main.kind == "mla" else "each rank holds its own heads"
    found.append(
        f"One token takes {main.layer_bytes:,} bytes x {first['layers']} layers = "
        f"{main.layer_bytes * first['layers']:,} bytes on a rank ({main.architecture}, {main.kind.upper()}: {kept})."
    )
    if shape.packed:
        found.append(
            f"SGLang {shape.release} keeps the model's own draft in the main pool: {_plural(draft.layers, 'layer')} "
            f"and {shape.draft_token_bytes:,} bytes more, {first['bytes_per_token']:,} bytes a token."
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
    elif draft is not None and not shape.packed:
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
    size_gb, pools = result["size_gb"], result["pools"]
    if ask.get("hicache_enabled", True):
        objections, warning = _small_pool(shape, tokens, pools)
        result["objections"] += [objections] if objections else []
        result["cautions"] += [warning] if warning else []
    if not memory.known:
        result["unknown"].append("The memory that the host has available is not known.")
        return
    if tokens.high:
        hundredths = _largest(
            lambda value: not memory.objections(shape.pools(tokens.high, value / 100, None), together=False),
            _MOST_HUNDREDTHS,
        )
        result["largest_ratio"] = hundredths / 100
        reliable = _largest(lambda value: _passes(memory, shape.pools(tokens.high, value / 100, None)), hundredths)
        result["reliable_ratio"] = reliable / 100
    result["largest_size_gb"] = _largest(
        lambda value: not memory.objections(shape.pools(tokens.high, None, value), together=False) if value else True,
        _MOST_GB,
    )
    against = memory.objections(pools)
    if tokens.source == "estimated" and not size_gb:
        ends = []
        for end in (tokens.low, tokens.high):
            # A ratio that the release chooses depends on the tokens.
            ratio = _ratio(ask, shape, memory, end, {"explanation": [], "objections": []})
            ends.append(memory.objections(shape.pools(end, ratio, None)) if end else [])
        least, most = ends
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


def _sum_up(shape, memory, pools, result):
    """Fill in what the pools take together."""
    each = [sum(pool["pinned_bytes"] for pool in pools if pool["stage"] == stage.number) for stage in shape.stages]
    total = sum(pool["total_bytes"] for pool in pools)
    result.update(
        per_rank_gb=round(max(each) / GB, 2),
        per_rank_gib=round(max(each) / GIB, 2),
        total_gb=round(total / GB, 2),
        total_gib=round(total / GIB, 2),
        memory=memory.result(pools) if memory.known else None,
    )


def _sized(ask, reason, result):
    """The plan of a start whose geometry is not known, for ``reason``: a size alone tells what is taken at least."""
    size_gb = ask.get("size_gb")
    if not ask.get("hicache_enabled", True):
        reason += (
            f". A decode server of SGLang {ask['release']} makes a host pool for retracted requests by itself, unless "
            "the model has MLA or recurrent states; how large is not known then"
        )
    if not size_gb:
        result["unknown"].append(f"{reason}.")
        return _close(result, ask)
    shape = SizedShape(ask)
    memory = Memory(ask, shape)
    pools = shape.pools(None, None, size_gb)
    result.update(ranks=shape.ranks, page_size=shape.page, pools=pools)
    _sum_up(shape, memory, pools, result)
    kinds = f" for each of the {shape.times} kinds of pools ({', '.join(shape.kinds)})" if shape.times > 1 else ""
    result["explanation"].append(
        f"A size is bytes, whatever a token takes: hicache_size {size_gb:g} GB{kinds} x "
        f"{_plural(shape.ranks, 'rank')} = {result['total_gb']:,.2f} GB."
    )
    unknown = DeviceTokens(None, None, None, "unknown", "")
    _judge(ask, shape, memory, unknown, result)
    if not isinstance(ask.get("model_config"), dict) or not ask["model_config"] or not ask.get("hicache_enabled", True):
        result["unknown"].append(f"{reason}.")
    elif shape.doubt:
        result["unknown"] += [f"{reason}.", shape.doubt]
    else:
        result["cautions"].append(f"How many tokens that holds is not known: {reason[0].lower()}{reason[1:]}.")
    limits = _limits(result)
    result["explanation"] += [limits] if limits else []
    return _close(result, ask)


def make_plan(ask):
    """The plan of one start on one host.

    ``ask`` is a mapping with the arguments of the module ``hicache_plan``, where they are described. The result is
    what the module returns. ``fits`` is None where it cannot be told, and ``unknown`` then says why.

    :raises PlanError: when settings contradict each other.
    :raises ValueError: when the release is none.
    """
    hicache_size.parse_release(ask["release"])
    check_figures(ask)
    layout_of(ask)
    result = _empty(ask)
    enabled = ask.get("hicache_enabled", True)
    if not enabled and not makes_retraction_pool(ask):
        result["explanation"].append("The hierarchical cache is off: no host pool is allocated.")
        return _close(result, ask)
    if not ask.get("model_config"):
        return _sized(ask, "The model's config.json is not known", result)
    try:
        shape = Shape(ask)
    except kv_geometry.GeometryError as error:
        return _sized(ask, f"{str(error)[0].upper()}{str(error)[1:]}", result)
    if not enabled and not makes_retraction_pool(ask, shape.main.kind):
        result["explanation"].append(
            "The hierarchical cache is off, and a decode server makes no retraction pool for MLA: no host pool is "
            "allocated."
        )
        return _close(result, ask)
    if ask.get("draft_expected") and shape.draft is None:
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
    result["ratio"] = _ratio(ask, shape, memory, tokens.tokens, result)
    size_gb = result["size_gb"]
    pools = shape.pools(tokens.tokens, result["ratio"], size_gb)
    result["pools"] = pools
    if not pools:
        if not result["objections"]:
            result["unknown"].append(tokens.sentence)
        return _close(result, ask)
    if shape.packed and shape.draft.layers > 1:
        result["cautions"].append(
            f"The model carries {shape.draft.layers} draft layers, and all are counted; SGLang may use fewer."
        )
    if shape.draft_pooled and len(shape.stages) > 1:
        result["cautions"].append("A draft pool is counted for every pipeline stage; the true sum may be smaller.")
    result["explanation"] += _pool_sentences(shape, tokens, result["ratio"], size_gb, pools)
    _sum_up(shape, memory, pools, result)
    _judge(ask, shape, memory, tokens, result)
    limits = _limits(result)
    result["explanation"] += [limits] if limits else []
    return _close(result, ask)


def _close(result, ask):
    """Weights, and the one answer from all that was found."""
    found = result["weights"]
    if found["fits"] is not None:
        sentence = _weights_sentence(found, weight_ranks(ask))
        if found["fits"]:
            result["explanation"].append(sentence)
        else:
            result["objections"].append(f"{sentence} Use more or larger GPUs, or a smaller model.")
    if result["objections"]:
        result["fits"] = False
    elif not result["unknown"]:
        result["fits"] = True
    return result
