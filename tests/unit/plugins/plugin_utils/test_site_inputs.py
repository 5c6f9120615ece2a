# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a deployment is made of: every change of it must show, and nothing else."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.modules import site_state
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import site_inputs


@pytest.fixture
def collection(tmp_path):
    for name in ("roles/serve/tasks/main.yml", "plugins/modules/one.py", "playbooks/site.yml", "docs/fleet.md"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(name)
    return tmp_path


def known(value):
    return value


def unknown(value):
    raise ValueError("it is undefined")


def test_only_variables_of_the_deployment_count():
    found = site_inputs.names({"serve_port": 1, "ansible_user": 1, "site_state": 1, "model_dir": 1, "my_model_dir": 1})
    assert found == ["model_dir", "serve_port"]


def test_controller_and_host_know_the_same_prefixes():
    assert list(site_inputs.PREFIXES) == site_state.ARGUMENT_SPEC["prefixes"]["default"]


@pytest.mark.parametrize(
    "variables", [{"serve_port": 2}, {"serve_port": "1"}, {"serve_port": 1, "serve_host": ""}, {"serve_hosts": 1}, {}]
)
def test_another_variable_or_value_shows(collection, variables):
    before = site_inputs.digest({"serve_port": 1}, known, collection)
    assert site_inputs.digest({"serve_port": 1}, known, collection) == before
    assert site_inputs.digest(variables, known, collection) != before


@pytest.mark.parametrize(
    ("name", "shows"),
    [
        ("roles/serve/tasks/main.yml", True),
        ("plugins/modules/one.py", True),
        ("playbooks/other.yml", True),
        ("docs/fleet.md", False),
        ("plugins/__pycache__/one.pyc", False),
    ],
)
def test_another_file_of_the_collection_shows(collection, name, shows):
    before = site_inputs.digest({}, known, collection)
    (collection / name).parent.mkdir(exist_ok=True)
    (collection / name).write_text("another text")
    assert (site_inputs.digest({}, known, collection) != before) is shows


def test_a_text_stands_for_a_value_that_only_its_role_knows(collection):
    one, other = ({"serve_url": f"http://{{{{ {name} }}}}"} for name in ("serve_host", "serve_name"))
    assert site_inputs.digest(one, unknown, collection)
    assert site_inputs.digest(one, unknown, collection) != site_inputs.digest(other, unknown, collection)


@pytest.mark.parametrize(
    "text",
    ["{{ lookup('file', x) }}", "{{ query('env', x) }}", "{{ now() }}", "{{ hostvars[x].y }}", "{{ 9 | random }}"],
)
def test_a_text_that_takes_something_from_outside_stands_for_nothing(collection, text):
    assert site_inputs.digest({"serve_x": text}, unknown, collection) == ""
    assert site_inputs.digest({"serve_x": text}, known, collection) != ""
