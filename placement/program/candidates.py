"""
Which groups of GPUs a role may take, in which rank order, and what each group offers.

A candidate is a *set* of GPUs (`placement.program.sets`) with a *rank order*. Orders come from
rule ``contiguity`` (a): a TP block is a run of consecutive ranks whose ids ascend, blocks follow their smallest id. Different
cuts into blocks can favour different TP sizes, so every cut that no other cut beats in all of them is a candidate of its own:
the choice is the solver's.

When to modify: a rule about rank orders changes, or the cost model asks something new of a group.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from placement.choices.hardware import Hardware
from placement.machines.machine import Machine
from placement.program.sets import Sets, sets
from placement.workloads.rules import Rules
from topologies import bandwidth
from topologies.domains import Level

GB = 1e9
MAX_CUTS = 1000
"""Cuts of one set into TP blocks that are compared before the search settles for the best of them."""

MAX_CUTS_IN_ALL = 24_000
"""The same, of all sets; those that come later get an equal share of what is left."""

Blocks = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A group in rank order, and what it offers."""

    gpus: tuple[int, ...]
    hardware: Hardware


@dataclass(frozen=True, slots=True)
class Candidates:
    """
    All candidates of a machine, by ascending GPU ids, then rank order.

    ``is_complete`` is False when some were left out because there were too many: an optimum over the rest is no proof.
    ``has_rough_rings`` is True when some group of more than `topologies.bandwidth.EXACT_UP_TO` may have a faster ring.
    """

    groups: tuple[Candidate, ...]
    is_complete: bool
    has_rough_rings: bool = False


