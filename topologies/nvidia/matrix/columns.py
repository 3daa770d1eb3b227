"""
Which columns a matrix has: from its header where the rows agree with it, else from the rows.

The rows vouch for the columns: their labels are those of the first columns in order, and their X stands in their own column.

When to modify: another way in which a header gets lost or damaged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from topologies import codes
from topologies.errors import TopologyError
from topologies.nvidia.matrix.blocks import Block
from topologies.nvidia.matrix.cells import Cells, count_codes, read_cells
from topologies.nvidia.matrix.header import MOST_DEVICES, Column, Kind, gpu_index, is_gpu_label
from topologies.nvidia.matrix.titles import ambiguous_tail, glued_titles, guessed_tail, with_meaning
from topologies.pages.reading import listing
from topologies.pages.text import Page


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
    gpus
        Number of GPUs that there are at least: link columns without a name that show an NVLink are of GPUs, too.
    """

    devices: tuple[str, ...]
    unnamed: int
    tail: tuple[Column, ...]
    warnings: tuple[str, ...]
    gpus: int = 0

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
    named, cut = _without_cut_label(_named_devices(block, labels), labels)
    if not cut:
        named, cut = _with_label_of_row(named, labels, block)
        if cut:  # nothing follows the label, also if the beginning of it looked like a label and a title
            block = replace(block, columns=block.columns[: len(named)])
    counts = Counter(count_codes(row) for row in gpu_rows or block.rows)
    widest = len(named) if counts[len(named)] * 2 > counts.total() else max(counts)
    tail = tuple(c for c in block.columns if c.kind not in (Kind.DEVICE, Kind.ELIDED) and c.name not in named)
    tail = with_meaning(tail, block, widest)
    if named and (widest == len(named) or (widest < len(named) and not _misfits(block, named))):
        doubled = [name for name, times in Counter(named).items() if times > 1 and name not in ELIDED]
        if doubled:
            message = f"the header names {listing(doubled)} twice"
            raise TopologyError(message, where=page.where(block.first_line))
        if len(labels) == len(named) and _misfits(block, named) > 1 and not _misfits(block, labels):
            why = "the X of the rows contradicts the order of the header: the columns are taken in the order of the rows"
            return Columns(labels, 0, tail, (*glued_titles(block), why))
        return Columns(named, 0, tail, (*glued_titles(block), *cut))
    if named and (len(labels) < widest or _misfits(block, labels)):
        raise TopologyError(
            f"rows have {widest} link cells but the header names {len(named)} devices ({listing(named)}); "
            "paste the matrix again, with all its columns",
            where=page.where(block.first_line),
        )
    gpus = tuple(label for label in labels if is_gpu_label(label))
    devices, contradiction = _devices_of_rows(block, labels, widest)
    unnamed = max(0, widest - len(devices))
    if named:
        why = (
            f"the header names only {listing(named)}: columns were inferred from the rows and the X positions"
        )
    else:
        tail = guessed_tail(block, widest)
        why = (
            f"the header line is missing: columns were inferred from the {len(gpus)} GPU rows, "
            f"the {len(labels) - len(gpus)} other rows and the X positions"
        )
    ambiguous = () if named else ambiguous_tail(block, tail)
    tail = () if ambiguous else tail
    lost = f"{unnamed} link columns at the end have lost their names and were ignored"
    warnings = (why, *contradiction, *ambiguous, lost) if unnamed else (why, *contradiction, *ambiguous)
    return Columns(devices, unnamed, tail, warnings, 0 if contradiction else _fewest_gpus(block, widest, devices))


ELIDED = frozenset({"...", "…"})

UNNAMED = "?"
"""Name of a link column, between columns with names, that nobody can tell the name of; no device is called so."""


