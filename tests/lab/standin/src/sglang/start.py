# SPDX-License-Identifier: GPL-3.0-or-later
"""One start: the arguments as they end up, sizes that all ranks share, and the stand-in's own settings."""

from __future__ import annotations

import glob
import json
import os

from . import forwarded
from . import geometry as kv
from .faults import from_environment
from .plan import places
from .release import RELEASE

EAGLE_FAMILY = ("EAGLE", "EAGLE3", "STANDALONE", "NEXTN")
DEVICE_GIB = 94.97  # an RTX PRO 6000 Blackwell
UNLIMITED = 1e15


def setting(name, default):
    """A number from the environment variable SGLANG_STANDIN_<name>."""
    return float(os.environ.get(f"SGLANG_STANDIN_{name}", default))


class Start:
    """What main process and ranks know of this start."""

    def __init__(self, args, release=RELEASE):
        self.args, self.release = args, release
        self.faults = from_environment()
        self.config = kv.read_config(args.model_path)
        self.draft_config = self.read_draft()
        self.resolve()
        self.places = places(args, release)
        self.last_rank = len(self.places) - 1
        self.milliseconds = os.environ.get("SGLANG_LOG_MS", "").lower() in ("1", "true", "yes")
        self.step = setting("STEP_MS", 20) / 1000
        self.jitter = self.step / 5
        self.load_seconds = self.faults.number("slow-load") or setting("LOAD_SECONDS", 0.2)
        self.allocation_seconds = setting("ALLOCATION_SECONDS", 0)
        self.touch_bytes = int(setting("TOUCH_MB", 0) * 2**20)
        self.watchdog_grace = setting("WATCHDOG_GRACE_SECONDS", 5)
        self.poll_seconds = setting("POLL_SECONDS", 5)
        self.drain_seconds = setting("DRAIN_SECONDS", 5)
        self.token_delay = setting("TOKEN_DELAY_MS", 1) / 1000
        self.health_seconds = setting("HEALTH_SECONDS", 0.1)
        self.warmup_tries = int(setting("WARMUP_TRIES", 120))
        self.host_memory_budget = self.find_budget()
        self.accept_length = self.find_accept_length()
        self.trusted = forwarded.from_environment(self.faults)

    def read_draft(self):
        """The draft's config.json, where the algorithm has a draft model of its own."""
        args = self.args
        if not args.speculative_algorithm or args.speculative_algorithm.upper() not in EAGLE_FAMILY:
            return None
        if not args.speculative_draft_model_path:
            return None
        return kv.read_config(args.speculative_draft_model_path)

    def resolve(self):
        """Fill in what the engine decides by itself; `values` is what it prints and serves."""
        args = self.args
        text = self.config.get("text_config") or self.config
        args.device = args.device or "cuda"
        self.requests_capped = False
        args.tokenizer_path = args.tokenizer_path or args.model_path
        args.served_model_name = args.served_model_name or args.model_path
        args.page_size = self.page = kv.page_size(args)
        if args.hicache_ratio is None:
            args.hicache_ratio = 2.0
        if args.enable_hierarchical_cache and args.disable_radix_cache:
            raise ValueError(
                "The arguments enable-hierarchical-cache and disable-radix-cache are mutually exclusive "
                "and cannot be used at the same time. Please use only one of them."
            )
        if args.speculative_algorithm:
            if args.speculative_num_steps and args.speculative_eagle_topk == 1:
                args.speculative_num_draft_tokens = args.speculative_num_steps + 1
            self.requests_capped = not args.max_running_requests
            args.max_running_requests = args.max_running_requests or 48
            args.speculative_draft_model_revision = args.speculative_draft_model_revision or "main"
        args.chunked_prefill_size = args.chunked_prefill_size or (4096 if args.device == "cpu" else 8192)
        self.tokens = kv.device_tokens(args, self.page)
        self.chunk = args.chunked_prefill_size
        self.max_running = args.max_running_requests or (4096 if args.device == "cpu" else 2048)
        self.context_length = int(args.context_length or text.get("max_position_embeddings") or 4096)
        self.device_memory = DEVICE_GIB
        self.shards, self.weights, self.missing_weights = self.find_weights()
        self.weight_bar_text = (
            "Multi-thread loading shards"
            if self.release.at_least("0.5.10")
            else "Loading safetensors checkpoint shards"
        )
        first = {name: getattr(args, name) for name in ("model_path", "tokenizer_path")}
        rest = {name: value for name, value in sorted(vars(args).items()) if name not in first and name != "config"}
        self.values = {**first, **rest, "max_prefill_tokens": rest.get("max_prefill_tokens") or 16384}

    def find_weights(self):
        """Number of weight files, GiB of one rank, and whether the engine would not find any."""
        path = self.args.model_path
        files = [name for kind in ("*.safetensors", "*.bin", "*.pt") for name in glob.glob(os.path.join(path, kind))]
        size = sum(os.path.getsize(name) for name in files)
        try:
            with open(os.path.join(path, "model.safetensors.index.json"), encoding="utf-8") as stream:
                size = max(size, int(json.load(stream).get("metadata", {}).get("total_size", 0)))
        except (OSError, ValueError):
            pass
        ignored = os.environ.get("SGLANG_STANDIN_IGNORE_WEIGHTS") == "1" or self.args.load_format == "dummy"
        return len(files), min(size / 2**30 / self.args.tp_size, 69.0), not files and not ignored

    def find_budget(self):
        """Bytes that one rank may take from the host: unlimited unless SGLANG_STANDIN_HOST_MEMORY_GB is set."""
        total = os.environ.get("SGLANG_STANDIN_HOST_MEMORY_GB")
        if not total:
            return UNLIMITED
        free = float(total) * 1e9 - 10 * 2**30
        return free / len(self.places) if self.release.at_least("0.5.19") else free

    def find_accept_length(self):
        """Mean accept length with speculation, None without. EAGLE with a draft made for EAGLE-3 gives 1.00."""
        algorithm = (self.args.speculative_algorithm or "").upper()
        if not algorithm:
            return None
        if "accept-length" in self.faults:
            return self.faults.number("accept-length")
        if algorithm in ("EAGLE", "NEXTN") and self.draft_config:
            names = " ".join(self.draft_config.get("architectures") or []) + self.args.speculative_draft_model_path
            if "eagle3" in names.lower():
                return 1.0
        return setting("ACCEPT_LENGTH", 3.2)

    def geometry(self, place):
        """KV geometry of a rank's target model."""
        args = self.args
        return kv.geometry(self.config, place.attention_tp, args.pp_size, place.pp, args.kv_cache_dtype)

    def draft_geometry(self, place):
        """KV geometry of a rank's draft model, or None."""
        if not self.draft_config:
            return None
        return kv.geometry(self.draft_config, place.attention_tp, 1, 0, self.args.kv_cache_dtype)

    def host_tokens(self, geometry):
        """Tokens of the target's host pool."""
        args = self.args
        return kv.host_tokens(
            self.tokens, geometry.bytes_per_token, args.hicache_ratio, args.hicache_size, self.page, self.release
        )

    def draft_host_tokens(self, host):
        """Tokens of the draft's host pool."""
        return kv.draft_host_tokens(host, self.tokens, self.page, self.release)
