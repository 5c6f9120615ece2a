#!/usr/bin/python
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_release
short_description: Install a release of SGLang beside the others
version_added: 0.1.0
description:
  - Builds one release of SGLang in a folder of its own, from a lock with hashes or from lists of requirements, checks
    it, and only then stamps it as complete, points a link at it, and removes old releases that nothing uses.
  - Files come from uv's cache as hard links, so that a second release takes the room of what differs.
  - Holds a lock meanwhile. A second run waits for the first, and finds its work done.
  - Whatever fails, or ends this module by a signal that can be caught, removes the half release. What a power cut or a
    SIGKILL leaves has no stamp, and the next run removes it, whatever its name. Programs that this module started end
    with it.
  - Credentials in addresses reach the installer by its environment only, and are taken out of all it says.
author:
  - llmfleet contributors (@llmfleet)
options:
  name:
    description: Name of the release's folder, a version, a dash, and twelve digits of a sum.
    type: str
    required: true
  releases_dir:
    description: Folder of all releases.
    type: path
    required: true
  version:
    description: Version that the package C(sglang) must have when it is installed.
    type: str
    required: true
  build:
    description:
      - Whether a release that is not complete is built. With V(false) it is only looked at. A complete one gets its
        link, and old ones are removed, in both cases.
    type: bool
    default: true
  python:
    description: Interpreter that the release is made from, a command or a path.
    type: str
    default: python3
  python_minimum:
    description: Oldest version of Python that fits.
    type: str
    default: "3.11"
  python_below:
    description: First version of Python that does not fit any more. Empty sets no bound.
    type: str
    default: ""
  managed_python:
    description:
      - Version of Python that uv fetches when O(python) does not fit. Empty fetches none.
      - E(UV_PYTHON_INSTALL_MIRROR) in O(environment) names another place to fetch it from.
    type: str
    default: ""
  managed_python_dir:
    description: Folder of the interpreters that uv fetched.
    type: path
    default: /opt/sglang/python
  lock:
    description:
      - File on the host with every package as C(name==version) and the hashes of its files. Nothing else is installed.
      - Moved into the release's folder.
    type: path
  requirements:
    description: Requirements that are installed with their dependencies, where there is no O(lock).
    type: list
    elements: str
    default: []
  requirements_no_deps:
    description: Requirements that are installed after O(requirements), without their dependencies.
    type: list
    elements: str
    default: []
  constraints:
    description: Pins for whatever the two lists bring.
    type: list
    elements: str
    default: []
  extra_args:
    description: Further arguments of C(uv pip).
    type: list
    elements: str
    default: []
  bytecode:
    description: Whether the modules are compiled, which the service's account, being no owner, cannot do later.
    type: bool
    default: true
  environment:
    description:
      - Environment of uv and pip. Settings in pip's words, such as E(PIP_INDEX_URL), are given to uv in its own.
    type: dict
    default: {}
  secret_environment:
    description: The same for settings that carry credentials.
    type: dict
    default: {}
  uv:
    description:
      - The uv of the host, a command or a path. Empty has O(uv_requirement) installed.
    type: str
    default: ""
  uv_requirement:
    description: The one uv that is installed where O(uv) is empty, as lines of a lock.
    type: str
    default: ""
  tools_dir:
    description: Folder that uv is installed in, in a folder named after the sum of O(uv_requirement).
    type: path
    default: /opt/sglang/tools
  cache_dir:
    description: Cache of uv. On the file system of O(releases_dir), so that releases share files.
    type: path
    default: /opt/sglang/cache/uv
  timeout:
    description: Longest time in seconds that one step of the installation may take.
    type: int
    default: 5400
  lock_timeout:
    description: Longest time in seconds to wait for another run that installs on this host.
    type: int
    default: 5400
  link:
    description: Link that points at the release that was installed last. Empty makes none.
    type: str
    default: ""
  kept:
    description: How many complete releases stay, this one included. V(0) removes none.
    type: int
    default: 0
  reference_paths:
    description: Folders and files in which the path of an old release means that it is in use.
    type: list
    elements: path
    default: []
  service_cache_dir:
    description:
      - Folder in which each service has a folder, and in it one for each release, with what was compiled at run time.
        The caches of a release are removed with it.
    type: path
attributes:
  check_mode:
    support: full
    description: Looks at the same things, and tells whether it would change any.
  diff_mode:
    support: none
    description: What is installed is not shown as a difference.
