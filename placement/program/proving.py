"""
How far an answer is proven: the solver's word held against the checker, and against what was left out of its tables.

When to modify: a solver promises something new, or more of a large machine can be proven.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from dataclasses import replace

from placement.errors import SolverBug
from placement.program.candidates import Candidate, ideal_hardware
from placement.program.instance import Instance
from placement.program.lower import Lowered, lower
from placement.program.menu import Menu, priced_menu
from solvers import check
from solvers.problem import Problem, Term
from solvers.result import Options, Result, Solve, Status, TermProof

LEAST_S = 1.0
"""Seconds for the bound of an ideal machine, also when the time is over: without it nothing is proven."""


def verified(lowered: Lowered, result: Result) -> Result:
    """
    Return *result* if the checker agrees with it.

    Raises
    ------
    SolverBug
        If the answer breaks a rule, a term has another value than the solver says, the step leaves the band, or a bound lies above its
        value.
    """
    if result.answer is None:
        return result
    problem = lowered.problem
    broken = check.violations(problem, result.answer)
    if broken:
        raise _bug(f"the solver's answer breaks a rule ({broken[0]})")
    terms = check.terms(problem, result.answer)
    star = result.step_star
    if star is None:
        raise _bug("the solver says nothing of the shortest step")
    # The first `step` is T*: of another answer, when the plan that was chosen inside the band is longer.
    longest = star.value + star.value * problem.within_ppm // 1_000_000
    if not star.value <= terms[Term.STEP] <= longest:
        raise _bug(f"the solver's answer takes {terms[Term.STEP]} µs, outside the band from {star.value} to {longest} µs")
    is_alone = sum(entry.term is Term.STEP for entry in result.proofs) == 1
    for entry in result.proofs:
        if entry.bound > entry.value:
            raise _bug(f"the solver bounds {entry.term} = {entry.value} by {entry.bound}")
        is_chosen = entry.term is not Term.IDS and (entry is not star or is_alone)
        if is_chosen and terms[entry.term] != entry.value:
            raise _bug(f"the solver says {entry.term} = {entry.value}, the checker says {terms[entry.term]}")
    if result.status is Status.OPTIMAL and any(entry.bound != entry.value for entry in result.proofs):
        raise _bug("the solver calls an answer optimal that it has not proven")
    return result


def _bug(what: str) -> SolverBug:
    return SolverBug(f"{what}; please report this with your inputs")


def proven_for(
    instance: Instance, tables: Menu, result: Result, solve: Solve, options: Options, deadline: float
) -> Result:
    """
    Return *result* with what it proves for all sets of GPUs, when *tables* hold only some of them.

    The bound of the shortest step is then that of an ideal machine, on which groups of one size are equal and as good as the best; of
    the other terms nothing is proven. Where there is no answer among the sets that were looked at, there may be one among the others.
    """
    if tables.is_complete or result.interrupted:
        return result
    ideal, best = _ideal(instance), None
    if ideal is not None:
        left = max(deadline - time.monotonic(), LEAST_S)
        best = solve(ideal, replace(options, time_limit_s=left, first_term_only=True, step_below=None, on_incumbent=None))
    if result.answer is None:
        is_proven = result.status is Status.INFEASIBLE and best is not None and best.status is Status.INFEASIBLE
        return result if is_proven else replace(result, status=Status.UNKNOWN)
    shortest = best.step_star.bound if best is not None and best.step_star is not None else 0
    proofs = []
    for entry in result.proofs:
        bound = shortest if entry.term is Term.STEP and entry is result.proofs[0] else 0
        proofs.append(TermProof(entry.term, entry.value, min(bound, entry.value)))
    return replace(result, status=Status.FEASIBLE, proofs=tuple(proofs))


def _ideal(instance: Instance) -> Problem | None:
    """
    Return the question on an ideal machine; None where that would prove nothing.

    Whatever groups an answer takes, runs of the same sizes can take their place there, and are no slower.
    """
    machine = instance.machine
    capacities = {(machine.cards[g].chip, machine.capacity_mib[g]) for g in machine.usable}
    if len(capacities) > 1 or instance.rules.sharing != "pool":
        return None
    n = len(machine.usable)
    groups = tuple(
        Candidate(machine.usable[start : start + size], ideal_hardware(machine, size))
        for size in range(1, n + 1)
        for start in range(n - size + 1)
    )
    problem = lower(instance, priced_menu(instance, groups)).problem
    most = max(device.capacity for device in problem.devices)
    known = [mib for mib in problem.hosts if mib is not None]
    return dataclasses.replace(
        problem,
        devices=tuple(replace(device, capacity=most, host=0) for device in problem.devices),
        hosts=(sum(known) if len(known) == len(problem.hosts) else None,) if problem.hosts else (),
        shared_reserves=tuple(
            replace(reserve, capacity=(max(reserve.capacity),) * len(reserve.capacity)) for reserve in problem.shared_reserves
        ),
        transfers=tuple(
            replace(transfer, us=_cheapest(transfer.us)) for transfer in problem.transfers
        ),
        soft_pairs=(),
        primary=Term.STEP,
    )


def _cheapest(us: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    n = len(us)
    least = min((us[a][b] for a, b in itertools.permutations(range(n), 2)), default=0)
    return tuple(tuple(0 if a == b else least for b in range(n)) for a in range(n))
