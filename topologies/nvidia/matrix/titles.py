"""
What the columns after the link cells are: by their titles, also those that people give them, else by the values below.

When to modify: a driver prints a new column, or people call one otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from topologies import codes
from topologies.nvidia.matrix.blocks import Block
from topologies.nvidia.matrix.cells import count_codes, read_cells
from topologies.nvidia.matrix.header import TITLES, Column, Kind, is_gpu_label
from topologies.pages.reading import listing

_MEANT = {
    **dict.fromkeys(("cpu", "cpus", "cpu list", "cpu cores"), Kind.CPU_AFFINITY),
    **dict.fromkeys(("numa", "numa node", "numa nodes"), Kind.NUMA),
}
"""What people call a column, in lower case."""


def with_meaning(tail: Sequence[Column], block: Block, width: int) -> tuple[Column, ...]:
    """
    Return the columns *tail* after *width* link columns, those of another title with the kind that they are of.

    A column CPU holds lists of CPUs, or the number of a socket: only a list with several CPUs tells.
    """
    known = {column.kind for column in tail}
    found = []
    for column in tail:
        kind = _MEANT.get(column.name.lower(), column.kind) if column.kind is Kind.OTHER else column.kind
        found.append(replace(column, kind=column.kind if kind in known else kind))
        known.add(kind)
    if found == list(tail):
        return tuple(tail)
    titles = [column for column in block.columns if column not in tail]
    rows = [read_cells(row, width, found, titles) for row in block.rows if is_gpu_label(row.label)]
    lists = {cells.values.get(Kind.CPU_AFFINITY) for cells in rows}
    has_lists = any("-" in cpus or "," in cpus for cpus in lists if cpus is not None)
    return tuple(
        new if new.kind is not Kind.CPU_AFFINITY or has_lists else old for old, new in zip(tail, found, strict=True)
    )


def guessed_tail(block: Block, width: int) -> tuple[Column, ...]:
    """Return the affinity columns of a matrix without header, by their number: drivers only ever added to the right."""
    found = 0
    for row in block.rows:
        if is_gpu_label(row.label):
            values = [
                word for word in row.body.split()[min(width, count_codes(row)) :] if codes.is_value(word)
            ]
            found = max(found, len(values))
    kinds = (Kind.CPU_AFFINITY, Kind.NUMA, Kind.GPU_NUMA_ID)[:found]
    return tuple(Column(TITLES[kind], kind, 0) for kind in kinds)


def ambiguous_tail(block: Block, tail: Sequence[Column]) -> tuple[str, ...]:
    """Return a warning if a guessed *tail* may lack a blank column: an N/A may be the GPU NUMA ID, a number alone the NUMA node."""
    if not 0 < len(tail) < len(TITLES) or any("\t" in row.body.strip() for row in block.rows):
        return ()
    last = [word for row in block.rows if is_gpu_label(row.label) for word in row.body.split()[-1:]]
    if not any(word == codes.NOT_AVAILABLE or (len(tail) == 1 and word.isdecimal()) for word in last):
        return ()
    return ("without a header and tabs nobody can tell which column the affinity values belong to, so they are left unknown",)


def glued_titles(block: Block) -> tuple[str, ...]:
    """Return a warning for each pair of titles without a gap."""
    pairs = zip(block.columns, block.columns[1:], strict=False)
    glued = [
        a.name + b.name
        for a, b in pairs
        if b.start == a.start + len(a.name) and a.name + b.name in block.header_text
    ]
    return (
        (
            f"the column titles {listing([repr(name) for name in glued])} were glued together and have been split",
        )
        if glued
        else ()
    )
