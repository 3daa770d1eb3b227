"""
Read ``rocm-smi`` (``--showtopo`` and its parts, memory, product, bus and unique ids) and ``amd-smi topology``.

Tables are found by `topologies.amd.rocm_tables`, facts about single GPUs by `topologies.amd.rocm_facts`; here they are stated as
a `Topology`.
A link that the text does not state stays unknown.

When to modify: the tools print another fact.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from topologies.amd.rocm_facts import TELLING, Facts, find_facts, memory_mib, pcie
from topologies.amd.rocm_lines import streams
from topologies.amd.rocm_tables import UNREADABLE, Found, Table, find_tables
from topologies.codes import OF_AMD, is_known_link
from topologies.errors import TopologyError
from topologies.model import Gpu, Pair, Topology
from topologies.nvidia.matrix.header import MOST_DEVICES
from topologies.pages.reading import Reading, listing, unknown_codes
from topologies.pages.text import Line, Page

_TELLING = ("XGMI", "PCIE", "etween two GPUs", "TABLE", *TELLING)
_SELF = frozenset({"0", "SELF", "N/A", "TRUE", "ENABLED"})
_NOTHING = re.compile(r"N/A|X+|UNKNOWN|NONE")
_NUMA_AT_END = re.compile(r"\(Topology\) Numa Node: ?[0-9]{1,4}$")
_MOST_OUTPUTS = 256
_NAMES = {Table.WEIGHT: "weights", Table.HOPS: "hops", Table.TYPE: "link types"}


@dataclass(slots=True)
class _Output:
    """What belongs together: at most one table of a kind, and facts about GPUs."""

    tables: dict[Table, Found] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)
    warnings: list[str] = field(default_factory=list)

    @property
    def line(self) -> int:
        starts = [table.line for table in self.tables.values()]
        return min([*starts, *([self.facts.line] if self.facts.line else [])])


def read(page: Page) -> Iterator[Reading]:
    """
    Yield a reading for every output on *page*.

    Raises
    ------
    TopologyError
        If there are more outputs, or more GPUs, than anybody pastes.
    """
    if not any(word in page.text for word in _TELLING) and "xgmi" not in page.text.lower():
        return
    count = 0
    for lines, warnings in streams(_without_cut_end(page)):
        for output in _outputs(lines, page.lines[-1] if page.is_cut else None):
            count += 1
            if count > _MOST_OUTPUTS:
                message = f"more than {_MOST_OUTPUTS} outputs of rocm-smi: give those of one machine"
                raise TopologyError(message, where=page.where(output.line))
            output.warnings += warnings
            yield Reading(output.line, _Statement(page, output).topology())


def _without_cut_end(page: Page) -> tuple[Line, ...]:
    """Return the lines of *page*; where the text ends in the number of a NUMA node although more follows elsewhere, without that."""
    last = page.lines[-1]
    is_cut = page.is_cut and _NUMA_AT_END.search(last.text) and any("Numa Affinity" in line.text for line in page.lines)
    return (*page.lines[:-1], Line(last.number, "")) if is_cut else page.lines


def _outputs(lines: Sequence[Line], cut: Line | None) -> list[_Output]:
    """Return what *lines* show: a table of a kind that was there already begins another output."""
    outputs = [_Output()]
    starts = [lines[0].number if lines else 0]
    for table in find_tables(lines):
        if table.kind in outputs[-1].tables:
            outputs.append(_Output())
            starts.append(table.line)
        outputs[-1].tables[table.kind] = table
    for output, start, end in zip(outputs, starts, (*starts[1:], lines[-1].number + 1 if lines else 0), strict=True):
        output.facts = find_facts([line for line in lines if start <= line.number < end], cut)
    return [output for output in outputs if output.tables or output.facts.of_gpu or output.facts.pairs]


@dataclass(slots=True)
class _Statement:
    """An output on its way to a `Topology`."""

    page: Page
    output: _Output
    labels: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    conflict: list[str] = field(default_factory=list)
    partial: dict[str, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def topology(self) -> Topology:
        facts, tables = self.output.facts, self.output.tables
        self.warnings += self.output.warnings
        self.labels = self._find_labels()
        values = {kind: self._pairs(table) for kind, table in tables.items()}
        for title, pairs in facts.pairs.items():
            values.setdefault(Table(title), {}).update(pairs)
        links = {pair: code for pair, code in values.get(Table.TYPE, {}).items() if not _NOTHING.fullmatch(code)}
        access = {
            pair: "OK" if state in ("TRUE", "ENABLED") else "NS"
            for pair, state in values.get(Table.ACCESS, {}).items()
            if state in ("TRUE", "FALSE", "ENABLED", "DISABLED")
        }
        gpus = self._gpus()
        self._report(values, links, len(gpus))
        stated: dict[str, Mapping[str, str]] = {}
        for kind in (Table.WEIGHT, Table.HOPS):
            if known := {p: v for p, v in values.get(kind, {}).items() if v.isdecimal()}:
                stated[kind.value] = {f"{i}-{j}": value for (i, j), value in sorted(known.items())}
        columns = {"links"} if Table.TYPE in values else set()
        if any("numa" in facts.of_gpu.get(gpu.index, {}) for gpu in gpus):
            columns.add("numa")
        return Topology(
            gpus,
            dict(sorted(links.items())),
            format=self._format(values),
            warnings=tuple(dict.fromkeys(self.warnings)),
            columns=frozenset(columns),
            rows_missing=tuple(self.missing),
            rows_partial_cells_seen=self.partial,
            conflict=tuple(self.conflict),
            p2p=dict(sorted(access.items())),
            p2p_kind="access" if access else None,
            stated=stated,
        )

    def _format(self, values: Mapping[Table, object]) -> str:
        if not values:
            return "rocm-smi"
        return "amd-smi-topology" if any(":" in label for label in self.labels) else "rocm-showtopo"

    def _find_labels(self) -> list[str]:
        """Return the labels of all GPUs in order of their index: by bus id as the tables list them, else GPU0 to the highest."""
        tables = self.output.tables.values()
        named = dict.fromkeys(
            label.lower() for table in tables for label in (*table.labels, *(r for r, _ in table.rows))
        )
        busses = [label for label in named if ":" in label]
        if busses:
            named = dict.fromkeys(busses)
            count = len(busses)
        else:
            indices = {int(label[3:]) for label in named} | self.output.facts.of_gpu.keys()
            indices |= {index for pairs in self.output.facts.pairs.values() for pair in pairs for index in pair}
            count = max(indices) + 1
        if count > MOST_DEVICES:
            raise TopologyError(f"GPU{count - 1} is no GPU of one host", where=self.page.where(self.output.line))
        return busses or [f"gpu{index}" for index in range(count)]

    def _pairs(self, table: Found) -> dict[Pair, str]:
        """Return the cells of *table* by pair, as far as they vouch for each other."""
        place = {label: index for index, label in enumerate(self.labels)}
        columns = [place[label.lower()] for label in table.labels if label.lower() in place]
        if not columns or len(set(columns)) < len(columns):
            columns = [place[label.lower()] for label, _ in table.rows if label.lower() in place]
            self.warnings.append(f"the {table.kind} table has lost its header: columns were inferred from its rows")
        cells: dict[Pair, str] = {}
        for number, (label, row) in enumerate(table.rows):
            own = place.get(label.lower())
            if own is None or own not in columns:
                self.warnings.append(f"row {label} of the {table.kind} table has no column, so it was not used")
                continue
            is_end = number == len(table.rows) - 1 and table.is_cut
            for column, code in zip(columns, self._trusted(table, label, row, columns.index(own), len(columns), is_end), strict=False):
                if column != own and code != UNREADABLE:
                    cells[own, column] = code
        have = {place.get(label.lower()) for label, _ in table.rows}
        if table.kind is Table.TYPE or Table.TYPE not in self.output.tables:
            self.missing = [self.labels[c].upper() for c in columns if c not in have]
            if self.missing:
                self.warnings.append(f"rows are missing: {listing(self.missing)}")
        return self._symmetric(cells, table.kind)

    def _trusted(self, table: Found, label: str, row: list[str], own: int, width: int, is_end: bool) -> list[str]:
        """Return the leading cells of *row* that certainly stand in their columns; *own* is where its zero stands."""
        name = f"row {label.upper()} of the {table.kind} table"
        zeros = [k for k, cell in enumerate(row[:width]) if cell in ("0", "SELF")]
        if len(row) > width:
            self.warnings.append(f"{name} has {len(row) - width} cells too many, so its cells were not used")
            return []
        is_shifted = table.kind is Table.TYPE and zeros not in ([], [own])
        if is_shifted or (len(row) > own and row[own] not in _SELF):
            self.warnings.append(f"{name} does not have its own cell in its column, so its cells were not used")
            return []
        may_be_cut = is_end and self.page.is_cut and table.kind is Table.TYPE
        if may_be_cut and row[-1] not in (*OF_AMD, "0", "SELF", "N/A"):
            self.warnings.append(f"{name} is cut: its last word {row[-1]!r} is a cut one, no link")
            row = row[:-1]
        if len(row) == width:
            return row
        if table.kind is Table.TYPE:
            self.partial[label.upper()] = len(row)
        self.warnings.append(f"{name} is {'cut' if is_end else 'short'}: it has {len(row)} of {width} cells")
        if is_end:
            return row if table.kind is Table.TYPE else row[:-1]
        return row[: own + 1] if len(row) > own else []

    def _symmetric(self, cells: Mapping[Pair, str], kind: Table) -> dict[Pair, str]:
        """Return one value for both directions; none where they contradict each other."""
        found: dict[Pair, str] = {}
        for (i, j), code in cells.items():
            opposite = cells.get((j, i), code)
            if _NOTHING.fullmatch(code):
                code = opposite
            if code == opposite or _NOTHING.fullmatch(opposite):
                found[min(i, j), max(i, j)] = code
            elif kind is Table.TYPE:
                a, b = self.labels[i].upper(), self.labels[j].upper()
                self.conflict.append(f"{i}-{j}")
                self.warnings.append(
                    f"row {a} says {code} for {b}, but row {b} says {opposite} for {a}, so the link is left unknown"
                )
        return found

    def _gpus(self) -> tuple[Gpu, ...]:
        facts = self.output.facts
        self.warnings += facts.odd
        for gpu, title in facts.conflicts:
            self.warnings.append(f"GPU {gpu} has two values of {title!r}: the first was taken")
        tables = self.output.tables.values()
        named = {label.lower() for table in tables for label in (*table.labels, *(r for r, _ in table.rows))}
        in_pairs = {index for pairs in facts.pairs.values() for pair in pairs for index in pair}
        found = []
        for index, label in enumerate(self.labels):
            stated = facts.of_gpu.get(index, {})
            used = memory_mib(stated, "memory_used")
            found.append(
                Gpu(
                    index,
                    name=stated.get("name"),
                    uuid=stated.get("uuid"),
                    pci_bus_id=label if ":" in label else stated.get("pci_bus_id"),
                    memory_mib=memory_mib(stated),
                    memory_used_mib=used,
                    pcie=pcie(stated),
                    numa=next((n for k in ("numa", "numa_affinity") if (n := _numa(stated.get(k)))), None),
                    is_named=label in named or bool(stated) or index in in_pairs,
                )
            )
        return tuple(found)

    def _report(self, values: Mapping[Table, Mapping[Pair, str]], links: Mapping[Pair, str], count: int) -> None:
        """Warn of what an output of ``--showtopo`` lacks."""
        self.warnings += unknown_codes(links.values(), is_known_link)
        if not values:
            return
        lacks = [name for kind, name in _NAMES.items() if kind not in values]
        has_numa = any("numa" in stated for stated in self.output.facts.of_gpu.values())
        if not has_numa and self._format(values) == "rocm-showtopo":
            lacks.append("NUMA nodes")
        without = [f"GPU{gpu}" for gpu in range(count) if "numa" not in self.output.facts.of_gpu.get(gpu, {})]
        if has_numa and without:
            self.warnings.append(f"the list of NUMA nodes is cut, or lines of it are missing: that of {listing(without)} is unknown")
        if lacks:
            tool = "amd-smi topology" if self._format(values) == "amd-smi-topology" else "rocm-smi --showtopo"
            self.warnings.append(f"the output of `{tool}` is not all there: {listing(lacks)} are missing")
        stated = Counter(index for pair in links for index in pair)
        unknown = [self.labels[g].upper() for g in range(count) if stated[g] < count - 1]
        if unknown and Table.TYPE in values:
            self.warnings.append(f"links are unknown between some of {listing(unknown)}")


def _numa(text: str | None) -> str | None:
    """Return the NUMA node that *text* is; None for what the kernel prints when it knows none."""
    return None if text is None or text in ("-1", "4294967295", "65535") else text
