"""
From a question to a proven answer: lower, solve, compare, lift, and check in the domain's words.

When to modify: the order of these steps changes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from enum import StrEnum

from placement import checking
from placement.errors import InputError, SolverBug
from placement.maps.assumptions import assumptions
from placement.maps.inputs import inputs
from placement.plans import Comparison, Plan
from placement.program.instance import Instance, Objective
from placement.program.lift import chosen, host_memory, lift
from placement.program.lower import Lowered, lower
from placement.program.menu import Menu, menu
from placement.program.prices import comparison, not_compared, price, seconds
from placement.program.proving import proven_for, verified
from solvers import check
from solvers.problem import Term
from solvers.result import Options, Result, Solve, Status, TermProof


class SolverName(StrEnum):
    """Which solver answers; all obey the same `solvers.problem.Problem`."""

    CPSAT = "cpsat"
    EXHAUSTIVE = "exhaustive"
    GREEDY = "greedy"


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    What came of a question.

    Parameters
    ----------
    status
        ``optimal``, ``feasible``, ``infeasible`` or ``unknown`` (stopped before a plan was found).
    plan
        None when there is none.
    verdict
        One sentence.
    clash
        Why no plan exists: rules and facts that cannot hold together, in words. Empty unless infeasible.
    interrupted
        Whether the user stopped the search.
    """

    status: Status
    plan: Plan | None
    verdict: str
    clash: tuple[str, ...] = ()
    interrupted: bool = False


def plan(instance: Instance, *, solver: SolverName = SolverName.CPSAT, options: Options | None = None) -> Outcome:
    """
    Return the best plan for *instance* with its proof, or why there is none.

    The price of the rules and the trivial plan are solved with what is left of the time limit.

    Raises
    ------
    InputError
        If *instance* is none, or there is no such solver.
    SolverBug
        If an answer breaks a rule or costs something else than its solver says.
    """
    if not isinstance(instance, Instance):
        raise InputError(f"plan takes what make_instance(topology, workload, rules) returns, not a {type(instance).__name__}")
    solver = _solver_name(solver)
    options = options or Options()
    deadline = time.monotonic() + options.time_limit_s
    solve = load_solver(solver)
    tables = menu(instance)
    lowered = lower(instance, tables)
    left = max(deadline - time.monotonic(), 0.0)
    found = verified(lowered, solve(lowered.problem, replace(options, time_limit_s=left)))
    result = proven_for(instance, tables, found, solve, options, deadline)
    if result.answer is None:
        return _no_plan(instance, tables, found, result, solve, options, deadline)
    compare, interrupted = not_compared("interrupted"), result.interrupted
    if not interrupted:
        try:
            compare = comparison(instance, tables, result, solve, options, deadline)
        except KeyboardInterrupt:
            interrupted = True
    verdict = _verdict(lowered, result, compare, instance)
    answer = lift(
        instance,
        tables,
        lowered,
        result,
        compare,
        verdict=verdict,
        assumptions=assumptions(
            instance, tables, result, chosen(lowered, result.answer), host_memory(instance, tables, lowered, result.answer)
        ),
        inputs=inputs(instance),
    )
    wrong = checking.problems(answer, instance)
    if wrong:
        raise SolverBug(f"the plan is not what was asked for ({wrong[0]}); please report this with your inputs")
    return Outcome(result.status, answer, verdict, interrupted=interrupted)


def _solver_name(name: str) -> SolverName:
    try:
        return SolverName(name)
    except ValueError:
        raise InputError(f"there is no solver {name!r}: there are {', '.join(SolverName)}") from None


def load_solver(name: SolverName) -> Solve:
    """Return the solver *name*; ortools is imported only for the one that needs it."""
    match name:
        case SolverName.CPSAT:
            from solvers import cpsat

            return cpsat.solve
        case SolverName.EXHAUSTIVE:
            from solvers import exhaustive

            return exhaustive.solve
        case SolverName.GREEDY:
            from solvers import greedy

            return greedy.solve


def _verdict(lowered: Lowered, result: Result, compare: Comparison, instance: Instance) -> str:
    assert result.answer is not None
    terms = check.terms(lowered.problem, result.answer)
    step, gpus, star = terms[Term.STEP], terms[Term.GPUS], result.step_star
    assert star is not None
    text = f"{result.status.value}: {seconds(step)} a step on {gpus} GPU{'' if gpus == 1 else 's'}"
    if instance.rules.target is not None:
        text += f" for {instance.rules.target}, preset {instance.rules.preset}"
    if seconds(step) != seconds(star.value):
        text += f" (the shortest{_at(instance)}: {seconds(star.value)})"
    if result.status is Status.FEASIBLE:
        text += f" ({_unproven(star)})"
    return f"{text}; {price(result, compare, instance)}"


def _at(instance: Instance) -> str:
    match instance.objective:
        case Objective.STEP:
            return ""
        case Objective.GPUS:
            return " on so few GPUs"
        case Objective.MEMORY:
            return " with so much memory free"
        case Objective.BANDWIDTH:
            return " with links so fast"


def _unproven(star: TermProof) -> str:
    if star.bound <= 0:
        return "not proven"
    if star.bound == star.value:
        return "the shortest step is proven, but not every term"
    return f"not proven: at most {100 * (star.value - star.bound) / star.bound:.1f} % above the optimum"


def _no_plan(
    instance: Instance, tables: Menu, found: Result, result: Result, solve: Solve, options: Options, deadline: float
) -> Outcome:
    if result.status is Status.UNKNOWN:
        if result.interrupted:
            why = "interrupted"
        elif found.status is Status.INFEASIBLE:
            why = f"no plan among the {len(tables.groups)} groups that were looked at; there are more than can be"
        else:
            why = f"no plan found within {options.time_limit_s:g} s; try --time-limit"
        return Outcome(result.status, None, f"unknown: {why}", interrupted=result.interrupted)
    from placement.program.clash import clash

    verdict = "infeasible: no plan obeys all the rules on this machine"
    try:
        return Outcome(result.status, None, verdict, clash(instance, tables, solve, deadline=deadline))
    except KeyboardInterrupt:
        return Outcome(result.status, None, f"{verdict} (interrupted before it was clear why)", interrupted=True)
