# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the settings of one SGLang service, found before anything is changed.

The rules come from SGLang's own checks (C(sglang/srt/server_args.py) and, later, C(sglang/srt/arg_groups)),
from the values it rewrites without a word, and from systemd's.
"""

from __future__ import annotations

import json
import math
import posixpath
import re

from ..module_utils import argument_check
from ..module_utils._model import parallel_layout
from . import engine_arguments as table
from ._settings.excludes import disaggregation_excludes, hicache_excludes, number_of
from ._settings.numbers import SECRET_OPTIONS, limits, printable, sizes
from ._settings.vllm_words import option_mend, value_counterpart
from .engine_arguments import UnknownRelease, is_older
from .settings import SETTINGS, SPEC_V2_ANY_TOPK, SPEC_V2_GONE, SPEC_V2_VARIABLE, is_on, node_ranks, normalised, plain
from .systemd_quote import is_variable_name, unsafe_characters

HIDDEN = argument_check.HIDDEN

# Algorithms whose steps, topk and draft tokens go together; NEXTN is SGLang's other name of EAGLE.
EAGLE_ALGORITHMS = ("EAGLE", "NEXTN", "EAGLE3", "STANDALONE")
# Algorithms that can speculate with layers of the target's own checkpoint (MTP), without a draft model.
_OWN_LAYERS = ("EAGLE", "NEXTN")
# Algorithms for which nothing stands in for the draft model.
_NEED_DRAFT = ("EAGLE3", "STANDALONE", "DFLASH")
# What both Python's logging and the web server take; SGLang hands the level to both.
LOG_LEVELS = ("debug", "info", "warning", "error", "critical")
QUIET_LEVELS = ("warning", "error", "critical", "fatal")
LOOPBACK = ("localhost", "::1")

_UNIT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
# NAME_MAX of Linux and UNIT_NAME_MAX of systemd are both 255, for "sglang-" and ".service" as well.
_UNIT_NAME_LENGTH = 255 - len("sglang-.service")
# Checkpoints that hold no MTP layers (num_nextn_predict_layers is 0 in all of Kimi-K2), and families that hold some:
# those for which SGLang has a draft class (ModelConfig._config_draft_model). Names are weak evidence, so that both
# only say what to expect of the host's config.json, which role serve reads before it changes anything.
_WITHOUT_MTP = re.compile(r"kimi[-_. ]?k2|distill", re.IGNORECASE)
_WITH_MTP = re.compile(
    r"deepseek[-_. ]?(v3|v4|r1)|glm[-_. ]?(4[-_.p]?[5-9]|5)|mimo|qwen3[-_. ]?next|qwen3[-_.p]5|longcat|exaone|hunyuan"
    r"|step[-_. ]?3[-_.p]?[57]|ernie[-_. ]?4|\b[lr]ing[-_. ]|nemotron[-_. ]?(h|3)",
    re.IGNORECASE,
)
_KIMI_K25 = re.compile(r"kimi[-_. ]?k2[-_. p]?5", re.IGNORECASE)
_HOST = re.compile(r"[A-Za-z0-9._:%-]+\Z")
# Directives whose values may be secret.
_HIDDEN_DIRECTIVES = ("Environment", "SetCredential")
_DIRECTIVE = re.compile(r"[A-Z][A-Za-z0-9]*\Z")

# Attention backends that take only some sizes of a page, and what each sets instead of any other.
_PAGES = {"flashmla": ((64,), 64), "cutlass_mla": ((128,), 128), "trtllm_mla": ((32, 64), 64)}
# Backends with a draft tree over several pages; Triton's came between 0.5.11 and 0.5.13.
_PAGE_TREES = ("flashinfer", "fa3", "triton")
# One call that pins more fails with drivers from r580 on: 512 GiB, in GB (1e9 bytes).
_LARGEST_PINNED_GB = 549

# Directives that the role writes from typed settings, with the variable that holds each.
_OWN_DIRECTIVES = {
    "ExecStart": "engine_options",
    "RestartSec": "restart_seconds",
    "TimeoutStopSec": "stop_timeout_seconds",
    "EnvironmentFile": "environment",
}


class Problems:
    """Collects problems, each a dict of level, variable, value, problem, mend and message."""

    def __init__(self, prefix, names=None):
        self.prefix = prefix
        self.names = names or {}
        self.found = []

    def variable(self, setting, key=None):
        """Return the variable's name as an operator writes it."""
        name = self.names.get(setting, self.prefix + setting)
        return name if key is None else f"{name}[{str(key)!r}]"

    @staticmethod
    def shown(option, value):
        """Return the value of an engine option as a message may show it."""
        return _shown(option, value)

    def add(self, setting, value, problem, mend, key=None, level="error"):
        """Add one problem; `problem` and `mend` are parts of a sentence about the value."""
        variable = self.variable(setting, key)
        value = printable(value)
        shown = value if value == HIDDEN else json.dumps(value, ensure_ascii=False, default=str)
        self.found.append(
            {
                "level": level,
                "variable": variable,
                "value": value,
                "problem": problem,
                "mend": mend,
                "message": f"{variable} is {shown}: {problem}; {mend}.",
            }
        )


