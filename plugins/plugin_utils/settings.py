# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The typed settings of one SGLang service, and the command line and environment made from them.

A settings mapping has the variables of role serve without their prefix: C(port) is C(serve_port).
"""

from __future__ import annotations

import re
from collections import namedtuple

from ..module_utils._model import parallel_layout
from .engine_arguments import UnknownRelease, arguments, option_words, release_key

Setting = namedtuple("Setting", "name kind option group")
Setting.__doc__ = """One typed setting.

name: key of the settings mapping; kind: str, int, float, bool, list or dict;
option: SGLang's option for it, None for a setting of the unit only; the first spelling is the one that
every release from 0.5.9 to 0.5.23 takes;
group: None, or the setting that must be true, or above 1, before the option is given.
"""

# The order is the order on the command line, so that a diff of two units lines up.
SETTINGS = (
    Setting("model_path", "str", "model-path", None),
    Setting("served_model_name", "str", "served-model-name", None),
    Setting("host", "str", "host", None),
    Setting("port", "int", "port", None),
    Setting("tensor_parallel_size", "int", "tp-size", None),
    Setting("nodes", "int", "nnodes", "nodes"),
    Setting("node_rank", "int", "node-rank", "nodes"),
    Setting("dist_init_address", "str", "dist-init-addr", "nodes"),
    Setting("trust_remote_code", "bool", "trust-remote-code", None),
    Setting("mem_fraction_static", "float", "mem-fraction-static", None),
    Setting("max_total_tokens", "int", "max-total-tokens", None),
    Setting("page_size", "int", "page-size", None),
    Setting("kv_cache_dtype", "str", "kv-cache-dtype", None),
    Setting("attention_backend", "str", "attention-backend", None),
    Setting("speculative_enabled", "bool", None, None),
    Setting("speculative_algorithm", "str", "speculative-algorithm", "speculative_enabled"),
    Setting("draft_model_path", "str", "speculative-draft-model-path", "speculative_enabled"),
    Setting("speculative_num_steps", "int", "speculative-num-steps", "speculative_enabled"),
    Setting("speculative_eagle_topk", "int", "speculative-eagle-topk", "speculative_enabled"),
    Setting("speculative_num_draft_tokens", "int", "speculative-num-draft-tokens", "speculative_enabled"),
    Setting("hicache_enabled", "bool", "enable-hierarchical-cache", None),
    Setting("hicache_ratio", "float", "hicache-ratio", "hicache_enabled"),
    Setting("hicache_size", "int", "hicache-size", "hicache_enabled"),
    Setting("hicache_write_policy", "str", "hicache-write-policy", "hicache_enabled"),
    Setting("hicache_io_backend", "str", "hicache-io-backend", "hicache_enabled"),
    Setting("hicache_mem_layout", "str", "hicache-mem-layout", "hicache_enabled"),
    Setting("tool_call_parser", "str", "tool-call-parser", None),
    Setting("reasoning_parser", "str", "reasoning-parser", None),
    Setting("metrics_enabled", "bool", "enable-metrics", None),
    Setting("log_level", "str", "log-level", None),
    Setting("engine_options", "dict", None, None),
    Setting("environment", "dict", None, None),
    Setting("name", "str", None, None),
    Setting("release_check_enabled", "bool", None, None),
    Setting("verification_expected", "bool", None, None),
    Setting("sandbox_enabled", "bool", None, None),
    Setting("device_policy_enabled", "bool", None, None),
    Setting("gpus", "list", None, None),
    Setting("cpus", "str", None, None),
    Setting("numa_policy", "str", None, None),
    Setting("numa_nodes", "str", None, None),
    Setting("memory_max", "str", None, None),
    Setting("memory_available_gb", "float", None, None),
    Setting("oom_score_adjust", "int", None, None),
    Setting("start_timeout_seconds", "int", None, None),
    Setting("leftover_timeout_seconds", "int", None, None),
    Setting("unit_directives", "dict", None, None),
    Setting("restart_seconds", "int", None, None),
    Setting("stop_timeout_seconds", "int", None, None),
)

# What a setting means when the mapping leaves it out.
ABSENT = {
    "release_check_enabled": True,
    "verification_expected": True,
    "sandbox_enabled": True,
    "device_policy_enabled": True,
    "nodes": 1,
    "node_rank": 0,
}

_TRUE = frozenset(("true", "yes", "on", "1"))
_FALSE = frozenset(("false", "no", "off", "0"))

# Releases whose overlap scheduler under EAGLE waits for this switch; it is gone from 0.5.14 on
# (sglang/srt/environ.py). 0.5.9 and 0.5.10 raise when it is set with a topk above 1.
SPEC_V2_VARIABLE = "SGLANG_ENABLE_SPEC_V2"
SPEC_V2_ANY_TOPK = (0, 5, 11, 0)
SPEC_V2_FIRST = (0, 5, 9, 0)
SPEC_V2_GONE = (0, 5, 14, 0)


def plain(value):
    """Return a copy made of Python's own types only.

    Ansible hands over tagged and lazy types, whose templates are resolved by reading them.
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value if value is None else str(value)


