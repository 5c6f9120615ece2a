# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module on made folders: what it finds, and what it makes of things that are not there or not readable."""

from __future__ import annotations

import json

import pytest
from ansible_collections.llmfleet.sglang.plugins.modules import service_status

INVOCATION = "a" * 32
ONE = "0.5.23-ab-1f2e3d4c"


@pytest.fixture
def params(tmp_path):
    return {
        "names": [], "config_dir": str(tmp_path / "sglang"), "facts_dir": str(tmp_path / "facts"), "health_timeout": 0,
    }  # fmt: skip


@pytest.fixture
def store(params, tmp_path):
    folder = tmp_path / "sglang/kimi/configs" / ONE
    folder.mkdir(parents=True)
    for name, text in (("unit", ""), ("env", ""), ("record.json", json.dumps({"release": "0.5.23"}))):
        (folder / name).write_text(text)
    (tmp_path / "sglang/kimi/state.json").write_text(json.dumps({"active": ONE}))
    return tmp_path


def test_services_are_found_by_what_is_kept_and_by_name(params, store):
    (store / "sglang/qwen.env").write_text("")
    assert service_status.names_of({**params, "names": ["embed"]}) == ["embed", "kimi", "qwen"]


def test_a_blank_host_has_only_what_is_asked_for(params):
    assert service_status.names_of({**params, "names": ["kimi"]}) == ["kimi"]
    assert service_status.store_of(params, "kimi", None)["record"] is None
    assert service_status.kept_of(params, "kimi", None) is None


def test_the_configuration_that_runs_is_read(params, store):
    found = service_status.store_of(params, "kimi", INVOCATION)
    assert (found["id"], found["record"]) == (ONE, {"release": "0.5.23"})


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_a_verdict_that_cannot_be_read_is_none(params, tmp_path, text):
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts/sglang_kimi.fact").write_text(text)
    assert service_status.kept_of(params, "kimi", INVOCATION) is None


def test_a_verdict_of_a_service_with_a_dash_is_found(params, tmp_path):
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts/sglang_kimi_b.fact").write_text(json.dumps({"verdict": "pass", "invocation_id": INVOCATION}))
    found = service_status.kept_of(params, "kimi-b", INVOCATION)
    assert (found["verdict"], found["current"]) == ("pass", True)


@pytest.mark.parametrize(
    "change", [{"condition": "loading"}, {"url": None}, {"node_rank": 1}], ids=["not ready", "no address", "other node"]
)
def test_nobody_is_asked_for_health_who_does_not_answer_for_it(change):
    service = {"condition": "running", "url": "http://127.0.0.1:9", "node_rank": 0}
    assert service_status.health({**service, **change}, 5) is None
    assert service_status.health(service, 0) is None


def test_a_server_that_does_not_answer_is_told():
    service = {"condition": "running", "url": "http://127.0.0.1:9", "node_rank": 0}
    assert service_status.health(service, 5).startswith("/health does not answer: ")
