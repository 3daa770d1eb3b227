"""
Result → Plan: indices become words again.

When to modify: the device map says something new that the answer implies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placement.choices.choices import Choice, FrozenChoice, RolloutChoice, TrainChoice
from placement.memory.host_memory import moments, usable_mib
from placement.memory.states import FULL_SHARDING
from placement.plans import (
    Comparison,
    Estimate,
    GpuMemory,
    HostMemory,
    Layout,
    Plan,
    Proof,
    RolePlan,
    RolloutPlan,
    StageTime,
    TermValue,
    TrainPlan,
)
from placement.program.instance import Instance
from placement.program.lower import Lowered
from placement.program.menu import Menu
from placement.workloads.workload import KvCache, Quantization, Role
from solvers import check
from solvers.problem import Problem, Term
from solvers.result import Answer, Result, Status

TERM_NAMES = {
    Term.STEP: "step_us",
    Term.SOFT: "soft_rules",
    Term.GPUS: "gpus_used",
    Term.MEMORY: "memory_shortfall_mib",
    Term.ISLANDS: "islands_broken",
    Term.BANDWIDTH: "slowest_ring_ns_per_gb",
    Term.PREFERENCE: "menu_preference",
    Term.IDS: "ids",
}


def lift(
    instance: Instance,
    menu: Menu,
    lowered: Lowered,
    result: Result,
    comparison: Comparison,
    *,
    verdict: str,
    assumptions: Sequence[str],
    inputs: Mapping[str, Any],
) -> Plan:
    """Return the answer of *result* as a plan. *result* has an answer."""
    answer = result.answer
    assert answer is not None
    problem = lowered.problem
    device_map = {
        role.name.value: tuple(lowered.gpus[d] for d in problem.groups[g].devices)
        for role, g in zip(menu.roles, answer.groups, strict=True)
    }
    visible = instance.machine.usable
    ordinal = {gpu: k for k, gpu in enumerate(visible)}
    return Plan(
        verdict=verdict,
        device_map=device_map,
        ordinals={role: tuple(ordinal[g] for g in gpus) for role, gpus in device_map.items()},
        environment={
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, visible)),
        },
        roles={
            role.name.value: _role(role, lowered, answer, i, len(device_map[role.name.value]))
            for i, role in enumerate(menu.roles)
        },
        memory_mib=_memory(instance, menu, lowered, answer),
        host_memory_mib=host_memory(instance, menu, lowered, answer),
        estimate=Estimate(
            step_us=check.terms(problem, answer)[Term.STEP],
            schedule=instance.workload.schedule.value,
            stages=_stages(menu, lowered, answer),
            assumptions=tuple(assumptions),
        ),
        proof=proof(result),
        comparison=comparison,
        rules=instance.rules.describe(),
        inputs=inputs,
    )


def proof(result: Result) -> Proof:
    """Return what *result* proves, in the map's words."""
    star = result.step_star
    assert star is not None
    gap = (star.value - star.bound) / star.value if star.value else 0.0
    return Proof(
        status="optimal" if result.status is Status.OPTIMAL else "feasible",
        objective=star.value,
        bound=star.bound,
        gap=round(gap, 6),
        objective_terms=tuple(TermValue(TERM_NAMES[p.term], p.value, p.bound) for p in result.proofs),
    )


