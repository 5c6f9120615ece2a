# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a start has logged until it is complete, ask the server, and judge: the work of hicache_verify.

``ARGUMENT_SPEC`` are the options of the module of that name, which describes them and the result.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import math
import os
import socket
import time
import zlib
from urllib.parse import urlsplit

from ansible.module_utils.urls import open_url

from .. import command_output, hicache_judge, hicache_size, hicache_witness, journal, kv_geometry
from .._host.socket_owner import socket_owner
from .._model import parallel_layout
from ..hicache_evidence import Evidence, read_log
from .started import LAYOUT_ARGUMENTS

PROBE_TIMEOUT = 30

ARGUMENT_SPEC = {
    "unit": {"type": "str"},
    "invocation_id": {"type": "str"},
    "journal_files": {"type": "list", "elements": "path"},
    "log_file": {"type": "path"},
    "ranks": {"type": "int"},
    "rank_set": {"type": "list", "elements": "str"},
    "expected_gb": {"type": "float"},
    "ratio": {"type": "float"},
    "hicache_size": {"type": "float"},
    "bytes_per_token": {"type": "int", "no_log": False},
    "draft_bytes_per_token": {"type": "int", "no_log": False},
    "model_path": {"type": "path"},
    "draft_model_path": {"type": "path"},
    "tensor_parallel_size": {"type": "int"},
    "data_parallel_size": {"type": "int"},
    "dp_attention_enabled": {"type": "bool"},
    "pipeline_parallel_size": {"type": "int"},
    "decode_context_parallel_size": {"type": "int"},
    "nodes": {"type": "int"},
    "node_rank": {"type": "int"},
    "kv_cache_dtype": {"type": "str"},
    "draft_kv_cache_dtype": {"type": "str"},
    "expected_settings": {"type": "dict"},
    "page_size": {"type": "int"},
    "release": {"type": "str"},
    "tolerance_gb": {"type": "float", "default": 0.01},
    "readiness": {"type": "str", "choices": ["auto", "line", "health", "none"], "default": "auto"},
    "health_url": {"type": "str"},
    "metrics_url": {"type": "str"},
    "server_info_url": {"type": "str"},
    "api_key": {"type": "str", "no_log": True},
    "timeout": {"type": "int", "default": 0},
    "poll_interval": {"type": "float", "default": 5},
    "fail_on": {
        "type": "list",
        "elements": "str",
        "choices": ["fail", "inconclusive"],
        "default": ["fail", "inconclusive"],
    },
}


#: Limits of the options that only the module has, as :data:`hicache_judge.LIMITS`; times are in seconds.
LIMITS = {
    **hicache_judge.LIMITS,
    "timeout": (0, 7 * 86400),
    "poll_interval": (0.1, 3600),
    "nodes": (1, 4096),
    "node_rank": (0, 4095),
}
_ABOVE_ZERO = (
    *("ratio", "bytes_per_token", "draft_bytes_per_token", "page_size", "hicache_size", "expected_gb"),
    *("tensor_parallel_size", "data_parallel_size", "pipeline_parallel_size", "decode_context_parallel_size"),
)
_MAX_SETTINGS = 500


def _check_settings(settings):
    """A sentence about the first entry of ``expected_settings`` that no server can print, or None."""
    if len(settings) > _MAX_SETTINGS:
        return f"expected_settings has {len(settings)} entries: a server has at most {_MAX_SETTINGS}; leave some out."
    for name, value in settings.items():
        if not (isinstance(name, str) and name.isidentifier()):
            return f"expected_settings names {name!r}: use the names that server_args shows, such as hicache_ratio."
        if isinstance(value, float) and not math.isfinite(value):
            return f"expected_settings.{name} is {value}: it has to be finite; give the value of the server."
        if not isinstance(value, (str, int, float, bool, type(None))) or len(str(value)[:2001]) > 2000:
            return f"expected_settings.{name} is no text, number or truth value: leave it out, it cannot be compared."
    return None


