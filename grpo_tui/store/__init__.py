"""The run folder: `run.db`, the mailbox and the live files. The only package that speaks SQL."""
