"""Parts of the panes; each paints lines from the frozen view it is given."""
