# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the messages of one systemd unit: the host's journal, journal files, and saved logs of whatever form.

This module knows journald and collectors, not SGLang. It builds command lines and turns bytes into
:class:`Record` tuples; running commands is the caller's part.

Source: systemd 252 (Debian 12) to 257; journald fields as in ``systemd.journal-fields(7)``.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections import namedtuple
from datetime import datetime, timezone

#: One message. ``text``: str, or None when the message is hidden; ``writer``: app, systemd, kernel, journald,
#: journalctl, rsyslog, other, or None when the form does not tell; ``pid``: int or None; ``origin``: container or
#: pod that a collector names; ``unit`` and ``invocation``: str or None; ``time``: seconds since 1970 (float) or
#: None; ``stamp``: time as written, for forms without a year; ``line_break``: journald's ``_LINE_BREAK``;
#: ``message_id``: str or None; ``count``: messages that a notice says were dropped; ``hidden``: why text is None;
#: ``form``: name of the form; ``cont``: the line continues the record before it (indented or bare).
Record = namedtuple(
    "Record", "text writer pid origin unit invocation time stamp line_break message_id count hidden form cont"
)

_EMPTY = Record(None, None, None, None, None, None, None, None, None, None, None, None, None, None)

#: Fields that the verdict needs; journalctl adds the cursor, the times and the boot to these by itself.
OUTPUT_FIELDS = (
    "MESSAGE",
    "MESSAGE_ID",
    "N_DROPPED",
    "_PID",
    "_UID",
    "_TRANSPORT",
    "_LINE_BREAK",
    "_SYSTEMD_UNIT",
    "_SYSTEMD_INVOCATION_ID",
    "UNIT",
    "INVOCATION_ID",
    "OBJECT_SYSTEMD_UNIT",
    "OBJECT_SYSTEMD_INVOCATION_ID",
)

_EXPORT_FIELDS = frozenset((*OUTPUT_FIELDS, "__CURSOR", "__REALTIME_TIMESTAMP", "COREDUMP_UNIT"))

MESSAGE_ID_STARTING = "7d4958e842da4a758f6c1cdc7b36dcc5"
MESSAGE_ID_STARTED = "39f53479d3a045ac8e11786248231fbf"
MESSAGE_ID_SUPPRESSED = "a596d6fe7bfa4994828e72309e95d61e"

#: Longest JSON line that is decoded, in bytes; a longer one counts as a hidden message.
LINE_LIMIT = 8 * 1024 * 1024

#: Most messages that one notice is believed to have dropped.
MOST_DROPPED = 10**12

_INVOCATION = re.compile(r"[0-9a-f]{32}")


def is_invocation_id(text):
    """Tell whether ``text`` is an invocation id (32 hexadecimal digits, lower case)."""
    return bool(_INVOCATION.fullmatch(text or ""))


def full_unit_name(name):
    """``sglang-kimi`` as ``sglang-kimi.service``; a name with a unit type stays as it is."""
    return name if re.search(r"\.(?:service|scope|socket|target|slice|timer)$", name) else f"{name}.service"


# -- command lines ----------------------------------------------------------------------------------------------


def invocation_matches(invocation):
    """Matches for one start: the service's own lines, systemd's about it, and notices that name it as an object.

    Any program may write a field without a leading underscore, so those count from process 1 and from root alone.
    """
    return [
        f"_SYSTEMD_INVOCATION_ID={invocation}",
        "+",
        "_PID=1",
        f"INVOCATION_ID={invocation}",
        "+",
        "_UID=0",
        f"OBJECT_SYSTEMD_INVOCATION_ID={invocation}",
    ]


def journal_argv(invocation, journalctl="journalctl", files=(), after_cursor=None):
    """Command line that prints one start as JSON, every message whole, from ``after_cursor`` on."""
    argv = [journalctl, "--no-pager", "--output=json", "--all", "--output-fields=" + ",".join(OUTPUT_FIELDS)]
    argv += [f"--file={name}" for name in files]
    if after_cursor:
        argv.append(f"--after-cursor={after_cursor}")
    return argv + invocation_matches(invocation)


