"""
A first answer, quickly and without a proof.

Items are gathered into pools (every pool has one group), the pool that promises the shortest step first; options are the fastest
that fit into the pool's memory. The search goes on from the first answer until it has looked at `NODES` partial answers. Pools
are allowed under either `Sharing`; answers that need items to overlap in part are not found here.

When to modify: `solvers.cpsat` starts too far from the optimum. Correctness is not at stake: `solvers.check` judges each answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from solvers import check
from solvers.bounds import lower_bounds, unproven
from solvers.problem import TERMS_IN_BAND, Option, Problem, Term
from solvers.result import Answer, Options, Result, Status

NODES = 400
"""Partial answers looked at. Deterministic, unlike a time limit."""

OPTION_NODES = 400
"""Partial choices of options looked at for one pool."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A pool on groups of one kind: what it takes per stage, the options, and the groups (device mask, index)."""

    items: tuple[int, ...]
    us: tuple[int, ...]
    options: tuple[tuple[int, ...], ...]
    groups: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Fastest:
    """Options for the items of a pool: µs per stage, and the memory of the worst phase, MiB."""

    profile: int
    us: tuple[int, ...]
    options: tuple[tuple[int, ...], ...]
    peak: int


def solve(problem: Problem, options: Options | None = None) -> Result:
    """Return a good answer of *problem*, `Status.UNKNOWN` if none was found; a lower bound stands beside each value."""
    answer = first_answer(problem)
    if answer is None:
        return Result(Status.UNKNOWN)
    terms = check.terms(problem, answer)
    options = options or Options()
    if options.on_incumbent is not None:
        options.on_incumbent(terms[Term.STEP], lower_bounds(problem)[Term.STEP])
    return Result(Status.FEASIBLE, answer, unproven(problem, answer, first_term_only=options.first_term_only))


def first_answer(problem: Problem) -> Answer | None:
    """Return an answer that breaks no rule, or None."""
    if not problem.items:
        return Answer((), ())
    answer = _Search(problem).run()
    if answer is None and any(room is not None for room in problem.hosts):
        # The fastest options may need more of the hosts than there is: those that need least, then.
        answer = _Search(problem, is_thrifty=True).run()
    return answer


