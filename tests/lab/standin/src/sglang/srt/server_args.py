# SPDX-License-Identifier: GPL-3.0-or-later
"""The parser under the names that the engine's launcher uses, for programs that ask it about a command line."""

from __future__ import annotations

from ..arguments import add_arguments, parse


class ServerArgs:
    """Parsed arguments, as attributes."""

    def __init__(self, **values):
        vars(self).update(values)

    @staticmethod
    def add_cli_args(parser):
        """Add every argument of the release to an argparse parser."""
        add_arguments(parser)

    @classmethod
    def from_cli_args(cls, args):
        """From the namespace of a parser."""
        return cls(**vars(args))


def prepare_server_args(argv):
    """From the words of a command line; leaves with status 2 where they are refused."""
    return ServerArgs.from_cli_args(parse(argv))
