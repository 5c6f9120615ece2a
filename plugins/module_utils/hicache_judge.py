# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge what a start has said: did every expected rank allocate its HiCache host pool, and did the server come up?

Three-valued: ``pass``, ``fail``, ``inconclusive``. SGLang prints its allocation lines before it allocates, so lines
alone never pass: the same start has to become ready too.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict, namedtuple

from . import hicache_size
from ._hicache import started, token_bytes
from .hicache_log import RANK_WORDS, quiet_level, rank_name, redact
from .journal import iso_utc

PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"

#: What the caller expects. ``ranks``: number of ranks on this host (0: HiCache is off and no pool is expected), or
#: None when ``rank_set`` names them; sizes in
#: GB (10**9 bytes) per rank; ``readiness``: auto, line, health or none. ``settings``: server arguments by name, with
#: the values that the start has to show; ``layout``: the parallel layout by the names of ``parallel_layout.layout``;
#: ``kv_cache_dtype``, ``draft_dtype``: types of the caches; ``model``, ``draft_model``: parsed ``config.json`` of each,
#: for bytes per token that are not given; ``stage_bytes``: bytes per token of each pipeline stage where they differ;
#: ``model_expected``: a model was named for them, so that tokens alone do not prove a size.
Ask = namedtuple(
    "Ask",
    "ranks rank_set expected_gb ratio hicache_size bytes_per_token draft_bytes_per_token page_size release"
    " tolerance_gb readiness settings layout kv_cache_dtype draft_dtype model draft_model stage_bytes"
    " model_expected",
)
Ask.__new__.__defaults__ = (*(None,) * 9, 0.01, "auto", *(None,) * 6, (), False)

#: What is known beside the log. ``unit``: properties of ``systemctl show`` or None for a saved log; ``invocation``:
#: the start that was asked for; ``health``: None (not asked), or {"ok": bool or None, "message": str}; ``metrics``:
#: None or list of {"labels": dict, "tokens": int}; ``server_info``: None or dict; ``deadline``: seconds waited in
#: vain, or None; ``oom_kills``: processes of the unit's cgroup that were killed for memory; ``bound``: the log is a
#: journal that was read by invocation, so that the beginning of the start has to be in it; ``owner``: None (not looked
#: at), or who listens at the address that is asked: {"ours": bool or None, "port", "pid", "comm", "unit"}.
Around = namedtuple("Around", "unit invocation health metrics server_info deadline oom_kills bound owner")
Around.__new__.__defaults__ = (None, None, None, None, None, None, None, False, None)

#: Numbers of an ask: the least and the most that a server can have. What lies outside is a slip or an attack.
LIMITS = {
    "ranks": (0, 4096),
    "expected_gb": (0, 10**6),
    "ratio": (0, 10**4),
    "hicache_size": (0, 10**6),
    "bytes_per_token": (0, 10**9),
    "draft_bytes_per_token": (0, 10**9),
    "page_size": (0, 10**6),
    "tolerance_gb": (0, 10**3),
}
MAX_RANKS = 4096


def check_number(name, value, least, most):
    """A sentence about a number that is not finite or out of its limits, or None."""
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most):
        return None
    shown = str(value) if isinstance(value, float) or abs(value or 0) < 10**20 else "a number of more than 20 digits"
    return f"{name} is {shown}: it has to be a number from {least:g} to {most:g}; give the value of the server."


def check_ask(ask):
    """Refuse numbers that no server has.

    :raises ValueError: when a number of the ask is not finite, negative or beyond :data:`LIMITS`.
    """
    for name, (least, most) in LIMITS.items():
        problem = check_number(name, getattr(ask, name), least, most)
        if problem:
            raise ValueError(problem)


_CAP = 20
_ROUNDING = 0.005


class Rank:
    """One process of the server with the pools that it reported."""

    def __init__(self, name, tags):
        self.name = name
        self.tags = tags
        self.main = None
        self.draft = None
        self.side = []
        self.shared = None
        self.repeats = 0
        self.others = False

    def pools(self):
        """Every pool that takes memory, as (pool name, allocation)."""
        if self.main:
            yield self.main.pool, self.main
        if self.draft:
            yield "draft", self.draft
        for item in self.side:
            yield (f"{item.pool}:{item.item}" if item.item else item.pool), item


# -- grouping by rank -------------------------------------------------------------------------------------------


def group_ranks(allocations, ask):
    """Sort allocation lines by the process that wrote them. Returns a list of :class:`Rank`, in order of rank."""
    several = len({item.origin for item in allocations if item.role in ("main", "by_order")}) > 1
    tagged = [item for item in allocations if item.tags]
    bare = [item for item in allocations if not item.tags]
    ranks = _named(tagged, several)
    if bare and not tagged:
        ranks = _unnamed(bare, several, ask)
    elif bare:
        ranks.update(_unnamed(bare, several, ask))
    for rank in ranks.values():
        _sort_pools(rank)
    _settle_swa(ranks)
    _settle_draft(ranks)
    _settle_shared(ranks)
    return sorted(ranks.values(), key=_order)


def _order(rank):
    return tuple(
        (RANK_WORDS.index(word) if word in RANK_WORDS else 99, number) for word, number in rank.tags
    ), rank.name


def _named(allocations, several):
    ranks = OrderedDict()
    for item in allocations:
        key = (item.origin if several else None, item.tags)
        if key not in ranks:
            name = rank_name(item.tags)
            ranks[key] = Rank(f"{item.origin} {name}" if several and item.origin else name, item.tags)
        ranks[key].side.append(item)
    return ranks


def _unnamed(allocations, several, ask):
    """Lines without a rank: by process where the processes are known, else by counting the largest pool."""
    lines = [item for item in allocations if item.role in ("main", "by_order")]
    pids = {item.pid for item in lines}
    ranks = OrderedDict()
    if len(pids) > 1 and None not in pids:
        for item in allocations:
            ranks.setdefault(("pid", item.pid), Rank(f"pid {item.pid}", ())).side.append(item)
        return ranks
    largest = max((item.gb for item in lines), default=0.0)
    half = 0.5 * largest
    sizes = Counter(item.gb for item in lines if item.role == "by_order")
    number = len(parse_rank_set(ask.rank_set)) if ask.rank_set else ask.ranks
    if number and len(sizes) == 2 and set(sizes.values()) == {number}:
        # Every expected process wrote two lines of two sizes: a large draft model.
        half = sum(sizes) / 2
    counters = Counter()
    for item in allocations:
        kind = item.pool
        if item.role == "by_order":
            kind = "main" if item.gb >= half else "draft"
        elif item.role == "main":
            kind = "main"
        # The second pool of every kind belongs to the second process, and so on.
        slot = (item.origin if several else None, kind, item.item)
        index = counters[slot]
        counters[slot] += 1
        name = f"#{index + 1}" if not (several and item.origin) else f"{item.origin} #{index + 1}"
        ranks.setdefault(("line", slot[0], index), Rank(name, ())).side.append(item)
    return ranks