def settings_problems(settings, release, prefix="serve_", names=None):
    """Return everything that is wrong with a settings mapping for a release, errors first.

    settings: see C(settings.SETTINGS); release: such as C(0.5.23); prefix: what stands before a setting's
    name in the variable an operator writes; names: a dict of settings to what an operator writes for them where
    that is something else. Each problem is a dict: level (error: SGLang or systemd would
    refuse it, or do something else in silence; warning: worth knowing), variable, value (secrets hidden),
    problem, mend, and message, one sentence made of the others. An empty list means nothing was found.
    """
    problems = Problems(prefix, names)
    found = plain(settings)
    if not sizes(found, problems):
        return problems.found
    values = normalised(found)
    if not (_types(values, problems) and limits(values, problems)):
        return problems.found
    known = _release(values, release, problems)
    for rule in _RULES:
        rule(values, release, known, problems)
    problems.found.sort(key=lambda problem: problem["level"] != "error")
    return problems.found


def _types(values, problems):
    """Name values of the wrong type; the other rules run only when there are none."""
    kinds = {
        "int": (int, "a whole number", "write a number without quotes and without a fraction"),
        "float": (float, "a number", "write a number such as 0.88"),
        "bool": (bool, "true or false", "write true or false"),
        "str": (str, "text", "write text"),
        "dict": (dict, "a mapping", "write one key and value per line, or {} for none"),
        "list": (list, "a list", "write [0, 1], or [] for none"),
    }
    for setting in SETTINGS:
        value = values[setting.name]
        if value is None:
            continue
        kind, words, mend = kinds[setting.kind]
        fits = isinstance(value, kind) and not (kind is not bool and isinstance(value, bool))
        if fits and setting.kind == "float" and not math.isfinite(value):
            fits = False
        if not fits:
            shown = HIDDEN if setting.name == "environment" else value
            problems.add(setting.name, shown, f"it must be {words}", mend)
        elif setting.kind == "str" and unsafe_characters(value) is not None:
            problems.add(
                setting.name,
                value,
                f"it holds {unsafe_characters(value)}, which a systemd unit cannot carry",
                "write it in one line of printable text",
            )
    return not problems.found


def _release(values, release, problems):
    """Return whether the table knows the release, naming the problem when it should and does not."""
    try:
        table.table_release(release)
        return True
    except UnknownRelease:
        if values["release_check_enabled"] is not False:
            first, last = table.known_releases()[0], table.known_releases()[-1]
            problems.add(
                "release",
                str(release),
                f"the command line of this release is not known, only those of {first} to {last}",
                f"choose a release of that range, or set {problems.variable('release_check_enabled')} to false "
                "to deploy it with its options unchecked",
            )
        return False


def _between(release, first, bound):
    return not is_older(release, first) and is_older(release, bound)


def _unit_name(values, release, known, problems):
    name = values["name"]
    mend = "use letters, digits, dots, underscores and dashes, beginning with a letter or digit, such as kimi"
    if name is None:
        problems.add("name", name, "the unit needs a name", mend)
    elif not name.isascii() or not _UNIT_NAME.match(name):
        problems.add("name", name, f"it cannot be part of the unit name sglang-{name}.service", mend)
    elif name.endswith(".service"):
        problems.add(
            "name", name, "the unit would be called .service.service", f"write {name[: -len('.service')] or 'kimi'}"
        )
    elif name.endswith((".env", ".json")):
        problems.add(
            "name", name, "the service's folder would have the name of another service's file", "choose another name"
        )
    elif len(name) > _UNIT_NAME_LENGTH:
        problems.add(
            "name",
            name,
            f"it has {len(name)} characters and the unit's file name has room for {_UNIT_NAME_LENGTH}",
            "choose a shorter name",
        )


def _numbers(values, release, known, problems):
    size = values["tensor_parallel_size"]
    if size is None or size < 1:
        problems.add(
            "tensor_parallel_size",
            size,
            "at least 1 GPU must hold the model",
            "set the number of GPUs that share it, 8 for Kimi-K2.5",
        )
    fraction = values["mem_fraction_static"]
    if fraction is not None and not 0 < fraction < 1:
        problems.add(
            "mem_fraction_static",
            fraction,
            "it is the share of GPU memory for weights and KV cache and must lie between 0 and 1",
            "set it to 0.88, or to null for SGLang's own choice",
        )
    for setting in ("page_size", "max_total_tokens"):
        value = values[setting]
        if value is not None and value < 1:
            problems.add(
                setting, value, "it counts tokens and must be at least 1", "set it to null for SGLang's own choice"
            )
    times = {"restart_seconds": 0, "stop_timeout_seconds": 1, "start_timeout_seconds": 1, "leftover_timeout_seconds": 0}
    for setting, least in times.items():
        value = values[setting]
        if value is not None and value < least:
            problems.add(setting, value, f"it must be at least {least} seconds", "set a longer time")
    pause = values["restart_seconds"]
    if pause is not None and 0 <= pause < 60 and values["hicache_enabled"]:
        problems.add(
            "restart_seconds",
            pause,
            "hundreds of GB of pinned memory may not be free again by then, and the restarts starve the host",
            "set it to 60 or more",
            level="warning",
        )


def _ranks(values):
    """Ranks of a service on its host; 0 where its layout cannot be, which :func:`_nodes` names."""
    try:
        return node_ranks(values)["ranks"]
    except parallel_layout.LayoutError:
        return 0


