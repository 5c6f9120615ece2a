#!/usr/bin/env python3
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the proof of a model against sha256sum, and a copy from host to host against rsync.

A model of 64 shards of 64 MB is made once, in the folder of ``--folder``. Each figure is a ratio within one run, the
commands take turns, and the best round of each counts:

* ``sums``: bytes per second of a full check by model_check, against ``xargs -P N sha256sum`` with one process for each
  processor. The module is timed as Ansible runs it, with the start of Python. The files are in the page cache for both.
* ``stamp``: seconds of the second check, with the start of Python.
* ``copy``: bytes per second of model_fetch from another lab host, proved and on the disk, against ``rsync -a`` over SSH
  between the same hosts and ``sync``. Needs root and makes two lab hosts.

Ends with status 1 when a limit is not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lab"))
import shards  # noqa: E402

STATE = Path("/var/lib/llmfleet-lab")
HOSTS = {"mdl-b1": "10.213.77.138", "mdl-b2": "10.213.77.139"}
PORT = 8971
TOKEN = "of-the-bench"
LEAST_SUMS, MOST_STAMP, LEAST_COPY = 0.9, 1.0, 0.9
RUNNER = """
import json, sys
from ansible.module_utils import basic
from ansible_collections.llmfleet.sglang.plugins.modules import model_check
basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": json.loads(sys.argv[1])}).encode()
basic._ANSIBLE_PROFILE = "legacy"
model_check.main()
"""


def timed(argv, **more):
    """Seconds of a command and what it printed."""
    began = time.perf_counter()
    done = subprocess.run(argv, capture_output=True, text=True, check=False, **more)
    seconds = time.perf_counter() - began
    if done.returncode:
        said = (done.stdout + done.stderr)[-800:]
        sys.exit(f"bench: {' '.join(map(str, argv))[:300]} ended with {done.returncode}: {said}")
    return seconds, done.stdout


def make_model(folder, count, megabytes):
    """The model with its sums, made once."""
    wanted = folder / "SHA256SUMS"
    if not wanted.exists():
        shutil.rmtree(folder, ignore_errors=True)
        shards.write_model(folder, count, megabytes * 1_000_000)
        wanted.with_suffix(".new").write_text(shards.sums_of(folder))
        wanted.with_suffix(".new").rename(wanted)
    return sum(path.stat().st_size for path in folder.iterdir())


