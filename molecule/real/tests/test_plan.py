# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan against the real engine: what it says that SGLang will log is what SGLang then logs, text for text.

Each case starts the installed release once, beside the running service, with a model of random weights that has the
wanted geometry, and ends it when the lines are there.
"""

from __future__ import annotations

import json
import re
import secrets
import shlex

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_plan
from ansible_collections.llmfleet.sglang.tests.lab.tiny_model.make_tiny_model import model_config

PYTHON = re.compile(r"path=(\S+/venv/bin/python)")
ALLOCATING = re.compile(r"\[[^\]\n]*?((?: [A-Z]+\d+)*)\] (Allocating .*)")
# Seconds that one start may take on a loaded machine before it is given up.
PATIENCE = 900

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "max_position_embeddings": 8192,
    "vocab_size": 320,
    "bos_token_id": 256,
    "eos_token_id": 257,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}

# Name: config.json, and the settings of the start in the words of the plan.
CASES = {
    "1 layer, page 1": (model_config(1), {"device_tokens": 10000, "page_size": 1, "ratio": 2.5}),
    "2 layers, page 64": (model_config(2), {"device_tokens": 20000, "page_size": 64, "ratio": 3.3}),
    "5 layers, 1 GB": (model_config(5), {"device_tokens": 6000, "page_size": 16, "ratio": None, "size_gb": 1}),
    "7 layers, page 128": (model_config(7), {"device_tokens": 12345, "page_size": 128, "ratio": 1.01}),
    "heads over 2 ranks": (
        {**LLAMA, "num_hidden_layers": 4},
        {"device_tokens": 30000, "page_size": 32, "ratio": 6.0, "tensor_parallel_size": 2},
    ),
    "5 layers in 2 stages": (
        model_config(5),
        {"device_tokens": 15000, "page_size": 64, "ratio": 4.0, "pipeline_parallel_size": 2},
    ),
}


def _argv(settings, folder, port):
    """The command line of a start, after the interpreter."""
    argv = ["-m", "sglang.launch_server", "--model-path", folder, "--port", str(port), "--device", "cpu"]
    argv += ["--load-format", "dummy", "--attention-backend", "triton", "--enable-hierarchical-cache"]
    argv += ["--skip-server-warmup", "--sleep-on-idle", "--max-total-tokens", str(settings["device_tokens"])]
    argv += ["--page-size", str(settings["page_size"])]
    argv += ["--tp-size", str(settings.get("tensor_parallel_size", 1))]
    argv += ["--pp-size", str(settings.get("pipeline_parallel_size", 1))]
    if settings.get("size_gb"):
        return [*argv, "--hicache-size", str(settings["size_gb"])]
    return [*argv, "--hicache-ratio", str(settings["ratio"])]


@pytest.fixture(scope="module")
def interpreter(host):
    """The interpreter of the installed release."""
    return PYTHON.search(host.check_output("systemctl show --property=ExecStart sglang-kimi.service")).group(1)


@pytest.fixture
def start(host, interpreter):
    """A function that starts the engine with a config, and returns (ranks, line) of each pool when all are logged."""
    units = []

    def run(number, config, settings, lines):
        # A name of its own, so that nothing of a run that broke off is taken for this one.
        name = f"plan-{number}-{secrets.token_hex(4)}"
        unit, folder = f"{name}.service", f"/var/tmp/{name}"
        units.append(unit)
        with host.sudo():
            host.check_output(f"mkdir -p {folder} && cp /srv/models/tiny-kimi/*token* {folder}")
            host.check_output(f"printf %s {shlex.quote(json.dumps(config))} > {folder}/config.json")
            environment = [
                f"--setenv={item}"
                for item in (
                    f"PATH={interpreter.rpartition('/')[0]}:/usr/bin:/bin",
                    f"HOME={folder}",
                    "HF_HUB_OFFLINE=1",
                    "PYTHONUNBUFFERED=1",
                    "TRITON_INTERPRET=1",
                    "SGLANG_CPU_OMP_THREADS_BIND=0|1",
                )
            ]
            argv = [interpreter, *_argv(settings, folder, 31000 + 10 * number)]
            command = ["systemd-run", f"--unit={unit}", "--property=LogRateLimitBurst=100000000", *environment, *argv]
            host.check_output(shlex.join(command))
            log = f"journalctl --unit={unit} --all --output=cat --no-pager"
            wait = (
                f"for turn in $(seq {PATIENCE}); do "
                f"[ \"$({log} | grep -c 'Allocating .* host pool')\" -ge {lines} ] && break; "
                f"systemctl is-active --quiet {unit} || break; sleep 1; done; {log}"
            )
            return host.check_output(f"bash -c {shlex.quote(wait)}")

    yield run
    with host.sudo():
        for unit in units:
            host.run(f"systemctl kill --signal=KILL {unit}; systemctl reset-failed {unit}")
            host.run(f"rm -rf /var/tmp/{unit.partition('.')[0]}")


@pytest.mark.parametrize("name", CASES)
def test_the_plan_says_what_the_engine_logs(start, capsys, name):
    config, settings = CASES[name]
    plan = hicache_plan.make_plan({"release": "0.5.23", "model_config": config, **settings})
    predicted = sorted(pool["line"] for pool in plan["pools"] for _rank in range(pool["ranks"]))
    log = start(list(CASES).index(name), config, settings, len(predicted))
    found = ALLOCATING.findall(log)
    logged = sorted(line for _ranks, line in found)
    with capsys.disabled():
        print(f"\n{name}: {settings}")
        for text in dict.fromkeys(predicted):
            print(f"  predicted  {text}")
        for ranks, text in found:
            print(f"  logged     {text}{f'  ({ranks.strip()})' if ranks else ''}")
    assert logged == predicted, log[-4000:]