def newest_invocation_argv(unit, journalctl="journalctl", files=()):
    """Command line that prints the newest messages of a unit and of systemd about it, newest first."""
    argv = [
        journalctl,
        "--no-pager",
        "--output=json",
        "--reverse",
        "--lines=50",
        "--output-fields=" + ",".join(OUTPUT_FIELDS),
    ]
    argv += [f"--file={name}" for name in files]
    return [*argv, f"_SYSTEMD_UNIT={unit}", "+", "_PID=1", f"UNIT={unit}"]


def kernel_argv(since, journalctl="journalctl"):
    """Command line that prints the kernel's messages since ``since`` (seconds since 1970)."""
    return [
        journalctl,
        "--no-pager",
        "--output=json",
        "--all",
        "--lines=5000",
        "--output-fields=MESSAGE,_TRANSPORT",
        f"--since=@{int(since)}",
        "_TRANSPORT=kernel",
    ]


def unreadable(roots=("/var/log/journal", "/run/log/journal")):
    """Tell whether journal files of the system are there and this user may read none of them.

    journalctl answers such a user with an empty output and, depending on how the host is set up, not even a hint.
    """
    found = []
    for root in roots:
        found += glob.glob(os.path.join(root, "*", "system.journal"))
        if os.path.isdir(root) and not os.access(root, os.R_OK | os.X_OK):
            found.append(root)
    return bool(found) and not any(os.path.isfile(name) and os.access(name, os.R_OK) for name in found)


SHOW_PROPERTIES = (
    "Id",
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "InvocationID",
    "NRestarts",
    "MainPID",
    "ExecMainCode",
    "ExecMainStatus",
    "ControlGroup",
    "ExecStart",
    "DropInPaths",
)


def show_argv(unit, systemctl="systemctl"):
    """Command line that prints the unit's state as ``KEY=value`` lines."""
    return [systemctl, "show", "--no-pager", "--property=" + ",".join(SHOW_PROPERTIES), "--", unit]


def parse_show(text):
    """Read the output of :func:`show_argv`. Returns a dict of strings."""
    found = {}
    for line in text.splitlines():
        key, mark, value = line.partition("=")
        if mark and key in SHOW_PROPERTIES and key not in found:
            found[key] = value
    return found


# -- JSON records -----------------------------------------------------------------------------------------------