def check(folder, **arguments):
    """Seconds of model_check in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".venv" / "collections")}
    request = {"path": str(folder), "stamp": str(folder / ".llmfleet-model.json"), **arguments}
    seconds, output = timed([sys.executable, "-c", RUNNER, json.dumps(request)], env=environment)
    result = json.loads(output)
    if not result["complete"]:
        sys.exit(f"bench: {result['problems'][:3]}")
    return seconds, result


def measure_sums(folder, size, rounds):
    """Prints the figures of sums and stamp; returns whether they keep the limits."""
    cpus = str(len(os.sched_getaffinity(0)))
    ours, theirs = [], []
    (folder / ".llmfleet-model.json").unlink(missing_ok=True)
    for _round in range(rounds):
        shell = f"ls | xargs -P {cpus} -n 1 sha256sum"
        theirs.append(timed(["sh", "-c", shell], cwd=folder)[0])
        seconds, result = check(folder, verify="full")
        ours.append(seconds)
        assert result["read_bytes"] >= size * 0.999
    ratio = min(theirs) / min(ours)
    print(f"sums   model_check {size / min(ours) / 1e6:8.0f} MB/s   sha256sum on {cpus} processors "
          f"{size / min(theirs) / 1e6:8.0f} MB/s   ratio {ratio:.2f} (at least {LEAST_SUMS})")  # fmt: skip
    stamped = []
    for _round in range(max(3, rounds)):
        seconds, result = check(folder)
        stamped.append(seconds)
        assert result["stamp_used"] and not result["changed"]
    print(f"stamp  {min(stamped):.2f} s for {len(result['files'])} files (at most {MOST_STAMP} s)")
    return ratio >= LEAST_SUMS and min(stamped) < MOST_STAMP


def on(host, command):
    """Run a command as root on a lab host; returns seconds and output."""
    words = ["ssh", "-q", "-i", f"{STATE}/ssh/id_ed25519", "-o", f"UserKnownHostsFile={STATE}/ssh/known_hosts"]
    return timed([*words, f"deploy@{HOSTS[host]}", f"sudo sh -c {json.dumps(command)}"])


def make_hosts(folder, work):
    """Two lab hosts, of which one has the model, and a way for rsync between them."""
    for host, address in HOSTS.items():
        timed([sys.executable, ROOT / "tests/lab/hosts.py", "up", host, "--address", address])
        on(host, "mkdir -p /srv/bench && apt-get -qq update && apt-get -qq install -y rsync openssh-client >/dev/null")
    giver, taker = HOSTS
    on(taker, "test -f /srv/bench/key || ssh-keygen -q -t ed25519 -N '' -f /srv/bench/key")
    key = on(taker, "cat /srv/bench/key.pub")[1].strip()
    on(giver, f"mkdir -p ~root/.ssh && echo '{key}' > ~root/.ssh/authorized_keys")
    shutil.copytree(folder, STATE / "hosts" / giver / "merged/srv/model", dirs_exist_ok=True)
    sums = dict(reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text().splitlines())
    files = [{"name": name, "size": (folder / name).stat().st_size, "sha256": sums[name]} for name in sums]
    settings = {"token": TOKEN, "port": PORT, "idle": 600, "roots": {"model": "/srv/model"}, "files": {"model": files}}
    place = STATE / "hosts" / giver / "merged/srv/bench"
    (place / "offer.json").write_text(json.dumps(settings))
    shutil.copy(ROOT / "roles/model/files/offer.py", place)
    server = "python3 /srv/bench/offer.py /srv/bench/offer.json"
    on(giver, f"systemctl stop bench-offer 2>/dev/null; systemd-run --quiet --collect --unit=bench-offer {server}")
    inventory = work / "bench-hosts.json"
    variables = {
        "ansible_host": HOSTS[taker],
        "ansible_user": "deploy",
        "ansible_ssh_private_key_file": f"{STATE}/ssh/id_ed25519",
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={STATE}/ssh/known_hosts",
    }
    inventory.write_text(json.dumps({"lab": {"hosts": {taker: variables}}}))
    return inventory, files


def measure_copy(folder, size, rounds):
    """Prints the figure of copy; returns whether it keeps its limit."""
    giver, taker = HOSTS
    ours, theirs = [], []
    try:
        inventory, files = make_hosts(folder, folder.parent)
        request = {
            "path": "/srv/fetched",
            "source": "http",
            "url": f"http://{HOSTS[giver]}:{PORT}/model",
            "files": files,
            "token": TOKEN,
            "proxy_enabled": False,
        }
        module = ["ansible", "-i", str(inventory), "-b", taker, "-m", "llmfleet.sglang.model_fetch", "-o"]
        for _round in range(rounds):
            on(taker, "rm -rf /srv/copied /srv/fetched; sync")
            rsync = ("rsync -a -e 'ssh -i /srv/bench/key -o StrictHostKeyChecking=accept-new' "
                     f"root@{HOSTS[giver]}:/srv/model/ /srv/copied/ && sync -f /srv")  # fmt: skip
            theirs.append(on(taker, rsync)[0])
            on(taker, "rm -rf /srv/copied; sync")
            _seconds, output = timed([*module, "-a", json.dumps(request)], cwd=ROOT)
            ours.append(json.loads(output[output.index("{") :])["seconds"])
    finally:
        timed([sys.executable, ROOT / "tests/lab/hosts.py", "down", *HOSTS])
    ratio = min(theirs) / min(ours)
    print(f"copy   model_fetch {size / min(ours) / 1e6:8.0f} MB/s   rsync over SSH "
          f"{size / min(theirs) / 1e6:8.0f} MB/s   ratio {ratio:.2f} (at least {LEAST_COPY})")  # fmt: skip
    return ratio >= LEAST_COPY


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", choices=["sums", "copy", []], help="some of the figures (default: all)")
    parser.add_argument("--folder", type=Path, default=ROOT / ".cache" / "bench-model")
    parser.add_argument("--shards", type=int, default=64)
    parser.add_argument("--megabytes", type=int, default=64, help="size of a shard in 1e6 bytes (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    folder = arguments.folder / f"{arguments.shards}x{arguments.megabytes}"
    size = make_model(folder, arguments.shards, arguments.megabytes)
    print(f"a model of {arguments.shards} shards, {size / 1e9:.2f} GB, in {folder}", flush=True)
    kept = True
    if "sums" in (arguments.what or ["sums"]):
        kept = measure_sums(folder, size, arguments.rounds)
    if "copy" in (arguments.what or ["copy"]):
        kept = measure_copy(folder, size, arguments.rounds) and kept
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
