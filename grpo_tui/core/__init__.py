"""The vocabulary every layer shares: records, commands, text safety. Standard library only."""
