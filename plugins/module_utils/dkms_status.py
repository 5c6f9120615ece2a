# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what ``dkms status`` prints.

Pure functions on text. The form is that of dkms 2 ("nvidia, 470.57.02, 5.4.0-80-generic, x86_64: installed") and of
dkms 3 ("nvidia/580.126.09, 6.1.0-27-amd64, x86_64: installed"). A module that was only added names no kernel.
"""

from __future__ import annotations

import re

_LINE = re.compile(
    r"^(?P<module>[^\s,/:]+)(?:/|, )(?P<version>[^\s,:]+)"
    r"(?:, (?P<kernel>[^\s,:]+), (?P<architecture>[^\s,:]+))?"
    r"\s*: (?P<state>[a-z-]+)(?P<remark>.*)$"
)


def parse_dkms_status(text):
    """Turn the output into a list of dictionaries, one per line that names a module.

    Keys: ``module``, ``version``, ``kernel`` and ``architecture`` (None where the module was only added), ``state``
    (added, built, installed, broken, ...), and ``remark``: what stands behind it in brackets, for example a warning
    that the module on disk is not the one that was built. Lines of another form are left out.
    """
    modules = []
    for line in text.splitlines():
        found = _LINE.match(line.strip())
        if found:
            row = found.groupdict()
            row["remark"] = row["remark"].strip()
            modules.append(row)
    return modules


def module_problem(text, kernel, version=None):
    """Why DKMS has no NVIDIA module of that version for that kernel, as the middle of a sentence; "" when it has.

    :param text: what ``dkms status`` printed.
    :param kernel: the running kernel, as ``uname -r`` names it.
    :param version: the driver's version; None or "" takes any.

    A status without any NVIDIA module is no problem: precompiled modules need no DKMS.
    """
    nvidia = [row for row in parse_dkms_status(text) if row["module"].split("-")[0] == "nvidia"]
    if not nvidia:
        return ""
    same = [row for row in nvidia if not version or row["version"] == version]
    if not same:
        others = ", ".join(sorted({row["version"] for row in nvidia}))
        return f"dkms knows the NVIDIA module in version {others}, and not in {version}"
    here = [row for row in same if row["kernel"] == kernel]
    name = f"{same[0]['module']}/{same[0]['version']}"
    if not here:
        kernels = ", ".join(sorted({row["kernel"] for row in same if row["kernel"]}))
        return f"dkms built {name} for {kernels or 'no kernel'}, and not for {kernel}, which is running"
    if not any(row["state"] == "installed" for row in here):
        return f"dkms says of {name} for {kernel}: {here[0]['state']}, which is not installed"
    remarks = [row["remark"] for row in here if "WARNING" in row["remark"]]
    if remarks:
        return f"dkms says of {name} for {kernel}: installed {remarks[0]}"
    return ""
