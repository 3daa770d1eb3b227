"""
The NVLinks in a topology file of NCCL.

GPUs that NVLinks join are as many links apart as lead from one to the other or, behind NVSwitches, as the one has that has fewer;
the others reach each other as the PCIe tree says.

When to modify: NCCL writes another kind of link.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from topologies.merging.identity import bus_key
from topologies.model import Pair
from topologies.nvidia.nccl.tree import Device, number, pci_class, way
from topologies.pages.reading import listing
from topologies.pages.xml_text import Element

_NPU, _GPU_CLASSES = "068001", ("0300", "0302")


class Nvlinks:
    """The NVLinks of all GPUs: how many lead from each to which other, and how many to switches."""

    def __init__(self, devices: Sequence[Device], warnings: list[str]) -> None:
        self._devices = devices
        self._warnings = warnings
        self._index_of = {bus_key(device.bus_id or ""): index for index, device in enumerate(devices)}
        self._tells = [device.element.find("gpu") is not None for device in devices]
        self._direct: list[Counter[int]] = [Counter() for _ in devices]
        self._xgmi: set[Pair] = set()
        self._to_switch = [0] * len(devices)
        self._uncounted: set[tuple[int, int | None]] = set()
        """The GPU and what its NVLinks lead to, None for a switch, where their number cannot be read."""
        hidden: list[str] = []
        for index, device in enumerate(devices):
            gpu = device.element.find("gpu")
            links = [link for link in gpu.children if link.tag in ("nvlink", "xgmi")] if gpu is not None else []
            hidden += [f"GPU{index}" for link in links if self._add(index, link)]
        if hidden:
            warnings.append(f"NVLinks of {listing(list(dict.fromkeys(hidden)))} lead to GPUs that the file does not list")
        if odd := listing([f"GPU{index}" for index in sorted({index for index, _ in self._uncounted})]):
            warnings.append(f"the number of NVLinks of {odd} is missing or cannot be read: how many there are is unknown")
        warnings += self._unswitched()

    def _unswitched(self) -> list[str]:
        """Return a warning for GPUs without any NVLink beside others of their kind on an NVSwitch: boards wire all or none."""
        elements = [device.element.find("gpu") for device in self._devices]
        kinds = [None if gpu is None else gpu.attributes.get("sm") for gpu in elements]
        to_switch = {index for index, n in enumerate(self._to_switch) if n} | {index for index, to in self._uncounted if to is None}
        switched = {kinds[index] for index in to_switch}
        without = [
            f"GPU{index}"
            for index, gpu in enumerate(elements)
            if gpu is not None and kinds[index] in switched and not any(map(_is_link, gpu.children))
        ]
        if not without:
            return []
        has = "has no NVLink" if len(without) == 1 else "have no NVLinks"
        like, own = ("it", "its NVLinks are") if len(without) == 1 else ("them", "their NVLinks are")
        return [f"{listing(without)} {has}, but others like {like} are on an NVSwitch: {own} down"]

    def _add(self, index: int, link: Element) -> bool:
        """Count *link* of a GPU; return whether it leads to a GPU that the file does not list."""
        told, target = number(link.attributes.get("count")), link.attributes.get("target", "").strip()
        count = told or 0
        tclass = link.attributes.get("tclass", "").strip().lower()
        other = self._index_of.get(bus_key(target))
        if other is not None and link.tag == "xgmi":
            self._xgmi.add((min(index, other), max(index, other)))
        elif other is not None:
            self._direct[index][other] += count
            self._uncounted |= {(index, other)} if told is None else set()
        elif pci_class(tclass) in _GPU_CLASSES or link.tag == "xgmi":
            return True
        elif not tclass.endswith(_NPU):  # any other target is a switch, whatever its id; an NPU is a CPU
            self._to_switch[index] += count
            self._uncounted |= {(index, None)} if told is None else set()
        return False

    @property
    def pairs(self) -> Iterator[Pair]:
        """Every pair of GPUs."""
        return ((i, j) for i in range(len(self._devices)) for j in range(i + 1, len(self._devices)))

    @property
    def switched(self) -> dict[str, int]:
        """Bus id of each GPU that has NVLinks to switches, to their number."""
        told = [0 if (index, None) in self._uncounted else n for index, n in enumerate(self._to_switch)]
        return {str(d.bus_id): n for d, n in zip(self._devices, told, strict=True) if n}

    @property
    def direct(self) -> dict[str, dict[str, int]]:
        """Bus id of each GPU that has NVLinks to others, to their number by bus id."""
        ids = [str(device.bus_id) for device in self._devices]
        return {ids[i]: {ids[j]: n for j, n in sorted(links.items()) if n} for i, links in enumerate(self._direct) if any(links.values())}

    def code(self, pair: Pair) -> str | None:
        """Return the code of *pair*; None when it is unknown."""
        i, j = pair
        there, back = self._direct[i][j], self._direct[j][i]
        if (i, j) in self._uncounted or (j, i) in self._uncounted:
            return None
        if there != back and self._tells[i] and self._tells[j]:
            self._warnings.append(f"GPU {i} has {there} NVLinks to GPU {j}, but GPU {j} has {back} to GPU {i}")
        is_switched = not (there or back) and all(self._to_switch[k] or (k, None) in self._uncounted for k in pair)
        if is_switched and {(i, None), (j, None)} & self._uncounted:
            return None
        if count := max(there, back) or min(self._to_switch[i], self._to_switch[j]):
            return f"NV{count}"
        if pair in self._xgmi:
            return "XGMI"
        return way(self._devices[i], self._devices[j]) if self._tells[i] and self._tells[j] else None


def _is_link(element: Element) -> bool:
    """Whether *element* states links, if only that there are some."""
    return element.tag in ("nvlink", "xgmi") and number(element.attributes.get("count")) != 0
