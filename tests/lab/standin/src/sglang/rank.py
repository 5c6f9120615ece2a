# SPDX-License-Identifier: GPL-3.0-or-later
"""One scheduler process: what it prints while it starts, and the faults that strike it there."""

from __future__ import annotations

import mmap
import os
import signal
import time

from . import lines
from .geometry import GIB
from .output import Log, write
from .process import messages, send

FRAMES = (
    ("sglang/srt/managers/scheduler.py", 4630, "run_scheduler_process"),
    ("sglang/srt/managers/scheduler.py", 560, "__init__"),
    ("sglang/srt/mem_cache/pool_host/base.py", 131, "__init__"),
)
CAPTURE_SIZES = [1, 2, 4, 8, 12, 16, 24, 32, 40, 48]


class Stopped(Exception):
    """The rank ends here: its exception was printed and the launcher told."""


class Rank:
    """A rank's start. `start` is the Start that all ranks share, `place` this rank's place in it."""

    def __init__(self, start, place, commands, reports):
        self.start, self.place = start, place
        self.commands, self.reports = commands, reports
        self.args, self.faults, self.last = start.args, start.faults, start.last_rank
        self.log = Log(place.tags, start.args.log_level, start.milliseconds, "ansi" in start.faults)
        self.device = start.device_memory
        self.memory = []

    def hits(self, fault):
        """Does this fault strike this rank?"""
        return self.faults.hits(fault, self.place.index, self.last)

    def pause(self, seconds):
        """Sleep a little more or less by rank, so that the ranks' lines mix as they do in life."""
        time.sleep(seconds + (self.place.index * 7 % 11) * self.start.jitter)

    def hang(self):
        """Wait for ever without using the processor."""
        while True:
            signal.pause()

    def fail(self, problem):
        """Print an exception as the engine does, tell the launcher by SIGQUIT, and end."""
        self.log.error(lines.scheduler_exception(problem, FRAMES))
        os.kill(os.getppid(), signal.SIGQUIT)
        time.sleep(0.2)  # the launcher kills the whole tree
        raise Stopped

    # ---- the start, in the engine's order -------------------------------------------------------------------

    def run(self):
        """The whole life of the process; its exit status."""
        try:
            self.connect()
            self.devices()
            self.cache()
        except Stopped:
            return 1
        send(self.reports, {"ready": self.place.index})
        for message in messages(self.commands):
            if "log" in message:
                self.log.info(message["log"])
            if "error" in message:
                self.log.error(message["error"])
            if "watchdog" in message:
                self.watchdog(message["watchdog"])
            if "stop" in message:
                return 0
        if self.hits("linger"):
            self.hang()
        return 0

    def devices(self):
        """Weights, device pools and graphs: of target and draft together since 0.5.14, one after the other before."""
        target, draft = self.start.geometry(self.place), self.start.draft_geometry(self.place)
        self.load()
        if not draft:
            self.device_pool(target)
            self.capture("target verify" if self.start.accept_length else "target decode")
            return
        if self.start.release.at_least("0.5.14"):
            self.load_draft(draft)
            self.device_pool(target)
            self.device_pool(draft)
            self.capture("target verify", "draft decode", "draft extend")
        else:
            self.device_pool(target)
            self.capture("target verify")
            self.load_draft(draft)
            self.device_pool(draft)
            self.capture("draft decode", "draft extend")

    def connect(self):
        """Find the other ranks."""
        self.pause(self.start.step)
        self.log.info(lines.distributed_begin())
        if "nccl-hang" in self.faults:
            self.hang()
        self.pause(self.start.step)
        self.log.info(lines.distributed_end(0.9))
        if lines.memory_baseline():
            self.log.info(lines.memory_baseline())
        if self.hits("rank-killed-early"):
            os.kill(os.getpid(), signal.SIGKILL)

    def load(self):
        """Read the weights; TP rank 0 shows a bar."""
        self.log.info(lines.load_begin(self.device))
        if self.start.missing_weights:
            self.fail(f"RuntimeError: Cannot find any model weights with `{self.args.model_path}`")
        begun = time.time()
        seconds = self.start.load_seconds
        if self.place.tp == 0 and self.place.pp == 0 and self.place.dp == 0:
            self.weight_bar(seconds)
        else:
            time.sleep(seconds)
        self.device -= self.start.weights
        geometry = self.start.geometry(self.place)
        self.log.info(
            lines.load_end(time.time() - begun, geometry.architecture, geometry.dtype, self.device, self.start.weights)
        )
        if self.hits("cuda-oom"):
            self.fail("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 18.56 GiB.")

    def load_draft(self, draft):
        """The draft model's own lines."""
        if lines.memory_baseline():
            self.log.info(lines.memory_baseline())
        else:
            self.log.info(lines.distributed_begin())
            self.log.info(lines.distributed_end(0.01))
        self.log.info(lines.load_begin(self.device))
        self.device -= 1.0
        self.log.info(lines.load_end(0.1, draft.architecture, draft.dtype, self.device, 1.0))

    def weight_bar(self, seconds):
        """The shards' bar: updates joined by carriage returns, a line end at the end."""
        shards = max(1, self.start.shards)
        steps = sorted({round(shards * part / 8) for part in range(9)})
        for count in steps:
            took = seconds * count / shards
            rate = f"{count / took:5.2f}it/s" if took else "?it/s"
            left = f"00:{int(seconds - took):02d}" if count else "?"
            write(
                2,
                f"\r{self.start.weight_bar_text}: {100 * count // shards:3d}% Completed | {count}/{shards} "
                f"[00:{int(took) % 60:02d}<{left}, {rate}]",
            )
            time.sleep(seconds / len(steps))
        write(2, "\n")

    def device_pool(self, geometry):
        """One device pool."""
        self.pause(self.start.step)
        if "no-kv-room" in self.faults:
            self.fail(lines.no_kv_room(self.args.mem_fraction_static or 0.88))
        tokens = self.start.tokens
        self.log.info(lines.kv_cache(geometry, tokens, self.start.page))
        self.device -= tokens * geometry.bytes_per_token / GIB
        self.log.info(lines.memory_pool_end(max(self.device, 0.5)))

    def capture(self, *names):
        """CUDA graphs, where there is CUDA; TP rank 0 shows a bar."""
        if self.args.device == "cpu" or getattr(self.args, "disable_cuda_graph", False):
            if self.start.release.at_least("0.5.14"):
                self.log.info(lines.no_prefill_graph())
            return
        for name in names:
            if name.startswith("draft") and self.place.tp:  # the engine logs these on rank 0 only
                continue
            tokens = {
                "target decode": 1,
                "draft decode": int(self.args.speculative_eagle_topk or 1),
            }.get(name, int(self.args.speculative_num_draft_tokens or 4))
            begun = time.time()
            self.log.info(lines.capture_begin(name, tokens, CAPTURE_SIZES, max(self.device, 0.5)))
            if self.place.tp == 0:
                self.capture_bar()
            self.pause(self.start.step)
            self.log.info(lines.capture_end(name, time.time() - begun, 0.21, max(self.device - 0.21, 0.3)))
            self.device -= 0.21

    def capture_bar(self, close=True):
        """The graphs' bar: one write, updates joined by carriage returns; open or closed by a line end."""
        total = len(CAPTURE_SIZES)
        text = f"\r  0%|          | 0/{total} [00:00<?, ?it/s]"
        for count, size in enumerate(reversed(CAPTURE_SIZES)):
            if count % 3 == 0:
                full = 10 * count // total
                text += (
                    f"\rCapturing batches (bs={size} avail_mem={max(self.device, 0.5):.2f} GB): "
                    f"{100 * count // total:3d}%|{'█' * full}{' ' * (10 - full)}| {count}/{total} "
                    f"[00:00<00:00,  4.66it/s]"
                )
        if close:
            text += (
                f"\rCapturing batches (bs=1 avail_mem={max(self.device, 0.5):.2f} GB): "
                f"100%|{'█' * 10}| {total}/{total} [00:00<00:00, 16.61it/s]\n"
            )
        write(2, text)

    def cache(self):
        """Capacity, host pools and the prefix cache: what a verifier reads."""
        start = self.start
        if self.place.tp == 0:
            self.log.info(
                lines.totals(
                    start.tokens,
                    start.chunk,
                    start.values["max_prefill_tokens"],
                    start.max_running,
                    start.context_length,
                    self.args.device,
                    max(self.device, 0.5),
                )
            )
        if "flood" in self.faults and self.place.index == 0:
            for number in range(int(self.faults.number("flood"))):
                self.log.info(f"Unsupported element_size = {number} for JIT HiCache kernel")
        if "prompt-quotes-allocation" in self.faults and self.place.index == 0:
            self.log.info(lines.PROMPT_QUOTE)
        if self.hits("hang-before-allocation"):
            self.hang()
        hicache = self.args.enable_hierarchical_cache and "no-hicache-lines" not in self.faults
        if hicache:
            self.host_pools()
        if self.hits("hang-after-allocation"):
            self.hang()
        self.pause(start.step)
        for text in lines.after_host_pool(hicache, start.geometry(self.place).layers):
            self.log.info(text)
        if self.hits("illegal-access"):
            self.fail("torch.AcceleratorError: CUDA error: an illegal memory access was encountered")
        if self.hits("no-compiler"):
            self.fail(
                "RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't exist"
                if self.args.device != "cpu"
                else "torch._inductor.exc.InductorError: InvalidCxxCompiler: No working C++ compiler found in "
                "torch._inductor.config.cpp.cxx: (None, 'g++')"
            )

    def host_pools(self):
        """The host pools: one line each, printed before the memory is taken."""
        start = self.start
        self.pause(start.step)
        for text in lines.before_host_pool(start.host_memory_budget):
            self.log.info(text)
        geometry = start.geometry(self.place)
        tokens = start.host_tokens(geometry)
        self.pool("kv", tokens, geometry.bytes_per_token)
        draft = start.draft_geometry(self.place)
        if draft and start.release.at_least("0.5.11"):
            draft_tokens = start.draft_host_tokens(tokens)
            self.pool("draft", draft_tokens, draft.bytes_per_token)
            registered = lines.draft_registered(draft.kind, draft_tokens)
            if registered:
                self.log.info(registered)

    def pool(self, label, tokens, bytes_per_token):
        """Check, announce and take one host pool."""
        size = tokens * bytes_per_token
        if self.hits("half-bytes"):
            size *= self.faults.number("half-bytes")
        main = label == "kv"
        if main and tokens <= self.start.tokens:
            text, fatal = lines.small_host_pool(label, tokens, self.start.tokens)
            if fatal:
                self.fail(f"AssertionError: {text}")
            self.log.warning(text)
        if main and self.hits("host-memory"):
            self.fail(lines.not_enough_memory(size, self.faults.number("host-memory") * 1e9))
        if size > self.start.host_memory_budget:
            self.fail(lines.not_enough_memory(size, self.start.host_memory_budget))
        if main:
            self.announce(tokens, size)
        else:
            self.log.info(lines.allocating(tokens, size, label))
        self.take(size)

    def announce(self, tokens, size):
        """The main pool's line, and the faults that touch it."""
        if self.hits("rank-missing"):
            return
        if self.hits("rank-wrong-size"):
            asked = self.faults.value("rank-wrong-size")
            size = float(asked) * 1e9 if asked else size * 0.75
            tokens = int(tokens * 0.75) if not asked else tokens
        text = lines.allocating(tokens, size)
        line = self.log.line(text) + "\n"
        if not self.log.enabled("info"):
            return
        if self.hits("eof-mid-line"):
            write(2, line[: len(line) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        if "long-line" in self.faults and self.place.index == 0:
            self.log.info("server state dump: " + "x" * int(self.faults.number("long-line")))
        if self.hits("bar-open"):
            self.capture_bar(close=False)
        if self.hits("pid-change"):
            self.split(line)
        else:
            write(2, line)
        if self.hits("rank-doubled"):
            write(2, line)

    def split(self, line):
        """Half of the line, then a word of another process, then the rest: journald cuts at each change."""
        half = line.index("Allocating") + 14
        write(2, line[:half])
        child = os.fork()
        if child == 0:
            write(2, self.log.line("Unsupported element_size = 656 for JIT HiCache kernel") + "\n")
            os._exit(0)
        os.waitpid(child, 0)
        write(2, line[half:])

    def take(self, size):
        """Take the memory: none, but what SGLANG_STANDIN_TOUCH_MB asks for; then the faults of this step."""
        if self.hits("rank-killed"):
            time.sleep(0.3)  # the other ranks have printed their lines by now
            os.kill(os.getpid(), signal.SIGKILL)
        if self.hits("host-register"):
            time.sleep(0.3)
            self.fail(lines.register_failed(self.faults.value("host-register"), size))
        wanted = int(min(size, self.start.touch_bytes))
        if wanted:
            block = mmap.mmap(-1, wanted)
            for offset in range(0, wanted, 4096):
                block[offset] = 1
            self.memory.append(block)
        time.sleep(self.start.allocation_seconds)

    def watchdog(self, timeout):
        """The rank's own watchdog found it stuck."""
        self.log.error(lines.watchdog(timeout))
        write(2, "\n")
        time.sleep(self.start.watchdog_grace)
        os.kill(os.getppid(), signal.SIGQUIT)
