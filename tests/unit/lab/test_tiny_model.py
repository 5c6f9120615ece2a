# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tiny model has Kimi's KV geometry, and is complete and the same wherever it is made."""

from __future__ import annotations

import hashlib
import json
import statistics
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import safetensors_index
from ansible_collections.llmfleet.sglang.tests.lab import server
from ansible_collections.llmfleet.sglang.tests.lab.tiny_model import make_tiny_model as subject

# Changes with every change of the model: hosts of the lab then fetch it anew, and inventories name the new commit.
SHA256 = "4f1853bc07c6fbec4812e46474be3d3b0661fab0f8060075bdfc0ad1234acf06"


@pytest.fixture(scope="module")
def files():
    """File name -> bytes of the default model."""
    return subject.model_files()


def header_of(content):
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def test_same_bytes_everywhere(files):
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(name.encode() + b"\0" + files[name])
    assert digest.hexdigest() == SHA256
    assert subject.model_files() == files


def test_another_seed_gives_other_weights(files):
    other = subject.model_files(seed=1)
    assert other["config.json"] == files["config.json"]
    assert other["model-00001-of-000002.safetensors"] != files["model-00001-of-000002.safetensors"]


@pytest.mark.parametrize(("layers", "shards"), [(1, 1), (3, 2), (3, 5), (6, 4)])
def test_folder_is_complete(tmp_path, layers, shards):
    subject.write(tmp_path, subject.model_files(layers, shards))
    result = safetensors_index.check_folder(str(tmp_path))
    assert result["problems"] == []
    assert result["kind"] == "safetensors-index"
    assert sum(name.endswith(".safetensors") for name in result["files"]) == shards
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    data = sum(
        len(header_of((tmp_path / name).read_bytes())[1]) for name in result["files"] if name.endswith(".safetensors")
    )
    assert index["metadata"]["total_size"] == data


def test_cached_token_costs_what_it_costs_in_kimi(files):
    config = json.loads(files["config.json"])
    assert (config["kv_lora_rank"] + config["qk_rope_head_dim"]) * 2 == 1152
    assert config["torch_dtype"] == "bfloat16"
    index = json.loads(files["model.safetensors.index.json"])["weight_map"]
    for layer in range(config["num_hidden_layers"]):
        header, _data = header_of(files[index[f"model.layers.{layer}.self_attn.kv_a_proj_with_mqa.weight"]])
        entry = header[f"model.layers.{layer}.self_attn.kv_a_proj_with_mqa.weight"]
        assert entry["dtype"] == "BF16"
        assert entry["shape"] == [576, config["hidden_size"]]


def test_weights_are_small_and_centred(files):
    header, data = header_of(files["model-00001-of-000002.safetensors"])
    start, end = header["model.layers.0.self_attn.o_proj.weight"]["data_offsets"]
    values = [struct.unpack("<f", b"\0\0" + data[at : at + 2])[0] for at in range(start, end, 2)]
    assert abs(statistics.fmean(values)) < 0.001
    assert 0.015 < statistics.pstdev(values) < 0.025
    start, end = header["model.layers.0.input_layernorm.weight"]["data_offsets"]
    assert {struct.unpack("<f", b"\0\0" + data[at : at + 2])[0] for at in range(start, end, 2)} == {1.0}


def test_tokenizer_has_every_byte_and_the_parsers_tokens(files):
    tokenizer = json.loads(files["tokenizer.json"])
    vocabulary = tokenizer["model"]["vocab"]
    assert sorted(vocabulary.values()) == list(range(len(vocabulary)))
    assert len(vocabulary) <= json.loads(files["config.json"])["vocab_size"]
    alphabet = subject.byte_alphabet()
    assert len(set(alphabet)) == 256
    assert (alphabet[ord("A")], alphabet[ord(" ")], alphabet[ord("\n")]) == ("A", "Ġ", "Ċ")
    added = {entry["content"]: entry["id"] for entry in tokenizer["added_tokens"]}
    assert added["</think>"] == vocabulary["</think>"]
    assert {"<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>"} <= added.keys()
    config = json.loads(files["config.json"])
    assert (added["<s>"], added["</s>"]) == (config["bos_token_id"], config["eos_token_id"])


def test_second_run_changes_nothing_and_mends_what_differs(tmp_path):
    script = subject.__file__

    def run():
        done = subprocess.run([sys.executable, script, str(tmp_path)], capture_output=True, text=True, check=True)
        return done.stdout.split(" ")[0]

    assert run() == "changed"
    assert run() == "unchanged"
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model-00003-of-000003.safetensors").write_text("of another run")
    assert run() == "changed"
    assert run() == "unchanged"
    assert not (tmp_path / "model-00003-of-000003.safetensors").exists()


@pytest.mark.parametrize(("layers", "shards", "message"), [(0, 1, "layers"), (3, 0, "shards"), (3, 6, "shards")])
def test_impossible_numbers(tmp_path, layers, shards, message, capsys):
    with pytest.raises(SystemExit) as ended:
        subject.main([str(tmp_path / "out"), "--layers", str(layers), "--shards", str(shards)])
    assert ended.value.code == 2
    assert f"{message} must be" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_inventory_of_the_lab_names_the_commit(tmp_path, files):
    subject.write(tmp_path, files)
    inventory = Path(subject.__file__).parents[3] / "inventories" / "lab" / "group_vars" / "lab" / "model.yml"
    assert f"\nmodel_revision: {server.HubRepository(tmp_path).revision}\n" in inventory.read_text()
