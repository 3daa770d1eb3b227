"""
All groups of a folder, and what in it nothing predicts; as one JSON document.

When to modify: a new group, or a new field of the document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from placement.errors import InputError
from placement.validation import (
    collectives,
    links,
    rl_steps,
    rollout_memory,
    training_memory,
    training_throughput,
    weight_sync,
)
from placement.validation.fitted import Refit, refits
from placement.validation.reading import Folder
from placement.validation.rows import Group, Row
from placement.validation.scaling import after_scaling, scaled
from placement.validation.stages import STEPS, stages

_KNOWN_LISTS = {"training", "inference"}
_FILES = ("memory.json", "rl_steps.json", "collectives.json", "train_throughput.csv", "contention.json")


@dataclass(frozen=True, slots=True)
class Report:
    """
    The comparison.

    Parameters
    ----------
    groups
        Always the same eight, in one order.
    unpredicted
        Lists that nothing predicts, each with the reason.
    fitted
        Constants that were fitted to tables of which rows are compared, each with its error on what was left out.
    """

    groups: tuple[Group, ...]
    unpredicted: tuple[str, ...]
    fitted: tuple[Refit, ...]


def report(folder: Folder) -> Report:
    """
    Return *folder* compared with what planning predicts.

    Raises
    ------
    InputError
        If no file has rows, and one is damaged. A damaged file beside others is told by its groups, and a row that states what cannot
        be is listed with the reason.
    """
    _has_any(folder)
    makers: tuple[tuple[tuple[str, ...], Callable[[Folder], tuple[Group, ...]]], ...] = (
        (("rollout_memory",), lambda one: (rollout_memory.group(one),)),
        (("training_memory",), lambda one: (training_memory.group(one),)),
        (("links",), lambda one: (links.group(one),)),
        (("collectives",), lambda one: (collectives.group(one),)),
        (("training_throughput",), lambda one: (training_throughput.group(one),)),
        (STEPS, rl_steps.groups),
        (("weight_sync",), lambda one: (weight_sync.group(one),)),
    )
    groups: list[Group] = []
    first: InputError | None = None
    for names, make in makers:
        try:
            groups += make(folder)
        except InputError as error:
            first = first or error
            groups += (Group(name, "a file of these rows is damaged", (), damage=str(error)) for name in names)
    if first is not None and not any(group.rows for group in groups):
        raise first
    of_links = next(group for group in groups if group.name == "links")
    return Report(tuple(groups), _unpredicted(folder), refits(folder, of_links))


def _has_any(folder: Folder) -> None:
    """Refuse a folder in which nothing is that could be compared, and documents without any list: they are of something else."""
    if not any((folder.path / name).exists() for name in _FILES) and not _has_matrices(folder):
        wanted = f"{', '.join(_FILES)} or p2p/*.json"
        raise InputError(f"{folder.path} holds no measurements: one of {wanted} is looked for")
    documents = [name for name in ("memory.json", "rl_steps.json") if (folder.path / name).exists()]
    others = [name for name in _FILES if name not in documents and (folder.path / name).exists()]
    empty = [name for name in documents if not _has_list(folder, name)]
    if empty and not others and len(empty) == len(documents) and not _has_matrices(folder):
        lists = "training or inference" if empty[0] == "memory.json" else "rows with step_s, or weight_sync"
        raise InputError(f"this file has no list of rows ({lists})", where=str(folder.path / empty[0]))


def _has_matrices(folder: Folder) -> bool:
    """Whether there are documents in ``p2p``; a damaged one is for its group to tell."""
    try:
        return bool(folder.matrices())
    except InputError:
        return True


def _has_list(folder: Folder, name: str) -> bool:
    """Whether the document *name* holds a list; a damaged one is for its group to tell."""
    try:
        return any(isinstance(value, list | dict) for value in folder.parts(name).values())
    except InputError:
        return True


def _unpredicted(folder: Folder) -> tuple[str, ...]:
    return tuple(
        said
        for listed in (_memory_lists, links.unpredicted, _contention, rl_steps.unpredicted)
        for said in _or_nothing(listed, folder)
    )


def _or_nothing(listed: Callable[[Folder], Iterable[str]], folder: Folder) -> tuple[str, ...]:
    try:
        return tuple(listed(folder))
    except InputError as error:
        # A group of this file tells the same, where it has one.
        return (str(error),) if listed is _contention else ()


def _memory_lists(folder: Folder) -> Iterator[str]:
    for name, value in folder.parts("memory.json").items():
        if isinstance(value, list | dict) and name not in _KNOWN_LISTS:
            yield f"{name} (memory.json): no list of measured peaks"


def _contention(folder: Folder) -> Iterator[str]:
    if folder.parts("contention.json"):
        yield "contention.json: its cases do not say on which machine, and between which of its GPUs, copies run"


def to_document(found: Report) -> dict[str, Any]:
    """Return *found* as the document that ``--json`` prints."""
    return {
        "schema": "placement/validation/v1",
        "groups": {group.name: _group(group) for group in found.groups},
        "stages": {group.name: _stages(group) for group in found.groups if group.name in STEPS},
        "fitted": {one.name: _fitted(one) for one in found.fitted},
        "not_predicted": list(found.unpredicted),
    }


def _group(group: Group) -> dict[str, Any]:
    document: dict[str, Any] = {
        "rows": len(group.rows),
        **({"error": group.damage} if group.damage else {}),
        "predicted": len(group.predicted),
        "mape_percent": _rounded(group.mape_percent),
        "worst": None if group.worst is None else _row(group.worst),
    }
    frameworks = scaled(group)
    if frameworks:
        document["mape_percent_after_one_factor_per_framework"] = _rounded(after_scaling(group))
        document["rows_of_frameworks_with_one_row"] = sum(one.mape_percent is None for one in frameworks)
        document["frameworks"] = {
            one.framework: {
                "rows": one.rows,
                "factor": round(one.factor, 4),
                "mape_percent": _rounded(one.mape_percent),
                "leave_one_model_out_mape_percent": _rounded(one.left_out_percent),
            }
            for one in frameworks
        }
    document["rows_detail"] = [_row(row) for row in group.rows]
    return document


def _fitted(one: Refit) -> dict[str, Any]:
    return {
        "group": one.group,
        "rows": one.rows,
        "models": one.models,
        "mape_percent": _rounded(one.mape_percent),
        "leave_one_out_mape_percent": _rounded(one.left_out_percent),
        "refitted": None if one.lowest is None else [_significant(one.lowest), _significant(one.highest)],
    }


def _stages(group: Group) -> dict[str, Any]:
    return {
        one.name: {
            "rows": one.rows,
            "mape_percent": _rounded(one.mape_percent),
            "mean_error_percent": _rounded(one.bias_percent),
            "worst": {"name": one.worst.name, "error_percent": _rounded(one.worst_percent)},
        }
        for one in stages(group)
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "unit": row.unit,
        "measured": _significant(row.measured),
        "predicted": _significant(row.predicted),
        "error_percent": _rounded(row.error_percent),
        "why_not": row.why,
        "assumed": list(row.assumed),
        "parts": [
            {"name": part.name, "measured": _significant(part.measured), "predicted": _significant(part.predicted)}
            for part in row.parts
        ],
        "source": row.source,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _significant(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
