# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge one service by the record that its host keeps of the deployment.

The order: what is on the host and what runs is compared with the record; the journal of the running start is read and
judged by the record's settings; the server is asked. Only a full pass by the record is written down as verified.

Standard library only but for the HTTP client, Python 3.9 and newer.
"""

from __future__ import annotations

import json
import math
import os
import time

from ansible.module_utils.urls import open_url

from .. import command_output, hicache_log, service_look, service_store, service_verdict
from .._hicache import verifier as hicache
from .._model import parallel_layout
from . import drift

ANSWER_LIMIT = 4 * 1024 * 1024
TAIL_LINES = 25
LASTING_SECONDS = 0.5

#: Settings of a record's ``verify`` part that hicache_verify takes under the same name.
_SAME_NAME = (
    "ratio",
    "hicache_size",
    "expected_gb",
    "bytes_per_token",
    "draft_bytes_per_token",
    "page_size",
    "kv_cache_dtype",
    "release",
    "tolerance_gb",
)


def is_true(value):
    """Read a switch of a record: JSON's true, and the words that a template may leave."""
    return value if isinstance(value, bool) else str(value).strip().lower() in ("true", "yes", "on", "1")


def whole(value):
    """A whole number of a record, 0 where it has none."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return 0


def journal_options(settings, expected, timeout, poll_interval):
    """Options of hicache_verify for the settings of a record.

    ``settings``: the record's ``verify`` part; ``expected``: what the start's own arguments must show, by their names;
    ``timeout``, ``poll_interval``: seconds.
    """
    options = {name: spec.get("default") for name, spec in hicache.ARGUMENT_SPEC.items()}
    first = whole(settings.get("node_rank")) == 0
    url = settings.get("url") or ""
    for name in _SAME_NAME:
        if settings.get(name) not in (None, ""):
            options[name] = settings[name]
    for name in ("ratio", "hicache_size", "expected_gb", "tolerance_gb"):
        options[name] = None if options[name] is None else float(options[name])
    for name in ("bytes_per_token", "draft_bytes_per_token", "page_size"):
        options[name] = None if options[name] is None else int(options[name])
    if options["hicache_size"]:
        options["ratio"] = None
    if not is_true(settings.get("hicache_enabled", True)):
        options.update(ranks=0, ratio=None, hicache_size=None, expected_gb=None)
    elif settings.get("rank_set"):
        options["rank_set"] = [str(one) for one in settings["rank_set"]]
    else:
        options["ranks"] = whole(settings.get("ranks"))
    options["model_path"] = settings.get("model_path") or None
    # Of a pipeline the last stage alone has the draft.
    if is_true(settings.get("speculative_enabled", False)) and whole(settings.get("stages")) < 2:
        options["draft_model_path"] = settings.get("draft_model_path") or None
    if not is_true(settings.get("speculative_enabled", False)):
        options["draft_bytes_per_token"] = None
    layout = parallel_layout.from_server_args(expected)
    if not expected:
        layout["tensor_parallel_size"] = (
            whole((settings.get("device_settings") or {}).get("tensor_parallel_size")) or None
        )
    options.update({name: value for name, value in layout.items() if name in options})
    options["draft_kv_cache_dtype"] = expected.get("speculative_draft_kv_cache_dtype")
    options["unit"] = settings["unit"]
    options["readiness"] = "auto" if first else "none"
    options["health_url"] = f"{url}/health_generate" if url else None
    if first and url and is_true(settings.get("metrics_enabled", False)):
        options["metrics_url"] = f"{url}/metrics"
    options["expected_settings"] = expected
    options["timeout"], options["poll_interval"] = timeout, poll_interval
    return options


class Verification:
    """One service and one verdict on it.

    ``module`` is the Ansible module that runs; ``options`` is a mapping of its parameters, as the module
    ``service_verify`` describes them.
    """

    def __init__(self, module, options):
        self.module = module
        self.options = options
        self.name = options["name"]
        self.store = service_store.Store(options["config_dir"], self.name)
        self.unit = self.store.unit
        self.fact_path = os.path.join(options["facts_dir"], service_look.fact_file(self.name))

    # -- looking --------------------------------------------------------------------------------------------------

    def show(self):
        return hicache.show_unit(self.module, self.unit)

    def record_of(self, shown):
        """``(ID, record)`` of the configuration that the running start has; record is None where none is kept."""
        one = service_store.running_id(self.store.state(), shown.get("InvocationID") or None)
        return one, self.store.record(one)

    def differences(self, shown, one):
        """What on the host and in the running process is not as recorded, as :mod:`drift` tells it."""
        found = drift.host_differences(self.store, shown, one)
        if not found:
            return found
        # Between its fork and its exec a process has the arguments of systemd: only what lasts is a difference.
        time.sleep(LASTING_SECONDS)
        again = self.show()
        later, _record = self.record_of(again)
        return [each for each in drift.host_differences(self.store, again, later) if each in found]

    def journal(self, settings, expected, timeout):
        try:
            options = journal_options(settings, expected, timeout, self.options["poll_interval"])
            problem = hicache.check_parameters(options)
        except (TypeError, ValueError, OverflowError) as error:
            problem = f"The record of its configuration holds a value of the wrong type: {error}. Deploy it again."
        if problem:
            self.module.fail_json(msg=f"The settings that {self.unit} is judged by are wrong. {problem}")
        return hicache.Verifier(self.module, options).run()

    def tail(self):
        """The last lines of the unit's journal, without keys and tokens."""
        argv = ["journalctl", f"--unit={self.unit}", f"--lines={TAIL_LINES}", "--no-pager", "--output=short-iso"]
        blocks = []
        command_output.hand_on(argv, blocks.append, dict(os.environ, LC_ALL="C", SYSTEMD_COLORS="0"))
        text = b"".join(blocks).decode("utf-8", "replace")
        return [hicache_log.redact(line, 500) for line in text.splitlines()]

    # -- asking ---------------------------------------------------------------------------------------------------

    def answer(self, url, body=None):
        """The server's answer: ``{"status": int, "json": object or None, "msg": str}``; status -1 without one."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        data = json.dumps(body) if body is not None else None
        try:
            answer = open_url(
                url,
                data=data,
                headers=headers,
                method="POST" if body is not None else "GET",
                timeout=self.options["request_timeout"],
                use_proxy=False,
                http_agent="llmfleet.sglang",
            )
            status, content, told = answer.getcode(), answer.read(ANSWER_LIMIT), ""
        except Exception as error:
            status, content, told = getattr(error, "code", None) or -1, b"", str(getattr(error, "reason", error))
        try:
            parsed = json.loads(content) if content else None
        except (ValueError, RecursionError):
            parsed, told = None, content[:200].decode("utf-8", "replace")
        return {"status": status, "json": parsed, "msg": told}

    def requests(self, settings, invocation):
        """Send a chat completion, and the same long prompt twice; returns the answers for the verdict."""
        url = settings["url"]
        model = settings.get("served_model_name")
        if not model:
            found = self.answer(f"{url}/v1/models")["json"]
            models = found.get("data") if isinstance(found, dict) else None
            model = models[0].get("id", "") if models and isinstance(models[0], dict) else ""
        chat = {"model": model, "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 16}
        # Unique to this start, so that the first of both requests cannot find it in the cache.
        words = " ".join(str(number) for number in range(self.options["prefix_words"]))
        prompt = {
            "text": f"Start {invocation or ''}. {words}",
            "sampling_params": {"max_new_tokens": 32, "temperature": 0},
        }
        return {
            "chat": self.answer(f"{url}/v1/chat/completions", {**chat, "temperature": 0}),
            # SGLang's own endpoint tells the cached tokens and the accept length without further options.
            "prefix": [self.answer(f"{url}/generate", prompt) for _turn in range(2)],
        }

    def kept(self, invocation, one):
        """The full verdict that is kept on this very start and configuration, or None."""
        try:
            fact = json.loads(service_store.read(self.fact_path) or "null")
        except (ValueError, RecursionError):
            return None
        if not isinstance(fact, dict) or not invocation or fact.get("invocation_id") != invocation:
            return None
        return fact if fact.get("configuration") == one and fact.get("requests_sent") else None

    # -- the verdict ----------------------------------------------------------------------------------------------

    def run(self):
        """Judge; returns the result, with ``recorded`` and what was written down in ``changed``."""
        shown = self.show()
        one, record = self.record_of(shown)
        settings = (record or {}).get("verify") or dict(self.options["settings"] or {})
        recorded = bool((record or {}).get("verify"))
        if shown.get("LoadState") == "not-found" and self.module.check_mode:
            return self.nothing("unit_not_found", f"The host has no {self.unit} yet.")
        if not settings:
            return self.nothing(
                "no_record",
                f"The host keeps no record of a deployment of {self.unit}, and no settings are given to judge it by. "
                "Deploy it with site.yml.",
                without_record=True,
            )
        settings = {**settings, "name": self.name, "unit": self.unit}
        # Refused before a wait that may take an hour.
        self.accept_length_above(settings)
        expected = drift.expected_settings(drift.recorded_words(self.store.texts(one)[0])) if recorded else {}
        differences = self.differences(shown, one) if recorded else []
        # A service that is not the recorded one is not waited for.
        waits = not differences and not self.module.check_mode
        journal = self.journal(settings, expected, self.options["timeout"] if waits else 0)
        if recorded and not differences:
            shown = self.show()
            differences = self.differences(shown, self.record_of(shown)[0])
        return self.conclude(settings, journal, differences, one, recorded)

    def conclude(self, settings, journal, differences, one, recorded):
        """Put the journal, the differences and the server's answers together, and write the verdict down."""
        invocation = journal.get("invocation_id")
        first = whole(settings.get("node_rank")) == 0
        wanted = first and is_true(settings.get("requests_enabled", True))
        may_ask = wanted and journal["verdict"] == "pass" and not differences
        answers = self.requests(settings, invocation) if may_ask and self.options["requests_enabled"] else None
        kept = self.kept(invocation, one) if may_ask and answers is None else None
        result = service_verdict.service_verdict(
            journal,
            {
                "host": self.options["host"],
                "unit": self.unit,
                "release": settings.get("release") or "",
                "hicache_enabled": is_true(settings.get("hicache_enabled", True)),
                "speculative_enabled": is_true(settings.get("speculative_enabled", False)),
                "accept_length_above": self.accept_length_above(settings),
                "device_settings": settings.get("device_settings"),
                "configuration": one if recorded else None,
                "recorded": recorded,
            },
            answers,
            differences=[drift.sentence(each) for each in differences],
            asked_before=kept,
            requests_missing=may_ask and answers is None and kept is None,
        )
        result["without_record"] = False
        result["changed"] = self.write_down(result, one, recorded) if self.options["written_down"] else False
        result["journal_tail"] = self.tail() if result["verdict"] == "fail" else []
        return result

    def accept_length_above(self, settings):
        """The bound of the record; 1 where it has none."""
        value = settings.get("accept_length_above")
        try:
            number = 1.0 if value is None else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not 1 <= number < 1000:
            self.module.fail_json(
                msg=f"accept_length_above is {value}: the accept length of a service that speculates has to lie above "
                "1 at least. Set verify_accept_length_above to 1 or more, or to null, and deploy again."
            )
        return number

    def nothing(self, code, message, without_record=False):
        """The result where there is nothing to judge."""
        result = service_verdict.no_verdict(self.options["host"], self.unit, code, message)
        return {**result, "without_record": without_record}

    def write_down(self, result, one, recorded):
        """Keep the verdict as a local fact, and a full pass by the record as verified; returns whether that is new."""
        kept = {key: value for key, value in result.items() if key not in ("changed", "without_record")}
        text = service_store.as_json(kept)
        if self.module.check_mode:
            return service_store.read(self.fact_path) != text
        service_store.make_folder(os.path.dirname(self.fact_path))
        changed = service_store.write_if_other(self.fact_path, text, 0o644)
        if result["verdict"] != "pass" or not recorded:
            return changed
        with self.store.locked():
            noted = self.store.note_verified(one, result["invocation_id"], result["summary"])
        return noted or changed
