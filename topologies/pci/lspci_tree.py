r"""
Read the tree of ``lspci -t`` and ``-tv``::

    -+-[0000:3a]-+-00.0-[3b-3d]----00.0-[3c-3d]--+-04.0-[3d]----00.0  NVIDIA Corporation GA100 [A100 PCIe 40GB]
     |           \-05.0  Intel Corporation …
     \-[0000:00]-+-00.0  Intel Corporation …

A branch (``+-`` or ``\-``) belongs to the bus at whose column it stands. Where a row does not show exactly the branches that are
still open, columns were lost: what hangs there is listed, but not placed.

When to modify: the tool draws differently.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from topologies.errors import TopologyError
from topologies.pci.lspci_blocks import product, vendor
from topologies.ports import MOST_FUNCTIONS, Function

FIRST_ROW = re.compile(r"(?<![\w+\\-])-(?:\+-)?\[[0-9a-f]{4,8}:[0-9a-f]{2}\]-")
"""How a tree begins, wherever in the line that is."""

_TOKEN = re.compile(
    r"-*(?:\[(?:([0-9a-f]{4,8}):)?([0-9a-f]{2})(?:-[0-9a-f]{2})?\]-?|([+\\])-|([0-9a-f]{2})\.([0-7])(?![0-9a-f.]))"
)
_DAMAGED = re.compile(r"-*(\[[^\[\]\s]{0,20}\]?)-*")
_CHILD = re.compile(r"-*(\[[^\[\]\s]{0,20}\]?)-+[0-9a-f]{2}\.[0-7](?=  )")
"""A bus whose number cannot be read; the same with a single device on it."""

_BRANCH = re.compile(r"[ |]*([+\\])-")
_JOINED = re.compile(r"(?<=[^\s|])[ |]+[+\\]-(?:[0-9a-f]{2}\.[0-7](?![0-9a-f.])|\[[0-9a-f]{4,8}:)")
"""The next row behind the name of a device: a line break was lost."""

_ROOT_ROW = re.compile(r"[ |]*[+\\]-\[[0-9a-f]{4,8}:")
_PROMPT = re.compile(r"[$#>%]$|[$#] |```")
_LONGEST_NAME = 300
_WRAPPED_FROM = 60
"""Shortest row of which a line without branches may be the rest."""

_NO_GPU = re.compile(
    r"Audio|USB|UCSI|Switch|Bridge|Ethernet|Mellanox|ConnectX|BlueField|Host Controller|Host Bridge|Root Complex|SMBus|Serial|"
    r"NVMe|IOMMU|SATA|Memory|Dummy|PSP|Port|Device (?:1ac[0-9a-f]|1af1|22a3)\b",
    re.IGNORECASE,
)
"""What else carries the name of a maker of GPUs; at the end, NVSwitches by their device ids."""

_NIC = re.compile(
    r"Ethernet|Infiniband|ConnectX|NetXtreme|Network (?:Connection|Adapter|Controller)|Elastic (?:Fabric|Network)|Omni-Path|"
    r"Mellanox Technologies MT[0-9]|BCM57[0-9]{3}",
    re.IGNORECASE,
)
_NO_NIC = re.compile(r"Virtual Function|Bridge|Switch|DMA|SoC|Crypto|Virtio|Wireless|Wi-?Fi", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Bus:
    """A bus of the tree: its number, the bridge above it, its root complex; the latter two None where columns were lost."""

    domain: str
    number: str | None
    above: str | None
    root: str | None


def read_tree(lines: Sequence[str], functions: dict[str, Function]) -> list[str]:
    """
    Add the functions of the tree in *lines* to *functions*; return warnings.

    Raises
    ------
    TopologyError
        If there are more functions than any machine has.
    """
    warnings: list[str] = []
    position = 0
    while position < len(lines):
        if FIRST_ROW.match(lines[position].lstrip()):
            rows, position = _rows(lines, position)
            warnings += _Drawing(functions).read(rows)
        else:
            position += 1
    return list(dict.fromkeys(warnings))


def _rows(lines: Sequence[str], position: int) -> tuple[list[str], int]:
    """Return the rows of the tree that begins at *position*, wrapped ones in one piece, and where it ends; blank lines are none."""
    rows = [lines[position].strip()]
    indent = len(lines[position]) - len(lines[position].lstrip())
    has_roots = rows[0].startswith("-+")
    for end in range(position + 1, len(lines)):
        line = lines[end].rstrip()
        line = line[indent:] if not line[:indent].strip() else line
        if has_roots and line[:1] in ("|", "+", "\\"):
            line = " " + line  # blanks before all rows were stripped
        if not line.strip():
            continue
        if _BRANCH.match(line):
            rows.append(line)
        elif lines[end - 1].strip() and len(rows[-1]) >= _WRAPPED_FROM and not (FIRST_ROW.match(line) or _PROMPT.search(line)):
            rows[-1] += line
        else:
            return rows, end
    return rows, len(lines)


def _parts(row: str) -> list[str]:
    """Return the rows that *row* is, if line breaks between them were lost."""
    starts = [0, *(match.start() for match in _JOINED.finditer(row)), len(row)]
    return [row[start:end] for start, end in itertools.pairwise(starts)]


class _Drawing:
    def __init__(self, functions: dict[str, Function]) -> None:
        self._functions = functions
        self._open: dict[int, _Bus | None] = {}
        """The bus of every branch that goes on, by its column; None at the branches between root complexes."""
        self._domain = "0000"
        self._unread: list[str] = []
        """Where the number of a bus cannot be read."""

    def read(self, rows: Sequence[str]) -> list[str]:
        parts = [part for row in rows for part in _parts(row)]
        if len(parts) + rows[0].count("-[") > MOST_FUNCTIONS:
            raise TopologyError("the tree of lspci has more rows than any machine: cut the text down to those of one")
        first, *others = parts
        self._row(first, 0, None)
        damaged = ""
        for row in others:
            if not self._fits(row) and self._fits(row[1:]):
                row = row[1:]  # a blank stands for a lost line break
            match = _BRANCH.match(row)
            assert match is not None, "a row without a branch is none"
            column, is_whole = match.start(1), self._fits(row)
            if not is_whole and _ROOT_ROW.match(row):
                column = min(self._open, default=column)
                is_whole = self._open.get(column, self._LOST) is None
            for other in [k for k in self._open if k > column]:
                del self._open[other]
            bus = self._open[column] if is_whole else _Bus(self._domain, None, None, None)
            damaged = damaged or ("" if is_whole else row.strip())
            if match[1] == "\\":
                self._open.pop(column, None)
            self._row(row, match.end(), bus)
        unread = [
            f"the number of a bus in the tree of lspci cannot be read ({place}): the bus ids of what is on it are unknown"
            for place in self._unread
        ]
        if not damaged:
            return unread
        return [
            *unread,
            f"the tree of lspci lost its columns at {damaged[:40]!r}: what hangs from which bridge is unknown from there on",
        ]

    def _fits(self, row: str) -> bool:
        """Whether *row* shows exactly the branches that are open, and its own stands at one."""
        column = match.start(1) if (match := _BRANCH.match(row)) else -1
        bars = {k for k, letter in enumerate(row[: max(column, 0)]) if letter == "|"}
        return column in self._open and bars == {k for k in self._open if k < column}

    _LOST = _Bus("", None, None, None)

    def _row(self, row: str, position: int, bus: _Bus | None) -> None:
        """Read *row* from *position* on, where something on *bus* is drawn."""
        last: Function | None = None
        while match := _TOKEN.match(row, position) or self._unread_bus(row, position, last):
            if match.re is _DAMAGED:
                bus, last, position = _Bus(self._domain, None, None, None), None, match.end()
                continue
            domain, number, branch, device, function = match.groups()
            if device is not None:
                if last is not None or bus is None:
                    break  # no bus between two devices: this is no drawing any more
                last = self._add(bus, f"{device}.{function}")
            elif domain is not None:
                self._domain = f"{int(domain, 16):04x}"
                bus, last = _Bus(self._domain, number, None, f"pci{self._domain}:{number}"), None
            elif branch is not None:
                self._open[match.start(3)] = bus
            else:
                if last is not None:
                    last.bus_below, last.code = f"{self._domain}:{number}", 0x0604
                bus = _Bus(self._domain, number, last.bus_id if last else None, bus.root if bus and last else None)
                last = None
            position = match.end()
        if last is not None and (match := _CHILD.match(row, position)):
            self._unread.append(f"{match[1]} below {last.bus_id}")
            last.is_below, position = True, match.end()
        if last is not None:
            _describe(last, row[position : position + _LONGEST_NAME].strip())

    def _unread_bus(self, row: str, position: int, last: Function | None) -> re.Match[str] | None:
        """Return the bus at *position* whose number cannot be read; None if there is none, or a device *last* above a single other."""
        match = _DAMAGED.match(row, position)
        if match is None or (last is not None and _CHILD.match(row, position)):
            return None
        self._unread.append(f"{match[1]} below {last.bus_id}" if last is not None else match[1])
        if last is not None:
            last.code = 0x0604
        return match

    def _add(self, bus: _Bus, place: str) -> Function | None:
        if bus.number is None:
            return None
        found = Function(f"{bus.domain}:{bus.number}:{place}", above=bus.above, root=bus.root, is_placed=bus.root is not None)
        return self._functions.setdefault(found.bus_id, found)


def _describe(function: Function, text: str) -> None:
    """Take over what *text*, the name of *function*, tells: a tree shows no classes."""
    function.vendor, function.name = vendor(text), product(text)
    if "Virtual Function" in text:
        return
    if _NIC.search(text) and not _NO_NIC.search(text):
        function.code = 0x0200
    elif function.vendor in ("nvidia", "amd") and function.bus_id.endswith(".0") and not _NO_GPU.search(text):
        function.code = 0x0302
