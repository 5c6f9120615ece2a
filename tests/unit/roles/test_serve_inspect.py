# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What role serve reads of a host before it changes the unit: whether a model can draft for itself."""

from __future__ import annotations

import getpass
import json

# config.json: whether EAGLE without a draft model is refused for it.
CONFIGS = {
    "glm": ({"architectures": ["Glm4MoeForCausalLM"], "num_nextn_predict_layers": 1}, False),
    "deepseek": ({"num_nextn_predict_layers": 1}, False),
    "qwen": ({"text_config": {"mtp_num_hidden_layers": 1}}, False),
    "kimi": ({"num_nextn_predict_layers": 0}, True),
    "kimi-text": ({"text_config": {"num_nextn_predict_layers": 0}}, True),
    "none": ({"mtp_num_hidden_layers": 0, "text_config": {"num_nextn_predict_layers": 0}}, True),
    # Nothing is counted: nobody knows, and the settings have warned of it.
    "silent": ({"architectures": ["MiMoV2FlashForCausalLM"]}, False),
    "odd": ({"num_nextn_predict_layers": None, "text_config": None}, False),
}


def inspect(stage, hosts):
    """Play the tasks for some settings each; returns {name: lines that name the draft} and the whole output."""
    stage.real("serve")
    for name, (config, settings) in hosts.items():
        folder = stage.folder / name
        (folder / "venv" / "bin").mkdir(parents=True)
        (folder / "venv" / "bin" / "python").write_text("")
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "model.safetensors").write_text("")
        one = {
            "name": name,
            "release_dir": str(folder),
            "user": getpass.getuser(),
            "model_path": str(folder),
            "engine_options": {},
            "speculative_enabled": True,
            "speculative_algorithm": "EAGLE",
            "draft_model_path": "",
        }
        stage.hosts[name] = {"__serve_one": {**one, **settings(folder)}}
    tasks = [{"ansible.builtin.include_role": {"name": "llmfleet.sglang.serve", "tasks_from": "inspect.yml"}}]
    _status, output = stage.play(tasks)
    lines = output.splitlines()
    told = {}
    for name in hosts:
        failed = [line for line in lines if line.startswith(f"fatal: [{name}]") or f"[ERROR]: [{name}]" in line]
        told[name] = f"config.json in {stage.folder / name} counts none" in output
        assert bool(failed) is told[name], output
    return told, output


def test_a_model_without_draft_layers_does_not_speculate_by_itself(stage):
    told, output = inspect(stage, {name: (config, lambda _folder: {}) for name, (config, _no) in CONFIGS.items()})
    assert told == {name: refused for name, (_config, refused) in CONFIGS.items()}, output
    assert 'serve_draft_model_path is \\"\\": EAGLE then takes' in output or 'is "": EAGLE then takes' in output, output


def test_only_a_model_that_drafts_for_itself_is_asked(stage):
    config = {"num_nextn_predict_layers": 0}
    cases = {
        "itself": ({"draft_model_path": None}, True),
        "same": ("model", True),
        "nextn": ({"speculative_algorithm": "NEXTN"}, True),
        "draft": ("draft", False),
        "eagle3": ({"speculative_algorithm": "EAGLE3"}, False),
        "off": ({"speculative_enabled": False}, False),
    }

    def settings(change):
        def of(folder):
            if isinstance(change, dict):
                return change
            if change == "model":
                return {"draft_model_path": str(folder)}
            draft = folder / "drafts"
            draft.mkdir()
            (draft / "config.json").write_text("{}")
            (draft / "model.safetensors").write_text("")
            return {"draft_model_path": str(draft)}

        return of

    told, output = inspect(stage, {name: (config, settings(change)) for name, (change, _no) in cases.items()})
    assert told == {name: refused for name, (_change, refused) in cases.items()}, output
