# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is decided when a release of an engine is installed: names, settings of the installer, what may be removed.

Pure functions; the module sglang_release acts on what they say.
"""

from __future__ import annotations

import re

# A release's folder: version, dash, twelve digits of a sum.
NAME = re.compile(r"[0-9][A-Za-z0-9.+]*-[0-9a-f]{12}")

# pip's settings and uv's for the same thing. Lists are divided by blanks in pip's; uv divides some by commas.
_UV_NAMES = {
    "PIP_INDEX_URL": ("UV_DEFAULT_INDEX", None),
    "PIP_EXTRA_INDEX_URL": ("UV_INDEX", " "),
    "PIP_FIND_LINKS": ("UV_FIND_LINKS", ","),
    "PIP_TRUSTED_HOST": ("UV_INSECURE_HOST", " "),
    "PIP_CERT": ("SSL_CERT_FILE", None),
    "PIP_DEFAULT_TIMEOUT": ("UV_HTTP_TIMEOUT", None),
    "PIP_TIMEOUT": ("UV_HTTP_TIMEOUT", None),
    "PIP_RETRIES": ("UV_HTTP_RETRIES", None),
}
# Settings that hold whatever the caller does not set itself.
_UV_DEFAULTS = {
    # The version that is asked for may stand on any of the indexes; in a lock its sum says which file is meant.
    "UV_INDEX_STRATEGY": "unsafe-best-match",
    # The authorities that the host trusts, a company's own included.
    "UV_SYSTEM_CERTS": "true",
    "UV_NO_PROGRESS": "1",
    "NO_COLOR": "1",
}
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s'\"]+@")
_NOISE = re.compile(r"(?:WARNING: |warning: |\[notice\]|Resolved \d+ |Prepared \d+ |Using (?:Python|CPython) )")


def uv_environment(environment):
    """Environment of uv from one in pip's words; what is in uv's own words already wins."""
    translated = dict(_UV_DEFAULTS)
    for name, value in environment.items():
        value = str(value)
        if name not in _UV_NAMES:
            continue
        uv_name, divider = _UV_NAMES[name]
        translated[uv_name] = divider.join(value.split()) if divider else value
    translated.update((name, str(value)) for name, value in environment.items())
    return translated


def uv_arguments(environment):
    """Arguments of ``uv pip`` for what it reads from no environment."""
    told = str(environment.get("UV_NO_INDEX", environment.get("PIP_NO_INDEX", ""))).lower()
    return ["--no-index"] if told not in ("", "0", "false", "no", "off") else []


def secret_settings(environment):
    """Names of the settings whose addresses carry credentials."""
    return sorted(name for name, value in environment.items() if _CREDENTIALS.search(str(value)))


def redact(text):
    """The text without the credentials of any address in it."""
    return _CREDENTIALS.sub("", text)


def last_words(text, count=8):
    """What a failed command said at its end, on one line, without warnings and credentials."""
    lines = [line.strip() for line in redact(text).splitlines()]
    lines = [line for line in lines if line and not _NOISE.match(line)]
    return " | ".join(lines[-count:]) or "it said nothing"


def half_releases(names, complete):
    """Folders that an interrupted installation left: named like a release, and not complete."""
    return sorted(name for name in names if NAME.fullmatch(name) and name not in complete)


def surplus_releases(complete, name, kept):
    """Complete releases beyond the ``kept`` newest, newest first; ``name`` is the first that is kept.

    ``complete`` maps names to the time of completion.
    """
    others = sorted((other for other in complete if other != name), key=lambda other: (-complete[other], other))
    return others[max(kept - 1, 0) :]


def python_problem(version, minimum, below):
    """Why an interpreter of this version does not fit; empty when it does. ``version`` is empty where none runs."""
    if not version:
        return "does not run here"
    if _numbers(version) < _numbers(minimum):
        return f"is Python {version}, and Python {minimum} or newer is needed"
    if below and _numbers(version) >= _numbers(below):
        return f"is Python {version}, and a Python older than {below} is needed"
    return ""


def _numbers(version):
    return [int(part) for part in re.findall(r"\d+", version)]


# Runs under the release's interpreter, with the wanted version as its argument: one start, and one import of what takes
# seconds. With another version there is no use in the help.
CHECK = """
import importlib.metadata, runpy, sys
import sglang
version = importlib.metadata.version("sglang")
print("llmfleet-release", "%d.%d.%d" % sys.version_info[:3], version, flush=True)
if version == sys.argv[1]:
    sys.argv[:] = ["sglang.launch_server", "--help"]
    runpy.run_module("sglang.launch_server", run_name="__main__", alter_sys=True)
"""


def checked_versions(output):
    """Versions of Python and of SGLang that ``CHECK`` printed; empty ones where it did not come so far."""
    found = re.search(r"^llmfleet-release (\S+) (\S+)$", output, re.MULTILINE)
    return found.groups() if found else ("", "")


def version_problem(installed, wanted):
    """Why what was imported is not the release that was asked for; empty when it is."""
    if installed == wanted:
        return ""
    return (
        f"version is '{wanted}', but the requirements installed '{installed}'. Make both name the same version, with "
        f'its local part where it has one: "sglang==={wanted}" takes exactly this one'
    )
