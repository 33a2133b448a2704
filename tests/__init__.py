"""The test suite; run it with `make test`."""

from __future__ import annotations

PATIENCE_S = 300.0
"""How long to wait for what must come: only a fault reaches it, however busy the machine is."""
