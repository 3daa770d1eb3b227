"""
Rows of a query whose ends were cut off at one column, as a pager or a narrow window does, and how they differ from wrapped ones.

A cut cell looks like a whole one, so at that column only cells are believed that show their end.

When to modify: cut rows are told by something else.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

from topologies.nvidia.query.forms import BUS_ID, INDEX, NAME, NO_ANSWER, WITH_UNIT, has_form, is_whole
from topologies.nvidia.query.rows import Table
from topologies.nvidia.query.titles import title_of

NARROWEST = 40
WIDTHS = (79, 80, 100, 120, 132, 160)
"""Columns of the terminals that most people have."""

_BEGUN_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z]{8}-.*")
_KINDS = ((NAME, ("name", "gpu_name")), (_BEGUN_UUID, ("uuid", "gpu_uuid")), (BUS_ID, ("pci.bus_id", "gpu_bus_id")))

_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{0,6})?")

_Row = tuple[str, ...]


def width_of(text: str) -> int:
    """Return how long a line is: a blank at its end may be one between cells, several fill a window."""
    bare = len(text.rstrip())
    return len(text) if len(text) <= bare + 1 else bare


def are_two_rows(cells: Sequence[str], titles: Sequence[str]) -> bool:
    """Whether *cells*, put together of lines, name more GPUs than a row under *titles* does: then none of these lines was wrapped."""
    return any(
        sum(form.fullmatch(cell) is not None for cell in cells) > max(1, sum(title in of_form for title in titles))
        for form, of_form in _KINDS
    )


def without_cut_cells(table: Table) -> Table:
    """Return *table* with empty cells for those that may be cut where all its lines end, and a note if there are any."""
    widest = max(table.widths, default=0)
    at_end = sum(width == widest for width in table.widths)
    is_header_cut = table.header_width == widest and _is_header_cut(table)
    if widest < NARROWEST or table.header_width > widest or 0 in table.widths:
        return table
    bare = _numbers_without_unit(table, widest)
    if not is_header_cut and not bare and (widest not in WIDTHS or at_end < 2 or not _shows_cut(table, widest)):
        return table
    new: dict[int, _Row] = {}
    lacks_titles = is_header_cut and all(len(row) > len(table.titles) for row in table.printed)
    for row, width in zip(table.printed, table.widths, strict=True):
        if len(row) > len(table.titles) and (lacks_titles or (is_header_cut and width == widest)):
            new[id(row)] = row[: len(table.titles)]    # the titles of the others are cut off
        elif width == widest and row[-1] and not _is_sure(row, table, may_be_number=not is_header_cut and id(row) not in bare):
            new[id(row)] = (*row[:-1], "")
    lacks = is_header_cut and any(len(row) < len(table.titles) for row in table.printed)
    if not new and not lacks:
        return table
    note = f"the lines of the query output are cut at column {widest}: what stands there is left unknown"
    odd = {id(row) for row in table.odd if len(new.get(id(row), row)) != len(table.titles)}
    printed = [(new.get(id(row), row), id(row) in odd) for row in table.printed]
    return dataclasses.replace(
        table, rows=[row for row, is_odd in printed if not is_odd], odd=[row for row, is_odd in printed if is_odd],
        printed=[row for row, _ in printed], notes=[*table.notes, note],
    )  # fmt: skip


def _is_header_cut(table: Table) -> bool:
    """
    Whether the header of *table*, which ends where rows end, is cut there; equal cards have rows of one length, too.

    Its last title is no whole one, or lacks the unit that those like it have, or rows go on behind it.
    """
    if table.doubt is not None or any(len(row) > len(table.titles) for row in table.printed):
        return True
    *others, last = table.header or ("",)
    kind = title_of(last).partition(".")[0]
    return "[" not in last and any("[" in cell and title_of(cell).partition(".")[0] == kind for cell in others)


def _shows_cut(table: Table, widest: int) -> bool:
    """Whether rows that end at column *widest* are cut there: one has fewer cells than others, or the beginning of another's last one."""
    at_edge = [row for row, width in zip(table.printed, table.widths, strict=True) if width == widest]
    most = max(len(table.titles), *map(len, table.printed))
    lasts = {row[-1] for row in table.printed if len(row) == most}
    return any(len(row) < most for row in at_edge) or any(
        row[-1] != other and other.startswith(row[-1]) for row in at_edge for other in lasts
    )


def _numbers_without_unit(table: Table, widest: int) -> set[int]:
    """
    Return which rows (by `id`) end at column *widest* with a number that lacks its unit: then they are cut, within or behind it.

    Others of its column have theirs, or, where all are cut, those of other columns whose titles state one: a query prints all or none.
    """
    found = set()
    of_table = any(_has_unit(cell) for k in range(len(table.titles)) if _states_unit(table, k) for cell in _column(table, k))
    for row, width in zip(table.printed, table.widths, strict=True):
        k = len(row) - 1
        if width == widest and _NUMBER.fullmatch(row[k]):
            has_unit = of_table if _states_unit(table, k) else any(map(_has_unit, _column(table, k)))
            if has_unit:
                found.add(id(row))
    return found


def _column(table: Table, number: int) -> Iterator[str]:
    return (row[number] for row in table.printed if len(row) > number)


def _has_unit(cell: str) -> bool:
    return WITH_UNIT.fullmatch(cell) is not None and not cell.startswith("[")


def _states_unit(table: Table, number: int) -> bool:
    """Whether the title of a column states a unit."""
    return table.header is not None and number < len(table.header) and "[" in table.header[number]


def _is_sure(row: _Row, table: Table, *, may_be_number: bool) -> bool:
    """Whether the last cell of *row* is whole, though the line may be cut behind it."""
    cell = row[-1]
    is_index = INDEX.fullmatch(cell) is not None and table.titles[len(row) - 1 : len(row)] == ("index",)
    return is_whole((cell,)) or NO_ANSWER.fullmatch(cell) is not None or (may_be_number and has_form(cell)) or is_index
