# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on logs of public reports and on forged input, and what it rests on; then variants of every kind."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import hicache_evidence, hicache_judge, journal
from ansible_collections.llmfleet.sglang.plugins.module_utils._hicache import verifier

DATA = Path(__file__).resolve().parents[2] / "data" / "reports"
ROWS = json.loads((DATA / "expected.json").read_text())


def ask_of(options):
    """The judge's ask out of the module's options, as the module itself makes it."""
    params = {name: spec.get("default") for name, spec in verifier.ARGUMENT_SPEC.items()}
    params.update(options, log_file="x")
    for name in ("model_path", "draft_model_path"):
        if params[name]:
            params[name] = str(DATA / params[name])
    assert verifier.check_parameters(params) is None
    return verifier.build_ask(params)


def judged(content, options, around=None):
    unit = options.get("unit")
    evidence = hicache_evidence.read_log(io.BytesIO(content), journal.full_unit_name(unit) if unit else None)
    return hicache_judge.judge(evidence.start, ask_of(options), around, evidence.restarts)[0]


def codes(result):
    return [reason["code"] for reason in result["reasons"]]


def message(result, code):
    return next(reason["message"] for reason in result["reasons"] if reason["code"] == code)


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['file']}-{row['verdict']}" for row in ROWS])
def test_a_report_gets_the_right_verdict_for_the_right_reason(row):
    result = judged((DATA / row["file"]).read_bytes(), row["ask"])
    if row["verdict"] == "not-fail":
        assert result["verdict"] in ("pass", "inconclusive"), result["reasons"]
    else:
        assert result["verdict"] == row["verdict"], result["reasons"]
    assert set(row["codes"]) <= set(codes(result)), result["reasons"]
    for key, found in (("gb_each", "per_rank_gb"), ("ranks_seen", "ranks_seen")):
        if key in row:
            assert result[found] == row[key]
    for key in ("bytes_per_token", "draft_bytes_per_token"):
        if key in row:
            assert result[key] == row[key]


def test_every_report_is_in_the_table():
    files = {str(path.relative_to(DATA)) for folder in ("logs", "forged") for path in (DATA / folder).iterdir()}
    # The log that the forged ones were made of.
    assert files - {row["file"] for row in ROWS} == {"forged/no-pools.export"}
    assert len(ROWS) == 19


# -- what the words have to hold ----------------------------------------


def report(name, **changes):
    row = next(row for row in ROWS if name in row["file"])
    return judged((DATA / row["file"]).read_bytes(), {**row["ask"], **changes})


@pytest.mark.parametrize(
    ("release", "holds", "lacks"),
    [
        ("0.5.19", "divides the rest by the ranks", "from 0.5.19"),
        ("0.5.11", "10 GiB", "divides"),
        (None, "from 0.5.19 divides the rest by the ranks", "zzz"),
    ],
)
def test_a_refusal_tells_the_rule_of_its_release(release, holds, lacks):
    words = message(report("I8-late", release=release), "host_memory_refused")
    assert "10 GiB" in words and "late sees less" in words and "43.91 GB" in words
    assert holds in words and lacks not in words


def test_a_failure_names_the_ranks_that_are_missing():
    assert "TP7 did not report" in message(report("I8-late"), "allocation_failed")
    assert "TP1" in message(report("J2b"), "rank_missing")


def test_hicache_is_not_called_off_where_the_arguments_have_it_on():
    result = report("I9-fork")
    assert "create 0.00 GB host memory" in message(result, "unknown_wording")
    assert "HiCache is off" not in repr(result)
    assert "HiCache is off" not in repr(report("access-line-forges-pools"))


def test_a_saved_log_shows_its_last_exception():
    assert "libcudart.so.13" in message(report("K10"), "last_error")


# -- variants: the start's own arguments ----------------------------------------


