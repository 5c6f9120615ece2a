# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What apt is told, and what it tells, when packages are fetched for another host. Pure functions."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

_URI = re.compile(r"^'([^']+)' (\S+) (\d+) *(\S*)$", re.MULTILINE)
_ACQUIRE = re.compile(r"^Acquire::(?:http|https)::(?:Proxy|CAInfo|Verify-Peer)\b.*;$", re.MULTILINE)


def settings(root, architecture, dump):
    """Text of an apt.conf for a private root: its own state, and of this machine's settings only how to reach out."""
    return "\n".join(
        [
            f'Dir "{root}";',
            f'Dir::State::status "{root}/var/lib/dpkg/status";',
            f'Dir::Etc::trustedparts "{root}/etc/apt/trusted.gpg.d";',
            f'APT::Architecture "{architecture}";',
            f'APT::Architectures {{ "{architecture}"; }};',
            'APT::Install-Recommends "false";',
            'APT::Sandbox::User "";',
            'Acquire::Languages "none";',
            'Acquire::Retries "3";',
            *_ACQUIRE.findall(dump),
            "",
        ]
    )


def fetched(print_uris):
    """{file name: address} of what ``apt-get --print-uris`` lists. apt escapes a colon in the name of a file."""
    return {unquote(name): uri for uri, name, _size, _sum in _URI.findall(print_uris)}


def below(uri, repository):
    """Path of an address below a repository; empty where it is another's."""
    repository = repository.rstrip("/") + "/"
    if not repository.strip("/") or not uri.startswith(repository):
        return ""
    path = os.path.normpath(unquote(uri[len(repository) :]))
    return "" if path.startswith(("..", "/")) else path


def index_entry(control, name, size, digest):
    """Entry of a flat repository's index, from a package's control file."""
    return f"{control.rstrip()}\nFilename: ./{name}\nSize: {size}\nSHA256: {digest}\n"
