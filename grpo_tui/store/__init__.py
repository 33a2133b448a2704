"""The run folder: `run.db`, the mailbox and the live files. All SQL is in this package."""
