"""
The PCIe tree in a topology file of NCCL: which device hangs where, and by which way two of them reach each other.

An element ``pci`` that has others in it is a PCIe switch (NCCL leaves its ports out), and ``cpu`` is a NUMA node, so that two
devices below one switch are PIX, below several PXB, and at one NUMA node PHB: NCCL does not tell NODE from PHB.

When to modify: NCCL writes another kind of device.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from topologies.errors import TopologyError
from topologies.pages.xml_text import Element
from topologies.parts import Pcie

MOST_GPUS = 256
"""Most GPUs, and most NICs, of a file; the largest NVLink domain has 72."""

_BUS_ID = re.compile(r"[0-9A-Fa-f]{1,8}:[0-9A-Fa-f]{1,2}:[0-9A-Fa-f]{1,2}\.[0-9A-Fa-f]")
_CLASS = re.compile(r"(?:0[xX])?([0-9A-Fa-f]{4})[0-9A-Fa-f]{0,2}")
_VENDORS = frozenset({"0x10de", "0x1002", "0x1d94"})
"""Makers of GPUs for computing; the graphics of a server's management controller has the same PCI class."""

_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6, 128.0: 7}
_SPEED = re.compile(r"\s*([0-9]{1,3}(?:\.[0-9]{1,3})?)\s*GT/s")
_NUMBER = re.compile(r"[0-9]{1,6}")
_MASK = re.compile(r"[0-9A-Fa-f,]{1,2048}")


@dataclass(frozen=True, slots=True)
class Cpu:
    """
    A NUMA node.

    Parameters
    ----------
    key
        What tells it apart from others.
    numa
        Its number as printed; None when the file does not know.
    affinity
        Its CPUs as nvidia-smi prints them; None when the file does not know.
    host
        Hash of the host; None when it is not stated.
    """

    key: int
    numa: str | None
    affinity: str | None
    host: str | None


@dataclass(frozen=True, slots=True)
class Device:
    """
    A PCIe device, or a network port without one.

    Parameters
    ----------
    element
        Its element.
    bus_id
        As printed; None for a virtual NIC.
    cpu
        Its NUMA node; None when it is not below one.
    path
        Bus ids of the switches above it, from the top down.
    pcie
        Its port.
    """

    element: Element
    bus_id: str | None
    cpu: Cpu | None
    path: tuple[str, ...]
    pcie: Pcie | None


@dataclass(frozen=True, slots=True)
class Tree:
    """What a file lists: in its order; *switches* by bus id, as far as something hangs from them."""

    cpus: tuple[Cpu, ...]
    gpus: tuple[Device, ...]
    nics: tuple[Device, ...]
    switches: dict[str, Pcie]


def number(value: str | None) -> int | None:
    """Return the whole number that *value* is, if it is one of reasonable size."""
    match = _NUMBER.fullmatch(value.strip()) if value else None
    return int(match[0]) if match else None


def pci_class(value: str | None) -> str:
    """Return class and subclass in the PCI class *value* (``0x030200`` → ``0302``); nothing when it is none."""
    match = _CLASS.fullmatch(value.strip()) if value else None
    return match[1].lower() if match else ""


def read_tree(system: Element) -> Tree:
    """
    Return what the element *system* lists.

    Raises
    ------
    TopologyError
        If a device has no bus id, or stands there twice, or there are too many.
    """
    cpus = _cpus(system)
    gpus: list[Device] = []
    nics: list[Device] = []
    switches: dict[str, Pcie] = {}
    seen: set[str] = set()
    waiting: list[tuple[Element, Cpu | None, tuple[str, ...]]] = [(system, None, ())]
    while waiting:
        parent, cpu, path = waiting.pop()
        below: list[tuple[Element, Cpu | None, tuple[str, ...]]] = []
        for element in parent.children:
            if element.tag == "cpu":
                below.append((element, cpus.get(id(element), cpu), ()))
            elif element.tag == "nic":
                nics.append(Device(element, None, cpu, path, None))
            elif element.tag == "pci":
                bus_id = _bus_id(element, seen)
                device = Device(element, bus_id, cpu, path, _port(element, path))
                if is_gpu(element):
                    gpus.append(device)
                elif is_nic(element):
                    nics.append(device)
                if element.find("pci") is not None:
                    switches[bus_id] = _port(element, ()) or Pcie()
                    below.append((element, cpu, (*path, bus_id)))
        waiting += reversed(below)
        if len(gpus) > MOST_GPUS or len(nics) > MOST_GPUS:
            raise TopologyError(f"more than {MOST_GPUS} GPUs or NICs, which no machine has")
    used = {bus_id for device in (*gpus, *nics) for bus_id in device.path}
    return Tree(tuple(cpus.values()), tuple(gpus), tuple(nics), {b: p for b, p in switches.items() if b in used})


