# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold what a start says about its own arguments against what was asked for.

A start prints the arguments that it runs with (``server_args=``). They are the engine's own: with them a unit that was
edited, a process that was started by hand and a setting that another one overrides show without any arithmetic.

Source: ``srt/server_args.py`` and ``srt/arg_groups`` of the SGLang wheels 0.4.6 to 0.5.23.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

import math
from collections import namedtuple

from .. import hicache_size
from .._model import parallel_layout

#: A setting that is not what was asked for: its name, both values, and in words why the difference counts.
Difference = namedtuple("Difference", "name wanted got why")

#: Arguments that no release changes when they are given: another value is another deployment. Parsers have aliases, a
#: quantization is detected anew, and speculation has numbers of its own by algorithm: those are only noted.
CERTAIN = frozenset(
    (
        *("model_path", "served_model_name", "host", "port", "dtype", "trust_remote_code", "revision"),
        *("kv_cache_dtype", "mem_fraction_static", "max_total_tokens", "context_length"),
        *("tp_size", "pp_size", "dp_size", "dcp_size", "nnodes", "node_rank", "enable_dp_attention"),
        *("enable_hierarchical_cache", "hicache_ratio", "hicache_size", "hicache_write_policy"),
        *("hicache_storage_backend", "hicache_host_memory_mode"),
        *("hicache_mem_layout", "hicache_io_backend", "page_size", "disable_radix_cache"),
        *("speculative_algorithm", "speculative_draft_model_path", "speculative_draft_kv_cache_dtype"),
        *("disaggregation_mode", "disaggregation_decode_enable_radix_cache"),
    )
)
#: What the engine takes where such an argument is not given.
DEFAULTS = {
    "hicache_ratio": hicache_size.DEFAULT_RATIO,
    "hicache_size": 0,
    "disaggregation_mode": "null",
    "tp_size": 1,
    "pp_size": 1,
    "dp_size": 1,
    "dcp_size": 1,
    "nnodes": 1,
    "node_rank": 0,
}
#: Names of the layout as people ask for it, and as the start prints it. Context parallelism of the attention alone has
#: no option of its own.
LAYOUT_ARGUMENTS = {
    name: field for name, field in parallel_layout.FIELDS.items() if name != "attention_context_parallel_size"
}
# Attention backends that take any page size; others, and some models, put their own in its place.
_ANY_PAGE = frozenset(("fa3", "flashinfer", "triton", "torch_native", "flex_attention"))
_IMPOSED_PAGES = frozenset((16, 32, 64, 128, 256))
_FIRST_FREE_FA3 = (0, 5, 14, 0)


def settings_of(start):
    """The server arguments that count: those of the processes that allocated where several servers share the log.

    Returns a list of dicts, empty where the start printed none.
    """
    found = [(origin, settings) for origin, settings in start.settings_by.items() if settings]
    if len(found) > 1:
        origins = {item.origin for item in start.allocations}
        own = [settings for origin, settings in found if origin in origins]
        return own or [start.settings]
    return [start.settings] if start.settings else []


def layout_of(settings, asked=None):
    """The :class:`Layout` of a start: as its arguments say, else as it was asked for; None if neither can be read."""
    try:
        if "tp_size" in settings:
            return parallel_layout.layout(parallel_layout.from_server_args(settings))
        return parallel_layout.layout(asked) if asked else None
    except ValueError:
        return None


def enabled(settings):
    """Whether the start's own arguments have HiCache on: True, False, or None where they do not tell."""
    value = settings.get("enable_hierarchical_cache")
    return value if isinstance(value, bool) else None


def makes_retraction_pool(settings, release):
    """Tell whether a server of these arguments makes host pools for retraction, with HiCache off.

    From 0.5.18 a decode server backs up the requests that it retracts in a host pool of the cache's own kind (MHA and
    SWA); nobody asks for it, and nothing is found in it again.
    """
    return (
        enabled(settings) is False
        and settings.get("disaggregation_mode") == "decode"
        and settings.get("disaggregation_decode_retraction_backup") != "cpu_tensor"
        and (release is None or release >= hicache_size.FIRST_RETRACTION_POOL)
    )


# -- one setting ----------------------------------------------------------------------------------------------------


