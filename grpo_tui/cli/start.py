"""Commands that start runs: demo and train. Also opens a config given alone.

All errors in a config are reported before a process starts.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import OK, CommandError, reported
from grpo_tui.cli.gpus import placed
from grpo_tui.cli.plain import has_screen
from grpo_tui.cli.saved_run import launcher_words, saved_run, world_size
from grpo_tui.cli.screen import show
from grpo_tui.cli.words import sets
from grpo_tui.config.adapters import adapter_mismatch
from grpo_tui.config.batch import generation_batch_size
from grpo_tui.config.draft_file import DraftFileError, read_text
from grpo_tui.config.resolve import Inspected, inspect_config, inspect_saved, startable
from grpo_tui.config.reward_list import about_rewards
from grpo_tui.config.run_config import ConfigError, RunConfig, describe
from grpo_tui.config.section import Section
from grpo_tui.config.stages import end_of_stage, stage_at
from grpo_tui.core.schedule import BY_RESUME
from grpo_tui.core.stages import StageNow
from grpo_tui.core.text import one_line, shell_word
from grpo_tui.present.formatting import plural
from grpo_tui.rewards.consent import required_to_start
from grpo_tui.store.checkpoints import (
    MARKER,
    TRAINER_STATE,
    Verdict,
    copy,
    is_copy,
    judge,
    newest_usable,
    reference_of,
    refused_at_resume,
)
from grpo_tui.store.connection import DamagedError, NewerError, RunDatabaseError
from grpo_tui.store.json_file import read_object
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.read_series import last_metric_row_id
from grpo_tui.store.reader import RunReader
from grpo_tui.store.spec import RunSpec, spec_or_none
from grpo_tui.store.status import ENDED, read_status
from grpo_tui.supervisor import RunFolderBusy, launch

NEW = RunSpec({})
"""The earlier start of a run that has none."""
ONLY_FORKS = "--optimizer only works with a fork: RUN --resume [STEP] --run-dir FOLDER"
DEMO_STEPS = 120
DEMO_EVALUATE = "grpo_tui.evaluate={every: 40, rows: 32, samples: 2}"
"""As many completions as one step of the demo has, so that an evaluation takes no longer than a step."""


@dataclass(frozen=True, slots=True)
class Start:
    """A start that is decided, before anything is written."""

    folder: RunFolder
    spec: RunSpec
    config: RunConfig
    inspected: Inspected


@dataclass(frozen=True, slots=True)
class Given:
    """What the arguments of `train` name, read once.

    Attributes:
        config: The whole config, with all stages.
        root: Folder of the run.
        run: The run that is given instead of a config file.
        earlier: How that run, or the one that is resumed, was started before. Empty for a new one.
    """

    inspected: Inspected
    config: RunConfig
    launcher: tuple[str, ...]
    root: Path
    run: RunFolder | None
    earlier: RunSpec


def demo(parsed: Any) -> int:
    """`grpo-tui demo`: run the shipped config in the next free folder."""
    from grpo_tui.demo import DEMO_CONFIG
    from grpo_tui.demo.faults import BALLAST, FAULTS

    fault = FAULTS[parsed.fault] if parsed.fault else None
    steps = parsed.steps or DEMO_STEPS
    if fault is not None and steps < fault.comes_at:
        raise CommandError(f"{fault.name} comes at step {fault.comes_at}; --steps {steps} ends before it")
    root = (
        parsed.run_dir or next_free(Path("outputs") / ("demo" if fault is None else f"demo-{fault.name}"))
    ).absolute()
    overrides = [f"max_steps={steps}", *(fault.overrides_in(root) if fault is not None else [DEMO_EVALUATE])]
    if parsed.seed is not None:
        overrides.append(f"seed={parsed.seed}")
    if parsed.device == "cuda":
        overrides += ["use_cpu=false", "bf16=true"]
    inspected = inspect_config(DEMO_CONFIG, overrides)
    with reported(ConfigError):
        config = _told_already(startable(inspected))
    notes = () if fault is None else (f"fault {fault.name}: {fault.expected_in(root)}",)
    start = Start(_fresh(root), RunSpec(config.to_json(), notes=notes), config, inspected)
    if fault is not None and fault.needs_ballast:
        print(f"to make room: rm {shell_word(root / BALLAST)}", flush=True)
    return _go(start, headless=parsed.headless, detach=False)


def train(parsed: Any) -> int:
    """`grpo-tui train CONFIG_OR_RUN`."""
    _refuse_twice(parsed)
    if parsed.optimizer and parsed.resume is None:
        raise CommandError(ONLY_FORKS)
    if parsed.seeds:
        from grpo_tui.cli.series import train_seeds

        return train_seeds(parsed)
    if parsed.json and not parsed.drill:
        raise CommandError("--json only works with --drill")
    if parsed.smoke or parsed.drill:
        return _tried(parsed)
    if parsed.keep:
        raise CommandError("--keep only works with --smoke or --drill")
    start = resumed(parsed) if parsed.resume is not None else _checked(_anew_or_by_key(parsed), parsed)
    return _go(start, headless=parsed.headless, detach=parsed.detach)


def _tried(parsed: Any) -> int:
    if parsed.smoke and parsed.drill:
        raise CommandError("--smoke and --drill cannot be combined. Leave one out")
    if parsed.resume is not None or parsed.detach:
        option = "--smoke" if parsed.smoke else "--drill"
        raise CommandError(f"{option} starts a new trial. Leave out --resume and --detach")
    given = read(parsed)
    if parsed.drill:
        from grpo_tui.cli.drill import drill

        return drill(parsed, prepared, given.root, given.config)
    from grpo_tui.cli.smoke import smoke

    return smoke(parsed, prepared, given.root)


def prepared(parsed: Any) -> Start:
    """Return a checked new start for the arguments of `train`."""
    return _checked(_new(parsed), parsed)


def resumed(parsed: Any) -> Start:
    """Return a checked resume for the arguments of `train`."""
    return _checked(_resumed(parsed, parsed.resume), parsed)


def followed(start: Start) -> int:
    """Start a run and print a line per step. Return the exit code."""
    return _go(start, headless=True, detach=False)


def open_config(parsed: Any) -> int:
    """`grpo-tui CONFIG.yaml`: open the Config pane. Without a screen, print what would run."""
    if not parsed.config.is_file():
        raise CommandError(f"{parsed.config}: no such file")
    _refuse_twice(parsed)
    if sys.stdin.isatty() and has_screen("what would run"):
        from grpo_tui.ui.requests import ConfigRequest

        launcher_words(parsed.launcher)
        with reported(DraftFileError):
            read_text(parsed.config)
        request = ConfigRequest(parsed.config, tuple(parsed.overrides), parsed.run_dir, parsed.launcher)
        return show(None, config=request)
    start = _anew_or_by_key(parsed)
    _announce(start)
    for line in summary(start.config, start.folder.root, world_size(start.spec.launcher)):
        print(line)
    raise CommandError(f"Start it with `grpo-tui train {shell_word(parsed.config)}`")


def _refuse_twice(parsed: Any) -> None:
    """Reject an option together with `--set` of its key, because one of them would be ignored."""
    for option, given, key in (
        ("--run-dir", parsed.run_dir, "output_dir"),
        ("--launcher", parsed.launcher, "grpo_tui.launcher"),
        ("--gpus", parsed.gpus, "grpo_tui.gpus"),
    ):
        if given is not None and sets(parsed.overrides, key):
            raise CommandError(f"{option} and --set {key} are both given. Leave one out")


def _checked(start: Start, parsed: Any) -> Start:
    """Return the start if its checks pass, with the errors that `--force` overrode.

    Data and rewards of a resume are not checked again, because its first attempt ran with them.
    """
    from grpo_tui.cli.check import before_start
    from grpo_tui.preflight.static import Launch

    typed = parsed.launcher is not None or sets(parsed.overrides, "grpo_tui.launcher")
    spec = start.spec
    checkpoint = spec.forked_from if _forks(spec) else spec.resume
    required_to_start(start.config, start.folder.root, () if typed else spec.launcher, checkpoint)
    forced = before_start(
        start.inspected,
        Launch(spec.launcher, start.folder.root, resume=True, gpus=spec.gpus),
        parsed.config,
        quick=parsed.quick_check or spec.resume is not None,
        force=parsed.force,
        told=start.config.findings,
    )
    return replace(start, spec=replace(spec, forced=forced)) if forced else start


def _forks(spec: RunSpec) -> bool:
    """Return whether the run starts from a checkpoint of another run and has not begun."""
    if spec.forked_from is None or spec.resume is None:
        return False
    copied = Path(spec.resume)
    return not (copied.is_dir() and RunFolder(copied.parent).exists())


def next_free(root: Path) -> Path:
    """Return the first of `root`, `root-2`, `root-3`, … that does not exist."""
    names = itertools.chain([root], (root.with_name(f"{root.name}-{n}") for n in itertools.count(2)))
    return next(path for path in names if not path.exists())


def _anew_or_by_key(parsed: Any) -> Start:
    """Return a new start, or a resume if the config asks for one, which TRL does only in its own script."""
    start = _new(parsed)
    asked = start.config.grpo.get("resume_from_checkpoint")
    if not asked:
        return start
    try:
        return _resumed(parsed, "" if asked is True else str(asked), by_key=True)
    except CommandError as error:
        where = f"{start.config.path.name}: " if start.config.path is not None else ""
        key = f"resume_from_checkpoint is {'true' if asked is True else asked}"
        raise CommandError(f"{error}\n{where}{key}. Leave it out to start a new run") from error


def _new(parsed: Any) -> Start:
    given = read(parsed)
    config, launcher = given.config, given.launcher
    with reported(ConfigError):
        first, stage = stage_at(config, size=world_size(launcher), force=parsed.force)
    rewards = about_rewards(parsed.overrides)
    spec = RunSpec(first.to_json(), launcher=launcher, rewards_set=rewards, stage=stage)
    spec = placed(spec, config, parsed.gpus)
    by_key = config.grpo.get("resume_from_checkpoint")
    return Start(RunFolder(given.root) if by_key else _fresh(given.root), spec, config, given.inspected)


def read(parsed: Any, earlier: RunSpec = NEW) -> Given:
    """Read and check the config that the arguments of `train` name: a YAML file or a run folder.

    The launcher is that of `--launcher`, else of the run, unless its config names another now, else of the
    config.

    Args:
        earlier: How the run of a YAML file was started before.
    """
    path, overrides, run, saved = parsed.config, parsed.overrides, None, None
    if path.is_dir():
        run, earlier, saved = saved_run(path)

    def launcher(section: Section) -> tuple[str, ...]:
        if parsed.launcher is not None:
            return launcher_words(parsed.launcher)
        other = _asks_for_other(section, overrides, earlier, "launcher")
        if run is not None and not other:
            return earlier.launcher
        return (() if other else earlier.launcher) or launcher_words(section.launcher)

    def size(section: Section) -> int | None:
        return world_size(launcher(section))

    if saved is None:
        inspected = inspect_config(path, overrides, world_size=size)
    else:
        inspected = inspect_saved(saved, overrides, world_size=size)
    if saved is None or overrides:
        with reported(ConfigError):
            config = startable(inspected, force=parsed.force)
    else:
        config = saved
    root = Path(parsed.run_dir or config.run_root).absolute()
    if run is not None:
        config = _told_already(config)
        root = root if parsed.run_dir or sets(overrides, "output_dir") else run.root
    return Given(inspected, config, launcher(inspected.settings.section), root, run, earlier)


def _earlier(parsed: Any) -> RunSpec:
    """Return how the run of a config file was started before, empty if its folder does not say."""
    root = parsed.run_dir
    if root is None:
        with reported(ConfigError):
            found = inspect_config(parsed.config, parsed.overrides, world_size=None)
            root = startable(found, force=parsed.force).run_root
    return spec_or_none(RunFolder(root)) or NEW


def _resumed(parsed: Any, asked: str, *, by_key: bool = False) -> Start:
    given = read(parsed) if parsed.config.is_dir() else read(parsed, _earlier(parsed))
    earlier, config, launcher = given.earlier, given.config, given.launcher
    into = folder = given.run or RunFolder(given.root)
    if given.root != folder.root:
        if parsed.run_dir is None:
            raise CommandError(
                "--resume continues a run in its own folder. Leave out --set output_dir, or fork the run "
                "with --run-dir FOLDER"
            )
        into = RunFolder(given.root)
    if sets(parsed.overrides, "resume_from_checkpoint") and not by_key:
        raise CommandError("--resume names the checkpoint. Leave out resume_from_checkpoint")
    optimizer = getattr(parsed, "optimizer", None)
    if into is folder:
        _refuse_live(folder.root)
        if optimizer:
            raise CommandError(ONLY_FORKS)
    verdict, notes = checkpoint_of(folder, asked, by_key)
    if into is not folder:
        _fresh(into.root, verdict.path.parent)
    new, size = optimizer == "new", world_size(launcher)
    marker = read_object(verdict.path / MARKER) or {}
    with reported(ConfigError):
        now, stage = stage_at(
            config, earlier.stage, verdict.step, marker=marker, size=size, force=parsed.force
        )
    with reported(LookupError):
        reference_of(folder, stage)
    without = new or (stage is not None and stage.new_optimizer and stage.start == verdict.step)
    refusal = adapter_mismatch(verdict.path, now.model_args) or refused_at_resume(
        verdict.path, now.grpo, new_optimizer=without
    )
    if refusal:
        raise CommandError(refusal)
    _refuse_done(verdict, now, stage, marker, unchanged=given.run is not None and not parsed.overrides)
    same = into is given.run and earlier.resume and Path(earlier.resume).name == verdict.path.name
    again = _unrecorded(folder, earlier) if same else ()
    spec = RunSpec(
        now.to_json(),
        resume=str(verdict.path if into is folder else into.root / verdict.path.name),
        notes=tuple(notes),
        launcher=launcher,
        overridden=tuple(dict.fromkeys((*again, *_overridden(parsed, now, stage, verdict.step)))),
        gpus=() if _asks_for_other(config.section, parsed.overrides, earlier, "gpus") else earlier.gpus,
        forked_from=earlier.forked_from if into is folder else str(verdict.path),
        new_optimizer=earlier.new_optimizer if into is folder else new,
        rewards_set=(*(earlier.rewards_set if given.run else ()), *about_rewards(parsed.overrides)),
        stage=stage,
        attempts_before=known(folder)[1] if into is folder else 0,
    )
    return Start(into, placed(spec, config, parsed.gpus), config, given.inspected)


def _unrecorded(folder: RunFolder, earlier: RunSpec) -> tuple[str, ...]:
    """Return what the last start was to set and has not recorded: it was killed before its first step."""
    try:
        with closing(RunReader(folder.database)) as reader:
            rows = reader.settings()
    except RunDatabaseError:
        return earlier.overridden
    later = (row for row in rows if row.attempt > earlier.attempts_before and row.by != BY_RESUME)
    told = {row.name for row in later}
    if "reward_weights" in told:
        told |= {name for name in earlier.overridden if name.startswith("grpo_tui.rewards")}
    return tuple(name for name in earlier.overridden if name not in told)


def _overridden(parsed: Any, config: RunConfig, stage: StageNow | None, step: int) -> tuple[str, ...]:
    """Return settings that win over changes made while training: of `--set`, and of a stage that begins."""
    given = tuple(override.partition("=")[0].strip() for override in parsed.overrides)
    begins = stage is not None and stage.start == step
    return (*given, *(config.section.stages[stage.place].set if begins and stage is not None else ()))


def _asks_for_other(section: Section, overrides: Sequence[str], earlier: RunSpec, key: str) -> bool:
    """Return whether a key of the section is set and differs from the previous start."""
    known = earlier.config.get("section")
    before = known.get(key) if isinstance(known, Mapping) else None
    now = section.to_json()[key]
    return (bool(now) and list(now) != list(before or ())) or sets(overrides, f"grpo_tui.{key}")


def _refuse_done(
    verdict: Verdict,
    config: RunConfig,
    stage: StageNow | None,
    marker: Mapping[str, Any],
    *,
    unchanged: bool,
) -> None:
    total = config.grpo.get("max_steps")
    more = f"max_steps={verdict.step * 2}"
    if stage is not None:
        length = "steps" if config.section.stages[stage.place].steps else "at_most"
        total = end_of_stage(stage.start, stage.limit, verdict.step, marker)
        more = f"grpo_tui.stages.{stage.place}.{length}={2 * max(stage.limit, total - stage.start)}"
    if not isinstance(total, int) or total <= 0:
        # With another config, the number of steps of its epochs is known only once its data is loaded.
        total = (read_object(verdict.path / TRAINER_STATE) or {}).get("max_steps") if unchanged else None
        more = f"num_train_epochs={2 * config.grpo.get('num_train_epochs', 3):g}"
    if isinstance(total, int) and 0 < total <= verdict.step:
        raise CommandError(
            f"the run has finished its {total} steps (checkpoint of step {verdict.step}). Add more: "
            f"--set {more}"
        )


def checkpoint_of(folder: RunFolder, asked: str, by_key: bool = False) -> tuple[Verdict, list[str]]:
    """Return a run's checkpoint of a step or folder, by default the newest usable one, with notes."""
    if asked:
        path = Path(asked) if Path(asked).is_dir() else folder.root / f"checkpoint-{asked}"
        if not path.is_dir():
            known = ", ".join(p.name.split("-")[-1] for p in folder.checkpoints()) or "none"
            raise CommandError(f"no checkpoint {asked} in {folder.root}; there are: {known}")
        verdict = judge(path.absolute())
        if not verdict.usable:
            raise CommandError(f"{path.name} cannot be resumed: {verdict.reason}")
        passed: list[Verdict] = []
    else:
        best, passed = newest_usable(folder)
        if best is None:
            reasons = "".join(f"\n  {v.path.name}: {v.reason}" for v in passed)
            free = not folder.exists() or _made_nothing(folder)
            fresh = free and not reasons and not by_key
            advice = ". Leave out --resume to start from the beginning" if fresh else ""
            raise CommandError(f"no complete checkpoint in {folder.root}{advice}{reasons}")
        verdict = best
    notes = [f"skipped {v.path.name}: {v.reason}" for v in passed]
    if verdict.reason:
        notes.append(f"{verdict.path.name}: {verdict.reason}")
    return verdict, notes


