# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module with a made systemd and journal, a kept record, and a server that answers: what is judged by what."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import threading

import pytest
import yaml
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.llmfleet.sglang.plugins.module_utils import journal, service_store
from ansible_collections.llmfleet.sglang.plugins.module_utils._hicache import verifier
from ansible_collections.llmfleet.sglang.plugins.module_utils._service import drift, verification
from ansible_collections.llmfleet.sglang.plugins.modules import service_verify

START = "a" * 32
NAME, UNIT = "kimi", "sglang-kimi.service"
ID = "0.5.23-ab-11111111"
TOKENS = 159270
TEXT = """[Unit]
Description=one
[Service]
Environment=LANG=C.UTF-8
ExecStart=/opt/python -m sglang.launch_server --tp-size 2 --port {port} --hicache-ratio 4.0 --enable-hierarchical-cache
"""
ENVIRONMENT = 'HF_TOKEN="planted-4711"\n'

JOURNALCTL = """#!/bin/sh
case "$*" in
  *_TRANSPORT=kernel*) exit 0 ;;
  *short-iso*) echo "2026-03-01T23:45:06 ash python: the end, api_key='planted-4711'"; exit 0 ;;
  *after-cursor*) exit 0 ;;
esac
cat "$FAKE/journal"
"""
SYSTEMCTL = """#!/bin/sh
cat "$FAKE/show"
"""


class Ended(Exception):
    """The module ended; holds its answer and whether it failed."""

    def __init__(self, failed, answer):
        super().__init__(answer.get("msg"))
        self.failed, self.answer = failed, answer


class Host:
    """A host that runs a service by its record: what it logs, what runs, and what the server answers."""

    def __init__(self, folder, port):
        self.folder, self.port = folder, port
        self.config_dir, self.facts_dir = folder / "etc", folder / "facts"
        self.asked = []
        self.accept_length, self.cached = 2.5, 512
        self.unit = TEXT.format(port=port)
        self.store = service_store.Store(str(self.config_dir), NAME, str(folder / "units"))
        self.process = drift.recorded_words(self.unit)
        self.variables = {**drift.recorded_variables(self.unit, ENVIRONMENT), "INVOCATION_ID": START}
        self.shown = {
            "Id": UNIT, "LoadState": "loaded", "ActiveState": "active", "SubState": "running", "InvocationID": START,
            "MainPID": "42", "DropInPaths": "",
        }  # fmt: skip
        self.lines()

    def settings(self, **changes):
        found = {
            "name": NAME, "unit": UNIT, "url": f"http://127.0.0.1:{self.port}", "release": "0.5.23", "ranks": 2,
            "ratio": 4.0, "bytes_per_token": 70272, "hicache_enabled": True, "speculative_enabled": True,
            "node_rank": 0, "stages": 1, "served_model_name": "kimi", "page_size": 1, "requests_enabled": True,
        }  # fmt: skip
        return {**found, **changes}

    def deploy(self, **changes):
        """Keep a record and make it the active one, as a deployment does."""
        record = {"release": "0.5.23", "verify": self.settings(**changes)}
        self.store.add(ID, self.unit, ENVIRONMENT, record, None)
        if not self.store.exists():
            self.store.write_state({**service_store.empty_state(), "active": ID})
        self.store.make_active(ID, None)

    def lines(self, gb="44.77", tokens=637081, device=TOKENS, ready=True, arguments="hicache_ratio=4.0, tp_size=2"):
        stamp = "[2026-03-01 23:45:06"
        texts = [
            f"{stamp}] server_args=ServerArgs(model_path='/m', enable_hierarchical_cache=True, {arguments})",
            f"{stamp} TP0] max_total_num_tokens={device}, chunked_prefill_size=8192"
            if device
            else f"{stamp} TP0] hello",
        ]
        texts += [
            f"{stamp} TP{rank}] Allocating kv hierarchical KV host pool: {tokens} tokens, {gb} GB host memory."
            for rank in range(2)
        ]
        texts += [f"{stamp}] The server is fired up and ready to roll!"] if ready else []
        records = [
            {
                "__CURSOR": f"s=1;i={number}",
                "__REALTIME_TIMESTAMP": str(1772408706000000 + number * 1000000),
                "_TRANSPORT": "stdout",
                "_PID": "42",
                "_UID": "999",
                "_SYSTEMD_UNIT": UNIT,
                "_SYSTEMD_INVOCATION_ID": START,
                "MESSAGE": text,
            }
            for number, text in enumerate(texts)
        ]
        text = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)
        (self.folder / "journal").write_text(text)

    def answer(self, path, body):
        """(status, answer) of the server to a request."""
        self.asked.append((path, body))
        if path == "/health_generate":
            return 200, {}
        if path == "/v1/chat/completions":
            return 200, {"choices": [{}], "usage": {"completion_tokens": 3}}
        if path == "/generate":
            count = sum(1 for asked, _body in self.asked if asked == "/generate")
            meta = {"prompt_tokens": 900, "cached_tokens": self.cached if count % 2 == 0 else 0}
            return 200, {"meta_info": {**meta, "spec_accept_length": self.accept_length}}
        return 404, {}

    def run(self, check=False, **options):
        (self.folder / "show").write_text("".join(f"{key}={value}\n" for key, value in self.shown.items()))
        arguments = {
            "name": NAME, "host": "ash", "config_dir": str(self.config_dir), "facts_dir": str(self.facts_dir),
            "poll_interval": 0.1, "_ansible_check_mode": check, **options,
        }  # fmt: skip
        with patch_module_args(arguments), pytest.raises(Ended) as ended:
            service_verify.main()
        assert not ended.value.failed, ended.value.answer
        return ended.value.answer

    def verified(self):
        return [entry["id"] for entry in self.store.state()["verified"]]

    def fact(self):
        path = self.facts_dir / "sglang_kimi.fact"
        return json.loads(path.read_text()) if path.exists() else None


