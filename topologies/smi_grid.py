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
from topologies.reading import listing
from topologies.smi_blocks import Block
from topologies.smi_cells import Cells, read_cells
from topologies.smi_columns import Columns, find_columns
from topologies.smi_header import TITLES, Kind, gpu_index, is_gpu_label
from topologies.text import Page


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
    cells: dict[tuple[str, str], str] = field(default_factory=dict)
    values: dict[str, dict[Kind, str | None]] = field(default_factory=dict)
    partial: dict[str, int] = field(default_factory=dict)
    unsure: tuple[str, str] | None = None
    conflicts: list[str] = field(default_factory=list)
    homeless: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def grid(self) -> Grid:
        self.columns = find_columns(self.page, self.block)
        self.warnings += (*self.block.notes, *self.columns.warnings)
        rows = [read_cells(row, self.columns.width, self.columns.tail) for row in self.block.rows]
        self._refuse_foreign(rows)
        self._report_glue(rows)
        for cells in self._without_repetitions(rows):
            self._take_row(cells)
        if self.homeless:
            self.warnings.append(
                f"row {listing(self.homeless)}: cannot tell which column the affinity values belong to, so they are left unknown"
            )
        self._drop_unsure()
        self._drop_contradictions()
        self._drop_cut_value()
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
            self.warnings.append(_shortness(cells, width))
        if label not in self.columns.devices:
            self.warnings.append(f"row {label} has no column")
        for column, code in zip(self.columns.devices, cells.links[:trusted], strict=False):
            if code is None or code == codes.NOT_AVAILABLE:
                self.warnings.append(f"row {label} has cells that are blank, N/A or cannot be read")
            elif code not in codes.SELF and code != codes.LEFT_OUT:
                self.cells[label, column] = code
        may_be_cut = (
            cells.row.is_last and not cells.rest and cells.cut is None and (count < width or self.page.is_cut)
        )
        if may_be_cut and 0 < count <= len(self.columns.devices):
            self.unsure = (label, self.columns.devices[count - 1])
        if is_gpu_label(label):
            self._take_values(cells)

    def _trusted(self, cells: Cells) -> tuple[int, str]:
        """Return how many leading cells of a row certainly stand in their columns, and what is wrong with the others."""
        label, count, width = cells.row.label, len(cells.links), self.columns.width
        devices, diagonal = self.columns.devices, cells.self_position
        if cells.surplus:
            return 0, f"has {cells.surplus} cells too many, so its cells were not used"
        if label not in devices:
            if is_gpu_label(label) and (diagonal is not None or count < width):
                return 0, "does not fit the columns, so its cells were not used"
            return count, ""
        own = devices.index(label)
        if diagonal is not None and diagonal != own:
            return 0, f"has its X in column {diagonal + 1} instead of {own + 1}, so its cells were not used"
        if diagonal is None and count > own:
            return own, "has no X in its own column, so its cells from there on were not used"
        if count < width and cells.rest:  # something is missing, and not at the end
            if diagonal is None:
                return 0, f"lacks {width - count} cells, so its cells were not used"
            return own + 1, f"lacks {width - count} cells, so those after its X were not used"
        return count, ""

    def _take_values(self, cells: Cells) -> None:
        label = cells.row.label
        values = [text for text in cells.unplaced if codes.is_value(text)]
        is_certain = not values and (cells.rest or len(cells.links) == self.columns.width)
        self.values[label] = dict(cells.values) if is_certain else {}
        if values and self.columns.tail:
            self.homeless.append(label)

    def _drop_unsure(self) -> None:
        """Drop the last word of the text if it may be a cut code: NV1 always, others if a longer one is in the matrix."""
        if self.unsure is None:
            return
        row, column = self.unsure
        code, opposite = self.cells.get((row, column)), self.cells.get((column, row))
        if code is None or code == opposite:
            return
        if code == "NV1" or any(other != code and other.startswith(code) for other in self.cells.values()):
            del self.cells[row, column]
            if row in self.partial:
                self.partial[row] -= 1
            self.warnings.append(
                f"the last word of the text, {code!r} in row {row}, may be a cut code, so it is no link"
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

    def _drop_cut_value(self) -> None:
        """Drop the last affinity value of a text that ends within it."""
        last = self.block.rows[-1]
        kinds = [column.kind for column in self.columns.tail if column.kind in TITLES]
        if (
            not self.page.is_cut
            or not last.is_last
            or last.label not in self.values
            or last.label in self.partial
            or not kinds
        ):
            return
        values = self.values[last.label]
        others = [v for label, v in self.values.items() if label != last.label]
        given = [kind for kind in kinds if values.get(kind) is not None]
        if not given:
            if any(value is not None for v in others for value in v.values()):
                self.warnings.append(f"row {last.label} is cut: its affinity is missing")
            return
        kind, text = given[-1], str(values[given[-1]])
        known = {v[kind] for v in others if v.get(kind) is not None}
        is_beginning = any(str(value).startswith(text) for value in known)
        rows = {row.label for row in self.block.rows}
        rows_follow = any(device not in rows for device in self.columns.devices)
        if text not in known and (rows_follow or is_beginning or text[-1] in ",-"):
            self.warnings.append(f"the text ends within row {last.label}: its {TITLES[kind]} {text!r} is cut")
            values[kind] = None


def _shortness(cells: Cells, width: int) -> str:
    label, count = cells.row.label, len(cells.links)
    if cells.cut is not None:
        return f"row {label} is cut after {count} of {width} cells: its last word {cells.cut!r} is a cut one, no link"
    if cells.row.is_last:
        return f"row {label} is cut after {count} of {width} cells"
    return f"row {label} is short: it has {count} of {width} cells"


def _short(label: str) -> str:
    return str(gpu_index(label)) if is_gpu_label(label) else label


@functools.lru_cache(maxsize=4096)
def _order(label: str) -> tuple[bool, int, str]:
    return (not is_gpu_label(label), gpu_index(label) if is_gpu_label(label) else 0, label)
