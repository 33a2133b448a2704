"""Tests with real processes, signals and a real pseudo-terminal."""
