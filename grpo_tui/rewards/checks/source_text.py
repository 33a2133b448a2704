"""What the source of a reward function shows without running it.

Covers the function and everything it calls in the same file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

_BROAD = ("Exception", "BaseException")
_TEXT_METHODS = ("count", "endswith", "find", "index", "partition", "rfind", "split", "startswith")
_DISTANCES = ("abs", "fabs", "absolute")
_RE_FUNCTIONS = ("match", "search", "fullmatch", "findall", "finditer", "compile", "split", "sub")


@dataclass(frozen=True, slots=True)
class BroadHandler:
    """`try` that goes on with a constant after any exception. `first` and `last` are lines of its body."""

    first: int
    last: int
    line: int


@dataclass(frozen=True, slots=True)
class Pattern:
    """Regular expression written as a literal, and the function of `re` that uses it."""

    text: str
    method: str
    dotall: bool
    line: int


@lru_cache(maxsize=16)
def _parsed(file_text: str) -> ast.Module:
    try:
        return ast.parse(file_text)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


class RewardSource:
    """Parts of a file that belong to one reward function."""

    def __init__(self, file_text: str, line: int | None) -> None:
        tree = _parsed(file_text)
        self._nodes = list(_reachable(tree, line))
        self._texts = _named_texts(tree.body) | {
            name: text for node in self._nodes for name, text in _named_texts(ast.walk(node)).items()
        }
        self._constants = _pattern_constants(tree, self._texts)
        self.text = "\n".join(ast.get_source_segment(file_text, node) or "" for node in self._nodes)

    def broad_handlers(self) -> list[BroadHandler]:
        """Return every `try` that continues with a constant after any exception."""
        return [
            BroadHandler(
                node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno, handler.lineno
            )
            for node in self._walk()
            if isinstance(node, ast.Try)
            for handler in node.handlers
            if _is_broad(handler.type) and _goes_on_with_a_constant(handler)
        ]

    def alarm_line(self) -> int | None:
        """Return the line that sets an alarm or a signal handler, which needs the main thread."""
        for node in self._walk():
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "signal"
                and node.attr in ("alarm", "setitimer", "signal", "SIGALRM")
            ):
                return node.lineno
        return None

    def distance_line(self) -> int | None:
        """Return the line that uses a bare distance, `abs(a - b)`, as a score."""
        for node in self._walk():
            scores: list[ast.expr] = []
            if isinstance(node, ast.Return) and node.value is not None:
                given = node.value
                if isinstance(given, ast.ListComp | ast.GeneratorExp):
                    scores = [given.elt]
                elif isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute):
                    scores = [given]  # of a whole array; a bare abs() may be in a helper and negated later
            elif isinstance(node, ast.Yield) and node.value is not None:
                scores = [node.value]
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "append"
            ):
                scores = node.args[:1]
            for score in scores:
                if _is_distance(score):
                    return score.lineno
        return None

    def text_use(self) -> tuple[str, int] | None:
        """Return the first use of an element of `completions` as text, and its line.

        None if the function checks the type of that element, or reassigns its name.
        """
        for definition in self._nodes:
            names = set(_elements(definition))
            nodes = list(ast.walk(definition))
            for node in nodes:
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "type"):
                    names -= {arg.id for arg in node.args[:1] if isinstance(arg, ast.Name)}
                if isinstance(node, ast.Assign):
                    names -= {target.id for target in node.targets if isinstance(target, ast.Name)}
            uses = [n for n in nodes if isinstance(n, ast.expr) and _is_text_use(n, names)]
            if uses:
                first = min(uses, key=lambda node: (node.lineno, node.col_offset))
                return ast.unparse(first), first.lineno
        return None

    def patterns(self) -> list[Pattern]:
        """Return the literal regular expressions used, including compiled ones of the file."""
        found = []
        for node in self._walk():
            if isinstance(node, ast.Call):
                pattern = _pattern(node, self._texts)
                if pattern is not None:
                    found.append(pattern)
            if isinstance(node, ast.Name) and node.id in self._constants:
                found.append(self._constants[node.id])
        return list(dict.fromkeys(found))

    def names(self, key: str) -> bool:
        """Return whether a text is used as a key or default, and not only searched for in other texts."""
        sought: set[int] = set()
        for node in self._walk():
            if isinstance(node, ast.Compare):
                sought |= {id(part) for part in (node.left, *node.comparators)}
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                sought |= {id(part) for part in node.args if node.func.attr in _TEXT_METHODS}
        held = (node for node in self._walk() if isinstance(node, ast.Constant) and id(node) not in sought)
        return any(node.value == key for node in held)

    def keys_of_kwargs(self) -> dict[str, int]:
        """Return the keys read from `**kwargs` without checking that they exist, with their lines."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        functions = [node for node in self._nodes[:1] if isinstance(node, kinds)]
        for definition in self._nodes[:1]:
            if isinstance(definition, ast.ClassDef):
                functions = [n for n in definition.body if isinstance(n, kinds) and n.name == "__call__"]
        found: dict[str, int] = {}
        for function in functions:
            name = function.args.kwarg.arg if function.args.kwarg is not None else None
            asked = set()
            for node in ast.walk(function):
                if isinstance(node, ast.Compare) and isinstance(node.left, ast.Constant):
                    asked.add(node.left.value)
                key = _key_read(node, name)
                if key is not None:
                    found.setdefault(key, getattr(node, "lineno", function.lineno))
            found = {key: line for key, line in found.items() if key not in asked}
        return found

    def _walk(self) -> Iterator[ast.AST]:
        for node in self._nodes:
            yield from ast.walk(node)