def start(arguments, gb="44.77", ranks=8, tokens=159270, extra=""):
    lines = [f"[2026-10-05 09:00:00] server_args=ServerArgs({arguments})"]
    if tokens:
        lines.append(f"[2026-10-05 09:01:00 TP0] max_total_num_tokens={tokens}, chunked_prefill_size=8192")
    wording = "Allocating {} GB host memory for hierarchical KV cache."
    lines += [f"[2026-10-05 09:02:00 TP{rank}] " + wording.format(gb) for rank in range(ranks)]
    lines += [extra] if extra else []
    return "\n".join([*lines, "[2026-10-05 09:03:00] The server is fired up and ready to roll!", ""]).encode()


KIMI = {"ranks": 8, "ratio": 4.0, "bytes_per_token": 70272, "release": "0.5.16"}
GOOD = "model_path='/m', tp_size=8, page_size=1, enable_hierarchical_cache=True, hicache_ratio=4.0, hicache_size=0"


@pytest.mark.parametrize(
    ("arguments", "ask", "both"),
    [
        (GOOD.replace("=4.0", "=2.0"), {}, ("hicache_ratio is 2", "4 was asked")),
        (GOOD.replace("_size=0", "_size=44"), {}, ("hicache_size 44", "size wins")),
        (GOOD.replace("hicache_ratio=4.0", "hicache_ratio=None"), {}, ("not set", "4 was asked")),
        (GOOD, {"ratio": None, "hicache_size": 44}, ("hicache_size is 0", "44 was asked")),
        (GOOD.replace("cache=True", "cache=False"), {}, ("enable_hierarchical_cache is False", "True was asked")),
        (GOOD, {"ranks": 0}, ("enable_hierarchical_cache is True", "False was asked")),
        (GOOD, {"tensor_parallel_size": 4}, ("tp_size is 8", "4 was asked")),
        (GOOD + ", dp_size=1, pp_size=2, nnodes=1, node_rank=0", {}, ("ranks is 16", "8 was asked")),
        (GOOD + ", dp_size=8, enable_dp_attention=False", {"data_parallel_size": 8, "tensor_parallel_size": 8,
                                                           "dp_attention_enabled": True}, ("enable_dp_attention",)),
        (GOOD + ", kv_cache_dtype='fp8_e4m3'", {"kv_cache_dtype": "bf16"}, ("fp8_e4m3", "bf16 was asked")),
        (GOOD + ", kv_cache_dtype='auto'", {"kv_cache_dtype": "fp8_e4m3"}, ("kv_cache_dtype is auto",)),
        (GOOD + ", attention_backend='fa3'", {"page_size": 64}, ("page_size is 1", "64 was asked")),
        (GOOD + ", port=30001", {"expected_settings": {"port": 30000}}, ("port is 30001", "30000 was asked")),
        (
            GOOD + ", speculative_algorithm=None",
            {"expected_settings": {"speculative_algorithm": "EAGLE3"}},
            ("speculative_algorithm is not set", "EAGLE3"),
        ),
        (
            GOOD + ", mem_fraction_static=0.7",
            {"expected_settings": {"mem_fraction_static": "0.88"}},
            ("mem_fraction_static is 0.7", "0.88"),
        ),
        (GOOD, {"expected_settings": {"model_path": "/other"}}, ("model_path is /m", "/other")),
        (GOOD + ", max_total_tokens=None", {"expected_settings": {"max_total_tokens": 100}}, ("max_total_tokens",)),
        (
            GOOD + ", hicache_mem_layout='layer_first'",
            {"expected_settings": {"hicache_mem_layout": "page_first"}},
            ("hicache_mem_layout is layer_first", "page_first"),
        ),
        (
            GOOD + ", disaggregation_mode='decode'",
            {"expected_settings": {"disaggregation_mode": "null"}},
            ("disaggregation_mode is decode", "null"),
        ),
    ],
)  # fmt: skip
def test_arguments_that_differ_fail_with_both_values(arguments, ask, both):
    options = {**KIMI, **ask}
    result = judged(start(arguments), {key: value for key, value in options.items() if value is not None})
    assert result["verdict"] == result["allocation_verdict"] == "fail"
    words = message(result, "settings_differ")
    assert all(word in words for word in both), words
    assert "site.yml" in words