def _layout(values, problems):
    """Name what the engine's options say of the parallel layout and cannot be."""
    try:
        parallel_layout.layout(parallel_layout.from_service(values))
    except parallel_layout.LayoutError as error:
        options = {str(name).lstrip("-").replace("_", "-"): name for name in values["engine_options"]}
        keys = [options[spelling] for spelling in parallel_layout.spellings(error.name) if spelling in options]
        if keys:
            problems.add("engine_options", error.value, error.problem, error.fix, key=keys[-1])


def _nodes(values, release, known, problems):
    """One model on several hosts, of which each knows how many there are, which it is, and where they meet."""
    _layout(values, problems)
    nodes, rank, address = values["nodes"], values["node_rank"], values["dist_init_address"]
    if nodes < 1:
        problems.add("nodes", nodes, "it counts the hosts that share the model", "set 1 for a model on one host")
        return
    if not 0 <= rank < nodes:
        problems.add(
            "node_rank",
            rank,
            f"with {nodes} node(s) ranks go from 0 to {nodes - 1}",
            "give each host a rank of its own",
        )
    if nodes == 1:
        return
    ranks = _ranks({**values, "nodes": 1, "node_rank": 0})
    if ranks % nodes:
        problems.add(
            "nodes",
            nodes,
            f"{ranks} ranks cannot be spread evenly over it",
            f"set it, or {problems.variable('tensor_parallel_size')}, so that each host runs as many",
        )
    if address is None or not re.match(r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}\Z", address):
        problems.add(
            "dist_init_address",
            address,
            "the nodes need one address at which they find each other",
            "set it to HOST:PORT of the node with rank 0, the same on all, such as 192.0.2.10:20000",
        )


_NUMA_POLICIES = ("default", "preferred", "bind", "interleave", "local")
_NUMBERS = re.compile(r"[0-9]+(-[0-9]+)?([ ,]+[0-9]+(-[0-9]+)?)*\Z")


def _placement(values, release, known, problems):
    """Where on the host the service runs: GPUs, CPUs, memory."""
    gpus = values["gpus"]
    ranks = _ranks(values)
    if gpus and len(set(map(str, gpus))) != len(gpus):
        problems.add("gpus", gpus, "a GPU is named twice", "name each once")
    elif gpus and len(gpus) < ranks:
        problems.add(
            "gpus",
            gpus,
            f"{ranks} ranks need as many GPUs, and {len(gpus)} are named",
            f"name {ranks}, or set {problems.variable('tensor_parallel_size')} to {len(gpus)}",
        )
    if gpus and "CUDA_VISIBLE_DEVICES" in values["environment"]:
        problems.add(
            "environment",
            HIDDEN,
            f"it would win over {problems.variable('gpus')}",
            "remove one of the two",
            key="CUDA_VISIBLE_DEVICES",
        )
    for gpu in gpus:
        if not re.match(r"([0-9]+|(GPU|MIG)-[A-Za-z0-9/-]+)\Z", str(gpu)):
            problems.add("gpus", gpus, f"{gpu} is no GPU", "name numbers, or UUIDs as nvidia-smi -L shows them")
    for setting in ("cpus", "numa_nodes"):
        if values[setting] is not None and not _NUMBERS.match(values[setting]):
            problems.add(setting, values[setting], "it is no list of numbers", "write spans such as 0-31,64-95")
        elif values[setting] is not None and any(len(part) > 5 for part in re.findall("[0-9]+", values[setting])):
            problems.add(setting, values[setting], "no kernel counts that far", "write numbers that lscpu shows")
    policy = values["numa_policy"]
    if policy is not None and policy not in _NUMA_POLICIES:
        problems.add("numa_policy", policy, "systemd has no such policy", f"set one of {', '.join(_NUMA_POLICIES)}")
    elif policy in ("preferred", "bind", "interleave") and values["numa_nodes"] is None:
        problems.add(
            "numa_policy", policy, "it needs nodes", f"set {problems.variable('numa_nodes')}, such as 0-1 for both"
        )
    elif policy is None and values["numa_nodes"] is not None:
        problems.add(
            "numa_nodes",
            values["numa_nodes"],
            "systemd drops it without a policy",
            f"set {problems.variable('numa_policy')}",
        )
    score = values["oom_score_adjust"]
    if score is not None and not -1000 <= score <= 1000:
        problems.add("oom_score_adjust", score, "the kernel takes -1000 to 1000", "set a number of that range, or null")
    available = values["memory_available_gb"]
    if available is not None and available <= 0:
        problems.add(
            "memory_available_gb", available, "it counts GB (1e9 bytes)", "set what a start needs, or null for no check"
        )
    limit = values["memory_max"]
    if limit is not None and not re.match(r"([0-9]+(\.[0-9]+)?[KMGT]?|[0-9]+(\.[0-9]+)?%|infinity)\Z", limit):
        problems.add("memory_max", limit, "systemd takes no such size", "write 700G (GiB), 80% or infinity")


def _address(values, release, known, problems):
    port = values["port"]
    if port is None or not 1 <= port <= 65535:
        problems.add("port", port, "it is not a TCP port", "set a port from 1024 to 65535, such as 30000")
    elif port < 1024:
        problems.add(
            "port",
            port,
            "the service user may not listen below 1024",
            "set a port from 1024 to 65535, and put a gateway in front for 443",
        )
    host = values["host"]
    if host is None or not _HOST.match(host):
        problems.add("host", host, "it is no address to listen on", "set 127.0.0.1, or an address of this host")
    elif host not in LOOPBACK and not host.startswith("127."):
        problems.add(
            "host",
            host,
            "SGLang listens there without any key",
            "set 127.0.0.1 and put a gateway with keys in front, or be sure that a firewall guards the port",
            level="warning",
        )


