"""What runs in a fork runs as a new process does, and is a new process where the fork would differ."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests import forked

pytestmark = pytest.mark.slow

SCRIPT = """\
import atexit, json, os, signal, subprocess, sys
atexit.register(print, "the end")
sub = [sys.executable, "-m", "grpo_tui", "--version"]
inner = subprocess.run(sub, capture_output=True, text=True, start_new_session=True)
print(json.dumps({
    "imported": "trl" in sys.modules, "words": sys.argv[1:], "name": __name__, "place": os.getcwd(),
    "mask": os.umask(0), "stdin": sys.stdin.read(), "version": [inner.returncode, inner.stdout, inner.stderr],
    "files": sorted(os.listdir("/proc/self/fd"), key=int)[:3], "state": os.environ["GRPO_TUI_STATE_DIR"],
    "signals": [str(signal.getsignal(n)) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)],
}))
print("to stderr", file=sys.stderr)
sys.exit(7)
"""


def said(path: Path, folder: Path) -> tuple[dict[str, Any], tuple[int, str, str]]:
    done = forked.run([str(path), "one", "two words"], folder)
    first, rest = done.stdout.split("\n", 1)
    return json.loads(first), (done.returncode, rest, done.stderr)


def test_a_fork_is_as_a_new_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    before = os.umask(0o027)
    try:
        in_fork, ending = said(script, tmp_path)
        monkeypatch.setenv("OMP_NUM_THREADS", "3")  # which torch reads while it is imported
        anew, other_ending = said(script, tmp_path)
    finally:
        os.umask(before)
    assert (in_fork.pop("imported"), anew.pop("imported")) == (True, False)
    assert in_fork == anew
    assert ending == other_ending == (7, "the end\n", "to stderr\n")


def test_a_killed_fork_is_told_as_a_killed_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert forked.run([str(script)]).returncode == -9
