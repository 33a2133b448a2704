"""What the text of a reward function shows: each sign is seen where it stands, its look-alikes are not."""

from __future__ import annotations

import textwrap

import pytest

from grpo_tui.rewards.checks.source_text import BroadHandler, Pattern, RewardSource


def source(body: str, before: str = "") -> RewardSource:
    """A reward whose body begins at line 2 of its file, behind what stands `before` it."""
    head = f"{before}def reward(completions, answer, **kwargs):\n"
    return RewardSource(head + textwrap.indent(body, "    "), before.count("\n") + 1)


@pytest.mark.parametrize(
    ("handler", "goes_on"),
    [
        ("except Exception:\n    return 0.0", True),
        ("except:\n    return", True),
        ("except BaseException:\n    pass", True),
        ("except (ValueError, Exception):\n    scores.append(0.0)", True),
        ("except Exception:\n    score = -1.0", True),
        ("except Exception:\n    return [0.0] * len(completions)", True),
        ("except Exception:\n    return [0.0 for _ in completions]", True),
        ("except Exception:\n    return [0.0, 1]", True),
        ("except Exception:\n    print('odd')\n    score = 0.0", True),
        ("except ValueError:\n    return 0.0", False),
        ("except (ValueError, KeyError):\n    return 0.0", False),
        ("except Exception:\n    raise", False),
        ("except Exception:\n    print('odd')\n    raise ValueError", False),
        ("except Exception:\n    score = None", False),
        ("except Exception:\n    scores.append(None)", False),
        ("except Exception:\n    scores.append(other)", False),
        ("except Exception:\n    return other(completions)", False),
        ("except Exception:\n    return [0.0, other]", False),
        ("except Exception:\n    scores.clear()", False),
    ],
)
def test_a_handler_that_hides_every_fault_behind_a_constant_is_seen(handler: str, goes_on: bool) -> None:
    found = source(f"try:\n    a = 1\n    b = 2\n{handler}\n").broad_handlers()
    assert found == ([BroadHandler(3, 4, 5)] if goes_on else [])


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("return [abs(c - a) for c, a in zip(completions, answer)]", 2),
        ("yield math.fabs(a - b)", 2),
        ("scores = []\nscores.append((a - b) ** 2)", 3),
        ("return [round(float(abs(a - b)) / 10, 2) for a, b in pairs]", 2),
        ("return np.abs(a - b).tolist()", 2),
        ("return abs(a - b)", None),
        ("return [abs(a) for a in pairs]", None),
        ("return [-abs(a - b) for a, b in pairs]", None),
        ("return [abs(a - b) / -10 for a, b in pairs]", None),
        ("return [(a - b) ** 3 for a, b in pairs]", None),
        ("return [(a + b) ** 2 for a, b in pairs]", None),
        ("scores.extend(abs(a - b))", None),
    ],
)
def test_a_bare_distance_that_is_given_as_a_score_is_seen(body: str, line: int | None) -> None:
    assert source(body).distance_line() == line


@pytest.mark.parametrize(
    ("body", "use"),
    [
        ("return [len(c) for c in completions]", ("len(c)", 2)),
        ("for c in completions:\n    if 'x' in c:\n        pass", ("'x' in c", 3)),
        ("for n, c in enumerate(completions):\n    c.strip()", ("c.strip()", 3)),
        ("for a, c in zip(answer, completions):\n    c[:9]", ("c[:9]", 3)),
        ("for c in completions:\n    re.search('a', c)", ("re.search('a', c)", 3)),
        ("for c in completions:\n    c['content']", None),
        ("for c in completions:\n    if isinstance(c, str):\n        len(c)", None),
        ("for c in completions:\n    c = c[-1]['content']\n    len(c)", None),
        ("for c in answer:\n    len(c)", None),
        ("for a, c in zip(completions, answer):\n    len(c)", None),
        ("for c in completions:\n    other.search('a', c)", None),
        ("for c in completions:\n    c.content", None),
    ],
)
def test_a_completion_that_is_used_as_one_text_is_seen(body: str, use: tuple[str, int] | None) -> None:
    assert source(body).text_use() == use


