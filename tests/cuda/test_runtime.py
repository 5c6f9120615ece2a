# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles sglang and model on the platforms that the stage "install" does not have: Ubuntu's and the RHEL family's.

A distribution decides about the release file, the package manager, the names of packages and the version of python3.
That of Ubuntu 22.04 and of RHEL 9 is told by a script before Debian's own; the Python that uv fetches is Debian's 3.11
as an archive.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from ansible_collections.llmfleet.sglang.tests.lab import controller, shards

ROOT = Path(__file__).resolve().parents[2]
WHEELS = "http://10.213.77.1:8077/wheels/"
HOSTS = ["cuda-ubu22", "cuda-ubu24", "cuda-el9", "cuda-el10"]
# Where the release's interpreter has to come from.
PYTHONS = {
    "cuda-ubu22": "/opt/sglang/python/",
    "cuda-ubu24": "/usr/bin/python3",
    "cuda-el9": "/usr/bin/python3",
    "cuda-el10": "/usr/bin/python3",
}
OLD_PYTHON = """#!/bin/sh
case "$*" in
*"sys.version_info[:3]"*) echo {version} ;;
*) exec /usr/bin/python3 "$@" ;;
esac
"""


def offer_python(folder, url, root):
    """Offer Debian's Python 3.11 to uv, as an archive and a list of one."""

    def relative(entry):
        return None if entry.issym() and entry.linkname.startswith("/") else entry

    with tarfile.open(folder / "python.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(root / "usr/bin/python3.11", "python/bin/python3.11")
        archive.add(root / "usr/lib/python3.11", "python/lib/python3.11", filter=relative)
        link = tarfile.TarInfo("python/bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, "python3.11"
        archive.addfile(link)
    entry = {
        "name": "cpython", "arch": {"family": "x86_64", "variant": None}, "os": "linux", "libc": "gnu", "major": 3,
        "minor": 11, "patch": 2, "prerelease": "", "url": f"{url}/python.tar.gz", "sha256": None, "variant": None,
        "build": "20260101",
    }  # fmt: skip
    (folder / "pythons.json").write_text(json.dumps({"cpython-3.11.2-linux-x86_64-gnu": entry}))


@pytest.fixture(scope="module")
def runtime(offer, play_each, on):
    """Runs both roles on the four hosts, with what each of them has to have."""
    controller.offer()
    model = offer.folder / "models" / "tiny"
    shards.write_model(model, count=2)
    (model / "SHA256SUMS").write_text(shards.sums_of(model))
    offer_python(offer.folder, offer.url, Path("/var/lib/llmfleet-lab/hosts/cuda-ubu22/merged"))
    for name, version in (("cuda-ubu22", "3.10.12"), ("cuda-el9", "3.9.21")):
        script = OLD_PYTHON.format(version=version)
        on(name, f"cat > /usr/local/bin/python3 <<'END'\n{script}END\nchmod 755 /usr/local/bin/python3")
    common = {
        # Not one of the release's, which the stub of an older Python stands before.
        "ansible_python_interpreter": "/usr/bin/python3",
        "sglang_version": "0.5.23+standin",
        "sglang_pip_environment": {"PIP_FIND_LINKS": WHEELS, "PIP_TRUSTED_HOST": "10.213.77.1"},
        "model_source": "mirror", "model_mirror_url": f"{offer.url}/models/tiny", "model_repo": "lab/tiny",
        "model_revision": "first", "model_draft_repo": "", "model_draft_revision": "", "model_disk_required_gb": 0,
    }  # fmt: skip
    variables = {name: dict(common) for name in HOSTS}
    for name in ("cuda-ubu22", "cuda-ubu24"):
        # Debian's compiler is large, and the same for all.
        variables[name]["sglang_build_packages"] = ["python3-venv", "libnuma1"]
    variables["cuda-ubu22"]["sglang_managed_python_version"] = "3.11"
    variables["cuda-ubu22"]["sglang_pip_environment"] = {
        **common["sglang_pip_environment"],
        "UV_PYTHON_DOWNLOADS_JSON_URL": f"{offer.url}/pythons.json",
    }
    return lambda *words: play_each("runtime.yml", variables, *words)


def test_check_mode_on_blank_hosts_changes_nothing(runtime, on):
    done = runtime("--check")
    assert done.rc == 0, str(done)
    assert set(done.changed) == set(HOSTS)
    assert all(count > 0 for count in done.changed.values()), str(done)
    for name in HOSTS:
        left = on(name, "ls -d /opt/sglang /srv/models /var/lib/sglang 2>/dev/null; getent passwd sglang", check=False)
        assert left == "", f"{name}: {left}"


def test_the_first_run_installs_and_the_second_changes_nothing(runtime, offer, on, versions):
    sums = (offer.folder / "models" / "tiny" / "SHA256SUMS").read_text()
    first = runtime()
    assert first.rc == 0, str(first)
    for name in HOSTS:
        run = "/opt/sglang/current/venv/bin/python -m sglang.launch_server --help >/dev/null && echo fine"
        assert on(name, f"setpriv --reuid sglang --regid sglang --clear-groups sh -c '{run}'") == "fine"
        assert on(name, "readlink -f /opt/sglang/current/venv/bin/python").startswith(PYTHONS[name])
        assert on(name, "cd /srv/models/tiny && sha256sum *") + "\n" == sums
    assert {"gcc-c++", "numactl-libs", "python3.12", "python3.12-devel"} <= set(versions("cuda-el9")[0])
    assert {"gcc-c++", "numactl-libs", "python3-devel"} <= set(versions("cuda-el10")[0])
    assert "python3.12" not in versions("cuda-el10")[0]
    again = runtime()
    assert again.rc == 0, str(again)
    assert again.changed == dict.fromkeys(HOSTS, 0), str(again)
