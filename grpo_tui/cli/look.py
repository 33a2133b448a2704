"""Commands that read one run: attach, status. Also how every command finds its run folder.

What other tools logged is accepted as run folders, but cannot be steered.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_tui.cli.errors import OK, CommandError, reported
from grpo_tui.cli.plain import has_screen, print_json
from grpo_tui.cli.screen import show
from grpo_tui.core.text import one_line
from grpo_tui.present.events import changes_words
from grpo_tui.present.formatting import stage_words
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.spec import RunSpec, spec_or_none
from grpo_tui.store.status import MASKED, Status, read_status
from grpo_tui.supervisor import adopt

if TYPE_CHECKING:
    from grpo_tui.store.importers.copies import LogSource


def attach(parsed: Any) -> int:
    """`grpo-tui attach RUN`."""
    source = log_source(parsed.run)
    if source is not None:
        with followed(source) as copy:
            return _watch(copy)
    root = run_folder(parsed.run)
    _mend(root)
    return _watch(root)


def _watch(root: Path) -> int:
    if has_screen("a line per step"):
        return show(root)
    from grpo_tui.cli.headless import follow

    return follow(root)


def status(parsed: Any) -> int:
    """`grpo-tui status RUN [--json]`."""
    root = readable_folder(parsed.run)
    if log_source(parsed.run) is None:
        _mend(root)
    look = read_status(root)
    spec = spec_or_none(RunFolder(root)) or RunSpec({})
    forced, forked_from = spec.forced, spec.forked_from
    if parsed.json:
        print_json(
            {**look.to_json(), "forced": list(forced), "forked_from": forked_from}, ascii_only=True, indent=1
        )
        return OK
    why = Mailbox(RunFolder(root).commands).refusal() if look.live else ""
    lines = [*describe(look), *([f"read-only: {why}"] if why else [])]
    lines += [f"forked from {forked_from}"] if forked_from else []
    for line in (*lines, *(f"started despite {error}" for error in forced)):
        print(one_line(line))
    return OK


def _mend(root: Path) -> None:
    missing = adopt(RunFolder(root))
    if missing:
        print(f"grpo-tui: {missing}", file=sys.stderr)


def describe(look: Status, now: float | None = None) -> list[str]:
    """Return a status as lines; `now` is its time, by default the present."""
    now = time.time() if now is None else now
    total = f" of {look.total_steps}" if look.total_steps else ""
    lines = [f"{look.state}  step {look.step}{total}  attempt {look.attempt}"]
    if look.stage is not None:
        lines.append(stage_words(look.stage))
    if look.live:
        reward = f", running reward function {look.reward_func}" if look.reward_func else ""
        lines.append(f"phase {look.phase} for {look.phase_s:.1f} s{reward}")
        if not look.supervised:
            lines.append(
                "no supervisor: training and recording continue, but abort-reward and stop --now do not work"
            )
    lines += [f"attention: {alert['message']}" for alert in look.alerts]
    lines += [
        f"{one.severity}: since step {one.first_step}: {one.message} [{one.id}]"
        for one in look.findings
        if one.id != "signal.masked" or not any(alert["id"] == MASKED for alert in look.alerts)
    ]
    if look.metrics:
        parts = [f"{key} {number_or_dash(look.metrics[key])}" for key in _SHOWN if key in look.metrics]
        lines.append("  ".join(parts))
    lines += [f"scheduled {changes_words(one['changes'])} at step {one['step']:,}" for one in look.scheduled]
    lines += _machine_lines(look)
    if look.checkpoints:
        names = [f"{c.step}{'' if c.complete else ' (incomplete)'}" for c in look.checkpoints]
        lines.append(f"checkpoints {', '.join(names)}")
    if look.dropped:
        lines.append(f"{look.dropped} records could not be saved")
    if look.error:
        lines.append(f"cause: {look.error.get('cause') or look.error.get('message')}")
    if look.progress_at and look.live:
        lines.append(f"last step ended {max(0.0, now - look.progress_at):.0f} s ago")
    elif look.state in ("training", "stalled"):
        lines.append("no step has ended yet")
    return lines


def _machine_lines(look: Status) -> list[str]:
    """Return a line per rank and GPU, empty for a run without hardware samples."""
    from grpo_tui.present.hardware_view import gpu_line, hardware_view, rank_rows

    machine = hardware_view(look)
    ranks = rank_rows(look, time.time())
    if len(ranks) == 1 and ranks[0].gpu is None:
        ranks = ()  # the phase line says the same
    lines = []
    for rank in ranks:
        since = f" for {time.time() - rank.phase_since:.1f} s" if rank.phase_since else ""
        place = "" if rank.gpu is None else f"  on GPU {rank.gpu}"
        call = f"  in {rank.reward_function}" if rank.reward_function else ""
        behind = "  the other ranks wait for it" if rank.behind else ""
        lines.append(
            f"rank {rank.rank}  pid {rank.pid}  step {rank.step}  {rank.phase}{since}{call}{place}{behind}"
        )
    if machine is None:
        return lines
    lines += [f"attention: {notice.text}" for notice in machine.warnings]
    if not machine.old:
        lines += [gpu_line(gpu) for gpu in machine.gpus] or list(machine.figures[:1])
    return lines


_SHOWN = (
    "reward",
    "reward_std",
    "frac_reward_zero_std",
    "kl",
    "entropy",
    "completions/mean_length",
    "step_time",
)


def readable_folder(path: Path) -> Path:
    """Return a run folder, or the updated copy of completions that TRL or verl logged there."""
    source = log_source(path)
    if source is None:
        return run_folder(path)
    from grpo_tui.store.importers.copies import LogFolderError, open_copy

    with reported(LogFolderError):
        return open_copy(source)


def run_folder(path: Path) -> Path:
    """Return the absolute run folder."""
    if path.name == "run.db":
        path = path.parent
    root = path.absolute()
    if not root.is_dir():
        what = "this is a file, not a run folder" if root.exists() else "no such folder"
        raise CommandError(f"{path}: {what}; `grpo-tui runs` lists the runs it can find")
    if not RunFolder(root).exists():
        from grpo_tui.store.importers.copies import source_at

        if (source := source_at(root)) is not None:
            raise CommandError(
                f"{what_it_is(source)} can only be read (attach, status, metrics, completions, course, "
                "score, whatif), not steered: grpo-tui does not run in that process"
            )
        raise CommandError(
            f"{path}: no run here (it has no run.db); `grpo-tui runs` lists the runs it can find"
        )
    return root


def number_or_dash(value: Any) -> str:
    """Return a number with four digits, text as it is, and `-` for None."""
    return f"{value:.4g}" if isinstance(value, int | float) else "-" if value is None else str(value)


NAMES = {"trl": "TRL"}
"""How a tool is written, if not as its kind."""


def log_source(path: Path) -> LogSource | None:
    """Return the logged completions at a path, or in the only subfolder with any, else None."""
    if RunFolder(path).exists():
        return None
    from grpo_tui.store.importers.copies import find_sources, source_at  # not for a run's first numbers

    own = source_at(path)
    if own is not None or not path.is_dir():
        return own
    found = find_sources([path])
    if len(found) > 1:
        names = ", ".join(one_line(str(source.root.relative_to(path.absolute())), 60) for source in found[:4])
        more = f" and {len(found) - 4} more" if len(found) > 4 else ""
        raise CommandError(
            f"{path}: several folders of logged completions are in it: {names}{more}; name one"
        )
    return found[0] if found else None


@contextmanager
def followed(source: LogSource) -> Iterator[Path]:
    """Copy logged completions to a run folder and keep it up to date. Say on stderr that it is read-only."""
    from grpo_tui.store.importers.copies import LogFolderError, follow

    with reported(LogFolderError), follow(source) as root:
        print(f"grpo-tui: {what_it_is(source)}; read-only", file=sys.stderr)
        yield root


def what_it_is(source: LogSource) -> str:
    """Describe the source, such as `completions that TRL logged in DIR`."""
    name = NAMES.get(source.kind, source.kind)
    return f"completions that {name} logged in {one_line(str(source.folder))}"
