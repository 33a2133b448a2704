"""A child that is asked: what it is given, what comes back, and how it ends, started afresh and by a fork."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from grpo_tui.children import forker as forking
from grpo_tui.children import serving
from grpo_tui.children.asking import AskedChild, EndedError, RefusedError
from grpo_tui.children.forker import Forker
from grpo_tui.children.pipe import (
    ChildGoneError,
    ChildHungError,
    ChildPipe,
    ModuleStarter,
    Starter,
    StartError,
)
from tests import PATIENCE_S
from tests.family import gone

CHILD = """
import os, subprocess, sys, threading, time
from grpo_tui.children.serving import serve_alone, stand_back
from tests.family import gone

class Odd(Exception):
    def __str__(self):
        raise RuntimeError("no words")

class Child:
    def __init__(self, send):
        self.send, self.asked = send, 0

    def look(self, words="none"):
        self.asked += 1
        stand_back()
        return {"asked": self.asked, "words": words, "folder": os.getcwd(), "path": sys.path[0],
                "modules": os.environ["PYTHONPATH"] in sys.path,
                "mark": os.environ.get("MARK", ""), "session": os.getsid(0), "pid": os.getpid(),
                "nice": os.getpriority(os.PRIO_PROCESS, 0), "input": os.readlink("/proc/self/fd/0"),
                "byte_code": not sys.dont_write_bytecode}

    def tell(self, count):
        for number in range(count):
            self.send({"event": number})
        return {"told": count}

    def raises(self, what):
        raise {"value": ValueError("wrong " * 1000), "bare": KeyError(), "odd": Odd()}[what]

    def hangs(self):
        print("first", flush=True)
        print("the last words", flush=True)
        time.sleep(600)

    def starts(self, apart=True):
        print("of the call before", flush=True)
        return {"pid": subprocess.Popen(["sleep", "600"], start_new_session=apart).pid}

    def orphans(self):
        words = ["sh", "-c", "sleep 600 > /dev/null 2>&1 & echo $!"]
        return {"pid": int(subprocess.run(words, stdout=subprocess.PIPE, start_new_session=True).stdout)}

    def leaves(self, code):
        print("Traceback (most recent call last):\\nit leaves", flush=True)
        os._exit(code)
"""
ALONE = "if __name__ == '__main__':\n    serve_alone(Child)\n"
FORKER = """
import sys
from grpo_tui.children.forker import fork_children
from child_that_answers import Child

if __name__ == "__main__":
    fork_children(int(sys.argv[1]), lambda: None, Child)
"""

PARENT = """
import sys
from grpo_tui.children.forker import Forker
from grpo_tui.children.pipe import ChildPipe, ModuleStarter

kind, after = sys.argv[1:]
afresh = ModuleStarter("child_that_answers")
pipe = ChildPipe(Forker.acquire("forker_that_forks", 60) if kind == "forked" else afresh, ".")
pipe.send({"do": "starts", "apart": False}, 60)
print(pipe.receive(60)["reply"]["pid"], pipe.pid, flush=True)
if after == "busy":
    pipe.send({"do": "hangs"}, 60)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def modules(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs of the children, where Python finds them."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "child_that_answers.py").write_text(CHILD + ALONE)
    (folder / "forker_that_forks.py").write_text(FORKER)
    (folder / "forker_that_sleeps.py").write_text("import time; time.sleep(600)")
    (folder / "forker_that_breaks.py").write_text("raise SystemExit('no such library')")
    talks = "import sys\nsys.stderr.write('loading\\n' * 900)\nsys.exit('no such device\\n \\n')"
    (folder / "forker_that_talks.py").write_text(talks)
    (folder / "forker_that_is_silent.py").write_text("print(' \\n'); raise SystemExit(7)")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv("MARK", "given")
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)


@pytest.fixture
def child() -> Iterator[AskedChild]:
    with AskedChild("child_that_answers") as asked:
        yield asked


@pytest.fixture
def typed() -> Iterator[None]:
    """A standard input from which something can be read."""
    before, (reading, writing) = os.dup(0), os.pipe()
    os.dup2(reading, 0)
    yield
    os.dup2(before, 0)
    for descriptor in (before, reading, writing):
        os.close(descriptor)


