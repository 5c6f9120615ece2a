# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lock for several Pythons becomes that of one, wherever it is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.llmfleet.sglang.plugins.filter.lock_for_python import lock_for_python

LOCKS = Path(__file__).resolve().parents[4] / "roles" / "sglang" / "files" / "locks"
LOCK = """# a comment
old==1 ; python_full_version < '3.12' and sys_platform == 'linux' \\
    --hash=sha256:aa \\
    --hash=sha256:bb
new==2 ; python_full_version >= '3.12' \\
    --hash=sha256:cc
other==3 ; sys_platform == 'darwin' --hash=sha256:dd
arm==4 ; platform_machine == 'aarch64' --hash=sha256:ee
plain[extra]==5
"""


@pytest.mark.parametrize(
    ("version", "first"), [("3.11", "old==1 --hash=sha256:aa --hash=sha256:bb"), ("3.12", "new==2 --hash=sha256:cc")]
)
def test_only_what_applies_stays_without_its_marker(version, first):
    assert lock_for_python(LOCK, version).splitlines() == [first, "plain[extra]==5"]


@pytest.mark.parametrize("lock", sorted(path.name for path in LOCKS.glob("sglang-*.txt")))
def test_a_shipped_lock_has_everything_once_with_hashes_for_both_pythons(lock):
    release = lock[len("sglang-") : -len(".txt")]
    for version in ("3.11", "3.12"):
        lines = lock_for_python((LOCKS / lock).read_text(), version).splitlines()
        names = [line.split("==")[0] for line in lines]
        assert len(names) == len(set(names)) > 200
        assert [line for line in lines if "--hash=sha256:" not in line] == []
        assert any(line.startswith(f"sglang=={release} ") for line in lines)
    # What has no wheels there must not look like a lock for it.
    assert lock_for_python((LOCKS / lock).read_text(), "3.13") == ""


@pytest.mark.parametrize(("text", "version"), [("a==1", "3"), ("a==1", "latest"), ("a=b=c", "3.12")])
def test_nonsense_is_refused(text, version):
    with pytest.raises(AnsibleFilterError):
        lock_for_python(text, version)
