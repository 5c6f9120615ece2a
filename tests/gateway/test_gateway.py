# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway as a client and as an operator meet it: the openai package, rotation under load, and no key anywhere."""

from __future__ import annotations

import re
import socket
import threading
import time
from pathlib import Path

import openai
import pytest
from ansible_collections.llmfleet.sglang.tests.gateway.host import ADDRESS
from ansible_collections.llmfleet.sglang.tests.lab.controller import PATIENCE, until

WORDS = [{"role": "user", "content": "Count for me."}]
ENDLESS = {"ignore_eos": True}


def changes(told):
    """The tasks of a play that changed something."""
    return re.findall(
        r"(?ms)^(?:TASK|RUNNING HANDLER) \[(?:[^\]]* : )?([^\]]*)\][^\n]*\n(?:(?!^TASK|^RUNNING).)*?^changed:", told
    )


def counts(told):
    """{word: number} of a play's last line."""
    return {word: int(number) for word, number in re.findall(r"(\w+)=(\d+)", told.rpartition("PLAY RECAP")[2])}


def chat(client, tokens=3, **more):
    return client.chat.completions.create(model="lab", messages=WORDS, max_tokens=tokens, **more)


def error_of(caught):
    """The body of an error of the client, in OpenAI's shape."""
    assert set(caught.value.body) == {"message", "type", "param", "code"}
    return caught.value.body["code"]


# ---- deployment ----------------------------------------------------------------------------------------------


def test_check_mode_works_on_a_blank_host(gateway):
    status, told = gateway.checked
    assert status == 0, told[-4000:]
    assert "A real run would install nginx" in told
    assert counts(told)["failed"] == 0


def test_a_second_run_changes_nothing(gateway):
    status, told = gateway.play()
    assert status == 0, told[-4000:]
    assert (changes(told), counts(told)["changed"]) == ([], 0)


def test_the_distributions_files_are_as_they_came(gateway):
    assert gateway.on_host("dpkg --verify nginx-common | grep -v /usr/share/doc; true") == ""
    assert gateway.on_host("ss -Hltn 'sport = :80'") == ""


# ---- the client ----------------------------------------------------------------------------------------------


def test_the_real_client_works_over_verified_tls(gateway):
    client = gateway.client()
    assert [model.id for model in client.models.list()] == ["lab"]
    answer = chat(client)
    assert answer.choices[0].message.content and answer.usage.completion_tokens == 3
    assert client.completions.create(model="lab", prompt="Count", max_tokens=2).usage.completion_tokens == 2


def test_a_client_that_does_not_know_the_authority_refuses(gateway):
    stranger = openai.OpenAI(base_url=f"https://{ADDRESS}/v1", api_key="none", max_retries=0, timeout=PATIENCE)
    with pytest.raises(openai.APIConnectionError):
        chat(stranger)


def test_old_tls_is_refused(gateway):
    tried = gateway.on_host("openssl s_client -connect 127.0.0.1:443 -tls1_1 </dev/null 2>&1", check=False)
    assert tried.returncode != 0
    assert gateway.on_host("openssl s_client -connect 127.0.0.1:443 -tls1_2 </dev/null 2>&1 | grep -c TLSv1.2") != "0"


@pytest.mark.parametrize(
    "change",
    [
        lambda key: "",
        lambda key: "x" + key[1:],
        lambda key: key + "x",
        lambda key: key[-32:],
        # nginx finds the client without regard to case: the digest must tell.
        lambda key: key.swapcase(),
    ],
    ids=["missing", "other-start", "longer", "shorter", "other-case"],
)
def test_a_wrong_key_is_refused(gateway, change):
    key = change(gateway.keys["steady"])
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    status, body, told = gateway.ask("/v1/models", key=None, headers=headers)
    assert (status, body["error"]["code"], told["WWW-Authenticate"]) == (401, "invalid_api_key", "Bearer")
    if key:
        with pytest.raises(openai.AuthenticationError) as caught:
            chat(gateway.client(key=key))
        assert error_of(caught) == "invalid_api_key"


def test_a_client_has_the_services_that_it_was_given(gateway):
    assert gateway.ask("/v1/models", key="old")[0] == 200
    assert gateway.ask("/v1/models", service="hasty", key="old")[0] == 401
    assert gateway.ask("/v1/models", key="narrow")[0] == 401


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/server_info",
        "/get_server_info",
        "/metrics",
        "/flush_cache",
        "/generate",
        "/v1/loads",
        "/openapi.json",
        "/health_generate",
        "/v1/models/../../server_info",
        "/v1/models/%2e%2e/%2e%2e/server_info",
        "/v1/models/..%2f..%2fserver_info",
        "//server_info",
    ],
)
def test_everything_else_is_closed(gateway, path):
    status, body, _headers = gateway.ask(path)
    assert (status, body["error"]["code"]) == (404, "unknown_url")
    status, body, _headers = gateway.ask(path, body=b"{}")
    assert (status, body["error"]["code"]) == (404, "unknown_url")


