# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The emulated repository as apt sees it: signed, complete, the same after a second build."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

BUILDER = Path(__file__).resolve().parents[2] / "lab" / "cuda_repo" / "build_repo.py"


def build(out, *arguments):
    return subprocess.run(
        [sys.executable, str(BUILDER), "--out", str(out), "--distribution", "debian12", *arguments],
        capture_output=True,
        text=True,
    )


def apt(root, *arguments):
    """apt with all of its state below root, and the repository as its only source."""
    for name in ("state/lists/partial", "cache/archives/partial", "etc/preferences.d"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "status").touch()
    options = [
        f"Dir::State={root}/state",
        f"Dir::State::status={root}/status",
        f"Dir::Cache={root}/cache",
        f"Dir::Etc={root}/etc",
        f"Dir::Etc::sourcelist={root}/lab.sources",
        f"Dir::Etc::sourceparts={root}/none",
        "Dir::Etc::trustedparts=/nonexistent",
        "APT::Architecture=amd64",
        "APT::Architectures=amd64",
        "APT::Sandbox::User=root",
        "Acquire::Languages=none",
    ]
    argv = [arguments[0], *(part for option in options for part in ("-o", option)), *arguments[1:]]
    done = subprocess.run(argv, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    out = tmp_path_factory.mktemp("cuda")
    done = build(out)
    assert done.returncode == 0, done.stderr
    return out / "debian12" / "x86_64"


def source(root, repository, key):
    (root / "lab.sources").write_text(
        f"Types: deb\nURIs: file:{repository}\nSuites: /\nArchitectures: amd64\nSigned-By: {key}\n"
    )


def test_apt_trusts_it_by_its_key_and_finds_two_versions_of_each(repository, tmp_path):
    source(tmp_path, repository, repository / "llmfleet-lab.pub")
    rc, text = apt(tmp_path, "apt-get", "update")
    assert rc == 0, text
    assert "W:" not in text
    _rc, text = apt(tmp_path, "apt-cache", "madison", "nvidia-open", "cuda-toolkit-13-0")
    offered = re.findall(r"^ *(\S+) \| +(\S+) \|", text, re.MULTILINE)
    assert offered == [
        ("nvidia-open", "580.126.09-1"),
        ("nvidia-open", "580.105.08-1"),
        ("cuda-toolkit-13-0", "13.0.2-1"),
        ("cuda-toolkit-13-0", "13.0.1-1"),
    ]


def test_another_key_is_refused(repository, tmp_path):
    assert build(tmp_path / "other").returncode == 0
    key = tmp_path / "other" / "debian12" / "x86_64" / "llmfleet-lab.pub"
    source(tmp_path, repository, key)
    rc, text = apt(tmp_path, "apt-get", "update")
    assert rc != 0
    assert "NO_PUBKEY" in text or "not signed" in text or "Missing key" in text


def test_a_version_at_the_top_does_not_reach_exact_dependencies_without_a_pin(repository, tmp_path):
    """What the role's preferences file is for; if apt ever follows, the file can go."""
    source(tmp_path, repository, repository / "llmfleet-lab.pub")
    assert apt(tmp_path, "apt-get", "update")[0] == 0
    # python3 is the only dependency from outside.
    (tmp_path / "status").write_text(
        "Package: python3\nStatus: install ok installed\nMaintainer: x\nArchitecture: amd64\nVersion: 3.11\n\n"
    )
    install = ("apt-get", "install", "--simulate", "--no-install-recommends")
    rc, text = apt(tmp_path, *install, "nvidia-open")
    assert rc == 0, text
    assert "Inst nvidia-smi (580.126.09-1" in text
    rc, _text = apt(tmp_path, *install, "nvidia-open=580.105.08-1")
    assert rc != 0
    (tmp_path / "etc" / "preferences.d" / "pin").write_text(
        "Package: nvidia-* libnvidia-* libcuda1 firmware-nvidia-*\nPin: version 580.105.08-*\nPin-Priority: 1001\n"
    )
    rc, text = apt(tmp_path, *install, "nvidia-open=580.105.08-1")
    assert rc == 0, text
    assert "Inst nvidia-smi (580.105.08-1" in text


def test_a_second_build_changes_nothing_and_keeps_the_key(repository):
    key = (repository / "llmfleet-lab.pub").read_text()
    before = repository.resolve()
    done = build(repository.parents[1])
    assert done.stdout.startswith("unchanged ")
    assert repository.resolve() == before
    done = build(repository)
    assert done.stdout.startswith("unchanged "), "an --out that names the repository itself is the same one"
    done = build(repository.parents[1], "--driver-version", "580.126.09")
    assert done.stdout.startswith("built ")
    assert (repository / "llmfleet-lab.pub").read_text() == key
    build(repository.parents[1])


def test_what_an_interrupted_build_left_is_removed(repository, tmp_path):
    left = tmp_path / "debian12" / ".x86_64-000000000000"
    left.mkdir(parents=True)
    (left / "half.deb").touch()
    (tmp_path / "debian12" / "x86_64").mkdir()
    assert build(tmp_path).returncode == 0
    assert not left.exists()
    assert (tmp_path / "debian12" / "x86_64" / "InRelease").exists()


def test_no_package_claims_to_be_the_real_one(repository):
    descriptions = re.findall(r"^Description: (.*)$", (repository / "Packages").read_text(), re.MULTILINE)
    assert len(descriptions) > 30
    assert all("lab emulation" in description for description in descriptions)


def test_a_version_of_another_form_is_refused(tmp_path):
    done = build(tmp_path, "--driver-version", "580")
    assert done.returncode == 2
    assert "give three numbers" in done.stderr
