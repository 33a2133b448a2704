"""Ask about processes, each of which may end, or end and wait to be reaped, between two questions."""

from __future__ import annotations

import contextlib

import psutil


def words_of(process: psutil.Process) -> list[str]:
    """Its command line; empty once it has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def gone(process: psutil.Process | int) -> bool:
    """Whether it has ended, reaped or not: the first process of a container may reap nobody."""
    try:
        one = psutil.Process(process) if isinstance(process, int) else process
        return not one.is_running() or one.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def below(pid: int | None = None, *words: str) -> list[psutil.Process]:
    """What a process, this one by default, and all below it have started, where it has these words."""
    try:
        found = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [one for one in found if not gone(one) and set(words) <= set(words_of(one))]


def everywhere(*words: str) -> list[psutil.Process]:
    """All processes of the machine that have these words."""
    return [one for one in psutil.process_iter() if set(words) <= set(words_of(one))]


def kill(*processes: psutil.Process | int) -> None:
    """Kill those that have not ended by themselves."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            (psutil.Process(process) if isinstance(process, int) else process).kill()
