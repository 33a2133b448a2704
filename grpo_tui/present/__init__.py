"""What the screen will say, as plain data: folded run state, series, rows, words. No widgets, no SQL."""
