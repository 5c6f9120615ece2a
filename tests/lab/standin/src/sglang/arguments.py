# SPDX-License-Identifier: GPL-3.0-or-later
"""SGLang's command line, rebuilt from the table that make_argument_table.py read from the real parsers."""

from __future__ import annotations

import argparse
import json
import pkgutil
import re

from .config_file import merge
from .release import RELEASE, Release

SUFFIXES = {
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


def human_readable_int(value):
    """ "40k" is 40000, "4Ki" is 4096; fractions only with the decimal suffixes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T)", value.strip())
    if not match:
        return int(value)
    number, suffix = match.groups()
    if "." in number and len(suffix) == 2:
        raise argparse.ArgumentTypeError(f"Decimals are not allowed with IEC suffixes like '{suffix}'.")
    return int(float(number) * SUFFIXES[suffix]) if "." in number else int(number) * SUFFIXES[suffix]


def nullable_str(value):
    """The word None stands for nothing."""
    return None if value in ("", "None") else value


def json_list_type(value):
    """A JSON list."""
    try:
        return json.loads(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"Invalid JSON list: {value}. Please provide a valid JSON list.") from None


def cuda_graph_config(value):
    """A JSON object of phases; what is in a phase is not looked at."""
    try:
        phases = json.loads(value)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(f"--cuda-graph-config must be JSON: {problem}") from None
    if not isinstance(phases, dict):
        raise argparse.ArgumentTypeError(f"--cuda-graph-config must be a JSON object, got {type(phases).__name__}")
    for phase in phases:
        if phase not in GRAPH_PHASES:
            raise argparse.ArgumentTypeError(
                f"--cuda-graph-config: unknown phase '{phase}', expected one of {GRAPH_PHASES}"
            )
    return phases


def as_is(value):
    """For converters that the stand-in does not know: keep the text."""
    return value


GRAPH_PHASES = ("decode", "prefill")
TYPES = {
    "int": int,
    "float": float,
    "loads": json.loads,
    "human_readable_int": human_readable_int,
    "nullable_str": nullable_str,
    "json_list_type": json_list_type,
    "parse_cuda_graph_config_arg": cuda_graph_config,
}


NOTICES = []
# What the engine calls the values of some flags after parsing; the flags' first names were long until 0.5.13.
LONG_NAMES = {
    "tensor_parallel_size": "tp_size",
    "pipeline_parallel_size": "pp_size",
    "data_parallel_size": "dp_size",
    "expert_parallel_size": "ep_size",
    "attention_context_parallel_size": "attn_cp_size",
    "moe_data_parallel_size": "moe_dp_size",
}


class Deprecated(argparse.Action):
    """A flag that still works and says so in yellow; NOTICES is printed once logging is set up."""

    def __init__(self, *args, stored=None, **kwargs):
        self.stored = stored
        super().__init__(*args, **kwargs)

    def __call__(self, parser, namespace, values, option_string=None):
        NOTICES.append(f"\033[1;33m'{option_string}' is deprecated and will be removed in a future release.\033[0m")
        if self.nargs != 0:
            setattr(namespace, self.dest, values)
        elif self.stored is not None:
            setattr(namespace, self.dest, self.stored)


def flag_table(release=RELEASE):
    """{flag: description} of the newest release in the table that is not newer than `release`."""
    table = json.loads(pkgutil.get_data("sglang", "data/arguments.json"))
    names = table["releases"]
    known = [name for name in names if release.at_least(name)] or names[:1]
    newest = Release(known[-1])
    found = {}
    for flag, history in table["flags"].items():
        specs = [spec for name, spec in history if newest.at_least(name)]
        if specs and specs[-1] is not None:
            found[flag] = specs[-1]
    return found


def add_argument(parser, flag, spec):
    """Add one flag of the table to an argparse parser."""
    names = [flag, *spec.get("aliases", [])]
    options = {"dest": spec.get("dest", flag.lstrip("-").replace("-", "_")), "default": spec.get("default")}
    action = spec.get("action", "Store")
    if action == "StoreTrue":
        parser.add_argument(*names, action="store_true", **options)
    elif action == "BooleanOptional":
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, **options)
    elif action in ("Deprecated", "DeprecatedStoreTrue", "DeprecatedStoreConst"):
        stored = {"DeprecatedStoreTrue": True, "DeprecatedStoreConst": "disabled"}.get(action)
        parser.add_argument(*names, action=Deprecated, stored=stored, nargs=0, **options)
    else:
        if "type" in spec:
            options["type"] = TYPES.get(spec["type"], as_is)
        if action == "DeprecatedAliasStore":
            options["action"] = Deprecated
        parser.add_argument(
            *names,
            nargs=spec.get("nargs"),
            choices=spec.get("choices"),
            required=spec.get("required", False),
            **options,
        )


def add_arguments(parser, release=RELEASE):
    """Add all flags of the release to an argparse parser."""
    for flag, spec in flag_table(release).items():
        if flag not in ("-h", "--help"):
            add_argument(parser, flag, spec)


def build_parser(release=RELEASE):
    """The argparse parser of `sglang serve`."""
    parser = argparse.ArgumentParser(
        prog="sglang serve" if release.at_least("0.5.10") else "launch_server.py",
        description="Lab stand-in for SGLang: it takes the command line of the release and serves no model.",
    )
    add_arguments(parser, release)
    return parser


def parse(argv, release=RELEASE):
    """Parse a command line; leaves with status 2 and argparse's own text where the real engine does."""
    parser = build_parser(release)
    if "--config" in argv:
        argv = merge(parser, argv)
    args = parser.parse_args(argv)
    for long, short in LONG_NAMES.items():
        if hasattr(args, long):
            setattr(args, short, getattr(args, long))
            delattr(args, long)
    return args
