"""The child process that lets the model of a config answer rows, before any training."""

from __future__ import annotations
