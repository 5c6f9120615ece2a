# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host keeps of the configurations of a service, so that any of them can be made the active one again.

Below ``CONFIG_DIR/NAME``: ``configs/ID`` with ``unit``, ``env`` and ``record.json``, which appear at once and do not
change, and ``state.json``, which says which of them is active, which were verified, and what is still to be done.

Standard library only, Python 3.9 and newer, no Ansible.
"""

from __future__ import annotations

import contextlib
import fcntl
import grp
import hashlib
import json
import os
import re
import shutil
import time

from . import unit_changes

UNIT_DIR = "/etc/systemd/system"
VERIFIED_KEPT = 20

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*-[0-9a-f]{8}\Z")


class StoreError(Exception):
    """What is wrong with the store or with what is asked of it, as a sentence."""


def is_service_name(name):
    """Tell whether a text can be the NAME of sglang-NAME.service and of a folder beside NAME.env."""
    return _NAME.match(name) is not None and not name.endswith((".env", ".json", ".service"))


def unit_name(name):
    """Return the name of the unit of a service."""
    return f"sglang-{name}.service"


def config_id(release_dir, unit, environment):
    """Return the name of a configuration: the release's folder, and a digest of unit and environment."""
    digest = hashlib.sha256()
    for text in (unit, environment):
        content = text.encode("utf-8", "surrogateescape")
        digest.update(b"%d\0" % len(content) + content)
    return f"{os.path.basename(release_dir.rstrip('/')) or 'release'}-{digest.hexdigest()[:8]}"