def _typed(value, kind):
    """Return `value` as `kind` where its text says so without doubt, else as it came.

    Extra variables on the command line are always text, so "8" is 8, "false" is false and "" is unset.
    """
    if kind == "dict":
        return {} if value in (None, "") else value
    if kind == "list":
        # One GPU or a list of them: 0, "0,1" and [0, 1].
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        return [] if value is None else [value] if isinstance(value, int) else value
    if value == "" and kind != "str":
        return None
    if kind == "bool" and isinstance(value, str):
        lowered = value.strip().lower()
        return True if lowered in _TRUE else False if lowered in _FALSE else value
    if kind == "int" and isinstance(value, str):
        digits = value.strip()
        # Python refuses to read thousands of digits; nothing that is counted here needs twenty.
        return int(digits) if re.match(r"[+-]?[0-9]{1,20}\Z", digits) else value
    if kind == "float" and not isinstance(value, bool) and isinstance(value, (str, int)):
        try:
            return float(value)
        except (ValueError, OverflowError):
            return value
    if kind == "str" and not isinstance(value, bool) and isinstance(value, (int, float)):
        return str(value)
    return value


def normalised(settings):
    """Return a settings mapping with every known key present and in its type.

    Values that do not fit their type stay as they are, for settings_problems to name. Unknown keys are kept.
    """
    found = plain(settings)
    for setting in SETTINGS:
        value = found.get(setting.name)
        if value is None:
            value = ABSENT.get(setting.name)
        elif value == "" and setting.name in ABSENT:
            # Written and left empty: not what the setting means when nobody writes it.
            continue
        found[setting.name] = _typed(value, setting.kind)
        if setting.kind == "str" and found[setting.name] == "":
            found[setting.name] = None
    return found


def _known_arguments(release):
    try:
        return arguments(release)
    except UnknownRelease:
        return {}


def is_on(values, group):
    """Tell whether the options of a group are given: its setting is true, or a number above 1."""
    value = values[group]
    return value if isinstance(value, bool) else isinstance(value, int) and value > 1


def engine_argv(settings, release):
    """Return the words after C(python -m sglang.launch_server) for a settings mapping, in a fixed order.

    settings: see SETTINGS, with engine_options as a mapping of further options to values (see
    C(engine_arguments.option_words)), which follow sorted by name; release: such as C(0.5.23), and any
    text is taken, as settings_problems is what refuses a release. HiCache and speculation options appear
    only while their switch is on. Nothing is checked here.
    """
    values = normalised(settings)
    known = _known_arguments(release)
    words = []
    for setting in SETTINGS:
        if setting.option is None or (setting.group is not None and not is_on(values, setting.group)):
            continue
        words += option_words(setting.option, values[setting.name])
    for name in sorted(values["engine_options"]):
        words += option_words(name, values["engine_options"][name], known.get(name))
    return words


def engine_environment(settings, release):
    """Return the environment variables that these settings need, a dict of text to text.

    That is the list of GPUs where the service has some of its own, and what a release needs: now the switch for the
    overlapped EAGLE scheduler, from 0.5.9 until 0.5.13 had its last post release, with topk 1 only, because 0.5.9 and
    0.5.10 refuse to start with a larger one.
    """
    values = normalised(settings)
    found = {"CUDA_VISIBLE_DEVICES": ",".join(str(gpu) for gpu in values["gpus"])} if values["gpus"] else {}
    try:
        key = release_key(release)
    except UnknownRelease:
        return found
    if (
        values["speculative_enabled"] is True
        and values["speculative_algorithm"] in ("EAGLE", "NEXTN", "EAGLE3", "STANDALONE")
        and values["speculative_eagle_topk"] in (1, None)
        and SPEC_V2_FIRST <= key < SPEC_V2_GONE
    ):
        found[SPEC_V2_VARIABLE] = "1"
    return found


def node_ranks(settings):
    """Return which ranks a node runs, a dict of ranks (their number), rank_set (their names) and stages (of all nodes).

    rank_set is empty on a single node, where the number tells everything. Where ranks come from, and what is refused
    with a ValueError, tells C(module_utils/_model/parallel_layout.py).
    """
    found = parallel_layout.layout(parallel_layout.from_service(plain(settings)))
    return {"ranks": found.ranks, "rank_set": found.rank_set, "stages": found.stages}


def service_url(host, port):
    """Return the base URL of a server as its own host reaches it; wildcard addresses answer on loopback."""
    address = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1", "None": "127.0.0.1"}.get(str(host), str(host))
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"
