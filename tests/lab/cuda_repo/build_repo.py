#!/usr/bin/env python3
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the signed apt repository that stands for NVIDIA's in the lab.

The packages have the names, the version scheme and the dependencies of NVIDIA's repository as far as the
`cuda` role sees them, and hold only small scripts of this project: no driver, no CUDA, nothing of NVIDIA.

    build_repo.py --out /srv/www/cuda --distribution debian12

makes the flat repository /srv/www/cuda/debian12/x86_64 with the public key at llmfleet-lab.pub beside the index.
An --out that already ends with "<distribution>/<architecture>" is taken as the repository itself.

The finished tree is swapped in by renaming one symbolic link, so that a reader never meets half a repository, and
an interrupted build leaves only a directory that the next build removes. A build of the same content is a no-op.
The signing key stays below --key-dir between builds (default: .signing-key beside the distributions).
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from email.utils import formatdate
from pathlib import Path

FILES = Path(__file__).resolve().parent / "files"
DISTRIBUTIONS = {"debian12": "-1", "debian13": "-1", "ubuntu2204": "-0ubuntu1", "ubuntu2404": "-0ubuntu1"}
DRIVERS = ("580.105.08", "580.126.09")
TOOLKITS = ("13.0.1", "13.0.2")
NVCC_OF_TOOLKIT = {"13.0.0": "13.0.48", "13.0.1": "13.0.85", "13.0.2": "13.0.88"}
MAINTAINER = "llmfleet lab <lab@llmfleet.invalid>"
KEY_NAME = "llmfleet lab signing key (emulated hardware) <lab@llmfleet.invalid>"
PUBLIC_KEY = "llmfleet-lab.pub"
KERNEL_NAME = "linux-image-9.99.0-lab"
COMPLETE = ".complete"
# One fixed time for all members of the packages: the same sources give the same files.
EPOCH = 1767225600


class Package:
    """One binary package: control fields, files (path -> (content, mode)), links and maintainer scripts."""

    def __init__(self, name, version, summary, depends=(), architecture="amd64", section="non-free/utils"):
        self.name = name
        self.version = version
        self.architecture = architecture
        self.fields = {
            "Package": name,
            "Version": version,
            "Architecture": architecture,
            "Maintainer": MAINTAINER,
            "Section": section,
            "Priority": "optional",
        }
        if depends:
            self.fields["Depends"] = ", ".join(depends)
        self.description = (
            f"{summary} (lab emulation)\n"
            " Lab emulation, no driver inside: an empty package or a small script that lets the\n"
            " llmfleet.sglang collection be tested on hosts without a GPU."
        )
        self.files: dict[str, tuple[bytes, int]] = {}
        self.links: dict[str, str] = {}
        self.scripts: dict[str, str] = {}
        self.conffiles: list[str] = []

    @property
    def file_name(self) -> str:
        return f"{self.name}_{self.version}_{self.architecture}.deb"

    def control(self) -> str:
        lines = [f"{key}: {value}" for key, value in self.fields.items()]
        return "\n".join([*lines, f"Description: {self.description}"]) + "\n"

    def build(self, folder: Path, scratch: Path) -> Path:
        root = Path(tempfile.mkdtemp(dir=scratch))
        control = root / "DEBIAN"
        control.mkdir()
        (control / "control").write_text(self.control(), encoding="utf-8")
        if self.conffiles:
            (control / "conffiles").write_text("\n".join(self.conffiles) + "\n", encoding="utf-8")
        for name, text in self.scripts.items():
            (control / name).write_text(text, encoding="utf-8")
            (control / name).chmod(0o755)
        for path, (content, mode) in self.files.items():
            target = root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(mode)
        for path, destination in self.links.items():
            target = root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(destination)
        for directory in [root, *(p for p in root.rglob("*") if p.is_dir() and not p.is_symlink())]:
            directory.chmod(0o755)
        result = folder / self.file_name
        run(
            ["dpkg-deb", "--build", "--root-owner-group", "-Zgzip", "-z1", str(root), str(result)],
            env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)},
        )
        shutil.rmtree(root)
        return result


