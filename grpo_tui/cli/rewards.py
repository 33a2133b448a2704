"""`grpo-tui rewards`: open the Rewards pane for a config or for functions.

Invalid arguments are reported before the screen opens.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import CommandError
from grpo_tui.cli.plain import has_screen
from grpo_tui.cli.score import wanted_config
from grpo_tui.cli.screen import show
from grpo_tui.core.text import one_line, shell_word


def rewards(parsed: Any) -> int:
    """`grpo-tui rewards CONFIG_OR_FUNC…`."""
    config = wanted_config(parsed.sources, parsed.overrides, None)
    samples: Path | None = parsed.samples
    if samples is not None and not samples.is_file():
        raise CommandError(f"{samples}: no such file of samples")
    if not config.reward_count:
        raise CommandError(
            f"{parsed.sources[0]} names no reward. Add reward_funcs, or rewards in the section grpo_tui:"
        )
    if not has_screen("`grpo-tui score`"):
        words = " ".join(shell_word(word) for word in parsed.sources)
        source = f" --samples {shell_word(samples)}" if samples is not None else ""
        raise CommandError(f"the pane needs a terminal. Use `grpo-tui score {words}{source}` instead")
    from grpo_tui.rewards.sample_sources import Origin
    from grpo_tui.ui.requests import RewardsRequest

    origin = Origin("file", file=samples) if samples is not None else None
    overrides = tuple(parsed.overrides)
    request = RewardsRequest(
        _title(parsed.sources), lambda: config, origin, file=config.path, overrides=overrides
    )
    return show(None, rewards=request)


def _title(sources: list[str]) -> str:
    names = [one_line(source.rstrip("/").rpartition("/")[2], 40) for source in sources]
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
