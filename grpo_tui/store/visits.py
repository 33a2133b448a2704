"""Answer questions about groups by their number, and about one prompt over the course of a run.

Knows tables; folds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from grpo_tui.store.group_stats import GroupStatQueries

MOST_VISITS = 2_000


@dataclass(frozen=True, slots=True)
class Visit:
    """One time that a prompt was answered.

    Attributes:
        group: number of the group.
        mean, std: of its totals; None when no completion was scored.
        best: text of the completion with the highest total, None when none was scored.
        best_total: its total.
    """

    group: int
    step: int
    attempt: int
    mode: str
    mean: float | None
    std: float | None
    best: str | None
    best_total: float | None


class VisitQueries(GroupStatQueries):
    """The part of the reader that knows where a prompt comes again."""

    def visits(self, prompt_key: str, *, limit: int = MOST_VISITS) -> list[Visit]:
        """The times that a prompt was answered, oldest first, without steps that a resume has done again.

        Args:
            prompt_key: as recorded with its groups.
            limit: the newest so many.
        """
        rows = self._all(
            "SELECT g.id, g.step, g.attempt, g.mode, g.mean, g.std, b.text, b.total FROM"
            " (SELECT * FROM generation_group WHERE prompt_key = ? AND superseded = 0"
            "  ORDER BY step DESC, id DESC LIMIT ?) g"
            " LEFT JOIN completion b ON b.id = (SELECT c.id FROM completion c WHERE c.group_id = g.id"
            "  AND typeof(c.total) IN ('real', 'integer') ORDER BY c.total DESC, c.idx LIMIT 1)"
            " ORDER BY g.step, g.id",
            prompt_key,
            limit,
        )
        return [Visit(*tuple(row)) for row in rows]

    def groups_in_turn(self, group: int) -> tuple[int | None, int | None]:
        """Numbers of the first groups of the step before and of the step after that of a group.

        Of steps that a resume has done again only the newest count.
        """
        here = self._one("SELECT step, mode FROM generation_group WHERE id = ?", group)
        if here is None:
            return None, None
        step, mode = here
        found = []
        for compared, end in (("<", "max"), (">", "min")):
            row = self._one(
                f"SELECT min(id) FROM generation_group WHERE mode = ? AND superseded = 0 AND step ="
                f" (SELECT {end}(step) FROM generation_group"
                f"  WHERE step {compared} ? AND mode = ? AND superseded = 0)",
                mode,
                step,
                mode,
            )
            found.append(row[0])
        return found[0], found[1]
