"""Load a dataset as prompts. Heavy imports are deferred."""

from __future__ import annotations
