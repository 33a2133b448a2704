"""A plan as lines and as a bar, and the rates of earlier runs it is made with."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.config.plan.making import Surroundings, plan
from grpo_tui.config.plan.memory import Device
from grpo_tui.config.plan.model import read_shape
from grpo_tui.config.plan.time import Rate
from grpo_tui.config.resolve import load_config
from grpo_tui.config.settings import Settings
from grpo_tui.core import records as r
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.present import known_rates as rates
from grpo_tui.present.glyphs import to_ascii
from grpo_tui.present.plan_text import FREE, memory_bar, memory_list, plan_lines, plan_list
from grpo_tui.store.connection import open_writer
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.spec import RunSpec
from grpo_tui.store.writer import Writer
from tests.config.plan_settings import settings_of

MODEL = str(DEMO_CONFIG.parent / "model")
CARD = Device("a card", 8_000_000_000)


def settings(**grpo: Any) -> Settings:
    return settings_of({"max_steps": 100, "model_name_or_path": MODEL, **grpo})


def lines(*, around: Surroundings | None = None, **grpo: Any) -> str:
    return "\n".join(plan_list(plan(settings(**grpo), around)))


def test_what_is_not_known_is_said_to_be() -> None:
    said = lines(max_steps=-1)
    assert "steps    not known; rows not counted" in said
    assert "time     unknown until this model has run here; train --smoke measures it" in said
    assert f"memory   not planned: {MODEL} has no config.json" in said
    nobody = plan(settings_of({"max_steps": 100, "model_name_or_path": "org/model"}))
    assert "hf download org/model config.json" in memory_list(nobody)[0]
    assert "set model_name_or_path" in memory_list(plan(settings_of({})))[0]
    assert "disk     checkpoints unknown" in said
    assert "rate" not in said.replace("rates", "")


def test_no_reason_is_given_while_the_sizes_of_the_model_are_still_read() -> None:
    made = plan(settings())
    memory = [text for part in plan_lines(made, looking=True)[-1] for text, _ in part[1]]
    assert "".join(memory) == "memory reading the model's sizes …"
    assert "config.json" in str(plan_lines(made)[-1])


def test_what_is_known_is_said_with_its_source() -> None:
    rate = Rate("demo\x1b[2J", MODEL, 2.0, 8, 512, device="cuda")
    around = Surroundings(
        model=read_shape(MODEL), device=CARD, rates=(rate,), prompt_tokens=20, rows=50, free_bytes=10**6
    )
    said = lines(around=around, save_steps=10)
    assert "steps    100 = 2 epochs; 50 rows ÷ 1 prompt a generation: 50 steps an epoch" in said
    assert "about 3m20s, 2.00 s/step, as in demo" in said
    assert "\x1b" not in said
    assert "10 checkpoints × 9.6 MB of 1.0 MB free: too much" in said
    assert "of 8.0 GB (a card); fits up to num_generations" in said
    made = plan(settings(save_steps=10), around)
    assert made.memory is not None
    pane = [text for line in plan_lines(made) for _, texts in line for text, _ in texts]
    most, length = made.memory.most_generations, made.memory.most_length
    assert f"fits up to {most:,} generations or {length:,} tokens" in pane
    unknown = replace(made, memory=replace(made.memory, most_length=None))
    assert "fits up to" not in str(plan_lines(unknown))


@pytest.mark.parametrize(
    ("steps", "pane", "listed"),
    [
        (100, "about 3m20s, as in demo", "about 3m20s, 2.00 s/step, as in demo"),
        (-1, "2.00 s/step, as in demo", "2.00 s/step, as in demo"),
    ],
)
def test_the_time_of_a_step_stands_for_that_of_all_while_nobody_knows_how_many(
    steps: int, pane: str, listed: str
) -> None:
    rate = Rate("demo", MODEL, 2.0, 8, 512, device="cuda")
    around = Surroundings(model=read_shape(MODEL), device=CARD, rates=(rate,), prompt_tokens=20)
    made = plan(settings(max_steps=steps), around)
    shown = ["".join(text for _, texts in line for text, _ in texts) for line in plan_lines(made)]
    assert any(pane in line for line in shown), shown
    assert any(line.endswith(f" {listed}") for line in plan_list(made))


def test_the_list_names_each_part_and_marks_what_is_not_there_at_the_peak() -> None:
    made = plan(settings(), Surroundings(model=read_shape(MODEL), device=CARD, correction=1.5))
    said = memory_list(made)
    assert "(× 1.50 by a trial)" in said[0]
    assert made.memory is not None
    assert len([line for line in said if " MB  " in line or " kB  " in line]) == len(made.memory.parts)
    assert any(line.strip().startswith("- KV cache") for line in said)
    assert any("prompts of 64 tokens are assumed" in line for line in said)


@pytest.mark.parametrize("memory_bytes", [10**9, 2 * 10**9, 8 * 10**9, 10**13])
@pytest.mark.parametrize("width", [1, 20, 77])
def test_the_bar_is_as_wide_as_asked_and_full_where_nothing_fits(memory_bytes: int, width: int) -> None:
    made = plan(settings(), Surroundings(model=read_shape(MODEL), device=Device("x", memory_bytes))).memory
    assert made is not None
    bar = memory_bar(made, width)
    assert len(bar) == width
    free = bar.count(FREE) / width
    assert free == pytest.approx(max(0.0, 1 - made.peak_bytes / memory_bytes), abs=1 / width)
    assert to_ascii(bar).isascii()


def test_without_a_device_there_is_no_bar() -> None:
    made = plan(settings(), Surroundings(model=read_shape(MODEL))).memory
    assert made is not None
    assert memory_bar(made, 20) == ""
    assert "no GPU to compare it with" in "\n".join(
        lines(around=Surroundings(model=read_shape(MODEL))).splitlines()
    )


# -- rates ------------------------------------------------------------------------------------------


def make_run(
    root: Path, times: list[float], *, host: str = "", world: int | None = None, use_cpu: bool = True
) -> None:
    """A run folder with a config and logged steps."""
    folder = RunFolder(root)
    root.mkdir(parents=True)
    RunSpec(load_config(DEMO_CONFIG, [f"use_cpu={use_cpu}"]).to_json()).write(folder.spec)
    connection = open_writer(folder.database)
    writer = Writer(connection)
    found: list[Any] = [r.AttemptStarted(1, 5.0, host or socket.gethostname(), 1)]
    found += [r.MetricRow(1, n + 1, time.time(), {"step_time": value}) for n, value in enumerate(times)]
    if world is not None:
        found.append(r.Fact("peak_memory", {"device": "cuda", "world_size": world}))
    writer.write(found)
    connection.close()


@pytest.fixture(autouse=True)
def nothing_known_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rates._known.cache_clear()
    monkeypatch.chdir(tmp_path)


def test_rates_come_from_runs_of_the_model_on_this_machine(tmp_path: Path) -> None:
    make_run(tmp_path / "outputs" / "a", [9.0, 1.0, 2.0, 3.0])
    make_run(tmp_path / "b", [0.5], world=2)
    make_run(tmp_path / "elsewhere", [0.1], host="another host")
    make_run(tmp_path / "unmeasured", [4.0, -1.0, 5.0], use_cpu=False)
    make_run(tmp_path / "empty", [])
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    found = {rate.run: rate for rate in rates.known_rates([tmp_path], MODEL)}
    assert set(found) == {"a", "b", "unmeasured"}
    assert (found["unmeasured"].step_s, found["unmeasured"].device) == (4.5, "cuda")
    assert (found["a"].step_s, found["a"].completions, found["a"].device) == (2.5, 64, "cpu")
    assert (found["b"].completions, found["b"].world_size, found["b"].device) == (128, 2, "cuda")
    assert rates.known_rates([tmp_path / "none"], "another model") == ()


def test_of_many_runs_in_a_folder_the_newest_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rates, "MOST_RUNS", 2)
    for number, name in enumerate(("newer", "oldest", "newest")):
        make_run(tmp_path / "all" / name, [1.0])
        at = (2_000, 1_000, 3_000)[number]
        os.utime(tmp_path / "all" / name / "run.json", (at, at))
    assert [rate.run for rate in rates.known_rates([tmp_path / "all"], MODEL)] == ["newest", "newer"]


@pytest.mark.parametrize(("held_by", "said"), [("", False), ("ana's python", True)])
def test_who_holds_the_card_is_said_where_somebody_does(held_by: str, said: bool) -> None:
    device = replace(CARD, held_by=held_by)
    around = Surroundings(model=read_shape(MODEL), device=device)
    assert ("in use by" in lines(around=around)) is said


def test_a_plan_of_one_step_counts_one_step() -> None:
    parts = [
        text for line in plan_lines(plan(settings(max_steps=1))) for _, texts in line for text, _ in texts
    ]
    assert "1 step" in parts
