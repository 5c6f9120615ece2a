# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs between two configurations of a service, and which of it a running service only takes by a restart.

A restart loads hundreds of GB again, so what systemd applies to a running service does not count as a reason for one.
Everything that is not known to be applied does count.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

from collections import OrderedDict

from . import argument_check

NONE, LIVE, RESTART = "none", "live", "restart"

# What people read and nothing obeys.
_WORDS_ONLY = frozenset((("Unit", "Description"), ("Unit", "Documentation")))

# What systemd itself obeys, from its next daemon-reload on: ordering, limits of starts, what happens at the next start,
# stop or failure.
_MANAGER = {
    "Unit": (
        "After Before BindsTo Conflicts JobTimeoutSec OnFailure OnSuccess PartOf PropagatesStopTo Requires Requisite"
        " StartLimitAction StartLimitBurst StartLimitIntervalSec Upholds Wants"
    ),
    "Install": "Alias Also RequiredBy UpheldBy WantedBy",
    "Service": (
        "ExecCondition ExecReload ExecStartPost ExecStartPre ExecStop ExecStopPost FinalKillSignal KillMode KillSignal"
        " Restart RestartForceExitStatus RestartMaxDelaySec RestartPreventExitStatus RestartSec RestartSteps"
        " SendSIGHUP SendSIGKILL SuccessExitStatus TimeoutAbortSec TimeoutSec TimeoutStartFailureMode TimeoutStartSec"
        " TimeoutStopFailureMode TimeoutStopSec"
    ),
}
# Properties of the control group, which a daemon-reload writes into the group of the running service.
_GROUP = (
    "AllowedCPUs AllowedMemoryNodes CPUQuota CPUQuotaPeriodSec CPUWeight IODeviceWeight IOReadBandwidthMax"
    " IOReadIOPSMax IOWeight IOWriteBandwidthMax IOWriteIOPSMax MemoryHigh MemoryLow MemoryMax MemoryMin MemorySwapMax"
    " MemoryZSwapMax TasksMax"
)
_APPLIED = frozenset(
    [(section, name) for section, names in _MANAGER.items() for name in names.split()]
    + [("Service", name) for name in _GROUP.split()]
)