def _role(role: Role, lowered: Lowered, answer: Answer, item: int, gpus: int) -> RolePlan:
    chosen: list[Choice] = [lowered.choice(item, s, o) for s, o in enumerate(answer.options[item])]
    layout, train, rollout, offload = Layout(1, 1, gpus), None, None, None
    for choice in chosen:
        match choice:
            case TrainChoice():
                layout = _layout(choice)
                zero = None if choice.zero == FULL_SHARDING else choice.zero
                train = TrainPlan(choice.master.value, choice.offload.value, choice.micro_batch_tokens, zero)
            case FrozenChoice():
                layout = _layout(choice)
                offload = choice.offload.value
            case RolloutChoice():
                if len(chosen) == 1:
                    layout = Layout(choice.tp, 1, choice.replicas)
                rollout = RolloutPlan(
                    choice.engine.value,
                    choice.tp,
                    choice.replicas,
                    choice.gpu_memory_utilization,
                    choice.max_num_seqs,
                    None if choice.quantization is Quantization.NONE else choice.quantization.value,
                    None if choice.kv_cache is KvCache.AUTO else choice.kv_cache.value,
                )
    assert role.model is not None
    return RolePlan(role.model.name, role.engine.value, chosen[0].precision.value, layout, train, rollout, offload)


def chosen(lowered: Lowered, answer: Answer) -> list[Choice]:
    """Return what *answer* takes from the menus, of all roles."""
    return [lowered.choice(item, s, o) for item, options in enumerate(answer.options) for s, o in enumerate(options)]


def _layout(choice: TrainChoice | FrozenChoice) -> Layout:
    """Return the sizes of *choice*; those of sequences and experts where something is shared."""
    return Layout(
        choice.tp, choice.pp, choice.dp, choice.sp if choice.sp > 1 else None, choice.ep if choice.ep > 1 else None
    )


def _memory(instance: Instance, menu: Menu, lowered: Lowered, answer: Answer) -> tuple[GpuMemory, ...]:
    """Return one row per GPU of the machine that a plan may use."""
    problem, machine = lowered.problem, instance.machine
    rows = []
    for device, gpu in enumerate(lowered.gpus):
        capacity = machine.capacity_mib[gpu]
        room = check.room(problem, answer, device)
        loads = check.loads(problem, answer, device)
        planned = max(loads, default=0)
        worst = menu.phases[loads.index(planned)].value if planned else None
        rows.append(GpuMemory(gpu, capacity, capacity - room, planned, worst, room - planned))
    return tuple(rows)


def host_memory(instance: Instance, menu: Menu, lowered: Lowered, answer: Answer) -> tuple[HostMemory, ...]:
    """Return one row per host: what *answer* needs of it, whether or not it is known what it has."""
    topology, names = instance.machine.topology, moments([role.name for role in menu.roles])
    rows = []
    for host, capacity in zip(topology.hosts, instance.machine.host_memory_mib, strict=True):
        loads = [0] * len(names)
        for i, options in enumerate(answer.options):
            devices = lowered.problem.groups[answer.groups[i]].devices
            count = sum(topology.gpus[lowered.gpus[d]].host == host for d in devices)
            for slot, option in enumerate(options):
                loads = [mib + count * more for mib, more in zip(loads, lowered.choices[i][slot][option].host_mib, strict=True)]
        planned = max(loads)
        reserved = None if capacity is None else capacity - usable_mib(capacity, instance.constants)
        free = None if capacity is None or reserved is None else capacity - reserved - planned
        rows.append(HostMemory(host, capacity, reserved, planned, names[loads.index(planned)], free))
    return tuple(rows)


def _stages(menu: Menu, lowered: Lowered, answer: Answer) -> tuple[StageTime, ...]:
    """Return each stage's time, and who bounds it by what."""
    problem: Problem = lowered.problem
    rows = []
    for s, stage in enumerate(menu.stages):
        us, members = check.stage(problem, answer, s)
        names = [menu.roles[i].name.value for i in members]
        longest, because = 0, "transfer of the weights"
        for o, (role, work, where) in enumerate(menu.operations):
            if where != s or role.value not in names:
                continue
            item = names.index(role.value)
            for slot, option in enumerate(answer.options[members[item]]):
                priced = lowered.choices[members[item]][slot][option]
                if priced.times_us[o] > longest:
                    longest, because = priced.times_us[o], f"{work.value}: {priced.bound_by[work]}"
        rows.append(StageTime(stage.name, us, "+".join(names) or "nobody", because if us else "no work"))
    return tuple(rows)
