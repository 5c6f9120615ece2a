# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The argument table: which option holds in which release, and what a parser would refuse."""

from __future__ import annotations

import os

import pytest
from ansible_collections.llmfleet.sglang.plugins.plugin_utils import engine_arguments as table


def test_table_covers_the_releases_and_stays_small():
    releases = table.known_releases()
    assert (releases[0], releases[-1], len(releases)) == ("0.5.9", "0.5.23", 15)
    assert list(releases) == sorted(releases, key=table.release_key)
    assert os.path.getsize(table.TABLE_FILE) < 100_000


@pytest.mark.parametrize(
    ("release", "count"),
    # Options of the real parsers, switches counted once: 331 in 0.5.9, 354 in 0.5.10.post1, 531 in 0.5.23.
    [("0.5.9", 331), ("0.5.10.post1", 354), ("0.5.23", 531)],
)
def test_every_option_of_the_real_parser_is_there(release, count):
    assert len({argument.names for argument in table.arguments(release).values()}) == count


@pytest.mark.parametrize(
    ("release", "stands_for_it"),
    [
        ("0.5.9", "0.5.9"),
        ("0.5.10", "0.5.10.post1"),
        ("0.5.10.post1", "0.5.10.post1"),
        ("0.5.13.post1", "0.5.13"),
        ("0.5.15", "0.5.15.post1"),
        ("0.5.23", "0.5.23"),
        ("0.5.23+cu130", "0.5.23"),
    ],
)
def test_post_releases_share_their_base(release, stands_for_it):
    assert table.table_release(release) == stands_for_it


@pytest.mark.parametrize("release", ["0.5.8", "0.5.8.post1", "0.5.24", "0.6.0", "0.5", "", "main", "0.5.9rc1", "v0.5"])
def test_other_releases_are_unknown(release):
    with pytest.raises(table.UnknownRelease):
        table.arguments(release)


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("hicache-ratio", "0.5.9", "0.5.23"),
        ("tp-size", "0.5.9", "0.5.23"),
        ("tensor-parallel-size", "0.5.9", "0.5.23"),
        ("cuda-graph-max-bs", "0.5.9", "0.5.19"),
        ("cuda-graph-max-bs-decode", "0.5.14", "0.5.23"),
        ("hicache-host-memory-mode", "0.5.19", "0.5.23"),
        ("hicache-host-memory-fraction", "0.5.21", "0.5.23"),
        ("enable-hicache", "0.5.23", "0.5.23"),
        ("disable-hicache-numa-detect", "0.5.9", "0.5.9"),
    ],
)
def test_history_of_options(name, first, last):
    releases = table.releases_of(name)
    assert (releases[0], releases[-1]) == (first, last)


@pytest.mark.parametrize(
    ("name", "choice", "first"),
    [
        ("reasoning-parser", "kimi_k2", "0.5.9"),
        ("reasoning-parser", "kimi_k3", "0.5.17"),
        ("tool-call-parser", "auto", "0.5.12.post1"),
        ("hicache-storage-backend", "simm", "0.5.11"),
        ("hicache-storage-backend", "seaweedfs", "0.5.22"),
        ("hicache-mem-layout", "page_head", "0.5.9"),
        # Free text since 0.5.12: every value counts from there on.
        ("speculative-algorithm", "NO_SUCH_ALGORITHM", "0.5.12.post1"),
    ],
)
def test_history_of_choices(name, choice, first):
    assert table.releases_of_choice(name, choice)[0] == first


@pytest.mark.parametrize(
    ("release", "name", "kind", "nargs"),
    [
        ("0.5.23", "hicache-ratio", "float", None),
        ("0.5.23", "hicache-size", "int", None),
        ("0.5.9", "max-total-tokens", "int", None),
        ("0.5.10.post1", "max-total-tokens", "count", None),
        ("0.5.23", "enable-metrics", "flag", None),
        ("0.5.23", "dcp-replicate-q-proj", "switch", None),
        ("0.5.23", "no-dcp-replicate-q-proj", "flag", None),
        ("0.5.23", "lora-paths", "str", "*"),
        ("0.5.23", "cuda-graph-bs-decode", "int", "+"),
        ("0.5.23", "model-checksum", "str", "?"),
        ("0.5.23", "cuda-graph-config", "json", None),
    ],
)
def test_kinds(release, name, kind, nargs):
    argument = table.arguments(release)[name]
    assert (argument.kind, argument.nargs) == (kind, nargs)


