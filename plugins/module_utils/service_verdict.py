# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One verdict on a service from its journal and from what it answered.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

from .hicache_plan import device_settings

# Labels of the pools that make a rank; every other pool only takes memory.
_MAIN_POOLS = ("kv", "full")
# What of the journal's verdict is worth keeping on the host: nothing in it changes while the same start runs.
_KEPT = (
    "allocation_verdict",
    "device_tokens",
    "expected_gb",
    "invocation_id",
    "per_rank_gb",
    "ranks",
    "ranks_seen",
    "ready_at",
    "started_at",
    "total_gb",
)


def _reason(code, message):
    return {"code": code, "message": message}


def _failed_request(what, answer):
    status = answer.get("status", -1)
    told = str(answer.get("msg") or answer.get("content") or "")[:200]
    return f"{what} failed with HTTP status {status}: {told}"


def _list_of(value):
    return value if isinstance(value, list) else []


def chat_reasons(chat):
    """Reasons against the answer to a chat completion: ``status``, ``json`` and ``msg``."""
    if chat.get("status") != 200 or not isinstance(chat.get("json"), dict):
        told = _failed_request("The chat completion", chat)
        return [_reason("chat_failed", f"{told}. The server is up but cannot answer; see the unit's journal.")]
    body = chat["json"]
    usage = body.get("usage") if isinstance(body.get("usage"), dict) else {}
    tokens = usage.get("completion_tokens")
    tokens = tokens if isinstance(tokens, int) else 0
    if not _list_of(body.get("choices")) or tokens < 1:
        return [
            _reason(
                "chat_empty",
                f"The chat completion came back with {len(_list_of(body.get('choices')))} choices and {tokens} tokens; "
                "at least one of each was expected.",
            )
        ]
    return []


def accept_length(meta):
    """Accepted tokens a verification step of one ``/generate`` answer, or None where the server does not tell."""
    try:
        if meta.get("spec_accept_length") is not None:
            return float(meta["spec_accept_length"])
        steps = meta.get("spec_verify_ct")
        return meta.get("completion_tokens", 0) / steps if steps else None
    except (TypeError, ValueError, OverflowError):
        return None


def prefix_reasons(answers, hicache_enabled, speculative_enabled, accept_length_above):
    """Reasons against the answers to the same long prompt, sent twice to ``/generate``."""
    metas = []
    for answer in answers:
        body = answer.get("json")
        if answer.get("status") != 200 or not isinstance(body, dict):
            return [_reason("prefix_failed", _failed_request("The request with a long prompt", answer) + ".")]
        metas.append(body["meta_info"] if isinstance(body.get("meta_info"), dict) else {})
    reasons = []
    repeat = metas[-1]
    if hicache_enabled and not repeat.get("cached_tokens"):
        reasons.append(
            _reason(
                "prefix_not_cached",
                f"The repeated prompt of {repeat.get('prompt_tokens')} tokens found 0 of them in the cache; "
                "the prefix cache is off (--disable-radix-cache) or does not keep what it computed.",
            )
        )
    if speculative_enabled:
        length = accept_length(repeat)
        if length is None:
            reasons.append(
                _reason(
                    "accept_length_unknown",
                    "Speculation is on, but the answer carries no accept length: it runs without a draft model.",
                )
            )
        elif not length > accept_length_above:
            reasons.append(
                _reason(
                    "accept_length",
                    f"The accept length is {length:.2f}; above {accept_length_above:.2f} was expected. "
                    "An EAGLE-3 draft needs --speculative-algorithm EAGLE3, and must belong to this model.",
                )
            )
    return reasons


def _span(values):
    """Sizes in GB as one figure, or as a span where they differ."""
    each = sorted(set(values))
    return f"{each[0]:.2f}" if len(each) == 1 else f"{each[0]:.2f} to {each[-1]:.2f}"


def _figures(journal, hicache_enabled, ranks):
    """The figures of the summary line: ranks, GB of each against the prediction, draft, total."""
    if not hicache_enabled:
        return "hierarchical cache off"
    words = [f"{journal.get('ranks_seen', 0)} of {ranks} ranks"]
    pools = journal.get("ranks") or []
    main = [pool["gb"] for pool in pools if pool["pool"] in _MAIN_POOLS]
    draft = [pool["gb"] for pool in pools if pool["pool"] == "draft"]
    if main:
        expected = journal.get("expected_gb")
        told = "no prediction" if expected is None else f"predicted {expected:.2f}"
        words.append(f"{_span(main)} GB each ({told})")
        if draft:
            words.append(f"{_span(draft)} GB each for the draft")
        words.append(f"{journal.get('total_gb') or 0:.2f} GB in all")
    return ", ".join(words)


