"""Check edited reward files before a run loads them: contract, saved cases, probes, and recorded groups.

Everything runs in the lab's child process. The run is only read.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from grpo_tui.config.reward_list import listed_in
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.yaml_edit_values import inline
from grpo_tui.core.records import RewardFunctionInfo
from grpo_tui.core.text import one_line
from grpo_tui.rewards.cases import TOTAL, CaseFileError, cases_file, judge_cases, read_cases
from grpo_tui.rewards.lab import Lab, LabError
from grpo_tui.rewards.loading import weights_of
from grpo_tui.rewards.probes import probe
from grpo_tui.rewards.sample_sources import Origin, dataset_rows, rows_with_gold, samples_from
from grpo_tui.rewards.samples import SampleError
from grpo_tui.rewards.score_report import FunctionInfo, FunctionScore
from grpo_tui.rewards.scoring import Dataset, ScoreOptions, report
from grpo_tui.rewards.what_if import WhatIf, what_if_of_run
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader
from grpo_tui.store.search import Search

Tell = Callable[[str, str], None] | None
NOT_RECORDED = {
    "environments": "the environments of a batch, which are not recorded",
    "trainer_state": "trainer_state, of which only the newest step is known here",
    "images": "images, which are not recorded",
}
"""Arguments of a reward that recorded groups cannot give back, and how to say so."""
TRY_LATER = "Try again after the run's first step"
PROBED_ROWS = 3
MOST_GROUPS = 200
MOST_DIFF = 200_000
"""Characters of the diff that a record keeps."""


@dataclass(frozen=True, slots=True)
class ReloadCheck:
    """What was found in the edited files of a run's rewards.

    Attributes:
        files: SHA-256 of each file of the user that the rewards were loaded from or imported while they
            scored, by path.
        what_if: Scores of the recorded groups; None without any.
        notes: What was not checked, or cannot be replayed.
        early: Whether the run has not loaded its rewards yet.
        listed: The list of rewards as `config.reward_list` gives it; None if the run has that list.
    """

    files: Mapping[str, str]
    diff: tuple[str, ...]
    what_if: WhatIf | None
    broken: tuple[str, ...]
    failed: tuple[str, ...]
    notes: tuple[str, ...]
    early: bool = False
    listed: Mapping[str, Any] | None = None

    @property
    def turned(self) -> str:
        """How many recorded groups change order; empty without a what-if."""
        if self.what_if is None:
            return ""
        return f"{self.what_if.reordered:,} of {len(self.what_if.groups):,} groups change order"

    def arguments(self, because: str = "", *, forced: bool = False) -> dict[str, Any]:
        """Return the arguments of the command `reload`, with what the record should keep."""
        args: dict[str, Any] = {"files": dict(self.files), "diff": "\n".join(self.diff)[:MOST_DIFF]}
        if self.turned:
            args["what_if"] = self.turned
        if because:
            args["because"] = because
        if self.listed is not None:
            args["listed"] = dict(self.listed)
        return args | ({"forced": list(self.failed)} if forced and self.failed else {})

    def to_json(self) -> dict[str, Any]:
        """Return the shape that `grpo-tui reload --check --json` prints."""
        return asdict(self)


def check_reload(
    lab: Lab,
    root: Path,
    config: RunConfig,
    other: RunConfig | None = None,
    *,
    most_groups: int = MOST_GROUPS,
    tell: Tell = None,
) -> ReloadCheck:
    """Check the current files of a run's rewards.

    Args:
        other: The same with another list of rewards; None to keep the list.
        most_groups: Number of recorded groups to score again, newest first.

    Raises:
        LabError: Nothing can be loaded at all.
        ConsentError: A file is code of someone else.
        RunDatabaseError: The run cannot be read.
    """
    with closing(RunReader(RunFolder(root).database)) as run:
        recorded, settings = run.reward_functions(), run.settings()
    functions = lab.load(other or config)
    files = _with_new({}, lab)
    diff = (*(_list_diff(config, other) if other is not None else ()), *_diff(recorded, functions, lab.files))
    broken = [f"{f.name}: {f.failure.text}" for f in functions if f.failure is not None]
    early = not broken and not recorded
    if early:
        broken = ["the run has not loaded its rewards yet"]
    if broken:
        return ReloadCheck(files, diff, None, tuple(broken), (), (), early)
    weights = [s.new for s in settings if s.name == "reward_weights"]
    now = weights[-1] if weights else [f.weight for f in recorded]
    relisted = [f.name for f in functions] != [f.name for f in recorded]
    if relisted or (other is not None and weights_of(other) != weights_of(config)):
        now, weights = [f.weight for f in functions], []
    checks = _Checks(lab, other or config, tell)
    checks.cases()
    files = _with_new(files, lab)
    checks.contract_and_probes()
    files = _with_new(files, lab)
    found = checks.what_if(root, most_groups, now)
    files = _with_new(files, lab)
    notes = [*checks.notes, *(note for f in functions for note in _unlike_training(f))]
    if weights:
        notes.append("reward_weights changed during the run: totals are compared at the current weights")
    if not diff:
        notes.append("no reward file differs from the recorded one. Only an imported file can have changed")
    edited = [file for file, sha in files.items() if file_hash(file) != sha]
    broken = [f"{file} was edited while it was checked. Reload again" for file in edited]
    new = listed_in(other) if other is not None else None
    return ReloadCheck(files, diff, found, tuple(broken), tuple(checks.failed), tuple(notes), listed=new)


class _Checks:
    def __init__(self, lab: Lab, config: RunConfig, tell: Tell) -> None:
        self._lab, self._config, self._tell = lab, config, tell
        self.failed: list[str] = []
        self.notes: list[str] = []

    def cases(self) -> None:
        """Compare the scores of saved cases with what they expect."""
        path = cases_file(self._config)
        if not path.is_file():
            self.notes.append(f"no saved cases: there is no {path.name}")
            return
        try:
            file = read_cases(path)
            scored = self._lab.score([c.sample for c in file.cases], tell=self._tell, repeat_limit_s=0.0)
            if not self._fails("a saved case", scored.functions):
                given = {f.info.name: f.scores for f in scored.functions}
                for miss in judge_cases(file, given, self._lab.aggregate(scored).totals):
                    place = f"{path.name}:{miss.line}" if miss.line else path.name
                    self.failed.append(
                        f"case “{miss.case}” ({place}): {miss.function} expected {miss.wanted}, got "
                        f"{miss.got}"
                    )
        except (CaseFileError, LabError) as error:
            self.failed.append(str(error))

    def contract_and_probes(self) -> None:
        """Run the checks of `grpo-tui score` that find errors, and the attacks of `grpo-tui probe`."""
        try:
            dataset = dataset_rows(self._lab, self._config)
            samples = samples_from(self._lab, self._config, dataset, Origin("gold", 4))
            self._contract(dataset, samples)
            rows, column = rows_with_gold(self._lab, self._config, dataset, PROBED_ROWS)
            found = probe(self._lab, rows, column, made_up=dataset is None, tell=self._tell)
        except (LabError, SampleError) as error:
            self.notes.append(f"not checked with rows of the dataset: {error}")
            return
        self._fails("a probe", found.functions)
        judged = TOTAL if len(found.functions) > 1 else None  # one function may give partial credit
        for kind in found.kinds:
            if kind.fault == "fooled":
                text = f"probe {kind.kind}: {kind.function} accepts {kind.example.why}"
                fails = judged in (None, kind.function)
                (self.failed if fails else self.notes).append(f"{text} ({kind.rows} of {kind.of} rows)")

    def _contract(self, dataset: Dataset | None, samples: Sequence[Any]) -> None:
        found = report(self._lab, samples, dataset, ScoreOptions(tell=self._tell))
        self.failed += [one_line(f.message, 400) for f in found.findings if f.severity == "error"]
        for result in found.scored.functions:
            if result.repeat is not None and result.repeat.differs:
                self.notes.append(
                    f"{result.info.name} gives other scores when it is called again, so its scores of "
                    "recorded groups may differ from those in training"
                )

    def what_if(self, root: Path, most: int, weights: Sequence[float]) -> WhatIf | None:
        """Score the newest recorded groups again."""
        with closing(Search(RunFolder(root).database)) as search:
            # Probe prompts have no columns, and are not trained on.
            groups = list(dict.fromkeys(search.find("mode==train").group_of))[:most]
        if not groups:
            self.notes.append("no what-if: the run has recorded no completions yet")
            return None
        found = what_if_of_run(self._lab, root, groups, weights=weights, tell=self._tell)
        self.failed += [f"recorded groups: {f.name}: {f.failure}" for f in found.functions if f.failure]
        return found

    def _fails(self, where: str, functions: Sequence[FunctionScore]) -> bool:
        failures = [f"{f.info.name} on {where}: {f.failure.text}" for f in functions if f.failure is not None]
        self.failed += failures
        return bool(failures)


def _list_diff(old: RunConfig, new: RunConfig) -> Iterator[str]:
    both = []
    for config in (old, new):
        listed = listed_in(config)
        entries = [{k: v for k, v in entry.items() if v not in (None, {})} for entry in listed["rewards"]]
        keys = [f"{key}: {inline(value)}" for key, value in listed["keys"].items() if value is not None]
        both.append([*keys, *(f"- {inline(entry)}" for entry in entries)])
    name = new.path.name if new.path is not None else "config"
    before, after = f"{name}, rewards (of the run)", f"{name}, rewards (edited)"
    yield from difflib.unified_diff(both[0], both[1], before, after, lineterm="")


def _diff(
    recorded: Sequence[RewardFunctionInfo], functions: Sequence[FunctionInfo], own: Sequence[str]
) -> Iterator[str]:
    """Compare each file with what the run has recorded of it. A file of the user may be new to the run."""
    by_name = {old.name: old for old in recorded}
    known = {old.source.rpartition(":")[0]: old.text for old in recorded}
    seen = set()
    for new in functions:
        old = by_name.get(new.name)
        file = new.file or (old.source.rpartition(":")[0] if old is not None else "")
        before = known.get(file) or (old.text if old is not None else "")
        if not file or file in seen or before == new.file_text or not (before or file in own):
            continue
        seen.add(file)
        now = new.file_text or (Path(file).read_text("utf-8", "replace") if Path(file).is_file() else "")
        name = Path(file).name
        was = f"{name} (recorded)" if before else f"{name} (not in the run)"
        yield from difflib.unified_diff(
            before.splitlines(), now.splitlines(), was, f"{name} (edited)", lineterm=""
        )


def _unlike_training(function: FunctionInfo) -> Iterator[str]:
    if function.kind == "model":
        yield f"{function.name} is a reward model. It stays as it is until the run is resumed"
        return
    names = {parameter.name for parameter in function.parameters or ()}
    for argument, what in NOT_RECORDED.items():
        if argument in names or f'"{argument}"' in function.file_text:
            yield f"{function.name} reads {what}: its scores of recorded groups may differ"
    if function.saves_state:
        yield f"{function.name} keeps a state between calls: recorded groups are scored with a new one"


def _with_new(files: Mapping[str, str], lab: Lab) -> dict[str, str]:
    """Add the hashes of files that the rewards have imported since, for example inside a function."""
    known = {str(Path(file).resolve()) for file in lab.files}
    return {**files, **{file: file_hash(file) for file in sorted(known - files.keys())}}


def file_hash(file: str) -> str:
    """Return the SHA-256 of a file; empty when it cannot be read."""
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return ""