@pytest.fixture(params=["afresh", "forked"])
def pipe(request: pytest.FixtureRequest, tmp_path: Path, typed: None) -> Iterator[ChildPipe]:
    """A child of either kind."""
    forker = Forker.acquire("forker_that_forks", 60) if request.param == "forked" else None
    starter: Starter = forker or ModuleStarter("child_that_answers")
    opened = ChildPipe(starter, str(tmp_path))
    yield opened
    opened.close()
    if forker is not None:
        forker.release()
        assert not forker.lives()


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


def ask(child: AskedChild, do: str, **words: Any) -> dict[str, Any]:
    return child.ask({"do": do, **words}, lambda event: None, cancel=threading.Event())


def called(pipe: ChildPipe, do: str, **words: Any) -> dict[str, Any]:
    pipe.send({"do": do, **words}, 60)
    return pipe.receive(60)


def test_a_child_has_its_folder_its_environment_and_a_session_of_its_own(
    pipe: ChildPipe, tmp_path: Path
) -> None:
    reply = called(pipe, "look", words="日本")["reply"]
    assert (reply["asked"], reply["words"], reply["mark"]) == (1, "日本", "given")
    assert reply["folder"] == reply["path"] == str(tmp_path)
    assert reply["modules"], "packages that only PYTHONPATH names can be imported"
    assert reply["input"] == "/dev/null", "it takes no key from whoever types here"
    assert not reply["byte_code"], "it leaves none beside the files of a person"
    assert reply["session"] == reply["pid"] == pipe.pid != os.getsid(0)
    assert reply["nice"] == max(serving.NICENESS, os.getpriority(os.PRIO_PROCESS, 0))
    assert called(pipe, "look")["reply"]["asked"] == 2, "it is the same child"


def test_events_come_in_their_order_before_the_reply(child: AskedChild) -> None:
    events: list[Mapping[str, Any]] = []
    reply = child.ask({"do": "tell", "count": 500}, events.append, cancel=threading.Event())
    assert events == [{"event": number} for number in range(500)]
    assert reply == {"told": 500}
    first = child.pid
    assert ask(child, "look")["pid"] == first, "it is kept"


@pytest.mark.parametrize(
    ("what", "said", "kind"),
    [
        ("value", ("wrong " * 1000)[:2000], "ValueError"),
        ("bare", "KeyError", "KeyError"),
        ("odd", "a Odd that cannot be shown", "Odd"),
    ],
)
def test_a_child_that_refuses_says_why_and_can_be_asked_again(
    child: AskedChild, what: str, said: str, kind: str
) -> None:
    with pytest.raises(RefusedError) as refused:
        ask(child, "raises", what=what)
    assert (str(refused.value), refused.value.type) == (said, kind)
    assert ask(child, "look")["asked"] == 1


def test_a_folder_that_is_not_there_is_this_process_s_own(child: AskedChild, tmp_path: Path) -> None:
    reply = child.ask({"do": "look"}, print, folder=str(tmp_path / "none"), cancel=threading.Event())
    assert reply["folder"] == os.getcwd()
    child.close()
    reply = child.ask({"do": "look"}, print, folder=str(tmp_path), cancel=threading.Event())
    assert reply["folder"] == str(tmp_path)


def test_a_call_that_is_ended_ends_the_child_and_the_next_starts_another(child: AskedChild) -> None:
    first, cancel, waited = ask(child, "look")["pid"], threading.Event(), list[float]()

    def waiting(seconds: float) -> None:
        waited.append(seconds)
        cancel.set()

    with pytest.raises(EndedError):
        child.ask({"do": "hangs"}, print, cancel=cancel, waiting=waiting)
    assert waited
    assert child.pid is None
    assert gone(first)
    with pytest.raises(EndedError):
        child.ask({"do": "look"}, print, cancel=cancel)
    assert child.pid is None, "nothing is started for a call that is ended already"
    assert ask(child, "look")["pid"] != first


def test_a_child_that_says_nothing_for_too_long_is_killed() -> None:
    with AskedChild("child_that_answers") as child:
        first = ask(child, "look")["pid"]
        child.quiet_s = 0.3
        with pytest.raises(ChildHungError, match=r"it said nothing for 0\.3 s"):
            ask(child, "hangs")
        assert gone(first)


def test_a_child_that_hangs_is_told_by_what_it_printed_last(pipe: ChildPipe) -> None:
    called(pipe, "starts")
    pipe.send({"do": "hangs"}, 60)
    until(lambda: "last words" in pipe.output())
    assert not pipe.killed
    with pytest.raises(ChildHungError) as hung:
        pipe.receive(0.0)
    assert hung.value.output == "first\nthe last words", "of this call alone"
    assert pipe.killed
    until(lambda: gone(pipe.pid))