"""

EXAMPLES = r"""
- name: Install a release from a lock
  llmfleet.sglang.sglang_release:
    name: 0.5.23-0123456789ab
    version: 0.5.23
    releases_dir: /opt/sglang/releases
    lock: /opt/sglang/releases/.0.5.23-0123456789ab.lock
    uv: /usr/local/bin/uv
    link: /opt/sglang/current
"""

RETURN = r"""
complete:
  description: Whether the release is complete after this run.
  type: bool
  returned: always
release_dir:
  description: Folder of the release.
  type: str
  returned: always
interpreter:
  description: Version of O(python), empty where it does not run, and why it does not fit, empty where it does.
  type: dict
  returned: when the release was not complete before
  sample: {version: 3.12.3, problem: ""}
libc:
  description: Name and version of the C library.
  type: list
  elements: str
  returned: always
removed:
  description: Names of the releases that were removed, half ones included.
  type: list
  elements: str
  returned: always
seconds:
  description: Seconds that each step took.
  type: dict
  returned: when a release was built
phase:
  description: The step that failed.
  type: str
  returned: on failure
"""

import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import bound_process, engine_release, stamp_file

PROBE = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
STAMP = "complete.json"


class Failure(Exception):
    """A step failed; the message says why."""


class Interrupted(BaseException):
    """A signal asked for the end."""


def read_stamp(path):
    """Content of a release's stamp; None without one."""
    return stamp_file.read_stamp(os.path.join(path, STAMP))


def write_file(path, text):
    """Write a file that everybody may read, in one step."""
    partial = f"{path}.part"
    with open(partial, "w", encoding="utf-8") as stream:
        os.fchmod(stream.fileno(), 0o644)
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(partial, path)


def make_folder(path, mode=0o755):
    """Make a folder and those above it, whatever the umask is."""
    if not os.path.isdir(path):
        make_folder(os.path.dirname(path))
        os.mkdir(path)
        os.chmod(path, mode)


def file_names(path, needle):
    """Whether a file, or any file below a folder, has these bytes."""
    if os.path.isdir(path):
        found = (os.path.join(folder, name) for folder, _subfolders, names in os.walk(path) for name in names)
    else:
        found = [path]
    for entry in found:
        with contextlib.suppress(OSError), open(entry, "rb") as stream:
            if os.path.isfile(entry) and needle in stream.read():
                return True
    return False


