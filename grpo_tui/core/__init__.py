"""Vocabulary shared by every layer: records, commands, statistics, safe text."""