@pytest.mark.parametrize(
    ("arguments", "ask"),
    [
        (GOOD, {"expected_settings": {"hicache_ratio": "4.0", "hicache_size": "", "port": 30000}}),
        (GOOD, {"expected_settings": {"model_path": "/m/", "kv_cache_dtype": "auto", "page_size": None}}),
        (GOOD.replace("hicache_ratio=4.0, hicache_size=0", "hicache_ratio=4, hicache_size=None"), {}),
        (GOOD + ", speculative_algorithm='EAGLE'", {"expected_settings": {"speculative_algorithm": "NEXTN"}}),
        (GOOD + ", kv_cache_dtype='bfloat16'", {"expected_settings": {"kv_cache_dtype": "auto"}}),
        (
            GOOD + ", hicache_mem_layout='page_first_direct', hicache_io_backend='direct'",
            {"expected_settings": {"hicache_mem_layout": "page_first", "hicache_io_backend": "kernel"}},
        ),
        (
            GOOD + ", speculative_eagle_topk=1, speculative_num_steps=3, speculative_num_draft_tokens=4",
            {"expected_settings": {"speculative_num_draft_tokens": 8}},
        ),
        (GOOD + ", attn_dp_size=8", {"tensor_parallel_size": 8}),
        (
            GOOD + ", dp_size=1, attn_dp_size=8, enable_dp_attention=False",
            {"tensor_parallel_size": 8, "data_parallel_size": 8, "dp_attention_enabled": True},
        ),
        (GOOD + ", disaggregation_mode=None", {"expected_settings": {"disaggregation_mode": "null"}}),
        (GOOD + ", chunked_prefill_size=1024", {"expected_settings": {"chunked_prefill_size": 8192}}),
    ],
)
def test_what_the_engine_resolves_by_itself_is_no_difference(arguments, ask):
    result = judged(start(arguments), {**KIMI, **ask})
    assert result["verdict"] == "pass", result["reasons"]
    assert "settings_differ" not in codes(result)


def test_a_page_that_a_backend_imposes_is_no_difference():
    arguments = GOOD.replace("page_size=1", "page_size=64") + ", attention_backend='trtllm_mla'"
    result = judged(start(arguments), {**KIMI, "page_size": 1})
    assert (result["verdict"], "settings_resolved" in codes(result)) == ("pass", True), result["reasons"]


def test_a_later_dict_is_read_like_a_call():
    arguments = "'model_path': '/m', 'tp_size': 8, 'enable_hierarchical_cache': True, 'hicache_ratio': 2.0"
    content = start(GOOD).replace(f"ServerArgs({GOOD})".encode(), ("{" + arguments + "}").encode())
    assert "hicache_ratio is 2" in message(judged(content, KIMI), "settings_differ")


def test_words_inside_of_a_value_are_no_argument():
    arguments = "served_model_name='x, hicache_ratio=4.0, enable_hierarchical_cache=True', " + GOOD.replace(
        "4.0", "2.0"
    )
    assert "hicache_ratio is 2" in message(judged(start(arguments), KIMI), "settings_differ")


# -- variants: bytes of a token ----------------------------------------


