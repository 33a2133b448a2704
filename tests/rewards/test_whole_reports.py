"""What rewards give and what is said of them, whole: the library, checks, probes, attacks and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from grpo_tui.cli.score import report_lines
from grpo_tui.core import records as r
from grpo_tui.present import comparison_text
from grpo_tui.rewards import library as lib
from grpo_tui.rewards.answer_format import Form, find_form, short_answer, wrong_answers
from grpo_tui.rewards.audit import attacks_in, audit
from grpo_tui.rewards.comparison import Answers
from grpo_tui.rewards.lab import Lab
from grpo_tui.rewards.probes import ProbeRow, by_kind, judge, make_probes, measures
from grpo_tui.rewards.samples import Sample
from grpo_tui.rewards.scoring import config_of_functions
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.reader import RunReader
from grpo_tui.store.writer import Writer
from tests.rewards import test_audit as audits
from tests.rewards import test_baseline_figures as baselines
from tests.rewards.labs import scored, write
from tests.rewards.test_comparison import _asked, _body
from tests.stable import as_lines, beside, stable, told

Stored = Callable[[str, str], None]
FORMS = {
    "tags": Form("tags", "think", "answer"), "answer only": Form("tags", None, "answer"),
    "boxed": Form("boxed"), "hashes": Form("hashes"), "plain": Form(),
}  # fmt: skip
TEXTS = (
    "", "4", " 4. ", "It is 4", "4.0", "4 or 5", "five", "1,234.50", "$4", "4 %", "3/4", "-4", "4e0",
    "<think>2+2</think><answer>4</answer>", "<think>2+2</think>\n<answer>\n4\n</answer>",
    "<answer>4</answer>", "<think>a</think><answer>4</answer> and more",
    "<think>a</think><think>b</think><answer>4</answer>", "<answer>4</answer><answer>5</answer>",
    "<think>a<answer>4</answer>", "<THINK>a</THINK><ANSWER>4</ANSWER>", "\\boxed{4}", "\\boxed{\\frac{1}{2}}",
    "So #### 4", "#### 4\n#### 5", "(B)", "B) four", "The answer is B.", "b", '{"a": 4}',
    '```json\n{"a": 4}\n```',
    "[4]", "no no no no no no no no", "one two three four five six seven eight", "sorry, I cannot",
)  # fmt: skip
REWARDS: dict[str, Callable[[], Any]] = {
    "exact": lib.ExactAnswer,
    "exact, any case": lambda: lib.ExactAnswer(ignore_case=True),
    "numeric": lib.NumericAnswer,
    "numeric, 30 %": lambda: lib.NumericAnswer(tolerance=0.3, units=False),
    "boxed": lambda: lib.NumericAnswer(answer_in="boxed", right=2.0, wrong=-1.0),
    "hashes": lambda: lib.NumericAnswer(answer_in="gsm8k", single=False),
    "last": lambda: lib.NumericAnswer(answer_in="last_number"),
    "last, 30 %": lambda: lib.NumericAnswer(answer_in="last_number", tolerance=0.3),
    "whole": lambda: lib.ExactAnswer(answer_in="whole"),
    "by pattern": lambda: lib.ExactAnswer(answer_in="regex", pattern=r"is (\S+)"),
    "choice": lambda: lib.MultipleChoice(answer_in="whole"),
    "tags": lib.TagFormat,
    "incremental": lib.IncrementalTags,
    "json": lib.JsonFormat,
    "json in a fence": lambda: lib.JsonFormat(kind="array", fence=True),
    "pattern": lambda: lib.FullPattern(pattern=r"<think>.*</think>\s*<answer>.*</answer>"),
    "target": lambda: lib.TargetLength(target=6, slack=1, unit="words"),
    "limit": lambda: lib.SoftLengthLimit(limit=8, start=4, unit="words"),
    "repetition": lambda: lib.Repetition(ngram=2),
    "forbidden": lambda: lib.ForbiddenWords(words=["sorry", "four"]),
    "diversity": lib.GroupDiversity,
}
GOLD = {"numeric": "4", "choice": "B"}


def test_what_the_library_gives_is_what_is_stored(stored: Stored) -> None:
    made = {name: make() for name, make in REWARDS.items()}
    columns: dict[str, list[Any]] = {}
    for name, reward in made.items():
        gold = GOLD.get(name, "4")
        prompts = [f"p{number // 4}" for number in range(len(TEXTS))]
        columns[name] = list(reward(list(TEXTS), prompts=prompts, answer=[gold] * len(TEXTS)))
    lines = [" | ".join(("", *columns))]
    for number, text in enumerate(TEXTS):
        scores = (columns[name][number] for name in columns)
        lines.append(" | ".join((repr(text), *("–" if one is None else f"{one:.6g}" for one in scores))))
    stored("library", "\n".join(lines) + "\n")


ROWS = (
    ProbeRow("What is 2+2?", "4", "5", ("7", "9")),
    ProbeRow("Which city?", "Paris", "Rome", ("Oslo",)),
    ProbeRow("How much?", "1500", "1499", ()),
    ProbeRow("Is it?", "yes", "no", ()),
    ProbeRow("Of three?", "3/4", "1/4", ("2/3",)),
    ProbeRow("Which?", "B", "C", ("A",)),
)


def test_the_probes_of_a_row_are_what_is_stored(stored: Stored) -> None:
    told = []
    for name, form in FORMS.items():
        for row in ROWS if name == "tags" else ROWS[:2]:
            told.append(f"{name}: {row.gold}")
            for probe in (*measures(row, form), *make_probes(row, form)):
                of_kind = f"{probe.kind} ({probe.answer}, {attacks_in(probe.text, row.prompt, form)})"
                told.append(f"  {of_kind}: {probe.text!r}"[:300])
    stored("probes", "\n".join(told) + "\n")


def test_what_fools_the_library_is_what_is_stored(stored: Stored) -> None:
    told = []
    for name, make in REWARDS.items():
        for form_name in ("tags", "boxed"):
            form, verdicts = FORMS[form_name], []
            for row in ROWS[:3]:
                probes, reward = make_probes(row, form), make()
                texts = [probe.text for probe in probes]
                gold = [row.gold] * len(texts)
                scores = reward(texts, prompts=[row.prompt] * len(texts), answer=gold)
                verdicts += judge(probes, {name: list(scores)})
            told += [f"{name}, {form_name}: {as_lines(asdict(kind))}" for kind in by_kind(verdicts, 3)]
    stored("fooled", stable("\n".join(told) + "\n"))


def test_the_form_and_the_answers_that_are_read_are_what_is_stored(stored: Stored) -> None:
    prompts = (
        "", "Answer in <answer>…</answer>.", "Write <think>a</think> then <answer>b</answer>",
        "Use \\boxed{}",
        "End with #### and the number", "Reply as <reasoning>…</reasoning><result>…</result>", "Say it",
    )  # fmt: skip
    sources = (
        "",
        're.search(r"<answer>(.*?)</answer>", text)',
        'text.split("####")[-1]',
        r'r"\\boxed\{(.*)\}"',
    )
    said = [f"{p!r} {s!r}: {find_form([p], [s])}" for p in prompts for s in sources]
    answers = (
        "a way #### 7",
        "#### 1,234",
        "\\boxed{3}",
        "<answer>x</answer>",
        "12",
        12,
        1.5,
        None,
        "Paris",
        "",
    )
    said += [f"{one!r}: {short_answer(one)!r}" for one in answers]
    groups = (
        ["4", "5", "7"],
        ["Paris", "Rome"],
        ["yes"],
        ["B"],
        ["3/4"],
        ["1,500"],
        ["0.5"],
        ["x^2"],
        ["True"],
        [""],
    )
    said += [f"{group}: {wrong_answers(group)}" for group in groups]
    named = (
        "accuracy_reward",
        "trl:think_format_reward",
        "acme/judge-1/",
        "a.b.reward",
        "rewards.py:Judge.score",
        "/",
    )
    said += [f"{one}: {config_of_functions([one]).section.rewards[0].name}" for one in named]
    stored("forms", "\n".join(said) + "\n")


ODD = """
import random, re, signal, time