def _sort_pools(rank):
    items, rank.side = rank.side, []
    kv = [item for item in items if item.role in ("main", "by_order")]
    for item in kv:
        if rank.main is None or item.gb > rank.main.gb:
            rank.main = item
    for item in items:
        if item is rank.main:
            continue
        if item.role == "shared":
            rank.shared = item
        elif item.role in ("main", "by_order"):
            same = item.gb == rank.main.gb and item.tokens == rank.main.tokens
            if same:
                rank.repeats += 1
                rank.others = rank.others or (None not in (item.pid, rank.main.pid) and item.pid != rank.main.pid)
            elif item.role == "by_order" and rank.draft is None:
                rank.draft = item
            else:
                rank.side.append(item)
        elif item.role == "draft":
            if rank.draft is None:
                rank.draft = item
            elif (item.gb, item.tokens) != (rank.draft.gb, rank.draft.tokens):
                rank.side.append(item)
        elif not any(
            (other.pool, other.item, other.gb, other.tokens) == (item.pool, item.item, item.gb, item.tokens)
            for other in rank.side
        ):
            rank.side.append(item)


def _settle_swa(ranks):
    """A model whose every layer slides has no other main pool than the one labelled swa."""
    if any(rank.main for rank in ranks.values()):
        return
    for rank in ranks.values():
        for item in rank.side:
            if item.pool == "swa":
                rank.main = item
                rank.side.remove(item)
                break


def _settle_draft(ranks):
    """The old wording names no pool: a lone line that has the size of the other ranks' second lines is a draft pool."""
    drafts = Counter(rank.draft.gb for rank in ranks.values() if rank.draft and not rank.draft.labelled)
    mains = Counter(rank.main.gb for rank in ranks.values() if rank.main)
    if not drafts:
        return
    usual_draft, usual_main = drafts.most_common(1)[0][0], mains.most_common(1)[0][0]
    for rank in ranks.values():
        alone = rank.main and not rank.draft and not rank.main.labelled
        if alone and abs(rank.main.gb - usual_draft) <= 0.011 < abs(rank.main.gb - usual_main):
            rank.draft, rank.main = rank.main, None


def _settle_shared(ranks):
    """Ranks that share the pool of another one report it without memory of their own."""
    owners = [rank.main for rank in ranks.values() if rank.main]
    for rank in ranks.values():
        if rank.main is None and rank.shared is not None and owners:
            rank.main = rank.shared._replace(gb=0.0, role="shared", pool="shared")


# -- which ranks are missing ------------------------------------------------------------------------------------


def parse_rank_set(values):
    """Read a list of ranks: numbers (``8``), spans (``8-15``) or names (``TP8``, ``PP0 TP3``).

    Returns a list of tuples of tags; a plain number is ``(("TP", 8),)``.

    :raises ValueError: when an entry is none of these, or the list is empty or names a rank twice.
    """
    wanted = []
    for value in values:
        text = str(value).strip().upper()
        span = re.fullmatch(r"(\d{1,6})\s*-\s*(\d{1,6})", text)
        if span and int(span.group(1)) <= int(span.group(2)) < int(span.group(1)) + 4096:
            wanted += [(("TP", number),) for number in range(int(span.group(1)), int(span.group(2)) + 1)]
            if len(wanted) > MAX_RANKS:
                raise ValueError(f"the list of ranks names more than {MAX_RANKS} ranks: name those of this host")
            continue
        if re.fullmatch(r"\d{1,6}", text):
            wanted.append((("TP", int(text)),))
            continue
        words = text.replace(",", " ").split()
        tags = [re.fullmatch(r"([A-Z_]+?)(\d{1,6})", word) for word in words]
        if not words or not all(tags) or any(tag.group(1) not in RANK_WORDS for tag in tags):
            raise ValueError(f"{value!r} names no rank: use a number, a span such as 8-15, or names such as PP0 TP3")
        wanted.append(tuple((tag.group(1), int(tag.group(2))) for tag in tags))
    if not wanted:
        raise ValueError("the list of ranks is empty: name at least one rank")
    if len(set(wanted)) != len(wanted):
        raise ValueError("the list of ranks names a rank twice")
    return wanted


def _matches(wanted, tags):
    return set(wanted) <= set(tags)


def compare_ranks(ranks, ask):
    """Compare the ranks that reported a main pool with the expected ones.

    Returns ``(expected number, names missing, names odd)``; missing ranks that cannot be named are given as a count.
    """
    seen = [rank for rank in ranks if rank.main]
    if ask.rank_set:
        wanted = parse_rank_set(ask.rank_set)
        if not any(rank.tags for rank in seen):
            missing = max(0, len(wanted) - len(seen))
            return len(wanted), ([f"{missing} more"] if missing else []), [rank.name for rank in seen[len(wanted) :]]
        if all(len(one) == 1 and one[0][0] == "TP" for one in wanted) and not any(
            word == "TP" for rank in seen for word, _number in rank.tags
        ):
            # Data-parallel ranks of one GPU each print no TP word: the plain numbers mean their own word.
            word = seen[0].tags[0][0]
            wanted = [((word, one[0][1]),) for one in wanted]
        missing = [rank_name(one) for one in wanted if not any(_matches(one, rank.tags) for rank in seen)]
        odd = [rank.name for rank in seen if not any(_matches(one, rank.tags) for one in wanted)]
        if not missing and len(seen) < len(wanted):
            # Two names of the set mean the same process.
            missing = [f"{len(wanted) - len(seen)} more"]
        return len(wanted), missing, odd
    number = 1 if ask.ranks is None else ask.ranks
    if number == 0:
        return 0, [], [rank.name for rank in ranks]
    missing, odd = [], []
    if len(seen) < number or (len(seen) == number and number > 1):
        missing, odd = _holes(seen, number)
    elif len(seen) > number:
        odd = [rank.name for rank in seen[number:]]
    if len(seen) < number and not missing:
        missing = [f"{number - len(seen)} more"]
    return number, missing, odd


def _holes(seen, number):
    """Name the holes in a row of TP ranks; nothing when the ranks are not numbered by TP alone."""
    numbers = []
    for rank in seen:
        tags = dict(rank.tags)
        if "TP" not in tags:
            return _product_holes(seen, number)
        numbers.append(tags["TP"])
    # Each pipeline stage has numbers of its own.
    stages = {dict(rank.tags).get("PP") for rank in seen}
    if not numbers or len(set(numbers)) != len(numbers) or len(stages) > 1:
        return _product_holes(seen, number)
    base = min(numbers) // number * number
    row = range(base, base + number)
    missing = [f"TP{one}" for one in row if one not in numbers]
    odd = [rank.name for rank in seen if dict(rank.tags)["TP"] not in row]
    if len(seen) == number and missing and len({tag for rank in seen for tag, _n in rank.tags}) > 1:
        return [], []
    return missing, odd


