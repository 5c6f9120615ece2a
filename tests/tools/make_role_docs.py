#!/usr/bin/env python3
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make docs/roles/ROLE.md of every role from its meta/argument_specs.yml and its defaults/main.yml.

make_role_docs.py            writes the files
make_role_docs.py --check    writes nothing; names each file that is stale, and exits with 1 if there is one
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
# Ansible's markup. All of C(code), V(value), O(option), E(environment), M(module), P(plugin) and RV(return value)
# are names that a reader would type.
CODE_MARKUP = re.compile(r"\b(?:C|V|O|E|M|P|RV)\(((?:[^()\\]|\\.|\([^()]*\))*)\)")
OTHER_MARKUP = (
    (re.compile(r"\bB\(([^()]*)\)"), r"**\1**"),
    (re.compile(r"\bI\(([^()]*)\)"), r"*\1*"),
    (re.compile(r"\bU\(([^()]*)\)"), r"<\1>"),
    (re.compile(r"\bL\(([^(),]*),\s*([^()]*)\)"), r"[\1](\2)"),
)
NO_DEFAULT = object()


def code(text):
    """Return `text` as Markdown code that a table cell can hold."""
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}".replace("|", "\\|")


def prose(description):
    """Return a description (a string or a list of paragraphs, in Ansible's markup) as one line of Markdown."""
    text = " ".join(description if isinstance(description, list) else [description])
    text = " ".join(text.split()).replace("|", "\\|")
    for pattern, replacement in OTHER_MARKUP:
        text = pattern.sub(replacement, text)
    return CODE_MARKUP.sub(lambda found: f"`{found.group(1)}`", text)


def shown_default(value):
    """Return a default as YAML in flow style; a template is shown as it is written."""
    if value is NO_DEFAULT:
        return ""
    if value is None:
        return code("null")
    if isinstance(value, str):
        return code(" ".join(value.split())) if value else code('""')
    return code(json.dumps(value, ensure_ascii=False))


def shown_type(option):
    """Return an option's type, with the type of its elements and whether it must be set."""
    kind = option.get("type", "str")
    if option.get("elements"):
        kind += f" of {option['elements']}"
    return f"{kind}, required" if option.get("required") else kind


def rows(options, defaults, prefix=""):
    """Yield one table row for each option, and after it those of its own options."""
    for name, option in options.items():
        default = defaults.get(name, option.get("default", NO_DEFAULT))
        told = prose(option["description"])
        if option.get("choices"):
            told += f" Choices: {', '.join(code(str(choice)) for choice in option['choices'])}."
        yield f"| `{prefix}{name}` | {shown_type(option)} | {shown_default(default)} | {told} |"
        yield from rows(option.get("options") or {}, {}, f"{prefix}{name}.")


def role_page(name, specs, defaults):
    """Return the page of one role: `specs` maps entry points to their specification, `defaults` names to values."""
    main = specs["main"]
    described = main.get("description", [])
    lines = [
        f"<!-- Made by tests/tools/make_role_docs.py from meta/argument_specs.yml of roles/{name}; change that. -->",
        f"# Role {name}",
        "",
        f"{prose(main['short_description']).rstrip('.')}.",
        "",
    ]
    for paragraph in described if isinstance(described, list) else [described]:
        lines += [prose(paragraph), ""]
    if (ROOT / "roles" / name / "README.md").is_file():
        lines += [f"More in the [role's README](../../roles/{name}/README.md).", ""]
    lines += ["## Variables", ""]
    lines += ["| Variable | Type | Default | Description |", "|---|---|---|---|"]
    lines += rows(main.get("options") or {}, defaults)
    others = {entry: spec for entry, spec in specs.items() if entry != "main"}
    if others:
        lines += ["", "## Other entry points", ""]
        lines += [f"- `{entry}`: {prose(spec['short_description']).rstrip('.')}." for entry, spec in others.items()]
    return "\n".join(lines) + "\n"


def pages(root=ROOT):
    """Return {path below root: text} of all pages, the list of roles included."""
    made = {}
    listed = []
    for specification in sorted(root.glob("roles/*/meta/argument_specs.yml")):
        role = specification.parents[1]
        specs = yaml.safe_load(specification.read_text())["argument_specs"]
        defaults_file = role / "defaults" / "main.yml"
        defaults = (yaml.safe_load(defaults_file.read_text()) or {}) if defaults_file.is_file() else {}
        made[f"docs/roles/{role.name}.md"] = role_page(role.name, specs, defaults)
        listed.append(f"- [{role.name}]({role.name}.md): {prose(specs['main']['short_description']).rstrip('.')}.")
    head = "<!-- Made by tests/tools/make_role_docs.py. -->\n# The variables of each role\n\n"
    made["docs/roles/README.md"] = head + "\n".join(listed) + "\n"
    return made


def main(arguments):
    """Write the pages, or compare them; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page is stale")
    check = parser.parse_args(arguments).check
    made = pages()
    stale = [path for path, text in made.items() if not (ROOT / path).is_file() or (ROOT / path).read_text() != text]
    left = [
        path
        for path in (str(page.relative_to(ROOT)) for page in (ROOT / "docs" / "roles").glob("*.md"))
        if path not in made
    ]
    if check:
        for path in stale + left:
            print(f"{path} is stale; run tests/tools/make_role_docs.py", file=sys.stderr)
        return 1 if stale or left else 0
    for path in left:
        (ROOT / path).unlink()
    for path in stale:
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(made[path])
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
