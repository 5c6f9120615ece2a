# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect, message by message and in bounded memory, what a log says about the newest start of one unit.

Feed :class:`Evidence` with records of :mod:`journal`; it keeps one :class:`Start`, the newest, and forgets the ones
before it. :mod:`hicache_judge` draws the conclusions.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

import re
from collections import OrderedDict, namedtuple

from .hicache_log import (
    APP_PREFIX,
    is_access,
    is_access_head,
    is_bar,
    is_dump,
    json_message,
    parse_segment,
    parse_server_args,
    quiet_level,
    repeated,
    split_prefix,
    strip_ansi,
    whole_settings,
)
from .journal import LINE_LIMIT, MESSAGE_ID_STARTED, MESSAGE_ID_STARTING, TextReader, full_unit_name

#: One allocation line. ``number`` orders it among the messages of the input.
Allocation = namedtuple("Allocation", "tags origin pid role pool gb tokens packed labelled item number time")

#: One message that says that the start, or its allocation, did not succeed.
Death = namedtuple("Death", "code effect advice text number tags time data")

MAX_ALLOCATIONS = 4096
MAX_DEATHS = 64
_MAX_OPEN = 256
_OPEN_LIMIT = 2048
# Until a cut record of a process is joined, every record is decoded; one that waits longer than this is given up.
_OPEN_AGE = 20000

_START = re.compile(r"(?P<verb>Starting|Started) (?P<what>[^\r\n]{1,300}?)(?:\.\.\.|\.)?$")
_UNIT_TOKEN = re.compile(r"\b([\w@:.\\-]+\.(?:service|scope|socket|target|timer|slice|mount|path))\b")
_LIKELY = re.compile(r"(?i)sglang|kimi|deepseek|llm|inference|hicache")
_HELPER = re.compile(r"(?i)export|rout|gateway|proxy|check|backup|prepar|download|monitor|metric|clean")
_ERROR = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt): \S")
_SESSION = re.compile(r"(?:session-\w{1,40}\.scope|user@\d{1,10}\.service)$")
# Forms in which nobody can have wrapped a line.
_EXACT_FORMS = ("json", "export", "json-lines")
_MAX_ORIGINS = 256
_MAX_PAST = 4096
_MAX_UNKNOWN = 8
# A text of SGLang about host memory that no table knows, and the ones that say nothing about an allocation.
_HOST_WORDS = re.compile(r"Allocating |[^\r\n]{0,300}\bhost (?:pool|memory)\b")
_HOST_KNOWN = re.compile(r"HiCache |Sync fixed-size HiCache|Attached hybrid pool|Not enough host memory")
# What only the beginning of a start says, before or beside its arguments.
_BEGINNINGS = ("distributed", "weights", "device_pool", "device_tokens")
_LAUNCH = re.compile(
    r"(?:\+ (?:exec )?\S{0,200}(?:python\S{0,40}|sglang)\b[^\r\n]{0,200}|(?:Starting|Launching|Restarting)\b"
    r"[^\r\n]{0,80}|[^\r\n]{0,200}\bpython3? -m )(?i:sglang)\b"
)
_FRAME = re.compile(r'File "(?P<file>[^"\r\n]{1,500})", line \d{1,9}, in (?P<place>\S{1,200})')
_LAUNCHER = re.compile(r"(?:^|/)(?:sglang|launch_server\.py|sglang/__main__\.py)$|\brunpy\b")
_RAISED = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit)\b(?::|$)")
# What a message that continues on the next line of a terminal may begin with.
_FIGURE_LINE = re.compile(r"(?:(?:Full|SWA) )?KV Cache (?:is allocated|VA upper bound)\b|max_total_num_tokens=")
_READY_TEXT = "The server is fired up and ready to roll!"
_OURS_COMM = re.compile(r"(?i)sglang|python|pt_main_thread|torch|ray::")


def _likeness(name):
    """How much a unit's name looks like that of an SGLang server: 0 (not at all) to 3."""
    if not _LIKELY.search(name):
        return 0
    if _HELPER.search(name) or not name.endswith((".service", ".scope")):
        return 1
    return 3 if re.search(r"(?i)sglang", name) else 2


def _unit_in(words):
    """Name of the unit that systemd's words are about: the first one named, in a cgroup's path the innermost."""
    names = _UNIT_TOKEN.findall(words)
    if words.startswith("/"):
        names = [name for name in reversed(names) if not name.endswith(".slice")] or names
    return names[0] if names else None


class _Origin:
    """What one container or pod (None: everything that names none) has said in a start."""

    def __init__(self):
        self.settings = {}
        self.marks = set()
        self.deaths = []
        self.cuts = []
        self.ready_number = None
        self.ready_at = None
        self.last_error = None


