# Copyright: (c) 2026, llmfleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import socket

import pytest
from ansible_collections.llmfleet.sglang.plugins.modules import host_info


class Exit(Exception):
    """Raised where the module would end its process."""


class FakeModule:
    """Stands for AnsibleModule."""

    def __init__(self, **params):
        self.params = {"paths": [], "port": None, "proc_path": "/proc", **params}
        self.result = None
        self.spec = None

    def __call__(self, argument_spec, supports_check_mode):
        self.spec = argument_spec
        assert supports_check_mode
        return self

    def exit_json(self, **result):
        self.result = result
        raise Exit

    def fail_json(self, **result):
        self.result = {"failed": True, **result}
        raise Exit


def run(monkeypatch, **params):
    fake = FakeModule(**params)
    monkeypatch.setattr(host_info, "AnsibleModule", fake)
    with pytest.raises(Exit):
        host_info.main()
    return fake.result


def test_a_path_that_is_not_there_counts_for_its_nearest_parent(monkeypatch, tmp_path):
    (tmp_path / "models").mkdir()
    wanted = tmp_path / "models" / "a" / "b"
    (path,) = run(monkeypatch, paths=[str(wanted)])["paths"]
    usage = os.statvfs(tmp_path)
    assert (path["path"], path["nearest"], path["used"]) == (str(wanted), str(tmp_path / "models"), 0)
    assert abs(path["free"] - usage.f_bavail * usage.f_frsize) < 10**9


def test_what_is_there_already_is_counted_on_disk(monkeypatch, tmp_path):
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "shard").write_bytes(os.urandom(3_000_000))
    (folder / "link").symlink_to("sub/shard")
    (path,) = run(monkeypatch, paths=[str(folder)])["paths"]
    assert path["nearest"] == str(folder)
    assert 3_000_000 <= path["used"] < 3_200_000


def test_a_relative_path_is_refused(monkeypatch):
    result = run(monkeypatch, paths=["srv/models"])
    assert result["failed"] is True
    assert "'srv/models'" in result["msg"]


def test_the_owner_of_a_port_is_found(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (listener,) = run(monkeypatch, port=port)["listeners"]
    assert (listener["address"], listener["pid"]) == ("127.0.0.1", os.getpid())
    assert run(monkeypatch, port=port)["listeners"] == []


def test_files_of_another_proc(monkeypatch, tmp_path):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "comm").write_text("sh\n")
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable: 50 kB\n")
    result = run(monkeypatch, proc_path=str(tmp_path))
    assert result["init"] == "sh"
    assert result["memory"] == {"total": 102400, "available": 51200}
    assert result["listeners"] == []
    (tmp_path / "meminfo").unlink()
    assert run(monkeypatch, proc_path=str(tmp_path))["memory"] == {"total": None, "available": None}


def test_the_documentation_names_the_options_and_the_results(monkeypatch):
    yaml = pytest.importorskip("yaml")
    fake = FakeModule()
    monkeypatch.setattr(host_info, "AnsibleModule", fake)
    with pytest.raises(Exit):
        host_info.main()
    documented = yaml.safe_load(host_info.DOCUMENTATION)["options"]
    assert {name: (option["type"], option.get("default")) for name, option in documented.items()} == {
        name: (option["type"], option.get("default")) for name, option in fake.spec.items()
    }
    assert set(yaml.safe_load(host_info.RETURN)) == set(fake.result) - {"changed"}
