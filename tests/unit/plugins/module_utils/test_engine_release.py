# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is decided when a release is installed."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import engine_release


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"PIP_INDEX_URL": "https://a/simple"}, {"UV_DEFAULT_INDEX": "https://a/simple"}),
        ({"PIP_EXTRA_INDEX_URL": "https://a/s\n https://b/s"}, {"UV_INDEX": "https://a/s https://b/s"}),
        ({"PIP_FIND_LINKS": "https://a/w /srv/w"}, {"UV_FIND_LINKS": "https://a/w,/srv/w"}),
        ({"PIP_TRUSTED_HOST": "a b:8080"}, {"UV_INSECURE_HOST": "a b:8080"}),
        ({"PIP_CERT": "/etc/ca.pem"}, {"SSL_CERT_FILE": "/etc/ca.pem"}),
        ({"PIP_DEFAULT_TIMEOUT": 90}, {"UV_HTTP_TIMEOUT": "90"}),
        ({"HTTPS_PROXY": "http://p:3128"}, {"HTTPS_PROXY": "http://p:3128"}),
        ({"PIP_INDEX_URL": "https://a", "UV_DEFAULT_INDEX": "https://b"}, {"UV_DEFAULT_INDEX": "https://b"}),
        ({"UV_INDEX_STRATEGY": "first-index"}, {"UV_INDEX_STRATEGY": "first-index"}),
    ],
)
def test_pips_settings_are_handed_to_uv_in_its_words(environment, expected):
    translated = engine_release.uv_environment(environment)
    assert {name: translated.get(name) for name in expected} == expected
    assert all(isinstance(value, str) for value in translated.values())


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, []),
        ({"PIP_NO_INDEX": "1"}, ["--no-index"]),
        ({"PIP_NO_INDEX": True}, ["--no-index"]),
        ({"PIP_NO_INDEX": "0"}, []),
        ({"PIP_NO_INDEX": "false"}, []),
        ({"UV_NO_INDEX": "1"}, ["--no-index"]),
    ],
)
def test_no_index_is_an_argument_as_uv_reads_it_from_no_environment(environment, expected):
    assert engine_release.uv_arguments(environment) == expected


def test_uv_trusts_what_the_host_trusts_and_takes_the_version_from_any_index():
    settings = engine_release.uv_environment({})
    assert settings["UV_SYSTEM_CERTS"] == "true"
    assert settings["UV_INDEX_STRATEGY"] == "unsafe-best-match"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://user:word@host/simple", "https://host/simple"),
        ("failed to fetch `http://token@host:8080/a b`", "failed to fetch `http://host:8080/a b`"),
        ("https://host/simple/a@b", "https://host/simple/a@b"),
        ("mail a@b and https://host", "mail a@b and https://host"),
        ("http://a:1@h/ and http://b:2@h/", "http://h/ and http://h/"),
    ],
)
def test_credentials_of_addresses_are_taken_out(text, expected):
    assert engine_release.redact(text) == expected


def test_last_words_have_no_noise_and_no_credentials():
    said = "Using Python 3.11\nResolved 3 packages in 1ms\nerror: no\n\n  cause: http://u:p@h/x\nwarning: old\n"
    assert engine_release.last_words(said) == "error: no | cause: http://h/x"
    assert engine_release.last_words("") == "it said nothing"
    assert engine_release.last_words("\n".join(map(str, range(20))), count=2) == "18 | 19"


@pytest.mark.parametrize(
    ("name", "half"),
    [
        ("0.5.23-0123456789ab", True),
        ("0.5.23+standin-0123456789ab", True),
        ("0.5.10.post1-0123456789ab", True),
        ("0.5.22-0123456789ab", False),
        ("0.5.23-0123456789abc", False),
        ("my-own-folder", False),
        (".0.5.23-0123456789ab", False),
    ],
)
def test_only_folders_that_are_named_like_a_release_are_half_releases(name, half):
    found = engine_release.half_releases([name], {"0.5.22-0123456789ab"})
    assert found == ([name] if half else [])


@pytest.mark.parametrize(
    ("kept", "expected"),
    [(0, ["c", "b", "a"]), (1, ["c", "b", "a"]), (2, ["b", "a"]), (3, ["a"]), (4, []), (9, [])],
)
def test_the_newest_stay_and_this_one_is_the_first(kept, expected):
    complete = {"a": 1, "now": 2, "b": 3, "c": 4}
    assert engine_release.surplus_releases(complete, "now", kept) == expected


@pytest.mark.parametrize(
    ("version", "below", "problem"),
    [
        ("3.11.2", "", ""),
        ("3.12.9", "3.13", ""),
        ("3.9.2", "", "is Python 3.9.2, and Python 3.11 or newer is needed"),
        ("3.13.1", "3.13", "is Python 3.13.1, and a Python older than 3.13 is needed"),
        ("", "", "does not run here"),
    ],
)
def test_an_interpreter_fits_or_is_told_why_not(version, below, problem):
    assert engine_release.python_problem(version, "3.11", below) == problem


def test_another_version_than_the_wanted_one_is_told_with_the_mend():
    assert engine_release.version_problem("0.5.23", "0.5.23") == ""
    told = engine_release.version_problem("0.5.23+cu130", "0.5.23")
    assert "'0.5.23+cu130'" in told and '"sglang===0.5.23"' in told


def test_settings_with_credentials_are_told_apart():
    settings = {"PIP_INDEX_URL": "https://u:p@h/", "PIP_FIND_LINKS": "/srv/a@b", "HTTPS_PROXY": "http://t@p:1"}
    assert engine_release.secret_settings(settings) == ["HTTPS_PROXY", "PIP_INDEX_URL"]
