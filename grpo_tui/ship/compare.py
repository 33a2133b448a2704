"""Have policies answer the same prompts with the same seeds, score the answers, and store them as they come.

`compare` blocks. Answers are stored block by block, so that it continues where it was interrupted. The seed
of a block depends only on its position, so an interrupted comparison has the same result as an uninterrupted
one.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from grpo_tui.config.run_config import RunConfig, stamp, stamps_of
from grpo_tui.core.closing import Closing
from grpo_tui.core.commands import BY_COMPARISON
from grpo_tui.core.text import one_line, shell_word
from grpo_tui.present.formatting import plural, setting
from grpo_tui.rewards.comparison import Answers, Asked, compared
from grpo_tui.rewards.consent import required
from grpo_tui.rewards.generate_child.policy import MOST_FOR_VLLM, at_once
from grpo_tui.rewards.generating import (
    ChosenRows,
    DatasetRow,
    Generated,
    GenerateError,
    Generator,
    Progress,
)
from grpo_tui.rewards.lab import Lab
from grpo_tui.rewards.right_answers import find_forms, find_judge, measured
from grpo_tui.rewards.samples import Sample
from grpo_tui.rewards.score_report import FunctionScore
from grpo_tui.rewards.scoring import gold_column_of
from grpo_tui.rewards.token_asking import ask_live
from grpo_tui.ship.chat import LIVE, LiveRun
from grpo_tui.ship.kept import KeptComparison
from grpo_tui.ship.policies import (
    ADAPTER_CONFIG,
    MODEL_CONFIG,
    TOKENIZER_FILES,
    Policy,
    PolicyError,
    config_for,
)
from grpo_tui.store.checkpoints import WEIGHTS
from grpo_tui.store.comparisons import FOLDER
from grpo_tui.store.layout import RunFolder, is_known, own_folder
from grpo_tui.store.reader import RunReader
from grpo_tui.store.status import read_status

ROWS, SAMPLES = 100, 4
VERSION = 1
PROBES = "grpo_tui.probe_prompts"
SAMPLING = ("top_p", "top_k", "min_p", "repetition_penalty", "max_completion_length")
"""Settings that a live run samples with as they are now. Its temperature is set to the config's."""
ABSTAINS = ("raised", "returned")
"""Kinds of failure of a reward that cannot score a prompt without columns."""
Tell = Callable[[str, Progress], None]
"""Called with the policy's name and the progress."""


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """Options of a comparison.

    Attributes:
        samples: Completions per row and policy.
        seed: For choosing rows and for sampling; None for the config's.
        held: Use held-out rows only. Otherwise they are used if the config has some.
        correct: `NAME` or `NAME>=SCORE` of the reward that decides what is right; None to find it.
        prompts: File that the config's rows were taken from; None for its own dataset.
        probes: Ask the config's probe prompts instead.
    """

    rows: int = ROWS
    samples: int = SAMPLES
    seed: int | None = None
    held: bool = False
    correct: str | None = None
    prompts: str | None = None
    probes: bool = False


def compare(
    lab: Lab,
    config: RunConfig,
    policies: Sequence[Policy],
    options: CompareOptions,
    run: Path | None,
    tell: Tell = lambda name, now: None,
) -> dict[str, Any]:
    """Compare policies with the first of them. docs/after-training.md describes the result.

    Args:
        config: Provides data, rewards and sampling settings for all policies.
        run: Folder of the run that keeps the comparison; None for the state folder.

    Raises:
        GenerateError: A model cannot be loaded, the data cannot be used, or a reward gives no scores.
        LabError: The rewards cannot be called at all.
        JudgeError: No reward has the name in `options.correct`.
        KeptError: The comparison cannot be stored.
        ConsentError: It would run code that is not the user's own.
    """
    for policy in policies:
        required(replace(config, model=policy.model))
    header = _header(config, policies, options)
    with KeptComparison(file_of(run, header), header) as kept:
        judge = options.correct or ""
        if judge not in kept.results:
            _load(lab, config)
            comparing = _Comparing(lab, config, policies, options, kept, tell)
            kept.finish(judge, comparing.result(comparing.answer_all()))
        return {**kept.results[judge], "file": str(kept.path)}


def _load(lab: Lab, config: RunConfig) -> None:
    for function in lab.load(config):
        if function.failure is not None:
            raise GenerateError(f"the reward {function.name} cannot be loaded: {function.failure.text}")


