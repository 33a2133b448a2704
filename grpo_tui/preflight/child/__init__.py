"""The checker's child process: imports what reads models, tokenizers and datasets, and answers in parts."""

from __future__ import annotations
