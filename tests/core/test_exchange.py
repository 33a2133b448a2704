"""What one process wrote is the same dataclass in another, or refused with the field's name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import pytest

from grpo_tui.core.exchange import finite_json, rebuilt


@dataclass(frozen=True)
class Part:
    name: str
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Whole:
    pair: tuple[int, str]
    parts: list[Part]
    share: float
    kind: Literal["a", 1]
    known: bool = False
    counts: Mapping[str, int | None] | None = None
    rest: Any = None


WHOLE = Whole((1, "x"), [Part("p", (1, 2)), Part("q")], 0.5, "a", True, {"n": 1, "m": None}, [1, {"k": None}])


def test_a_dataclass_comes_back_from_json_as_it_was() -> None:
    body = json.loads(json.dumps(asdict(WHOLE)))
    assert rebuilt(Whole, body) == WHOLE
    assert rebuilt(Whole, {**body, "newer": 1, "share": 1}).share == 1, "a later version may write more"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pair": [1]}, "pair has 1 items, not 2"),
        ({"pair": [1, "x", 2]}, "pair has 3 items, not 2"),
        ({"pair": ["x", 1]}, "pair is str, not int"),
        ({"parts": {"name": "p"}}, "parts is dict"),
        ({"parts": [{"name": "p", "sizes": [1.5]}]}, "sizes is float, not int"),
        ({"parts": [{"sizes": []}]}, "name"),
        ({"share": "0.5"}, "share is str, not float"),
        ({"share": None}, "share is NoneType, not float"),
        ({"kind": True}, "kind is bool"),
        ({"kind": "b"}, "kind is str"),
        ({"known": 1}, "known is int, not bool"),
        ({"counts": {"n": "1"}}, "counts is dict"),
        ({"counts": {"n": True}}, "counts is dict"),
    ],
)
def test_what_has_another_type_is_refused_by_its_name(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        rebuilt(Whole, {**asdict(WHOLE), **changes})
    with pytest.raises(ValueError, match="Whole is written as a mapping, not as list"):
        rebuilt(Whole, [])


def test_no_number_of_a_body_is_one_that_json_does_not_know() -> None:
    nan, inf = float("nan"), float("inf")
    body = {"list": [nan, 1.5, [inf]], "tuple": (-inf, {"in": (nan, 2)}), 3: nan, "whole": (1, "NaN", None)}
    found = finite_json(body)
    wanted = {"list": [None, 1.5, [None]], "tuple": [None, {"in": [None, 2]}], "3": None}
    assert found == {**wanted, "whole": [1, "NaN", None]}
    assert json.loads(json.dumps(found, allow_nan=False)) == found
