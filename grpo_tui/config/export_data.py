"""A config's data as lines of a script: where the rows come from, and how they become prompts.

The steps and their order are those of `data.load`; a test compares the rows that both give.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grpo_tui.config.export_text import Script, arguments, literal, text_constant
from grpo_tui.config.paths import DATA_SUFFIXES, split_file_source
from grpo_tui.config.run_config import RunConfig
from grpo_tui.config.section import AnswerSpec, Section

_READERS = {".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".json": "json", ".parquet": "parquet"}
_EXTRACTORS = {"gsm8k": "after_hashes", "boxed": "last_boxed", "tag": "last_tag", "regex": "by_pattern"}
_SEED = 42  # TrainingArguments.seed

AS_DATASET = '''
def as_dataset(found):
    """Rows as a function gives them: a Dataset, one by splits, a mapping of columns, or a list of rows."""
    if isinstance(found, (Dataset, IterableDataset)):
        return found
    if isinstance(found, Mapping):
        splits = found and all(isinstance(part, (Dataset, IterableDataset)) for part in found.values())
        return found if splits else Dataset.from_dict(dict(found))
    return Dataset.from_list([dict(row) for row in found])
'''

SET_ASIDE = '''
def set_aside(rows, count, seed):
    """Rows to train on and `count` others, chosen by the seed; no prompt stands in both."""
    chosen = set(random.Random(seed).sample(range(len(rows)), count))
    keys = [prompt_key(prompt) for prompt in rows["prompt"]]
    held = {keys[index] for index in chosen}
    kept = [index for index, key in enumerate(keys) if key not in held]
    return rows.select(kept), rows.select(sorted(chosen))
'''

FIRST_OF_EACH = '''
def first_of_each(rows):
    """The rows less those whose prompt stands in an earlier one."""
    first = {}
    for index, prompt in enumerate(rows["prompt"]):
        first.setdefault(prompt_key(prompt), index)
    return rows.select(list(first.values()))
'''

TOKENS = '''
@functools.cache
def tokenizer():
    """The model's tokenizer, as GRPOTrainer loads it."""
    return AutoProcessor.from_pretrained({arguments})


def tokens(prompt):
    """How many tokens a prompt is for the model, chat template included."""
    if isinstance(prompt, str):
        return len(tokenizer()(text=[prompt])["input_ids"][0])
    ids = tokenizer().apply_chat_template(
        conversation=[prompt], add_generation_prompt=True, tokenize=True, return_dict=True{template}
    )
    return len(ids["input_ids"][0])