def test_aliases_and_marks():
    options = table.arguments("0.5.23")
    assert options["model"].names == options["model-path"].names == ("model", "model-path")
    assert options["model"].required
    assert not options["port"].required
    assert table.arguments("0.5.14")["cuda-graph-max-bs"].deprecated
    assert not table.arguments("0.5.13")["cuda-graph-max-bs"].deprecated


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("context-length", 128000, ["--context-length", "128000"]),
        ("log-requests-level", 0, ["--log-requests-level", "0"]),
        ("mem-fraction-static", 0.0, ["--mem-fraction-static", "0.0"]),
        ("disable-custom-all-reduce", True, ["--disable-custom-all-reduce"]),
        ("disable-custom-all-reduce", False, []),
        ("context-length", None, []),
        ("dcp-replicate-q-proj", False, ["--no-dcp-replicate-q-proj"]),
        ("dcp-replicate-q-proj", True, ["--dcp-replicate-q-proj"]),
        ("cuda-graph-bs-decode", [1, 2, 4], ["--cuda-graph-bs-decode", "1", "2", "4"]),
        ("lora-paths", [], ["--lora-paths"]),
        ("forward-hooks", [{"a": 1}, 2], ["--forward-hooks", '[{"a":1},2]']),
        ("cuda-graph-config", {"b": {"x": None}, "a": True}, ["--cuda-graph-config", '{"b":{"x":null},"a":true}']),
        ("json-model-override-args", {"ä": 'q"'}, ["--json-model-override-args", '{"ä":"q\\""}']),
        ("lora-paths", [{"lora_name": "a", "lora_path": "b"}], ["--lora-paths", '{"lora_name":"a","lora_path":"b"}']),
        ("stream-interval", -1, ["--stream-interval", "-1"]),
        ("file-storage-path", "-dash", ["--file-storage-path=-dash"]),
        ("file-storage-path", "", ["--file-storage-path", ""]),
    ],
)
def test_words_of_an_option(name, value, words):
    assert table.option_words(name, value, table.arguments("0.5.23").get(name)) == words


@pytest.mark.parametrize(
    ("release", "name", "parts"),
    [
        ("0.5.23", "hicache-ratoi", ["not an option of SGLang 0.5.23", "write hicache-ratio if"]),
        ("0.5.23", "context_length", ["not written as SGLang names it", "write context-length,"]),
        ("0.5.23", "--context-length", ["not written as SGLang names it", "write context-length,"]),
        ("0.5.23", "hicache-rat", ["abbreviation", "write hicache-ratio"]),
        ("0.5.20", "cuda-graph-max-bs", ["several", "known up to 0.5.19", "0.5.9 to 0.5.19"]),
        ("0.5.13", "hicache-host-memory-mode", ["known from 0.5.19 on", "0.5.19 to 0.5.23"]),
        ("0.5.23", "disable-hicache-numa-detect", ["known up to 0.5.9"]),
        ("0.5.23", "zzzz", ["not an option of SGLang 0.5.23", "remove it"]),
    ],
)
def test_findings_about_names(release, name, parts):
    finding = table.name_finding(name, release)
    assert finding.level == "error"
    for part in parts:
        assert part in f"{finding.problem}; {finding.mend}"


def test_a_name_shared_by_several_options_is_no_abbreviation():
    # argparse calls --hicache-s ambiguous: --hicache-size or --hicache-storage-backend.
    finding = table.name_finding("hicache-s", "0.5.23")
    assert finding.code == "ambiguous"
    assert "hicache-size" in finding.problem


@pytest.mark.parametrize(
    ("release", "name", "default"),
    [
        ("0.5.17", "hicache-ratio", 2.0),
        ("0.5.18", "hicache-ratio", None),
        ("0.5.13", "hicache-mem-layout", "layer_first"),
        ("0.5.14", "hicache-mem-layout", "page_first"),
        ("0.5.23", "enable-metrics", False),
        ("0.5.23", "port", 30000),
        ("0.5.23", "model-path", None),
    ],
)
def test_defaults(release, name, default):
    assert table.arguments(release)[name].default == default


