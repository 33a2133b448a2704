"""Checks of rewards, by evidence: signature, source, calls, scores, other rewards, reference answers."""

from __future__ import annotations
