"""
The ways between GPUs as numbers: which edges each crosses, and what it carries at most.

When to modify: how traffic is routed.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakKeyDictionary

from topologies.domains import Device
from topologies.errors import TopologyError
from topologies.links import DIRECT_KINDS, Link, LinkKind
from topologies.model import Pair
from topologies.wiring import Wiring

if TYPE_CHECKING:
    import networkx

Machine: TypeAlias = "Wiring | networkx.Graph[Device]"


@dataclass(frozen=True, slots=True)
class Hop:
    """
    A way from one device to another.

    *edges* are all directed edges that it crosses; *shared*, of them, those that hops between other GPUs can
    cross too. *nvlink* says that it crosses no PCIe, *is_mesh* that it is a link of these two GPUs alone which collectives use
    together with all others of its kind (XGMI).
    """

    gb_per_s: float
    edges: tuple[int, ...]
    shared: tuple[int, ...]
    nvlink: bool
    is_mesh: bool = False


@dataclass(frozen=True, eq=False)
class Ways:
    """
    The graph as numbers: directed edges with capacities, and for every pair of GPUs its hop.

    *hops_of* has shape (GPUs, GPUs), row sends, None across hosts; *near* has, for each GPU, the others of
    its host, fastest and closest first; *rings* are those of `topologies.wiring.Wiring`.
    """

    capacity: list[float]
    hops_of: list[list[Hop | None]]
    to_host: list[Hop]
    near: list[list[int]]
    rings: Mapping[tuple[int, ...], float] = field(default_factory=dict)

    def hop(self, a: int, b: int) -> Hop:
        found = self.hops_of[a][b]
        if found is None:
            raise TopologyError(
                f"GPU {a} and GPU {b} are on different hosts, and no source states a network: "
                "plan each host by itself"
            )
        return found

    def hops(self, order: Sequence[int]) -> list[Hop]:
        return [self.hop(a, b) for a, b in (*pairwise(order), (order[-1], order[0]))]

    def slowest(self, rings: Iterable[Sequence[int]]) -> float:
        """Return what the slowest hop of all *rings* gets when all run at once; inf when there is none."""
        hops = [hop for order in rings for hop in self.hops(order)]
        crossing = Counter(itertools.chain.from_iterable(hop.edges for hop in hops))
        share = (self.capacity[edge] / count for edge, count in crossing.items())
        return min((*share, *(hop.gb_per_s for hop in hops)), default=math.inf)

    def rates(self, hops: Sequence[Hop]) -> list[float]:
        """Return what each of *hops* gets when all run at once."""
        crossing = Counter(itertools.chain.from_iterable(hop.edges for hop in hops))
        share = {edge: self.capacity[edge] / count for edge, count in crossing.items()}
        return [min(hop.gb_per_s, *map(share.__getitem__, hop.edges)) if hop.edges else hop.gb_per_s for hop in hops]

    def are_twins(self, a: int, b: int, others: Iterable[int]) -> bool:
        """
        Whether the GPUs *a* and *b* can be exchanged: the same ways to memory, to each other and to each of *others*.

        Ways are the same that carry as much over edges that carry as much, and share the same edges with other GPUs' ways.
        """
        pairs = [(self.to_host[a], self.to_host[b]), (self.hops_of[a][b], self.hops_of[b][a])]
        for c in set(others) - {a, b}:
            pairs += [(self.hops_of[a][c], self.hops_of[b][c]), (self.hops_of[c][a], self.hops_of[c][b])]
        return all(self._view(one) == self._view(other) for one, other in pairs) and self._keep_rings(a, b)

    def _keep_rings(self, a: int, b: int) -> bool:
        """Whether the rings that are known stay the same when *a* and *b* are exchanged."""
        swap = {a: b, b: a}
        return all(self.rings.get(tuple(sorted(swap.get(g, g) for g in gpus))) == rate for gpus, rate in self.rings.items())

    def _view(self, hop: Hop | None) -> tuple[object, ...] | None:
        if hop is None:
            return None
        return (hop.gb_per_s, hop.nvlink, sorted(hop.shared), [self.capacity[e] for e in hop.edges])


_known: WeakKeyDictionary[Wiring, Ways] = WeakKeyDictionary()


def ways(machine: Machine) -> Ways:
    """Return the ways between the GPUs of *machine*; kept as long as it is."""
    if isinstance(machine, Wiring):
        if machine not in _known:
            rates = {ends: edge.gb_per_s for ends, edge in machine.edges.items()}
            found = _compile(len(machine.cards), rates, machine.links, machine.above)
            _known[machine] = dataclasses.replace(found, rings=machine.rings) if machine.rings else found
        return _known[machine]
    facts = machine.graph
    if "ways" not in facts:
        rates = {(a, b): data["gb_per_s"] for a, b, data in machine.edges(data=True)}
        facts["ways"] = _compile(len(facts["cards"]), rates, facts["links"], facts["above"])
    kept: Ways = facts["ways"]
    return kept


def _compile(
    gpus: int,
    gb_per_s: Mapping[tuple[Device, Device], float],
    links: Mapping[Pair, Link],
    above: Mapping[Device, Device],
) -> Ways:
    number: dict[tuple[Device, Device], int] = {}
    capacity: list[float] = []
    switch_of: dict[Device, Device] = {}
    for (a, b), rate in gb_per_s.items():
        for one, other in ((a, b), (b, a)):
            number[one, other] = len(capacity)
            capacity.append(rate)
            if other[0] == "nvswitch":
                switch_of[one] = other
    up = [_way_up(above, ("gpu", g)) for g in range(gpus)]

    def hop(way: Sequence[Device], at_most: float, nvlink: bool) -> Hop:
        edges = tuple(number[directed] for directed in pairwise(way))
        inner = tuple(number[a, b] for a, b in pairwise(way) if "gpu" not in (a[0], b[0]))
        return Hop(min((at_most, *(capacity[e] for e in edges))), edges, inner, nvlink)

    def between(a: int, b: int) -> Hop | None:
        if a == b:
            return Hop(math.inf, (), (), nvlink=True)
        found = links.get((min(a, b), max(a, b)))
        if found is None:
            return None
        if found.kind not in DIRECT_KINDS:
            return hop(_over_tree(up[a], up[b]), found.gb_per_s, nvlink=False)
        via = (switch_of["gpu", a],) if ("gpu", a) in switch_of else ()
        direct = hop((("gpu", a), *via, ("gpu", b)), found.gb_per_s, nvlink=True)
        return dataclasses.replace(direct, is_mesh=found.kind is LinkKind.XGMI)

    hops_of = [[between(a, b) for b in range(gpus)] for a in range(gpus)]
    to_host = [hop(_way_to_memory(way), math.inf, nvlink=False) for way in up]
    near = []
    for sender, hops in enumerate(hops_of):
        reached = [
            (-h.gb_per_s, len(h.edges), b) for b, h in enumerate(hops) if h is not None and b != sender
        ]
        near.append([b for _, _, b in sorted(reached)])
    return Ways(capacity, hops_of, to_host, near)


def _way_up(above: Mapping[Device, Device], node: Device) -> list[Device]:
    """Return the nodes from *node* up the PCIe tree to its host."""
    way = [node]
    while way[-1][0] != "host":
        way.append(above[way[-1]])
    return way


def _way_to_memory(up: list[Device]) -> list[Device]:
    """Return the part of *up* that ends at the NUMA node, or all of it when that is unknown."""
    numa = next((k for k, node in enumerate(up) if node[0] == "numa"), len(up) - 1)
    return up[: numa + 1]


def _over_tree(up_a: Sequence[Device], up_b: Sequence[Device]) -> list[Device]:
    """Return the way between two leaves over their nearest common ancestor."""
    top = next(node for node in up_a if node in up_b)
    return [*up_a[: up_a.index(top) + 1], *reversed(up_b[: up_b.index(top)])]
