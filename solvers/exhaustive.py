"""
The oracle: try everything.

All ways to hand groups to items are listed, then, for each, all ways to choose options; a branch is left only when what has been
chosen already costs more than the best known answer, which later choices cannot undo. Costs are added up here on their own:
nothing is shared with `solvers.cpsat`.

When to modify: `solvers.problem` says something new; speed is not a reason.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from solvers import check
from solvers.problem import TERMS_IN_BAND, Option, Problem, Sharing, Term, Want
from solvers.result import Answer, Options, Result, SolverDisagrees, Status, TermProof

Key = tuple[int, ...]


class _Stopped(Exception):
    """The time limit was reached, or the user pressed Ctrl-C."""


@dataclass(slots=True)
class _Run:
    """The clock, and the best answer with its key."""

    deadline: float
    best: tuple[Key, Answer] | None = None
    steps: int = field(default=0)

    def tick(self) -> None:
        self.steps += 1
        if self.steps % 1024 == 0 and time.monotonic() > self.deadline:
            raise _Stopped


def solve(problem: Problem, options: Options | None = None) -> Result:
    """Solve *problem* by trying everything, to the full order of its terms."""
    options = options or Options()
    run = _Run(time.monotonic() + options.time_limit_s)
    leading = [Term.STEP] if problem.primary is Term.STEP else [problem.primary, Term.STEP]
    proofs: list[TermProof] = []
    interrupted = False
    limits: dict[Term, int] = {}
    try:
        for term in leading:
            run.best = None
            _search(problem, run, (term,), limits)
            if run.best is None:
                return Result(Status.INFEASIBLE)
            value = run.best[0][0]
            proofs.append(TermProof(term, value, value))
            slack = value * problem.within_ppm // 1_000_000 if term is Term.STEP else 0
            limits[term] = value + slack
        if not options.first_term_only:
            run.best = None
            _search(problem, run, TERMS_IN_BAND, limits)
    except _Stopped:
        pass
    except KeyboardInterrupt:
        interrupted = True
    else:
        assert run.best is not None
        answer = run.best[1]
        terms = check.terms(problem, answer)
        if not options.first_term_only:
            proofs += [TermProof(t, terms[t], terms[t]) for t in TERMS_IN_BAND if t is not Term.IDS]
        _verify(problem, answer)
        return Result(Status.OPTIMAL, answer, tuple(proofs))
    return _unfinished(problem, run, leading, proofs, interrupted)


def _unfinished(
    problem: Problem, run: _Run, leading: list[Term], proofs: list[TermProof], interrupted: bool
) -> Result:
    """Return the best answer of the pass that was stopped, with the bounds of the passes before it."""
    if run.best is None:
        return Result(Status.UNKNOWN, interrupted=interrupted)
    answer = run.best[1]
    terms = check.terms(problem, answer)
    proofs += [TermProof(t, terms[t], 0) for t in leading[len(proofs) :]]
    star = proofs[-1].bound
    proofs += [TermProof(t, terms[t], min(star, terms[t]) if t is Term.STEP else 0) for t in TERMS_IN_BAND if t is not Term.IDS]
    _verify(problem, answer)
    return Result(Status.FEASIBLE, answer, tuple(proofs), interrupted)


def _verify(problem: Problem, answer: Answer) -> None:
    broken = check.violations(problem, answer)
    if broken:
        raise SolverDisagrees(f"the exhaustive answer breaks a rule: {broken[0]}")


# ── groups ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _search(problem: Problem, run: _Run, order: tuple[Term, ...], limits: dict[Term, int]) -> None:
    """Leave in ``run.best`` the answer whose terms in *order* are smallest, among those within *limits*."""
    for groups in _group_tuples(problem, ()):
        run.tick()
        _Case(problem, run, order, limits, groups).search()


def _group_tuples(problem: Problem, taken: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the ways to hand a group to every item that obey the rules about pairs."""
    i = len(taken)
    if i == len(problem.items):
        yield taken
        return
    for g in problem.items[i].groups:
        if all(_may_stand(problem, j, h, i, g) for j, h in enumerate(taken)):
            yield from _group_tuples(problem, (*taken, g))


def _may_stand(problem: Problem, j: int, h: int, i: int, g: int) -> bool:
    mine, theirs = set(problem.groups[g].devices), set(problem.groups[h].devices)
    meet = bool(mine & theirs)
    if meet and ((j, i) in problem.apart or (i, j) in problem.apart):
        return False
    if g != h and ((j, i) in problem.together or (i, j) in problem.together):
        return False
    if mine == theirs:
        return g == h
    return not (meet and problem.sharing is Sharing.POOL)


