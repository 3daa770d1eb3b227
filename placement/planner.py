"""
From a question to a proven answer: lower, solve, check, lift; then the price of the rules and the trivial plan beside ours.

When to modify: the order of these steps changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from placement.assumptions import assumptions
from placement.clash import clash
from placement.errors import SolverBug
from placement.inputs import inputs
from placement.instance import Instance, Objective
from placement.lift import lift
from placement.lower import Lowered, lower
from placement.menu import Menu, menu
from placement.plans import Alternative, Comparison, Plan
from solvers import check
from solvers.problem import Term
from solvers.result import Options, Result, Solve, Status


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
    SolverBug
        If an answer breaks a rule or costs something else than its solver says.
    """
    options = options or Options()
    deadline = time.monotonic() + options.time_limit_s
    solve = load_solver(solver)
    tables = menu(instance)
    lowered = lower(instance, tables)
    result = verified(lowered, solve(lowered.problem, options))
    if result.answer is None:
        return _no_plan(instance, tables, result, solve, options)
    if not tables.is_complete and result.status is Status.OPTIMAL:
        result = replace(result, status=Status.FEASIBLE)
    compare = _comparison(instance, tables, result, solve, options, deadline)
    verdict = _verdict(lowered, result, compare, instance)
    answer = lift(
        instance,
        tables,
        lowered,
        result,
        compare,
        verdict=verdict,
        assumptions=assumptions(instance, tables, result),
        inputs=inputs(instance),
    )
    return Outcome(result.status, answer, verdict, interrupted=result.interrupted)


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


def verified(lowered: Lowered, result: Result) -> Result:
    """
    Return *result* if the checker agrees with it.

    Raises
    ------
    SolverBug
        If the answer breaks a rule, or a term has another value than the solver says.
    """
    if result.answer is None:
        return result
    broken = check.violations(lowered.problem, result.answer)
    if broken:
        raise SolverBug(f"the solver's answer breaks a rule ({broken[0]}); please report this with your inputs")
    terms = check.terms(lowered.problem, result.answer)
    step_seen = False
    for entry in result.proofs:
        # The first `step` is T*; the plan that was chosen inside the band may be longer.
        if entry.term is Term.STEP and not step_seen and len(result.proofs) > 1:
            step_seen = True
            continue
        if entry.term is not Term.IDS and terms[entry.term] != entry.value:
            raise SolverBug(
                f"the solver says {entry.term} = {entry.value}, the checker says {terms[entry.term]}; "
                "please report this with your inputs"
            )
    return result


# ── beside the plan ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _comparison(
    instance: Instance, tables: Menu, result: Result, solve: Solve, options: Options, deadline: float
) -> Comparison:
    """Solve what ours is measured against: no rules between roles, and everything colocated."""
    if result.interrupted:
        skipped = Alternative(None, "not computed: interrupted")
        return Comparison(skipped, skipped)
    whole = [instance.machine.usable]
    together = instance.replace(rules=instance.rules.with_preset("colocate"), objective=Objective.STEP)
    colocated = _alternative(lambda: lower(together, menu(together, groups=whole)), solve, options, deadline)
    # Both plans obey what is left when the rules are lifted: only a shorter step is news.
    steps = (result.step_star.value if result.step_star else None, colocated.step_us)
    known = min((step for step in steps if step is not None), default=None)
    free = instance.replace(rules=instance.rules.lifted(), objective=Objective.STEP)
    return Comparison(
        free=_alternative(lambda: lower(free, menu(free, known=tables)), solve, options, deadline, known=known),
        colocated=colocated,
    )


def _alternative(
    build: Callable[[], Lowered], solve: Solve, options: Options, deadline: float, *, known: int | None = None
) -> Alternative:
    """Return the shortest step of what *build* returns; *known*, µs, is one that it has in any case."""
    left = deadline - time.monotonic()
    if left <= 0:
        return Alternative(None, "not computed: the time limit was reached")
    lowered = build()
    options = replace(options, time_limit_s=left, first_term_only=True, step_below=known)
    result = verified(lowered, solve(lowered.problem, options))
    star = result.step_star
    best = min((step for step in (known, None if star is None else star.value) if step is not None), default=None)
    match result.status:
        case Status.OPTIMAL:
            return Alternative(best, "optimal")
        case Status.INFEASIBLE:
            return Alternative(best, "does not fit" if best is None else "optimal")
        case Status.FEASIBLE:
            assert star is not None
            return Alternative(best, f"best found, not below {star.bound / 1e6:.1f} s")
        case Status.UNKNOWN:
            return Alternative(best, "not computed: the time limit was reached" if best is None else "best found, not proven")


# ── words ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _verdict(lowered: Lowered, result: Result, compare: Comparison, instance: Instance) -> str:
    assert result.answer is not None
    terms = check.terms(lowered.problem, result.answer)
    step = terms[Term.STEP]
    gpus = terms[Term.GPUS]
    text = f"{result.status.value}: {seconds(step)} a step on {gpus} GPU{'' if gpus == 1 else 's'}"
    star = result.step_star
    if result.status is Status.FEASIBLE and star is not None and star.value:
        text += f" (not proven: at most {100 * (star.value - star.bound) / star.value:.1f} % above the optimum)"
    return f"{text}; {price(step if star is None else star.value, compare, instance)}"


def price(step_us: int, compare: Comparison, instance: Instance) -> str:
    """Say in one clause what the rules cost."""
    free = compare.free.step_us
    if free is None:
        return f"price of the rules {compare.free.note}"
    percent = 100 * (step_us - free) / free
    if percent < 0.05:
        return "the rules cost nothing"
    return f"rules cost {percent:.1f} % (preset {instance.rules.preset}; free: {seconds(free)})"


def seconds(us: int) -> str:
    """Return a time for people, rounded up to the next tenth (or thousandth) of a second: never faster than it is."""
    step = 100_000 if us >= 10_000_000 else 1_000
    digits = 1 if us >= 10_000_000 else 3
    return f"{-(-us // step) * step / 1e6:.{digits}f} s"


def _no_plan(instance: Instance, tables: Menu, result: Result, solve: Solve, options: Options) -> Outcome:
    if result.status is Status.UNKNOWN:
        why = "interrupted" if result.interrupted else f"no plan found within {options.time_limit_s:g} s; try --time-limit"
        return Outcome(result.status, None, f"unknown: {why}", interrupted=result.interrupted)
    return Outcome(result.status, None, "infeasible: no plan obeys all the rules on this machine", clash(instance, tables, solve))