@pytest.fixture
def host(tmp_path, monkeypatch):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, answer = made.answer(self.path, body)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, *_words):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made = Host(tmp_path, server.server_address[1])
    (tmp_path / "units").mkdir()
    for name, text in (("journalctl", JOURNALCTL), ("systemctl", SYSTEMCTL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("FAKE", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(journal, "unreadable", lambda: False)
    monkeypatch.setattr(service_store, "UNIT_DIR", str(tmp_path / "units"))
    monkeypatch.setattr(service_store.Store.__init__, "__defaults__", (str(tmp_path / "units"),))
    monkeypatch.setattr(verification, "LASTING_SECONDS", 0)
    # The server of this test stands for the service's own.
    monkeypatch.setattr(
        verifier.Verifier, "with_owner", lambda _self, around, _url: around._replace(owner={"ours": True})
    )
    monkeypatch.setattr(drift, "process_of", lambda _pid: {"arguments": made.process, "variables": made.variables})

    def end(failed):
        def leave(_self, **answer):
            raise Ended(failed, answer)

        return leave

    monkeypatch.setattr(AnsibleModule, "exit_json", end(False))
    monkeypatch.setattr(AnsibleModule, "fail_json", end(True))
    yield made
    with contextlib.suppress(OSError):
        server.shutdown()
        server.server_close()


def codes(answer):
    return [reason["code"] for reason in answer["reasons"]]


def test_a_service_that_is_as_recorded_passes_and_is_written_down(host):
    host.deploy()
    answer = host.run()
    assert (answer["verdict"], answer["recorded"], answer["configuration"]) == ("pass", True, ID)
    assert answer["summary"] == (
        "ash sglang-kimi.service: PASS - 2 of 2 ranks, 44.77 GB each (predicted 44.77), 89.54 GB in all, "
        "ready after 4 s"
    )
    assert answer["changed"] and answer["requests_sent"] and answer["journal_tail"] == []
    assert host.verified() == [ID] and host.fact()["verdict"] == "pass"
    assert [path for path, _body in host.asked] == [
        "/health_generate",
        "/v1/chat/completions",
        "/generate",
        "/generate",
    ]
    assert host.asked[1][1]["model"] == "kimi" and START in host.asked[2][1]["text"]
    # The same start again: the same verdict, and nothing new to write down.
    again = host.run()
    assert (again["verdict"], again["changed"]) == ("pass", False) and host.verified() == [ID]


def edited_ratio(host):
    """The unit was edited and restarted: file, process and the start itself have ratio 2."""
    path = host.folder / "units" / UNIT
    path.write_text(path.read_text().replace("--hicache-ratio 4.0", "--hicache-ratio 2.0"))
    host.process = ["2.0" if word == "4.0" else word for word in host.process]
    host.lines(gb="22.39", tokens=318541, arguments="hicache_ratio=2.0, tp_size=2")


def put_back_file(host):
    """The same, and the file was put back since: only process and start tell."""
    edited_ratio(host)
    host.store.make_active(ID, None)


def edited_title(host):
    """The process hides its arguments: only the start's own words tell."""
    put_back_file(host)
    host.process = ["sglang::http_server"]


def edited_environment(host):
    (host.config_dir / "kimi.env").write_text('HF_TOKEN="planted-4712"\n')


def edited_variables(host):
    host.variables["HF_TOKEN"] = "planted-4712"


def dropped_in(host):
    folder = host.folder / f"{UNIT}.d"
    folder.mkdir(exist_ok=True)
    (folder / "x.conf").write_text("[Service]\nUser=root\n")
    host.shown["DropInPaths"] = f"{folder}/x.conf"


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        pytest.param(edited_ratio, ["--hicache-ratio", "2.0", "4.0"], id="unit-edited-and-restarted"),
        pytest.param(put_back_file, ["--hicache-ratio", "2.0", "4.0", "running process"], id="file-put-back"),
        pytest.param(edited_title, ["hicache_ratio", "2", "4"], id="title-for-arguments"),
        pytest.param(edited_environment, ["HF_TOKEN", "environment file"], id="environment-file"),
        pytest.param(edited_variables, ["HF_TOKEN", "running process"], id="variables-of-the-process"),
        pytest.param(dropped_in, ["User", "root", "x.conf"], id="drop-in"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"requests_enabled": False, "written_down": False}], ids=["full", "status"])
def test_what_is_not_as_recorded_fails_whoever_asks(host, edit, words, options):
    host.deploy()
    edit(host)
    answer = host.run(timeout=30, **options)
    assert answer["verdict"] == "fail"
    told = next(reason["message"] for reason in answer["reasons"] if reason["code"] == "settings_differ")
    assert all(word in told for word in words), told
    assert "planted" not in json.dumps(answer)
    assert host.verified() == []
    # Nothing is asked of a server that is not the recorded one.
    assert [path for path, _body in host.asked if path != "/health_generate"] == []
    assert any("the end" in line for line in answer["journal_tail"])


def test_variables_do_not_count_for_a_service_with_a_record(host):
    host.deploy()
    host.lines(gb="22.39")
    weak = {"settings": host.settings(ratio=None, hicache_size=None, bytes_per_token=None, speculative_enabled=False)}
    answer = host.run(**weak)
    assert (answer["verdict"], answer["expected_gb"], answer["recorded"]) == ("fail", 44.77, True)


def test_a_record_without_anything_to_judge_by_is_none(host):
    host.deploy()
    host.store.add(ID, host.unit, ENVIRONMENT, {"release": "0.5.23"}, None)
    answer = host.run(settings=host.settings())
    assert (answer["verdict"], answer["recorded"]) == ("pass", False) and host.verified() == []


@pytest.mark.parametrize(
    ("change", "verdict", "code"),
    [
        pytest.param({"gb": "22.39"}, "fail", "size_wrong", id="half-the-bytes"),
        pytest.param({"gb": "22.39", "tokens": 318541}, "fail", "size_wrong", id="half-the-tokens"),
        pytest.param({"device": None}, "inconclusive", "size_not_compared", id="no-token-count"),
        pytest.param({"ready": False}, "inconclusive", "not_ready", id="not-ready"),
    ],
)
def test_a_start_that_is_not_what_the_record_asks_for(host, change, verdict, code):
    host.deploy()
    host.lines(**change)
    answer = host.run()
    assert (answer["verdict"], answer["recorded"]) == (verdict, True) and code in codes(answer), answer["reasons"]
    assert host.verified() == [] and host.fact()["verdict"] == verdict


@pytest.mark.parametrize("gb", ["44.77", "22.39"], ids=["right", "half-the-bytes"])
def test_a_model_that_cannot_be_read_leaves_the_size_unproved(host, gb):
    """The tokens of the pool are right in both cases: only the bytes of a token tell them apart."""
    host.deploy(bytes_per_token=None, model_path=str(host.folder / "nothing"))
    host.lines(gb=gb)
    answer = host.run()
    assert (answer["verdict"], answer["expected_gb"]) == ("inconclusive", None)
    assert "size_not_compared" in codes(answer) and host.verified() == []


def test_nothing_is_asked_at_the_address_of_a_unit_that_does_not_run(host):
    host.deploy(metrics_enabled=True)
    host.shown.update(ActiveState="inactive", SubState="dead", MainPID="0")
    host.process, host.variables = None, None
    answer = host.run()
    assert answer["verdict"] == "fail" and "unit_inactive" in codes(answer)
    assert host.asked == []


def test_an_accept_length_of_one_fails_and_is_not_forgotten(host):
    host.deploy()
    host.accept_length = 1.0
    assert codes(host.run())[-1] == "accept_length"
    assert host.verified() == [] and host.fact()["verdict"] == "fail"
    # Who asks nothing takes the answers of that verdict.
    quiet = host.run(requests_enabled=False, written_down=False)
    assert (quiet["verdict"], codes(quiet)[-1]) == ("fail", "accept_length")


def test_a_recorded_accept_length_is_what_counts(host):
    host.deploy(accept_length_above=3.0)
    assert codes(host.run())[-1] == "accept_length"


def test_without_requests_and_without_a_kept_verdict_nothing_is_proved(host):
    host.deploy()
    answer = host.run(requests_enabled=False)
    assert (answer["verdict"], codes(answer)[-1]) == ("inconclusive", "requests_not_sent")
    assert host.verified() == []
    host.run()
    answer = host.run(requests_enabled=False, written_down=False)
    assert (answer["verdict"], answer["changed"]) == ("pass", False)


@pytest.mark.parametrize(
    "change", [{"invocation_id": "b" * 32}, {"configuration": "0.5.23-ab-22222222"}, {"requests_sent": False}, None]
)
def test_a_verdict_on_something_else_is_not_taken(host, change):
    host.deploy()
    host.run()
    text = json.dumps({**host.fact(), **change}) if change else "{"
    (host.facts_dir / "sglang_kimi.fact").write_text(text)
    assert host.run(requests_enabled=False, written_down=False)["verdict"] == "inconclusive"


def test_a_deployment_without_requests_is_proved_without_them(host):
    host.deploy(requests_enabled=False)
    assert host.run()["verdict"] == "pass" and host.verified() == [ID]
    assert [path for path, _body in host.asked] == ["/health_generate"]


def test_how_long_and_how_often_the_journal_is_read(host):
    options = verification.journal_options(host.settings(), {"tp_size": 2}, 77, 0.5)
    assert (options["timeout"], options["poll_interval"]) == (77, 0.5)
    assert set(options) == set(verifier.ARGUMENT_SPEC)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, {"ranks": 2, "rank_set": None, "ratio": 4.0, "hicache_size": None, "readiness": "auto"}),
        ({"hicache_size": 10}, {"ratio": None, "hicache_size": 10.0}),
        ({"hicache_enabled": False}, {"ranks": 0, "ratio": None, "hicache_size": None}),
        ({"hicache_enabled": "false"}, {"ranks": 0}),
        ({"rank_set": ["8-15"]}, {"ranks": None, "rank_set": ["8-15"]}),
        ({"node_rank": 1, "metrics_enabled": True}, {"readiness": "none", "metrics_url": None}),
        ({"speculative_enabled": False, "draft_bytes_per_token": 1}, {"draft_bytes_per_token": None}),
        ({"draft_model_path": "/d"}, {"draft_model_path": "/d"}),
        ({"draft_model_path": "/d", "stages": 2}, {"draft_model_path": None}),
        ({"draft_model_path": "/d", "speculative_enabled": False}, {"draft_model_path": None}),
        ({"tolerance_gb": None}, {"tolerance_gb": 0.01}),
        ({"tolerance_gb": 0.5, "page_size": "64"}, {"tolerance_gb": 0.5, "page_size": 64}),
    ],
)
def test_what_a_record_asks_the_journal_for(host, change, expected):
    options = verification.journal_options(host.settings(**change), {"tp_size": 2}, 0, 5)
    assert {name: options[name] for name in expected} == expected


