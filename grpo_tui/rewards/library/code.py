"""Does the code in a completion pass tests? It runs in a child process with limits on time, memory and files.

The limits keep an endless loop, a memory hog or a fork from harming the run. They are no sandbox: the code
can read what this user can read, and reach the network. For code that no one has looked at, run the whole
training in a container.

In the child the limits come first, then the code, then the test. The proof of passing is read from stdin
before the code is run and kept in the frame of a function that the code does not see by name; it is written
to a pipe once the test has run to its end.
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
"""A program for `python -c`; its arguments: seconds of processor time, bytes of address space, the pipe."""


_FENCE = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
MIB = 1 << 20
GRACE_S = 2.0
"""What an interpreter may take to start on a busy machine, on top of the time the code has."""


class PassesTests(Reward):
    """The share of a row's tests that the code in a completion passes.

    A test is a piece of Python such as `assert add(2, 3) == 5`. Every test runs in a fresh process after the
    completion's code, and counts only when it has run to its end: code that exits, raises `SystemExit` or
    prints a verdict passes nothing.

    Args:
        column: dataset column with the tests of a row: a list of texts, or one text with a test a line.
        code_in: where the code stands: `fence` (the last fenced block), `tag`, or `whole`.
        timeout_s: seconds that one test may take.
        memory_mib: address space that one test may take.
        workers: tests that run at a time.
        all_or_nothing: give 1 only where every test passes.

    Range: 0 to 1; None for a row without tests.
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
        wanted = list(dict.fromkeys(jobs))  # equal completions of a group are run once
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
        """The code that stands in a completion's text, None when there is none."""
        if self.code_in == "fence":
            blocks = _FENCE.findall(text)
            return blocks[-1] if blocks and blocks[-1].strip() else None
        return last_tag(text, self.tag) if self.code_in == "tag" else (text if text.strip() else None)

    def passes(self, code: str, test: str) -> bool:
        """Whether one test passes after the code; runs a child process.

        Raises:
            OSError: no process can be started.
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
    """End the child's whole session, also what it has started and left behind."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _end_left_behind(home: str) -> None:
    """End what has left the child's session, known by the home that the child was given."""
    mark = f"HOME={home}".encode()
    for _ in range(5):  # what is ended may have started another meanwhile
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
