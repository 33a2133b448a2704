"""After training: which model a word names, comparing models, merging adapters."""

from __future__ import annotations
