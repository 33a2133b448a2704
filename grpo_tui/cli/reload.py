"""`grpo-tui reload RUN`: load edited rewards or another list into a live run, after checking them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import OK, REFUSED, CommandError, reported
from grpo_tui.cli.look import run_folder
from grpo_tui.cli.plain import print_json, print_lines, terminal_width
from grpo_tui.cli.saved_run import saved_run
from grpo_tui.cli.score import told
from grpo_tui.cli.steer import is_text, send
from grpo_tui.config.resolve import inspect_config, inspect_saved
from grpo_tui.config.reward_list import listed_in, same_list, with_list, with_written
from grpo_tui.config.run_config import RunConfig, describe
from grpo_tui.config.stages import with_rewards
from grpo_tui.core.findings import errors_of
from grpo_tui.core.text import shell_word
from grpo_tui.present.what_if_lines import reload_lines
from grpo_tui.rewards.lab import Lab, LabError
from grpo_tui.rewards.reload_check import TRY_LATER, check_reload
from grpo_tui.store.status import read_status


def reload(parsed: Any) -> int:
    """`grpo-tui reload RUN [--check] [--force] [--because TEXT]`."""
    root = run_folder(parsed.run)
    if parsed.because is not None and not is_text(parsed.because):
        raise CommandError("the reason is not valid UTF-8")
    if not parsed.check and not (look := read_status(root)).live:
        raise CommandError(
            f"the run is {look.state}. `grpo-tui train {root} --resume` reads the current files", REFUSED
        )
    config, listed = _wanted(root)
    with reported(LabError), Lab(limit_s=parsed.timeout) as lab:
        told("", "loading torch…")
        found = check_reload(lab, root, config, listed, most_groups=parsed.groups, tell=told)
    told("", "")
    if parsed.check and parsed.json:
        print_json(found.to_json())
    elif not parsed.json:
        print_lines(reload_lines(found, terminal_width()))
    reasons = [*found.broken, *(() if parsed.force else found.failed)]
    if reasons:
        raise CommandError(_refused(reasons, early=found.early, can_be_forced=not found.broken), REFUSED)
    if parsed.check:
        return OK
    args = found.arguments(parsed.because or "", forced=parsed.force)
    return send(root, "reload", args, parsed.wait, as_json=parsed.json)


def _wanted(root: Path) -> tuple[RunConfig, RunConfig | None]:
    """Return a run's config, and the same with the list of its config file if that is another.

    Raises:
        CommandError: The file cannot be read, so the list that is wanted is not known.
    """
    folder, spec, whole = saved_run(root)
    config = RunConfig.from_json(spec.config, folder.root)  # of the stage that trains
    file = config.path
    if file is None or not file.is_file():
        return config, None
    found = inspect_config(file, spec.rewards_set, world_size=None)
    wrong = errors_of(found.findings)
    if found.config is None and wrong[0].id != "config.unreadable":  # --set may have given what it lacks
        raw = with_written(whole.raw, found.settings.document.values)
        found = inspect_saved(replace(whole, raw=raw), world_size=None)
        about = {(one.id, one.field) for one in errors_of(found.findings)}
        wrong = tuple(one for one in wrong if (one.id, one.field) in about) or errors_of(found.findings)
    if found.config is None:
        raise CommandError(
            f"the rewards were not reloaded: {file.name} cannot be read, so its list of rewards is not "
            f"known:\n  {describe(wrong[0], file)}\nFix the file and reload again",
            REFUSED,
        )
    if same_list(found.config, whole):
        return config, None
    listed = listed_in(found.config)
    if spec.stage is not None:
        resume = f"grpo-tui train {shell_word(file)} --run-dir {shell_word(folder.root)} --resume"
        try:
            with_rewards(whole, spec.stage.place, listed)
        except ValueError as error:
            raise CommandError(
                f"{file.name} lists other rewards than this run, but {error}. Stop the run and resume it: "
                f"`{resume}`",
                REFUSED,
            ) from error
    return config, with_list(config, listed)


def _refused(reasons: Sequence[str], *, early: bool, can_be_forced: bool) -> str:
    more = TRY_LATER if early else "Fix the files and reload again"
    more += ", or add --force" if can_be_forced else ""
    return "the rewards were not reloaded:" + "".join(f"\n  {reason}" for reason in reasons) + f"\n{more}"
