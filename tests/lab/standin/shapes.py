#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the shapes of two engines' log lines: figures, times, names and paths replaced by words.

`differences(real, standin)` is what the tests use: on a saved log of the real engine, and in the lab on the journal
of a live one. Text or a list of journal messages goes in, sentences come out; no sentence means no drift.

    shapes.py REAL.log STANDIN.log
"""

from __future__ import annotations

import re
import sys
from collections import namedtuple
from pathlib import Path

# tags: rank part of the prefix with figures replaced (" TPn"), None for text without a prefix; text: the shape
Shape = namedtuple("Shape", "tags text")

PREFIX = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})?((?: [A-Za-z_]+\d+)*)\] ?")
ANSI = re.compile(r"\x1b\[[0-9;]*m")
BAR = re.compile(r"^(.*?): +\d+%.*\|.*\[.*\]$|^ +\d+%\|.*\]$")

# Kinds of lines that other programs read: each must be there on both sides, with the same shape.
RELIED_ON = {
    "server_args": r"server_args=",
    "distributed": r"Init (?:parallel|torch distributed) (?:begin|ends)\.",
    "weights": r"Load weight (?:begin|end)\.",
    "device_pool": r"KV Cache is allocated\.",
    "pools_end": r"Memory pool end\.",
    "totals": r"max_total_num_tokens=",
    "host_pool": r"Allocating ",
    "cache": r"Tree cache initialized:",
    "uvicorn": r"INFO: +(?:Started server process|Waiting for application startup|Application startup complete|"
    r"Uvicorn running on)",
    "access": r'INFO: +ADDRESS - "[A-Z]+ /\S* HTTP/1\.1" N ',
    "prefill": r"Prefill batch, ",
    "ready": r"The server is fired up and ready to roll!",
    "drain": r"SIGTERM received\.",
    "draining": r"Gracefully exiting\.\.\.",
    "end": r"kill_process_tree called:",
}

# What the real engine says and the stand-in does not, each with its reason.
NOT_IMITATED = (
    (r".*(?:Warning: |warn\()|^ +\S|^\[?Example: ", "warnings of Python libraries, with their source lines"),
    (r"nanobind:| - (?:leaked|\.\.\.)|See https:/PATH", "a library's leak report when the interpreter ends"),
    (
        r"SGLANG_CPU_OMP_THREADS_BIND is set|init_threads_binding:|init_cpu_threads_env|The total number of ranks|"
        r"TP size \(N\)is larger",
        "binding of threads, on a CPU only",
    ),
    (r"Fail to set RLIMIT_NOFILE", "depends on the limits of the test machine, not on the engine"),
    (r"Tokenizer for PATH is still TokenizersBackend", "the lab's byte tokenizer has no class of its own"),
    (
        r"Cannot detect CUDA architecture|multimem all-gather disabled|Setup Custom allreduce failed|"
        r"torch\.cpu\.Event does not support timing",
        "no CUDA in the real run",
    ),
    (r"Ignore import error when loading", "optional model files of the real package"),
    (r"Config does not support fused shared expert|FlashInfer TRTLLM MoE deferred", "kernel choice of the tiny model"),
    (r"Using fallback token IDs|OpenAI Responses API", "endpoints that the stand-in does not have"),
    (r"Cache flushed successfully", "the stand-in flushes in the main process"),
    (r"INFO: +Waiting for background tasks", "only where a response task still runs at the end"),
    (r"Endpoint '/get_load'", "endpoint not imitated"),
    (r'INFO: +ADDRESS - "(?:GET|POST) /(?:v1/loads|get_load|hicache/storage-backend|ping) ', "endpoints not imitated"),
)
# What the stand-in says and the saved real log does not.
ONLY_STANDIN = ((r"Decode batch, ", "needs 40 decode steps, more than a short real run has"),)


def records(text):
    """Lines of a log or messages of a journal, cut at carriage returns and at each prefix."""
    lines = text.splitlines() if isinstance(text, str) else [line for message in text for line in message.split("\n")]
    for line in lines:
        for part in re.split(r"[\r\n]", ANSI.sub("", line)):
            starts = [match.start() for match in PREFIX.finditer(part)]
            bounds = [0, *starts, len(part)]
            for begin, end in zip(bounds, bounds[1:]):
                if part[begin:end].strip():
                    yield part[begin:end].rstrip()


def shape_text(text):
    """Replace all that may differ between two runs."""
    text = re.sub(r"(server_args=)(\{|ServerArgs\().*", r"\1\2...", text)
    text = re.sub(r"remaining_rids=\[.*?\]", "remaining_rids=[RIDS]", text)
    text = re.sub(r"\b\d{1,3}(?:\.\d{1,3}){3}:\d+", "ADDRESS", text)
    text = re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+[\w.+-]+(?![^ ]* HTTP/)", "PATH", text)
    text = re.sub(r"\b[0-9a-f]{32}\b", "ID", text)
    text = re.sub(r"cuda_graph=\{.*?\}", "cuda_graph={...}", text)
    text = re.sub(r"-?(?<![A-Za-z_./])\d+(?:\.\d+)?", "N", text)
    return re.sub(r"HTTP/N", "HTTP/1.1", text)


def parsed(text):
    """(rank part as printed, Shape) of each line of a log text or of a list of messages."""
    for record in records(text):
        match = PREFIX.match(record)
        tags = re.sub(r"\d+", "n", match.group(1)) if match else None
        body = record[match.end() :] if match else record
        bar = BAR.match(body.strip())
        if bar and not match:
            body = f"{bar.group(1) or ''}: BAR"
        yield match.group(1) if match else None, Shape(tags, shape_text(body))


def normalise(text):
    """List of Shape of a log text or a list of messages."""
    return [shape for _rank, shape in parsed(text)]


def listed(shape, table):
    """Is the shape in a table of (pattern, reason)?"""
    return any(re.match(pattern, shape.text) for pattern, _reason in table)


def kind(shape):
    """The RELIED_ON kind of a shape, or None."""
    return next((name for name, pattern in RELIED_ON.items() if re.match(pattern, shape.text)), None)


def orders(text):
    """{rank part as printed: kinds in the order in which they first appear}; access lines are another stream."""
    found = {}
    for rank, shape in parsed(text):
        name = kind(shape)
        if name in (None, "access", "prefill"):
            continue
        seen = found.setdefault(rank, [])
        if name not in seen:
            seen.append(name)
    return found


def differences(real, standin, not_imitated=NOT_IMITATED, only_standin=ONLY_STANDIN, relied_on=None):
    """Sentences about each line kind that one side has and the other has not; an empty list where they agree.

    `relied_on`: names of RELIED_ON that must be there (all by default; a start that was not stopped has no drain).
    """
    theirs, ours = normalise(real), normalise(standin)
    found = []
    for shape in sorted(set(theirs) - set(ours), key=str):
        if not listed(shape, not_imitated):
            found.append(f"only the real engine says {shape.tags or ''} {shape.text!r}")
    for shape in sorted(set(ours) - set(theirs), key=str):
        if not listed(shape, only_standin) and not listed(shape, not_imitated):
            found.append(f"only the stand-in says {shape.tags or ''} {shape.text!r}")
    for name in relied_on if relied_on is not None else RELIED_ON:
        for who, shapes in (("real engine", theirs), ("stand-in", ours)):
            if not any(kind(shape) == name for shape in shapes):
                found.append(f"the {who} has no line of kind {name} ({RELIED_ON[name]})")
    theirs_in_order, ours_in_order = orders(real), orders(standin)
    for rank in sorted(set(theirs_in_order) | set(ours_in_order), key=str):
        if theirs_in_order.get(rank) != ours_in_order.get(rank):
            found.append(
                f"kinds of {rank or 'the main process'} come as {theirs_in_order.get(rank)} in the real engine "
                f"and as {ours_in_order.get(rank)} in the stand-in"
            )
    return found


def main(argv):
    texts = [Path(name).read_text(errors="replace") for name in argv[1:3]]
    found = differences(*texts)
    print("\n".join(found) or "same shapes")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
