# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from ..plugin_utils import site_inputs

COLLECTION = Path(__file__).resolve().parents[2]


class ActionModule(ActionBase):
    """The controller's part of module site_state: what the variables and this collection sum up to."""

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        if arguments.get("state", "compare") == "compare":
            prefixes = tuple(arguments.get("prefixes") or site_inputs.PREFIXES)
            values = {name: task_vars[name] for name in site_inputs.names(task_vars, prefixes)}
            arguments["inputs"] = site_inputs.digest(values, self.value_of, COLLECTION)
        result.update(self._execute_module(module_args=arguments, task_vars=task_vars))
        return result

    def value_of(self, value):
        """The value of a variable; raises ValueError where it has none outside of a role."""
        try:
            return self._templar.template(value)
        except AnsibleError as error:
            raise ValueError(str(error)) from error