class _Search:
    """
    Depth first over the first item that has no group yet: with whom, and where.

    *is_thrifty*: options are taken that need the least host memory, and not the fastest.
    """

    def __init__(self, problem: Problem, *, is_thrifty: bool = False) -> None:
        self.problem = problem
        self.nodes = NODES
        self.best: tuple[tuple[int, ...], Answer] | None = None
        self.masks = [sum(1 << d for d in group.devices) for group in problem.groups]
        self.slots = [_by_profile(item.slots, is_thrifty=is_thrifty) for item in problem.items]
        self.columns: dict[tuple[int, ...], list[_Column]] = {}
        self.least = [
            tuple(
                min((column.us[s] for column in self._columns((i,))), default=0) if self._may_be_alone(i) else 0
                for s in range(len(problem.stages))
            )
            for i in range(len(problem.items))
        ]

    def run(self) -> Answer | None:
        self._place(tuple(range(len(self.problem.items))), 0, [0] * len(self.problem.stages), [])
        return self.best[1] if self.best else None

    def _place(self, waiting: tuple[int, ...], taken: int, us: Sequence[int], pools: list[tuple[_Column, int]]) -> None:
        if not waiting:
            self._judge(pools)
            return
        found: list[tuple[int, int, _Column]] = []
        for items in self._pools(waiting):
            rest = [self.least[i] for i in waiting if i not in items]
            for column in self._columns(items):
                bound = sum(map(max, zip(us, column.us, *rest, strict=True)))
                found.append((bound, len(found), column))
        for bound, _, column in sorted(found, key=lambda entry: entry[:2]):
            if self.nodes <= 0 or (self.best and self._is_hopeless(bound)):
                return
            g = next((g for mask, g in column.groups if not mask & taken), None)
            if g is not None:
                self.nodes -= 1
                left = tuple(i for i in waiting if i not in column.items)
                longest = list(map(max, us, column.us))
                self._place(left, taken | self.masks[g], longest, [*pools, (column, g)])

    def _is_hopeless(self, bound: int) -> bool:
        assert self.best is not None
        return self.problem.primary is Term.STEP and not _lanes(self.problem) and bound >= self.best[0][0]

    def _judge(self, pools: Sequence[tuple[_Column, int]]) -> None:
        where = {i: (g, options) for column, g in pools for i, options in zip(column.items, column.options, strict=True)}
        answer = Answer(
            tuple(where[i][0] for i in range(len(where))), tuple(where[i][1] for i in range(len(where)))
        )
        terms = check.terms(self.problem, answer)
        key = (
            terms[self.problem.primary],
            terms[Term.STEP],
            *(terms[t] for t in TERMS_IN_BAND if t is not Term.IDS),
        )
        if (self.best is None or key < self.best[0]) and not check.violations(self.problem, answer):
            self.best = key, answer

    # ── pools ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _pools(self, waiting: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """Yield the sets with the first of the *waiting* items that may stand together."""
        first, others = waiting[0], waiting[1:]
        for size in range(len(others) + 1):
            for more in itertools.combinations(others, size):
                items = (first, *more)
                if not any(a in items and b in items for a, b in self.problem.apart) and not any(
                    (a in items) != (b in items) for a, b in self.problem.together
                ) and is_pool_of_a_pattern(self.problem, items):
                    yield items

    def _may_be_alone(self, item: int) -> bool:
        return not any(item in pair for pair in self.problem.together)

    def _columns(self, items: tuple[int, ...]) -> list[_Column]:
        if items not in self.columns:
            self.columns[items] = list(self._build(items))
        return self.columns[items]

    def _build(self, items: tuple[int, ...]) -> Iterator[_Column]:
        kinds: dict[tuple[int, int], list[tuple[int, int]]] = {}
        common = set.intersection(*(set(self.problem.items[i].groups) for i in items))
        for g in sorted(common):
            group = self.problem.groups[g]
            room = min(self._room(items, d) for d in group.devices)
            kinds.setdefault((group.profile, room), []).append((self.masks[g], g))
        chosen: _Fastest | None = None
        # From most room to least: what still fits into less room is still the fastest.
        for (profile, room), groups in sorted(kinds.items(), key=lambda kind: (kind[0][0], -kind[0][1])):
            if chosen is None or chosen.profile != profile or chosen.peak > room:
                chosen = self._fastest(items, profile, room)
            if chosen is not None:
                yield _Column(items, chosen.us, chosen.options, tuple(groups))

    def _room(self, items: tuple[int, ...], device: int) -> int:
        reserved = [r.capacity[device] for r in self.problem.shared_reserves if r.item in items and len(items) > 1]
        return min(reserved, default=self.problem.devices[device].capacity)

    def _fastest(self, items: tuple[int, ...], profile: int, room: int) -> _Fastest | None:
        """Return the options of the least total time that fit into *room*, None if none were found."""
        slots = [options for i in items for options in (slot.get(profile, ()) for slot in self.slots[i])]
        phases = range(self.problem.phases)
        # What the slots still to come need at the least: sums of time and of memory per phase.
        time_left, memory_left = [0], [[0] * self.problem.phases]
        for slot in reversed(slots):
            if not slot:
                return None
            time_left.append(time_left[-1] + min(us for us, _, _ in slot))
            memory_left.append([memory_left[-1][p] + min(option.memory[p] for _, _, option in slot) for p in phases])
        time_left.reverse()
        memory_left.reverse()
        best: tuple[int, tuple[tuple[int, Option], ...]] | None = None
        nodes = OPTION_NODES
        first_slot = list(itertools.accumulate((len(self.slots[i]) for i in items), initial=0))
        alike = {
            first_slot[max(items.index(a), items.index(b))]: first_slot[min(items.index(a), items.index(b))]
            for a, b in self.problem.alike
            if a in items and b in items
        }

        def choose(at: int, us: int, memory: Sequence[int], taken: tuple[tuple[int, Option], ...]) -> None:
            nonlocal best, nodes
            nodes -= 1
            if at == len(slots):
                best = us, taken
                return
            for more, o, option in slots[at]:
                if nodes <= 0 or (best is not None and us + more + time_left[at + 1] >= best[0]):
                    return
                if at in alike and taken[alike[at]][1].kind != option.kind:
                    continue
                grown = [m + option.memory[p] for p, m in zip(phases, memory, strict=True)]
                if all(m + memory_left[at + 1][p] <= room for p, m in zip(phases, grown, strict=True)):
                    choose(at + 1, us + more, grown, (*taken, (o, option)))

        if all(least <= room for least in memory_left[0]):
            choose(0, 0, [0] * self.problem.phases, ())
        if best is None:
            return None
        us = [0] * len(self.problem.stages)
        for _, option in best[1]:
            for operation, spent in zip(self.problem.operations, option.times, strict=True):
                us[operation.stage] += spent
        taken = iter(o for o, _ in best[1])
        return _Fastest(
            profile,
            tuple(us),
            tuple(tuple(next(taken) for _ in self.problem.items[i].slots) for i in items),
            peak=max((sum(option.memory[p] for _, option in best[1]) for p in phases), default=0),
        )


def _by_profile(
    slots: Sequence[Sequence[Option]], *, is_thrifty: bool
) -> list[dict[int, list[tuple[int, int, Option]]]]:
    """Return per slot and profile: (total µs, index, option), fastest first; *is_thrifty*: MiB of the host in place of µs."""
    listed = []
    for slot in slots:
        of_profile: dict[int, list[tuple[int, int, Option]]] = {}
        for o, option in enumerate(slot):
            spent = sum(option.host if is_thrifty else option.times)
            of_profile.setdefault(option.profile, []).append((spent, o, option))
        listed.append({profile: sorted(entries, key=lambda e: e[:2]) for profile, entries in of_profile.items()})
    return listed


def is_pool_of_a_pattern(problem: Problem, items: Sequence[int]) -> bool:
    """Whether *items* are a pool in some pattern: all of them overlap, and none with another."""
    inside = set(itertools.combinations(items, 2))
    touching = ({(a, b) for a, b in pattern if a in items or b in items} for pattern in problem.patterns)
    return not problem.patterns or inside in touching


def _lanes(problem: Problem) -> bool:
    return any(stage.lane is not None for stage in problem.stages)
