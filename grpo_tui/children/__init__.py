"""Child processes: the pipe to one, serving in it, time limits, killing, and forking from a kept one."""

from __future__ import annotations
