# SPDX-License-Identifier: GPL-3.0-or-later
"""Which scheduler processes a start has on this host, and the rank part of their log prefix."""

from __future__ import annotations

from collections import namedtuple

from .release import RELEASE

# index: number of the process on this host; tags: such as " DP0 TP0"; title: the process title
Place = namedtuple("Place", "index tags tp pp dp title attention_tp")


def tag_order(release=RELEASE):
    """The order of the rank words in the prefix."""
    if release.at_least("0.5.5.post3"):
        return ("DP", "PP", "ATTN_CP", "MOE_DP", "TP", "EP")
    if release.at_least("0.5.4"):
        return ("DP", "TP", "EP", "PP")
    return ("DP", "TP", "PP")


def tags(ranks, release=RELEASE):
    """The prefix part for {"TP": 3, ...}; words whose size is 1 are absent from `ranks`."""
    return "".join(f" {word}{ranks[word]}" for word in tag_order(release) if word in ranks)


def share(size, nodes, node):
    """The ranks of one node when `size` ranks are spread over `nodes`."""
    part = max(1, size // nodes)
    return range(part * node, part * (node + 1)) if size >= nodes else range(size)


def places(args, release=RELEASE):
    """All scheduler processes of this host, in the order in which they are started."""
    nodes, node = args.nnodes or 1, args.node_rank or 0
    tp_size, pp_size, dp_size = args.tp_size, args.pp_size, args.dp_size
    ep_size = getattr(args, "ep_size", 1) or 1
    cp_size = getattr(args, "attn_cp_size", 1) or 1
    moe_dp = getattr(args, "moe_dp_size", 1) or 1
    attention_dp = bool(getattr(args, "enable_dp_attention", False)) and dp_size > 1
    pp_nodes = max(1, nodes // pp_size) if pp_size > 1 else nodes
    pp_ranks = share(pp_size, nodes, node // pp_nodes if pp_size < nodes else node) if pp_size > 1 else [0]
    tp_ranks = share(tp_size, pp_nodes, node % pp_nodes)
    attention_tp = max(1, tp_size // (dp_size if attention_dp else 1) // cp_size)
    found = []
    for dp in range(1 if attention_dp else dp_size):
        for pp in pp_ranks:
            for tp in tp_ranks:
                ranks = {}
                dp_rank = tp // (attention_tp * cp_size) if attention_dp else dp
                if dp_size > 1:
                    ranks["DP"] = dp_rank
                if tp_size > 1:
                    ranks["TP"] = tp
                if pp_size > 1:
                    ranks["PP"] = pp
                if cp_size > 1:
                    ranks["ATTN_CP"] = tp // attention_tp % cp_size
                if moe_dp > 1:
                    ranks["MOE_DP"] = tp // (tp_size // moe_dp)
                if ep_size > 1:
                    ranks["EP"] = tp % (tp_size // moe_dp) // max(1, tp_size // moe_dp // ep_size)
                title = "sglang::scheduler" + tags(ranks, release).replace(" ", "_")
                found.append(Place(len(found), tags(ranks, release), tp, pp, dp_rank, title, attention_tp))
    return found
