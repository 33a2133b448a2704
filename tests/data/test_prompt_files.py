"""Prompts of an earlier run leave the next one: what is exported is what the data is filtered by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grpo_tui.cli.main import main
from grpo_tui.config.resolve import load_config
from grpo_tui.core import records as r
from grpo_tui.core.prompt_memory import prompt_hash
from grpo_tui.data.load import DataError, load_prompts
from grpo_tui.demo import DEMO_DIR
from grpo_tui.preflight.child.hub import Hub
from grpo_tui.preflight.child.mapped import TRAIN, map_table, settle
from grpo_tui.preflight.child.table import read_table
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.writer import Writer

ROWS = [{"prompt": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(12)]
# Messages of different keys: reading them as a dataset gives all of them every key.
MIXED = [
    {"prompt": [{"role": "user", "content": f"{n}", **({"name": "ann"} if n == 3 else {})}]}
    for n in range(12)
]


def config(folder: Path, section: str, rows: list[dict[str, object]]) -> Path:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = folder / "my.yaml"
    model = f"model_name_or_path: {DEMO_DIR / 'model'}\nreward_funcs: [accuracy_reward]\n"
    file.write_text(f"{model}grpo_tui:\n  dataset: rows.jsonl\n{section}")
    return file


def loaded(file: Path) -> tuple[list[object], list[object], tuple[str, ...]]:
    found = load_prompts(load_config(file))
    held = [] if found.holdout is None else list(found.holdout["prompt"])
    return list(found.train["prompt"]), held, found.notes


SECTIONS = (
    "  holdout: 3\n",
    "  holdout: 3\n  system_prompt: Add.\n  few_shot: [{user: 1+1, assistant: 2}]\n",
)


@pytest.mark.parametrize("rows", [ROWS, MIXED], ids=["texts", "messages"])
@pytest.mark.parametrize("section", SECTIONS, ids=["plain", "system"])
def test_an_exported_file_removes_what_the_run_recorded(
    section: str, rows: list[dict[str, object]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Training, the check and the export name the same rows, and the hold-out stays what it was."""
    before, held, _ = loaded(config(tmp_path, section, rows))
    folder = RunFolder(tmp_path / "run")
    folder.root.mkdir()
    database = open_writer(folder.database)
    done = [r.Completion(0, "", (1.0,), 1.0, 0.0, 1, False)]
    wrong = [r.Completion(0, "", (0.0,), 0.0, 0.0, 1, False)]
    groups = tuple(r.Group(i, p, {}, tuple(wrong if i < 2 else done)) for i, p in enumerate(before))
    Writer(database).write([r.GenerationBatch(1, s, 0, "train", s, s, 0.0, groups) for s in (1, 2, 3)])
    database.close()
    file = tmp_path / "never.jsonl"
    assert main(["prompts", str(folder.root), "--class", "never", "--export", str(file)]) == 0
    written = file.read_text()
    assert main(["prompts", str(folder.root), "--export", str(file)]) == 2
    assert file.read_text() == written, "a file that is there is left as it is"
    assert "wrote 2 prompts" in capsys.readouterr().out
    assert [json.loads(line)["hash"] for line in file.read_text().splitlines()] == [
        prompt_hash(p) for p in before[:2]
    ]
    for key, kept in (("exclude", before[2:]), ("only", before[:2])):
        filtered = config(tmp_path, f"{section}  filters: {{{key}: never.jsonl}}\n", rows)
        train, still_held, notes = loaded(filtered)
        assert (train, still_held) == (kept, held)
        assert notes == (f"{9 - len(kept)} of 9 rows removed by {key}: {file}",)
        parsed = load_config(filtered)
        mapped = map_table(read_table(parsed, Hub(), lambda _: None), parsed)
        assert settle(mapped, parsed) == ()
        assert (mapped.count(TRAIN), len(mapped.drops[key])) == (len(kept), 9 - len(kept))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (json.dumps({"hash": "0" * 16}), "none of the prompts in .* is in the training rows"),
        ("", "lists no prompts"),
        ('{"hash": "12"}', "line 1: this is not a prompt with its hash"),
        ("learning_rate: 1", "line 1: this is not a prompt with its hash"),
    ],
)
def test_a_file_that_fits_no_row_is_refused_with_the_remedy(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_text(text)
    file = config(tmp_path, "  filters: {exclude: old.jsonl}\n", ROWS)
    with pytest.raises(DataError, match=f"(?s)grpo_tui.filters.exclude: .*{says}.*[Ee]xport"):
        load_prompts(load_config(file))
    parsed = load_config(file)
    mapped = map_table(read_table(parsed, Hub(), lambda _: None), parsed)
    (bad,) = settle(mapped, parsed)
    assert bad.what.startswith("filters")
    assert "xport" in bad.reason


def test_a_look_at_the_first_rows_does_not_call_a_file_stale(tmp_path: Path) -> None:
    (tmp_path / "last.jsonl").write_text(json.dumps({"hash": prompt_hash(ROWS[-1]["prompt"])}))
    file = config(tmp_path, "  filters: {exclude: last.jsonl}\n", ROWS)
    assert len(load_prompts(load_config(file), most=4).train) == 4
    assert len(load_prompts(load_config(file)).train) == 11