def _reachable(tree: ast.Module, line: int | None) -> Iterator[ast.stmt]:
    """Yield the definition at `line` and, recursively, the file's functions and classes that it uses."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    named = {node.name: node for node in tree.body if isinstance(node, kinds)}
    start = [
        n
        for n in ast.walk(tree)
        if isinstance(n, kinds) and line in (n.lineno, *(d.lineno for d in n.decorator_list))
    ]
    waiting: list[ast.stmt] = list(start)
    seen: set[int] = set()
    while waiting:
        node = waiting.pop(0)
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        waiting += [definition for name, definition in named.items() if name in names]


def _elements(tree: ast.AST) -> Iterator[str]:
    """Yield loop variables for elements of `completions`, also through `zip` and `enumerate`."""

    def bound(target: ast.expr, source: ast.expr) -> Iterator[str]:
        if isinstance(source, ast.Name) and source.id == "completions" and isinstance(target, ast.Name):
            yield target.id
        if not (isinstance(source, ast.Call) and isinstance(target, ast.Tuple)):
            return
        call = getattr(source.func, "id", "")
        if call == "enumerate" and source.args and len(target.elts) == 2:
            yield from bound(target.elts[1], source.args[0])
        elif call == "zip":
            for part, argument in zip(target.elts, source.args, strict=False):
                yield from bound(part, argument)

    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension):
            yield from bound(node.target, node.iter)


def _is_text_use(node: ast.expr, names: set[str]) -> bool:
    """Match `len(c)`, `"x" in c`, `c == "x"`, `c[:9]`, `c.strip()`, `re.search(p, c)`."""

    def is_element(part: ast.AST) -> bool:
        return isinstance(part, ast.Name) and part.id in names

    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            of_re = isinstance(node.func.value, ast.Name) and node.func.value.id in ("re", "regex")
            of_text = is_element(node.func.value) and hasattr(str, node.func.attr)
            return of_text or (of_re and any(map(is_element, node.args)))
        return getattr(node.func, "id", "") == "len" and any(map(is_element, node.args[:1]))
    if isinstance(node, ast.Compare):
        return any(map(is_element, [node.left, *node.comparators]))
    return isinstance(node, ast.Subscript) and is_element(node.value) and isinstance(node.slice, ast.Slice)


def _key_read(node: ast.AST, kwargs: str | None) -> str | None:
    """Return the key of `kwargs["key"]`, `kwargs.get("key")` or `kwargs.pop("key")`."""
    if isinstance(node, ast.Subscript):
        holder, key = node.value, node.slice
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        holder, key = node.func.value, node.args[0]
        if node.func.attr not in ("get", "pop"):
            return None
    else:
        return None
    if not (isinstance(holder, ast.Name) and holder.id == kwargs and isinstance(key, ast.Constant)):
        return None
    return key.value if isinstance(key.value, str) else None


def _is_broad(kind: ast.expr | None) -> bool:
    if isinstance(kind, ast.Tuple):
        return any(_is_broad(part) for part in kind.elts)
    return kind is None or (isinstance(kind, ast.Name) and kind.id in _BROAD)


def _goes_on_with_a_constant(handler: ast.ExceptHandler) -> bool:
    if any(isinstance(node, ast.Raise) for node in ast.walk(handler)):
        return False
    for node in handler.body:
        if isinstance(node, ast.Pass | ast.Continue):
            return True
        value = _given(node)
        if isinstance(node, ast.Return) and value is None:
            return True
        if value is not None and _is_constant(value):
            return not (isinstance(value, ast.Constant) and value.value is None)
    return False


def _given(node: ast.stmt) -> ast.expr | None:
    if isinstance(node, ast.Return | ast.Assign | ast.AnnAssign):
        return node.value
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "append":
        return call.args[0] if call.args else None
    return None


def _is_constant(node: ast.expr) -> bool:
    """Match a literal, a list of literals, `[0.0] * n`, `[0.0 for _ in …]`."""
    if isinstance(node, ast.UnaryOp):
        return _is_constant(node.operand)
    if isinstance(node, ast.List | ast.Tuple):
        return all(_is_constant(item) for item in node.elts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return isinstance(node.left, ast.List) and _is_constant(node.left)
    if isinstance(node, ast.ListComp):
        return _is_constant(node.elt)
    return isinstance(node, ast.Constant)


def _is_distance(node: ast.expr) -> bool:
    """Match `abs(a - b)` of any library and `(a - b) ** 2`, also divided, rounded or turned into a list."""
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in ("float", "int", "round", "list") and node.args:
            return _is_distance(node.args[0])
        if name == "tolist" and isinstance(node.func, ast.Attribute):
            return _is_distance(node.func.value)
        argument = node.args[0] if node.args else None
        return name in _DISTANCES and isinstance(argument, ast.BinOp) and isinstance(argument.op, ast.Sub)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Mult):
        return _is_distance(node.left) and not isinstance(node.right, ast.UnaryOp)
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Pow)
        and isinstance(node.right, ast.Constant)
        and node.right.value == 2
        and isinstance(node.left, ast.BinOp)
        and isinstance(node.left.op, ast.Sub)
    )


def _named_texts(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Return names with a literal text: `pattern = r"…"`, or a parameter with such a default."""
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            pairs = [(target.id, node.value) for target in targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.arguments):
            places = [*node.posonlyargs, *node.args]
            with_default = places[len(places) - len(node.defaults) :]
            pairs = [(a.arg, d) for a, d in zip(with_default, node.defaults, strict=True)]
            pairs += [(a.arg, d) for a, d in zip(node.kwonlyargs, node.kw_defaults, strict=True)]
        else:
            continue
        for name, value in pairs:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found[name] = value.value
    return found


def _pattern_constants(tree: ast.Module, texts: Mapping[str, str]) -> dict[str, Pattern]:
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            pattern = _pattern(node.value, texts)
            for target in node.targets:
                if pattern is not None and isinstance(target, ast.Name):
                    found[target.id] = pattern
    return found


def _pattern(call: ast.Call, texts: Mapping[str, str]) -> Pattern | None:
    function = call.func
    first = call.args[0] if call.args else None
    text = texts.get(first.id) if isinstance(first, ast.Name) else getattr(first, "value", None)
    if not (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id in ("re", "regex")
        and function.attr in _RE_FUNCTIONS
        and isinstance(text, str)
    ):
        return None
    flags = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
    names = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for flag in flags
        for node in ast.walk(flag)
        if isinstance(node, ast.Attribute | ast.Name)
    }
    dotall = bool(names & {"DOTALL", "S"}) or text.startswith("(?s")
    return Pattern(text, function.attr, dotall, call.lineno)
