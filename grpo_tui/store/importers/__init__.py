"""Runs recorded by others, opened read-only: TRL's own completion logs, and verl's.

The logs are copied into a `run.db` in the user's cache, so that the same reader and search serve all runs.
The original folder is never written to. A child process makes the copy: parquet files need pyarrow, which is
slow to import. `open_copy` updates the copy and returns its folder; `follow` keeps it up to date.
"""