def _product_holes(seen, number):
    if not seen or not all(rank.tags for rank in seen):
        return [], []
    words = [tuple(word for word, _number in rank.tags) for rank in seen]
    if len(set(words)) != 1:
        return [], []
    grid = [[]]
    for position, word in enumerate(words[0]):
        values = sorted({rank.tags[position][1] for rank in seen})
        grid = [[*row, (word, value)] for row in grid for value in values]
        if len(grid) > 4096:
            return [], []
    if len(grid) != number:
        return [], []
    have = {rank.tags for rank in seen}
    return [rank_name(tuple(row)) for row in grid if tuple(row) not in have], []


# -- sizes --------------------------------------------------------------------------------------------------------


def release_of(start, ask):
    """Release as a tuple: given, or what the wording of the lines proves, or None."""
    if ask.release:
        return hicache_size.parse_release(ask.release)
    if any(item.labelled for item in start.allocations):
        return hicache_size.FIRST_LABELLED
    return None


def _page_size(start, ask):
    """Tokens of a page and whether they are known: what the start says of itself comes first."""
    for settings in started.settings_of(start):
        logged = settings.get("page_size")
        if isinstance(logged, int) and not isinstance(logged, bool) and 0 < logged <= LIMITS["page_size"][1]:
            return logged, True
    return (ask.page_size, True) if ask.page_size else (1, False)


def device_tokens_of(start, tags=None, origin=None):
    """Tokens of the device pool of a rank: what the leader of its group printed, else its own first pool, else None."""
    if start.device:
        values = set(start.device.values())
        if len(values) == 1 or tags is None:
            return next(iter(start.device.values()))
        group = {tag for tag in tags if tag[0] in ("DP", "PP")}
        for (_origin, leader), tokens in start.device.items():
            if group == {tag for tag in leader if tag[0] in ("DP", "PP")}:
                return tokens
        return None
    if start.pools:
        if tags is None or len(set(start.pools.values())) == 1:
            return next(iter(start.pools.values()))
        return start.pools.get((origin, tags))
    return None


def _bytes(ask, rank):
    """Bytes of a token in the main pool of one rank, or None."""
    return token_bytes.of_rank(ask.stage_bytes, rank.tags, ask.bytes_per_token)


def _prediction(start, ask, rank):
    """Predicted pool of one rank: {"gb", "tokens", "rule", "source", "slack"}; gb or tokens may be None."""
    page, page_known = _page_size(start, ask)
    release = release_of(start, ask)
    ratio, size, source = ask.ratio, ask.hicache_size, "option"
    each = _bytes(ask, rank)
    if not ratio and not size and (each or ask.expected_gb is None):
        settings = (started.settings_of(start) or [{}])[0]
        logged_size, logged_ratio = settings.get("hicache_size"), settings.get("hicache_ratio")
        if logged_size:
            size, source = logged_size, "server arguments"
        elif logged_ratio and each:
            ratio, source = logged_ratio, "server arguments"
    # Stages that agree on their tokens have those of the stage whose tokens are the largest.
    synced = size and ask.stage_bytes and (release is None or release >= hicache_size.FIRST_SYNCED_SIZE)
    found = hicache_size.predict(
        device_tokens_of(start, rank.tags, rank.main.origin if rank.main else None),
        ratio,
        size,
        max(ask.stage_bytes) if synced else each,
        page,
        release,
    )
    if synced and each:
        found["gb"] = hicache_size.tokens_to_gb(found["tokens"], each)
    found["source"] = source
    found["size"] = size
    # Where the page size is not known, backends choose up to 128 tokens: that much may be missing or too much.
    found["token_slack"] = page if page_known else 256
    if ask.expected_gb is not None:
        found.update(gb=float(ask.expected_gb), rule=f"expected_gb {ask.expected_gb:g}", source="option", size=None)
    return found


def _packed(item, bytes_per_token):
    """Bytes per token that fit a line: the given ones, or with the packed draft layers added."""
    values = [float(bytes_per_token)]
    if item.packed and item.packed[0]:
        values.append(bytes_per_token * item.packed[1] / item.packed[0])
    return values


def check_sizes(start, ranks, ask, reasons, metrics=None):
    """Compare every reported pool with what it should be. Adds reasons.

    Returns True where nothing is wrong, False where something is, and None where a size that was asked for could not
    be compared.
    """
    seen = [rank for rank in ranks if rank.main]
    own = [rank for rank in seen if rank.main.role != "shared"]
    right = True
    for rank in own:
        if rank.main.gb <= 0 or rank.main.tokens == 0:
            right = False
            reasons.fail(
                "size_zero",
                f"{rank.name} reported a host pool of {rank.main.gb:.2f} GB. A pool without memory caches nothing: "
                "raise the ratio or the size.",
            )
    wrong, open_ranks = [], []
    for rank in own:
        compared, fault = _compare_size(start, rank, ask, reasons)
        if fault:
            wrong.append((rank, *fault))
        elif not compared:
            open_ranks.append(rank)
    if wrong:
        right = False
        rank, got, expected, rule = wrong[0]
        names = _join([one[0].name for one in wrong])
        reasons.fail(
            "size_wrong",
            f"{names} reported {got} where {expected} was expected ({rule}). Check the ratio or size that the unit "
            "really has, the KV cache dtype, and what changed the device pool.",
        )
    right = _check_tokens(own, ask, reasons) and right
    if open_ranks:
        right = _check_equal(own, reasons) and right
        if right and _size_asked(ask) and not (ask.ratio is ask.hicache_size is None and _measured(metrics, own, ask)):
            right = None
            reasons.unknown(
                "size_not_compared",
                f"The size of {_join([rank.name for rank in open_ranks])} could not be compared with what was asked "
                f"for: {_what_lacks(start, ask)}. Ranks that agree with each other can all be wrong.",
            )
    draft = _check_draft(start, seen, ask, reasons)
    return draft if draft is False or right is True else right


def _size_asked(ask):
    return bool(ask.ratio or ask.hicache_size or ask.bytes_per_token or ask.stage_bytes or ask.expected_gb is not None)


def _measured(metrics, ranks, ask):
    """Tell whether the tokens that the metrics show give every rank's size, where bytes per token alone were given."""
    tokens = [one["tokens"] for one in metrics or [] if one["tokens"]]
    if not tokens or not ask.bytes_per_token:
        return False
    sizes = [hicache_size.tokens_to_gb(one, ask.bytes_per_token) for one in tokens]
    return all(any(abs(gb - rank.main.gb) <= 0.01 + _ROUNDING for gb in sizes) for rank in ranks)


