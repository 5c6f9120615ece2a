# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files over HTTP that arrive whole or not at all.

A file grows as ``NAME.part``. A connection that breaks is taken up where it broke, in this run or in the next one. The
sums are computed from what arrives, so that nothing is read a second time, and only a file with the right sum gets its
name.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import json
import os
import random
import re
import threading
import urllib.error
import urllib.parse
import urllib.request

CHUNK = 1 << 20
PIECE = 1 << 18
PART = ".part"
# Answers that another try may change. All others of 400 and above will stay what they are.
TRANSIENT = (408, 425, 429, 500, 502, 503, 504)
LONGEST_PAUSE = 300
FULL = (errno.ENOSPC, errno.EDQUOT)


class TransferError(Exception):
    """What could not be fetched; the message says what, from where, and what stood in the way."""


class FullDiskError(TransferError):
    """The file system is full."""


class _Broken(Exception):
    """A try that another one may mend. ``pause``: seconds that the server asked to wait."""

    def __init__(self, what, pause=None):
        super().__init__(what)
        self.pause = pause


class _SameHostToken(urllib.request.HTTPRedirectHandler):
    """Follows redirects, and takes the token to no other host."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        if new is not None and urllib.parse.urlsplit(newurl).netloc != urllib.parse.urlsplit(req.full_url).netloc:
            new.headers.pop("Authorization", None)
        return new


class Client:
    """How files are asked for.

    ``token``: bearer token or empty. ``proxied``: whether proxies of the environment are used. ``timeout``: seconds
    without a byte after which a connection counts as broken. ``retries``: tries that may fail one after the other
    without a byte gained. ``delay``: seconds before the second of them; it doubles. ``stop``: an event that ends all
    waiting.
    """

    def __init__(self, token="", proxied=True, timeout=60, retries=5, delay=1.0, sleep=None, log=None):
        handlers = [_SameHostToken()] + ([] if proxied else [urllib.request.ProxyHandler({})])
        self._opener = urllib.request.build_opener(*handlers)
        self._headers = {"User-Agent": "llmfleet.sglang", "Accept-Encoding": "identity"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self.timeout, self.retries, self.delay = timeout, retries, delay
        self.stop = threading.Event()
        self._sleep, self._log = sleep or self.stop.wait, log or (lambda _text: None)

    def open(self, url, headers=None, method="GET"):
        """Opens an address. Raises _Broken or TransferError."""
        request = urllib.request.Request(url, headers={**self._headers, **(headers or {})}, method=method)
        try:
            return self._opener.open(request, timeout=self.timeout)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416:
                raise
            told = f"{url} answers {error.code} {error.reason}"
            message = error.headers.get("X-Error-Message") if error.headers else None
            told += f" ({message})" if message else ""
            if error.code in TRANSIENT:
                raise _Broken(told, retry_after(error.headers)) from None
            if error.code in (401, 403):
                told += ": it asks for a token, or for one with more rights"
            raise TransferError(told) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise _Broken(f"{url} cannot be reached: {_cause(reason)}") from None

    def patiently(self, what, attempt):
        """Calls ``attempt()`` until it succeeds; only failures in a row without progress count.

        ``attempt`` raises _Broken for what another try may mend; its attribute ``gained`` tells of progress.
        """
        failures, told = 0, ""
        while True:
            try:
                return attempt()
            except _Broken as broken:
                failures = 1 if getattr(broken, "gained", 0) else failures + 1
                told, asked = str(broken), broken.pause
            if failures > self.retries:
                raise TransferError(f"{what} failed {failures} times in a row, at last: {told}") from None
            pause = min(LONGEST_PAUSE, self.delay * 2 ** (failures - 1)) * random.uniform(0.8, 1.2)
            pause = min(LONGEST_PAUSE, asked) if asked is not None else pause
            self._log(f"{told}; next try in {pause:.0f} s")
            self._sleep(pause)
            if self.stop.is_set():
                raise TransferError("another file failed")

    def get(self, url, limit=64 << 20):
        """Body and headers of a small answer."""

        def attempt():
            try:
                with self.open(url) as answer:
                    body = answer.read(limit + 1)
                    if len(body) > limit:
                        raise TransferError(f"{url} answers with more than {limit} bytes")
                    return body, answer.headers
            except (OSError, http.client.HTTPException) as error:
                raise _Broken(f"{url} broke off: {_cause(error)}") from None

        return self.patiently(url, attempt)

    def size_of(self, url):
        """Content-Length of a file."""

        def attempt():
            with self.open(url, method="HEAD") as answer:
                length = answer.headers.get("Content-Length") or ""
                if not length.isdigit():
                    raise TransferError(f"{url} does not tell the size of the file")
                return int(length)

        return self.patiently(url, attempt)

    def hub_tree(self, endpoint, repo, revision):
        """All entries of the hub's list of files, over as many pages as it has."""
        name = urllib.parse.quote(revision or "main", safe="")
        url = f"{endpoint}/api/models/{repo}/tree/{name}?recursive=true"
        entries = []
        while url:
            body, headers = self.get(url)
            try:
                page = json.loads(body.decode("utf-8"))
            except ValueError:
                raise TransferError(f"{url} answers with something that is no JSON") from None
            if not isinstance(page, list):
                raise TransferError(f"{url} answers with something that is no list of files")
            entries += page
            following = re.search(r'<([^>]+)>\s*;\s*rel="?next"?', headers.get("Link") or "")
            url = urllib.parse.urljoin(url, following.group(1)) if following else None
        return entries

    def fetch(self, url, path, expected, add=None):
        """Fetches one file to ``path``; returns its sha256.

        ``expected``: its entry of a manifest. ``add`` is called with the numbers of bytes that arrive. Raises
        FullDiskError or TransferError.
        """
        name = os.path.basename(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        for attempt in (1, 2):
            part = _Part(path + PART, expected, add or (lambda _count: None))
            try:
                with part:
                    self.patiently(name, lambda part=part: self._continue(url, part))
                    wrong = part.wrong()
                    if not wrong:
                        os.replace(part.path, path)
                        return part.sha256.hexdigest()
            except OSError as error:
                raise disk_error(error, path) from None
            part.forget()
            if attempt == 2:
                raise TransferError(
                    f"{url} was fetched whole twice, and {wrong}: what the server has is not what the sum was made of"
                )
            self._log(f"{name} arrived damaged ({wrong}); it is fetched once more")
        raise AssertionError("not reached")

    def _continue(self, url, part):
        """Fetches what a part still lacks."""
        size = part.expected.get("size")
        if size is not None and part.length == size:
            return
        gained = part.length
        try:
            headers = {"Range": f"bytes={part.length}-"} if part.length else {}
            try:
                answer = self.open(url, headers)
            except urllib.error.HTTPError:
                part.restart()
                raise _Broken(f"{url} has nothing from byte {gained} on") from None
            with answer:
                self._receive(url, part, answer, size)
        except _Broken as broken:
            broken.gained = max(0, part.length - gained)
            raise

    def _receive(self, url, part, answer, size):
        if part.length and answer.status != 206:
            part.restart()
        if answer.status == 206:
            place = re.match(r"bytes (\d+)-\d+/(\d+|\*)$", answer.headers.get("Content-Range") or "")
            if not place or int(place.group(1)) != part.length:
                part.restart()
                raise _Broken(f"{url} answers with another part than the one that was asked for")
            whole = int(place.group(2)) if place.group(2) != "*" else None
        else:
            length = answer.headers.get("Content-Length") or ""
            whole = int(length) if length.isdigit() else None
        if size is not None and whole is not None and whole != size:
            part.restart()
            raise _Broken(f"{url} has {whole} bytes, expected are {size}")
        while True:
            try:
                # What one call of the socket gives: bytes that have arrived are not lost with the connection.
                data = answer.read1(PIECE)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise _Broken(f"{url} broke off after {part.length} bytes: {_cause(error)}") from None
            if not data:
                break
            if size is not None and part.length + len(data) > size:
                part.restart()
                raise _Broken(f"{url} sends more than the {size} bytes that are expected")
            part.append(data)
        wanted = size if size is not None else whole
        if wanted is not None and part.length < wanted:
            raise _Broken(f"{url} broke off after {part.length} of {wanted} bytes")


class _Part:
    """A file on its way, with the sums of what has arrived."""

    def __init__(self, path, expected, add):
        self.path, self.expected, self.add = path, expected, add
        self.length = 0
        self.buffer = bytearray(CHUNK)
        self.stream = None
        self._reset()

    def _reset(self):
        self.sha256 = hashlib.sha256()
        size = self.expected.get("size")
        self.blob = None
        if self.expected.get("git") and size is not None:
            self.blob = hashlib.sha1(f"blob {size}\0".encode())

    def __enter__(self):
        self.stream = open(self.path, "r+b" if os.path.exists(self.path) else "w+b", buffering=0)
        size = self.expected.get("size")
        if size is not None and os.fstat(self.stream.fileno()).st_size > size:
            self.stream.truncate(0)
        while True:
            count = self.stream.readinto(self.buffer)
            if not count:
                break
            self._count(memoryview(self.buffer)[:count])
        return self

    def __exit__(self, *_error):
        self.stream.close()

    def _count(self, data):
        self.sha256.update(data)
        if self.blob is not None:
            self.blob.update(data)
        self.length += len(data)
        self.add(len(data))

    def append(self, data):
        """Writes what arrived. Raises OSError, which no other try mends."""
        written = self.stream.write(data)
        while written < len(data):
            written += self.stream.write(data[written:])
        self._count(data)

    def restart(self):
        """Forgets what has arrived."""
        self.stream.seek(0)
        self.stream.truncate(0)
        self.add(-self.length)
        self.length = 0
        self._reset()

    def forget(self):
        """Removes the part."""
        self.add(-self.length)
        os.unlink(self.path)

    def wrong(self):
        """What is wrong with the whole file; empty when nothing is."""
        wanted = self.expected.get("sha256")
        if wanted and self.sha256.hexdigest() != wanted:
            return f"its sha256 is {self.sha256.hexdigest()}, expected is {wanted}"
        if self.blob is not None and not wanted and self.blob.hexdigest() != self.expected["git"]:
            return f"its git blob id is {self.blob.hexdigest()}, expected is {self.expected['git']}"
        return ""


def retry_after(headers):
    """Seconds of a Retry-After header; None where there is none in seconds."""
    value = (headers.get("Retry-After") or "").strip() if headers else ""
    return int(value) if value.isdigit() else None


def disk_error(error, path):
    """The TransferError for an OSError of the disk, with the figures of a full one."""
    if error.errno not in FULL:
        return TransferError(f"{path} cannot be written: {error.strerror or error}")
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    status = os.statvfs(folder)
    free, size = status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize
    why = "the quota is used up" if error.errno == errno.EDQUOT else "the disk is full"
    return FullDiskError(
        f"{why} while {os.path.basename(path)} was written: the file system of {folder} has {size / 1e9:.3f} GB, "
        f"of which {free / 1e9:.3f} GB are free"
    )


def url_of(base, name):
    """Address of a file below a folder."""
    return f"{base.rstrip('/')}/{urllib.parse.quote(name)}"


def _cause(error):
    if isinstance(error, TimeoutError):
        return "no byte came within the time limit"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection was closed early"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
