"""From a dataset to prompts, as the config says. Heavy imports happen inside the functions that need them."""

from __future__ import annotations
