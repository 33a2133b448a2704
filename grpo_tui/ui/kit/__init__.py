"""What several panes are built from."""
