"""Everything that runs inside the training process. May import the ML stack; no one below may."""