def _paths(values, release, known, problems):
    speculating = values["speculative_enabled"] is True
    for setting in ("model_path", "draft_model_path"):
        path = values[setting]
        if setting == "draft_model_path" and (not speculating or path is None):
            continue
        if path is None or not path.startswith("/"):
            problems.add(
                setting, path, "it is not the absolute path of a folder on the host", "set it, such as /srv/models/NAME"
            )
            continue
        hidden = _hidden_by_sandbox(values, posixpath.normpath(path))
        if hidden is not None:
            problems.add(
                setting,
                path,
                f"{hidden} hides that folder from the service",
                f"move the model, or set {problems.variable('unit_directives')} to {{Service: {{{hidden}: false}}}}",
            )


def _hidden_by_sandbox(values, path):
    """Return the directive of the unit that would hide a path from the service, or None."""
    service = values["unit_directives"].get("Service")
    overrides = service if isinstance(service, dict) else {}
    folders = (("ProtectHome", ("/home", "/root", "/run/user")), ("PrivateTmp", ("/tmp", "/var/tmp")))
    for directive, roots in folders:
        value = overrides.get(directive, values["sandbox_enabled"] is True)
        active = str(value).lower() in ("true", "yes", "on", "1", "tmpfs", "disconnected")
        if active and any(path == root or path.startswith(root + "/") for root in roots):
            return directive
    return None


def _speculation(values, release, known, problems):
    if values["speculative_enabled"] is not True:
        return
    algorithm = values["speculative_algorithm"]
    draft = values["draft_model_path"]
    if algorithm is None:
        problems.add("speculative_algorithm", None, "speculation is enabled without an algorithm", "set it to EAGLE3")
        return
    written = value_counterpart(("speculative-algorithm",), algorithm)
    choices = table.arguments(release)["speculative-algorithm"].choices if known else None
    if written is not None and choices is not None:
        # A release with choices takes no other spelling, which _typed_findings names.
        return
    if written is not None:
        problems.add(
            "speculative_algorithm",
            algorithm,
            "that is not how SGLang writes an algorithm, and its rules could not be checked",
            f"write {written}",
        )
        return
    own = draft is None or _same_folder(draft, values["model_path"])
    if own and algorithm in (*_NEED_DRAFT, *_OWN_LAYERS):
        _draft_of_its_own(values, problems)
    if algorithm not in EAGLE_ALGORITHMS:
        return
    if algorithm in _OWN_LAYERS and not own and "eagle3" in posixpath.basename(draft.rstrip("/")).lower():
        problems.add(
            "speculative_algorithm",
            algorithm,
            f"the draft {draft} is an EAGLE-3 one, which under {algorithm} loads and never has a token accepted",
            "set it to EAGLE3",
        )
    _speculation_numbers(values, problems)
    _speculation_pages(values, release, problems)
    _speculation_rewrites(values, release, problems)
    served = " ".join(filter(None, (values["model_path"], values["served_model_name"])))
    judged = known or values["release_check_enabled"] is False
    if judged and algorithm == "EAGLE3" and _KIMI_K25.search(served) and _between(release, (0, 5, 9, 0), (0, 5, 10, 0)):
        problems.add(
            "release",
            str(release),
            "it has no EAGLE-3 hooks in Kimi-K2.5",
            f"choose 0.5.10.post1 or later, or set {problems.variable('speculative_enabled')} to false",
        )


def _same_folder(path, other):
    return other is not None and posixpath.normpath(path) == posixpath.normpath(other)


def _draft_of_its_own(values, problems):
    """Speculation whose draft would be the target itself: right for checkpoints that carry draft layers, else not."""
    algorithm, draft = values["speculative_algorithm"], values["draft_model_path"]
    mend = f"set it to the draft's folder, or {problems.variable('speculative_enabled')} to false"
    if algorithm in _NEED_DRAFT:
        taken = "refuse to start" if algorithm == "DFLASH" else "take the target's own path in silence"
        problem = f"{algorithm} needs a draft model of its own"
        problem += f", and SGLang would {taken}" if draft is None else ", and this is the target's folder"
        problems.add("draft_model_path", draft, problem, mend)
        return
    served = " ".join(filter(None, (values["model_path"], values["served_model_name"])))
    if _WITHOUT_MTP.search(served):
        problems.add(
            "draft_model_path",
            draft,
            f"{algorithm} without a draft model takes draft layers of the target's checkpoint, and this model has none",
            mend,
        )
    elif not _WITH_MTP.search(served):
        problems.add(
            "draft_model_path",
            draft,
            f"{algorithm} without a draft model takes draft layers (MTP) of the target's checkpoint, which not every "
            "model has",
            "leave it where config.json counts some (num_nextn_predict_layers), else set it to the draft's folder",
            level="warning",
        )


