# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver changes on a host that serves: out of the routers, stopped, changed, started, proved, and back."""

from __future__ import annotations

from ansible_collections.llmfleet.sglang.tests.cuda.conftest import Offer
from ansible_collections.llmfleet.sglang.tests.fleet.fleet import HOSTS, UNIT

LAYOUT, DRIVER = "debian12", "580.105.08"


def test_the_driver_changes_under_a_service_that_comes_back(on_a, tmp_path):
    offer = Offer(tmp_path / "www")
    offer.folder.mkdir()
    offer.build(LAYOUT)
    url = f"{offer.url}/{LAYOUT}/x86_64/"
    start = on_a.on("fl-1", f"systemctl show --property InvocationID --value {UNIT}")
    others = {host: on_a.state(host) for host in HOSTS[1:]}
    with on_a.watched() as seen:
        played = on_a.play(
            "upgrade_driver.yml", "--limit", "fl-1", cuda_repository_url=url,
            cuda_repository_key_url=f"{url}llmfleet-lab.pub", cuda_driver_version=DRIVER, cuda_toolkit_version="13.0.1",
            cuda_package_retries=1,
        )  # fmt: skip
    offer.server.shutdown()
    assert played.code == 0 and played.table()["fl-1"][1:] == ["done", "serving"], played
    assert DRIVER in on_a.on("fl-1", "dpkg-query -W nvidia-open")
    # The same configuration, in another start that was proved; meanwhile the router did not have the host.
    assert on_a.on("fl-1", f"systemctl show --property InvocationID --value {UNIT}") != start
    assert on_a.stands("fl-1")[1:] == (True, False)
    assert any("fl-1" not in hosts for hosts in seen) and min(len(hosts) for hosts in seen) >= 3, seen
    assert {host: on_a.state(host) for host in HOSTS[1:]} == others
