# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter that leaves of a lock what one Python on one kind of machine installs."""

from __future__ import annotations

import re

from ansible.errors import AnsibleFilterError

# ansible-core brings it; where only this file is looked at, it may be missing.
try:
    from packaging.requirements import InvalidRequirement, Requirement
except ImportError:
    Requirement = None

DOCUMENTATION = r"""
name: lock_for_python
short_description: Leave of a lock what one version of Python installs
version_added: 0.1.0
author: llmfleet contributors (@llmfleet)
description:
  - Evaluates the marker of each requirement for another machine than this one, a 64-bit x86 with Linux and CPython, and
    drops markers and what does not apply. pip cannot do it, it evaluates markers for the Python that it runs on.
positional: version
options:
  _input:
    description: Text of a lock, as C(uv pip compile --generate-hashes) writes it.
    type: str
    required: true
  version:
    description: Version of Python, such as V(3.12).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show what Python 3.12 installs
  ansible.builtin.debug:
    msg: "{{ lookup('ansible.builtin.file', 'lock.txt') | llmfleet.sglang.lock_for_python('3.12') }}"
"""

RETURN = r"""
_value:
  description: The lock without markers, one requirement with its hashes on a line.
  type: str
"""


def lock_for_python(text, version):
    """See DOCUMENTATION."""
    if not re.fullmatch(r"3\.\d+", str(version)):
        raise AnsibleFilterError(f"lock_for_python: {version!r} is no version of Python such as 3.12")
    if Requirement is None:
        raise AnsibleFilterError("lock_for_python: this Python has no packaging; install it beside ansible-core")
    target = {
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": "x86_64",
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        # The third part is unknown; what a lock tells apart are the second ones.
        "python_full_version": f"{version}.99",
        "python_version": str(version),
        "sys_platform": "linux",
    }
    kept = []
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():
        words = re.sub(r"(^|\s)#.*", "", line).strip()
        if not words or words.startswith("-"):
            continue
        name, *hashes = re.split(r"\s+(?=--hash=)", words)
        try:
            requirement = Requirement(name.strip())
        except InvalidRequirement as error:
            raise AnsibleFilterError(f"lock_for_python: {name!r} is no requirement: {error}") from error
        if requirement.marker is None or requirement.marker.evaluate(target):
            requirement.marker = None
            kept.append(" ".join([str(requirement), *(word.strip() for word in hashes)]))
    return "".join(f"{line}\n" for line in kept)


class FilterModule:
    """The filter lock_for_python."""

    def filters(self):
        """Return the filters by name."""
        return {"lock_for_python": lock_for_python}
