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
    is_bar,
    is_dump,
    json_message,
    parse_segment,
    quiet_level,
    repeated,
    split_prefix,
    strip_ansi,
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


class Start:
    """What one start has said so far."""

    def __init__(self, number=0):
        self.number = number
        self.allocations = []
        self.deaths = []
        self.losses = OrderedDict()
        self.cuts = []
        self.unclear = []
        self.device = OrderedDict()
        self.pools = OrderedDict()
        # (origin, tags): device lines in their order, and origin: server arguments
        self.device_lines = OrderedDict()
        self.settings = {}
        self.settings_by = OrderedDict()
        self.marks = set()
        self.begun = False
        self.invocation = None
        self.started_at = None
        self.ready_at = None
        self.ready_number = None
        self.progress = None
        self.last_error = None
        self.messages = 0
        self.pids = set()

    @property
    def ready(self):
        return self.ready_number is not None

    def lose(self, code, message, count=1):
        """Note that messages of this start are missing or hidden."""
        known = self.losses.get(code)
        if known:
            known["count"] += count
        elif len(self.losses) < 16:
            self.losses[code] = {"code": code, "message": message, "count": count}

    def empty(self):
        """Tell whether nothing of this start was seen that a new start would have to wipe out."""
        return not (self.allocations or self.deaths or self.ready or self.cuts or self.marks - {"server_args"})


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
        self._past = set()
        self._current = None
        self._starting = False
        self._open = OrderedDict()
        self._head = None
        self._learned = None
        self._strangers = OrderedDict()

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
        if pieces and not is_dump(record.text) and (is_bar(pieces[-1]) or APP_PREFIX.match(pieces[-1])):
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
        self._head = None

    def _belongs(self, record):
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
                    self._past.add(self._current)
                self._current = record.invocation
                self._starting = False
                self._new_start(record, False, record.invocation)
            return True
        if self.invocation and record.form in ("json", "export") and record.writer == "app":
            return False
        return not (record.unit and record.writer in ("app", "systemd", "kernel") and not self._our_unit(record.unit))

    def _our_unit(self, name):
        if not name:
            return True
        if self.unit:
            return name == self.unit
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
            "no_permission": "the journal could not be read with the rights of this user",
            "journal_damaged": "a journal file is damaged",
        }
        self.start.lose(event.code, words.get(event.code, event.code), count)

    def _collector(self, record):
        if record.count:
            self.start.lose("rate_limited", "messages of the unit were dropped by a rate limit", record.count)
            return
        for event in parse_segment(record.text, record.writer):
            if event.kind == "loss":
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
        if "task_memcg=" in text or "oom_memcg=" in text:
            ours = self._our_cgroup(text)
            victim = re.search(r"\bpid=(\d{1,10})\b", text)
            if victim and int(victim.group(1)) in self.start.pids:
                return True
            # The next words of the kernel name the victim by a name that many programs share.
            if victim and not ours and (self.unit or self._learned):
                self._strangers[victim.group(1)] = True
                while len(self._strangers) > _MAX_OPEN:
                    self._strangers.popitem(last=False)
            return ours
        comm = event.data.get("comm")
        return bool(comm and _OURS_COMM.search(comm))

    def _our_cgroup(self, text):
        """Tell whether the kernel's words about an OOM kill name the cgroup of our unit, or SGLang itself."""
        groups = re.findall(r"(?:task_memcg|oom_memcg)=(\S*?)(?:,|$)", text)
        name = self.unit or self._learned
        if any(name and f"/{name}" in group for group in groups):
            return True
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
        if self._head == "dump" and not APP_PREFIX.match(strip_ansi(text).lstrip()):
            return False
        if record.cont == "indented":
            return self._head == "bar"
        return self._head != "dump_multiline"

    def _joins(self, record, text):
        known = self._open.get(record.pid)
        if known is None or known[0] == "other":
            return False
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
            if only_bars and is_bar(clean):
                self.start.progress = clean[-200:]
                self._head = "bar"
                continue
            if not only_bars and not fatal_head:
                continue
            writer = "app" if record.writer == "app" else None
            for event in parse_segment(clean, writer):
                if extra and not event.tags:
                    event = event._replace(tags=extra)
                if only_bars or event.kind == "fatal":
                    self._event(event, record)
                fatal_head = fatal_head or event.kind == "fatal"
            if (only_bars and record.cont is None) or record.cont == "bare":
                self._head = "dump" if is_dump(clean) else "text"
            only_bars = False

    def _event(self, event, record):
        start = self.start
        if event.kind == "alloc":
            if len(start.allocations) < MAX_ALLOCATIONS:
                start.allocations.append(_allocation(event, record, self.messages))
        elif event.kind == "cut":
            if event.code == "ellipsis":
                start.lose("cut_lines", "lines were shortened by whoever printed the log")
            elif record.line_break == "input-end":
                start.lose("input_cut", "the log ends in the middle of an allocation line")
            elif len(start.cuts) < 64:
                start.cuts.append((event.tags, event.text[:120]))
        elif event.kind == "unclear":
            if len(start.unclear) < 64:
                start.unclear.append(event.tags)
        elif event.kind == "fatal":
            if event.data.get("writer") == "app" or self._claimed(event, record):
                self._dead(event, record)
        elif event.kind == "mark":
            self._mark(event, record)
        elif event.kind == "loss":
            self._lose(event, record)
        elif event.kind == "text":
            self._words(event, record)

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
            self.start.settings.setdefault("log_level", quiet_level(event.text))
        if _ERROR.match(event.text):
            self.start.last_error = event.text[:400]
        if event.data.get("had_app"):
            self.start.progress = event.text[:200]

    def _mark(self, event, record):
        start = self.start
        if event.code == "server_args" and not event.tags and not self._same_start(record):
            start = self.start
        elif event.code == "distributed" and self._again(event, record):
            self._new_start(record, True, self._current or self.invocation)
            start = self.start
        start.marks.add(event.code)
        if event.code == "server_args":
            if not start.settings:
                start.settings = event.data
            if not event.tags and len(start.settings_by) < 64:
                start.settings_by[record.origin] = event.data
            start.begun = True
        elif event.code in ("device_tokens", "device_pool"):
            holder = start.device if event.code == "device_tokens" else start.pools
            key = (record.origin, event.tags)
            if len(holder) < 1024:
                holder.setdefault(key, int(event.data["tokens"]))
                if holder is start.pools and len(start.device_lines.setdefault(key, [])) < 8:
                    start.device_lines[key].append(_device_line(event.data))
            start.begun = True
        elif event.code == "ready":
            if not start.ready:
                start.ready_number = self.messages
                start.ready_at = _when(record, event)
        elif event.code in ("distributed", "weights", "memory_pool_end", "graphs", "distributed_end", "weights_end"):
            start.begun = True
        if event.code not in ("request", "server_args"):
            start.progress = event.text[:200]
        if start.started_at is None:
            start.started_at = _when(record, event)

    def _same_start(self, record):
        """Handle a new line of server arguments: after allocation lines it means that the server was started again."""
        if self.start.empty() or not (self.start.allocations or self.start.ready or self.start.deaths):
            return True
        others = [item for item in self.start.allocations if item.origin != record.origin]
        if others:
            # Another container of the same log: only its own earlier lines are out of date.
            self.start.allocations = others
            return True
        self._new_start(record, True, self._current or self.invocation)
        return False

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
        if len(self.start.deaths) < MAX_DEATHS:
            self.start.deaths.append(
                Death(
                    event.code,
                    event.data["effect"],
                    event.data["advice"],
                    event.text[:600],
                    self.messages,
                    event.tags,
                    _when(record, event),
                    {key: event.data[key] for key in ("constraint", "counter", "pid", "comm") if key in event.data},
                )
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
