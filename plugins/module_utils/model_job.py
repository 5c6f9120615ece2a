# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a source to a proved model folder, step by step: what is there, what is missing, fetch, prove, put in place."""

from __future__ import annotations

import os
import shutil
import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from . import disk_usage, model_hub, model_manifest, model_proof, model_staging, safetensors_index, stamp_file
from .model_lock import Lock, LockHeldError
from .model_transfer import FullDiskError, TransferError, disk_error, url_of


class JobError(Exception):
    """The folder could not be brought to what is asked for; the message says why and what stays."""


class Job:
    """One model folder and where its files come from.

    ``settings``: the options of the module model_fetch, with ``stamp`` filled in and ``stall`` for the hub's stall
    timeout. ``client``: a :class:`model_transfer.Client`. ``tell(what, done, total)`` hears of the progress,
    ``warn(text)`` of what was mended.
    """

    def __init__(self, settings, client, tell=None, warn=None):
        self.settings = settings
        self.client = client
        self.places = model_staging.Places(settings["path"], settings["repo"], settings["revision"])
        self.warn = warn or (lambda _text: None)
        self._tell = tell or (lambda _what, _done, _total: None)
        self._lock = None
        self.given = model_manifest.from_list(settings["files"]) if settings.get("files") else None

    # -- what is asked for ---------------------------------------------------------------------------------------

    def manifest(self):
        """The manifest of the source. Raises TransferError or ManifestError."""
        if self.given is not None:
            return self.given
        settings = self.settings
        if settings["source"] == "hub":
            entries = self.client.hub_tree(settings["url"], settings["repo"], settings["revision"])
            return model_manifest.from_hub_tree(entries)
        text = settings.get("checksums")
        if not text:
            text = self._list_of_mirror()
        manifest = model_manifest.from_sums(text)
        with ThreadPoolExecutor(max_workers=settings["workers"]) as pool:
            sizes = pool.map(lambda name: self.client.size_of(url_of(settings["url"], name)), manifest)
            for name, size in zip(list(manifest), sizes):
                manifest[name]["size"] = size
        return manifest

    def _list_of_mirror(self):
        url = url_of(self.settings["url"], model_manifest.SUMS_NAME)
        try:
            return self.client.get(url)[0].decode("utf-8", "replace")
        except TransferError as error:
            raise TransferError(
                f"{error}. A mirror needs a list of its files: run 'sha256sum * > {model_manifest.SUMS_NAME}' in its "
                "folder, or give the list with model_checksums_file"
            ) from None

    # -- what is there -------------------------------------------------------------------------------------------

    def _stamp_of_origin(self):
        stamp = model_proof.read_stamp(self.settings["stamp"])
        origin = (self.settings["repo"], self.settings["revision"])
        return stamp if stamp and (stamp.get("repo"), stamp.get("revision")) == origin else None

    def stamp(self):
        """The stamp, where it alone says that the folder is what the source has, or else None."""
        stamp = self._stamp_of_origin()
        if not stamp:
            return None
        if self.given is not None:
            sums = {name: wanted["sha256"] for name, wanted in self.given.items()}
            return stamp if {name: mark["sha256"] for name, mark in stamp["files"].items()} == sums else None
        # Without a revision nothing but the source's own list tells whether it is still the same.
        return stamp if self.settings["revision"] or self.settings["source"] == "hub" else None

    def is_done(self):
        """Whether the stamp says that nothing is to be done."""
        stamp = self.stamp()
        return bool(stamp) and not model_proof.changed_files(self.places.path, stamp["files"])

    def leftovers(self):
        """Folders of earlier runs that nothing needs once the model is complete."""
        places = [self.places.part] + ([] if self.settings["previous_keep"] else [self.places.previous])
        return [path for path in places if os.path.isdir(path)] + self.places.stale_parts()

    def preview(self):
        """What a run would do, without reading weights: ``{"action", "changed", "missing", "bytes"}``.

        Raises JobError, TransferError or ManifestError.
        """
        if self.is_done():
            return {"action": "none", "changed": bool(self.leftovers()), "missing": [], "bytes": 0}
        self._refuse_mount_point()
        manifest = self.manifest()
        stamp = model_proof.read_stamp(self.settings["stamp"])
        marks = stamp["files"] if stamp else {}
        missing = []
        for name, wanted in sorted(manifest.items()):
            there = self._size(name)
            mark = marks.get(name) or {}
            other = mark.get("sha256") and wanted.get("sha256") and mark["sha256"] != wanted["sha256"]
            if there is None or there != wanted["size"] or other:
                missing.append(name)
        self._refuse_small_disk(manifest, missing)
        proved = {name for name in marks if manifest.get(name, {}).get("sha256") == marks[name].get("sha256")}
        same = self._stamp_of_origin() and proved == set(manifest) == set(marks)
        if same and not model_proof.changed_files(self.places.path, marks):
            return {"action": "none", "changed": bool(self.leftovers()), "missing": [], "bytes": 0}
        size = sum(manifest[name]["size"] for name in missing)
        return {"action": "filled" if missing else "stamped", "changed": True, "missing": missing, "bytes": size}

    def _size(self, name, folder=None):
        try:
            return os.stat(os.path.join(folder or self.places.path, name)).st_size
        except OSError:
            return None

    def _refuse_mount_point(self):
        if model_staging.is_mount_point(self.places.path):
            raise JobError(
                f"{self.places.path} is a mount point, which no complete folder can take the place of. Give a folder "
                f"below it, for example {self.places.path}/model"
            )

    def _refuse_small_disk(self, manifest, missing):
        part = self.places.part
        here = sum(self._size(name, part) or self._size(name + ".part", part) or 0 for name in missing)
        here += disk_usage.occupied(os.path.join(part, ".cache"))
        need = sum(manifest[name]["size"] for name in missing) - here
        free = model_staging.free_bytes(self.places.parent)
        if need <= free:
            return
        old = sum(self._size(name) or 0 for name in model_staging.walk(self.places.path))
        told = (
            f" The folder {self.places.path} has {old / 1e9:.3f} GB and stays until its replacement is complete; files "
            "that are the same in both are counted once."
            if old
            else ""
        )
        others = self.places.other_parts()
        if others:
            size = sum(disk_usage.occupied(path) for path in others)
            told += (
                f" Downloads of other revisions that have not ended hold {size / 1e9:.3f} GB: remove "
                f"{', '.join(others)} if nobody wants them."
            )
        raise JobError(
            f"{len(missing)} files with {need / 1e9:.3f} GB are still to come, but the file system of "
            f"{self.places.parent} has {free / 1e9:.3f} GB free.{told} Free {(need - free) / 1e9:.3f} GB, or set "
            "model_dir to a larger disk"
        )

    # -- the run -------------------------------------------------------------------------------------------------

    def run(self):
        """Brings the folder to what is asked for. Returns a dictionary for the module's result; raises JobError."""
        full = self.settings["verify"] == "full"
        if not full and self.is_done():
            return self._tidy()
        self._refuse_mount_point()
        try:
            os.makedirs(self.places.parent, exist_ok=True)
            with Lock(self.places.lock) as self._lock:
                self._lock.take(self.settings["lock_wait"])
                if model_staging.heal(self.places):
                    self.warn(
                        f"An interrupted run left nothing at {self.places.path}: the revision before is back there."
                    )
                return self._fill(full)
        except LockHeldError as error:
            raise JobError(
                f"{self.places.path} is being written by {error}; it holds {self.places.lock}. Run again when it has "
                "ended, or let runs wait with model_lock_wait; the lock ends with its holder"
            ) from None
        except OSError as error:
            raise JobError(self._stays(str(disk_error(error, error.filename or self.places.part)))) from None
        except (TransferError, model_manifest.ManifestError) as error:
            raise JobError(self._stays(str(error))) from None

    def _stays(self, what):
        kept = disk_usage.occupied(self.places.part)
        more = f". What has arrived, {kept / 1e9:.3f} GB, stays in {self.places.part}, and the next run resumes it"
        return what + (more if kept else "")

    def _tidy(self):
        gone = self.leftovers()
        if gone:
            try:
                with Lock(self.places.lock) as lock:
                    lock.take()
                    for path in gone:
                        model_staging.remove(path)
            except (LockHeldError, OSError) as error:
                self.warn(f"{', '.join(gone)} could not be removed: {error}")
                gone = []
        return self._result("none", bool(gone), {}, removed=gone)

    def _progress(self, what, total):
        def tell(done, of):
            self._tell(what, done, of)
            if self._lock is not None:
                self._lock.note(done, of)

        return model_proof.Progress(total, tell)

    def _prove(self, folder, names, expected, marks, full=False):
        total = sum(self._size(name, folder) or 0 for name in names)
        progress = self._progress(f"reading {folder}", total)
        return model_proof.prove(folder, names, expected, marks, full, self.settings["threads"], progress.add)

    def _fill(self, full):
        stamp = self.stamp()
        if stamp:
            # The sums of the stamp are those of the source: only a damage needs the source again.
            expected = {
                name: model_manifest.entry(mark["size"], mark["sha256"]) for name, mark in stamp["files"].items()
            }
            there = [name for name in expected if self._size(name) is not None]
            proof = self._prove(self.places.path, there, expected, stamp["files"], full)
            if len(there) == len(expected) and not proof["damaged"]:
                return self._adopt(proof)
            marks = proof["marks"]
        else:
            old = model_proof.read_stamp(self.settings["stamp"])
            marks = old["files"] if old else {}
        manifest = self.manifest()
        there = [name for name in manifest if self._size(name) is not None]
        proof = self._prove(self.places.path, there, manifest, marks, full and not stamp)
        if len(there) == len(manifest) and not proof["damaged"]:
            return self._adopt(proof)
        for sentence in list(proof["damaged"].values())[:5]:
            self.warn(f"In {self.places.path}: {sentence}. It is fetched anew.")
        return self._replace(manifest, proof)

    def _adopt(self, proof):
        """The folder is what is asked for: it only gets its stamp."""
        found = self._check(self.places.path)
        stamp = self._stamp_of_origin()
        changed = not stamp or proof["marks"] != stamp["files"]
        if changed:
            self._write_stamp(self.settings["stamp"], proof["marks"], found["kind"])
        gone = [path for path in self.leftovers() if model_staging.remove(path)]
        return self._result(
            "stamped" if changed else "none", changed or bool(gone), proof["marks"], proof=proof, removed=gone
        )

    def _replace(self, manifest, proof):
        part = self.places.part
        os.makedirs(part, exist_ok=True)
        model_staging.clear(part, manifest)
        staged = [name for name in manifest if self._size(name, part) is not None]
        checked = self._prove(part, staged, manifest, model_staging.read_proved(part))
        for name in checked["damaged"]:
            os.unlink(os.path.join(part, name))
        marks = dict(checked["marks"])
        copied = []
        for name in sorted(set(proof["marks"]) - set(marks)):
            target = os.path.join(part, name)
            if not model_staging.link_or_copy(os.path.join(self.places.path, name), target):
                copied.append(name)
            marks[name] = model_proof.mark_of(target, proof["marks"][name]["sha256"])
        model_staging.write_proved(part, marks)
        missing = sorted(set(manifest) - set(marks))
        self._refuse_small_disk(manifest, missing)
        progress = self._progress(f"fetching to {part}", sum(manifest[name]["size"] for name in missing))
        if missing and self.settings["hub_command"]:
            self._fetch_with_hub_client(manifest, missing, marks, progress)
        self._fetch_plainly(manifest, sorted(set(manifest) - set(marks)), marks, progress)
        self._finish(marks)
        return self._result("filled", True, marks, proof=proof, fetched=missing, manifest=manifest)

    def _fetch_with_hub_client(self, manifest, missing, marks, progress):
        settings, part = self.settings, self.places.part
        argv = model_hub.command(
            settings["hub_command"], settings["repo"], settings["revision"], part, settings["workers"], missing
        )
        environment = {**os.environ, **settings["hub_environment"]}
        if settings["token"]:
            environment["HF_TOKEN"] = settings["token"]
        already = disk_usage.occupied(part)
        well, said = model_hub.run(
            argv, environment, part, settings["stall"], lambda now: progress.add(max(0, now - already) - progress.done)
        )
        there = [name for name in missing if self._size(name, part) is not None]
        proof = self._prove(part, there, manifest, {})
        for name in proof["damaged"]:
            os.unlink(os.path.join(part, name))
        marks.update(proof["marks"])
        model_staging.write_proved(part, marks)
        if "No space left" in said:
            raise disk_error(OSError(28, "No space left on device"), os.path.join(part, "a file of the hub"))
        shutil.rmtree(os.path.join(part, ".cache"), ignore_errors=True)
        left = len(set(missing) - set(marks))
        if left:
            what = "ended well, but files are missing or damaged" if well else f"failed: {said}"
            self.warn(f"The hub's own downloader {what}. The {left} files that are left are fetched over plain HTTP.")

    def _fetch_plainly(self, manifest, missing, marks, progress):
        if not missing:
            return
        settings, part = self.settings, self.places.part
        base = settings["url"]
        if settings["source"] == "hub" and self.given is None:
            base = f"{settings['url']}/{settings['repo']}/resolve/{settings['revision'] or 'main'}"
        stop, guard = threading.Event(), threading.Lock()

        def add(count):
            if stop.is_set():
                raise TransferError("another file failed")
            progress.add(count)

        def fetch(name):
            if stop.is_set():
                return
            path = os.path.join(part, name)
            sha256 = self.client.fetch(url_of(base, name), path, manifest[name], add)
            with guard:
                marks[name] = model_proof.mark_of(path, sha256)
                model_staging.write_proved(part, marks)

        with ThreadPoolExecutor(max_workers=settings["workers"]) as pool:
            futures = [pool.submit(fetch, name) for name in missing]
            done, _running = wait(futures, return_when=FIRST_EXCEPTION)
            errors = [future.exception() for future in done if future.exception()]
            if errors:
                stop.set()
                self.client.stop.set()
                for future in futures:
                    future.cancel()
                raise next((error for error in errors if isinstance(error, FullDiskError)), errors[0])

    def _check(self, folder):
        found = safetensors_index.check_folder(folder)
        if not found["complete"]:
            more = len(found["problems"]) - 5
            raise TransferError(
                "All files of the source are there, and they make no complete model: "
                f"{'; '.join(found['problems'][:5])}{f'; and {more} more' if more > 0 else ''}"
            )
        return found

    def _finish(self, marks):
        part, stamp = self.places.part, self.settings["stamp"]
        found = self._check(part)
        shutil.rmtree(os.path.join(part, ".cache"), ignore_errors=True)
        model_staging.open_to_all(part)
        stamp_file.sync_file_system(part)
        inside = os.path.relpath(os.path.realpath(stamp), self.places.path)
        within = not inside.startswith("..")
        if within:
            self._write_stamp(os.path.join(part, inside), marks, found["kind"])
        os.unlink(os.path.join(part, model_staging.PROVED))
        model_staging.put_in_place(self.places)
        if not within:
            self._write_stamp(stamp, marks, found["kind"])
        if not self.settings["previous_keep"]:
            model_staging.remove(self.places.previous)
        for path in self.places.stale_parts():
            model_staging.remove(path)

    def _write_stamp(self, path, marks, kind):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        model_proof.write_stamp(path, marks, kind, self.settings["repo"], self.settings["revision"])

    def _result(self, action, changed, marks, proof=None, fetched=(), manifest=None, removed=()):
        return {
            "changed": changed,
            "action": action,
            "fetched": list(fetched),
            "repaired": sorted((proof or {}).get("damaged", {})),
            "kept": sorted(set(marks) - set(fetched)),
            "bytes_fetched": sum(manifest[name]["size"] for name in fetched) if manifest else 0,
            "removed": list(removed),
        }
