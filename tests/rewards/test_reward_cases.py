"""Every known way in which a reward goes wrong gets its finding, and the corrected function gets none."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from grpo_tui.core.answers import extract
from grpo_tui.rewards.lab import Lab
from grpo_tui.rewards.samples import Sample
from tests.rewards.labs import scored, write

SUMS = [
    Sample("2+2?", "4", {"answer": "4"}),
    Sample("2+2?", "it is 5", {"answer": "4"}),
    Sample("3+4?", "7", {"answer": "7"}),
    Sample("3+4?", "no idea at all", {"answer": "7"}),
]
WORKED = [
    Sample("2+2?", "4", {"answer": "Two and two make four.\n#### 4"}),
    Sample("2+2?", "5", {"answer": "Two and two make four.\n#### 4"}),
    Sample("3+4?", "7", {"answer": "Three and four make seven.\n#### 7"}),
    Sample("3+4?", "8", {"answer": "Three and four make seven.\n#### 7"}),
]
HALF_EMPTY = [
    Sample("q", "12", {"answer": ""}),
    Sample("q", "no", {"answer": ""}),
    Sample("r", "12", {"answer": "12"}),
    Sample("r", "13", {"answer": "12"}),
]
LINES = [
    Sample("2+2?", "<think>\na\n</think>\n<answer>4</answer>"),
    Sample("2+2?", "<think>\nb c\n</think>\n<answer>5</answer>"),
    Sample("2+2?", "four"),
]
PREFILLED = [
    Sample("2+2?", "two plus two</think>4"),
    Sample("2+2?", "two and two</think>5"),
    Sample("2+2?", "4"),
]
LENGTHS = [Sample("write", "x" * n) for n in (20, 5, 500)]
CHAT = [
    Sample(
        [{"role": "user", "content": s.prompt}], [{"role": "assistant", "content": s.completion}], s.columns
    )
    for s in SUMS
]

MATCH = "return [float(a in c) for c, a in zip(completions, answer)]"


@dataclass(frozen=True)
class Case:
    """A broken function `f`, its finding, and `f` corrected."""

    finding: str
    broken: str
    fixed: str
    samples: list[Sample] = field(default_factory=lambda: SUMS)
    imports: str = ""


CASES = {
    "the gold column does not reach the reward": Case(
        "rewards.unfilled-default",
        "def f(completions, solution=None, **kw):\n"
        "    return [1.0 if solution and s in c else 0.0\n"
        "            for c, s in zip(completions, solution or [''] * len(completions))]",
        f"def f(completions, answer=None, **kw):\n    {MATCH}",
    ),
    "a required column is not there": Case(
        "rewards.missing-column",
        "def f(completions, solution, **kw): return [float(s in c) for c, s in zip(completions, solution)]",
        f"def f(completions, answer, **kw):\n    {MATCH}",
    ),
    "a default is not filled, for the column has almost its name": Case(
        "rewards.unfilled-default",
        "def f(completions, answers='4', **kw): return [float(answers[0] in c) for c in completions]",
        f"def f(completions, answer='', **kw):\n    {MATCH}",
    ),
    "a default holds nothing, and no column fills it": Case(
        "rewards.unfilled-default",
        "def f(completions, solution='', **kw):\n"
        "    return [float(bool(solution) and c in solution) for c in completions]",
        f"def f(completions, answer='', **kw):\n    {MATCH}",
    ),
    "a key of **kwargs that is no column": Case(
        "rewards.unfilled-default",
        "def f(completions, **kw):\n"
        "    return [float(s in c) for c, s in zip(completions, kw.get('solution', 'zzzz'))]",
        "def f(completions, **kw):\n"
        "    return [float(a in c) for c, a, _ in zip(completions, kw['answer'], kw.get('prompts', []))]",
    ),
    "a key that is read from the keyword arguments of a class": Case(
        "rewards.unfilled-default",
        "class f:\n"
        "    def __call__(self, completions, **kw): return [float(len(c) % 2) for c in kw['solution']]",
        "class f:\n"
        "    def __call__(self, completions, **kw):\n"
        "        gold = kw['solution'] if 'solution' in kw else kw['answer']\n"
        "        return [float(a in c) for c, a in zip(completions, gold)]",
    ),
    "no **kwargs": Case(
        "rewards.missing-kwargs",
        "def f(prompts, completions): return [float(len(c)) for c in completions]",
        "def f(prompts, completions, **kwargs): return [1.0 / (1 + len(c)) for c in completions]",
    ),
    **{
        f"returns {what}": Case(
            "rewards.return",
            f"def f(completions, **kw): {broken}",
            f"def f(completions, **kw): {fixed}",
            imports="import torch, numpy as np",
        )
        for what, broken, fixed in (
            ("two values for four", "return [1.0, 0.0]", "return [1.0, 0.0, 1.0, 0.0]"),
            ("one number", "return 1.0", "return torch.tensor([1.0, 0.0, 1.0, 0.0])"),
            ("nothing", "pass", "return np.arange(4)"),
            ("a mapping", "return {'score': [1.0]}", "return [True, False, True, False]"),
            ("texts", "return ['1.0'] * 4", "return [torch.tensor(1.0), 0, True, np.float32(2)]"),
            ("pairs", "return [(1.0, 'ok')] * 4", "return (1.0, 0.0, 1.0, 0.5)"),
        )
    },
    "abstains everywhere": Case(
        "rewards.none-everywhere",
        "def f(completions, **kw): return [None] * len(completions)",
        "def f(completions, answer, **kw): return [float(a in c) for c, a in zip(completions, answer)]",
    ),
    "abstains so that nobody scores a sample": Case(
        "rewards.unscored",
        "def f(completions, **kw): return [None if i % 2 else float(i) for i, _ in enumerate(completions)]",
        "def f(completions, **kw): return [0.5 if i % 2 else float(i) for i, _ in enumerate(completions)]",
    ),
    "an async judge that is called as if it were none": Case(
        "rewards.return",
        "async def judge(completions): return [float(len(c)) for c in completions]\n"
        "def f(completions, **kw): return judge(completions)",
        "class f:\n"
        "    async def __call__(self, completions, **kw):\n"
        "        await asyncio.sleep(0.01)\n"
        "        return [float(i % 2) for i, _ in enumerate(completions)]",
        imports="import asyncio",
    ),
    "an unusable gold answer rewards everything": Case(
        "rewards.gold-unusable",
        "def f(completions, answer, **kw):\n"
        "    return [1.0 if not a else float(a in c) for c, a in zip(completions, answer)]",
        "def f(completions, answer, **kw):\n"
        "    return [None if not a else float(a in c) for c, a in zip(completions, answer)]",
        HALF_EMPTY,
    ),
    "a pattern that stops at line breaks": Case(
        "rewards.line-breaks",
        "def f(completions, **kw):\n"
        "    return [float(bool(re.match(r'^<think>.*</think><answer>.*</answer>$', c)))\n"
        "            for c in completions]",
        "def f(completions, **kw):\n"
        "    form = re.compile(r'^<think>.*</think>\\s*<answer>.*</answer>$', re.DOTALL)\n"
        "    return [float(bool(form.match(c))) for c in completions]",
        LINES,
        "import re",
    ),
    "a pattern with a name that stops at line breaks": Case(
        "rewards.line-breaks",
        "def f(completions, **kw):\n"
        "    pattern = r'^<think>.*?</think>\\s*<answer>.*?</answer>$'\n"
        "    return [1.0 if re.match(pattern, c) else 0.0 for c in completions]",
        "FORM = r'^<think>.*?</think>\\s*<answer>.*?</answer>$'\n"
        "def f(completions, form=FORM, **kw):\n"
        "    return [1.0 if re.match(form, c, re.S) else 0.0 for c in completions]",
        LINES,
        "import re",
    ),
    "asks for a tag that the template has written": Case(
        "rewards.prefilled-think",
        "def f(completions, **kw): return [float(c.startswith('<think>')) for c in completions]",
        "def f(completions, **kw): return [float(c.count('</think>') == 1) for c in completions]",
        PREFILLED,
    ),
    "a distance without a minus": Case(
        "rewards.distance",
        "def f(completions, **kw): return [abs(20 - len(c)) for c in completions]",
        "def f(completions, **kw): return [-abs(20 - len(c)) for c in completions]",
        LENGTHS,
    ),
    "a squared distance without a minus": Case(
        "rewards.distance",
        "def f(completions, **kw):\n"
        "    given = []\n"
        "    for c in completions: given.append((len(c) - 20) ** 2)\n"
        "    return given",
        "def f(completions, **kw): return [1 / (1 + (len(c) - 20) ** 2) for c in completions]",
        LENGTHS,
    ),
    "a distance of arrays without a minus": Case(
        "rewards.distance",
        "def f(completions, **kw): return np.abs(np.array([len(c) for c in completions]) - 20).tolist()",
        "def away(a, b): return abs(a - b)\n"
        "def f(completions, **kw): return [-away(len(c), 20) for c in completions]",
        LENGTHS,
        "import numpy as np",
    ),
    "grows with length": Case(
        "rewards.grows-with-length",
        "def f(completions, **kw): return [len(c) * 0.1 for c in completions]",
        "def f(completions, **kw): return [min(len(c), 20) / 20 for c in completions]",
        LENGTHS,
    ),
    "compares with the whole solution": Case(
        "rewards.gold-format",
        "def f(completions, answer, **kw):\n"
        "    return [float(c.strip() == a) for c, a in zip(completions, answer)]",
        "def f(completions, answer, **kw):\n"
        "    golds = [a.rpartition('####')[2].strip() for a in answer]\n"
        "    return [float(c.strip() == a) for c, a in zip(completions, golds)]",
        WORKED,
    ),
    "the sign of correctness is turned": Case(
        "rewards.gold-below-wrong",
        "def f(completions, answer, **kw): return [-float(a in c) for c, a in zip(completions, answer)]",
        f"def f(completions, answer, **kw):\n    {MATCH}",
    ),
    "takes messages for texts and raises": Case(
        "rewards.shape",
        "def f(completions, answer, **kw):\n"
        "    return [float(c.strip() == a) for c, a in zip(completions, answer)]",
        "def f(completions, answer, **kw):\n"
        "    return [float(c[0]['content'].strip() == a) for c, a in zip(completions, answer)]",
        CHAT,
    ),
    "takes messages for texts without a word": Case(
        "rewards.shape",
        f"def f(completions, answer, **kw):\n    {MATCH}",
        "def f(completions, answer, **kw):\n"
        "    return [float(a in c[-1]['content']) for c, a in zip(completions, answer)]",
        CHAT,
    ),
    "takes texts for messages": Case(
        "rewards.shape",
        "def f(completions, answer, **kw):\n"
        "    return [float(c[0]['content'] == a) for c, a in zip(completions, answer)]",
        f"def f(completions, answer, **kw):\n    {MATCH}",
    ),
    "the number of messages for that of characters": Case(
        "rewards.shape",
        "def f(completions, **kw): return [1.0 if 40 < len(c) else 0.0 for c in completions]",
        "def f(completions, **kw): return [1.0 if 9 < len(c[-1]['content']) else 0.0 for c in completions]",
        CHAT,
    ),
    "the same, hidden behind the prompt": Case(
        "rewards.shape",
        "def f(prompts, completions, **kw):\n"
        "    return [1.0 / (1 + len(c) + len(str(p))) for p, c in zip(prompts, completions)]",
        "def f(prompts, completions, **kw):\n"
        "    return [1.0 / (1 + len(c[0]['content']) + len(p)) for p, c in zip(prompts, completions)]",
        CHAT,
    ),
    "a slice of a list": Case(
        "rewards.shape",
        "def f(completions, **kw): return [float(c[:2] == 'it') for c in completions]",
        "def f(completions, **kw): return [float(c[0]['content'][:2] == 'it') for c in completions]",
        CHAT,
    ),
    "a text that is asked for its messages": Case(
        "rewards.shape",
        "def f(completions, **kw):\n"
        "    return [1.0 / (1 + len(c[0]['content'] if isinstance(c, list) else '')) for c in completions]",
        "def f(completions, **kw):\n"
        "    return [1.0 / (1 + len(c[0]['content'] if isinstance(c, list) else c)) for c in completions]",
    ),
    "compares an integer with text": Case(
        "rewards.gold-type",
        "def f(completions, answer, **kw): return [float(c == a) for c, a in zip(completions, answer)]",
        "def f(completions, answer, **kw): return [float(c == str(a)) for c, a in zip(completions, answer)]",
        [replace(s, columns={"answer": int(s.columns["answer"])}) for s in SUMS],
    ),
    "compares a whole number with an empty cell beside it": Case(
        "rewards.gold-type",
        "def f(completions, answer, **kw): return [float(c == str(a)) for c, a in zip(completions, answer)]",
        "def f(completions, answer, **kw):\n"
        "    return [float(c == f'{a:g}') for c, a in zip(completions, answer)]",
        [
            *(replace(s, columns={"answer": float(s.columns["answer"])}) for s in SUMS),
            Sample("1+1?", "2", {"answer": 2.0}),
        ],
    ),
    "compares text with a number": Case(
        "rewards.gold-type",
        "def f(completions, answer, **kw):\n"
        "    return [float(c.isdigit() and int(c) == a) for c, a in zip(completions, answer)]",
        "def f(completions, answer, **kw):\n"
        "    return [float(c.isdigit() and int(c) == int(a)) for c, a in zip(completions, answer)]",
    ),
    "compares true with its text": Case(
        "rewards.gold-type",
        "def f(completions, answer, **kw):\n"
        "    return [float(c.strip().lower() == a) for c, a in zip(completions, answer)]",
        "def f(completions, answer, **kw):\n"
        "    return [float(c.strip().lower() == str(a).lower()) for c, a in zip(completions, answer)]",
        [Sample("2=2?", "True", {"answer": True}), Sample("2=2?", "No way", {"answer": True})],
    ),
    "NaN": Case(
        "rewards.nan",
        "def f(completions, **kw): return [float('nan'), 0.0, 1.0, 0.0]",
        "def f(completions, **kw): return [0.5, 0.0, 1.0, 0.0]",
    ),
    "infinity": Case(
        "rewards.infinite",
        "def f(completions, **kw): return [float('inf'), 0.0, 1.0, 0.0]",
        "def f(completions, **kw): return [0.5, 0.0, 1.0, 0.0]",
    ),
    "constant": Case(
        "rewards.constant",
        "def f(completions, **kw): return [0.5 for _ in completions]",
        "def f(completions, **kw): return [1.0 / (1 + len(c)) for c in completions]",
    ),
    "a function of the prompt alone": Case(
        "rewards.prompt-only",
        "def f(prompts, **kw): return [float('3' in p) for p in prompts]",
        "def f(prompts, completions, **kw): return [1.0 / (1 + len(c)) for c in completions]",
    ),
    "swallows an exception": Case(
        "rewards.swallows",
        "def f(completions, answer, **kw):\n"
        "    out = []\n"
        "    for c, a in zip(completions, answer):\n"
        "        try:\n            out.append(float(int(c) == int(a)))\n"
        "        except Exception:\n            out.append(0.0)\n"
        "    return out",
        "def f(completions, answer, **kw):\n"
        "    return [float(c.isdigit() and int(c) == int(a)) for c, a in zip(completions, answer)]",
    ),
    "chance": Case(
        "rewards.not-deterministic",
        "def f(completions, **kw): return [random.random() for _ in completions]",
        "def f(completions, **kw): return [random.Random(c).random() for c in completions]",
        imports="import random",
    ),
    "state between calls": Case(
        "rewards.keeps-state",
        "seen = set()\n"
        "def f(completions, **kw):\n"
        "    new = [float(c not in seen) for c in completions]\n"
        "    seen.update(completions[:2])\n"
        "    return new",
        "def f(completions, **kw):\n    return [1.0 / (completions.count(c) + len(c)) for c in completions]",
    ),
    "state that a resume would lose": Case(
        "rewards.keeps-state",
        "class f:\n"
        "    def __init__(self): self.calls = 0\n"
        "    def __call__(self, completions, **kw):\n"
        "        self.calls += 1\n"
        "        return [len(c) / 1000 * self.calls for c in completions]",
        "class f:\n"
        "    def __init__(self): self.calls = 0\n"
        "    def state_dict(self): return {'calls': self.calls}\n"
        "    def __call__(self, completions, **kw):\n"
        "        self.calls += 1\n"
        "        return [len(c) / 1000 * self.calls for c in completions]",
    ),
    "raises on one sample": Case(
        "rewards.raises",
        "def f(completions, answer, **kw):\n"
        "    return [float(int(c) == int(a)) for c, a in zip(completions, answer)]",
        f"def f(completions, answer, **kw):\n    {MATCH}",
    ),
    "ends the process": Case(
        "rewards.ends-process",
        "def f(completions, **kw): os._exit(3)",
        "def f(completions, **kw): return [1.0 / (1 + len(c)) for c in completions]",
        imports="import os",
    ),
    "signals": Case(
        "rewards.main-thread",
        "def f(completions, **kw):\n"
        "    signal.alarm(5)\n"
        "    try:\n        return [1.0 / (1 + len(c)) for c in completions]\n"
        "    finally:\n        signal.alarm(0)",
        "def f(completions, **kw): return [1.0 / (1 + len(c)) for c in completions]",
        imports="import signal",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_broken_reward_gets_its_finding_and_the_corrected_one_gets_none(
    name: str, lab: Lab, tmp_path: Path
) -> None:
    case = CASES[name]
    broken = scored(lab, write(tmp_path, f"{case.imports}\n{case.broken}\n"), ["f"], case.samples)
    found = [finding["id"] for finding in broken.to_json()["findings"]]
    assert case.finding in found
    fixed = scored(lab, write(tmp_path, f"{case.imports}\n{case.fixed}\n"), ["f"], case.samples)
    assert fixed.to_json()["findings"] == []


def test_a_reward_that_gives_all_it_has_is_not_said_to_take_another_form(lab: Lab, tmp_path: Path) -> None:
    case = CASES["an unusable gold answer rewards everything"]
    samples = [Sample("q", "a", {"answer": ""}), Sample("r", "12", {"answer": "12"})]
    found = scored(lab, write(tmp_path, f"{case.broken}\n"), ["f"], samples)
    ids = {finding["id"] for finding in found.to_json()["findings"]}
    assert ids == {"rewards.gold-unusable", "rewards.constant"}


@pytest.mark.parametrize(
    ("frame", "body", "ids"),
    [
        ("{}", "[float(int(c) == int(a)) for c, a in zip(completions, kw['answer'])]", ["rewards.raises"]),
        ("{}", "[len(c) / (c.find('<') < 0) for c in completions]", ["rewards.raises"]),
        ("The answer is {}.", "[float(c == a) for c, a in zip(completions, kw['answer'])]", []),
        ("The answer is {}.", "[float(c.isdigit()) for c in completions]", []),
    ],
)
def test_what_one_form_of_answers_hides_is_looked_for_in_the_others(
    frame: str, body: str, ids: list[str], lab: Lab, tmp_path: Path
) -> None:
    """A check writes reference answers in one form: a reward may fail on the others, or want another."""
    samples = [
        Sample(f"{n} + 1?", frame.format(n + 1 + off), {"answer": str(n + 1)}, kind=kind)
        for n in (1, 2)
        for off, kind in ((0, "gold"), (1, "wrong"))
    ]
    found = scored(lab, write(tmp_path, f"def f(completions, **kw): return {body}\n"), ["f"], samples)
    assert [finding.id for finding in found.findings] == ids
    assert all("one exception ends the run" in finding.message for finding in found.findings)


def test_a_confusion_of_types_is_named_with_its_line(lab: Lab, tmp_path: Path) -> None:
    case = CASES["the number of messages for that of characters"]
    (found,) = scored(lab, write(tmp_path, f"\n\n{case.broken}\n"), ["f"], case.samples).findings
    assert (found.severity, found.line) == ("error", 3)
    assert "as in `len(c)`. It gives all completions of a prompt the same score" in found.message


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("[0.5 for _ in completions]", "is constant: 0.5 for all 60 completions tried"),
        ("[float('zebra' in c) for c in completions]", "is constant: 0 for all 60"),
        ("[float(len(c) < 5_000) for c in completions]", ""),
        ("[float('4' in c) for c in completions]", ""),
    ],
)
def test_a_reward_that_gives_reference_and_wrong_answers_the_same_is_tried_on_others(
    body: str, said: str, lab: Lab, tmp_path: Path
) -> None:
    samples = [replace(s, kind=kind) for s, kind in zip(SUMS, ["gold", "wrong"] * 2, strict=True)]
    file = write(tmp_path, f"def f(completions, **kw): return {body}\n")
    found = scored(lab, file, ["f"], samples * 5, gold=False).findings
    assert [f.id for f in found] == (["rewards.constant"] if said else [])
    assert said in "".join(f.message for f in found)


@pytest.mark.parametrize(
    ("name", "said", "text"),
    [
        ("compares an integer with text", "holds integers (4) and the function compares it with text", "4"),
        ("compares a whole number with an empty cell beside it", "holds numbers (4.0)", "4"),
    ],
)
def test_the_fix_of_a_column_of_numbers_makes_text_of_it(
    name: str, said: str, text: str, lab: Lab, tmp_path: Path
) -> None:
    case = CASES[name]
    (found,) = scored(lab, write(tmp_path, f"{case.broken}\n"), ["f"], case.samples).findings
    assert found.severity == "error"
    assert said in found.message
    assert found.fix is not None
    assert found.fix.field == "grpo_tui.answer"
    value = str(case.samples[0].columns["answer"])
    assert extract(value, found.fix.value["kind"], pattern=found.fix.value["pattern"]) == text


def test_a_confusion_of_types_is_told_once_and_a_missing_answer_hides_no_cause(
    lab: Lab, tmp_path: Path
) -> None:
    shape = scored(lab, write(tmp_path, f"def f(completions, answer, **kw):\n    {MATCH}\n"), ["f"], CHAT)
    assert [f.id for f in shape.findings] == ["rewards.shape"]
    case = CASES["compares a whole number with an empty cell beside it"]
    samples = [Sample("0?", "0", {"answer": None}), *case.samples]
    found = scored(lab, write(tmp_path, f"{case.broken}\n"), ["f"], samples).findings
    assert [f.id for f in found] == ["rewards.gold-type"]
    assert "holds numbers (4.0)" in found[0].message