@pytest.mark.parametrize(
    ("device", "flag", "bytes_per_token"),
    [
        ("dtype: torch.bfloat16, ", "'fp8_e4m3'", 70272),
        ("dtype: torch.float8_e4m3fn, ", "'bfloat16'", 35136),
        ("", "'bfloat16'", 70272),
        ("", "'fp8_e5m2'", 35136),
        # The checkpoint's own word.
        ("", "'auto'", 35136),
        ("", "None", 35136),
    ],
)
def test_the_type_of_the_cache_comes_from_the_first_source_that_speaks(device, flag, bytes_per_token):
    gb = f"{(300032 * 2 // 64 + 1) * 64 * bytes_per_token / 1e9:.2f}"
    arguments = GOOD.replace("page_size=1", "page_size=64").replace("4.0", "2.0") + f", kv_cache_dtype={flag}"
    line = f"[2026-10-05 09:00:30 TP0] KV Cache is allocated. {device}#tokens: 300032, KV size: 9.82 GB\n"
    content = start(arguments, gb, tokens=300032).replace(b"[2026-10-05 09:01", line.encode() + b"[2026-10-05 09:01", 1)
    ask = {"ranks": 8, "ratio": 2.0, "release": "0.5.16", "model_path": "models/kimi-nvfp4"}
    result = judged(content, ask)
    assert (result["verdict"], result["bytes_per_token"]) == ("pass", bytes_per_token), result["reasons"]
    wrong = judged(content.replace(f"{gb} GB host".encode(), b"10.00 GB host"), ask)
    assert (wrong["verdict"], "size_wrong" in codes(wrong)) == ("fail", True)


@pytest.mark.parametrize(
    ("arguments", "kv", "draft"),
    [
        ("", 47104, 512),
        (", speculative_draft_kv_cache_dtype='fp8_e4m3'", 47104, 256),
        (", kv_cache_dtype='fp8_e4m3'", 23552, 256),
        (", kv_cache_dtype='fp8_e4m3', speculative_draft_kv_cache_dtype='bfloat16'", 23552, 512),
    ],
)
def test_the_draft_has_a_type_of_its_own(arguments, kv, draft):
    content = (DATA / "logs" / "N13-glm47-mtp-0511.log").read_bytes()
    content = content.replace(b"speculative_algorithm='EAGLE'", b"speculative_algorithm='EAGLE'" + arguments.encode())
    content = content.replace(b" 37.69 GB", f" {800064 * kv / 1e9:.2f} GB".encode())
    row = next(row for row in ROWS if "N13" in row["file"])
    right = judged(content.replace(b" 0.41 GB", f" {800064 * draft / 1e9:.2f} GB".encode()), row["ask"])
    assert (right["verdict"], right["bytes_per_token"], right["draft_bytes_per_token"]) == ("pass", kv, draft)
    # As many layers as the whole model has.
    wrong = judged(content.replace(b" 0.41 GB", b" 36.00 GB"), row["ask"])
    assert "draft_size_wrong" in codes(wrong) or "size_wrong" in codes(wrong)
    assert wrong["verdict"] == "fail"


def test_stages_of_unequal_layers_have_bytes_of_their_own():
    arguments = GOOD.replace("tp_size=8", "tp_size=1, pp_size=2").replace("4.0", "2.0")
    lines = [f"[2026-10-05 09:00:00] server_args=ServerArgs({arguments})"]
    for stage, layers in enumerate((30, 31)):
        gb = 200001 * layers * 1152 / 1e9
        lines.append(f"[2026-10-05 09:01:00 PP{stage}] max_total_num_tokens=100000, x")
        lines.append(f"[2026-10-05 09:02:00 PP{stage}] Allocating {gb:.2f} GB host memory for hierarchical KV cache.")
    content = "\n".join([*lines, "[2026-10-05 09:03:00] The server is fired up and ready to roll!", ""]).encode()
    ask = {"ranks": 2, "ratio": 2.0, "release": "0.5.16", "model_path": "models/kimi-nvfp4", "kv_cache_dtype": "bf16"}
    result = judged(content, ask)
    assert (result["verdict"], result["bytes_per_token"]) == ("pass", None), result["reasons"]
    swapped = content.replace(b"6.91", b"X").replace(b"7.14", b"6.91").replace(b"X", b"7.14")
    assert swapped != content
    assert judged(swapped, ask)["verdict"] == "fail"


# -- variants: budgets ----------------------------------------