def constant(completions, **kwargs):
    return [0.5 for _ in completions]

def none(completions, **kwargs):
    return [None for _ in completions]

def some(completions, **kwargs):
    return [None if "5" in c else 1.0 for c in completions]

def nan(completions, **kwargs):
    return [float("nan") if i else 1.0 for i, _ in enumerate(completions)]

def boolean(completions, answer, **kwargs):
    return [a in c for c, a in zip(completions, answer)]

def length(completions, **kwargs):
    return [len(c) / 10 for c in completions]

def huge(completions, answer, **kwargs):
    return [1e9 + (a in c) for c, a in zip(completions, answer)]

def anchored(completions, **kwargs):
    return [1.0 if re.match(r"^<think>.*</think><answer>.*</answer>$", c) else 0.0 for c in completions]

def numbers(completions, answer, **kwargs):
    return [1.0 if c.endswith(a) or answer == 4 else 0.0 for c, a in zip(completions, answer)]

def raises(completions, **kwargs):
    return [float(c) for c in completions]

def short(completions, **kwargs):
    return [1.0]

def text(completions, **kwargs):
    return ["1" for _ in completions]

def keyed(completions, solution, **kwargs):
    return [1.0 for _ in completions]

def default(completions, solution=None, **kwargs):
    return [1.0 if solution else 0.0 for _ in completions]

