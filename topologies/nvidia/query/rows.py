"""
A table of a query as printed, and which row belongs to which table.

When to modify: rows of several tables are told apart by something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from topologies.nvidia.query.forms import BUS_ID, INDEX, UUID, fits, is_row
from topologies.nvidia.query.titles import doubt, title_of
from topologies.nvidia.uuids import whole


@dataclass(slots=True)
class Table:
    """
    A table as printed.

    *line* is where it begins, *header* its titles (None when lost), *rows* its cells, *odd* the rows with more or fewer cells than
    titles, *printed* both in the order of the text, *is_cut* tells that
    the text ends with its last cell, *notes* what was put back together, *wrapped_at*
    the columns of the terminal, where the header tells them, *header_width* and *widths* how long the lines of the header and of
    the printed rows are; 0 for what was put together of several.
    """

    line: int
    header: tuple[str, ...] | None
    rows: list[tuple[str, ...]] = field(default_factory=list)
    odd: list[tuple[str, ...]] = field(default_factory=list)
    printed: list[tuple[str, ...]] = field(default_factory=list)
    is_cut: bool = False
    notes: list[str] = field(default_factory=list)
    wrapped_at: int | None = None
    header_width: int = 0
    widths: list[int] = field(default_factory=list)
    _seen: dict[int, tuple[int, bool, bool]] = field(default_factory=dict, init=False, repr=False)
    """For each column the rows looked at, and whether it counts and ascends in them."""

    @property
    def doubt(self) -> str | None:
        """What is to be said of a header whose line is cut."""
        return doubt(self.header[-1]) if self.header is not None else None

    @property
    def titles(self) -> tuple[str, ...]:
        """The titles without units, not in capitals; empty when the header is lost."""
        return tuple(title_of(cell) for cell in self.header or ())


    def counts(self, column: int) -> bool:
        """Whether *column* is 0, 1, 2 … over all rows."""
        return self._run(column)[1]

    def ascends(self, column: int) -> bool:
        """Whether *column* is an index that ascends over all rows."""
        return self._run(column)[2]

    def _run(self, column: int) -> tuple[int, bool, bool]:
        count, counts, ascends = self._seen.get(column, (0, True, True))
        while count < len(self.rows) and (counts or ascends):
            cell = self.rows[count][column]
            counts = counts and cell == str(count)
            ascends = ascends and INDEX.fullmatch(cell) is not None and (not count or int(self.rows[count - 1][column]) < int(cell))
            count += 1
        self._seen[column] = (count, counts, ascends)
        return self._seen[column]


def ascends(above: Sequence[str], below: Sequence[str]) -> bool:
    """Whether two lines have as many cells, and the same column of both is an index that ascends."""
    return len(above) == len(below) > 2 and any(
        INDEX.fullmatch(a) and INDEX.fullmatch(b) and int(a) < int(b) for a, b in zip(above, below, strict=True)
    )


def is_of_another(row: Sequence[str], table: Table, *, follows: bool) -> bool:
    """Whether *row* is that of another table: it has other columns, or names a GPU of *table* again."""
    if table.header is not None:
        return not follows and not continues(row, table)
    first = table.rows[0]
    if len(row) != len(first):
        return True
    goes_on = ascends(table.rows[-1], row)
    for cell, above in zip(row, first, strict=True):
        if cell == above and whole(cell) and not goes_on:
            return True
    if _begins_again(row, table):
        return True
    return tuple(row) == first and is_row(row)


def _begins_again(row: Sequence[str], table: Table) -> bool:
    """
    Whether the index of *row* is that of the first row of *table* again.

    Other numbers rise and fall too, so only a column that counts 0, 1, 2 … is the index; where none does, the one in front may be, if
    it ascends and no cell contradicts.
    """
    first = table.rows[0]
    below = len(table.rows)
    returning = [k for k, cell in enumerate(row) if cell == first[k] and INDEX.fullmatch(cell)] if below > 1 else []
    if not returning:
        return False
    counting = [k for k in range(len(row)) if table.counts(k)]
    if counting:
        return any(k in counting for k in returning) and all(row[k] != str(below) for k in counting)
    differs = any(a != b and form.fullmatch(a) and form.fullmatch(b) for a, b in zip(row, first, strict=True) for form in (UUID, BUS_ID))
    return returning[0] == 0 and table.ascends(0) and not differs


def continues(row: Sequence[str], table: Table) -> bool:
    """Whether *row*, below a line that is none, goes on with *table*, which has a header: it fits, and names another GPU."""
    if not fits(table.titles, row, follows=False):
        return False
    if "index" not in table.titles:
        return True
    at = table.titles.index("index")
    return all(row[at] != above[at] for above in table.rows)