@pytest.mark.parametrize(
    ("release", "kv", "mamba", "verdict"),
    [
        ("0.5.20", "40.41", "55.60", "pass"),
        ("0.5.17", "95.00", "1.00", "pass"),
        # Half of what was asked for.
        ("0.5.20", "20.20", "27.80", "fail"),
        # Each pool with the whole size is right up to 0.5.16 only.
        ("0.5.20", "96.00", "96.00", "fail"),
        ("0.5.16", "96.00", "96.00", "pass"),
        ("0.5.16", "40.41", "55.60", "fail"),
    ],
)
def test_one_size_is_shared_by_the_pools_of_a_rank_from_0517(release, kv, mamba, verdict):
    pool = f"[2026-10-05 09:02:30 TP0] Allocating {mamba} GB host memory for hierarchical Mamba cache (layout=x)."
    content = start(GOOD.replace("tp_size=8", "tp_size=1").replace("e=0", "e=96"), kv, 1, extra=pool)
    result = judged(content, {"ranks": 1, "hicache_size": 96, "release": release})
    assert result["verdict"] == verdict, result["reasons"]
    assert ("size_wrong" in codes(result)) is (verdict == "fail")


# -- variants: pools that are not HiCache ----------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "release", "verdict"),
    [
        ("x", "x", "0.5.18", "pass"),
        ("x", "x", None, "fail"),
        ("x", "x", "0.5.17", "fail"),
        ("'decode'", "'prefill'", "0.5.23", "fail"),
        ("enable_hierarchical_cache=False, ", "", "0.5.23", "fail"),
        ("'decode'", "'decode', disaggregation_decode_retraction_backup='cpu_tensor'", "0.5.23", "fail"),
    ],
)
def test_only_a_decode_server_with_hicache_off_has_retraction_pools(old, new, release, verdict):
    content = (DATA / "logs" / "N7-decode-retraction-pool.log").read_bytes().replace(old.encode(), new.encode())
    result = judged(content, {"ranks": 0, **({"release": release} if release else {})})
    assert result["verdict"] == verdict, result["reasons"]
    assert ("retraction_pool" if verdict == "pass" else "unexpected_rank") in codes(result)


# -- variants: nothing to compare with ----------------------------------------


@pytest.mark.parametrize(
    ("tokens", "ask", "verdict"),
    [
        (None, {"ratio": 4.0, "bytes_per_token": 70272}, "inconclusive"),
        (None, {"ratio": 4.0}, "inconclusive"),
        (159270, {"ratio": 4.0}, "inconclusive"),
        (None, {"bytes_per_token": 70272}, "inconclusive"),
        (None, {"ratio": 4.0, "model_path": "models/kimi-nvfp4"}, "inconclusive"),
        (159270, {"ratio": 4.0, "bytes_per_token": 70272}, "pass"),
        (159270, {"bytes_per_token": 70272}, "pass"),
        (None, {}, "pass"),
        (None, {"ratio": 4.0, "expected_gb": 44.77}, "pass"),
    ],
)
def test_a_size_that_was_asked_for_is_compared_or_not_proved(tokens, ask, verdict):
    result = judged(start(GOOD, tokens=tokens), {"ranks": 8, "release": "0.5.16", **ask})
    assert result["verdict"] == verdict, result["reasons"]
    assert ("size_not_compared" in codes(result)) is (verdict == "inconclusive")


def test_the_pool_on_the_device_confirms_a_size_without_bytes():
    line = "[2026-10-05 09:02:30 TP0] KV Cache is allocated. #tokens: 159270, KV size: 10.42 GB"
    assert judged(start(GOOD, extra=line), {"ranks": 8, "ratio": 4.0})["verdict"] == "pass"
    assert judged(start(GOOD, "22.38", extra=line), {"ranks": 8, "ratio": 4.0})["verdict"] == "inconclusive"