# What the answers to requests may have against a service.
_REQUEST_CODES = (
    "chat_failed",
    "chat_empty",
    "prefix_failed",
    "prefix_not_cached",
    "accept_length",
    "accept_length_unknown",
)


def _about_requests(settings, answers, asked_before, requests_missing):
    """``(verdict, reasons)`` of what was asked; the verdict is None where nothing speaks against a pass."""
    if answers is not None:
        found = chat_reasons(answers.get("chat") or {})
        found += prefix_reasons(
            answers.get("prefix") or [{}],
            settings["hicache_enabled"],
            settings["speculative_enabled"],
            settings["accept_length_above"],
        )
    elif asked_before is not None:
        found = [reason for reason in asked_before.get("reasons") or [] if reason.get("code") in _REQUEST_CODES]
    elif requests_missing:
        message = (
            "No request was sent, and no verdict on this start is kept that tells how the server answered. Run "
            "verify.yml, which sends some."
        )
        return "inconclusive", [_reason("requests_not_sent", message)]
    else:
        return None, []
    return ("fail" if found else None), found


def _told(settings, verdict, figures, differences):
    """The verdict on one service in one line."""
    line = f"{settings['host']} {settings['unit']}: {verdict.upper()} - {figures}"
    if differences:
        line += f", differs from its record in {len(differences)} setting{'' if len(differences) == 1 else 's'}"
    if not settings.get("recorded", True):
        line += ", judged by variables: the host keeps no record"
    return line


def service_verdict(journal, settings, answers=None, differences=(), asked_before=None, requests_missing=False):
    """Put everything that is known about a running service together.

    ``journal`` is what ``hicache_verify`` returned. ``settings`` holds ``host``, ``unit``, ``release``,
    ``hicache_enabled``, ``speculative_enabled``, ``accept_length_above``, ``recorded`` (whether they are those of the
    deployment's record), ``configuration`` (its ID) and, where the figures are to be of use to a later plan,
    ``device_settings`` (what the tokens of the device depend on). ``answers`` holds ``chat`` and ``prefix``, each with
    ``status``, ``json`` and ``msg``; None where nothing was asked. ``differences`` are sentences on what is not as
    recorded; one is enough for a fail. ``asked_before`` is the full verdict that is kept on this very start, for a
    judgement that asks nothing itself; ``requests_missing`` tells that neither is there though the record wants it.

    Returns a dict with ``verdict`` (pass, fail, inconclusive), ``reasons`` (list of ``code`` and ``message``),
    ``summary`` (one line for people) and the kept figures, GB in units of 1e9 bytes.
    """
    reasons = [_reason("settings_differ", sentence) for sentence in differences]
    reasons += [dict(reason) for reason in journal.get("reasons") or []]
    verdict = "fail" if differences else journal.get("verdict", "inconclusive")
    asked, found = _about_requests(settings, answers, asked_before, requests_missing)
    verdict, reasons = (asked or verdict), reasons + found
    result = {key: journal.get(key) for key in _KEPT}
    seconds = journal.get("seconds_to_ready")
    seconds = None if seconds is None else round(seconds)
    ready = f"ready after {seconds} s" if seconds is not None else "not seen ready"
    figures = _figures(journal, settings["hicache_enabled"], journal.get("ranks_expected"))
    result.update(
        unit=settings["unit"],
        release=settings["release"],
        configuration=settings.get("configuration"),
        recorded=settings.get("recorded", True),
        verdict=verdict,
        reasons=reasons,
        seconds_to_ready=seconds,
        requests_sent=answers is not None,
        device_settings=device_settings(settings.get("device_settings")),
        summary=_told(settings, verdict, f"{figures}, {ready}", differences),
    )
    return result


def no_verdict(host, unit, code, message, recorded=False):
    """The result for a service about which nothing can be said: the same keys, and why."""
    result = dict.fromkeys(_KEPT)
    result.update(
        unit=unit,
        release="",
        configuration=None,
        recorded=recorded,
        verdict="inconclusive",
        reasons=[_reason(code, message)],
        seconds_to_ready=None,
        requests_sent=False,
        device_settings={},
        summary=f"{host} {unit}: INCONCLUSIVE - {message[:1].lower()}{message[1:].rstrip('.')}",
        changed=False,
        journal_tail=[],
    )
    return result