def bare(prompts, completions):
    return [1.0 for _ in completions]

def messages(completions, **kwargs):
    return [float(len(c[0]["content"])) for c in completions]

def first_word(completions, **kwargs):
    return [float(len(str(c[0]))) for c in completions]

def counted(completions, **kwargs):
    counted.calls = getattr(counted, "calls", 0) + 1
    return [float(counted.calls) for _ in completions]

def exact(completions, answer, **kwargs):
    return [1.0 if c.strip() == a else 0.0 for c, a in zip(completions, answer)]

def swallows(completions, answer, **kwargs):
    found = []
    for c in completions:
        try:
            found.append(float(c))
        except Exception:
            found.append(0.0)
    return found

def prints(completions, answer, **kwargs):
    print("looking")
    return [1.0 if a in c else 0.0 for c, a in zip(completions, answer)]
"""
TOGETHER = (
    ["boolean", "constant"],
    ["boolean", "exact"],
    ["huge", "boolean"],
    ["length", "boolean", "none"],
    ["some"],
)


def odd_samples() -> list[Sample]:
    found = []
    for number in range(4):
        prompt, answer = f"What is {number} + 4?", str(number + 4)
        texts = (
            f"<think>\nI add.\n</think><answer>{answer}</answer>",
            f"<think>x</think><answer>{number + 5}</answer>",
            f"It is {answer}",
            "no idea at all",
            answer,
        )
        found += [Sample(prompt, text, {"answer": answer}) for text in texts]
    return found


def test_what_is_said_of_odd_rewards_is_what_is_stored(lab: Lab, tmp_path: Path, stored: Stored) -> None:
    file = write(tmp_path, ODD, "odd.py")
    names = [line.split("(")[0][4:] for line in ODD.splitlines() if line.startswith("def ")]
    said = []
    for chosen in (*([name] for name in names), *TOGETHER):
        report = scored(lab, file, chosen, odd_samples())
        said += ["", " + ".join(chosen), *map(told, report.findings), *report.notes]
        said += [
            str(["–" if s is None else f"{s:.6g}" for s in one.scores]) for one in report.scored.functions
        ]
        said += [f"{report.aggregate.totals} {report.shares}"]
        said += [f"{one.failure and one.failure.text} {one.output!r}" for one in report.scored.functions]
    report = scored(lab, file, ["boolean", "exact"], odd_samples()[:10])
    said += ["", *(line.rsplit("   ", 1)[0] if " ms" in line else line for line in report_lines(report, 100))]
    stored("odd", stable("\n".join(said) + "\n", tmp_path))


GROUPS = {
    "none right": [[0.0] * 4] * 6, "all right": [[1.0] * 4] * 6, "few": [[1.0, 0, 0, 0], *[[0.0] * 4] * 9],
    "most": [[0.0, 1, 1, 1], *[[1.0] * 4] * 9], "healthy": [[1.0, 0, 0, 1], [0.0, 1, 0, 0], [1.0, 1, 0, 1]],
    "flat": [[1.0] * 8, [0.0] * 8, [1.0, *[0.0] * 7]],
}  # fmt: skip


def baselines_of() -> Iterator[tuple[str, baselines.Baseline]]:
    for name, groups in GROUPS.items():
        yield name, baselines._baseline(groups)
    healthy = GROUPS["healthy"]
    yield "cut off", baselines._baseline(healthy, cut=4)
    yield "all cut off", baselines._baseline(healthy, cut=12)
    yield "alike", baselines._baseline(GROUPS["flat"], texts=["same words here"] * 24, temperature=0.6)
    yield "without a judge", baselines._baseline(healthy, judged=False)
    yield "a form never written", baselines._baseline(healthy, form=[0.0] * 12)
    yield "a form mostly written", baselines._baseline(healthy, form=[1.0] * 9 + [0.0] * 3)
    yield (
        "a failure",
        baselines._baseline(healthy, failure=baselines.Failure("raised", "ValueError", "no judge")),
    )


def test_what_is_said_of_a_baseline_is_what_is_stored(stored: Stored) -> None:
    said = []
    for name, found in baselines_of():
        said += [name, *map(told, found.findings), as_lines(found.to_json()), ""]
    stored("baselines", stable("\n".join(said)))


def answers(rights: str, *, tokens: int = 3, cut: int = 0) -> list[Answers]:
    made = []
    for number, right in enumerate(rights):
        scores = ((float(right == "1"), 1.0), (float(right != "0"), None if number == 2 else 0.5))
        texts = tuple(f"text {number}: {one}" for one in scores)
        made.append(Answers(texts, (tokens, tokens + number), (number < cut, False), scores))
    return made


PAIRS = {
    "better": ("000000001h", "1111111h11"), "worse": ("1111111h11", "000000001h"), "the same": ("1010",
    "1010"),
    "not known": ("10h1010010", "1101010h11"), "one row": ("0", "1"),
}  # fmt: skip


def test_what_is_said_of_a_comparison_is_what_is_stored(stored: Stored) -> None:
    said = []
    for name, (base, other) in PAIRS.items():
        for asked in (
            _asked(answers(base), answers(other, tokens=9, cut=1)),
            _asked(answers(base), answers(other), answers(base[::-1]), judge=None),
        ):
            body = _body(asked)
            narrow, wide = (list(comparison_text.report(body, width)) for width in (70, 110))
            said += [f"{name}, 70", *narrow, "", f"{name}, 110", *beside(narrow, wide), ""]
            said += [as_lines(body), ""]
    stored("comparisons", stable("\n".join(said)))


def test_an_audit_of_a_record_is_what_is_stored(tmp_path: Path, stored: Stored) -> None:
    folder = RunFolder(tmp_path)
    with closing(open_writer(folder.database)) as connection:
        writer = Writer(connection)
        writer.write([r.AttemptStarted(1, 0.0, "here", 1, total_steps=24)])
        writer.write([r.RewardFunctionInfo(1, n, name, 1.0) for n, name in enumerate(("correct", "style"))])
        for step in range(1, 25):
            last = audits.HACK if step > 12 else ("<answer>4</answer>", 1.0, 3.0 + step % 3)
            group = audits.a_group([audits.HONEST, audits.HONEST, audits.WRONG, last])
            writer.write([r.GenerationBatch(1, step, 0, "train", step, step, 0.0, (group,))])
    with closing(RunReader(folder.database)) as reader:
        found = audit(reader)
    stored("audit", stable(as_lines(asdict(found)) + "\n", tmp_path))