def process_names(needle):
    """Whether a process runs from a path: its arguments, its environment, its program, or what it has loaded."""
    own = str(os.getpid())
    for pid in os.listdir("/proc"):
        if not pid.isdigit() or pid == own:
            continue
        for part in ("cmdline", "environ", "maps"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/{part}", "rb") as stream:
                if needle in stream.read():
                    return True
        for part in ("exe", "cwd"):
            with contextlib.suppress(OSError):
                if needle in os.readlink(f"/proc/{pid}/{part}").encode() + b"/":
                    return True
    return False


class Release:
    """One release of the host."""

    def __init__(self, module):
        self.module = module
        self.params = module.params
        self.root = self.params["releases_dir"]
        self.name = self.params["name"]
        self.path = os.path.join(self.root, self.name)
        self.python = os.path.join(self.path, "venv", "bin", "python")
        self.settings = {**self.params["environment"], **self.params["secret_environment"]}
        self.lock_stream = None
        self.seconds = {}
        self.phase = "look"

    # -- looking ------------------------------------------------------------------------------

    def complete(self):
        """A release with its stamp whose interpreter is still there: a distribution may have removed it."""
        stamp = read_stamp(self.path)
        return stamp is not None and stamp.get("name") == self.name and os.access(self.python, os.X_OK)

    def all_complete(self):
        """Names of the complete releases with the times of their stamps."""
        found = {}
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self.root):
                if read_stamp(os.path.join(self.root, name)) is not None:
                    found[name] = os.stat(os.path.join(self.root, name, STAMP)).st_mtime
        return found

    def interpreter(self, command):
        """Version of an interpreter, and why it does not fit."""
        path = shutil.which(command)
        version = ""
        if path:
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                probed = subprocess.run([path, "-c", PROBE], capture_output=True, text=True, timeout=60, check=True)
                version = probed.stdout.strip()
        problem = engine_release.python_problem(version, self.params["python_minimum"], self.params["python_below"])
        return {"version": version, "problem": problem, "path": path or ""}

    def link_is_right(self):
        link = self.params["link"]
        return not link or (os.path.islink(link) and os.readlink(link) == self.path)

    def surplus(self):
        """Old releases that nothing uses."""
        if self.params["kept"] < 1:
            return []
        beyond = engine_release.surplus_releases(self.all_complete(), self.name, self.params["kept"])
        return [name for name in beyond if not self.in_use(name)]

    def in_use(self, name):
        needle = os.path.join(self.root, name).encode()
        return any(file_names(path, needle) for path in self.params["reference_paths"]) or process_names(needle + b"/")

    def half(self):
        """What interrupted runs left, of this release and of others."""
        names = [name for name in os.listdir(self.root) if os.path.isdir(os.path.join(self.root, name))]
        return engine_release.half_releases(names, set(self.all_complete()))

    # -- changing -----------------------------------------------------------------------------

    def hold(self, seconds):
        """Take the host's lock; False when another run still has it after that time."""
        make_folder(self.root)
        # Children inherit it: it is free only when the last program of an ended run is gone.
        self.lock_stream = os.open(os.path.join(self.root, ".lock"), os.O_CREAT | os.O_WRONLY, 0o644)
        os.set_inheritable(self.lock_stream, True)
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(self.lock_stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except OSError:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(0.5)

    def remove(self, name):
        """Remove a release, its stamp first: what is interrupted here is half, and not complete."""
        path = os.path.join(self.root, name)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(path, STAMP))
        shutil.rmtree(path, ignore_errors=True)
        if os.path.lexists(path):
            raise Failure(f"{path} cannot be removed")

    def remove_caches(self, name):
        base = self.params["service_cache_dir"]
        if base and os.path.isdir(base):
            for service in os.listdir(base):
                shutil.rmtree(os.path.join(base, service, name), ignore_errors=True)

    def settle(self):
        """Point the link at the release, and remove old ones. Returns what was removed."""
        if not self.link_is_right():
            link, partial = self.params["link"], f"{self.params['link']}.part"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(partial)
            make_folder(os.path.dirname(link))
            os.symlink(self.path, partial)
            os.replace(partial, link)
        removed = self.surplus()
        for name in removed:
            self.remove(name)
            self.remove_caches(name)
        return removed

    def run(self, argv, environment=None, timeout=None):
        """Run a program of a step; returns what it wrote, raises Failure with its last words."""
        timeout = timeout or self.params["timeout"]
        base = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "PYTHON"))}
        base.update({"HOME": "/root", "LC_ALL": "C.UTF-8", **(environment or {})})
        try:
            status, output, errors = bound_process.run(argv, base, self.root, timeout)
        except OSError as error:
            raise Failure(f"{argv[0]}: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise Failure(f"it took longer than {timeout} s (timeout)") from error
        if status:
            raise Failure(engine_release.last_words(errors or output) + f" (exit status {status})")
        return output

    @contextlib.contextmanager
    def step(self, phase):
        """Name and time of a step."""
        self.phase = phase
        began = time.monotonic()
        yield
        self.seconds[phase] = round(time.monotonic() - began, 2)

    def have_uv(self):
        """Path of the installer, which is installed where the host has none."""
        if self.params["uv"]:
            path = shutil.which(self.params["uv"])
            if not path:
                raise Failure(f"uv is '{self.params['uv']}', and the host has no such program")
            return path
        digest = hashlib.sha256(self.params["uv_requirement"].encode()).hexdigest()[:12]
        folder = os.path.join(self.params["tools_dir"], f"uv-{digest}")
        path = os.path.join(folder, "bin", "uv")
        if os.path.exists(os.path.join(folder, "complete")) and os.access(path, os.X_OK):
            return path
        shutil.rmtree(folder, ignore_errors=True)
        make_folder(self.params["tools_dir"])
        base = next((found for found in map(shutil.which, ("python3", self.params["python"])) if found), None)
        if not base:
            raise Failure("the host has no Python that uv could be installed with; set uv to a program that is there")
        self.run([base, "-m", "venv", folder])
        write_file(os.path.join(folder, "requirements.txt"), self.params["uv_requirement"])
        pip = [os.path.join(folder, "bin", "python"), "-m", "pip", "install", "--no-input", "--no-cache-dir"]
        pip += ["--disable-pip-version-check", "--progress-bar=off", "--no-deps", "--require-hashes"]
        settings = {name: str(value) for name, value in self.settings.items()}
        self.run([*pip, "--requirement", os.path.join(folder, "requirements.txt")], settings)
        self.run([path, "--version"])
        write_file(os.path.join(folder, "complete"), "")
        return path

    def uv_settings(self):
        """Environment of uv."""
        settings = engine_release.uv_environment(self.settings)
        settings.setdefault("UV_CACHE_DIR", self.params["cache_dir"])
        settings.setdefault("UV_LINK_MODE", "hardlink")
        settings.setdefault("UV_PYTHON_INSTALL_DIR", self.params["managed_python_dir"])
        return settings

    def have_python(self, uv, settings):
        """Path of an interpreter that fits."""
        found = self.interpreter(self.params["python"])
        if not found["problem"]:
            return found["path"]
        wanted = self.params["managed_python"]
        told = f"python is '{self.params['python']}', which {found['problem']}"
        if not wanted:
            raise Failure(f"{told}; and managed_python is empty, so that none is fetched")
        try:
            self.run([uv, "python", "install", "--no-bin", wanted], settings)
            path = self.run([uv, "python", "find", "--managed-python", "--no-project", wanted], settings).strip()
        except Failure as failure:
            source = settings.get("UV_PYTHON_INSTALL_MIRROR", "github.com, where uv's own Pythons are")
            source = engine_release.redact(source)
            raise Failure(f"{told}; and Python {wanted} could not be fetched from {source}: {failure}") from failure
        return path

    def install(self, uv, settings):
        """Fill the release's virtual environment."""
        pip = [uv, "pip"]
        common = ["--python", self.python, *engine_release.uv_arguments(self.settings)]
        common += [*(["--compile-bytecode"] if self.params["bytecode"] else []), *self.params["extra_args"]]
        if self.params["lock"]:
            lock = os.path.join(self.path, "lock.txt")
            self.run([*pip, "sync", *common, "--require-hashes", lock], settings)
            return
        constraints = ["--constraint", os.path.join(self.path, "constraints.txt")]
        for name, words in (("requirements", []), ("requirements_no_deps", ["--no-deps"])):
            if self.params[name]:
                listed = os.path.join(self.path, f"{name.replace('_', '-')}.txt")
                self.run([*pip, "install", *common, *constraints, *words, "--requirement", listed], settings)

    def write_definition(self):
        """Put what defines the release into its folder."""
        if self.params["lock"]:
            shutil.copyfile(self.params["lock"], os.path.join(self.path, "lock.txt"))
            os.chmod(os.path.join(self.path, "lock.txt"), 0o644)
            return
        for name in ("requirements", "requirements_no_deps", "constraints"):
            text = "".join(f"{line}\n" for line in self.params[name])
            write_file(os.path.join(self.path, f"{name.replace('_', '-')}.txt"), text)

    def check(self):
        """Import the release and have it print its help, in one start; returns the versions of Python and SGLang."""
        output = self.run([self.python, "-c", engine_release.CHECK, self.params["version"]])
        python, version = engine_release.checked_versions(output)
        problem = engine_release.version_problem(version, self.params["version"])
        if problem:
            raise Failure(problem)
        return python, version

    def build(self):
        """Build, check and stamp the release."""
        with self.step("prepare"):
            if os.path.lexists(self.path) and self.in_use(self.name):
                raise Failure(f"{self.path} lacks its stamp or its interpreter, but a process or a unit uses it")
            halves = self.half()
            for name in {*halves, self.name}:
                self.remove(name)
        with self.step("installer"):
            uv = self.have_uv()
        settings = self.uv_settings()
        make_folder(settings["UV_CACHE_DIR"], 0o700)
        with self.step("interpreter"):
            base = self.have_python(uv, settings)
        with self.step("environment"):
            os.mkdir(self.path)
            os.chmod(self.path, 0o755)
            self.write_definition()
            self.run([uv, "venv", "--no-project", "--python", base, os.path.join(self.path, "venv")], settings)
        with self.step("packages"):
            self.install(uv, settings)
            # uv leaves it writable for everybody.
            with contextlib.suppress(FileNotFoundError):
                os.chmod(os.path.join(self.path, "venv", ".lock"), 0o644)
        # Beside the check, which only reads. This file system alone: weights may be on their way to another one.
        with ThreadPoolExecutor(max_workers=1) as beside:
            synced = beside.submit(stamp_file.sync_file_system, self.path)
            with self.step("check"):
                installed = self.run([uv, "pip", "freeze", "--python", self.python], settings)
                write_file(os.path.join(self.path, "installed.txt"), engine_release.redact(installed))
                python, version = self.check()
            with self.step("stamp"):
                synced.result()
                stamp = {"name": self.name, "version": version, "python": python}
                if self.params["lock"]:
                    with open(os.path.join(self.path, "lock.txt"), "rb") as stream:
                        stamp["lock_sha256"] = hashlib.sha256(stream.read()).hexdigest()
                stamp_file.write_stamp(os.path.join(self.path, STAMP), stamp)
        return halves


def interrupt(number, _frame):
    raise Interrupted(signal.Signals(number).name)


def build(module, release, result):
    """Build the release under the lock; ends the module when it fails."""
    if not release.hold(module.params["lock_timeout"]):
        module.fail_json(
            msg=f"Another run has been installing into {release.root} for longer than "
            f"{module.params['lock_timeout']} s (lock_timeout). Wait for its end, or look for its process uv.",
            phase="lock",
            **result,
        )
    # The other run may have built the very release.
    if not release.complete():
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, interrupt)
        try:
            result["removed"] += [name for name in release.build() if name != release.name]
        except (Failure, OSError, Interrupted) as error:
            phase, told = release.phase, str(error)
            if isinstance(error, Interrupted):
                told = f"it was interrupted by {told}"
            if phase != "prepare":
                with contextlib.suppress(Failure):
                    release.remove(release.name)
            module.fail_json(
                msg=f"The release {release.name} could not be built, and was removed again: {phase}: "
                f"{engine_release.redact(told)}",
                phase=phase,
                **result,
            )
        result.update(changed=True, seconds=release.seconds)
    result["complete"] = True
    if module.params["lock"]:
        with contextlib.suppress(OSError):
            os.unlink(module.params["lock"])


