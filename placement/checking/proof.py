"""
Do the terms of the proof say of the plan what is true of it, and does the proof agree with itself?

The bounds themselves are a solver's work and are not proven again; they must merely agree with the values beside them.

When to modify: a term of the objective is added, or their order changes.
"""

from __future__ import annotations

from collections.abc import Iterator

from placement.checking.choices import preference
from placement.checking.groups import is_min_gpus_hard, least_gpus
from placement.machines.machine import Machine
from placement.plans import Plan, TermValue
from placement.program.instance import Instance, Objective
from placement.workloads.workload import RoleName
from topologies import bandwidth
from topologies.domains import Level

COMFORT_PERCENT = 10
"""Free memory of the tightest GPU counts up to this share of its capacity."""

IN_BAND = ("soft_rules", "gpus_used", "memory_shortfall_mib", "islands_broken", "menu_preference", "step_us")
"""The terms that count among plans that are about as fast, in their order."""

FIRST = {
    Objective.STEP: (),
    Objective.MEMORY: ("memory_shortfall_mib",),
    Objective.GPUS: ("gpus_used",),
    Objective.BANDWIDTH: ("slowest_ring_ns_per_gb",),
}
"""What the user put before the shortest step T*."""


def proof_problems(plan: Plan, instance: Instance) -> Iterator[str]:
    """Say what the proof of *plan* gets wrong; memory and times of the plan are right."""
    stated = plan.proof.objective_terms
    first = FIRST[instance.objective]
    expected = (*first, "step_us", *IN_BAND)
    if tuple(term.name for term in stated) != expected:
        yield f"the proof lists the terms {[term.name for term in stated]}, they are {list(expected)}"
        return
    true = _recount(plan, instance)
    for place, term in enumerate(stated):
        if place == len(first):
            yield from _shortest_step(plan, instance, term)
        elif term.value != true[term.name]:
            wishes = "".join(f" (rule {rule})" for rule in broken_wishes(plan, instance) if term.name == "soft_rules")
            yield f"the proof says {term.name} = {term.value}, the plan has {true[term.name]}{wishes}"
        if term.bound > term.value:
            yield f"the bound {term.bound} of {term.name} is above its value {term.value}"
    yield from _summary(plan)


def _shortest_step(plan: Plan, instance: Instance, star: TermValue) -> Iterator[str]:
    """T*: the plan is no shorter than proven possible, and no longer than the band around T* lets it be."""
    step = plan.estimate.step_us
    within_ppm = round(instance.within_percent * 10_000)
    if step < star.bound:
        yield f"a step of {step} µs is shorter than the proof says is possible, {star.bound} µs"
    if (step - star.value) * 1_000_000 > star.value * within_ppm:
        yield f"a step of {step} µs is more than {instance.within_percent:g} % above the shortest, {star.value} µs"


def _summary(plan: Plan) -> Iterator[str]:
    """Say where the head of the proof, which speaks of the shortest step, differs from its terms."""
    proof = plan.proof
    star = next(term for term in proof.objective_terms if term.name == "step_us")
    if (proof.objective, proof.bound) != (star.value, star.bound):
        yield f"the proof's objective {proof.objective} and bound {proof.bound} are not those of the shortest step"
    gap = (star.value - star.bound) / star.value if star.value else 0.0
    if abs(proof.gap - gap) > 1e-6:
        yield f"the gap is {gap:.6f}, the map says {proof.gap}"
    open_terms = [term.name for term in proof.objective_terms if term.value != term.bound]
    if proof.status not in ("optimal", "feasible"):
        yield f"a plan is optimal or feasible, not {proof.status}"
    elif proof.status == "optimal" and open_terms:
        yield f"the map calls itself optimal, but {', '.join(open_terms)} are not proven"


# ── the terms, counted anew ─────────────────────────────────────────────────────────────────────────────────────────────


def _recount(plan: Plan, instance: Instance) -> dict[str, int]:
    used = set(plan.used_gpus)
    tightest = [row.capacity * COMFORT_PERCENT // 100 - row.free for row in plan.memory_mib if row.gpu in used]
    return {
        "step_us": plan.estimate.step_us,
        "soft_rules": len(broken_wishes(plan, instance)),
        "gpus_used": len(used),
        "memory_shortfall_mib": max([0, *tightest]),
        "islands_broken": sum(0 < len(used & d) < len(d) for d in _domains(instance.machine, Level.ISLAND)),
        "menu_preference": preference(plan, instance),
        "slowest_ring_ns_per_gb": max(_ring_ns_per_gb(gpus, instance) for gpus in plan.device_map.values()),
    }


def broken_wishes(plan: Plan, instance: Instance) -> list[str]:
    """Return the soft rules that *plan* breaks: ``min_gpus`` (once a role) on few GPUs, ``affinity``, ``root_complex``."""
    machine, gpus = instance.machine, {role: set(ids) for role, ids in plan.device_map.items()}
    placed = instance.workload.placed if not is_min_gpus_hard(instance) else ()
    broken = ["min_gpus" for role in placed if len(gpus[role.name]) < least_gpus(role, instance)]
    if instance.rules.affinity and {RoleName.ACTOR, RoleName.REF} <= gpus.keys():
        actor, ref = gpus[RoleName.ACTOR], gpus[RoleName.REF]
        # Near is what the closest level says that joins any GPUs at all: island, or where there is none the next.
        near = next(level for level in Level if level is Level.HOST or any(len(d) > 1 for d in _domains(machine, level)))
        if not actor & ref and not any(d & actor and d & ref for d in _domains(machine, near)):
            broken.append("affinity")
    if instance.rules.root_complex and {RoleName.CRITIC, RoleName.REWARD} <= gpus.keys():
        critic, reward = gpus[RoleName.CRITIC], gpus[RoleName.REWARD]
        if not critic & reward and any(d & critic and d & reward for d in _domains(machine, Level.ROOT_COMPLEX)):
            broken.append("root_complex")
    return broken


def _domains(machine: Machine, level: Level) -> list[set[int]]:
    return [set(domain) for domain in dict(machine.levels)[level]]


def _ring_ns_per_gb(gpus: tuple[int, ...], instance: Instance) -> int:
    if len(gpus) == 1:
        return 0
    bytes_per_s = bandwidth.ring(instance.machine.wiring, tuple(sorted(gpus))).gb_per_s * 1e9
    return round(1e18 / bytes_per_s)
