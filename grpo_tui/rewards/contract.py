"""What TRL requires of a reward function: the arguments it takes and the values it returns.

TRL reports most mistakes late, and some without the function's name: a missing `**kwargs` after the first
generation, a single number as "'float' object is not iterable". Errors here name the reward, the value and
the fix. The completion that makes a function raise is found by scoring each alone. A single call has no time
limit: a hanging call is up to the caller.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from grpo_tui.config.meant import nearest
from grpo_tui.core.text import completion_text, prompt_text, shorten

ALWAYS = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric")
"""Keyword arguments of every call in TRL 1.16, besides the dataset columns."""
NOT_PASSED = ("prompt", "completion", "completion_ids")
"""Columns that TRL does not pass on."""


_ATOMS = (str, int, float, bool, type(None))


def copied(value: Any) -> Any:
    """Copy the lists and mappings of an argument, because a function may change them.

    Other values are not copied.
    """
    if isinstance(value, list):
        if all(type(item) in _ATOMS for item in value):
            return value.copy()  # fast path for the many token ids
        return [copied(item) for item in value]
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return value


class RewardContractError(ValueError):
    """A reward function breaks TRL's contract. The message names the function and the fix."""


def checked(name: str, result: Any, count: int) -> Any:
    """Return a reward function's result in a form that TRL can use.

    Args:
        result: the function's return value. An iterator becomes a list; the rest is unchanged.

    Raises:
        RewardContractError: TRL cannot use the result.
    """

    def refuse(what: str) -> RewardContractError:
        return RewardContractError(
            f"reward function '{name}' returned {what}; TRL wants one number (or None) for each of the "
            f"{count} completions"
        )

    if result is None:
        raise refuse("None, as a function does that ends without `return`")
    if isinstance(result, dict | str | bytes | set | frozenset) or not isinstance(result, Iterable):
        raise refuse(f"{_shown(result)}, which is {_kind(result)}")
    if getattr(result, "shape", None) == ():
        raise refuse(f"the single value {_shown(result)}")
    if not hasattr(result, "__len__"):
        result = list(result)
    if len(result) != count:
        raise refuse(f"{len(result)} value{'s' * (len(result) != 1)}")
    if not hasattr(result, "shape"):
        for position, value in enumerate(result):
            if value is not None and not _is_number(value):
                raise refuse(f"{_shown(value)}, {_kind(value)}, for completion {position + 1}")
    return result


def refuse_shortened(name: str, kwargs: Mapping[str, Any], count: int) -> None:
    """Check that a function did not change the length of `prompts`, by which TRL counts.

    Raises:
        RewardContractError: `prompts` has a different length than before the call.
    """
    left = kwargs.get("prompts")
    if left is not None and len(left) != count:
        raise RewardContractError(
            f"reward function '{name}' changed prompts, which held {count} before and {len(left)} after; "
            "TRL continues with the changed list. Work on a copy: list(prompts)"
        )


def check_call(name: str, function: Callable[..., Any], columns: Collection[str]) -> list[str]:
    """Check a reward function's parameters against what TRL will pass.

    Returns:
        Warnings on parameters that stay at their default None because no column fills them.

    Raises:
        RewardContractError: TRL's call would fail.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return []  # C functions may have no signature
    faults = signature_faults(name, parameters, columns, _place(function))
    for fault in faults:
        if fault.fatal:
            raise RewardContractError(fault.message)
    return [fault.message for fault in faults]


@dataclass(frozen=True, slots=True)
class ParameterFault:
    """Problem with a function's parameters.

    Attributes:
        rule: `missing-column`, `positional-only`, `missing-kwargs` or `unfilled-default`.
        parameter: the parameter, or the first argument that the function does not accept.
    """

    rule: str
    fatal: bool
    message: str
    parameter: str
    near: str | None = None


def signature_faults(
    name: str, parameters: Mapping[str, inspect.Parameter], columns: Collection[str], place: str
) -> list[ParameterFault]:
    """Return the problems with a function's parameters, fatal ones first."""
    own = [column for column in columns if column not in NOT_PASSED]
    passed = [*ALWAYS, *own]
    found = []
    for p in parameters.values():
        variable = p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        if p.default is p.empty and not variable and (p.name not in passed or p.kind is p.POSITIONAL_ONLY):
            found.append(_unfilled(name, p, columns, place))
            if found[-1].rule == "positional-only":
                break
    kinds = {parameter.kind for parameter in parameters.values()}
    unknown = [key for key in passed if key not in parameters]
    if inspect.Parameter.VAR_KEYWORD not in kinds and unknown:
        taken = ", ".join([*_as_written(parameters), "**kwargs"])
        message = (
            f"reward function '{name}' does not accept {unknown[0]}, which TRL passes with every call. "
            f"Write it as `({taken})`{place}"
        )
        found.append(ParameterFault("missing-kwargs", True, message, unknown[0]))
    for p in parameters.values():
        if p.default is None and p.name not in passed:
            message = (
                f"reward '{name}': its parameter {p.name} stays None because the dataset has no such "
                f"column.{_like(p.name, own)}"
            )
            found.append(ParameterFault("unfilled-default", False, message, p.name, near_column(p.name, own)))
    return found