def _known_bad_releases(values, release, known, problems):
    """Releases in which Kimi-K2.5 does not work, or works badly."""
    served = " ".join(filter(None, (values["model_path"], values["served_model_name"])))
    if not _KIMI_K25.search(served) or not (known or values["release_check_enabled"] is False):
        return
    if is_older(release, (0, 5, 9, 0)):
        problems.add("release", str(release), "it has no Kimi-K2.5", "choose 0.5.10.post1 or later")
    elif is_older(release, (0, 5, 10, 0)):
        problems.add(
            "release",
            str(release),
            "its memory is reported to grow while it serves, and nobody notices when one of its ranks dies",
            "choose 0.5.10.post1 or later",
            level="warning",
        )
    parallel = number_of(values["engine_options"], "ep-size", "expert-parallel-size")
    if parallel > 1 and is_older(release, (0, 5, 11, 0)):
        problems.add(
            "release",
            str(release),
            "expert parallelism is reported broken for Kimi-K2.5's INT4 experts in it",
            "choose a later release, or remove the engine option",
            level="warning",
        )


def _speculation_pages(values, release, problems):
    """A draft tree of several branches over pages of several tokens (handle_speculative_decoding)."""
    topk, backend = values["speculative_eagle_topk"], values["attention_backend"]
    if topk is None or topk < 2 or backend is None:
        return
    page = values["page_size"] or 1
    if backend in _PAGES and page not in _PAGES[backend][0]:
        page = _PAGES[backend][1]
    taken = backend in (_PAGE_TREES[:2] if is_older(release, (0, 5, 11, 0)) else _PAGE_TREES)
    if page > 1 and not taken:
        problems.add(
            "speculative_eagle_topk",
            topk,
            f"above 1 SGLang refuses pages of several tokens, here {page}, with the attention backend {backend}",
            f"set it to 1, or {problems.variable('attention_backend')} to flashinfer",
        )


def _speculation_rewrites(values, release, problems):
    """Options that SGLang switches off, or tiers that it leaves out, while it speculates with EAGLE."""
    if values["engine_options"].get("enable-mixed-chunk") is True:
        problems.add(
            "engine_options",
            True,
            "SGLang switches it off in silence while it speculates",
            f"remove it, or set {problems.variable('speculative_enabled')} to false",
            key="enable-mixed-chunk",
            level="warning",
        )
    if values["hicache_enabled"] is True and is_older(release, (0, 5, 11, 0)):
        problems.add(
            "release",
            str(release),
            "its HiCache keeps no draft, so that fewer draft tokens are accepted once the device cache has been full",
            "choose 0.5.11 or later",
            level="warning",
        )


def _speculation_numbers(values, problems):
    names = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")
    steps, topk, drafts = (values[name] for name in names)
    given = [name for name in names if values[name] is not None]
    if given and len(given) < len(names):
        absent = next(name for name in names if values[name] is None)
        problems.add(
            absent,
            None,
            "SGLang wants steps, topk and draft tokens all three or none",
            "set it, or set the other two to null",
        )
        return
    for name in given:
        if values[name] < 1:
            problems.add(name, values[name], "it must be at least 1", "set steps 3, topk 1 and draft tokens 4")
    if given and topk == 1 and steps >= 1 and drafts != steps + 1:
        problems.add(
            "speculative_num_draft_tokens",
            drafts,
            f"with topk 1 and {problems.variable('speculative_num_steps')} {steps} SGLang drafts {steps + 1} tokens, "
            "whatever is set here",
            f"set it to {steps + 1}, or {problems.variable('speculative_num_steps')} to {max(drafts - 1, 1)}",
        )


def _hicache(values, release, known, problems):
    if values["hicache_enabled"] is not True:
        return
    ratio, size = values["hicache_ratio"], values["hicache_size"]
    if ratio is None and size is None:
        problems.add(
            "hicache_ratio",
            None,
            "HiCache is enabled with neither a ratio nor a size, so its memory is nobody's choice",
            f"set it to 4.0, or {problems.variable('hicache_size')} to the GB (1e9 bytes) of each rank, or "
            f"{problems.variable('hicache_enabled')} to false",
        )
    if ratio is not None and size is not None:
        problems.add(
            "hicache_size",
            size,
            f"{problems.variable('hicache_ratio')} is {ratio} as well, and SGLang would drop that in silence",
            "set one of the two to null",
        )
    if size is not None and size < 1:
        problems.add("hicache_size", size, "it counts GB (1e9 bytes) for each rank", "set 1 or more, or null")
    elif size is not None and size >= _LARGEST_PINNED_GB:
        problems.add(
            "hicache_size",
            size,
            "NVIDIA's drivers from r580 on fail to pin 512 GiB or more at once",
            f"set it below {_LARGEST_PINNED_GB}, and share the memory among more ranks",
            level="warning",
        )
    if ratio is not None and ratio <= 0:
        problems.add(
            "hicache_ratio",
            ratio,
            "it is host tokens for each device token and must be above 0",
            "set it to 4.0, or to null together with a size",
        )
    elif ratio is not None and ratio <= 1:
        fatal = is_older(release, (0, 5, 15, 0))
        problems.add(
            "hicache_ratio",
            ratio,
            "the host pool would not be larger than the device pool, "
            + (f"which SGLang {release} refuses" if fatal else "which holds little more than the GPUs do"),
            "set it above 1",
            level="error" if fatal else "warning",
        )
    _hicache_rewrites(values, release, known, problems)
    _hicache_memory(values, problems)


