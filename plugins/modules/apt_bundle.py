#!/usr/bin/python
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: apt_bundle
short_description: Fetch packages with all their dependencies for another host
version_added: 0.1.0
description:
  - Has apt resolve packages for a host that has nothing, in a private root, whatever this machine has installed and
    whatever its distribution is, and fetches them into two folders that C(file:) sources can name.
  - What comes from O(repository_url) keeps the signed index of that repository, so that the host checks its signature
    as it would online. All other packages get an index of their own, without a signature.
  - Does nothing where the same was fetched before. Needs apt-get, apt-config and dpkg-deb.
author:
  - llmfleet contributors (@llmfleet)
options:
  dest:
    description: Folder for the packages of the distribution, with their index.
    type: path
    required: true
  packages:
    description: Packages, as apt-get install takes them.
    type: list
    elements: str
    required: true
  sources:
    description: Sources of the distribution, lines of a sources.list.
    type: list
    elements: str
    required: true
  keyrings:
    description: Files with the keys of the sources.
    type: list
    elements: path
    default: []
  preferences:
    description: Text of apt's preferences, for pins.
    type: str
    default: ""
  repository_url:
    description: Address of a flat repository whose packages and signed index are kept together. Empty knows none.
    type: str
    default: ""
  repository_key:
    description: File with the key of that repository.
    type: path
  repository_dest:
    description: Folder for that repository.
    type: path
  architecture:
    description: Architecture of the host.
    type: str
    default: amd64
attributes:
  check_mode:
    support: full
    description: Tells whether anything would be fetched.
  diff_mode:
    support: none
    description: Packages are not shown as a difference.
"""

EXAMPLES = r"""
- name: Fetch a compiler for Debian 12
  llmfleet.sglang.apt_bundle:
    dest: /srv/bundle/debian12/apt
    packages: [g++]
    sources: ["deb http://deb.debian.org/debian bookworm main"]
    keyrings: [/usr/share/keyrings/debian-archive-keyring.gpg]
"""

RETURN = r"""
packages:
  description: How many packages lie in O(dest) and O(repository_dest).
  type: int
  returned: always
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

from ..module_utils import apt_closure

STAMP = ".complete"
INDEXES = ("InRelease", "Release", "Release.gpg", "Packages", "Packages.gz")


def definition(params):
    """Sum of all that decides what is fetched."""
    told = {name: value for name, value in params.items() if not name.endswith("dest")}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def read(path):
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except OSError:
        return ""


