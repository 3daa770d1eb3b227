"""
What one row of a query says of its GPU.

When to modify: another field of the query is a fact of `Gpu`, or follows from several.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from topologies.merging.concluded import Concluded
from topologies.model import Gpu
from topologies.nvidia.query.forms import BUS_ID, NO_ANSWER, mib
from topologies.pages.reading import listing
from topologies.parts import Mig, Pcie

PCIE = ("gen", "width", "current_gen", "current_width")
FREE = "memory_free_mib"
"""No fact of `Gpu`: what is used follows from it where the total and what is reserved stand beside it."""

TITLE_OF = {
    "memory_mib": "memory.total", "memory_used_mib": "memory.used", "memory_reserved_mib": "memory.reserved", FREE: "memory.free",
    "pci_bus_id": "pci.bus_id",
}  # fmt: skip
ASKED = frozenset({"name", "uuid", "pci_bus_id", "memory_mib", "memory_used_mib", FREE})
"""Facts that every card has. Other columns may be not available: a card without ECC, MIG or PCIe. Without header nobody knows."""

_SMALL = re.compile(r"[0-9]{1,2}")
_CAPABILITY = re.compile(r"[0-9]{1,2}\.[0-9]")


def gpu_of(index: int, cells: Mapping[str, str], units: Mapping[str, str], warnings: list[str]) -> Gpu:
    """
    Return the GPU that a row describes.

    Parameters
    ----------
    cells
        By fact (see `topologies.nvidia.query.csv_text`).
    units
        By fact, as the titles state them.
    warnings
        Gets a sentence for what is left unknown.
    """
    facts: dict[str, Any] = {}
    port: dict[str, Any] = {}
    for fact, cell in cells.items():
        if NO_ANSWER.fullmatch(cell) or not cell:
            continue
        if fact in PCIE:
            if _SMALL.fullmatch(cell) and int(cell):
                port[fact] = int(cell)
        elif fact.startswith("memory"):
            if (size := mib(cell, units.get(fact, ""))) is None or (fact == "memory_mib" and size == 0):
                warnings.append(f"GPU {index}: {TITLE_OF[fact]} is {cell!r}, which is no memory size; it is left unknown")
            else:
                facts[fact] = size
        elif fact == "mig":
            if cell.lower() in ("enabled", "disabled"):
                facts[fact] = Mig(enabled=cell.lower() == "enabled")
        elif fact == "compute_capability":
            if _CAPABILITY.fullmatch(cell):
                facts[fact] = cell
        elif fact == "pci_bus_id" and not BUS_ID.fullmatch(cell):
            warnings.append(f"GPU {index}: pci.bus_id is {cell!r}, which is no bus id; it is left unknown")
        elif fact != "driver":
            facts[fact] = cell
    free, total = facts.pop(FREE, None), facts.get("memory_mib")
    if free is not None and total is not None and "memory_used_mib" not in facts:
        if free > total:
            warnings.append(f"GPU {index}: memory.free is {free} MiB, more than its {total} MiB in total; what is used is left unknown")
        elif (reserved := facts.get("memory_reserved_mib")) is not None:
            facts["memory_used_mib"] = Concluded(max(0, total - free - reserved))    # sizes may be rounded
    return Gpu(index, **facts, pcie=Pcie(**port) if port else None)


def idle_memory(gpus: Sequence[Gpu], facts: Mapping[int, Mapping[str, str]]) -> Iterator[str]:
    """
    Yield a warning if rows state what is free, but not of how much, or not what the driver reserves, some hundred MiB from 510 on.

    The total is what is used, free and reserved together (nvml.h, `nvmlMemory_v2_t`).
    """
    lacking: dict[str, list[str]] = {}
    for gpu in gpus:
        if mib(facts.get(gpu.index, {}).get(FREE, "")) is None or gpu.memory_used_mib is not None:
            continue
        if gpu.memory_mib is None:
            lacking.setdefault("the total", []).append(f"GPU{gpu.index}")
        elif gpu.memory_reserved_mib is None:
            lacking.setdefault("what the driver reserves (memory.reserved)", []).append(f"GPU{gpu.index}")
    for what, idle in lacking.items():
        yield f"the query output states the free memory of {listing(idle)}, but not {what}, so what is used cannot be told from it"
