"""
Does a group touch no more domains of the machine than its size forces (rule ``contiguity``, second half)?

Level by level, closest first, a group is measured against all groups of its size that did as well as it at the levels before. At
each level it does well if it touches as few domains as the best of them, or if it tears none: it takes all usable GPUs of every
domain that it touches. With rule ``same_card`` only GPUs of one class of cards count, in groups and in domains.

All groups of a size are looked at. On machines of more than `MAX_GPUS` GPUs there are too many, and this rule is not judged.

When to modify: what counts as a torn domain, or as the same card, changes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from placement.checking.form import usable_gpus
from placement.machines.machine import Machine
from placement.plans import Plan
from placement.program.instance import Instance
from topologies.domains import Level

MAX_GPUS = 16
"""GPUs from which groups are made; they have 65,535."""


@dataclass(frozen=True, slots=True)
class Standard:
    """What a level asks of groups of one size: its domains as bit masks, and how few of them the best groups touch."""

    level: Level
    domains: tuple[int, ...]
    fewest: int

    def touched(self, group: int) -> int:
        """Return how many domains the bit mask *group* touches."""
        return sum(1 for domain in self.domains if domain & group)

    def is_met(self, group: int) -> bool:
        """Whether *group* touches as few domains as the best, or tears none."""
        return self.touched(group) == self.fewest or all(domain & group in (0, domain) for domain in self.domains)


def domain_problems(plan: Plan, instance: Instance) -> Iterator[str]:
    """Say which roles of *plan* are spread over more domains than they need."""
    if not instance.rules.contiguity:
        return
    known: dict[tuple[tuple[int, ...], int], tuple[Standard, ...]] = {}
    for role, gpus in plan.device_map.items():
        group = _mask(gpus)
        missed = []
        for key in ((members, len(gpus)) for members in _rivals(gpus, instance)):
            if key not in known:
                known[key] = standards(instance.machine, *key)
            missed.append(next((s for s in known[key] if not s.is_met(group)), None))
        # A group of cards that lie between two classes is right if it is right in one of them.
        worst = missed[0] if missed else None
        if worst is not None and None not in missed:
            yield (
                f"{role} on {sorted(gpus)} touches {worst.touched(group)} domains of level {worst.level} and tears one, where "
                f"{worst.fewest} would do (rule contiguity)"
            )


def standards(machine: Machine, members: tuple[int, ...], size: int) -> tuple[Standard, ...]:
    """Return what the levels ask of groups of *size* GPUs among *members*, closest first."""
    if len(members) > MAX_GPUS:
        return ()
    levels = []
    for level, partition in machine.levels:
        domains = tuple(filter(None, (_mask(set(domain) & set(members)) for domain in partition)))
        # One domain, or one for each GPU: every group touches as many as the others, and tears none.
        if len(domains) not in (1, len(members)):
            levels.append((level, domains))
    groups = _groups(members, size, [domains for _, domains in levels])
    found = []
    for level, domains in levels:
        fewest = min(map(Standard(level, domains, 0).touched, groups))
        found.append(Standard(level, domains, fewest))
        groups = [group for group in groups if found[-1].is_met(group)]
    return tuple(found)


def _groups(members: Iterable[int], size: int, levels: Sequence[tuple[int, ...]]) -> list[int]:
    """
    Return the groups of *size* GPUs among *members* as bit masks.

    GPUs of the same domain at all levels are equal here: of all groups that take as many of them, one is returned.
    """
    equal: dict[tuple[int, ...], list[int]] = {}
    for g in members:
        home = tuple(domain for domains in levels for domain in domains if domain & 1 << g)
        equal.setdefault(home, []).append(g)
    taken = [[_mask(gpus[:count]) for count in range(len(gpus) + 1)] for gpus in equal.values()]
    return [group for parts in itertools.product(*taken) if (group := sum(parts)).bit_count() == size]


def _rivals(gpus: Sequence[int], instance: Instance) -> Iterator[tuple[int, ...]]:
    """
    Yield the GPUs from which a group like *gpus* can be made: all usable ones, or with ``same_card`` those of each class it lies in.

    A class has a smallest card and all of the same chip with up to 5 % more memory. A group of no class breaks rule ``same_card``, and
    is not judged here.
    """
    usable, machine = usable_gpus(instance), instance.machine
    if not instance.rules.same_card:
        yield usable
        return
    kin = [g for g in usable if machine.cards[g].chip == machine.cards[gpus[0]].chip]
    classes: list[set[int]] = []
    for least in sorted({machine.capacity_mib[g] for g in kin}):
        card_class = {g for g in kin if 100 * least <= 100 * machine.capacity_mib[g] <= 105 * least}
        if not any(card_class <= larger for larger in classes):
            classes.append(card_class)
    yield from (tuple(sorted(card_class)) for card_class in classes if card_class >= set(gpus))


def _mask(gpus: Iterable[int]) -> int:
    return sum(1 << g for g in gpus)
