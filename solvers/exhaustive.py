"""
The oracle: try everything.

All ways to hand groups to items are listed and, for each, all ways to choose options. A branch is left only when what
has been chosen, with the least that the rest can need, already costs more than the best known answer or breaks a rule.
Costs are added up here on their own: nothing is shared with `solvers.cpsat`.

When to modify: `solvers.problem` says something new; speed is not a reason.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass

from solvers import check, greedy
from solvers.bounds import entries, lower_bounds, unproven
from solvers.problem import TERMS_IN_BAND, Option, Problem, Sharing, Term, Want
from solvers.result import Answer, Options, Result, SolverDisagrees, Status, TermProof

GROWING = (Term.STEP, Term.SOFT, Term.GPUS, Term.BANDWIDTH)
"""Terms that never fall when one more item gets its group."""

EVERY = 256
"""Branches between two looks at the clock."""

Rows = list[list[int]]


class _StoppedError(Exception):
    """The time limit was reached."""


def solve(problem: Problem, options: Options | None = None) -> Result:
    """Solve *problem* by trying everything, to the full order of its terms."""
    options = options or Options()
    run = _Run(problem, options)
    proofs: list[TermProof] = []
    finished = interrupted = False
    try:
        run.best = greedy.first_answer(problem)
        if run.best is not None:
            run.report(check.step(problem, run.best))
        for term in entries(problem, first_term_only=True):
            run.search((term,))
            if run.best is None:
                return Result(Status.INFEASIBLE)
            value = check.terms(problem, run.best)[term]
            proofs.append(TermProof(term, value, value))
            run.limits[term] = value + (value * problem.within_ppm // 1_000_000 if term is Term.STEP else 0)
        if not options.first_term_only:
            run.search(TERMS_IN_BAND)
            assert run.best is not None
            values = check.terms(problem, run.best)
            proofs += [TermProof(t, values[t], values[t]) for t in TERMS_IN_BAND if t is not Term.IDS]
        finished = True
    except _StoppedError:
        pass
    except KeyboardInterrupt:
        interrupted = True
    if run.best is None:
        return Result(Status.UNKNOWN, interrupted=interrupted)
    broken = check.violations(problem, run.best)
    if broken:
        raise SolverDisagrees(f"the exhaustive answer breaks a rule: {broken[0]}")
    all_proofs = unproven(problem, run.best, proofs, first_term_only=options.first_term_only)
    return Result(Status.OPTIMAL if finished else Status.FEASIBLE, run.best, all_proofs, interrupted)


class _Run:
    """One search after the other: the clock, the limits of the terms that are settled, the best answer so far."""

    def __init__(self, problem: Problem, options: Options) -> None:
        self.problem = problem
        self.deadline = time.monotonic() + options.time_limit_s
        self.on_incumbent = options.on_incumbent
        self.limits: dict[Term, int] = {}
        self.best: Answer | None = None
        self.order: tuple[Term, ...] = ()
        self.key: tuple[int, ...] | None = None
        self.branches = 0
        self.slots = [[_slot(problem, slot) for slot in item.slots] for item in problem.items]

    def search(self, order: tuple[Term, ...]) -> None:
        """Make ``best`` the answer whose terms in *order* are smallest, among those within the limits."""
        self.order = order
        self.key = None if self.best is None else self._key(check.terms(self.problem, self.best), self.best)
        self._hand_out(())

    def offer(self, terms: dict[Term, int], answer: Answer) -> None:
        """Take *answer* if it is better than the best."""
        key = self._key(terms, answer)
        if self.key is None or key < self.key:
            self.key, self.best = key, answer
            if self.order == (Term.STEP,):
                self.report(terms[Term.STEP])

    def report(self, step: int) -> None:
        """Say that an answer of this step is known."""
        if self.on_incumbent is not None:
            self.on_incumbent(step, lower_bounds(self.problem)[Term.STEP])

    def _key(self, terms: dict[Term, int], answer: Answer) -> tuple[int, ...]:
        values = tuple(terms[t] for t in self.order if t is not Term.IDS)
        return (*values, *check.key_ids(answer)) if Term.IDS in self.order else values

    def is_hopeless(self, least: dict[Term, int], known: Sequence[Term]) -> bool:
        """Whether no answer whose *known* terms are at least *least* is within the limits and better than the best."""
        self.branches += 1
        if self.branches % EVERY == 0 and time.monotonic() > self.deadline:
            raise _StoppedError
        if any(least[t] > limit for t, limit in self.limits.items() if t in known):
            return True
        begin = [least[t] for t in itertools.takewhile(lambda t: t in known, self.order)]
        return self.key is not None and begin > list(self.key[: len(begin)])

    # ── groups ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _hand_out(self, taken: tuple[int, ...]) -> None:
        """Give the next item each of its groups in turn."""
        if not self._is_in_a_pattern(taken):
            return
        case = _Case(self, taken)
        if len(taken) == len(self.problem.items):
            case.search()
        elif not self.is_hopeless(case.least(), GROWING):
            for g in self.problem.items[len(taken)].groups:
                if all(self._may_stand(j, h, len(taken), g) for j, h in enumerate(taken)):
                    self._hand_out((*taken, g))

    def _is_in_a_pattern(self, taken: tuple[int, ...]) -> bool:
        """Whether some pattern has, of the pairs of items that have groups, just those that overlap."""
        own = [set(self.problem.groups[g].devices) for g in taken]
        meeting = {(a, b) for b in range(len(own)) for a in range(b) if own[a] & own[b]}
        among = ({pair for pair in pattern if pair[1] < len(own)} for pattern in self.problem.patterns)
        return not self.problem.patterns or meeting in among

    def _may_stand(self, j: int, h: int, i: int, g: int) -> bool:
        problem = self.problem
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


@dataclass(frozen=True, slots=True)
class _Listed:
    """The options that one slot offers (index, option, µs per stage), and the least that any of them needs."""

    options: tuple[tuple[int, Option, tuple[int, ...]], ...]
    us: tuple[int, ...]
    memory: tuple[int, ...]
    host: tuple[int, ...]
    soft: int
    preference: int


def _slot(problem: Problem, slot: Sequence[Option]) -> dict[int | None, _Listed]:
    """Return what *slot* offers on each profile; under None, on any."""
    listed = []
    for o, option in enumerate(slot):
        us = [0] * len(problem.stages)
        for operation, spent in zip(problem.operations, option.times, strict=True):
            us[operation.stage] += spent
        listed.append((o, option, tuple(us)))
    profiles: list[int | None] = [None, *{option.profile for option in slot}]
    return {p: _list([e for e in listed if p is None or e[1].profile == p]) for p in profiles if listed}


def _list(options: Sequence[tuple[int, Option, tuple[int, ...]]]) -> _Listed:
    return _Listed(
        tuple(options),
        us=tuple(map(min, zip(*(us for _, _, us in options), strict=True))),
        memory=tuple(map(min, zip(*(option.memory for _, option, _ in options), strict=True))),
        host=tuple(map(min, zip(*(option.host for _, option, _ in options), strict=True))),
        soft=min(option.soft for _, option, _ in options),
        preference=min(option.preference for _, option, _ in options),
    )


class _Case:
    """One way to hand groups to the first items; the items after them may still take any."""

    def __init__(self, run: _Run, groups: tuple[int, ...]) -> None:
        problem = run.problem
        self.run, self.problem, self.groups = run, problem, groups
        self.devices = [set(problem.groups[g].devices) for g in groups]
        used = set().union(*self.devices)
        self.turns = [
            items
            for size in range(1, len(groups) + 1)
            for items in itertools.combinations(range(len(groups)), size)
            if all(self.devices[a] & self.devices[b] for a, b in itertools.combinations(items, 2))
        ]
        self.fixed = {
            Term.GPUS: len(used),
            Term.ISLANDS: self._islands(used),
            Term.BANDWIDTH: max((problem.groups[g].ns_per_gb for g in groups), default=0),
            Term.SOFT: self._wishes(),
        }
        self.holders = self._holders(used)
        self.waiting = [self._transfer_us(s) for s in range(len(problem.stages))]
        self.slots: list[tuple[int, _Listed | None]] = [
            (i, offered.get(problem.groups[groups[i]].profile if i < len(groups) else None))
            for i, slots in enumerate(run.slots)
            for offered in slots
        ]
        self.is_empty = any(listed is None for _, listed in self.slots)
        self.is_collision = self._lanes_collide()
        self.hosts = [
            ([sum(problem.devices[d].host == h for d in own) for own in self.devices], room)
            for h, room in enumerate(problem.hosts)
            if room is not None
        ]

    def least(self) -> dict[Term, int]:
        """Return the terms at their least, whatever is chosen from here on."""
        return self._terms(*self._start())

    def search(self) -> None:
        """Try all options."""
        if not self.is_empty:
            self._choose(0, [], *self._start(), self._least_on_hosts())

    def _start(self) -> tuple[Rows, Rows, int, int]:
        """Return what all slots together need at the least: µs and MiB per item, soft rules, preference."""
        times = [[0] * len(self.problem.stages) for _ in self.problem.items]
        loads = [[0] * self.problem.phases for _ in self.problem.items]
        soft = preference = 0
        for i, listed in self.slots:
            if listed is not None:
                times[i] = [a + b for a, b in zip(times[i], listed.us, strict=True)]
                loads[i] = [a + b for a, b in zip(loads[i], listed.memory, strict=True)]
                soft, preference = soft + listed.soft, preference + listed.preference
        return times, loads, soft, preference

    def _least_on_hosts(self) -> Rows:
        """Return what all slots together need at the least of their hosts: MiB per item and moment, for each device."""
        needs = [[0] * self.problem.moments for _ in self.problem.items]
        for i, listed in self.slots:
            if listed is not None:
                needs[i] = [a + b for a, b in zip(needs[i], listed.host, strict=True)]
        return needs

    def _choose(
        self, at: int, taken: list[int], times: Rows, loads: Rows, soft: int, preference: int, needs: Rows
    ) -> None:
        """Take each option of the slot *at* in turn in place of the least that it can need."""
        if any(sum(loads[i][p] for i in held) > room for held, room, _ in self.holders for p in self.phases):
            return
        for counts, room in self.hosts:
            for m in range(self.problem.moments):
                if sum(count * needs[i][m] for i, count in enumerate(counts)) > room:
                    return
        terms = self._terms(times, loads, soft, preference)
        if self.run.is_hopeless(terms, tuple(Term)):
            return
        if at == len(self.slots):
            rest = iter(taken)
            options = tuple(tuple(next(rest) for _ in item.slots) for item in self.problem.items)
            self.run.offer(terms, Answer(self.groups, options))
            return
        i, listed = self.slots[at]
        assert listed is not None
        for o, option, us in listed.options:
            if not self._is_alike(at, option, taken):
                continue
            self._choose(
                at + 1,
                [*taken, o],
                _exchanged(times, i, listed.us, us),
                _exchanged(loads, i, listed.memory, option.memory),
                soft - listed.soft + option.soft,
                preference - listed.preference + option.preference,
                _exchanged(needs, i, listed.host, option.host),
            )

    def _is_alike(self, at: int, option: Option, taken: Sequence[int]) -> bool:
        """Whether *option* of the slot *at* is of the kind of those that the items beside it have taken."""
        i = self.slots[at][0]
        if at > 0 and self.slots[at - 1][0] == i:
            return True
        firsts = {j: k for k, (j, _) in reversed(list(enumerate(self.slots[:at])))}
        return all(
            self.problem.items[j].slots[0][taken[firsts[j]]].kind == option.kind
            for pair in self.problem.alike
            for j in pair
            if i in pair and j in firsts and self.devices[i] & self.devices[j]
        )

    # ── terms ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _terms(self, times: Rows, loads: Rows, soft: int, preference: int) -> dict[Term, int]:
        shortfalls = (sum(loads[i][p] for i in held) + gap for held, _, gap in self.holders for p in self.phases)
        return self.fixed | {
            Term.STEP: self._step(times),
            Term.MEMORY: max([0, *shortfalls]),
            Term.SOFT: self.fixed[Term.SOFT] + soft,
            Term.PREFERENCE: preference,
            Term.IDS: 0,
        }

    @property
    def phases(self) -> range:
        return range(self.problem.phases)

    def _step(self, times: Rows) -> int:
        outside, lanes = 0, dict[int, int]()
        for s, stage in enumerate(self.problem.stages):
            together = (sum(times[i][s] for i in items) for items in self.turns)
            alone = (row[s] for row in times[len(self.groups) :])
            us = max([self.waiting[s], *together, *alone])
            if stage.lane is None:
                outside += us
            else:
                lanes[stage.lane] = lanes.get(stage.lane, 0) + us
        return outside + (sum(lanes.values()) if self.is_collision else max(lanes.values(), default=0))

    def _transfer_us(self, stage: int) -> int:
        return max(
            (
                min(t.us[a][b] for a in self.devices[t.source] for b in self.devices[t.target])
                for t in self.problem.transfers
                if t.stage == stage and max(t.source, t.target) < len(self.groups)
            ),
            default=0,
        )

    def _lanes_collide(self) -> bool:
        workers: dict[int, set[int]] = {}
        for operation in self.problem.operations:
            lane = self.problem.stages[operation.stage].lane
            if lane is not None:
                workers.setdefault(lane, set()).add(operation.item)
        placed = len(self.groups)
        return any(
            a == b or (max(a, b) < placed and bool(self.devices[a] & self.devices[b]))
            for one, other in itertools.combinations(workers.values(), 2)
            for a in one
            for b in other
        )

    def _holders(self, used: set[int]) -> list[tuple[tuple[int, ...], int, int]]:
        """Return (items, room, comfort − room) of the used devices; devices in which these agree count once."""
        found = set()
        for d in used:
            held = tuple(i for i, own in enumerate(self.devices) if d in own)
            reserves = [r.capacity[d] for r in self.problem.shared_reserves if r.item in held and len(held) > 1]
            room = min(reserves, default=self.problem.devices[d].capacity)
            found.add((held, room, self.problem.devices[d].comfort - room))
        return sorted(found)

    def _islands(self, used: set[int]) -> int:
        members: dict[int, set[int]] = {}
        for d, device in enumerate(self.problem.devices):
            members.setdefault(device.island, set()).add(d)
        return sum(1 for island in members.values() if island & used and not island <= used)

    def _wishes(self) -> int:
        broken = 0
        for wish in self.problem.soft_pairs:
            if max(wish.first, wish.second) < len(self.groups):
                first, second = self.devices[wish.first], self.devices[wish.second]
                common = {wish.labels[d] for d in first} & {wish.labels[d] for d in second}
                broken += not first & second and bool(common) == (wish.want is Want.AVOID)
        return broken


def _exchanged(rows: Rows, i: int, old: Sequence[int], new: Sequence[int]) -> Rows:
    """Return *rows* with *new* in place of *old* in the sum of row *i*."""
    changed = list(rows)
    changed[i] = [total - less + more for total, less, more in zip(rows[i], old, new, strict=True)]
    return changed
