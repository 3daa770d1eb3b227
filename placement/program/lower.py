"""
Instance → Problem: words become integers here, and only here.

Times are µs, rounded up (`placement.demand`): a plan is never promised to be faster than it is. Memory is MiB, rounded up;
capacities are rounded down.

When to modify: a rule changes, or a rule is added.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from placement.choices.choices import Choice, parts
from placement.demand import transfer_us
from placement.machines.machine import Machine
from placement.memory.host_memory import moments, usable_mib
from placement.memory.sending import sent
from placement.program.instance import Instance, Objective
from placement.program.menu import Menu, PricedChoice, alike_roles, layout_kind, sizes
from placement.workloads.dataflow import Work
from placement.workloads.rules import Relation
from placement.workloads.target_rules import partitions
from placement.workloads.workload import Role, RoleName
from solvers.problem import (
    Device,
    Group,
    Item,
    Operation,
    Option,
    Problem,
    SharedReserve,
    Sharing,
    SoftPair,
    Stage,
    Term,
    Transfer,
    Want,
)
from topologies import bandwidth
from topologies.domains import Level

PRIMARY = {
    Objective.STEP: Term.STEP,
    Objective.MEMORY: Term.MEMORY,
    Objective.GPUS: Term.GPUS,
    Objective.BANDWIDTH: Term.BANDWIDTH,
}
COMFORT_PERCENT = 10
"""Free memory beyond 10 % of a GPU's capacity is not worth a GPU or a second."""

HARD_MIN_GPUS = 6
"""From so many usable GPUs on, rule ``min_gpus`` is hard."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A problem, and what its indices mean."""

    problem: Problem
    gpus: tuple[int, ...]
    choices: tuple[tuple[tuple[PricedChoice, ...], ...], ...]

    def choice(self, item: int, slot: int, option: int) -> Choice:
        """Return what option *option* of slot *slot* of item *item* stands for."""
        return self.choices[item][slot][option].choice


def lower(instance: Instance, menu: Menu) -> Lowered:
    """Return *instance* as integers, over the tables of *menu*."""
    machine = instance.machine
    position = {gpu: d for d, gpu in enumerate(machine.usable)}
    groups = tuple(
        Group(tuple(position[g] for g in candidate.gpus), profile, _ns_per_gb(candidate.hardware.ring_bytes_per_s))
        for candidate, profile in zip(menu.groups, menu.profile_of, strict=True)
    )
    hosts = _hosts(instance)
    items, choices = [], []
    for role in menu.roles:
        item, meaning = _item(instance, menu, role)
        items.append(item)
        choices.append(meaning)
    index = {role.name: i for i, role in enumerate(menu.roles)}
    problem = Problem(
        devices=_devices(machine),
        groups=groups,
        items=tuple(items),
        operations=tuple(Operation(index[role], stage) for role, _, stage in menu.operations),
        stages=tuple(Stage(stage.lane) for stage in menu.stages),
        phases=len(menu.phases),
        apart=tuple(_pairs(instance, index, Relation.APART)),
        together=tuple(_pairs(instance, index, Relation.TOGETHER)),
        patterns=_patterns(instance, index),
        alike=tuple(itertools.combinations(sorted(index[role] for role in alike_roles(instance)), 2)),
        sharing=Sharing(instance.rules.sharing),
        transfers=tuple(_transfers(instance, menu, index)),
        soft_pairs=tuple(_soft_pairs(instance, index)),
        shared_reserves=tuple(_shared_reserves(instance, index)),
        within_ppm=round(instance.within_percent * 10_000),
        primary=PRIMARY[instance.objective],
        hosts=hosts,
        moments=len(moments([role.name for role in menu.roles])) if hosts else 0,
    )
    return Lowered(problem, machine.usable, tuple(choices))


def _ns_per_gb(bytes_per_s: float) -> int:
    return round(1e18 / bytes_per_s) if bytes_per_s else 0


def _hosts(instance: Instance) -> tuple[int | None, ...]:
    """Return what plans may use of each host, MiB; nothing where that is not known of any."""
    if not instance.machine.knows_host_memory:
        return ()
    totals = instance.machine.host_memory_mib
    return tuple(None if mib is None else usable_mib(mib, instance.constants) for mib in totals)


def _devices(machine: Machine) -> tuple[Device, ...]:
    """Say what each usable GPU can hold, and to which island it belongs."""
    islands = dict(machine.levels)[Level.ISLAND]
    island_of = {gpu: k for k, island in enumerate(islands) for gpu in island}
    hosts = machine.topology.hosts
    return tuple(
        Device(
            capacity=room,
            comfort=machine.capacity_mib[g] * COMFORT_PERCENT // 100,
            island=island_of[g],
            host=hosts.index(machine.topology.gpus[g].host) if machine.knows_host_memory else 0,
        )
        for g, room in zip(machine.usable, machine.room_mib, strict=True)
    )