class Start:
    """What one start has said so far.

    Readiness, deaths, marks, settings and figures of the device belong to the origin that wrote them. The properties
    without an origin speak of those that matter: the ones that allocated, or whose arguments turn HiCache on, or all
    where there is none of these; and always of what names no origin.
    """

    def __init__(self, number=0):
        self.number = number
        self.allocations = []
        self.losses = OrderedDict()
        self.unclear = []
        self.unknown_lines = []
        # Allocation lines that were put together again: whoever printed the log laid it out anew.
        self.rejoined = 0
        self.origins = OrderedDict()
        self.begun = False
        self.invocation = None
        self.started_at = None
        self.progress = None
        self.messages = 0
        self.pids = set()
        # Processes that had written before the server took requests.
        self.pids_before_requests = frozenset()
        self._device = OrderedDict()
        self._pools = OrderedDict()
        self._device_lines = OrderedDict()

    # -- by origin ----------------------------------------------------------------------------------------------

    def of(self, origin):
        """The :class:`_Origin` of that name, made when it is new; beyond the most that are kept, that of no name."""
        if origin not in self.origins:
            if len(self.origins) >= _MAX_ORIGINS:
                origin = None
            self.origins.setdefault(origin, _Origin())
        return self.origins[origin]

    def ready_of(self, origin):
        """Tell whether this origin said that it is ready."""
        known = self.origins.get(origin)
        return known is not None and known.ready_number is not None

    def forget(self, origin):
        """Drop what one origin said: it has begun again."""
        self.origins.pop(origin, None)
        self.allocations = [item for item in self.allocations if item.origin != origin]
        for holder in (self._device, self._pools, self._device_lines):
            for key in [key for key in holder if key[0] == origin]:
                del holder[key]

    def alone(self, origin):
        """Tell whether no other origin has said anything in this start."""
        return all(name == origin for name in self.origins)

    def _relevant(self):
        if len(self.origins) < 2:
            return list(self.origins)
        names = {item.origin for item in self.allocations}
        names |= {name for name, one in self.origins.items() if one.settings.get("enable_hierarchical_cache") is True}
        names &= set(self.origins)
        return [name for name in self.origins if name is None or not names or name in names]

    def _ready(self):
        """The origins whose readiness makes the start ready, or an empty list."""
        allocated = {item.origin for item in self.allocations}
        if not allocated:
            return [one for one in self.origins.values() if one.ready_number is not None]
        # Of the nodes of one server the first alone says it.
        first = [name for name in allocated if not ((self.of(name).settings.get("node_rank") or 0) > 0)]
        asked = [self.of(name) for name in first or allocated]
        return asked if all(one.ready_number is not None for one in asked) else []

    @property
    def ready(self):
        return bool(self._ready())

    @property
    def ready_number(self):
        """Number of the message with which the start became ready, or None."""
        return max((one.ready_number for one in self._ready()), default=None)

    @property
    def ready_at(self):
        """Time of that message, or None."""
        last = max(self._ready(), key=lambda one: one.ready_number, default=None)
        return last.ready_at if last else None

    @property
    def deaths(self):
        """Deaths in the order of the log. Trouble after the readiness of its own origin is a death."""
        found = []
        for name in self._relevant():
            one = self.origins[name]
            late = one.ready_number if name is not None else self.ready_number
            for death in one.deaths:
                after = death.effect == "trouble" and late is not None and death.number > late
                found.append(death._replace(effect="death") if after else death)
        return sorted(found, key=lambda death: death.number)

    @property
    def marks(self):
        found = set()
        for name in self._relevant():
            found |= self.origins[name].marks
        return found

    @property
    def settings(self):
        """Arguments of the origin that allocated first, else of the first one that printed any."""
        names = [item.origin for item in self.allocations[:1]] + self._relevant()
        found = [self.origins[name].settings for name in names if name in self.origins]
        return next((one for one in found if one), {})

    @property
    def settings_by(self):
        """Arguments of every origin that printed any."""
        return OrderedDict((name, one.settings) for name, one in self.origins.items() if one.settings)

    @property
    def cuts(self):
        """Allocation lines that break off, as (tags, text)."""
        return [cut[:2] for name in self._relevant() for cut in self.origins[name].cuts]

    @property
    def last_error(self):
        """Text of the last exception, or None."""
        found = [self.origins[name].last_error for name in self._relevant()]
        return max((one for one in found if one), default=(0, None))[1]

    @property
    def device(self):
        return self._figures(self._device)

    @property
    def pools(self):
        return self._figures(self._pools)

    @property
    def device_lines(self):
        """The lines about pools on the device of each (origin, tags), in their order; see :func:`_device_line`."""
        return self._figures(self._device_lines)

    def describe(self, origin, tags, data):
        """Keep what a line about a pool on the device says beside its tokens."""
        if len(self._device_lines) < 1024 or (origin, tags) in self._device_lines:
            lines = self._device_lines.setdefault((origin, tags), [])
            if len(lines) < 8:
                lines.append(_device_line(data))

    def _figures(self, holder):
        names = self._relevant()
        if len(names) == len(self.origins):
            return holder
        return OrderedDict((key, value) for key, value in holder.items() if key[0] in names)

    def figure(self, code, origin, tags, tokens):
        """Keep the first count of device tokens of each rank; ``code``: device_tokens or device_pool."""
        holder = self._device if code == "device_tokens" else self._pools
        if len(holder) < 1024:
            holder.setdefault((origin, tags), tokens)

    def die(self, origin, death):
        """Keep a death; of too many, one that may still turn out to be harmless gives way."""
        deaths = self.of(origin).deaths
        if len(deaths) >= MAX_DEATHS:
            mild = next((index for index, one in enumerate(deaths) if one.effect == "trouble"), None)
            if mild is None:
                return
            del deaths[mild]
        deaths.append(death)

    def become_ready(self, origin, number, time):
        """Note that an origin is ready; what was cut before it, was cut by whoever printed the log."""
        one = self.of(origin)
        if one.ready_number is None:
            one.ready_number, one.ready_at = number, time
        if one.cuts:
            self.lose("cut_lines", "lines were cut or wrapped by whoever printed the log", len(one.cuts))
            one.cuts = []

    # -- in all ---------------------------------------------------------------------------------------------------

    def lose(self, code, message, count=1):
        """Note that messages of this start are missing or hidden."""
        known = self.losses.get(code)
        if known:
            known["count"] += count
        elif len(self.losses) < 16:
            self.losses[code] = {"code": code, "message": message, "count": count}

    def empty(self):
        """Tell whether nothing of this start was seen that a new start would have to wipe out."""
        return not self.allocations and not any(
            one.deaths or one.ready_number is not None or one.cuts or one.marks - {"server_args"}
            for one in self.origins.values()
        )


