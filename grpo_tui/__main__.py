"""Run the command line with `python -m grpo_tui`."""

from __future__ import annotations

import sys

from grpo_tui.cli import main

if __name__ == "__main__":
    sys.exit(main())