def utc(seconds=None):
    """Return a time, now by default, as ISO 8601 in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def empty_state():
    """Return the state of a service that was never made active from the store."""
    return {"active": None, "verified": [], "pending": None, "rollout": None}


def read_state(text):
    """Return the content of state.json, every key present. Raises ValueError for anything else than that."""
    content = json.loads(text)
    if not isinstance(content, dict) or not isinstance(content.get("verified", []), list):
        raise ValueError("it is not a state of a service")
    return {**empty_state(), **content}


def running_id(state, invocation):
    """Return the ID of the configuration that the start ``invocation`` has, as far as the state knows.

    That is the active one, unless this start is the one that was still to be replaced.
    """
    pending = state.get("pending")
    if pending and invocation and pending.get("invocation_id") == invocation:
        return pending.get("runs")
    return state.get("active")


def with_verified(state, entry):
    """Return a state with one more verified start, or None where its newest entry says the same already.

    Where they become too many, the oldest one goes of a configuration that was verified before as well: which of two
    configurations came first has to stay known, for the way back.
    """
    newest = state["verified"][-1] if state["verified"] else {}
    if all(newest.get(key) == entry[key] for key in ("id", "invocation_id")):
        return None
    kept = [*state["verified"], entry]
    while len(kept) > VERIFIED_KEPT:
        ids = [one.get("id") for one in kept]
        del kept[next((place for place in range(len(ids) - 1) if ids[place] in ids[:place]), 0)]
    return {**state, "verified": kept}


def last_verified(state, present):
    """Return the ID of the newest verified configuration that is not the active one and is still there, or None."""
    for entry in reversed(state["verified"]):
        if entry.get("id") != state["active"] and entry.get("id") in present:
            return entry["id"]
    return None


def superfluous(state, newest_first, kept):
    """Return the IDs that may be removed: neither in use, nor verified or made within the last ``kept``."""
    verified = list(dict.fromkeys(entry.get("id") for entry in reversed(state["verified"])))
    keep = {state["active"], (state["pending"] or {}).get("runs"), *verified[:kept], *newest_first[:kept]}
    named = json.dumps(state["rollout"])
    return [one for one in newest_first if one not in keep and one not in named]


def changes_of(state, invocation, configurations, target, need_reload):
    """Return (changes, reasons): what a running service would get by a configuration, and why it would restart for it.

    state: of the store; invocation: of the start that runs; configurations: dict of ``runs`` (what the store has for
    the start that runs; None where it knows nothing) and ``disk`` (what is there for systemd) to (unit, environment);
    target: (unit, environment) to come; need_reload: systemd has not read what is on disk.
    """
    pending = state["pending"] or {}
    unfinished = bool(pending) and pending.get("invocation_id") == invocation
    runs, disk = configurations["runs"], configurations["disk"]
    compared = []
    if runs is not None:
        compared.append(runs)
    # Another hand may have changed the copies, and the service may have been started with them. A run that broke off
    # has changed them too, but it noted what runs.
    if disk != runs and not (unfinished and runs is not None):
        compared.append((target[0] if need_reload and runs is not None else disk[0], disk[1]))
    changes = []
    for unit, environment in compared:
        for change in unit_changes.changes_between(unit, target[0], environment, target[1]):
            if change not in changes:
                changes.append(change)
    reasons = unit_changes.restart_reasons(changes)
    if runs is None and unfinished:
        reasons = [*reasons, *(one for one in pending.get("reasons") or [] if one not in reasons)]
    elif runs is None and need_reload:
        reasons.append("The unit's file was changed after systemd had read it, and nobody knows what runs.")
    return changes, reasons


class Store:
    """The files of one service on this host."""

    def __init__(self, config_dir, name, unit_dir=UNIT_DIR):
        self.name = name
        self.unit = unit_name(name)
        self.config_dir = config_dir
        self.folder = os.path.join(config_dir, name)
        self.configs = os.path.join(self.folder, "configs")
        self.state_file = os.path.join(self.folder, "state.json")
        self.active_unit = os.path.join(unit_dir, self.unit)
        self.active_environment = os.path.join(config_dir, f"{name}.env")

    @contextlib.contextmanager
    def locked(self):
        """Keep other runs of this module out. The service's folder is made where it is missing."""
        make_folder(self.folder)
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    # -- reading --------------------------------------------------------------------------------------------------

    def exists(self):
        return os.path.exists(self.state_file)

    def state(self):
        """Return the content of state.json; an empty state where there is none."""
        text = read(self.state_file)
        if text is None:
            return empty_state()
        try:
            return read_state(text)
        except ValueError as error:
            raise StoreError(
                f"{self.state_file} cannot be read: {error}. Move it away; the next deployment writes it anew."
            ) from error

    def ids(self):
        """Return the IDs of all configurations, the newest first."""
        try:
            found = [name for name in os.listdir(self.configs) if _ID.match(name)]
        except OSError:
            return []
        return sorted(found, key=lambda one: (-os.stat(self.path(one)).st_mtime, one))

    def path(self, one, *names):
        return os.path.join(self.configs, one, *names)

    def has(self, one):
        return bool(one) and _ID.match(one) is not None and os.path.isdir(self.path(one))

    def texts(self, one):
        """Return (unit, environment) of a configuration, empty where it is not there any more."""
        if not self.has(one):
            return "", ""
        return read(self.path(one, "unit")) or "", read(self.path(one, "env")) or ""

    def record(self, one):
        """Return the record of a configuration, or None."""
        text = read(self.path(one, "record.json")) if self.has(one) else None
        try:
            return json.loads(text) if text else None
        except ValueError as error:
            raise StoreError(
                f"{self.path(one, 'record.json')} cannot be read: {error}. Remove that folder, and deploy again."
            ) from error

    def active_texts(self):
        """Return (unit, environment) as systemd would read them now, empty where they are missing."""
        return read(self.active_unit) or "", read(self.active_environment) or ""

    # -- writing --------------------------------------------------------------------------------------------------

    def write_state(self, state):
        write(self.state_file, as_json(state), 0o644)

    def note_verified(self, one, invocation, summary):
        """Write down that the start ``invocation`` of a configuration was proved; returns whether that is new.

        Call it with the store locked.
        """
        if not self.exists() or not self.has(one):
            return False
        state = self.state()
        wanted = with_verified(state, {"id": one, "at": utc(), "invocation_id": invocation, "summary": summary})
        if wanted is None:
            return False
        if one == state["active"]:
            # The start that had the older configuration is gone, however it ended.
            wanted = {**wanted, "pending": None}
        self.write_state(wanted)
        return True

    def add(self, one, unit, environment, record, group):
        """Write a configuration. It appears complete or not at all; of one that is there only the record is new."""
        if self.has(one):
            write(self.path(one, "record.json"), as_json(record), 0o644)
            return
        partial = self.path(f".{one}.{os.getpid()}")
        for old in self._leftovers():
            shutil.rmtree(old, ignore_errors=True)
        make_folder(self.configs)
        make_folder(partial)
        write(os.path.join(partial, "unit"), unit, 0o644)
        write(os.path.join(partial, "env"), environment, 0o640, group)
        write(os.path.join(partial, "record.json"), as_json(record), 0o644)
        os.rename(partial, self.path(one))
        sync_folder(self.configs)

    def _leftovers(self):
        if not os.path.isdir(self.configs):
            return []
        return [os.path.join(self.configs, name) for name in os.listdir(self.configs) if name.startswith(".")]

    def make_active(self, one, group):
        """Copy a configuration to where systemd reads it; returns whether a copy was another one."""
        unit, environment = self.texts(one)
        written = write_if_other(self.active_environment, environment, 0o640, group)
        return write_if_other(self.active_unit, unit, 0o644) or written

    def remove(self, ids):
        for one in ids:
            shutil.rmtree(self.path(one), ignore_errors=True)


# -- files --------------------------------------------------------------------------------------------------------


def make_folder(path):
    """Have a folder that everybody may read, whatever the umask is."""
    if not os.path.isdir(path):
        os.makedirs(path, mode=0o755)
        os.chmod(path, 0o755)


def as_json(content):
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def read(path):
    """Return the text of a file, None where there is none."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as stream:
            return stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def group_id(name):
    """Return the number of a group. Raises StoreError where the host has none of that name."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise StoreError(
            f'group is "{name}": the host has no such group. Run role sglang before, or make the group.'
        ) from None


def write(path, text, mode, group=None):
    """Replace a file in one step. It never has wider rights than ``mode``, not even for a moment."""
    partial = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(partial)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
            stream.write(text)
            stream.flush()
            if group is not None:
                os.fchown(descriptor, -1, group_id(group))
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)
        raise
    sync_folder(os.path.dirname(path))


def write_if_other(path, text, mode, group=None):
    """Replace a file whose text, rights or group are others; returns whether that was so."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        status = None
    same = (
        status is not None
        and read(path) == text
        and status.st_mode & 0o7777 == mode
        and (group is None or status.st_gid == group_id(group))
    )
    if not same:
        write(path, text, mode, group)
    return not same


def sync_folder(path):
    """Have the names of a folder on disk, for a host that loses its power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
