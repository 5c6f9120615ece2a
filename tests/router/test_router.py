# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real sglang-router with two engines: no stream is cut by a drain, and no engine is forgotten by a restart."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from ansible_collections.llmfleet.sglang.tests.lab.controller import PATIENCE, until
from ansible_collections.llmfleet.sglang.tests.router.host import HOSTS, ROUTER, URLS, ask

STRANGER = "http://192.0.2.99:30000"


def url_of(name):
    return f"http://{HOSTS[name]}:30000"


def counts(told, host="router-1"):
    """{word: number} of a host's line in a play's recap."""
    line = re.search(rf"(?m)^{host}\s+:(.*)$", told.rpartition("PLAY RECAP")[2])[1]
    return {word: int(number) for word, number in re.findall(r"(\w+)=(\d+)", line)}


def flat(told):
    """What a play said with its lines joined: long ones are broken anywhere."""
    return " ".join(told.split())


def other(name):
    return "engine-2" if name == "engine-1" else "engine-1"


def whole(summary):
    """Whether each request of a load was whole; the summary otherwise."""
    return (summary["failed"] == summary["cut"] == 0 and summary["whole"] > 0) or summary


def test_check_mode_works_on_a_blank_host(lab):
    status, told = lab.checked
    assert status == 0, told[-4000:]
    assert "A real run would install sglang-router 0.3.2" in told
    assert counts(told)["failed"] == 0


def test_a_second_run_changes_nothing(lab):
    before = lab.on_host("router-1", "systemctl show -p InvocationID sglang-router sglang-router-workers")
    status, told = lab.play("playbooks/router.yml")
    assert status == 0, told[-4000:]
    assert counts(told)["changed"] == 0
    assert before == lab.on_host("router-1", "systemctl show -p InvocationID sglang-router sglang-router-workers")


def test_both_engines_serve_after_the_deployment(lab):
    assert lab.served() == ["engine-1", "engine-2"]
    # The lines of the last task, one for each engine.
    assert re.search(rf"engine-1 +lab +{url_of('engine-1')} +serving", flat(lab.deployed[1]))


def test_streams_pass_whole(load):
    one = load("--streams=4", "--requests=2", "--tokens=5")
    assert one.process.wait(PATIENCE) == 0
    assert whole(one.summary()) is True


def test_the_metrics_are_on_loopback_only(lab):
    told = lab.on_host(
        "router-1",
        "python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:30109/metrics').read().decode())\"",
    )
    assert "smg_worker_health{" in told
    with pytest.raises(OSError):
        ask(f"http://{HOSTS['router-1']}:30109/metrics")


def test_the_same_beginning_goes_to_the_same_engine(lab, load):
    before = {name: lab.answers(name) for name in URLS.values()}
    one = load("--streams=1", "--requests=8", "--tokens=2", "--prompt", "The same long beginning of a prompt. " * 40)
    assert one.process.wait(PATIENCE) == 0
    gained = sorted(until(lambda: gains(lab, before)).values())
    assert gained == [0, 8]


def gains(lab, before):
    """Generations that each engine took since, once all eight are in the journals."""
    after = {name: lab.answers(name) - before[name] for name in before}
    return after if sum(after.values()) >= 8 else None


def test_a_drain_cuts_no_stream(lab, load, restored):
    running = load("--streams=8", "--tokens=100")
    until(lambda: running.summary()["open"] == 8 and sum(lab.running(name) for name in URLS.values()) == 8)
    busy = max(URLS.values(), key=lab.running)
    assert lab.running(busy) > 0
    status, told = lab.play("playbooks/drain.yml", "--limit", busy, drain_reason="a fan is replaced")
    assert status == 0, told[-4000:]
    assert lab.running(busy) == 0 and lab.served() == [other(busy)]
    assert re.search(rf"{busy} +lab +{url_of(busy)} +drained on router-1 .*a fan is replaced", flat(told))
    # Nothing reaches it any more, while the others go on.
    before, done = lab.answers(busy), running.summary()["whole"]
    until(lambda: running.summary()["whole"] >= done + 16)
    assert lab.answers(busy) == before
    # A second time it is drained already, and whoever drained it first stays named.
    again = lab.worker(url_of(busy), "drained", reason="another")
    assert (again["changed"], again["previous"]["reason"]) == (False, "a fan is replaced")
    status, told = lab.play("playbooks/undrain.yml", "--limit", busy, undrain_verification_enabled=False)
    assert status == 0, told[-4000:]
    assert lab.served() == ["engine-1", "engine-2"]
    assert whole(running.end()) is True