@pytest.mark.parametrize(
    ("body", "before", "pattern"),
    [
        ("re.search(r'a.b', completions)", "", Pattern("a.b", "search", False, 2)),
        ("re.findall('a', c, re.DOTALL)", "", Pattern("a", "findall", True, 2)),
        ("re.match('a', c, flags=re.I | re.S)", "", Pattern("a", "match", True, 2)),
        ("re.sub('(?s)a', '', c)", "", Pattern("(?s)a", "sub", True, 2)),
        ("FORM.search(c)", "FORM = re.compile('a', re.I)\n", Pattern("a", "compile", False, 1)),
        ("re.search(FORM, c)", "FORM = 'a+'\n", Pattern("a+", "search", False, 3)),
        ("form: str = 'b'\nre.search(form, c)", "", Pattern("b", "search", False, 3)),
        ("re.escape('a')", "", None),
        ("other.search('a', c)", "", None),
        ("re.search(unknown, c)", "", None),
        ("re.search(4, c)", "", None),
    ],
)
def test_a_pattern_that_stands_in_the_text_is_seen(body: str, before: str, pattern: Pattern | None) -> None:
    assert source(body, before).patterns() == ([pattern] if pattern else [])


def test_the_default_of_a_parameter_is_a_pattern_too() -> None:
    for head in ("def reward(completions, form='a'):", "def reward(completions, *, form='a'):"):
        text = f"{head}\n    re.search(form, completions)\n"
        assert RewardSource(text, 1).patterns() == [Pattern("a", "search", False, 2)]


@pytest.mark.parametrize(
    ("body", "keys"),
    [
        ("kwargs['a']\nkwargs['a']", {"a": 2}),
        ("kwargs.get('b', 0)", {"b": 2}),
        ("kwargs.pop('c')", {"c": 2}),
        ("if 'a' in kwargs:\n    kwargs['a']\nkwargs['b']", {"b": 4}),
        ("other['a']\nkwargs.setdefault('a')\nkwargs[name]\nkwargs[4]", {}),
    ],
)
def test_keys_that_it_reads_unasked_are_seen(body: str, keys: dict[str, int]) -> None:
    assert source(body).keys_of_kwargs() == keys


def test_a_class_is_looked_at_where_it_is_called() -> None:
    text = (
        "class Reward:\n    def other(self, **kwargs):\n        kwargs['no']\n"
        "    def __call__(self, completions, **more):\n        more['yes']\n"
    )
    assert RewardSource(text, 1).keys_of_kwargs() == {"yes": 5}


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("signal.alarm(4)", 2),
        ("x = 1\nsignal.signal(signal.SIGALRM, f)", 3),
        ("signal.pause()", None),
        ("other.alarm(4)", None),
    ],
)
def test_an_alarm_is_seen(body: str, line: int | None) -> None:
    assert source(body).alarm_line() == line


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("row['answer']", True),
        ("if 'answer' in text:\n    pass", False),
        ("text.split('answer')", False),
        ("row.get('answer')", True),
        ("row['other']", False),
    ],
)
def test_a_key_is_told_from_a_text_that_is_looked_for(body: str, named: bool) -> None:
    assert source(body).names("answer") is named


def test_what_it_calls_in_the_same_file_belongs_to_it_and_nothing_else() -> None:
    before = (
        "def helper():\n    deeper()\ndef deeper():\n    signal.alarm(1)\ndef alone():\n    len('zebra')\n"
    )
    found = source("helper()  # a note", before)
    assert found.alarm_line() == 4
    assert ("deeper" in found.text, "zebra" in found.text) == (True, False)
    assert source("pass", before).alarm_line() is None
    assert RewardSource("def broken(:\n", 1).text == ""