def _what_lacks(start, ask):
    if ask.tolerance_gb > _TIGHT:
        return f"tolerance_gb {ask.tolerance_gb:g} is too wide to tell sizes apart, give less"
    if not start.device and not start.pools:
        return "the start names no tokens of the device (max_total_num_tokens)"
    if not (ask.bytes_per_token or ask.stage_bytes):
        return "the bytes of a token are not known, give bytes_per_token or model_path"
    return "neither a ratio nor a size is known, give the one that the server was started with"


def _compare_size(start, rank, ask, reasons):
    """Compare the main pool of one rank.

    Returns ``(compared, fault)``: ``fault`` is None or ``(got, expected, rule)`` in words.
    """
    item = rank.main
    predicted = _prediction(start, ask, rank)
    tolerance = ask.tolerance_gb + 1e-6
    shared = [one for one in rank.side if one.pool in ("swa", "mamba")]
    release = release_of(start, ask)
    if predicted["size"] and shared and release is not None and release >= hicache_size.FIRST_SHARED_BUDGET:
        total = item.gb + sum(one.gb for one in shared)
        # Each pool of the budget is rounded to pages or states of its own.
        if abs(total - predicted["size"]) > tolerance + 0.005 * predicted["size"]:
            pools = " + ".join(f"{one.gb:.2f}" for one in [item, *shared])
            rule = "one budget over the full, SWA and Mamba pools"
            return True, (f"{pools} = {total:.2f} GB", f"{predicted['size']:.2f} GB", rule)
        return _tight(ask, predicted["size"]), None
    by_tokens = predicted["tokens"] and item.tokens and ask.expected_gb is None and not predicted["size"]
    tokens_wrong = by_tokens and abs(predicted["tokens"] - item.tokens) > predicted["token_slack"]
    options = _expected_sizes(predicted, rank, ask)
    if options:
        if all(abs(item.gb - hicache_size.printed_gb(gb)) > tolerance for gb in options):
            return True, (f"{item.gb:.2f} GB", f"{options[0]:.2f} GB", predicted["rule"])
        if not tokens_wrong:
            return bool(by_tokens) or _tight(ask, options[0]), None
    if tokens_wrong:
        return True, (f"{item.tokens} tokens", f"{predicted['tokens']} tokens", predicted["rule"])
    if by_tokens and not ask.model_expected:
        return True, None
    if item.tokens and _bytes(ask, rank) and not (ask.ratio or ask.hicache_size):
        # No size was asked for, and the tokens and the GB of the line are held against each other.
        return True, None
    # Without bytes per token, those of the pool on the device confirm a size, although they are rounded. Where a model
    # was named that cannot be read, its bytes were to be proved too: tokens alone prove nothing about them.
    span = token_bytes.measured(start) if predicted["tokens"] and not rank.side else None
    if span:
        low, high = (hicache_size.tokens_to_gb(predicted["tokens"], each) for each in span)
        return low - _ROUNDING - 1e-6 <= item.gb <= high + _ROUNDING + 1e-6, None
    return False, None


#: A tolerance up to here tells sizes apart whatever they are; a wider one has to be small beside the size.
_TIGHT = 0.05


def _tight(ask, expected):
    return ask.tolerance_gb <= max(_TIGHT, 0.1 * expected)


def _expected_sizes(predicted, rank, ask):
    each = _bytes(ask, rank)
    if predicted["gb"] is None:
        return []
    if ask.expected_gb is not None or not each:
        return [predicted["gb"]]
    values = _packed(rank.main, each)
    return [predicted["gb"] * value / each for value in values]


def _check_tokens(ranks, ask, reasons):
    """New wording prints tokens and GB: their quotient has to be the bytes per token that are known."""
    for rank in ranks:
        item, each = rank.main, _bytes(ask, rank)
        if not each or not item.tokens:
            continue
        products = [hicache_size.tokens_to_gb(item.tokens, value) for value in _packed(item, each)]
        # A pool of a few GB is told apart by its own size, whatever tolerance was asked for.
        slack = min(ask.tolerance_gb, max(0.01, 0.1 * products[0])) + 1e-6
        if all(abs(item.gb - hicache_size.printed_gb(gb)) > slack for gb in products):
            reasons.fail(
                "bytes_per_token_wrong",
                f"{rank.name} reported {item.tokens} tokens in {item.gb:.2f} GB, that is "
                f"{item.gb * hicache_size.GB / item.tokens:.0f} bytes per token and not {each}. Check "
                "the KV cache dtype and the number of layers.",
            )
            return False
    return True


def _check_equal(ranks, reasons):
    """Where no size is asked, ranks that hold the same layers agree within 0.01 GB."""
    stages = OrderedDict()
    for rank in ranks:
        stages.setdefault(dict(rank.tags).get("PP"), []).append(rank)
    right = True
    for stage in stages.values():
        sizes = [rank.main.gb for rank in stage]
        if max(sizes) - min(sizes) > 0.01 + 1e-6:
            right = False
            usual = Counter(sizes).most_common(1)[0][0]
            odd = [f"{rank.name} {rank.main.gb:.2f} GB" for rank in stage if abs(rank.main.gb - usual) > 0.01 + 1e-6]
            reasons.fail(
                "sizes_differ",
                f"The ranks do not agree: {_join(odd)}, the others {usual:.2f} GB. Ranks of one model hold equal "
                "pools: look for a second server in the same log, or another memory fraction.",
            )
    return right


def _check_draft(start, ranks, ask, reasons):
    if not ask.draft_bytes_per_token:
        return True
    release = release_of(start, ask)
    with_draft = [rank for rank in ranks if rank.draft]
    page, page_known = _page_size(start, ask)
    page = page if page_known else 256
    right, open_ranks = True, []
    for rank in with_draft:
        if rank.main.role == "shared":
            continue
        tokens, slack = rank.main.tokens, ask.tolerance_gb
        if not tokens:
            predicted = _prediction(start, ask, rank)
            tokens = predicted["tokens"]
        each = _bytes(ask, rank)
        if not tokens and each:
            tokens = int(rank.main.gb * hicache_size.GB / each)
            slack += _ROUNDING * ask.draft_bytes_per_token / each
        if not tokens:
            open_ranks.append(rank.name)
            continue
        slack += hicache_size.tokens_to_gb(page, ask.draft_bytes_per_token)
        expected = hicache_size.printed_gb(hicache_size.tokens_to_gb(tokens, ask.draft_bytes_per_token))
        if abs(rank.draft.gb - expected) > slack + 1e-6:
            right = False
            reasons.fail(
                "draft_size_wrong",
                f"{rank.name} reported a draft pool of {rank.draft.gb:.2f} GB where {expected:.2f} GB was expected "
                f"({tokens} tokens x {ask.draft_bytes_per_token} B). Check which draft model is loaded.",
            )
            break
    lacking = [rank.name for rank in ranks if not rank.draft and not (rank.main and rank.main.packed)]
    must = with_draft or (release is not None and release >= hicache_size.FIRST_DRAFT_POOL)
    if lacking and must:
        right = False
        reasons.fail(
            "draft_missing",
            f"{_join(lacking)} reported no draft pool. SGLang 0.5.11 and newer give the draft model a host pool: check "
            "that speculation is on and that the draft model is of a supported kind.",
        )
    if right and open_ranks:
        reasons.unknown(
            "draft_not_compared",
            f"The draft pool of {_join(open_ranks)} could not be compared: neither the tokens of the main pool nor its "
            "bytes per token are known. Give bytes_per_token or model_path.",
        )
        return None
    return right


