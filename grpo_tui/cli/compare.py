"""`grpo-tui compare`: compare a trained model with its base or with others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import FAILED, OK, CommandError, reported
from grpo_tui.cli.plain import complain, print_json, print_text, show_progress, terminal_width
from grpo_tui.cli.score import wanted_config
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.text import one_line
from grpo_tui.present.baseline_text import PROGRESS, progress
from grpo_tui.present.comparison_text import report
from grpo_tui.rewards.generating import GenerateError, Progress
from grpo_tui.rewards.lab import Lab, LabError
from grpo_tui.rewards.right_answers import JudgeError
from grpo_tui.ship import compare as ship
from grpo_tui.ship.chat import live_run
from grpo_tui.ship.kept import KeptError
from grpo_tui.ship.policies import Policy, PolicyError, base_policy, resolve
from grpo_tui.store.comparisons import BASE
from grpo_tui.store.layout import RunFolder

INTERRUPTED = 130


def compare(parsed: Any) -> int:
    """`grpo-tui compare POLICY…`. Exit 1 when one is worse than the first."""
    words = list(parsed.policies)
    source = parsed.config or run_of(words)
    if source is None:
        raise CommandError("Name a config or a run with --config: data and rewards come from there")
    config = wanted_config([str(source)], [*parsed.overrides, *_prompts_of(parsed.prompts)], None)
    policies = _policies(words, config)
    run = next((policy.run for policy in reversed(policies) if policy.run is not None), None)
    prompts = None if parsed.prompts is None else str(parsed.prompts)
    options = ship.CompareOptions(
        parsed.rows, parsed.samples, parsed.seed, parsed.held, parsed.correct, prompts, parsed.probes
    )
    say = tell_progress if parsed.progress else show_progress
    body = run_comparison(config, policies, options, run, say, parsed.timeout)
    if body is None:
        return INTERRUPTED
    if parsed.json:
        print_json(body)
    else:
        print_text(report(body, terminal_width()))
    return FAILED if any(one["word"] == "worse" for one in body["verdict"]) else OK


def run_comparison(
    config: RunConfig,
    policies: Sequence[Policy],
    options: ship.CompareOptions,
    run: Path | None,
    say: Callable[[str], None],
    limit_s: float,
) -> dict[str, Any] | None:
    """Compare policies, and return the result; None when interrupted.

    Args:
        run: Run that keeps the comparison; None for none.
        limit_s: Seconds that a reward call may take.
    """
    names = [policy.name for policy in policies]

    def tell(name: str, now: Progress) -> None:
        say(f"{name} ({names.index(name) + 1} of {len(names)}): {progress(now)}")

    try:
        with reported(LabError, GenerateError, JudgeError, KeptError), Lab(limit_s=limit_s) as lab:
            say("loading torch…")
            return ship.compare(lab, config, policies, options, run, tell)
    except KeyboardInterrupt:
        show_progress("")
        complain("interrupted. What was generated is kept: the same command continues")
        return None
    finally:
        show_progress("")


def tell_progress(text: str) -> None:
    """Print the progress as a line on stderr, for the program that started this one."""
    print(f"{PROGRESS}{one_line(text)}", file=sys.stderr, flush=True)


def run_of(words: Sequence[str]) -> Path | None:
    """Return the first run among the arguments, whose config is used.

    Raises:
        CommandError: None is a run, and one of them names nothing.
    """
    for word in words:
        path, root = Path(word).expanduser(), Path(word.rpartition("@")[0]).expanduser()
        if RunFolder(path).exists():
            return path
        if path.name.startswith("checkpoint-") and RunFolder(path.parent).exists():
            return path.parent
        if "@" in word and not path.exists() and RunFolder(root).exists():
            return root
    with reported(PolicyError):
        for word in words:
            if word != BASE:
                resolve(word)
    return None


def _prompts_of(file: Path | None) -> list[str]:
    """Return the overrides that use all rows of a file instead of the config's dataset."""
    if file is None:
        return []
    if not file.exists():
        raise CommandError(f"{file}: no such file")
    none = ("probe_prompts", "evaluate", "on", "filters.exclude", "filters.only")  # they are about other rows
    own = {"dataset": file.absolute(), "holdout": 0, **dict.fromkeys(none, "null")}
    return [*(f"grpo_tui.{key}={value}" for key, value in own.items()), "eval_strategy='no'"]


def _policies(words: Sequence[str], config: RunConfig) -> list[Policy]:
    """Return the policies to compare. A single one is compared with the base."""
    with reported(PolicyError):
        if len(words) == 1:
            if words[0] == BASE:
                raise CommandError("compare base with what? Name a run, or a model or adapter folder too")
            return [base_policy(config), _stored_or_live(words[0], config)]
        if twice := next((word for at, word in enumerate(words) if word in words[:at]), None):
            raise CommandError(f"{twice} is named twice")
        return [_stored_or_live(word, config) for word in words]


def _stored_or_live(word: str, config: RunConfig) -> Policy:
    live = live_run(word)
    return policy_named(word, config) if live is None else ship.live_policy(live, config)


def policy_named(word: str, config: RunConfig) -> Policy:
    """Return the policy that an argument names. `base` is the config's model."""
    return base_policy(config) if word == BASE and not Path(word).exists() else resolve(word)
