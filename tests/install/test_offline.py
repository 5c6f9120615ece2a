# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host without any route to the outside is deployed from a bundle: driver, engine, weights and service."""

from __future__ import annotations

import hashlib

import pytest
import yaml


@pytest.fixture(scope="module")
def bundle(play, offline, tmp_path_factory):
    """A bundle, made while there is a route."""
    folder = tmp_path_factory.mktemp("bundle") / "b"
    played = play("playbooks/bundle.yml", "offline", bundle_dir=str(folder))
    assert played.code == 0, str(played)
    return folder


def deploy(play, bundle):
    return play("playbooks/bundle_deploy.yml", "offline", "-e", f"@{bundle}/deploy.yml", bundle_dir=str(bundle))


def test_a_bundle_has_everything_with_its_sums(bundle):
    names = {path.name for path in (bundle / "debian12").rglob("*")}
    assert "sglang-0.5.23+standin-py3-none-any.whl" in names
    assert [name for name in names if name.startswith("uv-")]
    assert "nvidia-open_580.126.09-1_amd64.deb" in names and "nvidia-open_580.105.08-1_amd64.deb" not in names
    assert {"InRelease", "key.asc"} <= {path.name for path in (bundle / "debian12" / "cuda").iterdir()}
    for line in (bundle / "debian12" / "SHA256SUMS").read_text().splitlines():
        digest, _blank, name = line.partition("  ")
        assert hashlib.sha256((bundle / "debian12" / name).read_bytes()).hexdigest() == digest
    assert (bundle / "weights" / "kimi-k2.5-shape" / "config.json").is_file()
    deployment = yaml.safe_load((bundle / "deploy.yml").read_text())
    assert deployment["sglang_pip_environment"]["PIP_NO_INDEX"] == "1"


def test_a_bundle_that_is_there_is_not_fetched_again(play, bundle):
    played = play("playbooks/bundle.yml", "offline", bundle_dir=str(bundle))
    assert played.code == 0 and set(played.changed.values()) == {0}, str(played)


def test_a_host_that_is_cut_off_is_deployed_from_it_and_a_second_run_changes_nothing(play, offline, bundle):
    offline.cut_off()
    ask = "timeout 5 curl --silent --show-error http://10.213.77.1:8077/wheels/ 2>&1 || echo unreachable"
    assert "unreachable" in offline.run(ask)
    played = deploy(play, bundle)
    assert played.code == 0, str(played)
    assert "off-12 sglang-kimi.service: PASS" in played.text, str(played)
    assert offline.run("systemctl is-active sglang-kimi.service") == "active"
    again = deploy(play, bundle)
    assert again.code == 0 and set(again.changed.values()) == {0}, str(again)


def test_a_file_that_broke_on_the_way_is_named(play, offline, bundle):
    wheel = next((bundle / "debian12" / "wheels").glob("sglang-*.whl"))
    offline.run("rm /opt/sglang/bundle/SHA256SUMS")
    sums = (bundle / "debian12" / "SHA256SUMS").read_text()
    (bundle / "debian12" / "SHA256SUMS").write_text(
        sums.replace(hashlib.sha256(wheel.read_bytes()).hexdigest(), "0" * 64)
    )
    played = deploy(play, bundle)
    assert played.code != 0 and wheel.name in played.text, str(played)
    assert offline.run("ls /opt/sglang/bundle/SHA256SUMS 2>/dev/null || true") == ""
