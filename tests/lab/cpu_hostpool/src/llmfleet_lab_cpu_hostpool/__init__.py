# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""LAB ONLY: lets SGLang's HiCache run on a host that has no accelerator.

SGLang pins every host pool with ``cudaHostRegister`` and moves pages with GPU kernels. Neither exists on a CPU, so the
server would write its allocation lines and then die. This plugin (entry point group ``sglang.srt.plugins``) replaces
exactly these three things:

* the allocation of a host pool whose device is ``cpu``: the same mapping, without pinning;
* the copies between device pool and host pool: index copies by torch, for MHA and MLA pools;
* the lookup of a rotary embedding kernel, which is imported but never called on a CPU.

Argument parsing, pool sizing, checks, log lines, HTTP and metrics stay SGLang's own. Written against
``sglang/srt/mem_cache/pool_host/{common,mha,mla}.py`` and ``sglang/srt/layers/rotary_embedding/base.py`` of 0.5.23.
Never install it on a host with a GPU.
"""

from __future__ import annotations

import importlib.machinery
import sys
import types

_LAYOUTS = ("layer_first", "page_first")


def allocate_unpinned(dims, dtype, device, pin_memory, allocator, **_registration):
    """Stand-in for ``alloc_with_host_register``: the allocator's own mapping, not registered with CUDA."""
    return allocator.allocate(dims, dtype=dtype, device=device)


def _require_token_rows(host_pool):
    if host_pool.layout not in _LAYOUTS:
        raise NotImplementedError(
            f"the lab's CPU host pool moves pages of the layouts {', '.join(_LAYOUTS)}, not {host_pool.layout}: "
            "start with --hicache-io-backend kernel"
        )


def _copy_rows(target, target_rows, source, source_rows):
    """Copies token rows between two buffers whose shapes differ in unit dimensions only."""
    target[target_rows.cpu()] = source[source_rows.cpu()].reshape(-1, *target.shape[1:])


def _mla_pairs(host_pool):
    """Controller layer number -> [(host rows, device rows)] of an MLA pool."""
    return {
        layer: [(host_pool.data_refs[row], host_pool.device_kv_buffers[host_pool._buffer_index_by_layer[layer]])]
        for layer, row in host_pool._host_layer_by_controller.items()
    }


def _mha_pairs(host_pool):
    """Controller layer number -> [(host keys, device keys), (host values, device values)] of an MHA pool."""
    sides = (
        (host_pool.k_data_refs, host_pool.device_k_buffers),
        (host_pool.v_data_refs, host_pool.device_v_buffers),
    )
    return {
        layer: [(host[layer], device[layer]) for host, device in sides] for layer in range(len(host_pool.k_data_refs))
    }


def _make_backup(pairs_of):
    def backup_from_device_all_layer(self, device_pool, host_indices, device_indices, io_backend):
        _require_token_rows(self)
        for pairs in pairs_of(self).values():
            for host, device in pairs:
                _copy_rows(host, host_indices, device, device_indices)

    return backup_from_device_all_layer


def _make_load(pairs_of):
    def load_to_device_per_layer(
        self, device_pool, host_indices, device_indices, layer_id, io_backend, *, is_draft=False
    ):
        _require_token_rows(self)
        # A pipeline stage is asked for every layer of the model, also for those that it does not hold.
        for host, device in pairs_of(self).get(layer_id, ()):
            _copy_rows(device, device_indices, host, host_indices)

    return load_to_device_per_layer


def _module(name, **attributes):
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, loader=None)
    for key, value in attributes.items():
        setattr(module, key, value)
    return module


def construct_with_rotary_stub(construct, *args, **kwargs):
    """Runs a constructor while ``from vllm._custom_ops import rotary_embedding`` succeeds.

    The stub is visible during the call alone: elsewhere SGLang asks whether vllm is installed and must hear "no".
    """

    def rotary_embedding(*_args, **_kwargs):
        raise NotImplementedError("the lab's rotary stub was called: SGLang left its native CPU path")

    ops = _module("vllm._custom_ops", rotary_embedding=rotary_embedding)
    stubs = {"vllm": _module("vllm", _custom_ops=ops), "vllm._custom_ops": ops}
    added = [name for name in stubs if name not in sys.modules]
    sys.modules.update({name: stubs[name] for name in added})
    try:
        return construct(*args, **kwargs)
    finally:
        for name in added:
            del sys.modules[name]


def register():
    """Entry point: called once by SGLang in each of its processes."""
    from sglang.srt.mem_cache.pool_host.common import ALLOC_MEMORY_FUNCS
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    ALLOC_MEMORY_FUNCS["cpu"] = allocate_unpinned
    for pool, pairs_of in (("mha.MHATokenToKVPoolHost", _mha_pairs), ("mla.MLATokenToKVPoolHost", _mla_pairs)):
        path = f"sglang.srt.mem_cache.pool_host.{pool}"
        HookRegistry.register(f"{path}.backup_from_device_all_layer", _make_backup(pairs_of), HookType.REPLACE)
        HookRegistry.register(f"{path}.load_to_device_per_layer", _make_load(pairs_of), HookType.REPLACE)
    HookRegistry.register(
        "sglang.srt.layers.rotary_embedding.base.RotaryEmbedding.__init__",
        construct_with_rotary_stub,
        HookType.AROUND,
    )
