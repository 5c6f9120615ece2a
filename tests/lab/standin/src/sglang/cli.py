# SPDX-License-Identifier: GPL-3.0-or-later
"""The console script `sglang` and what `python -m sglang.launch_server` shares with it."""

from __future__ import annotations

import os
import sys

from . import __version__
from .arguments import NOTICES, parse
from .launcher import launch
from .output import Log


def serve(argv):
    """Parse, serve, leave. Threads that still wait for something do not hold the process up."""
    if argv and not argv[0].startswith("-"):
        argv = ["--model-path", *argv]
    args = parse(argv)
    for notice in NOTICES:
        Log(level=args.log_level).warning(notice)
    code = launch(args)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main():
    """sglang serve|version"""
    words = sys.argv[1:]
    if words[:1] == ["serve"]:
        serve(words[1:])
    elif words[:1] == ["version"]:
        print(f"sglang version: {__version__}")
    else:
        print("usage: sglang [-h] {serve,version} ...", file=sys.stderr)
        raise SystemExit(0 if words[:1] in (["-h"], ["--help"]) else 2)


if __name__ == "__main__":
    main()
