"""
`placement catalog`: what is shipped.

When to modify: a new kind of shipped thing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.console import RenderableType

from placement.cli.table import new_table, rendered
from placement.text.output import json_text, write_stdout

Row = dict[str, object]

PROSE = ("driver's name", "what", "default", "says", "unit", "source", "pins ids", "keeps ranks")
"""Columns that wrap between words; names, which people copy, stay whole."""


def run(kind: str | None, *, as_json: bool) -> int:
    """List one kind, or all; return the exit code."""
    listings: dict[str, Callable[[], list[Row]]] = {
        "gpus": _gpus,
        "models": _models,
        "machines": _machines,
        "workloads": _workloads,
        "rules": _rules,
        "presets": _presets,
        "constants": _constants,
        "targets": _targets,
    }
    chosen = {name: rows() for name, rows in listings.items() if kind in (None, name)}
    if as_json:
        write_stdout(json_text(chosen if kind is None else chosen[kind]))
        return 0
    if kind == "rules":
        chosen["presets"] = _presets()
    parts: list[RenderableType] = []
    for name, rows in chosen.items():
        if len(chosen) > 1:
            parts.append(f"\n{name}" if parts else name)
        table = new_table(*((column, "left") for column in rows[0]), prose=PROSE)
        for row in rows:
            table.add_row(*(str(value) for value in row.values()))
        parts.append(table)
    write_stdout(rendered(*parts, stream=sys.stdout))
    return 0


def _gpus() -> list[Row]:
    from topologies.cards import cards

    return [
        {
            "name": card.slug,
            "driver's name": card.name,
            "memory MiB": card.total_mib,
            "GB/s": card.memory_gb_per_s,
            "16-bit TFLOPS": card.dense_16bit_tflops,
            "verified": "yes" if card.verified else "data sheet",
        }
        for card in cards()
    ]


def _models() -> list[Row]:
    from placement.catalog import models

    return [
        {
            "name": m.name,
            "parameters": f"{m.parameters:,}",
            "layers": m.layers,
            "hidden": m.hidden,
            "KV bytes/token": m.kv_bytes_per_token,
        }
        for m in models()
    ]


def _machines() -> list[Row]:
    from topologies.catalog import machine_names, machine_summary

    return [{"name": name, "what": machine_summary(name)} for name in machine_names()]


def _workloads() -> list[Row]:
    from placement.catalog import workload_names, workload_summary

    return [{"name": name, "what": workload_summary(name)} for name in workload_names()]


def _rules() -> list[Row]:
    from placement.workloads.rules import RULES

    return [{"rule": rule.name, "default": rule.default, "says": rule.says} for rule in RULES]


def _presets() -> list[Row]:
    from placement.workloads.rule_texts import PRESET_TEXTS

    return [{"preset": preset.name, "says": preset.says} for preset in PRESET_TEXTS]


def _constants() -> list[Row]:
    from placement.constants.table import constants, sources

    return [
        {
            "name": name,
            "value": getattr(constants(), name),
            "unit": said.unit,
            "obtained": said.obtained,
            "source": said.source,
        }
        for name, said in sources().items()
    ]


def _targets() -> list[Row]:
    from placement.targets.catalog import targets

    return [
        {
            "target": each.name,
            "what": each.title,
            "version": ", ".join(each.versions) or "any",
            "pins ids": each.pins,
            "keeps ranks": each.keeps,
        }
        for each in targets()
    ]
