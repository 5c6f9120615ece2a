#!/usr/bin/env python3
# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change the collection's code in small ways, one at a time, and count the changes that no unit test notices.

mutate.py                        a sample of every file in tests/mutation/targets.yml
mutate.py service_store journal  of the files whose path has one of these words

MUTANTS  changes for each file (default 20); 0 takes all of them
SEED     which changes are taken (default 1); the same seed takes the same changes of lines that did not change
JOBS     changes that are tried at a time, each in a copy of the working tree (default 2)
WAIT     seconds after which the rest is left out (default: no end)

A change is "killed" where the tests of its file fail or do not end with it, and "survived" where they pass. A survivor
stands in tests/mutation/survivors.yml with one line: ``equivalent`` tells why no test can see it, ``untested`` why none
ought to. Equivalent ones do not count; the others count as survived. The exit status is 1 where less than 90 % of the
changes of a file are killed, or a survivor has no line. The changes are made by the operators of Cosmic Ray, and by
three more: one leaves out a statement, one returns None, one catches another exception.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import hashlib
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import cosmic_ray.plugins
import parso
import yaml
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ROOT / "tests" / "mutation" / "targets.yml"
SURVIVORS = ROOT / "tests" / "mutation" / "survivors.yml"
LEAST = 90

# Of Cosmic Ray's operators those whose changes are mostly errors that people make. The others, such as a power for a
# sum, are killed by anything.
OPERATORS = (
    *(
        f"core/ReplaceComparisonOperator_{change}"
        for change in ("Eq_NotEq", "NotEq_Eq", "Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE", "GtE_Gt")
    ),
    *(f"core/ReplaceComparisonOperator_{change}" for change in ("GtE_Lt", "Is_IsNot", "IsNot_Is")),
    *(
        f"core/ReplaceBinaryOperator_{change}"
        for change in ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Mod_Mul", "BitOr_BitAnd")
    ),
    "core/ReplaceBinaryOperator_BitAnd_BitOr",
    "core/ReplaceUnaryOperator_Delete_Not",
    "core/ReplaceUnaryOperator_Delete_USub",
    "core/ReplaceTrueWithFalse",
    "core/ReplaceFalseWithTrue",
    "core/ReplaceAndWithOr",
    "core/ReplaceOrWithAnd",
    "core/AddNot",
    "core/NumberReplacer",
    "core/RemoveDecorator",
    "core/ZeroIterationForLoop",
    "core/ReplaceBreakWithContinue",
    "core/ReplaceContinueWithBreak",
)


class LeaveOutStatement(Operator):
    """Put ``pass`` for a call, an assignment, a raise, or a deletion that is a statement of its own."""

    STATEMENTS = ("expr_stmt", "atom_expr", "raise_stmt", "del_stmt", "yield_expr")

    def mutation_positions(self, node):
        if (node.type in self.STATEMENTS and node.parent.type == "simple_stmt") or _is_bare_raise(node):
            yield (node.start_pos, node.end_pos)

    def mutate(self, node, index):
        return parso.python.tree.Keyword("pass", node.start_pos, _blank_before(node))

    @classmethod
    def examples(cls):
        return ()


class ReturnNone(Operator):
    """Return None where something else is returned."""

    def mutation_positions(self, node):
        if node.type == "return_stmt" and node.children[1].get_code().strip() != "None":
            yield (node.start_pos, node.end_pos)

    def mutate(self, node, index):
        return parso.python.tree.Keyword("return None", node.start_pos, _blank_before(node))

    @classmethod
    def examples(cls):
        return ()


class CatchAnother(Operator):
    """Catch an exception that nobody raises for one of those that are caught.

    Cosmic Ray's own operator for this cannot take a name with a dot.
    """

    def mutation_positions(self, node):
        for name in self.names(node):
            yield (name.start_pos, name.end_pos)

    def mutate(self, node, index):
        old = self.names(node)[index]
        siblings = old.parent.children
        new = parso.python.tree.Name("StopAsyncIteration", old.start_pos, _blank_before(old))
        siblings[siblings.index(old)] = new
        return node

    @staticmethod
    def names(node):
        """Return the exceptions of an except clause."""
        if node.type != "except_clause":
            return []
        caught = node.children[1]
        if caught.type != "atom":
            return [caught]
        inner = caught.children[1]
        return inner.children[::2] if inner.type == "testlist_comp" else [inner]

    @classmethod
    def examples(cls):
        return ()


