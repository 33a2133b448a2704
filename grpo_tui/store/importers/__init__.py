"""Runs that others recorded, opened read-only as runs of ours: TRL's own completion logs, and verl's.

What the files hold is copied into a `run.db` in the user's cache, so that one reader and one search serve
all runs; the folder itself is never written to. The copying is done by a child process, because parquet
files need pyarrow, whose import is as heavy as the whole screen. `open_copy` is the way in: it brings the
copy up to date and says where it is; `follow` keeps it so while the folder grows.
"""

from __future__ import annotations

from grpo_tui.store.importers.copies import (
    LogFolderError,
    LogSource,
    find_sources,
    follow,
    open_copy,
    source_at,
)

__all__ = ["LogFolderError", "LogSource", "find_sources", "follow", "open_copy", "source_at"]
