# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one token takes in the pools of one start.

The type of the KV cache has four sources, and the first one that speaks is right: the line that the start printed when
it allocated the pool on the device, the argument ``--kv-cache-dtype``, the checkpoint, and 16 bits. The draft has an
argument of its own, and takes the target's type without it.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

from collections import namedtuple

from .. import hicache_size, kv_geometry
from . import started

#: main, draft: bytes of one token in the pool of one rank, or None; stages: the same for each pipeline stage where
#: their layers differ, else (); problem: in words what could not be told, or None.
TokenBytes = namedtuple("TokenBytes", "main draft stages problem")


def _flag(*values):
    """The first of some ``--kv-cache-dtype`` values that names a type."""
    for value in values:
        if isinstance(value, str) and value.strip().lower() not in ("", "auto", "none"):
            return value
    return None


def device_types(start, origin=None):
    """The types that the device lines of a start name: ``(target's, draft's)``, each None where no line tells.

    Each process prints its own pools in one order: those of the target (Full and SWA are two of one), then the draft's.
    """
    target = draft = None
    for (line_origin, _tags), lines in start.device_lines.items():
        if origin is not None and line_origin != origin:
            continue
        kinds = set()
        for line in lines:
            if kinds and (line["kind"] in kinds or line["kind"] is None):
                draft = draft or line["dtype"]
            else:
                target = target or line["dtype"]
            kinds.add(line["kind"])
    return target, draft


def measured(start):
    """Bytes of a token as the device lines show them: ``(fewest, most)``, or None.

    The lines round GiB to two decimals, so this is a span and no figure. All ranks have to agree.
    """
    spans = set()
    for lines in start.device_lines.values():
        line = lines[0]
        if line["gib"] and line["tokens"] and line["kind"] is None:
            slack = 0.005 * line["parts"]
            # The pool on the device has a page more than its tokens.
            spans.add(
                (
                    (line["gib"] - slack) * hicache_size.GIB / (line["tokens"] + 256),
                    (line["gib"] + slack) * hicache_size.GIB / line["tokens"],
                )
            )
    if len(spans) != 1:
        return None
    return spans.pop()


def _main(ask, layout, dtype):
    """``(bytes, stages)`` of the target on one rank."""
    heads = layout.attention_ranks if layout else 1
    geometry = kv_geometry.geometry(ask.model, heads, dtype)
    stages = layout.stages if layout else 1
    if stages > 1:
        shares = [kv_geometry.stage_layers(geometry.layers, stages, number) for number in range(stages)]
        each = tuple(share * geometry.layer_bytes for share in shares)
        return (each[0] if len(set(each)) == 1 else None), each
    return geometry.layers * geometry.layer_bytes, ()


def of_start(start, ask):
    """The :class:`TokenBytes` of a start: as given, else from the models' configs and what the start itself says."""
    main, draft, stages, problem = ask.bytes_per_token, ask.draft_bytes_per_token, (), None
    settings = (started.settings_of(start) or [{}])[0]
    layout = started.layout_of(settings, ask.layout)
    device, draft_device = device_types(start)
    flag = _flag(settings.get("kv_cache_dtype"), ask.kv_cache_dtype)
    if main is None and ask.model is not None:
        try:
            main, stages = _main(ask, layout, device or flag)
        except (ValueError, RecursionError) as error:
            problem = str(error)
    if draft is None and ask.draft_model is not None:
        own = _flag(settings.get("speculative_draft_kv_cache_dtype"), ask.draft_dtype)
        dtype = draft_device or own or device or flag
        alone = settings.get("speculative_algorithm") == "STANDALONE"
        try:
            heads = layout.draft_attention_ranks if layout else 1
            draft = kv_geometry.bytes_per_token(ask.draft_model, heads, dtype, draft=not alone)
        except (ValueError, RecursionError) as error:
            problem = problem or str(error)
    return TokenBytes(main, draft, stages, problem)


def of_rank(stages, tags, default):
    """Bytes of a token on one rank: those of its pipeline stage where the stages differ."""
    if not stages:
        return default
    stage = dict(tags).get("PP")
    return stages[stage] if stage is not None and stage < len(stages) else default