class Evidence:
    """The newest start in a stream of records.

    ``unit``: name of the unit, or None when the input is of one unit only. ``invocation``: the start to look at
    (32 hexadecimal digits), or None for the newest in the input.
    """

    def __init__(self, unit=None, invocation=None):
        self.unit = full_unit_name(unit) if unit else None
        self.invocation = invocation
        self.start = Start()
        self.starts = 0
        self.restarts = 0
        self.messages = 0
        self._past = OrderedDict()
        self._current = None
        self._starting = False
        self._open = OrderedDict()
        self._head = None
        self._learned = None
        self._strangers = OrderedDict()
        self._pending = OrderedDict()
        self._traces = OrderedDict()
        self._width = None
        self._head_length = 0

    # -- reading ------------------------------------------------------------------------------------------------

    @property
    def wants_everything(self):
        """True while a cut record waits for the rest that the same process writes: no record may be skipped then."""
        # The oldest stands first.
        while self._open and self.messages - next(iter(self._open.values()))[2] > _OPEN_AGE:
            self._open.popitem(last=False)
        return bool(self._open)

    def feed(self, record):
        """Take one record. Never raises, whatever the record holds."""
        self.messages += 1
        if record.form == "header":
            self._header(record)
            return
        if not self._belongs(record):
            return
        self.start.messages += 1
        if record.hidden:
            self._hidden(record)
            return
        if record.text is None:
            return
        if record.writer in ("app", None):
            self._application(record)
        elif record.writer == "systemd":
            self._systemd(record)
        elif record.writer == "kernel":
            self._kernel(record)
        elif record.writer in ("journald", "journalctl", "rsyslog"):
            self._collector(record)

    def glance(self, record):
        """Look at the newest record for the progress that it shows, and for nothing else."""
        if record is None or record.writer != "app" or not record.text or not self._belongs(record):
            return
        pieces = [piece.strip() for piece in re.split(r"[\r\n]", strip_ansi(record.text[-4000:])) if piece.strip()]
        if (
            pieces
            and not is_dump(record.text)
            and not is_access(pieces[-1])
            and (is_bar(pieces[-1]) or APP_PREFIX.match(pieces[-1]))
        ):
            self.start.progress = (pieces[-1] if is_bar(pieces[-1]) else split_prefix(pieces[-1]).rest)[:200]

    def feed_all(self, records):
        """Take records one after the other; returns self."""
        for record in records:
            self.feed(record)
        return self

    def lose(self, code, message):
        """Note that something hides messages of this start."""
        self.start.lose(code, message)

    def note_text(self, text):
        """Take what a reader (journalctl) said on its standard error."""
        for line in text.splitlines():
            for event in parse_segment(line, "journalctl"):
                if event.kind == "loss":
                    self._lose(event, None)

    # -- which start --------------------------------------------------------------------------------------------

    def _new_start(self, record, begun, invocation=None):
        self.start = Start(self.messages)
        self.start.begun = begun
        self.start.invocation = invocation
        self.start.started_at = _when(record)
        self.starts += 1
        self._open.clear()
        self._pending.clear()
        self._head = None

    def _renew(self, record):
        """An origin has begun again: what it said before is out of date."""
        if self.start.alone(record.origin):
            self._new_start(record, True, self._current or self.invocation)
        else:
            self.start.forget(record.origin)
            self._pending.pop(record.origin, None)
            self.starts += 1

    def _belongs(self, record):
        if record.writer == "other":
            return False
        if record.invocation:
            if self.invocation:
                if record.invocation != self.invocation:
                    return False
                self.start.invocation = record.invocation
                return True
            if not self._our_unit(record.unit):
                return False
            if record.invocation != self._current:
                if record.invocation in self._past:
                    return False
                if self._current:
                    self._past[self._current] = True
                    while len(self._past) > _MAX_PAST:
                        self._past.popitem(last=False)
                self._current = record.invocation
                self._starting = False
                self._new_start(record, False, record.invocation)
            return True
        # A process whose unit is not known (it ended before journald looked) may be anybody's.
        unproven = self.invocation or (self._current and not record.unit and not record.hidden)
        if unproven and record.form in ("json", "export") and record.writer == "app":
            return False
        return not (record.unit and record.writer in ("app", "systemd", "kernel") and not self._our_unit(record.unit))

    def _our_unit(self, name):
        if not name:
            return True
        if self.unit:
            return name == self.unit
        if self._current and _SESSION.match(name):
            return False
        if _likeness(name) > _likeness(self._learned or ""):
            self._learned = name
        return self._learned is None or name == self._learned

    def _our_text(self, what, strict):
        """Tell whether the words of systemd, in a form without unit field, are about our unit."""
        name = _unit_in(what)
        if name:
            return self._our_unit(name)
        if _LIKELY.search(what):
            return True
        if self.unit and self.unit.split(".")[0].lower() in what.lower():
            return True
        return not strict and not self.unit

    def _header(self, record):
        if record.hidden == "reboot" and not self.start.empty():
            self._new_start(record, False)

    # -- hidden messages ----------------------------------------------------------------------------------------

    def _hidden(self, record):
        words = {
            "null": "messages of more than 4 KB were left out (journalctl -o json without --all)",
            "oversize": "a message of more than 8 MB was left out",
            "damaged": "a line of the log could not be read",
        }
        self.start.lose(record.hidden + "_message", words.get(record.hidden, "a message could not be read"))

    def _lose(self, event, record):
        count = int(event.data.get("count") or (record.count if record else 0) or 1)
        unit = event.data.get("unit")
        if unit and not (record and record.invocation) and not self._our_text(unit.rstrip("."), False):
            return
        words = {
            "rate_limited": "messages of the unit were dropped by a rate limit",
            "blob": "messages are shown as blob data",
            "cut_lines": "lines were shortened by whoever printed the log",
            "no_permission": "the journal could not be read with the rights of this user",
            "journal_damaged": "a journal file is damaged",
        }
        self.start.lose(event.code, words.get(event.code, event.code), count)

    def _collector(self, record):
        events = [event for event in parse_segment(record.text, record.writer) if event.kind == "loss"]
        named = next((event.data["unit"] for event in events if event.data.get("unit")), None)
        if not record.invocation:
            if record.unit and not self._our_unit(record.unit):
                return
            if not record.unit and named and not self._our_text(named.rstrip("."), False):
                return
        if record.count:
            self.start.lose("rate_limited", "messages of the unit were dropped by a rate limit", record.count)
            return
        for event in events:
            self._lose(event, record)

    # -- systemd and the kernel -----------------------------------------------------------------------------------

    def _systemd(self, record):
        text = strip_ansi(record.text).strip()
        about_us = bool(record.invocation or record.unit)
        if record.message_id in (MESSAGE_ID_STARTING, MESSAGE_ID_STARTED):
            self._started(record, record.message_id == MESSAGE_ID_STARTING)
            return
        match = _START.match(text)
        if match:
            if about_us or self._our_text(match.group("what"), True):
                self._started(record, match.group("verb") == "Starting")
            return
        for event in parse_segment(text, "systemd"):
            if event.kind == "fatal":
                what = event.data.get("unit") or event.data.get("unit2") or event.data.get("cgroup") or ""
                if about_us or self._our_text(what, True):
                    self._dead(event, record)

    def _started(self, record, starting):
        if self.invocation is None and self._current is None:
            # "Started" closes a start that "Starting" opened: what stands between belongs to it.
            if starting or not self._starting:
                self._new_start(record, True)
        elif self.start.started_at is None or not self.start.begun:
            self.start.started_at = _when(record)
        self._starting = starting
        self.start.begun = True

    def _kernel(self, record):
        for event in parse_segment(record.text, "kernel"):
            if event.kind == "fatal" and self._our_victim(event, record.text):
                self._dead(event, record)

    def _our_victim(self, event, text):
        pid = event.data.get("pid")
        if pid and int(pid) in self.start.pids:
            return True
        if pid and pid in self._strangers:
            return False
        known = self.unit or self._learned
        if "task_memcg=" in text or "oom_memcg=" in text:
            ours = self._our_cgroup(text, known)
            victim = re.search(r"\bpid=(\d{1,10})\b", text)
            if victim and int(victim.group(1)) in self.start.pids:
                return True
            # The next words of the kernel name the victim by its process id, and by a name that many programs share.
            if victim and ours and len(self.start.pids) < 4096:
                self.start.pids.add(int(victim.group(1)))
            if victim and not ours and known:
                self._strangers[victim.group(1)] = True
                while len(self._strangers) > _MAX_OPEN:
                    self._strangers.popitem(last=False)
            return ours
        comm = event.data.get("comm")
        if self.unit:
            # A kernel that names no cgroup leaves the name alone; that of an interpreter says nothing.
            return bool(event.code == "killed_by_oom" and comm and re.search(r"(?i)sglang", comm))
        return bool(comm and _OURS_COMM.search(comm))

    @staticmethod
    def _our_cgroup(text, known):
        """Tell whether the kernel's words about an OOM kill name the cgroup of our unit, or SGLang itself."""
        groups = re.findall(r"\btask_memcg=(\S*?)(?:,|$)", text) or re.findall(r"\boom_memcg=(\S*?)(?:,|$)", text)
        if known:
            return any(known in group.split("/") for group in groups)
        if any(_LIKELY.search(group) for group in groups):
            return True
        task = re.search(r"\btask=([^,]+)", text)
        return bool(task and re.search(r"(?i)sglang", task.group(1)))

    # -- the application ------------------------------------------------------------------------------------------

    def _application(self, record):
        if record.pid is not None and len(self.start.pids) < 4096:
            self.start.pids.add(record.pid)
        times, text = repeated(record.text)
        structured = json_message(text) if text.lstrip()[:1] == "{" else None
        extra = ()
        if structured:
            text, extra, _data = structured
        if record.cont:
            if not self._continues(record, text):
                return
        elif self._joins(record, text):
            text = self._take_open(record) + text
        elif record.pid in self._open:
            kind, open_text, _number = self._open.pop(record.pid)
            if kind == "other":
                # The rest of a long message that was split: nothing in it begins a message.
                if record.line_break in ("line-max", "pid-change"):
                    self._remember("other", record, "")
                return
            self._segments(open_text, record, extra)
        if record.line_break in ("pid-change", "line-max"):
            text = self._leave_open(record, text)
        before = len(self.start.allocations)
        self._segments(text, record, extra)
        # Processes that print no rank print equal lines, which rsyslog counts instead of writing them out.
        new = [item for item in self.start.allocations[before:] if not item.tags]
        self.start.allocations += new * min(times - 1, MAX_ALLOCATIONS - len(self.start.allocations))

    def _continues(self, record, text):
        """Decide whether a line without a collector's prefix may begin a message."""
        if self._head == "access":
            # The rest of a record of a request, wrapped by a terminal: the client's words.
            wrapped = self._width is not None and self._head_length == self._width
            self._head_length = len(record.text)
            if wrapped or not APP_PREFIX.match(strip_ansi(text).lstrip()):
                return False
        if self._head == "dump" and not APP_PREFIX.match(strip_ansi(text).lstrip()):
            return False
        if record.cont == "indented":
            return self._head == "bar"
        return self._head != "dump_multiline"

    def _joins(self, record, text):
        known = self._open.get(record.pid)
        if known is None or known[0] == "other":
            return False
        if is_access_head(strip_ansi(known[1]).strip()):
            return True
        # A process that was cut between two writes begins a new message with its own prefix.
        return known[0] == "bar" or not APP_PREFIX.match(strip_ansi(text).lstrip())

    def _take_open(self, record):
        return self._open.pop(record.pid)[1]

    def _remember(self, kind, record, text):
        if record.pid is None:
            return
        self._open.pop(record.pid, None)
        self._open[record.pid] = (kind, text, self.messages)
        while len(self._open) > _MAX_OPEN:
            self._open.popitem(last=False)

    def _leave_open(self, record, text):
        """Keep the last piece of a record that journald closed before its line ended; returns the rest."""
        head, mark, tail = text.rpartition("\r")
        if len(tail) <= _OPEN_LIMIT and is_bar(strip_ansi(tail)):
            self._remember("bar", record, tail)
            return head + mark
        if record.line_break == "line-max" or len(tail) > _OPEN_LIMIT:
            self._remember("other", record, "")
            return text
        events = parse_segment(tail)
        if any(event.kind in ("alloc", "mark", "fatal") for event in events):
            return text
        self._remember("text", record, tail)
        return head + mark

    def _segments(self, text, record, extra):
        """Read the pieces of one record: what follows a progress bar begins a message, other later pieces do not."""
        only_bars = True
        fatal_head = False
        pieces = re.split(r"[\r\n]", text) if "\r" in text or "\n" in text else [text]
        for piece in pieces[:2000]:
            clean = strip_ansi(piece).strip()
            if not clean:
                continue
            access = is_access(clean)
            if only_bars and not access and is_bar(clean):
                self.start.progress = clean[-200:]
                self._head = "bar"
                continue
            if not only_bars and not fatal_head:
                continue
            writer = "app" if record.writer == "app" else None
            events = [] if access else parse_segment(clean, writer)
            if only_bars and not access:
                self._trace(clean, record)
                events = self._rejoin(piece, clean, events, record, writer)
            for event in events:
                if extra and not event.tags:
                    event = event._replace(tags=extra)
                if only_bars or event.kind == "fatal":
                    self._event(event, record)
                fatal_head = fatal_head or event.kind == "fatal"
            if (only_bars and record.cont is None) or record.cont == "bare":
                self._head = "dump" if is_dump(clean) else "text"
                if access and is_access_head(clean) and record.cont:
                    self._head, self._head_length = "access", len(record.text)
            only_bars = False

    # -- lines that a terminal or an author wrapped -----------------------------------------------------------------

    def _rejoin(self, piece, clean, events, record, writer):
        """Put a wrapped line together again: returns the events of the whole line where this piece completes one."""
        if record.form in _EXACT_FORMS:
            return events
        pending = self._pending.pop(record.origin, None)
        quiet = all(event.kind == "text" for event in events)
        if pending and quiet and not APP_PREFIX.match(clean) and not _RAISED.match(clean):
            kind, text, lines, cut = pending
            raw = strip_ansi(piece).rstrip("\r\n")
            joins = [text + raw, f"{text} {clean}"] if kind != "figure" else [text + raw]
            for joined in joins:
                found = parse_segment(joined, writer)
                if kind == "settings" or (found and found[0].kind == ("alloc" if kind == "cut" else "mark")):
                    break
            else:
                if lines < 12 and len(joins[0]) < 2000:
                    self._pending[record.origin] = (kind, joins[0], lines + 1, cut)
                return events
            if kind == "settings":
                return self._more_settings(joins[raw[:1].isspace()], lines, record)
            cuts = self.start.of(record.origin).cuts
            if cut in cuts:
                cuts.remove(cut)
            self.start.rejoined += kind == "cut"
            self._await(joined, found, record)
            return found
        self._await(clean, events, record)
        return events

    def _more_settings(self, joined, lines, record):
        """Read the arguments again with the line that continues them."""
        one = self.start.of(record.origin)
        if joined.rstrip().endswith((")", "}")):
            one.settings = parse_server_args(joined)
        elif lines < 400 and len(joined) < 65536:
            one.settings = parse_server_args(whole_settings(joined))
            self._pending[record.origin] = ("settings", joined, lines + 1, None)
        return []

    def _await(self, text, events, record):
        """Remember a line that the next one of the same origin may continue."""
        event = events[0] if events else None
        if event is None or record.line_break or is_dump(text) or len(text) > 65536:
            return
        kind, cut = None, None
        if event.kind == "cut":
            kind = "figure" if event.code == "figure" else "cut"
            cut = (event.tags, event.text[:120], self.messages)
        elif event.code == "server_args" and not text.rstrip().endswith((")", "}")):
            kind, text = "settings", event.text
        elif event.kind == "text" and len(event.text) < 2000:
            ready = len(event.text) > 3 and _READY_TEXT.startswith(event.text)
            kind = "mark" if ready or _FIGURE_LINE.match(event.text) else None
        if kind:
            self._pending[record.origin] = (kind, text, 1, cut)
            while len(self._pending) > _MAX_OPEN:
                self._pending.popitem(last=False)
        if kind and record.cont and record.form == "plain":
            self._width = len(record.text)

    # -- an interpreter that ended before the server began ------------------------------------------------------------

    def _trace(self, clean, record):
        """Follow tracebacks: one that begins in the server's own launcher ends its main process."""
        key = (record.origin, record.pid)
        trace = self._traces.get(key)
        if clean.startswith("Traceback (most recent call last)"):
            self._traces[key] = [None, False]
            while len(self._traces) > _MAX_OPEN:
                self._traces.popitem(last=False)
            return
        if trace is None:
            return
        frame = _FRAME.match(clean)
        if frame:
            if trace[0] is None:
                trace[0] = bool(_LAUNCHER.search(frame.group("file")))
            own = re.search(r"(?:^|/)(?:sglang|launch_server\.py)(?:/|$)", frame.group("file"))
            trace[1] = trace[1] or bool(own and frame.group("place") == "<module>")
        elif APP_PREFIX.match(clean):
            # Another message: the traceback has ended.
            del self._traces[key]
        elif _RAISED.match(clean):
            del self._traces[key]
            if trace[0] and trace[1] and self.start.ready_of(record.origin):
                self._renew(record)
            self.start.of(record.origin).last_error = (self.messages, clean[:400])
            if trace[0] and trace[1]:
                self.start.die(
                    record.origin,
                    Death(
                        "launch_failed",
                        "trouble",
                        "the server's program ended by an exception: read the traceback that ends with this message",
                        clean[:600],
                        self.messages,
                        (),
                        _when(record),
                        {},
                    ),
                )

    def _too_late(self, event, record):
        """Tell whether a message says what a start says before it takes requests, although it takes them already.

        From then on lines of the engine's own processes may hold what a client sent: SGLang logs the words of a refused
        request as they came, line breaks included. Processes that were there before do not start a server; one that is
        new may, where a script runs the server again.
        """
        if not record.invocation or record.pid not in self.start.pids_before_requests:
            return False
        if event.kind == "mark":
            return event.code in _BEGINNINGS or event.code in ("server_args", "device_tokens", "device_pool")
        return event.kind in ("alloc", "cut", "unclear")

    def _event(self, event, record):
        start = self.start
        if self._too_late(event, record):
            return
        if event.kind == "alloc":
            self._learn(record)
            if record.pid is None and start.ready_of(record.origin):
                # Where processes are known, the judgement tells a second server from a second start.
                self._renew(record)
                start = self.start
            if len(start.allocations) < MAX_ALLOCATIONS:
                start.of(record.origin)
                start.allocations.append(_allocation(event, record, self.messages))
        elif event.kind == "cut":
            self._cut(event, record)
        elif event.kind == "unclear":
            if len(start.unclear) < 64:
                start.unclear.append(event.tags)
        elif event.kind == "fatal":
            if event.data.get("writer") == "app" or self._claimed(event, record):
                self._dead(event, record)
        elif event.kind == "mark":
            self._mark(event, record)
        elif event.kind == "loss":
            # Who writes JSON hides nothing as a blob.
            if event.code != "blob" or record.form not in _EXACT_FORMS:
                self._lose(event, record)
        elif event.kind == "text":
            self._words(event, record)

    def _cut(self, event, record):
        start = self.start
        if event.code == "figure":
            start.begun = True
        elif event.code == "ellipsis":
            start.lose("cut_lines", "lines were shortened by whoever printed the log")
        elif record.line_break == "input-end":
            start.lose("input_cut", "the log ends in the middle of an allocation line")
        elif len(start.of(record.origin).cuts) < 64:
            start.of(record.origin).cuts.append((event.tags, event.text[:120], self.messages))

    def _learn(self, record):
        """Where no unit is given, the one that allocates is the one that is meant."""
        if record.unit and not self.unit and not _likeness(self._learned or ""):
            self._learned = record.unit

    def _claimed(self, event, record):
        """Decide whether systemd's or the kernel's words, in a form without writer, are about this start."""
        if event.data["writer"] == "kernel":
            return self._our_victim(event, event.text)
        what = event.data.get("unit") or event.data.get("unit2") or event.data.get("cgroup") or ""
        return bool(_unit_in(what)) and self._our_text(what, False)

    def _words(self, event, record):
        if record.writer is None:
            match = _START.match(event.text)
            if match and (_UNIT_TOKEN.search(match.group("what")) or _LIKELY.search(match.group("what"))):
                if self._our_text(match.group("what"), True):
                    self._started(record, match.group("verb") == "Starting")
                return
        if is_dump(event.text):
            return
        if ("launch_server" in event.text or "sglang serve" in event.text) and quiet_level(event.text):
            self.start.of(record.origin).settings.setdefault("log_level", quiet_level(event.text))
        if _ERROR.match(event.text):
            self.start.of(record.origin).last_error = (self.messages, event.text[:400])
        if event.data.get("had_app"):
            self.start.progress = event.text[:200]
            unknown = _HOST_WORDS.match(event.text) and not _HOST_KNOWN.match(event.text)
            if unknown and len(self.start.unknown_lines) < _MAX_UNKNOWN:
                self.start.unknown_lines.append(event.text[:300])
        elif _LAUNCH.match(event.text) and self.start.ready_of(record.origin):
            self._renew(record)

    def _mark(self, event, record):
        if event.code == "server_args":
            if not event.tags and not self._same_start(record):
                self._renew(record)
        elif event.code in _BEGINNINGS:
            # A server that is ready does not begin: it was started again, and its arguments are not in the log.
            ready = self.start.ready_of(record.origin)
            if ready or (event.code == "distributed" and self._again(event, record)):
                self._renew(record)
        start = self.start
        one = start.of(record.origin)
        one.marks.add(event.code)
        if event.code in ("startup_complete", "ready") and not start.pids_before_requests:
            start.pids_before_requests = set(start.pids)
        if event.code == "server_args":
            self._learn(record)
            if not one.settings.keys() - {"log_level"}:
                one.settings = {**one.settings, **event.data}
            start.begun = True
        elif event.code in ("device_tokens", "device_pool"):
            start.figure(event.code, record.origin, event.tags, int(event.data["tokens"]))
            if event.code == "device_pool":
                start.describe(record.origin, event.tags, event.data)
            start.begun = True
        elif event.code == "ready":
            start.become_ready(record.origin, self.messages, _when(record, event))
        elif event.code in ("distributed", "weights", "memory_pool_end", "graphs", "distributed_end", "weights_end"):
            start.begun = True
        if event.code not in ("request", "server_args"):
            start.progress = event.text[:200]
        if start.started_at is None:
            start.started_at = _when(record, event)

    def _same_start(self, record):
        """Tell whether a new line of server arguments is of this start: after allocations, readiness or a death of
        the same origin it means that the server was started again."""
        one = self.start.origins.get(record.origin)
        if any(item.origin == record.origin for item in self.start.allocations):
            return False
        if one is not None and (one.deaths or one.ready_number is not None):
            return False
        unnamed = self.start.origins.get(None)
        return not (self.start.alone(record.origin) and unnamed is not None and unnamed.deaths)

    def _again(self, event, record):
        for item in self.start.allocations:
            same = (item.origin, item.tags, item.pid) == (record.origin, event.tags, record.pid)
            if same and (item.tags or record.pid is not None):
                return True
        return False

    def _dead(self, event, record):
        counter = event.data.get("counter")
        if counter:
            self.restarts = max(self.restarts, int(counter))
        origin = record.origin
        if event.code == "container_exited" and event.text.split()[0] in self.start.origins:
            # Compose says it in its own name.
            origin = event.text.split()[0]
        if _ERROR.match(event.text):
            self.start.of(record.origin).last_error = (self.messages, event.text[:400])
        self.start.die(
            origin,
            Death(
                event.code,
                event.data["effect"],
                event.data["advice"],
                event.text[:600],
                self.messages,
                event.tags,
                _when(record, event),
                {
                    key: event.data[key]
                    for key in ("constraint", "counter", "pid", "comm", "writer")
                    if key in event.data
                },
            ),
        )


