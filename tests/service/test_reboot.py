# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that goes down and comes back."""

from __future__ import annotations

from ansible_collections.llmfleet.sglang.tests.service.host import said_in, until


def test_after_a_reboot_the_service_becomes_ready_and_does_not_hold_up_the_boot(healthy):
    boot = healthy.on_host("cat /proc/sys/kernel/random/boot_id")
    before = healthy.invocation()
    # Long enough to see the host up while the service still loads.
    healthy.fault("slow-load=20")
    healthy.on_host("systemctl reboot", check=False)

    def up():
        done = healthy.on_host("cat /proc/sys/kernel/random/boot_id", check=False)
        return done.returncode == 0 and done.stdout.strip() != boot

    until(up)
    until(lambda: healthy.show("multi-user.target")["ActiveState"] == "active")
    unit = healthy.ready()
    assert unit["InvocationID"] != before
    target = healthy.show("multi-user.target")
    assert int(target["ActiveEnterTimestampMonotonic"]) < int(unit["ActiveEnterTimestampMonotonic"]) - 10_000_000
    status, told = healthy.verify()
    assert status == 0, told[-6000:]
    assert "PASS - 8 of 8 ranks" in said_in(told)
    until(lambda: healthy.on_host("systemctl is-active nginx", check=False).returncode == 0)
