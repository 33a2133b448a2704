"""`grpo-tui baseline`: measure the base model on a config's task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import FAILED, OK, CommandError, reported
from grpo_tui.cli.plain import print_json, terminal_width
from grpo_tui.cli.score import finding_lines, told, wanted_config
from grpo_tui.config import RunConfig
from grpo_tui.core.text import shell_word
from grpo_tui.present.baseline_text import heading, lines, progress
from grpo_tui.present.formatting import plural
from grpo_tui.rewards.baseline import BaselineOptions, ask_baseline
from grpo_tui.rewards.generating import Generated, GenerateError, Progress
from grpo_tui.rewards.lab import Lab, LabError
from grpo_tui.rewards.right_answers import JudgeError
from grpo_tui.rewards.samples import save_jsonl


def baseline(parsed: Any) -> int:
    """`grpo-tui baseline CONFIG`. Exit 1 when training could not succeed."""
    config = wanted_config([str(parsed.config)], parsed.overrides, None)
    if not config.model:
        raise CommandError(f"{parsed.config} does not name a model. Give a config or a run folder")
    _require_folder(parsed.save)
    options = BaselineOptions(parsed.rows, parsed.group, parsed.seed, parsed.held, parsed.correct)
    try:
        with reported(LabError, GenerateError, JudgeError), Lab(limit_s=parsed.timeout) as lab:
            told("", "loading torch…")
            _load(lab, config)
            found, generated = ask_baseline(lab, config, options, _tell)
    finally:
        told("", "")
    _save(generated, parsed.save)
    if parsed.json:
        print_json(found.to_json())
    else:
        width = terminal_width()
        report = [*heading(found, width), "", *lines(found, generated, width), ""]
        for line in (*report, *finding_lines(found.findings, width)):
            print(line)
        if parsed.save is not None:
            words = f"grpo-tui score {shell_word(parsed.config)} --samples {shell_word(parsed.save)}"
            print(f"\n{plural(len(generated.samples), 'completion')} saved; {words}")
    return FAILED if any(finding.severity == "error" for finding in found.findings) else OK


def _load(lab: Lab, config: RunConfig) -> None:
    """Load the rewards, and report errors in them before minutes are spent on the model."""
    for function in lab.load(config):
        if function.failure is not None:
            raise CommandError(f"the reward {function.name} cannot be loaded: {function.failure.text}")


def _tell(now: Progress) -> None:
    told("", progress(now))


def _require_folder(path: Path | None) -> None:
    if path is not None and not path.absolute().parent.is_dir():
        raise CommandError(f"--save {path}: the folder {path.absolute().parent} does not exist")


def _save(generated: Generated, path: Path | None) -> None:
    if path is None:
        return
    try:
        save_jsonl(generated.samples, path)
    except OSError as error:
        raise CommandError(f"--save {path}: {error.strerror}") from error
