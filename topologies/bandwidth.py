"""
How fast groups of GPUs can talk, as functions on the graph of `topologies.graph.machine_graph`, or on the
`Wiring` from which it is made.

The rules: two GPUs joined by NVLink talk over it, others over the PCIe tree; no pair is faster than the
measured class of its link; every edge has its capacity once per direction, and whoever crosses it in the same
direction at the same time gets an equal share (two flows over one uplink: half each).

Results are kept as long as the machine is, which must not change afterwards.

When to modify: how traffic is routed, or a new pattern of traffic.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from topologies.ways import Machine, Ways, ways

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
    is_best
        Whether no ring is faster; False where a bounded search ended before it knew.
    at_once
        How many rings run at once, each over links of its own, and make up `gb_per_s` together: GPUs that all have an XGMI link to
        each other use all of them. Everywhere else it is one ring.
    """

    gb_per_s: float
    nvlink: bool
    order: tuple[int, ...]
    is_best: bool = True
    at_once: int = 1


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


def pair_gb_per_s(machine: Machine, a: int, b: int) -> float:
    """
    Return what one large copy between the GPUs *a* and *b* gets, GB/s; inf when they are the same.

    Raises
    ------
    TopologyError
        If they are on different hosts: no source states a between.
    """
    return ways(machine).hop(a, b).gb_per_s


def ring(machine: Machine, gpus: Sequence[int]) -> Ring:
    """
    Return the best ring over *gpus*: the order whose slowest hop is fastest when all its hops run at once.

    An edge that several hops cross in one direction is shared between them. Best for groups of up to
    `EXACT_UP_TO`; above, the best of a bounded search (`Ring.is_best`): a ring that exists, so its bandwidth
    is a lower bound. More GPUs are not always slower: a fourth can close a ring of NVLinks
    that three cannot.

    Raises
    ------
    TopologyError
        If the GPUs are on different hosts.
    """
    between = ways(machine)
    known = _rings.setdefault(between, {})
    key = tuple(sorted(gpus))
    if key not in known:
        found = _best_ring(between, key)
        rate = between.rings.get(key)
        known[key] = found if rate is None else replace(found, gb_per_s=rate, is_best=True)
    return known[key]


def blocks(machine: Machine, groups: Iterable[Sequence[int]]) -> Blocks:
    """
    Return what the slowest of *groups* gets when each runs its `ring` at the same time as the others.

    Each group takes the ring that is best for it alone, as it knows nothing of the others.

    Raises
    ------
    TopologyError
        If a group spans hosts.
    """
    rings = [found for group in groups if len((found := ring(machine, group)).order) > 1]
    if len(rings) == 1:
        return Blocks(rings[0].gb_per_s, rings[0].nvlink)
    between = ways(machine)
    slowest = between.slowest
    is_nvlink = all(r.nvlink for r in rings)
    if any(tuple(sorted(r.order)) in between.rings for r in rings):
        # What others take of shared edges, they take of what was measured.
        orders = [r.order for r in rings if r.at_once == 1]
        shared = slowest(orders) / min((slowest([order]) for order in orders), default=math.inf) if orders else 1.0
        return Blocks(min(r.gb_per_s for r in rings) * shared, is_nvlink)
    if len({g for r in rings for g in r.order}) < sum(len(r.order) for r in rings):
        return Blocks(slowest(r.order for r in rings), is_nvlink)
    alone = [r.gb_per_s for r in rings if r.at_once > 1]  # their links are of their GPUs only
    return Blocks(min([*alone, slowest(r.order for r in rings if r.at_once == 1)]), is_nvlink)


def flows(machine: Machine, pairs: Iterable[tuple[int, int]]) -> tuple[float, ...]:
    """
    Return the rate of each copy (from, to) of *pairs* when all run at once, GB/s: capacity / flows on its
    worst edge.

    Raises
    ------
    TopologyError
        If a pair spans hosts.
    """
    between = ways(machine)
    return tuple(between.rates([between.hop(a, b) for a, b in pairs]))


