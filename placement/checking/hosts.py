"""
Host memory, put together anew from what each choice needs of its host.

Every host holds, for each GPU that a role has there, what `placement.demand` says of its choices: all of them at once while a step runs;
before that, each role in turn while it loads, the others as they are when they are loaded.

When to modify: another moment can be the worst for a host, or something else of it is not for plans.
"""

from __future__ import annotations

from collections.abc import Iterator

from placement.checking.costs import Demands
from placement.plans import HostMemory, Plan
from placement.program.instance import Instance


def host_problems(plan: Plan, instance: Instance, costs: Demands) -> Iterator[str]:
    """Say where the host memory of *plan* is wrong, or a host holds more than it may."""
    topology = instance.machine.topology
    names = list(dict.fromkeys(gpu.host for gpu in topology.gpus))
    listed = [row.host for row in plan.host_memory_mib]
    if listed != names:
        yield f"the host memory has rows for {listed}, the machine's hosts are {names}"
        return
    for row in plan.host_memory_mib:
        facts = topology.host_facts.get(row.host)
        yield from _of_host(row, plan, instance, costs, None if facts is None else facts.memory_mib)


def _of_host(row: HostMemory, plan: Plan, instance: Instance, costs: Demands, capacity: int | None) -> Iterator[str]:
    where = row.host or "the host"
    here = {gpu.index for gpu in instance.machine.topology.gpus if gpu.host == row.host}
    count = {role: len(here.intersection(plan.device_map[role])) for role in costs}
    loads = {"run": sum(count[role] * cost.host.runs_mib for role in costs for cost in costs[role])}
    for loading in costs:
        loads[f"load_{loading}"] = sum(
            count[role] * (cost.host.loads_mib if role is loading else cost.host.starts_mib)
            for role in costs
            for cost in costs[role]
        )
    worst = max(loads.values())
    if row.planned != worst:
        yield f"{where}: the map plans {row.planned} MiB of host memory, the model says {worst} MiB"
    elif loads.get(row.worst_phase) != worst:
        yield f"{where}: the map says that {row.worst_phase} is its worst moment, which needs less than {worst} MiB"
    if (row.capacity is None) != (capacity is None) or row.capacity != capacity:
        yield f"{where} has {_mib(capacity)} of memory, the map says {_mib(row.capacity)}"
        return
    if capacity is None:
        if (row.reserved, row.free) != (None, None):
            yield f"{where}: nothing is known to be reserved or free of a memory that is not known"
        return
    c = instance.constants
    filled_mib = c.ray_memory_threshold * capacity - min(c.ray_object_store_most_mib, c.ray_object_store_share * capacity)
    reserved = capacity - max(int(filled_mib), 0)
    if row.reserved != reserved:
        yield f"{where}: {reserved} MiB are not for plans, the map says {_mib(row.reserved)}"
    if row.free != capacity - reserved - worst:
        yield f"{where}: {_mib(row.free)} free are not {capacity} less {reserved} less {worst}"
    if worst > capacity - reserved:
        yield f"{where} needs {worst} MiB of host memory, its {capacity} less the {reserved} that are not for plans are fewer"


def _mib(mib: int | None) -> str:
    return "an unknown amount" if mib is None else f"{mib} MiB"