@dataclass(frozen=True, slots=True)
class _Comparing:
    lab: Lab
    config: RunConfig
    policies: Sequence[Policy]
    options: CompareOptions
    kept: KeptComparison
    tell: Tell
    failures: dict[str, str] = field(default_factory=dict)
    """Why a reward gave no score to probe prompts, by its name."""

    def answer_all(self) -> ChosenRows:
        """Have every policy answer the rows that are not answered yet, and return all rows."""
        chosen = self.kept.rows
        for number, policy in enumerate(self.policies):

            def told(now: Progress, name: str = policy.name) -> None:
                self.tell(name, now)

            with self._generator(policy, told) as generator:
                if chosen is None:
                    chosen = self._choose(policy, generator)
                    self.kept.choose(chosen)
                self.answer(generator, number, chosen, _block(self.config, self.options), told)
        assert chosen is not None
        return chosen

    def _generator(self, policy: Policy, told: Callable[[Progress], None]) -> Generator | _Live:
        if policy.live is not None:
            return _Live(policy, self.config, told)
        adapter, config = policy.adapter or "", config_for(policy, self.config)
        return Generator(config, told, adapter=adapter, tokenizer=policy.tokenizer)

    def _choose(self, first: Policy, generator: Generator | _Live) -> ChosenRows:
        """Choose rows as training splits them. Length filters use the tokenizer of the config's model."""
        seed, held = _seed(self.config, self.options), True if self.options.held else None
        count, probes = self.options.rows, self.options.probes
        if first.model == self.config.model and isinstance(generator, Generator):
            return generator.rows(count, seed, held=held, probes=probes)
        with Generator(self.config, generator.tell) as own:
            return own.rows(count, seed, held=held, probes=probes)

    def answer(
        self,
        generator: Generator | _Live,
        policy: int,
        chosen: ChosenRows,
        block: int,
        tell: Callable[[Progress], None],
    ) -> None:
        """Have a policy answer rows, as many at a time as a block has."""
        kept, samples = self.kept, self.options.samples
        whole, seed = len(chosen.rows) * samples, _seed(self.config, self.options)
        for start in range(0, len(chosen.rows), block):
            places = range(start, min(start + block, len(chosen.rows)))
            if all((policy, place) in kept.answers for place in places):
                continue
            before = start * samples

            def told(now: Progress, before: int = before) -> None:
                tell(replace(now, done=before + now.done, of=whole) if now.of else now)

            generator.tell = told
            rows = [chosen.rows[place] for place in places]
            generated = generator.answers(rows, samples, seed + before)
            failures = self.failures if self.options.probes else None
            found = scored(self.lab, generated, failures, others=any(row.columns for row in chosen.rows))
            names = ("engine", "device", "temperature", "max_tokens")
            about = {name: getattr(generated, name) for name in names}
            kept.add(policy, dict(zip(places, found, strict=True)), about)

    def result(self, chosen: ChosenRows) -> dict[str, Any]:
        """Return the result once all rows are answered."""
        lab, config, kept, rows = self.lab, self.config, self.kept, chosen.rows
        places = range(len(rows))
        answers = [[kept.answers[number, at] for at in places] for number in range(len(self.policies))]
        every = [scores for policy in answers for one in policy for scores in one.scores]
        complete = [row for row in rows if row.columns] or rows
        column = gold_column_of(config, list(complete[0].columns))
        functions = [FunctionScore(f, tuple(scores[f.index] for scores in every)) for f in lab.functions]
        measures = measured(lab, config, complete, column, [f.index for f in lab.functions])
        judge, forms = find_judge(measures, functions, self.options.correct), find_forms(measures)
        named = [policy.name for policy in self.policies]
        names, weights = [f.name for f in lab.functions], [f.weight for f in lab.functions]
        listed = [{"name": p.name, "path": _path(p), "step": p.step} for p in self.policies]
        return {
            "rows": len(rows),
            "samples": self.options.samples,
            "seed": _seed(config, self.options),
            "held": chosen.held,
            "prompts": PROBES if self.options.probes else self.options.prompts,
            "policies": listed,
            **compared(Asked(named, rows, answers, names, weights, judge, forms)),
            "sampling": kept.about,
            "notes": [
                *chosen.notes,
                *_notes(config, kept),
                *filter(None, map(_changed, self.policies)),
                *(_abstained(rows, answers, names, self.failures) if self.options.probes else ()),
            ],
        }


