"""Child process for scoring. It imports torch, transformers, TRL and the data, unlike its parent."""

from __future__ import annotations
