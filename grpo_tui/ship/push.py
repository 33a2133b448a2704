"""Upload a model to the Hugging Face Hub: choose the files, show them, upload them.

Only files that a model needs to be loaded, and its card, are uploaded. Everything else in the folder is left
out by default: optimizer states, the run's record, logs, files that may hold secrets.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from grpo_tui.core.text import shell_word
from grpo_tui.present.svg_chart import line_chart
from grpo_tui.ship.card import CARD, card, charts_of, refusal
from grpo_tui.ship.policies import Policy
from grpo_tui.ship.run_facts import read_facts
from grpo_tui.store.json_file import read_regular

WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "adapter_model*.bin")
_WANTED = (
    *WEIGHTS,
    "*.safetensors.index.json",
    "pytorch_model.bin.index.json",
    "config.json",
    "generation_config.json",
    "adapter_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "preprocessor_config.json",
    "processor_config.json",
    "modeling_*.py",
    "configuration_*.py",
    "tokenization_*.py",
    "LICENSE*",
    CARD,
    "README-*.svg",
)
_REASONS = (
    (("optimizer*", "scheduler*", "rng_state*", "scaler*", "grpo_tui_state*"), "state for resuming"),
    (("training_args.bin", "trainer_state.json"), "state of the trainer"),
    ((".*", "*.env", "*.pem", "*.key", "*token", "*secret*", "*credential*"), "may contain secrets"),
    (("run.*", "*.log", "supervisor.*", "heartbeat*", "rank-*", "hardware.json"), "record of the run"),
)
_SECRET = re.compile(
    rb"hf_[A-Za-z0-9]{24,}|(?:(?<![A-Za-z])|(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2}))sk-[A-Za-z0-9_-]{24,}"
    rb"|gh[pousr]_[A-Za-z0-9]{30,}|AKIA[0-9A-Z]{16}"
)
"""Tokens of the Hub, OpenAI, GitHub and AWS. Names such as `task-…` hold the start of one."""
_REPO = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


class PushError(RuntimeError):
    """Nothing was uploaded; the message is for the user."""


@dataclass(frozen=True, slots=True)
class PushFile:
    """A file to upload. `content` is set if it is made for the upload."""

    name: str
    path: Path
    size_bytes: int
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An entry of the folder that is not uploaded."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Upload:
    """What would be uploaded, and where to, with the source of the card: `file`, `record` or empty."""

    folder: Path
    repo: str
    private: bool
    files: tuple[PushFile, ...]
    left_out: tuple[LeftOut, ...]
    card: str

    @property
    def size_bytes(self) -> int:
        """Size of all files."""
        return sum(file.size_bytes for file in self.files)


def plan(policy: Policy, repo: str, *, private: bool) -> Upload:
    """Choose the files to upload.

    Raises:
        PushError: There are no weights, a file holds a token, or the name of the repository is not valid.
    """
    if not _REPO.fullmatch(repo):
        raise PushError(f"{repo!r} is not the name of a repository. Use OWNER/NAME")
    folder = Path(policy.adapter or policy.model)
    if not folder.is_dir():
        raise PushError(f"{policy.name} is on the Hub already ({folder})")
    files, left_out = [], []
    for path in sorted(folder.iterdir()):
        if why := _left_out(path):
            left_out.append(LeftOut(path.name + "/" * path.is_dir(), why))
        else:
            files.append(PushFile(path.name, path, path.stat().st_size))
    if not any(fnmatch(file.name, pattern) for file in files for pattern in WEIGHTS):
        raise PushError(f"{folder} has no weights. Name the folder of a model or an adapter")
    made = _card(policy, folder)
    files = [file for file in files if file.name not in made]
    for file in files:
        if not any(fnmatch(file.name, pattern) for pattern in WEIGHTS) and (why := secret_in(file.path)):
            raise PushError(why)
    if made:
        if _SECRET.search(made[CARD]):
            run = shell_word(policy.run or folder)
            raise PushError(
                "The card made from the record of the run holds an access token. Write it with "
                f"`grpo-tui card {run} --write`, remove the token from it, and revoke the token"
            )
        files = [*(PushFile(name, folder / name, len(text), text) for name, text in made.items()), *files]
    source = "record" if made else "file" if any(file.name == CARD for file in files) else ""
    return Upload(folder, repo, private, tuple(files), tuple(left_out), source)


def _left_out(path: Path) -> str:
    """Return why an entry of the folder is not uploaded; empty if it is."""
    if path.is_symlink():
        return "a link"
    if path.is_dir():
        return "a folder"
    if not path.is_file():
        return "not a regular file"
    if any(fnmatch(path.name, pattern) for pattern in _WANTED):
        return ""
    reasons = (why for patterns, why in _REASONS if any(fnmatch(path.name.lower(), one) for one in patterns))
    return next(reasons, "not part of a model")


def _card(policy: Policy, folder: Path) -> dict[str, bytes]:
    """Return a card made from the run's record and its charts by name.

    Empty if the folder has a card that TRL did not write.
    """
    own = folder / CARD
    if policy.run is None or (own.exists() and refusal(own)):
        return {}
    facts = read_facts(policy.run, policy.run.name)
    charts = charts_of(facts, own.stem)
    drawn = {one.file: line_chart(one.curves, one.label).encode() for one in charts}
    return {CARD: card(facts, charts).encode(), **drawn}


def secret_in(file: Path) -> str:
    """Return where a file holds an access token, and what to do; empty if it holds none."""
    content = read_regular(file)
    found = _SECRET.search(content)
    line = content.count(b"\n", 0, found.start()) + 1 if found else 0
    return f"{file}:{line} contains an access token. Remove it, and revoke the token" if found else ""


def upload(planned: Upload, *, update: bool) -> str:
    """Upload the files to a new repository, or with `update` to an old one. Return the URL of the commit.

    Raises:
        PushError: The Hub cannot be reached or refuses.
    """
    import huggingface_hub as hub
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        raise PushError("HF_HUB_OFFLINE is set, so nothing is uploaded. Unset it and try again")
    if not hub.get_token():
        raise PushError("You are not logged in to the Hub. Run `hf auth login`, or set HF_TOKEN")
    if not sys.stderr.isatty():
        hub.utils.disable_progress_bars()
    api, created = hub.HfApi(), False
    try:
        api.create_repo(planned.repo, private=planned.private, exist_ok=update)
        created = not update
        done = api.create_commit(
            planned.repo,
            operations=list(_operations(planned)),
            commit_message=f"Upload {planned.folder.name} with grpo-tui",
        )
    except Exception as error:
        more = f". {planned.repo} exists now and is empty: --update continues" if created else ""
        raise PushError(f"{_told(error, planned.repo)}{more}") from error
    return str(done.commit_url)


def _operations(planned: Upload) -> Iterator[Any]:
    from huggingface_hub import CommitOperationAdd

    for file in planned.files:
        yield CommitOperationAdd(file.name, file.content if file.content is not None else str(file.path))


def _told(error: Exception, repo: str) -> str:
    """Return an error of the Hub as a sentence with what to do."""
    from huggingface_hub import constants, errors

    owner = repo.partition("/")[0]
    code = error.response.status_code if isinstance(error, errors.HfHubHTTPError) else None
    if isinstance(error, errors.HFValidationError):
        return f"{repo!r} is not a name that the Hub accepts. Use OWNER/NAME"
    told = {
        401: "The Hub does not accept your token (401). Log in again with `hf auth login`",
        403: f"Your token may not write to {owner} (403). Use a token with write access, or another owner",
        404: f"The Hub has no {repo}, or your token cannot see it (404). Check the name",
        409: f"{repo} exists already (409). Choose another name, or add a commit to it with --update",
    }
    if code in told:
        return told[code]
    if code is not None:
        return f"The Hub answered {code}: {_first_line(error)}"
    if isinstance(error, OSError) and not _is_network(error):
        return f"The files cannot be read: {_first_line(error)}"
    if _is_network(error):
        return f"The Hub cannot be reached at {constants.ENDPOINT}. Check the network, or HF_ENDPOINT"
    return f"{type(error).__name__}: {_first_line(error)}"


def _is_network(error: BaseException) -> bool:
    """Return whether the HTTP client could not get an answer, whichever client it is."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return bool(kinds & {"ConnectionError", "TransportError", "TimeoutException", "Timeout"})


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:200]