def read_log(stream, unit=None, invocation=None):
    """Read a saved log, whatever its form, from a binary stream. Returns the :class:`Evidence`."""
    evidence = Evidence(unit, invocation)
    reader = TextReader()
    while True:
        raw = stream.readline(LINE_LIMIT)
        if not raw:
            break
        ended = raw.endswith(b"\n")
        whole = ended or len(raw) < LINE_LIMIT
        evidence.feed_all(reader.feed(raw[:-1] if ended else raw, ended or not whole))
        while not whole:
            # What follows in a line of that length begins no message.
            raw = stream.readline(LINE_LIMIT)
            whole = raw.endswith(b"\n") or len(raw) < LINE_LIMIT
    return evidence.feed_all(reader.close())


def _device_line(data):
    """One line about a pool on the device: ``{"kind", "dtype", "tokens", "gib", "parts"}``.

    ``gib`` is in GiB as printed (the sum of K and V, of which ``parts`` counts the rounded figures), None if not known.
    """
    sizes = [float(data[name]) for name in ("kv_gib", "k_gib", "v_gib") if name in data]
    return {
        "kind": data.get("kind"),
        "dtype": data.get("dtype"),
        "tokens": int(data["tokens"]),
        "gib": sum(sizes) if sizes else None,
        "parts": len(sizes),
    }


def _allocation(event, record, number):
    data = event.data
    return Allocation(
        event.tags,
        record.origin,
        record.pid,
        data["role"],
        data["pool"],
        data["gb"],
        data["tokens"],
        data["packed"],
        data["labelled"],
        data["item"],
        number,
        _when(record, event),
    )


def _when(record, event=None):
    """Time of a message: seconds since 1970, or the text of the time stamp where no zone or year is known."""
    if record.time is not None:
        return record.time
    if event is not None and event.time:
        return event.time
    return record.stamp
