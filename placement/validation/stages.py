"""
Errors of the pieces of a step: where those of a row cancel each other, its step looks better than it is.

When to modify: another figure of a stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from placement.validation.rows import Group, Part, Row

STEPS = ("rl_step_dense", "rl_step_moe")
"""The groups whose rows are sums of pieces; in others the parts of a row are figures of their own."""


@dataclass(frozen=True, slots=True)
class Stage:
    """
    One piece of work over the rows of a group that state its time.

    Parameters
    ----------
    rows
        How many rows state it.
    mape_percent
        Mean absolute error, percent.
    bias_percent
        Mean error with its sign, percent: near the other one where predictions lie to one side.
    worst
        The row that is farthest off, and its error, percent.
    """

    name: str
    rows: int
    mape_percent: float
    bias_percent: float
    worst: Row
    worst_percent: float


def stages(group: Group) -> tuple[Stage, ...]:
    """Return the pieces of work that rows of *group* state, as they first come."""
    found: dict[str, list[tuple[float, Row]]] = {}
    for row in group.predicted:
        for name, error in errors(row):
            found.setdefault(name, []).append((error, row))
    return tuple(_stage(name, listed) for name, listed in found.items())


def errors(row: Row) -> Iterator[tuple[str, float]]:
    """Yield the pieces of *row* of which both times are known, with the error, percent."""
    for part in row.parts:
        error = _error_percent(part)
        if error is not None:
            yield part.name, error


def _error_percent(part: Part) -> float | None:
    return None if part.predicted is None or not part.measured else 100 * (part.predicted / part.measured - 1)


def _stage(name: str, listed: list[tuple[float, Row]]) -> Stage:
    worst_percent, worst = max(listed, key=lambda one: abs(one[0]))
    return Stage(
        name,
        len(listed),
        fmean(abs(error) for error, _ in listed),
        fmean(error for error, _ in listed),
        worst,
        worst_percent,
    )
