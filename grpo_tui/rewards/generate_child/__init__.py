"""Child process that generates completions with a config's model."""

from __future__ import annotations
