# SPDX-License-Identifier: GPL-3.0-or-later
"""The serving side without a model: requests, a prefix cache with two tiers, counters."""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections import OrderedDict

ANSWER = "This answer comes from a stand-in without a model : it only counts tokens and keeps a prefix cache ."
THOUGHT = "The stand-in thinks of nothing ."
DECODE_LOG_INTERVAL = 40


def tokenize(text):
    """Pieces of four characters: enough for counting, and a common prefix stays common."""
    return [text[at : at + 4] for at in range(0, len(text), 4)]


class PrefixCache:
    """Pages by the hash of their whole prefix, newest last, on the device and in the host pool."""

    def __init__(self, page, device_tokens, host_tokens, enabled):
        self.page, self.enabled = page, enabled
        self.room = {"device": device_tokens // page, "host": host_tokens // page}
        self.tiers = {"device": OrderedDict(), "host": OrderedDict()}
        self.loaded_back = self.evicted = self.backed_up = 0

    def keys(self, tokens):
        """One key per whole page of the tokens."""
        key = 0
        for at in range(0, len(tokens) - self.page + 1, self.page):
            key = hash((key, *tokens[at : at + self.page]))
            yield key

    def put(self, tier, key):
        """Keep a page in a tier, dropping the oldest where it is full."""
        if not self.room[tier]:
            return
        pages = self.tiers[tier]
        if key not in pages and tier == "host":
            self.backed_up += self.page
        pages[key] = True
        pages.move_to_end(key)
        while len(pages) > self.room[tier]:
            pages.popitem(last=False)
            self.evicted += self.page if tier == "device" else 0

    def match(self, tokens):
        """(tokens found on the device, tokens found on the host) at the front; at least one token stays new."""
        found = {"device": 0, "host": 0}
        if not self.enabled:
            return 0, 0
        for key in self.keys(tokens[:-1]):
            if key in self.tiers["device"]:
                found["device"] += self.page
            elif key in self.tiers["host"]:
                found["host"] += self.page
                self.loaded_back += self.page
                self.put("device", key)
            else:
                break
        return found["device"], found["host"]

    def insert(self, tokens):
        """Remember a finished sequence; write-through to the host pool."""
        if not self.enabled:
            return
        for key in self.keys(tokens):
            self.put("device", key)
            self.put("host", key)

    def used(self, tier):
        """Tokens in a tier."""
        return len(self.tiers[tier]) * self.page


class Request:
    """One running generation."""

    def __init__(self, rid, prompt, max_tokens, cached_device, cached_host):
        self.rid, self.prompt, self.max_tokens = rid, prompt, max_tokens
        self.cached_device, self.cached_host = cached_device, cached_host
        self.tokens = []
        self.finish = "stop"
        self.begun = time.time()

    @property
    def cached(self):
        """Prompt tokens that came from the cache."""
        return self.cached_device + self.cached_host


class Engine:
    """State of the serving process; `rank_log` prints a line in rank 0's process."""

    def __init__(self, start, rank_log):
        self.start, self.rank_log = start, rank_log
        args = start.args
        geometry = start.geometry(start.places[0])
        self.hicache = bool(args.enable_hierarchical_cache) and "no-hicache-lines" not in start.faults
        self.host_tokens = start.host_tokens(geometry) if self.hicache else 0
        radix = not args.disable_radix_cache and "no-cached-tokens" not in start.faults
        self.cache = PrefixCache(start.page, start.tokens, self.host_tokens, radix)
        self.lock = threading.Lock()
        self.running = OrderedDict()
        self.asked = self.finished = 0
        self.prompt_tokens = self.cached_tokens = self.cached_host_tokens = self.generated_tokens = 0
        self.seconds_to_first = []
        self.dead = threading.Event()  # a rank is gone and nobody noticed: nothing answers any more
        self.status = "Starting"
        self.steps = 0

    def begin(self, prompt, max_tokens, counted=True):
        """Admit a request; prefill is logged as the engine does."""
        with self.lock:
            device, host = self.cache.match(prompt)
            request = Request(uuid.uuid4().hex, prompt, max_tokens, device, host)
            running = len(self.running)
            self.running[request.rid] = request
            if counted:
                self.asked += 1
                self.prompt_tokens += len(prompt)
                self.cached_tokens += device
                self.cached_host_tokens += host
            usage = self.cache.used("device") / max(1, self.start.tokens)
        self.rank_log("prefill", max(1, len(prompt) - request.cached), request.cached, usage, running)
        return request

    def stuck(self):
        """Does the generation hang?"""
        limit = self.start.faults.number("generation-hangs")
        return self.dead.is_set() or (limit is not None and self.asked > limit)

    def words(self, request, reasoning):
        """(kind, piece) for each token to come; kind is "reasoning" or "content"."""
        limit = self.start.faults.number("nan-after")
        if limit is not None and self.asked > limit:
            yield from (("content", "!") for _ in range(request.max_tokens))
            return
        if reasoning:
            yield from (("reasoning", word + " ") for word in THOUGHT.split())
        yield from (("content", word + " ") for word in ANSWER.split())

    def generate(self, request, reasoning=False, endless=False):
        """Yield (kind, piece) per token with the set delay; ends the request in any case."""
        source = self.words(request, reasoning)
        if endless:
            source = itertools.chain(source, (("content", word + " ") for word in itertools.cycle(ANSWER.split())))
        accept = self.start.accept_length
        try:
            while self.stuck():
                time.sleep(3600)
            for kind, piece in source:
                if len(request.tokens) >= request.max_tokens:
                    request.finish = "length"
                    break
                time.sleep(self.start.token_delay)
                request.tokens.append(piece)
                self.steps += 1
                if self.steps % int(DECODE_LOG_INTERVAL * (accept or 1)) == 0:
                    used = self.cache.used("device")
                    self.rank_log("decode", len(self.running), used, used / max(1, self.start.tokens))
                yield kind, piece
        finally:
            self.end(request)

    def end(self, request):
        """Forget a request and remember its tokens."""
        with self.lock:
            if self.running.pop(request.rid, None):
                self.finished += 1
                self.generated_tokens += len(request.tokens)
                self.cache.insert(request.prompt + request.tokens)
