# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ranks a start of SGLang has on a host, and how they share the KV heads.

The one place that knows tensor, data, pipeline and context parallelism and nodes. Planning, verification, argument
checks and the unit ask here.

Source: ``srt/entrypoints/engine.py`` (ranks of a node), ``srt/layers/dp_attention.py``, ``get_num_kv_heads`` in
``srt/configs/model_config.py``, ``srt/arg_groups/parallel_hook.py`` and ``srt/managers/scheduler.py`` (tags of the log)
of the SGLang wheels 0.5.2 to 0.5.23.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

from collections import namedtuple

#: The most ranks that are taken for meant; more is a slip of the pen, and listing them would take forever.
MOST_RANKS = 4096

#: Settings of layout(), and the fields of SGLang's ServerArgs that hold the same.
FIELDS = {
    "tensor_parallel_size": "tp_size",
    "data_parallel_size": "dp_size",
    "dp_attention_enabled": "enable_dp_attention",
    "pipeline_parallel_size": "pp_size",
    "decode_context_parallel_size": "dcp_size",
    "attention_context_parallel_size": "attn_cp_size",
    "nodes": "nnodes",
    "node_rank": "node_rank",
}
# Every spelling of the engine's options for them.
_OPTIONS = {
    "tensor_parallel_size": ("tp-size", "tensor-parallel-size", "tp"),
    "data_parallel_size": ("dp-size", "data-parallel-size", "dp"),
    "dp_attention_enabled": ("enable-dp-attention",),
    "pipeline_parallel_size": ("pp-size", "pipeline-parallel-size", "pp"),
    "decode_context_parallel_size": ("dcp-size", "decode-context-parallel-size"),
    "attention_context_parallel_size": ("attn-cp-size", "attention-context-parallel-size"),
    "nodes": ("nnodes",),
    "node_rank": ("node-rank",),
}
#: Width of DP attention from 0.5.23 on, which makes ``--enable-dp-attention`` needless.
_ATTENTION_DP = ("attn-dp-size", "attention-data-parallel-size")

#: All option names that are read.
ALL_SPELLINGS = frozenset(_ATTENTION_DP).union(*_OPTIONS.values())

_TRUE = frozenset(("true", "yes", "on", "1"))
_FALSE = frozenset(("false", "no", "off", "0"))

#: number: of the pipeline stage; ranks: how many of its ranks are on this host, of one engine.
HostStage = namedtuple("HostStage", "number ranks")

Layout = namedtuple(
    "Layout",
    "ranks rank_set stages attention_ranks draft_attention_ranks engines engine_ranks host_stages context_ranks",
)
Layout.__doc__ = """The parallel layout of a service as one of its hosts sees it.

ranks: on this host, of all engines; rank_set: their names as the log tags them (``8-15``, ``PP1 TP0``) where the
service spans several nodes, else empty, as the number tells everything; stages: pipeline stages of the whole service;
attention_ranks: how many ranks share the KV heads of the model; draft_attention_ranks: those of the draft, which takes
no part in decode context parallelism; engines: copies of the engine side by side on this host, by plain data
parallelism; engine_ranks: ranks on this host of one engine, by which the engine divides the memory of the host;
host_stages: a :class:`HostStage` for each pipeline stage with ranks on this host; context_ranks: how many ranks share
the tokens of a sequence, by decode context parallelism.
"""


class LayoutError(ValueError):
    """Settings that make no layout; the parts of the message are ``name``, ``value``, ``problem`` and ``fix``."""

    def __init__(self, name, value, problem, fix):
        self.name, self.value, self.problem, self.fix = name, value, problem, fix
        shown = repr(value) if isinstance(value, str) else str(value)
        super().__init__(f"{name} is {shown}: {problem}; {fix}")


def _whole(settings, name, default, least):
    value = settings.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise LayoutError(name, value, "it has to be a whole number", f"give {least} or more")
    if value < least:
        raise LayoutError(name, value, f"it has to be {least} or more", "give such a number")
    if value > MOST_RANKS:
        shown = value if value < 10**12 else "beyond 10**12"
        raise LayoutError(name, shown, f"no service has more than {MOST_RANKS}", "give the true number")
    return value


def _switch(settings, name):
    value = settings.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise LayoutError(name, value, "it has to be true or false", "give one of them")
    return value


def _names(stages, numbers, tensor, first, here):
    """Names of the ranks of a node. The engine leaves out the tag of a dimension that has one rank only."""
    if stages == 1:
        return [f"{first}-{first + here - 1}" if here > 1 else str(first)]
    if tensor == 1:
        return [f"PP{number}" for number in numbers]
    return [f"PP{number} TP{rank}" for number in numbers for rank in range(first, first + here)]


