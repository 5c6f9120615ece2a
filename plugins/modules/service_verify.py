#!/usr/bin/python
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_verify
short_description: Judge an SGLang service by the record of its deployment
version_added: 0.1.0
author:
  - llmfleet contributors (@llmfleet)
description:
  - Judges the running start of a service by the record that the host keeps of its configuration (see
    M(llmfleet.sglang.service_config)), with the release, models, layout, ratio and speculation that it was deployed
    with. Whoever asks gets the same verdict.
  - Compares what is there with that record first, that is the unit file and its drop-ins, the environment file, the
    arguments and variables of the running process, and the arguments that the start itself logged. A difference is
    C(fail) with the code C(settings_differ).
  - Then reads the journal of the start as M(llmfleet.sglang.hicache_verify) does, and waits until it is complete.
  - Then sends a chat completion, and the same long prompt twice, to see an answer, the prefix cache and the draft model
    at work.
  - Only a full pass by the record is written down as verified, and can be gone back to.
options:
  name:
    description: Name of the service. Its unit is C(sglang-NAME.service).
    type: str
    required: true
  host:
    description: Name of the host, which begins the line of the verdict.
    type: str
    default: this host
  settings:
    description:
      - What a service is judged by of which the host keeps no record; the same keys as the C(verify) part of a record.
      - Of no effect on a service that has a record. The line of the verdict tells which of both it was.
    type: dict
  config_dir:
    description: Folder of the services' configurations.
    type: path
    default: /etc/sglang
  facts_dir:
    description: Folder of local facts, where the verdict is kept as C(sglang_NAME.fact).
    type: path
    default: /etc/ansible/facts.d
  written_down:
    description:
      - Whether the verdict is kept as a local fact, and a full pass noted with the service's configurations.
    type: bool
    default: true
  requests_enabled:
    description:
      - Whether requests may be sent. With V(false) the answers of an earlier verdict on this very start are taken, and
        without one the verdict is C(inconclusive) where the record asks for requests.
    type: bool
    default: true
  request_timeout:
    description: Seconds that one request may take.
    type: int
    default: 300
  prefix_words:
    description: Words of the long prompt that is sent twice. It must fit the model's context.
    type: int
    default: 600
  timeout:
    description: Seconds to wait for a start that is not complete yet. A service that differs is not waited for.
    type: int
    default: 0
  poll_interval:
    description: Seconds between two looks at the journal.
    type: float
    default: 5
extends_documentation_fragment:
  - llmfleet.sglang.attributes
attributes:
  check_mode:
    support: full
    details: Judges what is there without waiting, and writes nothing down.
  platform:
    details: Needs systemd 252 or newer.
notes:
  - Needs root, to read the journal and the environment of the service's process.
seealso:
  - module: llmfleet.sglang.hicache_verify
  - module: llmfleet.sglang.service_config
  - module: llmfleet.sglang.service_status
"""

EXAMPLES = r"""
- name: Judge a service by the record of its deployment
  llmfleet.sglang.service_verify:
    name: kimi
    host: "{{ inventory_hostname }}"
    timeout: 3600
  become: true
  register: verdict

- name: Judge it as it is, without a request and without a trace
  llmfleet.sglang.service_verify:
    name: kimi
    requests_enabled: false
    written_down: false
  become: true
"""

RETURN = r"""
verdict:
  description: C(pass), C(fail) or C(inconclusive).
  returned: always
  type: str
  sample: pass
reasons:
  description:
    - What speaks for and against, with C(code) and C(message). Beside the codes of M(llmfleet.sglang.hicache_verify)
      there are C(settings_differ), C(no_record), C(requests_not_sent), C(chat_failed), C(chat_empty),
      C(prefix_failed), C(prefix_not_cached), C(accept_length) and C(accept_length_unknown).
  returned: always
  type: list
  elements: dict
summary:
  description: The verdict in one line for people.
  returned: always
  type: str
  sample: "ash sglang-kimi.service: PASS - 8 of 8 ranks, 44.77 GB each (predicted 44.77), 358.16 GB in all, ready
    after 611 s"
recorded:
  description: Whether the service was judged by a record of the host, and not by O(settings).
  returned: always
  type: bool
without_record:
  description: Whether nothing was judged because the host keeps no record and O(settings) is empty.
  returned: always
  type: bool
configuration:
  description: ID of the configuration by whose record it was judged.
  returned: always
  type: str
requests_sent:
  description: Whether requests were sent for this verdict.
  returned: always
  type: bool
unit:
  description: Name of the unit.
  returned: always
  type: str
release:
  description: Release of SGLang by the record.
  returned: always
  type: str
invocation_id:
  description: The start that was judged.
  returned: always
  type: str
ranks:
  description: Every pool that takes host memory, by rank, as M(llmfleet.sglang.hicache_verify) returns it.
  returned: always
  type: list
  elements: dict
ranks_seen:
  description: Number of ranks that reported a main pool.
  returned: always
  type: int
per_rank_gb:
  description: The different sizes in GB (10**9 bytes) that were seen.
  returned: always
  type: list
  elements: float
expected_gb:
  description: GB (10**9 bytes) that each rank's main pool was expected to have.
  returned: always
  type: float
total_gb:
  description: GB (10**9 bytes) of all pools of all ranks.
  returned: always
  type: float
device_tokens:
  description: Tokens of the device pool that the start logged.
  returned: always
  type: int
device_settings:
  description: What the number of device tokens depends on, for a later M(llmfleet.sglang.hicache_plan).
  returned: always
  type: dict
allocation_verdict:
  description: The verdict on the allocation lines alone.
  returned: always
  type: str
started_at:
  description: When the start began.
  returned: always
  type: str
ready_at:
  description: When the start became ready.
  returned: always
  type: str
seconds_to_ready:
  description: Seconds between the two.
  returned: always
  type: int
journal_tail:
  description: The last lines of the unit's journal where the verdict is C(fail), without keys and tokens.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import service_store
from ..module_utils._service.verification import Verification

ARGUMENT_SPEC = {
    "name": {"type": "str", "required": True},
    "host": {"type": "str", "default": "this host"},
    "settings": {"type": "dict"},
    "config_dir": {"type": "path", "default": "/etc/sglang"},
    "facts_dir": {"type": "path", "default": "/etc/ansible/facts.d"},
    "written_down": {"type": "bool", "default": True},
    "requests_enabled": {"type": "bool", "default": True},
    "request_timeout": {"type": "int", "default": 300},
    "prefix_words": {"type": "int", "default": 600},
    "timeout": {"type": "int", "default": 0},
    "poll_interval": {"type": "float", "default": 5},
}


def check_parameters(params):
    """Return a sentence that names the first impossible value, or None."""
    if not service_store.is_service_name(params["name"]):
        return f'name is "{params["name"]}": it cannot be the name of a service. Use a name such as kimi.'
    limits = {"request_timeout": (1, 86400), "prefix_words": (1, 1_000_000), "timeout": (0, 7 * 86400)}
    for name, (least, most) in limits.items():
        if not least <= params[name] <= most:
            return f"{name} is {params[name]}: it has to be {least} to {most}. Give a number of that range."
    return None


def main():
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    problem = check_parameters(module.params)
    if problem:
        module.fail_json(msg=problem)
    try:
        result = Verification(module, module.params).run()
    except service_store.StoreError as error:
        module.fail_json(msg=str(error))
    except PermissionError as error:
        module.fail_json(msg=f"{error.filename} cannot be written or read: {error.strerror}. Use become.")
    module.exit_json(msg=result["summary"], **result)


if __name__ == "__main__":
    main()
