# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs under the interpreter of a release: what its parser says to each of many command lines.

Reads a JSON list of lists of words on standard input, and writes on the last line of standard output a JSON list of
[refused, message, {word: the option that it was taken for}].
"""

from __future__ import annotations

import argparse
import json
import sys

from sglang.srt.server_args import ServerArgs


class Refused(Exception):
    """The parser leaves with an error."""


def refuse(_parser, message):
    """Takes the place of ArgumentParser.error, which would end the process."""
    raise Refused(message)


def read(parser, words):
    """What one command line gives."""
    taken = {}
    for word in words:
        flag = word.partition("=")[0]
        meant = [name for name in parser._option_string_actions if name.startswith(flag)]
        if flag.startswith("--") and flag not in meant and len(meant) == 1:
            taken[flag] = meant[0]
    try:
        parser.parse_args(words)
    except Refused as problem:
        return [True, str(problem), taken]
    except Exception as problem:
        return [True, f"{type(problem).__name__}: {problem}", taken]
    return [False, "", taken]


def main():
    argparse.ArgumentParser.error = refuse
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    print("\n" + json.dumps([read(parser, words) for words in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
