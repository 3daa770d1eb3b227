"""
What measurements are worth: which are believed, and what they say of pairs of GPUs.

Runs differ by a few percent, which says nothing about the machine. So what lies within `SAME_WITHIN` of the median of its class
(the same link between the same cards, the same card) counts as that median, and only what stands out counts on its own: equal
GPUs stay equal, and no plan prefers one of them for the noise of an afternoon.

When to modify: measurements are believed differently.
"""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Iterator, Mapping
from typing import TypeVar

from topologies.cards import card_of
from topologies.domains import Device as Part
from topologies.links import Link, link
from topologies.measurements import Device, Measured, Spread
from topologies.model import Pair, Topology
from topologies.pages.reading import listing

K = TypeVar("K")

SAME_WITHIN = 0.05
"""Share of the median of its class by which a measurement may differ and still be the same: runs on one machine differ by some percent."""

FAR = 100
"""Times its class value, or a share of it, at which a measurement is doubted: that is a wrong unit or a wrong machine, not a fast one."""

MEASURED = "measured on this machine"
"""The source of a figure that stands in place of that of its class."""

REHEARSAL = "the measured section comes from CPU tensors, a rehearsal of `placement measure`: no plan uses it"


def believed(topology: Topology) -> Measured | None:
    """Return what was measured on the GPUs of *topology*; None if nothing was, or on the CPU in their place."""
    found = topology.measured
    return found if found is not None and found.device is Device.CUDA else None


def settled(values: Mapping[K, float], classes: Mapping[K, Hashable]) -> dict[K, float]:
    """Return *values*, those within `SAME_WITHIN` of the median of their class being that median."""
    members: dict[Hashable, list[float]] = {}
    for key, value in values.items():
        members.setdefault(classes[key], []).append(value)
    medians = {which: statistics.median(found) for which, found in members.items()}
    return {
        key: median if abs(value - (median := medians[classes[key]])) <= SAME_WITHIN * median else value
        for key, value in values.items()
    }


def pair_rates(topology: Topology, links: Mapping[Pair, Link]) -> dict[Pair, float]:
    """
    Return what was measured between pairs of GPUs, GB/s: of two directions the slower one, as a ring goes both ways somewhere.

    Parameters
    ----------
    links
        What the pairs are worth by class; others are left out.
    """
    found: dict[Pair, float] = {}
    for copy in () if (measured := believed(topology)) is None else measured.copies:
        pair = min(copy.source, copy.target), max(copy.source, copy.target)
        if pair in links:
            found[pair] = min(found.get(pair, copy.gb_per_s.median), copy.gb_per_s.median)
    cards = [card_of(gpu) for gpu in topology.gpus]

    def ends(pair: Pair) -> tuple[str, ...]:
        return tuple(sorted(card.slug if (card := cards[g]) is not None else "" for g in pair))

    return settled(found, {(i, j): (links[i, j].code, links[i, j].gb_per_s, ends((i, j))) for i, j in found})


def seen_on_edges(rates: Mapping[Pair, float], above: Mapping[Part, Part]) -> dict[tuple[Part, Part], float]:
    """
    Return what the edges of the PCIe tree were seen to carry: the fastest copy over each, GB/s.

    An edge carries that much at least. A slow copy says nothing of any edge: it does not tell which of its way is the slow one.

    Parameters
    ----------
    rates
        Pairs whose copies go over the tree.
    above
        What each part of the tree hangs from.
    """
    found: dict[tuple[Part, Part], float] = {}
    for (a, b), rate in rates.items():
        for edge in _way_up(above, ("gpu", a)) ^ _way_up(above, ("gpu", b)):
            found[edge] = max(found.get(edge, 0.0), rate)
    return found


def _way_up(above: Mapping[Part, Part], node: Part) -> set[tuple[Part, Part]]:
    edges = set()
    while node in above:
        edges.add((node, above[node]))
        node = above[node]
    return edges


def doubts(topology: Topology) -> tuple[str, ...]:
    """Return warnings about measurements that cannot be of this machine, or were not made on GPUs."""
    if topology.measured is None:
        return ()
    if topology.measured.device is not Device.CUDA:
        return (REHEARSAL,)
    odd = [f"{what}: {value:g} where its class has {usual:g}" for what, value, usual in _beside_classes(topology, topology.measured)
           if not usual / FAR <= value <= usual * FAR]  # fmt: skip
    if not odd:
        return ()
    return (f"measurements are more than {FAR} times off their class, and are used all the same: {listing(odd)}; measure again",)


def _beside_classes(topology: Topology, measured: Measured) -> Iterator[tuple[str, float, float]]:
    """Yield what was measured, its value, and that of its class."""
    cards = [card_of(gpu) for gpu in topology.gpus]

    def usual(a: int, b: int) -> float:
        return link(topology.link(a, b), cards[a], cards[b]).gb_per_s

    for of in measured.gpus:
        card = cards[of.gpu]
        rates = [] if card is None else [
            ("matmul_tflops", of.matmul_tflops, card.dense_16bit_tflops), ("memory_gb_per_s", of.memory_gb_per_s, card.memory_gb_per_s)
        ]  # fmt: skip
        yield from ((f"{name} of GPU {of.gpu}", found.median, peak) for name, found, peak in rates if isinstance(found, Spread))
    for copy in measured.copies:
        yield f"GB/s from GPU {copy.source} to GPU {copy.target}", copy.gb_per_s.median, usual(copy.source, copy.target)
    for one in measured.all_reduce:
        first, *others = one.gpus
        fastest = max(usual(first, other) for other in others)
        best = max(at.bus_gb_per_s.median for at in one.sizes)
        yield f"bus GB/s of the all-reduce of GPUs {', '.join(map(str, one.gpus[:8]))}", best, fastest
