"""A rewards file from the template: each function holds against the probes, the next comes when it works."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo_tui.cli.main import main
from grpo_tui.config.resolve import load_config
from grpo_tui.config.section import AnswerSpec, RewardEntry, Section
from grpo_tui.core.findings import Finding
from grpo_tui.demo import DEMO_CONFIG, DEMO_MODEL
from grpo_tui.rewards.answer_format import Form, find_form, wrong_answer
from grpo_tui.rewards.lab import Lab
from grpo_tui.rewards.next_reward import (
    DEFAULT_FORM,
    Task,
    TemplateError,
    add_to_file,
    advise,
    begun_with,
    file_of,
    put_into_config,
    reward_names,
    section,
    stages,
    task_for,
    task_of,
    with_reward,
    with_stage,
)
from grpo_tui.rewards.probes import ProbeRow, judge, make_probes
from grpo_tui.rewards.scoring import Dataset, config_of_functions

FORMS = [
    DEFAULT_FORM,
    Form("tags", "reasoning", "result"),
    Form("tags", None, "answer"),
    Form("tags", "think", "answer", prefilled=True),
    Form("boxed"),
    Form("hashes"),
]
GOLDS = ["42", "1250", "-8", "3.5", "7/2", "Paris", "B"]


def grown(task: Task) -> str:
    """The whole file, one reward after the other."""
    first, *others = stages(task)
    text = begun_with(first, task, "rewards.py")
    for stage in others:
        text = with_stage(text, stage)
    return text


def functions(text: str) -> dict[str, Callable[..., Any]]:
    space: dict[str, Any] = {"__name__": "rewards"}
    exec(compile(text, "rewards.py", "exec"), space)
    return {name: space[name] for name in reward_names(text)}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.style} {form.think} {form.prefilled}")
@pytest.mark.parametrize("gold", GOLDS)
def test_nothing_fools_the_template_and_it_refuses_nothing(form: Form, gold: str) -> None:
    probes = make_probes(ProbeRow("What is it?", gold, wrong_answer(gold, ["Rome"])), form)
    texts = [probe.text for probe in probes]
    made = functions(grown(Task(form)))
    given = {
        name: f(prompts=["p"] * len(texts), completions=texts, answer=[gold] * len(texts), step=1)
        for name, f in made.items()
    }
    assert given["correctness"][:2] == [1.0, 0.0]
    assert all(-1.0 <= score <= 1.0 for scores in given.values() for score in scores)
    verdicts = judge(probes, given)
    assert [(v.function, v.fault, v.kind) for v in verdicts] == []


def test_messages_are_read_like_texts_and_no_gold_answer_is_no_score() -> None:
    correctness = functions(grown(Task()))["correctness"]
    seen: dict[str, list[str]] = {}
    chat = [[{"role": "assistant", "content": "<answer> 1,250 </answer>"}]] * 3
    scores = correctness(completions=chat, answer=["1250", "so\n#### 1250", ""], log_extra=seen.__setitem__)
    assert scores == [1.0, 1.0, None]
    assert seen == {"extracted": ["1,250"] * 3, "gold": ["1250", "1250", ""]}


def test_length_and_style_cost_what_is_long_and_what_repeats() -> None:
    made = functions(grown(Task(words=100)))
    long = ["w " * 80, "w " * 90, "w " * 100, "w " * 500]
    assert made["not_too_long"](long) == pytest.approx([0.0, -0.5, -1.0, -1.0])
    looped = made["no_repetition"](["a b c d e f", "a b c d " * 50, "!" * 2000, ""])
    assert looped == pytest.approx([0.0, -1.0, -1.0, 0.0], abs=0.03)


def test_a_file_with_one_function_says_in_which_form_the_next_is_written() -> None:
    form = Form("tags", "reasoning", "result")
    task = Task(form)
    assert find_form([], [begun_with(stages(task)[0], task, "r.py")]) == form


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("def f(completions, **kw): pass", ["f"]),
        ("def f(prompts, completions, answer): pass", ["f"]),
        ("def f(*, completions, **kw): pass", ["f"]),
        ("def f(prompts, *, completions): pass", ["f"]),
        ("def f(completions, /, **kw): pass", []),
        ("async def f(completions, **kw): pass", ["f"]),
        ("def _f(completions): pass", []),
        ("def f(completion): pass", []),
        ("def f(*completions): pass", []),
        ("def f(**completions): pass", []),
        ("class F:\n    def f(self, completions): pass", []),
        ("def outer():\n    def f(completions): pass", []),
        ("def b(completions): pass\ndef a(completions): pass", ["b", "a"]),
    ],
)
def test_the_rewards_of_a_file_are_its_functions_that_trl_can_call_with_completions(
    line: str, names: list[str]
) -> None:
    assert reward_names(line) == names


def test_what_another_file_lacks_comes_with_the_function() -> None:
    strict = stages(Task())[1]
    mine = (
        '"""Mine."""\n\nimport os\n\ndef short(completions, **kw):\n    return [1.0 for _ in completions]\n'
    )
    text = with_stage(mine, strict)
    assert ast.get_docstring(ast.parse(text)) == "Mine."
    assert "def short" in text
    assert text.count("import re\n") == 1
    assert functions(text)["strict_format"](["<think>a</think><answer>4</answer>", "4"]) == [1.0, 0.0]
    with pytest.raises(TemplateError, match="strict_format"):
        with_stage(text, strict)
    with pytest.raises(TemplateError, match="line 2"):
        with_stage("a = 1\ndef f(:\n", strict)


@pytest.mark.parametrize(
    ("above", "added"),
    [
        ("import os\n", ["from __future__ import annotations", "import re", "from typing import Any"]),
        ("import re\nfrom typing import Any\n", ["from __future__ import annotations"]),
        ("from __future__ import annotations\nimport re\nimport typing\n", ["from typing import Any"]),
        ("from __future__ import annotations\nfrom typing import Any\nimport re.x\n", []),
        (
            "import re as regex\nfrom typing import Any as Whatever\n",
            ["from __future__ import annotations", "import re", "from typing import Any"],
        ),
        ("re = Any = None\n", ["from __future__ import annotations"]),
    ],
)
def test_only_imports_that_a_file_lacks_are_added(above: str, added: list[str]) -> None:
    mine = f"{above}\n\ndef short(completions, **kw):\n    return [1.0 for _ in completions]\n"
    text = with_stage(mine, stages(Task())[1])
    lines = ("from __future__ import annotations", "import re", "from typing import Any")
    before = mine.splitlines()
    assert [line for line in lines if text.splitlines().count(line) > before.count(line)] == added
    assert all(text.splitlines().count(line) <= 1 for line in lines)


def test_a_file_keeps_its_line_breaks_its_permissions_and_its_link(tmp_path: Path) -> None:
    file, link = tmp_path / "real.py", tmp_path / "rewards.py"
    file.write_bytes(b"import re\r\n")
    file.chmod(0o640)
    link.symlink_to(file)
    add_to_file(link, stages(Task())[4], Task())
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    assert file.read_bytes().count(b"\n") == file.read_bytes().count(b"\r\n") > 10
    before = file.read_bytes()
    add_to_file(link, stages(Task())[4], Task())
    assert file.read_bytes() == before
    add_to_file(tmp_path / "new.py", stages(Task())[1], Task())
    assert reward_names((tmp_path / "new.py").read_text()) == ["strict_format"]


@pytest.mark.parametrize(
    ("names", "findings", "stage", "says"),
    [
        ([], [], "correctness", "Next: correctness, weight 2"),
        (["correctness"], [], "strict_format", "correctness works. Next: strict_format"),
        (["correctness", "strict_format"], [], "incremental_format", "All 2 rewards work. Next"),
        (["correctness", "strict_format", "incremental_format"], [], "not_too_long", "weight 0.2"),
        (["correctness", "strict_format", "incremental_format", "get_soft_overlong_punishment"], [],
         "no_repetition", "Next"),
        (["correctness", "strict_format", "incremental_format", "length", "repetition"], [], None, "Nothing"),
        (["a", "b", "c", "d", "e"], [], None, "3 to 5 are enough"),
        (["correctness"], [Finding("rewards.return", "error", "correctness", 1, "it gives 2 for 4")], None,
         "First fix the rewards"),
        (["correctness"], [Finding("rewards.slow", "warning", "correctness", 1, "slow")], "strict_format",
         "works"),
    ],
)  # fmt: skip
def test_the_next_is_what_is_missing_once_what_is_there_works(
    names: list[str], findings: list[Finding], stage: str | None, says: str
) -> None:
    found = advise(names, Task(), None, findings)
    assert (found.stage.name if found.stage is not None else None) == stage
    assert says in found.says
    assert set(found.weights) == set(names)
    assert bool(found.mend) == says.startswith("First")


def test_the_task_is_what_the_prompts_ask_for() -> None:
    task = task_for(["Use <plan></plan> and <result></result>"], ["<think><answer>"], "gold", 512)
    assert (task.form, task.column, task.words) == (Form("tags", "plan", "result"), "gold", 384)
    assert "system_prompt" not in section([RewardEntry("f", "rewards.py:f")], task)
    plain = task_for(["2+2?"], [], None, None)
    assert (plain.form, plain.column, plain.asked) == (DEFAULT_FORM, "answer", False)
    assert "<think>" in section([RewardEntry("f", "rewards.py:f")], plain)
    odd = RewardEntry("f", "my rewards.py:f", 0.5, {"tag": "plan"})
    found = yaml.safe_load(section([odd], task))["grpo_tui"]["rewards"]
    assert found == [{"name": "f", "source": "my rewards.py:f", "weight": 0.5, "params": {"tag": "plan"}}]


def test_a_config_with_one_more_reward_keeps_its_weights_together(tmp_path: Path) -> None:
    file = tmp_path / "rewards.py"
    config = config_of_functions([f"{file}:correctness"])
    config = replace(config, grpo={"reward_weights": [3.0]})
    strict = stages(Task())[1]
    more = with_reward(config, file, strict)
    assert [entry.name for entry in more.section.rewards] == ["correctness", "strict_format"]
    assert more.grpo["reward_weights"] == [3.0, 0.5]
    assert config.grpo["reward_weights"] == [3.0]
    assert file_of(more) == file
    assert file_of(replace(config, section=Section(), path=tmp_path / "a.yaml")) == tmp_path / "rewards.py"


def test_a_reward_is_put_into_a_config_by_its_own_lines(tmp_path: Path) -> None:
    text = (
        "model_name_or_path: m  # small\nreward_weights: [2.0]\ngrpo_tui:\n  rewards:\n"
        "    - {name: a, source: rewards.py:a}  # mine\n"
    )
    config = tmp_path / "configs" / "my.yaml"
    config.parent.mkdir()
    config.write_text(text)
    strict = stages(Task())[1]
    put_into_config(config, tmp_path / "rewards.py", strict)
    new = config.read_text()
    assert new.startswith("model_name_or_path: m  # small\n")
    assert "# mine" in new
    read = yaml.safe_load(new)
    assert read["reward_weights"] == [2.0, 0.5]
    assert read["grpo_tui"]["rewards"][1] == {
        "name": "strict_format", "source": "../rewards.py:strict_format", "weight": 0.5
    }  # fmt: skip
    config.write_text("grpo_tui: [\n")
    with pytest.raises(ValueError, match="line"):
        put_into_config(config, tmp_path / "rewards.py", strict)


def test_the_command_begins_adds_and_says_what_to_mend(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "rewards.py"
    assert main(["new", "rewards", "rewards.py"]) == 0
    assert "{name: correctness, source: rewards.py:correctness, weight: 2.0}" in capsys.readouterr().out
    before = file.read_text()
    assert main(["new", "rewards", "rewards.py"]) == 2
    assert "already exists" in capsys.readouterr().err
    assert file.read_text() == before
    assert main(["new", "rewards", "rewards.py", "--next"]) == 0
    said = capsys.readouterr().out
    assert "strict_format added, weight 0.5" in said
    for name, weight in (("correctness", 2.0), ("strict_format", 0.5)):
        assert f"{{name: {name}, source: rewards.py:{name}, weight: {weight}}}" in said
    words = "rewards.py:correctness rewards.py:strict_format"
    assert said.splitlines()[-3:] == [
        f"Find loopholes:     grpo-tui probe {words}",
        f"See their scores:   grpo-tui rewards {words}",
        "Add the next:       grpo-tui new rewards rewards.py --next",
    ]
    assert reward_names(file.read_text()) == ["correctness", "strict_format"]
    assert file.read_text().startswith(before.rstrip())
    fooled = file.read_text().replace("plain(answer) == plain(right)", "str(right) in answer")
    file.write_text(fooled)
    assert main(["new", "rewards", "rewards.py", "--next"]) == 1
    said = capsys.readouterr().out
    assert "correctness is fooled by “list of candidates”" in said
    assert f"The completions: grpo-tui probe {words} --show" in said
    assert file.read_text() == fooled
    assert main(["new", "rewards", "rewards.py", "--next", "style"]) == 0
    assert reward_names(file.read_text())[-1] == "no_repetition"
    capsys.readouterr()
    assert main(["new", "rewards", "rewards.py", "--next", "style"]) == 2
    assert "already has no_repetition" in capsys.readouterr().err
    assert main(["new", "rewards", "rewards.py", "--next", "nothing"]) == 2
    assert "Known: correctness" in capsys.readouterr().err
    assert main(["new", "rewards", "rewards.txt"]) == 2
    assert main(["new", "rewards", "other.py", "--write"]) == 2
    assert main(["new", "rewards", "absent.py", "--next"]) == 2


def test_a_file_for_a_config_has_its_form_its_column_and_its_length_and_is_named_there(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text(
        '{"question": "2+2?", "gold": "4"}\n{"question": "3+3?", "gold": "6"}\n'
    )
    config = tmp_path / "my.yaml"
    config.write_text(
        f"model_name_or_path: {DEMO_MODEL}\nmax_completion_length: 200\nnum_generations: 2\n"
        "per_device_train_batch_size: 2\ngrpo_tui:\n  dataset: rows.jsonl\n  columns: {prompt: question}\n"
        "  system_prompt: Use <plan></plan> and <result></result>\n"
    )
    for words in ([], ["--next"], ["--next", "length"]):
        assert main(["new", "rewards", "r.py", "--config", "my.yaml", "--write", *words]) == 0
    said = capsys.readouterr().out
    assert said.count("Added it to my.yaml.") == 3
    assert said.endswith("grpo-tui new rewards r.py --next --config my.yaml\n")
    text = (tmp_path / "r.py").read_text()
    assert "gold: list[str]" in text
    assert "<result>(.*?)</result>" in text
    assert "<plan>" in text
    assert "MOST_WORDS = 150" in text
    entries = yaml.safe_load(config.read_text())["grpo_tui"]["rewards"]
    assert [entry["source"] for entry in entries] == [f"r.py:{name}" for name in reward_names(text)]
    assert [entry["weight"] for entry in entries] == [2.0, 0.5, 0.2]
    assert load_config(config, (), world_size=None).reward_count == 3


def test_an_answer_column_that_cannot_be_a_parameter_is_refused_with_the_way_out() -> None:
    config = load_config(DEMO_CONFIG)
    spec = AnswerSpec("solution", "boxed", "right answer")
    odd = replace(config, section=replace(config.section, answer=spec))
    data = Dataset(columns=("prompt", "right answer"))
    with pytest.raises(TemplateError, match=r"'right answer', which cannot be a parameter .*\{answer: …\}"):
        task_of(odd, data)
    assert task_of(odd, Dataset(columns=("prompt", "target"))).column == "target"
    assert task_of(odd, None).column == "answer"
