"""
What a comparison is: rows of predicted and measured values, in groups.

When to modify: a comparison says more than two numbers and their error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean


class Unpredictable(Exception):
    """Why a row cannot be predicted, in words; the row is listed and counted, never dropped."""


@dataclass(frozen=True, slots=True)
class Part:
    """A further value of a row, which does not count in the error of its group; None where only one side is known."""

    name: str
    measured: float | None
    predicted: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """
    One measurement.

    Parameters
    ----------
    name
        What was measured, in words.
    unit
        Of both values.
    measured, predicted
        The two values; *predicted* is None when nothing predicts the row, *measured* when the row states no value that can be one.
    why
        Why it cannot be predicted; None when it is.
    assumed
        What the row does not say and the prediction takes for granted, one phrase each.
    parts
        Further values of the same row.
    framework, model
        What a scale factor, or a fitted constant, may be common to; empty where that has no meaning. Of collectives the system.
    source
        Who measured it.
    """

    name: str
    unit: str
    measured: float | None
    predicted: float | None = None
    why: str | None = None
    assumed: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    framework: str = ""
    model: str = ""
    source: str = ""

    @property
    def error_percent(self) -> float | None:
        """How far the prediction is above (+) or below (-) the measurement, percent."""
        return None if self.predicted is None or self.measured is None else 100 * (self.predicted / self.measured - 1)


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of one kind; *title* says what they are, *damage* why a file of theirs could not be read (empty when it could)."""

    name: str
    title: str
    rows: tuple[Row, ...]
    damage: str = ""

    @property
    def predicted(self) -> tuple[Row, ...]:
        """The rows that have a prediction."""
        return tuple(row for row in self.rows if row.error_percent is not None)

    @property
    def mape_percent(self) -> float | None:
        """Mean absolute error of the predicted rows, percent; None without any."""
        return mape_percent(self.rows)

    @property
    def worst(self) -> Row | None:
        """The row whose prediction is farthest off."""
        return max(self.predicted, key=lambda row: abs(row.error_percent or 0.0), default=None)


def mape_percent(rows: Sequence[Row], factor: float = 1.0) -> float | None:
    """Return the mean absolute error of the predicted *rows* when predictions are multiplied by *factor*, percent."""
    errors = [abs(factor * row.predicted / row.measured - 1) for row in rows if row.predicted is not None and row.measured]
    return 100 * fmean(errors) if errors else None
