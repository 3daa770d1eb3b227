"""
What ``rocm-smi`` and ``amd-smi`` say about each GPU: memory, product, bus id, unique id, NUMA node, PCIe port; as text, JSON or CSV.

When to modify: the tools word a fact differently, or a further fact is wanted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from topologies.model import Pair
from topologies.pages.text import Line
from topologies.parts import Pcie
from topologies.ports import generation, lanes

TELLING = (
    "(Topology)", "VRAM Total", "Card series", "Card Series", "PCI Bus", "Unique ID", "MARKET_NAME:", "TOTAL_VRAM:", "BDF:",
    "MAX_PCIE_WIDTH:",
)  # fmt: skip
"""A text without any of these states no fact."""

_TITLES = {
    "(topology) numa node": "numa",
    "(topology) numa affinity": "numa_affinity",
    "vram total memory (b)": "memory_bytes",
    "vram total used memory (b)": "memory_used_bytes",
    "card series": "name",
    "pci bus": "pci_bus_id",
    "unique id": "uuid",
    "bdf": "pci_bus_id",
    "uuid": "uuid",
    "market_name": "name",
    "total_vram": "memory_mb",
    "used_vram": "memory_used_mb",
    "vram size": "memory_mb",
    "numa node": "numa",
    "numa affinity": "numa_affinity",
    "max_pcie_width": "pcie_width",
    "max_pcie_speed": "pcie_speed",
}

_NAME = r"\(Topology\) Numa (?:Node|Affinity)|VRAM Total (?:Used )?Memory \(B\)|Card Series|PCI Bus|Unique ID"
_LINE = re.compile(
    rf"GPU\s*\[?(?P<gpu>[0-9]{{1,4}})\]?\s*:\s*(?P<title>{_NAME})\s*:\s*(?P<value>[^\n]*?)\s*"
    r"(?=GPU\s*\[?[0-9]{1,4}\]?\s*:|={3,}|$)",
    re.IGNORECASE,
)
_JSON = re.compile(
    r"\"card(?P<gpu>[0-9]{1,4})\"\s*:"
    r"|\"\(Topology\) (?P<what>Weight|Hops|Link type) between DRM devices (?P<i>[0-9]{1,4}) and (?P<j>[0-9]{1,4})\""
    r"\s*:\s*\"?(?P<pair>[\w/.-]{1,20})"
    rf"|\"(?P<title>{_NAME})\"\s*:\s*\"(?P<value>[^\"]*)\"",
    re.IGNORECASE,
)
_SUBJECT = re.compile(r"GPU: ([0-9]{1,4})\s*$")
_SECTION = re.compile(r"([A-Z][A-Z0-9_]*):\s*$")
_ENTRY = re.compile(r"(BDF|UUID|MARKET_NAME|TOTAL_VRAM|USED_VRAM|SIZE|NODE|AFFINITY|MAX_PCIE_WIDTH|MAX_PCIE_SPEED): (.+?)\s*$")
_OF_SECTION = {"SIZE": "VRAM", "NODE": "NUMA", "AFFINITY": "NUMA"}
"""Entries that mean what is read here in one section only."""

_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?) ?GT/s", re.I)

_WHOLE = re.compile(
    r"0x[0-9a-f]{16}|[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]+ [MG]i?B", re.I
)
"""Values that say where they end."""

_SIZE = re.compile(r"([0-9]{1,16})(?: ?Mi?B)?", re.I)
_MOST_BYTES = 2**50
_UNKNOWN = frozenset({"", "n/a", "none", "unknown", "not supported", "0x0"})


@dataclass(slots=True)
class Facts:
    """
    What a text says about GPUs.

    *of_gpu* is index to {fact: value as printed}, *pairs* what its JSON says in place of tables: title to pair to value, *line* where
    the first of them stands; *conflicts* names what is stated twice and differently, *odd* what is no size or may be cut.
    """

    of_gpu: dict[int, dict[str, str]] = field(default_factory=dict)
    pairs: dict[str, dict[Pair, str]] = field(default_factory=dict)
    line: int = 0
    conflicts: list[tuple[int, str]] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)


def find_facts(lines: Sequence[Line], cut: Line | None = None) -> Facts:
    """Return what *lines*, which have no prefixes, say about GPUs; *cut* is a line that the end of the text may cut."""
    facts = Facts()
    for line, gpu, title, value in (*_printed(lines), *_json(lines, facts), *_csv(lines), *_amd_smi(lines)):
        if value.strip().lower() in _UNKNOWN:
            continue
        name, value = _TITLES[title.lower()], value.strip()
        facts.line = min(facts.line or line, line)
        stated = facts.of_gpu.setdefault(gpu, {})
        if cut is not None and line == cut.number and cut.text.rstrip().endswith(value) and _may_be_cut(facts, gpu, name, value):
            facts.odd.append(f"the text ends in {value[:40]!r}, which may be cut: {title!r} of GPU {gpu} is unknown")
            continue
        if name.startswith("memory") and not _SIZE.fullmatch(value):
            facts.odd.append(f"{title!r} of GPU {gpu} is {value[:40]!r}, which is no size: it is unknown")
            continue
        if name.startswith("pcie_") and (_width if name == "pcie_width" else _generation)(value) is None:
            facts.odd.append(f"{title!r} of GPU {gpu} is {value[:40]!r}, which no PCIe port has: it is unknown")
            continue
        if stated.setdefault(name, value) != value and "used" not in name:
            facts.conflicts.append((gpu, title))
    return facts


def _may_be_cut(facts: Facts, gpu: int, name: str, value: str) -> bool:
    """Whether *value*, in which a text ends, may go on: it does not say where it ends, and no other GPU has the same."""
    if _WHOLE.fullmatch(value) or name.startswith("numa"):
        return False
    return not any(stated.get(name) == value for other, stated in facts.of_gpu.items() if other != gpu)


def memory_mib(stated: dict[str, str], prefix: str = "memory") -> int | None:
    """Return the memory that *stated* has under *prefix*, MiB; None when there is none that can be."""
    for name, size in ((f"{prefix}_bytes", 1), (f"{prefix}_mb", 2**20)):
        match = _SIZE.fullmatch(stated.get(name, ""))
        if match is not None and 2**20 <= int(match[1]) * size <= _MOST_BYTES:
            return int(match[1]) * size // 2**20
    return None


def pcie(stated: dict[str, str]) -> Pcie | None:
    """Return the PCIe port that *stated* tells; None when it tells of none."""
    port = Pcie(gen=_generation(stated.get("pcie_speed", "")), width=_width(stated.get("pcie_width", "")))
    return port if port != Pcie() else None


def _generation(value: str) -> int | None:
    match = _SPEED.fullmatch(value)
    return generation(match[1]) if match is not None else None


def _width(value: str) -> int | None:
    return lanes(value.removeprefix("x"))


_Stated = tuple[int, int, str, str]
"""Line, GPU, title, value."""


def _printed(lines: Sequence[Line]) -> Iterator[_Stated]:
    for line in lines:
        if ":" in line.text and "GPU" in line.text:
            for match in _LINE.finditer(line.text):
                yield line.number, int(match["gpu"]), match["title"], match["value"]


def _json(lines: Sequence[Line], facts: Facts) -> Iterator[_Stated]:
    """Yield the facts of a JSON document; what it says about pairs goes into *facts*."""
    gpu: int | None = None
    for line in lines:
        for match in _JSON.finditer(line.text) if '"' in line.text else ():
            if match["gpu"]:
                gpu = int(match["gpu"])
            elif match["what"]:
                i, j = sorted((int(match["i"]), int(match["j"])))
                facts.line = facts.line or line.number
                facts.pairs.setdefault(match["what"].lower(), {})[i, j] = match["pair"].upper()
            elif gpu is not None:
                yield line.number, gpu, match["title"], match["value"]


def _csv(lines: Sequence[Line]) -> Iterator[_Stated]:
    titles: list[str] = []
    for line in lines:
        cells = [cell.strip().strip('"') for cell in line.text.split(",")]
        if cells[0].lower() == "device" and len(cells) > 1:
            titles = [cell.lower() for cell in cells]
        elif titles and (match := re.fullmatch(r"card([0-9]{1,4})", cells[0])) and len(cells) == len(titles):
            for title, cell in zip(titles, cells, strict=True):
                if title in _TITLES and title not in ("bdf", "uuid"):
                    yield line.number, int(match[1]), title, cell


def _amd_smi(lines: Sequence[Line]) -> Iterator[_Stated]:
    """Yield the facts of ``amd-smi list`` and ``static``: a line for the GPU, then indented names and values."""
    gpu: int | None = None
    section = ""
    for line in lines:
        text = line.text.strip()
        if match := _SUBJECT.match(text):
            gpu, section = int(match[1]), ""
        elif match := _SECTION.match(text):
            section = match[1]
        elif gpu is not None and (match := _ENTRY.match(text)):
            wanted = _OF_SECTION.get(match[1])
            if wanted is None or wanted == section:
                yield line.number, gpu, f"{wanted} {match[1]}" if wanted else match[1], match[2]
