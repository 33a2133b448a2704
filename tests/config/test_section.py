"""The section `grpo_tui:` is read as written, and what nothing serves is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grpo_tui.config.resolve import inspect_config, load_config
from grpo_tui.config.run_config import ConfigError, RunConfig
from grpo_tui.config.section import AnswerSpec, Evaluate, Filters, Notify, OnRule, ProbePrompts, Section
from grpo_tui.core.findings import RULES, Fix
from grpo_tui.rewards.loading import load_entry

BASE = "model_name_or_path: m\nreward_funcs: [accuracy_reward]\n"
HOOK = "https://me:pw@hooks.here/s3cret?k=s3cret"
ROWS = '{"question": "1+1", "answer": "#### 2"}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rows.jsonl").write_text(ROWS)
    (tmp_path / "mine.py").write_text("def rows(): return []\ndef good(completions, **kw): return [1.0]\n")
    return tmp_path


def load(folder: Path, section: str, base: str = BASE):
    file = folder / "run.yaml"
    file.write_text(base + "grpo_tui:\n" + "".join(f"  {line}\n" for line in section.splitlines()))
    return load_config(file)


def test_every_key_is_read(folder: Path) -> None:
    section = load(
        folder,
        "columns: {prompt: question}\nsystem_prompt: Think.\nfew_shot:\n  - {user: a, assistant: b}\n"
        "answer: {from: answer, kind: gsm8k, to: gold}\ndataset: rows.jsonl\nholdout: 4\nrewards:\n"
        "  - {name: right, source: 'mine.py:good', weight: 2, params: {slope: 1e-2}}\n  - mine.py:good",
    ).section
    assert section.columns == {"prompt": "question"}
    assert section.system_prompt == "Think."
    assert [(s.user, s.assistant) for s in section.few_shot] == [("a", "b")]
    assert (section.answer.source, section.answer.kind, section.answer.to) == ("answer", "gsm8k", "gold")
    assert section.dataset == str(folder / "rows.jsonl")
    assert section.holdout == 4
    assert section.wants_chat is True
    first, second = section.rewards
    assert (first.name, first.source, first.weight) == ("right", f"{folder}/mine.py:good", 2.0)
    assert first.params == {"slope": 0.01}
    assert first.line == 12
    assert (second.name, second.weight) == ("good", None)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("gsm8k", AnswerSpec("answer", "gsm8k", "answer")),
        ("{kind: tag}", AnswerSpec("answer", "tag", "answer", tag="answer")),
        ("{from: b, kind: tag, to: c, tag: d}", AnswerSpec("b", "tag", "c", tag="d")),
        ("{kind: regex, pattern: '#### (.*)'}", AnswerSpec("answer", "regex", "answer", pattern="#### (.*)")),
    ],
)
def test_an_answer_is_read_and_saved(folder: Path, written: str, read: AnswerSpec) -> None:
    config = load(folder, f"dataset: rows.jsonl\nanswer: {written}")
    assert config.section.answer == read
    assert RunConfig.from_json(json.dumps(config.to_json())).section == config.section


def test_filters_launcher_and_gpus_are_read_and_saved(folder: Path) -> None:
    (folder / "ddp.yaml").write_text("num_processes: 2\n")
    config = load(
        folder,
        "dataset: rows.jsonl\nfilters: {min_prompt_tokens: 2, max_prompt_tokens: '64', drop_null: [answer], "
        "drop_duplicates: yes}\nlauncher: accelerate launch --config_file ddp.yaml --gradient_clipping 1\n"
        "gpus: 2,3",
    )
    section = config.section
    assert section.filters == Filters(2, 64, True, ("answer",), True)
    assert section.launcher == f"accelerate launch --config_file {folder}/ddp.yaml --gradient_clipping 1"
    assert section.gpus == ("2", "3")
    assert RunConfig.from_json(json.dumps(config.to_json())).section == section


@pytest.mark.parametrize(
    ("written", "read"), [("2", ("2",)), ("[0, 1]", ("0", "1")), ("GPU-ab12", ("GPU-ab12",))]
)
def test_gpus_are_written_in_several_ways(folder: Path, written: str, read: tuple[str, ...]) -> None:
    assert load(folder, f"dataset: rows.jsonl\ngpus: {written}").section.gpus == read


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("{every: 20}", ProbePrompts(every=20)),
        ("{source: rows.jsonl, prompts: 2, count: 1, temperature: 0}", ("rows.jsonl", 2, 1, 0.0)),
        ("{source: [a, b, c]}", ProbePrompts(source="", texts=("a", "b", "c"), prompts=3)),
        ("{add: [Say 3], remove: ['7', Say 4]}", ProbePrompts(add=("Say 3",), remove=("7", "Say 4"))),
    ],
)
def test_probe_prompts_are_read_and_saved(folder: Path, written: str, read: object) -> None:
    config = load(folder, f"dataset: rows.jsonl\nholdout: 4\nprobe_prompts: {written}")
    if isinstance(read, tuple):
        name, *numbers = read
        read = ProbePrompts(str(folder / name), (), 50, *numbers)
    assert config.section.probe_prompts == read
    assert RunConfig.from_json(json.dumps(config.to_json())).section == config.section


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("{}", Evaluate(50, 40, 4, None)),
        ("{every: 20, rows: 30, samples: 8, k: 2}", Evaluate(20, 30, 8, 2)),
        ("{every: 1, samples: 64, k: 64}", Evaluate(1, 40, 64, 64)),
        ("false", None),
    ],
)
def test_evaluate_is_read_and_saved(folder: Path, written: str, read: object) -> None:
    config = load(folder, f"dataset: rows.jsonl\nholdout: 40\nevaluate: {written}")
    assert config.section.evaluate == read
    assert not config.findings
    assert RunConfig.from_json(json.dumps(config.to_json())).section == config.section


@pytest.mark.parametrize(
    ("section", "said", "fix"),
    [
        (
            "holdout: 35\nevaluate: {rows: 40}",
            "only 35 rows are held out, so 35 are asked",
            Fix("grpo_tui.holdout", 40),
        ),
        ("holdout: 40\nevaluate: {rows: 20}", "asks 20 rows. No gain is shown on fewer than 30", None),
    ],
)
def test_evaluate_warns_of_rows_that_are_not_there_or_show_nothing(
    folder: Path, section: str, said: str, fix: Fix | None
) -> None:
    (one,) = load(folder, f"dataset: rows.jsonl\n{section}").findings
    assert (one.severity, one.field, one.line, one.fix) == ("warning", "grpo_tui.evaluate.rows", 6, fix)
    assert said in one.message


def test_evaluate_takes_the_rows_of_an_evaluation_set(folder: Path) -> None:
    found = load(folder, "dataset: rows.jsonl\neval_dataset: rows.jsonl\nevaluate: {every: 5}")
    assert not found.findings  # the evaluation set is used, though TRL does not evaluate
    assert found.section.evaluate == Evaluate(every=5)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("{policy.kl: {ratio: 4, steps: 5}}", {"policy.kl": {"ratio": 4.0, "steps": 5.0}}),
        (
            "{policy: {kl: {ratio: 4}, held-out: false}}",
            {"policy.kl": {"ratio": 4.0}, "policy.held-out": None},
        ),
        ("{policy.kl: true, policy.broke: {}}", {"policy.broke": {}}),
        ("false", dict.fromkeys(RULES)),
    ],
)
def test_limits_of_the_diagnosis_are_read_and_saved(folder: Path, written: str, read: object) -> None:
    config = load(folder, f"dataset: rows.jsonl\nhealth: {written}")
    assert config.section.health == read
    assert RunConfig.from_json(json.dumps(config.to_json())).section == config.section


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("{command: beep}", Notify(command="beep")),
        ("{on: warning, webhook: $HOOK}", Notify(("warning",), None, "$HOOK")),
        ('{"on": [end, error], webhook: "${HOOK}"}', Notify(("end", "error"), None, "${HOOK}")),
        ("{on: [end], webhook: 'https://me:pw@hooks.here/s3cret?k=s3cret'}", Notify(("end",), None, HOOK)),
    ],
)
def test_who_is_told_is_read_and_saved_and_the_record_masks_the_webhook(
    folder: Path, written: str, read: Notify, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", "http://here")
    config = load(folder, f"dataset: rows.jsonl\nnotify: {written}")
    assert config.section.notify == read
    assert not config.findings
    assert RunConfig.from_json(json.dumps(config.to_json())) == config
    record = json.dumps(config.to_record(), ensure_ascii=False)
    assert "s3cret" not in record
    assert "me:pw" not in record
    assert read.webhook != HOOK or record.count('"https://hooks.here/…"') == 2


def test_a_rule_on_evaluations_needs_them(folder: Path) -> None:
    rule = "on: [{when: 3 evaluations without gain, do: stop}]"
    (one,) = load(folder, f"dataset: rows.jsonl\n{rule}").findings
    assert (one.severity, one.field) == ("warning", "grpo_tui.on.0.when")
    assert "Set grpo_tui.evaluate" in one.message
    assert not load(folder, f"dataset: rows.jsonl\nholdout: 40\nevaluate: {{every: 5}}\n{rule}").findings


@pytest.mark.parametrize("key", ["on", '"on"'])
def test_rules_are_read_and_saved(folder: Path, key: str) -> None:
    config = load(
        folder,
        f"dataset: rows.jsonl\n{key}:\n  - {{when: policy.broke, do: pause}}\n"
        "  - {do: stop, when: rewards/f/mean >= 0.9 over 20 steps}",
    )
    assert not config.findings
    assert config.section.on == (
        OnRule("policy.broke", "pause"),
        OnRule("rewards/f/mean >= 0.9 over 20 steps", "stop"),
    )
    assert RunConfig.from_json(json.dumps(config.to_json())) == config


def test_a_rule_on_a_metric_that_nothing_logs_is_warned_of(folder: Path) -> None:
    written = "dataset: rows.jsonl\non:\n  - {when: rewards < 0, do: stop}\n  - {when: solved > 1, do: stop}"
    one, other = load(folder, written).findings
    assert (one.severity, one.field, one.line) == ("warning", "grpo_tui.on.0.when", 6)
    assert "TRL logs no metric named rewards" in one.message
    assert "Did you mean reward?" in one.message
    assert other.message.endswith("only acts if a reward logs it with log_metric.")


@pytest.mark.parametrize(
    "name",
    ["reward", "eval_reward", "rewards/f/mean", "eval_rewards/f/mean", "kl", "eval_completions/mean_length"],
)
def test_a_rule_on_a_metric_that_trl_logs_in_training_or_evaluation_is_not_warned_of(
    folder: Path, name: str
) -> None:
    assert not load(folder, f"dataset: rows.jsonl\non: [{{when: {name} < 0, do: stop}}]").findings


@pytest.mark.parametrize(
    ("rule", "fix"),
    [
        ("{when: polcy.broke, do: pause}", Fix("grpo_tui.on.0.when", "policy.broke")),
        ("{when: soon, do: pause}", Fix("grpo_tui.on.0", None)),
        ("{when: error, do: Stop}", Fix("grpo_tui.on.0.do", "stop")),
        ("{if: error, do: stop}", Fix("grpo_tui.on.0.when", "error")),
    ],
)
def test_the_fix_of_a_rule_is_a_rule(folder: Path, rule: str, fix: Fix) -> None:
    with pytest.raises(ConfigError) as caught:
        load(folder, f"dataset: rows.jsonl\non: [{rule}]")
    assert [finding.fix for finding in caught.value.findings] == [fix]


@pytest.mark.parametrize(("value", "said"), [(None, "is not set"), ("s3cret", "does not hold an http")])
def test_a_webhook_whose_variable_is_of_no_use_is_warned_of(
    folder: Path, value: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOK", raising=False)
    if value is not None:
        monkeypatch.setenv("HOOK", value)
    (finding,) = load(folder, "dataset: rows.jsonl\nnotify:\n  on: [end]\n  webhook: $HOOK").findings
    assert (finding.severity, finding.field, finding.line) == ("warning", "grpo_tui.notify.webhook", 7)
    assert f"HOOK {said}" in finding.message
    assert "s3cret" not in finding.message


def test_an_earlier_run_without_the_newer_keys_is_read(folder: Path) -> None:
    saved = load(folder, "dataset: rows.jsonl\nholdout: 1").section.to_json()
    for key in ("filters", "launcher", "gpus", "notify", "on"):
        del saved[key]
    assert Section.from_json(saved).filters == Filters()


def test_a_reward_inside_a_wrapper_is_found_beside_the_config(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    params = "{reward: 'mine.py:good', when: {source: 'mine.py:good', params: {a: ['mine.py:good']}}}"
    section = load(
        folder,
        f"dataset: rows.jsonl\nrewards:\n  - {{source: grpo_tui.rewards.library.Gate, params: {params}}}\n"
        "  - {source: 'mine.py:good', params: {note: 'gone.py:f', plain: 1}}",
    ).section
    here = f"{folder}/mine.py:good"
    gate, own = section.rewards
    assert gate.params == {"reward": here, "when": {"source": here, "params": {"a": [here]}}}
    assert own.params == {"note": "gone.py:f", "plain": 1}
    assert load_entry(gate).func(completions=["x"]) == [1.0]


def test_the_chat_default_follows_the_system_prompt(folder: Path) -> None:
    assert load(folder, "dataset: rows.jsonl").section.wants_chat is False
    assert load(folder, "dataset: rows.jsonl\nsystem_prompt: x").section.wants_chat is True
    assert load(folder, "dataset: rows.jsonl\nchat: true").section.wants_chat is True


@pytest.mark.parametrize(
    ("section", "line", "word"),
    [
        ("hold_out: 3", 4, "Did you mean holdout"),
        ("sistem_prompt: x", 4, "Did you mean system_prompt"),
        ("holdout: -1", 4, "0 or more"),
        ("holdout: many", 4, "whole number"),
        ("holdout: 1e999", 4, "whole number"),
        ("filters: {min_prompt_tokens: .inf}", 4, "whole number"),
        ("chat: maybe", 4, "true or false"),
        ("chat: false\nsystem_prompt: x", 4, "system_prompt and few_shot would not be used"),
        ("columns: [a]", 4, "must map"),
        ("few_shot: [{user: a}]", 4, "user and assistant"),
        ("answer: {kind: gsm9k}", 4, "must be one of gsm8k, boxed, tag, regex"),
        ("answer: {kind: regex}", 4, "needs a pattern"),
        ("answer: {kind: regex, pattern: '('}", 4, "not a valid regular expression"),
        ("answer: {kind: tag, tagg: x}", 4, "Did you mean tag"),
        ("rewards:\n  - {name: a, wieght: 1, source: 'mine.py:good'}", 5, "Did you mean weight"),
        ("rewards:\n  - {weight: 1}", 5, "needs source"),
        ("rewards:\n  - {source: 'mne.py:good'}", 5, "Did you mean mine.py"),
        ("rewards:\n  - {source: 'mine.py:good', weight: heavy}", 5, "must be a number"),
        (
            "rewards:\n  - {name: a, source: 'mine.py:good'}\n  - {name: a, source: 'mine.py:good'}",
            6,
            "named a",
        ),
        ("rewards: mine.py:good", 4, "must be a list"),
        ("filters: {max_tokens: 9}", 4, "Did you mean max_prompt_tokens"),
        ("filters: {max_prompt_tokens: -1}", 4, "whole number of tokens"),
        ("filters: {drop_null: maybe}", 4, "true or false"),
        ("filters: {min_prompt_tokens: 9, max_prompt_tokens: 3}", 4, "keeps no row"),
        ("filters: 512", 4, "must be a mapping"),
        ("launcher: python", 4, "accelerate launch"),
        ("launcher: accelerate launch --config_file gone.yaml", 4, "there is no file"),
        ("launcher: accelerate launch --config_file", 4, "give a file after --config_file"),
        ('launcher: "torchrun \'x"', 4, "not a valid command line"),
        ("probe_prompts: {every: 0, source: rows.jsonl}", 4, "must be 1 or more"),
        ("probe_prompts: {count: 65, source: rows.jsonl}", 4, "must be 1 to 64"),
        ("probe_prompts: {temperature: -1, source: rows.jsonl}", 4, "must be 0 or"),
        ("probe_prompts: {evry: 5, source: rows.jsonl}", 4, "Did you mean every"),
        ("probe_prompts: {source: gone.jsonl}", 4, "there is no file"),
        ("probe_prompts: {add: Say 3, source: rows.jsonl}", 4, "add must be a list of texts"),
        ("probe_prompts: {remove: [Say 3, ' '], source: rows.jsonl}", 4, "must be the text of a prompt"),
        ("probe_prompts: {every: 5}", 4, "grpo_tui.holdout is 0"),
        ("probe_prompts: 5", 4, "must be a mapping"),
        ("evaluate: {every: 5}", 4, "Set grpo_tui.holdout to 40"),
        ("evaluate: {every: 0}", 4, "grpo_tui.evaluate.every must be 1 or more"),
        ("evaluate: {samples: 65}", 4, "grpo_tui.evaluate.samples must be 1 to 64"),
        ("evaluate: {samples: 2, k: 4}", 4, "k is 4, but each prompt gets 2 completions"),
        ("evaluate: {count: 4}", 4, "Use samples"),
        ("evaluate: 5", 4, "must be a mapping"),
        ("gpus: first", 4, "list of GPU numbers"),
        ("gpus: true", 4, "list of GPU numbers"),
        ("gpus: []", 4, "list of GPU numbers"),
        ("gpus: [1, 1]", 4, "names the GPU 1 twice"),
        ("gpu: 1", 4, "Did you mean gpus"),
        ("health: 5", 4, "must map rules to limits"),
        ("health: {policy.kll: false}", 4, "Did you mean policy.kl"),
        ("health: {policy.kl: 3}", 4, "must be a mapping of limits, or false"),
        ("health: {policy.kl: {ratoi: 3}}", 4, "Did you mean ratio"),
        ("health: {policy.kl: {ratio: high}}", 4, "must be a number"),
        ("health: {policy.kl: {ratio: -1}}", 4, "must be 0 or more"),
        ("health: {policy.kl: {steps: 51}}", 4, "must be 1 to 50"),
        ("notify: https://hooks.here/s3cret", 4, "must be a mapping with command or webhook"),
        ("notify: {on: [end]}", 4, "needs command or webhook"),
        ("notify: {on: [crash], command: x}", 4, "must be a list of error, warning, end"),
        ("notify: {on: [], command: x}", 4, "must be a list of error, warning, end"),
        ("notify: {command: [notify-send]}", 4, "must be text"),
        ("notify: {webhook: ftp://hooks.here/s3cret}", 4, "must be an http or https URL, or .NAME"),
        ("notify: {webhook: https://}", 4, "must be an http or https URL"),
        ("notify: {webhok: https://hooks.here/s3cret}", 4, "Did you mean webhook"),
        ("notify: {url: https://hooks.here/s3cret}", 4, "Use webhook"),
        ("on: {when: error, do: stop}", 4, "must be a list of {when, do}"),
        ("on: [error]", 4, "grpo_tui.on.0 must be {when, do}"),
        ("on: [{when: error}]", 4, "grpo_tui.on.0 needs do"),
        ("on: [{when: error, do: pause}, {do: stop}]", 4, "grpo_tui.on.1 needs when"),
        ("on: [{when: soon, do: stop}]", 4, "is 'soon', which is not a condition"),
        ("on: [{when: error, do: save}]", 4, "must be pause or stop"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_line(folder: Path, section: str, line: int, word: str) -> None:
    with pytest.raises(ConfigError, match=word) as caught:
        load(folder, section + "\ndataset: rows.jsonl")
    assert [f.line for f in caught.value.findings if f.severity == "error"] == [line]
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("rowz.jsonl", "Did you mean rows.jsonl"),
        ("openai/gsm8k", "set dataset_name at the top level"),
        ("other.py:rows", "there is no file"),
    ],
)
def test_a_dataset_that_is_not_there_is_refused(folder: Path, value: str, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        load(folder, f"dataset: {value}")


def test_a_dataset_given_twice_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="set twice"):
        load(folder, "dataset: rows.jsonl", BASE + "dataset_name: d\n")


def test_an_eval_dataset_without_evaluation_is_warned_of(folder: Path) -> None:
    config = load(folder, "dataset: rows.jsonl\neval_dataset: rows.jsonl")
    assert [(f.severity, f.field) for f in config.findings] == [("warning", "grpo_tui.eval_dataset")]


def test_an_empty_section_is_no_section(folder: Path) -> None:
    file = folder / "run.yaml"
    file.write_text(BASE + "dataset_name: d\ngrpo_tui:\n")
    assert load_config(file).section.rewards == ()


def test_a_section_that_is_no_mapping_is_refused(folder: Path) -> None:
    file = folder / "run.yaml"
    file.write_text(BASE + "dataset_name: d\ngrpo_tui: yes\n")
    with pytest.raises(ConfigError, match="must be a mapping"):
        load_config(file)


@pytest.mark.parametrize("pattern", ["", ", pattern: ''", ", pattern: '('"])
def test_an_answer_without_a_usable_pattern_is_left_out(folder: Path, pattern: str) -> None:
    file = folder / "run.yaml"
    file.write_text(f"{BASE}grpo_tui:\n  dataset: rows.jsonl\n  answer: {{kind: regex{pattern}}}\n")
    assert inspect_config(file, world_size=1).settings.section.answer is None
