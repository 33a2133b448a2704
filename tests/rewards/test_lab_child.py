"""What the scoring process reads, keeps and shortens, part by part and without a process."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_tui.config.resolve import load_config
from grpo_tui.demo import DEMO_CONFIG, DEMO_MODEL
from grpo_tui.rewards.lab_child import advantages
from grpo_tui.rewards.lab_child.advantages import DatasetRows, Tokens
from grpo_tui.rewards.lab_child.calls import MOST_BYTES, place_of, read_output
from grpo_tui.rewards.lab_child.loaded import RewardModels

HALF = MOST_BYTES // 2


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("", ""),
        ("a" * HALF + "b" * HALF, "a" * HALF + "b" * HALF),
        (
            "a" * HALF + "x" * 1234 + "b" * HALF,
            "a" * HALF + "\n… 1,234 bytes left out …\n" + "b" * HALF,
        ),
    ],
    ids=["nothing", "all", "more"],
)
def test_long_output_of_a_call_keeps_its_beginning_and_its_end(
    printed: str, shown: str, tmp_path: Path
) -> None:
    file = tmp_path / "printed"
    file.write_text(f"of an earlier call{printed}")
    with file.open() as opened:
        assert read_output(opened.fileno(), len("of an earlier call")) == shown


def test_an_error_is_placed_in_the_users_file_or_else_where_it_was_raised() -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("[")
    line = caught.traceback[0].lineno + 1
    assert place_of(caught.value, lambda file: file == __file__) == (__file__, line)
    assert (place_of(caught.value, lambda file: False)[0] or "").endswith("json/decoder.py")
    assert place_of(KeyError("never raised"), lambda file: True) == (None, None)


def test_rows_after_the_end_of_the_data_are_none_and_a_stream_has_no_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import datasets

    rows = [{"prompt": f"{n}+1?", "answer": n + 1} for n in range(3)]
    streamed = datasets.IterableDataset.from_generator(lambda: iter(rows))
    config = load_config(DEMO_CONFIG)
    for train, total, names in (
        (datasets.Dataset.from_list(rows), 3, ["prompt", "answer"]),
        (streamed, None, []),
    ):
        loaded = SimpleNamespace(train=train, notes=("few",))
        monkeypatch.setattr(advantages, "load_prompts", lambda *_, found=loaded, **__: found)
        data = DatasetRows()
        assert data.page(config, 2, 1) == {
            "rows": [{"prompt": f"{n}+1?", "columns": {"answer": n + 1}} for n in (1, 2)],
            "columns": ["prompt", "answer"],
            "total": total,
            "notes": ["few"],
        }
        assert data.page(config, 2, 9) == {"rows": [], "columns": names, "total": total, "notes": ["few"]}


def test_a_missing_tokenizer_is_explained_in_the_first_line_of_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import transformers

    def missing(*_: Any, **__: Any) -> Any:
        raise OSError("\n  no tokenizer.json\nDownload it")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", missing)
    reason = "far/away has none on this machine (OSError: no tokenizer.json)"
    tokens = Tokens("far/away")
    assert tokens.reason == reason
    with pytest.raises(RuntimeError, match="completion_ids needs the tokenizer of the model: far/away has"):
        len(tokens.ids(["4"], [False]))  # type: ignore[arg-type]
    assert tokens.prompt_tail([{"role": "user", "content": "2+2?"}]) == ""


def test_the_revision_is_that_of_a_named_reward_model_and_of_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import transformers
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    tokenizer_of = AutoTokenizer.from_pretrained
    asked: list[tuple[str, Any]] = []

    def model(source: str, **given: Any) -> Any:
        asked.append(("model", given["revision"]))
        plain = AutoConfig.from_pretrained(DEMO_MODEL, pad_token_id=None)
        return AutoModelForSequenceClassification.from_config(plain)

    def tokenizer(name: str, **given: Any) -> Any:
        asked.append(("tokenizer", given["revision"]))
        return tokenizer_of(name)

    monkeypatch.setattr(transformers.AutoModelForSequenceClassification, "from_pretrained", model)
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", tokenizer)
    config = load_config(DEMO_CONFIG, ["model_revision=v2"])
    models = RewardModels()
    judge, spoken = models.load("a/judge", config)
    assert judge.config.pad_token_id == spoken.pad_token_id == 0, "the score is read before the padding"
    assert not judge.training
    assert asked == [("model", "v2"), ("tokenizer", "v2")]
    assert models.load("a/judge", config)[0] is judge, "loaded once"
    assert models.load(judge, config)[0] is judge
    assert asked[2:] == [("tokenizer", None)], "the revision is of the policy's repository"
