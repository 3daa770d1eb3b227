"""
Can the target run this plan: rule ``target``?

When to modify: `placement.workloads.target_rules` states something new.
"""

from __future__ import annotations

from collections.abc import Iterator

from placement.checking.form import usable_gpus
from placement.plans import Plan
from placement.program.instance import Instance
from placement.workloads.workload import Engine, RoleName


def target_problems(plan: Plan, instance: Instance) -> Iterator[str]:
    """Say what of *plan* its target cannot express."""
    target = instance.rules.expressible
    if target is None:
        return
    pools: dict[frozenset[int], set[RoleName]] = {}
    for role in instance.workload.placed:
        pools.setdefault(frozenset(plan.device_map[role.name]), set()).add(role.name)
    if not target.pools(frozenset(map(frozenset, pools.values()))):
        shown = " | ".join(" + ".join(sorted(roles)) for roles in pools.values())
        yield f"target {target.name} cannot pool roles as {shown}: {target.says} (rule target)"
    for roles in pools.values() if target.one_megatron_layout else ():
        layouts = {
            role: (plan.roles[role].layout.tp, plan.roles[role].layout.pp, plan.roles[role].layout.ep_size)
            for role in sorted(roles)
            if plan.roles[role].engine == Engine.MEGATRON
        }
        if len(set(layouts.values())) > 1:
            shown = ", ".join(f"{role} tp {tp} pp {pp} ep {ep}" for role, (tp, pp, ep) in layouts.items())
            yield f"target {target.name} has one Megatron layout in a pool: {shown} (rule target)"
    place = {gpu: k for k, gpu in enumerate(usable_gpus(instance))}
    for role in instance.workload.placed:
        gpus = plan.device_map[role.name]
        if target.is_ascending and list(gpus) != sorted(gpus):
            yield f"target {target.name} sorts the GPUs of a role, and {role.name} has {list(gpus)} (rule target)"
        places = sorted(place[g] for g in gpus)
        if target.is_consecutive and places[-1] - places[0] + 1 != len(places):
            yield f"target {target.name} takes consecutive GPUs, and {role.name} has {list(gpus)} (rule target)"
