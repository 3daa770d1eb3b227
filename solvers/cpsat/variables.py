"""
The decisions as Booleans, with everything that is constant already taken out.

When to modify: a new *decision*. Rules about decisions are in `rules`, what they cost in `cost`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from solvers.cpsat.proto import FALSE, TRUE, Fixed, Linear, Lit, Model, choice
from solvers.problem import Problem, Sharing
from solvers.result import Answer


class Variables:
    """
    All variables of a problem's model.

    ``group[i][g]``: item i takes group g. ``option[i][s][o]``: item i takes option o in slot s. ``holds[i][d]``: item i holds
    device d. ``share[i, j]`` (i < j): items i and j have a device in common. ``used[d]``: some item holds device d.
    """

    def __init__(self, model: Model, problem: Problem) -> None:
        self.model = model
        self.problem = problem
        self.group: list[dict[int, Lit]] = []
        self.option: list[list[dict[int, Lit]]] = []
        self.holds: list[dict[int, Lit]] = []
        for item in problem.items:
            offered = [{option.profile for option in slot} for slot in item.slots]
            groups = [g for g in item.groups if all(problem.groups[g].profile in profiles for profiles in offered)]
            reachable = {problem.groups[g].profile for g in groups}
            self.group.append({g: model.boolean() for g in groups})
            self.option.append(
                [{o: model.boolean() for o, option in enumerate(slot) if option.profile in reachable} for slot in item.slots]
            )
            touched = sorted({d for g in groups for d in problem.groups[g].devices})
            self.holds.append({d: model.boolean() for d in touched})
        self.share: dict[tuple[int, int], Fixed] = {}
        for pair in itertools.combinations(range(len(problem.items)), 2):
            self.share[pair] = self._share(*pair)
        self.used = [model.boolean() for _ in problem.devices]

    def _share(self, a: int, b: int) -> Fixed:
        if not self.holds[a].keys() & self.holds[b].keys() or self._listed(self.problem.apart, a, b):
            return FALSE
        if self.problem.sharing is Sharing.POOL and not self.group[a].keys() & self.group[b].keys():
            return FALSE
        if self._listed(self.problem.together, a, b):
            return TRUE
        return self.model.boolean()

    @staticmethod
    def _listed(pairs: tuple[tuple[int, int], ...], a: int, b: int) -> bool:
        return (a, b) in pairs or (b, a) in pairs

    def sharing(self, a: int, b: int) -> Fixed:
        """Return the literal that says whether items *a* and *b* have a device in common."""
        return self.share[min(a, b), max(a, b)]

    def pools(self, members: list[int]) -> Iterator[tuple[tuple[int, ...], list[Fixed]]]:
        """Yield every set of *members* whose items can all overlap, with the literals that say that they do."""
        for size in range(1, len(members) + 1):
            for items in itertools.combinations(members, size):
                pairs = [self.sharing(a, b) for a, b in itertools.combinations(items, 2)]
                if FALSE not in pairs:
                    yield items, pairs

    def time(self, item: int, stage: int) -> Linear:
        """Return the time that *item* works in *stage*, µs."""
        operations = [k for k, o in enumerate(self.problem.operations) if o.item == item and o.stage == stage]
        return self._sum(item, lambda option: sum(option.times[k] for k in operations))

    def memory(self, item: int, phase: int) -> Linear:
        """Return what *item* needs on each of its devices in *phase*, MiB."""
        return self._sum(item, lambda option: option.memory[phase])

    def soft(self, item: int) -> Linear:
        """Return the soft rules that the options of *item* break."""
        return self._sum(item, lambda option: option.soft)

    def preference(self, item: int) -> Linear:
        """Return how far down the menus the options of *item* stand."""
        return self._sum(item, lambda option: option.preference)

    def by_group(self, item: int, value) -> Linear:  # type: ignore[no-untyped-def]
        """Return ``value(g)`` of the group g that *item* takes."""
        return choice({literal: value(g) for g, literal in self.group[item].items()})

    def _sum(self, item: int, value) -> Linear:  # type: ignore[no-untyped-def]
        slots = self.problem.items[item].slots
        total = Linear()
        for slot, literals in zip(slots, self.option[item], strict=True):
            total += choice({literal: value(slot[o]) for o, literal in literals.items()})
        return total

    def read(self, solution: list[int]) -> Answer:
        """Return the answer that *solution* stands for."""
        return Answer(
            groups=tuple(next(g for g, v in literals.items() if solution[v]) for literals in self.group),
            options=tuple(
                tuple(next(o for o, v in literals.items() if solution[v]) for literals in slots) for slots in self.option
            ),
        )