def test_metrics_are_for_the_named_addresses_alone(gateway):
    status, text, _headers = gateway.ask("/metrics", port=9443, key=None)
    assert status == 200 and "sglang:num_running_reqs" in text
    assert gateway.ask("/server_info", port=9443)[0] == 404
    status, body, _headers = gateway.ask("/metrics", port=9441)
    assert (status, body["error"]["code"]) == (403, "forbidden")


def test_health_is_for_clients_and_the_named_addresses(gateway):
    assert gateway.ask("/health", key=None)[0] == 401
    assert gateway.ask("/health")[0] == 200
    assert gateway.ask("/health", service="narrow", key=None)[0] == 200


# ---- streaming -----------------------------------------------------------------------------------------------


def test_chunks_arrive_one_by_one(gateway):
    def seconds_from_first_to_last():
        stream = chat(gateway.client(), tokens=15, stream=True, extra_body=ENDLESS)
        arrived = [time.monotonic() for _chunk in stream]
        assert len(arrived) > 15
        return arrived[-1] - arrived[0]

    # The engine takes 1.5 s for them, and they are smaller together than a buffer of nginx: one that buffers
    # hands all of them on at the end. A busy machine may look like that once, but not each time.
    assert max(seconds_from_first_to_last() for _try in range(3)) > 0.75


def test_a_client_that_leaves_stops_the_engine(gateway):
    until(lambda: gateway.running() == 0)
    stream = chat(gateway.client(), tokens=100_000, stream=True, extra_body=ENDLESS)
    next(iter(stream))
    assert gateway.running() == 1
    stream.close()
    until(lambda: gateway.running() == 0)


# ---- limits and failures -------------------------------------------------------------------------------------


def test_requests_beyond_the_rate_are_refused(gateway):
    client = gateway.client("narrow", "narrow")
    for _number in range(3):
        chat(client, tokens=1)
    # One more is allowed each minute, which a slow machine may take for these.
    with pytest.raises(openai.RateLimitError) as caught:
        for _number in range(20):
            chat(client, tokens=1)
    assert error_of(caught) == "rate_limit_exceeded"
    assert int(caught.value.response.headers["retry-after"]) > 0
    # Another client has a limit of its own.
    chat(gateway.client("narrow"), tokens=1)


def test_a_request_that_is_too_large_is_refused(gateway):
    with pytest.raises(openai.APIStatusError) as caught:
        gateway.client("narrow").chat.completions.create(
            model="lab", messages=[{"role": "user", "content": "x" * 1_100_000}]
        )
    assert (caught.value.status_code, error_of(caught)) == (413, "request_too_large")


def test_requests_of_one_client_at_the_same_time_are_limited(gateway):
    stream = chat(gateway.client("hasty"), tokens=100_000, stream=True, extra_body=ENDLESS)
    next(iter(stream))
    with pytest.raises(openai.RateLimitError):
        chat(gateway.client("hasty"))
    # One of the two engines of this service is down all the time.
    chat(gateway.client("hasty", "narrow"))
    stream.close()


def test_an_engine_that_stays_silent_is_given_up(gateway):
    until(lambda: gateway.ask("/v1/models", service="hasty")[0] == 200)
    with pytest.raises(openai.InternalServerError) as caught:
        chat(gateway.client("hasty"), tokens=120, extra_body=ENDLESS)
    assert (caught.value.status_code, error_of(caught)) == (504, "engine_timeout")


def test_a_service_that_drains_takes_nothing_new(gateway):
    status, body, told = gateway.ask("/v1/models", service="draining", verified=False)
    assert (status, body["error"]["code"], told["Retry-After"]) == (503, "draining", "30")