'''


def add_data(script: Script, config: RunConfig) -> None:
    """Add the function `prompts`, which gives the rows to train on and those to evaluate on."""
    prepared = "prepare({})" if _add_prepare(script, config) else "{}"
    section, evaluates = config.section, str(config.grpo.get("eval_strategy", "no")) != "no"
    split = str(config.script.get("dataset_train_split", "train"))
    test = str(config.script.get("dataset_test_split", "test"))
    source, by_split = _source(script, config)
    lines = [f"    found = {source}"]
    one_of = f"found[{literal(split)}] if isinstance(found, Mapping) else found" if by_split else "found"
    if by_split:
        script.imports.add(("collections.abc", "Mapping"))
    lines.append("    rows = " + prepared.format(one_of))
    if section.holdout:
        script.copy("grpo_tui.data.filters.prompt_key")
        script.need(SET_ASIDE, "random")
        held, seed = "held_out" if evaluates else "_", config.grpo.get("seed", _SEED)
        lines.append(f"    rows, {held} = set_aside(rows, {section.holdout}, seed={seed})")
    if not evaluates:
        lines.append("    return rows, None")
    elif section.eval_dataset is not None:
        found, by_split = _named_in_section(script, section.eval_dataset)
        lines.append(f"    found = {found}")
        named = f"found.get({literal(test)}, found) if isinstance(found, Mapping) else found"
        pick = named if by_split else "found"
        if by_split:
            script.imports.add(("collections.abc", "Mapping"))
        lines.append(f"    return rows, {prepared.format(pick)}")
    else:
        other = "held_out" if section.holdout else "None"
        if by_split:
            lines.append(f"    test = found.get({literal(test)}) if isinstance(found, Mapping) else None")
            lines.append(f"    return rows, {other} if test is None else {prepared.format('test')}")
        else:
            lines.append(f"    return rows, {other}")
    doc = '    """The rows to train on, and those to evaluate on, None without evaluation."""\n'
    script.function("def prompts():\n" + doc + "\n".join(lines))


def _source(script: Script, config: RunConfig) -> tuple[str, bool]:
    """The expression that gives the rows, and whether they may come by split."""
    if config.section.dataset is not None:
        return _named_in_section(script, config.section.dataset)
    if config.mixture.get("datasets"):
        script.imports |= {("trl", "get_dataset"), ("trl", "DatasetMixtureConfig")}
        kept = {key: value for key, value in config.mixture.items() if value is not None}
        return f"get_dataset(\n        DatasetMixtureConfig(\n{arguments(kept, 12)}        )\n    )", True
    name = str(config.script.get("dataset_name"))
    path = Path(name)
    if path.is_file() and path.suffix.lower() in DATA_SUFFIXES:
        return _named_in_section(script, name)
    if path.is_dir() and any((path / mark).is_file() for mark in ("dataset_dict.json", "state.json")):
        script.imports.add(("datasets", "load_from_disk"))
        return f"load_from_disk({literal(name)})", True
    script.imports.add(("datasets", "load_dataset"))
    named = config.script.get("dataset_config")
    words = [literal(name), *([f"name={literal(named)}"] if named else [])]
    words += ["streaming=True"] if config.script.get("dataset_streaming") else []
    return f"load_dataset({', '.join(words)})", True


def _named_in_section(script: Script, source: str) -> tuple[str, bool]:
    parts = split_file_source(source)
    if parts is not None:
        script.need(AS_DATASET)
        script.imports |= {
            ("datasets", "Dataset"),
            ("datasets", "IterableDataset"),
            ("collections.abc", "Mapping"),
        }
        return f"as_dataset({script.from_file(*parts)}())", True
    script.imports |= {("datasets", "load_dataset"), ("glob", None)}
    suffix = Path(source).suffix.lower()
    file = f"glob.escape(str(HERE / {literal(script.path(source))}))"
    tabs = ', delimiter="\\t"' if suffix == ".tsv" else ""
    return f'load_dataset("{_READERS[suffix]}", data_files={file}, split="train"{tabs})', False


def _add_prepare(script: Script, config: RunConfig) -> bool:
    """The function that makes prompts of rows, as `data.mapping.map_rows` does; none without a step."""
    section = config.section
    lines: list[str] = []
    if {name for name, column in section.columns.items() if name != column}:
        script.constants.append(f"COLUMNS = {literal(section.columns)}  # name wanted: column of the dataset")
        gone = sorted({c for c in section.columns.values() if c not in section.columns})
        lines.append(
            "    rows = rows.map(\n"
            "        lambda row: {wanted: row[column] for wanted, column in COLUMNS.items()}, "
            f"remove_columns={literal(gone)}\n    )"
        )
    answer = _answer(script, section)
    if section.filters.drop_null:
        lines += _drop_nulls(script, section, answer)
    if section.answer is not None:
        lines.append(f"    rows = rows.map(lambda row: {{{literal(section.answer.to)}: {answer}}})")
    if section.filters.drop_duplicates:
        script.copy("grpo_tui.data.filters.prompt_key")
        script.need(FIRST_OF_EACH)
        lines.append("    rows = first_of_each(rows)")
    if section.wants_chat:
        _add_messages(script, section)
        lines.append("    rows = rows.map(to_messages)")
    if section.filters.needs_tokens:
        lines.append(_lengths(script, config))
    if not lines:
        return False
    body = "\n".join([*lines, "    return rows"])
    script.function(
        f'def prepare(rows):\n    """Make prompts of rows, and columns for the rewards."""\n{body}'
    )
    return True


def _answer(script: Script, section: Section) -> str:
    """The expression that cuts the gold answer out of `row`."""
    spec = section.answer
    if spec is None:
        return ""
    name = script.copy(f"grpo_tui.core.answers.{_EXTRACTORS[spec.kind]}")
    more = {"tag": spec.tag or "answer", "regex": spec.pattern or ""}.get(spec.kind)
    return f"{name}(str(row[{_source_column(spec, section)!r}]){'' if more is None else f', {more!r}'})"


def _source_column(spec: AnswerSpec, section: Section) -> str:
    """The column an answer is cut out of, as it is called after renaming."""
    renamed = next(
        (wanted for wanted, column in section.columns.items() if column == spec.source), spec.source
    )
    return spec.source if spec.source in section.columns else renamed


def _drop_nulls(script: Script, section: Section, answer: str) -> list[str]:
    script.copy("grpo_tui.data.filters.is_missing")
    looked_at = f"row[name] for name in {literal(['prompt', *section.filters.null_columns])}"
    values = looked_at if section.filters.null_columns else "value for value in row.values()"
    test = f"any(is_missing(value) for value in ({values}))"
    if not section.filters.null_columns:
        test = "any(map(is_missing, row.values()))"
    without = f" and {answer} is not None" if answer else ""
    return [f"    rows = rows.filter(lambda row: not {test}{without})"]


def _add_messages(script: Script, section: Section) -> None:
    shots = []
    for shot in section.few_shot:
        shots += [{"role": "user", "content": shot.user}, {"role": "assistant", "content": shot.assistant}]
    if shots:
        script.constants.append("EXAMPLES = [\n" + "".join(f"    {literal(shot)},\n" for shot in shots) + "]")
    examples = "*EXAMPLES, " if shots else ""
    if section.system_prompt is not None:
        script.constants.append(text_constant("SYSTEM_PROMPT", section.system_prompt))
        made = (
            '    asked = [message for message in messages if message["role"] != "system"]\n'
            f'    return {{"prompt": [{{"role": "system", "content": SYSTEM_PROMPT}}, {examples}*asked]}}'
        )
    else:
        made = (
            '    own = [message for message in messages[:1] if message["role"] == "system"]\n'
            f'    return {{"prompt": [*own, {examples}*messages[len(own) :]]}}'
        )
    script.function(
        "def to_messages(row):\n"
        '    """A prompt as messages, with what stands before it."""\n'
        '    prompt = row["prompt"]\n'
        '    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)\n'
        + made
    )


def _lengths(script: Script, config: RunConfig) -> str:
    filters = config.section.filters
    words: dict[str, Any] = {"truncation_side": "left", "padding_side": "left"}
    if config.model_args.get("model_revision"):
        words["revision"] = config.model_args["model_revision"]
    if config.grpo.get("trust_remote_code"):
        words["trust_remote_code"] = True
    template = config.grpo.get("chat_template_kwargs")
    text = TOKENS.format(
        arguments=", ".join([literal(config.model), *(f"{k}={literal(v)}" for k, v in words.items())]),
        template=f", **{literal(template)}" if template else "",
    )
    script.need(text, "functools")
    script.imports.add(("transformers", "AutoProcessor"))
    least = f"{filters.min_prompt_tokens} <= " if filters.min_prompt_tokens is not None else ""
    most = f" <= {filters.max_prompt_tokens}" if filters.max_prompt_tokens is not None else ""
    return f'    rows = rows.filter(lambda row: {least}tokens(row["prompt"]){most})'