def candidates(
    machine: Machine,
    rules: Rules,
    *,
    sizes: Iterable[int],
    tp_sizes: Iterable[int],
    only: Sequence[tuple[int, ...]] | None = None,
) -> Candidates:
    """
    Return the groups of *machine* that the rules allow.

    Parameters
    ----------
    sizes
        Group sizes that some role can take.
    tp_sizes
        TP sizes in some role's menu.
    only
        These sets and no others, whatever the rules say of their shape.
    """
    chosen = sets(machine, rules, sizes) if only is None else Sets(tuple(sorted(only)), is_complete=True)
    complete = chosen.is_complete
    tps = tuple(sorted({tp for tp in tp_sizes if tp > 1}))
    cutter = _Cutter(machine, tps, contiguity=rules.contiguity)
    is_ascending = rules.expressible is not None and rules.expressible.is_ascending
    found: list[Candidate] = []
    left = MAX_CUTS_IN_ALL
    for k, gpus in enumerate(chosen.listed):
        if is_ascending:
            offers, exhaustive, spent = [(gpus, cutter.offer(gpus, [tp for tp in tps if len(gpus) % tp == 0]))], True, 0
        else:
            offers, exhaustive, spent = cutter.orders(gpus, at_most=min(MAX_CUTS, left // (len(chosen.listed) - k)))
        left -= spent
        complete = complete and exhaustive
        base = _base_hardware(machine, gpus)
        found += [Candidate(order, _with_blocks(base, offer)) for order, offer in offers]
    rough = any(
        not bandwidth.ring(machine.wiring, gpus).is_best for gpus in chosen.listed if len(gpus) > bandwidth.EXACT_UP_TO
    )
    return Candidates(tuple(sorted(found, key=lambda c: (sorted(c.gpus), c.gpus))), complete, rough)


# ── which rank orders ───────────────────────────────────────────────────────────────────────────────────────────────────

Offer = Mapping[int, tuple[float, bool]]
"""Per TP size: GB/s of the slowest block when all run at once, and whether it is NVLink only."""


class _Cutter:
    """Cuts sets into TP blocks; remembers which blocks are allowed and how fast each is alone."""

    def __init__(self, machine: Machine, tps: Sequence[int], *, contiguity: bool) -> None:
        self.machine = machine
        self.tps = tps
        self.contiguity = contiguity
        self._alone: dict[tuple[int, ...], tuple[float, bool] | None] = {}
        self._closest = {tp: self._closest_domains(tp) for tp in tps}

    def orders(
        self, gpus: tuple[int, ...], *, at_most: int = MAX_CUTS
    ) -> tuple[list[tuple[tuple[int, ...], Offer]], bool, int]:
        """
        Return the rank orders of *gpus* that no other beats in every TP size (ascending ids always among them).

        Beside it: whether all cuts were compared, and how many were; per TP size *at_most* so many.
        """
        tps = [tp for tp in self.tps if len(gpus) % tp == 0]
        plain = self.offer(gpus, tps)
        if all(self._cannot_be_beaten(gpus, tp, plain.get(tp)) for tp in tps):
            return [(gpus, plain)], True, 0
        offers = {gpus: plain}
        exhaustive, spent = True, 0
        for tp in tps:
            cuts = list(itertools.islice(self._cuts(gpus, tp), at_most + 1))
            exhaustive = exhaustive and len(cuts) <= at_most
            spent += len(cuts)
            for cut in cuts[:at_most]:
                order = tuple(itertools.chain.from_iterable(cut))
                if order not in offers:
                    offers[order] = self.offer(order, tps)
        return _unbeaten(gpus, offers), exhaustive, spent

    def offer(self, order: tuple[int, ...], tps: Iterable[int]) -> Offer:
        offer = {}
        for tp in tps:
            blocks = tuple(order[k : k + tp] for k in range(0, len(order), tp))
            if all(self._speed_alone(block) is not None for block in blocks):
                together = bandwidth.blocks(self.machine.wiring, blocks)
                offer[tp] = (together.gb_per_s, together.nvlink)
        return offer

    def _cannot_be_beaten(self, gpus: tuple[int, ...], tp: int, offered: tuple[float, bool] | None) -> bool:
        """
        Whether the offer meets an upper bound.

        No cut is faster than the slowest GPU's fastest block alone, and none is NVLink only if some GPU is in no such block.
        """
        fastest: dict[int, float] = {}
        on_nvlink: set[int] = set()
        for block in itertools.combinations(gpus, tp):
            alone = self._speed_alone(block)
            if alone is not None:
                for gpu in block:
                    fastest[gpu] = max(fastest.get(gpu, 0.0), alone[0])
                if alone[1]:
                    on_nvlink.update(block)
        if len(fastest) < len(gpus):
            return True     # some GPU is in no allowed block: no cut exists
        if offered is None:
            return False
        return offered[0] >= min(fastest.values()) and (offered[1] or len(on_nvlink) < len(gpus))

    def _cuts(self, gpus: tuple[int, ...], tp: int) -> Iterator[Blocks]:
        """Yield the cuts of *gpus* into allowed blocks; ids ascend in a block, blocks follow their smallest id."""
        if not gpus:
            yield ()
            return
        first, rest = gpus[0], gpus[1:]
        for others in itertools.combinations(rest, tp - 1):
            block = (first, *others)
            if self._speed_alone(block) is not None:
                left = tuple(g for g in rest if g not in others)
                for cut in self._cuts(left, tp):
                    yield (block, *cut)

    def _speed_alone(self, block: tuple[int, ...]) -> tuple[float, bool] | None:
        """Return what *block* offers when nothing else runs; None when it is not allowed as a TP block."""
        if block not in self._alone:
            allowed = list(block) == sorted(block) and (not self.contiguity or self._is_contiguous(block))
            ring = bandwidth.ring(self.machine.wiring, block) if allowed else None
            self._alone[block] = None if ring is None else (ring.gb_per_s, ring.nvlink)
        return self._alone[block]

    def _is_contiguous(self, block: tuple[int, ...]) -> bool:
        """Rule ``contiguity`` (a)."""
        if self.machine.is_nvlinked:
            return all(self.machine.has_nvlink(a, b) for a, b in itertools.combinations(block, 2))
        return any(set(block) <= domain for domain in self._closest[len(block)])

    def _closest_domains(self, tp: int) -> list[frozenset[int]]:
        """Return the domains of the closest PCIe level that can hold a block of *tp* GPUs."""
        for level, partition in self.machine.levels:
            holding = [frozenset(domain) for domain in partition if len(domain) >= tp]
            if level is not Level.ISLAND and holding:
                return holding
        return []


def _unbeaten(plain: tuple[int, ...], offers: Mapping[tuple[int, ...], Offer]) -> list[tuple[tuple[int, ...], Offer]]:
    """Drop orders whose offer another order matches or beats in every TP size; among equals the smallest ids stay."""
    kept: list[tuple[tuple[int, ...], Offer]] = []
    for order, offer in sorted(offers.items(), key=lambda item: (-sum(v for v, _ in item[1].values()), item[0])):
        if not any(_covers(other, offer) for _, other in kept):
            kept.append((order, offer))
    if all(order != plain for order, _ in kept):
        kept.append((plain, offers[plain]))
    return sorted(kept, key=lambda item: item[0])


def _covers(a: Offer, b: Offer) -> bool:
    """Whether *a* is as good as *b* in every TP size; a slower NVLink can be better than a faster PCIe, as it starts sooner."""
    return all(tp in a and a[tp][0] >= gb_per_s and a[tp][1] >= nvlink for tp, (gb_per_s, nvlink) in b.items())


# ── what a group offers ─────────────────────────────────────────────────────────────────────────────────────────────────


def _base_hardware(machine: Machine, gpus: tuple[int, ...]) -> Hardware:
    cards = [machine.cards[g] for g in gpus]
    ring = bandwidth.ring(machine.wiring, gpus) if len(gpus) > 1 else None
    return Hardware(
        gpus=len(gpus),
        flops=min(card.dense_16bit_tflops for card in cards) * 1e12,
        memory_bytes_per_s=min(card.memory_gb_per_s for card in cards) * GB,
        total_mib=min(machine.capacity_mib[g] for g in gpus),
        compute_capability=min(card.compute_capability for card in cards),
        ring_bytes_per_s=ring.gb_per_s * GB if ring else 0.0,
        ring_nvlink=ring.nvlink if ring else False,
        host_bytes_per_s=bandwidth.host_gb_per_s(machine.wiring, gpus) * GB,
    )


def candidate(machine: Machine, rules: Rules, gpus: tuple[int, ...], *, tp_sizes: Iterable[int]) -> Candidate:
    """Return the group *gpus* in this rank order with what it offers, whether another order beats it or not."""
    tps = tuple(sorted({tp for tp in tp_sizes if tp > 1 and len(gpus) % tp == 0}))
    offer = _Cutter(machine, tps, contiguity=rules.contiguity).offer(gpus, tps)
    return Candidate(gpus, _with_blocks(_base_hardware(machine, tuple(sorted(gpus))), offer))


def ideal_hardware(machine: Machine, size: int) -> Hardware:
    """Return what no group of *size* usable GPUs of *machine*, which are the same card, beats in anything."""
    usable = machine.usable
    fastest = max((bandwidth.pair_gb_per_s(machine.wiring, a, b) for a, b in itertools.permutations(usable, 2)), default=0.0)
    fastest = max(fastest, *machine.wiring.rings.values(), 0.0)
    cards = [machine.cards[g] for g in usable]      # what was measured on them may differ
    one = _base_hardware(machine, usable[:1])
    blocks = tuple(tp for tp in range(2, size + 1) if size % tp == 0)
    return replace(
        one,
        gpus=size,
        flops=max(card.dense_16bit_tflops for card in cards) * 1e12,
        memory_bytes_per_s=max(card.memory_gb_per_s for card in cards) * GB,
        ring_bytes_per_s=fastest * GB if size > 1 else 0.0,
        ring_nvlink=size > 1,
        block_bytes_per_s=tuple((tp, fastest * GB) for tp in blocks),
        block_nvlink=tuple((tp, True) for tp in blocks),
        host_bytes_per_s=max(bandwidth.host_gb_per_s(machine.wiring, (g,)) for g in usable) * GB,
    )


def _with_blocks(base: Hardware, offer: Offer) -> Hardware:
    blocks = sorted(offer.items())
    return replace(
        base,
        block_bytes_per_s=tuple((tp, gb_per_s * GB) for tp, (gb_per_s, _) in blocks),
        block_nvlink=tuple((tp, nvlink) for tp, (_, nvlink) in blocks),
    )
