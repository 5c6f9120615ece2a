# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role model on two lab hosts: a hub and a mirror whose connections break, host to host, disks that go wrong.

NFS itself cannot be mounted in these hosts; a read-only bind mount stands for it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.llmfleet.sglang.tests.lab import server, shards

ROOT = Path(__file__).resolve().parents[2]
HOSTS_TOOL = ROOT / "tests" / "lab" / "hosts.py"
SERVER_TOOL = ROOT / "tests" / "lab" / "server.py"
PLAYBOOK = Path(__file__).with_name("model.yml")
STATE = Path("/var/lib/llmfleet-lab")
HOSTS = {"mdl-1": "10.213.77.131", "mdl-2": "10.213.77.132"}
SUITES = {"mdl-1": "bookworm", "mdl-2": "trixie"}
PORT = 8079
URL = f"http://10.213.77.1:{PORT}"
SSH = ["-i", f"{STATE}/ssh/id_ed25519", "-o", f"UserKnownHostsFile={STATE}/ssh/known_hosts"]
SSH += ["-o", "StrictHostKeyChecking=yes", "-o", "ControlMaster=auto", "-o", "ControlPersist=60s"]
# The hub's own client is what the scenarios install; here the connections are the subject.
BASE = {
    "model_hub_endpoint": f"{URL}/hub", "model_repo": "lab/tiny", "model_draft_repo": "", "model_disk_required_gb": 0,
    "model_download_retry_delay": 0, "model_hub_client_enabled": False,
}  # fmt: skip


def tool(path, *words):
    subprocess.run([sys.executable, str(path), *words], check=True, stdout=subprocess.DEVNULL)


