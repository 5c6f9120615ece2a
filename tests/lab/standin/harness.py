# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the stand-in from a test: build it, write a model folder, start it, ask it, stop it.

tree = unpack("0.5.23+standin", directory)
with StandIn(tree, model, workdir, "--tp", "8", faults="rank-killed@3") as server:
    server.wait_ready()
    status, body = server.post("/v1/chat/completions", {...})
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

from . import build_wheel

READY = "The server is fired up and ready to roll!"
KIMI = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "model_type": "kimi_k25",
    "text_config": {
        "num_hidden_layers": 61,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "num_attention_heads": 64,
        "hidden_size": 7168,
        "torch_dtype": "bfloat16",
        "max_position_embeddings": 262144,
    },
}
EAGLE3_DRAFT = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "num_hidden_layers": 1,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 7168,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 262144,
}
KIMI_FLAGS = shlex.split(
    "--trust-remote-code --mem-fraction-static 0.88 --enable-hierarchical-cache --hicache-ratio 4.0 "
    "--hicache-write-policy write_through --hicache-io-backend kernel --tool-call-parser kimi_k2 "
    "--reasoning-parser kimi_k2 --enable-metrics"
)
SPECULATION = shlex.split("--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4")
QUICK = {
    "SGLANG_STANDIN_LOAD_SECONDS": "0",
    "SGLANG_STANDIN_STEP_MS": "1",
    "SGLANG_STANDIN_TOKEN_DELAY_MS": "0",
    "SGLANG_STANDIN_HEALTH_SECONDS": "0",
    "SGLANG_STANDIN_DRAIN_SECONDS": "0.2",
    "SGLANG_STANDIN_POLL_SECONDS": "0.2",
    "SGLANG_STANDIN_WATCHDOG_GRACE_SECONDS": "0.1",
}


def unpack(version, directory):
    """Build the wheel of a version and unpack it; returns the folder to put on PYTHONPATH."""
    wheel = build_wheel.build(version, Path(directory))
    tree = Path(directory) / f"tree-{version}"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tree)
    return tree


def write_model(directory, config, weights=True):
    """A model folder with a config.json and, where asked, an empty weight file."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    if weights:
        (directory / "model.safetensors").touch()
    return directory


def free_port():
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def alive(pid):
    """Is the process there and no zombie?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


class StandIn:
    """One server process; stdout and stderr go into files, or into one (`merged`) as in a journal."""

    def __init__(self, tree, model, workdir, *flags, faults="", env=None, port=None, merged=False):
        self.port = port or free_port()
        self.out, self.err = Path(workdir) / "stdout", Path(workdir) / "stderr"
        self.command = [
            sys.executable,
            "-m",
            "sglang.launch_server",
            "--model-path",
            str(model),
            "--port",
            str(self.port),
            *flags,
        ]
        self.env = {**os.environ, **QUICK, "PYTHONPATH": str(tree), "SGLANG_STANDIN_FAULT": faults, **(env or {})}
        self.merged = merged
        self.process = None

    def __enter__(self):
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(self.command, stdout=err if self.merged else out, stderr=err, env=self.env)
        return self

    def __exit__(self, *_exc):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    # ---- log -------------------------------------------------------------------------------------------------

    @property
    def log(self):
        """stderr so far, carriage returns kept."""
        return self.err.read_bytes().decode(errors="replace")

    @property
    def access_log(self):
        """stdout so far."""
        return self.out.read_bytes().decode(errors="replace")

    def lines(self, word):
        """Lines of stderr that hold the word."""
        return [line for line in self.log.split("\n") if word in line]

    def wait_for(self, word, timeout=20.0):
        """Wait until stderr holds the word; an error where it does not in time or the process is gone."""
        deadline = time.monotonic() + timeout
        while word not in self.log:
            if self.process.poll() is not None and word not in self.log:
                raise AssertionError(f"the server left with {self.process.returncode} before {word!r}:\n{self.log}")
            if time.monotonic() > deadline:
                raise AssertionError(f"no {word!r} within {timeout} s:\n{self.log}")
            time.sleep(0.02)

    def wait_ready(self, timeout=20.0):
        """Wait for the ready line."""
        self.wait_for(READY, timeout)

    def wait_exit(self, timeout=20.0):
        """Wait for the end; the status as subprocess gives it (-9 for SIGKILL)."""
        return self.process.wait(timeout)

    def terminate(self):
        """SIGTERM to the main process."""
        self.process.send_signal(signal.SIGTERM)

    def children(self):
        """{pid: process name} of the children of the main process."""
        found = {}
        for entry in Path("/proc").glob("[0-9]*/stat"):
            try:
                head, _paren, rest = entry.read_text().rpartition(")")
            except OSError:
                continue
            if int(rest.split()[1]) == self.process.pid:
                found[int(entry.parent.name)] = head.partition("(")[2]
        return found

    # ---- HTTP ------------------------------------------------------------------------------------------------

    def open(self, path, body=None, key=None, timeout=20.0, headers=None):
        """The open answer to a request; the caller reads it (streams)."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=headers or {})
        if body is not None:
            request.data = body if isinstance(body, bytes) else json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        if key:
            request.add_header("Authorization", f"Bearer {key}")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return opener.open(request, timeout=timeout)

    def ask(self, path, body=None, key=None, timeout=20.0, headers=None):
        """(status, decoded body): JSON where it is JSON, text otherwise."""
        try:
            with self.open(path, body, key, timeout, headers) as answer:
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as problem:
            status, text = problem.code, problem.read().decode()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text