def _is_bare_raise(node):
    return node.type == "keyword" and node.value == "raise" and node.parent.type == "simple_stmt"


def _blank_before(node):
    return node.get_first_leaf().prefix


@dataclass(frozen=True)
class Mutant:
    """One change of a file: its text with it, the line where it is, and the code before and after in one line each."""

    path: str
    line: int
    was: str
    becomes: str
    code: str

    def known_as(self):
        return self.path, self.was, self.becomes


def operators():
    """Return {name: operator}."""
    chosen = {name: cosmic_ray.plugins.get_operator(name)() for name in OPERATORS}
    return {**chosen, "leave-out": LeaveOutStatement(), "return-none": ReturnNone(), "catch-another": CatchAnother()}


def places_of(source, chosen, seed):
    """Return (rank, operator, occurrence) of all changes of a text, sorted by a rank that edits elsewhere let be."""
    lines, tree = source.splitlines(), get_ast(source)
    found, twins = [], Counter()
    for name, operator in chosen.items():
        occurrence = 0
        for node in ast_nodes(tree):
            for index, ((line, column), _end) in enumerate(operator.mutation_positions(node)):
                key = f"{seed} {name} {lines[line - 1]} {column} {index}"
                twins[key] += 1
                rank = hashlib.sha256(f"{key} {twins[key]}".encode()).hexdigest()
                found.append((rank, operator, occurrence))
                occurrence += 1
    return sorted(found, key=lambda one: one[0])


def as_mutant(path, source, code):
    """Return a changed text as a Mutant, or None where it is no Python or means the same."""
    try:
        if ast.dump(ast.parse(code)) == ast.dump(ast.parse(source)):
            return None
    except SyntaxError:
        return None
    before, after = source.splitlines(), code.splitlines()
    blocks = [one for one in difflib.SequenceMatcher(None, before, after, False).get_opcodes() if one[0] != "equal"]
    was, becomes, line = [], [], blocks[0][1]
    for _tag, start, end, new_start, new_end in blocks:
        was += before[start:end]
        becomes += after[new_start:new_end]
    return Mutant(path, line + 1, " ".join(" ".join(was).split()), " ".join(" ".join(becomes).split()), code)


def mutants_of(path, count, seed):
    """Return ``count`` (0: all) mutants of a file, in the order of a seed, none twice."""
    source, found = (ROOT / path).read_text(encoding="utf-8"), {}
    for _rank, operator, occurrence in places_of(source, operators(), seed):
        code = mutate_code(source, operator, occurrence)
        mutant = as_mutant(path, source, code) if code else None
        if mutant:
            found.setdefault(mutant.code, mutant)
        if count and len(found) == count:
            break
    return list(found.values())


# -- tests ----------------------------------------------------------------------------------------------------------


