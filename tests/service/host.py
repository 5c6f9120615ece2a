# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host of the service's tests: how it is deployed, broken and looked into."""

from __future__ import annotations

import json
import re
import secrets
import subprocess
from pathlib import Path

import yaml
from ansible_collections.llmfleet.sglang.tests.lab import controller

ROOT = Path(__file__).resolve().parents[2]
STATE = Path("/var/lib/llmfleet-lab")
NAME, ADDRESS, SUITE = "unit-1", "10.213.77.175", "bookworm"
UNIT = "sglang-kimi.service"
FAULTS = "/etc/llmfleet-faults"
# Waits are for loaded machines; nothing here is a measure of speed.
PATIENCE = 180


def until(question, seconds=PATIENCE, every=0.5):
    """Ask until the answer is true, and return it."""
    return controller.until(question, seconds, every)


def counts(told):
    """{word: number} of the last line of a play."""
    return {word: int(number) for word, number in re.findall(r"(\w+)=(\d+)", told.rpartition("PLAY RECAP")[2])}


def said_in(told):
    """What a play said as one line, however the callback has wrapped it."""
    return " ".join(told.split())


class Server:
    """The deployed host: its secrets, its plays and ways to look into it."""

    def __init__(self, folder):
        self.folder = folder
        self.outputs = []
        self.secrets = {
            name: secrets.token_urlsafe(36).strip("-_")
            for name in ("vault_pip_password", "vault_hub_token", "vault_service_token", "vault_gateway_key")
        }
        # As an operator has them: in a file that Ansible Vault encrypted, with its password in another one.
        (folder / "vault-password").write_text(secrets.token_hex(16))
        (folder / "secret.yml").write_text(yaml.safe_dump(self.secrets))
        self.password = f"--vault-password-file={folder / 'vault-password'}"
        self.program("ansible-vault", "encrypt", self.password, str(folder / "secret.yml")).check_returncode()
        inventory = ROOT / "tests/service/inventory/group_vars/lab/standin.yml"
        self.environment = yaml.safe_load(inventory.read_text())["lab_environment"]

    # -- Ansible --------------------------------------------------------------------------------------------------

    def program(self, *words):
        """Run one of Ansible's programs."""
        environment = controller.ansible_environment()
        return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    def play(self, playbook, *words, environment=None, **variables):
        """Run a playbook with everything said; returns (status, what it said)."""
        if environment:
            variables["serve_environment"] = {**self.environment, **environment}
        (self.folder / "more.json").write_text(json.dumps(variables))
        done = self.program(
            "ansible-playbook", "--inventory=tests/service/inventory", "-vvv", "--diff", self.password,
            f"--extra-vars=@{self.folder / 'secret.yml'}", f"--extra-vars=@{self.folder / 'more.json'}",
            *words, playbook,
        )  # fmt: skip
        self.outputs.append(done.stdout + done.stderr)
        return done.returncode, self.outputs[-1]

    def site(self, *words, **variables):
        """The whole deployment."""
        return self.play("site.yml", *words, **variables)

    def serve(self, *words, **variables):
        """The last steps of a deployment: roles serve and verify, for the release that the host has."""
        return self.play("tests/service/serve.yml", *words, **variables)

    def verify(self, **variables):
        """A later day's judgement."""
        return self.play("playbooks/verify.yml", **variables)

    def module(self, module, /, **arguments):
        """Run one module of the collection as root on the host; returns its result."""
        done = self.program(
            "ansible", "--inventory=tests/service/inventory", "--become", self.password,
            f"--extra-vars=@{self.folder / 'secret.yml'}", f"--module-name=llmfleet.sglang.{module}",
            f"--args={json.dumps(arguments)}", "--one-line", NAME,
        )  # fmt: skip
        self.outputs.append(done.stdout + done.stderr)
        return json.loads(re.search(r"(?m)=> (\{.*)$", done.stdout).group(1))

    # -- the host -------------------------------------------------------------------------------------------------

    def ssh(self, command):
        """The words that run a command as root on the host."""
        return [
            "ssh", "-q", "-i", str(STATE / "ssh/id_ed25519"), "-o", f"UserKnownHostsFile={STATE}/ssh/known_hosts",
            "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=10",
            f"deploy@{ADDRESS}", "sudo sh -c '" + command.replace("'", "'\\''") + "'",
        ]  # fmt: skip

    def on_host(self, command, given="", check=True):
        """Run a command as root on the host; what it reads does not show in any list of processes."""
        done = subprocess.run(self.ssh(command), input=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0 or not check, f"{command}: {done.returncode} {done.stdout} {done.stderr}"
        return done.stdout.strip() if check else done

    def show(self, unit=UNIT):
        """Properties of a unit as systemd tells them."""
        return dict(line.partition("=")[::2] for line in self.on_host(f"systemctl show {unit}").splitlines())

    def invocation(self, unit=UNIT):
        return self.show(unit)["InvocationID"]

    def starts(self, unit=UNIT):
        """Invocations that systemd began and told the journal of, the oldest first."""
        fields = "journalctl --quiet --all --output=json --output-fields=INVOCATION_ID"
        lines = self.on_host(f"journalctl --sync; {fields} _PID=1 UNIT={unit}").splitlines()
        found = [json.loads(line).get("INVOCATION_ID") for line in lines]
        return [one for one in dict.fromkeys(found) if one]

    def journal(self, unit=UNIT, invocation=None, options="--output=cat"):
        """Lines of a unit in the journal, of one start or of all: the engine's and what systemd said of it."""
        match = f"_SYSTEMD_INVOCATION_ID={invocation} + INVOCATION_ID={invocation}" if invocation else f"--unit={unit}"
        return self.on_host(f"journalctl --sync; journalctl --quiet --all --no-pager {options} {match}")

    def ready(self, unit=UNIT):
        """Wait until the unit is active, which means ready."""
        return until(lambda: next((now for now in [self.show(unit)] if now["ActiveState"] == "active"), None))

    def fault(self, text):
        """Faults of the starts to come; none for an empty text."""
        self.on_host(f"cat > {FAULTS}; chmod 0644 {FAULTS}", f"{text}\n")

    def restart(self, fault=""):
        """Start the unit anew by hand, with a fault; returns once the new start has begun."""
        before = self.invocation()
        self.fault(fault)
        self.on_host(f"systemctl kill --signal=KILL {UNIT}; systemctl stop {UNIT}; systemctl reset-failed {UNIT}; true")
        self.on_host(f"systemctl start --no-block {UNIT}")
        return until(lambda: next((one for one in [self.invocation()] if one not in ("", before)), None))

    def state(self):
        """What the host keeps of the service."""
        return json.loads(self.on_host("cat /etc/sglang/kimi/state.json"))

    def ranks(self, unit=UNIT):
        """{process title: PID} of a unit's ranks, whichever version of control groups the host has."""
        pids = f"grep -l '/{unit}$' /proc/[0-9]*/cgroup 2>/dev/null | cut -d/ -f3 | paste -sd,"
        lines = self.on_host(f"ps -ww -o pid=,args= -p $({pids})").splitlines()
        found = dict(reversed(line.split(None, 1)) for line in lines)
        return {title: int(pid) for title, pid in found.items() if title.startswith("sglang::schedul")}
