"""
Why there is no plan: rules and facts that cannot hold together, in the user's words.

Every rule and every role is a *statement*. Statements are dropped, many at a time where that goes; those without which there is
still no plan had no part in the clash and go. The set that remains is minimal: without any one of its members a plan exists. What
its roles need is said as it is when nothing but the set holds.

When to modify: how the search for the smallest set goes, or which questions it asks. What is stated is `placement.program.statements`.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from placement.program.host_clash import too_little
from placement.program.instance import Instance
from placement.program.lower import lower
from placement.program.menu import Menu, menu, sizes
from placement.program.needs import need, supply
from placement.program.sets import MAX_LISTED, MAX_SETS, card_classes, count_of_runs, runs
from placement.program.statements import Statement, statements
from solvers.greedy import first_answer
from solvers.result import Options, Solve, Status

ONE_SOLVE_LIMIT_S = 5.0
"""Seconds for one of the small solves; a statement whose solve takes longer stays in the set."""

NOT_SMALLEST = "(the set may not be the smallest: not every part of it could be tried within the limits)"
"""Said last where the set is not known to be minimal."""


def clash(instance: Instance, tables: Menu, solve: Solve, *, deadline: float | None = None) -> tuple[str, ...]:
    """
    Return the statements that cannot hold together, in words. *instance*, whose tables are *tables*, has no plan.

    Parameters
    ----------
    deadline
        When to stop, as `time.monotonic` counts; what was not tried by then stays in the set, and the last line says so.

    Raises
    ------
    KeyboardInterrupt
        If the user stopped one of the solves.
    """
    search = Search(instance, tables, solve, math.inf if deadline is None else deadline)
    kept = search.smallest()
    lines = [*search.words(kept)]
    if not search.is_smallest(kept):
        lines.append(NOT_SMALLEST)
    return tuple(lines)


class Search:
    """The statements of a question without a plan on their way to a smallest set; every question is asked once."""

    def __init__(self, instance: Instance, tables: Menu, solve: Solve, deadline: float) -> None:
        self.instance = instance
        self.solve = solve
        self.deadline = deadline
        self.everything = tuple(statements(instance))
        self.is_complete = tables.is_complete
        self._tables = {_key(instance): tables}
        self._known: dict[frozenset[Statement], bool | None] = {frozenset(self.everything): False}

    def smallest(self) -> tuple[Statement, ...]:
        """Return statements that leave no plan, none of them needless as far as time allows."""
        kept = self._least(self.everything)
        # Count first: where there are too few GPUs whatever they hold, memory has no part in it. Only of a role that fits nowhere, even
        # alone, is that said before anything else.
        memory = tuple(s for s in kept if s.is_memory)
        if memory and len({s.role for s in kept if s.role is not None}) > 1:
            counted = _without(self.everything, memory)
            if self.has_plan(counted) is False:
                kept = self._least(counted)
        # To drop a statement hardly ever takes a plan away (more usable GPUs can make ``min_gpus`` hard); where it does, one that
        # was needed before may be so no longer.
        while needless := self._needless(kept):
            kept = _without(kept, needless)
        return kept

    def _least(self, start: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """Return those of *start*, which leave no plan, that are needed for that."""
        quick = tuple(s for s in start if not s.is_slow_to_lift)
        kept = self._thinned(start, quick)
        # What is slow to lift is lifted from few statements. Only where it takes part there, and there is no plan without it
        # either, is it worth while to look for an explanation that does not need it.
        if self.has_plan(_among(kept, quick)) and self.has_plan(quick) is False:
            kept = self._thinned(quick, quick)
        return kept

    def is_smallest(self, kept: Sequence[Statement]) -> bool:
        """Whether it is certain that without any one of *kept* there is a plan."""
        return all(self.has_plan(_without(kept, [s])) for s in kept)

    def has_plan(self, kept: Sequence[Statement]) -> bool | None:
        """Return whether a plan exists when only the statements *kept* hold; None when that was not found out in time."""
        key = frozenset(kept)
        if self._known.get(key) is None:
            self._known[key] = self._ask(self.question(kept))
        return self._known[key]

    def question(self, kept: Sequence[Statement]) -> Instance:
        """Return the question in which only the statements *kept* hold."""
        instance = self.instance
        for statement in sorted(_without(self.everything, kept), key=lambda s: s.is_memory):
            instance = statement.lift(instance)
        return instance

    def words(self, kept: Sequence[Statement]) -> Iterator[str]:
        """Yield what *kept* say, in the question in which only they hold."""
        question = self.question(kept)
        tables = self._menu(question)
        problem = lower(question, tables).problem
        for s in kept:
            if s.is_host_memory:
                yield too_little(question, tables, self.solve, self.deadline)
            elif s.says:
                yield s.says
        stated = {s.role for s in kept}
        memory = any(s.is_memory for s in kept)
        needs = [need(question, tables, role, problem, memory=memory) for role in tables.roles if role.name in stated]
        yield from (n.says for n in needs if n.says)
        if any(n.counts for n in needs):
            more = len(question.machine.usable) > len(self.instance.machine.usable)
            yield supply(question, more=more, memory=memory)

    def _needless(self, kept: Sequence[Statement]) -> tuple[Statement, ...]:
        """Return the first of *kept* without which there is still no plan, none if every one is needed."""
        needless = (s for s in kept if self.has_plan(_without(kept, [s])) is False)
        return tuple(itertools.islice(needless, 1))

    def _thinned(self, kept: tuple[Statement, ...], chunk: Sequence[Statement]) -> tuple[Statement, ...]:
        """Return *kept* without the statements of *chunk* that are needless, the first ones going first."""
        fewer = _without(kept, chunk)
        if not chunk or self.has_plan(fewer) is False:
            return fewer
        if len(chunk) == 1:
            return kept
        half = len(chunk) // 2
        return self._thinned(self._thinned(kept, chunk[:half]), chunk[half:])

    def _ask(self, question: Instance) -> bool | None:
        if not question.workload.placed:
            return True
        if time.monotonic() >= self.deadline:
            return None
        tables = self._menu(question)
        problem = lower(question, tables).problem
        if first_answer(problem) is not None:
            return True
        left = min(ONE_SOLVE_LIMIT_S, self.deadline - time.monotonic())
        if left <= 0:
            return None
        result = self.solve(problem, Options(time_limit_s=left, first_term_only=True))
        if result.interrupted:
            raise KeyboardInterrupt
        if result.status is Status.UNKNOWN:
            return None
        if result.status is not Status.INFEASIBLE:
            return True
        # Groups that were left out because there were too many may hold a plan.
        return False if tables.is_complete or not self.is_complete else None

    def _menu(self, question: Instance) -> Menu:
        key = _key(question)
        if key not in self._tables:
            self._tables[key] = menu(question, groups=_enough_groups(question))
        return self._tables[key]


def _without(kept: Sequence[Statement], dropped: Sequence[Statement]) -> tuple[Statement, ...]:
    return tuple(s for s in kept if s not in dropped)


def _among(kept: Sequence[Statement], these: Sequence[Statement]) -> tuple[Statement, ...]:
    return tuple(s for s in kept if s in these)


def _key(question: Instance) -> tuple[object, ...]:
    """Return what the tables of *question* depend on; how roles stand to each other is not among it."""
    rules = replace(question.rules, preset="free", excused=frozenset(), critic_min_gpus=1)
    machine = question.machine
    return rules, question.workload, machine.usable, machine.capacity_mib, machine.reserved_mib, machine.host_memory_mib


def _enough_groups(question: Instance) -> Sequence[tuple[int, ...]] | None:
    """
    Return groups that are enough to tell whether there is a plan; None for all that the rules allow.

    Without rule ``contiguity`` GPUs are interchangeable here whatever their links are, if they are the same card with the same
    memory, on one host. Pools are disjoint, so they can be moved until each takes neighbours of every kind: no other groups are needed.
    """
    machine, rules = question.machine, question.rules
    if rules.contiguity or rules.sharing != "pool":
        return None
    wanted = {n for role in question.workload.placed for n in sizes(role, len(machine.usable))}
    found: dict[tuple[int, ...], None] = {}
    for members in card_classes(machine) if rules.same_card else (machine.usable,):
        kinds: dict[tuple[object, ...], list[int]] = {}
        for gpu in members:
            known = machine.topology.gpus[gpu]
            kind = (machine.cards[gpu], machine.capacity_mib[gpu], known.memory_used_mib, known.host)
            kinds.setdefault(kind, []).append(gpu)
        classes = [tuple(alike) for alike in kinds.values()]
        if count_of_runs(classes) > MAX_LISTED:
            return None
        for size in wanted:
            found |= dict.fromkeys(runs(classes, size))
    return None if len(found) > MAX_SETS else tuple(found)