def _plain(value):
    """A value as it can be compared: numbers as numbers, truth as truth, and nothing for what leaves the choice."""
    if isinstance(value, str):
        text = value.strip()
        if text.lower() in ("", "none", "null", "auto"):
            return None
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        try:
            number = float(text)
        except ValueError:
            return text
        return number if math.isfinite(number) else text
    if isinstance(value, bool) or value is None:
        return value
    return float(value) if isinstance(value, int) and abs(value) < 2**53 else value


def _same_text(name, wanted, got):
    if name == "speculative_algorithm":
        # EAGLE with a frozen draft has a name of its own.
        names = {"NEXTN": "EAGLE", "FROZEN_KV_MTP": "EAGLE"}
        return names.get(wanted.upper(), wanted.upper()) == names.get(got.upper(), got.upper())
    if name.endswith("kv_cache_dtype"):
        names = {"bf16": "bfloat16", "fp16": "float16"}
        return names.get(wanted, wanted) == names.get(got, got)
    if name.endswith("_path"):
        wanted, got = wanted.rstrip("/"), got.rstrip("/")
        # A name of a hub becomes the folder that it was loaded into.
        hub = not wanted.startswith("/") and got.startswith("/")
        folded = wanted.replace("/", "--")
        return wanted == got or (hub and (f"--{folded}" in got or got.endswith("/" + wanted)))
    return wanted == got


def same(name, wanted, got):
    """Tell whether a start that prints ``got`` has what was ``wanted``, both as they come; see :data:`DEFAULTS`."""
    if name == "disaggregation_mode":
        # The only argument whose "null" is a value.
        return (wanted or "null") == (got or "null")
    wanted, got = _plain(wanted), _plain(got)
    if wanted is None:
        return True
    if got is None:
        default = _plain(DEFAULTS.get(name))
        return wanted is False or wanted == default
    if isinstance(wanted, str) and isinstance(got, str):
        return _same_text(name, wanted, got)
    if isinstance(wanted, float) and isinstance(got, float):
        return abs(wanted - got) <= 1e-9 * max(1.0, abs(wanted))
    return type(wanted) is type(got) and wanted == got


def _release(settings, release):
    if release is not None:
        return release
    try:
        return hicache_size.parse_release(settings.get("version"))
    except ValueError:
        return None


def _backends(settings):
    names = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")
    return [settings[name] for name in names if isinstance(settings.get(name), str)]


def resolved(name, wanted, settings, release=None):
    """Tell whether the engine itself puts the start's value in the place of the wanted one."""
    got = settings.get(name)
    backends = _backends(settings)
    if name == "page_size":
        try:
            page = int(_plain(wanted))
        except (TypeError, ValueError, OverflowError):
            return False
        if hicache_size.effective_page_size(page, backends) == got:
            return True
        return got in _IMPOSED_PAGES and not (backends and set(backends) <= _ANY_PAGE)
    if name in ("hicache_mem_layout", "hicache_io_backend") and settings.get("enable_unified_memory"):
        return got in ("page_first", "kernel")
    if name == "hicache_mem_layout":
        if settings.get("hicache_storage_backend"):
            return str(got).startswith("page_")
        return wanted == "page_first" and got == "page_first_direct"
    if name == "hicache_io_backend":
        known = _release(settings, release)
        old = known is None or known < _FIRST_FREE_FA3
        return got == "direct" and (
            settings.get("hicache_mem_layout") == "page_first_direct" or (old and "fa3" in backends)
        )
    if name == "speculative_num_draft_tokens":
        steps = settings.get("speculative_num_steps")
        return settings.get("speculative_eagle_topk") == 1 and isinstance(steps, int) and got == steps + 1
    if name in ("dp_size", "enable_dp_attention"):
        printed = parallel_layout.from_server_args(settings)
        data = printed.get("data_parallel_size", 1)
        if name == "dp_size":
            return same(name, wanted, data)
        # Data parallelism of one copy has nothing to share out.
        return same(name, wanted, printed.get("dp_attention_enabled")) or data == 1
    return False


# -- all of them ------------------------------------------------------------------------------------------------------


def _show(value):
    if isinstance(value, float):
        return f"{value:g}"
    return "not set" if value is None else str(value)


