# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on what runs the host: kernel, boot, clock, journal."""

from __future__ import annotations

from ..module_utils import journald_conf
from .preflight_rule import ERROR, GPUS, WARNING, Finding, listed, rule
from .release_needs import version_key

INFO = 6
# What role serve writes into its units.
ROLE_BURST = 100_000_000


@rule("clock", WARNING)
def _clock(look):
    if look.host["clock"]["synchronized"] is not False:
        return None
    return Finding(
        "the kernel calls the clock unsynchronised",
        "a clock that a time server disciplines, for certificates and for times in the journal",
        "Enable systemd-timesyncd or chrony, and see `timedatectl`.",
    )


@rule("journal_storage", "error warning")
def _journal_storage(look):
    storage = look.host["journal"]["storage"]
    if storage == "persistent":
        return None
    if storage == "none":
        return Finding(
            "journald keeps no messages (Storage=none)",
            "a journal, from which the start is verified",
            "Set Storage=persistent in /etc/systemd/journald.conf and restart systemd-journald.",
            ERROR if look.flag("journal_required") else WARNING,
        )
    return Finding(
        "the journal is lost with the next boot (Storage=volatile, or auto without /var/log/journal)",
        "a persistent journal: why a host went down is told by messages from before",
        "Make /var/log/journal, or set Storage=persistent in /etc/systemd/journald.conf; restart systemd-journald.",
        WARNING,
    )


@rule("journal_level", "error warning")
def _journal_level(look):
    level = look.host["journal"]["max_level"]
    if level is None or level >= INFO:
        return None
    return Finding(
        f"journald drops messages above level {level} (MaxLevelStore)",
        "level info (6): SGLang's lines have it, and the start is verified from them",
        "Set MaxLevelStore=debug in /etc/systemd/journald.conf and restart systemd-journald.",
        ERROR if look.flag("journal_required") else WARNING,
    )


@rule("journal_rate_limit", WARNING)
def _journal_rate_limit(look):
    """The unit has a limit that no service reaches; journald's counts only where an operator takes that back."""
    service = look.settings["unit_directives"].get("Service") or {}
    interval, burst = service.get("LogRateLimitIntervalSec", 1), service.get("LogRateLimitBurst", ROLE_BURST)
    journal = look.host["journal"]
    # systemd hands no 0 on to journald, so that in a unit it means the same as nothing.
    seconds = journald_conf.seconds(str(interval or 0)) or journal["rate_limit_seconds"]
    burst = int(burst or 0) or journal["rate_limit_burst"]
    # In journald's own configuration, 0 switches the limit off, in either of the two.
    if not seconds or not burst or burst >= look.number("min_journal_burst"):
        return None
    return Finding(
        f"serve_unit_directives leaves a limit on the service's messages: {burst} in {seconds:g} s",
        look.least("min_journal_burst"),
        "Leave LogRateLimitIntervalSec and LogRateLimitBurst as the role has them.",
    )


@rule("kernel_bug", WARNING)
def _kernel_bug(look):
    release = look.host["kernel"]["release"]
    if release is None:
        return None
    # 6.12.48+deb13-amd64 and 6.8.0-79-generic: what follows the dots is the distribution's own count.
    seen = version_key(release.replace("-", "+"))
    for bug in look.settings["kernel_bugs"]:
        if version_key(bug["first"]) <= seen < version_key(bug["fixed"]):
            return Finding(
                f"kernel {release}: {bug['problem']}",
                f"a kernel before {bug['first']}, or {bug['fixed']} or newer (preflight_kernel_bugs)",
                "Install another kernel of the distribution and restart, or shorten the list if yours has the fix.",
            )
    return None


@rule("kernel_headers", "error warning", "main gpus")
def _kernel_headers(look):
    kernel = look.host["kernel"]
    if not look.asks_driver or look.driver_works or kernel["release"] is None or kernel["headers_installed"]:
        return None
    comes = look.flag("driver_install_enabled") and look.flag("headers_install_enabled")
    if look.entry != GPUS and comes and kernel["headers_offered"] is not False:
        return None
    seen = f"no headers of the running kernel {kernel['release']}, and the driver's module has still to be built"
    if kernel["headers_offered"] is False:
        seen += "; apt's lists do not offer them"
    return Finding(
        seen,
        f"the package linux-headers-{kernel['release']}, or kernel-devel of this version",
        "Update the package lists; where the kernel is too old for the archive, install its newest and restart.",
        look.driver_level,
    )


@rule("restart_pending", WARNING)
def _restart_pending(look):
    if not look.host["restart_pending"]:
        return None
    return Finding(
        "the distribution asks for a restart (/run/reboot-required)",
        "a host that runs what is installed: the next restart brings another kernel, or another driver",
        "Restart it now, before the service is there.",
    )


@rule("secure_boot", ERROR, "main gpus")
def _secure_boot(look):
    state = look.host["secure_boot"]
    if not look.asks_driver or look.driver_works or not state["enabled"] or state["key_enrolled"]:
        return None
    return Finding(
        "Secure Boot is on, and the key that DKMS signs with is not enrolled",
        "a kernel that loads the module which is built on the host",
        "Turn Secure Boot off in the firmware, or enrol the key (`mokutil --import /var/lib/dkms/mok.pub`, then "
        "confirm at the console).",
    )


@rule("iommu", WARNING)
def _iommu(look):
    if not look.flag("gpu_required") or not look.flag("peer_access_required") or len(look.gpus["pci_gpus"]) < 2:
        return None
    translated = [gpu for gpu in look.gpus["pci_gpus"] if (gpu["iommu"] or "").upper().startswith("DMA")]
    if not translated:
        return None
    return Finding(
        f"the IOMMU translates addresses of {len(translated)} GPUs ({listed(gpu['iommu'] for gpu in translated)})",
        "GPUs that reach each other directly: NCCL may hang at its start",
        'Add iommu=pt to the kernel\'s parameters (or amd_iommu=off) and restart; or set NCCL_P2P_DISABLE: "1" in '
        "serve_environment.",
    )


@rule("acs", WARNING)
def _acs(look):
    if not look.flag("gpu_required") or not look.flag("peer_access_required") or len(look.gpus["pci_gpus"]) < 2:
        return None
    bridges = list(dict.fromkeys(name for gpu in look.gpus["pci_gpus"] for name in gpu["acs_bridges"]))
    if not bridges:
        return None
    return Finding(
        f"{len(bridges)} PCIe bridges above the GPUs send their traffic up to the root complex (ACS): "
        f"{listed(bridges[:4])}{f' and {len(bridges) - 4} more' if len(bridges) > 4 else ''}",
        "GPUs that reach each other directly: NCCL is slow or hangs otherwise",
        'Turn ACS off in the firmware or with setpci; or set NCCL_P2P_DISABLE: "1" in serve_environment.',
    )
