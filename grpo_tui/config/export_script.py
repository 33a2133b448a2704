"""Export a config as a stand-alone `train.py` that needs TRL but not this package.

The script trains with the same rows, rewards, weights, adapters and settings, but does not record or steer.
Its steps from data to prompts follow `data.load`, and a test compares the rows of both. Nothing is imported
here: definitions of this package are copied from its source, with the names that they use.
"""

from __future__ import annotations

import ast
import os
import pprint
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo_tui.config.packages import versions_of
from grpo_tui.config.paths import DATA_SUFFIXES, split_file_source
from grpo_tui.config.rules_vllm import server_command
from grpo_tui.config.run_config import ConfigError, RunConfig
from grpo_tui.config.section import AnswerSpec, Section
from grpo_tui.config.settings import Settings
from grpo_tui.config.trl_fields import FACTORIES, SCRIPT_NAMES, TRL_NAMES
from grpo_tui.core.findings import errors_of
from grpo_tui.core.text import named_texts, one_line

if TYPE_CHECKING:
    from grpo_tui.config.resolve import Inspected

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGE = "grpo_tui"
_WIDTH = 110

# Replacements for functions that would pull in parts of the package that a script does not need.
_STAND_INS = {
    ("grpo_tui.rewards.library.wrappers", "_loaded"): (
        "def _loaded(entry: Any) -> Any:\n"
        '    raise TypeError(f"a wrapper goes around a reward function or object, not around {entry!r}")'
    )
}


class NoSourceError(ValueError):
    """A name has no source that can be copied."""


@dataclass(frozen=True, slots=True)
class _Module:
    """A module's source, its top-level definitions, and its imports as alias → (module, name)."""

    text: str
    defined: dict[str, ast.stmt] = field(default_factory=dict)
    imported: dict[str, tuple[str, str | None]] = field(default_factory=dict)


class SourceParts:
    """Collects definitions, dependencies first."""

    def __init__(self) -> None:
        self._modules: dict[str, _Module] = {}
        self._texts: dict[tuple[str, str], str] = {}
        self._homes: dict[str, str] = {}
        self._visiting: set[tuple[str, str]] = set()
        self.imports: set[tuple[str, str | None]] = set()

    def add(self, dotted: str) -> str:
        """Add a definition and its dependencies. Return its name.

        Raises:
            NoSourceError: The name does not exist, or two definitions share it.
        """
        module, _, name = dotted.rpartition(".")
        self._visit(module, name)
        return name

    def texts(self) -> Iterator[str]:
        """Yield the definitions, dependencies first."""
        yield from self._texts.values()

    def _visit(self, module: str, name: str) -> None:
        if (module, name) in self._texts or (module, name) in self._visiting:
            return
        known = self._module(module)
        if name in known.imported:
            source, original = known.imported[name]
            if source.partition(".")[0] == _PACKAGE and original is not None:
                self._visit(source, original)
            else:
                self.imports.add((source, original))
            return
        if name not in known.defined:
            raise NoSourceError(f"there is no {name} in {module}")
        if self._homes.setdefault(name, module) != module:
            raise NoSourceError(f"{name} is defined in {self._homes[name]} and in {module}")
        self._visiting.add((module, name))
        text = _STAND_INS.get((module, name)) or _text_of(known, known.defined[name])
        for used in _names_in(ast.parse(text)):
            if used in known.defined or used in known.imported:
                self._visit(module, used)
        self._texts[module, name] = text

    def _module(self, module: str) -> _Module:
        if module not in self._modules:
            self._modules[module] = _read(module)
        return self._modules[module]


