"""Reward functions: found, loaded and named as training will see them. Heavy imports wait."""

from __future__ import annotations
