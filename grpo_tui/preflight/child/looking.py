"""One row of the data as training sees it, and the rows that hold a text.

Reads what a session keeps; a row outside its sample is fetched from the source and mapped alone.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

from grpo_tui.data.sources import DataError
from grpo_tui.preflight.child.mapped import TRAIN, Mapped, map_table
from grpo_tui.preflight.child.session import Session
from grpo_tui.preflight.child.table import Table, columns_of
from grpo_tui.preflight.facts import RowView


class Looking:
    """Serves rows of one session by number."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._texts: list[str] | None = None

    def row(self, number: int) -> RowView:
        """Return a row; a number beyond the rows gives the nearest there is.

        Raises:
            DataError: the data cannot be used.
        """
        session, table = self._session, self._table()
        number = max(1, min(number, table.total or table.numbers[-1]))
        at_hand = table.numbers if table.total is None else range(1, table.total + 1)
        if number not in at_hand:
            number = table.numbers[-1]
        mapped, place = session.mapped, number - 1
        if table.sampled and table.total is not None:
            table, mapped = self._alone(table, number), None
            place = 0
            try:
                mapped = map_table(table, session.config)
            except DataError as error:
                return self._bare(table, place, str(error))
        if mapped is None:
            facts = session.facts_of_data
            return self._bare(table, place, facts.problem if facts is not None else "")
        return self._seen(table, mapped, place)

    def random(self, seed: int | None = None) -> RowView:
        """Return a row by chance."""
        table = self._table()
        numbers = table.numbers if table.total is None else range(1, table.total + 1)
        return self.row(random.Random(seed).choice(numbers))

    def holding(self, text: str) -> list[int]:
        """Return the numbers of the rows at hand that hold a text anywhere, whatever its case."""
        table = self._table()
        if self._texts is None:
            self._texts = [
                "\n".join(_plain_text(values[place]) for values in table.columns.values()).lower()
                for place in range(len(table.numbers))
            ]
        wanted = text.lower()
        return [number for number, held in zip(table.numbers, self._texts, strict=True) if wanted in held]

    def _table(self) -> Table:
        table = self._session.table
        if table is None:
            facts = self._session.data()
            table = self._session.table
            if table is None:
                raise DataError(facts.problem)
        return table

    def _alone(self, table: Table, number: int) -> Table:
        """A table of one row of the source."""
        rows = table.rows
        assert rows is not None  # a sample of known length has its source
        return replace(table, columns=columns_of(rows.train, [number]), numbers=[number])

    def _bare(self, table: Table, place: int, problem: str) -> RowView:
        """A row that could not be mapped."""
        number = table.numbers[place]
        source = table.row(place)
        return RowView(
            number, table.total, source, None, {}, fate="refused", sampled=table.sampled, problem=problem
        )

    def _seen(self, table: Table, mapped: Mapped, place: int) -> RowView:
        prompt = mapped.prompts[place]
        fate = mapped.fates[place]
        view = RowView(
            number=table.numbers[place],
            total=table.total,
            source=table.row(place),
            prompt=prompt,
            columns={name: values[place] for name, values in mapped.columns.items()},
            fate="train or held out" if table.sampled and fate == TRAIN and self._holds_out() else fate,
            answer_column=self._answer_column(mapped),
            sampled=table.sampled,
        )
        tokens = self._session.tokens
        if tokens is None or prompt is None:
            return view
        from grpo_tui.preflight.child.tokens import RenderError

        try:
            written = tokens.written([prompt])
            count = tokens.counts(written, messages=not isinstance(prompt, str))[0]
            return replace(view, rendered=tokens.rendered(prompt), tokens=count)
        except RenderError as error:
            return replace(view, problem=str(error))

    def _holds_out(self) -> bool:
        return bool(self._session.config.section.holdout)

    def _answer_column(self, mapped: Mapped) -> str:
        facts = self._session.facts_of_data
        name = facts.answer_column if facts is not None else ""
        return name if name in mapped.columns else ""


def _plain_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
