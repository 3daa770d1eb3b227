"""
Affinity values that a cut or damaged text does not show whole, or not for certain in their column: they are left unknown.

When to modify: a text gets cut in another way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from topologies.nvidia.smi_blocks import Block
from topologies.nvidia.smi_cells import Cells
from topologies.nvidia.smi_columns import Columns
from topologies.nvidia.smi_header import TITLES, Kind
from topologies.pages.reading import listing
from topologies.pages.text import Page

Values = Mapping[str, dict[Kind, str | None]]
"""Label of a row to its affinity values."""


def drop_cut_values(
    page: Page, block: Block, columns: Columns, values: Values, partial: Mapping[str, int]
) -> list[str]:
    """Take the values out of *values* that are cut, and return what to say of them; rows in *partial* have none."""
    return [*_cut_value(page, block, columns, values, partial), *_cut_column(block, columns, values)]


def drop_shifted_values(page: Page, rows: Sequence[Cells], columns: Columns, values: Values) -> Iterator[str]:
    """
    Take the values of rows that lack cells out of *values*, and yield what to say of them.

    A row with fewer cells than titles, or than most rows have, lost one or has two that are glued: nobody can tell which.
    """
    if not columns.tail:
        return
    usual = Counter(len(_stripped(cells.fields)) for cells in rows if cells.fields and cells.row.label in values)
    most = max(usual.values(), default=0)
    width = max(len(columns.tail), *(number for number, times in usual.items() if times == most), 0)
    lacking = []
    for cells in rows:
        own = values.get(cells.row.label, {})
        if cells.fields is None or len(cells.fields) >= width or not usual or (cells.row.is_last and page.is_cut):
            continue
        if any(value is not None for value in own.values()) or (own and max(usual) and not _stripped(cells.fields)):
            values[cells.row.label].update(dict.fromkeys(own))
            lacking.append(cells.row.label)
    if lacking:
        yield (
            f"row {listing(lacking)}: affinity cells are missing or glued together, and nobody can tell which, "
            "so they are left unknown"
        )


def _stripped(fields: Sequence[str]) -> Sequence[str]:
    """Return *fields* without blank ones at the end."""
    count = max((k for k, text in enumerate(fields, start=1) if text), default=0)
    return fields[:count]


def _cut_value(
    page: Page, block: Block, columns: Columns, values: Values, partial: Mapping[str, int]
) -> Iterator[str]:
    """Drop the last value of a text that ends within it."""
    last = block.rows[-1]
    rows = {row.label for row in block.rows}
    rows_follow = any(device not in rows for device in columns.devices)
    kinds = [column.kind for column in columns.tail if column.kind in TITLES]
    is_cut = last.is_last and (page.is_cut or rows_follow)
    if not is_cut or last.label not in values or last.label in partial or not kinds:
        return
    own = values[last.label]
    others = [v for label, v in values.items() if label != last.label]
    given = [kind for kind in kinds if own.get(kind) is not None]
    if not given:
        if any(value is not None for v in others for value in v.values()):
            yield f"row {last.label} is cut: its affinity is missing"
        return
    kind, text = given[-1], str(own[given[-1]])
    known = {v[kind] for v in others if v.get(kind) is not None}
    is_beginning = any(str(value).startswith(text) for value in known)
    if text not in known and ((rows_follow and page.is_cut) or is_beginning or text[-1] in ",-"):
        yield f"the text ends within row {last.label}: its {TITLES[kind]} {text!r} is cut"
        own[kind] = None


def _cut_column(block: Block, columns: Columns, values: Values) -> Iterator[str]:
    """Drop the values under a title that is cut: all lines may be cut there."""
    column = columns.tail[-1] if columns.tail else None
    if column is None or column.kind not in TITLES or not block.columns:
        return
    title = TITLES[column.kind]
    if title != column.name and title.startswith(column.name):
        yield f"the header ends within {title!r}: lines are cut there, so that column is left unknown"
        for own in values.values():
            own[column.kind] = None
