# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an installed SGLang is asked about a command line, and how its answer is read.

The question is C(PROBE), a program for the release's own interpreter. It imports what C(python -m
sglang.launch_server) imports, hands the words to C(sglang.srt.server_args.prepare_server_args), which every
release from 0.5.9 to 0.5.23 has, and stops where parsing ends: no model is read and no device is opened.
"""

from __future__ import annotations

import hashlib
import json
import os
import re

# Part of a stamp's fingerprint: another program may judge otherwise.
PROBE = r'''
import argparse, importlib.metadata, importlib.util, json, os, sys

# Imports of SGLang print. The answer has a pipe of its own, the one that stdout was.
answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
found = {"outcome": "broken", "release": None, "message": "", "abbreviations": []}


def say(outcome, message=""):
    found.update(outcome=outcome, message=message)
    answer.write(json.dumps(found))
    answer.flush()
    sys.stderr.flush()
    os._exit(0)


def text_of(problem):
    return ": ".join(filter(None, (type(problem).__name__, str(problem))))


argv = json.loads(sys.stdin.buffer.read().decode("utf-8"))["argv"]
try:
    found["release"] = importlib.metadata.version("sglang")
    from sglang.srt import server_args

    # Plugins may add choices; launch_server loads them first, in the releases that have them (0.5.11 on).
    if importlib.util.find_spec("sglang.srt.plugins") is not None:
        from sglang.srt.plugins import load_plugins

        load_plugins()
except BaseException as problem:
    say("broken", text_of(problem))

parse_known_args = argparse.ArgumentParser.parse_known_args


def noting(parser, args=None, namespace=None):
    """Parse, and note which words were taken as the beginning of an option's name."""
    result = parse_known_args(parser, args, namespace)
    known = parser._option_string_actions
    for word in args or ():
        flag = word.partition("=")[0]
        if flag.startswith("--") and flag not in known:
            meant = [name for name in known if name.startswith(flag)]
            if flag != "--" and meant:
                found["abbreviations"].append({"given": flag, "meant": meant[0]})
    return result


def refuse(parser, message):
    say("refused", message)


def leave(parser, status=0, message=None):
    say("refused", (message or "").strip() or "it would print its help and leave with status %s" % status)


def parsed(cls, args):
    """Takes the place of from_cli_args: beyond it settings are resolved, which opens devices up to 0.5.19 or so."""
    if hasattr(cls, "resolve_once"):
        # A release that resolves later: the record only checks types.
        make(args)
    say("accepted")


argparse.ArgumentParser.parse_known_args = noting
argparse.ArgumentParser.error = refuse
argparse.ArgumentParser.exit = leave
make = server_args.ServerArgs.from_cli_args
server_args.ServerArgs.from_cli_args = classmethod(parsed)
try:
    server_args.prepare_server_args(argv)
except SystemExit as problem:
    say("refused", "it leaves with status %s" % problem.code)
except BaseException as problem:
    say("refused", text_of(problem))