class _Live(Closing):
    """Answers rows with the policy in the memory of a paused run, as a `Generator` does."""

    def __init__(self, policy: Policy, config: RunConfig, tell: Callable[[Progress], None]) -> None:
        self.tell = tell
        self._policy, self._config = policy, config
        self._set = _set_live(policy)

    def close(self) -> None:
        """Leave the run as it is."""

    def answers(self, rows: Sequence[DatasetRow], count: int, seed: int) -> Generated:
        """Return `count` completions of each row. Each row has a seed of its own.

        Raises:
            GenerateError: The run refused, ended or went on.
        """
        policy, setting = self._policy, self._config.setting
        assert policy.run is not None
        samples: list[Sample] = []
        tokens: list[int] = []
        begun = time.monotonic()
        args = {"count": count, "temperature": float(setting("temperature"))}
        for at, row in enumerate(rows):
            given = {**args, "prompt": row.prompt, "seed": seed + at * count}
            found = ask_live(
                policy.run, "sample", given, lambda what: None, threading.Event(), by=BY_COMPARISON
            )
            now = read_status(policy.run)
            if (now.state, now.step, now.started_at) != ("paused", policy.step, policy.live):
                raise GenerateError(f"{policy.name} went on meanwhile. Pause it and compare again")
            if _set_live(policy) != self._set:
                raise GenerateError(f"a sampling setting of {policy.name} was set meanwhile. Compare again")
            for one in found["completions"]:
                text = str(one["text"])
                said = text if isinstance(row.prompt, str) else [{"role": "assistant", "content": text}]
                cut = bool(one["truncated"])
                samples.append(Sample(row.prompt, said, row.columns, row.group, truncated=cut))
                tokens.append(int(one["tokens"]))
            took = time.monotonic() - begun
            self.tell(Progress("generating", len(samples), len(rows) * count, sum(tokens), took))
        return Generated(
            samples=tuple(samples),
            tokens=tuple(tokens),
            count=count,
            seconds=time.monotonic() - begun,
            load_s=0.0,
            device="the run's device",
            temperature=args["temperature"],
            max_tokens=int(setting("max_completion_length")),
        )


def live_policy(run: LiveRun, config: RunConfig) -> Policy:
    """Return the policy in the memory of a paused run.

    Raises:
        PolicyError: The run is not paused, so its weights change.
    """
    status = read_status(run.root)
    if status.state != "paused" or status.started_at is None:
        word = shell_word(run.name.removesuffix(LIVE))
        raise PolicyError(
            f"{one_line(run.name, 200)}: the run is {status.state}, and its weights can only be compared "
            f"while it is paused. Pause it with `grpo-tui pause {word}`, or save them with `grpo-tui "
            f"checkpoint {word}` and name RUN@STEP"
        )
    return Policy(run.name, config.model, run=run.root, step=status.step, live=status.started_at)


def _path(policy: Policy) -> str:
    return str(policy.run) if policy.live is not None else policy.adapter or policy.model


def _set_live(policy: Policy) -> dict[str, Any]:
    """Return the sampling settings that a live run has changed, since it samples with these."""
    if policy.live is None or policy.run is None:
        return {}
    with closing(RunReader(RunFolder(policy.run).database)) as reader:
        return {one.name: one.new for one in reader.lasting_settings() if one.name in SAMPLING}


def _changed(policy: Policy) -> str:
    listed = ", ".join(f"{name} {setting(value)}" for name, value in _set_live(policy).items())
    return f"{policy.name} samples with {listed}, set while it trained" if listed else ""


