"""A model card says what the record of a run knows, escapes it, and overwrites nothing but TRL's own card."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jinja2
import pytest
import yaml

from grpo_tui.cli import main
from grpo_tui.config.resolve import load_config
from grpo_tui.core import records as r
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.ship.card import card, charts_of, marked
from grpo_tui.ship.kept import KeptComparison
from grpo_tui.ship.run_facts import Measured, read_facts
from tests.rewards.test_comparison import RIGHT, WRONG, _asked, _body
from tests.ship.folders import adapter, model
from tests.ui.recorded_run import HOSTILE, RecordedRun, recorded

EVIL = f"<script>x</script> | a`b [c](javascript:d) @e {HOSTILE}"
SPEC = importlib.util.find_spec("trl")
TEMPLATE = Path(str(SPEC and SPEC.origin)).parent / "templates" / "lm_model_card.md"
TRLS_CARD = jinja2.Template(TEMPLATE.read_text()).render(
    card_data="library_name: transformers",
    trainer_name="GRPO",
    paper_title="DeepSeekMath",
    trainer_citation="@article{a}",
    **dict.fromkeys(
        ("model_name", "base_model", "dataset_name", "paper_id", "wandb_url", "comet_url"), "0.1"
    ),
    **{f"{name}_version": "1.2+cpu" for name in ("trl", "transformers", "pytorch", "datasets", "tokenizers")},
)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RecordedRun]:
    made = recorded(tmp_path / "first", "evaluated")
    yield made
    made.close()


def told(root: Path) -> tuple[dict[str, Any], str]:
    """The front matter of a run's card, and the text below it."""
    _, front, text = card(read_facts(root, root.name)).split("---\n", 2)
    return yaml.safe_load(front), text


def configured(**parts: dict[str, Any]) -> r.Fact:
    """A config as a run records it, with some parts changed."""
    body = load_config(DEMO_CONFIG).to_record()
    return r.Fact("config", body | {name: {**body[name], **more} for name, more in parts.items()})


