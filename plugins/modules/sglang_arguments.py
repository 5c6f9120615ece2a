#!/usr/bin/python
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_arguments
short_description: Let an installed SGLang read the arguments of a service before the service is touched
version_added: 0.1.0
description:
  - Runs the release's own parser on a command line, with the interpreter of the release, and tells whether it takes
    it. Parsing is all that happens, so that no model is read, no GPU is opened, nothing is fetched, and a running
    service notices nothing.
  - A refused command line is not a failure of the module. It is told in RV(outcome) and RV(message), because the
    caller knows what it would have done with the arguments.
  - The arguments reach the interpreter through a pipe and are never on a command line. Values of options and variables
    whose names say that they are secret, secret values inside JSON, and user and password of URLs are hidden in
    everything that is returned. Use C(no_log) on the task as well, because Ansible logs the arguments of modules.
  - Importing SGLang takes about 5 seconds. With O(stamp) that happens once for the same arguments and the same
    installation.
author:
  - llmfleet contributors (@llmfleet)
options:
  python:
    description:
      - Path of the interpreter of the installed release. It need not be there, which gives the outcome V(absent).
    type: path
    required: true
  argv:
    description:
      - The words after C(python -m sglang.launch_server), unquoted.
    type: list
    elements: str
    required: true
  environment:
    description:
      - Environment variables of the service, of which some change what the parser takes. Variables with the value
        V(null) are left out.
      - Caches, temporary files, access to GPUs and to the model hub are the module's, whatever is given here.
    type: dict
    default: {}
  user:
    description:
      - Account that the parser runs as. The module must run as root to use another one than its own.
      - An account that does not exist yet is not waited for, and the parser runs as the module's own.
    type: str
  timeout:
    description:
      - Longest time in seconds that the parser may take. What it started is killed then.
    type: int
    default: 300
  stamp:
    description:
      - File that keeps a digest of what was asked when the answer was RV(outcome=accepted). While the question, the
        installation and the files named in O(argv) stay the same, the answer comes from there.
      - It holds neither arguments nor variables. Its folder must be there.
    type: path
extends_documentation_fragment:
  - llmfleet.sglang.attributes
attributes:
  check_mode:
    description: Asks in the same way, and writes no stamp.
  diff_mode:
    description: The stamp is not shown.
  idempotent:
    description: With the same arguments, the second run finds its stamp and changes nothing.
"""

EXAMPLES = r"""
- name: Let the new release read the arguments while the old service runs
  llmfleet.sglang.sglang_arguments:
    python: "{{ sglang_release_dir }}/venv/bin/python"
    argv: "{{ settings | llmfleet.sglang.engine_argv('0.5.23') }}"
    user: sglang
    stamp: /etc/sglang/kimi.arguments.json
  no_log: true
  register: arguments
  become: true

- name: Stop while the old service is still running
  ansible.builtin.assert:
    that: arguments.outcome == 'accepted'
    fail_msg: "{{ arguments.message }}"
"""

RETURN = r"""
outcome:
  description:
    - V(accepted) or V(refused) is the parser's own answer.
    - V(broken) says that SGLang could not be imported or died, V(timeout) that it took longer than O(timeout),
      V(absent) that O(python) is not there.
  type: str
  returned: always
  sample: refused
message:
  description: The answer as one sentence, with the parser's own words.
  type: str
  returned: always
  sample: "SGLang 0.5.23 refuses these arguments: argument --hicache-ratio: invalid float value: 'four'."
release:
  description: Version of the installed package, V(null) where it could not be asked.
  type: str
  returned: always
  sample: 0.5.23
abbreviations:
  description: Words that the parser took for the beginning of an option's name.
  type: list
  elements: dict
  returned: always
  contains:
    given:
      description: The word in O(argv).
      type: str
      sample: --hicache-rat
    meant:
      description: The option that the parser took it for.
      type: str
      sample: --hicache-ratio
output:
  description: The last lines that SGLang wrote to its error output, without secrets.
  type: list
  elements: str
  returned: always