# -- reasons --------------------------------------------------------------------------------------------------------


class Reasons:
    """Reasons in the order in which they were found; the first of a code wins."""

    def __init__(self):
        self.items = []

    def add(self, verdict, code, message):
        if len(self.items) < 40 and not any(item["code"] == code for item in self.items):
            self.items.append({"code": code, "message": redact(message, 700), "verdict": verdict})

    def fail(self, code, message):
        self.add(FAIL, code, message)

    def unknown(self, code, message):
        self.add(INCONCLUSIVE, code, message)

    def good(self, code, message):
        self.add(PASS, code, message)

    def note(self, code, message):
        self.add("note", code, message)


def _join(names, limit=8):
    names = list(names)
    if not names:
        return "none"
    if len(names) > limit:
        names = [*names[:limit], f"{len(names) - limit} more"]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


# -- the verdict ----------------------------------------------------------------------------------------------------


def judge(start, ask, around=None, restarts=0):
    """Judge one start.

    Returns ``(result, phase)``. ``result`` holds the keys that the module documents. ``phase`` tells a caller that
    waits what to do: ``done`` (nothing that comes can change the verdict for the better), ``settle`` (everything that
    can come has come, unless a notice of lost messages follows) or ``wait``.

    :raises ValueError: when the ask itself is wrong (an unreadable release or rank).
    """
    around = around or Around()
    check_ask(ask)
    reasons = Reasons()
    ask = _with_bytes(start, ask, reasons)
    ranks = group_ranks(start.allocations, ask)
    number, missing, odd = compare_ranks(ranks, ask)
    retraction = number == 0 and bool(ranks) and _makes_retraction_pools(start, ask)
    if retraction:
        odd = []
    seen = [rank for rank in ranks if rank.main]
    dead = _dead(start, around, reasons, ask)
    settings_right = started.check(start, ask, release_of(start, ask), reasons)
    sizes_right = check_sizes(start, ranks, ask, reasons, around.metrics) if seen and number else True
    if sizes_right is False and start.rejoined:
        sizes_right = _doubt_sizes(start, reasons)
    if not settings_right:
        sizes_right = False
    allocation = _allocation_verdict(start, around, reasons, ranks, number, missing, odd, sizes_right, dead, retraction)
    ready = _readiness(start, ask, around, reasons, allocation, dead)
    witness = _witnesses(start, ask, around, ranks, number, reasons)
    if restarts:
        reasons.note("restarts", f"systemd has restarted the unit {restarts} times before this start was judged.")
    if allocation == FAIL or dead or _port_taken(around, reasons):
        verdict = FAIL
    elif allocation == PASS and ready is True and witness:
        verdict = PASS
    elif allocation == PASS and ready == FAIL:
        verdict = FAIL
    else:
        verdict = INCONCLUSIVE
    if around.deadline is not None and verdict != PASS:
        last = redact(start.progress or "nothing", 200)
        reasons.add(
            verdict,
            "deadline",
            f"The start was not complete after {around.deadline:g} s; last progress seen: {last}. Raise the timeout "
            "where the model loads for longer.",
        )
    if verdict != PASS and start.last_error:
        reasons.note("last_error", f"The last exception seen was: {redact(start.last_error)}")
    phase = _phase(start, verdict, allocation, dead, sizes_right, missing, odd)
    return _result(start, ask, around, ranks, verdict, allocation, reasons, ready, missing, number), phase


def _with_bytes(start, ask, reasons):
    """The ask with the bytes per token of this very start, as far as they are known."""
    found = token_bytes.of_start(start, ask)
    if found.problem:
        reasons.note("geometry_unknown", f"The bytes of a token are not known: {found.problem}.")
    return ask._replace(
        bytes_per_token=found.main, draft_bytes_per_token=found.draft, stage_bytes=found.stages or ask.stage_bytes
    )


_SIZE_CODES = ("size_wrong", "size_zero", "sizes_differ", "bytes_per_token_wrong", "draft_size_wrong")


def _doubt_sizes(start, reasons):
    """Figures of a log that somebody laid out anew are no proof against a size; returns None in place of False."""
    for item in reasons.items:
        if item["code"] in _SIZE_CODES and item["verdict"] == FAIL:
            item["verdict"] = INCONCLUSIVE
    if any(item["code"] == "draft_missing" for item in reasons.items):
        return False
    reasons.unknown(
        "lines_wrapped",
        f"{start.rejoined} allocation line(s) were wrapped by whoever printed the log, so that it is not the server's "
        "own text any more. Judge the journal itself, or a log that was saved with journalctl --no-pager --full.",
    )
    return None


def _makes_retraction_pools(start, ask):
    settings = started.settings_of(start)
    release = release_of(start, ask)
    return bool(settings) and all(started.makes_retraction_pool(one, release) for one in settings)


def _port_taken(around, reasons):
    """Add who else listens where this service is asked; returns True when somebody does."""
    owner = around.owner
    if not owner or owner["ours"] is not False:
        return False
    who = f"process {owner['pid']} ({owner['comm']}) of {owner['unit'] or 'no unit'}"
    reasons.fail(
        "port_taken",
        f"Port {owner['port']} is held by {who}, and not by this service: what answers there proves nothing about it. "
        "Stop that process or give one of them another port.",
    )
    return True


def _phase(start, verdict, allocation, dead, sizes_right, missing, odd):
    if verdict == PASS or dead or sizes_right is False or odd:
        return "done"
    if allocation == FAIL and not missing:
        return "done"
    return "settle" if start.ready and allocation != PASS else "wait"


