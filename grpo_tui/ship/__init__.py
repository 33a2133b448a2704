"""After training: find a model by name, compare models, merge adapters."""

from __future__ import annotations