def import_lines(imports: set[tuple[str, str | None]]) -> list[str]:
    """Return import statements, standard library first, with one line per module."""
    names: dict[str, set[str]] = {}
    for module, name in imports:
        if name is not None:
            names.setdefault(module, set()).add(name)
    lines = [(module, f"import {module}") for module, name in imports if name is None]
    lines += [(module, _from_line(module, sorted(found))) for module, found in names.items()]

    def place(line: tuple[str, str]) -> tuple[bool, bool, str]:
        return (line[0].partition(".")[0] not in sys.stdlib_module_names, line[1].startswith("from"), line[0])

    ordered = sorted(lines, key=place)
    own = [text for module, text in ordered if module.partition(".")[0] in sys.stdlib_module_names]
    others = [text for _, text in ordered if text not in own]
    return [*own, *([""] if own and others else []), *others]


def _from_line(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= _WIDTH:
        return line
    return f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")"


def _read(module: str) -> _Module:
    base = _ROOT.joinpath(*module.split("."))
    file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise NoSourceError(f"{module} cannot be read: {error.strerror}") from error
    found = _Module(text)
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            for alias in node.names:
                found.imported[alias.asname or alias.name] = (str(node.module), alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                found.imported[alias.name] = (alias.name, None)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.defined[node.name] = node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.defined.update({name: node for target in targets for name in _names_in(target)})
    return found


def _text_of(module: _Module, node: ast.stmt) -> str:
    lines = module.text.splitlines()
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    return "\n".join(lines[first - 1 : node.end_lineno])


def _names_in(tree: ast.AST) -> list[str]:
    return list(dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name)))


WIDTH = 110
_TEXTS = named_texts(Path(__file__).with_suffix(".txt"))
"""Functions that a script may need."""


@dataclass(frozen=True, slots=True)
class Part:
    """How the script of a stage differs from that of a run without stages: lines and expressions."""

    about: str = ""
    before: tuple[str, ...] = ()
    length: str = ""
    trainer: str = "GRPOTrainer"
    model: str = ""
    start: str = ""
    after: tuple[str, ...] = ()


class Script:
    """Collects the parts of a script.

    Args:
        folder: Folder of the script. Paths in it are relative to it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.imports: set[tuple[str, str | None]] = set()
        self.path_folders: set[str] = set()
        self.constants: list[str] = []
        self._functions: dict[str, None] = {}
        self._parts = SourceParts()

    def function(self, text: str) -> None:
        """Add a function's source once."""
        self._functions.setdefault(text.strip("\n"))

    def need(self, text: str, *modules: str) -> None:
        """Add a function and the modules it imports."""
        self.function(text)
        self.imports |= {(module, None) for module in modules}

    def copy(self, dotted: str) -> str:
        """Copy a definition of this package with its dependencies. Return its name."""
        return self._parts.add(dotted)

    def path(self, file: str | Path) -> str:
        """Return a path relative to the script's folder, absolute when it is three or more levels up."""
        near = os.path.relpath(file, self.folder)
        return near if not near.startswith(os.path.join("..", "..", "..")) else str(file)

    def from_file(self, file: str, name: str) -> str:
        """Return the expression for a name in a user's Python file."""
        self.need(_TEXTS["FROM_FILE"], "functools", "importlib.util", "operator", "sys")
        return f"from_file({literal(self.path(file))}, {literal(name)})"

    def text(self, doc: str, before: str, main: str) -> str:
        """Return the whole script.

        Args:
            before: Statements before any library is imported.
        """
        copied = list(self._parts.texts())
        functions = [f"{text}\n" for text in [*copied, *self._functions, main]]
        top = [
            f"sys.path.insert(0, str(HERE / {literal(self.path(one))}))" for one in sorted(self.path_folders)
        ]
        self.imports |= self._parts.imports | ({("sys", None)} if top else set())
        if any("HERE" in text for text in [*top, *functions]):
            self.imports.add(("pathlib", "Path"))
            top.insert(0, "HERE = Path(__file__).resolve().parent")
        top += self.constants
        lines = [f'"""{doc}"""', "", "from __future__ import annotations", ""]
        lines += [before, ""] if before else []
        lines += [*import_lines(self.imports), "", *top, *([""] if top else []), "", ""]
        return "\n".join(lines) + "\n\n".join(functions) + '\n\nif __name__ == "__main__":\n    main()\n'