def _memory_rule(start, ask):
    """How SGLang decides that host memory does not suffice, for the release where it is known."""
    release = release_of(start, ask)
    known = release is not None and bool(ask.release)
    divided = not known or release >= hicache_size.FIRST_DIVIDED
    words = " SGLang leaves 10 GiB of the host's available memory alone"
    if divided:
        since = "" if known else "from 0.5.19 "
        words += f", and {since}divides the rest by the ranks of the host"
    return words + "; a rank that asks late sees less, because the ranks before it have taken theirs."


def is_claim(start, death):
    """Tell whether a death is said by a process of the service itself, after it had become ready.

    Such words may be a client's: SGLang logs what a refused request held as it came. They need a witness.
    """
    return death.data.get("writer") == "app" and start.ready and death.number > start.ready_number


def only_claims(start):
    """Tell whether all that speaks of the start's end needs a witness."""
    return bool(start.deaths) and all(is_claim(start, death) for death in start.deaths)


def _serves(around):
    """Tell whether the unit is up and its own server generates."""
    up = (around.unit or {}).get("ActiveState") in ("active", "activating", "reloading")
    return bool(up and around.health and around.health["ok"] and (around.owner or {}).get("ours") is not False)


def _dead(start, around, reasons, ask):
    """Add what says that the start is over; returns True when it is."""
    dead = False
    for death in start.deaths:
        if death.effect == "trouble" and start.ready and start.ready_number > death.number:
            reasons.note(death.code, f"Before it became ready, the server said: {redact(death.text)}")
            continue
        if is_claim(start, death) and _serves(around):
            reasons.note(
                "said_and_serving",
                f"A message says that the server is over ({death.code}: {redact(death.text, 200)}), and the server "
                "generates. Clients can put such words into the log.",
            )
            continue
        dead = True
        if death.code == "unit_stopped" and any(item["verdict"] == FAIL for item in reasons.items):
            # systemd says so before each restart too.
            continue
        constraint = f" ({death.data['constraint']})" if "constraint" in death.data else ""
        rank = f" by {rank_name(death.tags)}" if death.tags else ""
        words = redact(death.text).rstrip(".")
        rule = _memory_rule(start, ask) if death.code == "host_memory_refused" else ""
        reasons.fail(death.code, f"Seen{rank}: {words}{constraint}.{rule} What to do: {death.advice}.")
    dead = _unit_dead(around, reasons) or dead
    if around.oom_kills:
        dead = True
        reasons.fail(
            "killed_by_oom",
            f"The kernel killed {around.oom_kills} process(es) of the unit for want of memory. Raise MemoryMax, or "
            "lower the host pools.",
        )
    return dead


def _unit_dead(around, reasons):
    unit = around.unit
    if not unit:
        return False
    name = unit.get("Id") or "the unit"
    if unit.get("LoadState") == "not-found":
        reasons.fail("unit_not_found", f"The host has no unit {name}. Check the name, and that the unit was installed.")
        return True
    current = unit.get("InvocationID")
    if around.invocation and current and current != around.invocation:
        reasons.fail(
            "restarted",
            f"{name} has been started again since: {current} runs now, {around.invocation} was asked for "
            f"(restarts by systemd: {unit.get('NRestarts') or 0}). Find out why the earlier start ended.",
        )
        return True
    state, sub = unit.get("ActiveState"), unit.get("SubState")
    if state == "failed":
        reasons.fail(
            "unit_failed", f"{name} is failed (result {unit.get('Result')}). Read its journal, then start it again."
        )
        return True
    if sub in ("auto-restart", "auto-restart-queued"):
        reasons.fail("restart_scheduled", f"{name} has died and waits to be restarted (result {unit.get('Result')}).")
        return True
    if state in ("inactive", "deactivating"):
        reasons.fail("unit_inactive", f"{name} is {state} and serves nothing. Start it, then verify again.")
        return True
    return False


def _allocation_verdict(start, around, reasons, ranks, number, missing, odd, sizes_right, dead, retraction):
    seen = [rank for rank in ranks if rank.main]
    complete = not missing and len(seen) >= number
    doubled = [rank.name for rank in seen if rank.repeats]
    others = [rank for rank in seen if rank.others]
    mixed = bool(others) and len(others) < len(seen)
    if mixed:
        reasons.unknown(
            "doubled_rank",
            f"{_join([rank.name for rank in others])} reported the same pool from more than one process, the other "
            "ranks did not: the log holds a newer start that is not complete, or two servers. Name the unit or the "
            "start, or read the journal itself.",
        )
    elif doubled:
        reasons.note(
            "doubled_rank",
            f"{_join(doubled)} reported the same pool more than once: the log holds lines twice, or two servers write "
            "into it. The pools are counted once.",
        )
    if odd:
        reasons.fail(
            "unexpected_rank",
            f"{_join(odd)} reported a host pool and was not expected among {number} ranks. Check the parallel sizes of "
            "the unit, and that one server alone writes into this log.",
        )
        return FAIL
    if sizes_right is False:
        if missing:
            # The other half of what is wrong.
            _incomplete(start, around, reasons, seen, number, missing, dead)
        return FAIL
    if retraction:
        total = sum(item.gb for rank in ranks for _pool, item in rank.pools())
        reasons.good(
            "retraction_pool",
            f"HiCache is off, as asked. The pools of {len(seen)} ranks are those that a decode server makes for "
            f"retracted requests, {total:.2f} GB in all.",
        )
        return PASS
    if number == 0:
        reasons.good("no_pool_expected", "No host pool was expected, and none was reported: HiCache is off.")
        return PASS
    if complete and (mixed or sizes_right is None):
        return INCONCLUSIVE
    if complete:
        total = sum(item.gb for rank in ranks for _pool, item in rank.pools())
        reasons.good(
            "allocated",
            f"All {number} ranks reported their host pool; with every other pool the host holds {total:.2f} GB.",
        )
        return PASS
    if any(death.effect == "allocation" for death in start.deaths) or around.oom_kills:
        reasons.fail(
            "allocation_failed",
            f"The host memory was refused or lost before every rank had reported ({len(seen)} of {number}); "
            f"{_join(missing)} did not report.",
        )
        return FAIL
    return _incomplete(start, around, reasons, seen, number, missing, dead)


