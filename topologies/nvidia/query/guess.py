"""
What the columns of a query output are that has no header.

A column is taken for what its cells prove: bus ids, UUIDs and card names have forms of their own, and memory is the total only if the
card has as much: free memory may be nearly as much. A number alone proves nothing.

When to modify: another column can be told by its cells.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from topologies.cards import card_of, cards
from topologies.model import Gpu
from topologies.nvidia.query.forms import BUS_ID, INDEX, LIKE_UUID, NAME, NO_ANSWER, has_size, mib

_CLOSE = 0.01
"""How near to a known total a size must be to be one where nothing else tells; drivers differ by less."""

Columns = tuple[str | None, ...]
"""The fact that each column is; None where it is none, or unknown."""


def guess(rows: Sequence[Sequence[str]]) -> Columns:
    """Return what each column is, by its cells."""
    columns = list(zip(*rows, strict=True))
    found: list[str | None] = [None] * len(columns)

    def take(fact: str, numbers: Sequence[int]) -> None:
        if numbers:
            found[numbers[0]] = fact

    def fitting(pattern: re.Pattern[str]) -> list[int]:
        """Return the columns whose cells fit; where the driver had no answer another cell must."""
        return [
            k for k, cells in enumerate(columns)
            if any(map(pattern.fullmatch, cells)) and all(pattern.fullmatch(cell) or NO_ANSWER.fullmatch(cell) for cell in cells)
        ]  # fmt: skip

    take("index", _index_columns(columns))
    names = [k for k, cells in enumerate(columns) if found[k] is None and any(map(NAME.fullmatch, cells))]
    take("name", names)
    take("uuid", fitting(LIKE_UUID))
    take("pci_bus_id", fitting(BUS_ID))
    take("memory_mib", _totals(columns, columns[names[0]] if names else ()))
    return tuple(found)


def _index_columns(columns: Sequence[Sequence[str]]) -> list[int]:
    """Return the columns that may be the index, the likeliest first: 0, 1, 2 …, or ascending numbers in front."""
    ascending = [
        k for k, cells in enumerate(columns)
        if all(map(INDEX.fullmatch, cells)) and all(int(a) < int(b) for a, b in itertools.pairwise(cells))
    ]  # fmt: skip
    in_front = [k for k in ascending if k == 0]
    from_zero = [k for k in ascending if int(columns[k][0]) == 0]
    if columns and len(columns[0]) == 1:
        return in_front or from_zero
    counted = [k for k in from_zero if int(columns[k][-1]) == len(columns[k]) - 1]
    return counted or in_front or from_zero


def _totals(columns: Sequence[Sequence[str]], names: Sequence[str]) -> list[int]:
    """
    Return the columns that are the total memory, the largest first.

    What the cards have is known from their names; a card that the catalogue does not know has what some card has.
    """
    found: list[tuple[int, int]] = []
    for k, cells in enumerate(columns):
        read = [(name, cell) for name, cell in itertools.zip_longest(names, cells) if not NO_ANSWER.fullmatch(cell)]
        if read and all(has_size(cell) for _, cell in read) and _are_totals([(name, mib(cell)) for name, cell in read]):
            found.append((sum(mib(cell) or 0 for _, cell in read), k))
    return [k for _, k in sorted(found, key=lambda entry: (-entry[0], entry[1]))]


def _are_totals(sizes: Sequence[tuple[str | None, int | None]]) -> bool:
    """Whether *sizes*, with the names of their cards, can only be totals: free memory may be nearly as much, but differs."""
    values: dict[str | None, list[int | None]] = {}
    for name, size in sizes:
        values.setdefault(name, []).append(size)
    return all(
        (len(of_card) > 1 and len(set(of_card)) == 1 and _may_hold(name, of_card[0]))
        or all(_may_hold(name, size, tolerance=_CLOSE) for size in of_card)
        for name, of_card in values.items()
    )


def _may_hold(name: str | None, memory_mib: int | None, tolerance: float | None = None) -> bool:
    """Whether a card called *name* (None: not known) may have *memory_mib* in total, within *tolerance* of what is known."""
    if not memory_mib:
        return False
    card = None if name is None else card_of(Gpu(0, name=name, memory_mib=memory_mib))
    return any(
        card.holds(memory_mib) if tolerance is None
        else any(abs(memory_mib - total) <= tolerance * total for total in (card.total_mib, *card.other_totals_mib))
        for card in (cards() if card is None else (card,))
    )  # fmt: skip
