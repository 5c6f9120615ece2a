# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each role's specification says what its defaults say, and every name shows whose it is."""

from __future__ import annotations

import re

import pytest
import yaml


@pytest.fixture
def options(load, role):
    """The options of the role's main entry point."""
    return load(f"roles/{role}/meta/argument_specs.yml")["argument_specs"]["main"].get("options") or {}


@pytest.fixture
def defaults(load, role):
    """The role's defaults."""
    return load(f"roles/{role}/defaults/main.yml")


def tasks_of(root, role):
    """Yield (file, task) for each task of a role, those in blocks and the handlers included."""
    for path in sorted(root.glob(f"roles/{role}/tasks/**/*.yml")) + sorted(root.glob(f"roles/{role}/handlers/*.yml")):
        waiting = list(yaml.safe_load(path.read_text()) or [])
        while waiting:
            task = waiting.pop(0)
            yield path.relative_to(root), task
            for part in ("block", "rescue", "always"):
                waiting += task.get(part) or []


def test_spec_and_defaults_name_the_same_variables(options, defaults):
    without_default = {name for name, option in options.items() if option.get("required")}
    assert set(options) - without_default == set(defaults)


def alone(default):
    """Return a default's value where no other role gives it: that of "{{ other | default(VALUE) }}" is VALUE."""
    found = re.fullmatch(r"\{\{ \w+ \| default\((.*)\) \}\}", default) if isinstance(default, str) else None
    return yaml.safe_load(found.group(1)) if found else default


def test_a_default_in_the_spec_is_the_default_in_the_file(options, defaults):
    told = {name: option["default"] for name, option in options.items() if "default" in option}
    wrong = {
        name: value for name, value in told.items() if value not in (defaults.get(name), alone(defaults.get(name)))
    }
    assert wrong == {}


def test_every_option_has_a_description_and_a_type(options):
    assert [name for name, option in options.items() if not (option.get("description") and option.get("type"))] == []


def test_public_variables_have_the_roles_prefix(role, defaults):
    assert [name for name in defaults if not name.startswith(f"{role}_")] == []


def test_internal_variables_start_with_underscores(root, load, role):
    named = {
        name: path.relative_to(root) for path in root.glob(f"roles/{role}/vars/**/*.yml") for name in load(path) or {}
    }
    assert {name: path for name, path in named.items() if not name.startswith(f"__{role}_")} == {}


def test_names_made_by_tasks_are_internal_or_of_the_role(root, role):
    wrong = []
    for path, task in tasks_of(root, role):
        facts = task.get("ansible.builtin.set_fact") or {}
        internal = [task["register"]] if "register" in task else []
        internal += [(task.get("loop_control") or {}).get(name) for name in ("loop_var", "index_var")]
        # Every role that works on one of several services knows it by this name.
        internal = [name for name in internal if name and name != "serve_instance"]
        wrong += [f"{path}: {name}" for name in internal if not name.startswith(f"__{role}_")]
        wrong += [
            f"{path}: {name}"
            for name in facts
            if name != "cacheable" and not name.startswith((f"{role}_", f"__{role}_"))
        ]
    assert wrong == []


def conditions(task):
    """Return the expressions of a task that have to be true or false."""
    found = [task.get(name) for name in ("when", "failed_when", "changed_when", "until")]
    found.append((task.get("ansible.builtin.assert") or {}).get("that"))
    return [str(one) for each in found if each is not None for one in (each if isinstance(each, list) else [each])]


def test_what_is_asked_to_be_true_is_made_a_boolean(root, load, role):
    """From the command line a value comes as a word, which ansible-core refuses as a condition, or finds true."""
    specs = [load(path)["argument_specs"] for path in root.glob("roles/*/meta/argument_specs.yml")]
    names = {
        name
        for spec in specs
        for entry in spec.values()
        for name, option in (entry.get("options") or {}).items()
        if option.get("type") == "bool"
    }
    assert len(names) > 40
    bare = rf"\b({'|'.join(sorted(names))})\b(?!\s*\|\s*(?:default\([^)]*\)\s*\|\s*)?bool\b)"
    wrong = []
    for path, task in tasks_of(root, role):
        wrong += [f"{path}: {name}" for condition in conditions(task) for name in re.findall(bare, condition)]
    for path in sorted(root.glob(f"roles/{role}/**/*.yml")):
        for expression in re.findall(r"\{[{%].*?[}%]\}", path.read_text(), re.DOTALL):
            tested = re.findall(rf"\b(?:if|elif|and|or|not)\s+{bare}", re.sub(r"'[^']*'", "", expression))
            wrong += [f"{path.relative_to(root)}: {name}" for name in tested]
    assert wrong == []