def test_a_drain_that_would_leave_too_few_is_refused(lab):
    status, told = lab.play("playbooks/drain.yml", drain_reason="everything at once")
    assert status != 0
    assert "would have 0 serving workers of service lab, and drain_serving_minimum is 1" in flat(told)
    status, told = lab.play("playbooks/drain.yml", "--limit", "engine-1")
    assert status != 0 and "drain_reason is not given" in flat(told)
    assert lab.served() == ["engine-1", "engine-2"]


def test_a_restart_keeps_a_drained_engine_out_and_the_others_in(lab, restored):
    assert lab.worker(url_of("engine-1"), "drained", host="engine-1", reason="restart")["changed"]
    lab.on_host("router-1", "systemctl restart sglang-router")
    # systemctl returns when the engines that are to serve are in.
    assert lab.served() == ["engine-2"]
    looked = "journalctl -u sglang-router-workers -o cat | grep -c Started"
    until(lambda: int(lab.on_host("router-1", looked)) > 1)
    status, told = lab.play("playbooks/router.yml")
    assert status == 0, told[-4000:]
    assert counts(told)["changed"] == 0 and lab.served() == ["engine-2"]
    assert re.search(rf"engine-1 +lab +{url_of('engine-1')} +drained +since .*: restart", flat(told))


def test_a_drained_engine_that_somebody_puts_in_is_taken_out_again(lab, restored):
    assert lab.worker(url_of("engine-1"), "drained", host="engine-1")["changed"]
    body = json.dumps({"url": url_of("engine-1")})
    subprocess.run(["curl", "-sS", "-H", "content-type: application/json", "-d", body, f"{ROUTER}/workers"], check=True)
    journal = "journalctl -u sglang-router-workers -o cat | grep -c 'is drained and was taken out' || true"
    until(lambda: lab.on_host("router-1", journal) != "0")
    until(lambda: lab.served() == ["engine-2"])


def test_a_dead_engine_is_not_served_to_and_comes_back_by_itself(lab, load, restored):
    lab.on_host("engine-1", "systemctl kill --kill-whom=all --signal=SIGKILL sglang-lab; systemctl stop sglang-lab")
    # Before the router's health check has noticed: what it began with the dead one is tried with the other one.
    one = load("--streams=4", "--requests=3", "--tokens=3")
    assert one.process.wait(PATIENCE) == 0, one.summary()
    until(lambda: lab.served() == ["engine-2"])
    # A router that starts meanwhile does not wait for it, and has it as soon as it answers.
    lab.on_host("router-1", "systemctl restart sglang-router")
    assert lab.served() == ["engine-2"]
    status, told = lab.play("playbooks/router.yml")
    assert status == 0 and re.search(rf"{url_of('engine-1')} +LEFT OUT", flat(told)), told[-4000:]
    lab.on_host("engine-1", "systemctl start sglang-lab")
    until(lambda: lab.served() == ["engine-1", "engine-2"])


def test_an_engine_that_is_down_is_not_put_back(lab, restored):
    lab.worker(url_of("engine-1"), "drained", host="engine-1")
    lab.on_host("engine-1", "systemctl stop sglang-lab")
    told = lab.worker(url_of("engine-1"), "serving", timeout=1)
    assert told["failed"] and "did not answer 200 within 1 s" in told["msg"]
    assert told["workers"][0]["state"] == "drained" and lab.served() == ["engine-2"]


@pytest.mark.parametrize("url", ["10.213.77.181:30000", "http://10.213.77.181", "http://10.213.77.181:30000/v1"])
def test_a_wrong_address_is_refused_with_a_sentence(lab, url):
    told = lab.worker(url, "serving")
    assert told["failed"] and told["msg"].startswith(f"url is '{url}', which ") and "give one like" in told["msg"]


def test_an_engine_that_the_inventory_has_no_longer_is_named_and_removed_when_allowed(lab):
    lab.worker(STRANGER, "drained", host="engine-9", service="old", reason="sold", wait=False)
    status, told = lab.play("playbooks/router.yml")
    assert status == 0 and counts(told)["changed"] == 0
    named = rf"engine-9 +old +{STRANGER} +drained .*no longer in the inventory \(router_removal_allowed"
    assert re.search(named, flat(told))
    status, told = lab.play("playbooks/router.yml", router_removal_allowed=True, router_drain_timeout=5)
    assert status == 0, told[-4000:]
    assert STRANGER not in lab.on_host("router-1", "cat /etc/sglang-router/workers.json")
    assert lab.served() == ["engine-1", "engine-2"]
