"""Checks of a config before a start: model, data, machine."""

from __future__ import annotations
