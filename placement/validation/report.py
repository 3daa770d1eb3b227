"""
All groups of a folder, and what in it nothing predicts; as one JSON document.

When to modify: a new group, or a new field of the document.
"""

from __future__ import annotations

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
        If a file is damaged. A row that states what cannot be is listed with the reason.
    """
    _has_any(folder)
    dense, experts = rl_steps.groups(folder)
    of_links = links.group(folder)
    groups = (
        rollout_memory.group(folder),
        training_memory.group(folder),
        of_links,
        collectives.group(folder),
        training_throughput.group(folder),
        dense,
        experts,
        weight_sync.group(folder),
    )
    return Report(groups, _unpredicted(folder), refits(folder, of_links))


def _has_any(folder: Folder) -> None:
    """Refuse a folder in which nothing is that could be compared, and documents without any list: they are of something else."""
    if not any((folder.path / name).exists() for name in _FILES) and not folder.matrices():
        wanted = f"{', '.join(_FILES)} or p2p/*.json"
        raise InputError(f"{folder.path} holds no measurements: one of {wanted} is looked for")
    for name in ("memory.json", "rl_steps.json"):
        if (folder.path / name).exists() and not any(isinstance(value, list | dict) for value in folder.parts(name).values()):
            lists = "training or inference" if name == "memory.json" else "rows with step_s, or weight_sync"
            raise InputError(f"this file has no list of rows ({lists})", where=str(folder.path / name))


def _unpredicted(folder: Folder) -> tuple[str, ...]:
    found = [
        f"{name} (memory.json): no list of measured peaks"
        for name, value in folder.parts("memory.json").items()
        if isinstance(value, list | dict) and name not in _KNOWN_LISTS
    ]
    found += links.unpredicted(folder)
    contention = folder.parts("contention.json")
    if contention:
        found.append("contention.json: its cases do not say on which machine, and between which of its GPUs, copies run")
    return (*found, *rl_steps.unpredicted(folder))


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