def _item(instance: Instance, menu: Menu, role: Role) -> tuple[Item, tuple[tuple[PricedChoice, ...], ...]]:
    """Say which groups *role* may take and what it can do there."""
    usable = len(instance.machine.usable)
    least = least_gpus(instance, role)
    hard = instance.rules.min_gpus_is_written or usable >= HARD_MIN_GPUS
    allowed = {n for n in sizes(role, usable) if n >= least or not hard}
    slots, meaning = [], []
    for part_number, part in enumerate(parts(role)):
        options, choices = [], []
        for profile, hardware in enumerate(menu.profiles):
            if hardware.gpus not in allowed:
                continue
            # The size of a group is one fact about a role: its first part alone carries the broken wish.
            soft = int(part_number == 0 and hardware.gpus < least)
            for priced in menu.priced[role.name, part, profile]:
                host = priced.host_mib if instance.machine.knows_host_memory else ()
                kind = layout_kind(priced.choice)
                options.append(Option(profile, priced.times_us, priced.memory_mib, soft, priced.preference, host, kind))
                choices.append(priced)
        slots.append(tuple(options))
        meaning.append(tuple(choices))
    offered = set.intersection(*({option.profile for option in slot} for slot in slots))
    groups = tuple(g for g, profile in enumerate(menu.profile_of) if profile in offered)
    return Item(groups, tuple(slots)), tuple(meaning)


def least_gpus(instance: Instance, role: Role) -> int:
    """Rule ``min_gpus``: return how many GPUs *role* wants; what the workload itself says of the role takes its place."""
    if role.min_gpus is not None or role.gpu_menu is not None:
        return 1
    return instance.rules.min_gpus.get(role.name, 1)


def _pairs(instance: Instance, index: dict[RoleName, int], relation: Relation) -> Iterator[tuple[int, int]]:
    """Rule ``isolation``: yield the pairs of roles that stand in *relation*."""
    for a, b in itertools.combinations(index, 2):
        if instance.rules.relation(a, b) is relation:
            yield index[a], index[b]


def _patterns(instance: Instance, index: dict[RoleName, int]) -> tuple[frozenset[tuple[int, int]], ...]:
    """Rule ``target``: which roles the target can pool; nothing where it can pool any."""
    target = instance.rules.expressible
    if target is None:
        return ()
    found = {
        frozenset(pair for pool in pools for pair in itertools.combinations(sorted(index[role] for role in pool), 2))
        for pools in target.patterns(tuple(index))
    }
    every = sum(1 for _ in partitions(tuple(index)))
    return () if len(found) == every else tuple(sorted(found, key=sorted))


def _transfers(instance: Instance, menu: Menu, index: dict[RoleName, int]) -> Iterator[Transfer]:
    """New weights travel from the actor to a rollout of its own over the best pair of GPUs."""
    actor = instance.workload.role(RoleName.ACTOR)
    if RoleName.ROLLOUT not in index or actor is None or actor.model is None:
        return
    stage = next(s for _, work, s in menu.operations if work is Work.SYNC_WEIGHTS)
    wiring, usable = instance.machine.wiring, instance.machine.usable
    what = sent(actor, actor.model, hybrid=False)
    us = tuple(
        tuple(
            0 if a == b else transfer_us(actor.model, bandwidth.pair_gb_per_s(wiring, a, b), instance.constants, what)
            for b in usable
        )
        for a in usable
    )
    yield Transfer(index[RoleName.ACTOR], index[RoleName.ROLLOUT], stage, us)


def _soft_pairs(instance: Instance, index: dict[RoleName, int]) -> Iterator[SoftPair]:
    """Rules ``affinity`` and ``root_complex``: wishes about roles that are apart."""
    rules, machine = instance.rules, instance.machine
    if rules.affinity and {RoleName.ACTOR, RoleName.REF} <= index.keys():
        labels = _labels(machine, _closest_shared_level(machine))
        yield SoftPair(index[RoleName.ACTOR], index[RoleName.REF], labels, Want.MEET)
    if rules.root_complex and {RoleName.CRITIC, RoleName.REWARD} <= index.keys():
        labels = _labels(machine, Level.ROOT_COMPLEX)
        yield SoftPair(index[RoleName.CRITIC], index[RoleName.REWARD], labels, Want.AVOID)


def _closest_shared_level(machine: Machine) -> Level:
    """Return the closest level at which any domain holds two usable GPUs; the host if none does."""
    shared = (level for level, partition in machine.levels if any(len(domain) > 1 for domain in partition))
    return next(shared, Level.HOST)


def _labels(machine: Machine, level: Level) -> tuple[int, ...]:
    label = {gpu: k for k, domain in enumerate(dict(machine.levels)[level]) for gpu in domain}
    return tuple(label[g] for g in machine.usable)


def _shared_reserves(instance: Instance, index: dict[RoleName, int]) -> Iterator[SharedReserve]:
    """Rule ``reward_reserve``: more stays free on a GPU that the reward model shares."""
    percent = instance.rules.reward_reserve_percent
    if percent is not None and RoleName.REWARD in index:
        yield SharedReserve(index[RoleName.REWARD], instance.machine.room_beside_reward_mib(percent))