say("broken", "prepare_server_args came back without having read the arguments")
'''

OUTCOMES = ("accepted", "refused", "broken", "timeout", "absent")
STAMP_FORMAT = 1
HIDDEN = "(hidden)"
OUTPUT_LINES = 20

# Words that make the name of an option, a variable or a JSON key the name of a secret, anywhere or at the end of it.
# "tokens", "tokenizer", "token-map" and "time-to-first-token" are none.
_SECRET_WORDS = frozenset(
    ("apikey", "auth", "authorization", "bearer", "credential", "credentials", "passphrase", "passwd", "password")
).union(("secret", "secrets"))
_SECRET_ENDS = frozenset(("key", "token"))
_COUNTED = frozenset(("first", "per"))
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_USERINFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")
# A shorter text is as likely a part of an ordinary word as a secret, and hiding it would make messages unreadable.
_SHORTEST_SECRET = 4


def is_secret_name(name):
    """Tell whether a name says that what it names is a secret: api-key, HF_TOKEN, secretAccessKey."""
    words = [word.lower() for word in _WORD.findall(str(name))]
    if not words:
        return False
    ends = words[-1] in _SECRET_ENDS and _COUNTED.isdisjoint(words[-2:-1])
    return ends or not _SECRET_WORDS.isdisjoint(words)


def _secrets_in_json(value, secret=False):
    """Yield the texts and numbers below secret keys of a JSON value."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _secrets_in_json(item, secret or is_secret_name(key))
    elif isinstance(value, list):
        for item in value:
            yield from _secrets_in_json(item, secret)
    elif secret and value is not None and not isinstance(value, bool):
        yield str(value)


def secrets_of(argv, environment=None):
    """Return the secret values of a command line and an environment, longest first.

    Secret are values of options and variables with a secret name, values below secret keys of JSON, and user
    and password of a URL.
    """
    found = set()
    secret = False
    for word in argv:
        flag, equals, joined = word.partition("=")
        is_flag = word.startswith("--") and " " not in flag
        value = joined if is_flag and equals else word
        if is_flag:
            secret = is_secret_name(flag)
        if secret and (equals or not is_flag):
            found.add(value)
        found.update(_USERINFO.findall(value))
        if value[:1] in ("{", "["):
            try:
                found.update(_secrets_in_json(json.loads(value)))
            except ValueError:
                # Nobody knows what is in it, and SGLang would quote it.
                found.add(value)
    for name, value in (environment or {}).items():
        if is_secret_name(name):
            found.add(str(value))
        found.update(_USERINFO.findall(str(value)))
    return sorted((value for value in found if len(value) >= _SHORTEST_SECRET), key=lambda value: (-len(value), value))


def masked(text, secrets):
    """Return a text without the secrets, as they are, as JSON writes them, and as Python's repr() does."""
    for secret in secrets:
        for form in (secret, json.dumps(secret)[1:-1], repr(secret)[1:-1]):
            text = text.replace(form, HIDDEN)
    return text


def environment_for(folder, environment):
    """Return the environment of the probe: the service's own, with everything that is written kept in a folder.

    Nothing is fetched and no GPU is seen, whatever the service's environment says.
    """
    found = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
    found.update((str(name), str(value)) for name, value in environment.items() if value is not None)
    found.update(
        HOME=folder,
        TMPDIR=folder,
        XDG_CACHE_HOME=folder,
        CUDA_VISIBLE_DEVICES="",
        HF_HUB_OFFLINE="1",
        TRANSFORMERS_OFFLINE="1",
        PYTHONDONTWRITEBYTECODE="1",
        PYTHONUNBUFFERED="1",
    )
    return found


def files_named_in(argv):
    """Return the paths of files whose content is a part of the command line: --config FILE and @FILE."""
    found = [after for word, after in zip(argv, argv[1:]) if word == "--config"]
    return found + [word[1:] for word in argv if word.startswith("@")]


def state_of(paths):
    """Return path, size and modification time (ns) of each file that is there."""
    found = []
    for path in sorted(paths):
        try:
            status = os.stat(path)
        except OSError:
            continue
        found.append([path, status.st_size, status.st_mtime_ns])
    return found


def fingerprint(asked, records):
    """Return a digest of everything that the answer depends on.

    asked: the module's arguments that matter; records: state_of() the package's own list of files, which changes
    with every installation.
    """
    text = json.dumps([PROBE, asked, records], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def last_lines(text, count=OUTPUT_LINES):
    """Return the last lines of a text that say something."""
    return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]


def read_answer(stdout, stderr, status, secrets):
    """Return outcome, release, message, abbreviations and output from what the probe printed.

    status: as subprocess tells it, None when the time was up.
    """
    output = [masked(line, secrets) for line in last_lines(stderr)]
    nothing = {"release": None, "abbreviations": [], "output": output}
    if status is None:
        return dict(nothing, outcome="timeout", message="")
    try:
        answer = json.loads(stdout)
        if answer["outcome"] not in OUTCOMES:
            raise ValueError(answer["outcome"])
    except (ValueError, KeyError, TypeError):
        end = f"signal {-status}" if status < 0 else f"status {status}"
        said = f": {output[-1]}" if output else ""
        return dict(nothing, outcome="broken", message=f"its interpreter ended with {end}{said}")
    return {
        "outcome": answer["outcome"],
        "release": answer.get("release"),
        "message": masked(" ".join(str(answer.get("message") or "").split()), secrets),
        "abbreviations": answer.get("abbreviations") or [],
        "output": output,
    }


def sentence(answer, python, timeout):
    """Say in one sentence what the answer means, and what to do where the arguments were not taken."""
    outcome, release = answer["outcome"], answer["release"]
    name = f"SGLang {release}" if release else "SGLang"
    if outcome == "accepted":
        return f"{name} takes these arguments."
    if outcome == "refused":
        return f"{name} refuses these arguments: {answer['message'].rstrip('.')}."
    if outcome == "absent":
        return f"python is {python}: the host has no such program; install the release first, or name its interpreter."
    if outcome == "timeout":
        return (
            f"timeout is {timeout}: {python} did not read the arguments within that many seconds; "
            "look at the load of the host, or allow more."
        )
    return f"python is {python}: {name} behind it cannot be asked ({answer['message']}); install the release anew."
