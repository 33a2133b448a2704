"""Estimate a run before it starts: prompts, steps, memory, hours, disk."""

from __future__ import annotations
