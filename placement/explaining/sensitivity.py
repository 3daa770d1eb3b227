"""
Which numbers turn the choice when they move, and where it turns: judged by what staying would cost.

Every quantity is moved alone, by ±`MOVED`, and the question is solved anew, to the same proof. Where the plan is another one then, two
places are found by bisection to `CLOSE`: where another choice first comes out, and where staying first costs more than the band of the
plan. What counts is the *regret*: how much longer the old choice's step is than the new one's, both under the moved number. Another plan
that is no shorter even at the end is a tie that the terms of the band break: it is named, but nobody need worry about it. A choice may
turn, turn back and turn again: an interval is what was found, no proof that nothing happens inside.

When to modify: what counts as turning, or how far numbers are moved.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from enum import Enum

from placement.explaining.quantities import Quantity, quantities
from placement.explaining.taken import Taken, difference, taken, terms
from placement.explaining.turns import LEAST_REGRET as LEAST_REGRET
from placement.explaining.turns import Change as Change
from placement.explaining.turns import Leverage as Leverage
from placement.explaining.turns import Sensitivity as Sensitivity
from placement.explaining.turns import Turn as Turn
from placement.plans import Plan
from placement.program.instance import Instance
from placement.program.lift import lift
from placement.program.lower import Lowered, lower
from placement.program.menu import menu, priced_menu
from placement.program.prices import not_compared
from placement.program.proving import verified
from solvers import check
from solvers.problem import Term
from solvers.result import Options, Result, Solve, Status

MOVED = 0.2
"""How far numbers are moved, as a share: what published constants of one kind differ by."""

CLOSE = 0.02
"""How closely the place where the choice turns is found, as a share of the number: the model is not good to 2 % either."""

BISECTED = 0.75 * CLOSE
"""The same of the bisection itself: both ends then move to values with few digits."""


class Same(Enum):
    """What stays as it is when a quantity is moved."""

    COSTS = "no choice costs anything else"
    CHOICE = "the figures move, the choice does not"


def sensitivity(plan: Plan, instance: Instance, solve: Solve, options: Options, *, moved: float = MOVED) -> Sensitivity:
    """
    Return which quantities turn the choice of *plan*, the answer to *instance*.

    Parameters
    ----------
    options
        The time limit is for all of it.
    moved
        How far numbers are moved, as a share, below 1.

    Raises
    ------
    KeyboardInterrupt
        If the user stops it.
    SolverBug
        If an answer breaks a rule or costs something else than its solver says.
    """
    search = _Search(instance, solve, options)
    everything = quantities(instance)
    if why := search.why_not(plan):
        return Sensitivity(not_looked_at=everything, why_not=why)
    turns: list[Turn] = []
    others: dict[str, list[Quantity]] = {"ties": [], "holding": [], "idle": [], "not_looked_at": []}
    for quantity in everything:
        try:
            found = search.turns(quantity, moved)
        except _NoTime:
            others["not_looked_at"].append(quantity)
            continue
        if isinstance(found, str):
            others[found].append(quantity)
        else:
            turns += found
    turns.sort(key=lambda turn: (abs(turn.turned.factor - 1), not turn.is_below))
    ties, holding, idle, not_looked_at = map(tuple, others.values())
    leverage = sorted(search.leverage(), key=lambda found: -abs(found.change))
    return Sensitivity(tuple(turns), ties, holding, idle, not_looked_at, tuple(leverage))


Test = Callable[[Change], bool]
"""What is asked of a value at which another choice comes out."""


def _is_another(_: Change) -> bool:
    """Any other choice will do."""
    return True


class _NoTime(Exception):
    """The time is over before a question was answered."""


class _Search:
    """A question, its tables and its answer, beside which questions with a number moved are put."""

    def __init__(self, instance: Instance, solve: Solve, options: Options) -> None:
        self.instance = instance
        self.solve = solve
        self.options = options
        self.deadline = time.monotonic() + options.time_limit_s
        self.tables = menu(instance)
        self.lowered = lower(instance, self.tables)
        self.known: Taken | None = None
        self.step_us = 0
        self.band = instance.within_percent / 100
        self.ends: dict[str, list[Leverage]] = {}
        self.known_changes: dict[tuple[str, float], Change | Same] = {}

    def why_not(self, plan: Plan) -> str:
        """Return why there is no choice of which it could be said when it turns; nothing if there is one."""
        if not self.tables.is_complete:
            return "the machine has too many groups of GPUs to prove a plan, so that another one could come of chance"
        try:
            result = self._solved(self.lowered)
        except _NoTime:
            return "the time was over before the plan was proven once more; try --time-limit"
        if result.answer is None:
            return "there is no plan for this question"
        again = lift(
            self.instance, self.tables, self.lowered, result, not_compared(""), verdict="", assumptions=(), inputs={}
        )
        if (again.device_map, again.roles) != (dict(plan.device_map), dict(plan.roles)):
            return "planning anew takes another choice, so that nothing is known to hold this one; write the map anew with `placement plan`"
        self.known = taken(self.lowered, self.tables, result.answer)
        self.step_us = check.terms(self.lowered.problem, result.answer)[Term.STEP]
        return ""

    def leverage(self) -> list[Leverage]:
        """Return of every quantity that was moved to an end of its range, and moves the step, the end at which it moves it most."""
        strongest = (max(found, key=lambda each: abs(each.change)) for found in self.ends.values())
        return [each for each in strongest if abs(each.change) >= LEAST_REGRET]

    def turns(self, quantity: Quantity, moved: float) -> list[Turn] | str:
        """Return where *quantity* turns the choice; where it does not, in which list of `Sensitivity` it belongs."""
        ends = [self.change(quantity, end, is_end=True) for end in _ends(quantity, moved)]
        found = [self._found(quantity, end) for end in ends if isinstance(end, Change) and end.matters]
        if found:
            return found
        if any(isinstance(end, Change) for end in ends):
            return "ties"
        return "idle" if all(end is Same.COSTS for end in ends) else "holding"

    def _found(self, quantity: Quantity, end: Change) -> Turn:
        """Return where another choice first comes out on the way to *end*, and where staying first costs more than the band."""
        holds_at, turned = self._edge(quantity, 1.0, end, end, _is_another)
        costly = None
        if end.costs_more_than(self.band):
            costly = turned
            if not turned.costs_more_than(self.band):
                _, costly = self._edge(quantity, turned.factor, end, end, lambda change: change.costs_more_than(self.band))
        return Turn(quantity, holds_at, turned, end, costly)

    def _edge(self, quantity: Quantity, inside: float, beyond: Change, end: Change, is_beyond: Test) -> tuple[float, Change]:
        """Return the last factor found, from *inside* on, at which *is_beyond* does not hold, and the first change at which it does."""
        try:
            while abs(beyond.factor - inside) > BISECTED:
                middle = (inside + beyond.factor) / 2
                if (change := self._beyond(quantity, middle, is_beyond)) is not None:
                    beyond = change
                else:
                    inside = middle
            inside, beyond = self._said(quantity, inside, beyond, end, is_beyond)
        except _NoTime:
            pass       # the turn is known, if not closely
        return inside, beyond

    def _said(self, quantity: Quantity, inside: float, beyond: Change, end: Change, is_beyond: Test) -> tuple[float, Change]:
        """Return the two sides of a turn at values that people can read: each was tried, and does what is said of it."""
        up = end.factor > 1
        if inside != 1:
            inward = (factor for factor in quantity.beside(inside, up=not up) if (factor >= 1) == up or factor == 1)
            inside = next((factor for factor in inward if self._beyond(quantity, factor, is_beyond) is None), inside)
        for factor in quantity.beside(beyond.factor, up=up):
            is_past = abs(factor - 1) > abs(end.factor - 1) and not quantity.is_whole
            if factor == beyond.factor or is_past:
                continue
            if (change := self._beyond(quantity, factor, is_beyond)) is not None:
                return inside, change
        return inside, beyond

    def _beyond(self, quantity: Quantity, factor: float, is_beyond: Test) -> Change | None:
        """Return what happens at *factor* if another choice comes out there of which *is_beyond* holds; else None."""
        change = self.change(quantity, factor)
        return change if isinstance(change, Change) and is_beyond(change) else None

    def change(self, quantity: Quantity, factor: float, *, is_end: bool = False) -> Change | Same:
        """Return what happens when *quantity* is moved by *factor*; at an end of its range it is noted how the step moves."""
        key = quantity.name, factor
        if key not in self.known_changes:
            self.known_changes[key] = self._solved_change(quantity, factor, is_end=is_end)
        return self.known_changes[key]

    def _solved_change(self, quantity: Quantity, factor: float, *, is_end: bool) -> Change | Same:
        if time.monotonic() >= self.deadline:
            raise _NoTime
        assert self.known is not None
        moved = quantity.move(self.instance, factor)
        # Most constants change what groups cost, not which groups there are.
        tables = priced_menu(moved, self.tables.groups) if moved.machine is self.instance.machine else menu(moved)
        lowered = lower(moved, tables)
        if lowered.problem == self.lowered.problem:
            return Same.COSTS
        result = self._solved(lowered)
        stays = terms(self.known, moved)
        if result.answer is None:
            return Change(factor, (), None)
        new = taken(lowered, tables, result.answer)
        goes = check.terms(lowered.problem, result.answer)
        if is_end:
            self.ends.setdefault(quantity.name, []).append(Leverage(quantity, factor, goes[Term.STEP] / self.step_us - 1))
        if new == self.known:
            return Same.CHOICE
        regret, first = None, None
        if stays is not None:
            regret = stays[Term.STEP] / goes[Term.STEP] - 1
            if (primary := lowered.problem.primary) is not Term.STEP:
                first = stays[primary], goes[primary]
        return Change(factor, difference(self.known, new), regret, first)

    def _solved(self, lowered: Lowered) -> Result:
        """Return the proven answer, or that there is none."""
        left = max(self.deadline - time.monotonic(), 0.0)
        result = verified(lowered, self.solve(lowered.problem, replace(self.options, time_limit_s=left)))
        if result.interrupted:
            raise KeyboardInterrupt
        if result.status not in (Status.OPTIMAL, Status.INFEASIBLE):
            raise _NoTime
        return result


def _ends(quantity: Quantity, moved: float) -> tuple[float, ...]:
    """
    Return how far *quantity* is moved, down and up, to values with few digits.

    A share of a peak ends at the peak; a bound in nature is never passed.
    """
    down = quantity.near(max(1 - moved, quantity.least or 0.0))
    up = quantity.near(min(1 + moved, quantity.most or 1 + moved))
    return (*((down,) if down < 1 else ()), *((up,) if up > 1 else ()))
