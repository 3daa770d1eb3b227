"""
What constants that were fitted to published tables would predict of what had no part in their fit.

A constant whose source is a table of which rows are compared here says ``fitted``. For each model (each system of a table of collectives)
it is fitted anew to all others, alone and with the same measure, the mean absolute error; what it then predicts of the one that was left
out is the error to trust.

When to modify: a constant is fitted to rows of another group.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from placement.constants.table import allowed, constants, instead, sources
from placement.errors import InputError
from placement.validation import collectives, training_memory, training_throughput
from placement.validation.reading import Folder
from placement.validation.rows import Group, Row

FITTED = "fitted"
"""What `Source.obtained` says of such constants."""

GROUPS: Mapping[str, Callable[[Folder], Group]] = {
    "fsdp_activation_bytes_per_hidden": training_memory.group,
    "fsdp_activation_bytes_per_hidden_moe": training_memory.group,
    "train_mfu_dense": training_throughput.group,
    "ring_efficiency": collectives.group,
    "own_bytes_per_s": collectives.group,
    "nvlink_alpha_us": collectives.group,
    "nvlink_alpha_us_per_gpu": collectives.group,
}
"""The group with rows of the table to which each constant was fitted."""

LINKS = "classes of links"
"""How the rates of links are called, each of which is the median of measured pairs."""

_FACTORS = tuple(round(0.76 + 0.06 * step, 2) for step in range(9))
"""What a fit tries: the shipped value times each."""

_ALIKE = 1e-9


@dataclass(frozen=True, slots=True)
class Refit:
    """
    A constant, and how it does without each model.

    Parameters
    ----------
    group
        Where its rows are.
    rows, models
        How many rows depend on it, and of how many models or systems.
    mape_percent
        Their mean absolute error with the shipped value.
    left_out_percent
        The same where the value for each model comes from the others; None where there is one model, or none, alone.
    lowest, highest
        The values that the others gave; None where there are none.
    """

    name: str
    group: str
    rows: int
    models: int
    mape_percent: float | None
    left_out_percent: float | None
    lowest: float | None = None
    highest: float | None = None


def refits(folder: Folder, links: Group) -> tuple[Refit, ...]:
    """Return every constant that says it is fitted, and the classes of *links* as one."""
    names = [name for name, said in sources().items() if said.obtained == FITTED]
    return (*_of_whole_files(names, folder), _links(links))


def _of_whole_files(names: Iterable[str], folder: Folder) -> Iterator[Refit]:
    for name in names:
        try:
            yield _refit(name, folder)
        except InputError:      # told by the group of the damaged file
            continue


def _refit(name: str, folder: Folder) -> Refit:
    shipped = getattr(constants(), name)
    values = [shipped * factor for factor in _FACTORS if allowed(name).has(shipped * factor)]
    tried = []
    for value in values:
        with instead(dataclasses.replace(constants(), **{name: value})):
            group = GROUPS[name](folder)
        tried.append(group.rows)
    middle = min(range(len(values)), key=lambda place: abs(values[place] - shipped))
    # What one value more or less does not move has no part in the fit.
    moved = [index for index, rows in enumerate(zip(*tried, strict=True)) if _moves(rows)]
    by_model: dict[str, list[int]] = {}
    for index in moved:
        by_model.setdefault(tried[middle][index].model, []).append(index)
    mape = _error([tried[middle][index] for index in moved]) if moved else None
    if len(by_model) < 2:
        return Refit(name, group.name, len(moved), len(by_model), mape, None)
    errors, chosen = [], []
    for own in by_model.values():
        others = [index for index in moved if index not in own]
        best = min(range(len(values)), key=lambda place: (_error([tried[place][index] for index in others]), abs(place - middle)))
        chosen.append(values[best])
        errors += [abs(tried[best][index].error_percent or 0.0) for index in own]
    return Refit(name, group.name, len(moved), len(by_model), mape, fmean(errors), min(chosen), max(chosen))


def _moves(rows: Sequence[Row]) -> bool:
    """Whether one row, predicted with every value, is predicted each time and not always alike."""
    found = [row.predicted for row in rows if row.error_percent is not None and row.predicted is not None]
    return len(found) == len(rows) and max(found) - min(found) > _ALIKE * max(found)


def _error(rows: Sequence[Row]) -> float:
    return fmean(abs(row.error_percent or 0.0) for row in rows)


def _links(links: Group) -> Refit:
    """Return the classes of links: each is the median of others than the matrix that is left out, where another has the same class."""
    errors, before = [], []
    classes: dict[float, list[Row]] = {}
    for row in links.predicted:
        classes.setdefault(row.predicted or 0.0, []).append(row)
    for rows in classes.values():
        for row in rows if len(rows) > 1 else ():
            others = median(other.measured or 0.0 for other in rows if other is not row)
            errors.append(100 * abs(others / (row.measured or 1.0) - 1))
            before.append(row)
    matrices = len({row.name.split()[0] for row in before})
    if not errors:
        return Refit(LINKS, links.name, 0, matrices, None, None)
    return Refit(LINKS, links.name, len(errors), matrices, _error(before), fmean(errors))
