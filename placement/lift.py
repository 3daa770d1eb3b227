"""
Result → Plan: indices become words again.

When to modify: the device map says something new that the answer implies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placement.choices import Choice, FrozenChoice, RolloutChoice, TrainChoice
from placement.instance import Instance
from placement.lower import Lowered
from placement.menu import Menu
from placement.plans import (
    Comparison,
    Estimate,
    GpuMemory,
    Layout,
    Plan,
    Proof,
    RolePlan,
    RolloutPlan,
    StageTime,
    TermValue,
    TrainPlan,
)
from placement.workload import Role
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
                layout = Layout(choice.tp, choice.pp, choice.dp)
                train = TrainPlan(choice.master.value, choice.offload.value, choice.micro_batch_tokens)
            case FrozenChoice():
                layout = Layout(choice.tp, choice.pp, choice.dp)
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
                )
    assert role.model is not None
    return RolePlan(role.model.name, role.engine.value, chosen[0].precision.value, layout, train, rollout, offload)


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
