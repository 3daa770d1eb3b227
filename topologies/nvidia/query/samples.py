"""
Rows of a query that come again: ``nvidia-smi -l 1``, or a log with time stamps.

When to modify: another fact says which row is which GPU's, or a fact that never changes is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from topologies.errors import TopologyError
from topologies.nvidia.query.forms import BUS_ID, NO_ANSWER, is_whole
from topologies.nvidia.query.guess import Columns
from topologies.nvidia.query.rows import Table
from topologies.nvidia.uuids import whole

_TELLING = ("index", "uuid", "pci_bus_id")
_FEWEST_SIGNS = 7
"""A UUID with no more different signs, ``GPU-`` among them, was made unreadable."""

_FIXED = {
    "name": "names", "uuid": "UUIDs", "pci_bus_id": "bus ids", "memory_mib": "totals of memory", "compute_capability": "capabilities",
}  # fmt: skip


def keep_last(table: Table, columns: Columns, where: str) -> None:
    """
    Leave the last row of each GPU in *table*, in the order of the first sample, and say so in its notes.

    Raises
    ------
    TopologyError
        If a GPU is there twice in one sample, or two samples contradict each other.
    """
    fact = next((fact for fact in _TELLING if fact in columns), None)
    if fact is None:
        return
    at = columns.index(fact)
    keys = [row[at].lower() for row in table.rows]
    is_log = "timestamp" in table.titles
    if len(set(keys)) == len(keys) or not _tells([row[at] for row in table.rows], fact, is_log=is_log):
        return
    samples = _samples(keys)
    order = max(samples, key=len)
    is_doubled = len(order) == 1 and not is_log and len(set(table.rows)) == 1    # nothing shows that time passed
    if is_doubled or not _are_samples(samples, order):
        what = f"GPU {keys[_first_repeated(keys)]}" if fact == "index" else f"the GPU {table.rows[_first_repeated(keys)][at]}"
        raise TopologyError(f"query output: {what} is there twice: give one output, with one row for each GPU", where=where)
    rows = [*table.rows]
    is_odd_end = bool(table.odd) and table.printed[-1] is table.odd[-1]
    if table.is_cut and not is_odd_end and not is_whole(rows[-1][-1:]):
        del rows[-1], keys[-1]    # an earlier row is whole
    first: dict[str, tuple[str, ...]] = {}
    last: dict[str, tuple[str, ...]] = {}
    for key, row in zip(keys, rows, strict=True):
        _compare(first.setdefault(key, row), row, columns, key, where)
        last[key] = row
    if last != first:
        table.notes.append(
            f"the query output has {len(samples)} samples of the same GPUs (`nvidia-smi -l`, a log): the last row of each counts"
        )
    odd = set(map(id, table.odd))
    table.rows = [last[key] for key in order if key in last]
    table.printed = [*table.rows, *(row for row in table.printed if id(row) in odd)]
    table.is_cut &= is_odd_end


def together(tables: Sequence[Table]) -> list[Table]:
    """Return *tables* with those as one that a loop printed: the same titles again, and GPUs of the first."""
    found: list[Table] = []
    for table in tables:
        first = found[-1] if found else None
        is_new = first is None or first.header is None or first.header != table.header or not table.rows
        if first is None or is_new or not _indices(table) <= _indices(first):
            found.append(table)
            continue
        if table.rows == first.rows and not table.odd:
            continue    # pasted twice
        first.rows += table.rows
        first.odd += table.odd
        first.printed += table.printed
        first.notes += [note for note in table.notes if note not in first.notes]
        first.is_cut = table.is_cut
    return found


def _indices(table: Table) -> set[str]:
    """Return the indices of the rows; every row has its own where there are none, so that no table has those of another."""
    at = table.titles.index("index") if "index" in table.titles else None
    return {f"{table.line}:{number}" if at is None else row[at] for number, row in enumerate(table.rows)}


def _first_repeated(keys: Sequence[str]) -> int:
    seen: set[str] = set()
    for position, key in enumerate(keys):
        if key in seen:
            return position
        seen.add(key)
    return 0


def _tells(cells: Sequence[str], fact: str, *, is_log: bool) -> bool:
    """Whether *cells* say which GPU is which: a redacted UUID is that of several GPUs, and so may one be that all rows have."""
    if fact == "uuid" and not all(whole(cell) and len(set(cell)) > _FEWEST_SIGNS for cell in cells):
        return False
    if fact == "pci_bus_id" and not all(map(BUS_ID.fullmatch, cells)):
        return False
    return fact in ("index", "pci_bus_id") or is_log or len(set(cells)) > 1


def _samples(keys: Sequence[str]) -> list[list[str]]:
    """Return *keys* cut where one comes again."""
    samples: list[list[str]] = [[]]
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            samples.append([])
            seen = set()
        samples[-1].append(key)
        seen.add(key)
    return samples


def _are_samples(samples: Sequence[Sequence[str]], order: Sequence[str]) -> bool:
    """Whether each of *samples* has the same GPUs in the same order; a paste may begin and end within one."""
    begins = list(samples[0]) == list(order[len(order) - len(samples[0]) :])
    ends = list(samples[-1]) == list(order[: len(samples[-1])])
    return begins and ends and all(list(sample) == list(order) for sample in samples[1:-1])


def _compare(first: Sequence[str], row: Sequence[str], columns: Columns, key: str, where: str) -> None:
    for column, old, new in zip(columns, first, row, strict=True):
        if column in _FIXED and old != new and not any(not cell or NO_ANSWER.fullmatch(cell) for cell in (old, new)):
            raise TopologyError(
                f"query output: the GPU {key} is there twice, with different {_FIXED[column]} ({old[:60]}, {new[:60]}): give the output of "
                "one machine, taken once",
                where=where,
            )