def check_parameters(params):
    """Return a sentence that names the first impossible value, or None."""
    for name in _ABOVE_ZERO:
        value = params[name]
        if value is not None and not value > 0:
            return f"{name} is {value}: it has to be above 0. Give the value of the server, or leave the option out."
    for name in ("tolerance_gb", "timeout", "ranks"):
        if params[name] is not None and not params[name] >= 0:
            return f"{name} is {params[name]}: it has to be 0 or more."
    if not params["poll_interval"] >= 0.1:
        return f"poll_interval is {params['poll_interval']}: it has to be 0.1 seconds or more."
    for name, (least, most) in LIMITS.items():
        problem = hicache_judge.check_number(name, params[name], least, most)
        if problem:
            return problem
    try:
        parallel_layout.layout(asked_layout(params))
    except ValueError as error:
        return f"{str(error).rstrip('.')}."
    problem = _check_settings(params["expected_settings"] or {})
    if problem:
        return problem
    try:
        if params["release"] is not None:
            hicache_size.parse_release(params["release"])
        if params["rank_set"] is not None:
            wanted = hicache_judge.parse_rank_set(params["rank_set"])
            if params["ranks"] is not None and params["ranks"] != len(wanted):
                return f"ranks is {params['ranks']}, but rank_set names {len(wanted)} ranks. Leave ranks out."
    except ValueError as error:
        return f"{error}."
    if params["invocation_id"] is not None and not journal.is_invocation_id(params["invocation_id"]):
        return (
            f"invocation_id is {params['invocation_id']!r}: it has to be 32 hexadecimal digits, as systemctl show "
            "--property=InvocationID prints."
        )
    if not params["unit"] and not params["log_file"]:
        return "unit is missing: name the systemd unit whose journal is to be read, such as sglang-kimi.service."
    if params["unit"] and not hicache_witness.is_unit_name(params["unit"]):
        return (
            f"unit is {params['unit']!r}, which cannot be the name of a unit. Use a name such as sglang-kimi.service."
        )
    if params["readiness"] == "health" and not params["health_url"] and not params["log_file"]:
        return "readiness is health and health_url is missing: give the address to ask."
    return None


def asked_layout(params):
    """The parallel layout as far as it was asked for."""
    return {name: params[name] for name in LAYOUT_ARGUMENTS if params[name] is not None}


def build_ask(params):
    """The :class:`hicache_judge.Ask` of the module's parameters; reads the configs of the models that are named."""
    given = {name: params[name] for name in hicache_judge.Ask._fields if name in params}
    folders = {"model": params["model_path"], "draft_model": params["draft_model_path"]}
    return hicache_judge.Ask(
        **given,
        **{name: _config(folder) for name, folder in folders.items()},
        model_expected=bool(params["model_path"]),
        settings=params["expected_settings"],
        layout=asked_layout(params),
        draft_dtype=params["draft_kv_cache_dtype"],
    )


def _config(folder):
    if not folder:
        return None
    try:
        return kv_geometry.load_folder(folder)
    except RecursionError:
        return None


def port_of(url):
    """``(host, port)`` of an address, or None where it names none."""
    try:
        parts = urlsplit(url)
        return (parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)) if parts.hostname else None
    except ValueError:
        return None