def test_a_later_node_is_asked_nothing(host):
    host.deploy(node_rank=1)
    host.lines(ready=False)
    assert host.run()["verdict"] == "pass"
    assert host.asked == []


def test_a_service_without_a_record_waits_for_variables_and_says_that_they_counted(host):
    bare = host.run()
    assert (bare["verdict"], codes(bare), bare["without_record"]) == ("inconclusive", ["no_record"], True)
    assert "Deploy it with site.yml" in bare["reasons"][0]["message"]
    answer = host.run(settings=host.settings())
    assert (answer["verdict"], answer["recorded"], answer["without_record"]) == ("pass", False, False)
    assert answer["summary"].endswith("ready after 4 s, judged by variables: the host keeps no record")
    assert host.verified() == [] and not host.store.exists()
    host.lines(gb="22.39")
    assert host.run(settings=host.settings())["verdict"] == "fail"


def test_the_configuration_that_runs_is_the_one_that_judges(host):
    """A restart is outstanding: what runs is judged by its own record, not by the one to come."""
    host.deploy()
    other = host.unit.replace("4.0", "6.0")
    host.store.add("0.5.23-ab-22222222", other, ENVIRONMENT, {"verify": host.settings(ratio=6.0)}, None)
    pending = {"reasons": ["x"], "invocation_id": START, "runs": ID}
    host.store.write_state({**service_store.empty_state(), "active": "0.5.23-ab-22222222", "pending": pending})
    host.store.make_active("0.5.23-ab-22222222", None)
    answer = host.run()
    assert (answer["verdict"], answer["configuration"]) == ("pass", ID)
    assert host.verified() == [ID] and host.store.state()["pending"] == pending


