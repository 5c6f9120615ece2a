# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server that gives a host's copy of a model to other hosts."""

from __future__ import annotations

import hashlib
import http.client
import importlib.util
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from ansible_collections.llmfleet.sglang.plugins.module_utils import model_manifest, model_transfer

SCRIPT = Path(__file__).resolve().parents[3] / "roles" / "model" / "files" / "offer.py"
DATA = bytes(range(256)) * 4000
NAME = "sub/a b.safetensors"


@pytest.fixture(scope="module")
def offer():
    spec = importlib.util.spec_from_file_location("model_offer", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "model" / "sub").mkdir(parents=True)
    (tmp_path / "model" / NAME).write_bytes(DATA)
    (tmp_path / "model" / "empty").write_bytes(b"")
    (tmp_path / "model" / "private").write_text("secret")
    files = {"model": [{"name": NAME}, {"name": "empty"}, {"name": "gone"}]}
    return {"token": "t0k3n", "port": 0, "idle": 60, "roots": {"model": str(tmp_path / "model")}, "files": files}


@pytest.fixture
def running(offer, settings):
    with offer.Offer(settings) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def ask(running):
    def request(path, method="GET", token="t0k3n", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", running.server_port, timeout=30)
        connection.request(method, path, headers={"Authorization": f"Bearer {token}", **headers})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, answer.headers, body

    return request


def test_listed_files_are_given_whole_and_in_part(ask):
    path = "/model/sub/a%20b.safetensors"
    assert ask(path)[::2] == (200, DATA)
    status, headers, body = ask(path, Range="bytes=1000000-")
    assert (status, headers["Content-Range"], body) == (
        206,
        f"bytes 1000000-{len(DATA) - 1}/{len(DATA)}",
        DATA[1000000:],
    )
    status, headers, body = ask(path, method="HEAD")
    assert (status, headers["Content-Length"], body) == (200, str(len(DATA)), b"")
    assert ask("/model/empty")[::2] == (200, b"")
    assert ask("/ready")[0] == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/model/private", 404),
        ("/model/sub/../private", 404),
        ("/model/%2e%2e/private", 404),
        ("/model/gone", 404),
        ("/", 404),
        ("/draft/empty", 404),
    ],
)
def test_nothing_else_is_given(ask, path, status):
    assert ask(path)[0] == status


@pytest.mark.parametrize("token", ["", "t0k3", "t0k3n ", "T0K3N", "\xe9"])
@pytest.mark.parametrize("path", ["/ready", "/model/empty"])
def test_nothing_is_given_without_the_token(ask, path, token):
    assert ask(path, token=token)[::2] == (403, b"")


def test_a_part_behind_the_end_is_refused(ask):
    status, headers, _body = ask("/model/sub/a%20b.safetensors", Range=f"bytes={len(DATA)}-")
    assert (status, headers["Content-Range"]) == (416, f"bytes */{len(DATA)}")


def test_the_fetching_side_takes_up_what_it_has(running, tmp_path):
    client = model_transfer.Client(token="t0k3n", proxied=False, retries=0)
    target = tmp_path / "fetched"
    (tmp_path / "fetched.part").write_bytes(DATA[:700_000])
    expected = model_manifest.entry(len(DATA), hashlib.sha256(DATA).hexdigest())
    url = model_transfer.url_of(f"http://127.0.0.1:{running.server_port}/model", NAME)
    assert client.fetch(url, str(target), expected) == expected["sha256"]
    assert target.read_bytes() == DATA
    with pytest.raises(model_transfer.TransferError, match="403"):
        model_transfer.Client(token="wrong", proxied=False).fetch(url, str(target), expected)


def test_it_removes_its_settings_and_ends_when_nobody_asks(settings, tmp_path):
    path = tmp_path / "offer.json"
    path.write_text(json.dumps({**settings, "idle": 0.2}))
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(path)], capture_output=True, text=True, timeout=120, check=True
    )
    assert "gives 3 files away" in done.stdout
    assert "nobody has asked" in done.stdout
    assert "t0k3n" not in done.stdout + done.stderr
    assert not path.exists()
