"""
The cells of a whole matrix, as far as they vouch for each other.

An ``X`` stands on the diagonal and a matrix is symmetric. A cell that contradicts one of these is not used, and a warning says
so. The last word of a text may be cut: it counts only if nothing longer could have stood there or the opposite cell confirms it.

When to modify: how the parts of a matrix vouch for each other.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from topologies import codes
from topologies.errors import TopologyError
from topologies.nvidia.matrix.blocks import Block
from topologies.nvidia.matrix.cells import Cells, read_cells, shortness
from topologies.nvidia.matrix.columns import Columns, are_confirmed, find_columns, is_shifted
from topologies.nvidia.matrix.cut import drop_cut_values, drop_shifted_values
from topologies.nvidia.matrix.header import Kind, gpu_index, is_gpu_label
from topologies.pages.reading import listing
from topologies.pages.text import Page


@dataclass(frozen=True, slots=True)
class Grid:
    """
    What a matrix states.

    Parameters
    ----------
    columns
        Its columns.
    cells
        (row, column) to code; what the text does not state for certain is absent.
    values
        GPU label to its affinity cells.
    partial
        Label of a cut or short row to the number of link cells that it shows.
    conflicts
        Cells that contradict each other, as ``"row-column"``.
    warnings
        What was repaired or not used.
    """

    columns: Columns
    cells: Mapping[tuple[str, str], str]
    values: Mapping[str, Mapping[Kind, str | None]]
    partial: Mapping[str, int]
    conflicts: tuple[str, ...]
    warnings: tuple[str, ...]


def read_grid(page: Page, block: Block) -> Grid:
    """
    Return what *block* states.

    Raises
    ------
    TopologyError
        If header and rows do not fit, a row is there twice with different cells, there is no link information, or the devices
        are no GPUs of NVIDIA.
    """
    return _Reader(page, block).grid()


@dataclass(slots=True)
class _Reader:
    """A matrix on its way to a `Grid`."""

    page: Page
    block: Block
    columns: Columns = field(init=False)
    is_mostly_whole: bool = False
    is_confirmed: bool = False
    is_shifted: bool = False
    cells: dict[tuple[str, str], str] = field(default_factory=dict)
    values: dict[str, dict[Kind, str | None]] = field(default_factory=dict)
    partial: dict[str, int] = field(default_factory=dict)
    unsure: list[tuple[str, str]] = field(default_factory=list)
    suspects: set[str] = field(default_factory=set)
    conflicts: list[str] = field(default_factory=list)
    homeless: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def grid(self) -> Grid:
        self.columns = find_columns(self.page, self.block)
        self.warnings += (*self.block.notes, *self.columns.warnings)
        titles = [column for column in self.block.columns if column not in self.columns.tail]
        rows = [read_cells(row, self.columns.width, self.columns.tail, titles) for row in self.block.rows]
        self._refuse_foreign(rows)
        self._suspect(rows)
        self.is_confirmed = are_confirmed(rows, self.columns.devices)
        self.is_shifted = any(is_shifted(cells, self.columns.devices) for cells in rows)
        self.is_mostly_whole = sum(len(cells.links) >= self.columns.width for cells in rows) * 2 > len(rows)
        self._report_glue(rows)
        for cells in self._without_repetitions(rows):
            self._take_row(cells)
        if self.homeless:
            self.warnings.append(
                f"row {listing(self.homeless)}: cannot tell which column the affinity values belong to, so they are left unknown"
            )
        self._drop_unsure()
        self._drop_contradictions()
        self.warnings += drop_shifted_values(self.page, rows, self.columns, self.values)
        self.warnings += drop_cut_values(self.page, rows, self.block, self.columns, self.values, self.partial)
        return Grid(
            self.columns,
            self.cells,
            self.values,
            self.partial,
            tuple(self.conflicts),
            tuple(dict.fromkeys(self.warnings)),
        )

    def _error(self, message: str, line: int | None = None) -> TopologyError:
        return TopologyError(message, where=self.page.where(line or self.block.first_line))

    def _refuse_foreign(self, rows: Sequence[Cells]) -> None:
        stated = [
            code for cells in rows for code in cells.links if code is not None and code not in codes.SELF
        ]
        if stated and all(code == codes.NOT_AVAILABLE for code in stated):
            raise self._error(
                "every cell is N/A: the matrix has no link information; run `nvidia-smi topo -m` on the host itself"
            )
        labels = [row.label for row in self.block.rows]
        foreign = next(
            (label for label in labels if is_gpu_label(label) and not label.startswith("GPU")), None
        )
        if foreign is not None:
            vendor = foreign.rstrip("0123456789")
            raise self._error(
                f"the devices are called {vendor} ({foreign} …), not GPU: this is another vendor's tool, not nvidia-smi, "
                "and its codes are not known to mean the same"
            )
        if not any(is_gpu_label(name) for name in (*self.columns.devices, *labels)):
            raise self._error("the matrix has no GPU")

    def _report_glue(self, rows: Sequence[Cells]) -> None:
        glued = [cells for cells in rows if cells.glued]
        if glued:
            words = dict.fromkeys(word for cells in glued for word in cells.glued)
            where = listing([cells.row.label for cells in glued])
            self.warnings.append(
                f"cells were glued together and have been split: {listing(list(words))} (row {where})"
            )

    def _without_repetitions(self, rows: Iterable[Cells]) -> Iterator[Cells]:
        seen: dict[str, Cells] = {}
        for cells in rows:
            first = seen.setdefault(cells.row.label, cells)
            if first is cells:
                yield cells
            elif (first.links, first.values) == (cells.links, cells.values):
                self.warnings.append(f"row {cells.row.label} is there twice, with the same cells")
            else:
                raise self._error(
                    f"row {cells.row.label} is there twice with different cells (lines {first.row.number} and "
                    f"{cells.row.number}); keep the right one",
                    cells.row.number,
                )

    def _take_row(self, cells: Cells) -> None:
        """Keep the cells of a row whose columns are certain."""
        label, count, width = cells.row.label, len(cells.links), self.columns.width
        if count < width:
            self.partial[label] = count
        trusted, why = self._trusted(cells)
        if why:
            self.warnings.append(f"row {label} {why}")
        elif count < width:
            self.warnings.append(shortness(cells, width))
        if label not in self.columns.devices:
            self.warnings.append(f"row {label} has no column")
        for column, code in zip(self.columns.devices, cells.links[:trusted], strict=False):
            if column in self.suspects:
                continue
            if code is None or code == codes.NOT_AVAILABLE:
                self.warnings.append(f"row {label} has cells that are blank, N/A or cannot be read")
            elif code not in codes.SELF and code != codes.LEFT_OUT:
                self.cells[label, column] = code
        is_end = not cells.rest and cells.cut is None
        may_be_cut = is_end and (count < width or (cells.row.is_last and self.page.is_cut))
        if may_be_cut and 0 < count <= len(self.columns.devices):
            self.unsure.append((label, self.columns.devices[count - 1]))
        if is_gpu_label(label) and not cells.surplus:
            self._take_values(cells)

    def _trusted(self, cells: Cells) -> tuple[int, str]:
        """Return how many leading cells of a row certainly stand in their columns, and what is wrong with the others."""
        label, count, width = cells.row.label, len(cells.links), self.columns.width
        devices, diagonal = self.columns.devices, cells.self_position
        if cells.surplus:
            return 0, f"has {cells.surplus} cells too many, so its cells were not used"
        if label not in devices:
            if is_shifted(cells, devices) or (is_gpu_label(label) and (diagonal is not None or count < width)):
                return 0, "does not fit the columns, so its cells were not used"
            return count, ""
        own = devices.index(label)
        if diagonal is not None and diagonal != own:
            return 0, f"has its X in column {diagonal + 1} instead of {own + 1}, so its cells were not used"
        if is_shifted(cells, devices):
            return 0, "has no X in its own column, so its cells were not used"
        if diagonal is None and count > own:
            return own, "has no readable cell in its own column, so its cells from there on were not used"
        if diagonal is None and not self.is_confirmed:
            return 0, "ends before its own column and no X proves the columns, so its cells were not used"
        if count < width and cells.rest:  # something is missing, and not at the end
            if diagonal is None:
                return 0, f"lacks {width - count} cells, so its cells were not used"
            return own + 1, f"lacks {width - count} cells, so those after its X were not used"
        is_inner = not cells.row.is_last and self.is_mostly_whole
        if count < width and diagonal is not None and (is_inner or self.is_shifted):  # a column may be lost in all rows
            return own + 1, f"is short: it has {count} of {width} cells, so those after its X were not used"
        return count, ""

    def _take_values(self, cells: Cells) -> None:
        label = cells.row.label
        values = [text for text in cells.unplaced if codes.is_value(text)]
        is_certain = not values and (cells.rest or len(cells.links) == self.columns.width)
        self.values[label] = dict(cells.values) if is_certain else {}
        if values and self.columns.tail:
            self.homeless.append(label)

    def _drop_unsure(self) -> None:
        """Drop the last words of lines that may be cut codes: NV1 always, others if a longer one is in the matrix."""
        codes_seen = set(self.cells.values())
        for row, column in self.unsure:
            code, opposite = self.cells.get((row, column)), self.cells.get((column, row))
            if code is None or (code == opposite and (column, row) not in self.unsure):
                continue
            if code == "NV1" or any(other != code and other.startswith(code) for other in codes_seen):
                del self.cells[row, column]
                if row in self.partial:
                    self.partial[row] -= 1
                self.warnings.append(
                    f"the last word of row {row}, {code!r}, may be a cut code, so it is no link"
                )

    def _drop_contradictions(self) -> None:
        """Drop both of two opposite cells that differ; of a short row, which may have lost any cell, drop all cells."""
        contradictions = [
            (row, column)
            for (row, column), code in self.cells.items()
            if _order(row) < _order(column) and self.cells.get((column, row), code) != code
        ]
        ended = {row.label for row in self.block.rows if row.is_last}
        shifted: set[str] = set()
        for row, column in contradictions:
            short = [label for label in (row, column) if label in self.partial and label not in ended]
            if len(short) == 1:
                shifted.update(short)
                self.warnings.append(
                    f"row {short[0]} is short and contradicts other rows, so its cells were not used"
                )
        dropped: set[tuple[str, str]] = set()
        for row, column in contradictions:
            if row not in shifted and column not in shifted:
                dropped |= {(row, column), (column, row)}
                self.conflicts += [f"{_short(row)}-{_short(column)}", f"{_short(column)}-{_short(row)}"]
                self.warnings.append(
                    f"row {row} says {self.cells[row, column]} for {column}, but row {column} says "
                    f"{self.cells[column, row]} for {row}, so the link is left unknown"
                )
        self.cells = {
            key: code for key, code in self.cells.items() if key[0] not in shifted and key not in dropped
        }

    def _suspect(self, rows: Iterable[Cells]) -> None:
        """Suspect the columns at which the X of several whole rows contradicts the header: their titles may have been exchanged."""
        devices = self.columns.devices
        found = [
            {devices.index(cells.row.label), cells.self_position}
            for cells in rows
            if cells.row.label in devices and len(cells.links) == self.columns.width and cells.self_position is not None
        ]
        agreed = [place for places in found if len(places) == 1 for place in places]
        found = [places for places in found if len(places) > 1]
        if len(found) > 1:
            self.suspects = {devices[place] for places in found for place in places if place < len(devices)}
        elif found and any(is_gpu_label(cells.row.label) and cells.row.label not in devices for cells in rows):
            first = max((place for place in agreed if place < min(found[0])), default=-1)
            self.suspects = set(devices[first + 1 :])  # the header lost the label of a row, and the others moved up
        if self.suspects:
            self.warnings.append(
                f"the X of rows contradicts the header, so columns {listing(sorted(self.suspects, key=_order))} were not used"
            )


def _short(label: str) -> str:
    return str(gpu_index(label)) if is_gpu_label(label) else label


@functools.lru_cache(maxsize=4096)
def _order(label: str) -> tuple[bool, int, str]:
    return (not is_gpu_label(label), gpu_index(label) if is_gpu_label(label) else 0, label)