def _incomplete(start, around, reasons, seen, number, missing, dead):
    names = _join(missing)
    hidden = _hidden(start, around, reasons)
    if hidden:
        reasons.unknown(
            "evidence_lost",
            f"{len(seen)} of {number} ranks were seen ({names} not), but messages of this start are missing or hidden. "
            "The log cannot tell whether those ranks allocated: see the other reasons, and ask the metrics.",
        )
        return INCONCLUSIVE
    unknown = getattr(start, "unknown_lines", [])
    if unknown:
        words = f"{len(unknown)} line(s) about host memory have a wording that is not known: {redact(unknown[0], 200)}"
        if seen or dead:
            reasons.note("unknown_wording", words)
        else:
            reasons.unknown("unknown_wording", words)
    cut = [rank_name(tags) or "a process" for tags, _text in start.cuts]
    if cut:
        reasons.fail("line_cut", f"The line of {_join(sorted(set(cut)))} breaks off: its process died while it wrote.")
    if seen:
        reasons.fail(
            "rank_missing",
            f"{len(seen)} of {number} ranks reported a host pool; {names} did not, and no message is missing. Look at "
            "the last messages of those ranks.",
        )
        return FAIL
    side = sum(1 for item in start.allocations if item.role not in ("main", "by_order"))
    if side:
        reasons.unknown(
            "main_pool_missing",
            f"{side} other pools were reported (indexer, state or draft), but no main KV pool. This wording is not "
            "known, or the model has no such pool.",
        )
        return FAIL if dead else INCONCLUSIVE
    if dead:
        reasons.fail("rank_missing", f"The start ended before any of {number} ranks reported a host pool: {names}.")
        return FAIL
    complete = start.ready or "serving" in start.marks
    if unknown and complete:
        return INCONCLUSIVE
    if complete and start.begun and _speaks(start):
        if cut:
            return FAIL
        if any(started.enabled(settings) for settings in started.settings_of(start)):
            reasons.fail(
                "rank_missing",
                f"The server became ready with HiCache on by its own arguments, and none of {number} ranks reported a "
                f"host pool ({names}). Read the messages before it became ready.",
            )
            return FAIL
        reasons.fail(
            "hicache_off",
            "The server became ready and no rank reported a host pool: HiCache is off. Check that the unit has "
            "--enable-hierarchical-cache.",
        )
        return FAIL
    reasons.unknown(
        "no_allocation_line",
        f"No rank of {number} has reported a host pool yet, and the start is not seen to complete.",
    )
    return INCONCLUSIVE


def _speaks(start):
    """Tell whether messages of level info are seen at all."""
    return bool(start.marks - {"startup_complete", "request", "serving"}) and not _quiet(start)


def _quiet(start, around=None):
    """The server's log level where it is above info, else None."""
    level = start.settings.get("log_level")
    if isinstance(level, str) and level.lower() in ("warning", "warn", "error", "critical", "fatal"):
        return level
    return quiet_level((around.unit or {}).get("ExecStart")) if around else None


def _hidden(start, around, reasons):
    """Add why messages of this start are missing or hidden; returns True when some are."""
    hidden = False
    for loss in start.losses.values():
        hidden = True
        words = loss["message"][:1].upper() + loss["message"][1:]
        reasons.unknown(loss["code"], f"{words} ({loss['count']}). {_REMEDY[loss['code']]}")
    if start.unclear:
        hidden = True
        names = _join(sorted({rank_name(tags) or "a process" for tags in start.unclear}))
        reasons.unknown(
            "unclear_line",
            f"The line of {names} stands behind other text on the same line, so it may be a quotation. Read the log "
            "with journalctl -o json.",
        )
    level = _quiet(start, around)
    if level:
        hidden = True
        reasons.unknown(
            "log_level",
            f"The server logs at level {level}: allocation lines are of level info. Set the log level to info.",
        )
    if around.bound and not start.messages and not start.losses:
        hidden = True
        reasons.unknown(
            "journal_empty",
            "The journal holds no message of this start. Check that the unit logs to the journal (StandardOutput, "
            "StandardError) and that the journal has not been deleted since.",
        )
    # Late lines without the beginning: what was logged first was deleted first.
    late = start.ready or "serving" in start.marks or (around.bound and start.messages)
    if not start.begun and late:
        hidden = True
        reasons.unknown(
            "start_rotated_away",
            "The server is serving, but the beginning of its start is not in the log any more. Use the verdict that "
            "was saved when the service was deployed, or the metrics; give the journal more room (SystemMaxUse).",
        )
    return hidden


_REMEDY = {
    "rate_limited": "Set LogRateLimitIntervalSec=1s and LogRateLimitBurst=100000000 in the unit and restart it.",
    "blob": "Read the log with journalctl -o json --all.",
    "null_message": "Read the log with journalctl -o json --all.",
    "oversize_message": "Look for what writes such messages.",
    "damaged_message": "Save the log again.",
    "cut_lines": "systemctl status and narrow terminals do that: save the log with journalctl --no-pager --full.",
    "input_cut": "Save the whole log.",
    "no_permission": "Read it as root or as a member of the group systemd-journal (become).",
    "journal_damaged": "Run journalctl --verify.",
    "journal_unreadable": "Read what journalctl said.",
}


def line_may_be_absent(start):
    """Tell whether a start may be ready without its ready line in the log: lost, rotated away, or not node 0."""
    return bool(start.losses) or not start.begun or (start.settings.get("node_rank") or 0) > 0 or _quiet(start)


def _readiness(start, ask, around, reasons, allocation, dead):
    """True (ready), None (not known), or ``fail`` (the server itself says that it is not healthy)."""
    health = around.health
    owner = around.owner
    if dead:
        return None
    if ask.readiness == "none":
        reasons.note("readiness_not_asked", "Readiness was not asked for: the verdict rests on the allocation lines.")
        return True
    healthy = health["ok"] if health else None
    if start.ready:
        reasons.good("ready", "The server said that it is ready, in this same start.")
    if ask.readiness == "health":
        ready = healthy
    elif start.ready:
        ready = True if health is None or ask.readiness == "line" else healthy
    else:
        ready = True if ask.readiness == "auto" and healthy and line_may_be_absent(start) else None
        if not ready:
            text = "No line of this start says that the server is ready"
            if (start.settings.get("node_rank") or 0) > 0:
                text += "; only node 0 prints it, so set readiness to none on the other nodes"
            elif healthy:
                text += ", although the health address answers: another server may hold the port"
            reasons.unknown("not_ready", text + ".")
    if health is not None and ask.readiness != "line":
        if healthy:
            reasons.good("healthy", health["message"])
        elif healthy is False:
            reasons.fail("unhealthy", health["message"])
            return FAIL if start.ready or ask.readiness == "health" else None
        else:
            reasons.unknown("health_unknown", health["message"])
            return None
    if ready and owner and owner["ours"] is None:
        if not start.ready:
            # Only the address speaks for this start, and anybody may listen there.
            reasons.unknown("port_owner_unknown", _owner_words(owner))
            return None
        reasons.note("port_owner_unknown", _owner_words(owner))
    return True if ready else None


def _owner_words(owner):
    return (
        f"It cannot be told which process listens on port {owner['port']}, so its answers count for nothing here. Look "
        "as root (become), on the host where the service runs."
    )