def call(name: str, params: Mapping[str, Any], *first: str) -> str:
    """Return the source of a call with positional expressions and `params` as keywords."""
    words = [*first, *(f"{key}={literal(value)}" for key, value in params.items() if key.isidentifier())]
    odd = {key: value for key, value in params.items() if not key.isidentifier()}
    return f"{name}({', '.join([*words, *([f'**{literal(odd)}'] if odd else [])])})"


def literal(value: Any) -> str:
    """Return a config value as Python source, with double quotes where possible."""
    if isinstance(value, float) and not (-float("inf") < value < float("inf")):
        return f'float("{value}")'
    if isinstance(value, str):
        plain = repr(value)
        return f'"{plain[1:-1]}"' if plain[0] == "'" and '"' not in plain and "\\'" not in plain else plain
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(literal, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    return repr(value)


def arguments(params: Mapping[str, Any], indent: int) -> str:
    """Return keyword arguments, one per line, with long texts and mappings wrapped."""
    space = " " * indent
    lines = []
    for key, value in params.items():
        text = literal(value)
        if len(text) + len(key) + indent > WIDTH and isinstance(value, (str, dict, list)):
            text = textwrap.indent(
                pprint.pformat(value, width=WIDTH - indent - 8, sort_dicts=False), space
            ).lstrip()
        lines.append(f"{space}{key}={text},\n")
    return "".join(lines)


def text_constant(name: str, value: str) -> str:
    """Return the assignment of a text constant, with its line breaks where possible."""
    plain = value.replace("\n", "")
    if "\n" not in value or '"""' in value or value.endswith('"') or "\\" in plain or not plain.isprintable():
        return f"{name} = {literal(value)}"
    return f'{name} = """\\\n{value}"""'


_READERS = {".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".json": "json", ".parquet": "parquet"}
_EXTRACTORS = {"gsm8k": "after_hashes", "boxed": "last_boxed", "tag": "last_tag", "regex": "by_pattern"}
_SEED = 42  # TrainingArguments.seed


def add_data(script: Script, config: RunConfig) -> None:
    """Add the function `prompts`, which returns the training and the evaluation rows."""
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
        script.need(_TEXTS["SET_ASIDE"], "random")
        held, seed = "held_out" if evaluates else "_", config.grpo.get("seed", _SEED)
        lines.append(f"    rows, {held} = set_aside(rows, {section.holdout}, seed={seed})")
    filters = section.filters
    for name, file, where in (("left_out", filters.exclude, "not in"), ("wanted", filters.only, "in")):
        if file is not None:
            script.copy("grpo_tui.core.prompt_memory.prompt_hash")
            script.need(_TEXTS["LISTED"], "json")
            lines.append(f"    {name} = listed({literal(script.path(file))})")
            lines.append(f'    rows = rows.filter(lambda row: prompt_hash(row["prompt"]) {where} {name})')
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
    doc = '    """Return the training rows and the evaluation rows, None without evaluation."""\n'
    script.function("def prompts():\n" + doc + "\n".join(lines))


def _source(script: Script, config: RunConfig) -> tuple[str, bool]:
    """Return the expression for the rows, and whether it may yield a mapping of splits."""
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
        script.need(_TEXTS["AS_DATASET"])
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
    """Add the function `prepare`, which mirrors `data.mapping.map_rows`. Return whether it does anything."""
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
        script.need(_TEXTS["FIRST_OF_EACH"])
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
        f'def prepare(rows):\n    """Add the prompts, and the columns that the rewards need."""\n{body}'
    )
    return True


def _answer(script: Script, section: Section) -> str:
    """Return the expression that extracts the reference answer from `row`."""
    spec = section.answer
    if spec is None:
        return ""
    name = script.copy(f"grpo_tui.core.answers.{_EXTRACTORS[spec.kind]}")
    more = {"tag": spec.tag or "answer", "regex": spec.pattern or ""}.get(spec.kind)
    return f"{name}(str(row[{_source_column(spec, section)!r}]){'' if more is None else f', {more!r}'})"


def _source_column(spec: AnswerSpec, section: Section) -> str:
    """Return the column of the answer after renaming."""
    if spec.source in section.columns:
        return spec.source
    return next((wanted for wanted, old in section.columns.items() if old == spec.source), spec.source)


def _drop_nulls(script: Script, section: Section, answer: str) -> list[str]:
    script.copy("grpo_tui.data.filters.is_missing")
    test = "any(map(is_missing, row.values()))"
    if section.filters.null_columns:
        named = literal(["prompt", *section.filters.null_columns])
        test = f"any(is_missing(value) for value in (row[name] for name in {named}))"
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
        '    """Return a prompt as messages, after the messages that precede it."""\n'
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
    text = _TEXTS["TOKENS"].format(
        arguments=", ".join([literal(config.model), *(f"{k}={literal(v)}" for k, v in words.items())]),
        template=f", **{literal(template)}" if template else "",
    )
    script.need(text, "functools")
    script.imports.add(("transformers", "AutoProcessor"))
    least = f"{filters.min_prompt_tokens} <= " if filters.min_prompt_tokens is not None else ""
    most = f" <= {filters.max_prompt_tokens}" if filters.max_prompt_tokens is not None else ""
    return f'    rows = rows.filter(lambda row: {least}tokens(row["prompt"]){most})'


LIBRARY = "grpo_tui.rewards.library"
_WRAPPERS = ("AdaptiveWeight", "Clip", "Gate", "ScheduledWeight")
_INNER = ("reward", "when")


def add_rewards(script: Script, config: RunConfig) -> None:
    """Add the function `rewards` and its dependencies."""
    model, sources = config.script.get("reward_model_name_or_path"), config.script.get("reward_funcs")
    lines = [literal(str(model))] if model else []
    lines += [_from_script(script, str(source), config.cwd) for source in sources or ()]
    for entry in config.section.rewards:
        lines.append(_reward(script, entry.name, entry.source, entry.params, config.cwd))
    script.function(
        "def rewards():\n"
        '    """Return the reward functions in TRL\'s order."""\n'
        "    return [\n" + "".join(f"        {line},\n" for line in lines) + "    ]"
    )


def _from_script(script: Script, source: str, cwd: str) -> str:
    """Return the expression for one entry of `reward_funcs`, resolved as in TRL's script."""
    if source not in SCRIPT_NAMES:
        return _imported(script, source, cwd)
    script.imports.add(("trl.rewards", source))
    params = SCRIPT_NAMES[source]
    return source if params is None else call(source, params)


def _reward(script: Script, name: str, source: str, params: Mapping[str, Any], cwd: str) -> str:
    parts = split_file_source(source)
    if parts is not None:
        found, own = _from_file(script, *parts, params)
    elif source in TRL_NAMES:
        script.imports.add(("trl.rewards", source))
        found, own = call(source, params) if source in FACTORIES else _with(script, source, params), source
    elif source.replace(":", ".").startswith(LIBRARY + "."):
        found, own = _from_library(script, source.replace(":", "."), params, cwd), None
    elif ":" in source or ("." in source and "/" not in source):
        script.need(_TEXTS["MADE"], "inspect", "functools")
        found, own = call("made", params, _imported(script, source.replace(":", "."), cwd)), None
    else:
        return literal(source)  # a reward model, which TRL loads and names itself
    if own == name:
        return found
    script.need(_TEXTS["RENAMED"], "inspect")
    return f"renamed({found}, {literal(name)})"


def _from_file(script: Script, file: str, name: str, params: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the expression for a name in a user's file, and the reward's own name if it is known."""
    found = script.from_file(file, name)
    kind = _kind(Path(file), name)
    if kind is None:
        script.need(_TEXTS["MADE"], "inspect", "functools")
        return call("made", params, found), None
    if kind == "class":
        return call(found, params), name
    return _with(script, found, params), name


def _with(script: Script, found: str, params: Mapping[str, Any]) -> str:
    if not params:
        return found
    script.imports.add(("functools", None))
    return call("functools.partial", params, found)


def _from_library(script: Script, dotted: str, params: Mapping[str, Any], cwd: str) -> str:
    name = script.copy(dotted)
    if name not in _WRAPPERS:
        return call(name, params)
    written = {key: literal(value) for key, value in params.items()}
    for key in _INNER:
        inner = params.get(key)
        if isinstance(inner, (str, Mapping)):
            entry = {"source": inner} if isinstance(inner, str) else dict(inner)
            source = str(entry["source"])
            own = str(entry.get("name") or source.rpartition(":")[2].rpartition(".")[2])
            given = entry.get("params")
            inside = dict(given) if isinstance(given, Mapping) else {}
            written[key] = _reward(script, own, source, inside, cwd)
    return f"{name}({', '.join(f'{key}={value}' for key, value in written.items())})"


def _imported(script: Script, dotted: str, cwd: str) -> str:
    """Return the expression for an object of a module in the working folder or of an installed one."""
    module, _, name = dotted.rpartition(".")
    top = module.partition(".")[0]
    if cwd and (Path(cwd, top).is_dir() or Path(cwd, f"{top}.py").is_file()):
        script.path_folders.add(cwd)
    script.imports.add(("importlib", None))
    return f"importlib.import_module({literal(module)}).{name}"


def _kind(file: Path, name: str) -> str | None:
    """Return whether an undecorated top-level name is a function or a class, None if it is neither."""
    try:
        body = ast.parse(file.read_text(encoding="utf-8")).body
    except (OSError, ValueError, SyntaxError):
        return None
    kinds = {
        node.name: "class" if isinstance(node, ast.ClassDef) else "function"
        for node in body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and not node.decorator_list
    }
    return kinds.get(name)


_LEFT_OUT = "(not kept)"


def exportable(found: Inspected) -> RunConfig:
    """Return the config to export. Missing packages are no error, because the script may run elsewhere.

    Raises:
        ConfigError: The config has another error.
    """
    wrong = [error for error in errors_of(found.findings) if error.id != "config.not-installed"]
    if found.config is None or wrong:
        raise ConfigError(wrong, found.file)
    return found.config


def installed_versions() -> dict[str, str]:
    """Return the installed versions of the libraries that a script needs."""
    return versions_of(("trl", "transformers", "datasets"))


def write_script(
    config: RunConfig,
    target: Path,
    versions: dict[str, str] | None = None,
    part_of: Callable[[Script], Part] = lambda script: Part(),
) -> str:
    """Return the source of a script that trains as configured.

    Args:
        target: Path of the script. File names are relative to its folder.
        part_of: Returns what the script of a stage has besides, and adds the functions it needs.

    Raises:
        NoSourceError: A reward of this package cannot be copied.
    """
    script = Script(target.parent)
    kept = RunConfig.from_json({**config.to_record(), "raw": {}})  # removes secrets
    add_data(script, kept)
    add_rewards(script, kept)
    secret = sorted(
        key for part in (kept.grpo, kept.env) for key, value in part.items() if value == _LEFT_OUT
    )
    part = part_of(script)
    main = _main(script, kept, part)
    doc = _docstring(script, kept, target.name, versions or {}, secret, part.about)
    env = {key: value for key, value in kept.env.items() if value != _LEFT_OUT}
    before = f"import os\n\nos.environ.update({literal(env)})  # before anything reads it\n" if env else ""
    return script.text(doc, before, main)


def _docstring(
    script: Script,
    config: RunConfig,
    target: str,
    versions: dict[str, str],
    secret: list[str],
    about: str,
) -> str:
    name = config.path.name if config.path is not None else "a config"
    gpus = f"CUDA_VISIBLE_DEVICES={','.join(config.section.gpus)} " if config.section.gpus else ""
    words = shlex.split(config.section.launcher or "python")
    launcher = shlex.join(script.path(word) if Path(word).is_file() else word for word in words)
    written = ", ".join(f"{package} {version}" for package, version in versions.items())
    lines = [
        f"Train {config.model} with GRPO as configured in {name}.",
        *([about] if about else []),
        "",
        f"Start it:  {gpus}{launcher} {target}",
        "",
        f"Written by grpo-tui{f' for {written}' if written else ''}. Needs TRL and what the rewards import.",
    ]
    if config.grpo.get("use_vllm") and config.grpo.get("vllm_mode") == "server":
        lines.append(f"Start the vLLM server first: {server_command(Settings.of_config(config))}")
    if secret:
        lines.append(f"Left out because they are secrets: {', '.join(secret)}.")
    safe = (one_line(line, 300).replace("\\", "/").replace('"""', "'''") for line in lines)
    return "\n".join(safe) + "\n"


def _main(script: Script, config: RunConfig, part: Part) -> str:
    script.imports |= {("trl", "GRPOConfig"), ("trl", "GRPOTrainer")}
    settings = {key: value for key, value in config.grpo.items() if value != _LEFT_OUT}
    resume = settings.pop("resume_from_checkpoint", None)
    settings.setdefault("output_dir", str(config.run_root))
    weights = [1.0 if entry.weight is None else entry.weight for entry in config.section.rewards]
    if "reward_weights" not in settings and any(weight != 1.0 for weight in weights):
        before = config.reward_count - len(weights)
        settings["reward_weights"] = [1.0] * before + weights
    settings["model_init_kwargs"] = {**_model_kwargs(config), **(settings.get("model_init_kwargs") or {})}
    lines = [
        "def main():",
        '    """Train and save the model."""',
        *part.before,
        "    train_dataset, eval_dataset = prompts()",
        f"    args = GRPOConfig(\n{arguments(settings, 8)}{part.length}    )",
    ]
    more = ""
    if config.model_args.get("use_peft") or any(config.model_args.get(f"load_in_{n}bit") for n in (4, 8)):
        names = ("ModelConfig", "get_peft_config", "get_quantization_config")
        script.imports |= {("trl", name) for name in names}
        lines.append(f"    model_config = ModelConfig(\n{arguments(config.model_args, 8)}    )")
        more = (
            "        quantization_config=get_quantization_config(model_config),\n"
            "        peft_config=get_peft_config(model_config),\n"
        )
    start = part.start or (literal(resume) if resume is not None else "")
    lines += [
        f"    trainer = {part.trainer}(",
        f"        model={part.model or literal(config.model)},",
        "        reward_funcs=rewards(),",
        "        args=args,",
        "        train_dataset=train_dataset,",
        f"        eval_dataset=eval_dataset,\n{more}    )",
        *part.after,
        f"    trainer.train({f'resume_from_checkpoint={start}' if start else ''})",
        "    trainer.save_model(args.output_dir)",
    ]
    return "\n".join(lines)


def _model_kwargs(config: RunConfig) -> dict[str, Any]:
    """Return the arguments for loading the model, always with dtype: in a script, TRL's default differs."""
    known = config.model_args
    found: dict[str, Any] = {"dtype": known.get("dtype", "float32")}
    if known.get("model_revision"):
        found["revision"] = known["model_revision"]
    if known.get("attn_implementation"):
        found["attn_implementation"] = known["attn_implementation"]
    if config.grpo.get("trust_remote_code"):
        found["trust_remote_code"] = True
    return found
