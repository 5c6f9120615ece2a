#!/usr/bin/env python3
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the signed RPM repository that stands for NVIDIA's for the RHEL family in the lab.

Names, epochs, module streams and dependencies are those of NVIDIA's repository as far as the `cuda` role sees them.
The packages hold the same small scripts as those of the apt repository beside: no driver, no CUDA.

    build_rpm_repo.py --out /srv/www --distribution rhel9 --headers "$(uname -r)"

makes /srv/www/rhel9/x86_64 with the public key at llmfleet-lab.pub, and /srv/www/rhel9/base with what stands for the
distribution's own packages (headers, compiler, Python, the plugin that holds versions).
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from build_repo import DRIVERS, PUBLIC_KEY, TOOLKITS, Signer, run, text_file

STREAMS = {"rhel9": ("open-dkms", "latest-dkms"), "rhel10": ()}
RELEASES = {"rhel9": "1.el9", "rhel10": "1.el10"}
KERNEL_VERSION = "9.99.0"


class Rpm:
    """One package: header fields, files (path -> (content, mode)) and a script that runs when it is installed."""

    def __init__(self, name, version, release, requires=(), epoch=None, summary="lab emulation, no driver inside"):
        self.name, self.version, self.release, self.epoch = name, version, release, epoch
        self.requires, self.summary = list(requires), summary
        self.files: dict[str, tuple[bytes, int]] = {}
        self.post = ""

    @property
    def nevra(self) -> str:
        return f"{self.name}-{self.epoch or 0}:{self.version}-{self.release}.x86_64"

    def spec(self, stage: Path) -> str:
        lines = [
            f"Name: {self.name}",
            f"Version: {self.version}",
            f"Release: {self.release}",
            f"Summary: {self.summary}",
            "License: GPL-3.0-or-later",
            "BuildArch: x86_64",
            "AutoReqProv: no",
            *([f"Epoch: {self.epoch}"] if self.epoch else []),
            *(f"Requires: {requirement}" for requirement in self.requires),
            "%description",
            "Lab emulation: an empty package or a small script, nothing of NVIDIA.",
            "%install",
            f"cp -a {stage}/. %{{buildroot}}/",
            *(["%post", self.post] if self.post else []),
            "%files",
            *(f"%attr({mode:o},root,root) {path}" for path, (_content, mode) in sorted(self.files.items())),
        ]
        return "\n".join(lines) + "\n"

    def build(self, folder: Path, scratch: Path) -> None:
        stage = Path(tempfile.mkdtemp(dir=scratch))
        for path, (content, _mode) in self.files.items():
            target = stage / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        spec = scratch / f"{stage.name}.spec"
        spec.write_text(self.spec(stage), encoding="utf-8")
        defines = {
            "_topdir": f"{scratch}/rpmbuild",
            "_rpmdir": str(folder),
            "_rpmfilename": "%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm",
            "_dbpath": f"{scratch}/rpmdb",
            "_binary_payload": "w1.gzdio",
            "__os_install_post": "%{nil}",
            "debug_package": "%{nil}",
        }
        words = [word for key, value in defines.items() for word in ("--define", f"{key} {value}")]
        run(["rpmbuild", "--quiet", "-bb", "--target", "x86_64", *words, str(spec)])


def driver_rpms(driver: str, release: str, with_kernel: bool) -> list[Rpm]:
    """A driver release; NVIDIA gives its parts epoch 3 and ties them to each other."""

    def same(*names: str) -> list[str]:
        return [f"{name} = 3:{driver}" for name in names]

    def part(name: str, requires=(), epoch=3) -> Rpm:
        return Rpm(name, driver, release, requires, epoch)

    libraries = part("nvidia-driver-cuda-libs")
    libraries.files["/usr/share/llmfleet-lab/nvidia-library.json"] = (f'{{"version": "{driver}"}}\n'.encode(), 0o644)
    smi = part("nvidia-driver-cuda", same("nvidia-driver-cuda-libs", "nvidia-persistenced"))
    smi.files["/usr/bin/nvidia-smi"] = (text_file("nvidia-smi"), 0o755)
    module = part("kmod-nvidia-open-dkms", [*same("nvidia-kmod-common"), "dkms"])
    module.files["/usr/share/llmfleet-lab/nvidia-module.json"] = (f'{{"version": "{driver}"}}\n'.encode(), 0o644)
    kernel = ["kernel-core = " + KERNEL_VERSION] if with_kernel else []
    daemons = []
    for package, program, unit in (
        ("nvidia-persistenced", "nvidia-persistenced", "nvidia-persistenced"),
        ("nvidia-fabricmanager", "nv-fabricmanager", "nvidia-fabricmanager"),
    ):
        daemon = part(package, epoch=3 if package == "nvidia-persistenced" else None)
        daemon.files[f"/usr/bin/{program}"] = (text_file(unit), 0o755)
        daemon.files[f"/usr/lib/systemd/system/{unit}.service"] = (text_file(f"{unit}.service"), 0o644)
        daemons.append(daemon)
    return [
        libraries,
        smi,
        module,
        part("nvidia-kmod-common"),
        part("nvidia-driver", same("nvidia-kmod-common")),
        part("nvidia-open", [*same("nvidia-driver", "nvidia-driver-cuda", "kmod-nvidia-open-dkms"), *kernel]),
        part("cuda-drivers", [f"nvidia-open >= 3:{driver}"], epoch=None),
        *daemons,
    ]


