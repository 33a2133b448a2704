"""Building blocks that several panes share."""