def run(argv: list[str], **options) -> subprocess.CompletedProcess:
    done = subprocess.run(argv, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise SystemExit(f"build_repo: {' '.join(argv[:3])} ... failed ({done.returncode}): {done.stderr.strip()}")
    return done


def text_file(name: str, **values: str) -> bytes:
    text = (FILES / name).read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text.encode("utf-8")


def module_files(package: Package, driver: str) -> None:
    """What stands for the module's source. Configuring it fails where the host's lab settings ask for it."""
    package.files["/usr/share/llmfleet-lab/nvidia-module.json"] = (f'{{"version": "{driver}"}}\n'.encode(), 0o644)
    package.files[f"/usr/src/nvidia-{driver}/README"] = (b"Lab emulation: no module source here.\n", 0o644)
    package.scripts["postinst"] = (
        "#!/bin/sh\nset -e\n"
        'if [ "$1" = configure ] && [ -e /etc/llmfleet-lab/build-fails ]; then\n'
        "  echo 'Error! Bad return status for module build (lab emulation)' >&2\n  exit 10\nfi\n"
    )


def smi_files(package: Package) -> None:
    package.files["/usr/bin/nvidia-smi"] = (text_file("nvidia-smi"), 0o755)


def library_files(package: Package, driver: str) -> None:
    package.files["/usr/share/llmfleet-lab/nvidia-library.json"] = (f'{{"version": "{driver}"}}\n'.encode(), 0o644)


def daemon_files(package: Package, name: str) -> None:
    package.files[f"/usr/bin/{'nv-fabricmanager' if 'fabric' in name else name}"] = (text_file(name), 0o755)
    package.files[f"/usr/lib/systemd/system/{name}.service"] = (text_file(f"{name}.service"), 0o644)


def daemon_packages(driver: str, version: str, smi: str) -> list[Package]:
    """Daemons that are no part of the metapackage, and the names that the role must never ask for."""
    persistenced = Package("nvidia-persistenced", version, "Daemon that keeps the driver state", [smi])
    daemon_files(persistenced, "nvidia-persistenced")
    # NVIDIA does not build the fabric manager with the driver: its revision is its own, on Ubuntu too.
    fabric = Package("nvidia-fabricmanager", f"{driver}-1", "Fabric manager for NVSwitch based systems")
    fabric.fields["Provides"] = f"nvidia-fabricmanager-{driver.split('.')[0]}"
    daemon_files(fabric, "nvidia-fabricmanager")
    return [
        persistenced,
        fabric,
        Package("cuda-drivers", version, "NVIDIA driver metapackage of CUDA", [f"nvidia-open (>= {version})"]),
    ]


def debian_driver_packages(driver: str, version: str, more: list[str]) -> list[Package]:
    """The compute half of a driver release for Debian. NVIDIA ties its parts to each other by exact versions."""

    def same(*names: str) -> list[str]:
        return [f"{name} (= {version})" for name in names]

    library = Package("libnvidia-ml1", version, "NVIDIA management library", section="non-free/libs")
    library_files(library, driver)
    kernel = Package(
        "nvidia-kernel-open-dkms",
        version,
        "Open NVIDIA kernel modules",
        [*same("firmware-nvidia-gsp"), "llmfleet-lab-dkms"],
        section="contrib/kernel",
    )
    module_files(kernel, driver)
    smi = Package("nvidia-smi", version, "NVIDIA system management interface", [*same("libnvidia-ml1"), "python3"])
    smi_files(smi)
    return [
        library,
        kernel,
        smi,
        Package("firmware-nvidia-gsp", version, "GSP firmware", section="non-free/kernel"),
        Package("libcuda1", version, "NVIDIA CUDA driver library", section="non-free/libs"),
        Package("nvidia-modprobe", version, "Utility that loads the NVIDIA modules"),
        Package(
            "nvidia-driver-cuda",
            version,
            "NVIDIA driver for computing",
            [*same("libcuda1", "libnvidia-ml1", "nvidia-smi"), f"nvidia-persistenced (= {version})", "nvidia-modprobe"],
        ),
        Package("nvidia-driver", version, "NVIDIA driver metapackage", same("libnvidia-ml1", "firmware-nvidia-gsp")),
        Package(
            "nvidia-open",
            version,
            "NVIDIA driver with open kernel modules, metapackage",
            [*same("nvidia-driver", "nvidia-driver-cuda", "nvidia-kernel-open-dkms"), *more],
        ),
        *daemon_packages(driver, version, f"nvidia-smi (>= {version})"),
    ]


def ubuntu_driver_packages(driver: str, version: str, more: list[str]) -> list[Package]:
    """The same for Ubuntu, where the names of branches up to 580 hold the branch."""
    branch = driver.split(".")[0]

    def same(*names: str) -> list[str]:
        return [f"{name} (= {version})" for name in names]

    library = Package(f"libnvidia-compute-{branch}", version, "NVIDIA libcompute package", section="non-free/libs")
    library_files(library, driver)
    kernel = Package(
        f"nvidia-dkms-{branch}-open",
        version,
        "NVIDIA DKMS package (open kernel module)",
        [*same(f"nvidia-kernel-common-{branch}", f"nvidia-kernel-source-{branch}-open"), "llmfleet-lab-dkms"],
    )
    module_files(kernel, driver)
    smi = Package(
        f"nvidia-utils-{branch}",
        version,
        "NVIDIA driver support binaries",
        [*same(f"libnvidia-compute-{branch}"), "python3"],
    )
    smi_files(smi)
    return [
        library,
        kernel,
        smi,
        Package(f"nvidia-firmware-{branch}-{driver}", version, "Firmware files used by the kernel module"),
        Package(
            f"nvidia-kernel-common-{branch}",
            version,
            "Shared files used with the kernel module",
            same(f"nvidia-firmware-{branch}-{driver}"),
        ),
        Package(f"nvidia-kernel-source-{branch}-open", version, "NVIDIA kernel source package"),
        Package(f"libnvidia-cfg1-{branch}", version, "NVIDIA binary configuration library"),
        Package("nvidia-modprobe", version, "Utility that loads the NVIDIA modules"),
        Package(
            f"nvidia-compute-utils-{branch}", version, "NVIDIA compute utilities", same(f"libnvidia-compute-{branch}")
        ),
        Package(
            f"nvidia-driver-{branch}-open",
            version,
            "NVIDIA driver (open kernel) metapackage",
            [
                *same(
                    f"nvidia-dkms-{branch}-open",
                    f"nvidia-compute-utils-{branch}",
                    f"nvidia-utils-{branch}",
                    f"libnvidia-cfg1-{branch}",
                ),
                "nvidia-modprobe",
            ],
        ),
        Package(
            f"nvidia-open-{branch}", version, "NVIDIA open driver of one branch", same(f"nvidia-driver-{branch}-open")
        ),
        Package("nvidia-open", version, "NVIDIA open driver, metapackage", [*same(f"nvidia-open-{branch}"), *more]),
        *daemon_packages(driver, version, f"nvidia-utils-{branch} (>= {version})"),
    ]


def driver_packages(distribution: str, driver: str, with_kernel: bool) -> list[Package]:
    layout = ubuntu_driver_packages if distribution.startswith("ubuntu") else debian_driver_packages
    return layout(driver, driver + DISTRIBUTIONS[distribution], [KERNEL_NAME] if with_kernel else [])


def other_packages(with_kernel: bool, headers: list[str]) -> list[Package]:
    """What is not NVIDIA's: the tool that builds modules, headers of a kernel, and a kernel that nobody asked for.

    The driver names the tool by the name that only the lab has: apt would rather take the real one, with a compiler.
    """
    dkms = Package("llmfleet-lab-dkms", "1.0", "Dynamic kernel module support", architecture="all", section="kernel")
    dkms.fields["Provides"] = dkms.fields["Conflicts"] = "dkms"
    dkms.files["/usr/sbin/dkms"] = (text_file("dkms"), 0o755)
    packages = [dkms]
    packages += [
        Package(f"linux-headers-{kernel}", "1.0", "Headers of a kernel", section="kernel") for kernel in headers
    ]
    if with_kernel:
        kernel = Package(KERNEL_NAME, "1.0", "A kernel", section="kernel")
        kernel.files[f"/boot/{KERNEL_NAME.replace('linux-image', 'vmlinuz')}"] = (b"Lab emulation: no kernel.\n", 0o644)
        packages.append(kernel)
    return packages


def toolkit_packages(toolkit: str) -> list[Package]:
    """The parts of one toolkit release that a just-in-time build touches."""
    series = ".".join(toolkit.split(".")[:2])
    dash = series.replace(".", "-")
    home = f"/usr/local/cuda-{series}"
    nvcc_version = NVCC_OF_TOOLKIT.get(toolkit, toolkit)
    section = "multiverse/devel"
    version, nvcc = f"{toolkit}-1", f"{nvcc_version}-1"
    config = Package(
        f"cuda-toolkit-{dash}-config-common", version, "Paths of the toolkit", architecture="all", section=section
    )
    config.files["/etc/ld.so.conf.d/989_cuda-13.conf"] = (f"{home}/targets/x86_64-linux/lib\n".encode(), 0o644)
    config.conffiles = ["/etc/ld.so.conf.d/989_cuda-13.conf"]
    config.scripts["postinst"] = (
        '#!/bin/sh\nset -e\nif [ "$1" = configure ]; then\n'
        f"  update-alternatives --quiet --install /usr/local/cuda cuda {home} {series.replace('.', '')}\nfi\n"
    )
    config.scripts["prerm"] = (
        f'#!/bin/sh\nset -e\nif [ "$1" = remove ]; then\n  update-alternatives --quiet --remove cuda {home}\nfi\n'
    )
    compiler = Package(
        f"cuda-nvcc-{dash}",
        nvcc,
        "CUDA compiler",
        [f"cuda-toolkit-{dash}-config-common", f"cuda-crt-{dash}"],
        section=section,
    )
    compiler.files[f"{home}/bin/nvcc"] = (text_file("nvcc", SERIES=series, NVCC_VERSION=nvcc_version), 0o755)
    runtime = Package(
        f"cuda-cudart-{dash}", nvcc, "CUDA runtime library", [f"cuda-toolkit-{dash}-config-common"], section=section
    )
    runtime.files[f"{home}/targets/x86_64-linux/lib/README"] = (b"Lab emulation: no libraries here.\n", 0o644)
    runtime.links[f"{home}/lib64"] = "targets/x86_64-linux/lib"
    metapackage = Package(
        f"cuda-toolkit-{dash}",
        version,
        "CUDA toolkit metapackage",
        [f"cuda-compiler-{dash} (>= {version})", f"cuda-libraries-{dash} (>= {version})"],
        section=section,
    )
    metapackage.files[f"{home}/version.json"] = (
        f'{{"cuda": {{"name": "CUDA SDK (lab emulation)", "version": "{toolkit}"}}}}\n'.encode(),
        0o644,
    )
    return [
        config,
        compiler,
        runtime,
        metapackage,
        Package(f"cuda-crt-{dash}", nvcc, "CUDA compiler headers", section=section),
        Package(
            f"cuda-compiler-{dash}",
            version,
            "CUDA compiler metapackage",
            [f"cuda-nvcc-{dash} (>= {nvcc})"],
            section=section,
        ),
        Package(
            f"cuda-libraries-{dash}",
            version,
            "CUDA libraries metapackage",
            [f"cuda-cudart-{dash} (>= {nvcc})"],
            section=section,
        ),
        Package(
            "cuda",
            version,
            "CUDA metapackage",
            [f"cuda-toolkit-{dash} (>= {version})", "cuda-drivers"],
            section=section,
        ),
    ]


def keyring_package(distribution: str, architecture: str, public_key: bytes) -> Package:
    """Like the real package it leaves its own source entry, which an older install may have left on a host."""
    package = Package("cuda-keyring", "1.1-1", "Key and source entry of the CUDA repository", architecture="all")
    entry = f"/etc/apt/sources.list.d/cuda-{distribution}-{architecture}.list"
    keyring = "/usr/share/keyrings/cuda-archive-keyring.gpg"
    address = f"https://developer.download.nvidia.com/compute/cuda/repos/{distribution}/{architecture}/"
    package.files[entry] = (f"deb [signed-by={keyring}] {address} /\n".encode(), 0o644)
    package.files[keyring] = (public_key, 0o644)
    package.conffiles = [entry]
    return package


class Signer:
    """A GnuPG home below a short temporary path; only the secret key itself is kept between builds."""

    def __init__(self, key_dir: Path, rotate: bool):
        self.secret = key_dir / "secret.asc"
        self.rotate = rotate
        self.key_dir = key_dir

    def __enter__(self):
        self.home = Path(tempfile.mkdtemp(prefix="llmfleet-gpg-", dir="/tmp"))
        if self.secret.exists() and not self.rotate:
            self.gpg("--import", str(self.secret))
        else:
            self.gpg("--passphrase", "", "--quick-generate-key", KEY_NAME, "rsa3072", "sign", "never")
            self.key_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh = self.secret.with_suffix(".new")
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as stream:
                stream.write(self.gpg("--armor", "--export-secret-keys").stdout)
            fresh.replace(self.secret)
        return self

    def __exit__(self, *_details):
        subprocess.run(["gpgconf", "--homedir", str(self.home), "--kill", "all"], capture_output=True)
        shutil.rmtree(self.home, ignore_errors=True)

    def gpg(self, *arguments: str) -> subprocess.CompletedProcess:
        return run(["gpg", "--homedir", str(self.home), "--batch", "--quiet", "--yes", *arguments])

    def public_key(self) -> str:
        return self.gpg("--armor", "--export").stdout

    def key_id(self) -> str:
        colons = self.gpg("--list-keys", "--with-colons").stdout
        return next(line.split(":")[9] for line in colons.splitlines() if line.startswith("fpr:"))

    def sign(self, release: Path) -> None:
        digest = ("--digest-algo", "SHA512")
        self.gpg(*digest, "--clearsign", "--output", str(release.with_name("InRelease")), str(release))
        self.gpg(*digest, "--armor", "--detach-sign", "--output", str(release.with_name("Release.gpg")), str(release))


def write_index(folder: Path, packages: list[Package], distribution: str) -> None:
    stanzas = []
    for package in sorted(packages, key=lambda p: (p.name, p.version)):
        content = (folder / package.file_name).read_bytes()
        control, _, description = package.control().partition("Description: ")
        stanzas.append(
            f"{control}Filename: ./{package.file_name}\nSize: {len(content)}\n"
            f"MD5sum: {hashlib.md5(content).hexdigest()}\nSHA256: {hashlib.sha256(content).hexdigest()}\n"
            f"Description: {description}"
        )
    index = "\n".join(stanzas).encode("utf-8")
    (folder / "Packages").write_bytes(index)
    (folder / "Packages.gz").write_bytes(gzip.compress(index, 6, mtime=EPOCH))
    lines = [
        "Origin: llmfleet-lab",
        f"Label: emulated CUDA repository for {distribution}",
        "Architectures: amd64",
        f"Date: {formatdate(time.time(), usegmt=True).replace('GMT', 'UTC')}",
        "Description: lab emulation, no driver inside",
        "SHA256:",
    ]
    for name in ("Packages", "Packages.gz"):
        content = (folder / name).read_bytes()
        lines.append(f" {hashlib.sha256(content).hexdigest()} {len(content):>10} {name}")
    (folder / "Release").write_text("\n".join(lines) + "\n", encoding="utf-8")


def content_id(arguments: argparse.Namespace, public_key: str) -> str:
    digest = hashlib.sha256(public_key.encode("ascii"))
    for path in [Path(__file__), *sorted(FILES.iterdir())]:
        digest.update(path.name.encode() + path.read_bytes())
    wanted = (arguments.distribution, arguments.driver_version, arguments.toolkit_version)
    digest.update(repr((*wanted, arguments.with_kernel, arguments.headers)).encode())
    return digest.hexdigest()[:12]


def swap_in(link: Path, target: Path) -> None:
    fresh = link.with_name(f".{link.name}.link")
    with contextlib.suppress(FileNotFoundError):
        fresh.unlink()
    fresh.symlink_to(target.name)
    if link.is_dir() and not link.is_symlink():
        shutil.rmtree(link)
    fresh.replace(link)
    for other in link.parent.glob(f".{link.name}-*"):
        if other != target:
            shutil.rmtree(other, ignore_errors=True)


def build(arguments: argparse.Namespace, repository: Path, key_dir: Path) -> str:
    with Signer(key_dir, arguments.rotate_key) as signer:
        public_key = signer.public_key()
        final = repository.with_name(f".{repository.name}-{content_id(arguments, public_key)}")
        if (final / COMPLETE).exists() and repository.is_symlink() and repository.resolve() == final.resolve():
            return "unchanged"
        packages = other_packages(arguments.with_kernel, arguments.headers)
        for version in arguments.driver_version:
            packages += driver_packages(arguments.distribution, version, arguments.with_kernel)
        packages += [package for version in arguments.toolkit_version for package in toolkit_packages(version)]
        binary_key = run(["gpg", "--homedir", str(signer.home), "--batch", "--export"], encoding="latin-1").stdout
        packages.append(keyring_package(arguments.distribution, arguments.architecture, binary_key.encode("latin-1")))
        shutil.rmtree(final, ignore_errors=True)
        final.mkdir()
        with tempfile.TemporaryDirectory(prefix="llmfleet-deb-") as scratch:
            for package in packages:
                package.build(final, Path(scratch))
        write_index(final, packages, arguments.distribution)
        signer.sign(final / "Release")
        (final / PUBLIC_KEY).write_text(public_key, encoding="ascii")
        (final / COMPLETE).touch()
        swap_in(repository, final)
    return "built"


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--out", required=True, type=Path, help="folder of the repositories, DISTRIBUTION/ARCH is made below"
    )
    parser.add_argument("--distribution", required=True, choices=sorted(DISTRIBUTIONS))
    parser.add_argument("--architecture", default="x86_64", choices=["x86_64"], help="folder name that NVIDIA uses")
    parser.add_argument(
        "--driver-version", action="append", metavar="X.Y.Z", help=f"repeatable; default: {' and '.join(DRIVERS)}"
    )
    parser.add_argument(
        "--toolkit-version", action="append", metavar="X.Y.Z", help=f"repeatable; default: {' and '.join(TOOLKITS)}"
    )
    parser.add_argument("--key-dir", type=Path, help="where the secret key is kept (default: OUT/.signing-key)")
    parser.add_argument("--rotate-key", action="store_true", help="make a new signing key")
    parser.add_argument("--with-kernel", action="store_true", help="let nvidia-open bring another kernel")
    parser.add_argument(
        "--headers", action="append", default=[], metavar="KERNEL", help="repeatable; offer headers of this kernel"
    )
    arguments = parser.parse_args(argv)
    arguments.driver_version = sorted(set(arguments.driver_version or DRIVERS))
    arguments.toolkit_version = sorted(set(arguments.toolkit_version or TOOLKITS))
    for option in ("driver_version", "toolkit_version"):
        for version in getattr(arguments, option):
            if not all(part.isdigit() for part in version.split(".")) or version.count(".") != 2:
                parser.error(f"--{option.replace('_', '-')} {version}: give three numbers, for example 580.126.09")
    return arguments


def main(argv: list[str]) -> int:
    arguments = parse(argv)
    out = arguments.out.absolute()
    if out.parts[-2:] == (arguments.distribution, arguments.architecture):
        out = out.parent.parent
    repository = out / arguments.distribution / arguments.architecture
    repository.parent.mkdir(parents=True, exist_ok=True)
    key_dir = arguments.key_dir.absolute() if arguments.key_dir else out / ".signing-key"
    with open(out / ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        outcome = build(arguments, repository, key_dir)
    print(
        f"{outcome} {repository} drivers={','.join(arguments.driver_version)} "
        f"toolkits={','.join(arguments.toolkit_version)} key={repository / PUBLIC_KEY}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
