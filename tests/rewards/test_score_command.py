"""`grpo-tui score` prints the documented JSON or a table; its exit code says whether a function failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grpo_tui.cli.main import main
from grpo_tui.demo import DEMO_MODEL
from grpo_tui.rewards.lab import Lab
from tests.rewards.labs import write
from tests.ui.recorded_run import RecordedRun

REWARDS = (
    "def correct(completions, answer, **kw): return [float(a in c) for c, a in zip(completions, answer)]\n"
    "def short(completions, **kw): return [1.0 / (1 + len(c)) for c in completions]\n"
    "def broken(completions, **kw): raise ValueError('no judge')\n"
)
DEMO = "grpo_tui/demo/demo.yaml"


@pytest.fixture(autouse=True)
def _nursery(lab: Lab) -> None:
    """A lab that lives makes every other start at once."""
    lab.start()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path, REWARDS)


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    path = tmp_path / "samples.jsonl"
    rows = [
        {"prompt": "2+2?", "completion": "4", "answer": "4"},
        {"prompt": "3+4?", "completion": "7", "answer": "7"},
        {"prompt": "2+2?", "completion": "perhaps \x1b[31m5", "answer": "4"},
        {"prompt": "3+4?", "completion": "eight", "answer": "7"},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_json_has_the_documented_shape(
    file: Path, samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "score",
        f"{file}:correct",
        f"{file}:short",
        "--samples",
        str(samples),
        "--weights",
        "2,1",
        "--json",
    ]
    assert main(words) == 0
    body = json.loads(capsys.readouterr().out)
    correct, short = body["functions"]
    assert correct["name"] == "correct"
    assert correct["weight"] == 2.0
    assert correct["scores"] == [1.0, 1.0, 0.0, 0.0]
    assert correct["error"] is None
    assert correct["coverage"] == 1.0
    assert correct["seconds"] >= 0.0
    assert (correct["file"], correct["line"]) == (str(file), 1)
    assert body["totals"] == pytest.approx([2.5, 2.5, short["scores"][2], 1 / 6])
    assert [g["indices"] for g in body["groups"]] == [[0, 2], [1, 3]]
    assert body["groups"][0]["advantages"] == pytest.approx([0.707, -0.707], abs=1e-3)
    assert body["findings"] == []
    assert body["samples"][2]["completion"] == "perhaps \x1b[31m5"


def test_a_failed_function_is_exit_1_and_stands_in_the_table(
    file: Path, samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["score", f"{file}:correct", f"{file}:broken", "--samples", str(samples)]) == 1
    out = capsys.readouterr().out
    assert "error    reward 'broken' raises: ValueError: no judge (rewards.py:3) [rewards.raises]" in out
    assert "failed" in out
    assert "\x1b" not in out
    assert "perhaps ␛[31m5" in out
    assert out.index("2+2?") < out.index("perhaps") < out.index("3+4?"), "samples stand by their prompt"


def test_one_broken_file_is_reported_once_with_its_line_and_the_weights_of_the_config(
    file: Path, samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(file.read_text() + "\ndef half(:\n")
    line = file.read_text().count("\n")
    config = file.parent / "c.yaml"
    config.write_text(
        f"model_name_or_path: m\nuse_cpu: true\nbf16: false\ngrpo_tui:\n  dataset: {samples}\n"
        f"  rewards:\n  - {{name: one, source: '{file}:correct', weight: 2}}\n"
        f"  - {{name: two, source: '{file}:broken', weight: 0.5}}\n"
    )
    assert main(["score", str(config), "--samples", str(samples), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    why = f"invalid syntax: `def half(:` ({file.name}:{line})"
    (found,) = [f["message"] for f in told["findings"] if f["id"] == "rewards.load"]
    assert found == f"rewards 'one' and 'two' cannot be loaded: {why}"
    assert [f["weight"] for f in told["functions"]] == [2.0, 0.5]


def test_rows_of_the_demos_config_are_scored_with_gold_and_wrong_answers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["score", DEMO, "--rows", "2", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert [f["name"] for f in body["functions"]] == ["correctness", "format", "incremental"]
    assert [s["kind"] for s in body["samples"]] == ["gold", "wrong"] * 2
    assert body["functions"][0]["scores"] == [1.0, 0.0, 1.0, 0.0]
    assert body["functions"][0]["log_extra"]["gold"][0] == body["samples"][0]["columns"]["answer"]
    assert body["totals"] == [3.0, 1.0, 3.0, 1.0]
    assert body["findings"] == []


def test_a_config_with_two_rewards_gets_a_note_and_functions_alone_get_none(
    tmp_path: Path, file: Path, samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "my.yaml"
    config.write_text(
        f"model_name_or_path: {DEMO_MODEL}\nnum_generations: 2\nper_device_train_batch_size: 2\n"
        f"grpo_tui:\n  dataset: {samples}\n  rewards:\n    - {{name: a, source: {file}:correct}}\n"
        f"    - {{name: b, source: {file}:short}}\n"
    )
    found = []
    for sources in ([str(config)], [f"{file}:correct", f"{file}:short"]):
        assert main(["score", *sources, "--samples", str(samples), "--json"]) == 0
        found.append([(f["id"], f["severity"]) for f in json.loads(capsys.readouterr().out)["findings"]])
    assert found == [[("rewards.few", "info")], []]


def test_samples_are_chosen_by_their_tags(
    file: Path, samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    rows[1]["grpo_tui"] = {"tags": ["hard", "odd"], "kind": "gold"}
    samples.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["score", f"{file}:correct", "--samples", str(samples)]
    assert main([*words, "--tag", "#hard", "--json"]) == 0
    (sample,) = json.loads(capsys.readouterr().out)["samples"]
    assert (sample["tags"], sample["kind"], sample["columns"]) == (["hard", "odd"], "gold", {"answer": "7"})
    assert main(words) == 0
    assert "gold #hard" in capsys.readouterr().out
    assert main([*words, "--tag", "easy"]) == 2
    assert "Tags: hard, odd" in capsys.readouterr().err


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A run of three steps that has ended."""
    run = RecordedRun(tmp_path / "run")
    run.advance(3)
    run.close()
    return tmp_path / "run"


