# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module router_worker, with a router and an engine in this process."""

from __future__ import annotations

import json

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.llmfleet.sglang.plugins.modules import router_worker
from ansible_collections.llmfleet.sglang.tests.unit.plugins import fake_router


@pytest.fixture(name="place")
def fixture_place(tmp_path, capsys):
    """(handler, state, url, run)."""
    with fake_router.running() as (kind, state, url):

        def run(wanted, code=0, check_mode=False, **options):
            arguments = {
                "state": wanted,
                "router_url": url,
                "workers_file": str(tmp_path / "w.json"),
                "by": "me",
                **options,
            }
            arguments = {name: value for name, value in arguments.items() if value is not None}
            arguments.update(_ansible_check_mode=check_mode, _ansible_diff=True)
            with patch_module_args(arguments), pytest.raises(SystemExit) as ended:
                router_worker.main()
            assert ended.value.code == code
            return json.loads(capsys.readouterr().out)

        yield kind, state, url, run


def test_in_out_and_in_again(place):
    _kind, state, url, run = place
    done = run("serving", url=url + "/", host="h", service="s")
    assert (done["changed"], done["state"], done["previous"], done["url"]) == (True, "serving", None, url)
    assert json.loads(done["diff"]["after"])["state"] == "serving"
    assert run("serving", url=url)["changed"] is False
    done = run("drained", url=url, reason="fan")
    assert (done["changed"], done["requests_left"], done["workers"][0]["in_router"]) == (True, 0, False)
    assert (done["previous"]["state"], done["workers"][0]["reason"]) == ("serving", "fan")
    assert run("drained", url=url)["changed"] is False
    assert run("absent", url=url)["changed"] is True
    assert run("absent", url=url)["changed"] is False
    assert [what for what, _url in state.asked] == ["add", "remove"]


def test_check_mode_asks_and_changes_nothing(place):
    kind, state, url, run = place
    kind.health = 503
    assert run("serving", check_mode=True, url=url)["changed"] is True
    assert run("drained", check_mode=True, url=url)["changed"] is True
    assert run("absent", check_mode=True, url=url)["changed"] is False
    assert (state.asked, run("info")["workers"]) == ([], [])
    kind.health = 200
    run("serving", url=url)
    assert run("serving", check_mode=True, url=url)["changed"] is False


def test_check_mode_works_without_a_router(place):
    _kind, _state, url, run = place
    done = run("serving", check_mode=True, url=url, router_url="http://127.0.0.1:9")
    assert (done["changed"], done["router_running"]) == (True, False)


def test_requests_that_do_not_end_are_a_failure_that_says_so(place, monkeypatch):
    kind, _state, url, run = place
    run("serving", url=url)
    kind.running = 3
    monkeypatch.setattr(router_worker.router_api, "connections_to", lambda _url: 2)
    done = run("drained", code=1, url=url, drain_timeout=0)
    assert done["requests_left"] == 3 and "still has 3 requests after 0 s (drain_timeout)" in done["msg"]
    assert done["workers"][0]["state"] == "drained" and not done["workers"][0]["in_router"]
    assert run("drained", url=url, wait=False)["requests_left"] is None


@pytest.mark.parametrize(
    ("wanted", "options", "told"),
    [
        ("serving", {"url": "gpu1:30000"}, "url is 'gpu1:30000', which does not begin with http://"),
        ("drained", {"url": "http://gpu1:30000/v1"}, "a path after its port"),
        ("drained", {}, "state is drained but all of the following are missing: url"),
        ("serving", {"url": "http://127.0.0.1:9", "timeout": 0}, "did not answer 200 within 0 s (timeout)"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(place, wanted, options, told):
    assert told in place[3](wanted, code=1, **options)["msg"]


def test_a_file_that_is_no_list_of_workers_is_left_alone(place, tmp_path):
    (tmp_path / "w.json").write_text("{")
    done = place[3]("drained", code=1, url="http://a:1")
    assert "is no JSON" in done["msg"] and "Nothing was changed" in done["msg"]
    assert (tmp_path / "w.json").read_text() == "{"


def test_info_needs_no_router(place):
    done = place[3]("info", router_url="http://127.0.0.1:9")
    assert (done["changed"], done["state"], done["router_running"]) == (False, "all", False)