def _hicache_memory(values, problems):
    """Options about the host pool's memory (handle_hicache_ratio_default, validate_hicache_host_memory_mode)."""
    options = values["engine_options"]
    fraction = options.get("hicache-host-memory-fraction")
    if fraction is not None and (values["hicache_ratio"] is not None or values["hicache_size"] is not None):
        problems.add(
            "engine_options",
            fraction,
            "SGLang drops it in silence, as the ratio or the size is given",
            f"remove it, or set {problems.variable('hicache_ratio')} and {problems.variable('hicache_size')} to null",
            key="hicache-host-memory-fraction",
            level="warning",
        )
    if fraction is not None and not _is_share(fraction):
        problems.add(
            "engine_options",
            fraction,
            "it is the share of host memory for the hierarchical cache and must lie above 0 and not above 1",
            "set it to 0.8, or remove it",
            key="hicache-host-memory-fraction",
        )
    if options.get("hicache-host-memory-mode") != "buffer_only":
        return
    if options.get("hicache-storage-backend") is None:
        problems.add(
            "engine_options",
            "buffer_only",
            "the host pool is then only the way to a storage backend, and none is given",
            "add hicache-storage-backend, or remove it",
            key="hicache-host-memory-mode",
        )
    if values["hicache_write_policy"] == "write_back":
        problems.add(
            "hicache_write_policy",
            "write_back",
            "with hicache-host-memory-mode buffer_only SGLang takes write_through instead",
            "set it to write_through",
            level="warning",
        )


def _is_share(value):
    """Tell whether a value is above 0 and not above 1; what is no number is refused by its kind."""
    try:
        return isinstance(value, bool) or 0 < float(value) <= 1
    except (TypeError, ValueError):
        return True


def _default(option, release, known):
    """Return what the release's parser fills in; of a release that nobody knows, what the newest one does."""
    argument = table.arguments(release if known else table.known_releases()[-1]).get(option)
    return None if argument is None else argument.default


def _hicache_rewrites(values, release, known, problems):
    """Combinations that SGLang replaces by others at start."""
    options = values["engine_options"]
    backend = values["hicache_io_backend"] or _default("hicache-io-backend", release, known)
    layout = values["hicache_mem_layout"] or _default("hicache-mem-layout", release, known)
    layout_name = problems.variable("hicache_mem_layout")
    if layout == "page_first" and backend == "direct":
        problems.add(
            "hicache_io_backend",
            backend,
            f"with the layout page_first{'' if values['hicache_mem_layout'] else ', the default,'} "
            "SGLang takes page_first_direct instead",
            f"set {layout_name} to page_first_direct, or this to kernel",
            level="warning",
        )
    if layout == "page_first_direct" and backend == "kernel":
        problems.add(
            "hicache_mem_layout",
            layout,
            "with the io backend kernel SGLang takes the backend direct instead",
            f"set {problems.variable('hicache_io_backend')} to direct, or this to page_first",
            level="warning",
        )
    if layout == "page_first_direct" and options.get("enable-unified-memory") is True:
        problems.add(
            "hicache_mem_layout",
            layout,
            "with enable-unified-memory SGLang takes page_first and the io backend kernel instead",
            f"set it to page_first, and {problems.variable('hicache_io_backend')} to kernel",
            level="warning",
        )
    storage = options.get("hicache-storage-backend")
    if layout == "layer_first" and storage in ("mooncake", "npu_memcache"):
        problems.add(
            "hicache_mem_layout",
            values["hicache_mem_layout"],
            f"the storage backend {storage} cannot use layer_first, and SGLang takes another layout",
            "set it to " + ("page_first_direct" if backend == "direct" else "page_first"),
            level="warning",
        )
    _fa3_and_kernel(values, release, backend, problems)


def _fa3_and_kernel(values, release, backend, problems):
    option = "decode-attention-backend"
    decode = values["engine_options"].get(option)
    if (decode or values["attention_backend"]) != "fa3" or backend != "kernel" or not is_older(release, (0, 5, 14, 0)):
        return
    given = ("engine_options", decode, option) if decode else ("attention_backend", values["attention_backend"], None)
    taken = "the io backend kernel by direct" if decode else "fa3 decoding by another backend"
    problems.add(
        given[0],
        given[1],
        f"with HiCache and the io backend kernel SGLang {release} replaces {taken}",
        f"choose flashinfer or triton, or set {problems.variable('hicache_io_backend')} to direct",
        key=given[2],
        level="warning",
    )


def _pages(values, release, known, problems):
    """Sizes of a page that the attention backend replaces."""
    page, backend = values["page_size"], values["attention_backend"]
    if page is None or backend not in _PAGES or page in _PAGES[backend][0]:
        return
    problems.add(
        "page_size",
        page,
        f"with the attention backend {backend} SGLang takes {_PAGES[backend][1]} instead",
        f"set it to {' or '.join(map(str, _PAGES[backend][0]))}, or to null",
        level="warning",
    )


def _evidence(values, release, known, problems):
    """Settings that would hide the lines by which a start is verified."""
    level = values["log_level"]
    if level is not None and level.lower() not in (*LOG_LEVELS, "fatal"):
        problems.add(
            "log_level",
            level,
            "it is no level, and SGLang would not start",
            f"set it to one of {', '.join(LOG_LEVELS)}",
        )
    if values["verification_expected"] is False:
        return
    off = f"or set {problems.variable('verification_expected')} to false"
    if level is not None and level.lower() in QUIET_LEVELS:
        problems.add(
            "log_level",
            level,
            "SGLang reports its host memory at level info, so the start could not be verified",
            f"set it to info, {off}",
        )
    if "SGLANG_LOGGING_CONFIG_PATH" in values["environment"]:
        problems.add(
            "environment",
            HIDDEN,
            "a logging configuration of your own replaces the lines by which the start is verified",
            f"remove it, {off}",
            key="SGLANG_LOGGING_CONFIG_PATH",
        )


