# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the roles manage on a host: every change of it must show."""

from __future__ import annotations

import json
import os

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import host_digest
from ansible_collections.llmfleet.sglang.plugins.modules import site_state


@pytest.fixture
def host(tmp_path):
    """A root with a source of apt, a service's configuration, its release and its model."""
    record = {"release_dir": f"{tmp_path}/opt/release", "model_path": f"{tmp_path}/srv/model", "draft_model_path": ""}
    for name, text in (
        ("etc/apt/sources.list.d/llmfleet-cuda.sources", "a source"),
        ("etc/sglang/kimi.env", "SECRET=1"),
        ("etc/sglang/kimi/configs/one-00000000/record.json", json.dumps(record)),
        ("etc/systemd/system/sglang-kimi.service", "[Service]"),
        ("etc/modprobe.d/llmfleet-nouveau.conf", "blacklist nouveau"),
        ("var/lib/dpkg/status", "packages"),
        ("opt/release/venv/lib/python3.12/site-packages/sglang.py", ""),
        ("opt/release/stamp.json", "{}"),
        ("srv/model/model-00001.safetensors", "weights"),
        ("srv/other/file", ""),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def look(host):
    return host_digest.shortened(host_digest.watched(f"{host}/etc/sglang", str(host)))


def rewrite(path):
    path.write_text("another text")


def remove(path):
    path.unlink()


def another_mode(path):
    path.chmod(0o600 if path.stat().st_mode & 0o777 != 0o600 else 0o644)


def a_file_more(path):
    (path.parent / f"{path.name}.more").write_text("")


@pytest.mark.parametrize("change", [rewrite, remove, another_mode])
@pytest.mark.parametrize(
    "name",
    [
        "etc/apt/sources.list.d/llmfleet-cuda.sources",
        "etc/sglang/kimi.env",
        "etc/systemd/system/sglang-kimi.service",
        "etc/modprobe.d/llmfleet-nouveau.conf",
        "var/lib/dpkg/status",
        "opt/release/stamp.json",
        "srv/model/model-00001.safetensors",
    ],
)
def test_a_change_shows(host, change, name):
    before = look(host)
    assert look(host) == before
    change(host / name)
    assert f"{host}/{name}" in host_digest.differences(before, look(host))


@pytest.mark.parametrize(
    "name",
    [
        "etc/apt/sources.list.d/llmfleet-cuda.sources",
        "etc/sglang/kimi.env",
        "etc/modprobe.d/llmfleet-nouveau.conf",
        "opt/release/stamp.json",
        "srv/model/model-00001.safetensors",
    ],
)
def test_a_file_more_shows(host, name):
    before = look(host)
    a_file_more(host / name)
    assert host_digest.differences(before, look(host))


def test_a_package_that_is_put_into_the_release_shows(host):
    before = look(host)
    packages = host / "opt/release/venv/lib/python3.12/site-packages"
    (packages / "more.py").write_text("")
    os.utime(packages, ns=(1, 1))
    assert host_digest.differences(before, look(host))


def test_what_nobody_manages_does_not_show(host):
    before = look(host)
    rewrite(host / "srv/other/file")
    assert look(host) == before


def test_no_content_is_kept(host):
    assert "SECRET" not in json.dumps(look(host))
    assert {len(line) for line in look(host).values()} == {16}


@pytest.mark.parametrize(
    ("kept", "inputs", "hours", "expected"),
    [
        (None, "i", 24, ["no complete deployment is written down"]),
        ("{", "i", 24, ["no complete deployment is written down"]),
        ({"lines": {"a": "1"}, "inputs": "i", "at": 0}, "i", 24, ["the last full look is older than 24 h"]),
        ({"lines": {"a": "1"}, "inputs": "i", "at": None}, "o", 24, ["the variables or the collection"]),
        ({"lines": {"a": "1"}, "inputs": "", "at": None}, "", 24, ["the variables or the collection"]),
        ({"lines": {"a": "2"}, "inputs": "i", "at": None}, "i", 24, ["a"]),
        ({"lines": {"a": "1"}, "inputs": "i", "at": None}, "i", 24, []),
    ],
)
def test_what_is_other_than_it_was(tmp_path, monkeypatch, kept, inputs, hours, expected):
    monkeypatch.setattr(site_state.time, "time", lambda: 1_000_000.0)
    path = tmp_path / "site.json"
    if isinstance(kept, dict):
        kept = json.dumps({**kept, "at": 1_000_000.0 - 3600 if kept["at"] is None else kept["at"]})
    if kept is not None:
        path.write_text(kept)
    assert site_state.compare({"path": str(path), "inputs": inputs, "hours": hours}, {"a": "1"}) == expected
