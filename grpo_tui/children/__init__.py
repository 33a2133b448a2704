"""Child processes: pipes, serving, time limits, killing, and forking from a preloaded process."""

from __future__ import annotations