def test_every_name_is_fine_in_its_release():
    for release in table.known_releases():
        assert [name for name in table.arguments(release) if table.name_finding(name, release)] == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hicache-size", 44.77),
        ("hicache-size", "44.77"),
        ("hicache-size", "many"),
        ("hicache-ratio", "four"),
        ("hicache-ratio", "nan"),
        ("hicache-ratio", True),
        ("hicache-write-policy", "writethrough"),
        ("context-length", "128x"),
        ("context-length", "128.5Ki"),
        ("enable-metrics", 0),
        ("enable-metrics", "yes"),
        ("cuda-graph-config", "{"),
        ("cuda-graph-bs-decode", [1, "two"]),
        ("cuda-graph-bs-decode", []),
        ("cuda-graph-bs-decode", True),
        ("lora-paths", ["-x"]),
        ("lora-paths", [None]),
        ("port", [1, 2]),
        ("tool-call-parser", "kimi"),
        ("moe-a2a-backend", "no-such"),
    ],
)
def test_values_that_do_not_fit(name, value):
    findings = table.value_findings(table.arguments("0.5.23")[name], value, "0.5.23")
    assert [finding.level for finding in findings] == ["error"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hicache-size", 45),
        ("hicache-size", "45"),
        ("hicache-ratio", 4),
        ("hicache-ratio", "4.0"),
        ("context-length", "128k"),
        ("context-length", "25.6k"),
        ("context-length", "128Ki"),
        ("enable-metrics", True),
        ("enable-metrics", False),
        ("enable-metrics", None),
        ("cuda-graph-config", '{"decode":{}}'),
        ("cuda-graph-config", {"decode": {}}),
        ("cuda-graph-bs-decode", [1, 2]),
        ("cuda-graph-bs-decode", 1),
        ("lora-paths", []),
        ("lora-paths", True),
        ("model-checksum", True),
        ("stream-interval", -1),
        ("hicache-storage-backend-extra-config", {"a": 1}),
    ],
)
def test_values_that_fit(name, value):
    assert table.value_findings(table.arguments("0.5.23")[name], value, "0.5.23") == []


def test_a_value_of_another_release_is_named_with_its_releases():
    argument = table.arguments("0.5.13")["reasoning-parser"]
    (finding,) = table.value_findings(argument, "kimi_k3", "0.5.13")
    assert "known from 0.5.17 on" in finding.problem
    assert "kimi_k2" in finding.mend


def test_a_mistyped_value_is_met_with_the_closest():
    argument = table.arguments("0.5.23")["hicache-write-policy"]
    (finding,) = table.value_findings(argument, "writethrough", "0.5.23")
    assert finding.mend.startswith("write write_through if that is what you mean")


def test_old_options_are_warned_about():
    argument = table.arguments("0.5.14")["cuda-graph-max-bs"]
    assert [finding.level for finding in table.value_findings(argument, 8, "0.5.14")] == ["warning"]


def test_a_fitting_command_line_has_no_findings():
    argv = ["--model", "/m", "--port=30000", "--enable-metrics", "--lora-paths", "a", "b", "--tp", "2"]
    assert table.argv_findings(argv[:-2], "0.5.23") == []
    assert [word for word, finding in table.argv_findings(argv, "0.5.23")] == ["--tp"]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], ["--model-path"]),
        (["--model-path", "/m", "stray"], ["stray"]),
        (["--model-path", "/m", "--port", "x"], ["--port"]),
        (["--model-path", "/m", "--port", "1", "2"], ["2"]),
        (["--model-path", "/m", "--port"], ["--port"]),
        (["--model-path", "/m", "--hicache-rat", "3"], ["--hicache-rat"]),
        (["--model-path", "/m", "--enable-metrics", "1"], ["1"]),
        (["--model-path", "/m", "--enable-metrics=1"], ["--enable-metrics"]),
        (["--model-path", "/m", "--stream-interval", "-1"], []),
    ],
)
def test_findings_about_a_command_line(argv, words):
    assert [word for word, finding in table.argv_findings(argv, "0.5.23")] == words