def cells(text: str, first: str) -> list[str]:
    """The row of a table whose first cell says this."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {first} |"))
    return [cell.strip() for cell in line.strip("| ").split("|")]


def test_it_says_what_was_recorded(run: RecordedRun) -> None:
    front, text = told(run.folder.root)
    assert front == {"library_name": "transformers", "tags": ["trl", "grpo"]}
    assert (
        "This model is adder-0.8M, trained with GRPO, using TRL. The run finished at step 60 of 60." in text
    )
    facts = read_facts(run.folder.root, "first")
    reward = next(one for one in facts.rewards if one.name == "correctness")
    values = [recent.value for recent in reward.series.recent]
    assert reward.start == pytest.approx(sum(values[:10]) / 10)
    assert cells(text, "correctness")[:4] == ["correctness", "2", f"{reward.start:.2f}", f"{reward.end:.2f}"]
    assert cells(text, "temperature")[1] == "0.9"
    assert "| beta |" not in text  # its value is the default
    assert cells(text, "50") == ["50", "learning_rate", "5e-4", "2e-4"]
    assert "\nBetter than before training: pass\\@1 +0.97" in text
    assert "## Use" not in text
    assert "## Data" not in text


def test_data_hub_names_and_how_to_load(run: RecordedRun) -> None:
    model(run.folder.root)
    data = {"dataset": None, "holdout": 16, "filters": {"max_prompt_tokens": 90, "drop_null": False}}
    run.write(
        configured(script={"dataset_name": "trl-lib/tldr"}, section=data, grpo={"hub_model_id": "me/first"}),
        r.Fact("reproduction", {"seed": 3, "gpus": [], "packages": {"trl": "1.16.0"}, "dataset_rows": 1000}),
    )
    front, text = told(run.folder.root)
    assert front["datasets"] == ["trl-lib/tldr"]
    assert "base_model" not in front  # the demo's is a folder on this machine
    assert str(load_config(DEMO_CONFIG).model) not in text
    for line in (
        "Dataset: trl-lib/tldr",
        "Training rows: 1,000",
        "Held-out rows, never trained on: 16",
        "Filters: max_prompt_tokens 90",
        "Seed 3",
        "CPU, no GPU",
        "Versions: trl 1.16.0",
    ):
        assert f"\n- {line}\n" in text
    assert 'pipeline("text-generation", model="me/first")' in text
    run.write(r.Fact("config", {"model": "Qwen/Qwen3-0.6B", "model_args": {"use_peft": True}}))
    adapter(run.folder.root)
    front, text = told(run.folder.root)
    assert (front["base_model"], front["library_name"]) == ("Qwen/Qwen3-0.6B", "peft")
    assert "With peft installed" in text


def test_a_local_folder_is_not_named_as_a_repository_on_the_hub(run: RecordedRun, tmp_path: Path) -> None:
    names = {"model": "models/base", "script": {"dataset_name": "data/rows"}}
    run.write(r.Fact("config", {**names, "cwd": str(tmp_path)}))
    front = told(run.folder.root)[0]
    assert (front["base_model"], front["datasets"]) == ("models/base", ["data/rows"])
    (tmp_path / "models" / "base").mkdir(parents=True)
    front, text = told(run.folder.root)
    assert ("base_model" in front, "datasets" in front) == (False, True)
    assert "This model is models/base, trained with GRPO on data/rows" in text
    (tmp_path / "data" / "rows").mkdir(parents=True)
    assert "datasets" not in told(run.folder.root)[0]


def test_no_token_and_nothing_that_is_told_elsewhere_is_among_the_settings(run: RecordedRun) -> None:
    hidden = {"hub_token": "hf_abc", "reward_weights": [1.0, 2.0], "push_to_hub_token": "hf_abc"}
    run.write(configured(grpo={**hidden, "max_steps": 77}, script={"dataset_name": "trl-lib/tldr"}))
    facts = read_facts(run.folder.root, "first")
    text = card(facts)
    assert "hf_abc" not in text
    assert cells(text, "max_steps")[1] == "77"
    assert not {*hidden, "dataset_name"} & {name for name, _ in facts.settings}


def test_the_newest_finished_comparison_is_the_evaluation(run: RecordedRun) -> None:
    folder = run.folder.root / "compare"
    folder.mkdir()
    for number, (name, base) in enumerate((("old", RIGHT), ("new", WRONG))):
        body = _body(_asked([base] * 40, [RIGHT, WRONG] * 20))
        with KeptComparison(folder / f"{name}.jsonl", {"key": name}) as kept:
            kept.finish("", body)
        os.utime(folder / f"{name}.jsonl", (number, number))
    KeptComparison(folder / "unfinished.jsonl", {"key": "unfinished"}).close()
    text = told(run.folder.root)[1]
    assert (
        "\nBetter than the base: pass\\@1 +0.500 (95 %: +0.338 to +0.662) on 40 held-out prompts.\n" in text
    )
    assert "difference   95 % interval" in text
    assert "before training" not in text
    (folder / "odd.jsonl").write_text(json.dumps({"result": {"verdict": [1], "policies": EVIL}}) + "\n")
    assert "before training" in told(run.folder.root)[1]


def test_texts_of_a_stranger_are_escaped(tmp_path: Path) -> None:
    made = RecordedRun(tmp_path / "run")
    made.write(r.RewardFunctionInfo(1, 3, EVIL, 1.0), configured(script={"dataset_name": EVIL}))
    made.write(r.Fact("reproduction", {"packages": [], "gpus": [EVIL, {"name": EVIL}], "dataset_rows": EVIL}))
    made.write(r.SettingChanged(1, 1, 1.0, EVIL, EVIL, [EVIL]))
    made.write(r.MetricRow(1, 1, 1.0, {"reward": 1.0, f"rewards/{EVIL}/mean": 1e300}))
    made.close()
    facts = read_facts(made.folder.root, EVIL)
    front, text = card(dataclasses.replace(facts, name=EVIL)).split("---\n", 2)[1:]
    assert "datasets" not in yaml.safe_load(front)
    assert "<" not in text
    assert "\x1b" not in text
    assert "b \\[c\\](javascript" in text
    assert "[c]" not in text
    tables = [line for line in text.splitlines() if line.startswith("| ")]
    assert {line.replace("\\|", "").count("|") for line in tables if "script" in line} == {6}


def test_only_the_card_of_trl_is_replaced(
    run: RecordedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, out = run.folder.root, tmp_path / "card.md"
    assert main(["card", str(root), "-o", str(out)]) == 0
    facts = read_facts(root, "first")
    assert out.read_text() == card(facts, charts_of(facts, "card"))
    assert main(["card", str(root), "-o", str(out)]) == 2
    readme = root / "README.md"
    for kept in ("My notes", None):
        readme.write_text(kept) if kept else (readme.unlink(), readme.symlink_to(out))
        before = readme.read_text()
        assert main(["card", str(root), "--write"]) == 2
        assert readme.read_text() == before
    readme.unlink()
    readme.write_text(TRLS_CARD)
    assert main(["card", str(root / "run.db"), "--write"]) == 0
    assert readme.read_text() == marked(out.read_text().replace("(card-", "(README-"))
    assert "is neither the card that TRL writes nor an unedited one of grpo-tui" in capsys.readouterr().err


def test_a_card_is_written_again_until_somebody_edits_it(
    run: RecordedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    root = run.folder.root
    readme, words = root / "README.md", ["card", str(root), "--write"]
    assert main(words) == 0
    before = readme.read_text()
    assert before.endswith(" -->\n")
    run.write(r.SettingChanged(1, 9, run.at(9), "temperature", 1.0, 0.5))
    assert main(words) == 0
    again = readme.read_text()
    assert again != before
    added = (f"{TRLS_CARD}\nMine.\n", TRLS_CARD.replace("## Quick start", "## Results\n\n## Quick start"))
    own = (again.replace("GRPO", "PPO", 1), f"{again}More.\n", again.rpartition("\n<!--")[0], "")
    for edited in (*own, *added):
        readme.write_text(edited)
        assert main(words) == 2
        assert readme.read_text() == edited
    capsys.readouterr()


def test_charts_are_replaced_with_the_card_of_trl_but_no_link_is_followed(
    run: RecordedRun, tmp_path: Path
) -> None:
    root, mine = run.folder.root, tmp_path / "mine.svg"
    chart, words = root / "README-reward.svg", ["card", str(root), "--write"]
    for kept in ("", "an earlier chart"):  # TRL writes its card again whenever it saves the model
        (root / "README.md").write_text(TRLS_CARD)
        if kept:
            chart.write_text(kept)
        assert main(words) == 0
        assert chart.read_text().startswith("<svg")
    for there in (False, True):
        (root / "README.md").write_text(TRLS_CARD)
        chart.unlink()
        chart.symlink_to(mine)
        if there:
            mine.write_text("mine")
        assert main(words) == 2
        assert (mine.read_text() == "mine") if there else not mine.exists()


def test_of_a_log_of_verl_nothing_is_said_that_it_does_not_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"input": "a", "output": "b", "gts": "1", "score": 0.5, "step": 1}
    (tmp_path / "1.jsonl").write_text(f"{json.dumps(row)}\n")
    assert main(["card", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    said = "This model was trained with verl. Its log reaches step 1."
    assert shown == f"# {tmp_path.name}\n\n{said}\n"


def test_a_damaged_record_is_told_and_a_live_run_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live = recorded(tmp_path / "live")
    assert "The run has not ended: it is training at step 57 of 120." in told(live.folder.root)[1]
    live.close()
    live.folder.database.write_bytes(b"junk" * 5000)
    assert main(["card", str(live.folder.root)]) == 2
    assert str(live.folder.database) in capsys.readouterr().err


def test_an_evaluation_metric_counts_from_its_first_to_its_last_number(tmp_path: Path) -> None:
    run = RecordedRun(tmp_path / "run")
    run.advance(4)
    nan, mean = float("nan"), "eval_rewards/{}/mean".format
    rows = [
        {"eval_reward": 0.5},
        {mean("f"): nan, mean("lost"): nan, "eval_loss": 1.0},
        {mean("f"): 0.25},
        {mean("f"): 0.75},
        {mean("f"): nan},
    ]
    run.write(*(r.MetricRow(1, step, run.at(step), row) for step, row in enumerate(rows, 5)))
    run.close()
    found = {one.name: one for one in read_facts(run.folder.root, "run").evaluations}
    assert found == {
        "reward": Measured("reward", 5, 0.5, 5, 0.5),
        "f": Measured("f", 7, 0.25, 8, 0.75),
    }


def test_a_card_in_a_file_has_its_charts_beside_it(
    run: RecordedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "my card.md"
    assert main(["card", str(run.folder.root), "-o", str(target)]) == 0
    text = target.read_text()
    assert "\n![Total reward by step](my%20card-reward.svg)\n" in text
    assert "\n![pass\\@1 by step, evaluated on the same prompts](my%20card-evaluation.svg)\n" in text
    reward = ElementTree.parse(tmp_path / "my card-reward.svg").getroot()
    assert reward.get("aria-label") == "Total reward by step"
    (line,) = reward.findall("{*}path[@class='line']")
    facts = read_facts(run.folder.root, "first")
    (total,) = [one for one in facts.rewards if one.key == "reward"]
    assert len(re.findall(r"\d+\.\d \d+\.\d", line.get("d", ""))) == sum(
        b.smooth is not None for b in total.series.buckets
    )
    assert (tmp_path / "my card-evaluation.svg").read_text().startswith("<svg")
    printed = capsys.readouterr().out
    assert main(["card", str(run.folder.root)]) == 0
    assert ".svg" not in capsys.readouterr().out
    assert "my card-reward.svg" in printed
    target.unlink()
    assert main(["card", str(run.folder.root), "-o", str(target)]) == 2
    assert "my card-reward.svg already exists and was left unchanged" in capsys.readouterr().err
    assert not target.exists()
