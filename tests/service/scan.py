# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where on a host, and in what Ansible said, a secret can be found."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

from ansible_collections.llmfleet.sglang.tests.service.host import until

FOLDERS = "etc run var usr/lib/systemd usr/local home root tmp opt srv"
NEEDLES, SEEN, END = "/run/lab-needles", "/run/lab-seen", "/run/lab-sampler-end"

# Runs on the host. The needles come as {name: text} on standard input, so that no list of processes has them.
SCAN = r"""
import glob, grp, json, os, pwd, subprocess, sys, tempfile
needles = {name: text.encode() for name, text in json.load(sys.stdin).items()}
found = []

def look(place, content):
    found.extend([name, place] for name, text in needles.items() if text in content)

journal = subprocess.Popen(["journalctl", "--quiet", "--all", "--output=export", sys.argv[1]], stdout=subprocess.PIPE)
rest = b""
while True:
    block = journal.stdout.read(1 << 20)
    if not block:
        break
    look("journal", rest + block)
    rest = block[-200:]
look("ps", subprocess.run(["ps", "-eww", "-o", "args="], capture_output=True).stdout)
look("units", subprocess.run(["systemctl", "cat", "*.service"], capture_output=True).stdout)
look("units", subprocess.run(["systemctl", "show", "*.service"], capture_output=True).stdout)
for path in glob.glob("/proc/[0-9]*"):
    for name in ("cmdline", "environ"):
        try:
            with open(f"{path}/{name}", "rb") as stream:
                content = stream.read()
            who = pwd.getpwuid(os.stat(path).st_uid).pw_name
        except (OSError, KeyError):
            continue
        look(name if name == "cmdline" else f"environ of {who}", content)
with tempfile.NamedTemporaryFile(dir="/run", prefix="lab-needles") as patterns:
    patterns.write(b"".join(text + b"\n" for text in needles.values()))
    patterns.flush()
    words = ["grep", "-r", "-l", "-a", "-s", "-F", "-f", patterns.name, "--exclude=lab-needles*", "--exclude-dir=lists"]
    # Read above, and compressed.
    words.append("--exclude-dir=journal")
    listed = subprocess.run([*words, *sys.argv[2:]], cwd="/", capture_output=True, text=True,
                            env={"LC_ALL": "C", "PATH": os.environ["PATH"]}).stdout.splitlines()
for path in listed:
    try:
        status = os.stat(f"/{path}")
        with open(f"/{path}", "rb") as stream:
            content = stream.read()
        owner = f"{pwd.getpwuid(status.st_uid).pw_name}:{grp.getgrgid(status.st_gid).gr_name}"
    except (OSError, KeyError):
        continue
    look(f"file /{path} {status.st_mode & 0o777:04o} {owner}", content)
print(json.dumps(sorted(map(list, set(map(tuple, found))))))
"""

# Runs on the host while it is deployed, and looks at all command lines twenty times a second.
SAMPLE = f"""
import glob, json, os, time
with open("{NEEDLES}") as stream:
    needles = {{name: text.encode() for name, text in json.load(stream).items()}}
found, lines, samples = set(), set(), 0
while not os.path.exists("{END}"):
    samples += 1
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as stream:
                line = stream.read()
        except OSError:
            continue
        if line and hash(line) not in lines:
            lines.add(hash(line))
            found.update((name, line.replace(b"\\0", b" ").decode(errors="replace")[:300])
                         for name, text in needles.items() if text in line)
    time.sleep(0.05)
with open("{SEEN}.part", "w") as stream:
    json.dump({{"found": sorted(found), "samples": samples, "lines": len(lines)}}, stream)
os.rename("{SEEN}.part", "{SEEN}")
"""


def scan(server, needles, journal="--merge", folders=FOLDERS):
    """{(name, place)} of the needles that are found on the host; a part of the journal or fewer folders are quicker."""
    server.on_host("cat > /run/lab-scan.py; journalctl --sync", SCAN)
    found = json.loads(server.on_host(f"python3 /run/lab-scan.py {journal} {folders}", json.dumps(needles)))
    return set(map(tuple, found))


class Sampler:
    """Watch the command lines of the host and of this machine for secrets, as long as a block runs."""

    def __init__(self, server, needles=None):
        self.server, self.needles = server, needles or server.secrets
        self.here, self.lines_here, self.end = set(), set(), threading.Event()

    def watch_here(self):
        needles = {name: text.encode() for name, text in self.needles.items()}
        while not self.end.is_set():
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    line = path.read_bytes()
                except OSError:
                    continue
                if line and line not in self.lines_here:
                    self.lines_here.add(line)
                    self.here.update(name for name, text in needles.items() if text in line)
            time.sleep(0.1)

    def __enter__(self):
        self.server.on_host(f"rm -f {END} {SEEN}; umask 077; cat > {NEEDLES}", json.dumps(self.needles))
        self.server.on_host("cat > /run/lab-sample.py", SAMPLE)
        self.server.on_host("systemd-run --quiet --unit=lab-sampler --collect python3 /run/lab-sample.py")
        self.thread = threading.Thread(target=self.watch_here, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_exc):
        self.end.set()
        self.thread.join()
        self.server.on_host(f"touch {END}")
        until(lambda: self.server.on_host(f"test -e {SEEN}", check=False).returncode == 0)
        seen = json.loads(self.server.on_host(f"cat {SEEN}"))
        self.found, self.samples, self.lines = seen["found"], seen["samples"], seen["lines"]
        self.server.on_host(f"rm -f {NEEDLES} {SEEN} {END} /run/lab-sample.py")
