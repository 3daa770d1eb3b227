"""
What measurements say of a machine, in the terms of the cost model: peak rates of cards, links of rings.

The cost model takes peaks and knows what share of them real work reaches. What was measured is real work; so it is divided by the
share that the class is known to reach, and a machine on which it is as usual is planned on as if nothing had been measured.

When to modify: something else is measured, or the cost model takes another rate of a card or a ring.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from placement.constants.table import Constants
from placement.timing.collectives import bytes_per_s_of, reduces_in_switch
from topologies import bandwidth
from topologies.cards import Card
from topologies.measured import REHEARSAL, believed, settled
from topologies.measurements import AllReduce
from topologies.model import Topology
from topologies.wiring import Wiring

GB = 1e9


def measured_cards(topology: Topology, cards: Sequence[Card], c: Constants) -> tuple[Card, ...]:
    """
    Return the card of each GPU with the peaks that follow from what was measured on it.

    ``peak = measured / share``: for matrix products the share that the best ones are known to reach on this card
    (`Card.best_matmul_tflops`, or else `Constants.best_matmul_share`), for memory `Constants.memory_efficiency`.
    """
    found = believed(topology)
    if found is None:
        return tuple(cards)
    kinds = {of.gpu: cards[of.gpu].slug for of in found.gpus}
    tflops = settled({of.gpu: of.matmul_tflops.median for of in found.gpus if of.matmul_tflops is not None}, kinds)
    memory = settled({of.gpu: of.memory_gb_per_s.median for of in found.gpus if of.memory_gb_per_s is not None}, kinds)
    return tuple(
        dataclasses.replace(
            card,
            dense_16bit_tflops=tflops[g] / matmul_share(card, c) if g in tflops else card.dense_16bit_tflops,
            memory_gb_per_s=memory[g] / c.memory_efficiency if g in memory else card.memory_gb_per_s,
        )
        if g in kinds
        else card
        for g, card in enumerate(cards)
    )


def matmul_share(card: Card, c: Constants) -> float:
    """Return what share of its peak the best matrix products reach on *card*."""
    if card.best_matmul_tflops is None:
        return c.best_matmul_share
    return card.best_matmul_tflops / card.dense_16bit_tflops


def measured_wiring(wiring: Wiring, cards: Sequence[Card], c: Constants) -> Wiring:
    """
    Return *wiring* with the rings of the groups whose all-reduce was measured.

    A ring's link is the one with which `placement.timing.collectives.all_reduce_s` takes as long as the largest all-reduce that was
    measured, on GPUs that are *cards*, as `measured_cards` returns them.
    """
    found = believed(wiring.topology)
    rates: dict[tuple[int, ...], float] = {}
    kinds: dict[tuple[int, ...], object] = {}
    for one in () if found is None else found.all_reduce:
        if len({wiring.topology.gpus[g].host for g in one.gpus}) > 1:
            continue        # no source states a network: nothing is planned across hosts
        ring = bandwidth.ring(wiring, one.gpus)
        gb_per_s = _ring_gb_per_s(one, cards, c, nvlink=ring.nvlink)
        if gb_per_s is not None:
            rates[one.gpus] = gb_per_s
            kinds[one.gpus] = (len(one.gpus), ring.nvlink, ring.gb_per_s)
    return dataclasses.replace(wiring, rings=settled(rates, kinds)) if rates else wiring


def _ring_gb_per_s(one: AllReduce, cards: Sequence[Card], c: Constants, *, nvlink: bool) -> float | None:
    largest, n = one.sizes[-1], len(one.gpus)
    seconds = 2 * (n - 1) / n * largest.bytes / (largest.bus_gb_per_s.median * GB)
    of_group = [cards[g] for g in one.gpus]
    in_switch = reduces_in_switch(min(card.compute_capability for card in of_group), n)
    memory = min(card.memory_gb_per_s for card in of_group) * GB
    bytes_per_s = bytes_per_s_of(seconds, largest.bytes, n, nvlink=nvlink, c=c, in_switch=in_switch, memory_bytes_per_s=memory)
    return None if bytes_per_s is None else bytes_per_s / GB


def what_was_measured(topology: Topology) -> str | None:
    """Return in words what plans take from measurements of *topology*; None if nothing."""
    found = believed(topology)
    if found is None:
        return None
    n = len(topology.gpus)
    pairs = {(min(c.source, c.target), max(c.source, c.target)) for c in found.copies}
    same_host = sum(topology.gpus[i].host == topology.gpus[j].host for i in range(n) for j in range(i + 1, n))
    parts = [
        ("copies", len(pairs), same_host, "pairs of GPUs"),
        ("matrix products", sum(of.matmul_tflops is not None for of in found.gpus), n, "GPUs"),
        ("memory bandwidth", sum(of.memory_gb_per_s is not None for of in found.gpus), n, "GPUs"),
    ]
    said = [
        f"{what} of {'all' if count == total else f'{count} of'} {total} {whose}" for what, count, total, whose in parts if count
    ]
    groups = len(found.all_reduce)
    said += [f"all-reduces of {groups} group{'s' * (groups > 1)}"] if groups else []
    by = f" (by {', '.join(found.by)})" if found.by else ""
    return f"measured on this machine{by}: {', '.join(said)}"


def rehearsals(topology: Topology) -> Iterator[str]:
    """Yield why measurements of *topology* are not used, where they are not."""
    if topology.measured is not None and believed(topology) is None:
        yield REHEARSAL