def copy_tree(folder):
    """Copy the working tree without what git ignores, and make the collection importable in the copy."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    namespace = folder / ".venv" / "collections" / "ansible_collections" / "llmfleet"
    namespace.mkdir(parents=True)
    (namespace / "sglang").symlink_to("../../../..")


def run_tests(folder, tests, seconds=None, fresh=False):
    """Run test files in a copy; returns "passed", "failed" or "late", and what pytest told at last."""
    shutil.rmtree(folder / ".hypothesis", ignore_errors=True)
    command = [str(ROOT / ".venv" / "bin" / "python"), "-m", "pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider"]
    # Of pytest's plugins the unit tests need this one only, and the others take most of a short run.
    command += ["-p", "_hypothesis_pytestplugin", "--hypothesis-seed=0", *tests]
    environment = dict(os.environ, ANSIBLE_CONFIG=str(folder / "ansible.cfg"), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    # Compiled files are those of the unchanged code, made by the first run.
    if not fresh:
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    running = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        told = running.communicate(timeout=seconds)[0].decode(errors="replace")
    except subprocess.TimeoutExpired:
        return "late", ""
    finally:
        # A test that failed may have left a process behind.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(running.pid, 9)
        running.wait()
    return ("passed" if running.returncode == 0 else "failed"), told


def try_one(folders, mutant, tests, limit):
    """Put a mutant into a free copy and test it there; returns whether it was killed."""
    folder = folders.get()
    target = folder / mutant.path
    original = target.read_bytes()
    try:
        target.write_text(mutant.code, encoding="utf-8")
        return run_tests(folder, tests, limit)[0] != "passed"
    finally:
        # Restored with the original's time, or its compiled file would not count any more.
        target.write_bytes(original)
        shutil.copystat(ROOT / mutant.path, target)
        folders.put(folder)


# -- campaign -------------------------------------------------------------------------------------------------------


def explained():
    """Return {(path, was, becomes): ("equivalent" or "untested", why)} from the list of survivors."""
    found = {}
    content = yaml.safe_load(SURVIVORS.read_text(encoding="utf-8")) if SURVIVORS.exists() else None
    for path, entries in (content or {}).items():
        for entry in entries:
            (kind,) = {"equivalent", "untested"} & set(entry)
            found[path, entry["was"], entry["becomes"]] = kind, entry[kind]
    return found


def rate(killed, counted):
    return 100 * killed / counted if counted else 100.0


def campaign(path, tests, folders, lanes, reasons):
    """Try the mutants of one file, print its line and its survivors; returns (killed, counted, unexplained)."""
    mutants = mutants_of(path, int(os.environ.get("MUTANTS", "20")), os.environ.get("SEED", "1"))
    started = time.monotonic()
    first = folders.get()
    try:
        how, told = run_tests(first, tests, fresh=True)
    finally:
        folders.put(first)
    if how != "passed":
        print(f"{path}: its tests fail without any change:\n{told}", flush=True)
        return 0, len(mutants), len(mutants)
    limit = 10 + 5 * (time.monotonic() - started)
    killed = list(lanes.map(lambda mutant: try_one(folders, mutant, tests, limit), mutants))
    survivors = [mutant for mutant, dead in zip(mutants, killed) if not dead]
    known = {mutant: reasons.get(mutant.known_as()) for mutant in survivors}
    equivalent = sum(1 for reason in known.values() if reason and reason[0] == "equivalent")
    unexplained = sum(1 for reason in known.values() if not reason)
    dead, counted = sum(killed), len(mutants) - equivalent
    print(
        f"{path}: {dead} of {counted} killed, {rate(dead, counted):.0f} %; {len(survivors) - equivalent} survived,"
        f" {equivalent} equivalent, {unexplained} without a reason ({time.monotonic() - started:.0f} s)",
        flush=True,
    )
    for mutant, reason in known.items():
        print(f"  {path}:{mutant.line}\n    was:     {mutant.was}\n    becomes: {mutant.becomes}")
        print(f"    {': '.join(reason) if reason else 'NO REASON in tests/mutation/survivors.yml'}", flush=True)
    return dead, counted, unexplained


def main(words):
    targets = yaml.safe_load(TARGETS.read_text(encoding="utf-8"))
    chosen = {path: tests for path, tests in targets.items() if not words or any(word in path for word in words)}
    if not chosen:
        print(f"mutate: no file of tests/mutation/targets.yml has {' or '.join(words)} in its path", file=sys.stderr)
        return 2
    jobs = int(os.environ.get("JOBS", "2"))
    until = time.monotonic() + float(os.environ["WAIT"]) if os.environ.get("WAIT") else None
    reasons, results = explained(), {}
    with tempfile.TemporaryDirectory(prefix="mutate-") as base, ThreadPoolExecutor(jobs) as lanes:
        folders = queue.Queue()
        for number in range(jobs):
            copy_tree(Path(base, str(number)))
            folders.put(Path(base, str(number)))
        for path, tests in chosen.items():
            if until is None or time.monotonic() < until:
                results[path] = campaign(path, tests, folders, lanes, reasons)
    print(f"\n{'file':58} killed      %  without a reason")
    for path, (killed, counted, unexplained) in results.items():
        print(f"{path:58} {killed:3} of {counted:3}  {rate(killed, counted):3.0f}  {unexplained}")
    left_out = [path for path in chosen if path not in results]
    if left_out:
        print(f"not tried for lack of time: {', '.join(left_out)}")
    bad = [path for path, (killed, counted, open_) in results.items() if open_ or rate(killed, counted) < LEAST]
    dead, counted = (sum(one[place] for one in results.values()) for place in (0, 1))
    print(f"{dead} of {counted} changes killed, {rate(dead, counted):.0f} %", flush=True)
    if bad:
        print(f"below {LEAST} %, or with a survivor that has no reason: {', '.join(bad)}", flush=True)
    return 1 if bad or left_out else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
