"""A push shows what it uploads, leaves out the rest, and answers a refusal of the Hub in a sentence.

The Hub is a small server on this machine.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.cli import main
from grpo_tui.core import records as r
from grpo_tui.demo import DEMO_MODEL
from grpo_tui.ship.policies import resolve
from grpo_tui.ship.push import PushError, _left_out, plan, secret_in
from tests import PATIENCE_S
from tests.present.test_seed_sets import changed
from tests.ui.recorded_run import recorded

TOKEN = "hf_" + "a1B2" * 9
TOKENS_FILE = "x" * 5 + "\nkey = " + TOKEN


class FakeHub(ThreadingHTTPServer):
    """Accepts uploads, or answers one path with a code."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.calls: list[str] = []
        self.files: dict[str, bytes] = {}
        self.private: bool | None = None
        self.refuses: tuple[str, int] = ("", 0)
        self.url = f"http://127.0.0.1:{self.server_port}"


class Answering(BaseHTTPRequestHandler):
    """The calls of huggingface_hub that an upload makes."""

    server: FakeHub

    def log_message(self, *args: Any) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.calls.append(self.path)
        part, code = self.server.refuses
        if part and part in self.path:
            self._send({"error": "refused", "url": f"{self.server.url}/me/first"}, code)
        elif "/repos/create" in self.path:
            asked = json.loads(body)
            self.server.private = bool(asked.get("private")) or asked.get("visibility") == "private"
            self._send({"url": f"{self.server.url}/me/first"})
        elif "/preupload/" in self.path:
            names = [one["path"] for one in json.loads(body)["files"]]
            modes = {name: "lfs" if name.endswith(".safetensors") else "regular" for name in names}
            self._send({"files": [{"path": name, "uploadMode": mode, "shouldIgnore": False}
                                  for name, mode in modes.items()]})  # fmt: skip
        elif self.path.endswith("/objects/batch"):
            objects = json.loads(body)["objects"]
            for one in objects:
                one["actions"] = {"upload": {"href": f"{self.server.url}/put/{one['oid']}"}}
            self._send({"transfer": "basic", "objects": objects}, kind="application/vnd.git-lfs+json")
        elif "/commit/" in self.path:
            for line in body.splitlines():
                value = json.loads(line)["value"]
                if "content" in value:
                    self.server.files[value["path"]] = base64.b64decode(value["content"])
                elif "oid" in value:
                    self.server.files[value["path"]] = self.server.files.pop(value["oid"])
            url = f"{self.server.url}/me/first/commit/abc"
            self._send({"commitUrl": url, "commitOid": "abc", "success": True})
        else:
            self._send({})

    def do_PUT(self) -> None:
        name = self.path.rpartition("/")[2]
        self.server.files[name] = self.rfile.read(int(self.headers["Content-Length"]))
        self._send({})

    def _send(self, body: Any, code: int = 200, kind: str = "application/json") -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    server = FakeHub()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A finished run with its final model, and what else lies in such a folder."""
    made = recorded(tmp_path / "first", "finished")
    made.close()
    root = made.folder.root
    for file in DEMO_MODEL.iterdir():
        (root / file.name).write_bytes(file.read_bytes())
    for name in ("optimizer.pt", "training_args.bin", ".env", "notes.txt", "api_token"):
        (root / name).write_text("secret")
    (root / "checkpoint-20").mkdir(exist_ok=True)
    (root / "tokenizer.model").symlink_to("/etc/passwd")
    return root


def push(run: Path, hub: FakeHub | None, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    given = {"HF_TOKEN": TOKEN, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", **environment}
    given |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(run.parent / "home")} if hub is not None else {}
    return subprocess.run(
        [sys.executable, "-m", "grpo_tui", "push", str(run), "me/first", *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**kept, **{name: value for name, value in given.items() if value}},
        timeout=PATIENCE_S,
        check=False,
    )


def test_a_dry_run_lists_the_files_and_uploads_nothing(run: Path, hub: FakeHub) -> None:
    done = push(run, hub, "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    body = json.loads(done.stdout)
    names = {one["name"] for one in body["files"]}
    assert {"README.md", "README-reward.svg", "config.json", "model.safetensors", "tokenizer.json"} <= names
    left_out = {one["name"]: one["why"] for one in body["left_out"]}
    assert left_out["optimizer.pt"] == "state for resuming"
    assert left_out[".env"] == left_out["api_token"] == "may contain secrets"
    assert left_out["training_args.bin"] == "state of the trainer"
    assert left_out["run.db"] == "record of the run"
    assert left_out["tokenizer.model"] == "a link"
    assert left_out["notes.txt"] == "not part of a model"
    assert left_out["checkpoint-20/"] == "a folder"
    assert not names & set(left_out)
    assert (body["card"], body["private"], body["url"]) == ("record", False, None)
    assert hub.calls == []
    text = push(run, hub, "--dry-run").stdout
    assert "to      me/first (public)" in text
    assert "Nothing was uploaded" in text


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Optimizer.PT", "state for resuming"),
        ("grpo_tui_state_0.json", "state for resuming"),
        ("Training_Args.bin", "state of the trainer"),
        ("PROD.ENV", "may contain secrets"),
        ("Id.KEY", "may contain secrets"),
        ("My-Credentials.yaml", "may contain secrets"),
        (".netrc", "may contain secrets"),
        ("Train.LOG", "record of the run"),
        ("Notes.TXT", "not part of a model"),
        ("config.json", ""),
    ],
)
def test_a_file_is_left_out_for_a_reason_however_its_name_is_written(
    name: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / name).touch()
    assert _left_out(tmp_path / name) == why


def test_a_push_uploads_these_files_and_a_card_from_the_record(run: Path, hub: FakeHub) -> None:
    done = push(run, hub, "--private", "--yes")
    assert done.returncode == 0, done.stderr
    assert f"uploaded: {hub.url}/me/first/commit/abc" in done.stdout
    assert hub.private is True
    assert hub.files["model.safetensors"] == (run / "model.safetensors").read_bytes()
    assert b"correctness" in hub.files["README.md"]
    assert b"(README-reward.svg)" in hub.files["README.md"]
    assert hub.files["README-reward.svg"].startswith(b"<svg")
    listed = json.loads(push(run, hub, "--dry-run", "--json").stdout)["files"]
    assert set(hub.files) == {one["name"] for one in listed}
    assert not (run / "README.md").exists()


@pytest.mark.parametrize(
    ("refuses", "environment", "said"),
    [
        (("/repos/create", 401), {}, "does not accept your token (401). Log in again with `hf auth login`"),
        (("/repos/create", 403), {}, "Your token may not write to me (403). Use a token with write access"),
        (("/repos/create", 409), {}, "me/first exists already (409)"),
        (("/commit/", 500), {}, "The Hub answered 500"),
        (("/commit/", 403), {}, "me/first exists now and is empty: --update continues"),
        (("", 0), {"HF_TOKEN": ""}, "You are not logged in to the Hub. Run `hf auth login`, or set HF_TOKEN"),
        (("", 0), {"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set, so nothing is uploaded. Unset it"),
        (("", 0), {"HF_ENDPOINT": "gone"}, "cannot be reached at http://127.0.0.1:"),
    ],
)
def test_a_refusal_is_one_sentence_with_what_to_do(
    run: Path, hub: FakeHub, refuses: tuple[str, int], environment: dict[str, str], said: str
) -> None:
    hub.refuses = refuses
    if "HF_ENDPOINT" in environment:
        hub.shutdown()
        hub.server_close()
        environment = {}
    done = push(run, hub, "--yes", **environment)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert TOKEN not in done.stdout + done.stderr


def test_a_repository_that_exists_gets_a_commit_with_update(run: Path, hub: FakeHub) -> None:
    hub.refuses = ("/repos/create", 409)
    done = push(run, hub, "--yes", "--update")
    assert done.returncode == 0, done.stderr
    assert "model.safetensors" in hub.files


def test_nothing_is_uploaded_without_a_yes_or_with_a_token_in_a_file(run: Path, hub: FakeHub) -> None:
    done = push(run, hub)
    assert done.returncode == 2
    assert "Add --yes to upload" in done.stderr
    (run / "generation_config.json").write_text(TOKENS_FILE)
    done = push(run, hub, "--yes")
    assert done.returncode == 2
    assert "generation_config.json:2 contains an access token" in done.stderr
    assert TOKEN not in done.stderr
    assert hub.calls == []


def test_a_name_that_holds_the_start_of_a_token_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"base": "/models/multitask-instruct-qwen-1b-v2-merged"}')
    assert secret_in(tmp_path / "a.json") == ""
    for before in ("", "\n", "\t", "key=", "%3D"):
        for token in (TOKEN, "sk-instruct-qwen-1b-v2-merged-01"):
            (tmp_path / "a.json").write_text(json.dumps(before + token))
            assert secret_in(tmp_path / "a.json"), (before, token)


def test_a_card_from_the_record_is_searched_for_tokens_too(run: Path) -> None:
    config = {"grpo": {"run_name": TOKEN, "adam_beta2": TOKEN}, "script": {"dataset_name": TOKEN}}
    changed(run, r.Fact("config", config))
    with pytest.raises(PushError, match="The card made from the record of the run holds an access token"):
        plan(resolve(str(run)), "me/first", private=False)


def test_a_card_of_the_users_own_is_kept_and_a_folder_without_weights_is_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "README.md").write_text("# Mine\n")
    assert plan(resolve(str(run)), "me/first", private=False).card == "file"
    with pytest.raises(PushError, match="OWNER/NAME"):
        plan(resolve(str(run)), "first", private=False)
    assert main(["push", str(DEMO_MODEL), "me/first", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["card"] is None
    assert main(["push", str(tmp_path / "none"), "me/first", "--dry-run"]) == 2
    assert main(["push", str(run), "me/first", "--dry-run", "--yes"]) == 2
