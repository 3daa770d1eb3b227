"""
What one scale factor per framework would do: the error with it, and the error for a model that had no part in it.

When to modify: another form of calibration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from placement.validation.rows import Group, Row, mape_percent


@dataclass(frozen=True, slots=True)
class Scaled:
    """
    Rows of a framework after one factor.

    Parameters
    ----------
    factor
        What every prediction is multiplied by.
    mape_percent
        Mean absolute error then, percent; None where one row alone makes the factor, which it then meets by construction.
    left_out_percent
        The same when the factor for each model comes from the other models; None when there is one model alone.
    """

    framework: str
    rows: int
    factor: float
    mape_percent: float | None
    left_out_percent: float | None


def scaled(group: Group) -> tuple[Scaled, ...]:
    """Return the frameworks of *group*, by name."""
    found = []
    for framework in sorted({row.framework for row in group.predicted if row.framework}):
        rows = [row for row in group.predicted if row.framework == framework]
        factor = best_factor(rows)
        error = mape_percent(rows, factor) if len(rows) > 1 else None
        found.append(Scaled(framework, len(rows), factor, error, _left_out(rows)))
    return tuple(found)


def after_scaling(group: Group) -> float | None:
    """Return the mean absolute error of *group* after one factor per framework, percent; frameworks of one row do not count."""
    errors = [error for one in scaled(group) if one.mape_percent is not None for error in [one.mape_percent] * one.rows]
    return fmean(errors) if errors else None


def best_factor(rows: Sequence[Row]) -> float:
    """Return the factor with the smallest mean absolute error: the median of measured/predicted, weighted with its inverse."""
    ratios = sorted(row.measured / row.predicted for row in rows if row.predicted and row.measured)
    half = sum(1 / ratio for ratio in ratios) / 2
    passed = 0.0
    for ratio in ratios:
        passed += 1 / ratio
        if passed >= half:
            return ratio
    return 1.0


def _left_out(rows: Sequence[Row]) -> float | None:
    models = {row.model for row in rows}
    if len(models) < 2:
        return None
    errors = []
    for model in sorted(models):
        factor = best_factor([row for row in rows if row.model != model])
        one = mape_percent([row for row in rows if row.model == model and row.predicted], factor)
        errors += [] if one is None else [one] * sum(row.model == model and bool(row.predicted) for row in rows)
    return fmean(errors)
