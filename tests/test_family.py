"""What tests ask about processes has an answer whatever ends meanwhile."""

from __future__ import annotations

import os
import subprocess

import psutil

from tests.family import below, everywhere, gone, kill, words_of


def test_a_process_that_has_ended_is_gone_before_it_is_reaped_and_after() -> None:
    lasts = f"5321.{os.getpid()}"
    sleeper = subprocess.Popen(["sleep", lasts])
    process = psutil.Process(sleeper.pid)
    assert process.pid in [one.pid for one in below(None, "sleep", lasts)]
    assert everywhere(lasts) == [process]
    assert not gone(process)
    kill(process)
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is not reaped
    assert process.is_running(), "what psutil says of it"
    for one in (process, sleeper.pid):
        assert gone(one)
    assert words_of(process) == []
    assert below(None, lasts) == below(sleeper.pid) == everywhere(lasts) == []
    kill(process, sleeper.pid)
    sleeper.wait()
    for one in (process, sleeper.pid):
        assert gone(one)
    assert words_of(process) == []
    assert below(sleeper.pid) == []
    kill(process, sleeper.pid)
