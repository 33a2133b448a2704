"""`grpo-tui compare` on the shipped model: a short real run against its base, interrupted, and refused."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from grpo_tui.cli import compare as command
from grpo_tui.cli.errors import CommandError
from grpo_tui.cli.main import main
from grpo_tui.config.resolve import load_config
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.text import prompt_text
from grpo_tui.demo import DEMO_CONFIG, DEMO_MODEL
from grpo_tui.rewards.comparison import Answers
from grpo_tui.rewards.generate_child.policy import MOST_FOR_VLLM
from grpo_tui.rewards.generating import ChosenRows, DatasetRow, GenerateError, Generator
from grpo_tui.rewards.lab import Lab
from grpo_tui.ship import compare as of_compare
from grpo_tui.ship.compare import CompareOptions, file_of
from grpo_tui.ship.kept import KeptComparison, KeptError
from grpo_tui.ship.policies import base_policy
from grpo_tui.store.layout import own_folder
from grpo_tui.store.spec import RunSpec
from tests.foreign import foreign_run
from tests.processes.runs import grpo_tui, until

pytestmark = pytest.mark.usefixtures("forked_commands")
ROWS, SAMPLES, BLOCK = 40, 2, 32


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """While it lives, the commands' own labs start at once."""
    with Lab(limit_s=60) as warm:
        warm.start()
        yield warm


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "short"
    grpo_tui("demo", "--headless", "--steps", "30", "--run-dir", folder)
    return folder


@pytest.fixture(scope="module")
def ended(run: Path, lab: Lab) -> subprocess.CompletedProcess[str]:
    """A comparison of the run with its base, which told its progress."""
    return grpo_tui("compare", run, "--rows", ROWS, "--samples", SAMPLES, "--json", "--progress")


