#!/usr/bin/env python3
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make, list and remove the lab's hosts: booted systemd-nspawn machines on a bridge.

Every host is a Debian root that is built once and cached, plus an overlay of its own. The state of
a host is read from the machine itself (mounts, processes), never from a note about it, so that an
interrupted run or a reboot leaves nothing that the next ``up`` or ``down`` cannot handle.

    hosts.py up NAME --suite bookworm --address 10.213.77.11
    hosts.py stop NAME [NAME ...]
    hosts.py up NAME --like OTHER --address 10.213.77.12
    hosts.py down NAME [NAME ...]
    hosts.py list
    hosts.py network-down

A host ``--like`` another stands on what that one, which is stopped, has on its disk: that becomes a read-only layer
which both share, so that nothing is copied and either may change, run or go without the other.

Each command prints one JSON object with ``changed``.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import ipaddress
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

STATE = Path("/var/lib/llmfleet-lab")
BRIDGE = "llmfleet0"
NETWORK = ipaddress.ip_network("10.213.77.0/24")
GATEWAY = NETWORK[1]
RULE_TAG = "llmfleet-lab"
LOGIN = "deploy"
INOTIFY_INSTANCES = 1024
PACKAGES = [
    "ca-certificates", "curl", "dbus", "gpgv", "iproute2", "openssh-server", "procps", "python3", "python3-apt",
    "sudo", "systemd", "systemd-sysv", "tzdata",
]  # fmt: skip
# Also kept in the host's own dpkg settings: these machines are thrown away, so no fsync, no manuals.
DPKG_OPTIONS = [
    f"--dpkgopt={option}"
    for option in ("force-unsafe-io", "path-exclude=/usr/share/man/*", "path-exclude=/usr/share/doc/*")
]
# The root is made anew when this recipe changes.
SETUP = f"""
set -e
useradd --create-home --shell /bin/bash {LOGIN}
printf '%s ALL=(ALL) NOPASSWD:ALL\\n' {LOGIN} > /etc/sudoers.d/90-lab
chmod 0440 /etc/sudoers.d/90-lab
rm -f /etc/ssh/ssh_host_*
mkdir -p /var/log/journal
systemctl enable systemd-networkd ssh >/dev/null 2>&1
systemctl mask systemd-networkd-wait-online.service apt-daily.timer apt-daily-upgrade.timer >/dev/null 2>&1
"""


class LabError(Exception):
    """A lab host could not be made; the message says what to do."""


