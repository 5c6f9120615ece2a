# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host of the gateway's tests: how it is deployed, asked and looked into."""

from __future__ import annotations

import json
import re
import secrets
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import httpx2
import openai
import yaml
from ansible_collections.llmfleet.sglang.tests.lab import controller
from ansible_collections.llmfleet.sglang.tests.lab.controller import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
STATE = Path("/var/lib/llmfleet-lab")
NAME, ADDRESS = "gw-1", "10.213.77.160"
PORTS = {"lab": 443, "narrow": 8441, "echo": 8442, "hasty": 8443, "draining": 8444}


def openssl(folder, *words):
    """Run openssl in a folder."""
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


class Gateway:
    """The deployed host: its keys, its plays and ways to ask it."""

    def __init__(self, folder):
        self.folder = folder
        self.outputs = []
        self.keys = {name: secrets.token_urlsafe(36).strip("-_") for name in ("steady", "old", "new", "narrow")}
        self.clients = [
            {"name": "team-a", "keys": [self.keys["steady"]]},
            # Written as an operator would who has the key in a file.
            {"name": "team-r", "keys": ["{{ lookup('ansible.builtin.file', old_key_file) }}"], "services": ["lab"]},
            {"name": "team-n", "keys": [self.keys["narrow"]], "services": ["narrow", "hasty"]},
        ]
        (folder / "old.key").write_text(self.keys["old"] + "\n")
        (folder / "vault-password").write_text(secrets.token_hex(16))
        self.make_certificates()

    def make_certificates(self):
        """An authority, and a certificate of the host from it."""
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        openssl(self.folder, "req", "-x509", *key, "-days", "9", "-subj", "/CN=lab", "-keyout", "ca.key", "-out", "ca")
        names = f"subjectAltName=IP:{ADDRESS},DNS:{NAME}"
        openssl(self.folder, "req", *key, "-subj", f"/CN={NAME}", "-addext", names, "-keyout", "key", "-out", "asked")
        signed = ["-CA", "ca", "-CAkey", "ca.key", "-CAcreateserial", "-copy_extensions", "copy"]
        openssl(self.folder, "x509", "-req", "-in", "asked", *signed, "-days", "9", "-out", "certificate")
        self.authority = str(self.folder / "ca")
        self.tls = ssl.create_default_context(cafile=self.authority)

    def variables(self, **more):
        """A file of variables, encrypted by Ansible Vault."""
        path = self.folder / "secret.yml"
        content = {
            "old_key_file": str(self.folder / "old.key"),
            "gateway_clients": self.clients,
            "gateway_certificates": {
                "lab": {name: (self.folder / name).read_text() for name in ("certificate", "key")},
            },
            **more,
        }
        path.write_text(yaml.safe_dump(content))
        self.program(
            "ansible-vault", "encrypt", "--vault-password-file", str(self.folder / "vault-password"), str(path)
        )
        return path

    def program(self, *words):
        """Run one of Ansible's programs."""
        return subprocess.run(
            words, cwd=ROOT, env=controller.ansible_environment(), capture_output=True, text=True, check=False
        )

    def play(self, *words, playbook="playbooks/gateway.yml", **variables):
        """Run a playbook with everything said; returns (status, what it said)."""
        done = self.program(
            "ansible-playbook", "--inventory", "tests/gateway/inventory", "-vvv", "--diff",
            "--vault-password-file", str(self.folder / "vault-password"), "--extra-vars", "site_hosts=lab",
            "--extra-vars", f"@{self.variables(**variables)}", *words, playbook,
        )  # fmt: skip
        self.outputs.append(done.stdout + done.stderr)
        return done.returncode, self.outputs[-1]

    def on_host(self, command, given="", check=True):
        """Run a command as root on the host; what it reads does not show in any list of processes."""
        keys = ["-i", str(STATE / "ssh/id_ed25519"), "-o", f"UserKnownHostsFile={STATE}/ssh/known_hosts"]
        quoted = "sudo sh -c '" + command.replace("'", "'\\''") + "'"
        done = subprocess.run(
            [
                "ssh",
                "-q",
                *keys,
                "-o",
                "StrictHostKeyChecking=yes",
                "-o",
                "ConnectTimeout=10",
                f"deploy@{ADDRESS}",
                quoted,
            ],
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0 or not check, f"{command}: {done.returncode} {done.stdout} {done.stderr}"
        return done.stdout.strip() if check else done

    def client(self, service="lab", key="steady"):
        """The real client, which trusts the lab's authority and repeats nothing."""
        return openai.OpenAI(
            base_url=f"https://{ADDRESS}:{PORTS[service]}/v1",
            api_key=self.keys.get(key, key),
            max_retries=0,
            timeout=PATIENCE,
            http_client=httpx2.Client(verify=self.tls, trust_env=False, timeout=PATIENCE),
        )

    def ask(self, path, service="lab", key="steady", body=None, port=None, headers=None, verified=True):
        """(status, decoded body, headers) of a request by hand; the path is sent as it is written."""
        tls = self.tls if verified else ssl._create_unverified_context()
        request = urllib.request.Request(f"https://{ADDRESS}:{port or PORTS[service]}{path}", data=body)
        for name, value in {
            **({"Authorization": f"Bearer {self.keys[key]}"} if key else {}),
            **(headers or {}),
        }.items():
            request.add_header(name, value)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
        try:
            with opener.open(request, timeout=PATIENCE) as answer:
                status, text, told = answer.status, answer.read().decode(), answer.headers
        except urllib.error.HTTPError as problem:
            status, text, told = problem.code, problem.read().decode(), problem.headers
        try:
            return status, json.loads(text), told
        except ValueError:
            return status, text, told

    def running(self):
        """How many generations the engine runs, as its metrics say."""
        _status, text, _headers = self.ask("/metrics", port=9443, key=None)
        return float(re.search(r"(?m)^sglang:num_running_reqs\{[^}]*\} (\S+)", text).group(1))
