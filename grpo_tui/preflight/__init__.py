"""Everything that is checked of a config before it starts: model, data, machine."""

from __future__ import annotations
