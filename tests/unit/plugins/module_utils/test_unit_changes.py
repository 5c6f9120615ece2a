# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which difference between two units needs a restart, and how it is told."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import unit_changes

UNIT = """# Made by a role.
[Unit]
Description=SGLang service kimi
After=network-online.target
StartLimitBurst=3

[Service]
Type=exec
User=sglang
RestartSec=60
TimeoutStopSec=300
LimitMEMLOCK=infinity
MemoryMax=600G
TasksMax=infinity
NoNewPrivileges=true
Environment=LANG=C.UTF-8
Environment="CACHE=/var/cache/a b"
ExecStartPre=-+/usr/bin/nvidia-modprobe -u
ExecStart=/opt/r/venv/bin/python -m sglang.launch_server \\
    --model-path /srv/m \\
    --hicache-ratio 4.0 \\
    --enable-metrics

[Install]
WantedBy=multi-user.target
"""
ENVIRONMENT = '# Variables\nHF_TOKEN="planted-4711"\nNCCL_P2P_LEVEL="SYS"\n'


def effects(old, new):
    """The effects of replacing one piece of the unit."""
    assert old in UNIT
    return [one["effect"] for one in unit_changes.changes_between(UNIT, UNIT.replace(old, new))]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# Made by a role.", "; Made by another."),
        (" \\\n    --hicache-ratio 4.0 \\\n", "  --hicache-ratio \\\n# a comment between\n 4.0 \\\n\\\n"),
        ("--hicache-ratio 4.0", '--hicache-ratio "4.0"'),
        ('"CACHE=/var/cache/a b"', "'CACHE=/var/cache/a b'"),
        ('LANG=C.UTF-8\nEnvironment="CACHE=/var/cache/a b"', '"CACHE=/var/cache/a b" LANG=C.UTF-8'),
        ("\n[Service]", "[Service]"),
    ],
)
def test_what_systemd_reads_the_same_is_no_change(old, new):
    assert effects(old, new) == []


@pytest.mark.parametrize(
    ("old", "new", "effect"),
    [
        ("Description=SGLang service kimi", "Description=another", "none"),
        ("[Service]", "Documentation=https://example.com\n[Service]", "none"),
        ("After=network-online.target", "After=network-online.target multi-user.target", "live"),
        ("StartLimitBurst=3", "StartLimitBurst=5", "live"),
        ("RestartSec=60", "RestartSec=90", "live"),
        ("TimeoutStopSec=300", "TimeoutStopSec=600", "live"),
        ("MemoryMax=600G", "MemoryMax=700G", "live"),
        ("MemoryMax=600G\n", "", "live"),
        ("TasksMax=infinity", "TasksMax=4096", "live"),
        ("Type=exec", "Type=exec\nCPUWeight=50\nAllowedCPUs=0-31", "live"),
        ("Type=exec", "Type=exec\nTimeoutStartSec=3630", "live"),
        ("nvidia-modprobe -u", "nvidia-modprobe -u -c=0", "live"),
        ("WantedBy=multi-user.target", "WantedBy=graphical.target", "live"),
        ("Type=exec", "Type=simple", "restart"),
        ("User=sglang", "User=other", "restart"),
        ("LimitMEMLOCK=infinity", "LimitMEMLOCK=1G", "restart"),
        ("NoNewPrivileges=true", "NoNewPrivileges=true\nCPUAffinity=0-31", "restart"),
        ("NoNewPrivileges=true", "NoNewPrivileges=true\nOOMScoreAdjust=-100", "restart"),
        ("NoNewPrivileges=true\n", "", "restart"),
        ("LANG=C.UTF-8", "LANG=C", "restart"),
        ("--hicache-ratio 4.0", "--hicache-ratio 2.0", "restart"),
        (" \\\n    --enable-metrics", "", "restart"),
        ("--hicache-ratio 4.0 \\\n    --enable-metrics", "--enable-metrics \\\n    --hicache-ratio 4.0", "restart"),
        ("/opt/r/venv", "/opt/s/venv", "restart"),
        # Of the same name in another section nothing is known.
        ("[Install]", "[Install]\nRestartSec=5", "restart"),
        ("[Install]", "[Slice]\nMemoryMax=1G\n[Install]", "restart"),
    ],
)
def test_what_a_change_needs(old, new, effect):
    assert set(effects(old, new)) == {effect}


def test_a_command_line_is_told_option_by_option():
    changed = UNIT.replace("4.0", "2.0").replace(" \\\n    --enable-metrics", ' \\\n    --served-model-name "a b"')
    found = unit_changes.changes_between(UNIT, changed)
    assert [(one["before"], one["after"]) for one in found] == [
        ("--hicache-ratio 4.0", "--hicache-ratio 2.0"),
        (None, '--served-model-name "a b"'),
        ("--enable-metrics", None),
    ]
    assert unit_changes.restart_reasons(found) == [
        "The command line changes from --hicache-ratio 4.0 to --hicache-ratio 2.0.",
        'The command line gets --served-model-name "a b".',
        "The command line loses --enable-metrics.",
    ]


def test_variables_of_the_file_are_told_without_their_values():
    changed = ENVIRONMENT.replace("4711", "4712").replace("NCCL_P2P_LEVEL", "NCCL_DEBUG")
    found = unit_changes.changes_between(UNIT, UNIT, ENVIRONMENT, changed)
    assert [(one["directive"], one["effect"]) for one in found] == [
        ("HF_TOKEN", "restart"),
        ("NCCL_DEBUG", "restart"),
        ("NCCL_P2P_LEVEL", "restart"),
    ]
    told = [*unit_changes.restart_reasons(found), unit_changes.environment_outline(changed, ENVIRONMENT), str(found)]
    assert "planted" not in "".join(told) and "SYS" not in "".join(told)
    assert told[0] == "The variable HF_TOKEN of the service's environment has another value."
    assert unit_changes.environment_outline(changed, ENVIRONMENT).splitlines() == [
        "HF_TOKEN=(hidden, another value)",
        "NCCL_DEBUG=(hidden)",
    ]
    assert unit_changes.changes_between(UNIT, UNIT, ENVIRONMENT, "; more\n" + ENVIRONMENT) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LANG=C.UTF-8", "API_KEY=planted-4711"),
        ("--enable-metrics", "--api-key planted-4711"),
        ("--enable-metrics", '--x "{\\"secret_access_key\\": \\"planted-4711\\"}"'),
        ("Type=exec", "Type=exec\nSetCredential=a:planted-4711"),
    ],
)
def test_secrets_of_a_unit_are_told_as_changed_and_not_shown(old, new):
    first = UNIT.replace(old, new)
    second = first.replace("planted-4711", "planted-4712")
    found = unit_changes.changes_between(first, second)
    assert [one["effect"] for one in found] == ["restart"]
    assert "planted" not in str(found)
    assert "planted" not in unit_changes.redacted_unit(first)
    assert "planted" in first


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a  b\tc", ["a", "b", "c"]),
        ('"a b" \'c d\' e"f g"', ["a b", "c d", "ef g"]),
        (r'"a\"b\\c\t" \s', ['a"b\\c\t', " "]),
        ('""', [""]),
        ("", []),
        ("100%% $$HOME", ["100%%", "$$HOME"]),
    ],
)
def test_words_are_split_as_systemd_does(text, words):
    assert unit_changes.words_of(text) == words
