"""Where a model or dataset is, asked of a hub that answers, refuses, hangs or is not there."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from grpo_tui.config.section import Section
from grpo_tui.config.settings import Settings
from grpo_tui.config.yaml_lines import YamlDocument
from grpo_tui.demo import DEMO_MODEL
from grpo_tui.preflight.child import hub
from grpo_tui.preflight.child.hub import Hub
from grpo_tui.preflight.facts import ModelFacts, Whereabouts
from grpo_tui.preflight.model_findings import model_findings
from tests import PATIENCE_S

WHOLE = DEMO_MODEL / "model.safetensors"
FILES = {"config.json": 700, "model.safetensors": 5_000_000_000, "pytorch_model.bin": 5_000_000_000}
OF_ONE_KIND = {"config.json": 700, "original/part.bin": 20, "model.bin": 1000, "rows.bin": 50}


class Answers(BaseHTTPRequestHandler):
    """A hub with a few repositories."""

    released = threading.Event()

    def do_GET(self) -> None:
        name = "/".join(self.path.split("/")[3:5]).partition("?")[0]
        if name == "some/slow":
            self.released.wait(PATIENCE_S)
        if name == "some/secret" and "auth-check" in self.path:
            return self._say(403, {"error": "no"}, "GatedRepo")
        if name not in ("some/open", "some/secret", "some/old", "some/rows"):
            return self._say(404, {"error": "not found"}, "RepoNotFound")
        files = OF_ONE_KIND if name in ("some/old", "some/rows") else FILES
        siblings = [{"rfilename": file, "size": size} for file, size in files.items()]
        gated = "manual" if name == "some/secret" else False
        return self._say(200, {"id": name, "gated": gated, "siblings": siblings, "private": False})

    def _say(self, status: int, body: object, error: str = "") -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        if error:
            self.send_header("X-Error-Code", error)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    Answers.released.clear()
    served = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=served.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{served.server_port}"
    Answers.released.set()
    served.shutdown()
    served.server_close()


@pytest.fixture
def asked(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hub:
    """A hub that asks the server, with an empty cache."""
    from huggingface_hub import constants

    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "datasets"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", server)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(hub, "ASK_S", PATIENCE_S)
    return Hub()


def rules(where: Whereabouts) -> list[tuple[str, str]]:
    settings = Settings({}, Section(), {}, YamlDocument({}))
    return [(f.id, f.severity) for f in model_findings(ModelFacts(where), settings)]


def test_a_model_of_the_hub_is_told_with_what_it_costs(asked: Hub) -> None:
    where = asked.model("some/open")
    assert (where.place, where.download_bytes) == ("hub", 5_000_000_700)  # one form of the weights
    assert where.free_bytes
    assert rules(where) == [("model.download", "info")]
    poor = Whereabouts("some/open", "hub", download_bytes=10, free_bytes=9)
    assert rules(poor) == [("model.disk", "error")]


def test_weights_of_one_kind_and_the_files_of_a_dataset_are_fetched_whole(asked: Hub) -> None:
    everything = sum(OF_ONE_KIND.values())
    assert asked.model("some/old").download_bytes == everything
    assert asked.dataset("some/rows").download_bytes == everything
    assert asked.dataset("some/open").download_bytes == sum(FILES.values())


def test_a_folder_with_whole_weights_is_a_model_and_a_file_cut_short_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "a.safetensors").write_bytes(WHOLE.read_bytes())
    found = Hub().model(str(tmp_path))
    assert (found.place, found.problem, rules(found)) == ("folder", "", [])
    (tmp_path / "b.safetensors").write_bytes(WHOLE.read_bytes()[:-1])
    found = Hub().model(str(tmp_path))
    assert found.place == "broken"
    assert found.problem.startswith(f"b.safetensors in {tmp_path} is incomplete")


def test_a_folder_that_lacks_a_part_of_its_weights_says_which(tmp_path: Path) -> None:
    def said() -> str:
        return Hub().model(str(tmp_path)).problem.removeprefix(f"{tmp_path} ")

    assert said() == "has no config.json, so it is not a model"
    (tmp_path / "config.json").write_text("{}")
    assert said() == "lacks its weights (*.safetensors)"
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"x": "a.safetensors", "y": "b.safetensors", "z": "c.bin"}}))
    (tmp_path / "a.safetensors").write_bytes(WHOLE.read_bytes()[:-1])
    assert said() == "lacks 2 of its weight files (b.safetensors)"
    for text in (json.dumps({"weight_map": {"x": "a.safetensors"}}), "no JSON"):
        index.write_text(text)
        assert said().startswith("a.safetensors in "), "nothing lacks, and it is cut short"


@pytest.mark.parametrize(("weights", "size"), [(("w.safetensors", "w.bin"), 12), (("w.bin", "w.gguf"), 12)])
def test_the_size_of_a_model_is_one_kind_of_its_weights_and_what_is_read_beside_them(
    weights: tuple[str, ...], size: int, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text("{}")
    for name in (*weights, "training_args.bin", "optimizer.bin", "scheduler.pt", "rng_state.pth"):
        (tmp_path / name).write_bytes(b"x" * 10)
    (tmp_path / "checkpoint-1").mkdir()
    (tmp_path / "checkpoint-1" / "w.bin").write_bytes(b"x" * 10)
    found = Hub().model(str(tmp_path))
    assert (found.disk_bytes, found.download_bytes) == (size, 0)


@pytest.mark.parametrize("folder", ["datasets/some___kept", "hub/datasets--some--kept/snapshots"])
def test_a_dataset_is_cached_once_there_are_files_of_it(asked: Hub, folder: str, tmp_path: Path) -> None:
    (tmp_path / folder).mkdir(parents=True)
    assert asked.dataset("some/kept").place == "missing"
    (tmp_path / folder / "abc").mkdir()
    (tmp_path / folder / "abc" / "rows.arrow").write_bytes(b"x" * 7)
    found = Hub().dataset("some/kept")
    assert (found.place, found.path, found.disk_bytes) == ("cached", str(tmp_path / folder), 7)


@pytest.mark.parametrize(
    ("name", "place", "said"),
    [
        ("some/secret", "gated", "ask at"),
        ("some/where", "missing", "the hub has no model some/where, or it is private"),
        ("no name at all", "missing", "neither"),
    ],
)
def test_a_model_that_cannot_be_had_is_an_error(asked: Hub, name: str, place: str, said: str) -> None:
    where = asked.model(name)
    assert where.place == place
    assert said in where.problem
    assert rules(where) == [(f"model.{place}", "error")]


def test_a_hub_that_hangs_is_asked_once_and_never_again(asked: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "ASK_S", 0.2)
    where = asked.model("some/slow")
    assert where.place == "unreachable"
    assert "could not be reached" in where.problem
    assert rules(where) == [("model.unreachable", "error")]
    asked_again = asked.dataset("some/open")
    assert asked_again.place == "unreachable"
    assert "some/open is not on this machine" in asked_again.problem


def test_the_next_check_asks_again(asked: Hub, monkeypatch: pytest.MonkeyPatch, server: str) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert asked.model("some/open").place == "unreachable"
    assert constants.HF_HUB_OFFLINE
    monkeypatch.setattr(constants, "ENDPOINT", server)
    assert asked.model("some/open").place == "unreachable"
    asked.renew()
    assert not constants.HF_HUB_OFFLINE
    assert os.environ["HF_HUB_OFFLINE"] == "0"
    assert asked.model("some/open").place == "hub"


def test_offline_is_said_without_asking(asked: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    where = asked.model("some/open")
    assert where.place == "unreachable"
    assert "HF_HUB_OFFLINE is set" in where.problem


def test_a_name_too_long_for_the_hub_is_told_and_not_looked_up(asked: Hub) -> None:
    for where in (asked.model("x" * 5000), asked.dataset("x" * 5000)):
        assert where.place == "missing"
        assert len(where.problem) < 200


def test_what_is_cached_whole_needs_no_hub(asked: Hub, tmp_path: Path) -> None:
    snapshot = tmp_path / "hub" / "models--some--cached" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (tmp_path / "hub" / "models--some--cached" / "refs").mkdir()
    (tmp_path / "hub" / "models--some--cached" / "refs" / "main").write_text("abc")
    (snapshot / "config.json").write_text("{}")
    assert asked.model("some/cached").place == "missing"  # no weights yet, and the hub does not know it
    (snapshot / "model.safetensors").write_bytes(b"x" * 50)
    where = Hub().model("some/cached")
    assert (where.place, where.disk_bytes, where.here) == ("cached", 52, True)


@pytest.mark.parametrize("named", [None, "0"])
@pytest.mark.parametrize("loaded", [False, True])
def test_every_library_is_offline_for_a_while_also_one_that_is_imported_meanwhile(
    loaded: bool, named: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    if named is None:
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    else:
        monkeypatch.setenv("HF_HUB_OFFLINE", named)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    library = SimpleNamespace(config=SimpleNamespace(HF_HUB_OFFLINE=False))
    monkeypatch.setitem(sys.modules, "datasets", library)
    if not loaded:
        monkeypatch.delitem(sys.modules, "datasets")
    with hub.offline():
        assert (constants.HF_HUB_OFFLINE, os.environ["HF_HUB_OFFLINE"]) == (True, "1")
        if not loaded:
            library.config.HF_HUB_OFFLINE = True  # as its import reads the variable
            monkeypatch.setitem(sys.modules, "datasets", library)
        assert library.config.HF_HUB_OFFLINE
    assert (constants.HF_HUB_OFFLINE, library.config.HF_HUB_OFFLINE) == (False, False)
    assert os.environ.get("HF_HUB_OFFLINE") == named
