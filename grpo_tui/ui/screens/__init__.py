"""One file per pane, and the dialogs."""
