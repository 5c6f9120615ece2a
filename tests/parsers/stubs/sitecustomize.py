# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Python reads this file first where its folder is on PYTHONPATH: SGLang's parser then imports without torch.

The parser is a few files of SGLang, but importing them imports much that parsing never calls: 3 GB of packages. Those
in ABSENT become modules in which every name is a class that does nothing. Packages that the parser does use, such as
msgspec, are the real ones.
"""

from __future__ import annotations

import abc
import importlib.abc
import importlib.machinery
import os
import sys
import types

# Not installed, and not called while arguments are parsed.
ABSENT = {
    *("IPython", "PIL", "aiohttp", "dill", "fastapi", "huggingface_hub", "numpy", "openai", "partial_json_parser"),
    *("psutil", "pybase64", "pydantic", "pydantic_core", "requests", "safetensors", "sentencepiece", "starlette"),
    *("torch", "torchvision", "tqdm", "transformers", "triton", "uvicorn", "uvloop", "xgrammar", "zmq"),
}
# Parts of SGLang itself that the parser imports and does not call.
UNUSED = (
    "sglang.jit_kernel.utils",
    "sglang.kernels.ops.attention",
    "sglang.srt.configs",
    "sglang.srt.connector",
    "sglang.srt.distributed",
    "sglang.srt.utils.hf_transformers",
    "sglang.srt.utils.hf_transformers_utils",
)
# Names whose mere presence would mean a device.
NO_DEVICES = {("torch", "hpu"), ("torch", "musa"), ("torch", "npu"), ("triton", "runtime")}


class Nothing(abc.ABCMeta):
    """The class of a class that may be called, subscribed, compared and inherited from, to no effect."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub

    def __call__(cls, *arguments, **named):
        if len(arguments) == 1 and not named and callable(arguments[0]) and not isinstance(arguments[0], Nothing):
            return arguments[0]  # a decorator
        return Stub if cls is Stub else super().__call__(*arguments, **named)

    def __getitem__(cls, key):
        return Stub

    def __setitem__(cls, key, value):
        pass

    def __contains__(cls, key):
        return False

    def __iter__(cls):
        return iter(())

    def __len__(cls):
        return 0

    def __bool__(cls):
        return False

    def __int__(cls):
        return 0

    __index__ = __int__

    def __float__(cls):
        return 0.0

    def __lt__(cls, other):
        return False

    __le__ = __gt__ = __ge__ = __lt__

    def __add__(cls, other):
        return Stub

    __or__ = __ror__ = __radd__ = __sub__ = __mul__ = __rmul__ = __truediv__ = __add__


class Stub(metaclass=Nothing):
    """Stands for everything that an absent package has."""

    def __init_subclass__(cls, **_named):
        pass


class AbsentModule(types.ModuleType):
    """A module in which every name is Stub."""

    __version__ = "99.0.0"

    def __getattr__(self, name):
        if name.startswith("__") or (self.__name__, name) in NO_DEVICES:
            raise AttributeError(name)
        return Stub


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds absent modules, and the package sglang without the code that it runs when it is imported."""

    def find_spec(self, name, path, target=None):
        """The spec of a module that this file stands in for."""
        if name == "sglang":
            spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
            spec.submodule_search_locations = [os.path.join(folder, name) for folder in sys.path]
            return spec
        if name.partition(".")[0] in ABSENT or any(f"{name}.".startswith(f"{part}.") for part in UNUSED):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        """An empty module, with everything in it where it is an absent one."""
        return types.ModuleType(spec.name) if spec.name == "sglang" else AbsentModule(spec.name)

    def exec_module(self, module):
        """Nothing is executed."""


sys.meta_path.insert(0, Finder())
