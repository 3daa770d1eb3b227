"""
The boxes in boxes of a machine: host, NUMA node, root complex, PCIe switch, GPU.

When to modify: which levels of a machine are worth a box, or how a wide host is cut into rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from placement.drawing.shapes import TextStyle, fit, printable
from topologies.domains import Device, islands

if TYPE_CHECKING:
    import networkx

MOST_IN_A_ROW = 8
"""GPUs side by side: what is still readable on a page."""

_WIDEST_NAME = 300
"""Of a host or NUMA node, px; the rest of it is cut."""


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
    """

    name: str
    parts: tuple[Part, ...]

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


def host_frames(graph: networkx.Graph[Device]) -> tuple[Frame, ...]:
    """
    Return one frame per host of the *graph* of a machine.

    What tells nothing gets no box: one GPU alone (but for a NUMA node beside larger ones), and all of the box
    around it (the name of which then says so). GPUs of an island stand side by side where the boxes allow it.
    """
    above: Mapping[Device, Device] = graph.graph["above"]
    inside: dict[Device, dict[Device, None]] = {}
    for index in range(len(graph.graph["topology"].gpus)):
        node: Device = ("gpu", index)
        while node in above:
            inside.setdefault(above[node], {})[node] = None
            node = above[node]
    near = {g: island[0] for island in islands(graph) for g in island}
    numa_matters = any(node[0] == "numa" and _below(node, inside) > 1 for node in inside)

    def order(part: Part) -> tuple[int, int]:
        gpus = gpus_of(part)
        return min(near[g] for g in gpus), min(gpus)

    def frame(node: Device) -> Frame:
        parts: list[Part] = []
        for child in inside[node]:
            if child[0] == "gpu" and isinstance(child[1], int):
                parts.append(child[1])
            elif _below(child, inside) == 1 and not (child[0] == "numa" and numa_matters):
                parts.extend(frame(child).parts)
            else:
                parts.append(frame(child))
        name = _name(node, graph)
        if len(parts) == 1 and isinstance(parts[0], Frame):
            return Frame(_joined(name, parts[0].name), parts[0].parts)
        return Frame(name, tuple(sorted(parts, key=order)))

    return tuple(frame(node) for node in inside if node[0] == "host")


def rows(host: Frame) -> tuple[Frame, ...]:
    """Return *host* as rows of at most `MOST_IN_A_ROW` GPUs, as even as its boxes allow."""
    count = len(host.gpus)
    return tuple(_cut(host, math.ceil(count / math.ceil(count / MOST_IN_A_ROW))))


def _below(node: Device, inside: Mapping[Device, Mapping[Device, None]]) -> int:
    """Return the number of GPUs below *node*."""
    return 1 if node[0] == "gpu" else sum(_below(child, inside) for child in inside[node])


_ROOT = "root complex"


def _name(node: Device, graph: networkx.Graph[Device]) -> str:
    match node[0]:
        case "switch":
            return "PCIe switch"
        case "root":
            return _ROOT
        case "numa":
            stated = _label(node, graph).removeprefix("NUMA ")
            return "NUMA node" if stated == "?" else f"NUMA node {stated}"
        case _:
            return _label(node, graph)


def _label(node: Device, graph: networkx.Graph[Device]) -> str:
    return fit(printable(graph.nodes[node]["label"]), TextStyle.HOST, _WIDEST_NAME)


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
    return [Frame(frame.name, tuple(parts)) for parts in found]
