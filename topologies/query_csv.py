"""
Read ``nvidia-smi --query-gpu=… --format=csv``: any columns in any order, with or without header and units.

Without a header a column is taken for what its cells prove: bus ids, UUIDs and card names have forms of their own, and memory
is taken only with its unit, the largest being the total. A number alone proves nothing.

When to modify: another field of the query is a fact of `Gpu`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from topologies.errors import TopologyError
from topologies.model import Gpu, Topology
from topologies.reading import Reading, listing
from topologies.smi_header import MOST_DEVICES
from topologies.text import Page

_FIELDS = {
    "index": "index",
    "name": "name",
    "gpu_name": "name",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "pci.bus_id": "pci_bus_id",
    "gpu_bus_id": "pci_bus_id",
    "memory.total": "memory_mib",
    "memory.used": "memory_used_mib",
}
"""Field of the query to field of `Gpu`."""

_TITLE = re.compile(r"([a-z][a-z0-9_]*(?:\.[a-z0-9_]+)*)(?:\s*\[[^\]]*\])?")
_INDEX = re.compile(r"[0-9]{1,4}")
_BUS_ID = re.compile(r"(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]")
_UUID = re.compile(r"GPU-[0-9A-Za-z-]+")
_NAME = re.compile(r"(?:NVIDIA|Tesla|Quadro|GeForce|GRID|TITAN|A100|A10|H100|L40)\b.*", re.IGNORECASE)
_MEMORY = re.compile(r"([0-9]{1,9})\s*MiB")
_NUMBER = re.compile(r"([0-9]{1,9})\s*(?:MiB)?")
_NO_ANSWER = re.compile(
    r"\[?(?:N/A|Not Supported|Not Available|Unknown Error|Insufficient Permissions|GPU is lost|Unknown)\]?",
    re.I,
)
_FACT = {"memory_mib": "memory.total", "memory_used_mib": "memory.used", "pci_bus_id": "pci.bus_id"}


@dataclass(frozen=True, slots=True)
class _Table:
    """Rows of cells from *line* on, with the `Gpu` field of each column, None where it is none of ours."""

    line: int
    columns: tuple[str | None, ...]
    rows: tuple[tuple[str, ...], ...]
    has_header: bool


def read(page: Page) -> Iterator[Reading]:
    """Yield one reading for every query output on *page*."""
    for table in _tables(page):
        yield Reading(table.line, _topology(table, page))


def _tables(page: Page) -> Iterator[_Table]:
    rows: list[tuple[str, ...]] = []
    header: tuple[str | None, ...] | None = None
    begin = 0
    for number, cells in [*((line.number, _cells(line.text)) for line in page.lines), (0, ())]:
        titles = _titles(cells)
        if rows and (titles or len(cells) != len(rows[0]) or (header is None and not _is_row(cells))):
            yield _table(begin, header, rows)
            rows, header = [], None
        if titles:
            header, begin = titles, number
        elif cells and (len(cells) == len(header) if header is not None else _is_row(cells)):
            begin = begin if header is not None or rows else number
            rows.append(cells)
        elif cells != ("",):  # a blank line may stand between header and rows
            header = None


def _cells(text: str) -> tuple[str, ...]:
    return tuple(cell.strip().strip('"').strip() for cell in text.split(",")) if len(text) < 4096 else ()


def _titles(cells: Sequence[str]) -> tuple[str | None, ...]:
    """Return the field of each column when *cells* are a header, else nothing."""
    if cells in ((), ("",)):
        return ()
    names = [match[1] if (match := _TITLE.fullmatch(cell)) else None for cell in cells]
    known = [_FIELDS.get(name) if name else None for name in names]
    return tuple(known) if all(names) and sum(k is not None for k in known) >= min(2, len(cells)) else ()


def _is_row(cells: Sequence[str]) -> bool:
    """Whether *cells* are a row of a table without header: an index, a name, and something else."""
    return (
        len(cells) > 2
        and any(_INDEX.fullmatch(cell) for cell in cells)
        and any(_NAME.fullmatch(cell) for cell in cells)
    )


def _table(line: int, header: tuple[str | None, ...] | None, rows: list[tuple[str, ...]]) -> _Table:
    columns = header if header is not None else _guess(rows)
    return _Table(line, columns, tuple(rows), header is not None)


def _guess(rows: Sequence[Sequence[str]]) -> tuple[str | None, ...]:
    """Return what each column is, by its cells."""
    columns = list(zip(*rows, strict=True))
    found: list[str | None] = [None] * len(columns)

    def take(fact: str, numbers: Sequence[int]) -> None:
        if numbers:
            found[numbers[0]] = fact

    def fitting(pattern: re.Pattern[str]) -> list[int]:
        return [k for k, cells in enumerate(columns) if all(pattern.fullmatch(cell) for cell in cells)]

    take(
        "index", [k for k in fitting(_INDEX) if len(set(columns[k])) == len(rows) and int(columns[k][0]) == 0]
    )
    take("name", fitting(_NAME))
    take("uuid", [k for k in fitting(_UUID) if all(len(cell) > 12 for cell in columns[k])])
    take("pci_bus_id", fitting(_BUS_ID))
    memory = fitting(_MEMORY)
    total = max(memory, key=lambda k: sum(_mib(cell) or 0 for cell in columns[k]), default=None)
    take("memory_mib", [] if total is None else [total])
    return tuple(found)


def _topology(table: _Table, page: Page) -> Topology:
    warnings = []
    if not table.has_header:
        named = [_FACT.get(c, c) if c else "?" for c in table.columns]
        warnings.append(f"the query output has no header: its columns were guessed as {', '.join(named)}")
    if "index" not in table.columns:
        warnings.append(
            "the query output has no index: its rows were taken as GPU 0, 1, 2 … in the order given"
        )
    facts: dict[int, dict[str, str]] = {}
    for position, row in enumerate(table.rows):
        cells = {column: cell for column, cell in zip(table.columns, row, strict=True) if column is not None}
        where = page.where(table.line)
        index = cells.pop("index", str(position))
        if not _INDEX.fullmatch(index) or int(index) >= MOST_DEVICES:
            raise TopologyError(f"query output: {index!r} is no GPU index", where=where)
        if facts.setdefault(int(index), cells) is not cells:
            raise TopologyError(f"query output: GPU {index} is there twice", where=where)
    absent = [f"GPU{index}" for index in range(max(facts) + 1) if index not in facts]
    if absent:
        warnings.append(f"the query output does not list {listing(absent)}, but GPUs with higher numbers")
    gpus = tuple(
        _gpu(index, facts.get(index, {}), warnings).replace(is_named=index in facts)
        for index in range(max(facts) + 1)
    )
    return Topology(gpus, format="query-csv", warnings=(*warnings, *_strange_cells(table)))


def _gpu(index: int, cells: dict[str, str], warnings: list[str]) -> Gpu:
    facts: dict[str, str | int] = {}
    for fact, cell in cells.items():
        if _NO_ANSWER.fullmatch(cell) or not cell:
            continue
        if not fact.startswith("memory"):
            facts[fact] = cell
        elif (mib := _mib(cell)) is None or (fact == "memory_mib" and mib == 0):
            warnings.append(
                f"GPU {index}: {_FACT[fact]} is {cell!r}, which is no memory size; it is left unknown"
            )
        else:
            facts[fact] = mib
    return Gpu(index, **facts)  # type: ignore[arg-type]


def _strange_cells(table: _Table) -> list[str]:
    """Return a warning for every kind of cell that is no answer, of all columns."""
    found: dict[str, list[str]] = {}
    for position, row in enumerate(table.rows):
        for column, cell in zip(table.columns, row, strict=True):
            if cell and _NO_ANSWER.fullmatch(cell):
                what = f"{cell} for {_FACT.get(column, column)}" if column else cell
                found.setdefault(what, []).append(f"GPU{position}")
    return [f"the query output reads {what} in the row of {listing(gpus)}" for what, gpus in found.items()]


def _mib(cell: str) -> int | None:
    match = _NUMBER.fullmatch(cell)
    return int(match[1]) if match else None