def _environment(values, release, known, problems):
    for name, value in values["environment"].items():
        if not is_variable_name(name):
            problems.add(
                "environment",
                HIDDEN,
                "that is no name for an environment variable",
                "use letters, digits and underscores, beginning with no digit",
                key=name,
            )
        elif isinstance(value, (bool, dict, list)):
            problems.add(
                "environment", HIDDEN, "an environment variable holds text", "write the text in quotes", key=name
            )
        elif unsafe_characters(value) is not None:
            problems.add(
                "environment",
                HIDDEN,
                f"it holds {unsafe_characters(value)}, which would end the variable early",
                "write it in one line, or name a file that holds it",
                key=name,
            )
    if values["environment"].get("FORWARDED_ALLOW_IPS") not in (None, ""):
        problems.add(
            "environment",
            HIDDEN,
            "the web server then begins its access records with what those callers write into X-Forwarded-For",
            "remove it: the unit trusts nobody, and a gateway logs who called it",
            key="FORWARDED_ALLOW_IPS",
            level="warning",
        )
    if SPEC_V2_VARIABLE in values["environment"] and not is_older(release, SPEC_V2_GONE):
        problems.add(
            "environment",
            HIDDEN,
            f"SGLang {release} no longer reads it, as the overlapped scheduler is always on from 0.5.14",
            "remove it",
            key=SPEC_V2_VARIABLE,
            level="warning",
        )
    _huge_pages(values, release, problems)
    _spec_v2_and_topk(values, release, problems)
    _expandable_segments(values, problems)


def _huge_pages(values, release, problems):
    """A variable that up to 0.5.23 takes the pool from huge pages after a check that counts none of them."""
    name = "SGLANG_HUGEPAGE_SIZE"
    value = values["environment"].get(name)
    if value in (None, ""):
        return
    if is_older(release, (0, 5, 13, 0)):
        problem, mend = f"SGLang {release} does not read it", "remove it, or deploy 0.5.13 or later"
    elif str(value).strip().upper() not in ("2MB", "1GB"):
        problem, mend = (
            "SGLang knows 2MB and 1GB, and takes ordinary pages for anything else",
            "write 2MB, or remove it",
        )
    elif is_older(release, (0, 5, 24, 0)):
        problem = (
            f"SGLang {release} asks for the pools' memory outside of huge pages before it takes it from them, so that "
            "the host needs it twice"
        )
        mend = "remove it, and reserve no huge pages"
    else:
        return
    problems.add("environment", HIDDEN, problem, mend, key=name, level="warning")


def _spec_v2_and_topk(values, release, problems):
    switch = str(values["environment"].get(SPEC_V2_VARIABLE, "")).strip().lower()
    topk = values["speculative_eagle_topk"]
    on = switch in ("1", "true", "yes", "y", "t", "on") and values["speculative_enabled"] is True
    if on and topk is not None and topk > 1 and is_older(release, SPEC_V2_ANY_TOPK):
        problems.add(
            "environment",
            HIDDEN,
            f"with it SGLang {release} refuses a topk above 1",
            f"remove it, or set {problems.variable('speculative_eagle_topk')} to 1",
            key=SPEC_V2_VARIABLE,
        )


def _expandable_segments(values, problems):
    size = values["tensor_parallel_size"]
    if size is None or size < 2 or values["engine_options"].get("disable-custom-all-reduce") is True:
        return
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        if re.search(r"expandable_segments\s*:\s*true", str(values["environment"].get(name, "")), re.IGNORECASE):
            problems.add(
                "environment",
                HIDDEN,
                "expandable_segments breaks the custom all-reduce of tensor parallelism",
                "remove expandable_segments, or set the engine option disable-custom-all-reduce to true",
                key=name,
            )


def _typed_findings(values, release, known, problems):
    """Check the typed settings against the release's own choices."""
    if not known:
        return
    options = table.arguments(release)
    for setting in SETTINGS:
        value = values[setting.name]
        unused = setting.group is not None and not is_on(values, setting.group)
        if setting.option is None or setting.kind == "bool" or value is None or unused:
            continue
        argument = options.get(setting.option)
        if argument is None:
            finding = table.name_finding(setting.option, release)
            problems.add(setting.name, value, f"its option {setting.option} {finding.problem}", "set it to null")
            continue
        for finding in table.value_findings(argument, value, release):
            problems.add(setting.name, value, f"it {finding.problem}", finding.mend, level=finding.level)


def _typed_names(release, known):
    """Return every spelling of the options that typed settings make, as a dict to the setting's name."""
    options = table.arguments(release if known else table.known_releases()[-1])
    found = {}
    for setting in SETTINGS:
        if setting.option is not None:
            names = options[setting.option].names if setting.option in options else (setting.option,)
            found.update(dict.fromkeys(names, setting.name))
    return found


def _is_secret(name, release, known):
    """Tell whether an option, however it is written, is one whose value is a secret."""
    plain_name = name.lstrip("-").replace("_", "-")
    if plain_name in SECRET_OPTIONS:
        return True
    meant = table.expansions(plain_name, release) if known else []
    return bool(SECRET_OPTIONS.intersection(meant)) or (not meant and argument_check.is_secret_name(plain_name))


