"""
May each role have these GPUs, beside the other roles: ``isolation``, ``sharing``, ``same_card``, ``min_gpus``, TP blocks?

When to modify: a rule about the GPUs of one role, or of two roles, changes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from placement.checking.choices import tp_sizes
from placement.checking.form import usable_gpus
from placement.machines.machine import Machine
from placement.plans import Plan
from placement.program.instance import Instance
from placement.workloads.rules import Relation
from placement.workloads.workload import Role
from topologies.domains import Level

HARD_FROM_GPUS = 6
"""Rule ``min_gpus`` is hard where so many GPUs are usable, or where the user wrote it; else it is a wish."""


def group_problems(plan: Plan, instance: Instance) -> Iterator[str]:
    """Say which roles of *plan* may not have their GPUs."""
    yield from _pairs(plan, instance)
    for role in instance.workload.placed:
        gpus = plan.device_map[role.name]
        yield from _size(role, len(gpus), instance)
        if instance.rules.same_card:
            yield from _mixed_cards(role, gpus, instance.machine)
        yield from _rank_order(role, gpus, instance)
        for tp in sorted(tp_sizes(plan.roles[role.name])):
            yield from _blocks(role, gpus, tp, instance)


def blocks(gpus: Sequence[int], size: int) -> list[tuple[int, ...]]:
    """Return the blocks of *size* consecutive ranks of a group."""
    return [tuple(gpus[k : k + size]) for k in range(0, len(gpus), size)]


# ── two roles ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _pairs(plan: Plan, instance: Instance) -> Iterator[str]:
    rules = instance.rules
    for a, b in itertools.combinations(instance.workload.placed, 2):
        first, second = plan.device_map[a.name], plan.device_map[b.name]
        shared = sorted(set(first) & set(second))
        same = set(first) == set(second)
        relation = rules.relation(a.name, b.name)
        if relation is Relation.APART and shared:
            yield f"{a.name} and {b.name} share GPUs {shared} but must be apart (rule isolation, preset {rules.preset})"
        if relation is Relation.TOGETHER and not same:
            yield f"{a.name} and {b.name} must have the same GPUs (rule isolation, preset {rules.preset})"
        if rules.sharing == "pool" and shared and not same:
            yield f"{a.name} and {b.name} share GPUs {shared}, but not all of theirs (rule sharing)"
        if same and first != second:
            yield f"{a.name} and {b.name} have the same GPUs in different rank orders: {list(first)} and {list(second)}"


# ── one role ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def least_gpus(role: Role, instance: Instance) -> int:
    """Return how many GPUs rule ``min_gpus`` wants for *role*: a least number or list of the workload itself takes its place."""
    if role.min_gpus is not None or role.gpu_menu is not None:
        return 1
    return instance.rules.min_gpus.get(role.name, 1)


def is_min_gpus_hard(instance: Instance) -> bool:
    """Whether rule ``min_gpus`` is a constraint here, and no wish."""
    return instance.rules.min_gpus_is_written or len(usable_gpus(instance)) >= HARD_FROM_GPUS


def _size(role: Role, gpus: int, instance: Instance) -> Iterator[str]:
    least = least_gpus(role, instance)
    if gpus < least and is_min_gpus_hard(instance):
        yield f"{role.name} gets {least} or more GPUs, not {gpus} (rule min_gpus)"
    if role.gpu_menu is not None and gpus not in role.gpu_menu:
        yield f"{role.name} has {gpus} GPUs, the workload asks for {' or '.join(map(str, role.gpu_menu))}"
    if role.min_gpus is not None and gpus < role.min_gpus:
        yield f"{role.name} has {gpus} GPUs, the workload asks for {role.min_gpus} or more"
    if role.max_gpus is not None and gpus > role.max_gpus:
        yield f"{role.name} has {gpus} GPUs, the workload asks for {role.max_gpus} or fewer"


def _mixed_cards(role: Role, gpus: Sequence[int], machine: Machine) -> Iterator[str]:
    chips = sorted({machine.cards[g].chip for g in gpus})
    capacities = [machine.capacity_mib[g] for g in gpus]
    if len(chips) > 1:
        yield f"{role.name} mixes the chips {', '.join(chips)} (rule same_card)"
    elif 100 * max(capacities) > 105 * min(capacities):
        yield f"{role.name} mixes GPUs of {min(capacities)} and {max(capacities)} MiB, more than 5 % apart (rule same_card)"


def _rank_order(role: Role, gpus: Sequence[int], instance: Instance) -> Iterator[str]:
    """
    Say whether no block size explains the order: ids ascend inside its blocks, and blocks follow their smallest id.

    Roles of a pool have one order, so that the size may be that of another role, or one that was considered for it.
    """
    known = {1} | {tp for other in instance.workload.placed for tp in (*other.layout.blocks, *_rollout_tps(other))}
    if not any(len(gpus) % tp == 0 and sorted(map(sorted, blocks(gpus, tp))) == list(map(list, blocks(gpus, tp))) for tp in known):
        yield f"the rank order {list(gpus)} of {role.name} is none that its TP blocks explain"


def _rollout_tps(role: Role) -> tuple[int, ...]:
    return role.rollout.tp if role.rollout is not None else ()


# ── TP blocks ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _blocks(role: Role, gpus: Sequence[int], tp: int, instance: Instance) -> Iterator[str]:
    machine = instance.machine
    for block in blocks(gpus, tp):
        if list(block) != sorted(block):
            yield f"the ids of TP block {list(block)} of {role.name} do not ascend"
        if not instance.rules.contiguity:
            continue
        if machine.is_nvlinked:
            unlinked = next((p for p in itertools.combinations(block, 2) if not machine.has_nvlink(*p)), None)
            if unlinked is not None:
                yield (
                    f"TP block {list(block)} of {role.name}: GPUs {unlinked[0]} and {unlinked[1]} are not joined by NVLink "
                    "(rule contiguity)"
                )
        else:
            level, homes = _closest_that_holds(machine, tp)
            if not any(set(block) <= home for home in homes):
                yield f"TP block {list(block)} of {role.name} does not lie in one {level}, and could (rule contiguity)"


def _closest_that_holds(machine: Machine, tp: int) -> tuple[Level, list[set[int]]]:
    """Return the closest level, islands aside, with domains that can hold *tp* GPUs, and these domains."""
    for level, partition in machine.levels:
        homes = [set(domain) for domain in partition if len(domain) >= tp]
        if level is not Level.ISLAND and homes:
            return level, homes
    raise AssertionError("a host holds every group of a machine of one host")
