"""What the screens of every pane show, walked through key by key in two terminals, as stored in `walks/`.

    pytest tests/ui/test_walks.py --snapshot-update

writes the stored texts anew: read what changes in them as you would read the screens.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.config.resolve import load_config
from grpo_tui.core import records as r
from grpo_tui.core.commands import Outcome
from grpo_tui.demo import DEMO_CONFIG
from grpo_tui.store.layout import remember
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.ui.kit.jobs import Jobs
from grpo_tui.ui.screens.chat import ChatScreen
from grpo_tui.ui.screens.data import DataScreen
from grpo_tui.ui.screens.rewards import RewardsScreen
from tests.rewards.reports import made_report
from tests.ship.folders import checkpoint
from tests.ui import machines
from tests.ui.chat_child import Scripted
from tests.ui.conftest import until
from tests.ui.kept_comparison import keep_comparison
from tests.ui.open_configs import still_machine  # noqa: F401
from tests.ui.recorded_run import NOW, RecordedRun, recorded
from tests.ui.test_data_view import answering  # noqa: F401
from tests.ui.test_findings import BROKE, TRUNCATED
from tests.ui.test_generation_tokens import ODD
from tests.ui.test_pictures import aged
from tests.ui.test_rewards_pictures import FAILURE, FOUND, RAISED, edited, message
from tests.ui.walk import STORED, Steps, TrackedJobs, Walk, WalkedApp

SIZES = [(80, 24), (120, 40)]
Usage = namedtuple("Usage", "total used free")

TRAIN = """
open
]
]
[
tab
tab
enter
escape
t
do:chart.log
do:chart.log
t
x
down down
?
escape
'entr'
enter
x 'nothing of the kind'
escape
escape
z
j
j
y
o
4
g
z
v
j
y
z
z
enter
escape
l
up
y
w
w
w
w
/ 'something' enter
n
N
/ 'absent' enter
escape
escape
space
space
f
j
enter
down
y
escape
escape
u
escape
P
=
p
?
pagedown
escape
ctrl+p 'theme'
escape
do:app.bell
do:app.title
do:part.end
"""

STEERED = """
open
S
escape
S y
=
ctrl+u 'abc' enter
ctrl+u '1e-4' enter
= tab tab tab 'top_p=hot' enter
ctrl+u 'top_p=0.9@step:500' tab 'less noise' enter
m
'What is 1 + 1?' enter
C
U
V
A
outcome:applied
escape
v
v
space
space
P
"""

FAILED = """
open
l
v
f
r
S
z
z
"""

LOADING = """
open
l
l
P
v
5
6
4
"""

CHART = """
open
focus:chart-0
enter
left
shift+left
g right
G + +
h
l l
-
0
+ h
f
f
f t
t o
o ]
[ d
d
d ?
escape y
x 'eval' enter
d
enter
4
escape
"""

GENERATIONS = """
5
j
j
k
G
g
enter
j
d
d
d
d
d
j
space
d
r
r
i
i
f
f
f
enter
y
right
left
z
z
escape
escape
[
[
]
.
,
tab
tab
c
j
s
down enter
s down down enter
c
s enter
s enter
/ 'reward<1 and step>20' enter
/
escape
/ ctrl+u 'rewrad<1' enter
escape
escape
/ 'completion ~ "7"' enter
n
n
N
escape
v
n
escape
p
j
s
y
enter
escape
o
j
escape
a
escape
w
o
'1 1 1' enter
escape
E
escape
t
escape
>
5
escape
?
"""

TOKENS = """
5
enter
t outcome:tokens
down
j
d
y
i
y
i
right outcome:refused
left outcome:tokens
escape
p
escape
"""

RUNS = """
open
j
j
j
k
space
j
space
o
d
d
]
[
escape
escape
s
s
s
s
/ 'state:failed' enter
/ ctrl+u 'reward>x' enter
escape
/ 'nothing' enter
escape
R
escape
c
1
G
R
g
j
j
R
escape
/ 'failed' enter
R
n
escape
enter
1
o
?
"""

REWARDS = """
3
post:edited
j
j
right
right
left
v
j
y
escape
enter
escape
s
down enter
s enter
/ 'think' enter
/ ctrl+u 'nothing of it' enter
escape
escape
t
'hard' enter
/ '#hard' enter
escape
c
delete
y
o
right
right
left
down
space
h
h
b
b
b
do:rewards.combine
enter
ctrl+u 'x' enter
escape
0
escape
f
escape
a
escape
m
W
escape
K
escape
p
escape
e
i
escape
B
escape
ctrl+n
escape
post:raises
j
v
escape
post:plain
?
"""

RESULTS = """
6
j
k
[
]
]
y
enter
y
escape
tab
j
k
F
j
F
escape
X
escape
E
escape
M
ctrl+d
n
H
escape
G
M
escape
?
escape
m
"""

DATA = """
data:open
]
]
[
right
left
: '29' enter
]
]
: 'x' enter
r
/ 'apples' enter
n
n
N
/ ctrl+u 'pears' enter
escape
a
j
k
a
y
: '13' enter
escape
escape
"""

CHAT = """
chat:open
'What is 1 + 1?' enter escape
escape
j
k
d
m 'and more' enter escape
escape
K
escape
K p
y
m '/with 3' enter
escape
ctrl+n
S
escape
"""

MACHINE = """
u
j
j
k
escape
"""

EMPTY = """
open
2
o
escape
3
4
5
6
do:results.compare
1
R
o
"""


async def _focus(pilot: Any, name: str) -> None:
    pilot.app.screen.query_one(f"#{name}").focus()


async def _outcome(pilot: Any, word: str) -> None:
    box = Mailbox(pilot.app._poller.folder.commands)
    await until(pilot, lambda: bool(box.pending()))
    given = {
        "applied": Outcome(True, 57, "", {}, NOW),
        "tokens": Outcome(True, 57, "", ODD.to_wire(), NOW),
        "refused": Outcome(False, 58, "the prompt has images, which the run does not record", {}, NOW),
    }
    for command in box.pending():
        box.finish(command, given[word])


class AskedLab:
    """Stands for the lab's worker, and tells what it is asked to do."""

    config = None

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *asked: self._told.append(f"lab: {name} {asked!r:.200}")