def test_check_mode_writes_nothing_and_does_not_miss_a_blank_host(host):
    host.shown["LoadState"] = "not-found"
    blank = host.run(check=True)
    assert codes(blank) == ["unit_not_found"] and not blank["without_record"]
    host.shown["LoadState"] = "loaded"
    host.deploy()
    answer = host.run(check=True, timeout=600)
    assert answer["verdict"] == "pass" and answer["changed"]
    assert host.verified() == [] and host.fact() is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "a/b"}, 'name is "a/b"'),
        ({"timeout": -1}, "timeout is -1"),
        ({"request_timeout": 0}, "request_timeout is 0"),
        ({"prefix_words": 0}, "prefix_words is 0"),
        ({"prefix_words": 10**10}, "prefix_words is 10000000000"),
        ({"request_timeout": 10**12}, "request_timeout is 1000000000000"),
    ],
)
def test_impossible_values_are_refused_by_name(host, options, words):
    with patch_module_args({"name": NAME, **options}), pytest.raises(Ended) as ended:
        service_verify.main()
    assert ended.value.failed and ended.value.answer["msg"].startswith(words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ratio": -1.0}, "ratio is -1.0"),
        ({"ratio": "abc"}, "abc"),
        ({"expected_gb": "44.77 GB"}, "44.77 GB"),
        ({"bytes_per_token": "70272.5"}, "70272.5"),
        ({"accept_length_above": float("nan")}, "accept_length_above is nan"),
        ({"accept_length_above": -1}, "accept_length_above is -1"),
    ],
)
def test_a_record_that_nobody_can_judge_by_is_refused_by_name(host, change, words):
    host.deploy(**change)
    with patch_module_args({"name": NAME, "config_dir": str(host.config_dir)}), pytest.raises(Ended) as ended:
        (host.folder / "show").write_text("".join(f"{key}={value}\n" for key, value in host.shown.items()))
        service_verify.main()
    assert ended.value.failed and words in ended.value.answer["msg"]


def test_the_documentation_tells_options_and_results(host):
    documented = yaml.safe_load(service_verify.DOCUMENTATION)["options"]
    assert set(documented) == set(service_verify.ARGUMENT_SPEC)
    for name, spec in service_verify.ARGUMENT_SPEC.items():
        assert {key: documented[name].get(key) for key in spec} == spec, name
    host.deploy()
    assert set(host.run()) - {"changed", "msg"} == set(yaml.safe_load(service_verify.RETURN))
    host.shown["LoadState"] = "not-found"
    assert set(host.run(check=True)) - {"changed", "msg"} <= set(yaml.safe_load(service_verify.RETURN))
