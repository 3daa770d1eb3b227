"""
The decisions as Booleans, and what follows from them as integers.

When to modify: a new *decision*. Rules about decisions are in `rules`, what they cost in `cost`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from solvers.cpsat.proto import FALSE, TRUE, Fixed, Linear, Lit, Model, constant, count, negated, total
from solvers.cpsat.reduce import Choices
from solvers.problem import Option, Problem, Sharing
from solvers.result import Answer


class Variables:
    """
    All variables of a problem's model.

    ``group[i][g]``: item i takes group g. ``profile[i][p]``: that group has profile p. ``option[i][s][o]``: item i
    takes option o in slot s. ``holds[i][d]``: item i holds device d. ``used[d]``: some item holds device d.
    """

    def __init__(self, model: Model, problem: Problem, choices: Choices) -> None:
        self.model = model
        self.problem = problem
        self.group: list[dict[int, Lit]] = []
        self.profile: list[dict[int, Lit]] = []
        self.option: list[list[dict[int, Lit]]] = []
        self.holds: list[dict[int, Lit]] = []
        for groups, slots in zip(choices.groups, choices.options, strict=True):
            self.group.append({g: model.boolean() for g in groups})
            self.profile.append({p: model.boolean() for p in sorted({problem.groups[g].profile for g in groups})})
            self.option.append([{o: model.boolean() for o in options} for options in slots])
            touched = sorted({d for g in groups for d in problem.groups[g].devices})
            self.holds.append({d: model.boolean() for d in touched})
        self.used = [model.boolean() for _ in problem.devices]
        pairs = itertools.combinations(range(len(problem.items)), 2)
        self._shares = {pair: self._share(*pair) for pair in pairs}
        self._integers: dict[tuple[tuple[Lit, int], ...], Linear] = {}

    def _share(self, a: int, b: int) -> Fixed:
        if self.are_apart(a, b) or not self.holds[a].keys() & self.holds[b].keys():
            return FALSE
        if self.problem.sharing is Sharing.POOL and not self.group[a].keys() & self.group[b].keys():
            return FALSE
        return TRUE if self.are_together(a, b) else self.model.boolean()

    def are_apart(self, a: int, b: int) -> bool:
        """Whether items *a* and *b* may have no device in common."""
        return (a, b) in self.problem.apart or (b, a) in self.problem.apart

    def are_together(self, a: int, b: int) -> bool:
        """Whether items *a* and *b* must take the same group."""
        return (a, b) in self.problem.together or (b, a) in self.problem.together

    @property
    def pairs(self) -> Iterator[tuple[int, int, Fixed]]:
        """Every two items, with the literal that says whether they overlap."""
        return ((a, b, share) for (a, b), share in self._shares.items())

    def overlap(self, items: Sequence[int]) -> list[Fixed]:
        """Return the literals that say, pair by pair, that *items* overlap."""
        return [self._shares[min(a, b), max(a, b)] for a, b in itertools.combinations(items, 2)]

    def sets_that_may_overlap(self, members: Sequence[int]) -> Iterator[tuple[tuple[int, ...], list[Fixed]]]:
        """Yield every set of *members* whose items can all overlap, with the literals that say that they do."""
        for size in range(1, len(members) + 1):
            for items in itertools.combinations(members, size):
                literals = self.overlap(items)
                if FALSE not in literals:
                    yield items, literals

    # ── what the chosen options need ────────────────────────────────────────────────────────────────────────────

    def time(self, item: int, stage: int) -> Linear:
        """Return the time that *item* works in *stage*, µs."""
        operations = [
            k for k, o in enumerate(self.problem.operations) if o.item == item and o.stage == stage
        ]
        return self._sum(item, lambda option: sum(option.times[k] for k in operations))

    def memory(self, item: int, phase: int) -> Linear:
        """Return what *item* needs on each of its devices in *phase*, MiB."""
        return self._sum(item, lambda option: option.memory[phase])

    def host_memory(self, item: int, moment: int, devices: Callable[[int], int]) -> Linear:
        """
        Return what *item* needs of a host at *moment*, MiB.

        Parameters
        ----------
        devices
            How many devices groups of a profile have there; all groups of one profile have as many.
        """
        return self._sum(item, lambda option: option.host[moment] * devices(option.profile))

    def soft(self, item: int) -> Linear:
        """Return how many soft rules the options of *item* break."""
        return self._sum(item, lambda option: option.soft)

    def preference(self, item: int) -> Linear:
        """Return how far down the menus the options of *item* stand."""
        return self._sum(item, lambda option: option.preference)

    def by_group(self, item: int, value: Callable[[int], int]) -> Linear:
        """Return ``value(g)`` of the group g that *item* takes."""
        return self._integer({literal: value(g) for g, literal in self.group[item].items()})

    def by_profile(self, item: int, value: Callable[[int], int]) -> Linear:
        """Return ``value(p)`` of the profile p of the group that *item* takes."""
        return self._integer({literal: value(p) for p, literal in self.profile[item].items()})

    def _sum(self, item: int, value: Callable[[Option], int]) -> Linear:
        slots = zip(self.problem.items[item].slots, self.option[item], strict=True)
        return total(self._integer({v: value(slot[o]) for o, v in options.items()}) for slot, options in slots)

    def _integer(self, values: Mapping[Lit, int]) -> Linear:
        """Return the value of whichever of the Booleans holds (exactly one of them does)."""
        key = tuple(values.items())
        if key not in self._integers:
            self._integers[key] = self._staircase(values)
        return self._integers[key]

    def _staircase(self, values: Mapping[Lit, int]) -> Linear:
        """
        Build an integer variable with one Boolean per level that it can reach.

        A weighted sum of the Booleans would be shorter. But its bounds say nothing until a Boolean is true, while here
        every Boolean that becomes false may move a bound: that made proofs three times as fast.
        """
        levels: dict[int, list[Lit]] = {}
        for literal, value in values.items():
            levels.setdefault(value, []).append(literal)
        order = sorted(levels)
        if len(order) == 1:
            return constant(order[0])
        if order == [0, 1] and len(levels[1]) == 1:
            return count(levels[1])
        number = self.model.integer(order[0], order[-1])
        reached: Fixed = TRUE
        for level, following in itertools.zip_longest(order, order[1:]):
            beyond: Fixed = FALSE if following is None else self.model.boolean()
            if reached is TRUE:
                self.model.exactly_one([*levels[level], beyond])
            else:
                self.model.exactly_one([*levels[level], beyond, negated(reached)])
            if following is not None:
                self.model.between(following, number, order[-1], [beyond])
                self.model.between(order[0], number, level, [negated(beyond)])
            reached = beyond
        return number

    # ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────

    def read(self, solution: Sequence[int]) -> Answer:
        """Return the answer that *solution* stands for."""
        def chosen(literals: Mapping[int, Lit]) -> int:
            return next(k for k, literal in literals.items() if solution[literal])

        return Answer(
            groups=tuple(chosen(literals) for literals in self.group),
            options=tuple(tuple(chosen(literals) for literals in slots) for slots in self.option),
        )

    def hint(self, answer: Answer) -> dict[Lit, int]:
        """Return the decisions of *answer* as far as the model has them (it may be one of several alike)."""
        values: dict[Lit, int] = {}
        for groups, profiles, taken in zip(self.group, self.profile, answer.groups, strict=True):
            values |= {literal: int(p == self.problem.groups[taken].profile) for p, literal in profiles.items()}
            if taken in groups:
                values |= {literal: int(g == taken) for g, literal in groups.items()}
        for slots, options in zip(self.option, answer.options, strict=True):
            for literals, chosen in zip(slots, options, strict=True):
                if chosen in literals:
                    values |= {literal: int(o == chosen) for o, literal in literals.items()}
        return values
