"""Content of the screens as plain data: run state, series, rows, texts."""
