# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's CPU host-pool plugin, held against the names that SGLang 0.5.23 gives; the real engine runs in the lab."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import subprocess
import sys
import types
import zipfile
from pathlib import Path

import pytest
from ansible_collections.llmfleet.sglang.tests.lab.cpu_hostpool import build_wheel

# A release of the lab is named by the version: sources that change need another one.
RELEASED = {"0.1.0": "c9375958542e545c505412b9656e1f22a972286715a9f83539342a3de2c912e4"}


def load_plugin():
    path = build_wheel.SOURCE / build_wheel.NAME / "__init__.py"
    spec = importlib.util.spec_from_file_location(build_wheel.NAME, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


plugin = load_plugin()


class Indices(list):
    """Token numbers as SGLang hands them over."""

    def cpu(self):
        return self


class Rows:
    """Buffer of token rows: as much of a tensor as copying rows takes."""

    def __init__(self, rows, width=1):
        self.rows = list(rows)
        self.shape = (len(self.rows), width)

    def __getitem__(self, numbers):
        return Rows([self.rows[number] for number in numbers], self.shape[1])

    def __setitem__(self, numbers, value):
        for number, row in zip(numbers, value.rows):
            self.rows[number] = row

    def reshape(self, *shape):
        assert shape == (-1, self.shape[1])
        return self


def mla_pool(layout="layer_first"):
    """Host pool of two target layers (10 and 11 of the model) and one draft layer."""
    return types.SimpleNamespace(
        layout=layout,
        data_refs=[Rows("......") for _ in range(3)],
        device_kv_buffers=(Rows("abcd"), Rows("efgh"), Rows("ijkl")),
        _buffer_index_by_layer={10: 0, 11: 1, 61: 2},
        _host_layer_by_controller={10: 0, 11: 1, 61: 2},
    )


def mha_pool():
    return types.SimpleNamespace(
        layout="page_first",
        k_data_refs=[Rows("....")],
        v_data_refs=[Rows("....")],
        device_k_buffers=[Rows("kK")],
        device_v_buffers=[Rows("vV")],
    )


def hooks():
    """What the plugin registers: (allocation functions, {target: (hook, type)})."""
    registered = {}
    registry = types.SimpleNamespace(register=lambda target, hook, kind: registered.update({target: (hook, kind)}))
    kinds = types.SimpleNamespace(REPLACE="replace", AROUND="around")
    allocation = {}
    modules = {
        "sglang.srt.mem_cache.pool_host.common": types.SimpleNamespace(ALLOC_MEMORY_FUNCS=allocation),
        "sglang.srt.plugins.hook_registry": types.SimpleNamespace(HookRegistry=registry, HookType=kinds),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, module in modules.items():
            parts = name.split(".")
            for depth in range(1, len(parts)):
                patch.setitem(sys.modules, ".".join(parts[:depth]), types.ModuleType(parts[depth - 1]))
            patch.setitem(sys.modules, name, module)
        plugin.register()
    return allocation, registered


def test_pages_go_out_and_come_back():
    _allocation, registered = hooks()
    base = "sglang.srt.mem_cache.pool_host.mla.MLATokenToKVPoolHost"
    backup, load = (
        registered[f"{base}.{name}"][0] for name in ("backup_from_device_all_layer", "load_to_device_per_layer")
    )
    pool = mla_pool()
    backup(pool, None, Indices([4, 5]), Indices([1, 3]), "kernel")
    assert ["".join(buffer.rows) for buffer in pool.data_refs] == ["....bd", "....fh", "....jl"]
    load(pool, None, Indices([5, 4]), Indices([0, 1]), 11, "kernel")
    load(pool, None, Indices([4]), Indices([3]), 61, "kernel", is_draft=True)
    assert ["".join(buffer.rows) for buffer in pool.device_kv_buffers] == ["abcd", "hfgh", "ijkj"]


def test_layer_of_another_stage_is_left_alone():
    _allocation, registered = hooks()
    load = registered["sglang.srt.mem_cache.pool_host.mla.MLATokenToKVPoolHost.load_to_device_per_layer"][0]
    pool = mla_pool()
    load(pool, None, Indices([0]), Indices([0]), 9, "kernel")
    assert ["".join(buffer.rows) for buffer in pool.device_kv_buffers] == ["abcd", "efgh", "ijkl"]


def test_keys_and_values_go_out_and_come_back():
    _allocation, registered = hooks()
    base = "sglang.srt.mem_cache.pool_host.mha.MHATokenToKVPoolHost"
    pool = mha_pool()
    registered[f"{base}.backup_from_device_all_layer"][0](pool, None, Indices([3, 2]), Indices([0, 1]), "kernel")
    assert (pool.k_data_refs[0].rows, pool.v_data_refs[0].rows) == (list("..Kk"), list("..Vv"))
    registered[f"{base}.load_to_device_per_layer"][0](pool, None, Indices([2, 3]), Indices([0, 1]), 0, "kernel")
    assert (pool.device_k_buffers[0].rows, pool.device_v_buffers[0].rows) == (list("Kk"), list("Vv"))


def test_layout_of_pages_is_refused_with_its_mend():
    _allocation, registered = hooks()
    backup = registered["sglang.srt.mem_cache.pool_host.mla.MLATokenToKVPoolHost.backup_from_device_all_layer"][0]
    with pytest.raises(NotImplementedError, match="page_first_direct: start with --hicache-io-backend kernel"):
        backup(mla_pool("page_first_direct"), None, Indices([0]), Indices([0]), "direct")


def test_host_pool_is_allocated_without_pinning():
    allocation, _registered = hooks()
    calls = []
    allocator = types.SimpleNamespace(
        allocate=lambda dims, dtype, device: calls.append((dims, dtype, device)) or "buffer"
    )
    got = allocation["cpu"](
        (3, 64, 1, 576),
        dtype="bf16",
        device="cpu",
        pin_memory=True,
        allocator=allocator,
        registration_granularity_bytes=1,
    )
    assert (got, calls) == ("buffer", [((3, 64, 1, 576), "bf16", "cpu")])


def test_rotary_stub_is_seen_during_the_call_alone():
    _allocation, registered = hooks()
    around, kind = registered["sglang.srt.layers.rotary_embedding.base.RotaryEmbedding.__init__"]

    def construct(word):
        from vllm._custom_ops import rotary_embedding

        with pytest.raises(NotImplementedError, match="native CPU path"):
            rotary_embedding()
        return word

    assert (kind, around(construct, "made")) == ("around", "made")
    assert importlib.util.find_spec("vllm") is None

    def fail():
        raise ValueError

    with pytest.raises(ValueError):
        around(fail)
    assert "vllm" not in sys.modules


def test_wheel_is_the_same_each_time_and_lists_what_it_holds(tmp_path):
    first, changed = build_wheel.build(tmp_path / "one")
    assert changed is True
    assert build_wheel.build(tmp_path / "one") == (first, False)
    second, _changed = build_wheel.build(tmp_path / "two")
    assert first.read_bytes() == second.read_bytes()
    assert [path.name for path in first.parent.iterdir()] == [first.name]
    info = f"{build_wheel.NAME}-{build_wheel.VERSION}.dist-info"
    with zipfile.ZipFile(first) as archive:
        recorded = dict(line.split(",")[:2] for line in archive.read(f"{info}/RECORD").decode().splitlines())
        assert sorted(recorded) == sorted(archive.namelist())
        for name in set(recorded) - {f"{info}/RECORD"}:
            digest = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode()
            assert recorded[name] == f"sha256={digest}"
        assert "[sglang.srt.plugins]" in archive.read(f"{info}/entry_points.txt").decode()


def test_sources_that_changed_have_another_version():
    source = (build_wheel.SOURCE / build_wheel.NAME / "__init__.py").read_bytes()
    assert RELEASED.get(build_wheel.VERSION) == hashlib.sha256(source).hexdigest()
    pinned = (Path(build_wheel.__file__).parents[1] / "engine" / "requirements-cpu-nodeps.txt").read_text()
    assert f"llmfleet-lab-cpu-hostpool=={build_wheel.VERSION}\n" in pinned


def test_command_line_says_whether_it_changed_anything(tmp_path):
    def run():
        argv = [sys.executable, build_wheel.__file__, "--out", str(tmp_path)]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split(" ")[0]

    assert [run(), run()] == ["changed", "unchanged"]