def run(*argv, **kwargs):
    """Run a command, raising LabError with its output when it fails."""
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, **kwargs)
    if done.returncode:
        raise LabError(f"{' '.join(map(str, argv))} exited with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout


@contextlib.contextmanager
def lock(name):
    """Hold a lock of the lab; a second ``up`` of the same thing waits instead of racing."""
    STATE.mkdir(parents=True, exist_ok=True)
    with open(STATE / f".{name}.lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


# -- what this machine hands to its hosts ------------------------------------------------------


def debian_mirror(suite):
    """The Debian mirror that this machine itself uses, or Debian's own."""
    sources = list(Path("/etc/apt").glob("sources.list")) + sorted(Path("/etc/apt/sources.list.d").glob("*"))
    for path in sources:
        for uri in re.findall(r"https?://\S+/debian/?(?=\s|$)", path.read_text(errors="replace")):
            return uri.rstrip("/")
    return "http://deb.debian.org/debian"


def apt_settings():
    """Proxy settings of this machine's apt, as the text of an apt.conf file."""
    try:
        dump = run("apt-config", "dump")
    except (LabError, FileNotFoundError):
        return ""
    wanted = re.compile(r"^Acquire::(http|https)::(Proxy|CAInfo|Verify-Peer)\b.*;$", re.MULTILINE)
    return "\n".join(match.group(0) for match in wanted.finditer(dump))


def pip_settings():
    """Return (text of pip.conf, paths it names) from this machine's pip, whatever it is set up with.

    A lab host must find the wheels that its controller finds: an index, a mirror or a local folder.
    """
    # Outside this venv's own environment a plain pip sees the same files and variables.
    listing = run(sys.executable, "-m", "pip", "config", "list")
    values, paths = {}, []
    for line in listing.splitlines():
        match = re.match(r"^(?:global|install|:env:)\.([a-z-]+)=(['\"])(.*)\2$", line)
        if not match or match.group(1) in ("disable-pip-version-check", "user", "require-virtualenv"):
            continue
        key, value = match.group(1), match.group(3)
        if key in ("find-links", "extra-index-url") and key in values and value not in values[key]:
            value = f"{values[key]} {value}"
        values[key] = value
        for word in value.split():
            path = Path(re.sub(r"^file://", "", word))
            if word.startswith("file://"):
                path = path.parent  # an index on disk names files beside its own folder
            if path.is_absolute() and path.exists() and not str(path).startswith("/etc/ssl/"):
                paths.append(path)
    text = "[global]\n" + "".join(f"{key} = {value}\n" for key, value in sorted(values.items()))
    return text, sorted(set(paths))


def uv_settings(pip_conf):
    """Text of uv.toml that says the same as a pip.conf: uv does not read pip's settings."""
    lists = {"find-links", "extra-index-url"}
    lines = []
    for key, value in re.findall(r"^([a-z-]+) = (.*)$", pip_conf, re.MULTILINE):
        if key in lists:
            lines.append(f"{key} = {json.dumps(value.split())}\n")
        elif key == "index-url":
            lines.append(f"{key} = {json.dumps(value)}\n")
    return "".join(lines)


def nameservers():
    """Name servers that a host in its own network can reach."""
    for path in (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf")):
        if path.exists():
            found = re.findall(r"^nameserver\s+(\S+)", path.read_text(), re.MULTILINE)
            found = [server for server in found if not server.startswith("127.")]
            if found:
                return found
    return ["1.1.1.1"]


# -- root, network, key --------------------------------------------------------------------------


def root_of(suite):
    """Build the cached root of a suite if it is not there, and return its path."""
    recipe = json.dumps([suite, PACKAGES, DPKG_OPTIONS, SETUP, debian_mirror(suite)])
    root = STATE / "roots" / f"{suite}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    with lock(f"root-{suite}"):
        if root.exists():
            return root
        root.parent.mkdir(parents=True, exist_ok=True)
        part = root.with_name(f"{root.name}.part")
        # mmdebstrap leaves nothing mounted when it is killed in root mode with its own unshare.
        run("rm", "-rf", "--one-file-system", part)
        run(
            "mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(PACKAGES)}", *DPKG_OPTIONS,
            "--customize-hook=chroot \"$1\" sh -c " + _shell_quote(SETUP), suite, part, debian_mirror(suite),
        )  # fmt: skip
        part.rename(root)
        _forget_old_roots(suite, root)
    return root


def _forget_old_roots(suite, current):
    """Remove roots of earlier recipes that no host stands on any more."""
    used = {host.get("root") for host in hosts()}
    for old in current.parent.glob(f"{suite}-*"):
        if old != current and old.name not in used:
            run("rm", "-rf", "--one-file-system", old)


def _shell_quote(text):
    return "'" + text.replace("'", "'\"'\"'") + "'"


def ssh_key():
    """The key that reaches every host of this lab."""
    key = STATE / "ssh" / "id_ed25519"
    with lock("ssh"):
        if not key.exists():
            key.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", RULE_TAG, "-f", key)
    return key


def _iptables_rules():
    comment = ["-m", "comment", "--comment", RULE_TAG]
    net = str(NETWORK)
    yield ["-t", "nat"], "POSTROUTING", ["-s", net, "!", "-d", net, *comment, "-j", "MASQUERADE"]
    yield [], "FORWARD", ["-i", BRIDGE, *comment, "-j", "ACCEPT"]
    yield [], "FORWARD", ["-o", BRIDGE, *comment, "-j", "ACCEPT"]


def network_up():
    """Bridge, address and masquerading of the hosts' subnet."""
    with lock("network"):
        changed = not Path(f"/sys/class/net/{BRIDGE}").exists()
        if changed:
            run("ip", "link", "add", BRIDGE, "type", "bridge")
        if f"{GATEWAY}/" not in run("ip", "-4", "addr", "show", "dev", BRIDGE):
            run("ip", "addr", "add", f"{GATEWAY}/{NETWORK.prefixlen}", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")
        # Each host's systemd takes some; all hosts share the limit of this machine's root, which allows about 20.
        instances = Path("/proc/sys/fs/inotify/max_user_instances")
        if int(instances.read_text()) < INOTIFY_INSTANCES:
            instances.write_text(f"{INOTIFY_INSTANCES}\n")
        for table, chain, rule in _iptables_rules():
            if subprocess.run(["iptables", *table, "-C", chain, *rule], capture_output=True).returncode:
                run("iptables", *table, "-I", chain, *rule)
                changed = True
    return changed


def network_down():
    """Remove bridge and rules; a host that still runs keeps them."""
    with lock("network"):
        if any(host["running"] for host in hosts()):
            return False
        changed = False
        for table, chain, rule in _iptables_rules():
            while not subprocess.run(["iptables", *table, "-D", chain, *rule], capture_output=True).returncode:
                changed = True
        if Path(f"/sys/class/net/{BRIDGE}").exists():
            run("ip", "link", "del", BRIDGE)
            changed = True
    return changed


# -- hosts -----------------------------------------------------------------------------------------


def nspawn_pid(name):
    """The pid of the systemd-nspawn that runs this host, or None."""
    wanted = f"--directory={STATE / 'hosts' / name / 'merged'}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if wanted in words and words[0].endswith(b"systemd-nspawn"):
                return int(entry.name)
    return None


def _end_payload(name):
    """Kill what runs on a host's disk without its systemd-nspawn, which was killed: it would keep the address."""
    source = f"llmfleet-{name}"
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        left = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError, IndexError, StopIteration):
                    root = next(
                        line for line in (entry / "mountinfo").read_text().splitlines() if line.split()[4] == "/"
                    )
                    if source in root.split(" - ", 1)[1].split():
                        left.append(int(entry.name))
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    raise LabError(f"processes {left} of host {name} do not end; look at them with ps")


def hosts():
    """Every host that this lab knows, with its state."""
    base = STATE / "hosts"
    found = []
    for folder in sorted(base.iterdir()) if base.exists() else []:
        facts = folder / "host.json"
        entry = json.loads(facts.read_text()) if facts.exists() else {"name": folder.name}
        entry["running"] = nspawn_pid(folder.name) is not None
        found.append(entry)
    return found


def _mounted(path):
    return any(line.split()[4] == str(path) for line in Path("/proc/self/mountinfo").read_text().splitlines())


def _write(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def _forget_identity(merged):
    """Remove what another host's disk says about that host: its keys, its journal, its seed."""
    for pattern in (
        "etc/ssh/ssh_host_*",
        "var/log/journal/*",
        "var/lib/systemd/random-seed",
        "var/lib/dbus/machine-id",
    ):
        for path in merged.glob(pattern):
            run("rm", "-rf", "--one-file-system", path)


def _furnish(name, address, merged):
    """Write what makes this host itself: name, address, keys, and the controller's package settings."""
    key = ssh_key()
    etc = merged / "etc"
    _write(etc / "hostname", f"{name}\n")
    _write(etc / "hosts", f"127.0.0.1 localhost\n{address} {name}\n")
    _write(etc / "machine-id", f"{uuid.uuid4().hex}\n", 0o444)
    # The number sorts before systemd's own 80-container-host0.network, which would ask for DHCP.
    _write(
        etc / "systemd/network/10-host0.network",
        f"[Match]\nName=host0\n[Network]\nAddress={address}/{NETWORK.prefixlen}\nGateway={GATEWAY}\nDHCP=no\n",
    )
    (etc / "resolv.conf").unlink(missing_ok=True)
    _write(etc / "resolv.conf", "".join(f"nameserver {server}\n" for server in nameservers()))
    _write(etc / "apt/apt.conf.d/90-lab", apt_settings() + "\n")
    pip_conf, _paths = pip_settings()
    _write(etc / "pip.conf", pip_conf)
    _write(etc / "uv/uv.toml", uv_settings(pip_conf))
    host_key = etc / "ssh/ssh_host_ed25519_key"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", host_key)
    home = merged / "home" / LOGIN / ".ssh"
    _write(home / "authorized_keys", Path(f"{key}.pub").read_text(), 0o600)
    owner = (merged / "home" / LOGIN).stat()
    for path in (home, home / "authorized_keys"):
        os.chown(path, owner.st_uid, owner.st_gid)
    local_authorities = sorted(Path("/usr/local/share/ca-certificates").glob("*.crt"))
    for authority in local_authorities:
        _write(merged / "usr/local/share/ca-certificates" / authority.name, authority.read_text())
    bundle = etc / "ssl/certs/ca-certificates.crt"
    known = bundle.read_text() if bundle.exists() else ""
    if any(authority.read_text().strip() not in known for authority in local_authorities):
        run("chroot", merged, "update-ca-certificates")
    return Path(f"{host_key}.pub").read_text().split()[:2]


def _remember_host_key(address, key_words):
    path = STATE / "ssh" / "known_hosts"
    with lock("known-hosts"):
        lines = path.read_text().splitlines() if path.exists() else []
        lines = [line for line in lines if line.split()[0] != address]
        if key_words:
            lines.append(" ".join([address, *key_words]))
        _write(path, "".join(f"{line}\n" for line in sorted(lines)), 0o600)


def _control_groups(name):
    """A host's own folder in each hierarchy of control groups that systemd uses."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        kind, _source, options = line.split(" - ", 1)[1].split(" ", 2)
        if kind == "cgroup2" or (kind == "cgroup" and "name=systemd" in options.split(",")):
            found.append(Path(line.split()[4]) / f"llmfleet-{name}")
    return found


def _forget_control_groups(name):
    """Remove a host's control groups, the inner ones first; one that still holds a process stays."""
    for top in _control_groups(name):
        for folder in sorted([top, *top.rglob("*/")], reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _boot(name, folder, binds, address, init):
    merged = folder / "merged"
    argv = [
        "systemd-nspawn", f"--directory={merged}", f"--machine={name}", "--quiet", "--register=no",
        "--keep-unit", f"--network-bridge={BRIDGE}", "--resolv-conf=off", "--link-journal=no", "--timezone=off",
        "--console=read-only", *[f"--bind-ro={path}" for path in binds],
    ]  # fmt: skip
    if init == "systemd":
        argv.append("--boot")
    else:
        # A host whose first process is no systemd, as a container of an application would be.
        setup = (
            f"ip address add {address}/{NETWORK.prefixlen} dev host0; ip link set host0 up; "
            f"ip route add default via {GATEWAY}; mkdir -p /run/sshd; exec /usr/sbin/sshd -D"
        )
        argv += ["--kill-signal=SIGTERM", "/bin/sh", "-c", setup]
    # nspawn ends with 133 when its payload asks for a reboot: the power comes back, as it would on a machine.
    power = ["/bin/sh", "-c", 'while "$@"; code=$?; [ $code -eq 133 ]; do :; done', "power", *argv]
    # Units of one name on two hosts would share a control group, and each systemd would meet the other's processes.
    for group in _control_groups(name):
        group.mkdir(exist_ok=True)
        power = ["/bin/sh", "-c", 'echo $$ > "$0"; exec "$@"', str(group / "cgroup.procs"), *power]
    with open(folder / "console.log", "ab") as console:
        subprocess.Popen(
            power, stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True, cwd="/"
        )


def _reachable(address, seconds, init):
    command = "systemctl is-system-running --wait" if init == "systemd" else "echo running"
    key = STATE / "ssh" / "id_ed25519"
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((address, 22), timeout=1):
            pass
        done = subprocess.run(
            ["ssh", "-i", key, "-o", f"UserKnownHostsFile={STATE}/ssh/known_hosts", "-o", "BatchMode=yes",
             "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=3", f"{LOGIN}@{address}", command],
            capture_output=True, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.stdout.strip() in ("running", "degraded"):
            return
        time.sleep(0.3)
    raise LabError(
        f"{address} did not answer SSH within {seconds} s: {done.stdout.strip()} {done.stderr.strip()[-400:]}. "
        f"See console.log of the host below {STATE}/hosts."
    )


# -- layers: what a stopped host had on its disk, for hosts that are like it ------------------------


def _layers(folder):
    """Names of the read-only layers that a host stands on, newest first."""
    noted = folder / "layers.json"
    return json.loads(noted.read_text()) if noted.exists() else []


def _note_layers(folder, layers):
    part = folder / "layers.json.part"
    part.write_text(json.dumps(layers))
    part.rename(folder / "layers.json")


def _settle_layers(folder):
    """Return the layers of a host; finishes what ``_freeze`` had written down and not yet done."""
    layers = _layers(folder)
    if layers and not (STATE / "layers" / layers[0]).exists():
        (folder / "upper").rename(STATE / "layers" / layers[0])
    for part in ("upper", "work"):
        (folder / part).mkdir(exist_ok=True)
    return layers


def _freeze(name):
    """Make a layer of what a stopped host has on its disk; returns its layers, and its facts."""
    folder = STATE / "hosts" / name
    if not (folder / "host.json").exists():
        raise LabError(f"there is no host {name} to be like; make and prepare it first: hosts.py up {name}")
    if nspawn_pid(name):
        raise LabError(f"host {name} runs, and its disk changes; stop it first: hosts.py stop {name}")
    _unmount(folder)
    layers = _settle_layers(folder)
    if any((folder / "upper").iterdir()):
        (STATE / "layers").mkdir(exist_ok=True)
        # Written down first: whoever comes next finishes it.
        _note_layers(folder, [f"{name}-{uuid.uuid4().hex[:12]}", *layers])
        shutil.rmtree(folder / "work")
        layers = _settle_layers(folder)
    return layers, json.loads((folder / "host.json").read_text())


def _forget_old_layers():
    """Remove the layers that no host stands on any more."""
    with lock("layers"):
        base = STATE / "hosts"
        used = {layer for folder in (base.iterdir() if base.exists() else []) for layer in _layers(folder)}
        for layer in (STATE / "layers").glob("*"):
            if layer.name not in used:
                run("rm", "-rf", "--one-file-system", layer)


def _mount(name, root):
    """Mount a host's disk, if it is not."""
    folder = STATE / "hosts" / name
    if _mounted(folder / "merged"):
        return
    lower = [*(STATE / "layers" / layer for layer in _settle_layers(folder)), root]
    settings = f"lowerdir={':'.join(map(str, lower))},upperdir={folder / 'upper'},workdir={folder / 'work'}"
    run("mount", "-t", "overlay", f"llmfleet-{name}", "-o", settings, folder / "merged")


def _unmount(folder):
    for _attempt in range(20):
        if not _mounted(folder / "merged"):
            return
        subprocess.run(["umount", "--recursive", folder / "merged"], capture_output=True)
        time.sleep(0.25)
    run("umount", "--recursive", "--lazy", folder / "merged")


def up(name, suite, address, init="systemd", like=None):
    """Make and boot a host, blank or like another one, or leave a running one as it is."""
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,11}", name):
        raise LabError(f"host name {name!r}: use 1 to 12 of a-z, 0-9 and -, as its network interface bears it")
    if ipaddress.ip_address(address) not in NETWORK or ipaddress.ip_address(address) == GATEWAY:
        raise LabError(f"address {address} of {name}: take a free one of {NETWORK}, not {GATEWAY}")
    if like == name:
        raise LabError(f"host {name} cannot be like itself; name another one")
    changed = network_up()
    ssh_key()
    with lock(f"host-{name}"):
        folder = STATE / "hosts" / name
        known = folder / "host.json"
        facts = {"name": name, "address": address}
        if like is None:
            facts |= {"suite": suite, "root": root_of(suite).name, "init": init}
        else:
            facts["like"] = like
        if known.exists():
            before = json.loads(known.read_text())
            if any(before.get(key) != value for key, value in facts.items()) or before.get("like") != like:
                _down(name)
            else:
                facts = before
        if known.exists() and nspawn_pid(name):
            _reachable(address, 60, facts["init"])
            return changed
        _end_payload(name)
        if not known.exists():  # nothing here, or what an interrupted run left
            _down(name)
            (folder / "merged").mkdir(parents=True)
            if like is not None:
                # What the layers are is noted before anybody could take them for unused.
                with lock(f"host-{like}"), lock("layers"):
                    layers, other = _freeze(like)
                    _note_layers(folder, layers)
                facts |= {key: other[key] for key in ("suite", "root", "init")}
        _mount(name, STATE / "roots" / facts["root"])
        if not known.exists():
            if like is not None:
                _forget_identity(folder / "merged")
            _remember_host_key(address, _furnish(name, address, folder / "merged"))
            known.write_text(json.dumps(facts))
        _boot(name, folder, pip_settings()[1], address, facts["init"])
        _reachable(address, 90, facts["init"])
    return True


def _stop(name, seconds):
    """Power a host off: in good order, or after so many seconds at once."""
    pid = nspawn_pid(name)
    if pid:
        # SIGTERM makes nspawn send its payload the signal for an orderly power-off.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + seconds
        while nspawn_pid(name) and time.monotonic() < deadline:
            time.sleep(0.1)
        left = nspawn_pid(name)
        if left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)
    _end_payload(name)
    _forget_control_groups(name)
    _unmount(STATE / "hosts" / name)
    return pid is not None


def stop(names):
    """Power hosts off and keep their disks; ``up`` boots them again."""
    changed = False
    for name in names:
        with lock(f"host-{name}"):
            changed = _stop(name, 60) or changed
    return changed


def _down(name):
    folder = STATE / "hosts" / name
    if not folder.exists():
        return False
    _stop(name, 20)
    facts = folder / "host.json"
    if facts.exists():
        _remember_host_key(json.loads(facts.read_text())["address"], None)
        facts.unlink()
    shutil.rmtree(folder)
    _forget_old_layers()
    return True


def down(names):
    """Stop and remove hosts; one that is not there is no error."""
    changed = False
    for name in names:
        with lock(f"host-{name}"):
            changed = _down(name) or changed
        (STATE / f".host-{name}.lock").unlink(missing_ok=True)
    return changed


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("up")
    add.add_argument("name")
    add.add_argument("--suite")
    add.add_argument("--address", required=True)
    add.add_argument("--init", choices=["systemd", "sshd"])
    add.add_argument("--like", metavar="OTHER", help="stand on the disk of this host, which is prepared and stopped")
    commands.add_parser("stop").add_argument("names", nargs="+")
    commands.add_parser("down").add_argument("names", nargs="+")
    commands.add_parser("list")
    commands.add_parser("network-up")
    commands.add_parser("network-down")
    args = parser.parse_args(argv)
    if args.command == "up" and args.like and (args.suite or args.init):
        parser.error(f"suite and init are those of {args.like}: leave them out with --like")
    if os.geteuid() != 0:
        parser.error("the lab boots machines: run it as root")
    try:
        if args.command == "up":
            suite, init = args.suite or "bookworm", args.init or "systemd"
            result = {"changed": up(args.name, suite, args.address, init, args.like)}
        elif args.command == "stop":
            result = {"changed": stop(args.names)}
        elif args.command == "down":
            result = {"changed": down(args.names)}
        elif args.command == "network-up":
            result = {"changed": network_up()}
        elif args.command == "network-down":
            result = {"changed": network_down()}
        else:
            result = {"changed": False, "hosts": hosts()}
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