def _told_already(config: RunConfig) -> RunConfig:
    """Drop the notices about files next to the config, which the first start printed."""
    return replace(config, findings=tuple(f for f in config.findings if f.id != "config.beside"))


def _fresh(root: Path, parent: Path | None = None) -> RunFolder:
    """Return the folder of a new run, which is empty or has a run that ended before it made anything.

    A fork that was killed before its run began has left only copies of checkpoints of its `parent`.
    """
    folder = RunFolder(root)
    theirs = [path for path in folder.checkpoints() if not (parent and is_copy(path, parent / path.name))]
    if not (folder.exists() or theirs) or _made_nothing(folder):
        return folder
    best, _ = newest_usable(folder)
    run = shell_word(root)
    _refuse_live(root, " or start another with --run-dir FOLDER")
    new, has = "FOLDER to start a new run", f"{root} already holds a run"
    if best is None:
        raise CommandError(f"{has} without a checkpoint to resume from. Use --run-dir {new}")
    raise CommandError(f"{has}. Continue it with `grpo-tui train {run} --resume`, or use --run-dir {new}")


def _refuse_live(root: Path, more: str = "") -> None:
    try:
        look = read_status(root)
    except RunDatabaseError:
        return
    if not look.live:
        return
    run = shell_word(root)
    if look.state == "paused":
        raise CommandError(f"the run in {root} is paused. Continue it with `grpo-tui resume {run}`")
    ways = f"Watch it with `grpo-tui attach {run}`{',' if more else ''}{more}"
    raise CommandError(f"a run is training in {root}. {ways}")


