"""Everything that is checked of a config before it starts: model, data, machine. Knows no screen."""

from __future__ import annotations
