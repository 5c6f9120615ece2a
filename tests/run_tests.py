#!/usr/bin/env python3
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the stages of the test suite, each with a log of its own, and close with one line that counts them.

python tests/run_tests.py            all stages
python tests/run_tests.py unit lint  some of them

Two stages run at a time: most of one is waiting, and each has lab hosts of its own. LANES=1 runs them one by one.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / ".cache" / "test-logs"


def molecule(scenario):
    """Create, check, converge, converge again, verify and destroy one scenario."""
    return [["molecule", "test", "--no-command-borders", "--scenario-name", scenario]]


# What all stages with lab hosts share, made once before them.
OFFER = ["ansible-playbook", "-i", "inventories/lab", "molecule/shared/create.yml", "--skip-tags", "hosts"]
WITHOUT_LAB = {"lint", "unit", "parsers", "sanity", "mutation"}
# Stages that run when they are named: together they take more than an hour.
ON_REQUEST = {"fleet-more", "fleet-real", "scale", "mutation"}
# Seconds after which a stage is taken for stuck, and ended.
STAGE_LIMIT = 2400
# Programs of the stages that are under way.
RUNNING = set()

QUIET = ["pytest", "-q", "--durations=6"]
# A stage is a list of commands; the first that fails ends it. Stages begin in this order: what is quick and fails
# often, then the longest, so that no long one is alone at the end.
STAGES = {
    "lint": [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["yamllint", "--strict", "."],
        ["ansible-lint", "--offline"],
    ],
    "parsers": [["pytest", "-q", "tests/parsers"]],
    "unit": [["pytest", "-q", "tests/unit"]],
    "mutation": [
        ["uv", "venv", "--quiet", "--clear", "--python", ".venv/bin/python", ".cache/mutation"],
        [
            "uv",
            "pip",
            "sync",
            "--quiet",
            "--require-hashes",
            "--python",
            ".cache/mutation",
            "requirements/mutation.txt",
        ],
        [".cache/mutation/bin/python", "tests/tools/mutate.py"],
    ],
    "real": molecule("real"),
    "cuda": [[*QUIET, "tests/cuda"]],
    "install": [[*QUIET, "tests/install"]],
    "scale": [[*QUIET, "tests/scale"]],
    "fleet": [[*QUIET, "tests/fleet", "-k", "deployed or under_load"]],
    "fleet-more": [[*QUIET, "tests/fleet"], [*QUIET, "tests/fleet_more"]],
    "fleet-real": [
        ["molecule", "converge", "--no-command-borders", "--scenario-name", "real"],
        [*QUIET, "tests/fleet_real"],
        ["molecule", "destroy", "--no-command-borders", "--scenario-name", "real"],
    ],
    "service": [[*QUIET, "tests/service"]],
    "default": molecule("default"),
    "faults": molecule("faults"),
    "gateway": [[*QUIET, "tests/gateway"]],
    "router": [[*QUIET, "tests/router"]],
    "model": [[*QUIET, "tests/model"]],
    "preflight": molecule("preflight"),
    "refusals": molecule("refusals"),
    "sanity": [["tests/sanity.sh"]],
    "lab": [[*QUIET, "tests/system"]],
}


def run_stage(name, commands):
    """Run one stage; returns (passed, seconds, what its tool said at the end)."""
    log = LOGS / f"{name}.log"
    started = time.monotonic()
    code = 0
    with log.open("wb") as stream:
        for command in commands:
            stream.write(f"$ {' '.join(command)}\n".encode())
            stream.flush()
            # A session of its own, so that what the stage started can be ended with it.
            running = subprocess.Popen(
                command, cwd=ROOT, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True
            )
            RUNNING.add(running)
            try:
                code = running.wait(max(1, started + STAGE_LIMIT - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
                code = running.wait()
                stream.write(f"ended after {STAGE_LIMIT} s: the stage was stuck\n".encode())
            RUNNING.discard(running)
            if code:
                break
    text = log.read_text(errors="replace")
    counts = re.findall(r"^=*\s*(\d+ passed.*?)\s*=*$", text, re.MULTILINE)
    return code == 0, time.monotonic() - started, "; ".join(counts)


def report(name, outcome):
    """Say how a stage ended, with the last lines of its log where it failed; returns whether it passed."""
    passed, seconds, told = outcome
    print(f"{name:10} {'passed' if passed else 'FAILED'} in {seconds:.0f} s{'  ' if told else ''}{told}", flush=True)
    if not passed:
        lines = (LOGS / f"{name}.log").read_text(errors="replace").splitlines()
        print(f"--- the last lines of .cache/test-logs/{name}.log")
        print("\n".join(lines[-120:]))
        print("---", flush=True)
    return passed


def main(names):
    unknown = [name for name in names if name not in STAGES]
    if unknown:
        print(f"test: there is no stage {', '.join(unknown)}; there are {', '.join(STAGES)}", file=sys.stderr)
        return 2
    LOGS.mkdir(parents=True, exist_ok=True)
    # Molecule and ansible-test find their programs and the collection through these.
    os.environ["PATH"] = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    os.environ["NO_COLOR"] = "1"
    os.environ["ANSIBLE_CONFIG"] = str(ROOT / "ansible.cfg")
    subprocess.run([ROOT / "tests" / "lab" / "debian_packages.sh"], check=True)
    failed = []
    chosen = names or [name for name in STAGES if name not in ON_REQUEST]
    started = time.monotonic()
    if not set(chosen) <= WITHOUT_LAB:
        if not report("offer", run_stage("offer", [OFFER])):
            return 1
        os.environ["LLMFLEET_LAB_OFFERED"] = "1"
    with ThreadPoolExecutor(max_workers=int(os.environ.get("LANES", "2"))) as lanes:
        running = {lanes.submit(run_stage, name, STAGES[name]): name for name in chosen}
        try:
            for stage in as_completed(running):
                if not report(running[stage], stage.result()):
                    failed.append(running[stage])
        except KeyboardInterrupt:
            lanes.shutdown(wait=False, cancel_futures=True)
            for program in list(RUNNING):
                os.killpg(program.pid, signal.SIGINT)
            raise
    print(f"all stages took {time.monotonic() - started:.0f} s")
    print(f"{len(chosen) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