@pytest.fixture(scope="module")
def compared(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What it prints as JSON."""
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def _answers(file: Path) -> dict[tuple[int, int], dict[str, Any]]:
    return {(line["policy"], line["row"]): line for line in _lines(file) if "texts" in line}


def _is_right(text: str, answer: str) -> bool:
    found = re.findall(r"<answer>\s*(-?\d+)\s*</answer>", text)
    return len(found) == 1 and int(found[0]) == int(answer)


@pytest.mark.slow
def test_a_short_run_is_better_than_its_base(run: Path, compared: dict[str, Any]) -> None:
    assert compared["verdict"] == [{"policy": str(run), "word": "better"}]
    assert (compared["rows"], compared["samples"], compared["held"]) == (ROWS, SAMPLES, True)
    assert compared["policies"] == [
        {"name": "base", "path": str(DEMO_MODEL), "step": None},
        {"name": str(run), "path": str(run), "step": 30},
    ]
    file = Path(compared["file"])
    assert file.parent == run / "compare"
    rows = next(line["rows"] for line in _lines(file) if "rows" in line)
    answers = _answers(file)
    rates = [
        [
            sum(_is_right(text, row["columns"]["answer"]) for text in answers[policy, at]["texts"]) / SAMPLES
            for at, row in enumerate(rows)
        ]
        for policy in range(2)
    ]
    first = compared["measures"][0]
    assert (first["name"], first["kind"], first["k"]) == ("pass@1", "pass@1", 1)
    assert first["values"] == pytest.approx([sum(rate) / ROWS for rate in rates])
    gains = [after - before for before, after in zip(*rates, strict=True)]
    assert first["differences"][0]["mean"] == pytest.approx(sum(gains) / ROWS)
    counts = {"win": sum(g > 0 for g in gains), "tie": gains.count(0), "loss": sum(g < 0 for g in gains)}
    assert compared["wins"] == [{"policy": str(run), **counts}]


@pytest.mark.slow
def test_the_progress_of_a_policy_goes_on_over_its_blocks(ended: subprocess.CompletedProcess[str]) -> None:
    told = re.findall(r"\((\d) of 2\): generating: (\d+) of (\d+) completions", ended.stderr)
    assert {int(whole) for _, _, whole in told} == {ROWS * SAMPLES}
    for policy in "12":
        counts = [int(done) for number, done, _ in told if number == policy]
        assert counts == sorted(counts)
        assert counts[-1] > BLOCK * SAMPLES, "the last block counts those before it"


@pytest.mark.slow
def test_a_finished_comparison_is_shown_again_and_generates_nothing(
    run: Path,
    compared: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a model was asked")

    monkeypatch.setattr(Generator, "ask", refuse)
    monkeypatch.setattr(Lab, "load", refuse)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["compare", str(run), "--rows", str(ROWS), "--samples", str(SAMPLES)]) == 0
    shown = capsys.readouterr().out
    gain = compared["measures"][0]["differences"][0]
    said = (
        f"better than the base: pass@1 {gain['mean']:+.3f} (95 %: {gain['low']:+.3f} to {gain['high']:+.3f}) "
        f"on {ROWS} held-out prompts"
    )
    assert " ".join(shown.partition("\n\n")[0].split()) == said
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.slow
def test_an_interrupted_comparison_continues_and_says_the_same(
    run: Path,
    compared: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Killed with the first policy half asked, interrupted with the second, and the base judged last."""
    words = ["compare", str(run), "base", "--rows", str(ROWS), "--samples", str(SAMPLES), "--json"]
    before = set((run / "compare").iterdir())
    process = subprocess.Popen(
        [sys.executable, "-m", "grpo_tui", *words], stdout=subprocess.DEVNULL, start_new_session=True
    )

    def new() -> Path | None:
        return next(iter({*(run / "compare").iterdir()} - before), None)

    until(lambda: (found := new()) and _answers(found), "the first block")
    process.kill()
    process.wait()
    file = new()
    assert file is not None
    assert len(_answers(file)) <= BLOCK + ROWS
    assert not any("result" in line for line in _lines(file))
    with file.open("a") as torn:
        torn.write('{"policy": 0, "ro')

    def interrupt(text: str) -> None:
        if text.startswith("base (2 of 2): generating"):
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(command, "show_progress", interrupt)
        assert main(words) == 130
    assert "the same command continues" in capsys.readouterr().err
    half = _answers(file)
    assert {policy for policy, _ in half} == {0}
    assert not any("result" in line for line in _lines(file))

    assert main(words) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == [{"policy": "base", "word": "worse"}]
    for ours, theirs in zip(found["measures"], compared["measures"], strict=True):
        assert ours["values"] == theirs["values"][::-1]
    whole = _answers(file)
    assert {key: whole[key] for key in half} == half


def test_only_one_process_has_a_comparison(tmp_path: Path) -> None:
    header = {"comparison": 1, "key": "a"}
    with KeptComparison(tmp_path / "a.jsonl", header), pytest.raises(KeptError, match="already running"):
        KeptComparison(tmp_path / "a.jsonl", header)
    KeptComparison(tmp_path / "a.jsonl", header).close()


def test_what_is_known_is_in_the_file_before_the_next_is_asked(tmp_path: Path) -> None:
    """A process that is killed closes nothing."""
    file = tmp_path / "a.jsonl"
    asked = ChosenRows((DatasetRow(1, "1 + 1?", {"answer": "2"}),), held=True, notes=())
    answer = Answers(("2",), (1,), (False,), ((1.0,),))
    with KeptComparison(file, {"comparison": 1, "key": "a"}) as kept:
        assert [set(line) for line in _lines(file)] == [{"comparison", "key"}]
        kept.choose(asked)
        assert _lines(file)[-1]["rows"][0]["prompt"] == "1 + 1?"
        kept.add(0, {0: answer}, {"engine": "vllm"})
        assert _answers(file)[0, 0]["texts"] == ["2"]
        kept.finish("correctness", {"verdict": []})
        assert _lines(file)[-1] == {"result": {"verdict": []}, "judged_by": "correctness"}


@pytest.mark.parametrize("torn", ['{"compa', '{"comparison": 2, "key": "a"}\n', "[]\n", "\x00\n"])
def test_a_file_that_is_no_such_comparison_is_begun_again(torn: str, tmp_path: Path) -> None:
    file, header = tmp_path / "a.jsonl", {"comparison": 1, "key": "a"}
    file.write_text(torn)
    KeptComparison(file, header).close()
    assert _lines(file) == [header]


def test_an_adapter_answers_as_peft_lets_it(tmp_path: Path) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

    base = AutoModelForCausalLM.from_pretrained(DEMO_MODEL, dtype=torch.float32)
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", r=4, target_modules="all-linear"))
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained(tmp_path)
    prompt = [{"role": "user", "content": "What is 2 + 2?"}]
    with Generator(load_config(DEMO_CONFIG), adapter=str(tmp_path)) as generator:
        found = generator.answers([DatasetRow(1, prompt, {})], 8, 3)

    tokenizer = AutoTokenizer.from_pretrained(DEMO_MODEL)
    rendered = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False)
    asked = tokenizer([rendered] * 8, return_tensors="pt", add_special_tokens=False)
    set_seed(3)
    settings = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "max_new_tokens": 40}
    with torch.no_grad():
        ids = model.eval().generate(asked["input_ids"], attention_mask=asked["attention_mask"], **settings)
    texts = tokenizer.batch_decode(ids[:, asked["input_ids"].shape[1] :], skip_special_tokens=True)
    assert [sample.text for sample in found.samples] == texts