def test_a_recorded_run_is_scored_by_other_functions(
    recorded: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["score", f"{file}:short", "--run", str(recorded), "--step", "best", "--json"]
    assert main(words) == 0
    body = json.loads(capsys.readouterr().out)
    assert len(body["groups"]) == 1
    assert body["samples"][0]["recorded"]["advantage"] is not None


def test_what_a_query_finds_comes_in_whole_groups_with_the_found_ones_tagged(
    recorded: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["score", f"{file}:short", "--run", str(recorded), "--json"]
    assert main([*words, "--where", "advantage>0 and step>=2"]) == 0
    samples = json.loads(capsys.readouterr().out)["samples"]
    assert {tuple(s["tags"]) for s in samples} == {(), ("found",)}
    assert all((s["recorded"]["advantage"] > 0) == (s["tags"] == ["found"]) for s in samples)
    assert main([*words, "--where", "advantage>99"]) == 2
    assert "no completion matches" in capsys.readouterr().err
    assert main([*words, "--where", "advantage>"]) == 2
    assert "invalid query" in capsys.readouterr().err


def test_trls_parquet_is_scored_with_the_columns_of_the_configs_dataset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow
    import pyarrow.parquet

    from grpo_tui.demo.task import train_rows

    rows = train_rows().select(range(2))
    table = {
        "step": [5, 5],
        "prompt": rows["prompt"][:],
        "completion": [[{"role": "assistant", "content": f"<answer>{a}</answer>"}] for a in rows["answer"]],
        "correctness": [0.0, 0.0],
        "advantage": [0.1, -0.1],
    }
    path = tmp_path / "completions_00005.parquet"
    pyarrow.parquet.write_table(pyarrow.table(table), path)
    assert main(["score", DEMO, "--samples", str(path), "--set", "grpo_tui.holdout=0", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["functions"][0]["scores"] == [1.0, 1.0]
    assert [s["recorded"]["advantage"] for s in body["samples"]] == [0.1, -0.1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "name a config, a reward function"),
        (["{file}:correct"], "nothing to score"),
        (["{file}:correct", "--samples", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
        (["{file}:correct", "--samples", "{samples}", "--weights", "1,2"], "--weights gives 2 weights for 1"),
        (["{file}:correct", "--samples", "{samples}", "--weights", "much"], "give numbers"),
        (["{file}:correct", "--samples", "{samples}", "--weights", "nan"], "give numbers"),
        (["{file}:correct", "--samples", "{samples}", "--weights", ""], "give numbers"),
        (["{file}:correct", "--samples", "{samples}", "--where", "reward<1"], "Add --run RUN"),
        (["{file}:correct", "--rows", "2"], "Name a config instead of functions"),
        ([DEMO, "{file}:correct", "--rows", "2"], "is a config with rewards of its own"),
        (["{file}:correct", "--samples", "{samples}", "--set", "beta=1"], "--set changes a config"),
    ],
)
def test_wrong_usage_is_exit_2_with_a_sentence(
    words: list[str], says: str, file: Path, samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [word.format(file=file, samples=samples) for word in words]
    assert main(["score", *given]) == 2
    assert says in capsys.readouterr().err


def test_rows_that_a_filter_leaves_out_are_counted_and_not_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, REWARDS)
    rows = ["What is 1 + 1?", "What is 1 + 1?", "What is 11 + 12?", ""]
    text = "".join(json.dumps({"prompt": row, "answer": "2"}) + "\n" for row in rows)
    (tmp_path / "rows.jsonl").write_text(text)
    config = tmp_path / "my.yaml"
    config.write_text(
        f"model_name_or_path: {DEMO_MODEL}\ngrpo_tui:\n  dataset: rows.jsonl\n"
        "  rewards: [rewards.py:correct]\n"
        "  filters: {drop_null: true, drop_duplicates: true, max_prompt_tokens: 14}\n"
    )
    assert main(["score", str(config), "--rows", "4", "--once", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["functions"][0]["scores"]) == 2  # gold and wrong of the one row that is left
    assert [note.partition(" removed by ")[2].partition(":")[0] for note in found["notes"]] == [
        "drop_null",
        "drop_duplicates",
        "max_prompt_tokens 14",
    ]
