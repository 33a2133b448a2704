"""Reward functions: find, load and name them as training does. Heavy imports are deferred."""

from __future__ import annotations