def test_the_engine_gets_neither_key_nor_query_and_its_port_is_closed(gateway):
    status, body, _headers = gateway.ask("/v1/models", service="echo")
    assert (status, body["error"]["code"]) == (502, "engine_down")
    echo = (Path(__file__).parent / "echo.py").read_text()
    gateway.on_host("cat > /opt/echo.py && systemd-run --unit=echo --collect python3 /opt/echo.py 30001", echo)
    answer = until(
        lambda: next((got for got in [gateway.ask("/v1/models?q=1", service="echo")] if got[0] == 200), None)
    )
    assert answer[1]["path"] == "/v1/models"
    assert "authorization" not in answer[1]["headers"]
    assert answer[1]["headers"]["x-forwarded-for"] == "10.213.77.1"
    # It listens on all addresses, and only the firewall keeps us out.
    with pytest.raises(OSError), socket.create_connection((ADDRESS, 30001), timeout=3):
        pass
    gateway.on_host("nft delete table inet sglang_gateway")
    socket.create_connection((ADDRESS, 30001), timeout=PATIENCE).close()
    gateway.on_host("systemctl reload sglang-gateway-firewall && systemctl stop echo")


def test_a_stream_is_finished_while_the_engine_drains_and_then_the_answer_is_502(gateway):
    before = gateway.on_host("systemctl show --property=InvocationID sglang-lab")
    stream = chat(gateway.client(), tokens=80, stream=True, extra_body=ENDLESS)
    chunks = [next(iter(stream))]
    gateway.on_host("systemctl stop --no-block sglang-lab")
    chunks += list(stream)
    assert len(chunks) > 80
    until(lambda: gateway.ask("/v1/models")[0] == 502)
    with pytest.raises(openai.InternalServerError) as caught:
        chat(gateway.client())
    assert (caught.value.status_code, error_of(caught)) == (502, "engine_down")
    gateway.on_host("systemctl start sglang-lab")
    until(lambda: gateway.ask("/health")[0] == 200)
    assert gateway.on_host("systemctl show --property=InvocationID sglang-lab") != before


def test_a_broken_configuration_is_not_loaded(gateway):
    config = "/etc/nginx/sglang-gateway.conf"
    gateway.on_host(f"cp -p {config} /opt/kept && echo nonsense >> {config}")
    assert gateway.on_host("systemctl reload nginx", check=False).returncode != 0
    assert gateway.ask("/v1/models")[0] == 200
    gateway.on_host(f"mv /opt/kept {config} && systemctl reload nginx")
    assert gateway.ask("/v1/models")[0] == 200


# ---- keys ----------------------------------------------------------------------------------------------------


class Load:
    """Eight clients that ask all the time, half of them for streams, with the key that stays valid."""

    def __init__(self, gateway):
        self.gateway, self.done, self.failed, self.end = gateway, 0, [], threading.Event()
        self.threads = [threading.Thread(target=self.work, args=(number,)) for number in range(8)]

    def work(self, number):
        client = self.gateway.client()
        while not self.end.is_set():
            try:
                if number % 2:
                    assert chat(client).usage.completion_tokens == 3
                else:
                    assert len(list(chat(client, tokens=10, stream=True, extra_body=ENDLESS))) > 10
                self.done += 1
            except Exception as problem:  # any failure of a request counts, whatever it is
                self.failed.append(repr(problem))
            time.sleep(0.1)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        until(lambda: self.done > 8 or self.failed)
        return self

    def __exit__(self, *_exc):
        self.end.set()
        for thread in self.threads:
            thread.join()


def test_keys_change_under_load_without_a_failed_request(gateway):
    def who(key):
        return gateway.ask("/v1/models", key=key)[0]

    engine = gateway.on_host("systemctl show --property=MainPID,InvocationID sglang-lab")
    nginx = gateway.on_host("systemctl show --property=MainPID,InvocationID nginx")
    assert (who("old"), who("new")) == (200, 401)
    with Load(gateway) as load:
        gateway.clients[1]["keys"] = [gateway.keys["old"], gateway.keys["new"]]
        status, told = gateway.play()
        assert status == 0, told[-4000:]
        assert changes(told) == ["Write the digests of the keys", "Reload nginx"]
        assert (until(lambda: who("new") == 200), who("old")) == (True, 200)
        gateway.clients[1]["keys"] = [gateway.keys["new"]]
        status, told = gateway.play()
        assert status == 0, told[-4000:]
        until(lambda: who("old") == 401)
        assert who("new") == 200
    print(f"requests through the rotation: {load.done} answered, {len(load.failed)} failed")
    assert load.failed == []
    assert load.done > 50
    assert gateway.on_host("systemctl show --property=MainPID,InvocationID sglang-lab") == engine
    assert gateway.on_host("systemctl show --property=MainPID,InvocationID nginx") == nginx


def test_the_access_log_names_the_client(gateway):
    gateway.ask("/v1/models")
    lines = gateway.on_host("tail -n 20 /var/log/nginx/sglang-gateway.access.log").splitlines()
    assert any('"client":"team-a"' in line and '"path":"/v1/models","status":200' in line for line in lines)