def addresses(host):
    """The addresses that a host's name stands for, as texts; the name itself where it cannot be resolved."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return [host]
    return sorted({entry[4][0].partition("%")[0] for entry in found})[:16]


def show_unit(module, unit):
    """The state of a unit, a dict of texts; a host without systemd ends the module."""
    argv = journal.show_argv(unit, module.get_bin_path("systemctl", required=True))
    code, out, err = module.run_command(argv, environ_update={"LC_ALL": "C", "LANGUAGE": "C"})
    state = journal.parse_show(out)
    if code != 0 and not state:
        module.fail_json(
            msg=f"systemctl show {unit} failed: {err.strip() or code}. The module needs a host that runs systemd."
        )
    return state


class Verifier:
    """One run of the module, with its own options unless others are given."""

    def __init__(self, module, params=None):
        self.module = module
        self.params = module.params if params is None else params
        self.unit = journal.full_unit_name(self.params["unit"]) if self.params["unit"] else None
        self.ask = build_ask(self.params)
        self.began = time.monotonic()
        self.evidence = None
        self.stream = None
        self.cursor = None
        self.environment = dict(os.environ, LC_ALL="C", LANGUAGE="C", SYSTEMD_COLORS="0", SYSTEMD_PAGER="")

    def remaining(self):
        return self.params["timeout"] - (time.monotonic() - self.began)

    # -- reading --------------------------------------------------------------------------------------------------

    def journalctl(self, argv, take):
        """Run journalctl and hand its output to ``take`` block by block; returns status and standard error."""
        return command_output.hand_on(argv, take, self.environment)

    def lines(self, argv):
        """Run journalctl for few lines; returns the lines as bytes and its words."""
        blocks = []

        def take(block):
            if sum(len(one) for one in blocks) < 16 * 1024 * 1024:
                blocks.append(block)

        _code, said = self.journalctl(argv, take)
        return b"".join(blocks).splitlines(), said

    def read_on(self, invocation, files):
        """Read the journal of one start from where the last look stopped."""
        argv = journal.journal_argv(
            invocation, self.module.get_bin_path("journalctl", required=True), files, self.cursor
        )
        stream = journal.JsonStream(lambda: self.evidence.wants_everything)

        def take(block):
            for record in stream.feed(block):
                self.evidence.feed(record)

        code, said = self.journalctl(argv, take)
        for record in stream.close():
            self.evidence.feed(record)
        self.evidence.glance(stream.last)
        self.total += stream.lines
        # What the prefilter left out was read as well: a journal with late lines only is not an empty one.
        self.evidence.start.messages = self.total
        self.cursor = stream.cursor or self.cursor
        self.evidence.note_text(said)
        if self.total == 0 and not files and journal.unreadable():
            self.evidence.lose("no_permission", "the journal could not be read with the rights of this user")
        if code != 0 and stream.lines == 0 and not self.evidence.start.losses:
            words = said.strip().splitlines()
            self.evidence.start.lose("journal_unreadable", f"journalctl failed: {words[0] if words else code}")

    def show(self):
        return show_unit(self.module, self.unit)

    # -- sources --------------------------------------------------------------------------------------------------

    def saved_log(self):
        name = self.params["log_file"]
        try:
            with self.open_log(name) as source:
                self.evidence = read_log(source, self.unit, self.params["invocation_id"])
        except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
            self.module.fail_json(
                msg=f"log_file {name} cannot be read: {error}. Give a readable file of the target host."
            )
        result, _phase = hicache_judge.judge(self.evidence.start, self.ask, None, self.evidence.restarts)
        return result

    @staticmethod
    def open_log(name):
        for ending, opener in ((".gz", gzip.open), (".bz2", bz2.open), (".xz", lzma.open)):
            if name.endswith(ending):
                return opener(name, "rb")
        return open(name, "rb")

    def saved_journal(self):
        files = self.params["journal_files"]
        for name in files:
            if not os.access(name, os.R_OK):
                self.module.fail_json(
                    msg=f"journal_files names {name}, which cannot be read. Check the path and the rights."
                )
        invocation = self.params["invocation_id"] or self.newest(files)
        self.total = 0
        self.evidence = Evidence(self.unit, invocation)
        if invocation:
            self.read_on(invocation, files)
        around = hicache_judge.Around(invocation=invocation, bound=bool(invocation))
        result, _phase = hicache_judge.judge(self.evidence.start, self.ask, around, self.evidence.restarts)
        result["messages"] = self.total
        return result

    def newest(self, files):
        argv = journal.newest_invocation_argv(self.unit, self.module.get_bin_path("journalctl", required=True), files)
        lines, _said = self.lines(argv)
        for line in lines:
            record = journal.parse_json_line(line)
            if record is not None and record.invocation and record.unit == self.unit:
                return record.invocation
        return None

    def live(self):
        state = self.show()
        invocation = self.params["invocation_id"] or state.get("InvocationID") or None
        self.total = 0
        self.evidence = Evidence(self.unit, invocation)
        settled = None
        looked_again = False
        while True:
            if invocation:
                self.read_on(invocation, ())
            result, phase, around = self.judge_live(state, invocation, None)
            now = time.monotonic()
            if phase == "done":
                if looked_again or result["verdict"] == "pass":
                    break
                # The messages of a death may reach the journal a moment after the unit's state.
                looked_again = True
                time.sleep(min(0.5, self.params["poll_interval"]))
                state = self.show()
                continue
            if phase == "settle" and settled is None:
                # A notice of dropped messages follows up to a rate limit interval (30 s) later.
                settled = now + (31 if self.total > 1000 else max(2, 2 * self.params["poll_interval"]))
            if not invocation or self.remaining() <= 0 or (phase == "settle" and now >= settled):
                break
            time.sleep(max(0.05, min(self.params["poll_interval"], self.remaining())))
            state = self.show()
        if result["verdict"] != "pass" and invocation:
            probe = phase != "done" and result["allocation_verdict"] != "pass" and self.params["health_url"]
            if probe and self.with_owner(around, self.params["health_url"]).owner["ours"] is not False:
                # journald tells of dropped messages only with the next message: make the server write one.
                self.fetch(self.params["health_url"], 10)
                time.sleep(1)
                self.read_on(invocation, ())
            self.read_kernel(result)
        if self.params["metrics_url"] or self.params["server_info_url"] or result["verdict"] != "pass":
            waited = self.params["timeout"] if self.params["timeout"] and self.remaining() <= 0 else None
            result = self.judge_live(state, invocation, waited, last=True)[0]
        result["messages"] = self.total
        return result

    def judge_live(self, state, invocation, waited, last=False):
        around = hicache_judge.Around(
            unit=state,
            invocation=invocation,
            deadline=waited,
            oom_kills=hicache_witness.oom_kills(state.get("ControlGroup")),
            bound=True,
        )
        result, phase = hicache_judge.judge(self.evidence.start, self.ask, around, self.restarts(state))
        open_yet = phase != "done" or result["verdict"] == "pass" or hicache_judge.only_claims(self.evidence.start)
        if open_yet and self.wants_health(result, last):
            around = self.with_owner(around, self.params["health_url"])
            if around.owner["ours"] is not False:
                around = around._replace(health=self.health())
        # Whoever listens at the address of a unit that does not run is somebody else.
        down = state.get("ActiveState") in ("inactive", "failed")
        if last and not down and result["allocation_verdict"] != "fail":
            for name, ask in (("metrics", self.metrics), ("server_info", self.server_info)):
                if self.params[f"{name}_url"]:
                    around = self.with_owner(around, self.params[f"{name}_url"])
                    if around.owner["ours"] is not False:
                        around = around._replace(**{name: ask()})
        result, phase = hicache_judge.judge(self.evidence.start, self.ask, around, self.restarts(state))
        return result, phase, around

    def restarts(self, state):
        number = state.get("NRestarts") or ""
        return max(self.evidence.restarts, int(number) if number.isdigit() else 0)

    def read_kernel(self, result):
        """Ask the kernel's log why a start is not complete: who was killed for want of memory, and by which limit."""
        since = self.evidence.start.started_at
        if not isinstance(since, float):
            return
        lines, _said = self.lines(journal.kernel_argv(since, self.module.get_bin_path("journalctl", required=True)))
        for line in lines:
            if b"oom" in line or b"ut of memory" in line:
                record = journal.parse_json_line(line)
                if record is not None:
                    self.evidence.feed(record._replace(writer="kernel"))

    # -- the server's own word -------------------------------------------------------------------------------------

    def fetch(self, url, timeout=PROBE_TIMEOUT, key=None):
        """GET an address of the server itself, never through a proxy; returns (status or None, body, error)."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            answer = open_url(url, headers=headers, timeout=timeout, use_proxy=False, http_agent="llmfleet.sglang")
            return answer.getcode(), answer.read(4 * 1024 * 1024), None
        except Exception as error:
            return getattr(error, "code", None), b"", str(getattr(error, "reason", error))

    def with_owner(self, around, url):
        """Note who listens at an address of the unit, before its answer is believed; the worst finding stays."""
        place = port_of(url)
        if around.owner and (around.owner["ours"] is False or place == around.owner["place"]):
            return around
        found = {"ours": None, "pid": None, "comm": None, "unit": None}
        if place:
            group = (around.unit or {}).get("ControlGroup")
            looks = [socket_owner(place[1], address, group) for address in addresses(place[0])]
            # One foreign listener that could answer is enough.
            found = next(
                (look for ours in (False, None, True) for look in looks if look["ours"] is ours),
                found,
            )
        worst = around.owner if around.owner and around.owner["ours"] is None and found["ours"] else None
        return around._replace(owner=worst or {**found, "port": place[1] if place else None, "place": place})

    def wants_health(self, result, last):
        readiness = self.params["readiness"]
        if not self.params["health_url"] or readiness in ("line", "none") or result["allocation_verdict"] != "pass":
            return False
        start = self.evidence.start
        # Each question makes the server generate a token and write a line: none before an answer can matter.
        return bool(last or start.ready or readiness == "health" or hicache_judge.line_may_be_absent(start))

    def health(self):
        limit = PROBE_TIMEOUT
        if self.params["timeout"]:
            limit = max(5, min(PROBE_TIMEOUT, self.remaining()))
        url = self.params["health_url"]
        return hicache_witness.health(url, *self.fetch(url, limit))

    def metrics(self):
        status, body, _error = self.fetch(self.params["metrics_url"])
        return hicache_witness.parse_metrics(body.decode("utf-8", "replace")) if status == 200 else []

    def server_info(self):
        status, body, _error = self.fetch(self.params["server_info_url"], key=self.params["api_key"])
        return hicache_witness.parse_server_info(body) if status == 200 else None

    def run(self):
        if self.params["log_file"]:
            return self.saved_log()
        if self.params["journal_files"]:
            return self.saved_journal()
        return self.live()
