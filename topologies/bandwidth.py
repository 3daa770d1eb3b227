"""
How fast groups of GPUs can talk, as functions on the graph of `topologies.graph.machine_graph`.

The rules: two GPUs joined by NVLink talk over it, others over the PCIe tree; no pair is faster than the
measured class of its link; every edge has its capacity once per direction, and whoever crosses it in the same
direction at the same time gets an equal share (two flows over one uplink: half each).

Results are kept on the graph, which must not change afterwards.

When to modify: how traffic is routed, or a new pattern of traffic.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from topologies.domains import Device
from topologies.errors import TopologyError
from topologies.links import Link, LinkKind

if TYPE_CHECKING:
    import networkx

EXACT_UP_TO = 8
"""Group size up to which `ring` finds the best ring; above it, a good one."""

_STEPS = 2000
"""Hops that are tried for a ring over a larger group."""


@dataclass(frozen=True, slots=True)
class Ring:
    """
    A ring over a group.

    Parameters
    ----------
    gb_per_s
        Its bottleneck, one direction, GB/s; inf for one GPU.
    nvlink
        Whether it runs over NVLink only; true for one GPU.
    order
        The GPUs in ring order, the smallest first.
    """

    gb_per_s: float
    nvlink: bool
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Blocks:
    """
    Several rings at once.

    Parameters
    ----------
    gb_per_s
        The slowest ring's bottleneck, one direction, GB/s; inf when every block is one GPU.
    nvlink
        Whether all of them run over NVLink only.
    """

    gb_per_s: float
    nvlink: bool


def pair_gb_per_s(graph: networkx.Graph[Device], a: int, b: int) -> float:
    """
    Return what one large copy between the GPUs *a* and *b* gets, GB/s; inf when they are the same.

    Raises
    ------
    TopologyError
        If they are on different hosts: no source states a network.
    """
    return _network(graph).hop(a, b).gb_per_s


def ring(graph: networkx.Graph[Device], gpus: Sequence[int]) -> Ring:
    """
    Return the best ring over *gpus*: the order whose slowest hop is fastest when all its hops run at once.

    An edge that several hops cross in one direction is shared between them. Best for groups of up to
    `EXACT_UP_TO`; above, the best of a bounded search that takes near neighbours first: a ring that exists,
    so its bandwidth is a lower bound. More GPUs are not always slower: a fourth can close a ring of NVLinks
    that three cannot.

    Raises
    ------
    TopologyError
        If the GPUs are on different hosts.
    """
    network = _network(graph)
    key = tuple(sorted(gpus))
    if key not in network.rings:
        network.rings[key] = _best_ring(network, key)
    return network.rings[key]


def blocks(graph: networkx.Graph[Device], groups: Iterable[Sequence[int]]) -> Blocks:
    """
    Return what the slowest of *groups* gets when each runs its `ring` at the same time as the others.

    Each group takes the ring that is best for it alone, as it knows nothing of the others.

    Raises
    ------
    TopologyError
        If a group spans hosts.
    """
    network = _network(graph)
    rings = [ring(graph, group) for group in groups]
    hops = [hop for r in rings if len(r.order) > 1 for hop in network.hops(r.order)]
    return Blocks(min(network.rates(hops), default=math.inf), all(r.nvlink for r in rings))


def flows(graph: networkx.Graph[Device], pairs: Iterable[tuple[int, int]]) -> tuple[float, ...]:
    """
    Return the rate of each copy (from, to) of *pairs* when all run at once, GB/s: capacity / flows on its
    worst edge.

    Raises
    ------
    TopologyError
        If a pair spans hosts.
    """
    network = _network(graph)
    return tuple(network.rates([network.hop(a, b) for a, b in pairs]))


def host_gb_per_s(graph: networkx.Graph[Device], gpus: Sequence[int]) -> float:
    """Return what the slowest of *gpus* gets when all copy to the memory of their NUMA node at once, GB/s."""
    network = _network(graph)
    return min(network.rates([network.to_host[g] for g in gpus]), default=math.inf)


@dataclass(frozen=True, slots=True)
class _Hop:
    """
    A way from one device to another.

    *edges* are all directed edges that it crosses; *shared*, of them, those that hops between other GPUs can
    cross too.
    """

    gb_per_s: float
    edges: tuple[int, ...]
    shared: tuple[int, ...]
    nvlink: bool


@dataclass(slots=True)
class _Network:
    """
    The graph as numbers: directed edges with capacities, and for every pair of GPUs its hop.

    *hops_of* has shape (GPUs, GPUs), row sends, None across hosts; *near* has, for each GPU, the others of
    its host, fastest and closest first.
    """

    capacity: list[float]
    hops_of: list[list[_Hop | None]]
    to_host: list[_Hop]
    near: list[list[int]]
    rings: dict[tuple[int, ...], Ring] = field(default_factory=dict)

    def hop(self, a: int, b: int) -> _Hop:
        found = self.hops_of[a][b]
        if found is None:
            raise TopologyError(
                f"GPU {a} and GPU {b} are on different hosts, and no source states a network: "
                "plan each host by itself"
            )
        return found

    def hops(self, order: Sequence[int]) -> list[_Hop]:
        return [self.hop(a, b) for a, b in (*pairwise(order), (order[-1], order[0]))]

    def rates(self, hops: Sequence[_Hop]) -> list[float]:
        """Return what each of *hops* gets when all run at once."""
        crossing = Counter(edge for hop in hops for edge in hop.edges)
        return [min((hop.gb_per_s, *(self.capacity[e] / crossing[e] for e in hop.edges))) for hop in hops]


def _network(graph: networkx.Graph[Device]) -> _Network:
    if "network" not in graph.graph:
        graph.graph["network"] = _compile(graph)
    network: _Network = graph.graph["network"]
    return network


def _compile(graph: networkx.Graph[Device]) -> _Network:
    number: dict[tuple[Device, Device], int] = {}
    capacity: list[float] = []
    for a, b, data in graph.edges(data=True):
        for directed in ((a, b), (b, a)):
            number[directed] = len(capacity)
            capacity.append(data["gb_per_s"])
    gpus = len(graph.graph["topology"].gpus)
    up = [_way_up(graph, ("gpu", g)) for g in range(gpus)]
    switch_of = {g: node for g in range(gpus) for node in graph[("gpu", g)] if node[0] == "nvswitch"}

    def hop(way: Sequence[Device], at_most: float, nvlink: bool) -> _Hop:
        edges = tuple(number[directed] for directed in pairwise(way))
        inner = tuple(number[a, b] for a, b in pairwise(way) if "gpu" not in (a[0], b[0]))
        return _Hop(min((at_most, *(capacity[e] for e in edges))), edges, inner, nvlink)

    def between(a: int, b: int) -> _Hop | None:
        if a == b:
            return _Hop(math.inf, (), (), nvlink=True)
        found: Link | None = graph.graph["links"].get((min(a, b), max(a, b)))
        if found is None:
            return None
        if found.kind is not LinkKind.NVLINK:
            return hop(_over_tree(up[a], up[b]), found.gb_per_s, nvlink=False)
        via = (switch_of[a],) if a in switch_of else ()
        return hop((("gpu", a), *via, ("gpu", b)), found.gb_per_s, nvlink=True)

    hops_of = [[between(a, b) for b in range(gpus)] for a in range(gpus)]
    to_host = [hop(_way_to_memory(way), math.inf, nvlink=False) for way in up]
    near = []
    for sender, hops in enumerate(hops_of):
        reached = [
            (-h.gb_per_s, len(h.edges), b) for b, h in enumerate(hops) if h is not None and b != sender
        ]
        near.append([b for _, _, b in sorted(reached)])
    return _Network(capacity, hops_of, to_host, near)


def _way_up(graph: networkx.Graph[Device], node: Device) -> list[Device]:
    """Return the nodes from *node* up the PCIe tree to its host."""
    way = [node]
    while way[-1][0] != "host":
        way.append(graph.graph["above"][way[-1]])
    return way


def _way_to_memory(up: list[Device]) -> list[Device]:
    """Return the part of *up* that ends at the NUMA node, or all of it when that is unknown."""
    numa = next((k for k, node in enumerate(up) if node[0] == "numa"), len(up) - 1)
    return up[: numa + 1]


def _over_tree(up_a: Sequence[Device], up_b: Sequence[Device]) -> list[Device]:
    """Return the way between two leaves over their nearest common ancestor."""
    top = next(node for node in up_a if node in up_b)
    return [*up_a[: up_a.index(top) + 1], *reversed(up_b[: up_b.index(top)])]


def _best_ring(network: _Network, gpus: tuple[int, ...]) -> Ring:
    """Search depth first, nearest neighbour first; stop at what no ring can beat."""
    if not gpus:
        raise ValueError("a ring needs at least one GPU")
    if len(gpus) == 1:
        return Ring(math.inf, True, gpus)
    order, rate = _RingSearch(network, gpus).run()
    if order[1] > order[-1]:  # both directions are equally fast: one of them, always the same
        order = (order[0], *reversed(order[1:]))
    return Ring(rate, all(hop.nvlink for hop in network.hops(order)), order)


class _RingSearch:
    def __init__(self, network: _Network, gpus: tuple[int, ...]) -> None:
        self._network = network
        self._gpus = gpus
        self._steps_left = math.inf if len(gpus) <= EXACT_UP_TO else max(_STEPS, len(gpus))
        self._crossing = [0] * len(network.capacity)
        self._left = set(gpus[1:])
        self._order = [gpus[0]]
        self._best: tuple[tuple[int, ...], float] = ((), -1.0)
        self._enough = self._upper_bound()

    def run(self) -> tuple[tuple[int, ...], float]:
        self._extend(math.inf)
        return self._best

    def _upper_bound(self) -> float:
        """
        Return what no ring over the group can beat.

        Every GPU has two neighbours (one and the same in a ring of two), so no ring beats anyone's
        second-best hop; and a ring is connected, so none beats the worst hop of the best spanning tree.
        """
        rate = {a: {b: self._network.hop(a, b).gb_per_s for b in self._gpus if b != a} for a in self._gpus}
        second = 1 if len(self._gpus) > 2 else 0
        bound = min(sorted(others.values(), reverse=True)[second] for others in rate.values())
        reach = rate[self._gpus[0]].copy()  # Prim's algorithm
        while reach:
            nearest = max(reach, key=reach.__getitem__)
            bound = min(bound, reach.pop(nearest))
            for b in reach:
                reach[b] = max(reach[b], rate[nearest][b])
        return bound

    def _extend(self, rate: float) -> None:
        """Try all ways to go on; *rate* is the bottleneck so far, which further hops can only lower."""
        here = self._order[-1]
        if not self._left:
            closed = self._cross(here, self._order[0], rate)
            if closed > self._best[1]:
                self._best = tuple(self._order), closed
            self._uncross(here, self._order[0])
            return
        for there in self._network.near[here]:
            if there not in self._left:
                continue
            if self._best[1] >= self._enough or self._steps_left <= 0:
                return
            self._steps_left -= 1
            slowest = self._cross(here, there, rate)
            if slowest > self._best[1]:
                self._left.remove(there)
                self._order.append(there)
                self._extend(slowest)
                self._order.pop()
                self._left.add(there)
            self._uncross(here, there)

    def _cross(self, a: int, b: int, rate: float) -> float:
        hop = self._network.hop(a, b)
        rate = min(rate, hop.gb_per_s)
        for edge in hop.shared:
            self._crossing[edge] += 1
            rate = min(rate, self._network.capacity[edge] / self._crossing[edge])
        return rate

    def _uncross(self, a: int, b: int) -> None:
        for edge in self._network.hop(a, b).shared:
            self._crossing[edge] -= 1
