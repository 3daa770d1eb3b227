"""
The boxes in boxes of a machine: host, NUMA node, root complex, PCIe switch, GPU.

When to modify: which levels of a machine are worth a box, or how a wide host is cut into rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from placement.drawing.shapes import TextStyle, fit, printable
from topologies.domains import Device, islands, nic_device, pcie_statements
from topologies.links import PCIE_KINDS, LinkKind, parse_code
from topologies.model import Topology

if TYPE_CHECKING:
    import networkx

MOST_IN_A_ROW = 8
"""GPUs side by side: what is still readable on a page."""

_WIDEST_NAME = 300
"""Of a NUMA node, px; the rest of it is cut."""


@dataclass(frozen=True, slots=True)
class Frame:
    """
    A box around GPUs and smaller boxes.

    Parameters
    ----------
    name
        What it stands for (``NUMA node 0``).
    parts
        What is in it, from left to right.
    nics
        Columns of the NICs that hang from it directly.
    unplaced
        Columns of the NICs that are somewhere in it, no source tells where.
    """

    name: str
    parts: tuple[Part, ...]
    nics: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()

    @property
    def gpus(self) -> tuple[int, ...]:
        """The GPUs in it, from left to right."""
        return tuple(g for part in self.parts for g in gpus_of(part))

    @property
    def depth(self) -> int:
        """How many boxes there are around the GPU that is deepest inside, this one counted."""
        return 1 + max(depth_of(part) for part in self.parts)


Part: TypeAlias = Frame | int


def gpus_of(part: Part) -> tuple[int, ...]:
    """Return the GPUs in *part*, from left to right."""
    return (part,) if isinstance(part, int) else part.gpus


def depth_of(part: Part) -> int:
    """Return the depth of *part*; a GPU has none."""
    return 0 if isinstance(part, int) else part.depth


def nics_of(part: Part) -> tuple[str, ...]:
    """Return the columns of all NICs in *part*."""
    if isinstance(part, int):
        return ()
    return (*part.nics, *part.unplaced, *(nic for inner in part.parts for nic in nics_of(inner)))


def host_frames(graph: networkx.Graph[Device]) -> tuple[Frame, ...]:
    """
    Return one frame per host of the *graph* of a machine.

    What tells nothing gets no box: one GPU alone (but for a NUMA node beside larger ones, or one of several that a source
    names), and all of the box around it (the name of which then says so). GPUs of an island stand side by side where the boxes allow it.
    A NIC of which no GPU is known to be near, and of which some codes are not stated, has no place.
    """
    above: Mapping[Device, Device] = graph.graph["above"]
    topology: Topology = graph.graph["topology"]
    column: dict[Device, str] = {}
    for index, codes in sorted(topology.gpu_nic.items()):
        devices = {nic_device(topology, topology.gpus[index].host, nic): nic for nic in codes}
        column |= {device: nic for device, nic in devices.items() if device in above}
    inside: dict[Device, dict[Device, None]] = {}
    for leaf in (*(("gpu", gpu.index) for gpu in topology.gpus), *column):
        node: Device = leaf
        while node in above:
            inside.setdefault(above[node], {})[node] = None
            node = above[node]
    near = {g: island[0] for island in islands(graph) for g in island}
    numa_matters = {node for node in inside if node[0] == "host" and _numa_matters(node, inside, graph)}
    placed = _placed(topology)
    order = {nic: place for place, nic in enumerate(topology.nics)}
    only_roots = _only_roots(graph)
    homeless = [nic for nic in topology.nics if nic not in column.values()] if len(topology.hosts) == 1 else []

    def key(part: Part) -> tuple[int, int]:
        gpus = gpus_of(part)
        return min(near[g] for g in gpus), min(gpus)

    def frame(node: Device) -> Frame:
        parts: list[Part] = []
        nics: list[str] = []
        unplaced = list(homeless) if node[0] == "host" else []
        for child in inside[node]:
            if child[0] == "gpu" and isinstance(child[1], int):
                parts.append(child[1])
            elif child[0] == "nic":
                (unplaced if node[0] == "host" and child not in placed else nics).append(column[child])
            elif _leaves(child, inside) == 1 and not (child[0] == "numa" and node in numa_matters):
                parts.extend(frame(child).parts)
            else:
                parts.append(frame(child))
        name = _ROOT if node in only_roots else _name(node, graph)
        if len(parts) == 1 and isinstance(parts[0], Frame) and not nics and not unplaced:
            return Frame(_joined(name, parts[0].name), parts[0].parts, parts[0].nics)
        in_order = (tuple(sorted(some, key=order.__getitem__)) for some in (nics, unplaced))
        return Frame(name, tuple(sorted(parts, key=key)), *in_order)

    return tuple(frame(node) for node in inside if node[0] == "host")


def _numa_matters(host: Device, inside: Mapping[Device, Mapping[Device, None]], graph: networkx.Graph[Device]) -> bool:
    """Whether NUMA nodes of *host* get a box even around one GPU: one has several GPUs, or a source names several nodes."""
    nodes = [node for node in inside[host] if node[0] == "numa"]
    named = [node for node in nodes if _label(node, graph) != _UNSTATED]
    return len(named) > 1 or any(_gpus_below(node, inside) > 1 for node in nodes)


def _placed(topology: Topology) -> frozenset[Device]:
    """Return the NICs of which the closeness to every GPU of their host is known."""
    count: Counter[Device] = Counter()
    for index, codes in topology.gpu_nic.items():
        host = topology.gpus[index].host
        count.update(nic_device(topology, host, nic) for nic, code in codes.items() if parse_code(code)[0] in PCIE_KINDS)
    size = Counter(gpu.host for gpu in topology.gpus)
    home = {
        nic_device(topology, topology.gpus[index].host, nic): topology.gpus[index].host
        for index, codes in topology.gpu_nic.items()
        for nic in codes
    }
    return frozenset(device for device, known in count.items() if known == size[home[device]])


def _only_roots(graph: networkx.Graph[Device]) -> frozenset[Device]:
    """
    Return the NUMA nodes of *graph* that no source tells of: one root complex each, of which other GPUs may share the NUMA node.

    What shares a root complex shares a NUMA node; two root complexes are two NUMA nodes only where that is stated.
    """
    topology: Topology = graph.graph["topology"]
    clusters: Mapping[LinkKind, tuple[tuple[Device, ...], ...]] = graph.graph["nest"].clusters
    unnamed = {node for node in graph if node[0] == "numa" and _label(node, graph) == _UNSTATED}
    if not unnamed:
        return frozenset()
    home = {device: k for k, members in enumerate(clusters[LinkKind.NODE]) for device in members}
    apart = {frozenset((home[a], home[b])) for a, b, kind in pcie_statements(topology) if kind is LinkKind.SYS}
    gpus: dict[str | None, set[int]] = {}
    for gpu in topology.gpus:
        gpus.setdefault(gpu.host, set()).add(home["gpu", gpu.index])
    roots = set(clusters[LinkKind.PHB])
    above: Mapping[Device, Device] = graph.graph["above"]
    found: set[Device] = set()
    for k, members in enumerate(clusters[LinkKind.NODE]):
        first = members[0]
        if members not in roots or first[0] != "gpu" or not isinstance(first[1], int):
            continue
        others = gpus[topology.gpus[first[1]].host] - {k}
        if not others or any(frozenset((k, other)) not in apart for other in others):
            found.update(_all_above(first, above))
    return frozenset(found & unnamed)


def _all_above(device: Device, above: Mapping[Device, Device]) -> Iterator[Device]:
    while device in above:
        device = above[device]
        yield device


def rows(host: Frame) -> tuple[Frame, ...]:
    """Return *host* as rows of at most `MOST_IN_A_ROW` GPUs, as even as its boxes allow."""
    count = len(host.gpus)
    return tuple(_cut(host, math.ceil(count / math.ceil(count / MOST_IN_A_ROW))))


def _leaves(node: Device, inside: Mapping[Device, Mapping[Device, None]]) -> int:
    """Return the number of GPUs and NICs below *node*."""
    return sum(_leaves(child, inside) for child in inside[node]) if node in inside else 1


def _gpus_below(node: Device, inside: Mapping[Device, Mapping[Device, None]]) -> int:
    """Return the number of GPUs below *node*."""
    if node[0] == "gpu":
        return 1
    return sum(_gpus_below(child, inside) for child in inside.get(node, ()))


_ROOT = "root complex"
_UNSTATED = "NUMA ?"
"""Label of a NUMA node that the codes of links tell of, but not its number."""


def _name(node: Device, graph: networkx.Graph[Device]) -> str:
    match node[0]:
        case "switch":
            return "PCIe switch"
        case "root":
            return _ROOT
        case "numa":
            label = _label(node, graph)
            return "NUMA node" if label == _UNSTATED else f"NUMA node {label.removeprefix('NUMA ')}"
        case _:
            return _label(node, graph)


def _label(node: Device, graph: networkx.Graph[Device]) -> str:
    words = printable(graph.nodes[node]["label"])
    return words if node[0] == "host" else fit(words, TextStyle.HOST, _WIDEST_NAME)


def _joined(outer: str, inner: str) -> str:
    """Name a box that is two levels at once: a root complex that is all of another level goes without saying."""
    names = [name for name in (outer, *inner.split(" · ")) if name != _ROOT]
    return " · ".join(dict.fromkeys(names)) or _ROOT


def _cut(frame: Frame, limit: int) -> list[Frame]:
    if len(frame.gpus) <= limit:
        return [frame]
    pieces: list[Part] = []
    for part in frame.parts:
        pieces += [part] if isinstance(part, int) else _cut(part, limit)
    found: list[list[Part]] = [[]]
    for piece in pieces:
        if found[-1] and sum(len(gpus_of(p)) for p in (*found[-1], piece)) > limit:
            found.append([])
        found[-1].append(piece)
    # the NICs of a box that is cut stand in its last piece
    last = len(found) - 1
    return [Frame(frame.name, tuple(p), frame.nics if k == last else ()) for k, p in enumerate(found)]