def _made_nothing(folder: RunFolder) -> bool:
    """Return whether the run ended before its first generation, so that starting it again loses nothing."""
    if folder.checkpoints():
        return False
    try:
        look = read_status(folder.root)
        if look.state not in ENDED or look.step:
            return False
        reader = RunReader(folder.database)
    except RunDatabaseError:
        return False
    with closing(reader):
        return reader.completion_count(superseded=True) == 0


def _go(start: Start, *, headless: bool, detach: bool) -> int:
    # Import it before the start: after Ctrl+C, it says that training continues.
    from grpo_tui.cli.headless import follow

    folder = start.folder
    row, attempt = launched(start)
    if detach:
        run = shell_word(folder.root)
        print(f"training in {one_line(str(folder.root))}. Watch it with `grpo-tui attach {run}`")
        return OK
    if headless or not has_screen("a line per step"):
        return follow(folder.root, after_row=row, after_attempt=attempt)
    return show(folder.root)


def launched(start: Start) -> tuple[int, int]:
    """Start the training process. Return what `known` returned before."""
    folder = start.folder
    try:
        str(folder.root).encode()
    except UnicodeEncodeError:
        raise CommandError(
            f"{folder.root}: the name is not valid UTF-8, and checkpoints cannot be written there. Choose "
            "another folder with --run-dir"
        ) from None
    _announce(start)
    try:
        row, attempt = known(folder)
        if _forks(start.spec):
            parent = Path(str(start.spec.forked_from))
            reference = reference_of(RunFolder(parent.parent), start.spec.stage)
            for path in {parent, reference or parent}:
                copy(path, folder.root, optimizer=path != parent or not start.spec.new_optimizer)
        launch(folder, start.spec)
    except RunFolderBusy as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(
            f"{folder.root}: {error.strerror or error}. Choose another folder with --run-dir"
        ) from error
    return row, attempt