def _pools(settings, ask):
    """Differences of ratio and size; a size above 0 wins over a ratio, on either side."""
    wanted_ratio = ask.ratio or _plain((ask.settings or {}).get("hicache_ratio"))
    wanted_size = ask.hicache_size or _plain((ask.settings or {}).get("hicache_size"))
    size = settings.get("hicache_size")
    if wanted_size:
        if "hicache_size" in settings and not same("hicache_size", wanted_size, size):
            yield Difference("hicache_size", wanted_size, size, "")
    elif wanted_ratio:
        if size:
            yield Difference("hicache_ratio", wanted_ratio, f"hicache_size {_show(size)}", ", and a size wins")
        elif "hicache_ratio" in settings and not same("hicache_ratio", wanted_ratio, settings["hicache_ratio"]):
            yield Difference("hicache_ratio", wanted_ratio, settings["hicache_ratio"], "")
    elif size and (ask.settings or {}).get("hicache_size") in (0, "0"):
        yield Difference("hicache_size", 0, size, "")


def _switch(settings, ask):
    """Whether HiCache itself is on as it was asked for: ``ranks`` of 0 ask for none."""
    asked = bool(ask.rank_set) or (ask.ranks or 0) > 0
    if ask.ranks is None and not ask.rank_set:
        return
    on = enabled(settings)
    if on is not None and on != asked:
        why = "" if asked else ", and no rank was expected to have a host pool"
        yield Difference("enable_hierarchical_cache", asked, on, why)


def _layout(settings, ask):
    # Through the one place that knows the layout: releases print one layout in several ways.
    printed = parallel_layout.from_server_args(settings)
    for name, value in (ask.layout or {}).items():
        argument = LAYOUT_ARGUMENTS[name]
        if value is None or argument not in settings:
            continue
        if not same(argument, value, printed.get(name)) and not resolved(argument, value, settings):
            yield Difference(argument, value, printed.get(name), "")
    # A line that somebody shortened does not name the rest of the layout, and proves no number of ranks.
    whole = all(name in settings for name in ("tp_size", "dp_size", "pp_size", "nnodes", "node_rank"))
    if ask.ranks and not ask.rank_set and whole:
        layout = layout_of(settings)
        if layout is not None and layout.ranks != ask.ranks:
            yield Difference("ranks", ask.ranks, layout.ranks, " by its parallel sizes")


def differences(settings, ask, release=None):
    """What a start's arguments have other than it was asked for.

    ``settings`` is one dict of :func:`settings_of`, ``ask`` the :class:`Ask` of the judge, ``release`` a tuple or None.
    Returns ``(differences, open)``: a list of :class:`Difference`, and the names whose difference the engine may have
    made itself. An argument that the start does not print differs from nothing.
    """
    found = [*_switch(settings, ask), *_pools(settings, ask), *_layout(settings, ask)]
    known = {one.name for one in found} | {"hicache_ratio", "hicache_size"}
    wanted = dict(ask.settings or {})
    if ask.page_size is not None:
        wanted.setdefault("page_size", ask.page_size)
    for name, option in (("kv_cache_dtype", "kv_cache_dtype"), ("speculative_draft_kv_cache_dtype", "draft_dtype")):
        if getattr(ask, option):
            wanted.setdefault(name, getattr(ask, option))
    unsure = []
    for name in sorted(wanted):
        if name in known or name not in settings:
            continue
        if same(name, wanted[name], settings[name]):
            continue
        if name not in CERTAIN or resolved(name, wanted[name], settings, release):
            unsure.append(name)
        else:
            found.append(Difference(name, wanted[name], settings[name], ""))
    return found, unsure


def check(start, ask, release, reasons):
    """Add what the start's own arguments say against the ask; returns True when they say nothing."""
    right = True
    for settings in settings_of(start):
        found, unsure = differences(settings, ask, release)
        if found:
            right = False
            words = [
                f"{one.name} is {_show(one.got)}{one.why}, where {_show(one.wanted)} was asked for" for one in found
            ]
            more = f" ({len(words) - 6} more)" if len(words) > 6 else ""
            reasons.fail(
                "settings_differ",
                f"This start runs with other arguments than it should: {'; '.join(words[:6])}{more}. Render the unit "
                "again from its settings and restart it, as site.yml does.",
            )
        if unsure:
            shown = [f"{name} {_show(settings[name])} for {_show(ask_value(ask, name))}" for name in unsure[:6]]
            reasons.note(
                "settings_resolved",
                f"The engine may have put its own choice in the place of some arguments: {', '.join(shown)}.",
            )
    return right


def ask_value(ask, name):
    """The value that was asked for an argument, in the settings or by an option of its own."""
    if name in (ask.settings or {}):
        return ask.settings[name]
    return {"page_size": ask.page_size, "kv_cache_dtype": ask.kv_cache_dtype}.get(name)
