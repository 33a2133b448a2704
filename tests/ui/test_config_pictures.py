"""The pane Config as pictures, of a file that is made here on a machine that stands still."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.ui.conftest import shown, until
from tests.ui.open_configs import CONFIG, app_with, config_file, looked_at, still_machine

pytestmark = pytest.mark.usefixtures(still_machine.__name__)
SIZES = [(80, 24), (120, 40)]
Compare = Callable[..., bool]
FAULTY = CONFIG.replace(
    "per_device_train_batch_size: 8      # one prompt", "per_device_train_batch_size: 6  # fits"
)


def after(*keys: str, field: str = "learning_rate") -> Callable[[Any], Awaitable[None]]:
    async def prepare(pilot: Any) -> None:
        screen = await looked_at(pilot)
        screen.to_form(field)
        await pilot.press(*keys)
        await looked_at(pilot) if pilot.app.screen is screen else await pilot.pause()

    return prepare


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize(
    ("kind", "field", "keys"),
    [
        ("edited", "gradient_checkpointing", ("enter",)),
        ("faulty", "per_device_train_batch_size", ()),
        ("text", "per_device_train_batch_size", ("tab",)),
        ("choices", "loss_type", ("enter", "down")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_config_pane(
    snap_compare: Compare, kind: str, field: str, keys: tuple[str, ...], size: tuple[int, int]
) -> None:
    app = app_with(config_file(FAULTY if kind in ("faulty", "text") else CONFIG))
    assert snap_compare(app, terminal_size=size, run_before=after(*keys, field=field))


def test_no_config_at_all(snap_compare: Compare) -> None:
    async def prepare(pilot: Any) -> None:
        await pilot.press("2")
        await until(pilot, lambda: "creates a config" in shown(pilot.app))

    assert snap_compare(app_with(None), terminal_size=(80, 24), run_before=prepare)