def known(folder: RunFolder) -> tuple[int, int]:
    """Return the newest row and attempt before this start. Later ones belong to it."""
    try:
        reader = RunReader(folder.database)
    except (DamagedError, NewerError) as error:
        raise CommandError(_put_aside(folder, error)) from error
    except RunDatabaseError:
        return 0, 0
    with closing(reader):
        try:
            newest = max((attempt.attempt for attempt in reader.attempts()), default=0)
            return last_metric_row_id(reader), newest
        except DamagedError as error:
            raise CommandError(_put_aside(folder, error)) from error


def _put_aside(folder: RunFolder, error: RunDatabaseError) -> str:
    """Return how to continue a run whose record is damaged or too new."""
    if isinstance(error, NewerError):
        return str(error)
    aside, there = shell_word(folder.root / "broken"), shell_word(folder.database)
    return (
        f"{error} The checkpoints do not need it. Move it away to start a new record:\nmkdir {aside} && mv "
        f"{there}* {aside}"
    )


def _announce(start: Start) -> None:
    for finding in start.config.findings:
        print(f"{finding.severity}: {describe(finding, start.config.path)}", file=sys.stderr)
    for note in start.spec.notes:
        print(f"note: {note}", file=sys.stderr)
    if _forks(start.spec):
        new = " with a new optimizer" if start.spec.new_optimizer else ""
        print(f"forking from {one_line(str(start.spec.forked_from))}{new}", file=sys.stderr)
    elif start.spec.resume:
        print(f"resuming from {Path(start.spec.resume).name}", file=sys.stderr)


def summary(config: RunConfig, root: Path, world_size: int | None) -> list[str]:
    """Return model, rewards, batch and folder of a run as lines."""
    setting = config.setting
    size, group = generation_batch_size(setting, world_size or 1), int(setting("num_generations"))
    steps, epochs = setting("max_steps"), setting("num_train_epochs")
    length = plural(steps, "step") if isinstance(steps, int) and steps > 0 else f"{epochs:g} epochs"
    ranks = "" if world_size in (1, None) else f", on {world_size} ranks"
    return [
        f"model    {config.model}{', LoRA' if config.model_args.get('use_peft') else ''}",
        f"rewards  {', '.join(_rewards(config)) or 'none'}",
        f"batch    {size} completions = {size // group} prompts × {group}{ranks}; {length}",
        f"folder   {root}",
    ]


def _rewards(config: RunConfig) -> list[str]:
    model = config.script.get("reward_model_name_or_path")
    names = [str(name) for name in (*([model] if model else []), *(config.script.get("reward_funcs") or ()))]
    return names + [
        entry.name if entry.weight in (None, 1.0) else f"{entry.name} × {entry.weight:g}"
        for entry in config.section.rewards
    ]