seconds:
  description: Time that the parser took, in seconds; 0 where it was not asked.
  type: float
  returned: always
  sample: 4.9
stamp_used:
  description: Whether the answer comes from O(stamp).
  type: bool
  returned: always
"""

import glob
import os
import pwd
import time

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import argument_check, argument_probe, stamp_file


def package_records(python):
    """State of the lists of files that pip keeps of the installed SGLang."""
    root = os.path.dirname(os.path.dirname(python))
    return argument_check.state_of(
        glob.glob(os.path.join(root, "lib*", "python*", "site-packages", "sglang-*", "RECORD"))
    )


def read_stamp(path):
    """Content of a stamp; an empty one when there is none, or one that this version did not write."""
    return stamp_file.read_stamp(path, lambda stamp: stamp.get("format") == argument_check.STAMP_FORMAT) or {}


def write_stamp(module, path, content):
    """Writes the stamp in one step; False where the place cannot be written to."""
    try:
        stamp_file.write_stamp(path, content, 0o600)
    except OSError as error:
        module.warn(f"The stamp {path} cannot be written ({error.strerror}): the parser is asked again next time.")
        return False
    return True


def account_of(name):
    """The account to run as, None for the module's own."""
    if not name:
        return None
    try:
        account = pwd.getpwnam(name)
    except KeyError:
        return None
    return None if account.pw_uid == os.geteuid() else account


def check(module):
    """Result of the module."""
    params = module.params
    python, stamp = params["python"], params["stamp"]
    secrets = argument_check.secrets_of(params["argv"], params["environment"])
    # A second line behind no_log: what is returned, and the arguments that are shown with it, lose them as well.
    module.no_log_values.update(secrets)
    result = {"changed": False, "release": None, "abbreviations": [], "output": [], "seconds": 0.0, "stamp_used": False}
    if not os.access(python, os.X_OK):
        result.update(outcome="absent")
        return dict(result, message=argument_check.sentence(result, python, params["timeout"]))

    account = account_of(params["user"])
    if account is not None and os.geteuid() != 0:
        result.update(outcome="broken", message="only root may run it as another account: use become, or no user")
        return dict(result, message=argument_check.sentence(result, python, params["timeout"]))
    records = package_records(python)
    asked = {name: params[name] for name in ("python", "argv", "environment", "user")}
    asked["files"] = argument_check.state_of(argument_check.files_named_in(params["argv"]))
    digest = argument_check.fingerprint(asked, records)
    kept = read_stamp(stamp) if stamp and records else {}
    if kept.get("digest") == digest:
        result.update(
            outcome="accepted",
            release=kept.get("release"),
            abbreviations=kept.get("abbreviations", []),
            stamp_used=True,
        )
        return dict(result, message=argument_check.sentence(result, python, params["timeout"]))

    began = time.monotonic()
    try:
        answer = argument_probe.ask(python, params["argv"], params["environment"], account, params["timeout"])
        result.update(argument_check.read_answer(*answer, secrets))
    except OSError as error:
        name = account.pw_name if account else pwd.getpwuid(os.geteuid()).pw_name
        result.update(outcome="broken", message=f"it does not start as {name}: {error.strerror}")
    result["seconds"] = round(time.monotonic() - began, 3)
    result["message"] = argument_check.sentence(result, python, params["timeout"])
    if result["outcome"] == "accepted" and stamp and records:
        content = {
            "format": argument_check.STAMP_FORMAT,
            "digest": digest,
            "release": result["release"],
            "abbreviations": result["abbreviations"],
        }
        result["changed"] = module.check_mode or write_stamp(module, stamp, content)
    return result


def main():
    module = AnsibleModule(
        argument_spec={
            "python": {"type": "path", "required": True},
            "argv": {"type": "list", "elements": "str", "required": True},
            "environment": {"type": "dict", "default": {}},
            "user": {"type": "str"},
            "timeout": {"type": "int", "default": 300},
            "stamp": {"type": "path"},
        },
        supports_check_mode=True,
    )
    module.exit_json(**check(module))


if __name__ == "__main__":
    main()
