"""
What must not be missed in a plan: GPUs that are left out, links that are unknown, sequences too long, batches that
ranks cannot share evenly, rough times, broken wishes.

When to modify: a plan can rest on, or give up, something new that its reader would want to know first.
"""

from __future__ import annotations

from collections.abc import Iterator

from placement.cli.table import counted
from placement.machines.machine import Machine
from placement.maps.assumptions import must_know, rough_times, uneven_batches
from placement.plans import Plan
from placement.program.instance import Instance
from placement.program.lower import least_gpus
from placement.workloads.workload import RoleName
from topologies.domains import Level


def notices(plan: Plan, instance: Instance) -> tuple[str, ...]:
    """Return one sentence for each thing that the reader of *plan*, made for *instance*, must not miss."""
    names = [role.name for role in instance.workload.placed]
    ranks: dict[RoleName, int] = {name: plan.roles[name].layout.dp for name in names if name is not RoleName.ROLLOUT}
    return (*must_know(instance), *uneven_batches(instance, ranks), *rough_times(instance), *broken_wishes(plan, instance))


def broken_wishes(plan: Plan, instance: Instance) -> Iterator[str]:
    """Yield the wishes that *plan* does not grant: as many as its proof counts in the term ``soft_rules``."""
    rules, machine = instance.rules, instance.machine
    groups = {name: frozenset(gpus) for name, gpus in plan.device_map.items()}
    for role in instance.workload.placed:
        gpus, least = len(groups[role.name]), least_gpus(instance, role)
        if gpus < least:
            yield f"a wish is broken: {role.name} gets {counted(gpus, 'GPU')}, fewer than {least} (rule min_gpus)"
    actor, ref = groups.get(RoleName.ACTOR), groups.get(RoleName.REF)
    if rules.affinity and actor and ref and not actor & ref:
        level = _closest_shared_level(machine)
        if not _domains(machine, level, actor) & _domains(machine, level, ref):
            yield f"a wish is broken: actor and ref have no {level} in common (rule affinity)"
    critic, reward = groups.get(RoleName.CRITIC), groups.get(RoleName.REWARD)
    if rules.root_complex and critic and reward and not critic & reward:
        common = _domains(machine, Level.ROOT_COMPLEX, critic) & _domains(machine, Level.ROOT_COMPLEX, reward)
        if common:
            yield "a wish is broken: critic and reward sit under one PCIe root complex (rule root_complex)"


def _closest_shared_level(machine: Machine) -> Level:
    """Return the closest level of which some domain holds two GPUs that can be used."""
    shared = (level for level, partition in machine.levels if any(len(domain) > 1 for domain in partition))
    return next(shared, Level.HOST)


def _domains(machine: Machine, level: Level, gpus: frozenset[int]) -> frozenset[tuple[int, ...]]:
    """Return the domains of *level* that *gpus* touch."""
    return frozenset(domain for domain in dict(machine.levels)[level] if gpus & set(domain))
