"""Run the command line as `python -m grpo_tui`. Knows nothing of the commands themselves."""

from __future__ import annotations

import sys

from grpo_tui.cli import main

if __name__ == "__main__":
    sys.exit(main())
