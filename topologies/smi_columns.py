"""
Which columns a matrix has: from its header where the rows agree with it, else from the rows.

The rows vouch for the columns: their labels are those of the first columns in order, and their X stands in their own column.

When to modify: another way in which a header gets lost or damaged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from topologies import codes
from topologies.errors import TopologyError
from topologies.reading import listing
from topologies.smi_blocks import Block
from topologies.smi_cells import count_codes, read_cells
from topologies.smi_header import TITLES, Column, Kind, is_gpu_label
from topologies.text import Page


@dataclass(frozen=True, slots=True)
class Columns:
    """
    The columns of a matrix.

    Parameters
    ----------
    devices
        Names of the link columns, in order; ``...`` for one that is left out.
    unnamed
        Number of link columns after them whose name is lost.
    tail
        The columns after the link columns.
    warnings
        What was repaired.
    """

    devices: tuple[str, ...]
    unnamed: int
    tail: tuple[Column, ...]
    warnings: tuple[str, ...]

    @property
    def width(self) -> int:
        """Number of link columns."""
        return len(self.devices) + self.unnamed


def find_columns(page: Page, block: Block) -> Columns:
    """
    Return the columns of *block*.

    Raises
    ------
    TopologyError
        If header and rows do not fit, or the header names a device twice.
    """
    labels = tuple(dict.fromkeys(row.label for row in block.rows))
    gpu_rows = [row for row in block.rows if is_gpu_label(row.label)]
    named = _named_devices(block, labels)
    counts = Counter(count_codes(row) for row in gpu_rows or block.rows)
    widest = len(named) if counts[len(named)] * 2 > counts.total() else max(counts)
    tail = tuple(c for c in block.columns if c.kind not in (Kind.DEVICE, Kind.ELIDED) and c.name not in named)
    if named and (widest == len(named) or (widest < len(named) and not _misfit(block, named))):
        doubled = [name for name, times in Counter(named).items() if times > 1 and name not in ELIDED]
        if doubled:
            message = f"the header names {listing(doubled)} twice"
            raise TopologyError(message, where=page.where(block.first_line))
        return Columns(named, 0, tail, _glued_titles(block))
    if named and (len(labels) < widest or _misfit(block, labels)):
        raise TopologyError(
            f"rows have {widest} link cells but the header names {len(named)} devices ({listing(named)}); "
            "paste the matrix again, with all its columns",
            where=page.where(block.first_line),
        )
    gpus = tuple(label for label in labels if is_gpu_label(label))
    devices = labels if len(labels) == widest else gpus
    unnamed = max(0, widest - len(devices))
    if named:
        why = (
            f"the header names only {listing(named)}: columns were inferred from the rows and the X positions"
        )
    else:
        tail = _guessed_tail(block, widest)
        why = (
            f"the header line is missing: columns were inferred from the {len(gpus)} GPU rows, "
            f"the {len(labels) - len(gpus)} other rows and the X positions"
        )
    lost = f"{unnamed} link columns at the end have lost their names and were ignored"
    return Columns(devices, unnamed, tail, (why, lost) if unnamed else (why,))


ELIDED = frozenset({"...", "…"})


def _named_devices(block: Block, labels: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the link columns in the header: devices, what stands among them, and what has a row."""
    last_device = max((k for k, c in enumerate(block.columns) if c.kind is Kind.DEVICE), default=-1)
    return tuple(
        c.name
        for k, c in enumerate(block.columns)
        if c.kind in (Kind.DEVICE, Kind.ELIDED)
        or (c.kind is Kind.OTHER and (k < last_device or c.name in labels))
    )


def _glued_titles(block: Block) -> tuple[str, ...]:
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


def _misfit(block: Block, columns: Sequence[str]) -> bool:
    """Whether the X of some row stands elsewhere than *columns* have it."""
    for row in block.rows:
        if row.label in columns:
            position = read_cells(row, len(columns), ()).self_position
            if position not in (None, columns.index(row.label)):
                return True
    return False


def _guessed_tail(block: Block, width: int) -> tuple[Column, ...]:
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