# ── options ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Case:
    """One way to hand out groups; looks for the best options under it."""

    def __init__(
        self, problem: Problem, run: _Run, order: tuple[Term, ...], limits: dict[Term, int], groups: tuple[int, ...]
    ) -> None:
        self.problem, self.run, self.order, self.limits, self.groups = problem, run, order, limits, groups
        devices = [set(problem.groups[g].devices) for g in groups]
        self.meet = {(a, b): bool(devices[a] & devices[b]) for a, b in itertools.permutations(range(len(groups)), 2)}
        self.turns = [
            items
            for size in range(1, len(groups) + 1)
            for items in itertools.combinations(range(len(groups)), size)
            if all(self.meet[p] for p in itertools.combinations(items, 2))
        ]
        used = set().union(*devices)
        self.holders: dict[tuple[tuple[int, ...], int], int] = {}
        for d in sorted(used):
            held = tuple(i for i, own in enumerate(devices) if d in own)
            rooms = [r.capacity[d] for r in problem.shared_reserves if r.item in held and len(held) > 1]
            room = min(rooms, default=problem.devices[d].capacity)
            comfort = problem.devices[d].comfort - room
            self.holders[held, room] = max(self.holders.get((held, room), comfort), comfort)
        self.fixed = {
            Term.GPUS: len(used),
            Term.ISLANDS: self._islands(used),
            Term.BANDWIDTH: max(problem.groups[g].ns_per_gb for g in groups),
            Term.SOFT: self._wishes(devices),
        }
        self.transfer = [0] * len(problem.stages)
        for t in problem.transfers:
            us = min(t.us[a][b] for a in devices[t.source] for b in devices[t.target])
            self.transfer[t.stage] = max(self.transfer[t.stage], us)
        self.slots = [
            (i, [(o, option) for o, option in enumerate(slot) if option.profile == problem.groups[groups[i]].profile])
            for i, item in enumerate(problem.items)
            for slot in item.slots
        ]

    def _islands(self, used: set[int]) -> int:
        labels = {d.island for d in self.problem.devices}
        members = {k: {i for i, d in enumerate(self.problem.devices) if d.island == k} for k in labels}
        return sum(1 for m in members.values() if m & used and not m <= used)

    def _wishes(self, devices: list[set[int]]) -> int:
        broken = 0
        for wish in self.problem.soft_pairs:
            labels = [{wish.labels[d] for d in devices[i]} for i in (wish.first, wish.second)]
            if not self.meet[wish.first, wish.second]:
                broken += (not labels[0] & labels[1]) == (wish.want is Want.MEET)
        return broken

    def search(self) -> None:
        """Try all options."""
        self._choose(0, [], [[0] * len(self.problem.stages) for _ in self.groups], [[0] * self.problem.phases for _ in self.groups], 0, 0)

    def _choose(
        self, at: int, taken: list[int], times: list[list[int]], loads: list[list[int]], soft: int, preference: int
    ) -> None:
        self.run.tick()
        terms = self._terms(times, loads, soft, preference)
        if terms is None or any(terms[t] > limit for t, limit in self.limits.items()):
            return
        key = tuple(terms[t] for t in self.order if t is not Term.IDS)
        best = self.run.best
        if at < len(self.slots):
            # A key that is already larger stays larger: every term only grows with further choices.
            if best is not None and key > best[0][: len(key)]:
                return
            item, listed = self.slots[at]
            for o, option in listed:
                self._choose(
                    at + 1,
                    [*taken, o],
                    [self._add_times(row, option) if i == item else row for i, row in enumerate(times)],
                    [[a + b for a, b in zip(row, option.memory, strict=True)] if i == item else row for i, row in enumerate(loads)],
                    soft + option.soft,
                    preference + option.preference,
                )
            return
        if Term.IDS in self.order:
            key = (*key, *self.groups, *taken)
        if best is None or key < best[0]:
            self.run.best = (key, self._answer(taken))

    def _add_times(self, row: list[int], option: Option) -> list[int]:
        row = list(row)
        for operation, us in zip(self.problem.operations, option.times, strict=True):
            row[operation.stage] += us
        return row

    def _answer(self, taken: list[int]) -> Answer:
        rest = iter(taken)
        return Answer(self.groups, tuple(tuple(next(rest) for _ in item.slots) for item in self.problem.items))

    def _terms(self, times: list[list[int]], loads: list[list[int]], soft: int, preference: int) -> dict[Term, int] | None:
        """Return the terms of what has been chosen so far; None when it does not fit into memory."""
        worst = 0
        for (held, room), comfort in self.holders.items():
            load = max((sum(loads[i][p] for i in held) for p in range(self.problem.phases)), default=0)
            if load > room:
                return None
            worst = max(worst, load + comfort)
        return self.fixed | {
            Term.STEP: self._step(times),
            Term.MEMORY: worst,
            Term.SOFT: self.fixed[Term.SOFT] + soft,
            Term.PREFERENCE: preference,
        }

    def _step(self, times: list[list[int]]) -> int:
        total = 0
        lanes: dict[int, int] = {}
        for s, stage in enumerate(self.problem.stages):
            us = max([self.transfer[s], *(sum(times[i][s] for i in items) for items in self.turns)])
            if stage.lane is None:
                total += us
            else:
                lanes[stage.lane] = lanes.get(stage.lane, 0) + us
        if not lanes:
            return total
        return total + (sum(lanes.values()) if self._lanes_collide() else max(lanes.values()))

    def _lanes_collide(self) -> bool:
        workers: dict[int, set[int]] = {}
        for operation in self.problem.operations:
            lane = self.problem.stages[operation.stage].lane
            if lane is not None:
                workers.setdefault(lane, set()).add(operation.item)
        return any(
            a == b or self.meet[a, b]
            for first, second in itertools.combinations(workers.values(), 2)
            for a in first
            for b in second
        )