def test_rows_are_held_out_where_the_config_has_some() -> None:
    with Generator(load_config(DEMO_CONFIG)) as generator:
        assert generator.rows(3, 1, held=None).held
        assert not generator.rows(3, 1).held
    with Generator(load_config(DEMO_CONFIG, ["grpo_tui.holdout=0"])) as generator:
        assert not generator.rows(3, 1, held=None).held
        with pytest.raises(GenerateError, match="no held-out rows"):
            generator.rows(3, 1, held=True)
        with pytest.raises(GenerateError, match="no probe prompts"):
            generator.rows(3, 1, probes=True)


@pytest.mark.parametrize(
    ("wanted", "asked", "held"),
    [
        ("{prompts: 3}", ["What is 1 + 5?", "What is 7 + 17?", "What is 18 + 2?"], True),
        ("{prompts: 1, add: [Why]}", ["What is 1 + 5?", "Why"], False),
        ("{source: [Why, How]}", ["Why", "How"], False),
    ],
)
def test_probe_prompts_are_those_of_training(wanted: str, asked: list[str], held: bool) -> None:
    config = load_config(DEMO_CONFIG, [f"grpo_tui.probe_prompts={wanted}"])
    with Generator(config) as generator:
        found = generator.rows(9, 1, probes=True)
        assert len(generator.rows(1, 1, probes=True).rows) == 1
    assert [prompt_text(row.prompt) for row in found.rows] == asked
    assert found.held is held


