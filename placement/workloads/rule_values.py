"""
The values that switches of rules take: ``on``, ``8%``, ``2GiB``, counts.

Each reader raises ValueError without a message: only `placement.workloads.rules` knows which rule was meant.

When to modify: a rule takes a new kind of value.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from placement.workloads.target_rules import TARGET_RULES

LAUNCHERS = ("torchrun", "accelerate", "slurm", "env")
"""Targets that start any roles on any GPUs in any order."""

TARGETS = (*(rules.name for rules in TARGET_RULES), *LAUNCHERS)
"""Names of what a map can be written for."""

_MIB = {"mib": 1, "gib": 1024}


@dataclass(frozen=True, slots=True)
class Reserve:
    """Memory that stays unused on a GPU: a share of its capacity or an amount, whichever is more."""

    percent: float = 0.0
    mib: int = 0

    def of_mib(self, capacity_mib: int) -> int:
        """Return the reserve of a GPU with *capacity_mib*, MiB, rounded up."""
        return max(math.ceil(capacity_mib * self.percent / 100), self.mib)

    def __str__(self) -> str:
        """Return the reserve as a switch takes it."""
        if self.percent:
            return percent_text(self.percent)
        return amount_text(self.mib) if self.mib else "off"


def switch(text: str) -> bool:
    """Read ``on``, ``off``, ``true`` or ``false``."""
    known = {"on": True, "true": True, "off": False, "false": False}
    if text.lower() not in known:
        raise ValueError
    return known[text.lower()]


def sharing(text: str) -> str:
    """Read ``pool`` or ``partial``."""
    if text not in ("pool", "partial"):
        raise ValueError
    return text


def target(text: str) -> str | None:
    """Read the name of a target, or ``off`` as None."""
    if text not in TARGETS and not _is_off(text) and text != "none":
        raise ValueError
    return text if text in TARGETS else None


def percent(text: str) -> float | None:
    """Read a share below 100 %, or ``off`` as None."""
    if _is_off(text):
        return None
    match = re.fullmatch(r"([0-9]{1,2}(?:\.[0-9]{1,6})?) ?%", text)
    if match is None:
        raise ValueError
    return float(match[1])


def amount_mib(text: str) -> int | None:
    """Read an amount of memory, MiB rounded up, or ``off`` as None."""
    if _is_off(text):
        return None
    match = re.fullmatch(r"([0-9]{1,7}(?:\.[0-9]{1,6})?) ?(mib|gib)", text.lower())
    if match is None:
        raise ValueError
    return math.ceil(float(match[1]) * _MIB[match[2]])


def reserve(text: str) -> Reserve:
    """Read a share or an amount, which takes the place of both halves of the default."""
    if text.endswith("%"):
        return Reserve(percent=percent(text) or 0.0)
    return Reserve(mib=amount_mib(text) or 0)


def count(text: str) -> int:
    """Read a number of GPUs, or ``off`` as 1."""
    if _is_off(text):
        return 1
    if not re.fullmatch(r"[1-9][0-9]{0,3}", text):
        raise ValueError
    return int(text)


def percent_text(value: float) -> str:
    """Return a share as `percent` reads it."""
    return f"{value:.6f}".rstrip("0").rstrip(".") + "%"


def amount_text(mib: int) -> str:
    """Return an amount as `amount_mib` reads it."""
    return f"{mib // 1024}GiB" if mib and mib % 1024 == 0 else f"{mib}MiB"


def _is_off(text: str) -> bool:
    return text.lower() in ("off", "false")
