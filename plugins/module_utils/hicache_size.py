# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arithmetic of SGLang's HiCache host pools.

Units: GB is 10**9 bytes (what SGLang prints for host pools), GiB is 2**30 bytes (what SGLang prints, labelled GB,
for device pools). Tokens are KV cache slots of one rank. Every figure is per rank: MLA pools are replicated on each
tensor-parallel rank, MHA pools hold the rank's own heads.

Source: the published SGLang wheels 0.4.6 to 0.5.23, ``srt/mem_cache/memory_pool_host.py`` (to 0.5.13) and
``srt/mem_cache/pool_host/base.py`` (from 0.5.14).

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

import re

GB = 10**9
GIB = 2**30

#: First release whose pools carry one page more than asked (0.5.5 still aligned down).
FIRST_EXTRA_PAGE = (0, 5, 5, 1)
#: First release that aligns to pages at all.
FIRST_ALIGNED = (0, 4, 6, 0)
#: First release that prints ``Allocating LABEL hierarchical KV host pool: N tokens, ...``.
FIRST_LABELLED = (0, 5, 17, 0)
#: First release that gives the draft model a host pool of its own.
FIRST_DRAFT_POOL = (0, 5, 11, 0)

#: First release whose draft pool has exactly the tokens of the main pool; before, it was sized by their ratio.
FIRST_EXACT_DRAFT = (0, 5, 23, 0)
#: First release that starts with a host pool no larger than the device pool; before, that was an assertion.
FIRST_SMALL_POOL = (0, 5, 15, 0)
#: First release whose pipeline stages agree on the tokens of a pool that ``--hicache-size`` makes.
FIRST_SYNCED_SIZE = (0, 5, 15, 0)
#: First release whose ``--hicache-size`` is one budget over the full, SWA and Mamba pools; before, each has it.
FIRST_SHARED_BUDGET = (0, 5, 17, 0)
#: First release whose draft of a model's own layers (MTP) may live in the main pool, as more layers of it.
FIRST_PACKED_DRAFT = (0, 5, 18, 0)
#: First release whose decode servers make a host pool for retraction by themselves, as large as the device pool.
FIRST_RETRACTION_POOL = (0, 5, 18, 0)
#: First release whose retraction pool is a fifth of the device pool.
FIRST_SMALL_RETRACTION_POOL = (0, 5, 19, 0)
#: First release whose retraction pool is large enough for the longest request, whatever its ratio.
FIRST_REQUEST_SIZED_RETRACTION = (0, 5, 21, 0)
#: First release that divides the host's memory among its ranks before it compares; before, each rank compared alone.
FIRST_DIVIDED = (0, 5, 19, 0)
#: First release that also obeys the memory limits of control groups.
FIRST_CGROUP = (0, 5, 21, 0)
#: First release that lowers the default ratio to what fits, where neither ratio nor size is given.
FIRST_AUTO_SIZED = (0, 5, 21, 0)
#: First release that pins what it asked for; before, torch's allocator took the next power of two.
FIRST_EXACT_PINNING = (0, 5, 4, 0)

#: Bytes that every release leaves to the rest of the host.
RESERVE = 10 * GIB
#: ``--hicache-ratio`` where neither it nor ``--hicache-size`` is given.
DEFAULT_RATIO = 2.0
#: The same for a retraction pool of a decode server without HiCache: at first, and from 0.5.19 on.
FIRST_RETRACTION_RATIO = 1.0
RETRACTION_RATIO = 0.2
#: The same with ``--hicache-host-memory-mode buffer_only``.
BUFFER_RATIO = 1.2

#: Attention backends that take certain page sizes only: what they take, and what they make of any other.
#: Source: ``srt/server_args.py`` (to 0.5.16) and ``srt/arg_groups/overrides.py`` (0.5.23).
BACKEND_PAGES = {
    "cutedsl_mla": ((32, 64), 64),
    "cutlass_mla": ((128,), 128),
    "flashmla": ((64,), 64),
    "hpc_ops": ((64,), 64),
    "trtllm_mha": ((16, 32, 64, 128), 64),
    "trtllm_mla": ((32, 64), 64),
}

_RELEASE = re.compile(r"^v?(\d+)\.(\d+)(?:\.(\d+))?(?:(?:\.post|-)(\d+))?")


