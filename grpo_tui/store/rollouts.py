"""Read single completions by number, with their group, rewards and all that was recorded of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_tui.store.reader import RunReader
from grpo_tui.store.values import from_column, messages_from, object_from, prompt_from

IMPORTED = "imported"
SAMPLED = "groups"
"""Absent field of logs that hold a selection of the completions, so that their groups cannot be judged."""
"""Key of a fact of imported logs: their source, the fields they lack (`absent`), and notes."""
MOST_NOTES = 3
PAGE = 500
_SELECT = (
    "SELECT c.id, g.step, g.last_step, g.mode, g.attempt, g.batch, g.rank, g.at, g.superseded,"
    " g.id AS 'group', g.idx AS group_index, g.mean AS group_mean, g.std AS group_std, c.idx AS 'index',"
    " g.prompt, g.prompt_key, c.text AS completion, c.messages, c.total AS reward, c.advantage, c.tokens,"
    " c.truncated, g.columns, c.extra, {masked} AS masked"
    " FROM completion c CROSS JOIN generation_group g ON g.id = c.group_id WHERE c.id IN (?)"
)
KEYS = (
    "step", "mode", "group", "index", "prompt", "completion", "rewards", "reward", "advantage", "tokens",
    "truncated",
)  # fmt: skip
"""Documented keys of a row of `grpo-tui completions`, on which other programs may rely."""
MORE_KEYS = (
    "columns", "extra", "group_mean", "group_std", "attempt", "superseded", "batch", "rank", "group_index",
    "last_step", "at", "messages",
)  # fmt: skip


def keys_of(*, everything: bool, masks: bool) -> tuple[str, ...]:
    """Return the keys of a row: the documented ones, `masked` if the run masks, others on request."""
    keys = KEYS + MORE_KEYS if everything else KEYS
    return (*keys, "masked") if masks else keys


@dataclass(frozen=True, slots=True)
class Rollout:
    """One completion, where it was generated, and its rewards."""

    id: int
    step: int
    last_step: int
    mode: str
    attempt: int
    batch: int
    rank: int
    at: float
    superseded: bool
    group: int
    """The group's number in the run, for `RunReader.groups_by_id`."""
    group_index: int
    group_mean: float | None
    group_std: float | None
    index: int
    prompt: Any
    """As in the dataset: a string, or a list of chat messages."""
    prompt_key: str
    completion: str
    messages: list[dict[str, Any]] | None
    rewards: Mapping[str, float | None]
    """By name, in TRL's order; a second function of one name is `name#2`. None: it abstained."""
    reward: float | None
    advantage: float
    tokens: int | None
    """None, like `truncated`, when imported logs do not say."""
    truncated: bool | None
    columns: Mapping[str, Any]
    extra: Mapping[str, Any]
    masked: bool | None = None
    """Whether the loss leaves it out; None in a run that masks nothing."""

    def to_json(self, *, everything: bool = False) -> dict[str, Any]:
        """Return the documented keys of a row of `grpo-tui completions`, and all others on request."""
        return {
            key: getattr(self, key) for key in keys_of(everything=everything, masks=self.masked is not None)
        }


def all_function_names(reader: RunReader) -> tuple[str, ...]:
    """Return the names of the reward functions over all attempts, for the columns of a table."""
    lists = reader.function_names().values()
    return tuple(dict.fromkeys(name for names in lists for name in names.values()))


def rollouts_of(reader: RunReader, ids: Sequence[int]) -> list[Rollout]:
    """Return the completions with these numbers, in that order. Missing ones are left out."""
    return list(iter_rollouts(reader, ids))


def iter_rollouts(reader: RunReader, ids: Sequence[int]) -> Iterator[Rollout]:
    """Like `rollouts_of`, but a page at a time, so that a long list takes little memory."""
    names, absent, masks = reader.function_names(), absent_fields(reader), masks_truncated(reader)
    for start in range(0, len(ids), PAGE):
        page = ids[start : start + PAGE]
        found = _page(reader, page, names, absent, masks=masks)
        yield from (found[one] for one in page if one in found)


def masks_truncated(reader: RunReader) -> bool:
    """Return whether the run's config keeps truncated completions out of the loss."""
    asked = bool(reader.config("grpo", "mask_truncated_completions"))
    return asked and reader.has("completion", "masked")


def absent_fields(reader: RunReader) -> frozenset[str]:
    """Return the fields that imported logs lack; none for a run recorded by this program."""
    found = reader.fact(IMPORTED)
    return frozenset(found.get("absent", ())) if isinstance(found, dict) else frozenset()


def import_notes(reader: RunReader) -> tuple[str, ...]:
    """Return notes for the reader of imported logs."""
    found = reader.fact(IMPORTED)
    if not isinstance(found, dict):
        return ()
    unread, broken = list(found.get("unread", {}).values()), list(found.get("broken", {}).values())
    notes = [*found.get("notes", ()), *unread[:MOST_NOTES]]
    if len(unread) > MOST_NOTES:
        notes.append(f"{len(unread) - MOST_NOTES} more files cannot be read")
    if broken:
        more = f", and in {len(broken) - 1} more files" if len(broken) > 1 else ""
        notes.append(f"skipped, because it is not a row with input and output: {broken[0]}{more}")
    return tuple(notes)


def _page(
    reader: RunReader,
    ids: Sequence[int],
    names: Mapping[int, Mapping[int, str]],
    absent: frozenset[str],
    *,
    masks: bool,
) -> dict[int, Rollout]:
    rewards: dict[int, dict[int, Any]] = {}
    for row in reader.among(
        "SELECT completion_id, function, value FROM reward WHERE completion_id IN (?)"
        " ORDER BY completion_id, function",
        ids,
    ):
        rewards.setdefault(row[0], {})[row[1]] = from_column(row[2])
    rows = reader.among(_SELECT.format(masked="coalesce(c.masked, 0)" if masks else "NULL"), ids)
    return {row["id"]: _rollout(row, rewards.get(row["id"], {}), names, absent) for row in rows}


def _rollout(
    row: Any, rewards: Mapping[int, Any], names: Mapping[int, Mapping[int, str]], absent: frozenset[str]
) -> Rollout:
    known = names.get(row["attempt"], {})
    found = {
        **dict(row),
        "superseded": bool(row["superseded"]),
        "prompt": prompt_from(row["prompt"]),
        "messages": messages_from(row["messages"]),
        "rewards": {known.get(one, str(one)): value for one, value in rewards.items()},
        "reward": from_column(row["reward"]),
        "advantage": from_column(row["advantage"]),
        "tokens": None if "tokens" in absent else row["tokens"],
        "truncated": None if "truncated" in absent else bool(row["truncated"]),
        "columns": object_from(row["columns"]),
        "extra": object_from(row["extra"]),
        "masked": None if row["masked"] is None else bool(row["masked"]),
    }
    return Rollout(**found)
