# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input and unfit hosts stop site.yml with one message, and leave no trace on the host."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
INVENTORY = ROOT / "molecule" / "refusals" / "inventory"
# What any login and any reading of apt's lists leave behind, whatever they are for.
IGNORED = [
    "/dev", "/home/deploy/.ansible", "/proc", "/root/.ansible", "/run", "/sys", "/tmp", "/var/cache/apt",
    "/var/cache/ldconfig", "/var/lib/systemd", "/var/log", "/var/tmp",
]  # fmt: skip


def site(limit, *arguments, **variables):
    """Run site.yml; returns (exit status, output)."""
    command = ["ansible-playbook", "-i", str(INVENTORY), "--limit", limit, *arguments, str(ROOT / "site.yml")]
    if variables:
        command += ["--extra-vars", json.dumps(variables)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "ANSIBLE_NOCOLOR": "1"}, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def untouched(host):
    """Fails the test when a file of the host changed meanwhile."""
    with host.sudo():
        host.check_output("touch /run/before-the-run")
        yield
        prune = " -o ".join(f"-path {path}" for path in IGNORED)
        changed = host.check_output(f"find / -xdev \\( {prune} \\) -prune -o -newercm /run/before-the-run -print")
    # A folder counts as changed when something below it was made that is ignored here.
    parents = {str(parent) for path in IGNORED for parent in Path(path).parents}
    assert sorted(set(changed.splitlines()) - parents) == []


SETTINGS = [
    pytest.param({"serve_tensor_parallel_size": 0}, ["serve_tensor_parallel_size", "0"], id="no-rank"),
    pytest.param({"serve_tensor_parallel_size": "eight"}, ["serve_tensor_parallel_size", "eight"], id="rank-in-words"),
    pytest.param({"serve_hicache_ratio": -1}, ["serve_hicache_ratio", "-1"], id="negative-ratio"),
    pytest.param({"serve_hicache_size": 40}, ["serve_hicache_size", "40", "serve_hicache_ratio"], id="ratio-and-size"),
    pytest.param({"serve_name": "kimi/k2"}, ["serve_name", "kimi/k2"], id="slash-in-the-unit"),
    pytest.param(
        {"serve_engine_options": {"hicache-ratoi": 4}}, ["serve_engine_options", "hicache-ratoi"], id="unknown-option"
    ),
    pytest.param(
        {"serve_engine_options": {"api-key": "planted-key-1234"}}, ["serve_engine_options", "api-key"], id="key-in-argv"
    ),
    pytest.param({"serve_hicache_write_policy": "writethrough"}, ["writethrough", "write_through"], id="wrong-choice"),
    pytest.param({"serve_release": "0.5.9"}, ["serve_release", "0.5.9"], id="release-without-eagle3"),
    pytest.param({"serve_mem_fraction_static": 1.2}, ["serve_mem_fraction_static", "1.2"], id="more-than-the-memory"),
    pytest.param({"serve_port": 70000}, ["serve_port", "70000"], id="no-such-port"),
    pytest.param({"serve_log_level": "warning"}, ["serve_log_level", "warning"], id="nothing-to-verify"),
    pytest.param({"model_revision": "main"}, ["model_revision", "main"], id="moving-revision"),
    pytest.param(
        {"cuda_driver_packages": ["cuda-drivers"]}, ["cuda_driver_packages", "cuda-drivers"], id="wrong-driver"
    ),
    pytest.param({"sglang_user": "root"}, ["sglang_user", "root"], id="root-as-service-user"),
    pytest.param(
        {"preflight_accepted_findings": ["dsik"]}, ["preflight_accepted_findings", "dsik"], id="no-such-finding"
    ),
    pytest.param({"verify_timeout": -5}, ["verify_timeout", "-5"], id="negative-wait"),
]


@pytest.mark.parametrize(("variables", "words"), SETTINGS)
def test_impossible_settings_stop_before_any_change(untouched, variables, words):
    status, output = site("ref-blank", **variables)
    assert status != 0
    message = output[output.rindex("[ERROR]") :] if "[ERROR]" in output else output
    for word in words:
        assert word in message
    assert "changed=0" in output
    assert "planted-key-1234" not in output


def test_a_model_folder_without_weights_is_refused(host, untouched):
    host.check_output("mkdir -p /tmp/empty-model && echo '{}' > /tmp/empty-model/config.json")
    status, output = site("ref-blank", model_source="path", model_path="/tmp/empty-model", model_draft_repo="",
                          serve_speculative_enabled=False)  # fmt: skip
    assert status != 0
    assert "model_path" in output
    assert "/tmp/empty-model" in output
    assert "changed=0" in output


def test_too_few_gpus_are_refused(untouched):
    status, output = site("ref-blank", preflight_gpu_detection="pci")
    assert status != 0
    assert "preflight_gpu_count" in output
    assert "changed=0" in output


def test_too_little_disk_and_memory_are_told_at_once(untouched):
    status, output = site("ref-blank", preflight_min_disk_gb=900000, preflight_min_memory_gb=90000)
    assert status != 0
    for word in ("preflight_min_disk_gb", "900000", "preflight_min_memory_gb", "90000"):
        assert word in output
    assert "changed=0" in output


def test_check_mode_of_a_blank_host_succeeds(untouched):
    status, output = site("ref-blank", "--check", "--diff")
    assert status == 0, output[-4000:]
    assert "changed=0" not in output  # it says what it would do


def test_one_unfit_host_keeps_the_others_untouched(untouched):
    status, output = site("ref-blank:ref-init")
    assert status != 0
    assert "systemd" in output
    assert "changed=0" in output


def test_an_unsupported_distribution_is_refused(host):
    other = host.get_host("ansible://ref-other", ansible_inventory=str(INVENTORY))
    with other.sudo():
        other.check_output(
            "sed -i -e 's/^ID=.*/ID=devuan/' -e 's/Debian GNU.Linux/Devuan GNU\\/Linux/' /etc/os-release"
        )
    status, output = site("ref-other")
    assert status != 0
    assert "Devuan" in output
    assert "preflight_supported_distributions" in output
    assert "changed=0" in output