def _devices_of_rows(block: Block, labels: Sequence[str], width: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """
    Return the names of the first of *width* link columns, as far as the rows prove them, and a warning if they contradict each other.

    GPUs come first and in order, so that an X in the column of its own number proves that column and all before it. Rows that
    are all there also prove an order of their own, as when somebody kept only some GPUs. Rows that go on past their own column
    without an X prove that these are other columns, as when somebody kept only those of the NICs.
    """
    counts = {row.label: count_codes(row) for row in block.rows}
    places = {row.label: read_cells(row, width, ()).self_position for row in block.rows}
    known = {label: place for label, place in places.items() if place is not None}
    gpus = [label for label in labels if is_gpu_label(label)]
    proven = max((place for label, place in known.items() if is_gpu_label(label) and gpu_index(label) == place), default=-1)
    is_counted = [gpu_index(label) for label in gpus] == list(range(len(gpus)))
    fits = all(labels[place] == label for label, place in known.items() if place < len(labels))
    without = sum(label not in known and counts[label] > place for place, label in enumerate(labels))
    if len(labels) == width and fits and len(known) > without and (is_counted or len(known) == len(labels)):
        return tuple(labels), ()
    agreed = [label for label, place in known.items() if is_gpu_label(label) and place == gpu_index(label)]
    odd = [label for label, place in known.items() if is_gpu_label(label) and place != gpu_index(label)]
    for label in sorted(gpus, key=gpu_index):  # rows that end before their X
        if gpu_index(label) == proven + 1 and counts[label] <= proven + 1 < width:
            proven += 1
    if proven + 1 == width:  # lines are cut at the right: the columns of the other GPUs are there, though not shown
        proven = max([proven, *map(gpu_index, gpus)])
    devices = [f"GPU{index}" for index in range(min(proven + 1, MOST_DEVICES))]
    prefix = {gpu_index(label): label for label in gpus}
    devices = [prefix.get(index, name) for index, name in enumerate(devices)]
    nics = [(place, label) for label, place in known.items() if not is_gpu_label(label) and counts[label] == width]
    taken = Counter(place for place, _ in nics)
    for place, label in sorted(nics):
        if place > proven and taken[place] == 1:
            devices += [UNNAMED] * (place - len(devices)) + [label]
    if not odd:
        return tuple(devices), ()
    why = f"the X of row {listing(odd)} is not in the column of its number: without a header nobody can tell the columns"
    is_split = sum(counts[label] == width for label in odd) >= len(agreed)
    return (() if is_split else tuple(devices)), (why,)


def is_shifted(cells: Cells, devices: Sequence[str]) -> bool:
    """Whether the X of a row stands in another's column of *devices*, or a link in its own one: then these are other columns."""
    label, diagonal = cells.row.label, cells.self_position
    if diagonal is not None:
        return (devices[diagonal] if diagonal < len(devices) else UNNAMED) not in (label, UNNAMED, *ELIDED)
    own = devices.index(label) if label in devices else len(cells.links)
    return own < len(cells.links) and cells.links[own] not in (None, codes.NOT_AVAILABLE, codes.LEFT_OUT)


def are_confirmed(rows: Iterable[Cells], devices: Sequence[str]) -> bool:
    """Whether more *rows* have their X in their own column of *devices* than contradict these columns."""
    balance = 0
    for cells in rows:
        place = cells.self_position
        balance -= is_shifted(cells, devices)
        balance += place is not None and place < len(devices) and devices[place] == cells.row.label
    return balance > 0


def _without_cut_label(named: tuple[str, ...], labels: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """
    Return *named* with the last label whole, and a warning, if a narrow screen cut it to an earlier one: ``GPU1`` after ``GPU10``.

    GPUs and numbered NICs stand in order, so that the one before tells which label it was; of other devices the rows must say so, too.
    """
    before = re.fullmatch(r"(.*?)([0-9]{1,4})", named[-2]) if len(named) > 2 else None
    if before is None or named[-1] not in named[:-1]:
        return named, ()
    following = f"{before[1]}{int(before[2]) + 1}"
    if following in named or not following.startswith(named[-1]):
        return named, ()
    row = next((label for label in labels if label not in named and label.startswith(named[-1])), None)
    if row != following and before[1] not in ("GPU", "NIC"):
        return named, ()
    return (*named[:-1], following), (f"the header ends within a label: {named[-1]} is the beginning of {following}",)


def _with_label_of_row(named: tuple[str, ...], labels: Sequence[str], block: Block) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return *named* with the last label whole, and a warning, if the header ends in it and only one row can be its own."""
    word = block.header_text.split()[-1] if named else ""
    if not named or named[-1] in labels or not word.startswith(named[-1]) or is_gpu_label(named[-1]):
        return named, ()
    if len(block.columns) > len(named) and (word == named[-1] or len(block.columns) > len(named) + 1):
        return named, ()
    place = len(named) - 1
    found = {
        row.label
        for row in block.rows
        if row.label not in named
        and row.label.startswith(word)
        and read_cells(row, len(named), ()).self_position in (None, place)
    }
    if len(found) == 1:
        label = found.pop()
        return (*named[:-1], label), (f"the header ends within a label: {word} is the beginning of {label}",)
    if found or word != named[-1]:
        return (*named[:-1], UNNAMED), (f"the header ends within a label, {word}, so that column was ignored",)
    return named, ()


def _fewest_gpus(block: Block, width: int, devices: Sequence[str]) -> int:
    """Return how many GPUs the whole rows of *block* prove: up to the last nameless column with an NVLink, as GPUs come first."""
    named = {k for k, name in enumerate(devices) if name != UNNAMED}
    rows = [read_cells(row, width, ()).links for row in block.rows if is_gpu_label(row.label)]
    return max(
        (
            k + 1
            for links in rows
            if len(links) == width
            for k, code in enumerate(links)
            if k not in named and code and code.startswith("NV")
        ),
        default=0,
    )


def _named_devices(block: Block, labels: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the link columns in the header: devices, what stands among them, and what has a row."""
    last_device = max((k for k, c in enumerate(block.columns) if c.kind is Kind.DEVICE), default=-1)
    return tuple(
        c.name
        for k, c in enumerate(block.columns)
        if c.kind in (Kind.DEVICE, Kind.ELIDED)
        or (c.kind is Kind.OTHER and (k < last_device or c.name in labels))
    )


def _misfits(block: Block, columns: Sequence[str]) -> int:
    """Return the number of rows whose X stands elsewhere than *columns* have it."""
    count = 0
    for row in block.rows:
        if row.label in columns:
            position = read_cells(row, len(columns), ()).self_position
            count += position not in (None, columns.index(row.label))
    return count
