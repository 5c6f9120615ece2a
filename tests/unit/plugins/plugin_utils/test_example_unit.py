# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit of inventories/example under every release of the table: which take it, which refuse it, and why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import engine_arguments as table
from ansible_collections.llmfleet.sglang.plugins.plugin_utils.settings import (
    SETTINGS,
    engine_argv,
    engine_environment,
)
from ansible_collections.llmfleet.sglang.plugins.plugin_utils.settings_problems import settings_problems

ROOT = Path(__file__).resolve().parents[4]
EXAMPLE = ROOT / "inventories" / "example" / "group_vars" / "sglang_servers"


def example():
    """Role serve's settings as the example sets them; templates are replaced by the paths that they give there."""
    variables = {}
    for path in (ROOT / "roles" / "serve" / "defaults" / "main.yml", EXAMPLE / "serve.yml"):
        variables.update(yaml.safe_load(path.read_text()))
    found = {setting.name: variables.get(f"serve_{setting.name}") for setting in SETTINGS}
    model = yaml.safe_load((EXAMPLE / "model.yml").read_text())
    for setting, repo in (("model_path", "model_repo"), ("draft_model_path", "model_draft_repo")):
        found[setting] = f"{model['model_dir']}/{model[repo].rpartition('/')[2]}"
    hosts = yaml.safe_load((ROOT / "inventories" / "example" / "hosts.yml").read_text())["sglang_servers"]["hosts"]
    assert found["host"] == "{{ ansible_host }}"
    found["host"] = hosts["ash"]["ansible_host"]
    assert not any("{{" in str(value) for value in found.values())
    return found


# Engines behind a router listen on an address of the host, of which every release is warned.
LISTENING = [("warning", "serve_host")]
# Release: what else is wrong with the example there, level and variable.
EXPECTED = {
    "0.5.9": [("error", "serve_release"), ("warning", "serve_release"), ("warning", "serve_release")],
    "0.5.10.post1": [("warning", "serve_release")],
}
# What the release must set in the environment for it.
SPEC_V2 = ("0.5.9", "0.5.10.post1", "0.5.11", "0.5.12.post1", "0.5.13")


@pytest.mark.parametrize("release", table.known_releases())
def test_the_example_in_every_release(release):
    settings = example()
    found = settings_problems(settings, release)
    told = [(problem["level"], problem["variable"]) for problem in found]
    assert sorted(told) == sorted(EXPECTED.get(release, []) + LISTENING)
    # Every release's parser takes its words: what is wrong with the old ones shows only while they serve.
    argv = engine_argv(settings, release)
    assert table.argv_findings(argv, release) == []
    assert len(argv) >= 40
    wanted = {"SGLANG_ENABLE_SPEC_V2": "1"} if release in SPEC_V2 else {}
    assert engine_environment(settings, release) == wanted


# An option of the operator's own, and the releases that refuse it.
REFUSED = {
    "cuda-graph-max-bs": (64, lambda key: key >= (0, 5, 20)),
    "cuda-graph-max-bs-decode": (64, lambda key: key < (0, 5, 14)),
    "hicache-host-memory-mode": ("cache", lambda key: key < (0, 5, 19)),
    "disable-hicache-numa-detect": (True, lambda key: key > (0, 5, 9)),
    "watchdog-timeout": (600, lambda key: False),
    "watchdog-time": (600, lambda key: True),
    "chunked-prefil-size": (8192, lambda key: True),
    "load-format": ("saftensors", lambda key: True),
    "stream-interval": ("2.5", lambda key: True),
    "skip-server-warmup": ("yes", lambda key: True),
    "json-model-override-args": ({"a": 1}, lambda key: False),
    "bucket-time-to-first-token": ([0.1, 1], lambda key: False),
}


@pytest.mark.parametrize("option", REFUSED)
@pytest.mark.parametrize("release", table.known_releases()[2:])
def test_options_of_the_operator_in_every_release(release, option):
    value, refused = REFUSED[option]
    settings = dict(example(), engine_options={**example()["engine_options"], option: value})
    errors = [problem for problem in settings_problems(settings, release) if problem["level"] == "error"]
    if not refused(table.release_key(release)):
        assert errors == []
        assert not table.is_refused(table.argv_findings(engine_argv(settings, release), release))
        return
    (problem,) = errors
    assert problem["variable"] == f"serve_engine_options[{option!r}]"
    assert re.search(r"; [^;]+\.$", problem["message"])