def test_a_run_of_somebody_else_is_refused(
    tmp_path: Path, no_yes: None, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = foreign_run(tmp_path / "run", tmp_path / "marks")
    for file in DEMO_MODEL.iterdir():
        (foreign.root / "checkpoint-3" / file.name).write_bytes(file.read_bytes())
    assert main(["compare", str(foreign.root)]) == 3
    assert "--trust" in capsys.readouterr().err
    assert foreign.ran() == set()
    # What somebody else wrote as a result there would never be shown as one.
    assert file_of(foreign.root, {"key": "f" * 64}).parent == own_folder("state") / "compare"
    assert not (foreign.root / "compare").exists()
    assert file_of(None, {"key": "e" * 64}).name == "e" * 16 + ".jsonl", "the second one there"


def test_the_config_is_that_of_the_first_run_among_the_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, model = tmp_path / "run", tmp_path / "run" / "merged"
    for folder in (model, run / "checkpoint-3", tmp_path / "checkpoint-3"):
        folder.mkdir(parents=True)
        for file in DEMO_MODEL.iterdir():
            (folder / file.name).symlink_to(file)
    RunSpec(load_config(DEMO_CONFIG).to_json()).write(run / "run.json")
    named = [str(run), str(run / "checkpoint-3"), f"{run}@3", f"{run}@live"]
    assert [command.run_of([str(model), word]) for word in named] == [run] * 4
    assert command.run_of([str(model)]) is None, "a model that somebody put there is no run"
    assert command.run_of(["base", str(tmp_path / "checkpoint-3")]) is None
    monkeypatch.chdir(run)
    assert command.run_of([str(model)]) is None, "wherever the words are typed"
    for word in ("no", str(tmp_path / "no@3")):
        with pytest.raises(CommandError, match="no such run"):
            command.run_of([str(model), word])


def test_other_prompts_do_without_what_is_about_the_rows_of_the_config(tmp_path: Path) -> None:
    asked = tmp_path / "asked.jsonl"
    asked.write_text('{"prompt": "What is 1 + 1?", "answer": "2"}\n')
    own = (
        "grpo_tui.evaluate={every: 4, rows: 40, samples: 4}",
        "grpo_tui.on=[{when: 3 evaluations without gain, do: stop}]",
        "grpo_tui.filters={exclude: learned.jsonl, drop_null: true}",
    )
    section = load_config(DEMO_CONFIG, [*own, *command._prompts_of(asked)]).section
    assert (section.dataset, section.holdout) == (str(asked), 0)
    assert (section.evaluate, section.on, section.probe_prompts) == (None, (), None)
    assert (section.filters.exclude, section.filters.drop_null) == (None, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["base"], "--config"),
        (["base", "--config", str(DEMO_CONFIG)], "compare base with what?"),
        (["base", "base", "--config", str(DEMO_CONFIG)], "named twice"),
        (["no/such/run", "--config", str(DEMO_CONFIG)], "no such run"),
        ([str(DEMO_MODEL), "--config", str(DEMO_CONFIG), "--prompts", "no.jsonl"], "no such file"),
    ],
)
def test_words_that_name_nothing_are_told(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (("better",), 0),
        (("not shown",), 0),
        (("worse",), 1),
        (("better", "worse"), 1),
        (("worse", "not shown"), 1),
        (("better", "not shown"), 0),
    ],
)
def test_one_policy_that_is_worse_decides_the_exit_code(
    verdict: tuple[str, ...], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    body = {"verdict": [{"policy": f"p{n}", "word": word} for n, word in enumerate(verdict)]}
    monkeypatch.setattr(command.ship, "compare", lambda *_: body)
    assert main(["compare", "base", str(DEMO_MODEL), "--config", str(DEMO_CONFIG), "--json"]) == code
    assert json.loads(capsys.readouterr().out) == body


@pytest.mark.parametrize(("held", "asked"), [(True, True), (False, None)])
@pytest.mark.parametrize("model", ["", "other/model"])
def test_rows_are_chosen_with_the_tokenizer_of_the_configs_model(
    model: str, held: bool, asked: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Rows:
        tell = None

        def __init__(self, config: RunConfig, *_: Any) -> None:
            self.model = config.model

        def __enter__(self) -> Rows:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def rows(self, *given: Any, **more: Any) -> Any:
            return self.model, given, more

    monkeypatch.setattr(of_compare, "Generator", Rows)
    config = load_config(DEMO_CONFIG)
    options = CompareOptions(rows=7, seed=3, held=held)
    comparing = of_compare._Comparing(
        cast("Lab", None), config, (), options, cast("Any", None), lambda *_: None
    )
    first = replace(base_policy(config), **({"model": model} if model else {}))
    chosen = comparing._choose(first, cast("Generator", Rows(config)))
    assert chosen == (config.model, (7, 3), {"held": asked, "probes": False})


def test_a_block_is_as_many_rows_as_are_generated_at_once() -> None:
    config = load_config(DEMO_CONFIG, ["per_device_train_batch_size=8", "steps_per_generation=2"])
    vllm = replace(config, grpo={**config.grpo, "use_vllm": True})
    block = of_compare._block
    assert block(config, CompareOptions(samples=4)) == 16 // 4
    assert block(vllm, CompareOptions(samples=4)) == MOST_FOR_VLLM // 4
    assert block(config, CompareOptions(samples=99)) == 1