def _decode_one(value):
    """Text of one value of a field: a string, or a list of bytes (not UTF-8, or control characters); else None."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(
        isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= 255 for item in value
    ):
        return bytes(value).decode("utf-8", "replace")
    return None


def _decode(value):
    """Text of a journal field: one value, or a list of values; journald nests no deeper, so neither is read deeper."""
    text = _decode_one(value)
    if text is None and isinstance(value, list):
        parts = [_decode_one(item) for item in value]
        text = (
            "\n".join(part for part in parts if part is not None) if any(part is not None for part in parts) else None
        )
    return text


def _integer(value):
    text = _decode(value)
    try:
        number = value if text is None and isinstance(value, int) else int(text)
    except (TypeError, ValueError):
        return None
    return number if abs(number) < 2**63 else None


def _first(data, *names):
    for name in names:
        value = _decode(data.get(name))
        if value:
            return value
    return None


def is_journal_object(data):
    """Tell whether a decoded JSON object is a journal record rather than a line of a structured logger."""
    return "MESSAGE" in data and ("__REALTIME_TIMESTAMP" in data or "_BOOT_ID" in data or "_TRANSPORT" in data)


def _writer(data):
    """Who wrote a journal entry: systemd, kernel, journald, oomd, coredump, app, or other (nobody who counts).

    journald itself sets the fields with a leading underscore; the name of a process (``_COMM``) among them is still
    what the process calls itself. A field that is absent was left out by whoever saved the entry.

    * systemd is process 1. Everything below ``user@UID.service`` belongs to that user, who may move any process of
      his into any cgroup there: his manager's word is his word, and is believed about no unit of the system.
    * journald writes by a transport of its own, or as root in its own unit.
    * systemd-oomd runs as a user of its own, and systemd-coredump as the user whose process dumped: their unit tells,
      which is a cgroup that only process 1 makes.
    """
    transport, unit = _first(data, "_TRANSPORT"), _first(data, "_SYSTEMD_UNIT") or ""
    root = "_UID" not in data or _integer(data["_UID"]) == 0
    if transport == "kernel":
        return "kernel"
    if transport == "audit":
        return "other"
    if transport == "driver" or (root and re.fullmatch(r"systemd-journald(?:@[^/]{1,200})?\.service", unit)):
        return "journald"
    if _integer(data.get("_PID")) == 1 and root:
        return "systemd"
    if unit == "systemd-oomd.service":
        return "oomd"
    if re.fullmatch(r"systemd-coredump@[^/]{1,200}\.service", unit):
        return "coredump"
    return "app"


def journal_record(data, form="json"):
    """Make a :class:`Record` of a journal entry given as dict of fields.

    Fields without a leading underscore can be set by any program that logs: they are believed only from systemd
    itself and from journald (:func:`_writer`).
    """
    pid = _integer(data.get("_PID"))
    unit, invocation = _first(data, "_SYSTEMD_UNIT"), _first(data, "_SYSTEMD_INVOCATION_ID")
    writer = _writer(data)
    if writer == "systemd":
        named = _first(data, "UNIT")
        unit = named or unit
        # What it says about a unit is no message of its own start.
        invocation = _first(data, "INVOCATION_ID") or (None if named else invocation)
    elif writer == "journald":
        unit, invocation = _first(data, "OBJECT_SYSTEMD_UNIT"), _first(data, "OBJECT_SYSTEMD_INVOCATION_ID")
    elif writer == "oomd":
        # It names its victim in its words alone.
        writer, unit, invocation = "systemd", None, None
    elif writer == "coredump":
        writer, unit, invocation = "kernel", _first(data, "COREDUMP_UNIT"), None
    text, hidden = None, None
    if "MESSAGE" in data:
        text = _decode(data["MESSAGE"])
        if text is None:
            hidden = "null" if data["MESSAGE"] is None else "damaged"
    count = _integer(data.get("N_DROPPED")) if writer == "journald" else None
    time = _integer(data.get("__REALTIME_TIMESTAMP"))
    return _EMPTY._replace(
        text=text,
        writer=writer,
        pid=pid,
        unit=unit,
        invocation=invocation,
        time=time / 1e6 if time else None,
        line_break=_first(data, "_LINE_BREAK"),
        message_id=_first(data, "MESSAGE_ID") if writer in ("systemd", "journald") else None,
        count=min(count, MOST_DROPPED) if count and count > 0 else None,
        hidden=hidden,
        form=form,
    )


def parse_json_line(line):
    """Make a :class:`Record` of one line (bytes or str) of ``journalctl -o json``; None when it is no journal record.

    A line that is no JSON, or over :data:`LINE_LIMIT`, gives a record whose ``hidden`` says so.
    """
    if line[:3] in (b"-- ", "-- "):
        return None
    if len(line) > LINE_LIMIT:
        return _EMPTY._replace(hidden="oversize", form="json", writer="app")
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return _EMPTY._replace(hidden="damaged", form="json", writer="app") if line.strip() else None
    if not isinstance(data, dict) or "MESSAGE" not in data:
        return None
    return journal_record(data)


def cursor_of(line):
    """Cursor of one line of ``journalctl -o json`` (bytes), or None."""
    try:
        cursor = json.loads(line).get("__CURSOR")
    except (ValueError, RecursionError, AttributeError):
        return None
    return cursor if isinstance(cursor, str) else None


# -- the prefilter ------------------------------------------------------------------------------------------------

#: A journal record that holds none of these bytes cannot change a verdict. ``Prefilter`` looks for them in whole
#: blocks, so that JSON is decoded for a few records of a million. Kept in step with the tables by a unit test.
KEYWORDS = (
    "llocati",  # Allocating, allocator-only
    "emory",  # host memory, Not enough memory, out of memory, MemoryError
    "rror: ",  # ValueError: and every other exception, CUDA error:, launch_server.py: error:
    "xception: ",
    "KV Cache ",
    "server_args=",
    "max_total_num_tokens=",
    "fired up",
    "Load weight",
    "Init torch",
    "Tree cache",
    "auto-sizing",
    "HiRadix",
    "ierarchical cache",
    "ost pool",  # a wording of a host pool that is not known
    "HostRegister",
    "HostAlloc",
    "graph failed",
    "NCCL",
    "nccl",
    "xit code",
    "died",
    "is dead",
    "terminated with",
    "exited with",
    "igquit",
    "SIGQ",
    "nitialization failed",
    "atchdog",
    "egfault",
    "egmentation",
    "Fatal Python",
    "terminate called",
    "Killed",
    "Aborted",
    "Bus error",
    "in use",
    "EADDRINUSE",
    "SIGTERM received",
    "shutdown complete",
    "startup complete",
    "is not available",
    "failed to listen",
    "was not ready within",
    "this is still left",
    "blob data",
)


class Prefilter:
    """Pick the lines worth decoding out of blocks of ``journalctl -o json`` output.

    Lines of systemd, journald and the kernel, lines with a ``_LINE_BREAK``, and null messages always pass.
    """

    def __init__(self, keywords=KEYWORDS):
        plain = [word.encode() for word in keywords]
        fields = [b'"UNIT"', b"OBJECT_SYSTEMD", b'"_LINE_BREAK"', b'"MESSAGE":null']
        self._plain = plain + fields
        self._all = self._plain + [",".join(str(byte) for byte in word).encode() for word in plain]

    def candidates(self, block):
        """Start and end offsets of the lines of ``block`` (whole lines only) to decode, in order."""
        if b'":"' not in block[: block.find(b"\n")]:
            # Not as journalctl writes JSON (without blanks): every line is decoded.
            position = 0
            while position < len(block):
                end = block.find(b"\n", position)
                end = len(block) if end < 0 else end
                yield position, end
                position = end + 1
            return
        words = self._all if b'"MESSAGE":[' in block else self._plain
        starts = set()
        for word in words:
            position = block.find(word)
            while position >= 0:
                start = block.rfind(b"\n", 0, position) + 1
                starts.add(start)
                end = block.find(b"\n", position)
                if end < 0:
                    break
                position = block.find(word, end + 1)
        for start in sorted(starts):
            end = block.find(b"\n", start)
            yield start, len(block) if end < 0 else end


class JsonStream:
    """Feed blocks of ``journalctl -o json`` output, get records; remembers the cursor of the last line.

    ``everything`` (a callable) tells, block by block, whether records that the prefilter would drop are wanted too:
    a record that was cut must be joined with whatever the same process wrote next.
    """

    def __init__(self, everything=None, prefilter=None):
        self._rest = b""
        self._last = b""
        self._everything = everything or (lambda: False)
        self._prefilter = prefilter or Prefilter()
        self.lines = 0

    def feed(self, block):
        """Take any number of bytes and yield the records of the lines that are complete."""
        block = self._rest + block if self._rest else block
        end = block.rfind(b"\n")
        if end < 0:
            if len(block) > 4 * LINE_LIMIT:
                block = block[: LINE_LIMIT + 1]
            self._rest = block
            return
        self._rest = block[end + 1 :]
        block = block[: end + 1]
        self.lines += block.count(b"\n")
        start = block.rfind(b"\n", 0, end) + 1
        self._last = block[start:end]
        position = 0
        picked, index = None, 0
        while position < len(block):
            if self._everything():
                first, stop = position, block.find(b"\n", position)
            else:
                if picked is None:
                    # Once for the block: records that were cut may switch between the two ways at every line.
                    picked = list(self._prefilter.candidates(block))
                while index < len(picked) and picked[index][0] < position:
                    index += 1
                if index == len(picked):
                    return
                first, stop = picked[index]
            record = parse_json_line(block[first:stop])
            position = stop + 1
            if record is not None:
                yield record

    def close(self):
        """Yield the record of a last line without a line break."""
        rest, self._rest = self._rest, b""
        if rest.strip():
            self.lines += 1
            self._last = rest
            record = parse_json_line(rest)
            if record is not None:
                yield record

    @property
    def last(self):
        """Record of the last line, whether the prefilter let it pass or not; None when there is none."""
        return parse_json_line(self._last) if self._last else None

    @property
    def cursor(self):
        """Cursor of the last record, or None."""
        return cursor_of(self._last) if self._last else None


# -- saved text logs ----------------------------------------------------------------------------------------------

_IDENT = r"(?P<ident>[A-Za-z_(/][^\s\[]*(?=\[\d+\]:)|[A-Za-z_(/][^\s\[:]*(?: \([^)]*\))?)(?:\[(?P<pid>\d{1,10})\])?: ?"
_HOST = r"(?P<host>(?!(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL) )[A-Za-z0-9][\w.-]*)"
_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_CLOCK = r"\d\d:\d\d:\d\d(?:\.\d+)?"

_SYSLOG_FORMS = (
    ("short", re.compile(rf"(?:<\d+>)?(?P<stamp>[A-Z][a-z]{{2}} [ \d]\d {_CLOCK}) {_HOST} {_IDENT}")),
    ("short-iso", re.compile(rf"(?:<\d+>)?(?P<stamp>{_ISO}) {_HOST} {_IDENT}")),
    ("short-no-host", re.compile(rf"(?P<stamp>[A-Z][a-z]{{2}} [ \d]\d {_CLOCK}) {_IDENT}")),
    ("short-iso-no-host", re.compile(rf"(?P<stamp>{_ISO}) {_IDENT}")),
    ("short-full", re.compile(rf"(?P<stamp>[A-Z][a-z]{{2}} \d{{4}}-\d\d-\d\d {_CLOCK} \S+) {_HOST} {_IDENT}")),
    ("short-unix", re.compile(rf"(?P<unix>\d{{9,11}}\.\d{{1,9}}) {_HOST} {_IDENT}")),
    ("short-monotonic", re.compile(rf"\[ *\d+\.\d{{1,9}}\] {_HOST} {_IDENT}")),
    (
        "rfc5424",
        re.compile(
            rf"<\d+>1 (?P<stamp>{_ISO}) {_HOST} (?P<ident>\S+) (?:(?P<pid>\d{{1,10}})(?= )|\S+) \S+ "
            r"(?:-|(?:\[[^\]]*\])+) ?"
        ),
    ),
)
# The words of a message can look like "host program:" in these forms: they count only with a process id.
_NEED_PID = ("short-iso", "short-monotonic", "short-no-host", "short-iso-no-host")
_KERNEL_FORMS = (
    # dmesg -x names facility and level first
    (
        "dmesg",
        re.compile(
            r"(?:[a-z]+\s*:[a-z]+\s*: )?(?P<stamp>\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\]) "
        ),
    ),
    ("dmesg", re.compile(r"(?:[a-z]+\s*:[a-z]+\s*: )?(?P<stamp>\[ *\d+\.\d{4,9}\]) ")),
    ("dmesg", re.compile(rf"(?P<stamp>{_ISO}) (?=oom-kill:|Out of memory: |Memory cgroup out of memory: )")),
)
_CRI = re.compile(rf"(?P<stamp>{_ISO}) (?P<stream>stdout|stderr) (?P<part>[FP])(?::\S+)? ")
_COMPOSE = re.compile(r"(?P<origin>(?!(?:DEBUG|INFO|WARNING|ERROR)\s)[A-Za-z0-9][\w.-]{0,80})\s+\|(?: |$)")
_POD = re.compile(r"\[?(?P<origin>pod/[\w./-]{1,200})\]? ")
_STAMPED = re.compile(rf"(?P<stamp>{_ISO}) (?=\S)")
_LABEL = re.compile(r"\s?(?P<origin>\d{1,4}): (?=\[\d{4}-|Allocating )")
_JOURNAL_KEY = re.compile(r'\{"(?:_{0,2}[A-Z][A-Z0-9_]{2,60}"\s*:|log"\s*:\s*")')
_HEADER = re.compile(r"-- (?:Logs begin|Journal begins|No entries|Boot [0-9a-f]+|Reboot|cursor:)")
_OCTAL = re.compile(r"#(0[0-3]\d|177)")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

_WRITERS = {
    "systemd": "systemd",
    "init.scope": "systemd",
    "systemd-oomd": "systemd",
    "systemd-coredump": "kernel",
    "kernel": "kernel",
    "systemd-journald": "journald",
    "systemd-journal": "journald",
    "rsyslogd": "rsyslog",
}
# The name in these forms is the writer's own word, the process id behind it is not.
_PIDS_OF = {"systemd": ("1", None), "init.scope": ("1", None), "kernel": (None,)}
_FOREIGN = re.compile(
    r"(?:ansible\b|ansible-|sudo\b|su\b|sshd|CRON\b|cron\b|crond\b|dbus|systemd-|NetworkManager|audit|polkit|dhclient"
    r"|logger\b|nvidia-persistenced|chronyd|snapd|apt|unattended)"
)
_SERVER = re.compile(r"(?i)sglang|python|docker|podman|containerd|kimi|deepseek|llm")
_SERVER_LINE = re.compile(r"(?:\x1b\[[0-9;]*m|#033\[[0-9;]*m)*\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


def _no_pid_needed(match):
    """Tell whether ``host program:`` is what a collector wrote, though no process id says so."""
    ident = match.group("ident")
    if ident in _WRITERS:
        return True
    return bool(_SERVER.search(ident) and _SERVER_LINE.match(match.string, match.end()))


def parse_time(text):
    """Seconds since 1970 of a time stamp that names its zone, else None."""
    if not text:
        return None
    text = text.strip().replace(",", ".").replace("Z", "+00:00")
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([+-]\d\d):?(\d\d)", text)
    if not match:
        return None
    day, clock, fraction, hours, minutes = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{hours}:{minutes}")
        return moment.timestamp() + float(f"0.{fraction or 0}")
    except (ValueError, OverflowError):
        return None


def iso_utc(seconds):
    """Seconds since 1970 as ``2026-03-01T23:45:06.745533Z``."""
    try:
        moment = datetime.fromtimestamp(seconds, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class TextReader:
    """Turn the lines of a saved log into records; the form is found line by line, so that forms may be mixed.

    Known forms: journalctl short, short-iso, short-full, short-precise, short-unix, short-monotonic, with-unit,
    cat, json, json-pretty, json-seq, json-sse and export; dmesg; rsyslog (escaped or not) and RFC 5424; Docker (with
    or without time stamps, and its json-file), Compose, kubectl, containerd (CRI); JSON lines; plain output.
    """

    def __init__(self):
        self._partial = {}
        self._pretty = None
        self._pretty_size = 0
        self._export = None
        self._export_wanted = None
        self._after_syslog = False
        self.forms = set()

    def feed(self, raw, terminated=True):
        """Take one line (bytes without its line break) and yield its records.

        ``terminated`` is False for a last line that has no line break: the file was cut there.
        """
        if self._export is not None or raw.startswith((b"__CURSOR=", b"__REALTIME_TIMESTAMP=")):
            yield from self._feed_export(raw)
            return
        text = raw.decode("utf-8", "replace").rstrip("\r")
        text = text.lstrip("\x1e\ufeff")
        if text.startswith("data: {"):
            text = text[len("data: ") :]
        if self._pretty is not None or text.strip() == "{":
            yield from self._feed_pretty(text)
            return
        if text.startswith("{") and text.rstrip().endswith("}"):
            record = self._json(text)
            if record is not None:
                yield record
                return
        if self._is_cut_json(text):
            yield _EMPTY._replace(hidden="damaged", form="json", writer="app")
            return
        yield from self._feed_text(text, terminated)

    def _pieces(self, key, piece):
        """The pieces of a line that a collector split, this one included: ``[length, piece, ...]``."""
        parts = self._partial.pop(key, (None, [0]))[1]
        parts[0] += len(piece)
        parts.append(piece)
        return parts

    def _keep(self, key, record, parts):
        """Keep the pieces until the rest of their line comes; False when they are too many."""
        if parts[0] >= 65536 or len(parts) > 4096:
            return False
        self._partial[key] = (record, parts)
        if len(self._partial) > 256:
            del self._partial[next(iter(self._partial))]
        return True

    def _is_cut_json(self, text):
        """Tell whether a line that is no JSON object is a piece of one: of a journal, Docker, or a structured log."""
        if not text.startswith('{"'):
            return False
        return bool(_JOURNAL_KEY.match(text) or self.forms & {"json", "docker-json", "json-lines"})

    def close(self):
        """Yield records that were still open at the end of the input."""
        yield from self._end_pretty()
        if self._export:
            yield self._record_of_fields(self._export)
        self._export = None
        for key, (record, parts) in list(self._partial.items()):
            yield record._replace(text="".join(parts[1:]), line_break="eof")
            del self._partial[key]

    def _json(self, text):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(data, dict):
            return None
        if is_journal_object(data):
            self.forms.add("json")
            return journal_record(data)
        if isinstance(data.get("log"), str) and ("stream" in data or "time" in data):
            self.forms.add("docker-json")
            log = data["log"]
            key = ("docker", data["stream"] if isinstance(data.get("stream"), str) else None)
            parts = self._pieces(key, log.rstrip("\n"))
            if not log.endswith("\n") and self._keep(key, _EMPTY._replace(form="docker-json"), parts):
                return _EMPTY._replace(text="", writer="other", form="docker-json")
            stamp = data.get("time") if isinstance(data.get("time"), str) else None
            return self._inner(
                _EMPTY._replace(text="".join(parts[1:]), form="docker-json", stamp=stamp, time=parse_time(stamp))
            )
        self.forms.add("json-lines")
        stamp = next(
            (
                data[key]
                for key in ("timestamp", "time", "ts", "@timestamp", "asctime")
                if isinstance(data.get(key), str)
            ),
            None,
        )
        pid = next((data[key] for key in ("pid", "process", "process_id") if isinstance(data.get(key), int)), None)
        return _EMPTY._replace(text=text, form="json-lines", writer="app", stamp=stamp, time=parse_time(stamp), pid=pid)

    def _inner(self, record):
        """Take a time stamp or a collector's mark off the text of a record that came in another envelope."""
        match = _STAMPED.match(record.text or "")
        if match and match.end() and record.stamp is None:
            return record._replace(text=record.text[match.end() :], stamp=match.group("stamp"))
        return record

    def _feed_pretty(self, text):
        if self._pretty is None:
            self._pretty, self._pretty_size = [], 0
        self._pretty.append(text)
        self._pretty_size += len(text)
        if text.rstrip() in ("}", "},") or len(self._pretty) > 2000 or self._pretty_size > LINE_LIMIT:
            yield from self._end_pretty()

    def _end_pretty(self):
        """Read the lines since a lone brace: one JSON object, or text after all."""
        lines, self._pretty = self._pretty or [], None
        record = self._json("\n".join(lines).rstrip().rstrip(",")) if lines else None
        if record is not None:
            yield record
        elif len(lines) > 1 and re.match(r'\s+"_{0,2}[A-Z][A-Z0-9_]{2,60}"\s*:', lines[1]):
            yield _EMPTY._replace(hidden="damaged", form="json", writer="app")
        else:
            for line in lines:
                yield from self._feed_text(line, True)

    def _feed_export(self, raw):
        """The export form: ``FIELD=value`` lines, binary values with a length, a blank line between entries."""
        if self._export is None:
            self._export = {}
            self.forms.add("export")
        if self._export_wanted is not None:
            name, need, have = self._export_wanted
            have += raw
            have += b"\n"
            if need is None and len(have) >= 8:
                need = int.from_bytes(have[:8], "little")
                del have[:8]
            if need is not None and len(have) > need:
                self._keep_field(name, have[:need])
                self._export_wanted = None
            elif len(have) > LINE_LIMIT:
                self._export_wanted = None
            else:
                self._export_wanted = (name, need, have)
            return
        if not raw:
            if self._export:
                yield self._record_of_fields(self._export)
            self._export = {}
            return
        name, mark, value = raw.partition(b"=")
        if mark:
            self._keep_field(name.decode("ascii", "replace"), value)
        else:
            self._export_wanted = (raw.decode("ascii", "replace"), None, bytearray())

    def _keep_field(self, name, value):
        # An entry may have any number of fields; those that are read are few.
        if name in _EXPORT_FIELDS:
            self._export[name] = value.decode("utf-8", "replace")

    @staticmethod
    def _record_of_fields(fields):
        return journal_record(fields, form="export")

    def _feed_text(self, text, terminated):
        plain = _COLOUR.sub("", text) if "\x1b" in text else text
        header = _HEADER.match(plain)
        if header:
            boot = header.group(0).startswith(("-- Boot", "-- Reboot"))
            yield _EMPTY._replace(text=plain, writer="journalctl", form="header", hidden="reboot" if boot else None)
            return
        cut = None if terminated else "input-end"
        for form, pattern in _SYSLOG_FORMS:
            match = pattern.match(plain)
            if match and (form not in _NEED_PID or match.group("pid") or _no_pid_needed(match)):
                self.forms.add(form)
                self._after_syslog = True
                yield self._syslog(form, match, plain[match.end() :], cut)
                return
        for form, pattern in _KERNEL_FORMS:
            match = pattern.match(plain)
            if match:
                self.forms.add(form)
                yield _EMPTY._replace(
                    text=plain[match.end() :], writer="kernel", stamp=match.group("stamp"), form=form, line_break=cut
                )
                return
        yield from self._container(text, plain, cut)

    def _syslog(self, form, match, text, cut):
        groups = match.groupdict()
        ident = groups["ident"]
        writer = _WRITERS.get(ident)
        if writer is None:
            writer = "other" if _FOREIGN.match(ident) else "app"
        elif groups.get("pid") not in _PIDS_OF.get(ident, (groups.get("pid"),)):
            writer = "other"
        if "#0" in text or "#177" in text:
            text = _OCTAL.sub(lambda found: chr(int(found.group(1), 8)), text)
        stamp = groups.get("stamp")
        unix = groups.get("unix")
        return _EMPTY._replace(
            text=text,
            writer=writer,
            # journalctl -o with-unit names the unit where the other forms name the program
            unit=ident if ident.endswith(".service") and writer == "app" else None,
            pid=int(groups["pid"]) if groups.get("pid") else None,
            stamp=stamp or unix,
            time=float(unix) if unix else parse_time(stamp),
            form=form,
            line_break=cut,
        )

    def _container(self, text, plain, cut):
        origin, stamp, form = None, None, "plain"
        rest = text
        for pattern, name in ((_POD, "kubectl"), (_COMPOSE, "compose"), (_LABEL, "label")):
            match = pattern.match(plain)
            if match:
                origin, form, rest = match.group("origin"), name, plain[match.end() :]
                break
        match = _CRI.match(rest)
        if match:
            key = ("cri", origin, match.group("stream"))
            parts = self._pieces(key, rest[match.end() :])
            self.forms.add("cri")
            record = _EMPTY._replace(
                form="cri",
                stamp=match.group("stamp"),
                time=parse_time(match.group("stamp")),
                origin=origin,
                line_break=cut,
            )
            if match.group("part") == "P" and self._keep(key, record, parts):
                return
            yield record._replace(text="".join(parts[1:]))
            return
        match = _STAMPED.match(rest)
        if match:
            stamp, rest = match.group("stamp"), rest[match.end() :]
            form = "stamped" if origin is None else form
        self.forms.add(form)
        cont = None
        if form == "plain":
            cont = "indented" if self._after_syslog and re.match(r"\s{8,}\S", text) else "bare"
        else:
            self._after_syslog = False
        yield _EMPTY._replace(
            text=rest, origin=origin, stamp=stamp, time=parse_time(stamp), form=form, line_break=cut, cont=cont
        )
