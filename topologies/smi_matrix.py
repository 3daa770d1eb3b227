"""
Read the matrices of ``nvidia-smi topo -m``, ``-mp`` and ``-p2p``.

The reader trusts structure: labels name rows and columns, an ``X`` stands on the diagonal, a matrix is symmetric. A cell that
contradicts one of these is not used, and a warning says so; a link that the text does not state stays unknown.

When to modify: what a matrix may state, or how its parts vouch for each other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from topologies import codes
from topologies.errors import TopologyError
from topologies.model import Gpu, Pair, Topology
from topologies.reading import Reading, listing
from topologies.smi_blocks import MOST_DEVICES, TITLES, Block, Column, Kind, find_blocks, gpu_index, is_gpu_label
from topologies.smi_cells import Cells, count_codes, read_cells
from topologies.text import Page

_COMMAND = re.compile(r"topo\s+(?:-|--)(mp|m|matrix|matrix-pci|p2p\s+(\w+))\b")
_PEER_KIND = re.compile(r"p2p\s+\(?([rwnap]{1,5})\b")


def read(page: Page) -> Iterator[Reading]:
    """Yield one reading for every matrix on *page*."""
    for block in find_blocks(page):
        yield _MatrixReader(page, block).reading()


@dataclass(slots=True)
class _MatrixReader:
    """One matrix on its way to a `Topology`; the methods are called in the order in which they stand."""

    page: Page
    block: Block
    devices: list[str] = field(default_factory=list)
    tail: list[Column] = field(default_factory=list)
    is_header_lost: bool = False
    unnamed: int = 0
    warnings: list[str] = field(default_factory=list)
    cells: dict[tuple[str, str], str] = field(default_factory=dict)
    partial: dict[str, int] = field(default_factory=dict)
    unsure: set[tuple[str, str]] = field(default_factory=set)
    values: dict[str, dict[Kind, str | None]] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)

    def reading(self) -> Reading:
        self.warnings += self.block.notes
        self._find_columns()
        rows = [read_cells(row, len(self.devices) + self.unnamed, self.tail) for row in self.block.rows]
        self._refuse_empty(rows)
        for cells in self._without_repetitions(rows):
            self._take_row(cells)
        self._check_symmetry()
        return Reading(self.block.first_line, self._topology())

    # columns

    def _find_columns(self) -> None:
        """Find the device columns and those after them: from the header if the rows agree with it, else from the rows."""
        header = self.block.columns
        labels = list(dict.fromkeys(row.label for row in self.block.rows))
        gpu_rows = [row for row in self.block.rows if is_gpu_label(row.label)]
        count = Counter(count_codes(row) for row in gpu_rows or self.block.rows)
        widest = max(count)
        last_device = max((k for k, c in enumerate(header) if c.kind is Kind.DEVICE), default=-1)
        in_rows = {*labels}
        named = [
            c.name
            for k, c in enumerate(header)
            if c.kind in (Kind.DEVICE, Kind.ELIDED) or (c.kind is Kind.OTHER and (k < last_device or c.name in in_rows))
        ]
        self.tail = [c for c in header if c.kind not in (Kind.DEVICE, Kind.ELIDED) and c.name not in named]
        if named and widest <= len(named):
            self.devices = named
            self._report_header(named)
            return
        if named and not self._diagonal_fits(labels, widest):
            raise self._error(
                f"rows have {widest} link cells but the header names {len(named)} devices ({listing(named)}); "
                "paste the matrix again, with all its columns"
            )
        self.is_header_lost = True
        gpus = [label for label in labels if is_gpu_label(label)]
        self.devices = labels if len(labels) == widest else gpus
        self.unnamed = max(0, widest - len(self.devices))
        if named:
            self.warnings.append(f"the header names only {listing(named)}: columns were inferred from the rows and the X positions")
        else:
            self.tail = self._guessed_tail()
            self.warnings.append(
                f"the header line is missing: columns were inferred from the {len(gpus)} GPU rows, "
                f"the {len(labels) - len(gpus)} other rows and the X positions"
            )
        if self.unnamed:
            self.warnings.append(f"{self.unnamed} columns after {self.devices[-1]} have no name and were ignored")

    def _report_header(self, named: Sequence[str]) -> None:
        header = self.block.columns
        text = next((line.text for line in self.page.lines if line.number == self.block.first_line), "")
        for left, right in zip(header, header[1:], strict=False):
            whole = left.name + right.name
            if whole in text and right.start == left.start + len(left.name):
                self.warnings.append(f"the column titles {whole!r} were glued together and have been split")
        doubled = [name for name, times in Counter(named).items() if times > 1 and name not in ("...", "…")]
        if doubled:
            raise self._error(f"the header names {listing(doubled)} twice")

    def _diagonal_fits(self, labels: Sequence[str], widest: int) -> bool:
        """Whether the X of every row stands where the order of the rows has it."""
        gpus = [label for label in labels if is_gpu_label(label)]
        return len(gpus) <= widest and all(
            _self_position(read_cells(row, widest, ())) in (None, labels.index(row.label)) for row in self.block.rows
        )

    def _guessed_tail(self) -> list[Column]:
        """Return the affinity columns of a matrix without header, by their number: drivers only ever added to the right."""
        width = len(self.devices) + self.unnamed
        found = 0
        for row in self.block.rows:
            if is_gpu_label(row.label):
                words = row.body.split()
                found = max(found, len([w for w in words[min(width, count_codes(row)) :] if codes.is_value(w)]))
        kinds = (Kind.CPU_AFFINITY, Kind.NUMA, Kind.GPU_NUMA_ID)[:found]
        return [Column(TITLES[kind], kind, 0) for kind in kinds]

    # rows

    def _refuse_empty(self, rows: Sequence[Cells]) -> None:
        stated = [code for cells in rows for code in cells.links if code is not None and code not in codes.SELF]
        if stated and all(code == codes.NOT_AVAILABLE for code in stated):
            raise self._error("every cell is N/A: the matrix has no link information; run `nvidia-smi topo -m` on the host itself")
        foreign = next((r.label for r in self.block.rows if is_gpu_label(r.label) and not r.label.startswith("GPU")), None)
        if foreign is not None:
            vendor = foreign.rstrip("0123456789")
            raise self._error(
                f"the devices are called {vendor} ({foreign} …), not GPU: this is another vendor's tool, not nvidia-smi, "
                "and its codes are not known to mean the same"
            )
        if not any(is_gpu_label(name) for name in (*self.devices, *(row.label for row in self.block.rows))):
            raise self._error("the matrix has no GPU")

    def _without_repetitions(self, rows: Iterable[Cells]) -> Iterator[Cells]:
        seen: dict[str, Cells] = {}
        for cells in rows:
            label = cells.row.label
            if label not in seen:
                seen[label] = cells
                yield cells
            elif (seen[label].links, seen[label].values) == (cells.links, cells.values):
                self.warnings.append(f"row {label} is there twice, with the same cells")
            else:
                raise self._error(
                    f"row {label} is there twice with different cells (lines {seen[label].row.number} and {cells.row.number}); "
                    "keep the right one",
                    cells.row.number,
                )

    def _take_row(self, cells: Cells) -> None:
        """Keep the cells of a row whose columns are certain."""
        label, links = cells.row.label, list(cells.links)
        width = len(self.devices) + self.unnamed
        own = self.devices.index(label) if label in self.devices else None
        if cells.glued:
            self.warnings.append(f"row {label}: the glued cells {listing(cells.glued)} were split")
        if cells.surplus:
            self.warnings.append(f"row {label} has {cells.surplus} cells too many: its cells were not used")
            links = []
        diagonal = _self_position(cells)
        trusted = range(len(links))
        is_short = len(links) < width
        if own is None:
            if is_gpu_label(label) and (diagonal is not None or is_short):
                self.warnings.append(f"row {label} has no column, and its cells do not fit the other columns: they were not used")
                trusted = range(0)
        elif diagonal is not None and diagonal != own:
            self.warnings.append(f"row {label}: its X is in column {diagonal + 1} instead of {own + 1}, so its cells were not used")
            trusted = range(0)
        elif diagonal is None and len(links) > own:
            self.warnings.append(f"row {label} has no X: its cells from {self.devices[own]} on were not used")
            trusted = range(own)
        elif is_short and cells.rest and own is not None:
            self.warnings.append(f"row {label} lacks {width - len(links)} cells: those after its X were not used")
            trusted = range(own + 1)
        if is_short:
            self.partial[label] = len(links)
        for position in trusted:
            if position >= len(self.devices):
                break
            code = links[position]
            if code is not None and code not in codes.SELF and code != "...":
                self.cells[label, self.devices[position]] = code
        self._judge_end(cells, width)
        if is_gpu_label(label):
            self._take_values(cells, is_short)

    def _judge_end(self, cells: Cells, width: int) -> None:
        """Mark the last word of the text as unsure when a cut could have made it."""
        label, count = cells.row.label, len(cells.links)
        if count < width:
            self._warn_short(cells, width)
        if not cells.row.is_last or cells.rest or cells.cut or not count or count > len(self.devices):
            return
        last = cells.links[-1]
        if (count < width or self.page.is_cut) and last is not None and codes.is_link(last):
            self.unsure.add((label, self.devices[count - 1]))

    def _warn_short(self, cells: Cells, width: int) -> None:
        label, count = cells.row.label, len(cells.links)
        if cells.cut is not None:
            self.warnings.append(f"row {label} is cut after {count} of {width} cells: its last word {cells.cut!r} is a cut one, no link")
        elif cells.row.is_last:
            self.warnings.append(f"row {label} is cut after {count} of {width} cells")
        elif not cells.rest and not cells.surplus:
            self.warnings.append(f"row {label} is short: it has {count} of {width} cells")

    def _take_values(self, cells: Cells, is_short: bool) -> None:
        label = cells.row.label
        self.values[label] = {} if is_short and not cells.rest else dict(cells.values)
        values = [text for text in cells.unplaced if codes.is_value(text)]
        if values and self.tail:
            self.warnings.append(f"row {label}: cannot tell which affinity column {listing(values)} belongs to, so it is left unknown")
        notes = [text for text in cells.unplaced if not codes.is_value(text)]
        if notes and not cells.row.is_last and len(notes) == len(cells.unplaced) and "=" not in notes:
            self.warnings.append(f"row {label}: the words after its cells ({listing(notes[:4])}) were ignored")

    # the whole

    def _check_symmetry(self) -> None:
        """Drop cells that the opposite cell contradicts, and last words that may be cut and that no opposite cell confirms."""
        whole = [code for key, code in self.cells.items() if key not in self.unsure]
        for row, column in sorted(self.unsure):
            code, opposite = self.cells.get((row, column)), self.cells.get((column, row))
            if code is None or code == opposite or not _could_be_cut(code, whole):
                continue
            del self.cells[row, column]
            if row in self.partial:
                self.partial[row] -= 1
            self.warnings.append(f"the last word of the text, {code!r} in row {row}, may be a cut code, so it is no link")
        unused: set[str] = set()
        for (row, column), code in list(self.cells.items()):
            opposite = self.cells.get((column, row))
            if opposite is None or opposite == code or row in unused or column in unused:
                continue
            short = [label for label in (row, column) if label in self.partial and not self._is_cut(label)]
            if len(short) == 1:  # a row that lost a cell: all of it may be shifted
                unused.add(short[0])
                self.warnings.append(f"row {short[0]} is short and contradicts the other rows: its cells were not used")
            elif _order(row) < _order(column):
                self.conflicts += [f"{_short(row)}-{_short(column)}", f"{_short(column)}-{_short(row)}"]
                self.warnings.append(
                    f"row {row} says {code} for {column}, but row {column} says {opposite} for {row}: the link is left unknown"
                )
        self.cells = {key: code for key, code in self.cells.items() if key[0] not in unused}
        contradicted = {frozenset(pair.split("-", 1)) for pair in self.conflicts}
        self.cells = {
            (row, column): code
            for (row, column), code in self.cells.items()
            if frozenset((_short(row), _short(column))) not in contradicted
        }

    def _is_cut(self, label: str) -> bool:
        return any(row.label == label and row.is_last for row in self.block.rows)

    def _error(self, message: str, line: int | None = None) -> TopologyError:
        return TopologyError(message, where=self.page.where(line or self.block.first_line))

    # the topology

    def _topology(self) -> Topology:
        gpus = self._gpu_labels()
        nics = [name for name in self.devices if not is_gpu_label(name) and codes.NIC.fullmatch(name)]
        self._warn_others()
        states = [code for code in self.cells.values() if codes.is_peer_state(code)]
        links = [code for code in self.cells.values() if codes.is_link(code)]
        is_peer = len(states) > len(links)
        pairs = self._pairs(gpus)
        missing = self._missing(gpus)
        if missing:
            unknown = _unknown_among(pairs, len(gpus))
            self.warnings.append(
                f"rows are missing: {listing(missing)}" + (f"; links are unknown between {unknown}" if unknown else "")
            )
        elif len(pairs) < len(gpus) * (len(gpus) - 1) // 2:
            self.warnings.append(f"links are unknown between {_unknown_among(pairs, len(gpus))}")
        kinds = [] if is_peer else [c.kind for c in self.tail if c.kind in TITLES]
        self._drop_cut_values(missing)
        odd = sorted({code for code in pairs.values() if not (codes.is_peer_state(code) if is_peer else codes.is_known_link(code))})
        if odd:
            self.warnings.append(f"unknown link code {listing(odd)}: no hardware has such a link, so nothing is known of its speed")
        if not is_peer:
            self._warn_narrow(pairs, len(gpus))
        gpu_nic = {} if is_peer else self._gpu_nic(gpus, nics)
        return Topology(
            gpus=tuple(
                Gpu(index, **{kind.value: self.values.get(label, {}).get(kind) for kind in kinds})
                for index, label in enumerate(gpus)
            ),
            links={} if is_peer else pairs,
            nics={} if is_peer else {name: self._nic_name(name) for name in nics},
            gpu_nic=gpu_nic,
            format=self._format(is_peer),
            warnings=tuple(self.warnings),
            columns=frozenset({*(kind.value for kind in kinds), *(() if is_peer else ("links",))}),
            rows_missing=tuple(missing),
            rows_partial_cells_seen=dict(self.partial),
            conflict=tuple(self.conflicts),
            extra_columns=tuple(self._extra()),
            other_columns=self.unnamed,
            p2p=pairs if is_peer else {},
            p2p_kind=self._peer_kind() if is_peer else None,
        )

    def _gpu_labels(self) -> list[str]:
        """Return the labels of all GPUs from 0 to the highest that a row or column names."""
        named = {gpu_index(n): n for n in (*(r.label for r in self.block.rows), *self.devices) if is_gpu_label(n)}
        count = max(named) + 1
        if count > MOST_DEVICES:
            raise self._error(f"GPU{count - 1} is no index of a GPU of one host")
        absent = [f"GPU{index}" for index in range(count) if index not in named]
        if absent:
            self.warnings.append(f"the text does not name {listing(absent)}, but GPUs with higher numbers")
        return [named.get(index, f"GPU{index}") for index in range(count)]

    def _pairs(self, gpus: Sequence[str]) -> dict[Pair, str]:
        position = {label: index for index, label in enumerate(gpus)}
        found: dict[Pair, str] = {}
        for (row, column), code in self.cells.items():
            i, j = position.get(row), position.get(column)
            if i is not None and j is not None and i != j and code != codes.NOT_AVAILABLE:
                found[(i, j) if i < j else (j, i)] = code
        return dict(sorted(found.items()))

    def _gpu_nic(self, gpus: Sequence[str], nics: Sequence[str]) -> dict[int, dict[str, str]]:
        found: dict[int, dict[str, str]] = {}
        for index, gpu in enumerate(gpus):
            for nic in nics:
                code = self.cells.get((gpu, nic)) or self.cells.get((nic, gpu))
                if code is not None and code != codes.NOT_AVAILABLE:
                    found.setdefault(index, {})[nic] = code
        return found

    def _nic_name(self, column: str) -> str | None:
        if re.fullmatch(r"NIC\d+", column) is None:
            return column
        return self.block.nic_names.get(column)

    def _missing(self, gpus: Sequence[str]) -> list[str]:
        """Return the labels of columns without a row, GPUs first; devices that are neither GPU nor NIC do not count."""
        rows = {row.label for row in self.block.rows}
        expected = [*gpus, *(name for name in self.devices if not is_gpu_label(name) and codes.NIC.fullmatch(name))]
        return [name for name in expected if name not in rows]

    def _extra(self) -> list[str]:
        others = [c.name for c in self.block.columns if c.kind is Kind.OTHER]
        return [name for name in others if not (name in self.devices and any(r.label == name for r in self.block.rows))]

    def _warn_others(self) -> None:
        devices = [n for n in self.devices if not is_gpu_label(n) and not codes.NIC.fullmatch(n) and n not in ("...", "…")]
        devices = [name for name in devices if name not in self._extra()]
        if devices:
            self.warnings.append(f"device {listing(devices)} is no GPU and no NIC, so it was ignored")
        if extra := self._extra():
            self.warnings.append(f"column {listing(extra)} is one that nvidia-smi does not print, so it was ignored")
        if any(name in ("...", "…") for name in self.devices):
            self.warnings.append("columns are left out of the matrix ('...')")

    def _drop_cut_values(self, missing: Sequence[str]) -> None:
        """Drop the last affinity value of a text that ends within it."""
        last = self.block.rows[-1]
        if not last.is_last or not is_gpu_label(last.label) or not self.tail:
            return
        values = self.values.get(last.label, {})
        others = [v for label, v in self.values.items() if label != last.label]
        kinds = [column.kind for column in self.tail if column.kind in TITLES]
        given = [kind for kind in kinds if values.get(kind) is not None]
        if last.label not in self.partial and not given and any(any(v.values()) for v in others):
            self.warnings.append(f"row {last.label} is cut: its affinity is missing")
        if not self.page.is_cut or not given:
            return
        kind, text = given[-1], str(values[given[-1]])
        known = {str(v[kind]) for v in others if v.get(kind) is not None}
        is_prefix = any(value != text and value.startswith(text) for value in known)
        if text not in known and (missing or is_prefix or text[-1] in ",-"):
            self.warnings.append(f"the text ends within row {last.label}: its {TITLES[kind]} {text!r} is cut")
            values[kind] = None

    def _warn_narrow(self, pairs: dict[Pair, str], count: int) -> None:
        """Say so when all GPUs are joined by NVLink and some by fewer links than the others: links are down."""
        if len(pairs) < count * (count - 1) // 2 or count < 3 or not all(c.startswith("NV") for c in pairs.values()):
            return
        widths = [max(int(code[2:]) for pair, code in pairs.items() if g in pair) for g in range(count)]
        narrow = [g for g in range(count) if widths[g] < max(widths)]
        if narrow:
            self.warnings.append(
                f"the NVLink bonds of {listing([f'GPU{g}' for g in narrow])} are narrower than the others' "
                f"(NV{min(widths)} against NV{max(widths)}): links may be down"
            )

    def _format(self, is_peer: bool) -> str:
        if is_peer:
            return "p2p"
        commands = [m[1] for line in self._lines_above() for m in _COMMAND.finditer(line)]
        return "topo-mp" if commands and commands[-1] in ("mp", "matrix-pci") else "topo-m"

    def _peer_kind(self) -> str:
        kinds = [m[1] for line in self._lines_above() for m in _PEER_KIND.finditer(line)]
        return kinds[-1] if kinds else "unknown"

    def _lines_above(self) -> list[str]:
        return [line.text for line in self.page.lines if line.number < self.block.first_line]


def _self_position(cells: Cells) -> int | None:
    return next((k for k, code in enumerate(cells.links) if code in codes.SELF), None)


def _could_be_cut(code: str, whole: Sequence[str]) -> bool:
    """Whether *code*, the last word of a text, may have had another digit: NV1 always, others if such a code is in the matrix."""
    return code == "NV1" or any(other != code and other.startswith(code) for other in whole)


def _short(label: str) -> str:
    return str(gpu_index(label)) if is_gpu_label(label) else label


def _order(label: str) -> tuple[bool, int, str]:
    return (not is_gpu_label(label), gpu_index(label) if is_gpu_label(label) else 0, label)


def _unknown_among(pairs: dict[Pair, str], count: int) -> str:
    """Return between which GPUs links are unknown, in words; empty when all are known."""
    degree = [count - 1] * count
    for i, j in pairs:
        degree[i] -= 1
        degree[j] -= 1
    unknown = [index for index, left in enumerate(degree) if left]
    return listing([f"GPU{index}" for index in unknown])
