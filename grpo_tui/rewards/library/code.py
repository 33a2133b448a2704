"""Run the code of a completion against tests, in a child process with limits on time, memory and files.

The limits protect the run from endless loops, memory hogs and forks. They are not a sandbox: the code can
read what this user can read, and reach the network. For untrusted code, run the whole training in a
container.

The child sets the limits, then runs the code, then the test. The proof of passing is read from stdin before
the code runs, and kept in the frame of a function that the code does not know by name. It is written to a
pipe when the test has finished.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from grpo_tui.core.answers import last_tag
from grpo_tui.core.text import completion_text
from grpo_tui.rewards.library.base import Reward, column, require

LIMITED = """
import os, resource, sys
seconds, memory, pipe = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
proof = os.read(0, 64)
for what, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory),
                   (resource.RLIMIT_FSIZE, 1 << 20), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, 64)):
    resource.setrlimit(what, (most, most))
sys.argv = ["code.py"]
def main(proof, pipe, write):
    here = os.getpid()
    names = {"__name__": "code"}
    code = open("code.py", encoding="utf-8").read()
    test = open("test.py", encoding="utf-8").read()
    exec(compile(code, "code.py", "exec"), names)
    exec(compile(test, "test.py", "exec"), names)
    if os.getpid() == here:
        write(pipe, proof)
main(proof, pipe, os.write)
"""
"""Program for `python -c`. Its arguments are seconds of CPU time, bytes of address space, and the pipe."""


_FENCE = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
MIB = 1 << 20
GRACE_S = 2.0
"""Extra time for an interpreter to start on a busy machine."""


class PassesTests(Reward):
    """Fraction of a row's tests that the code in a completion passes.

    A test is Python code such as `assert add(2, 3) == 5`. Every test runs in a fresh process after the
    completion's code, and counts only if it finishes: code that exits, raises `SystemExit` or prints a
    verdict passes nothing.

    Args:
        column: dataset column with the tests of a row: a list of texts, or one text with one test per line.
        code_in: place of the code: `fence` (the last fenced block), `tag`, or `whole`.
        tag: name of the tag, for `tag`.
        timeout_s: time limit per test.
        memory_mib: limit of address space per test.
        workers: number of tests to run in parallel.
        all_or_nothing: whether to return 1 only if every test passes, otherwise 0.

    Range: 0 to 1, None for a row without tests.
    """

    def __init__(
        self,
        *,
        column: str = "tests",
        code_in: str = "fence",
        tag: str = "answer",
        timeout_s: float = 5.0,
        memory_mib: int = 512,
        workers: int = 4,
        all_or_nothing: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        require(code_in in ("fence", "tag", "whole"), f"code_in is fence, tag or whole, not {code_in!r}")
        require(timeout_s > 0 and memory_mib >= 64 and workers >= 1, "a limit is too small to run anything")
        self.column, self.code_in, self.tag = column, code_in, tag
        self.timeout_s, self.memory_mib, self.workers = timeout_s, memory_mib, workers
        self.all_or_nothing = all_or_nothing

    def __call__(self, completions: Sequence[Any], **kwargs: Any) -> list[float | None]:
        """See `Reward.__call__`."""
        rows = [_tests(value) for value in column(self.column, kwargs, self.__name__)]
        codes = [self.code(completion_text(completion)) for completion in completions]
        jobs = [(code, test) for code, tests in zip(codes, rows, strict=True) for test in tests if code]
        wanted = list(dict.fromkeys(jobs))  # run equal completions of a group once
        with ThreadPoolExecutor(max_workers=self.workers) as pool:
            passed = dict(zip(wanted, pool.map(lambda job: self.passes(*job), wanted), strict=True))
        return [self._value(code, tests, passed) for code, tests in zip(codes, rows, strict=True)]

    def _value(
        self, code: str | None, tests: Sequence[str], passed: dict[tuple[str, str], bool]
    ) -> float | None:
        if not tests:
            return None
        share = sum(passed[code, test] for test in tests) / len(tests) if code else 0.0
        return float(share == 1.0) if self.all_or_nothing else share

    def code(self, text: str) -> str | None:
        """Return the code in a completion's text, or None."""
        if self.code_in == "fence":
            blocks = _FENCE.findall(text)
            return blocks[-1] if blocks and blocks[-1].strip() else None
        return last_tag(text, self.tag) if self.code_in == "tag" else (text if text.strip() else None)

    def passes(self, code: str, test: str) -> bool:
        """Return whether a test passes after the code, in a child process.

        Raises:
            OSError: the process cannot be started.
        """
        proof = secrets.token_hex(16)
        limits = (str(max(1, round(self.timeout_s))), str(self.memory_mib * MIB))
        with tempfile.TemporaryDirectory(prefix="grpo-code-") as folder:
            Path(folder, "code.py").write_text(code, encoding="utf-8", errors="replace")
            Path(folder, "test.py").write_text(test, encoding="utf-8", errors="replace")
            return self._run([sys.executable, "-I", "-S", "-c", LIMITED, *limits], folder, proof)

    def _run(self, command: list[str], folder: str, proof: str) -> bool:
        reading, writing = os.pipe()
        try:
            child = subprocess.Popen(
                [*command, str(writing)],
                cwd=folder,
                env={"PATH": os.defpath, "HOME": folder, "LANG": "C.UTF-8"},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(writing,),
                start_new_session=True,
            )
            os.close(writing)
            writing = -1
            try:
                child.communicate(proof.encode(), timeout=self.timeout_s + GRACE_S)
            except subprocess.TimeoutExpired:
                return False
            finally:
                _end(child)
                _end_left_behind(folder)
            os.set_blocking(reading, False)
            try:
                return os.read(reading, 64) == proof.encode()
            except BlockingIOError:
                return False
        finally:
            for descriptor in (reading, writing):
                if descriptor >= 0:
                    os.close(descriptor)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill the child's session, including processes that it left behind."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _end_left_behind(home: str) -> None:
    """Kill processes that left the child's session. They still have the child's HOME."""
    mark = f"HOME={home}".encode()
    for _ in range(5):  # a process may start another before it is killed
        found = False
        for entry in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError, ValueError):
                if mark in entry.read_bytes().split(b"\0"):
                    os.kill(int(entry.parent.name), signal.SIGKILL)
                    found = True
        if not found:
            return


def _tests(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return tuple(line for line in value.splitlines() if line.strip())
    return tuple(str(test) for test in value)
