"""
What a plan is measured against: the optimum with the rules of choice lifted (their price), and the trivial plan.

When to modify: another plan is worth standing beside ours, or the price is put into better words.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import replace

from placement.plans import Alternative, Comparison
from placement.program.instance import Instance, Objective
from placement.program.lower import Lowered, lower
from placement.program.menu import Menu, menu
from placement.program.proving import proven_for, verified
from placement.workloads.rules import Relation, Rules
from placement.workloads.workload import RoleName
from solvers.problem import Term
from solvers.result import Options, Result, Solve, Status, TermProof

NO_TIME = "not computed: the time limit was reached"
PROVEN = "optimal"

FREE = "the rules cost nothing"
"""How a verdict ends that leaves nothing to say of plans without the rules."""


def comparison(instance: Instance, tables: Menu, result: Result, solve: Solve, options: Options, deadline: float) -> Comparison:
    """
    Return what stands beside *result*, solved with what is left of the time until *deadline*.

    Parameters
    ----------
    tables
        Those of *instance*.

    Raises
    ------
    KeyboardInterrupt
        If the user stops it.
    """
    whole = [instance.machine.usable]
    together = instance.replace(rules=instance.rules.with_preset("colocate"), objective=Objective.STEP)
    if (target := instance.rules.expressible) is not None and not target.pools(frozenset({frozenset(_roles(instance))})):
        colocated = Alternative(None, f"target {target.name} cannot express it")
    else:
        colocated = _alternative(together, lambda: menu(together, groups=whole), solve, options, deadline)
    relaxed_rules = lifted_rules(instance)
    lifted = tuple(name for name in instance.rules.of_choice if name not in relaxed_rules.of_choice)
    if not lifted:
        free = Alternative(None, "no rule of choice is on")
    else:
        relaxed = instance.replace(rules=relaxed_rules)
        known = None
        if instance.objective is Objective.STEP:
            # Both plans obey what is left when the rules are lifted: only a shorter step is news.
            steps = (_star(result).value, colocated.step_us)
            known = min(step for step in steps if step is not None)
        free = _alternative(relaxed, lambda: menu(relaxed, known=tables), solve, options, deadline, known=known)
    return Comparison(free, colocated, lifted, _why_not(instance, result, colocated))


def lifted_rules(instance: Instance) -> Rules:
    """Return the rules with those of choice lifted, but for a reward_reserve that asks for less than reserve: that makes room."""
    machine, percent, lifted = instance.machine, instance.rules.reward_reserve_percent, instance.rules.lifted()
    beside = () if percent is None else machine.room_beside_reward_mib(percent)
    makes_room = any(more > alone for more, alone in zip(beside, machine.room_mib, strict=False))
    return replace(lifted, reward_reserve_percent=percent) if makes_room else lifted


def not_compared(why: str) -> Comparison:
    """Return what stands beside a plan when nothing was compared."""
    skipped = Alternative(None, f"not computed: {why}")
    return Comparison(skipped, skipped)


def _alternative(
    instance: Instance,
    tabulate: Callable[[], Menu],
    solve: Solve,
    options: Options,
    deadline: float,
    *,
    known: int | None = None,
) -> Alternative:
    """Return the optimum of *instance*; *known*, µs, is a step that it has in any case."""
    tables = tabulate() if time.monotonic() < deadline else None
    left = deadline - time.monotonic()
    if tables is None or left <= 0:
        return Alternative(None, NO_TIME)
    lowered: Lowered = lower(instance, tables)
    options = replace(options, time_limit_s=left, first_term_only=True, step_below=known, on_incumbent=None)
    result = proven_for(instance, tables, verified(lowered, solve(lowered.problem, options)), solve, options, deadline)
    if result.interrupted:
        raise KeyboardInterrupt
    star = result.step_star
    best = min((step for step in (known, None if star is None else star.value) if step is not None), default=None)
    first = None if instance.objective is Objective.STEP or not result.proofs else result.proofs[0].value
    match result.status:
        case Status.OPTIMAL:
            return Alternative(best, PROVEN, first)
        case Status.INFEASIBLE:
            return Alternative(best, "does not fit" if best is None else PROVEN, first)
        case Status.FEASIBLE:
            assert star is not None
            return Alternative(best, f"best found, not below {seconds_down(star.bound)}", first)
        case Status.UNKNOWN:
            return Alternative(best, NO_TIME if best is None else "best found, not proven", first)


def _star(result: Result) -> TermProof:
    star = result.step_star
    assert star is not None
    return star


def _why_not(instance: Instance, result: Result, colocated: Alternative) -> str:
    """Say why the trivial plan is not taken although it is shorter than the shortest or than ours; nothing if it is not."""
    star = _star(result)
    chosen = next(p.value for p in reversed(result.proofs) if p.term is Term.STEP)
    if colocated.step_us is None or colocated.step_us >= max(star.value, chosen):
        return ""
    roles = _roles(instance)
    is_apart = any(instance.rules.relation(a, b) is Relation.APART for a, b in itertools.combinations(roles, 2))
    if instance.objective is not Objective.STEP:
        objective = f"the objective, {instance.objective}, comes before time"
        return f"rule isolation forbids it, and {objective}" if is_apart else objective
    if is_apart:
        return "rule isolation forbids it"
    if colocated.step_us < star.bound:
        return "the rules forbid it"
    if colocated.step_us < star.value:
        return "the search was cut off before it was found or ruled out"
    return (
        f"inside the band of {instance.within_percent:g} % the rules' wishes, fewer GPUs, free memory and the order of the menus "
        "come before time"
    )


def _roles(instance: Instance) -> list[RoleName]:
    return [role.name for role in instance.workload.placed]


# ── words ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def price(result: Result, compare: Comparison, instance: Instance) -> str:
    """Say in one clause what the rules cost: proven, or as far as it is proven."""
    star, free = _star(result), compare.free
    if free.step_us is None:
        return f"price of the rules: {free.note}"
    if instance.objective is not Objective.STEP and result.proofs[0].value != free.first_term:
        return f"without the rules {_first(instance.objective, free.first_term)} and {seconds(free.step_us)} a step"
    if free.note != PROVEN:
        return f"price of the rules not proven (best found without them: {seconds(free.step_us)})"
    percent = 100 * (star.value - free.step_us) / free.step_us
    if star.bound < star.value:
        return f"rules cost {percent:.1f} % at most (the shortest without them: {seconds(free.step_us)})"
    if percent < 0.05:
        return FREE
    return f"rules cost {percent:.1f} % (the shortest without them: {seconds(free.step_us)})"


def _first(objective: Objective, value: int | None) -> str:
    if value is None:
        return "there is no plan"
    match objective:
        case Objective.GPUS:
            return f"{value} GPU{'' if value == 1 else 's'}"
        case Objective.MEMORY:
            return f"{value} MiB short of the free memory wished for"
        case Objective.BANDWIDTH:
            return f"{1e9 / value:.1f} GB/s in the slowest group" if value else "no group that communicates"
        case Objective.STEP:
            return ""


def seconds(us: int) -> str:
    """Return a time for people, rounded up to the next tenth (or thousandth) of a second: never faster than it is."""
    step = 100_000 if us >= 10_000_000 else 1_000
    return _seconds(-(-us // step) * step, us)


def seconds_down(us: int) -> str:
    """Return a bound for people, rounded down: never more than is proven."""
    step = 100_000 if us >= 10_000_000 else 1_000
    return _seconds(us // step * step, us)


def _seconds(rounded: int, us: int) -> str:
    return f"{rounded / 1e6:.{1 if us >= 10_000_000 else 3}f} s"