async def _post(pilot: Any, kind: str) -> None:
    screen = pilot.app.screen
    assert isinstance(screen, RewardsScreen)
    screen.worker = AskedLab(pilot.app.told)  # type: ignore[assignment]
    found = {
        "edited": edited,
        "raises": lambda: message(made_report(failure=FAILURE, findings=RAISED)),
        "plain": lambda: message(made_report(findings=FOUND)),
    }[kind]()
    screen.call_later(screen.take_scores, *found)


async def _data(pilot: Any, _: str) -> None:
    await pilot.app.push_screen(DataScreen(load_config(DEMO_CONFIG)))


async def _chat(pilot: Any, _: str) -> None:
    root = Path("runs/demo-add")
    await pilot.app.push_screen(ChatScreen(root, "mine@40", root, beside=False))


STEPS: Steps = {
    "focus": _focus, "outcome": _outcome, "post": _post, "data": _data, "chat": _chat,
}  # fmt: skip


def _run(kind: str) -> RecordedRun:
    run = recorded(Path("runs") / "demo-add", kind)
    remember(run.folder.root)
    return run


def _rich(kind: str = "evaluated") -> Path:
    """A run with an evaluation, findings, and eight GPUs."""
    run = _run(kind)
    for step in (10, 20, 40, 60):
        run.write(r.MetricRow(1, step, run.at(step), {"eval_reward": step / 10}))
    run.write(r.OpenFindings(NOW - 60, (TRUNCATED,)))
    run.write(r.OpenFindings(NOW - 30, (BROKE,)))
    machines.put(run, replace(machines.eight(), at=NOW))
    run.close()
    return run.folder.root


def _plain(kind: str) -> Path:
    run = _run(kind)
    run.close()
    return run.folder.root


def _ranks() -> Path:
    run = _run("paused")
    machines.ranks(run, 8, behind=3)
    machines.put(run, machines.eight())
    run.close()
    return run.folder.root


def _compared() -> Path:
    root = _plain("finished")
    keep_comparison(root, "older", at=NOW - 100, skill=(0.2, 0.5, 0.9))
    keep_comparison(root, "newer", at=NOW - 90)
    checkpoint(root, 20, lora=True, base="base")
    checkpoint(root, 40)
    checkpoint(root, 50, whole=False)
    return root


def _listed() -> None:
    for number, kind in enumerate(("finished", "failed", "evaluated", "paused", "loading")):
        run = recorded(Path("runs") / f"gsm8k-{kind}", kind)
        if kind == "failed":
            checkpoint(run.folder.root, 40)
        aged(run, NOW - 4000 * number - 5)


def _nothing() -> None:
    """Nothing is there."""


MADE: dict[str, tuple[str, Callable[[], Any]]] = {
    "train": (TRAIN, _rich),
    "steered": (STEERED, lambda: _plain("paused")),
    "failed": (FAILED, lambda: _plain("failed")),
    "loading": (LOADING, lambda: _plain("loading")),
    "chart": (CHART, _rich),
    "generations": (GENERATIONS, lambda: _plain("finished")),
    "tokens": (TOKENS, lambda: _plain("paused")),
    "runs": (RUNS, _listed),
    "rewards": (REWARDS, _nothing),
    "results": (RESULTS, _compared),
    "data": (DATA, _nothing),
    "chat": (CHAT, lambda: _plain("finished")),
    "machine": (MACHINE, _ranks),
    "empty": (EMPTY, _nothing),
}


@pytest.fixture(autouse=True)
def one_machine(still_machine: None, answering: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """A disk and a chat that are the same everywhere, and queues that say whether they rest."""
    disk = Usage(2 * 10**11, 10**11, 10**11)
    monkeypatch.setattr("grpo_tui.present.checkpoint_list.shutil.disk_usage", lambda path: disk)
    monkeypatch.setattr("grpo_tui.ui.screens.chat.Chatting", Scripted)
    monkeypatch.setattr(TrackedJobs, "all", set())
    following = Jobs.next
    monkeypatch.setattr(Jobs, "next", lambda jobs: TrackedJobs.next(jobs, following))


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize("pane", MADE)
async def test_every_screen_is_as_stored(
    pane: str, size: tuple[int, int], request: pytest.FixtureRequest
) -> None:
    way, make = MADE[pane]
    root = make()
    app = WalkedApp([Path("runs")], root, clock=lambda: NOW)
    async with app.run_test(size=size) as pilot:
        update = request.config.option.update_snapshots
        stored = STORED / f"{pane}-{size[0]}x{size[1]}.txt"
        await Walk(pilot, stored, STEPS, update=update).through(way)
