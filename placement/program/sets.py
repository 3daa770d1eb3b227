"""
Which sets of GPUs may form a group: rules ``contiguity`` (b) and ``same_card``, and nothing twice.

GPUs that are *twins* can be exchanged without changing the machine. Where roles share all of their GPUs or none, any answer can be
exchanged into one in which every group takes a run of consecutive twins, and the smallest ids are such an answer: so of each class of
twins only runs are taken, and sixteen equal GPUs have 136 sets, not 65,535. Rank orders follow ids (they ascend in a TP block), so a class
holds neighbours only: between its ids there is no other GPU, and an exchange inside it leaves every order as it is.

When to modify: a rule about *which GPUs may form a group* changes, or more GPUs should be looked at.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from placement.machines.machine import Machine
from placement.workloads.rules import Rules
from topologies.ways import ways

MAX_LISTED = 70_000
"""Sets that are listed before the rules choose among them: all of sixteen GPUs, none of them twins."""

MAX_SETS = 3000
"""Sets that are taken; beyond it a model would be too large to prove. What is left out is said (`Sets.is_complete`)."""

SAME_CARD_TOLERANCE = 0.05
"""Rule ``same_card``: capacities within 5 %."""

Gpus = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sets:
    """
    Sets of GPUs, by size, then ids.

    ``is_complete`` is False when some were left out because there were too many: an optimum over the rest is no proof.
    """

    listed: tuple[Gpus, ...]
    is_complete: bool


def sets(machine: Machine, rules: Rules, sizes: Iterable[int]) -> Sets:
    """Return the sets of *sizes* that the rules allow."""
    classes = card_classes(machine) if rules.same_card else (machine.usable,)
    twins = twin_classes(machine) if rules.sharing == "pool" else tuple((g,) for g in machine.usable)
    by_size: dict[int, dict[Gpus, None]] = {}
    is_complete = True
    for members in classes:
        parts = [part for t in twins if (part := tuple(g for g in t if g in members))]
        is_listed = count_of_runs(parts) <= MAX_LISTED
        is_complete = is_complete and is_listed
        for size in sorted({n for n in sizes if n <= len(members)}):
            found = list(runs(parts, size) if is_listed else _runs_of_neighbours(machine, members, size))
            if rules.expressible is not None and rules.expressible.is_consecutive:
                found = [gpus for gpus in found if is_consecutive(machine.usable, gpus)]
            if rules.contiguity:
                found = contiguous(found, machine, members)
            by_size.setdefault(size, {}).update(dict.fromkeys(sorted(found)))
    if sum(map(len, by_size.values())) > MAX_SETS:
        is_complete = False
        share = MAX_SETS // len(by_size)
        by_size = {n: dict.fromkeys(_some(found, machine, share)) for n, found in by_size.items()}
    return Sets(tuple(gpus for n in sorted(by_size) for gpus in sorted(by_size[n])), is_complete)


# ── same_card ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def card_classes(machine: Machine) -> tuple[Gpus, ...]:
    """
    Return the largest sets of usable GPUs that are the same chip with capacities within `SAME_CARD_TOLERANCE` of the smallest.

    They overlap where capacities lie close together: 46, 47 and 49 GB are two classes.
    """
    found: set[Gpus] = set()
    for first in machine.usable:
        low = machine.capacity_mib[first]
        found.add(
            tuple(
                g for g in machine.usable
                if machine.cards[g].chip == machine.cards[first].chip
                and low <= machine.capacity_mib[g] <= low * (1 + SAME_CARD_TOLERANCE)
            )
        )
    return tuple(sorted(c for c in found if not any(set(c) < set(other) for other in found)))


# ── target ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def is_consecutive(usable: Gpus, gpus: Gpus) -> bool:
    """Whether *gpus* stand side by side among the *usable* ones, which is how a job counts them."""
    first = usable.index(min(gpus))
    return usable[first : first + len(gpus)] == tuple(sorted(gpus))


# ── contiguity ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def contiguous(listed: Sequence[Gpus], machine: Machine, members: Gpus) -> list[Gpus]:
    """
    Keep the sets that tear no more domains than their size forces, level by level.

    All sets have the same size and are of *members*. At each level a set stays that touches no more domains than the best that was kept
    before (a bridged pair over two switches stays, although two GPUs of one switch would touch fewer switches), or that is made of whole
    domains: two whole bridged pairs are right, also where some domain would hold all four GPUs.
    """
    inside = sum(1 << g for g in members)
    kept = [(sum(1 << g for g in gpus), gpus) for gpus in listed]
    for _, partition in machine.levels:
        masks = [mask for domain in partition if (mask := sum(1 << g for g in domain) & inside)]
        touched = [[mask for mask in masks if mask & bits] for bits, _ in kept]
        fewest = min(map(len, touched), default=0)
        kept = [
            entry for entry, of in zip(kept, touched, strict=True) if len(of) == fewest or sum(of) == entry[0]
        ]
    return [gpus for _, gpus in kept]


# ── not everything twice, not everything at all ─────────────────────────────────────────────────────────────────────────


def twin_classes(machine: Machine) -> tuple[Gpus, ...]:
    """
    Return the usable GPUs in classes of neighbours of which any two can be exchanged.

    They have the same card, memory and domains, and the same ways to all others.
    """
    between = ways(machine.wiring)
    # Two GPUs that are alone in their domains are as exchangeable as two of one domain.
    home = {
        g: [d if len(d) > 1 else () for _, level in machine.levels for d in level if g in d] for g in machine.usable
    }

    def are_twins(a: int, b: int) -> bool:
        same = all(
            fact[a] == fact[b] for fact in (machine.cards, machine.capacity_mib, machine.reserved_mib, home)
        ) and (machine.topology.gpus[a].memory_used_mib == machine.topology.gpus[b].memory_used_mib)
        return same and between.are_twins(a, b, machine.usable)

    classes: list[list[int]] = []
    for g in machine.usable:
        if classes and all(are_twins(g, other) for other in classes[-1]):
            classes[-1].append(g)
        else:
            classes.append([g])
    return tuple(tuple(twins) for twins in classes)


def count_of_runs(classes: Sequence[Gpus]) -> int:
    """Return how many sets `runs` yields for all sizes together, the empty one among them."""
    return math.prod(1 + len(c) * (len(c) + 1) // 2 for c in classes)


def runs(classes: Sequence[Gpus], size: int) -> Iterator[Gpus]:
    """Yield the sets of *size* GPUs that take a run (or none) of each class."""
    singles = [c[0] for c in classes if len(c) == 1]
    of_classes = [[c[i:j] for i in range(len(c)) for j in range(i + 1, len(c) + 1)] for c in classes if len(c) > 1]
    for some in itertools.product(*([(), *of_class] for of_class in of_classes)):
        taken = tuple(itertools.chain.from_iterable(some))
        if 0 <= size - len(taken) <= len(singles):
            for others in itertools.combinations(singles, size - len(taken)):
                yield tuple(sorted(taken + others)) if taken else others


def _runs_of_neighbours(machine: Machine, members: Gpus, size: int) -> Iterator[Gpus]:
    """Yield the runs of *size* GPUs when those that are close to each other stand side by side."""
    home = {g: [k for _, level in reversed(machine.levels) for k, d in enumerate(level) if g in d] for g in members}
    line = sorted(members, key=lambda g: (home[g], g))
    for start in range(len(line) - size + 1):
        yield tuple(sorted(line[start : start + size]))


def _some(found: Mapping[Gpus, None], machine: Machine, count: int) -> list[Gpus]:
    """
    Return *count* of *found*, which have one size: runs of neighbours, and sets over few domains.

    Of sets over equally many domains some are taken from everywhere: groups that stand side by side must have no GPU in common.
    """
    if len(found) <= count:
        return list(found)
    size = len(next(iter(found)))
    members = sorted({g for gpus in found for g in gpus})
    chosen = dict.fromkeys(gpus for gpus in _runs_of_neighbours(machine, tuple(members), size) if gpus in found)
    ranked: dict[tuple[int, ...], list[Gpus]] = {}
    for gpus in found:
        ranked.setdefault(_torn(gpus, machine), []).append(gpus)
    for _, equal in sorted(ranked.items()):
        left = count - len(chosen)
        if left <= 0:
            break
        step = max(len(equal) / left, 1.0)
        chosen.update(dict.fromkeys(equal[int(k * step)] for k in range(min(left, len(equal)))))
    return list(chosen)


def _torn(gpus: Gpus, machine: Machine) -> tuple[int, ...]:
    """Return how many domains *gpus* touch, level by level."""
    return tuple(sum(1 for domain in level if not set(domain).isdisjoint(gpus)) for _, level in machine.levels)