@pytest.mark.parametrize(
    ("tolerance", "gb", "verdict"),
    [
        (0.01, "44.77", "pass"),
        (4.0, "44.00", "pass"),
        (4.0, "40.00", "fail"),
        # Everything is within so much.
        (40.0, "44.77", "inconclusive"),
        (1000.0, "1.00", "inconclusive"),
    ],
)
def test_a_tolerance_beyond_the_size_proves_nothing(tolerance, gb, verdict):
    result = judged(start(GOOD, gb), {**KIMI, "tolerance_gb": tolerance})
    assert result["verdict"] == verdict, result["reasons"]


# -- numbers ----------------------------------------


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name in hicache_judge.LIMITS for value in (INF, NAN, 1e308, 10**400, -1)]
    + [("ranks", 10**9), ("ranks", True)],
)
def test_the_judge_refuses_numbers_that_no_server_has(name, value):
    evidence = hicache_evidence.read_log(io.BytesIO(start(GOOD)))
    with pytest.raises(ValueError, match=f"^{name} is "):
        hicache_judge.judge(evidence.start, hicache_judge.Ask(**{"ranks": 8, name: value}))


def test_spans_of_ranks_are_bounded():
    with pytest.raises(ValueError, match="more than 4096 ranks"):
        hicache_judge.parse_rank_set([f"{first}-{first + 4000}" for first in range(0, 900000, 4001)])


# -- who listens ----------------------------------------


OTHER = {"ours": False, "port": 30000, "pid": 77, "comm": "nc", "unit": "user@1000.service"}
UNSURE = {"ours": None, "port": 30000, "pid": None, "comm": None, "unit": None}


def test_another_process_on_the_port_fails_and_is_named():
    around = hicache_judge.Around(owner=OTHER)
    result = judged(start(GOOD), KIMI, around)
    assert (result["verdict"], result["allocation_verdict"]) == ("fail", "pass")
    words = message(result, "port_taken")
    assert "30000" in words and "77 (nc)" in words and "user@1000.service" in words


@pytest.mark.parametrize(
    ("readiness", "line", "verdict"),
    [
        ("auto", True, "pass"),
        ("auto", False, "inconclusive"),
        ("health", True, "pass"),
        ("health", False, "inconclusive"),
    ],
)
def test_an_answer_of_an_unknown_process_proves_no_readiness(readiness, line, verdict):
    content = start(GOOD) if line else start(GOOD).replace(b"The server is fired up", b"x")
    around = hicache_judge.Around(owner=UNSURE, health={"ok": True, "message": "200"})
    result = judged(content, {**KIMI, "readiness": readiness, "health_url": "http://127.0.0.1:1"}, around)
    assert result["verdict"] == verdict, result["reasons"]
    if not line and readiness == "health":
        assert "port_owner_unknown" in codes(result)


def test_words_inside_of_brackets_are_no_argument():
    arguments = "overrides={'a': 1, 'hicache_ratio': 4.0}, names=['x', 'y'], " + GOOD.replace("4.0", "2.0")
    assert "hicache_ratio is 2" in message(judged(start(arguments), KIMI), "settings_differ")


@pytest.mark.parametrize(("first", "verdict"), [("9.68", "pass"), ("10.00", "fail")])
def test_stages_agree_on_the_tokens_that_a_size_makes(first, verdict):
    arguments = GOOD.replace("tp_size=8", "tp_size=1, pp_size=2").replace("_size=0", "_size=10")
    lines = [f"[2026-10-05 09:00:00] server_args=ServerArgs({arguments})"]
    for stage, gb in enumerate((first, "10.00")):
        lines.append(f"[2026-10-05 09:02:00 PP{stage}] Allocating {gb} GB host memory for hierarchical KV cache.")
    content = "\n".join([*lines, "[2026-10-05 09:03:00] The server is fired up and ready to roll!", ""]).encode()
    ask = {"ranks": 2, "hicache_size": 10, "release": "0.5.16", "model_path": "models/kimi-nvfp4"}
    result = judged(content, {**ask, "kv_cache_dtype": "bf16"})
    assert result["verdict"] == verdict, result["reasons"]