def is_gpu(pci: Element) -> bool:
    """Whether *pci* is a GPU: it says so itself, or its class and maker do."""
    if pci.find("gpu") is not None:
        return True
    vendor = pci.attributes.get("vendor", "").lower()
    return pci_class(pci.attributes.get("class")) in ("0300", "0302") and (not vendor or vendor in _VENDORS)


def is_nic(pci: Element) -> bool:
    """Whether *pci* is a network card."""
    return pci.find("nic") is not None or pci_class(pci.attributes.get("class")).startswith("02")


def way(a: Device, b: Device) -> str | None:
    """Return the code of the way between *a* and *b*; None when one of them has no known place."""
    if a.cpu is None or b.cpu is None or a.bus_id is None or b.bus_id is None:
        return None
    if a.cpu != b.cpu:
        return "SYS"
    shared = 0
    for x, y in zip(a.path, b.path, strict=False):
        if x != y:
            break
        shared += 1
    if not shared:
        return "PHB"
    return "PIX" if shared == len(a.path) == len(b.path) else "PXB"


def bus_order(bus_id: str) -> tuple[int, ...]:
    """Return what sorts bus ids in PCI order."""
    return tuple(int(part, 16) for part in re.split("[:.]", bus_id))


def _bus_id(pci: Element, seen: set[str]) -> str:
    bus_id = pci.attributes.get("busid", "").strip()
    if not _BUS_ID.fullmatch(bus_id):
        shown = f"has the bus id {bus_id[:40]!r}, which is none" if bus_id else "has no bus id (busid)"
        raise TopologyError(f"an element <pci> {shown}: the file is damaged")
    if bus_id.lower() in seen:
        raise TopologyError(f"the device {bus_id} stands there twice: the file is of several hosts, or damaged")
    seen.add(bus_id.lower())
    return bus_id


def _port(pci: Element, path: tuple[str, ...]) -> Pcie | None:
    """Return the port of *pci*: NCCL states what device and slot can both do."""
    speed = _SPEED.match(pci.attributes.get("link_speed", ""))
    gen = _GENERATIONS.get(float(speed[1])) if speed else None
    port = Pcie(gen=gen, width=number(pci.attributes.get("link_width")) or None, path=path)
    return port if port != Pcie() else None


def _cpus(system: Element) -> dict[int, Cpu]:
    """Return the NUMA nodes by the identity of their elements; two elements of one number are one node."""
    elements = system.all("cpu")
    masks = {cpu.attributes.get("numaid", str(position)): cpu.attributes.get("affinity") for position, cpu in enumerate(elements)}
    keys: dict[tuple[str | None, str | None], int] = {}
    found = {}
    for position, cpu in enumerate(elements):
        numaid = cpu.attributes.get("numaid")
        key = keys.setdefault((numaid, cpu.attributes.get("host_hash")), position) if numaid is not None else position
        found[id(cpu)] = _cpu(key, cpu, len(set(masks.values())) == len(masks))
    return found


def _cpu(key: int, cpu: Element, masks_differ: bool) -> Cpu:
    """Return the NUMA node *cpu*; where all nodes have the same CPUs (in a virtual machine, say) these tell nothing."""
    affinity = _cpus_of(cpu.attributes.get("affinity", "")) if masks_differ else None
    numa = number(cpu.attributes.get("numaid"))
    return Cpu(key, None if numa is None else str(numa), affinity, cpu.attributes.get("host_hash") or None)


def _cpus_of(mask: str) -> str | None:
    """Return the CPUs in a mask of the kernel (``0000ffff,0000ffff`` → ``0-15,32-47``)."""
    if not _MASK.fullmatch(mask):
        return None
    words = mask.split(",")
    if any(len(word) > 8 for word in words[1:]):
        return None
    bits = int("0" + words[0] + "".join(word.rjust(8, "0") for word in words[1:]), 16)
    return _ranges(position for position in range(bits.bit_length()) if bits >> position & 1) or None


def _ranges(numbers: Iterable[int]) -> str:
    runs: list[tuple[int, int]] = []
    for n in numbers:
        if runs and n == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], n)
        else:
            runs.append((n, n))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
