"""Memory of the cards people train on, by name, and sizes as they are written: `80GB`, `24 GB`, `16GiB`.

NVIDIA's data sheets; what a driver shows is a little less, since part of it is kept back. Knows no machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from grpo_tui.config.plan.memory_plan import Device

GIB = 1 << 30
KEPT_BACK = 0.985
"""The share of a card's memory that a process can take: ECC and the driver keep the rest (79.1 of 80 GiB)."""
CARDS: Mapping[str, int] = {
    "B200": 180, "H200": 141, "H100": 80, "H100 NVL": 94, "GH200": 96, "H20": 96, "A100": 80, "A100 40GB": 40,
    "A800": 80, "L40S": 48, "L40": 48, "L4": 24, "A40": 48, "A30": 24, "A10": 24, "A10G": 24, "A6000": 48,
    "A5000": 24, "A4000": 16, "RTX 6000 Ada": 48, "RTX PRO 6000": 96, "V100": 32, "V100 16GB": 16, "T4": 16,
    "P100": 16, "RTX 5090": 32, "RTX 5080": 16, "RTX 4090": 24, "RTX 4080": 16, "RTX 4070": 12,
    "RTX 4060": 8, "RTX 3090": 24, "RTX 3080": 10, "RTX 3060": 12, "RTX 2080 Ti": 11,
}  # fmt: skip
"""Memory in GiB."""
_SCALES = {"gb": 1e9, "g": 1e9, "gib": GIB, "mb": 1e6, "mib": 1 << 20}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(gb|gib|g|mb|mib)?", re.IGNORECASE)


def card(name: str) -> Device | None:
    """The card a person means, by its name or its memory; None when nobody knows it.

    A bare size is what it says; a card's name leaves out what the driver keeps back.
    """
    text = name.strip()
    wanted = _words(text)
    for known, memory in sorted(CARDS.items(), key=lambda entry: -len(entry[0])):
        if _words(known) == wanted or _words(known).removeprefix("rtx") == wanted.removeprefix("rtx"):
            return Device(known, round(memory * GIB * KEPT_BACK))
    size = _SIZE.fullmatch(text)
    if size is None:
        return None
    found = round(float(size[1]) * _SCALES[(size[2] or "gb").lower()])
    return Device(f"a GPU of {text}", found) if found else None


def _words(name: str) -> str:
    """A name without spaces, signs and maker."""
    return re.sub(r"[^a-z0-9]", "", name.lower()).removeprefix("nvidia").removeprefix("geforce")