def test_a_message_larger_than_a_pipe_arrives_whole_and_one_that_nobody_reads_ends_the_child(
    pipe: ChildPipe,
) -> None:
    words = "é\n" * 200_000
    assert called(pipe, "look", words=words)["reply"]["words"] == words
    pipe.send({"do": "hangs"}, 60)
    with pytest.raises(ChildHungError):
        pipe.send({"do": "look", "words": words}, 0.0)
    assert pipe.killed


@pytest.mark.parametrize(("code", "how"), [(0, "exit code 0"), (3, "exit code 3")])
def test_a_child_that_leaves_is_told_by_its_code_and_last_line(pipe: ChildPipe, code: int, how: str) -> None:
    pipe.send({"do": "leaves", "code": code}, 60)
    with pytest.raises(ChildGoneError, match=f"^{how}; it said: it leaves$"):
        pipe.receive(60)


def test_what_a_child_started_goes_with_it_also_out_of_another_session(pipe: ChildPipe) -> None:
    left = called(pipe, "starts")["reply"]["pid"]
    assert not gone(left)
    pipe.close()
    until(lambda: gone(left))


@pytest.mark.parametrize("after", ["idle", "busy"])
@pytest.mark.parametrize("kind", ["afresh", "forked"])
def test_what_a_child_started_goes_when_the_program_is_killed(kind: str, after: str) -> None:
    words = [sys.executable, "-c", PARENT, kind, after]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        started, child = map(int, program.stdout.readline().split())
        assert not gone(started)
        program.kill()
    until(lambda: gone(child) and gone(started))


def test_a_forker_ends_what_a_child_left_behind_when_the_child_has_ended(tmp_path: Path) -> None:
    forker = Forker.acquire("forker_that_forks", 60)
    try:
        first, second = (ChildPipe(forker, str(tmp_path)) for _ in range(2))
        kept, left = (called(pipe, "starts")["reply"]["pid"] for pipe in (second, first))
        first.send({"do": "leaves", "code": 3}, 60)
        with pytest.raises(ChildGoneError, match="exit code 3"):
            first.receive(60)
        until(lambda: gone(left))
        assert not gone(kept), "of a child that lives"
        assert called(second, "look")["reply"]["asked"] == 1
        second.close()
        first.close()
    finally:
        forker.release()


def test_a_forker_ends_what_had_left_the_family_of_a_child_that_is_killed_for_a_hang(tmp_path: Path) -> None:
    forker = Forker.acquire("forker_that_forks", 60)
    try:
        first, second = (ChildPipe(forker, str(tmp_path)) for _ in range(2))
        kept = called(second, "starts")["reply"]["pid"]
        left = called(first, "orphans")["reply"]["pid"]
        assert not gone(left)
        first.send({"do": "hangs"}, 60)
        with pytest.raises(ChildHungError):
            first.receive(0.0)
        first.close()
        assert gone(left)
        assert not gone(kept), "of a child that lives"
        second.close()
    finally:
        forker.release()


def test_one_forker_serves_all_and_ends_with_the_last(tmp_path: Path) -> None:
    first, second = Forker.acquire("forker_that_forks", 60), Forker.acquire("forker_that_forks", 60)
    assert first is second
    first.release()
    assert second.lives()
    second.close()
    third = Forker.acquire("forker_that_forks", 60)
    assert third is not second
    assert third.lives()
    psutil.Process(third._process.pid).kill()
    third._process.wait()
    fourth = Forker.acquire("forker_that_forks", 60)
    assert fourth is not third, "one that was killed is replaced"
    fourth.release()
    assert not fourth.lives()
    assert "forker_that_forks" not in forking._shared


@pytest.mark.parametrize(
    ("module", "limit_s", "why"),
    [
        ("forker_that_sleeps", 0.2, r"^it was not ready within 0\.2 s$"),
        ("forker_that_breaks", 60, "^no such library$"),
        ("forker_that_talks", 60, "^no such device$"),
        ("forker_that_is_silent", 60, "^it ended with code 7$"),
    ],
)
def test_a_forker_that_does_not_come_up_says_why_and_is_not_kept(
    module: str, limit_s: float, why: str
) -> None:
    with pytest.raises(StartError, match=why):
        Forker.acquire(module, limit_s)
    assert module not in forking._shared
