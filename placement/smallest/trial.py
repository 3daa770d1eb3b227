"""
One size after the other: does the job fit, how short is its step, and why not.

When to modify: what is said of a size that was tried.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from placement.program.clash import clash
from placement.program.instance import Instance
from placement.program.lower import Lowered, lower
from placement.program.menu import Menu, menu, sizes
from placement.program.needs import gpus, need
from placement.program.proving import proven_for, verified
from placement.smallest.menus import beyond_menu
from placement.workloads.workload import Role
from solvers.problem import Problem
from solvers.result import Options, Result, Solve, Status

UNKNOWN = "not found out within the time limit"


class Size(StrEnum):
    """What is to be small."""

    GPUS = "gpus"
    CARD = "card"


@dataclass(frozen=True, slots=True)
class Tried:
    """
    One size.

    Parameters
    ----------
    gpus
        Number of GPUs.
    on
        Their physical ids: the best set of that size, or the roomiest where none does.
    card
        The card; None where it is the machine's own.
    memory_mib
        Memory of the card as its driver counts it; None where it is the machine's own.
    fits
        Whether the job fits; None when that was not found out.
    step_us
        The shortest step, µs; None when it does not fit.
    why_not
        Why it does not fit; more than one clause of the size next to the smallest that fits.
    question
        What was asked; None where nothing was asked of this size alone.
    sets
        How many sets of that size were tried.
    is_shortest
        Whether no step is shorter, proven.
    """

    gpus: int
    on: tuple[int, ...]
    card: str | None
    memory_mib: int | None
    fits: bool | None
    step_us: int | None
    why_not: tuple[str, ...]
    question: Instance | None
    sets: int = 1
    is_shortest: bool = True


@dataclass(frozen=True, slots=True)
class Smallest:
    """
    What was tried, from the smallest up.

    Parameters
    ----------
    answer
        Index of the smallest that fits; None when none does.
    below
        Index of the largest below it that does not fit, and of which is said in full why; None when there is none.
    notes
        What the table does not say.
    """

    tried: tuple[Tried, ...]
    answer: int | None
    below: int | None
    notes: tuple[str, ...]

    @property
    def is_proven(self) -> bool:
        """Whether all that is smaller than the answer (or everything) is proven not to fit."""
        return all(row.fits is False for row in self.tried[: self.answer])


class Trial:
    """Asks whether a question has a plan, one after the other, under one time limit."""

    def __init__(self, solve: Solve, options: Options) -> None:
        self.solve = solve
        self.options = options
        self.deadline = time.monotonic() + options.time_limit_s

    def run(self, question: Instance, on: tuple[int, ...]) -> Tried:
        """Return whether *question*, whose GPUs are *on*, has a plan, and its shortest step."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            return Tried(len(on), on, None, None, None, None, (UNKNOWN,), question)
        tables = menu(question)
        lowered = lower(question, tables)
        result = self.solved(question, tables, lowered, left)
        if (star := result.step_star) is not None:
            return Tried(len(on), on, None, None, True, star.value, (), question, is_shortest=star.proven)
        if result.status is Status.UNKNOWN:
            return Tried(len(on), on, None, None, None, None, (UNKNOWN,), question)
        return Tried(len(on), on, None, None, False, None, (reason(question, tables, lowered.problem),), question)

    def solved(self, question: Instance, tables: Menu, lowered: Lowered, left_s: float) -> Result:
        """Return the shortest step of *question*, or that there is none, as far as that is proven for all groups."""
        options = replace(self.options, time_limit_s=left_s, first_term_only=True, on_incumbent=None)
        found = verified(lowered, self.solve(lowered.problem, options))
        result = proven_for(question, tables, found, self.solve, self.options, self.deadline)
        if result.interrupted:
            raise KeyboardInterrupt
        return result

    def explained(self, tried: list[Tried], answer: int | None, notes: Sequence[str]) -> Smallest:
        """Return the table, in which the size next to *answer* (or the largest) says in full why it does not fit."""
        smaller = range(len(tried) if answer is None else answer)
        failed = [k for k in reversed(smaller) if tried[k].fits is False]
        below = next((k for k in failed if _is_runnable(tried[k])), failed[0] if failed else None)
        if below is not None and (question := tried[below].question) is not None:
            # As if there were no other GPUs: that they are not used explains nothing here.
            alone = question.replace(machine=replace(question.machine, unusable={}))
            lines = clash(alone, menu(alone), self.solve, deadline=self.deadline)
            tried[below] = of_menus(replace(tried[below], why_not=lines, question=alone))
            tried[below] = replace(tried[below], question=question)
        return Smallest(tuple(tried), answer, below, tuple(notes))


def _is_runnable(row: Tried) -> bool:
    """Whether *row* could be solved at all: not a card that cannot run an engine."""
    return not any("(rule supported)" in why for why in row.why_not)


def reason(question: Instance, tables: Menu, problem: Problem) -> str:
    """Say in one clause why there is no plan: a role that finds no group, or all of them together."""
    usable = len(question.machine.usable)
    for role in tables.roles:
        if not sizes(role, usable):
            asked = f"at least {gpus(role.min_gpus)}" if role.min_gpus else "other numbers of GPUs"
            return f"the workload gives {role.name} {asked}"
    lacking = _lacking(question, tables, problem)
    return lacking[1] if lacking else "every role has room, but not all of them beside each other under the rules"


def of_menus(row: Tried) -> Tried:
    """Return *row*, which does not fit, with the menu that leaves a role without room, if it is one that does."""
    if row.question is None or row.fits is not False or not any("GiB" in why for why in row.why_not):
        return row
    tables = menu(row.question)
    lacking = _lacking(row.question, tables, lower(row.question, tables).problem)
    more = beyond_menu(row.question, lacking[0]) if lacking is not None else ""
    return replace(row, why_not=(*row.why_not, more)) if more else row


def _lacking(question: Instance, tables: Menu, problem: Problem) -> tuple[Role, str] | None:
    """Return the first role that finds no group by itself, and why."""
    alone = ((role, need(question, tables, role, problem)) for role in tables.roles)
    return next(((role, n.says) for role, n in alone if n.says and not n.counts), None)
