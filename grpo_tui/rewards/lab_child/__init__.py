"""The lab's child process: the only part of `rewards` that imports torch, transformers, TRL and the data."""

from __future__ import annotations
