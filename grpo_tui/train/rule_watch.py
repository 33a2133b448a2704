"""Pause or stop a run when a rule of `grpo_tui.on` holds.

A rule acts as a user does: it puts a command into the run's mailbox. The command is carried out at the safe
point on every rank and appears in the history with its reason.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from contextlib import closing
from typing import Any

from grpo_tui.config.section import OnRule
from grpo_tui.core import records as r
from grpo_tui.core.commands import END
from grpo_tui.core.conditions import ON, Watched, parse
from grpo_tui.core.stages import BY as BY_STAGES
from grpo_tui.core.text import one_line
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.mailbox import Mailbox
from grpo_tui.store.read_health import open_findings
from grpo_tui.store.reader import RunReader
from grpo_tui.train.failure import NoStepError

SECONDS_AN_HOUR = 3600.0


class RuleWatch:
    """The rules of one attempt. Called in the recorder's thread, with the records just written.

    Args:
        open_before: Ids of findings that were open when the attempt began.
        earlier_s: Training time of earlier attempts.
        gpus: Number of GPUs the run trains on.
        stage: Place of the stage that trains, from 0. A command to end it names it, because the command may
            arrive when the next one trains.

    Raises:
        NoStepError: Earlier attempts have used up the hours of a rule.
    """

    def __init__(
        self,
        rules: Sequence[OnRule],
        mailbox: Mailbox,
        *,
        open_before: Collection[str] = (),
        earlier_s: float = 0.0,
        gpus: int = 0,
        stage: int | None = None,
    ) -> None:
        self._mailbox, self._gpus, self._stage = mailbox, gpus, stage
        self._rules = list(rules)
        self._watched = [Watched(parse(rule.when), open_before) for rule in rules]
        self._began = time.monotonic() - earlier_s
        self._due: list[tuple[OnRule, str]] = []
        for place, (rule, watched) in enumerate(zip(self._rules, self._watched, strict=True)):
            if watched.trained(self._hours(), gpus):
                unit = "GPU hours" if watched.condition.kind == "gpu_hours" else "hours"
                raise NoStepError(
                    f"the run has used up its {rule.when} ({ON}). Give it more: "
                    f"--set {ON}.{place}.when='{2 * watched.condition.value:g} {unit}'"
                )

    def __call__(self, records: Sequence[Any]) -> list[r.Record]:
        """Take records that were written. Returns no records."""
        for record in records:
            if isinstance(record, r.MetricRow):
                self._note([watched.logged(record.step, record.values) for watched in self._watched])
            elif isinstance(record, r.OpenFindings):
                found = {finding.id: finding.severity for finding in record.findings}
                self._note([watched.opened(found) for watched in self._watched])
        self._note([watched.trained(self._hours(), self._gpus) for watched in self._watched])
        self._act()
        return []

    def _hours(self) -> float:
        return (time.monotonic() - self._began) / SECONDS_AN_HOUR

    def _note(self, why: Sequence[str]) -> None:
        self._due += [(rule, said) for rule, said in zip(self._rules, why, strict=True) if said]

    def _act(self) -> None:
        while self._due:
            rule, said = self._due[0]
            try:
                args: dict[str, Any] = {"because": one_line(said, 200)}
                if rule.do == END:
                    args["stage"] = self._stage
                self._mailbox.submit(rule.do, args, by=BY_STAGES if rule.do == END else ON)
            except OSError:  # the disk is full; try again with the next records
                return
            del self._due[0]


def watch_of(
    folder: RunFolder, rules: Sequence[OnRule], attempt: int, gpus: int, stage: int | None = None
) -> RuleWatch:
    """Return the watch for a run's rules, including what earlier attempts have used and left open.

    Raises:
        NoStepError: Earlier attempts have used up the hours of a rule.
    """
    with closing(RunReader(folder.database)) as reader:
        earlier = [each for each in reader.attempts() if each.attempt < attempt]
        open_now = [finding.id for finding in open_findings(reader)]
    used = sum(max(0.0, each.ended_at - each.started_at) for each in earlier if each.ended_at is not None)
    mailbox = Mailbox(folder.commands)
    return RuleWatch(rules, mailbox, open_before=open_now, earlier_s=used, gpus=gpus, stage=stage)