def _unfilled(name: str, p: inspect.Parameter, columns: Collection[str], place: str) -> ParameterFault:
    own = [column for column in columns if column not in NOT_PASSED]
    subject = f"reward function '{name}'"
    if p.kind is p.POSITIONAL_ONLY:
        message = (
            f"{subject} takes {p.name} by position only, and TRL passes everything by name. Remove the `/` "
            f"from its parameters{place}"
        )
        return ParameterFault("positional-only", True, message, p.name)
    near = None
    if p.name in ("self", "cls"):
        message = (
            f"{subject} needs {p.name}: it is a method without an object. Name the class and give it a "
            f"__call__, or make it a staticmethod{place}"
        )
    elif p.name in NOT_PASSED:
        message = (
            f"{subject} needs {p.name}, a column that TRL does not pass on. TRL passes {p.name}s, a list "
            f"with one item per completion. Rename the parameter to that{place}"
        )
    else:
        near = near_column(p.name, own)
        message = (
            f"{subject} needs {p.name}, which is not a column of the dataset. The columns are "
            f"{', '.join(sorted(columns))}.{_like(p.name, own)}"
        )
    return ParameterFault("missing-column", True, message, p.name, near)


def _as_written(parameters: Mapping[str, inspect.Parameter]) -> list[str]:
    written: list[str] = []
    for p in parameters.values():
        if p.kind is p.KEYWORD_ONLY and not any(word.startswith("*") for word in written):
            written.append("*")
        written.append(f"*{p.name}" if p.kind is p.VAR_POSITIONAL else p.name)
    return written


def near_column(word: str, columns: Collection[str]) -> str | None:
    """Return the column with the most similar name, or the only column, or None."""
    others = [column for column in columns if column not in NOT_PASSED]
    return nearest(word, others, cutoff=0.5) or (others[0] if len(others) == 1 else None)


def _like(word: str, columns: Collection[str]) -> str:
    near = near_column(word, columns)
    return f" If it means {near}: `grpo_tui.columns: {{{word}: {near}}}`" if near else ""


def _place(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f" ({code.co_filename.rpartition('/')[2]}:{code.co_firstlineno})" if code is not None else ""


def _is_number(value: Any) -> bool:
    if isinstance(value, str | bytes):
        return False  # `float("1.0")` works, but TRL's tensor of strings does not
    try:
        float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return False
    return True


def _shown(value: Any) -> str:
    try:
        return shorten(repr(value), 60)
    except Exception:
        return f"a {type(value).__name__}"


def _kind(value: Any) -> str:
    if isinstance(value, int | float):
        return "one number for all" if isinstance(value, bool) or abs(value) < 1e300 else "too large a number"
    if inspect.iscoroutine(value):
        return "a coroutine: it must be `async def` itself for TRL to wait for it"
    if isinstance(value, str):
        return "a text"
    return f"of type {type(value).__name__}"


def guilty_samples(
    call: Callable[..., Any], error: type[BaseException], kwargs: Mapping[str, Any], limit_s: float = 1e9
) -> list[int]:
    """Return the completions that raise `error` when scored alone. Empty when all or none of them do.

    Args:
        error: class of the exception raised for the whole batch. Other exceptions propagate.
        kwargs: arguments of the batch. A list as long as the completions has one entry per completion.
        limit_s: seconds until the search is given up and an empty list is returned.
    """
    completions = kwargs.get("completions")
    if not isinstance(completions, list):
        return []
    guilty: list[int] = []
    end = time.monotonic() + limit_s
    for i in range(len(completions)):
        if time.monotonic() > end:
            return []
        one = slice(i, i + 1)
        alone = {k: v[one] if _per_sample(v, completions) else v for k, v in kwargs.items()}
        try:
            call(**alone)
        except error:
            guilty.append(i)
    return [] if len(guilty) == len(completions) else guilty


def sample_in_words(kwargs: Mapping[str, Any], index: int) -> str:
    """Return `completion "…" of prompt "…"` for one completion of a batch."""
    text = completion_text(kwargs["completions"][index])
    prompt = prompt_text((kwargs.get("prompts") or [""])[index])
    return f'completion "{shorten(text, 200)}" of prompt "{shorten(prompt, 100)}"'


def _per_sample(value: Any, completions: list[Any]) -> bool:
    return isinstance(value, list) and len(value) == len(completions)
