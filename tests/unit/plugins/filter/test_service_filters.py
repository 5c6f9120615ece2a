# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters of a service, as Ansible's templates call them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.llmfleet.sglang.plugins.filter import (
    engine_argv,
    engine_environment,
    settings_problems,
    systemd_quote,
)

ROOT = Path(__file__).resolve().parents[4]

PLAYBOOK = """
- hosts: localhost
  gather_facts: false
  vars:
    base: 30000
    mistyped: {context-lenght: 8}
    settings:
      name: tiny
      model_path: /srv/{{ name_of_model }}
      host: 127.0.0.1
      port: "{{ base + 1 }}"
      tensor_parallel_size: 2
      speculative_enabled: true
      speculative_algorithm: EAGLE3
      speculative_eagle_topk: 1
      draft_model_path: /srv/tiny-eagle3
      engine_options: {json-model-override-args: {n: "{{ base }}"}}
    name_of_model: tiny
    seen:
      argv: "{{ settings | llmfleet.sglang.engine_argv('0.5.23') }}"
      environment: "{{ settings | llmfleet.sglang.engine_environment('0.5.13') }}"
      found: "{{ settings | llmfleet.sglang.settings_problems('0.5.23') }}"
      problems: >-
        {{ settings | combine({'engine_options': mistyped})
           | llmfleet.sglang.settings_problems('0.5.23', prefix='my_') | map(attribute='message') }}
      argument: "{{ '100% $HOME' | llmfleet.sglang.systemd_quote }}"
      assignment: "{{ '100% $HOME' | llmfleet.sglang.systemd_quote('environment', 'A') }}"
      line: "{{ '100% $HOME' | llmfleet.sglang.systemd_quote('environment_file', name='A') }}"
  tasks:
    - ansible.builtin.copy: {content: "{{ seen | to_json }}", dest: "{{ target }}", mode: "0600"}
"""


def test_the_filters_work_in_templates(tmp_path):
    playbook = tmp_path / "play.yml"
    playbook.write_text(PLAYBOOK)
    target = tmp_path / "seen.json"
    variables = {"target": str(target), "ansible_python_interpreter": sys.executable}
    ran = subprocess.run(
        [
            *[Path(sys.executable).with_name("ansible-playbook"), "-i", "localhost,", "-c", "local"],
            *["-e", json.dumps(variables), playbook],
        ],
        env=dict(os.environ, ANSIBLE_CONFIG=str(ROOT / "ansible.cfg")),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert json.loads(target.read_text()) == {
        "argv": [
            *["--model-path", "/srv/tiny", "--host", "127.0.0.1", "--port", "30001", "--tp-size", "2"],
            *["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "/srv/tiny-eagle3"],
            *["--speculative-eagle-topk", "1", "--json-model-override-args", '{"n":30000}'],
        ],
        "environment": {"SGLANG_ENABLE_SPEC_V2": "1"},
        "found": [
            {
                "level": "error",
                "variable": "serve_speculative_num_steps",
                "value": None,
                "problem": "SGLang wants steps, topk and draft tokens all three or none",
                "mend": "set it, or set the other two to null",
                "message": "serve_speculative_num_steps is null: SGLang wants steps, topk and draft tokens all three "
                "or none; set it, or set the other two to null.",
            }
        ],
        "problems": [
            "my_speculative_num_steps is null: SGLang wants steps, topk and draft tokens all three or none; "
            "set it, or set the other two to null.",
            "my_engine_options['context-lenght'] is 8: it is not an option of SGLang 0.5.23; "
            "write context-length if that is what you mean, or remove it.",
        ],
        "argument": '"100%% $$HOME"',
        "assignment": '"A=100%% $HOME"',
        "line": 'A="100% \\$HOME"',
    }


@pytest.mark.parametrize(
    "call",
    [
        lambda: engine_argv.engine_argv("--port 1", "0.5.23"),
        lambda: engine_environment.engine_environment(["port"], "0.5.23"),
        lambda: settings_problems.settings_problems(None, "0.5.23"),
    ],
)
def test_settings_that_are_no_mapping_are_refused(call):
    with pytest.raises(AnsibleFilterError, match="works on a mapping"):
        call()


@pytest.mark.parametrize(
    ("value", "context", "name", "words"),
    [
        ("a\nb", "argument", "", "line break"),
        ("a", "environment", "", "not a name"),
        ("a", "environment_file", "1A", "not a name"),
        ("a", "shell", "", "knows no context 'shell'"),
    ],
)
def test_what_cannot_be_quoted_is_refused(value, context, name, words):
    with pytest.raises(AnsibleFilterError, match=words):
        systemd_quote.systemd_quote(value, context, name)