def layout(settings):
    """The :class:`Layout` of a mapping of settings.

    Names are those of the options of module hicache_plan: ``tensor_parallel_size``, ``data_parallel_size``,
    ``dp_attention_enabled``, ``pipeline_parallel_size``, ``decode_context_parallel_size``,
    ``attention_context_parallel_size``, ``nodes`` and ``node_rank``. What is missing or None is 1, 0 or false. Other
    names are ignored.

    :raises LayoutError: when a setting is no such number, or settings contradict each other.
    """
    tensor = _whole(settings, "tensor_parallel_size", 1, 1)
    data = _whole(settings, "data_parallel_size", 1, 1)
    pipeline = _whole(settings, "pipeline_parallel_size", 1, 1)
    decode = _whole(settings, "decode_context_parallel_size", 1, 1)
    context = _whole(settings, "attention_context_parallel_size", 1, 1)
    nodes = _whole(settings, "nodes", 1, 1)
    node = _whole(settings, "node_rank", 0, 0)
    attention = _switch(settings, "dp_attention_enabled")
    if tensor * pipeline * (1 if attention else data) > MOST_RANKS:
        raise LayoutError(
            "tensor_parallel_size",
            tensor,
            f"with pipeline_parallel_size {pipeline} and data_parallel_size {data} these are more than {MOST_RANKS} "
            "ranks",
            "give the true numbers",
        )
    if tensor * pipeline % nodes or (nodes % pipeline and pipeline % nodes):
        raise LayoutError(
            "nodes",
            nodes,
            f"it does not divide tensor_parallel_size {tensor} x pipeline_parallel_size {pipeline} evenly",
            "give a number of hosts that does",
        )
    if node >= nodes:
        raise LayoutError("node_rank", node, f"nodes is {nodes}", f"give 0 to {nodes - 1}")
    split = tensor
    if attention:
        if split % data:
            raise LayoutError(
                "data_parallel_size",
                data,
                f"it does not divide tensor_parallel_size {tensor}, as DP attention needs",
                "give a number that does",
            )
        split //= data
    elif data > 1 and nodes > 1:
        raise LayoutError(
            "data_parallel_size",
            data,
            f"SGLang runs several engines on {nodes} nodes under DP attention only",
            "set dp_attention_enabled, or start a service on each node",
        )
    for name, size in (("attention_context_parallel_size", context), ("decode_context_parallel_size", decode)):
        if split % size:
            raise LayoutError(
                name, size, f"it does not divide the {split} ranks that share a KV cache", "give a number that does"
            )
        if name.startswith("attention"):
            split //= size
    if pipeline >= nodes:
        share = pipeline // nodes
        numbers, here, first = range(node * share, (node + 1) * share), tensor, 0
    else:
        hosts = nodes // pipeline
        here = tensor // hosts
        numbers, first = [node // hosts], here * (node % hosts)
    engine_ranks = len(numbers) * here
    engines = 1 if attention else data
    return Layout(
        ranks=engine_ranks * engines,
        rank_set=_names(pipeline, numbers, tensor, first, here) if nodes > 1 else [],
        stages=pipeline,
        attention_ranks=split // decode,
        draft_attention_ranks=split,
        engines=engines,
        engine_ranks=engine_ranks,
        host_stages=[HostStage(number, here) for number in numbers],
        context_ranks=decode,
    )


def from_server_args(args):
    """The settings for :func:`layout` out of the fields of SGLang's ``ServerArgs``, as log or server tell them.

    ``attn_dp_size`` above 1 is DP attention of that width; releases that have it move ``dp_size`` there.
    """
    found = {name: args.get(field) for name, field in FIELDS.items()}
    _widen(found, args.get("attn_dp_size"))
    return {name: value for name, value in found.items() if value is not None}


def _widen(found, width):
    """Take DP attention of ``width`` into settings that may tell it the old way."""
    if width is None or width == 1:
        return
    found["data_parallel_size"] = width
    found["dp_attention_enabled"] = True


def _typed(value, name):
    """Text that is a number or a switch without doubt as that, as option values may be text; else as it is."""
    if not isinstance(value, str):
        return value
    words = value.strip().lower()
    if name == "dp_attention_enabled":
        return True if words in _TRUE else False if words in _FALSE else value
    return int(words) if words.isascii() and words.isdigit() and len(words) < 10 else value


def spellings(name):
    """Every spelling of the engine's option for a setting, without dashes in front."""
    return _OPTIONS[name] + (_ATTENTION_DP if name == "data_parallel_size" else ())


def from_service(settings):
    """The settings for :func:`layout` out of role serve's variables without their prefix.

    ``engine_options`` wins where it names the same, as the last word does on a command line; dashes and underscores
    are the same in its names, and every spelling of an option is known.
    """
    options = {}
    given = settings.get("engine_options")
    for option, value in given.items() if isinstance(given, dict) else ():
        options[str(option).lstrip("-").replace("_", "-")] = value
    found = {}
    for name, spellings in _OPTIONS.items():
        value = settings.get(name)
        for spelling in spellings:
            if options.get(spelling) is not None:
                value = options[spelling]
        found[name] = _typed(value, name)
    for spelling in _ATTENTION_DP:
        _widen(found, _typed(options.get(spelling), spelling))
    return {name: value for name, value in found.items() if value is not None}
