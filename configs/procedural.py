"""Rows and reward for `procedural.yaml`: puzzles made by reasoning-gym, checked by their own verifiers.

`pip install reasoning-gym`. The rows depend on TASKS, SIZE and SEED alone: the same ones every time.
"""

from __future__ import annotations

import json
import re
from typing import Any

# Name of a task in reasoning-gym, and how hard it is made. `reasoning_gym.factory.DATASETS` holds all names.
TASKS: dict[str, dict[str, Any]] = {
    "chain_sum": {"min_terms": 3, "max_terms": 5, "min_digits": 1, "max_digits": 2},
    "gcd": {"max_value": 200},
    "leg_counting": {"max_animals": 5},
    "simple_equations": {},
    "word_sorting": {"min_words": 3, "max_words": 6},
    "family_relationships": {},
}
SIZE = 200  # rows of each task
SEED = 42
# Most verifiers give a part of 1 to a text that holds the right answer among others, which a policy learns to
# use by listing answers. False lets those parts count.
WHOLE_MARKS_ONLY = True

ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
MARKS = re.compile(r"^[\s*$]*(?:\\boxed\{)?|[}*$.\s]*$")


def rows() -> list[dict[str, str]]:
    """Make the rows, the tasks in turn: prompt, answer, task, and the verifier's own entry as JSON."""
    import reasoning_gym

    made = [
        reasoning_gym.create_dataset(task, size=SIZE, seed=SEED, **settings)
        for task, settings in TASKS.items()
    ]
    return [
        {
            "prompt": entry["question"],
            "answer": str(entry["answer"]),
            "task": task,
            "entry": json.dumps(entry),
        }
        for entries in zip(*made, strict=True)
        for task, entry in zip(TASKS, entries, strict=True)
    ]


def verified(completions: list[Any], task: list[str], entry: list[str], **kwargs: Any) -> list[float]:
    """What the task's verifier gives to the text in the only `<answer>`; 0 without one, or with several."""
    import reasoning_gym

    scores = []
    for completion, name, saved in zip(completions, task, entry, strict=True):
        text = completion if isinstance(completion, str) else completion[-1]["content"]
        tagged = ANSWER.findall(text)
        if len(tagged) != 1:
            scores.append(0.0)
            continue
        verify = reasoning_gym.get_score_answer_fn(name)
        # As it stands and without the marks around it: `**42**`, `$42$`, `\\boxed{42}`, `42.`
        given = {tagged[0].strip(), MARKS.sub("", tagged[0]).strip()}
        score = max(float(verify(answer=answer, entry=json.loads(saved))) for answer in given)
        scores.append(float(score >= 1.0) if WHOLE_MARKS_ONLY else score)
    return scores
