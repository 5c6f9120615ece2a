# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every secret that was planted before the deployment is where it was meant to be, and nowhere else."""

from __future__ import annotations

import re

from ansible_collections.llmfleet.sglang.tests.service.host import until
from ansible_collections.llmfleet.sglang.tests.service.scan import Sampler, scan

# The only secret that the host has to keep, and the process that has to get it.
MEANT = [
    r"file /etc/sglang/kimi\.env 0640 root:sglang",
    r"file /etc/sglang/kimi/configs/[^/ ]+/env 0640 root:sglang",
    r"environ of sglang",
]


def in_the_open(found):
    """What a scan found that must not be there."""
    return sorted(
        (name, place)
        for name, place in found
        if not (name == "vault_service_token" and any(re.fullmatch(one, place) for one in MEANT))
    )


def test_no_secret_is_in_the_open_on_the_host(healthy):
    found = scan(healthy, healthy.secrets)
    assert in_the_open(found) == []
    # The one that is meant to be there was found, by a scan that looks at each kind of place.
    assert {place.split(" ")[0] for name, place in found} == {"file", "environ"}


def test_no_secret_was_on_a_command_line_during_the_deployment(server):
    assert server.sampler.found == []
    assert server.sampler.here == set()
    assert server.sampler.samples > 50 and server.sampler.lines > 100
    assert any(b"ansible-playbook" in line for line in server.sampler.lines_here)


def test_no_secret_is_in_what_ansible_said(server):
    told = "\n".join(server.outputs)
    assert len(server.outputs) >= 3 and "Using module file" in told and "Write the configuration" in told
    assert [name for name, secret in server.secrets.items() if secret in told] == []


def test_the_scan_finds_what_is_in_the_open(server):
    needle = {"planted": "a-secret-that-was-planted-to-be-found"}
    with Sampler(server, needle) as sampler:
        server.on_host(
            "cat > /opt/planted && logger --file /opt/planted"
            " && xargs -I{} systemd-run --quiet --unit=lab-held --collect --setenv=PLANTED={} sh -c 'sleep 600; : {}'"
            " < /opt/planted; chmod 0644 /opt/planted; journalctl --sync",
            f"{needle['planted']}\n",
        )
        places = {"journal", "ps", "units", "cmdline", "environ of root", "file /opt/planted 0644 root:root"}
        found = until(
            lambda: next(
                (
                    one
                    for one in [scan(server, needle, "--since=-10min", "etc opt")]
                    if places <= {place for _n, place in one}
                ),
                None,
            )
        )
    server.on_host("systemctl stop lab-held; rm /opt/planted")
    assert {place for _name, place in in_the_open(found)} >= places
    assert [name for name, _line in sampler.found][:1] == ["planted"]


def test_a_secret_in_a_file_that_all_may_read_is_in_the_open(healthy):
    path = "/etc/sglang/kimi.env"
    healthy.on_host(f"chmod 0644 {path}")
    found = scan(healthy, healthy.secrets, "--lines=1", "etc")
    healthy.on_host(f"chmod 0640 {path}")
    assert in_the_open(found) == [("vault_service_token", f"file {path} 0644 root:sglang")]