def main():
    """The module."""
    text = {"type": "str", "default": ""}
    strings = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "releases_dir": {"type": "path", "required": True},
            "version": {"type": "str", "required": True},
            "build": {"type": "bool", "default": True},
            "python": {"type": "str", "default": "python3"},
            "python_minimum": {"type": "str", "default": "3.11"},
            "python_below": text,
            "managed_python": text,
            "managed_python_dir": {"type": "path", "default": "/opt/sglang/python"},
            "lock": {"type": "path"},
            "requirements": strings,
            "requirements_no_deps": strings,
            "constraints": strings,
            "extra_args": strings,
            "bytecode": {"type": "bool", "default": True},
            "environment": {"type": "dict", "default": {}},
            "secret_environment": {"type": "dict", "default": {}, "no_log": True},
            "uv": text,
            "uv_requirement": text,
            "tools_dir": {"type": "path", "default": "/opt/sglang/tools"},
            "cache_dir": {"type": "path", "default": "/opt/sglang/cache/uv"},
            "timeout": {"type": "int", "default": 5400},
            "lock_timeout": {"type": "int", "default": 5400},
            "link": text,
            "kept": {"type": "int", "default": 0},
            "reference_paths": {"type": "list", "elements": "path", "default": []},
            "service_cache_dir": {"type": "path"},
        },
        supports_check_mode=True,
    )
    # The service's account reads what root installs, whatever root's umask is.
    os.umask(0o022)
    if not engine_release.NAME.fullmatch(module.params["name"]):
        module.fail_json(msg=f"name is '{module.params['name']}': give a version, a dash, and twelve digits of a sum")
    release = Release(module)
    link = module.params["link"]
    if link and os.path.lexists(link) and not os.path.islink(link):
        module.fail_json(msg=f"link is '{link}', which is there and is no link. Move it away, or give another path.")
    result = {
        "changed": False,
        "complete": release.complete(),
        "release_dir": release.path,
        "libc": list(platform.libc_ver()),
        "removed": [],
    }
    if not result["complete"]:
        found = release.interpreter(module.params["python"])
        result["interpreter"] = {"version": found["version"], "problem": found["problem"]}
        if module.params["build"] and not module.check_mode:
            build(module, release, result)
    if module.check_mode:
        would_build = module.params["build"] and not result["complete"]
        result["removed"] = release.surplus() if result["complete"] else []
        untidy = result["complete"] and not release.link_is_right()
        result["changed"] = bool(would_build or result["removed"] or untidy)
    elif result["complete"] and (not release.link_is_right() or release.surplus()):
        if release.lock_stream is None and not release.hold(0):
            module.warn(f"Another run installs into {release.root}: the link and old releases were left as they are.")
        else:
            result["removed"] += release.settle()
            result["changed"] = True
    module.exit_json(**result)


if __name__ == "__main__":
    main()