def write(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb" if isinstance(content, bytes) else "w") as stream:
        stream.write(content)


class Apt:
    """apt in a root of its own."""

    def __init__(self, module, root):
        self.module = module
        self.root = root
        params = module.params
        for folder in (
            "etc/apt/sources.list.d",
            "etc/apt/preferences.d",
            "etc/apt/apt.conf.d",
            "var/lib/apt/lists/partial",
        ):
            os.makedirs(os.path.join(root, folder))
        os.makedirs(os.path.join(root, "var/cache/apt/archives/partial"))
        write(os.path.join(root, "var/lib/dpkg/status"), "")
        write(os.path.join(root, "etc/apt/preferences"), params["preferences"])
        keys = os.path.join(root, "etc/apt/trusted.gpg.d")
        os.makedirs(keys)
        for number, path in enumerate(params["keyrings"]):
            shutil.copyfile(path, os.path.join(keys, f"{number}{os.path.splitext(path)[1]}"))
        lines = list(params["sources"])
        if params["repository_url"]:
            key = os.path.join(root, "repository.asc")
            shutil.copyfile(params["repository_key"], key)
            lines.append(f"deb [signed-by={key}] {params['repository_url']} /")
        write(os.path.join(root, "etc/apt/sources.list"), "".join(f"{line}\n" for line in lines))
        self.environment = {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
        dump = self.run("apt-config", "dump")
        write(os.path.join(root, "apt.conf"), apt_closure.settings(root, params["architecture"], dump))
        self.environment["APT_CONFIG"] = os.path.join(root, "apt.conf")

    def run(self, *words):
        try:
            done = subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False)
        except OSError as error:
            self.module.fail_json(
                msg=f"{words[0]} cannot be run here: {error.strerror}. Make the bundle on a Debian or Ubuntu."
            )
        if done.returncode:
            told = (
                " | ".join(line for line in done.stderr.splitlines() if line.startswith(("E:", "W:", " ")))
                or done.stderr
            )
            self.module.fail_json(msg=f"{' '.join(words[:2])} failed: {told.strip()[-1500:]}")
        return done.stdout

    def fetch(self):
        """{path of a package here: its address}."""
        self.run("apt-get", "update", "-o", "APT::Update::Error-Mode=any")
        install = ["apt-get", "install", "--yes", "--no-install-recommends", "--download-only"]
        listed = apt_closure.fetched(self.run(*install, "--print-uris", *self.module.params["packages"]))
        self.run(*install, *self.module.params["packages"])
        archives = os.path.join(self.root, "var/cache/apt/archives")
        # apt reads packages of file: sources where they lie, and copies none.
        found = {}
        for name, uri in listed.items():
            path = os.path.join(archives, name.replace(":", "%3a"))
            found[path if os.path.exists(path) else uri.partition("file:")[2]] = uri
        return found

    def entry(self, path, name):
        """Entry of an index."""
        digest = hashlib.sha256()
        with open(path, "rb") as stream:
            for chunk in iter(lambda: stream.read(1 << 20), b""):
                digest.update(chunk)
        control = self.run("dpkg-deb", "--field", path)
        return apt_closure.index_entry(control, name, os.path.getsize(path), digest.hexdigest())


def fetch_indexes(module, folder):
    """The repository's own index with its signature; the host checks it as it would online."""
    base = module.params["repository_url"].rstrip("/")
    for name in INDEXES:
        try:
            write(os.path.join(folder, name), open_url(f"{base}/{name}", timeout=120).read())
        except OSError as error:
            # A repository has the one or the other of each pair.
            if name in ("InRelease", "Packages"):
                module.fail_json(msg=f"repository_url has no {name}: {base}/{name}: {error}")


def bundle(module):
    """Fetch everything into folders aside, and put these in place."""
    params = module.params
    parts = {params["dest"]: params["dest"] + ".part"}
    if params["repository_url"]:
        parts[params["repository_dest"]] = params["repository_dest"] + ".part"
    for part in parts.values():
        shutil.rmtree(part, ignore_errors=True)
        os.makedirs(part)
    with tempfile.TemporaryDirectory() as root:
        apt = Apt(module, root)
        entries = []
        for path, uri in sorted(apt.fetch().items()):
            own = apt_closure.below(uri, params["repository_url"])
            if own:
                target = os.path.join(parts[params["repository_dest"]], own)
                os.makedirs(os.path.dirname(target), exist_ok=True)
            else:
                target = os.path.join(parts[params["dest"]], os.path.basename(path))
                entries.append(apt.entry(path, os.path.basename(path)))
            shutil.copyfile(path, target)
        write(os.path.join(parts[params["dest"]], "Packages"), "\n".join(entries))
    if params["repository_url"]:
        fetch_indexes(module, parts[params["repository_dest"]])
        shutil.copyfile(params["repository_key"], os.path.join(parts[params["repository_dest"]], "key.asc"))
    for place, part in parts.items():
        shutil.rmtree(place, ignore_errors=True)
        os.rename(part, place)
    write(os.path.join(params["dest"], STAMP), definition(params))


def main():
    """The module."""
    module = AnsibleModule(
        argument_spec={
            "dest": {"type": "path", "required": True},
            "packages": {"type": "list", "elements": "str", "required": True},
            "sources": {"type": "list", "elements": "str", "required": True},
            "keyrings": {"type": "list", "elements": "path", "default": [], "no_log": False},
            "preferences": {"type": "str", "default": ""},
            "repository_url": {"type": "str", "default": ""},
            "repository_key": {"type": "path", "no_log": False},
            "repository_dest": {"type": "path"},
            "architecture": {"type": "str", "default": "amd64"},
        },
        supports_check_mode=True,
    )
    params = module.params
    if params["repository_url"] and not (params["repository_key"] and params["repository_dest"]):
        module.fail_json(msg="repository_url needs repository_key and repository_dest")
    changed = read(os.path.join(params["dest"], STAMP)) != definition(params)
    if changed and not module.check_mode:
        bundle(module)
    count = 0
    for folder in (params["dest"], params["repository_dest"]):
        for _path, _folders, names in os.walk(folder or ""):
            count += sum(name.endswith(".deb") for name in names)
    module.exit_json(changed=changed, packages=count)


if __name__ == "__main__":
    main()
