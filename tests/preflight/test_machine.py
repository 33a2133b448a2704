"""What is asked of a machine: accounts without their secrets, visible GPUs, ports, servers, free disk."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from grpo_tui.config.packages import version_of
from grpo_tui.preflight import machine as asking
from grpo_tui.preflight.machine import (
    GpuFacts,
    ServerAnswer,
    _visible,
    accounts,
    ask,
    free_bytes,
)
from grpo_tui.supervisor.ports import port_in_use
from tests import PATIENCE_S

GPUS = tuple(GpuFacts(index, f"GPU {index}") for index in range(4))


@pytest.mark.parametrize(
    ("environment", "files", "expected"),
    [
        ({}, {}, set()),
        ({"WANDB_API_KEY": "k"}, {}, {"wandb"}),
        ({}, {".netrc": "machine api.wandb.ai\n  login user\n  password secret\n"}, {"wandb"}),
        ({}, {".netrc": "machine example.org login wandb password secret\n"}, set()),
        ({}, {".netrc": "\nmachine\n"}, set()),
        ({"HF_TOKEN": "k", "COMET_API_KEY": "k"}, {}, {"huggingface", "comet_ml"}),
        ({}, {".cache/huggingface/token": "secret"}, {"huggingface"}),
        ({"HF_HOME": "/nowhere"}, {".cache/huggingface/token": "secret"}, set()),
    ],
)
def test_an_account_is_known_by_its_being_there(
    environment: dict[str, str], files: dict[str, str], expected: set[str], tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert accounts({"HOME": str(tmp_path), **environment}) == expected


def test_every_service_is_known_by_the_token_of_its_own() -> None:
    tokens = {
        "WANDB_API_KEY": "wandb", "HF_TOKEN": "huggingface", "HUGGING_FACE_HUB_TOKEN": "huggingface",
        "COMET_API_KEY": "comet_ml", "NEPTUNE_API_TOKEN": "neptune",
    }  # fmt: skip
    for name, service in tokens.items():
        assert accounts({"HOME": "/nowhere", name: "x"}) == {service}


@pytest.mark.parametrize(
    ("named", "indices"),
    [
        (None, [0, 1, 2, 3]),
        ("", []),
        ("2", [2]),
        ("3, 1", [3, 1]),
        ("0,-1,2", [0]),
        ("7", []),
        ("GPU-aaaa,GPU-bbbb", [0, 1]),
    ],
)
def test_the_gpus_of_a_run_are_those_that_are_visible(named: str | None, indices: list[int]) -> None:
    environment = {} if named is None else {"CUDA_VISIBLE_DEVICES": named}
    assert [gpu.index for gpu in _visible(GPUS, environment)] == indices


@pytest.mark.parametrize(
    ("shell", "config", "seen"),
    [({}, {}, None), ({"V": "shell"}, {}, "shell"), ({}, {"V": "config"}, "config"),
     ({"V": "shell"}, {"V": "config"}, "config")],
)  # fmt: skip
def test_what_a_config_adds_to_the_environment_counts_before_the_shell(
    shell: dict[str, str], config: dict[str, str], seen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("V", raising=False)
    for name, value in shell.items():
        monkeypatch.setenv(name, value)
    assert asking.this_machine(config).environment.get("V") == seen


class _Server(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, body = {"/json": (200, b'{"a": 1}'), "/text": (200, b"ok")}.get(self.path, (404, b""))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def served() -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), _Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def test_a_server_is_asked_and_what_is_no_answer_is_said(
    served: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ANSWER_S", PATIENCE_S)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # a proxy is not asked for a server of one's own
    base = f"http://127.0.0.1:{served}"
    assert ask(f"{base}/json") == ServerAnswer(200, {"a": 1})
    assert ask(f"{base}/text") == ServerAnswer(200)
    assert ask(f"{base}/none") == ServerAnswer(404)
    assert ask("http://127.0.0.1:1/json").trouble == "Connection refused"
    assert ask("no address").status is None


def test_a_port_that_something_listens_on_is_in_use() -> None:
    with socket.socket() as listening:
        listening.bind(("", 0))
        listening.listen()
        port = listening.getsockname()[1]
        assert port_in_use(port)
    assert not port_in_use(port)


def test_the_disk_is_that_of_the_folder_to_come(tmp_path: Path) -> None:
    assert (free_bytes(tmp_path / "not" / "there") or 0) > 0


def test_a_package_has_its_version_or_none() -> None:
    assert version_of("pytest") == pytest.__version__
    assert version_of("no-such-package-anywhere") is None
