"""
`placement validate`: predictions against measurements, row by row.

When to modify: how the comparison looks on a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from placement.cli import EXIT_INPUT
from placement.cli.table import counted, new_table, rendered, width_of
from placement.cli.wrap import wrapped
from placement.drawing.shapes import printable
from placement.text.output import json_text, write_stdout
from placement.validation.fitted import Refit
from placement.validation.reading import Folder
from placement.validation.report import Report, report, to_document
from placement.validation.rows import Group, Row
from placement.validation.scaling import after_scaling, scaled
from placement.validation.stages import STEPS, Stage, stages

LONGEST_NAME = 84
STAGE_COLUMNS = ("piece", "rows", "mean error", "with its sign", "worst")
COLUMNS = (("row", "left"), ("measured", "right"), ("predicted", "right"), ("error", "right"))


def run(folder: Path | None, *, as_json: bool) -> int:
    """Compare and show; return the exit code, which is that of wrong input where a file is damaged."""
    found = report(Folder.at(folder))
    if as_json:
        write_stdout(json_text(to_document(found)))
    else:
        write_stdout(rendered(*page(found, width_of(sys.stdout)), stream=sys.stdout))
    damages = dict.fromkeys(group.damage for group in found.groups if group.damage)
    for damage in damages:
        sys.stderr.write(f"error: {printable(damage)}\n")
    return EXIT_INPUT if damages else 0


def page(found: Report, width: int) -> Iterator[RenderableType]:
    """Yield what is shown: every row of every group, and a summary at the end."""
    for group in found.groups:
        yield Text(wrapped(f"{group.name}: {group.title}", width), style="bold")
        if group.damage:
            yield wrapped(printable(f"error: {group.damage}"), width)
        yield _rows(group) if group.rows else "no rows"
        yield wrapped(verdict(group), width)
        for sentence in _cannot(group):
            yield wrapped(sentence, width)
        for sentence in factors(group):
            yield wrapped(sentence, width)
        if group.name in STEPS and (pieces := stages(group)):
            yield wrapped(f"{group.name}, piece by piece: errors of a step can cancel each other", width)
            yield _stages(pieces)
        yield ""
    if found.unpredicted:
        yield Text("what nothing predicts", style="bold")
        yield from (wrapped(printable(f"  {one}"), width) for one in found.unpredicted)
        yield ""
    yield Text("what was fitted, and its error on what was left out of the fit", style="bold")
    yield from (wrapped(printable(f"  {sentence}"), width) for sentence in map(fitted, found.fitted))
    yield ""
    yield Text("summary", style="bold")
    yield summary(found)


def _rows(group: Group) -> RenderableType:
    table = new_table(*COLUMNS, prose=["row"])
    for row in group.rows:
        table.add_row(*cells(row))
    return table


def _stages(pieces: Sequence[Stage]) -> RenderableType:
    table = new_table(*((name, "left" if name == "piece" else "right") for name in STAGE_COLUMNS))
    for one in pieces:
        table.add_row(*stage_cells(one))
    return table


def stage_cells(one: Stage) -> tuple[str, str, str, str, str]:
    """Return what is shown of a piece of work: rows that state it, mean error, with its sign, and the worst one."""
    return one.name, str(one.rows), f"{one.mape_percent:.1f} %", percent(one.bias_percent), percent(one.worst_percent)


def cells(row: Row) -> tuple[str, str, str, str]:
    """Return what a row shows: its name, both values and the error."""
    name = printable(row.name)
    short = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return short, number(row.measured), number(row.predicted), percent(row.error_percent)


def number(value: float | None) -> str:
    """Return a value with three digits that count; a dash where there is none."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def percent(value: float | None) -> str:
    """Return an error with its sign; a dash where there is none."""
    return "–" if value is None else f"{value:+.1f} %"


def verdict(group: Group) -> str:
    """Return the mean error and the worst row of a group in one sentence."""
    said = f"{len(group.predicted)} of {counted(len(group.rows), 'row')} predicted"
    if group.worst is None or group.mape_percent is None:
        return said
    worst = printable(group.worst.name)
    return f"{said}; mean error {group.mape_percent:.1f} %; the worst is {worst} ({percent(group.worst.error_percent)})"


def factors(group: Group) -> Iterator[str]:
    """Yield what one scale factor per framework would do."""
    after, frameworks = after_scaling(group), scaled(group)
    if not frameworks:
        return
    apart = sum(one.mape_percent is None for one in frameworks)
    without = f", without {counted(apart, 'framework')} of one row" if apart else ""
    yield f"with one scale factor per framework: mean error {'–' if after is None else f'{after:.1f} %'}{without}"
    for one in frameworks:
        if one.mape_percent is None:
            yield f"  {printable(one.framework)}: × {one.factor:.3f} over 1 row, which it meets by construction"
            continue
        left = "it has one model, so that none can be left out"
        if one.left_out_percent is not None:
            left = f"{one.left_out_percent:.1f} % for models that had no part in the factor"
        yield f"  {printable(one.framework)}: × {one.factor:.3f} over {counted(one.rows, 'row')}, {one.mape_percent:.1f} %; {left}"


def fitted(one: Refit) -> str:
    """Return how a fitted constant does without each model in one sentence."""
    said = f"{one.name} ({one.group}): {counted(one.rows, 'row')} depend{'s' if one.rows == 1 else ''} on it"
    if one.mape_percent is None:
        return said
    said = f"{said}, mean error {one.mape_percent:.1f} %"
    if one.left_out_percent is None:
        return f"{said}; there is one model, so that none can be left out"
    parts = "system" if one.group == "collectives" else "matrix" if one.group == "links" else "model"
    values = "" if one.lowest is None else f", with values from {one.lowest:.4g} to {one.highest:.4g}"
    return f"{said}; {one.left_out_percent:.1f} % when the value for each {parts} comes from the others{values}"


def _cannot(group: Group) -> Iterator[str]:
    for row in group.rows:
        if row.why is not None:
            yield printable(f"cannot be predicted: {row.name}: {row.why}")


def summary(found: Report) -> RenderableType:
    """Return one line for each group."""
    table = new_table(("group", "left"), ("rows", "right"), ("predicted", "right"), ("mean error", "right"), ("worst", "right"))
    for group in found.groups:
        worst = group.worst.error_percent if group.worst else None
        mean = "–" if group.mape_percent is None else f"{group.mape_percent:.1f} %"
        table.add_row(group.name, str(len(group.rows)), str(len(group.predicted)), mean, percent(worst))
    return table