def _shown(name, value):
    """Return the value of an option as a message may show it: without what is secret in it."""
    words = table.option_words(name, value)
    if any(argument_check.HIDDEN in argument_check.masked(part, argument_check.secrets_of(words)) for part in words):
        return HIDDEN
    return value


def _engine_options(values, release, known, problems):
    typed = _typed_names(release, known)
    for name, value in values["engine_options"].items():
        plain_name = name.lstrip("-").replace("_", "-")
        if _is_secret(name, release, known):
            problems.add(
                "engine_options",
                HIDDEN,
                "SGLang writes this secret to the journal, shows it in ps and returns it from /server_info",
                "remove it and listen on 127.0.0.1 without a key, with a gateway that holds the keys in front",
                key=name,
            )
            continue
        shown = _shown(name, value)
        meant = [plain_name] if plain_name in typed or not known else table.expansions(plain_name, release)
        variables = {typed.get(option) for option in meant}
        if meant and len(variables) == 1 and None not in variables:
            variable = problems.variable(variables.pop())
            short = "" if plain_name in typed else "is short for an option and "
            problems.add(
                "engine_options",
                shown,
                f"it {short}repeats {variable}",
                f"remove it and set {variable} instead",
                key=name,
            )
            continue
        unsafe = _unsafe_words(name, value)
        if unsafe is not None:
            problems.add(
                "engine_options",
                shown,
                f"it holds {unsafe}, which a systemd unit cannot carry",
                "write it in one line of printable text",
                key=name,
            )
            continue
        _engine_option(name, value, shown, release, known, problems)


def _unsafe_words(name, value):
    for part in table.option_words(name, value):
        if unsafe_characters(part) is not None:
            return unsafe_characters(part)
    return None


def _engine_option(name, value, shown, release, known, problems):
    plain_name = name.lstrip("-").replace("_", "-")
    mend = option_mend(name, problems.variable)
    # Of a release that is not known, the newest known one tells what SGLang's own words are.
    own = table.arguments(release if known else table.known_releases()[-1])
    if mend is not None and plain_name not in own:
        problems.add("engine_options", shown, "it is an option of vLLM and none of SGLang", mend, key=name)
        return
    if not known:
        if not re.match(r"[A-Za-z0-9][A-Za-z0-9_-]*\Z", name):
            problems.add("engine_options", shown, "that is no name of an option", "write it without dashes", key=name)
        return
    finding = table.name_finding(name, release)
    if finding is not None:
        problems.add("engine_options", shown, f"it {finding.problem}", finding.mend, key=name)
        return
    if name == "config":
        _config_file(value, problems)
    for finding in table.value_findings(table.arguments(release)[name], value, release):
        problems.add("engine_options", shown, f"it {finding.problem}", finding.mend, key=name, level=finding.level)


def _config_file(value, problems):
    """A file of settings, which only the installed release reads."""
    if not str(value).endswith((".yaml", ".yml")):
        problems.add(
            "engine_options",
            value,
            "SGLang reads settings from YAML files only, by their names",
            "name a file that ends in .yaml or .yml",
            key="config",
        )
    elif not str(value).startswith("/"):
        problems.add(
            "engine_options", value, "it is not the absolute path of a file on the host", "write the path", key="config"
        )
    else:
        problems.add(
            "engine_options",
            value,
            "what is in that file is not checked here, only by the installed release, and the variables win over it",
            "write its settings as options",
            key="config",
            level="warning",
        )


def _unit_directives(values, release, known, problems):
    for section, directives in values["unit_directives"].items():
        if section not in ("Unit", "Service", "Install") or not isinstance(directives, dict):
            problems.add(
                "unit_directives",
                HIDDEN if any(name in str(directives) for name in _HIDDEN_DIRECTIVES) else directives,
                "a service unit has the sections Unit, Service and Install, each a mapping",
                "write {Service: {DIRECTIVE: value}}",
                key=section,
            )
            continue
        for name, value in directives.items():
            _unit_directive(section, name, value, problems)


def _unit_directive(section, name, value, problems):
    key = f"{section}.{name}"
    shown = HIDDEN if name.startswith(_HIDDEN_DIRECTIVES) else value
    own = _OWN_DIRECTIVES.get(name) if section == "Service" else None
    if not _DIRECTIVE.match(name):
        problems.add("unit_directives", shown, "that is no name of a directive", "see systemd.directives(7)", key=key)
    elif own is not None:
        variable = problems.variable(own)
        problems.add(
            "unit_directives", shown, f"the role writes {name} from {variable}", f"set {variable} instead", key=key
        )
    elif name == "Type" and str(value).startswith("notify"):
        problems.add(
            "unit_directives",
            shown,
            "SGLang never reports readiness to systemd, so the start would time out",
            "leave it at exec",
            key=key,
        )
    for item in value if isinstance(value, list) else [value]:
        if unsafe_characters(item) is not None or isinstance(item, (dict, list)):
            problems.add(
                "unit_directives", shown, "a directive holds one line of text", "write a list for several", key=key
            )
            break


_RULES = (
    _unit_name,
    _numbers,
    _nodes,
    _placement,
    _address,
    _paths,
    _known_bad_releases,
    _speculation,
    _pages,
    _hicache,
    hicache_excludes,
    disaggregation_excludes,
    _typed_findings,
    _engine_options,
    _environment,
    _evidence,
    _unit_directives,
)