def toolkit_rpms(toolkit: str) -> list[Rpm]:
    series = ".".join(toolkit.split(".")[:2])
    dash = series.replace(".", "-")
    compiler = Rpm(f"cuda-nvcc-{dash}", toolkit, "1")
    compiler.files[f"/usr/local/cuda-{series}/bin/nvcc"] = (
        text_file("nvcc", SERIES=series, NVCC_VERSION=toolkit),
        0o755,
    )
    return [
        compiler,
        Rpm(f"cuda-compiler-{dash}", toolkit, "1", [f"cuda-nvcc-{dash} >= {toolkit}"]),
        Rpm(f"cuda-toolkit-{dash}", toolkit, "1", [f"cuda-compiler-{dash} >= {toolkit}"]),
        Rpm("cuda", toolkit, "1", [f"cuda-toolkit-{dash} >= {toolkit}", "cuda-drivers"]),
    ]


def base_rpms(headers: list[str]) -> list[Rpm]:
    """What stands for the distribution. A Debian kernel's name is no version for RPM: it is part of the name here."""
    dkms = Rpm("dkms", "3.0", "1")
    dkms.files["/usr/sbin/dkms"] = (text_file("dkms"), 0o755)
    kernel = Rpm("kernel-core", KERNEL_VERSION, "1")
    kernel.files[f"/boot/vmlinuz-{KERNEL_VERSION}"] = (b"Lab emulation: no kernel.\n", 0o644)
    # Where the distribution's python3 is older than SGLang takes. The program is Debian's.
    python = Rpm("python3.12", "3.12.1", "1")
    python.files["/usr/bin/python3.12"] = (b'#!/bin/sh\nexec /usr/bin/python3 "$@"\n', 0o755)
    return [
        dkms,
        kernel,
        python,
        Rpm("python3.12-devel", "3.12.1", "1", ["python3.12"]),
        *(Rpm(name, "1.0", "1") for name in ("gcc-c++", "numactl-libs", "python3-devel")),
        Rpm("kernel-headers", "1.0", "1"),
        # The plugin itself is Debian's.
        Rpm("python3-dnf-plugin-versionlock", "4.3", "1"),
        *(Rpm(f"kernel-devel-{name}", "1.0", "1") for name in headers),
    ]


def module_documents(packages: list[Rpm], streams: tuple[str, ...]) -> str:
    """Metadata of the module nvidia-driver. No stream is a default: one has to be chosen."""
    text = ""
    for stream in streams:
        artifacts = "".join(f"      - {package.nevra}\n" for package in packages)
        text += (
            "---\ndocument: modulemd\nversion: 2\ndata:\n"
            f'  name: nvidia-driver\n  stream: "{stream}"\n  version: 20260101000000\n'
            f"  context: {stream.encode().hex()[:8]}\n  arch: x86_64\n"
            f"  summary: Lab emulation of the module\n  description: Lab emulation of stream {stream}.\n"
            "  license:\n    module: [GPL-3.0-or-later]\n"
            f"  artifacts:\n    rpms:\n{artifacts}...\n"
        )
    return text


def publish(folder: Path, packages: list[Rpm], signer: Signer | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="llmfleet-rpm-") as scratch:
        for package in packages:
            package.build(folder, Path(scratch))
    if signer:
        files = sorted(str(path) for path in folder.glob("*.rpm"))
        names = {"_gpg_name": signer.key_id(), "_gpg_path": str(signer.home), "__gpg": shutil.which("gpg")}
        defines = [word for key, value in names.items() for word in ("--define", f"{key} {value}")]
        run(["rpmsign", "--addsign", *defines, *files], env={**os.environ, "GNUPGHOME": str(signer.home)})
        (folder / PUBLIC_KEY).write_text(signer.public_key(), encoding="ascii")
    run(["createrepo_c", "--quiet", str(folder)])


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--distribution", required=True, choices=sorted(STREAMS))
    parser.add_argument("--driver-version", action="append", metavar="X.Y.Z")
    parser.add_argument("--toolkit-version", action="append", metavar="X.Y.Z")
    parser.add_argument("--headers", action="append", default=[], metavar="KERNEL")
    parser.add_argument("--key-dir", required=True, type=Path, help="where the secret key is kept")
    parser.add_argument("--rotate-key", action="store_true")
    parser.add_argument("--with-kernel", action="store_true")
    arguments = parser.parse_args(argv)
    home = arguments.out.absolute() / arguments.distribution
    release = RELEASES[arguments.distribution]
    driver = []
    for version in sorted(arguments.driver_version or DRIVERS):
        driver += driver_rpms(version, release, arguments.with_kernel)
    toolkit = [rpm for version in sorted(arguments.toolkit_version or TOOLKITS) for rpm in toolkit_rpms(version)]
    with Signer(arguments.key_dir.absolute(), arguments.rotate_key) as signer:
        publish(home / "x86_64", driver + toolkit, signer)
    streams = STREAMS[arguments.distribution]
    if streams:
        with tempfile.TemporaryDirectory() as scratch:
            modules = Path(scratch) / "modules.yaml"
            modules.write_text(module_documents(driver, streams), encoding="utf-8")
            run(["modifyrepo_c", "--mdtype=modules", str(modules), str(home / "x86_64" / "repodata")])
    publish(home / "base", base_rpms(arguments.headers), None)
    print(f"built {home}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
