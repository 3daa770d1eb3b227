"""
A table of a query as printed, and which row belongs to which table.

When to modify: rows of several tables are told apart by something else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from topologies.nvidia.query_forms import INDEX, UUID, fits, is_row

_TITLE = re.compile(r"([a-z][a-zA-Z0-9_]*(?:\.[a-zA-Z0-9_]+)*)\s?(?:\[[^\]]*\])?")


@dataclass(slots=True)
class Table:
    """
    A table as printed.

    *line* is where it begins, *header* its titles (None when lost), *rows* its cells, *odd* the rows with more or fewer cells than
    titles, *printed* both in the order of the text, *is_cut* tells that
    the text ends with its last cell, *notes* what was put back together, *wrapped_at*
    the columns of the terminal, where the header tells them.
    """

    line: int
    header: tuple[str, ...] | None
    rows: list[tuple[str, ...]] = field(default_factory=list)
    odd: list[tuple[str, ...]] = field(default_factory=list)
    printed: list[tuple[str, ...]] = field(default_factory=list)
    is_cut: bool = False
    notes: list[str] = field(default_factory=list)
    wrapped_at: int | None = None

    @property
    def titles(self) -> tuple[str, ...]:
        """The titles without units, in lower case; empty when the header is lost."""
        return tuple(title_of(cell) for cell in self.header or ())


def title_of(cell: str) -> str:
    match = _TITLE.fullmatch(cell)
    return match[1] if match else ""


def ascends(above: Sequence[str], below: Sequence[str]) -> bool:
    """Whether two lines have as many cells, and the same column of both is an index that ascends."""
    return len(above) == len(below) > 2 and any(
        INDEX.fullmatch(a) and INDEX.fullmatch(b) and int(a) < int(b) for a, b in zip(above, below, strict=True)
    )


def is_of_another(row: Sequence[str], table: Table, *, follows: bool) -> bool:
    """Whether *row* is that of another table: it has other columns, or names a GPU of *table* again."""
    if table.header is not None:
        return not follows and not continues(row, table)
    first, last = table.rows[0], table.rows[-1]
    if len(row) != len(first):
        return True
    for k, (cell, above) in enumerate(zip(row, first, strict=True)):
        is_index = INDEX.fullmatch(cell) and len(table.rows) > 1 and INDEX.fullmatch(above) and INDEX.fullmatch(last[k])
        if cell == above and (UUID.fullmatch(cell) or (is_index and int(above) < int(last[k]))):
            return True
    return tuple(row) == first and is_row(row)


def continues(row: Sequence[str], table: Table) -> bool:
    """Whether *row*, below a line that is none, goes on with *table*, which has a header: it fits, and names another GPU."""
    if not fits(table.titles, row, follows=False):
        return False
    if "index" not in table.titles:
        return True
    at = table.titles.index("index")
    return all(row[at] != above[at] for above in table.rows)