def test_a_key_that_is_refused_is_not_shown(gateway):
    short, odd = gateway.keys["new"][:20], gateway.keys["old"] + '"'
    kept = gateway.clients
    gateway.clients = [{"name": "team-x", "keys": [short, odd]}, {"name": gateway.keys["steady"] + "/", "keys": odd}]
    status, told = gateway.play()
    gateway.clients = kept
    assert status != 0
    assert "gateway_clients[0].keys[0] is (hidden): it has 20 characters" in told
    assert "gateway_clients[0].keys[1] is (hidden): it holds a quote" in told
    assert not any(key in told for key in [short, *gateway.keys.values()])


SCAN = r"""
export LC_ALL=C; umask 077; cat > /run/needles; trap "rm -f /run/needles" EXIT
found() { grep -q -a -F -f /run/needles && echo "$1"; }
journalctl --output=export --all | found journal
ps -eww -o args= | found ps
for one in cmdline environ; do cat /proc/[0-9]*/$one 2>/dev/null | found "$one"; done
systemctl cat nginx sglang-lab sglang-gateway-firewall | found units
nginx -T -c /etc/nginx/sglang-gateway.conf 2>&1 | found configuration
cat /var/log/nginx/* | found logs
cd / && grep -r -l -a -s -F -f /run/needles --exclude=needles --exclude-dir=lists \
    etc run var usr/lib/systemd home root tmp opt srv | sed "s:^:file /:"
true
"""


def scan(gateway, needles):
    """Where on the host one of the needles is found."""
    return set(gateway.on_host(SCAN, "".join(f"{needle}\n" for needle in needles)).splitlines())


def test_planted_keys_are_found_nowhere(gateway):
    # Ways in which a key could get into a log.
    for headers in ({"Authorization": f"Bearer {gateway.keys['steady']}x"}, {"X-Key": "\x01" + gateway.keys["steady"]}):
        gateway.ask("/v1/models", key=None, headers=headers)
    gateway.ask(f"/v1/models?api_key={gateway.keys['steady']}")
    keys = list(gateway.keys.values())
    assert scan(gateway, keys) == set()
    told = "\n".join(gateway.outputs)
    assert len(gateway.outputs) >= 6 and "ok: [gw-1]" in told and "Using module file" in told
    assert [key for key in keys if key in told] == []
    # The private key of the certificate is where it must be, for root alone, and nowhere else.
    private = (gateway.folder / "key").read_text().splitlines()[1]
    assert scan(gateway, [private]) == {"file /etc/nginx/sglang-gateway/lab.key"}
    assert private not in told
    modes = gateway.on_host("stat -c '%a %U %n' /etc/nginx/sglang-gateway/*.key /etc/nginx/sglang-gateway/keys.conf")
    assert [line.split()[:2] for line in modes.splitlines()] == [["600", "root"]] * 3
    assert gateway.on_host("find /var/log/nginx -name 'sglang-gateway*' -perm /o+r") == ""


def test_the_scan_finds_what_is_there(gateway):
    needle = "a-needle-that-was-planted-to-be-found"
    gateway.on_host(
        "cat > /opt/planted && logger --file /opt/planted && xargs -I{} systemd-run --unit=held --collect"
        " --setenv=PLANTED={} sh -c 'sleep 600; : {}' < /opt/planted; journalctl --sync",
        f"{needle}\n",
    )
    until(lambda: scan(gateway, [needle]) >= {"journal", "ps", "cmdline", "environ", "file /opt/planted"})
    assert {"units", "configuration", "logs"} <= scan(gateway, ["nginx", "team-a", "/v1/models"])
    gateway.on_host("systemctl stop held; rm /opt/planted")


# ---- last, since it takes the host down ----------------------------------------------------------------------


def test_gateway_and_firewall_come_back_after_a_reboot(gateway):
    boot = gateway.on_host("cat /proc/sys/kernel/random/boot_id")
    gateway.on_host("systemctl reboot", check=False)

    def back():
        done = gateway.on_host("cat /proc/sys/kernel/random/boot_id", check=False)
        return done.returncode == 0 and done.stdout.strip() != boot

    until(back)
    until(lambda: gateway.on_host("systemctl is-active nginx sglang-gateway-firewall", check=False).returncode == 0)
    assert "30001" in gateway.on_host("nft list table inet sglang_gateway")
    # The tests' engine is not enabled.
    status, body, _headers = gateway.ask("/v1/models")
    assert (status, body["error"]["code"]) == (502, "engine_down")
    assert gateway.ask("/v1/models", key=None)[0] == 401
