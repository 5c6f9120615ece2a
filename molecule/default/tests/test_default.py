# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""After check, converge and idempotence: one start of a Kimi-shaped service, proved."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
UNIT = "sglang-kimi.service"
RANKS = {f"TP{number}" for number in range(8)}
# 159,277 device tokens x 4.0 and one page more, at 61 layers x 576 x 2 bytes; the draft has one such layer.
HOST_TOKENS = 159277 * 4 + 1
MAIN_GB = f"{HOST_TOKENS * 61 * 1152 / 1e9:.2f}"
DRAFT_GB = f"{HOST_TOKENS * 1152 / 1e9:.2f}"


def test_the_service_runs_and_comes_back_after_a_reboot(properties):
    unit = properties()
    assert unit["ActiveState"] == "active"
    assert unit["UnitFileState"] == "enabled"
    assert unit["NRestarts"] == "0"
    assert unit["User"] == "sglang"


def test_two_runs_made_one_start(records):
    # A second start would be a second load of hundreds of gigabytes.
    started = {
        record["INVOCATION_ID"]
        for record in records()
        if record.get("INVOCATION_ID") and record.get("JOB_TYPE") in ("start", "restart")
    }
    assert len(started) == 1


def test_every_rank_logged_the_predicted_figure(properties, records):
    lines = [
        re.search(r"\[\S+ \S+ (TP\d)\] Allocating (.*)", record["MESSAGE"])
        for record in records(properties()["InvocationID"])
        if isinstance(record["MESSAGE"], str)
    ]
    found = [line.groups() for line in lines if line]
    main = {rank for rank, text in found if f"{MAIN_GB} GB" in text}
    draft = {rank for rank, text in found if f"{DRAFT_GB} GB" in text}
    assert MAIN_GB == "44.77"
    assert main == draft == RANKS
    assert len(found) == 16


def test_the_verdict_is_kept_on_the_host(fact, properties):
    assert fact["verdict"] == "pass"
    assert fact["invocation_id"] == properties()["InvocationID"]
    assert fact["ranks_seen"] == 8
    assert [pool["gb"] for pool in fact["ranks"] if pool["pool"] == "kv"] == [44.77] * 8
    assert fact["expected_gb"] == 44.77
    assert abs(fact["total_gb"] - 8 * (float(MAIN_GB) + float(DRAFT_GB))) < 0.001
    assert fact["device_tokens"] == 159277
    assert fact["requests_sent"] is True


def test_the_server_answers_on_loopback_only(host, http):
    status, body = http("/v1/models")
    assert status == 200
    assert json.loads(body)["data"][0]["id"] == "kimi-k2.5"
    listening = host.check_output("ss --tcp --listening --numeric --no-header 'sport = :30000'").split()
    assert listening[3] == "127.0.0.1:30000"


def test_ranks_hold_the_limits_of_the_unit(host, properties):
    # limits.conf is not read for services: only the process itself tells what it got.
    ranks = host.check_output("pgrep --full --exact 'sglang::schedul.*'").split()
    assert len(ranks) == 8
    with host.sudo():
        limits, most = (host.file(f"/proc/{pid}/limits").content_string for pid in (ranks[0], 1))
    unit = properties()
    assert (unit["LimitNOFILE"], unit["LimitMEMLOCK"]) == ("1048576", "infinity")
    # Without CAP_SYS_RESOURCE a lab host cannot give more than it has itself; 1024 would be what nobody asked for.
    ceiling = int(re.search(r"Max open files +\d+ +(\d+)", most).group(1))
    assert re.search(rf"Max open files +{min(1048576, ceiling)} +{min(1048576, ceiling)} ", limits), limits
    # A limit that no service reaches; 0 in a unit would leave journald's own.
    assert (unit["LogRateLimitIntervalUSec"], unit["LogRateLimitBurst"]) == ("1s", "100000000")


def test_the_driver_is_installed_and_held(host):
    assert host.check_output("nvidia-smi -L").count("RTX PRO 6000 Blackwell") == 8
    held = host.check_output("apt-mark showhold").split()
    assert {"nvidia-open", "cuda-toolkit-13-0"} <= set(held)
    assert host.service("nvidia-persistenced").is_running
    assert not {"cuda", "cuda-drivers", "nvidia-fabricmanager"} & set(held)


def test_the_release_stands_by_itself(host):
    releases = host.check_output("ls /opt/sglang/releases").split()
    assert len(releases) == 1
    python = f"/opt/sglang/releases/{releases[0]}/venv/bin/python"
    version = host.check_output(f"{python} -c 'import sglang; print(sglang.__version__)'")
    assert releases[0].startswith(f"{version}-")


def test_nobody_but_root_changes_what_the_service_runs(host):
    for path in ("/etc/systemd/system/sglang-kimi.service", "/opt/sglang/releases", "/srv/models"):
        node = host.file(path)
        assert node.user == "root"
        assert node.mode & 0o022 == 0


def test_a_later_day_judges_again_and_changes_nothing(host, fact):
    done = subprocess.run(
        [
            "ansible-playbook",
            "-i",
            "molecule/default/inventory",
            "--limit",
            host.backend.hostname,
            "playbooks/verify.yml",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "changed=0" in done.stdout
    assert "PASS - 8 of 8 ranks" in done.stdout
    assert json.loads(host.file("/etc/ansible/facts.d/sglang_kimi.fact").content_string) == fact


def test_the_unit_is_less_exposed_than_other_units_of_gpu_services(host):
    """The figure of systemd-analyze security, of unit files alone, so that all are judged alike."""
    units = {path.name: path.read_text() for path in (Path(__file__).parent / "units").glob("*.service")}
    with host.sudo():
        units[UNIT] = host.file(f"/etc/systemd/system/{UNIT}").content_string
        folder = host.check_output("mktemp --directory")
        figures = {}
        for name, text in units.items():
            host.check_output("printf '%%s' %s > %s", text, f"{folder}/{name}")
            told = host.check_output("systemd-analyze security --offline=true --no-pager %s", f"{folder}/{name}")
            figures[name] = float(re.search(r"exposure level for \S+: ([0-9.]+)", told).group(1))
    print(figures)
    ours = figures.pop(UNIT)
    assert ours <= 2.1, figures
    assert len(figures) == 4 and min(figures.values()) >= 9, figures