class Lab:
    """The two hosts, the server that they fetch from, and the role."""

    def __init__(self, folder):
        self.folder = folder
        self.www = folder / "www"
        self.repository = self.www / "hub" / "lab" / "tiny"
        self.log = folder / "server.log"
        self.inventory = folder / "hosts.json"
        variables = {
            "ansible_user": "deploy",
            "ansible_ssh_private_key_file": SSH[1],
            "ansible_ssh_common_args": " ".join(SSH[2:]),
        }
        hosts = {name: {"ansible_host": address} for name, address in HOSTS.items()}
        self.inventory.write_text(json.dumps({"lab": {"hosts": hosts, "vars": variables}}))

    def command(self, *arguments, limit="all", **variables):
        variables = {**BASE, "model_revision": self.revision(), **variables}
        words = ["ansible-playbook", "-i", str(self.inventory), "--limit", limit, *arguments, str(PLAYBOOK)]
        return [*words, "--extra-vars", json.dumps(variables)]

    def role(self, *arguments, **variables):
        """Run the role; returns (exit status, output with all white space made one)."""
        environment = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
        done = subprocess.run(
            self.command(*arguments, **variables),
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, re.sub(r"\s+", " ", done.stdout + done.stderr)

    def passes(self, *arguments, **variables):
        status, output = self.role(*arguments, **variables)
        assert status == 0, output[-6000:]
        return output

    def fails(self, *arguments, **variables):
        status, output = self.role(*arguments, **variables)
        assert status != 0, output[-3000:]
        return output

    def revision(self, name="tiny"):
        return server.HubRepository(self.repository.with_name(name)).revision

    def faults(self, *entries):
        path = self.www / server.FAULTS_NAME
        path.with_suffix(".new").write_text(json.dumps(entries))
        path.with_suffix(".new").replace(path)

    def on(self, host, command, check=True):
        words = ["ssh", "-q", *SSH, f"deploy@{HOSTS[host]}", f"sudo sh -c {json.dumps(command)}"]
        return subprocess.run(words, capture_output=True, text=True, check=check).stdout.strip()

    def until(self, host, command, seconds=120):
        """Wait until a command succeeds on a host; returns what it printed."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            done = self.on(host, f"{command} && echo -n yes", check=False)
            if done.endswith("yes"):
                return done[:-3].strip()
            time.sleep(0.2)
        raise AssertionError(f"{command} did not succeed on {host} in {seconds} s")

    def sums(self, host, folder):
        """Sums of the files in a folder of a host, in the form of sha256sum."""
        return self.on(host, f"cd {folder} && sha256sum *") + "\n"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("lab"))
    shards.write_model(lab.repository)
    shards.write_model(lab.repository.with_name("draft"), count=1, seed=1)
    mirror = Path(shutil.copytree(lab.repository, lab.www / "mirror" / "tiny"))
    (mirror / "SHA256SUMS").write_text(shards.sums_of(mirror))
    options = ["--port", str(PORT), "--root", str(lab.www), "--pid-file", str(lab.folder / "server.pid")]
    tool(HOSTS_TOOL, "network-up")
    for name, address in HOSTS.items():
        tool(HOSTS_TOOL, "down", name)
        tool(HOSTS_TOOL, "up", name, "--suite", SUITES[name], "--address", address)
    tool(SERVER_TOOL, *options)
    yield lab
    tool(SERVER_TOOL, *options, "--stop")
    tool(HOSTS_TOOL, "down", *HOSTS)


@pytest.fixture(autouse=True)
def sound(lab):
    """Every test begins with connections that hold."""
    lab.faults()


def unchanged(output):
    return set(re.findall(r"changed=(\d+)", output)) == {"0"}


def test_check_mode_of_blank_hosts_writes_nothing(lab):
    output = lab.passes("--check", "--diff", model_source="host", model_draft_repo="lab/draft",
                        model_draft_revision=lab.revision("draft"))  # fmt: skip
    assert not unchanged(output)  # it says what it would do
    for host in HOSTS:
        assert lab.on(host, "ls -A /srv") == ""


def test_one_download_over_bad_lines_then_host_to_host(lab):
    lab.faults(
        {"match": "00001-of", "times": 5, "drop_after": 200_000},
        {"match": "00002-of", "times": 2, "status": 503},
        {"match": "00003-of", "times": 1, "status": 429, "headers": {"Retry-After": "1"}},
        {"match": "00004-of", "times": 1, "flip": 500_000},
        {"match": "tokenizer", "times": 1, "size_change": -3},
        {"match": "/tree/", "times": 1, "status": 502},
    )
    pair = {"model_draft_repo": "lab/draft", "model_draft_revision": lab.revision("draft")}
    lab.passes(model_source="host", **pair)
    for host in HOSTS:
        assert lab.sums(host, "/srv/models/tiny") == shards.sums_of(lab.repository)
        assert lab.sums(host, "/srv/models/draft") == shards.sums_of(lab.repository.with_name("draft"))
        assert lab.on(host, "ls -A /srv/models") == "draft\ntiny"
    asked = {line.split()[0] for line in lab.log.read_text().splitlines() if "/resolve/" in line}
    assert asked == {HOSTS["mdl-1"]}
    assert lab.on("mdl-1", "ls /run/llmfleet-model-offer") == "offer.py"  # the token is gone
    assert lab.on("mdl-1", "systemctl is-active llmfleet-model-offer || true") == "inactive"
    assert unchanged(lab.passes(model_source="host", **pair))


def test_a_new_revision_takes_the_place_of_the_old_one_and_shares_its_files(lab):
    folder = "/srv/models/swap"
    lab.passes(limit="mdl-1", model_path=folder)
    before = lab.on("mdl-1", f"stat -c '%i %n' {folder}/*.safetensors").splitlines()
    original = lab.repository.with_name("tiny.kept")
    shutil.copytree(lab.repository, original)
    try:
        shards.write_model(lab.repository, changed=(3,))
        lab.faults({"match": "00003-of", "status": 404})
        told = lab.fails(limit="mdl-1", model_path=folder)
        assert "00003-of-000004.safetensors answers 404" in told
        assert lab.on("mdl-1", f"stat -c '%i %n' {folder}/*.safetensors").splitlines() == before
        lab.faults()
        lab.passes(limit="mdl-1", model_path=folder)
    finally:
        shutil.rmtree(lab.repository)
        original.rename(lab.repository)
    after = lab.on("mdl-1", f"stat -c '%i %n' {folder}/*.safetensors").splitlines()
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, True, False, True]
    assert lab.on("mdl-1", "ls -A /srv/models | grep swap") == "swap"


def test_a_mirror_and_a_flipped_byte(lab):
    folder = "/srv/models/mirrored"
    source = {"model_source": "mirror", "model_mirror_url": f"{URL}/mirror/tiny", "model_path": folder}
    lab.faults({"match": "00002-of", "times": 3, "drop_after": 300_000}, {"match": "SHA256", "times": 1, "status": 500})
    lab.passes(limit="mdl-1", **source)
    assert lab.sums("mdl-1", folder) == shards.sums_of(lab.repository)
    damaged = f"{folder}/{shards.shard_name(2, 4)}"
    lab.on(
        "mdl-1",
        f"touch -r {damaged} /run/then && printf x | dd of={damaged} bs=1 seek=5000 conv=notrunc 2>/dev/null"
        f" && touch -r /run/then {damaged}",
    )
    assert unchanged(lab.passes(limit="mdl-1", **source))
    told = lab.passes(limit="mdl-1", model_verify_mode="full", **source)
    assert f"{shards.shard_name(2, 4)} is damaged: its sha256 is" in told
    assert "It is fetched anew" in told
    assert lab.sums("mdl-1", folder) == shards.sums_of(lab.repository)


def test_a_folder_on_a_read_only_mount(lab):
    lab.on("mdl-1", "mkdir -p /srv/export /mnt/nfs && mount --bind /srv/export /mnt/nfs")
    shutil.copytree(lab.www / "mirror" / "tiny", STATE / "hosts" / "mdl-1" / "merged" / "srv" / "export" / "kimi")
    lab.on("mdl-1", "mount -o remount,bind,ro /mnt/nfs")
    source = {"model_source": "path", "model_path": "/mnt/nfs/kimi", "model_stamp_dir": "/var/lib/llmfleet"}
    lab.passes(limit="mdl-1", **source)
    assert unchanged(lab.passes(limit="mdl-1", **source))
    assert lab.on("mdl-1", "ls /var/lib/llmfleet/mnt/nfs/kimi/.llmfleet-model.json")
    names = [shards.shard_name(number, 4) for number in range(1, 5)]
    lab.on("mdl-1", f"cd /srv/export/kimi && printf x | dd of={names[0]} bs=1 seek=5000 conv=notrunc 2>/dev/null")
    told = lab.fails(limit="mdl-1", **source)
    assert "model_path is '/mnt/nfs/kimi', and what lies there is damaged" in told
    assert f"{names[0]} is damaged: its sha256 is" in told
    lab.on("mdl-1", f"cd /srv/export/kimi && truncate -s -7 {names[1]} && mv {names[2]} {names[2]}.part")
    told = lab.fails(limit="mdl-1", **source)
    assert f"{names[1]} is short: it has" in told
    assert f"{names[2]} is missing" in told
    assert f"{names[2]}.part is an unfinished download or copy" in told
    assert unchanged(told)


def test_a_second_writer_a_killed_run_and_its_completion(lab):
    folder = "/srv/models/slow"
    lab.faults({"match": r"\.safetensors", "rate": 4_000})
    command = lab.command(limit="mdl-1", model_path=folder)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        try:
            lab.until("mdl-1", "grep -q done /srv/models/.slow.lock 2>/dev/null")
            holder = json.loads(lab.on("mdl-1", "cat /srv/models/.slow.lock"))
            told = lab.fails(limit="mdl-1", model_path=folder)
            assert f"{folder} is being written by pid {holder['pid']} on host mdl-1, since 20" in told
            assert "it holds /srv/models/.slow.lock" in told
            assert "model_lock_wait" in told
            lab.on("mdl-1", f"kill -9 {holder['pid']}")
            first.wait(120)
        finally:
            first.kill()
    assert first.returncode != 0
    assert lab.on("mdl-1", f"ls -d {folder} 2>/dev/null || true") == ""
    assert int(lab.on("mdl-1", "cat /srv/models/.slow.part-*/*.part | wc -c")) > 0
    lab.faults()
    begin = len(lab.log.read_text())
    lab.passes(limit="mdl-1", model_path=folder)
    assert '" 206 ' in lab.log.read_text()[begin:]
    assert lab.on("mdl-1", "ls -A /srv/models | grep slow") == "slow"


def test_a_disk_that_is_too_small_and_one_that_fills_up(lab):
    lab.on("mdl-1", "mkdir -p /srv/small && mount -t tmpfs -o size=2m none /srv/small")
    told = lab.fails(limit="mdl-1", model_path="/srv/small/models/tiny")
    assert "7 files with 0.004 GB are still to come, but the file system of /srv/small/models has 0.002 GB free" in told
    assert unchanged(told)
    lab.on("mdl-1", "mount -o remount,size=6m /srv/small")
    lab.faults({"match": r"\.safetensors", "rate": 20_000})
    command = lab.command(limit="mdl-1", model_path="/srv/small/models/tiny")
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        try:
            lab.until("mdl-1", "grep -q done /srv/small/models/.tiny.lock 2>/dev/null")
            lab.on("mdl-1", "dd if=/dev/zero of=/srv/small/other bs=64k 2>/dev/null || true")
            lab.faults()
            told = re.sub(r"\s+", " ", running.communicate(timeout=240)[0])
        finally:
            running.kill()
    assert running.returncode != 0
    assert "the disk is full while model-0000" in told
    part = "/srv/small/models/.tiny.part-[0-9a-f]{8}"
    assert re.search(f"the file system of {part} has 0.006 GB, of which 0.000 GB are free", told)
    assert "the next run resumes it" in told
    lab.on("mdl-1", "rm /srv/small/other")
    lab.passes(limit="mdl-1", model_path="/srv/small/models/tiny")
    assert unchanged(lab.passes(limit="mdl-1", model_path="/srv/small/models/tiny"))


def test_a_seed_without_a_copy_is_named(lab):
    told = lab.fails(limit="mdl-2", model_source="host", model_seed_host="mdl-1", model_path="/srv/models/nowhere")
    assert (
        "model_seed_host is 'mdl-1', which has no complete copy to give away: /srv/models/nowhere is not a folder"
        in told
    )
