"""
Read ``nvidia-smi --query-gpu=… --format=csv``: any columns in any order, with or without header and units; and the processes that
``--query-compute-apps=…`` lists.

Without a header `topologies.nvidia.query.guess` tells what the columns are.

When to modify: another field of the query is a fact of `Gpu`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from topologies.cards import card_of
from topologies.errors import TopologyError
from topologies.merging.identity import NO_INDEX
from topologies.model import Gpu, Topology
from topologies.nvidia.matrix.header import MOST_DEVICES
from topologies.nvidia.query import processes
from topologies.nvidia.query.cells import find_tables
from topologies.nvidia.query.forms import (
    BUS_ID,
    INDEX,
    NAME,
    NO_ANSWER,
    NOT_THERE,
    UUID,
    WITH_UNIT,
    mib,
)
from topologies.nvidia.query.gpus import ASKED, FREE, PCIE, TITLE_OF, gpu_of, idle_memory
from topologies.nvidia.query.guess import Columns, guess
from topologies.nvidia.query.joined import refuse_joined
from topologies.nvidia.query.rows import Table
from topologies.nvidia.query.samples import keep_last, together
from topologies.nvidia.query.titles import has_cut_unit
from topologies.nvidia.uuids import telling
from topologies.pages.reading import Reading, listing
from topologies.pages.text import Page
from topologies.ports import settled_gpus

_FIELDS = {
    "index": "index", "name": "name", "gpu_name": "name", "uuid": "uuid", "gpu_uuid": "uuid", "pci.bus_id": "pci_bus_id",
    "gpu_bus_id": "pci_bus_id", "memory.total": "memory_mib", "memory.used": "memory_used_mib",
    "memory.reserved": "memory_reserved_mib", "memory.free": FREE, "compute_cap": "compute_capability", "mig.mode.current": "mig",
    "pcie.link.gen.max": "gen", "pcie.link.gen.current": "current_gen", "pcie.link.gen.gpucurrent": "current_gen",
    "pcie.link.width.max": "width", "pcie.link.width.current": "current_width", "driver_version": "driver",
}  # fmt: skip
"""Field of the query to field of `Gpu`, of its `Pcie`, or of what is stated or concluded from."""

_UNIT = re.compile(r"\[\s*([A-Za-z]{1,5})\s*\]")


def read(page: Page) -> Iterator[Reading]:
    """
    Yield one reading for every query output on *page*.

    Raises
    ------
    TopologyError
        If a row has no index of a GPU, or one that was there before, or rows stand on one line.
    """
    refuse_joined(page)
    tables = together(list(find_tables(page)))
    apps = [table for table in tables if "pid" in table.titles]
    for table in tables:
        if table.header is None and not _may_be_gpus(table):
            continue
        if table not in apps and (table.rows or _FIELDS.keys() & set(table.titles)):
            yield Reading(table.line, _topology(table, page))
    if apps and (found := processes.topology(apps)) is not None:
        yield Reading(apps[0].line, found)


def _may_be_gpus(table: Table) -> bool:
    """Whether a table without header is one of GPUs: a list of processes has sizes and UUIDs too, but no names and no 0, 1, 2 …."""
    if any(NAME.fullmatch(cell) for row in table.rows for cell in row):
        return True
    return [row[0] for row in table.rows] == [str(index) for index in range(len(table.rows))]


def _topology(table: Table, page: Page) -> Topology:
    where = page.where(table.line)
    columns = tuple(map(_FIELDS.get, table.titles)) if table.header is not None else guess(table.rows)
    keep_last(table, columns, where)
    warnings = [*table.notes]
    if table.header is None:
        named = [TITLE_OF.get(c, c) if c else "?" for c in columns]
        warnings.append(f"the query output has no header: its columns were guessed as {', '.join(named)}")
    if "index" not in columns and table.header is None:
        warnings.append(f"{NO_INDEX}: its rows were taken as GPU 0, 1, 2 … in the order given")
    facts: dict[int, dict[str, str]] = {}
    for position, row in _placed(table):
        cells = {column: cell for column, cell in zip(columns, row, strict=True) if column is not None}
        index = cells.pop("index", str(position))
        if not INDEX.fullmatch(index) or int(index) >= MOST_DEVICES:
            raise TopologyError(f"query output: {index!r} is no GPU index", where=where)
        if facts.setdefault(int(index), cells) is not cells:
            raise TopologyError(f"query output: GPU {index} is there twice", where=where)
    odd = _odd_rows(table, columns, facts, warnings)
    if not facts:
        raise TopologyError("query output: no row has as many cells as the header has titles", where=where)
    _drop_clipped_cells(table, columns, facts)
    count = max(facts) + 1
    absent = [f"GPU{index}" for index in range(count) if index not in facts]
    if absent:
        warnings.append(f"the query output does not list {listing(absent)}, but GPUs with higher numbers")
    if table.is_cut and not odd:
        _drop_cut_cell(table, columns, facts, warnings)
    titles = zip(columns, table.header or (), strict=False)
    units = {column: match[1] for column, title in titles if column and (match := _UNIT.search(title))}
    gpus, narrow = settled_gpus(
        gpu_of(index, facts.get(index, {}), units, warnings).replace(is_named=index in facts) for index in range(count)
    )
    uuids = telling({gpu.index: gpu.uuid for gpu in gpus}, "the query output", warnings)
    gpus = tuple(gpu.replace(uuid=uuids.get(gpu.index)) for gpu in gpus)
    warnings += idle_memory(gpus, facts)
    stated: dict[str, Any] = {
        "header": None if table.header is None else list(table.header),
        "rows": [list(row) for row in table.printed],
        "indices": sorted(facts),
    }
    if memory := {str(gpu.index): gpu.memory_mib for gpu in gpus if gpu.memory_mib is not None}:
        stated["memory_total_mib"] = memory
    drivers = {cells["driver"] for cells in facts.values() if cells.get("driver") and not NO_ANSWER.fullmatch(cells["driver"])}
    if len(drivers) == 1:
        stated["driver"] = drivers.pop()
    return Topology(
        gpus, format="query-csv", warnings=(*warnings, *narrow, *_strange_cells(table, columns)), stated=stated
    )


def _placed(table: Table) -> list[tuple[int, tuple[str, ...]]]:
    """Return the whole rows of *table* and where they stand among all: a damaged one counts too."""
    odd = set(map(id, table.odd))
    return [(position, row) for position, row in enumerate(table.printed) if id(row) not in odd]


def _odd_rows(table: Table, columns: Columns, facts: dict[int, dict[str, str]], warnings: list[str]) -> bool:
    """Take from rows with too many or too few cells what the cells themselves prove; whether there are any."""
    for row in table.odd:
        index = row[0] if columns[0] == "index" and INDEX.fullmatch(row[0]) else ""
        whole = row[:-1] if table.doubt or (table.is_cut and row is table.odd[-1]) else row
        proven = {
            fact: cell
            for cell in whole
            for fact, pattern in (("name", NAME), ("uuid", UUID), ("pci_bus_id", BUS_ID))
            if fact in columns and pattern.fullmatch(cell)
        }
        cells = f"has {len(row)} cells, but the header has {len(columns)} titles"
        if not index or int(index) >= MOST_DEVICES or int(index) in facts:
            warnings.append(f"a row of the query output {cells}: it was left out")
        else:
            facts[int(index)] = proven
            warnings.append(f"the row of GPU{int(index)} in the query output {cells}: only what a cell itself proves was taken")
    return bool(table.odd)


def _drop_cut_cell(
    table: Table, columns: Columns, facts: dict[int, dict[str, str]], warnings: list[str]
) -> None:
    """Leave the last cell of a text without line end unknown, unless it is built like a whole one."""
    cell, fact = table.rows[-1][-1], columns[-1]
    others = [row[-1] for row in table.rows[:-1]]
    if fact is None or not cell or fact == "index":
        return
    index = sorted(facts)[len(table.rows) - 1] if "index" not in columns else int(table.rows[-1][columns.index("index")])
    name = facts[index].get("name")
    size = mib(cell)
    is_whole = (
        cell in others
        or any(pattern.fullmatch(cell) for pattern in (WITH_UNIT, BUS_ID, UUID))
        or (size is not None and any(mib(other) is not None and len(other) == len(cell) for other in others))
        or (fact == "name" and card_of(Gpu(0, name=cell)) is not None)
        or (fact == "memory_mib" and _is_total_of(name, size))
        or (fact in PCIE and not others)
    )
    if not is_whole:
        del facts[index][fact]
        warnings.append(f"the text ends with {cell!r}, which may be a cut cell, so that is left unknown for GPU{index}")


def _drop_clipped_cells(table: Table, columns: Columns, facts: dict[int, dict[str, str]]) -> None:
    """Leave cells of the last column unknown that do not show their end, if the line of the header is cut."""
    last = columns[-1]
    if table.header is None or last is None or not has_cut_unit(table.header[-1]):
        return
    for cells in facts.values():
        if last in cells and not WITH_UNIT.fullmatch(cells[last]):
            del cells[last]


def _is_total_of(name: str | None, memory_mib: int | None) -> bool:
    """Whether the card *name* is known to have *memory_mib*."""
    if not name or not memory_mib:
        return False
    card = card_of(Gpu(0, name=name, memory_mib=memory_mib))
    return card is not None and card.holds(memory_mib)


def _strange_cells(table: Table, columns: Columns) -> list[str]:
    """Return a warning for every kind of cell that is no answer: of columns that any card has, and of all if asking failed."""
    found: dict[str, list[str]] = {}
    titles = table.titles or tuple(TITLE_OF.get(column or "", column or "") for column in columns)
    at = columns.index("index") if "index" in columns else None
    for position, row in _placed(table):
        gpu = f"GPU{position if at is None else row[at]}"
        for title, column, cell in zip(titles, columns, row, strict=True):
            if NO_ANSWER.fullmatch(cell) and (column in ASKED or table.header is None or not NOT_THERE.fullmatch(cell)):
                found.setdefault(f"{cell} for {title}" if title else cell, []).append(gpu)
    return [f"the query output reads {what} in the row of {listing(gpus)}" for what, gpus in found.items()]