_ESCAPES = {"n": "\n", "t": "\t", "s": " ", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
HIDDEN = argument_check.HIDDEN


def effect_of(section, directive):
    """Tell what a changed directive needs: ``none``, ``live`` (systemd applies it by itself) or ``restart``."""
    if (section, directive) in _WORDS_ONLY:
        return NONE
    return LIVE if (section, directive) in _APPLIED else RESTART


# -- reading ------------------------------------------------------------------------------------------------------


def parse_unit(text):
    """Return the directives of a unit, a dict of (section, directive) to the list of its values in their order.

    Comments are left out, also those between continued lines. Section and directive keep the order of the text.
    """
    found = OrderedDict()
    section, line = "", ""
    for raw in text.splitlines():
        stripped = raw.strip()
        if stripped[:1] in ("#", ";") or (not stripped and not line):
            continue
        line = f"{line} {stripped}" if line else stripped
        if line.endswith("\\"):
            line = line[:-1].rstrip()
            continue
        name, equals, value = line.partition("=")
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif equals:
            found.setdefault((section, name.strip()), []).append(value.strip())
        line = ""
    return found


def words_of(text):
    """Return the words of a value as systemd splits them: quotes and backslashes undone, specifiers as they are."""
    words, word, quote, escaped = [], None, None, False
    for character in text:
        if escaped:
            word = (word or "") + _ESCAPES.get(character, character)
            escaped = False
        elif character == "\\":
            word, escaped = word or "", True
        elif quote:
            if character == quote:
                quote = None
            else:
                word += character
        elif character in "\"'":
            word, quote = word or "", character
        elif character in " \t":
            if word is not None:
                words.append(word)
            word = None
        else:
            word = (word or "") + character
    return words if word is None else [*words, word]


def parse_environment(text):
    """Return the variables of an environment file as this collection writes it, a dict of names to raw values."""
    found = OrderedDict()
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith(("#", ";")):
            found[name.strip()] = value.strip()
    return found


# -- comparing ----------------------------------------------------------------------------------------------------


def changes_between(before_unit, after_unit, before_environment="", after_environment=""):
    """Return what differs between two configurations, in the order of the newer unit.

    Each entry is a dict of section, directive, before, after (text; None where it is absent on that side) and effect
    (none, live or restart). Of a command line and of Environment=, each option and variable is an entry of its own.
    Variables of the environment files have the section ``environment`` and never show a value; what has the name of a
    secret is hidden elsewhere too.
    """
    before, after = parse_unit(before_unit), parse_unit(after_unit)
    found = []
    for section, directive in _merged(after, before):
        old, new = before.get((section, directive)), after.get((section, directive))
        if old == new:
            continue
        if (section, directive) == ("Service", "ExecStart"):
            parts = _parts_of_command(old or []), _parts_of_command(new or [])
        elif (section, directive) == ("Service", "Environment"):
            parts = _parts_of_assignments(old or []), _parts_of_assignments(new or [])
        else:
            found += _entry(
                section, directive, _shown(directive, old), _shown(directive, new), effect_of(section, directive)
            )
            continue
        # The order of variables means nothing; that of options may.
        if dict(parts[0]) == dict(parts[1]) and (directive == "Environment" or list(parts[0]) == list(parts[1])):
            continue
        listed = []
        for name in _merged(parts[1], parts[0]):
            label = f"{directive} {name}" if directive == "Environment" else directive
            (old_text, old_shown), (new_text, new_shown) = (part.get(name, (None, None)) for part in parts)
            if old_text != new_text:
                listed += _entry(section, label, old_shown, new_shown, RESTART)
        found += listed or _entry(section, directive, " ".join(parts[0]), " ".join(parts[1]), RESTART)
    return found + _environment_changes(parse_environment(before_environment), parse_environment(after_environment))


def _merged(first, second):
    """Keys of two mappings, those of the first in their order, then those that only the second has."""
    return [*first, *(key for key in second if key not in first)]


def _entry(section, directive, before, after, effect):
    return [{"section": section, "directive": directive, "before": before, "after": after, "effect": effect}]


def _shown(directive, values):
    if values is None or directive not in ("SetCredential", "SetCredentialEncrypted"):
        return None if values is None else " | ".join(values)
    return HIDDEN


def _parts_of_command(values):
    """Options of a command line, a dict of each to its words as (text, text without secrets).

    What comes before the first option, the program and its module, has the name ``''``.
    """
    found = OrderedDict()
    words = [word for value in values for word in words_of(value)]
    secrets = argument_check.secrets_of(words)
    option = ""
    for word in words:
        if word.startswith("--") and " " not in word.partition("=")[0]:
            option = word.partition("=")[0]
        found.setdefault(option, []).append(word if word and " " not in word and "\t" not in word else f'"{word}"')
    texts = OrderedDict((option, " ".join(parts)) for option, parts in found.items())
    return OrderedDict((option, (text, argument_check.masked(text, secrets))) for option, text in texts.items())


def _parts_of_assignments(values):
    """Variables of Environment=, a dict of each to its value as (text, text without secrets)."""
    found = OrderedDict()
    for value in values:
        if not value:
            # An empty assignment clears what came before.
            found.clear()
        for word in words_of(value):
            name, _equals, text = word.partition("=")
            found[name] = (text, HIDDEN if argument_check.is_secret_name(name) else text)
    return found


def _environment_changes(before, after):
    found = []
    for name in _merged(after, before):
        old, new = before.get(name), after.get(name)
        if old != new:
            found.append(
                {
                    "section": "environment",
                    "directive": name,
                    "before": None if old is None else HIDDEN,
                    "after": None if new is None else HIDDEN,
                    "effect": RESTART,
                }
            )
    return found


# -- telling ------------------------------------------------------------------------------------------------------


def sentence(change):
    """Say one change in a sentence."""
    directive, before, after = change["directive"], change["before"], change["after"]
    if change["section"] == "environment":
        verb = "is new" if before is None else "is gone" if after is None else "has another value"
        return f"The variable {directive} of the service's environment {verb}."
    what = "the command line" if directive == "ExecStart" else directive
    if before is None:
        return f"{what[:1].upper()}{what[1:]} gets {after}."
    if after is None:
        return f"{what[:1].upper()}{what[1:]} loses {before}."
    return f"{what[:1].upper()}{what[1:]} changes from {before} to {after}."


def restart_reasons(changes):
    """Return the sentences of those changes that need a restart."""
    return [sentence(change) for change in changes if change["effect"] == RESTART]


def environment_outline(text, others=""):
    """Return an environment file as a diff may show it: names in their order, and which values are not the other's."""
    mine, theirs = parse_environment(text), parse_environment(others)
    lines = []
    for name, value in mine.items():
        note = HIDDEN if theirs.get(name, value) == value else "(hidden, another value)"
        lines.append(f"{name}={note}\n")
    return "".join(lines)


def redacted_unit(text):
    """Return a unit as a diff may show it: values of options and variables with the name of a secret are hidden."""
    secrets = set()
    for (_section, directive), values in parse_unit(text).items():
        words = [word for value in values for word in words_of(value)]
        if directive.startswith("Exec"):
            secrets.update(argument_check.secrets_of(words))
        elif directive == "Environment":
            assigned = dict(word.partition("=")[::2] for word in words)
            secrets.update(argument_check.secrets_of([], assigned))
        elif directive.startswith("SetCredential"):
            secrets.update(value.partition(":")[2] for value in values)
    return argument_check.masked(text, sorted((one for one in secrets if len(one) >= 4), key=lambda one: -len(one)))