def scored(
    lab: Lab, generated: Generated, failures: dict[str, str] | None = None, *, others: bool = False
) -> list[Answers]:
    """Score the answers to each row.

    Args:
        failures: Given if the rows are probe prompts. Those given as texts have no columns, and a reward that
            fails on them gives no score, as in training. The reason is added here, by the reward's name.
        others: Whether some probe prompts have columns, so that texts that no reward can score do not matter.

    Raises:
        GenerateError: A reward fails on rows with columns, hangs or ends its process, or every reward fails.
    """
    scores: dict[int, tuple[float | None, ...]] = {}
    without = [failures is not None and not sample.columns for sample in generated.samples]
    for bare in sorted(set(without)):
        places = [at for at, one in enumerate(without) if one is bare]
        functions = lab.score([generated.samples[at] for at in places], repeat_limit_s=0.0).functions
        failed = [(f.info.name, f.failure) for f in functions if f.failure is not None]
        every = len(failed) == len(functions) and not others
        for name, failure in failed:
            if failures is None or not bare or every or failure.kind not in ABSTAINS:
                raise GenerateError(f"the reward {name} gave no scores: {failure.text}")
            failures[name] = failure.text
        each = zip(*(f.scores for f in functions), strict=True)
        scores |= {at: tuple(map(_finite, one)) for at, one in zip(places, each, strict=True)}
    groups = range(0, len(generated.samples), generated.count)
    parts = [slice(start, start + generated.count) for start in groups]
    return [
        Answers(
            tuple(sample.text for sample in generated.samples[part]),
            generated.tokens[part],
            tuple(sample.truncated for sample in generated.samples[part]),
            tuple(scores[at] for at in range(part.start, part.stop)),
        )
        for part in parts
    ]


def _abstained(
    rows: Sequence[DatasetRow],
    answers: Sequence[Sequence[Answers]],
    names: Sequence[str],
    failures: Mapping[str, str],
) -> Iterator[str]:
    """Say which rewards left answers to prompts without columns unscored, and why if they failed."""
    bare = [at for at, row in enumerate(rows) if not row.columns]
    for index, name in enumerate(names):
        count = sum(any(s[index] is None for one in answers for s in one[at].scores) for at in bare)
        if count:
            why = f" ({failures[name]})" if name in failures else ""
            asked = f"{plural(count, 'prompt')} without the dataset's columns"
            yield f"{name}: answers to {asked} have no score{why}"


def _finite(score: float | None) -> float | None:
    return score if score is not None and math.isfinite(score) else None


def _notes(config: RunConfig, kept: KeptComparison) -> list[str]:
    if config.setting("use_vllm") and kept.about.get("engine") != "vllm":
        return ["use_vllm is set, but transformers generated: vLLM needs a GPU and must be installed here"]
    return []


def _seed(config: RunConfig, options: CompareOptions) -> int:
    return options.seed if options.seed is not None else int(config.setting("seed"))


def _block(config: RunConfig, options: CompareOptions) -> int:
    together = max(at_once(config), MOST_FOR_VLLM) if config.setting("use_vllm") else at_once(config)
    return max(1, together // options.samples)


# -- where it is kept --------------------------------------------------------------------------------


def file_of(run: Path | None, header: dict[str, Any]) -> Path:
    """Return the file of a comparison: in the folder of a run started by this user, or the state folder.

    The content of anyone else's run folder may be made up, including results.
    """
    name = f"{header['key'][:16]}.jsonl"
    if run is not None and is_known(run):
        folder = run / FOLDER
        try:
            folder.mkdir(exist_ok=True)
            if not folder.is_symlink():
                (folder / name).touch()
                return folder / name
        except OSError:
            pass  # the disk is full or read-only
    folder = own_folder("state") / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / name


def _header(config: RunConfig, policies: Sequence[Policy], options: CompareOptions) -> dict[str, Any]:
    """Describe what is compared. The key covers everything that affects the result."""
    body = {
        "version": VERSION,
        "config": {**config.to_record(), "findings": []},
        "files": stamps_of(config),
        "policies": [
            [
                p.model,
                p.adapter,
                p.tokenizer,
                _files(p),
                *([_path(p), p.live, p.step, _set_live(p)] if p.live else []),
            ]
            for p in policies
        ],
        "options": [options.rows, options.samples, _seed(config, options), options.held]
        + ["probes"] * options.probes,
    }
    key = hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()
    return {"comparison": VERSION, "key": key, "policies": [policy.name for policy in policies]}


def _files(policy: Policy) -> list[Any]:
    names = (*WEIGHTS, MODEL_CONFIG, ADAPTER_CONFIG, *TOKENIZER_FILES, "generation_config.json", "*.jinja")
    folders = [Path(folder) for folder in (policy.model, policy.adapter, policy.tokenizer) if folder]
    found = {file for folder in folders for name in names for file in folder.glob(name)}
    return [(str(file), stamp(file)) for file in sorted(found)]
