"""Dark and light theme: one accent; good, bad, attention; text in three strengths."""

from __future__ import annotations

from collections.abc import Mapping

from textual.theme import Theme

DARK = Theme(
    name="grpo-dark",
    primary="#6cb6ff",
    accent="#6cb6ff",
    success="#57c785",
    warning="#e5b567",
    error="#f47067",
    foreground="#d6dbe1",
    background="#121417",
    surface="#1a1d21",
    panel="#22262b",
    dark=True,
    variables={
        "good": "#57c785",
        "bad": "#f47067",
        "attention": "#e5b567",
        "dim": "#8b949e",
        "faint": "#3d444d",
        "band": "#4a5a6d",
        "strong": "#f0f3f6",
        "selection": "#263445",
        "line2": "#c792ea",
        "line3": "#4fd1c5",
        "line4": "#f49ac2",
        "line5": "#b8bb5a",
        "line6": "#c0c6ce",
    },
)

LIGHT = Theme(
    name="grpo-light",
    primary="#0a5fb4",
    accent="#0a5fb4",
    success="#146c2e",
    warning="#8a5a00",
    error="#b3261e",
    foreground="#24292f",
    background="#fbfbfa",
    surface="#f1f1ef",
    panel="#e7e7e4",
    dark=False,
    variables={
        "good": "#146c2e",
        "bad": "#b3261e",
        "attention": "#8a5a00",
        "dim": "#626a73",
        "faint": "#c4c9cf",
        "band": "#a9bacd",
        "strong": "#000000",
        "selection": "#d5e4f5",
        "line2": "#7a3fb0",
        "line3": "#00767a",
        "line4": "#b0347c",
        "line5": "#6b6b00",
        "line6": "#4a5560",
    },
)

THEMES = (DARK, LIGHT)
NAMES = {"dark": DARK.name, "light": LIGHT.name}
"""Names used by the user and in the preferences."""


def first_theme(environment: Mapping[str, str]) -> str:
    """Return the initial theme: light if the terminal reports a light background (`COLORFGBG=0;15`)."""
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT.name if background in ("7", "15") else DARK.name