def host_gb_per_s(machine: Machine, gpus: Sequence[int]) -> float:
    """Return what the slowest of *gpus* gets when all copy to the memory of their NUMA node at once, GB/s."""
    between = ways(machine)
    return min(between.rates([between.to_host[g] for g in gpus]), default=math.inf)


_rings: WeakKeyDictionary[Ways, dict[tuple[int, ...], Ring]] = WeakKeyDictionary()


def _best_ring(between: Ways, gpus: tuple[int, ...]) -> Ring:
    """Search depth first, nearest neighbour first; stop at what no ring can beat."""
    if not gpus:
        raise ValueError("a ring needs at least one GPU")
    if len(gpus) == 1:
        return Ring(math.inf, True, gpus)
    all_pairs = [between.hop(a, b) for a, b in itertools.permutations(gpus, 2)]
    if all(hop.is_mesh for hop in all_pairs):
        slowest, at_once = min(hop.gb_per_s for hop in all_pairs), len(gpus) - 1
        return Ring(at_once * slowest, True, gpus, at_once=at_once)
    order, rate, is_best = _RingSearch(between, gpus).run()
    if order[1] > order[-1]:  # both directions are equally fast: one of them, always the same
        order = (order[0], *reversed(order[1:]))
    return Ring(rate, all(hop.nvlink for hop in between.hops(order)), order, is_best)


class _RingSearch:
    def __init__(self, between: Ways, gpus: tuple[int, ...]) -> None:
        self._between = between
        self._gpus = gpus
        self._steps_left = math.inf
        self._crossing = [0] * len(between.capacity)
        self._left = set(gpus[1:])
        self._order = [gpus[0]]
        self._best: tuple[tuple[int, ...], float] = ((), -1.0)
        self._enough = self._upper_bound()

    def run(self) -> tuple[tuple[int, ...], float, bool]:
        """Return the order found, its rate, and whether no order has a better one."""
        if len(self._gpus) <= EXACT_UP_TO:
            self._extend(math.inf)
            return *self._best, True
        is_best = True
        hops = {self._between.hop(a, b).gb_per_s for a, b in itertools.permutations(self._gpus, 2)}
        rates = sorted((rate for rate in hops if rate <= self._enough), reverse=True)
        # First rings of the fastest hops alone: that leaves few ways, and a ring found so is most likely the best.
        for slower in (*rates[1:], 0.0):
            self._best = (), slower
            self._steps_left = max(_STEPS, len(self._gpus))
            self._extend(math.inf)
            is_best = is_best and self._steps_left > 0
            if self._best[0]:
                break
        return *self._best, is_best or self._best[1] >= self._enough

    def _upper_bound(self) -> float:
        """
        Return what no ring over the group can beat.

        Every GPU has two neighbours (one and the same in a ring of two), so no ring beats anyone's
        second-best hop; and a ring is connected, so none beats the worst hop of the best spanning tree.
        """
        rate = {a: {b: self._between.hop(a, b).gb_per_s for b in self._gpus if b != a} for a in self._gpus}
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
        for there in self._next(here):
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

    def _next(self, here: int) -> list[int]:
        """Return where to go from *here*, nearest first; in a bounded search, to whom fewest ways lead first (Warnsdorff)."""
        near = [there for there in self._between.near[here] if there in self._left]
        if len(self._gpus) <= EXACT_UP_TO:
            return near
        slower = self._best[1]
        ways_on = {
            there: sum(self._between.hop(there, g).gb_per_s > slower for g in self._left if g != there) for there in near
        }
        return sorted(near, key=ways_on.__getitem__)

    def _cross(self, a: int, b: int, rate: float) -> float:
        hop = self._between.hop(a, b)
        rate = min(rate, hop.gb_per_s)
        for edge in hop.shared:
            self._crossing[edge] += 1
            rate = min(rate, self._between.capacity[edge] / self._crossing[edge])
        return rate

    def _uncross(self, a: int, b: int) -> None:
        for edge in self._between.hop(a, b).shared:
            self._crossing[edge] -= 1
