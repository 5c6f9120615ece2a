# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two services of four GPUs each on one host."""

from __future__ import annotations

import pytest
from ansible_collections.llmfleet.sglang.tests.service.host import counts, said_in

PAIR = [
    {"name": "left", "port": 30010, "tensor_parallel_size": 4, "gpus": [0, 1, 2, 3]},
    {"name": "right", "port": 30011, "tensor_parallel_size": 4, "gpus": [4, 5, 6, 7]},
]


@pytest.fixture(scope="module")
def pair(server):
    """The host with both, beside the service that it had."""
    server.fault("")
    server.beside = server.invocation()
    server.pair_told = server.serve(serve_instances=PAIR)
    assert server.pair_told[0] == 0, server.pair_told[1][-6000:]
    yield server
    server.on_host(
        "systemctl disable --quiet --now sglang-left sglang-right; rm -rf /etc/sglang/left* /etc/sglang/right*"
    )
    server.on_host("rm -f /etc/systemd/system/sglang-left.service /etc/systemd/system/sglang-right.service")
    server.on_host("systemctl daemon-reload")


def test_both_are_verified(pair):
    told = pair.pair_told[1]
    assert told.count("PASS - 4 of 4 ranks") >= 2
    for name, port in (("left", 30010), ("right", 30011)):
        unit = f"sglang-{name}.service"
        assert pair.show(unit)["ActiveState"] == "active"
        assert len(pair.ranks(unit)) == 4
        assert (
            pair.on_host(
                f"curl --silent --output /dev/null --write-out '%{{http_code}}' http://127.0.0.1:{port}/v1/models"
            )
            == "200"
        )


def test_each_has_the_gpus_that_it_was_given(pair):
    for name, gpus in (("left", "0,1,2,3"), ("right", "4,5,6,7")):
        pid = pair.show(f"sglang-{name}.service")["MainPID"]
        assert (
            pair.on_host(f"tr '\\0' '\\n' < /proc/{pid}/environ | grep ^CUDA_VISIBLE_DEVICES=")
            == f"CUDA_VISIBLE_DEVICES={gpus}"
        )


def test_the_service_beside_them_was_left_alone(pair):
    assert pair.invocation() == pair.beside


def test_one_of_them_changes_alone(pair):
    before = [pair.invocation(f"sglang-{name}.service") for name in ("left", "right")]
    status, told = pair.serve(serve_instances=[PAIR[0], {**PAIR[1], "hicache_ratio": 2.0}])
    assert status == 0, told[-6000:]
    after = [pair.invocation(f"sglang-{name}.service") for name in ("left", "right")]
    assert (after[0] == before[0], after[1] == before[1]) == (True, False)


def test_a_pair_that_cannot_be_is_refused_before_anything_changes(server):
    before = server.on_host("ls -R /etc/sglang")
    bad = {**PAIR[1], "port": PAIR[0]["port"], "gpus": [3, 4, 5, 6]}
    status, told = server.site(serve_instances=[PAIR[0], bad])
    assert status != 0
    assert counts(told)["changed"] == 0
    said = 'serve_instances is ["left", "right"]: two services claim the same: port 30010 of'
    assert said in said_in(told), told[-3000:]
    assert "GPU 3 of" in said_in(told)
    assert server.on_host("ls -R /etc/sglang") == before