def _witnesses(start, ask, around, ranks, number, reasons):
    """Compare the lines with what the server itself says over HTTP; returns False when they contradict."""
    agrees = True
    mains = [rank.main for rank in ranks if rank.main and rank.main.role != "shared"]
    if around.metrics is not None:
        tokens = [one["tokens"] for one in around.metrics if one["tokens"]]
        if not tokens:
            reasons.note("metrics_absent", "The metrics do not show sglang:hicache_host_total_tokens yet.")
        elif mains and len(mains) >= number:
            agrees = _metrics_agree(tokens, mains, ask, reasons)
        else:
            shown = f"{tokens[0]} tokens"
            if ask.bytes_per_token:
                shown += f", {hicache_size.tokens_to_gb(tokens[0], ask.bytes_per_token):.2f} GB,"
            reasons.note(
                "metrics_show",
                f"The server that answers now has host pools of {shown} on {len(tokens)} rank(s). That is no proof "
                "about this start, but it is what the log cannot tell.",
            )
    info = around.server_info
    if info:
        wrong = []
        if info.get("enable_hierarchical_cache") is False:
            wrong.append("HiCache is off")
        ratio = info.get("hicache_ratio") if not info.get("hicache_size") else None
        # Written so that "not a number" differs.
        if ask.ratio and isinstance(ratio, (int, float)) and not abs(ratio - ask.ratio) <= 1e-9:
            wrong.append(f"hicache_ratio is {ratio}, not {ask.ratio:g}")
        if ask.ratio and not ask.hicache_size and info.get("hicache_size"):
            wrong.append(f"hicache_size is {info['hicache_size']}, which wins over a ratio")
        if ask.hicache_size and info.get("hicache_size") not in (None, ask.hicache_size):
            wrong.append(f"hicache_size is {info['hicache_size']}, not {ask.hicache_size:g}")
        logged = device_tokens_of(start)
        tokens = info.get("max_total_num_tokens")
        if logged and isinstance(tokens, int) and tokens != logged and len(set(start.device.values())) == 1:
            wrong.append(f"the device pool has {tokens} tokens, the log says {logged}")
        if wrong:
            agrees = False
            reasons.unknown(
                "server_info_differs",
                f"The running server says otherwise: {_join(wrong)}. Another server may answer at this address, or the "
                "unit was changed and not restarted.",
            )
        else:
            reasons.good("server_info_agrees", "The settings that the running server reports agree with the log.")
    return agrees


def _metrics_agree(tokens, mains, ask, reasons):
    known = {item.tokens for item in mains if item.tokens}
    if known:
        wrong = [one for one in tokens if one not in known]
        expected = _join([f"{one} tokens" for one in sorted(known)])
    elif ask.bytes_per_token:
        sizes = {item.gb for item in mains}
        slack = ask.tolerance_gb + _ROUNDING
        wrong = [
            one
            for one in tokens
            if all(abs(hicache_size.tokens_to_gb(one, ask.bytes_per_token) - gb) > slack for gb in sizes)
        ]
        expected = _join([f"{gb:.2f} GB" for gb in sorted(sizes)])
    else:
        return True
    if wrong:
        reasons.unknown(
            "metrics_differ",
            f"sglang:hicache_host_total_tokens is {wrong[0]}, but the log says {expected}. Another server may "
            "answer at this address.",
        )
        return False
    reasons.good("metrics_agree", f"sglang:hicache_host_total_tokens agrees with the log on {len(tokens)} rank(s).")
    return True


# -- the result -------------------------------------------------------------------------------------------------------


def _time(value):
    return iso_utc(value) if isinstance(value, float) else value


def _result(start, ask, around, ranks, verdict, allocation, reasons, ready, missing, number):
    seen = [rank for rank in ranks if rank.main]
    listed = [
        {"rank": rank.name, "pool": pool, "gb": item.gb, "tokens": item.tokens}
        for rank in ranks
        for pool, item in rank.pools()
    ]
    mains = sorted({rank.main.gb for rank in seen if rank.main.role != "shared"}, reverse=True)
    drafts = sorted({rank.draft.gb for rank in ranks if rank.draft}, reverse=True)
    sliding = [
        sorted({one.gb for rank in ranks for one in rank.side if one.pool == name}) for name in ("swa", "draft_swa")
    ]
    expected = ask.expected_gb if number else None
    if expected is None and number:
        probe = seen[0] if seen else Rank("", ())
        predicted = _prediction(start, ask, probe)["gb"]
        expected = hicache_size.printed_gb(predicted) if predicted is not None else None
    started, became = start.started_at, start.ready_at
    seconds = None
    if isinstance(started, float) and isinstance(became, float) and became >= started:
        seconds = round(became - started, 3)
    return {
        "verdict": verdict,
        "allocation_verdict": allocation,
        "reasons": reasons.items,
        "ranks": listed[: 40 * _CAP],
        "ranks_seen": len(seen),
        "ranks_expected": number,
        "ranks_missing": missing[: 5 * _CAP],
        "per_rank_gb": mains[:_CAP] + sliding[0][:_CAP] + drafts[:_CAP] + sliding[1][:_CAP],
        "total_gb": round(sum(item["gb"] for item in listed), 2),
        "expected_gb": expected,
        "device_tokens": device_tokens_of(start),
        "bytes_per_token": ask.bytes_per_token,
        "draft_bytes_per_token": ask.draft_bytes_per_token,
        "invocation_id": start.invocation or around.invocation,
        "ready": bool(ready is True and (start.ready or ask.readiness != "none")),
        "lost": list(start.losses.values()),
        "fatal": [
            {
                "code": death.code,
                "rank": rank_name(death.tags) or None,
                "message": redact(death.text),
                "at": _time(death.time),
            }
            for death in start.deaths[:_CAP]
        ],
        "started_at": _time(started),
        "ready_at": _time(became),
        "seconds_to_ready": seconds,
        "progress": redact(start.progress, 200) if start.progress else None,
        "messages": start.messages,
    }


def summary(result):
    """The verdict in one line, for people."""
    words = f"{result['verdict']}: {result['ranks_seen']} of {result['ranks_expected']} ranks"
    if result["per_rank_gb"]:
        words += ", " + " + ".join(f"{gb:.2f}" for gb in result["per_rank_gb"][:4]) + " GB each"
    if result["expected_gb"] is not None:
        words += f" (expected {result['expected_gb']:.2f} GB)"
    words += f", {result['total_gb']:.2f} GB in total"
    if result["seconds_to_ready"] is not None:
        words += f", ready after {result['seconds_to_ready']:.0f} s"
    return words


def explain(result, name):
    """Why a verdict is no pass: the reasons that speak against it, in one text."""
    against = [item["message"] for item in result["reasons"] if item["verdict"] == result["verdict"]]
    return f"{name}: {summary(result)}. " + " ".join(against[:6])
