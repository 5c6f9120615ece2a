# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole of site.yml, gateway included, on a blank host."""

from __future__ import annotations

import re
import ssl

import httpx2
import openai
from ansible_collections.llmfleet.sglang.tests.service.host import ADDRESS, PATIENCE, UNIT, counts


def test_check_mode_changes_nothing_on_a_blank_host(server):
    status, told = server.checked
    assert status == 0, told[-6000:]
    assert counts(told)["failed"] == 0
    assert "A real run would install nginx" in told
    assert server.left_by_check.count("No such file or directory") == 3


def test_a_second_run_changes_nothing_and_restarts_nothing(server):
    status, told = server.repeated
    assert status == 0, told[-6000:]
    assert counts(told)["changed"] == 0
    assert len(server.starts()) == 1


def test_active_means_ready(server):
    unit = server.show()
    assert (unit["Type"], unit["ActiveState"], unit["UnitFileState"]) == ("exec", "active", "enabled")
    server.restart("slow-load=5")
    # What the host itself sees, without a pause between the two questions.
    seen = server.on_host(
        f"while state=$(systemctl show --property=ActiveState --value {UNIT}); echo $state; [ $state = activating ];"
        " do sleep 0.2; done; curl --silent --output /dev/null --write-out '%{http_code}' http://127.0.0.1:30000/health"
    ).splitlines()
    server.fault("")
    assert (seen[0], seen[-2:]) == ("activating", ["active", "200"])


def test_the_unit_holds_what_a_fleet_relies_on(server):
    unit = server.show()
    assert (unit["KillMode"], unit["Restart"], unit["OOMPolicy"]) == ("mixed", "on-failure", "stop")
    assert (unit["LimitMEMLOCK"], unit["LogRateLimitBurst"]) == ("infinity", "100000000")
    assert (unit["User"], unit["NoNewPrivileges"], unit["ProtectSystem"]) == ("sglang", "yes", "strict")
    assert "multi-user.target" in unit["After"].split()


def test_ranks_may_lock_all_the_memory_that_the_host_can_grant(server):
    # A host without CAP_SYS_RESOURCE cannot grant more than it has: there `infinity` ends at its own ceiling.
    granted = server.on_host(
        "systemd-run --quiet --wait --pipe --property=LimitMEMLOCK=infinity grep 'Max locked memory' /proc/self/limits"
    )
    ranks = server.ranks()
    assert len(ranks) == 8, ranks
    for pid in ranks.values():
        assert server.on_host(f"grep 'Max locked memory' /proc/{pid}/limits") == granted


def test_the_client_reaches_the_engine_through_the_gateway(server):
    # The lab's certificate is its own authority.
    authority = server.folder / "authority.pem"
    authority.write_text(server.on_host("cat /etc/nginx/sglang-gateway/kimi.self-signed.crt") + "\n")

    def client(key):
        return openai.OpenAI(
            base_url=f"https://{ADDRESS}/v1",
            api_key=key,
            max_retries=0,
            http_client=httpx2.Client(
                verify=ssl.create_default_context(cafile=authority), trust_env=False, timeout=PATIENCE
            ),
        )

    answer = client(server.secrets["vault_gateway_key"]).chat.completions.create(
        model="kimi-k2.5", messages=[{"role": "user", "content": "Count for me."}], max_tokens=3
    )
    assert answer.usage.completion_tokens == 3
    try:
        client("wrong").models.list()
    except openai.AuthenticationError as refused:
        assert refused.body["code"] == "invalid_api_key"
    else:
        raise AssertionError("a wrong key was accepted")


def test_the_engine_listens_on_loopback_and_the_gateway_on_443(server):
    listening = server.on_host("ss --tcp --listening --numeric --no-header")
    found = {line.split()[3] for line in listening.splitlines()}
    assert "127.0.0.1:30000" in found
    assert "0.0.0.0:443" in found or "*:443" in found
    assert not any(re.fullmatch(r"(0\.0\.0\.0|\*|\[::\]):30000", address) for address in found)


def test_bad_settings_of_the_gateway_stop_the_deployment_at_its_beginning(server):
    status, told = server.site(gateway_services=[{"name": "kimi", "port": 70000, "self_signed": True}])
    assert status != 0
    assert "gateway_services[0].port" in told
    assert "Let the installed release" not in told and counts(told)["changed"] == 0