def parse_release(release):
    """Turn ``0.5.5.post3`` into ``(0, 5, 5, 3)``.

    Release candidates and development builds count as the release that they lead to.

    :raises ValueError: when the text is no SGLang release.
    """
    match = _RELEASE.match(str(release).strip())
    if not match:
        raise ValueError(f"{release!r} is not an SGLang release such as 0.5.23 or 0.5.5.post3")
    return tuple(int(part or 0) for part in match.groups())


def mla_bytes_per_token(kv_lora_rank, qk_rope_head_dim, layers, item_size=2):
    """Bytes of one token in an MLA pool of one rank. Not divided by the tensor-parallel size.

    ``item_size`` is the size in bytes of one stored element: 2 for bf16 and fp16, 1 for fp8.
    """
    return (kv_lora_rank + qk_rope_head_dim) * item_size * layers


def mha_bytes_per_token(kv_heads, head_dim, layers, tensor_parallel_size=1, item_size=2, v_head_dim=None):
    """Bytes of one token in an MHA or GQA pool of one rank; a rank holds at least one KV head."""
    heads = max(1, kv_heads // tensor_parallel_size)
    return heads * (head_dim + (head_dim if v_head_dim is None else v_head_dim)) * layers * item_size


def page_rule(release=None):
    """Name of the page rule of a release: ``none``, ``down`` or ``extra_page``. Unknown releases count as new."""
    if release is None:
        return "extra_page"
    parsed = parse_release(release) if isinstance(release, str) else release
    if parsed >= FIRST_EXTRA_PAGE:
        return "extra_page"
    return "down" if parsed >= FIRST_ALIGNED else "none"


def align_tokens(tokens, page_size=1, release=None):
    """Apply the page rule of a release to a number of tokens.

    :raises ValueError: when the page size is below 1.
    """
    if page_size < 1:
        raise ValueError(f"page_size is {page_size}: a page holds at least 1 token")
    rule = page_rule(release)
    if rule == "extra_page":
        return (tokens // page_size + 1) * page_size
    if rule == "down":
        return tokens - tokens % page_size
    return tokens


def effective_page_size(page_size=None, backends=()):
    """The page size that a start ends up with: asked for, else 1, and then what its attention backends take."""
    size = page_size or 1
    for backend in backends:
        taken, replacement = BACKEND_PAGES.get(backend, ((size,), size))
        if size not in taken:
            size = replacement
    return size


def host_tokens(device_tokens, ratio, page_size=1, release=None):
    """Tokens of the host pool that ``--hicache-ratio`` makes from a device pool of ``device_tokens``."""
    return align_tokens(int(device_tokens * ratio), page_size, release)


def host_tokens_for_size(size_gb, bytes_per_token, page_size=1, release=None):
    """Tokens of the host pool that ``--hicache-size`` (GB per rank) makes.

    :raises ValueError: when ``bytes_per_token`` is below 1.
    """
    if bytes_per_token < 1:
        raise ValueError(f"bytes_per_token is {bytes_per_token}: a token takes at least 1 byte")
    return align_tokens(int(size_gb * GB // bytes_per_token), page_size, release)


def draft_tokens(main_tokens, device_tokens=None, page_size=1, release=None):
    """Tokens of the draft's host pool, which has a slot for each slot of the main pool.

    Before 0.5.23 it was sized by the ratio of both pools of the target, and then got a page of its own.
    Without ``device_tokens`` that page is assumed.
    """
    parsed = parse_release(release) if release is not None else FIRST_EXACT_DRAFT
    if parsed >= FIRST_EXACT_DRAFT:
        return main_tokens
    if not device_tokens:
        return align_tokens(main_tokens, page_size, release)
    # SGLang's own way through a float may lose a token, and with it the page.
    return align_tokens(int(device_tokens * (main_tokens / device_tokens)), page_size, release)


def pinned_bytes(requested, release=None):
    """Bytes of host memory that a pool of ``requested`` bytes really takes."""
    if release is None or parse_release(release) >= FIRST_EXACT_PINNING or requested < 1:
        return requested
    return 1 << (requested - 1).bit_length()


def rank_budget(available, ranks, release=None, cgroup_limit=None):
    """Bytes that a release grants one pool of one rank; it refuses a larger one before it allocates.

    ``available`` is the host's memory available to new processes, ``ranks`` the ranks of this start on the host,
    ``cgroup_limit`` what control groups leave to the service, None where they set no limit. All are bytes.
    """
    parsed = parse_release(release) if release is not None else FIRST_AUTO_SIZED
    if parsed >= FIRST_CGROUP and cgroup_limit is not None:
        available = min(available, cgroup_limit)
    free = available - RESERVE
    return free // ranks if parsed >= FIRST_DIVIDED else free


def auto_ratio(budget, device_bytes, fraction=0.8, ratio=DEFAULT_RATIO):
    """The ratio of a start that names neither ratio nor size (0.5.21 and newer).

    ``budget`` is :func:`rank_budget`, ``device_bytes`` what a rank's device pools hold, both in bytes.
    """
    return min(ratio, int(budget * fraction) * 0.95 / device_bytes)


def tokens_to_gb(tokens, bytes_per_token):
    """Unrounded GB of ``tokens``."""
    return tokens * bytes_per_token / GB


def device_tokens_of(gb, ratio, bytes_per_token, page_size=1, release=None):
    """The device pools for which a release prints ``gb`` with two decimals: ``(fewest, most)`` tokens, None if none.

    The other direction of :func:`host_tokens`, for a line of a log whose device pool is not known.
    """

    def fewest(least):
        """The fewest tokens for which at least ``least`` hundredths of a GB are printed."""
        low, high = 0, int((gb + 1) * GB / bytes_per_token / ratio) + 2 * page_size
        while low < high:
            middle = (low + high) // 2
            size = tokens_to_gb(host_tokens(middle, ratio, page_size, release), bytes_per_token)
            if round(printed_gb(size) * 100) >= least:
                high = middle
            else:
                low = middle + 1
        return low

    hundredths = round(gb * 100)
    first, after = fewest(hundredths), fewest(hundredths + 1)
    return (first, after - 1) if after > first else None


def printed_gb(value):
    """The number as SGLang prints it: two decimals, rounded as Python formats a float."""
    return float(f"{value:.2f}")


def allocation_line(gb, tokens=None, label="kv", release=None, layers=None, packed_layers=0):
    """The exact text, without log prefix, that a release prints before it allocates a main KV pool.

    ``packed_layers`` are those of a draft that lives in the pool beside ``layers`` of the model (0.5.18 and newer).

    :raises ValueError: when the release prints tokens and none are given.
    """
    parsed = parse_release(release) if release is not None else FIRST_LABELLED
    if parsed < FIRST_LABELLED:
        return f"Allocating {gb:.2f} GB host memory for hierarchical KV cache."
    if tokens is None:
        raise ValueError("SGLang 0.5.17 and newer print the tokens of a pool: tokens must be given")
    line = f"Allocating {label} hierarchical KV host pool: {tokens} tokens, {gb:.2f} GB host memory"
    if packed_layers:
        line += (
            f", packed MTP KV layers: target_layers={layers}, draft_layers={packed_layers}, "
            f"total_layers={layers + packed_layers}"
        )
    return f"{line}."


def predict(device_tokens=None, ratio=None, size_gb=None, bytes_per_token=None, page_size=1, release=None):
    """Predict one rank's host pool.

    ``size_gb`` (``--hicache-size``) wins over ``ratio`` when it is above 0, as in SGLang.
    Returns ``{"tokens": int or None, "gb": float or None, "rule": str}``: ``gb`` is unrounded GB, ``rule`` says in
    words how the figure came about. Whatever cannot be derived from what is known is None.
    """
    if size_gb:
        if bytes_per_token:
            tokens = host_tokens_for_size(size_gb, bytes_per_token, page_size, release)
            gb = tokens_to_gb(tokens, bytes_per_token)
            rule = f"hicache_size {size_gb:g} GB / {bytes_per_token} B per token = {tokens} tokens"
            return {"tokens": tokens, "gb": gb, "rule": rule}
        return {"tokens": None, "gb": float(size_gb), "rule": f"hicache_size {size_gb:g} GB"}
    if device_tokens and ratio:
        tokens = host_tokens(device_tokens, ratio, page_size, release)
        rule = f"{device_tokens} device tokens x {ratio:g}, page size {page_size} = {tokens} tokens"
        if bytes_per_token:
            rule += f" x {bytes_per_token} B"
            return {"tokens": tokens, "gb": tokens_to_gb(tokens, bytes_per_token), "rule": rule}
        return {"tokens": tokens, "gb": None, "rule": rule}
    return {"tokens": None, "gb": None, "rule": "nothing to predict from"}
